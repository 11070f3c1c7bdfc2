"""Calls with raw values: what is read, as which type, where a value ends, and how it streams."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from laws import check_bounded_holdback, check_monotone, check_no_leak, check_no_stall, chunkings
from parsing.parameter_samples import (
    CUTS,
    DISTINCT,
    FORMATS,
    MODES,
    TOOLS,
    Mode,
    as_text,
    closed,
    dialect_of,
    opened,
    parameter,
    parse,
    read_at_every_cut,
    written,
)
from parsing.samples import complete_calls, message_of
from penstock.events import Event, ToolCallDelta, ToolCallStart
from penstock.readers.tagged.tags import MAX_GAP, MAX_NAME, MAX_TAG

EVERY = pytest.mark.parametrize("name", DISTINCT)

# --- what every dialect has in common ---


PLAIN = pytest.mark.parametrize("name", [n for n in DISTINCT if not dialect_of(n).special])
SPECIAL = pytest.mark.parametrize("name", [n for n in DISTINCT if dialect_of(n).special])


@PLAIN
@pytest.mark.parametrize("mode", MODES)
def test_tags_in_quotes_and_tags_that_balance_are_data(name: str, mode: Mode) -> None:
    end = dialect_of(name).parameter_end
    example = opened(name, "other") + parameter(name, "path", "a") + closed(name)
    value = f'x = s.split("{end}") + \'{end}\\n\'\t"y" \\ é <b>{end[:-1]} & &lt;\n{example}\nz'
    text = f"a {written(name, ('path', value), ('mode', ' 5 '))} b"
    make = partial(FORMATS[name].parser, TOOLS, arguments=mode)
    events = read_at_every_cut(make, text, every=CUTS[mode])
    check_monotone(events)
    message = message_of(events)
    assert complete_calls(message) == [("write", {"path": value, "mode": 5})]
    assert message.text == "a  b"


@SPECIAL
def test_a_tag_that_is_a_special_token_never_is_data(name: str) -> None:
    end = parameter(name, "path", "").removeprefix(parameter(name, "path"))
    text = written(name, ("path", f'x = "{end}" y'), ("mode", "5"))
    assert parse(name, text).text == as_text(name, text)
    assert not complete_calls(parse(name, text, arguments="live", repair=True, cut=False))


@EVERY
@pytest.mark.parametrize("mode", MODES)
def test_an_end_without_a_beginning_makes_the_call_incomplete(name: str, mode: Mode) -> None:
    prefix = dialect_of(name).spelling.prefix
    end = prefix + dialect_of(name).parameter_end.replace("KEY", "path")
    text = written(name, ("path", f"x {end} y"), ("mode", "5"))
    make = partial(FORMATS[name].parser, TOOLS, arguments=mode, repair=True)
    assert not complete_calls(message_of(read_at_every_cut(make, text, every=CUTS[mode])))


TYPED = {
    "a number where text is wanted": ("path", "1.50", "1.50"),
    "a word of JSON where text is wanted": ("path", "null", "null"),
    "null where it is allowed": ("note", "null", None),
    "blanks around null": ("note", " null ", None),
    "a number where text or null is wanted": ("note", "5", "5"),
    "a number where text or a number is wanted": ("size", "5", "5"),
    "an object where text or an object is wanted": ("data", ' {"a": 1} ', {"a": 1}),
    "a list where text or an object is wanted": ("data", "[1]", "[1]"),
    "almost an object there": ("data", "{a: 1}", "{a: 1}"),
    "an integer": ("mode", "-5", -5),
    "a number that is whole": ("mode", "4.0", 4),
    "a word where a number is wanted": ("mode", "many", "many"),
    "a boolean in another case": ("sure", "TRUE", True),
    "a member of an enum": ("unit", "KG", "kg"),
    "a list": ("tags", '["a", "b, c"]', ["a", "b, c"]),
    "a list as Python has it": ("tags", "['a']", ["a"]),
    "text where a list is wanted": ("tags", "a", ["a"]),
    "a list without brackets": ("tags", "a, b", ["a", "b"]),
    "a number where a list is wanted": ("steps", "5", [5]),
    "a list whose items are coerced": ("steps", '["5"]', [5]),
    "an object": ("plan", '{"at": "x", "n": 4}', {"at": "x", "n": 4}),
    "text where an object is wanted": ("plan", "at dawn", "at dawn"),
    "anything where anything is right": ("any", "[1]", "[1]"),
    "a parameter that nobody knows": ("new", "5", "5"),
}


@EVERY
@pytest.mark.parametrize(("key", "value", "expected"), TYPED.values(), ids=TYPED)
def test_values_are_what_the_schema_wants(name: str, key: str, value: str, expected: Any) -> None:
    assert complete_calls(parse(name, written(name, (key, value)))) == [("write", {key: expected})]


@EVERY
def test_values_of_an_unknown_tool_stay_text(name: str) -> None:
    text = written(name, ("path", "a"), ("n", "5"), tool="ns.tool-2:x")
    assert complete_calls(parse(name, text)) == [("ns.tool-2:x", {"path": "a", "n": "5"})]


@EVERY
@pytest.mark.parametrize("mode", MODES)
def test_a_list_that_comes_again_is_one_list_and_a_text_that_does_is_no_call(
    name: str, mode: Mode
) -> None:
    text = written(name, ("tags", "a"), ("mode", "1"), ("tags", "b"), ("path", "c"))
    make = partial(FORMATS[name].parser, TOOLS, arguments=mode)
    events = read_at_every_cut(make, text, every=CUTS[mode])
    check_monotone(events)
    (call,) = complete_calls(message_of(events))
    assert call == ("write", {"path": "c", "mode": 1, "tags": ["a", "b"]})
    assert deltas_of(events).count('"tags"') == 1
    again = written(name, ("path", "a"), ("mode", "1"), ("path", "b"))
    assert not complete_calls(parse(name, again, arguments=mode, repair=True, cut=False))


@EVERY
@pytest.mark.parametrize("value", ['["a"', 'so ["a"]', '["a"] so', '"a", "b"]'])
def test_a_list_that_cannot_be_read_is_no_list_of_its_text(name: str, value: str) -> None:
    text = written(name, ("path", "a"), ("tags", value))
    assert parse(name, text).text == as_text(name, text)


@EVERY
@pytest.mark.parametrize("mode", MODES)
def test_a_section_may_hold_several_calls_and_lack_its_end(name: str, mode: Mode) -> None:
    dialect = dialect_of(name)
    prefix = dialect.spelling.prefix
    call = prefix + dialect.call.replace("NAME", "ping") + prefix + dialect.call_end
    section = prefix + dialect.section if dialect.section else ""
    text = f"{section}\n{call}\n{call} and on"
    make = partial(FORMATS[name].parser, TOOLS, arguments=mode)
    message = message_of(read_at_every_cut(make, text, every=CUTS[mode]))
    assert complete_calls(message) == [("ping", {}), ("ping", {})]
    assert message.text.strip() == "and on"


SECTIONED = pytest.mark.parametrize("name", [n for n in DISTINCT if dialect_of(n).section])


@SECTIONED
def test_the_end_of_a_section_is_dropped_even_if_it_was_never_begun(name: str) -> None:
    dialect = dialect_of(name)
    prefix = dialect.spelling.prefix
    call = prefix + dialect.call.replace("NAME", "ping") + prefix + dialect.call_end
    end = prefix + dialect.section_end
    make = partial(FORMATS[name].parser, TOOLS)
    message = message_of(read_at_every_cut(make, f"{call}\n{end} so"))
    assert (complete_calls(message), message.text) == ([("ping", {})], " so")
    assert parse(name, f"{call} so {end}").text == " so "
    section = prefix + dialect.section
    assert parse(name, f"{section}{call} so {end} on").text == " so  on"


@EVERY
def test_white_space_between_tags_has_a_limit(name: str) -> None:
    for size, is_end in ((MAX_GAP, True), (MAX_GAP + 1, False)):
        text = opened(name) + parameter(name, "path", "a") + " " * size + closed(name)
        assert (complete_calls(parse(name, text)) == [("write", {"path": "a"})]) == is_end


# --- as it comes ---


@EVERY
def test_texts_stream_character_by_character(name: str) -> None:
    parser = FORMATS[name].parser(TOOLS, arguments="live")
    events = parser.feed(opened(name) + parameter(name, "path") + "a")
    assert isinstance(events[0], ToolCallStart)
    assert events[0].name == "write"
    pieces = ["b", '"\\', " < c", "é", "</", "x> &lt;", "\n", "d"]
    deltas = [deltas_of(parser.feed(piece)) for piece in pieces]
    assert "".join([deltas_of(events), *deltas]) == '{"path":"ab\\"\\\\ < cé</x> &lt;\\nd'
    assert [bool(delta) for delta in deltas[:4]] == [True, True, True, True]


def deltas_of(events: list[Event]) -> str:
    return "".join(event.arguments for event in events if isinstance(event, ToolCallDelta))


@EVERY
def test_any_other_value_comes_when_it_is_closed(name: str) -> None:
    parser = FORMATS[name].parser(TOOLS, arguments="live")
    parser.feed(opened(name) + parameter(name, "mode"))
    assert deltas_of(parser.feed("5")) == ""
    end = parameter(name, "mode", "").removeprefix(parameter(name, "mode"))
    assert deltas_of(parser.feed(end + closed(name))) == '{"mode":5}'


@EVERY
def test_what_was_held_back_is_shown_where_the_text_is_cut(name: str) -> None:
    text = opened(name) + parameter(name, "path") + "a "
    end = parameter(name, "path", "").removeprefix(parameter(name, "path"))
    message = parse(name, text + end[:-1] + " b", arguments="live")
    (call,) = message.tool_calls
    assert not call.complete
    assert message.text == ""
    deltas = read_at_every_cut(
        partial(FORMATS[name].parser, TOOLS, arguments="live"), text + end[:-1]
    )
    assert deltas_of(deltas) == f'{{"path":"a {end[:-1]}'


@EVERY
def test_no_more_is_held_back_than_may_begin_a_tag(name: str) -> None:
    make = partial(FORMATS[name].parser, TOOLS, arguments="live")
    wrappers = (wrapper.marker for wrapper in FORMATS[name].wrappers)
    longest = max(map(len, (*dialect_of(name).starts, *wrappers)))
    check_no_stall(make, "a < b <| <tool </minimax ]<]mini <fun", longest)
    head = opened(name) + parameter(name, "path")
    check_bounded_holdback(make, head + "x </ < </p ]<] " * 99, len(head) + MAX_GAP)
    check_bounded_holdback(make, opened(name) + " " * 9999, len(head) + MAX_GAP + 1)
    check_bounded_holdback(make, dialect_of(name).starts[-1] + '"x' * 2000, 2 * MAX_TAG)
    end = parameter(name, "path", "").removeprefix(parameter(name, "path"))
    check_bounded_holdback(make, head + (end + " " * 400) * 9, len(head) + MAX_GAP + MAX_TAG)


@EVERY
@pytest.mark.parametrize("mode", MODES)
def test_no_marker_shows_beside_a_call(name: str, mode: Mode) -> None:
    dialect = dialect_of(name)
    marks = [*dialect.starts, dialect.call_end, dialect.section_end or dialect.call_end]
    text = f"Hi {written(name, ('path', 'a'))} and {written(name, tool='ping')}\n."
    for chunks in chunkings(text):
        make = partial(FORMATS[name].parser, TOOLS, arguments=mode)
        check_no_leak(make, chunks, marks)


@EVERY
def test_names_have_a_limit(name: str) -> None:
    long = "n" * MAX_NAME
    assert complete_calls(parse(name, written(name, tool=long))) == [(long, {})]
    text = written(name, tool=long + "n")
    assert parse(name, text).text == as_text(name, text)
