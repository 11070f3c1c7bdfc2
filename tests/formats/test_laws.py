"""The laws, for every format that penstock brings; a new format gets them for free."""

from __future__ import annotations

import re
from functools import cache, partial
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from laws import (
    Ending,
    check_linear,
    check_no_stall,
    check_readings,
    check_round_trip,
    cut_at,
    effort,
    one_by_one,
)
from laws.checks import read
from laws.strategies import CUTS, damaged, soup
from penstock import Parser, formats
from penstock.errors import UsageError
from penstock.events import Event, TextDelta, ToolCallDelta, ToolCallEnd, ToolCallStart
from penstock.formats import Format
from penstock.formats.json_calls import HERMES
from penstock.formats.reasoning import STYLES
from penstock.formats.registry import BUILT_IN
from penstock.formats.round_trip import infer_schema
from penstock.messages import ToolCall, ToolResult
from penstock.parsing import BrokenCall
from penstock.tools import Tool
from penstock.values import IncrementalJSON

Mode = Literal["whole", "live"]
MODES = st.sampled_from(["whole", "live"])

TEXT: dict[str, Any] = {"type": "string"}
TOOLS = [
    Tool(
        "write_file",
        "Write a file",
        {"type": "object", "properties": {"path": TEXT, "content": TEXT}, "required": ["path"]},
    ),
    Tool("edit_file", "", {"type": "object", "properties": {"path": TEXT, "patch": TEXT}}),
    Tool("run_bash", "", {"type": "object", "properties": {"command": TEXT}}),
    Tool(
        "log",
        "",
        {
            "type": "object",
            "properties": {
                "n": {"type": "integer"},
                "tags": {"type": "array", "items": TEXT},
                "where": {"type": "object", "properties": {"x": {"type": "number"}}},
                "unit": {"enum": ["kg", "lb"]},
                "note": {"anyOf": [TEXT, {"type": "null"}]},
            },
        },
    ),
    Tool("ping"),
]
CALLS = [
    ToolCall("c", "write_file", {"path": "a.py", "content": 'if a < b:\n    print("é")\n'}),
    ToolCall("c", "edit_file", {"path": "a.py", "patch": "-a\n+b && c"}),
    ToolCall("c", "run_bash", {"command": "ls | wc -l"}),
    ToolCall("c", "log", {"n": 3, "tags": ["a", "b c"], "where": {"x": 1.5}, "unit": "kg"}),
    ToolCall("c", "ping", {}),
]

FORMATS = pytest.mark.parametrize("fmt", BUILT_IN, ids=lambda fmt: fmt.name)
WITH_CALLS = pytest.mark.parametrize(
    "fmt", [fmt for fmt in BUILT_IN if fmt.name != "none"], ids=lambda fmt: fmt.name
)


@cache
def rendered(fmt: Format) -> list[str]:
    """Give the calls that the format can express, as it writes them."""
    texts = []
    for call in CALLS:
        try:
            texts.append(fmt.render_call(call))
        except UsageError:
            continue
    return texts


