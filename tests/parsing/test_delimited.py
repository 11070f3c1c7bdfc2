"""Calls that are spelled out: what is read, as which type, where it ends, and how it streams."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from laws import (
    check_bounded_holdback,
    check_no_leak,
    check_no_stall,
    check_readings,
    chunkings,
    one_by_one,
)
from parsing.delimited_samples import MARKS, MODES, SYNTAX, TOOLS, Mode, parse, spelled
from parsing.samples import complete_calls, message_of
from penstock.events import Event, ToolCallDelta, ToolCallStart
from penstock.parsing import Engine
from penstock.parsing.body import MAX_BLANK
from penstock.readers.delimited import MAX_KEY, MAX_NAME

READ = {
    "nothing": ("write{}", {}),
    "blanks in nothing": ("write{ \n }", {}),
    "a text": ("write{path:~a b~}", {"path": "a b"}),
    "an empty text": ("write{path:~~}", {"path": ""}),
    "a text of special characters": (
        'write{path:~"a\\n" {x: [1, 2]}, <b>\n</b>\t}~,mode:1}',
        {"path": '"a\\n" {x: [1, 2]}, <b>\n</b>\t}', "mode": 1},
    ),
    "halves of a mark in a text": ('write{path:~<|"|<|"<|<~}', {"path": '<|"|<|"<|<'}),
    "marks of calls in a text": (
        "write{path:~<|tool_call>call:ping{}<tool_call|>~}",
        {"path": "<|tool_call>call:ping{}<tool_call|>"},
    ),
    "blanks everywhere": (
        " write { path : ~a~ , mode : 5 , tags : [ ~b~ , c ] } ",
        {"path": "a", "mode": 5, "tags": ["b", "c"]},
    ),
    "bare literals": (
        "write{any:null,sure:true,mode:-5,k:2.5,e:1e3}",
        {"any": None, "sure": True, "mode": -5, "k": 2.5, "e": 1000.0},
    ),
    "a bare text": ("write{any: two words ,k:06:30}", {"any": "two words", "k": "06:30"}),
    "a bare text with a bracket that opens": ("write{k:a{b[c,any:1}", {"k": "a{b[c", "any": 1}),
    "a bare text with half a mark": ("write{k:a <|t,any:1}", {"k": "a <|t", "any": 1}),
    "no text at all": ("write{path:,k:}", {"path": "", "k": ""}),
    "numbers that are none in JSON": (
        "write{any:007,k:+1,l:.5,m:NaN}",
        {"any": "007", "k": "+1", "l": ".5", "m": "NaN"},
    ),
    "numbers that are too big": (
        f"write{{any:1e999,k:{'1' * 5000}}}",
        {"any": "1e999", "k": "1" * 5000},
    ),
    "objects and lists": (
        "write{any:{a:{b:[1,[],{}]},c:~d~},tags:[~x~,~y, z~]}",
        {"any": {"a": {"b": [1, [], {}]}, "c": "d"}, "tags": ["x", "y, z"]},
    ),
    "commas at the end": ("write{any:[1,{k:2,},],}", {"any": [1, {"k": 2}]}),
    "plain quotes": (
        'write{path:"it\'s",k:\'say "hi", {you}\'}',
        {"path": "it's", "k": 'say "hi", {you}'},
    ),
    "plain quotes at every level": (
        "write{any:[\"a\",['b',{\"k\":'c'}]],tags:['d'],\"plan\":{'at':\"e\"}}",
        {"any": ["a", ["b", {"k": "c"}]], "tags": ["d"], "plan": {"at": "e"}},
    ),
    "a quote inside of a bare text": ('write{k:O\'Neill "x"}', {"k": 'O\'Neill "x"'}),
    "delimited keys": (
        "write{~path~:~a~,~a:b~ :1,any:{~c,d~:2}}",
        {"path": "a", "a:b": 1, "any": {"c,d": 2}},
    ),
    "a key of two words between marks": ("write{~two words~:1}", {"two words": 1}),
    "a bare key of two words where any key may be": ("ns.x{two words:1}", {"two words": 1}),
    "a key of a value that comes again": ("write{any:{k:1,k:2}}", {"any": {"k": 2}}),
    "a tool that nobody knows": (
        "ns.tool-2:x{path:~a~,n:7,s:007}",
        {"path": "a", "n": 7, "s": "007"},
    ),
    "a mark that stands for arguments": ("ping", {}),
}


@pytest.mark.parametrize(("call", "arguments"), READ.values(), ids=READ)
@pytest.mark.parametrize("mode", MODES)
def test_arguments_are_read_in_all_their_forms(
    call: str, arguments: dict[str, Any], mode: Mode
) -> None:
    make = partial(Engine, SYNTAX, TOOLS, arguments=mode)
    text = spelled(f"a «{call}» b")
    ways = [one_by_one(text)] if len(text) > 999 else chunkings(text)
    message = message_of(check_readings(make, text, ways))
    assert [(c.arguments, c.complete) for c in message.tool_calls] == [(arguments, True)]
    assert message.text == "a  b"


DAMAGED = {
    "words before a key": "write{this is the path:~a~}",
    "a comment before a key": "write{/* note */path:~a~}",
    "a comment after a literal": "write{path:~a~,mode:7/* note */}",
    "a bracket before a number": "write{path:~a~,mode:(7}",
}


@pytest.mark.parametrize("call", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("mode", MODES)
def test_a_damaged_key_or_value_makes_no_complete_call(call: str, mode: Mode) -> None:
    make = partial(Engine, SYNTAX, TOOLS, arguments=mode)
    message = message_of(check_readings(make, text := spelled(f"a «{call}» b"), chunkings(text)))
    assert [call for call in message.tool_calls if call.complete] == []


TYPED = {
    "a number where text is wanted": ("path:1.50", {"path": "1.50"}),
    "a word of JSON where text is wanted": ("path:null", {"path": "null"}),
    "text inside of a list": ("tags:[5,true,~x~,007]", {"tags": ["5", "true", "x", "007"]}),
    "text inside of an object": ("plan:{at:0630,n:~4~}", {"plan": {"at": "0630", "n": 4}}),
    "null where it is allowed": ("note:null", {"note": None}),
    "a number where text or null is wanted": ("note:5", {"note": "5"}),
    "a text that says null": ("note:~null~", {"note": "null"}),
    "a number where text or a number is wanted": ("size:5", {"size": 5}),
    "another number there": ("size:1.5", {"size": "1.5"}),
    "a text where text or a number is wanted": ("size:~5~", {"size": "5"}),
    "a text that says a number": ("mode:~5~", {"mode": 5}),
    "a plain text that says a number": ('mode:"5"', {"mode": 5}),
    "a word that says a boolean": ("sure:True", {"sure": True}),
    "a word that says nothing of the kind": ("mode:many", {"mode": "many"}),
    "a member of an enum": ("unit:1", {"unit": "1"}),
    "a text that says an object": ('plan:~{"at": "x"}~', {"plan": {"at": "x"}}),
}


@pytest.mark.parametrize(("arguments", "expected"), TYPED.values(), ids=TYPED)
def test_values_are_what_the_schema_wants(arguments: str, expected: dict[str, Any]) -> None:
    assert complete_calls(parse(f"«write{{{arguments}}}»")) == [("write", expected)]


ANSWERS = {
    "calls behind each other": ("«ping{}»«ping{}»", ["ping", "ping"], ""),
    "white space between calls": ("«ping{}» \n«ping{}»", ["ping", "ping"], " \n"),
    "white space around `call:`": (f"{MARKS.start}\n call: ping\n{{}}»", ["ping"], ""),
    "no end marker": ("«ping{}", ["ping"], ""),
    "half an end marker": ("«ping{}\n<tool_c", ["ping"], ""),
    "no end marker before the next call": ("«ping{}«ping{}»", ["ping", "ping"], ""),
    "no end marker before text": ("«ping{} so", ["ping"], " so"),
    "an end marker behind text": ("«ping{} so» on", ["ping"], " so on"),
    "brackets too many": ("«ping{}} ]]» on", ["ping"], " on"),
    "white space up to its limit": (f"«ping{{}}{' ' * MAX_BLANK}»", ["ping"], ""),
    "white space past its limit": (
        f"«ping{{}}{' ' * (MAX_BLANK + 1)}»",
        ["ping"],
        " " * (MAX_BLANK + 1),
    ),
    "a name of just the limit": (f"«{'n' * MAX_NAME}{{}}»", ["n" * MAX_NAME], ""),
    "the end marker alone": ("so» on", [], "so<tool_call|> on"),
}


@pytest.mark.parametrize(("text", "names", "content"), ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("mode", MODES)
def test_calls_end_where_they_end(text: str, names: list[str], content: str, mode: Mode) -> None:
    make = partial(Engine, SYNTAX, TOOLS, arguments=mode)
    message = message_of(check_readings(make, spelled(text)))
    assert [name for name, _ in complete_calls(message)] == names
    assert message.text == content


# --- as it comes ---

HELD = ["a", "/b\\n", " < c", "", "<|x", "é", "\\\\"]
FREE = ["a", "/b\\n", " < c", "<", "|x", "é", "\\\\"]


@pytest.mark.parametrize(
    ("opening", "key", "written"),
    [
        pytest.param("path:~", "path", HELD, id="a string by its schema"),
        pytest.param("any:~", "any", HELD, id="a string where anything is right"),
        pytest.param("new:~", "new", HELD, id="a string of which no schema speaks"),
        pytest.param("~path~:~", "path", HELD, id="behind a delimited key"),
        pytest.param("path:'", "path", FREE, id="in plain quotes"),
    ],
)
def test_texts_stream_character_by_character(opening: str, key: str, written: list[str]) -> None:
    parser = Engine(SYNTAX, TOOLS, arguments="live")
    (start,) = parser.feed(spelled("«write{"))
    assert isinstance(start, ToolCallStart)
    assert start.name == "write"
    pieces = [spelled(opening), "a", "/b\n", " < c", "<", "|x", "é", "\\"]
    assert [deltas_of(parser.feed(piece)) for piece in pieces] == [f'{{"{key}":"', *written]


def deltas_of(events: list[Event]) -> str:
    assert all(isinstance(event, ToolCallDelta) for event in events)
    return "".join(event.arguments for event in events if isinstance(event, ToolCallDelta))


def test_any_other_value_comes_when_it_is_closed() -> None:
    parser = Engine(SYNTAX, TOOLS, arguments="live")
    parser.feed(spelled("«write{"))
    steps = {
        "mode:~": "",
        "5": "",
        "~": '{"mode":5',
        ",any:[": "",
        "~a~,{k:1}": "",
        "]": ',"any":["a",{"k":1}]',
        ",sure:true": "",
        "}": ',"sure":true',
        "»": "}",  # A member after the brace would show that it came too early.
    }
    for text, written in steps.items():
        assert (
            deltas_of([e for e in parser.feed(spelled(text)) if e.type != "toolcall_end"])
            == written
        )


def test_no_more_is_held_back_than_may_begin_a_mark() -> None:
    make = partial(Engine, SYNTAX, TOOLS, arguments="live")
    check_no_stall(make, "a < b <| <|tool_cal <tool_call| <|t", len(MARKS.start))
    check_bounded_holdback(
        make, spelled("«write{path:~") + 'x <|"|< ' * 99, len("«write{path:~") * 2
    )
    check_bounded_holdback(make, spelled("«write{") + "words " * 999, MAX_KEY + len(MARKS.start))
    check_bounded_holdback(make, MARKS.start + " " * 9999, MAX_BLANK + len(MARKS.start) + 1)


@pytest.mark.parametrize("mode", MODES)
def test_no_marker_shows_beside_a_call(mode: Mode) -> None:
    make = partial(Engine, SYNTAX, TOOLS, arguments=mode)
    text = spelled("Hi «write{path:~a~}» and «ping{}}\n».")
    for chunks in chunkings(text):
        check_no_leak(make, chunks, [MARKS.start, MARKS.end, MARKS.quote, "tool_call"])
