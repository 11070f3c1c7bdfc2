"""Calls in Python: lists, lines and lone lists, whole and live, at every cut."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import (
    check_bounded_holdback,
    check_linear,
    check_no_leak,
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
from penstock.formats.pythonic import PythonCalls
from penstock.messages import AssistantMessage
from penstock.parsing import Engine
from penstock.parsing.body import MAX_BLANK
from penstock.readers.pythonic import MAX_NAME
from penstock.tools import Tool
from penstock.values.json_grammar import MAX_DEPTH

Mode = Literal["whole", "live"]
MODES: tuple[Mode, ...] = ("whole", "live")

BARE = PythonCalls(bare=True)
MARKED = PythonCalls("<s>", "</s>", bare=True)
LINES = PythonCalls("<s>", "</s>", lines=True)
EITHER = PythonCalls("<s>", "</s>", json=True)

TOOLS = [
    Tool(
        "write",
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "mode": {"type": "integer"},
                "unit": {"enum": ["kg", "lb"]},
                "tags": {"type": "array"},
            },
            "required": ["path"],
        },
    ),
    Tool("ns.ping"),
]


def parse(text: str, calls: PythonCalls = BARE, **options: Any) -> AssistantMessage:
    return message_of(read(Engine(calls, TOOLS, **options), [text]))


def write(**arguments: Any) -> tuple[str, dict[str, Any]]:
    return "write", arguments


PING: tuple[str, dict[str, Any]] = ("ns.ping", {})

CASES: list[tuple[str, PythonCalls, str, list[tuple[str, dict[str, Any]]], str]] = [
    ("two calls", BARE, "[write(path='a'), ns.ping()]", [write(path="a"), PING], ""),
    (
        "space everywhere",
        BARE,
        " \n[ write ( path = 'a' ,\n mode = 3 , ) , ]",
        [write(path="a", mode=3)],
        "",
    ),
    (
        "comments inside the brackets",
        BARE,
        "[write( # [one]\n path='a') # two)\n]",
        [write(path="a")],
        "",
    ),
    (
        "an argument in a comment",
        BARE,
        "[write(path='a', # mode='b',\n mode='c')]",
        [write(path="a", mode="c")],
        "",
    ),
    (
        "adjacent strings",
        BARE,
        "[write(path='a' \"b\"\n'''c''')]",
        [write(path="abc")],
        "",
    ),
    ("coerced", BARE, "[write(path=5, mode='7')]", [write(path="5", mode=7)], ""),
    ("an enum waits", BARE, "[write(unit='k' 'g')]", [write(unit="kg")], ""),
    (
        "positional, then by name",
        BARE,
        "[write('a', 3, tags=(1, 2))]",
        [write(path="a", mode=3, tags=[1, 2])],
        "",
    ),
    ("positional words", BARE, "[write(r'\\a', None)]", [write(path="\\a", mode=None)], ""),
    ("keys of other languages", MARKED, "<s>[f(a-b.c=1)]</s>", [("f", {"a-b.c": 1})], ""),
    ("later names are not looked up", BARE, "[ns.ping(), other()]", [PING, ("other", {})], ""),
    ("what follows is text", BARE, "[ns.ping()] and [ns.ping()]", [PING], "and [ns.ping()]"),
    ("not where the answer begins", BARE, "So: [ns.ping()]", [], "So: [ns.ping()]"),
    ("an unknown first name", BARE, "[other(), ns.ping()]", [], "[other(), ns.ping()]"),
    ("a list of something else", BARE, "[1, 'a', (2)]", [], "[1, 'a', (2)]"),
    ("a link", BARE, "[write](x) it", [], "[write](x) it"),
    ("an empty list", BARE, "[]", [], "[]"),
    ("a name without a parenthesis", BARE, "[write", [], "[write"),
    ("markers take any name", MARKED, "a <s>[x:y-z.w()]</s> b", [("x:y-z.w", {})], "a b"),
    ("a lone list and an end marker", MARKED, "[ns.ping()]</s>b", [PING], "b"),
    ("no end marker", MARKED, "<s>[ns.ping()] b", [PING], "b"),
    ("a late end marker", MARKED, "<s>[ns.ping()] b</s> c", [PING], "b c"),
    ("a cut end marker", MARKED, "<s>[ns.ping()]\n</", [PING], ""),
    ("surplus brackets", MARKED, "<s>[ns.ping()])]</s>b", [PING], "b"),
    ("a marker in a string", MARKED, "<s>[f(a='</s>')]</s>", [("f", {"a": "</s>"})], ""),
    ("markers around nothing", MARKED, "<s>[]</s>", [], "<s>[]</s>"),
    ("no list between markers", MARKED, "<s>import x</s>", [], "<s>import x</s>"),
    ("a call a line", LINES, "<s>\nf()\n\n g(a=1)\n</s>b", [("f", {}), ("g", {"a": 1})], "b"),
    ("commas between lines", LINES, "<s>f(), g();h()</s>", [(n, {}) for n in "fgh"], ""),
    ("lines in brackets", LINES, "<s>[f(),\ng()]</s>", [("f", {}), ("g", {})], ""),
    ("lines without an end", LINES, "<s>f()\nIt is done", [("f", {})], "It is done"),
    ("no lines", LINES, "the <s></s> tags", [], "the <s></s> tags"),
    (
        "objects in JSON",
        EITHER,
        '<s> [\n{"name": "f", "arguments": {"a": true}}]</s>b',
        [("f", {"a": True})],
        "b",
    ),
    ("one object in JSON", EITHER, '<s>{"name": "f"}</s>', [("f", {})], ""),
    ("Python beside JSON", EITHER, "<s>[ f(a={'b': null})]</s>", [("f", {"a": {"b": None}})], ""),
    ("neither", EITHER, "<s>(1)</s>", [], "<s>(1)</s>"),
    ("cut before it can be told", EITHER, "<s> [ ", [], "<s> [ "),
    ("the second breaks", BARE, "[ns.ping(), write(path=x)]", [PING], ", write(path=x)]"),
    ("the second is cut", BARE, "[ns.ping(), write(path='x", [PING], ", write(path='x"),
    ("the bracket is cut", BARE, "[ns.ping()", [PING], ""),
    ("no comma between calls", BARE, "[ns.ping() ns.ping()]", [PING], "ns.ping()]"),
    ("a value that is a name", BARE, "[write(path=x)]", [], "[write(path=x)]"),
    ("a value that is a sum", BARE, "[write(path='a' + 'b')]", [], "[write(path='a' + 'b')]"),
    ("an argument after names", BARE, "[write(path='a', 3)]", [], "[write(path='a', 3)]"),
    ("too many arguments", BARE, "[ns.ping(1)]", [], "[ns.ping(1)]"),
    ("unpacking", BARE, "[write(**{'a': 1})]", [], "[write(**{'a': 1})]"),
    ("two commas", BARE, "[write(path='a',,)]", [], "[write(path='a',,)]"),
    (
        "a broken list, and a whole one behind it",
        MARKED,
        "<s>[f(a=x)]</s> <s>[g()]</s>",
        [("g", {})],
        "<s>[f(a=x)]</s>",
    ),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("calls", "text", "expected", "content"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_a_case_reads_the_same_whole_by_characters_and_at_every_cut(
    calls: PythonCalls,
    text: str,
    expected: list[tuple[str, dict[str, Any]]],
    content: str,
    mode: Mode,
) -> None:
    events = check_readings(partial(Engine, calls, TOOLS, arguments=mode), text)
    message = message_of(events)
    assert complete_calls(message) == expected
    if mode == "whole":
        assert message.text.split() == content.split()


PIECES = soup(
    "<s>", "</s>", "[write(", "ns.ping()", "f(", "path='", 'path="', "path='''", "mode=", "tags=",
    "unit='kg'", "'", '"', "'''", "\\'", "\\x4", "\\u00e9", "\\ud83d", "\\ude00", "\\\n", "\\N{",
    "r'", "f'", ")", "]", "(", ",", ", ", "=", ": ", "#", "1", "-", "1e-5", "True", "null",
    "{'a': [1]}", "[write(path='a', mode=3), ns.ping()]",
    '[{"name": "write", "arguments": {"path": "a"}}]', " " * (MAX_BLANK + 1), "n" * (MAX_NAME + 1),
)  # fmt: skip
OPENINGS = st.sampled_from(["", "[write(", "<s>[write(", "<s>write(path='", "<s>[f(a=['", "<s>"])


@settings(max_examples=70)
@given(
    text=st.builds(str.__add__, OPENINGS, PIECES),
    calls=st.sampled_from([BARE, MARKED, LINES, EITHER]),
    cuts=CUTS,
    mode=st.sampled_from(MODES),
    repair=st.booleans(),
)
def test_the_laws_hold_on_any_text_at_any_cut(
    text: str,
    calls: PythonCalls,
    cuts: list[int],
    mode: Mode,
    repair: bool,  # noqa: FBT001
) -> None:
    make = partial(Engine, calls, TOOLS, arguments=mode, repair=repair)
    check_readings(make, text, [cut_at(text, cuts), one_by_one(text)])


@given(text=st.builds(str.__add__, OPENINGS, PIECES), calls=st.sampled_from([BARE, LINES, EITHER]))
def test_a_complete_call_is_the_same_in_both_modes(text: str, calls: PythonCalls) -> None:
    whole, live = (parse(text, calls, arguments=mode) for mode in MODES)
    if all(call.complete for call in live.tool_calls):
        assert complete_calls(whole) == complete_calls(live)


@pytest.mark.parametrize("mode", MODES)
def test_no_marker_shows_beside_a_call(mode: Mode) -> None:
    make = partial(Engine, MARKED, TOOLS, arguments=mode)
    for chunks in chunkings("a<s>[write(path='x'), f(n=1)] </s>b"):
        check_no_leak(make, chunks, ["<s>", "</s>"])


def test_nothing_is_held_back_but_what_may_begin_a_marker() -> None:
    check_no_stall(partial(Engine, LINES), "a < b <tool </s> [x(1)] f(a=1) <", len("<s>"))


def test_a_list_that_may_become_calls_is_held_back_up_to_a_limit() -> None:
    limit = 2 * MAX_BLANK + MAX_NAME + 2
    for text in ("[" + " " * 2000, "[" + "n" * 2000, "[ write" + " " * 2000):
        check_bounded_holdback(partial(Engine, BARE, TOOLS), text, limit)


# --- streaming ---


def deltas(*chunks: str, calls: PythonCalls = MARKED) -> list[str]:
    """Give what each chunk adds to the arguments, live."""
    machine = Engine(calls, TOOLS, arguments="live")
    return [
        "".join(
            event.arguments for event in machine.feed(chunk) if isinstance(event, ToolCallDelta)
        )
        for chunk in chunks
    ]


def test_the_name_goes_out_when_its_first_argument_begins() -> None:
    machine = Engine(BARE, TOOLS, arguments="live")
    assert machine.feed("[write") == []
    assert machine.feed("(") == []
    (start, *_) = machine.feed("'")
    assert isinstance(start, ToolCallStart)
    assert start.name == "write"


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        (("'", "a", "b", "\\", "n", "c", "'", ")", "]"),
         ["", '{"x":"a', "b", "", "\\n", "c", "", '"', "}"]),
        (('"é', '\\"', "'", '"', ","), ['{"x":"é', '\\"', "'", "", '"']),
        (("'''a", "'", "'b", "\n", '"', "'''", ")", "]"),
         ['{"x":"a', "", "''b", "\\n", '\\"', "", '"', "}"]),
        (("'a", "' ", "#c\n", "'b", "'"), ['{"x":"a', "", "", "b", ""]),
        (("'\\", "u00", "e9", "x"), ['{"x":"', "", "é", "x"]),
        (("'\\ud83d", "\\ude00", "x"), ['{"x":"', "😀", "x"]),
        (("r'", "\\", "d", "x"), ["", '{"x":"', "\\\\d", "x"]),
        (("[1,", " 2", "]"), ["", "", '{"x":[1,2]']),
        (("1", "2", ","), ["", "", '{"x":12']),
    ],
    ids=["plain and escapes", "other quotes", "three quotes", "adjacent", "a code", "a pair", "raw",
         "a list when closed", "a number when ended"],
)  # fmt: skip
def test_a_string_leaves_as_it_comes(chunks: tuple[str, ...], expected: list[str]) -> None:
    assert deltas("<s>[f(x=", *chunks)[1:] == expected


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("quote", ["'", '"', "'''", '"""'])
def test_a_string_that_streams_says_the_same_as_one_that_came_whole(quote: str, mode: Mode) -> None:
    inside = "plain \\n \\' \\\" \\\\ \\x41 \t raw é \\ud83d\\ude00 \\d it\\'s " * 3
    text = f"<s>[write(path={quote}{inside}{quote})]</s>"
    (whole,) = parse(text, MARKED).tool_calls
    for size in (1, 2, 3, 4, 7):
        chunks = [text[at : at + size] for at in range(0, len(text), size)]
        (call,) = message_of(read(Engine(MARKED, TOOLS, arguments=mode), chunks)).tool_calls
        assert call == whole
    assert whole.arguments["path"] == "plain \n ' \" \\ A \t raw é 😀 \\d it's " * 3


