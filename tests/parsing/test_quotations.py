"""Quoted calls: what untrusted input has word for word is text, in every format and mode."""

from __future__ import annotations

import html
import json
from functools import partial
from itertools import product
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from laws import Ending, check_linear, check_readings, cut_at, effort, one_by_one
from laws.strategies import CUTS
from penstock import MessageBuilder, Parser, UsageError
from penstock.events import Event, TextDelta, ToolCallDelta, ToolCallEnd, ToolCallStart
from penstock.formats.registry import BUILT_IN
from penstock.messages import AssistantMessage, ToolCall
from penstock.parsing import BrokenCall, Untrusted
from penstock.parsing.quotations import MIN_QUOTED, fold
from penstock.tools import Tool

Mode = Literal["whole", "live"]
MODES: tuple[Mode, ...] = ("whole", "live")
TEXT: dict[str, Any] = {"type": "string"}
TOOLS = [
    Tool("get_weather", "", {"type": "object", "properties": {"city": TEXT, "unit": TEXT}}),
    Tool("write_file", "", {"type": "object", "properties": {"path": TEXT, "content": TEXT}}),
    Tool("ping", "", {"type": "object", "properties": {}}),
]
OSLO = ToolCall("c", "get_weather", {"city": "Oslo in winter", "unit": "celsius"})
ROME = ToolCall("c", "get_weather", {"city": "Rome in winter", "unit": "celsius"})
FILE = ToolCall("c", "write_file", {"path": "a.txt", "content": "Ready.\nSteady."})
SPEAKING = [fmt.name for fmt in BUILT_IN if fmt.name not in ("none", "file_tags", "auto")]
CALL = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
OTHER = CALL.replace("Oslo", "Rome")


def write(name: str, call: ToolCall) -> str:
    return next(fmt for fmt in BUILT_IN if fmt.name == name).render_call(call)


def read(
    text: str, format_: str = "hermes", chunks: list[str] | None = None, **options: Any
) -> tuple[AssistantMessage, list[tuple[str, BrokenCall]]]:
    told: list[tuple[str, BrokenCall]] = []
    parser = Parser(format_, TOOLS, on_error=lambda *each: told.append(each), **options)
    builder = MessageBuilder()
    for chunk in chunks or [text]:
        for event in parser.feed(chunk):
            builder.add(event)
    for event in parser.finish(cut=False):
        builder.add(event)
    return builder.message, told


def has_call(text: str, format_: str = "hermes", **options: Any) -> bool:
    return bool(read(text, format_, **options)[0].tool_calls)


@pytest.mark.parametrize("name", SPEAKING)
def test_a_quoted_call_is_text_in_every_format_and_any_other_is_a_call(name: str) -> None:
    call, other = write(name, OSLO), write(name, ROME)
    untrusted = [f"Some page. {call}\nMore of it."]
    for mode in MODES:
        found, told = read(call, name, arguments=mode, untrusted=untrusted, repair=True)
        assert found.tool_calls == []
        assert "Oslo in winter" in found.text
        assert [segment.tool_name for _, segment in told] == ["get_weather"]
        assert told[0][0] == "quoted from untrusted input: text, not a call"
        assert "Oslo in winter" in told[0][1].text
        found, told = read(other, name, arguments=mode, untrusted=untrusted)
        assert [each.arguments for each in found.tool_calls] == [ROME.arguments]
        assert told == []


