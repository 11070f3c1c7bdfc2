"""Calls with raw values, dialect by dialect: what is special about each, and what is forgiven."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from laws import check_monotone
from parsing.parameter_samples import CUTS, FORMATS, MODES, NS, TOOLS, Mode, read_at_every_cut
from parsing.samples import complete_calls, message_of

BAR = "\uff5c"
DSML = f"{BAR}DSML{BAR}"


def invoke(*parameters: str) -> str:
    """Write a DSML call of `write`."""
    inside = "".join(parameters)
    section = f"{DSML}function_calls"
    return f'<{section}><{DSML}invoke name="write">{inside}</{DSML}invoke></{section}>'


def dsml(key: str, value: str, attributes: str = "") -> str:
    return f'<{DSML}parameter name="{key}"{attributes}>{value}</{DSML}parameter>'


# A `~` stands for the token of MiniMax-M3's namespace.
READ = {
    "blanks inside tags": (
        "qwen3_coder",
        (
            "<tool_call >\n<function = write >\n< parameter = path >\na\n</ parameter >\n"
            "</function >\n< / tool_call >"
        ),
        {"path": "a"},
    ),
    "a call without its section": (
        "qwen3_coder",
        "<function=write>\n<parameter=path>\na\n</parameter>\n</function>",
        {"path": "a"},
    ),
    "one newline at either end": (
        "qwen3_coder",
        (
            "<function=write><parameter=path>\n\n a \n\n</parameter><parameter=note>\n</parameter>"
            "<parameter=any>b</parameter></function>"
        ),
        {"path": "\n a \n", "note": "", "any": "b"},
    ),
    "values without an end on one line": (
        "qwen3_coder",
        "<function=write><parameter=path>a<parameter=mode>5</parameter></function>",
        {"path": "a", "mode": 5},
    ),
    "tags that came twice": (
        "qwen3_coder",
        (
            "<function=write>\n<function=write>\n<parameter=path>\n<parameter=path>\na\n</parameter>\n"
            "<parameter=mode>5</parameter></parameter>\n</function>"
        ),
        {"path": "a", "mode": 5},
    ),
    "a value inside its tag": (
        "qwen3_coder",
        "<function=write>\n<parameter=path=a>\n</parameter>\n</function>",
        {"path": "a"},
    ),
    "values without an end": (
        "qwen3_coder",
        "<function=write><parameter=path>\na\n<parameter=mode>\n5\n</function>",
        {"path": "a", "mode": 5},
    ),
    "an end of the call that the next one follows": (
        "qwen3_coder",
        "<function=write><parameter=path>a\n</function>\n<function=",
        {"path": "a"},
    ),
    "a token that ends the turn": (
        "qwen3_coder",
        "<function=write><parameter=path>a</function><|im_end|>",
        {"path": "a"},
    ),
    "a newline that is spelled out": (
        "glm45",
        r"<tool_call>\nwrite\n<arg_key>path</arg_key>\n<arg_value>a\n</arg_value>\n</tool_call>",
        {"path": r"a\n"},
    ),
    "a key without a value": (
        "glm47",
        (
            "<tool_call>write<arg_key>note</arg_key><arg_key> path </arg_key> <arg_value> a "
            "</arg_value><arg_key>mode</arg_key></tool_call>"
        ),
        {"path": " a "},
    ),
    "tags of calls in a value": (
        "glm45",
        (
            "<tool_call>write<arg_key>path</arg_key><arg_value><tool_call>x</tool_call></arg_value>"
            "</tool_call>"
        ),
        {"path": "<tool_call>x</tool_call>"},
    ),
    "a suffix on some tags": (
        "hy_v3",
        (
            "<tool_calls:x><tool_call:x>write<tool_sep><arg_key:x>path</arg_key:x>\n<arg_value>a"
            "</arg_value:x></tool_call:x></tool_calls:x>"
        ),
        {"path": "a"},
    ),
    "attributes in any order and quotes": (
        "minimax_m2",
        (
            "<minimax:tool_call><invoke id='1>2' name = write><parameter name='path' >a</parameter>"
            '<parameter type=x name="mode">5</parameter><parameter name=note/></invoke>'
        ),
        {"path": "a", "mode": 5, "note": ""},
    ),
    "an object for the calls": (
        "dots",
        (
            '<dots_function_call>\n{"name": "write", "arguments": {"path": "</dots_function_call>"'
            "}}\n</dots_function_call>"
        ),
        {"path": "</dots_function_call>"},
    ),
    "an envelope for the parameters": (
        "dots",
        '<invoke name="write">{"name": "write", "arguments": {"path": "a"}}}\n</invoke>',
        {"path": "a"},
    ),
    "an object for the parameters": (
        "deepseek_v32",
        invoke('\n{"path": "</x>", "mode": "5"}\n'),
        {"path": "</x>", "mode": 5},
    ),
    "types on the wire": (
        "deepseek_v32",
        invoke(
            dsml("path", "5", ' string="false"'),
            dsml("mode", "5", ' string="true"'),
            dsml("plan", '{"n": "4"}'),
            dsml("other", "5", ' string="false"'),
            dsml("more", "5", ' string="true"'),
        ),
        {"path": "5", "mode": 5, "plan": {"n": 4}, "other": 5, "more": "5"},
    ),
    "all arguments in one parameter": (
        "deepseek_v32",
        invoke(dsml("arguments", '{"path": "a", "mode": "5"}', ' string="false"')),
        {"path": "a", "mode": 5},
    ),
    "another parameter beside it": (
        "deepseek_v32",
        invoke(dsml("input", '{"path": "a"}'), dsml("mode", "5")),
        {"input": '{"path": "a"}', "mode": 5},
    ),
    "no object in it": ("deepseek_v32", invoke(dsml("input", "hello")), {"input": "hello"}),
    "values without the blanks around them": (
        "step3",
        (
            f'<{BAR}tool_call_begin{BAR}><steptml:invoke name="write">'
            '<steptml:parameter name="path"> \n a < b \n</steptml:parameter></steptml:invoke>'
            f"<{BAR}tool_call_end{BAR}>"
        ),
        {"path": "a < b"},
    ),
    "a CDATA section": (
        "minicpm5",
        (
            '<function name="write"><param name="path"> \n<![CDATA[ a</param></function>]]> b ]]>\n'
            "</param><param name='mode'><![CDATA[5]]></param></function>"
        ),
        {"path": " a</param></function>]]> b ", "mode": 5},
    ),
    "entities and half a section": (
        "minicpm5",
        "<functionname='write'><paramname=path> <![CDATA &lt;</param></function>",
        {"path": " <![CDATA &lt;"},
    ),
    "a first parameter without its tag": (
        "minimax_m3",
        '~<invoke name="write">a <b>~</path>~<mode>5~</mode>~</invoke>',
        {"path": "a <b>", "mode": 5},
    ),
    "elements in elements": (
        "minimax_m3",
        (
            '~\n<tool_call>~<invoke name="write">~ <plan>\n~\n<at>06:30~</at>~<n>4'
            "~</n>~</plan>~<tags>~<item>1~</item>~<item><b>~</item>~</tags>"
            "~<new>~<item>~<k>1~</k>~<k>2~</k>~</item>~</new>~</invoke>"
        ),
        {"plan": {"at": "06:30", "n": 4}, "tags": ["1", "<b>"], "new": [{"k": ["1", "2"]}]},
    ),
    "elements without content": (
        "minimax_m3",
        (
            '~<invoke name="write">~<tags>~</tags>~<plan>~</plan>~<path>~</path>'
            "~<new>~</new>~</invoke>"
        ),
        {"tags": [], "plan": {}, "path": "", "new": ""},
    ),
    "a type before the name of a parameter": (
        "deepseek_v32",
        invoke(f'<{DSML}parameter string="true" name="path">a</{DSML}parameter>'),
        {"path": "a"},
    ),
    "an attribute that nothing knows": (
        "deepseek_v32",
        invoke(dsml("path", "a", ' index="1"'), dsml("mode", "5", ' string="false" index="2"')),
        {"path": "a", "mode": 5},
    ),
    "an element of its own name": (
        "minimax_m3",
        '~<invoke name="write">~<plan>~<plan>x~</plan>~</plan>~</invoke>',
        {"plan": {"plan": "x"}},
    ),
}


@pytest.mark.parametrize(("name", "text", "arguments"), READ.values(), ids=READ)
@pytest.mark.parametrize("mode", MODES)
def test_what_models_write_is_read(
    name: str, text: str, arguments: dict[str, Any], mode: Mode
) -> None:
    make = partial(FORMATS[name].parser, TOOLS, arguments=mode)
    events = read_at_every_cut(make, text.replace("~", NS), every=CUTS[mode])
    check_monotone(events)
    assert complete_calls(message_of(events)) == [("write", arguments)]


REFUSED = {
    "a forgotten end before an empty value": (
        "qwen3_coder", "<function=write><parameter=path>a <parameter=mode>\n</function>",
    ),
    "a parameter inside another": (
        "qwen3_coder",
        ("<function=write><parameter=mode>1</parameter><parameter=path>\na\n<parameter=mode>\n"
        "<parameter=path>\n<parameter=no>\n</function>"),
    ),
    "an end of the call that text follows": (
        "qwen3_coder", "<function=write><parameter=path>a</function> b\n</function>\n</tool_call>",
    ),
    "a forgotten end after a newline too many": (
        "minimax_m2",
        (
            '<invoke name="write"><parameter name="path">a\n\n<parameter name="mode">5</parameter>'
            "</invoke>"
        ),
    ),
    "a bare value between parameters": (
        "qwen3_coder",
        "<function=write><parameter=path>a</parameter>\n5\n<parameter=sure>true</parameter></function>",
    ),
    "a list that is not whole": (
        "deepseek_v32", invoke(dsml("path", "a"), dsml("tags", "[1", ' string="false"')),
    ),
    "two names in one tag": (
        "deepseek_v32", invoke(dsml("path", "a", ' name="mode"')),
    ),
    "an attribute whose name ends with that of the name": (
        "deepseek_v32", invoke(dsml("path", "a", ' filename="mode"')),
    ),
    "text beside elements": (
        "minimax_m3", '~<invoke name="write">~<plan>so ~<n>4~</n>~</plan>~</invoke>',
    ),
    "an end of another value": (
        "minimax_m3", '~<invoke name="write">~<path>a~</path>~</tags>~</invoke>',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("mode", MODES)
def test_where_the_meaning_is_not_clear_no_call_is_complete(
    name: str, text: str, mode: Mode
) -> None:
    make = partial(FORMATS[name].parser, TOOLS, arguments=mode)
    text = text.replace("~", NS)
    message = message_of(read_at_every_cut(make, text, every=CUTS[mode]))
    assert not complete_calls(message)
    assert mode == "live" or message.text == text


EMPTY = {
    "qwen3_coder": "<tool_call><function=ping/></tool_call>",
    "minimax_m2": '<invoke name="ping" />',
    "deepseek_v4": f'<{DSML}tool_calls><{DSML}invoke name="ping"/></{DSML}tool_calls>',
    "minicpm5": "<function name='ping'/>",
    "minimax_m3": f'{NS}<invoke name="ping"/>',
    "glm47": "<tool_call>ping</tool_call>",
}


@pytest.mark.parametrize(("name", "text"), EMPTY.items(), ids=EMPTY)
def test_a_call_may_have_no_arguments(name: str, text: str) -> None:
    message = message_of(read_at_every_cut(partial(FORMATS[name].parser, TOOLS), text + " b"))
    assert (complete_calls(message), message.text) == ([("ping", {})], " b")
