"""Every character of a model's text has one kind, and the right one, in any chunks."""

from __future__ import annotations

import html
import json
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import cut_at
from penstock import formats
from penstock.events import (
    Done,
    Event,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.formats import Parser
from penstock.gateway.inspector.playground import TOOLS
from penstock.gateway.inspector.spans import (
    NATIVE,
    NO_EVENT,
    Attribution,
    attribute,
    utf16_length,
)
from penstock.gateway.inspector.truncate import clip
from penstock.messages import AssistantMessage, ToolCall

HERE: Final = Path(__file__).parents[2] / "vectors"
TOOLSETS: Final = json.loads((HERE / "toolsets.json").read_text("utf-8"))
TOOL: Final = {
    "name": "save",
    "parameters": {
        "type": "object",
        "properties": {"body": {"type": "string"}, "count": {"type": "integer"}},
    },
}


def one_of_each_format() -> list[dict[str, Any]]:
    lines = (HERE / "formats.jsonl").read_text("utf-8").splitlines()
    found: dict[str, dict[str, Any]] = {}
    for vector in map(json.loads, lines):
        weight = len(vector["expect"]["calls"]), not vector["text"].isascii()
        best = found.get(vector["format"])
        if best is None or weight > (len(best["expect"]["calls"]), not best["text"].isascii()):
            found[vector["format"]] = vector
    return list(found.values())


VECTORS: Final = one_of_each_format()


def read(text: str, format_: str, tools: Any, chunks: list[str], **options: Any) -> Attribution:
    """Parse *chunks* and attribute them; calls that came in one piece are parsed again."""
    parser = Parser(format_, tools, **options)
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    events += parser.finish(cut=False)

    def again(call: str) -> list[Event]:
        live = Parser(format_, tools, arguments="live")
        return [*live.feed(call), *live.finish(cut=False)]

    coloured = attribute(events, parser.rest, reread=again)
    assert coloured.text == text
    return coloured


def shown(coloured: Attribution) -> list[tuple[str, str]]:
    """Return the text of each kind; adjacent spans of one kind are merged."""
    units = coloured.text.encode("utf-16-le", "surrogatepass")
    found: list[tuple[str, str]] = []
    for span in coloured.spans:
        text = units[span.start * 2 : span.end * 2].decode("utf-16-le", "surrogatepass")
        if found and found[-1][0] == span.kind:
            found[-1] = (span.kind, found[-1][1] + text)
        else:
            found.append((span.kind, text))
    return found


def of_kind(coloured: Attribution, kind: str) -> list[str]:
    return [text for one, text in shown(coloured) if one == kind]


def check_cover(coloured: Attribution) -> None:
    """The spans cover the text in order; none is empty, and none overlap."""
    edges = [(span.start, span.end) for span in coloured.spans]
    assert all(start < end for start, end in edges)
    assert all(one[1] == other[0] for one, other in pairwise(edges))
    assert [0, utf16_length(coloured.text)] == ([edges[0][0], edges[-1][1]] if edges else [0, 0])


@settings(max_examples=50, deadline=None)
@given(
    vector=st.sampled_from(VECTORS),
    mode=st.sampled_from(["live", "whole"]),
    cuts=st.lists(st.integers(0, 400), max_size=12),
    end=st.integers(1, 1200),
)
def test_spans_cover_the_text_of_every_format_at_any_cut(
    vector: dict[str, Any], mode: str, cuts: list[int], end: int
) -> None:
    text = vector["text"][:end]
    tools = TOOLSETS.get(vector["tools"], [])
    coloured = read(text, vector["format"], tools, cut_at(text, cuts), arguments=mode)
    check_cover(coloured)
    assert sum(coloured.sizes) <= len(text)


@pytest.mark.parametrize("mode", ["live", "whole"])
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["format"])
def test_names_and_values_of_every_format_are_found(vector: dict[str, Any], mode: str) -> None:
    text, calls = vector["text"], vector["expect"]["calls"]
    tools = TOOLSETS.get(vector["tools"], [])
    chunks = [text[at : at + 16] for at in range(0, len(text), 16)]
    coloured = read(text, vector["format"], tools, chunks, arguments=mode)
    assert of_kind(coloured, "name") == [call["name"] for call in calls]
    values = "".join(of_kind(coloured, "arguments"))
    for call in calls:
        for value in call["arguments"].values():
            if isinstance(value, str) and value.isalnum():
                assert value in values
    assert not any("<tool_call>" in one for one in of_kind(coloured, "arguments"))


