"""The tools whose content is piped: a file, a patch, a command, and what is said about them."""

from __future__ import annotations

from typing import Any

import pytest

from laws.checks import read
from parsing.tool_tag_samples import check_calls, check_cut, deltas, make

CONTENTS = {
    "plain": ("x = 1\n  y\n", "x = 1\n  y\n"),
    "not decoded, not trimmed": ("  a &lt; <b>\n", "  a &lt; <b>\n"),
    "a section is content": ("<![CDATA[x]]>", "<![CDATA[x]]>"),
    "elements are content": ("<ul><li>1</li></ul>", "<ul><li>1</li></ul>"),
    "its own closing tag": ("'a</arg>'b", "'a</arg>'b"),
    "markers": ("\n __START_CONTENT__\na\n__END_CONTENT__\n ", "a\n"),
    "only one newline goes": ("__START_CONTENT__\n\na__END_CONTENT__", "\na"),
    "no newline to go": ("__START_CONTENT__a__END_CONTENT__", "a"),
    "tags between markers": (
        "__START_CONTENT__\n<arg>1</arg> </arg><arg name='x'>\n__END_CONTENT__",
        "<arg>1</arg> </arg><arg name='x'>\n",
    ),
    "an end marker in the text": (
        "__START_CONTENT__\n__END_CONTENT__ x\n__END_CONTENT__</b>\n__END_CONTENT__",
        "__END_CONTENT__ x\n__END_CONTENT__</b>\n",
    ),
    "nearly a start marker": ("__START_CONTENT_\n", "__START_CONTENT_\n"),
    "text before the start marker": ("a __START_CONTENT__\n", "a __START_CONTENT__\n"),
    "nothing": ("", ""),
    "nothing between markers": ("__START_CONTENT__\n__END_CONTENT__", ""),
}


@pytest.mark.parametrize(("written", "content"), CONTENTS.values(), ids=CONTENTS)
def test_content_is_piped_as_it_stands(written: str, content: str) -> None:
    text = (
        '<tool name="write_file"><arguments><arg name="path"> a.md </arg>'
        f'<arg name="content">{written}</arg></arguments></tool> on'
    )
    check_calls(text, [("write_file", {"path": "a.md", "content": content})], " on")


FORGOTTEN = {
    "after a newline": ("one\ntwo \n\n   ", "one\ntwo "),
    "without a newline": ("one  ", "one  "),
    "after a call in the content": (
        "</arg></arguments></tool> and",
        "</arg></arguments></tool> and",
    ),
}


@pytest.mark.parametrize(("written", "content"), FORGOTTEN.values(), ids=FORGOTTEN)
def test_an_end_marker_may_be_forgotten_at_the_end_of_the_text(written: str, content: str) -> None:
    text = f'<tool name="write_file"><arg name="content">__START_CONTENT__\n{written}</arg></tool>'
    check_calls(text, [("write_file", {"content": content})])
    check_calls(
        f"{text} and\n__END_CONTENT__</arg></tool>",
        [("write_file", {"content": f"{written}</arg></tool> and\n"})],
    )


def test_a_patch_has_markers_of_its_own() -> None:
    text = (
        '<tool name="edit_file"><arg name="patch">__START_PATCH__\n__END_CONTENT__</arg>\n'
        '__END_PATCH__</arg><arg name="path">f</arg></tool>'
    )
    check_calls(text, [("edit_file", {"patch": "__END_CONTENT__</arg>\n", "path": "f"})])


METADATA: dict[str, tuple[str, str, dict[str, Any]]] = {
    "before": (
        "",
        '<arg name="background">YES</arg><arg name="command">ls</arg>',
        {"background": True, "command": "ls"},
    ),
    "under another name": (
        "",
        '<arg name="timeoutSeconds"> 20 </arg><arg name="command">ls</arg>',
        {"timeout_seconds": 20, "command": "ls"},
    ),
    "in a section": (
        "",
        '<arg name="background"><![CDATA[ yes ]]></arg>',
        {"background": True},
    ),
    "behind": (
        "",
        '<arg name="command">ls</arg><arg name="background">0</arg>',
        {"command": "ls", "background": False},
    ),
    "on the tag, which wins": (
        ' background="true" timeoutSeconds="45s"',
        '<arg name="background">false</arg><arg name="command">ls</arg>',
        {"background": True, "timeout_seconds": 45, "command": "ls"},
    ),
    "nonsense": (
        ' background="perhaps" timeout_seconds="-4"',
        '<arg name="timeout_seconds">soon</arg><arg name="command"> ls </arg>',
        {"command": " ls "},
    ),
    "nonsense on the tag": (
        ' timeout_seconds="0"',
        '<arg name="timeout_seconds">9</arg><arg name="command">a<b && c</arg>',
        {"timeout_seconds": 9, "command": "a<b && c"},
    ),
    "a flood of digits": (f' timeout_seconds="{"9" * 500}"', "", {}),
    "no command": ("", "<arguments></arguments>", {}),
    "other arguments": (
        "",
        '<arg name="command">ls</arg><arg name="cwd"> / </arg>',
        {"command": "ls", "cwd": "/"},
    ),
    "children": (
        "",
        "<command> ls </command><background>no</background>",
        {"command": " ls ", "background": False},
    ),
}


@pytest.mark.parametrize(("tag", "body", "arguments"), METADATA.values(), ids=METADATA)
def test_metadata_is_read_wherever_it_stands(
    tag: str, body: str, arguments: dict[str, Any]
) -> None:
    text = f'<tool name="run_bash"{tag}>{body}</tool>'
    check_calls(text, [("run_bash", arguments)])
    written = deltas(read(make(arguments="live"), [text]))
    assert written.replace(" ", "").startswith(
        "{" + (f'"{next(iter(arguments))}"' if arguments else "")
    )


CUT_CONTENT = {
    "in the content": ("ab", "ab"),
    "in a start marker": ("\n__START_CON", "\n__START_CON"),
    "behind a start marker": ("__START_CONTENT__\n", ""),
    "in the last lines": ("__START_CONTENT__\na\n  ", "a\n  "),
    "in an end marker": ("__START_CONTENT__\na\n__END_", "a\n__END_"),
    "behind an end marker": ("__START_CONTENT__\na__END_CONTENT__", "a__END_CONTENT__"),
    "in a closing tag": ("__START_CONTENT__\na</arg", "a</arg"),
}


@pytest.mark.parametrize(("written", "content"), CUT_CONTENT.values(), ids=CUT_CONTENT)
def test_cut_content_loses_nothing(written: str, content: str) -> None:
    text = f'<tool name="write_file"><arg name="content">{written}'
    check_cut(text, '{"content":"' + content.replace("\n", "\\n"))
