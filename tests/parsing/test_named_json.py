"""Calls with the name outside and JSON inside: where they end, what is owed, how they stream."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import (
    check_linear,
    check_no_stall,
    check_readings,
    chunkings,
    cut_at,
    one_by_one,
)
from laws.checks import read
from laws.strategies import CUTS, soup
from parsing.samples import complete_calls, message_of
from penstock.events import ToolCallDelta, ToolCallStart
from penstock.messages import AssistantMessage
from penstock.parsing import Engine
from penstock.readers.named import MAX_ASIDE, NamedSyntax
from penstock.readers.named_heads import HeadDialect
from penstock.tools import Tool

Mode = Literal["whole", "live"]
MODES: tuple[Mode, ...] = ("whole", "live")

BRACKETS = HeadDialect("[CALLS]", ("[ARGS]", "{"), id="[ID]", json=True)
TYPED = HeadDialect(
    "<c>", ("<sep>",), "</c>", ("</c>",), ("<cs>",), ("</cs>",), kind="function"
)  # fmt: skip
COUNTED = HeadDialect(
    "<c>", ("<a>",), "</c>", ("</c>",), ("<cs>", "<s>"), ("</cs>", "</s>"), silent=True, ids=True
)  # fmt: skip
TAGS = HeadDialect("<function=", (">",), "</function>", ("/>",), code="<code>")
DIALECTS = {"brackets": BRACKETS, "typed": TYPED, "counted": COUNTED, "tags": TAGS}

TOOLS = [
    Tool(
        "write",
        parameters={
            "type": "object",
            "properties": {"path": {"type": "string"}, "mode": {"type": "integer"}},
            "required": ["path"],
        },
    ),
    Tool("ping", parameters={"type": "object", "properties": {}}),
    Tool("a:b"),
]


def machine(dialect: str, **options: Any) -> Engine:
    return Engine(NamedSyntax(DIALECTS[dialect]), TOOLS, **options)


def parse(dialect: str, text: str, **options: Any) -> AssistantMessage:
    """Read *text* in every chunking; give the one message that all of them make."""
    return message_of(check_readings(partial(machine, dialect, **options), text))


PING: list[tuple[str, dict[str, Any]]] = [("ping", {})]
PATH: list[tuple[str, dict[str, Any]]] = [("write", {"path": "a"})]

READ: dict[str, tuple[str, str, str, list[tuple[str, dict[str, Any]]]]] = {
    "a name and a brace": ("brackets", '[CALLS]write{"path": "a"}', "", PATH),
    "a name and a marker": ("brackets", '[CALLS] write [ARGS] {"path": "a"}', "", PATH),
    "calls in a row": ("brackets", "[CALLS]ping{}[CALLS]ping[ARGS]{}", "", PING * 2),
    "a boundary inside of a string": (
        "brackets", '[CALLS]write{"path": "[ARGS]{[CALLS]ping{}"}', "",
        [("write", {"path": "[ARGS]{[CALLS]ping{}"})],
    ),
    "an object with its name inside": ("brackets", '[CALLS] {"name": "ping"}', "", PING),
    "lists, one behind the other": (
        "brackets", '[CALLS][{"name": "ping"}][CALLS] [{"name": "ping"}]', "", PING * 2,
    ),
    "brackets behind a list": ("brackets", '[CALLS][{"name": "ping"}] [1]', " [1]", PING),
    "surplus brackets": ("brackets", '[CALLS]write{"path": "a"}}] b', " b", PATH),
    "a marker in prose": ("brackets", "The [CALLS] token", "The [CALLS] token", []),
    "a name without arguments": ("brackets", "[CALLS]ping[ARGS]", "[CALLS]ping[ARGS]", []),
    "a call that broke, and one that did not": (
        "brackets", '[CALLS]write{"path" "a"}[CALLS]ping{}', '[CALLS]write{"path" "a"}', PING,
    ),
    "a section": ("typed", "a <cs>\n<c>ping<sep>{}</c>\n<c>ping<sep>{}</c>\n</cs> b", "a  b",
                  PING * 2),
    "a fence": ("typed", '<cs><c>function<sep>write\n```json\n{"path": "a"}\n```</c></cs>', "",
                PATH),
    "a fence inside of a string": (
        "typed", '<c>function<sep>write\n```json\n{"path": "\\n```</c>"}\n```</c>', "",
        [("write", {"path": "\n```</c>"})],
    ),
    "a fence without a label": ("typed", "<c>function<sep>ping\n```\n{}\n```</c>", "", PING),
    "no fence": ("typed", "<c>function<sep>ping\n{}</c>", "", PING),
    "nothing in a fence": ("typed", "<c>function<sep>ping\n```json\n```</c>", "", PING),
    "a tool that is called like the word": ("typed", "<c>function<sep>{}</c>", "",
                                            [("function", {})]),
    "a section without its beginning": ("typed", "<c>ping<sep>{}</c></cs>.", ".", PING),
    "a section without its end": ("typed", "<cs><c>ping<sep>{}</c>", "", PING),
    "an end marker that is cut": ("typed", "<cs><c>ping<sep>{}</", "", PING),
    "an end of a section that is cut": ("typed", "<cs><c>ping<sep>{}</c></c", "", PING),
    "text before the end markers": ("typed", "<cs><c>ping<sep>{} oops</c></cs>.", " oops.", PING),
    "text between calls": (
        "typed", "<cs><c>ping<sep>{}</c>and<c>ping<sep>{}</c>so</cs>.", "andso.", PING * 2,
    ),
    "end markers that belong to nothing": ("typed", "</c></cs><cs></cs>", "</c></cs><cs></cs>", []),
    "a call that broke first in a section": (
        "typed", "<cs><c>write<sep>{1}</c><c>ping<sep>{}</c></cs>.",
        "<cs><c>write<sep>{1}</c>.", PING,
    ),
    "a call that broke later in a section": (
        "typed", "<cs><c>ping<sep>{}</c><c>write<sep>{1}</c></cs>.",
        "<c>write<sep>{1}</c>.", PING,
    ),
    "a call that was cut later in a section": (
        "typed", '<cs><c>ping<sep>{}</c>\n<c>write<sep>{"path": "a', '\n<c>write<sep>{"path": "a',
        PING,
    ),
    "a call inside the string of one that broke": (
        "typed", '<c>write<sep>{"path": "<c>ping<sep>{}</c>" 1}</c>',
        '<c>write<sep>{"path": "" 1}</c>', PING,
    ),
    "no separator": ("typed", "<c>ping</c>", "", PING),
    "null": ("typed", "<c>ping<sep>null</c>", "", PING),
    "nothing": ("typed", "<c>ping<sep> </c>", "", PING),
    "arguments in a text": ("typed", '<c>write<sep>"{\\"path\\": \\"a\\"}"</c>', "", PATH),
    "arguments that are no object": ("typed", "<c>ping<sep>[1]</c>", "<c>ping<sep>[1]</c>", []),
    "too much white space": (
        "typed", f"<c>ping<sep>{{}}{' ' * 257}</c>.", f"{' ' * 257}.", PING,
    ),
    "an id with its counter": ("counted", "<cs><c>functions.ping:3<a>{}</c></cs>", "", PING),
    "an id without its prefix": ("counted", "<cs><c>ping:3<a>{}</c></cs>", "", PING),
    "a name without a counter": ("counted", "<c>functions.ping<a>{}</c>", "", PING),
    "a name with a colon": ("counted", "<c>functions.a:b:0<a>{}</c><c>a:b<a>{}</c>", "",
                            [("a:b", {}), ("a:b", {})]),
    "the other spelling of a section": ("counted", "<s><c>ping:0<a>{}</c></s>.", ".", PING),
    "a counter alone": ("counted", '<c>3<a>{"path": "a"}</c>', "", PATH),
    "a counter alone, and no arguments": ("counted", "<c>3<a>{}</c><c>4</c>", "", PING * 2),
    "a counter alone that fits no tool": ("counted", '<c>3<a>{"x": 1}</c>', '<c>3<a>{"x": 1}</c>',
                                          []),
    "a call that begins again": ("counted", "<cs><c>functions.wri<c>ping:0<a>{}</c></cs>", "",
                                 PING),
    "text in a silent section": (
        "counted", "a<cs> I <c>ping:0<a>{} will </c> now <c>ping:1<a>{}</c> call.</cs>b", "ab",
        PING * 2,
    ),
    "a silent section without a call": ("counted", "<cs>text</cs>", "<cs>text</cs>", []),
    "too much text in a silent section": (
        "counted", f"<cs>{'x' * MAX_ASIDE}y<c>ping:0<a>{{}}</c>", f"<cs>{'x' * MAX_ASIDE}y", PING,
    ),
    "tags": ("tags", '<function=write>{"path": "</function>"}</function>\n<function=ping/>.',
             "\n.", [("write", {"path": "</function>"}), *PING]),
    "a tag without its end": ("tags", "<function=ping>{} then", " then", PING),
    "a tag with nothing inside": ("tags", "<function=ping></function>", "", PING),
    "a tag in prose": ("tags", "Write <function= or <function=x y>.",
                       "Write <function= or <function=x y>.", []),
    "a program": ("tags", '<code>\nif a < b: "</s>"\n<function=x>{}\n', "",
                  [("python", {"code": '\nif a < b: "</s>"\n<function=x>{}\n'})]),
    "a program and the end of the turn": ("tags", "<code>x = 1<|eot_id|>", "<|eot_id|>",
                                          [("python", {"code": "x = 1"})]),
    "a program and the end of the answer": ("tags", "<code>x</s></s>\n", "</s>\n",
                                            [("python", {"code": "x</s>"})]),
    "no program": ("tags", "<code> </s>", "<code> </s>", []),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_it_reads(case: str) -> None:
    dialect, text, content, calls = READ[case]
    if len(text) > 1000:
        message = message_of(read(machine(dialect), one_by_one(text)))
        assert message == message_of(read(machine(dialect), [text]))
    else:
        message = parse(dialect, text)
    assert (message.text, complete_calls(message)) == (content, calls)


@pytest.mark.parametrize("case", READ)
def test_complete_calls_are_the_same_in_live_mode(case: str) -> None:
    dialect, text, _, calls = READ[case]
    events = read(machine(dialect, arguments="live"), one_by_one(text))
    found = complete_calls(message_of(events))
    assert found == [call for call in calls if call in found]
    if "broke" not in case:
        assert found == calls


def test_the_id_on_the_wire_is_the_id_of_the_call() -> None:
    (call,) = parse("brackets", "[CALLS]ping[ID]abc123XYZ[ARGS]{}").tool_calls
    assert call.id == "abc123XYZ"
    calls = parse("counted", "<cs><c>functions.ping:7<a>{}</c><c>8<a>{}</c></cs>").tool_calls
    assert [call.id for call in calls] == ["functions.ping:7", "8"]


BROKEN = {
    "brackets": '[CALLS]write[ARGS]{"path": "a" 1}[CALLS]ping{}',
    "typed": '<cs><c>write<sep>{"path": "a" 1}</c></cs>',
    "counted": '<cs><c>write:0<a>{"path": "a" 1}</c></cs>',
    "tags": '<function=write>{"path": "a" 1}</function>',
}


@pytest.mark.parametrize("dialect", BROKEN)
def test_a_live_call_that_breaks_drops_its_end_markers(dialect: str) -> None:
    message = parse(dialect, BROKEN[dialect] + ".", arguments="live")
    assert message.text == " 1}."
    assert message.tool_calls[0].arguments == {"path": "a"}
    assert not message.tool_calls[0].complete


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dialect", BROKEN)
def test_a_broken_call_is_mended_without_a_trace(dialect: str, mode: Mode) -> None:
    text = BROKEN[dialect].replace(" 1}", ' "mode": 1}')
    message = parse(dialect, text + ".", arguments=mode, repair=True)
    assert message.text == "."
    assert complete_calls(message)[0] == ("write", {"path": "a", "mode": 1})
    assert message.tool_calls[0].repairs


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dialect", BROKEN)
def test_a_call_that_the_model_left_open_is_closed(dialect: str, mode: Mode) -> None:
    text = BROKEN[dialect].partition('" 1}')[0]
    parser = machine(dialect, arguments=mode, repair=True)
    events = [*parser.feed(text), *parser.finish(cut=False)]
    assert complete_calls(message_of(events)) == PATH


@pytest.mark.parametrize("dialect", ["brackets", "tags"])
def test_on_error_is_told_of_the_segment(dialect: str) -> None:
    told: list[tuple[str, str]] = []
    parser = machine(dialect, on_error=lambda _, it: told.append((it.text, it.tool_name)))
    read(parser, [BROKEN[dialect]])
    assert told == [(BROKEN[dialect].removesuffix("[CALLS]ping{}"), "write")]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("dialect", "section"),
    [
        ("typed", "<cs></cs>"),
        ("typed", "<cs> nothing </cs>"),
        ("counted", "<cs></cs>"),
        ("counted", "<cs>nothing</cs>"),
        ("counted", "<cs></s>"),
        ("counted", "<s></s>"),
    ],
)
def test_the_segment_of_a_section_without_a_call_ends_with_its_end(
    dialect: str, section: str, mode: Mode
) -> None:
    for chunks in chunkings(f"a{section}x"):
        told: list[tuple[str, str]] = []
        on_error = partial(lambda told, why, it: told.append((why, it.text)), told)
        events = read(machine(dialect, arguments=mode, on_error=on_error), chunks)
        assert told == [("the section has no calls", section)]
        assert message_of(events).text == f"a{section}x"


def test_on_error_is_told_once_of_a_later_call_of_a_section() -> None:
    told: list[str] = []
    text = "<cs><c>ping<sep>{}</c><c>write<sep>{1}</c></cs>."
    read(machine("typed", on_error=lambda _, segment: told.append(segment.text)), [text])
    assert told == ["<c>write<sep>{1}</c>"]


BEGUN = {
    "brackets": '[CALLS]write[ARGS]{"path": "a',
    "typed": '<cs><c>function<sep>write\n```json\n{"path": "a',
    "counted": '<cs>aside<c>functions.write:0<a>{"path": "a',
    "tags": '<function=write>{"path": "a',
    "code": "<code>a",
}


@pytest.mark.parametrize("begun", BEGUN)
def test_the_characters_of_a_string_leave_as_they_come(begun: str) -> None:
    parser = machine("tags" if begun == "code" else begun, arguments="live")
    events = parser.feed(BEGUN[begun])
    assert any(isinstance(event, ToolCallStart) for event in events)
    for character in "to the turbine, one way":
        (event,) = parser.feed(character)
        assert isinstance(event, ToolCallDelta)
        assert event.arguments == event.raw == character


MARKS = {
    name: (*dialect.openers, *dialect.closers, *dialect.arguments, *dialect.wholes)
    for name, dialect in DIALECTS.items()
}
INSIDE = ("write", "functions.ping:0", "3", "function", '{"path": "a', '"}', "{}", "```", "[ID]")


@settings(max_examples=70)
@given(data=st.data(), name=st.sampled_from([*DIALECTS]), mode=st.sampled_from(MODES), cuts=CUTS)
def test_any_text_obeys_the_laws(
    data: st.DataObject, name: str, mode: Mode, cuts: list[int]
) -> None:
    text = data.draw(soup(*MARKS[name], *INSIDE))
    make = partial(machine, name, arguments=mode, repair=data.draw(st.booleans()))
    check_readings(make, text, [cut_at(text, cuts)])


@pytest.mark.parametrize("name", DIALECTS)
def test_prose_with_halves_of_markers_does_not_wait(name: str) -> None:
    halves = " ".join(mark[:-1] + " " for mark in MARKS[name] if len(mark) > 1)
    text = halves.replace("<function", "<functio") + " and so on"
    check_no_stall(partial(machine, name), text, max(map(len, MARKS[name])))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("name", "begin", "unit"),
    [
        ("counted", '<cs><c>write:0<a>{"path": "', "text \\n "),
        ("counted", '<cs><c>3<a>{"path": "', "text \\n "),
        ("counted", "<cs>", "<c>ping:0<a>{}</c> aside "),
        ("counted", "<cs>", "<c>"),
        ("typed", "", "<cs><c>"),
        ("typed", "", "</c>"),
        ("brackets", "", "[CALLS]x{1"),
        ("tags", "<code>", "a < b </s> "),
    ],
)
def test_the_cost_of_a_piece_does_not_grow(name: str, begin: str, unit: str, mode: Mode) -> None:
    def run(size: int) -> None:
        read(machine(name, arguments=mode), [begin, *[unit] * size])

    check_linear(run, 300, 3000, at_most=3, tries=2)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("brackets", "[CALLS]write"),
        ("brackets", "[CALLS]write[ID]"),
        ("typed", "<c>write"),
        ("typed", "<c>function<sep>write"),
        ("counted", "<cs>"),
        ("tags", "<function=write"),
    ],
)
def test_heads_without_arguments_cost_the_same_however_many_follow(name: str, unit: str) -> None:
    def run(size: int) -> None:
        read(machine(name), [unit * size])

    check_linear(run, 1500, 12_000, at_most=3, tries=2)