def test_a_tag_in_a_value_is_a_value_and_a_tag_around_it_is_none() -> None:
    text = "<function=save>\n<parameter=body>\n<b>5</b>\n</parameter>\n</function>"
    coloured = read(text, "qwen3_coder", [TOOL], [*text], arguments="live")
    assert "".join(of_kind(coloured, "arguments")).strip() == "<b>5</b>"
    assert of_kind(coloured, "name") == ["save"]


def test_keys_of_json_belong_to_the_arguments_and_its_frame_does_not() -> None:
    text = '<tool_call>{"name": "save", "arguments": {"body": "a \\"b\\" \\u00e9", "count": 3}}'
    text += "</tool_call>"
    for mode in ("live", "whole"):
        coloured = read(text, "hermes", [TOOL], [text], arguments=mode)
        assert of_kind(coloured, "arguments") == ['"body": "a \\"b\\" \\u00e9", "count": 3']


AWKWARD: Final = (
    '<ul>\n<li class="x">a</li>\n</ul>',
    "x\n<b>y</b>",
    'say "hi"\n\\ end',
    '{"a": [1, "b"]}',
    "</b>",
    "don't",
)
CALLING: Final = [name for name in formats.names() if name != "none"]


def kinds_of(coloured: Attribution) -> str:
    """Return one letter for each character: the first of its kind."""
    assert utf16_length(coloured.text) == len(coloured.text)
    return "".join(span.kind[0] * (span.end - span.start) for span in coloured.spans)


def written_in(text: str, value: str) -> tuple[int, int]:
    """Find *value* in *text*, however the format writes it."""
    entities, quoted = html.escape(value, quote=False), json.dumps(value)[1:-1]
    forms = (
        *(value, quoted, quoted.replace("/", "\\/"), repr(value)[1:-1], value.replace("'", "\\'")),
        *(entities, html.escape(value).replace("&#x27;", "&apos;")),
        value.replace("\n", "\n  "),  # a YAML block
    )
    start, form = max((text.rfind(form), form) for form in forms)
    assert start >= 0, text
    return start, start + len(form)


@pytest.mark.parametrize("mode", ["live", "whole"])
@pytest.mark.parametrize("name", CALLING)
def test_every_character_of_an_awkward_value_is_of_the_arguments(name: str, mode: str) -> None:
    for value, size in product(AWKWARD, (1000, 7)):
        call = ToolCall("", "write_file", {"path": "tides.md", "content": value})
        text = formats.get(name).render_call(call)
        chunks = [text[at : at + size] for at in range(0, len(text), size)]
        coloured = read(text, name, TOOLS, chunks, arguments=mode)
        kinds = kinds_of(coloured)
        for wanted in ("tides.md", value):
            start, end = written_in(text, wanted)
            assert set(kinds[start:end]) == {"a"}, (wanted, size, shown(coloured))


@pytest.mark.parametrize("name", ["file_tags", "sentinel", "hermes", "bare_json"])
def test_a_value_that_is_the_name_of_the_call_is_a_value(name: str) -> None:
    call = ToolCall("", "write_file", {"path": "write_file", "content": "x"})
    text = formats.get(name).render_call(call)
    for mode in ("live", "whole"):
        coloured = read(text, name, TOOLS, [text], arguments=mode)
        (named,) = [span.start for span in coloured.spans if span.kind == "name"]
        assert named == text.index("write_file")
        assert "write_file" in "".join(of_kind(coloured, "arguments"))


@pytest.mark.parametrize("size", [1000, 7, 1])
def test_arguments_may_stand_before_the_name(size: int) -> None:
    text = '<tool_call>\n{"arguments": {"body": "save", "count": 3}, "name": "save"}\n</tool_call>'
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    for mode in ("live", "whole"):
        coloured = read(text, "hermes", [TOOL], chunks, arguments=mode)
        assert of_kind(coloured, "arguments") == ['"body": "save", "count": 3']
        (named,) = [span.start for span in coloured.spans if span.kind == "name"]
        assert named == text.rindex("save")