def pieces_of(fmt: Format) -> list[str]:
    """Give whole calls, and what they are made of: tags, brackets, quotes and words."""
    texts = rendered(fmt)
    tokens = [
        token for text in texts for token in re.findall(r"[<\[]+[^<>\[\]]*[>\]]+|\W|\w+", text)
    ]
    tails = [text[len(text) // 2 :] for text in texts]
    heads = [text[: len(text) // 2] for text in texts]
    return [*texts, *heads, *tails, *dict.fromkeys(tokens), "<think>", "</think>"]


def markers_of(fmt: Format) -> list[str]:
    """Give what opens calls, thoughts and turns in the format, or ends them."""
    tags = [
        tag for text in rendered(fmt) for tag in re.findall(r"<[^<>\s\"=]+>|\[/?[A-Z_]+\]", text)
    ]
    return [*fmt.calls.syntax(TOOLS).starts, *(wrapper.marker for wrapper in fmt.wrappers), *tags]


def thought_markers() -> list[str]:
    """Give what begins and ends thoughts, in every style."""
    return [marker for style in STYLES.values() for marker in (*style.starts, *style.ends)]


FOREIGN = sorted({*thought_markers(), *(mark for fmt in BUILT_IN for mark in markers_of(fmt))})
"""The markers of all formats."""

ANY_CALL = [text for fmt in BUILT_IN for text in rendered(fmt)[:2]]
SOUPS = {
    fmt.name: soup(*pieces_of(fmt)) | damaged(rendered(fmt) or ANY_CALL, FOREIGN)
    for fmt in BUILT_IN
}
SOUPS["auto"] |= damaged(ANY_CALL, FOREIGN)
STYLE_NAMES = st.sampled_from([None, "none", *STYLES])


@FORMATS
@settings(max_examples=effort.examples(16))
@given(
    data=st.data(),
    cuts=CUTS,
    mode=MODES,
    trim=st.booleans(),
    repair=st.booleans(),
    is_cut=st.booleans(),
)
def test_the_laws_hold_on_any_text_at_any_cut(
    fmt: Format,
    data: st.DataObject,
    cuts: list[int],
    mode: Mode,
    trim: bool,  # noqa: FBT001
    repair: bool,  # noqa: FBT001
    is_cut: bool,  # noqa: FBT001
) -> None:
    text = data.draw(SOUPS[fmt.name])
    reasoning = data.draw(STYLE_NAMES)

    def make() -> Ending:
        parser = Parser(fmt, TOOLS, arguments=mode, trim=trim, repair=repair, reasoning=reasoning)
        return Ending(parser, cut=is_cut)

    check_readings(make, text, [cut_at(text, cuts), one_by_one(text)])


RARE = [
    ("internlm", "<|action_start|><|plugin|>#[THINK]x"),
    ("hermes", "<tool_call>#<think>x"),
    ("hermes", "<tool_call>#<think>\ufeff"),
    ("hermes", '<tool_call>{"name":"log","arguments":{"tags":7# ["a'),
    ("hermes", '<tool_call>{"name":"log","arguments":{"n":7/* <tool_call> */,"n":7\ufeff'),
    ("auto", '{"a":7#}'),
    ("auto", '{"name":"log","arguments":{"n":7#}}'),
    ("mistral_array", '[TOOL_CALLS]{"":7' + "x" * 70 + ":"),
    ("magistral", '[TOOL_CALLS]ping[ARGS]{"n":3,\ufeff'),
    ("llama4_pythonic", '[write_file(path="a", s=[.<|python_start|>'),
    ("olmo3", '<function_calls>write_file(path="a", s=[.</function_calls>'),
    ("pythonic", '[write_file(path="a", s=[.'),
    (
        "muse_glimmer",
        (
            '<atem:function_calls><atem:invoke name="e"><atem:parameter name="h">x'
            '<atem:parameter name="c">i'
        ),
    ),
    ("auto", '<|tool_call>call:e{><|"|>'),
    ("generic_json", 'L {"tool_call":{"name":"log","arguments":{'),
    *((name, text) for name in ("pythonic", "xlam", "granite", "llama4_pythonic", "sarashina")
      for text in ("[OK]", "[G]{}", " [OK] \n", "[TOOL_CALLS]", "[TOOL_CALLS]x")),
    *(("qwen3_coder", f"<function=log><parameter=s>e{tag}</function>")
      for tag in ("<  /parameter>", "</\n\nparameter>", "</\tparameter>", "</\xa0parameter>",
                  "< / \tparameter>", "<\u2028/parameter>")),
    ("json_tool_gemini", '{"name":"log"},"":'),
    ("json_tool_gemini", '{"name":"log"},"args":{"name</parameter>":"log","args":{}}'),
    (
        "inkling",
        '<|content_invoke_tool_json|>{"name":"log","args":{"n":1,"":{}}}<|end_message|>',
    ),
    ("file_tags", 'x\u2028<write_file path="t">l</write_file>'),
    ("file_tags", 'x\xa0\x85<write_file path="t">l</write_file>'),
]  # fmt: skip
"""What was read otherwise at another cut."""


WAYS: list[dict[str, Any]] = [
    {"repair": True},
    {"repair": True, "trim": True},
    {"trim": True, "prompt_suffix": "<think>", "reasoning": "seed_oss"},
    {"reasoning": "minimax_append_think"},
]


@pytest.mark.parametrize(("name", "text"), RARE)
@pytest.mark.parametrize("mode", ["whole", "live"])
def test_rare_mixes_are_read_and_told_alike_at_every_cut(name: str, text: str, mode: Mode) -> None:
    for options in WAYS:
        told: list[list[tuple[str, str]]] = []
        check_readings(partial(telling, told, name, arguments=mode, **options), text)
        assert all(segments == told[0] for segments in told)


def telling(told: list[list[tuple[str, str]]], name: str, **options: Any) -> Ending:
    """Make a parser of an answer that ends by itself; what it tells goes to the end of *told*."""
    segments: list[tuple[str, str]] = []
    told.append(segments)

    def note(why: str, segment: BrokenCall) -> None:
        segments.append((why, segment.text))

    return Ending(Parser(name, TOOLS, on_error=note, **options), cut=False)


@FORMATS
@settings(max_examples=5)
@given(data=st.data(), cuts=CUTS, mode=MODES, trim=st.booleans(), repair=st.booleans())
def test_what_is_told_is_text_of_the_answer_and_does_not_depend_on_the_cut(
    fmt: Format,
    data: st.DataObject,
    cuts: list[int],
    mode: Mode,
    trim: bool,  # noqa: FBT001
    repair: bool,  # noqa: FBT001
) -> None:
    text = data.draw(SOUPS[fmt.name])

    def told(chunks: list[str]) -> list[tuple[str, str, str]]:
        segments: list[tuple[str, str, str]] = []

        def note(why: str, segment: BrokenCall) -> None:
            segments.append((why, segment.text, segment.tool_name))

        read(Parser(fmt, TOOLS, arguments=mode, trim=trim, repair=repair, on_error=note), chunks)
        return segments

    segments = told([text])
    assert all(shown in text for _, shown, _ in segments)
    assert segments == told(cut_at(text, cuts)) == told(one_by_one(text))


@FORMATS
@settings(max_examples=6)
@given(data=st.data())
def test_a_complete_call_is_the_same_in_both_modes(fmt: Format, data: st.DataObject) -> None:
    text = data.draw(SOUPS[fmt.name])
    whole, live = (calls_of(fmt, text, arguments=mode) for mode in ("whole", "live"))
    if all(call.complete for call in live):
        assert whole == live


@WITH_CALLS
def test_a_call_that_the_model_left_open_is_mended_alike_in_both_modes(fmt: Format) -> None:
    """Half a closing tag is no part of the value, though `live` shows a value as it comes."""
    for text in rendered(fmt)[::3]:
        for cut in range(1, len(text), 5):
            mended = [
                [
                    event.call
                    for event in read(Ending(make(), cut=False), [text[:cut]])
                    if isinstance(event, ToolCallEnd) and event.call.complete
                ]
                for make in (
                    partial(Parser, fmt, TOOLS, arguments=mode, repair=True)
                    for mode in ("whole", "live")
                )
            ]
            assert mended[0] == mended[1], text[:cut]


@WITH_CALLS
@pytest.mark.parametrize("mode", ["whole", "live"])
def test_a_cut_call_of_a_tool_that_wants_a_list_never_raises(fmt: Format, mode: Mode) -> None:
    """Arguments are an object, whatever the schema of a tool demands."""
    tools = [Tool(tool.name, "", {"type": "array"}) for tool in TOOLS]
    for text in rendered(fmt)[:2]:
        for cut in range(1, len(text), 5):
            make = partial(Parser, fmt, tools, arguments=mode, repair=True)
            for event in read(Ending(make(), cut=False), [text[:cut]]):
                if isinstance(event, ToolCallEnd):
                    assert isinstance(event.call.arguments, dict), text[:cut]


def calls_of(fmt: Format, text: str, **options: Any) -> list[ToolCall]:
    parser = Parser(fmt, TOOLS, **options)
    events = [*parser.feed(text), *parser.finish()]
    return [event.call for event in events if isinstance(event, ToolCallEnd)]


@FORMATS
def test_text_that_is_no_marker_leaves_at_once(fmt: Format) -> None:
    """No marker begins with any of these letters, and none of them ends a call."""
    make = partial(Parser, fmt, TOOLS, reasoning="none")
    text = 'Plain words, 1 + 2 = 3; "quoted", it\'s (fine) - really. '
    check_no_stall(make, text, len("Plain ") + 1 if fmt.name in HEADED else 2)


HEADED = {"inkling"}
"""Formats whose answers may begin inside a header: a first word may be a name."""

LEADING = {"generic_json", "granite", "llama3_json", "pythonic", "xlam"}
"""Formats whose calls, without any marker, can only be the first thing of an answer."""


def answer_of(fmt: Format) -> tuple[str, list[str], str]:
    """Give an answer with calls, the calls in it, and what is left of it without them."""
    texts = rendered(fmt)
    if fmt.name in LEADING:
        return texts[0] + "\nAfter.", texts[:1], "After."
    shown = "Before. " + "Between. " * (len(texts) - 1) + "After."
    return "Before.\n" + "\nBetween.\n".join(texts) + "\nAfter.", texts, shown


@WITH_CALLS
@pytest.mark.parametrize("mode", ["whole", "live"])
def test_calls_are_read_among_text_with_nothing_of_them_left_in_it(fmt: Format, mode: Mode) -> None:
    answer, texts, left = answer_of(fmt)
    assert texts, "a format has to be able to say something"
    expected = [(call.name, True) for call in CALLS if _can_say(fmt, call)][: len(texts)]
    for chunks in ([answer], one_by_one(answer)):
        events = read(Parser(fmt, TOOLS, arguments=mode), chunks)
        calls = [event.call for event in events if isinstance(event, ToolCallEnd)]
        assert [(call.name, call.complete) for call in calls] == expected
        shown = "".join(event.text for event in events if isinstance(event, TextDelta))
        assert " ".join(shown.split()) == left


def _can_say(fmt: Format, call: ToolCall) -> bool:
    try:
        fmt.render_call(call)
    except UsageError:
        return False
    return True


@WITH_CALLS
def test_the_pieces_that_are_calls_are_told_exactly(fmt: Format) -> None:
    answer, texts, _ = answer_of(fmt)
    segments = fmt.call_segments(answer, TOOLS)
    assert [text.strip() for text in segments] == [text.strip() for text in texts]
    for cut in range(1 + len(answer) % 19, len(answer), 19):
        parser = fmt.parser(TOOLS)
        for piece in (answer[:cut], answer[cut : cut + 3], answer[cut + 3 :]):
            parser.feed(piece)
        parser.finish()
        assert [answer[start:end] for start, end in parser.spans] == segments


ARGUMENTS = st.fixed_dictionaries(
    {"path": st.text(max_size=20)},
    optional={
        "content": st.text(max_size=20) | soup("</path>", "<content>", "]]>", "&amp;"),
        "n": st.integers(),
        "on": st.booleans(),
        "x": st.floats(allow_nan=False, allow_infinity=False),
        "tags": st.lists(st.text(max_size=5), max_size=3),
        "where": st.fixed_dictionaries({"k": st.text(max_size=5)}),
        "none": st.none(),
    },
)


@WITH_CALLS
@settings(max_examples=effort.examples(8))
@given(arguments=ARGUMENTS, name=st.sampled_from(["write_file", "run_bash", "log", "f.g-h:i"]))
def test_a_rendered_call_reads_back_equal_or_is_refused(
    fmt: Format, arguments: dict[str, Any], name: str
) -> None:
    tool = Tool(name, parameters=infer_schema(arguments))

    def read_back(text: str) -> ToolCall:
        (call,) = fmt.parse(text, [tool]).tool_calls
        return structs.replace(call, id="call_1")  # Some formats write an id of their own.

    check_round_trip(fmt.render_call, read_back, ToolCall("call_1", name, arguments))


PROSE = "The pipe leads the water to the turbine, one way, no drop lost. "


def opened(fmt: Format) -> str:
    """Give the beginning of a call up to where the text of its long argument goes on."""
    for call in (
        ToolCall("c", "write_file", {"path": "a", "content": "xyzzy"}),
        ToolCall("c", "run_bash", {"command": "xyzzy"}),
    ):
        try:
            return fmt.render_call(call).partition("yzzy")[0]
        except UsageError:
            continue
    raise AssertionError(fmt.name)


@WITH_CALLS
def test_the_text_of_an_argument_leaves_as_it_comes(fmt: Format) -> None:
    parser = Parser(fmt, TOOLS, arguments="live")
    events = parser.feed(opened(fmt))
    assert any(isinstance(event, ToolCallStart) for event in events)
    held = 0
    for character in PROSE * 3:
        given = parser.feed(character)
        assert all(isinstance(event, ToolCallDelta) for event in given)
        held += 1 - sum(len(event.raw) for event in given)
        assert held <= 1, "a blank may wait for what follows, and nothing else"


@WITH_CALLS
@pytest.mark.parametrize("mode", ["whole", "live"])
def test_a_delta_costs_the_same_whatever_came_before(fmt: Format, mode: Mode) -> None:
    opening = opened(fmt)

    def run(size: int) -> None:
        parser = Parser(fmt, TOOLS, arguments=mode)
        parser.feed(opening)
        text = PROSE * (size // len(PROSE))
        for at in range(0, len(text), 8):
            parser.feed(text[at : at + 8])

    check_linear(run, 10_000, 100_000, at_most=3, tries=3)


def feed_whole(fmt: Format, text: str, **options: Any) -> list[Event]:
    parser = Parser(fmt, TOOLS, **options)
    return [*parser.feed(text), *parser.finish()]


HOSTILE = {
    "nothing but opening brackets": lambda size: "<" * size,
    "nothing but braces": lambda size: "{" * size,
    "nothing but square brackets": lambda size: "[" * size,
    "backticks": lambda size: "```" * (size // 3),
    "quotes and backslashes": lambda size: '\\"' * (size // 2),
    "white space": lambda size: " \n" * (size // 2),
}


@FORMATS
@pytest.mark.parametrize("make_text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_stays_linear(fmt: Format, make_text: Any) -> None:
    def run(size: int) -> None:
        feed_whole(fmt, make_text(size), arguments="live")

    check_linear(run, 2_000, 20_000, at_most=4, tries=2)


@WITH_CALLS
def test_calls_that_never_end_stay_linear(fmt: Format) -> None:
    opening = opened(fmt)

    def run(size: int) -> None:
        feed_whole(fmt, opening * (size // len(opening)))

    check_linear(run, 5_000, 50_000, at_most=4, tries=2)


@WITH_CALLS
def test_a_call_that_never_ends_is_text_or_incomplete(fmt: Format) -> None:
    text = opened(fmt) + PROSE * 2_000
    assert not calls_of(fmt, text)
    (call,) = calls_of(fmt, text, arguments="live")
    assert not call.complete


@WITH_CALLS
def test_a_cut_call_keeps_what_went_out_of_it(fmt: Format) -> None:
    for text in rendered(fmt)[:2]:
        for cut in range(1, len(text), 3):
            events = feed_whole(fmt, text[:cut], arguments="live")
            said = IncrementalJSON(recover=True)
            said.feed("".join(e.arguments for e in events if isinstance(e, ToolCallDelta)))
            for event in events:
                if isinstance(event, ToolCallEnd) and not event.call.complete:
                    assert event.call.arguments == (said.value or {})


MANY_CALLS = 300


@WITH_CALLS
def test_many_calls_are_many_calls(fmt: Format) -> None:
    if fmt.name in LEADING:
        pytest.skip("one list is all that such an answer has")
    text = "\n".join([min(rendered(fmt), key=len)] * MANY_CALLS)
    assert len(calls_of(fmt, text)) == MANY_CALLS


@WITH_CALLS
@pytest.mark.parametrize("content", ["no such file", "", {"code": 2}, ["no", "such"]])
def test_a_result_says_that_the_call_failed(fmt: Format, content: Any) -> None:
    good = fmt.render_result(ToolResult("c", "write_file", content))
    failed = fmt.render_result(ToolResult("c", "write_file", content, is_error=True))
    assert failed != good
    assert "error" in failed.lower()


def test_what_says_itself_that_it_failed_stays_as_it_is() -> None:
    for content in ("Error: no such file", {"error": "no such file"}):
        result = ToolResult("c", "write_file", content, is_error=True)
        plain = ToolResult("c", "write_file", content)
        assert formats.get("hermes").render_result(result) == HERMES.render_result(plain)


@pytest.mark.parametrize("name", ["kimi_k2", "deepseek_v31", "qwen3_coder", "minimax_m2"])
@pytest.mark.parametrize("mode", ["whole", "live"])
def test_a_section_that_breaks_with_its_first_call_is_told_once(name: str, mode: Mode) -> None:
    text = formats.get(name).render_call(CALLS[4]).replace("ping", "9 <")
    told: list[str] = []
    parser = Parser(name, TOOLS, arguments=mode, on_error=lambda _, found: told.append(found.text))
    read(parser, one_by_one(text))
    assert len(told) == 1
    assert text.startswith(told[0])


def test_every_format_is_found_by_its_name() -> None:
    assert [formats.get(fmt.name.upper()) for fmt in BUILT_IN] == list(BUILT_IN)
