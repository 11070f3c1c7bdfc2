"""Calls in `<tool name=…>`: every shape of arguments, every end, at every cut."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import (
    check_bounded_holdback,
    check_linear,
    check_monotone,
    check_no_leak,
    check_no_stall,
    check_readings,
    chunkings,
    cut_at,
    one_by_one,
    single_cuts,
)
from laws.checks import read
from laws.strategies import CUTS, soup
from parsing.samples import complete_calls, message_of
from parsing.tool_tag_samples import (
    MODES,
    Mode,
    check_calls,
    check_cut,
    deltas,
    make,
    parse,
    read_every_way,
)
from penstock.events import ToolCallStart
from penstock.parsing import BrokenCall, Engine
from penstock.readers.tagged import MAX_TAIL
from penstock.readers.tagged.endings import MAX_FOLLOWED
from penstock.readers.tagged.tags import MAX_GAP, MAX_TAG
from penstock.values.rxml.closing_tags import MAX_REMARK

TAGS = {
    "the plain tag": ('<tool name="note"></tool>', "note"),
    "single quotes": ("<tool name='note'></tool>", "note"),
    "white space": ('<tool\n name = "note"  ></tool >', "note"),
    "upper case": ('<TOOL NAME="note"></Tool>', "note"),
    "a name in another case": ('<tool name="NOTE"></tool>', "note"),
    "other attributes": ('<tool id="7" data-name="x" name="note" on></tool>', "note"),
    "a bracket in an attribute": ('<tool hint="a > b" name="note"></tool>', "note"),
    "an entity in an attribute": ('<tool name="n&#111;te"></tool>', "note"),
    "a tag that closes itself": ('<tool name="note"/>', "note"),
    "a closed tag with space": ("<tool name='note' />", "note"),
}


@pytest.mark.parametrize(("text", "name"), TAGS.values(), ids=TAGS)
def test_a_tag_is_read_however_it_is_written(text: str, name: str) -> None:
    check_calls(f"a {text}.", [(name, {})], "a .")


PROSE = {
    "no name": "Use <tool> and </tool>.",
    "an empty name": '<tool name=""></tool>',
    "a name without quotes": "<tool name=note></tool>",
    "an unknown tool": '<tool name="nobody"><arg name="a">1</arg></tool>',
    "a longer tag": '<toolbox name="note">x</toolbox>',
    "a longer tag with a dash": '<tool-kit name="note">x</tool-kit>',
    "a longer tag beyond ASCII": '<toolé name="note">x</toolé>',
    "a cut tag": 'so <tool name="no',
    "a tag and nothing more": 'so <tool name="note">',
    "a bracket in the tag": '<tool <b> name="note">',
    "a quote out of place": '<tool isn\'t it> name="note"',
    "comparisons": "a <tool < 3 > b",
    "a tag over the limit": f'<tool x="{"y" * MAX_TAG}" name="note"></tool>',
}


@pytest.mark.parametrize("text", PROSE.values(), ids=PROSE)
def test_what_is_no_tag_of_a_known_tool_is_text(text: str) -> None:
    for mode in MODES:
        for chunks in ([text], one_by_one(text), *single_cuts(text[:200])):
            events = read(make(arguments=mode), chunks)
            assert message_of(events).text == "".join(chunks)


def test_prose_is_told_to_nobody_and_a_cut_call_is() -> None:
    told: list[BrokenCall] = []
    for text in PROSE.values():
        if text != PROSE["a tag and nothing more"]:
            parse(text, on_error=lambda _, segment: told.append(segment))
    assert told == []
    parse('<tool name="note"><arg name="a">x', on_error=lambda _, segment: told.append(segment))
    assert [(segment.tool_name, segment.text) for segment in told] == [
        ("note", '<tool name="note"><arg name="a">x')
    ]


BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "a wrapper": ('<arguments><arg name="bed">B</arg></arguments>', {"bed": "B"}),
    "no wrapper": ('<arg name="bed">B</arg>', {"bed": "B"}),
    "tags in upper case": ('<ARGUMENTS><ARG NAME="bed">B</ARG ></ARGUMENTS>', {"bed": "B"}),
    "other attributes": ('<arg type="a > b" name="bed" required>B</arg>', {"bed": "B"}),
    "children": ("<bed>B</bed><rows>4</rows>", {"bed": "B", "rows": 4}),
    "children beside arg": ('<arg name="bed">B</arg><rows>4</rows>', {"bed": "B", "rows": 4}),
    "an unknown child": ("<bed>B</bed><hue>1</hue>", {"bed": "B", "hue": "1"}),
    "repeated children": ("<hue>a</hue><hue>b</hue>", {"hue": ["a", "b"]}),
    "white space around a value": (
        '<arg name="bed">\n  two\n  lines \n</arg>',
        {"bed": "two\n  lines"},
    ),
    "an empty value": ('<arg name="bed"></arg><arg name="kinds"/>', {"bed": "", "kinds": []}),
    "coerced values": (
        '<arg name="rows"> 04 </arg><arg name="soil">{"depth": 2}</arg>',
        {"rows": 4, "soil": {"depth": 2}},
    ),
    "no schema, no coercion": ('<arg name="hue">04</arg>', {"hue": "04"}),
    "null beside a string": ('<arg name="label">null</arg>', {"label": None}),
    "a text beside null": ('<arg name="label"> none </arg>', {"label": "none"}),
    "entities": ('<arg name="bed">a &lt; b &amp;amp; c</arg>', {"bed": "a < b &amp; c"}),
    "no entities beside markup": ('<arg name="bed">a < b &amp; c</arg>', {"bed": "a < b &amp; c"}),
    "a section": ('<arg name="bed"> <![CDATA[ <b>&amp; ]]>\n</arg>', {"bed": " <b>&amp; "}),
    "a section with its own end inside": (
        '<arg name="bed"><![CDATA[a[b[0]]>c</arg></tool>]]></arg>',
        {"bed": "a[b[0]]>c</arg></tool>"},
    ),
    "a section that is no string": ('<arg name="rows"><![CDATA[4]]></arg>', {"rows": 4}),
    "items": ('<arg name="kinds"><item>a</item><item/></arg>', {"kinds": ["a", ""]}),
    "items without a schema": (
        '<arg name="hues"><item>1</item><ITEM>2</ITEM></arg>',
        {"hues": ["1", "2"]},
    ),
    "elements": (
        '<arg name="soil"><depth>2.5</depth><note>a <b>c</note></arg>',
        {"soil": {"depth": 2.5, "note": "a <b>c"}},
    ),
    "elements without a schema": (
        '<arg name="x"><a>1</a><a>2</a><b><c> &lt; </c></b><!-- no --></arg>',
        {"x": {"a": ["1", "2"], "b": {"c": "<"}}},
    ),
    "arguments inside an argument": (
        '<arg name="soil"><arg name="note">n</arg><arg name="depth">1</arg></arg>',
        {"soil": {"note": "n", "depth": 1}},
    ),
    "elements beside text": ('<arg name="x"><b>bold</b> text</arg>', {"x": "<b>bold</b> text"}),
    "elements that do not match": ('<arg name="x"><b>bold</i></arg>', {"x": "<b>bold</i>"}),
    "elements in a child": ("<soil><depth>1</depth></soil>", {"soil": {"depth": 1}}),
    "JSON": ('\n{"bed": "B\\n", "rows": "4"}\n', {"bed": "B\n", "rows": 4}),
    "JSON in the wrapper": ('<arguments>{"hue": {"a": [1]}}</arguments>', {"hue": {"a": [1]}}),
    "JSON with the name inside": ('{"name": "plant", "arguments": {"bed": "B"}}', {"bed": "B"}),
    "JSON with another name inside": ('{"name": "x", "parameters": {"bed": "B"}}', {"bed": "B"}),
    "JSON with arguments in a string": ('{"arguments": "{\\"rows\\": \\"4\\"}"}', {"rows": 4}),
    "JSON in a tool": ('{"tool": {"function": "x", "parameters": {"rows": 1}}}', {"rows": 1}),
    "JSON in a function": (
        '{"id": "7", "type": "function", "function": {"name": "x", "arguments": {"rows": 1}}}',
        {"rows": 1},
    ),
    "JSON beside a function": ('{"function": "x", "parameters": {"bed": "B"}}', {"bed": "B"}),
    "JSON in a list": ('[{"name": "x", "arguments": {"rows": 1}}]', {"rows": 1}),
    "JSON in tool_calls": ('{"tool_calls": [{"name": "x", "args": {"rows": 1}}]}', {"rows": 1}),
    "JSON whose tools are an argument": (
        '{"tools": [{"name": "rake"}], "rows": 1}',
        {"tools": [{"name": "rake"}], "rows": 1},
    ),
    "JSON whose only tools are an argument": (
        '{"tools": [{"name": "rake"}]}',
        {"tools": [{"name": "rake"}]},
    ),
    "JSON whose function is an argument": ('{"function": {"x": 1}}', {"function": {"x": 1}}),
    "a comma between": (
        '<arg name="bed">1</arg>,\n<arg name="rows">2</arg>;',
        {"bed": "1", "rows": 2},
    ),
    "a comment between": (
        '<arg name="bed">1</arg> <!-- </arg> --> <!----> <arg name="rows">2</arg><!-- -->',
        {"bed": "1", "rows": 2},
    ),
    "a remark and a comment between": (
        '<arg name="rows">2</arg> and <!-- so --> <arg name="bed"><![CDATA[1]]></arg>.',
        {"bed": "1", "rows": 2},
    ),
    "JSON with nothing but the name": ('{"name": "plant"}', {}),
    "JSON whose name is an argument": ('{"name": "Ida", "hue": 1}', {"name": "Ida", "hue": 1}),
    "JSON whose arguments are one": ('{"args": [1], "bed": "B"}', {"args": [1], "bed": "B"}),
    "an end tag in JSON": ('{"bed": "</tool>"}', {"bed": "</tool>"}),
    "remarks between": (
        'so: <!-- <arg name="bed">A</arg> --> <arg name="bed">B</arg></arguments> & <b>.',
        {"bed": "B"},
    ),
    "text behind the arguments": (
        '<arg name="bed">B</arg></arguments> done',
        {"bed": "B"},
    ),
    "text beside an argument": ('so <arg name="bed">B</arg> then', {"bed": "B"}),
    "text behind no arguments": ("<arguments></arguments> so", {}),
    "a comment alone": ("<!-- nothing -->", {}),
    "an envelope": ('{"name": "plant", "parameters": {"bed": "B"}, "id": "1"}', {"bed": "B"}),
    "an envelope with something else": (
        '{"parameters": {"bed": "A"}, "bed": "B", "x": 2}',
        {"parameters": {"bed": "A"}, "bed": "B", "x": 2},
    ),
    "the key of an envelope behind arguments": (
        '{"bed": "B", "input": {"x": 2}}',
        {"bed": "B", "input": {"x": 2}},
    ),
    "a list in several tags": (
        '<arg name="kinds">a, b</arg><arg name="bed">B</arg><arg name="kinds">c</arg>',
        {"bed": "B", "kinds": ["a, b", "c"]},
    ),
    "a list in one tag": ('<arg name="kinds">["a", "b"]</arg>', {"kinds": ["a", "b"]}),
}


@pytest.mark.parametrize(("body", "arguments"), BODIES.values(), ids=BODIES)
def test_a_body_is_read_in_any_of_its_shapes(body: str, arguments: dict[str, Any]) -> None:
    check_calls(f'<tool name="plant">{body}</tool>!', [("plant", arguments)], "!")


@pytest.mark.parametrize("body", ["nothing", " a < b ", "<arguments>B</arguments>", "so </b>"])
def test_text_where_arguments_are_meant_is_no_call(body: str) -> None:
    text = f'<tool name="plant">{body}</tool>!'
    told: list[tuple[str, str]] = []
    assert message_of(read_every_way(text, "whole")).text == text
    message = message_of(read_every_way(text, "live"))
    assert [call.complete for call in message.tool_calls] == [False]
    assert message.text == f"{body}!"
    parse(text, on_error=lambda why, segment: told.append((why, segment.text)))
    assert told == [("the arguments are neither JSON nor elements", text[:-1])]


STRICT = {
    "its own tag, in quotes": "print('</arg>') and \"</tool>\"",
    "an arg without a name": "<arg>1</arg><arg>2</arg> z",
    "arguments with a comma between": '<arg name="x">1</arg>, <arg name="y">2</arg>, z',
}


@pytest.mark.parametrize("value", STRICT.values(), ids=STRICT)
def test_a_closing_tag_is_data_unless_something_structural_follows(value: str) -> None:
    text = f'<tool name="plant"><arg name="bed">{value}</arg>\n<arg name="rows">1</arg></tool>'
    check_calls(text, [("plant", {"bed": value, "rows": 1})])


def test_a_closing_tag_that_came_twice_ends_its_value_once() -> None:
    text = '<tool name="plant"><arg name="bed">A</arg></arg>\n<arg name="rows">1</arg></arg></tool>'
    check_calls(text, [("plant", {"bed": "A", "rows": 1})])


UNCLEAR = {
    "text": "a</arg>b",
    "an unknown tag": "a</arg><b>c",
    "the end of a call": "see </tool> and </arguments>",
    "its own end before text": "</arg> </arg >x",
    "a tag behind a remark": "a</arg>, <b>c",
    "a long remark": f"a</arg>{'.' * (MAX_REMARK + 1)}</tool> b",
    "a long comment": f"a</arg><!--{'.' * MAX_FOLLOWED}--></tool> b",
    "an unknown call": 'a</arg> <tool name="nobody"> b',
    "too much white space": f"a</arg>{' ' * MAX_FOLLOWED}</tool> b",
    "another argument after the last": 'B</arg></arguments> so <arg name="hue">1',
}


@pytest.mark.parametrize("value", UNCLEAR.values(), ids=UNCLEAR)
def test_a_value_with_unmatched_tags_of_the_format_is_no_value(value: str) -> None:
    text = f'<tool name="plant"><arg name="bed">{value}</arg>\n<arg name="rows">1</arg></tool>'
    assert message_of(read_every_way(text, "whole")).text == text
    live = message_of(read_every_way(text, "live"))
    assert not any(call.complete for call in live.tool_calls)


def test_content_is_not_cut_at_a_remark_behind_its_closing_tag() -> None:
    content = '<arg name="a">1</arg>, <arg name="b">2</arg>. "</tool>"'
    text = f'<tool name="write_file"><arg name="content">{content}</arg></tool>'
    check_calls(text, [("write_file", {"content": content})])


def test_a_list_of_calls_is_as_many_calls() -> None:
    items = '[{"name": "plant", "arguments": {"rows": 1}}, {"rows": 2}]'
    for body in (items, f"<arguments>{items}</arguments>"):
        check_calls(
            f'<tool name="plant">{body}</tool>!',
            [("plant", {"rows": 1}), ("plant", {"rows": 2})],
            "!",
        )


@pytest.mark.parametrize("closing", ["</arg>", "</arg>\n"])
@pytest.mark.parametrize("opening", ['plant"><arg name="bed">', 'write_file"><arg name="content">'])
def test_a_call_that_follows_a_value_is_found(opening: str, closing: str) -> None:
    unclosed = f'<tool name="{opening}x{closing}'
    name, _, key, _ = opening.split('"')
    for mode in MODES:
        message = message_of(read_every_way(f'{unclosed}<tool name="NOTE"></tool>', mode))
        assert complete_calls(message) == [(name, {key: "x"}), ("note", {})]
        assert message.text == ""


def test_white_space_beyond_the_limit_is_no_margin() -> None:
    value = "a" + " " * (MAX_TAIL + 1)
    text = f'<tool name="plant"><arg name="bed">{value}</arg></tool>'
    for chunks in ([text], one_by_one(text), cut_at(text, [400, 900, 1100])):
        assert complete_calls(message_of(read(make(), chunks))) == [("plant", {"bed": value})]


BROKEN = {
    "an empty list in a list": "[[]]",
    "an empty list in a list of calls": '{"tool_calls": [[]]}',
    "JSON that is none": '{"bed": }',
    "a list": "[1]",
    "JSON that breaks late": '{"rows": 1, "bed" 2}',
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_a_broken_body_is_text_and_the_next_call_is_found(body: str) -> None:
    broken = f'<tool name="plant">{body}</tool>'
    check = parse(f'{broken} then <tool name="note"/>')
    assert complete_calls(check) == [("note", {})]
    assert check.text == f"{broken} then "
    live = parse(f'{broken} then <tool name="note"/>', arguments="live")
    assert [call.complete for call in live.tool_calls] == [False, True]


def test_a_call_that_another_call_follows_unclosed_does_not_hide_it() -> None:
    text = '<tool name="plant"><arg name="bed">B</arg></arguments> <tool name="note"/>'
    for mode in MODES:
        calls = complete_calls(parse(text, arguments=mode))
        assert calls == [("plant", {"bed": "B"}), ("note", {})]


CUT = {
    "in a string": ('<arg name="bed">ha', '{"bed":"ha'),
    "in a closing tag": ('<arg name="bed">ha</ar', '{"bed":"ha</ar'),
    "behind a closing tag": ('<arg name="bed">ha</arg>\n', '{"bed":"ha"'),
    "in white space": ('<arg name="bed">ha \n', '{"bed":"ha'),
    "in an entity": ('<arg name="bed">a &lt; b &am', '{"bed":"a < b &am'),
    "in a value that waits": ('<arg name="rows">4', ""),
    "before any value": ('<arguments><arg name="bed">', ""),
    "in a section": ('<arg name="bed"><![CDATA[a]]', '{"bed":"a]]'),
    "before a section": ('<arg name="bed"><![CD', '{"bed":"<![CD'),
}


@pytest.mark.parametrize(("body", "written"), CUT.values(), ids=CUT)
def test_a_cut_call_is_text_or_shown_up_to_the_cut(body: str, written: str) -> None:
    text = f'<tool name="plant">{body}'
    check_cut(text, written)


def test_a_live_call_starts_with_the_first_character_behind_its_tag() -> None:
    parser = make(arguments="live")
    assert parser.feed('<tool name="plant">') == []
    (start,) = parser.feed("<")
    assert start == ToolCallStart(0, "call_1", "plant", '<tool name="plant">')


def test_the_end_of_a_call_claims_its_end_tag() -> None:
    text = '<tool name="plant"><arg name="bed">B</arg></arguments>  </tool>'
    events = read(make(arguments="live"), [text])
    assert events[-1].raw == "</arguments>  </tool>"


@pytest.mark.parametrize(
    "opening",
    [
        pytest.param('<tool name="plant"><arg name="bed">', id="a string"),
        pytest.param('<tool name="note"><arg name="any">', id="an argument without a schema"),
        pytest.param('<tool name="plant"><bed>', id="a child"),
        pytest.param('<tool name="plant"><arg name="bed"><![CDATA[', id="a section"),
        pytest.param('<tool name="plant">{"bed": "', id="JSON"),
        pytest.param('<tool name="write_file"><arg name="content">', id="content"),
        pytest.param(
            '<tool name="write_file"><arg name="content">__START_CONTENT__\n', id="marked content"
        ),
    ],
)
def test_a_string_leaves_as_it_comes(opening: str) -> None:
    parser = make(arguments="live")
    parser.feed(opening)
    parser.feed("x")
    for piece in ("y", "é!", " and", "ing", "😀", "=> z"):
        assert deltas(parser.feed(piece)) == piece


def test_inside_a_value_nothing_is_held_back_but_what_may_end_it() -> None:
    opening = '<tool name="plant"><arg name="bed">'
    parser = make(arguments="live")
    parser.feed(opening)
    check_no_stall(lambda: parser, "a < b <c> </a </argu </ar/> <arg name", len("</arg>"))


def test_white_space_at_the_end_of_a_value_waits_for_what_follows() -> None:
    parser = make(arguments="live")
    parser.feed('<tool name="plant"><arg name="bed">a')
    assert deltas(parser.feed("b \n")) == "b"
    assert deltas(parser.feed(" c")) == " \\n c"


def _same(parser: Engine) -> Engine:
    return parser


def test_what_is_held_back_has_a_bound() -> None:
    limit = MAX_FOLLOWED + MAX_GAP + len("</arg>")
    for flood in ("<tool x ", '<tool name="', "<tool " + "x" * 3000):
        check_bounded_holdback(make, flood * 3, MAX_TAG)
    for flood in ("</arg> ", '</arg><arg name="', " " * 3000, "</arg>" + " " * 300):
        parser = make(arguments="live")
        parser.feed('<tool name="plant"><arg name="bed">x')
        check_bounded_holdback(partial(_same, parser), flood * 3, max(limit, MAX_TAIL + 1))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('<arg name="bed">half', {"bed": "half"}),
        ('<arg name="bed">half &lt; b\n', {"bed": "half < b"}),
        ('<arguments><arg name="bed">half</arg></argu', {"bed": "half"}),
        ('<arg name="bed"><![CDATA[half ', {"bed": "half "}),
        ('<arg name="bed">half</arg>', {"bed": "half"}),
        ('{"bed": "half", "rows": 3', {"bed": "half", "rows": 3}),
    ],
)
def test_a_call_that_the_model_left_open_is_closed(
    text: str, arguments: dict[str, Any], mode: Mode
) -> None:
    for chunks in chunkings(f'<tool name="plant">{text}'):
        parser = make(arguments=mode, repair=True)
        events = [event for chunk in chunks for event in parser.feed(chunk)]
        events += parser.finish(cut=False)
        check_monotone(events)
        (call,) = message_of(events).tool_calls
        assert (call.arguments, call.complete) == (arguments, True)
        assert call.repairs


def test_a_broken_call_is_mended_up_to_its_end() -> None:
    parser = make(repair=True)
    events = parser.feed('<tool name="plant">{"bed": "a" "rows": 2}</tool> on') + parser.finish()
    assert complete_calls(message_of(events)) == [("plant", {"bed": "a", "rows": 2})]
    assert message_of(events).text == " on"


@pytest.mark.parametrize("mode", MODES)
def test_no_tag_shows_beside_a_call(mode: Mode) -> None:
    text = 'Hi <tool name="plant"><arguments><arg name="bed">B</arg></arguments></tool> on.'
    for chunks in chunkings(text):
        check_no_leak(partial(make, arguments=mode), chunks, ["<tool", "arg", "tool>"])


PIECES = soup(
    '<tool name="plant">',
    "<TOOL name='note'>",
    '<tool name="write_file">',
    "</tool>",
    "<arguments>",
    "</arguments>",
    '<arg name="bed">',
    '<arg name="soil">',
    '<arg name="content">',
    '<arg name="path">',
    "</arg>",
    "<bed>",
    "</bed>",
    "<item>",
    "</item>",
    "<![CDATA[",
    "]]>",
    "__START_CONTENT__\n",
    "__END_CONTENT__",
    '{"bed": "x", "rows": "3"}',
    '{"function": {"name": "x", "arguments": {"rows": 1}}}',
    '[{"rows": 1}, {"tool": {"parameters": {"rows": 2}}}]',
    "<!-- so -->",
    ", ",
    "</arg></arguments></tool>",
)
OPENED = st.sampled_from(['<tool name="plant">', '<tool name="write_file"><arg name="content">'])


@settings(max_examples=60)
@given(
    text=st.one_of(PIECES, st.tuples(OPENED, PIECES).map("".join)),
    cuts=CUTS,
    mode=st.sampled_from(MODES),
    trim=st.booleans(),
)
def test_the_laws_hold_on_any_text_at_any_cut(
    text: str,
    cuts: list[int],
    mode: Mode,
    trim: bool,  # noqa: FBT001
) -> None:
    fresh = partial(make, arguments=mode, trim=trim)
    check_readings(fresh, text, [cut_at(text, cuts), one_by_one(text)])


@settings(max_examples=50)
@given(text=PIECES)
def test_a_complete_call_is_the_same_in_both_modes(text: str) -> None:
    whole, live = (parse(text, arguments=mode) for mode in MODES)
    if all(call.complete for call in live.tool_calls):
        assert complete_calls(whole) == complete_calls(live)


@pytest.mark.parametrize(
    "unit",
    [
        "<tool ",
        '<tool name="',
        '</arg><x a="',
        "</arg>, ",
        "</arg><!--",
        '</arg><tool name="x">',
        "</arg>",
        " ",
        "<k>",
        "&lt;",
        "__END_CONTENT__ ",
        "]]>",
    ],
)
def test_a_flood_costs_what_its_length_costs(unit: str) -> None:
    openings = (
        "",
        '<tool name="plant"><arg name="bed">',
        '<tool name="plant"><arg name="soil"><k>',
    )

    def flood(size: int) -> None:
        for opening in openings:
            parser = make(arguments="live")
            parser.feed(opening)
            text = unit * (size // len(unit))
            for at in range(0, len(text), 7):
                parser.feed(text[at : at + 7])
            parser.finish()

    check_linear(flood, 3_000, 15_000, at_most=3, tries=2)
