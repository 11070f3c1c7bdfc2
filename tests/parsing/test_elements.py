"""The parser over calls as elements: vectors, laws, and agreement with `rxml.loads`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from laws import (
    check_monotone,
    check_no_leak,
    check_no_stall,
    check_readings,
    chunkings,
    cut_at,
    one_by_one,
)
from laws.checks import read
from laws.strategies import CUTS, soup
from parsing.element_samples import MODES, TOOLS, WRITE, Mode, parse, parser
from parsing.samples import complete_calls, message_of
from penstock.events import Event, ToolCallDelta, ToolCallEnd, ToolCallStart
from penstock.parsing import Engine
from penstock.readers.elements import Duplicates, ElementCalls
from penstock.tools import Tool, read_tools
from penstock.values import rxml

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "vectors" / "morph-xml.jsonl").read_text().splitlines()
]


def deltas_of(events: list[Event]) -> list[str]:
    return [event.arguments for event in events if isinstance(event, ToolCallDelta)]


# --- vectors and laws ---


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['id']}: {vector['why']}")
def test_a_vector_reads_the_same_whole_by_characters_and_at_every_cut(
    vector: dict[str, Any], mode: Mode
) -> None:
    tools = read_tools(vector["tools"])
    make = partial(Engine, ElementCalls.of(tools), tools, arguments=mode)
    expected = [(call["name"], call["arguments"]) for call in vector["expect"]["calls"]]
    message = message_of(check_readings(make, vector["text"]))
    assert complete_calls(message) == expected
    if mode == "whole":
        assert message.text.split() == vector["expect"]["content"].split()
    if mode == "whole" and vector["content_mode"] == "exact":
        assert message.text == vector["expect"]["content"]


PIECES = soup(
    "<write>",
    "</write>",
    "<write/>",
    "</write >",
    "<path>a</path>",
    "<path>",
    "</path>",
    "<content>x &lt; y &amp;</content>",
    "<content>\n&#65; <b>&amp;</b>\n",
    "</content>",
    "<mode>3</mode>",
    "<mode>",
    "<tags>a, b</tags>",
    "<tags><item>a</item><item>",
    "</item></tags>",
    "<edits><old>a </old> b</old><line>2</line></edits>",
    '<meta>{"a": "</meta>"}</meta>',
    "<arguments>",
    "</arguments>",
    "<!-- </write> -->",
    "<![CDATA[",
    "]]>",
    "<?x ?>",
    "<!DOCTYPE x>",
    "<unknown a='>'>1</unknown>",
    "<ping></ping>",
    " ",
    "\n",
)


@settings(max_examples=70)
@given(
    text=st.one_of(PIECES, PIECES.map(lambda text: f"<write>{text}</write>")),
    cuts=CUTS,
    mode=st.sampled_from(MODES),
    trim=st.booleans(),
    trims=st.booleans(),
    duplicates=st.sampled_from(get_args(Duplicates)),
)
def test_the_laws_hold_on_any_text_at_any_cut(
    text: str,
    cuts: list[int],
    mode: Mode,
    trim: bool,  # noqa: FBT001
    trims: bool,  # noqa: FBT001
    duplicates: Duplicates,
) -> None:
    syntax = ElementCalls.of(TOOLS, trims=trims, duplicates=duplicates)
    make = partial(Engine, syntax, TOOLS, arguments=mode, trim=trim)
    check_readings(make, text, [cut_at(text, cuts), one_by_one(text)])


@settings(max_examples=60)
@given(text=PIECES)
def test_a_complete_call_is_the_same_in_both_modes(text: str) -> None:
    whole, live = (parse(text, mode=mode) for mode in MODES)
    if all(call.complete for call in live.tool_calls):
        assert complete_calls(whole) == complete_calls(live)


@settings(max_examples=80)
@given(body=PIECES, mode=st.sampled_from(MODES))
def test_the_arguments_of_a_complete_call_are_what_rxml_reads(body: str, mode: Mode) -> None:
    events = read(parser(mode), [f"<write>{body}</write>"])
    raw: dict[int, str] = {}
    for event in events:
        index = getattr(event, "index", 0)
        raw[index] = raw.get(index, "") + event.raw
        if isinstance(event, ToolCallEnd) and event.call.complete and event.call.name == "write":
            _, start, inner = raw[index].partition("<write>")
            if start:
                inner = inner[: inner.rindex("</write")]
                assert event.call.arguments == rxml.loads(inner, WRITE.parameters, strict=True)
            else:
                assert event.call.arguments == {}


TEXTS = st.lists(
    st.sampled_from([*"ab<>/&;\n\"' \\é😀", "&amp;", "</a>", "<b>", "</write>"]), max_size=12
).map("".join)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "path": TEXTS,
        "content": TEXTS,
        "note": TEXTS,
        "mode": st.integers(),
        "unit": st.sampled_from(["kg", "lb"]),
        "tags": st.lists(st.from_regex(r"[a-z]{1,5}", fullmatch=True), max_size=3),
        "edits": st.lists(
            st.fixed_dictionaries({"old": TEXTS, "line": st.integers()}), min_size=2, max_size=3
        ),
        "meta": st.dictionaries(st.sampled_from("abc"), st.integers()),
    },
)


@settings(max_examples=60)
@example(value={"path": "/</write>"}, cuts=[], mode="whole", escaped=False)
@given(value=VALUES, cuts=CUTS, mode=st.sampled_from(MODES), escaped=st.booleans())
def test_what_rxml_writes_and_reads_is_a_call(
    value: dict[str, Any],
    cuts: list[int],
    mode: Mode,
    escaped: bool,  # noqa: FBT001
) -> None:
    text = rxml.dumps("write", value, format=False)
    if not escaped:  # as models write it
        text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"')
    expected = rxml.loads(text[len("<write>") : -len("</write>")], WRITE.parameters)
    message = message_of(read(parser(mode), cut_at(text, cuts)))
    assert complete_calls(message) == [("write", expected)]


def test_nothing_is_held_back_but_what_may_begin_a_start_tag() -> None:
    check_no_stall(parser, "a < b <wri <pin </write> <math.sum-v2: <p", len("<math.sum-v2:x/>"))


@pytest.mark.parametrize("mode", MODES)
def test_no_tag_shows_beside_a_call(mode: Mode) -> None:
    text = "Hi <ping/> and <write><path>a</path>\n<mode>3</mode></write>\n."
    for chunks in chunkings(text):
        check_no_leak(partial(parser, mode), chunks, ["<", ">", "path"])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("plain words", id="plain text"),
        pytest.param('code "x" \\ \t\n{[', id="what JSON escapes"),
        pytest.param("a & b && c;", id="ampersands that begin no entity"),
        pytest.param("<b>&amp; &lt;", id="entities behind markup"),
    ],
)
def test_every_character_of_a_string_leaves_at_once(text: str) -> None:
    reader = parser("live")
    seen = "".join(deltas_of(reader.feed("<write><content>")))
    for number, character in enumerate(text):
        seen += "".join(deltas_of(reader.feed(character)))
        is_held = character == "<" or (character == "&" and "<" not in text[:number])
        written = json.loads(seen.removeprefix('{"content":') + '"')
        assert written == text[: number + 1 - is_held]


# --- what a body says ---


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        pytest.param("", {}, id="nothing"),
        pytest.param("<path>a</path>", {"path": "a"}, id="a string"),
        pytest.param("<path/>", {"path": ""}, id="a self-closing string"),
        pytest.param("<path>a</ path><mode>3</ mode>", {"path": "a", "mode": 3}, id="a space"),
        pytest.param("<path a='>'>a</path >", {"path": "a"}, id="attributes and a space"),
        pytest.param("<content></write></content>", {"content": "</write>"}, id="its own end tag"),
        pytest.param(
            "<content>a('</content>') b</content>",
            {"content": "a('</content>') b"},
            id="a closing tag that is data",
        ),
        pytest.param("<content>a &amp;&amp; b</content>", {"content": "a && b"}, id="entities"),
        pytest.param(
            "<content>a &amp; <b></content>", {"content": "a &amp; <b>"}, id="entities and markup"
        ),
        pytest.param("<mode>1</mode><mode>2</mode>", {"mode": ["1", "2"]}, id="a number twice"),
        pytest.param(
            "<tags>a</tags><path>p</path><tags>b</tags>",
            {"tags": ["a", "b"], "path": "p"},
            id="a list in two places",
        ),
        pytest.param("<unit> KG </unit>", {"unit": "kg"}, id="an enum"),
        pytest.param("<note>x</note>", {"note": "x"}, id="a string that may be null"),
        pytest.param(
            "<edits><old>a</write>b</old><line>2</line></edits>",
            {"edits": [{"old": "a</write>b", "line": 2}]},
            id="an end tag in a string further down",
        ),
        pytest.param(
            '<meta>{"a": "</meta></write>"}</meta>',
            {"meta": {"a": "</meta></write>"}},
            id="an end tag in JSON",
        ),
        pytest.param(
            "<!-- </write> --><path>a</path>", {"path": "a"}, id="an end tag in a comment"
        ),
        pytest.param(
            "<arguments><path>a</path></arguments>", {"path": "a"}, id="a root of its own"
        ),
        pytest.param("<path>a</path> so <mode>3</mode>", {"path": "a", "mode": 3}, id="a remark"),
        pytest.param("<path>a</path></path>", {"path": "a"}, id="a doubled closing tag"),
        pytest.param("<mode>3</mode> so", {"mode": 3}, id="free text"),
        pytest.param("<other>3</other>", {"other": 3}, id="what the schema does not know"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_a_body_is_read_in_any_of_its_shapes(
    body: str, arguments: dict[str, Any] | None, mode: Mode
) -> None:
    for chunks in chunkings(f"<write>{body}</write>"):
        events = read(parser(mode), chunks)
        check_monotone(events)
        expected = [] if arguments is None else [("write", arguments)]
        assert complete_calls(message_of(events)) == expected


def test_a_name_may_hold_dots_dashes_and_colons() -> None:
    (call,) = parse("<math.sum-v2:x><a>1</a></math.sum-v2:x>").tool_calls
    assert (call.name, call.arguments) == ("math.sum-v2:x", {"a": "1"})


def test_a_start_tag_is_the_name_and_nothing_else() -> None:
    text = "<ping > <ping a='1'> <Ping/> <ping  /> <pings/>"
    assert parse(text).text == text


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "text",
    [
        "<write> is a tag. </write>",
        "<p>The <write>x</write> element</p>",
        "<write>1 < 2</write>",
        "<write>words <!-- </write>",
    ],
)
def test_an_element_of_words_is_prose_that_names_the_tag(text: str, mode: Mode) -> None:
    for chunks in chunkings(text):
        message = message_of(read(parser(mode), chunks))
        assert (message.text, message.tool_calls) == (text, [])


@pytest.mark.parametrize("mode", MODES)
def test_a_call_behind_an_element_of_words_is_read(mode: Mode) -> None:
    text = "<write> is a tag. </write><write><!-- none --></write>"
    message = message_of(read(parser(mode), one_by_one(text)))
    assert complete_calls(message) == [("write", {})]
    assert message.text == "<write> is a tag. </write>"


def test_a_name_that_no_tag_can_have_is_never_called() -> None:
    assert ElementCalls.of([Tool("a b"), Tool("ok")]).starts == ("<ok>", "<ok/>", "<ok />")


@pytest.mark.parametrize("mode", MODES)
def test_string_values_lose_one_newline_next_to_each_tag_where_the_format_says_so(
    mode: Mode,
) -> None:
    syntax = ElementCalls.of(TOOLS, trims=True)
    text = (
        "<write>\n<path>\n/a\n</path>\n<content>\n\nx &amp;\n\n</content>\n<note>\nn\n</note>\n"
        "<edits>\n<old>\n\no\n</old>\n</edits>\n<tags>\n<item>\nt\n</item>\n</tags>\n</write>"
        "<write><path>\n</path><content>&#10;</content></write>"
    )
    for chunks in chunkings(text):
        events = read(Engine(syntax, TOOLS, arguments=mode), chunks)
        check_monotone(events)
        first, second = complete_calls(message_of(events))
        assert first == (
            "write",
            {
                "path": "/a",
                "content": "\nx &\n",
                "note": "n",
                "edits": [{"old": "\no"}],
                "tags": ["t"],
            },
        )
        assert second == ("write", {"path": "", "content": "\n"})


# --- what is written when ---


def test_a_live_call_starts_with_its_first_known_argument() -> None:
    reader = parser("live")
    assert reader.feed("<write>\n<!-- so -->") == []
    (start,) = reader.feed("<mode>")
    assert isinstance(start, ToolCallStart)
    assert start.name == "write"


def test_a_string_waits_from_its_first_entity_on_until_its_end() -> None:
    reader = parser("live")
    assert deltas_of(reader.feed("<write><content>a &am")) == ['{"content":"', "a "]
    assert deltas_of(reader.feed("p; b")) == []
    assert deltas_of(reader.feed("</content></write>")) == ["& b", '"', "}"]


def test_a_string_waits_no_longer_when_markup_comes() -> None:
    reader = parser("live")
    reader.feed("<write><content>a &amp; b")
    assert "".join(deltas_of(reader.feed("<b>&amp;"))) == "&amp; b<b>&amp;"


def test_what_may_come_again_is_written_when_the_call_ends() -> None:
    reader = parser("live")
    assert deltas_of(reader.feed("<write><mode>3</mode>")) == []
    assert "".join(deltas_of(reader.feed("<path>a</path><tags>b</tags>"))) == '{"path":"a"'
    assert "".join(deltas_of(reader.feed("</write>"))) == ',"mode":3,"tags":["b"]}'