# --- broken, cut, mended ---


def test_a_call_that_breaks_live_is_incomplete_and_reading_goes_on() -> None:
    message = parse("<s>[f(a='x', b=y)]</s> then <s>[g()]</s>", MARKED, arguments="live")
    assert [(call.name, call.arguments, call.complete) for call in message.tool_calls] == [
        ("f", {"a": "x"}, False),
        ("g", {}, True),
    ]
    assert message.text == ", b=y)] then ", "the end marker of the broken call is dropped"


def test_who_listens_is_told_why() -> None:
    told: list[str] = []
    parse("<s>[f(a=x)]</s>", MARKED, on_error=lambda _, segment: told.append(str(segment.error)))
    parse("see [this] and [f(a=x)]", BARE, on_error=lambda message, _: told.append(message))
    assert told == ["`x` is not a literal"], "prose is no error"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("<s>[write(path='a", {"path": "a"}),
        ("<s>[write(path='a\\", {"path": "a"}),
        ("<s>[write(path='a'", {"path": "a"}),
        ("<s>[write(path='a', mo", {"path": "a"}),
        ("<s>[write(path='a', mode=3", {"path": "a", "mode": 3}),
        ("<s>[write(path='a', tags=['x', ('y", {"path": "a", "tags": ["x", "y"]}),
        ("<s>[write('a' 'b", {"path": "ab"}),
        ("<s>[write(path='a'</s>", {"path": "a"}),
        ("<s>[write(path='a', tags=['x' </s> b", {"path": "a", "tags": ["x"]}),
    ],
)
def test_what_the_model_left_open_is_closed(
    text: str, arguments: dict[str, Any], mode: Mode
) -> None:
    for chunks in ([text], one_by_one(text)):
        machine = Engine(EITHER, TOOLS, arguments=mode, repair=True)
        events = [event for chunk in chunks for event in machine.feed(chunk)]
        message = message_of([*events, *machine.finish(cut=False)])
        (call,) = message.tool_calls
        assert (call.complete, call.arguments) == (True, arguments)
        assert call.repairs == ["closed an open call"]
        assert message.text == text.partition("</s>")[2]