@pytest.mark.parametrize("name", ["hermes", "mistral_args", "kimi_k2", "json_tool", "sentinel"])
def test_the_braces_around_arguments_are_markup(name: str) -> None:
    text = formats.get(name).render_call(ToolCall("", "save", {"count": 3, "body": "a"}))
    first, last = text.index("{", text.index("save")), text.index("}")
    for mode, size in product(("live", "whole"), (1000, 1, 5)):
        chunks = [text[at : at + size] for at in range(0, len(text), size)]
        kinds = kinds_of(read(text, name, [TOOL], chunks, arguments=mode))
        assert (kinds[first], kinds[last]) == ("m", "m")


def test_thoughts_markers_and_blanks_have_their_colours() -> None:
    text = "<think>Hm.</think>Well. \n<tool_call>{}"
    coloured = read(text, "hermes", [TOOL], [*text], trim=True)
    assert ("thinking", "Hm.") in shown(coloured)
    assert of_kind(coloured, "marker") == ["<think>", "</think>"]
    text = 'Well. \n\n<tool_call>{"name": "save", "arguments": {}}</tool_call>\n'
    coloured = read(text, "hermes", [TOOL], [text], trim=True)
    assert of_kind(coloured, "dropped") == [" \n\n", "\n"]


def test_what_was_mended_is_seen_where_it_stands_with_the_words_for_it() -> None:
    text = "<tool_call>{'name': 'save', 'arguments': {'count': 3,}"
    coloured = read(text, "hermes", [TOOL], [text], repair=True)
    assert any("3" in one for one in of_kind(coloured, "repaired"))
    notes = [span.note for span in coloured.spans if span.kind == "repaired"]
    assert notes[0]
    assert not any(notes[1:])


def test_a_call_that_was_cut_says_so_at_its_name() -> None:
    text = '<tool_call>{"name": "save", "arguments": {"body": "ab'
    parser = Parser("hermes", [TOOL], arguments="live")
    events = [*parser.feed(text), *parser.finish(cut=True)]
    notes = [span.note for span in attribute(events, parser.rest).spans if span.kind == "name"]
    assert notes == ["not complete"]


def test_what_came_natively_is_seen_too() -> None:
    call = ToolCall("1", "save", {"count": 3})
    events: list[Event] = [
        ThinkingStart(0),
        ThinkingDelta(0, "Hm. "),
        ThinkingEnd(0, "Hm. "),
        ToolCallStart(1, "1", "save"),
        ToolCallDelta(1, '{"count":'),
        ToolCallDelta(1, "3}"),
        ToolCallEnd(1, call),
        TextStart(2),
        TextDelta(2, "Yes.", "Yes."),
        TextEnd(2, "Yes."),
        Done("tool_use", AssistantMessage()),
    ]
    coloured = attribute(events)
    check_cover(coloured)
    assert shown(coloured) == [
        ("thinking", "Hm. "),
        ("name", "save"),
        ("arguments", '{"count":3}'),
        ("text", "Yes."),
    ]
    assert [span.note for span in coloured.spans] == [NATIVE, NATIVE, "", "", ""]


def test_a_call_that_nobody_can_read_again_is_searched() -> None:
    text = '<tool_call>{"name": "save", "arguments": {"count": 3, "body": "ab"}}</tool_call>'
    parser = Parser("hermes", [TOOL])
    events = [*parser.feed(text), *parser.finish(cut=False)]
    coloured = attribute(events, parser.rest)
    check_cover(coloured)
    assert of_kind(coloured, "name") == ["save"]
    assert of_kind(coloured, "arguments")[0].startswith("3")
    assert of_kind(coloured, "arguments")[-1].endswith("ab")
    assert coloured.spans[-1].event == NO_EVENT


def test_offsets_are_those_of_a_browser() -> None:
    coloured = attribute(
        [TextStart(0), TextDelta(0, "a🐟", "a🐟"), TextDelta(0, "\ud83d", "\ud83d")]
    )
    assert [(span.start, span.end) for span in coloured.spans] == [(0, 3), (3, 4)]


@given(text=st.text(max_size=30), units=st.integers(0, 40))
def test_a_clipped_text_is_as_long_as_can_be(text: str, units: int) -> None:
    kept = clip(text, units)
    assert text.startswith(kept)
    assert utf16_length(kept) <= units
    assert kept == text or utf16_length(text[: len(kept) + 1]) > units


@pytest.mark.parametrize("text", ["", "🐟" * 3, "\udcff", "a\x00b"])
def test_odd_text_is_coloured_like_any_other(text: str) -> None:
    coloured = read(text, "auto", [TOOL], [*text])
    check_cover(coloured)
    assert {span.kind for span in coloured.spans} <= {"text"}