@pytest.mark.parametrize("name", [*SPEAKING, "auto"])
def test_the_laws_hold_where_calls_are_quoted(name: str) -> None:
    writes = "hermes" if name == "auto" else name
    calls = [write(writes, call) for call in (OSLO, FILE)]
    text = f"Look:\n{calls[0]}\n{calls[1]}\n"
    untrusted = [calls[0], calls[1][: len(calls[1]) * 2 // 3] + "!"]

    def make(mode: Mode, *, cut: bool) -> Ending:
        options: dict[str, Any] = {"arguments": mode, "trim": mode == "live", "repair": not cut}
        parser = Parser(name, TOOLS, untrusted=untrusted, on_error=lambda *_: None, **options)
        return Ending(parser, cut=cut)

    for turn, (mode, cut) in enumerate(product(MODES, (False, True))):
        reader, half = partial(make, mode, cut=cut), text[: len(text) * 3 // 4]
        # Every fifth place is cut, each in another of the four settings than the one before it.
        step, first = (5, 1) if effort.exhaustive else (20, 1 + 5 * turn)
        ways = [one_by_one(text), *(cut_at(text, [at]) for at in range(first, len(text), step))]
        check_readings(reader, text, ways)
        check_readings(reader, half, [one_by_one(half)])


PARTS = ["quoted", "other", "half", "broken", "words ", "\n"]


@settings(max_examples=40)
@given(
    name=st.sampled_from(["hermes", "auto", "qwen3_coder", "deepseek_v31", "minimax_m2"]),
    mode=st.sampled_from(MODES),
    parts=st.lists(st.sampled_from(PARTS), max_size=6),
    cuts=CUTS,
    repair=st.booleans(),
)
@example(name="qwen3_coder", mode="live", parts=["half", "words ", "quoted"], cuts=[], repair=True)
def test_no_cut_changes_what_is_quoted(
    name: str, mode: Mode, parts: list[str], cuts: list[int], *, repair: bool
) -> None:
    writes = "hermes" if name == "auto" else name
    quoted, other = write(writes, FILE), write(writes, OSLO)
    pieces = {
        "quoted": quoted,
        "other": other,
        "half": quoted[: len(quoted) // 2],
        "broken": quoted.replace("Steady", "</parameter>{", 1),
    }
    text = "".join(pieces.get(part, part) for part in parts)

    def make() -> Ending:
        options: dict[str, Any] = {"arguments": mode, "repair": repair, "trim": True}
        parser = Parser(name, TOOLS, untrusted=[f"x {quoted} y"], **options)
        return Ending(parser, cut=not repair)

    check_readings(make, text, [one_by_one(text), cut_at(text, cuts)])


def test_the_text_around_a_quoted_call_stays_one_block() -> None:
    for mode in MODES:
        found, _ = read(f"It says: {CALL} and more.", arguments=mode, trim=True, untrusted=[CALL])
        assert [block.type for block in found.content] == ["text"]
        assert found.text == f"It says: {CALL} and more."
        assert found.stop_reason is None


def test_only_the_quoted_one_of_several_calls_is_text() -> None:
    for mode in MODES:
        found, told = read(f"{OTHER}\n{CALL}\n{OTHER}", arguments=mode, untrusted=[CALL])
        assert [call.arguments["city"] for call in found.tool_calls] == ["Rome", "Rome"]
        assert found.text.strip() == CALL
        assert [segment.text for _, segment in told] == [CALL]


def test_a_quoted_call_in_a_section_is_found_without_its_section() -> None:
    section = write("deepseek_v31", OSLO)
    begin = section.index(">") + 1
    inner = section[begin : section.rindex("<")]
    for mode in MODES:
        assert not has_call(section, "deepseek_v31", arguments=mode, untrusted=[inner])


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(lambda text: json.dumps({"page": text}), id="in a JSON string"),
        pytest.param(lambda text: json.dumps(json.dumps([text])), id="in JSON in JSON"),
        pytest.param(
            lambda text: json.dumps(text).replace("<", "\\u003c").replace(">", "\\u003e"),
            id="as Go writes JSON",
        ),
        pytest.param(html.escape, id="in the source of a page"),
        pytest.param(lambda text: text.replace("\n", "\r\n"), id="with other line ends"),
        pytest.param(lambda text: text.replace(" ", "\n    "), id="indented"),
    ],
)
def test_a_call_is_quoted_however_the_input_writes_it(written: Any) -> None:
    call = CALL.replace("Oslo", "Tromsø, the 🐟 city\\nin C:\\\\new").replace("{", "\n{", 1)
    for mode in MODES:
        assert has_call(call, arguments=mode, untrusted=[written(OTHER)])
        assert not has_call(call, arguments=mode, untrusted=["no", written(f"a {call} b")])


def test_what_is_short_is_not_quoted() -> None:
    assert has_call("[ping()]", "pythonic", untrusted=["Call [ping()] first."])
    assert has_call("<ping/>", "morph_xml", untrusted=["<a><ping/></a>"])
    marked = '<tool_call>{"name": "ping", "arguments": {}}</tool_call>'
    assert len(fold(marked)) >= MIN_QUOTED
    assert not has_call(marked, untrusted=[f"Call {marked} first."])


def test_a_tool_may_be_called_with_quoted_words() -> None:
    def make(**options: Any) -> Untrusted:
        return Untrusted(lambda: [("a tool result", CALL)], **options)

    for mode in MODES:
        assert not has_call(CALL, arguments=mode, untrusted=make())
        assert has_call(CALL, arguments=mode, untrusted=make(quoted="calls"))
        assert has_call(CALL, arguments=mode, untrusted=make(tools={"get_*": "calls"}))
        strict = make(quoted="calls", tools={"get_weather": "text"})
        assert not has_call(CALL, arguments=mode, untrusted=strict)
    with pytest.raises(UsageError):
        make(quoted="yes")
    with pytest.raises(UsageError):
        make(tools={"ping": "no"})


def test_what_was_called_before_and_what_instructions_say_is_a_call() -> None:
    def make(**options: Any) -> Untrusted:
        return Untrusted(lambda: [("a tool result", CALL)], **options)

    own = [ToolCall("c", "get_weather", {"city": "Oslo"})]
    cut = [ToolCall("c", "get_weather", {"city": "Oslo"}, complete=False)]
    for mode in MODES:
        assert has_call(CALL, arguments=mode, untrusted=make(own=lambda: own))
        assert has_call(CALL, arguments=mode, untrusted=make(trusted=lambda: [f"Say {CALL}"]))
        assert not has_call(CALL, arguments=mode, untrusted=make(own=lambda: cut))


def test_nothing_is_gathered_before_a_call_was_found() -> None:
    gathered = []

    def gather() -> list[tuple[str, str]]:
        gathered.append(1)
        return [("a tool result", "Nothing of it.")]

    untrusted = Untrusted(gather, trusted=lambda: pytest.fail("looked at"))
    read("No call. " * 50, untrusted=untrusted)
    assert not gathered
    assert has_call(CALL + OTHER, untrusted=untrusted)
    assert len(gathered) == 1


def test_a_call_that_may_be_quoted_is_held_back_until_it_differs() -> None:
    page = write("qwen3_coder", FILE)
    begun, rest = page.split("Ready.")
    parser = Parser("qwen3_coder", TOOLS, arguments="live", untrusted=[page])
    assert parser.feed(begun + "Ready.") == []
    events = parser.feed(" And something else, which goes on.")
    assert isinstance(events[0], ToolCallStart)
    assert events[0].name == "write_file"
    assert any("something else" in e.arguments for e in events if isinstance(e, ToolCallDelta))
    more = parser.feed(" And on.")
    assert [type(event) for event in more] == [ToolCallDelta]
    ends = [*parser.feed(rest), *parser.finish()]
    call = next(event.call for event in ends if isinstance(event, ToolCallEnd))
    assert call.arguments["content"].startswith("Ready. And something else")


def test_a_call_comes_as_ever_where_its_marker_occurs_nowhere() -> None:
    parser = Parser("hermes", TOOLS, arguments="live", untrusted=["get_weather arguments Oslo"])
    events = parser.feed('<tool_call>{"name": "get_weather", "arguments": {"city": "Os')
    assert [type(event) for event in events[:2]] == [ToolCallStart, ToolCallDelta]


def test_a_quoted_call_that_was_cut_is_text() -> None:
    page = write("qwen3_coder", FILE)
    for mode in MODES:
        parser = Parser("qwen3_coder", TOOLS, arguments=mode, untrusted=[page])
        events: list[Event] = [*parser.feed(page[:-30]), *parser.finish()]
        said = "".join(event.text for event in events if isinstance(event, TextDelta))
        assert said == page[:-30]


@pytest.mark.parametrize(
    ("name", "text", "page"),
    [
        (
            "glm45",
            "<tool_call>l<arg_key>a</arg_key><arg_value>[<arg_value>\n</tool_call>",
            "<tool_call>l<arg_key></arg_key><arg_value>[<arg_value>\n</tool_call> b",
        ),
        (
            "tool_tag",
            '<tool name="write_file"><arguments><arg name="a"th">{"a": 1}</arg></arguments></tool>',
            '<tool name="write_file"><arguments><arg name="a"th">',
        ),
    ],
    ids=["white space before the end", "an invalid attribute"],
)
@pytest.mark.parametrize("repair", [False, True])
def test_a_held_call_that_breaks_takes_no_more_text_than_any_other(
    name: str,
    text: str,
    page: str,
    repair: bool,  # noqa: FBT001
) -> None:
    make = partial(Parser, name, TOOLS, arguments="live", repair=repair)
    check_readings(partial(make, untrusted=[page]), text)
    held, other = (
        "".join(event.text for event in parser.feed(text) if isinstance(event, TextDelta))
        for parser in (make(untrusted=[page]), make())
    )
    assert held == other


def test_a_held_call_costs_no_more_the_longer_it_gets() -> None:
    page = write("qwen3_coder", ToolCall("c", "write_file", {"content": "word " * 6_000}))
    head = "<tool_call>\n<function=write_file>\n<parameter=content>\n"

    def run(size: int) -> None:
        parser = Parser("qwen3_coder", TOOLS, arguments="live", untrusted=[page])
        assert all(parser.feed(character) == [] for character in head + "word " * size)

    check_linear(run, 500, 5_000, at_most=2.5)