@pytest.mark.parametrize(
    "text",
    [
        "<s>[write(path='it's', other='a')]</s>",  # the tool has no such argument
        "<s>[write(path='a', mode=",  # what the model wanted to say is missing
        "<s>[write(path='a', tags=Tru",
        "<s>[write(mode=3",  # what is required is missing
        "<s>[other(path='a",  # nobody knows the tool
        "<s>[wri",
    ],
)
def test_what_cannot_be_mended_is_text(text: str) -> None:
    machine = Engine(EITHER, TOOLS, repair=True)
    message = message_of([*machine.feed(text), *machine.finish(cut=False)])
    assert (message.tool_calls, message.text) == ([], text)


def test_a_cut_call_is_never_closed() -> None:
    message = parse("<s>[write(path='a", MARKED, repair=True)
    assert (message.tool_calls, message.text) == ([], "<s>[write(path='a")


# --- hostile input ---


@pytest.mark.parametrize("mode", MODES)
def test_values_nest_up_to_a_limit(mode: Mode) -> None:
    depth = MAX_DEPTH - 1
    for size, complete in ((depth, 1), (depth + 1, 0), (5_000, 0)):
        text = f"<s>[f(a={'[' * size}{']' * size})]</s>"
        assert len(complete_calls(parse(text, MARKED, arguments=mode))) == complete


@pytest.mark.parametrize(
    ("opening", "unit"),
    [
        ("<s>[f(a='", "text "),
        ("<s>[f(a='", "\\n\\x41\\'"),
        ("<s>[f(a=[", "(1, 'b'), "),
        ("<s>[", "f(a=1), "),
        ("<s>[f(", "a=1, "),
        ("<s>[f(a=", "'x' "),
        ("<s>[f(a= #", "comment "),
        ("<s>[f(a=", "9_"),
        ("[write(path='", "[write("),
        ("", "[write("),
        ("", "[write(path=x)] "),
        ("", "<s>[f(x) "),
    ],
)
def test_the_cost_is_linear_in_small_pieces(opening: str, unit: str) -> None:
    def run(units: int) -> None:
        machine = Engine(MARKED, TOOLS, arguments="live")
        text = opening + unit * units
        for at in range(0, len(text), 4):
            machine.feed(text[at : at + 4])
        machine.finish()

    check_linear(run, 200, 2000, at_most=3, tries=3)
