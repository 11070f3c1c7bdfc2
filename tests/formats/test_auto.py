"""`auto`: every vector of every format, known tools only, prose that talks about markers, laws."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import (
    Ending,
    check_chunk_free,
    check_linear,
    check_lossless,
    check_monotone,
    check_no_stall,
    chunkings,
    cut_at,
    one_by_one,
)
from laws.checks import read
from laws.merging import merged, raw_by_block
from laws.strategies import CUTS, soup
from penstock import Parser
from penstock.errors import UsageError
from penstock.events import TextDelta, ToolCallDelta, ToolCallEnd, ToolCallStart
from penstock.formats.auto import AUTO, FORMATS, rows_for
from penstock.formats.base import build_message
from penstock.formats.reasoning import STYLES
from penstock.formats.registry import BUILT_IN
from penstock.messages import AssistantMessage, ToolCall
from penstock.parsing import Arguments
from penstock.tools import Tool

Mode = Literal["whole", "live"]
MODES: tuple[Mode, ...] = ("whole", "live")

HERE = Path(__file__).parents[1] / "vectors"
TOOLSETS = json.loads((HERE / "toolsets.json").read_text())
NOT_RECOGNISABLE = {
    "a plain tag around the answer, which an answer may well have itself": (
        "reasoning-hunyuan_a13b-pair",
        "reasoning-hunyuan_a13b-fast",
        "reasoning-hunyuan_a13b-noend",
        "reasoning-ernie45-response",
    ),
    "the style adds what the text does not have": ("reasoning-minimax_append_think-keep",),
}
EXCEPTIONS = {name for names in NOT_RECOGNISABLE.values() for name in names}
VECTORS = [
    vector
    for file in ("formats", "reasoning", "json-mix", "morph-xml")
    for vector in map(json.loads, (HERE / f"{file}.jsonl").read_text().splitlines())
    if "text" in vector
]

TEXT: dict[str, Any] = {"type": "string"}
TOOLS = [
    Tool(
        "f",
        parameters={
            "type": "object",
            "properties": {"a": TEXT, "n": {"type": "integer"}},
            "required": ["a"],
        },
    ),
    Tool("write_file", parameters={"properties": {"path": TEXT, "content": TEXT}}),
]
CALL = '{"name": "f", "arguments": {"a": "x"}}'
UNKNOWN = '{"name": "nobody", "arguments": {"a": "x"}}'


def parse(text: str, *, cut: bool = False, **options: Any) -> AssistantMessage:
    """Read *text* in both modes, whole and one by one, and give what all of them say."""
    make = partial(Parser, "auto", TOOLS, ids=lambda: "c", **options)
    readings = [
        build_message(read(Ending(make(arguments=mode), cut=cut), chunks))
        for mode in MODES
        for chunks in ([text], one_by_one(text))
    ]
    assert all(reading == readings[0] for reading in readings)
    return readings[0]


def called(message: AssistantMessage) -> list[tuple[str, dict[str, Any]]]:
    assert all(call.complete for call in message.tool_calls)
    return [(call.name, call.arguments) for call in message.tool_calls]


# --- vectors ---


def folded(text: str | None) -> str:
    return "".join((text or "").split())


def some_cuts(text: str) -> Iterator[list[str]]:
    """Give whole, one by one, and a cut at a few places."""
    yield [text]
    yield one_by_one(text)
    for place in range(len(text) % 29, len(text), 29):
        yield cut_at(text, [place])


def is_as_expected(message: AssistantMessage, vector: dict[str, Any]) -> bool:
    expect, mode = vector["expect"], vector["content_mode"]
    content = message.text if mode == "exact" else folded(message.text)
    expected = (expect["content"] or "") if mode == "exact" else folded(expect["content"])
    calls = [(call["name"], call["arguments"]) for call in expect["calls"]]
    return (
        [(call.name, call.arguments) for call in message.tool_calls if call.complete] == calls
        and folded(message.thinking) == folded(expect["reasoning"])
        and (mode == "ignore" or content == expected)
    )


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['id']}: {vector['why']}")
def test_a_vector_of_any_format_reads_as_in_its_own(vector: dict[str, Any]) -> None:
    tools = vector["tools"]
    known = TOOLSETS[tools] if isinstance(tools, str) else tools
    suffix = vector.get("options", {}).get("prompt_suffix", "")
    whole: Any = None
    for chunks in some_cuts(vector["text"]):
        parser = Parser("auto", known, prompt_suffix=suffix)
        events = read(parser, chunks)
        assert "".join(event.raw for event in events) + parser.rest == vector["text"]
        found = merged(events), raw_by_block(events)
        whole = whole or found
        assert found == whole
    assert is_as_expected(build_message(events), vector) is (vector["id"] not in EXCEPTIONS)


def test_every_exception_is_a_vector() -> None:
    assert {vector["id"] for vector in VECTORS} >= EXCEPTIONS


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "fmt", [fmt for fmt in BUILT_IN if fmt.name not in ("none", "auto")], ids=lambda fmt: fmt.name
)
def test_what_any_format_writes_is_recognised(fmt: Any, mode: Mode) -> None:
    calls = [
        ToolCall("c", "f", {"a": "one line"}),
        ToolCall("c", "write_file", {"path": "a.py", "content": "if a < b:\n    pass"}),
    ]
    written = 0
    for call in calls:
        try:
            text = fmt.render_call(call)
        except UsageError:
            continue
        written += 1
        for chunks in ([text], one_by_one(text)):
            message = build_message(read(Parser("auto", TOOLS, arguments=mode), chunks))
            assert called(message) == [(call.name, call.arguments)]
            assert not message.text.strip()
    assert written


# --- known tools only ---

LISTS = {
    "objects": (f"<tool_call>[{CALL}, {UNKNOWN}, {CALL}]</tool_call>", f", {UNKNOWN}"),
    "rows": (f"<tool_calls>\n{CALL}\n{UNKNOWN}\n{CALL}\n</tool_calls>", f"\n{UNKNOWN}"),
    "Python": ('[f(a="x"), nobody(a=1), f(a="x")]', ", nobody(a=1)"),
    "blocks": (
        "".join(f"<tool_call>{call}</tool_call>" for call in (CALL, UNKNOWN, CALL)),
        f"<tool_call>{UNKNOWN}</tool_call>",
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_call_of_an_unknown_tool_is_text_and_the_good_ones_still_come(name: str) -> None:
    text, shown = LISTS[name]
    message = parse(text)
    assert called(message) == [("f", {"a": "x"})] * 2
    assert message.text == shown


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda fmt: fmt.name)
def test_no_call_of_an_unknown_tool_ever_starts_in_any_format(fmt: Any, mode: Mode) -> None:
    try:
        text = fmt.render_call(ToolCall("c", "nobody", {"a": "x", "n": 1}))
    except UsageError:
        pytest.skip("it calls only its own tools")
    for chunks in ([text], one_by_one(text), one_by_one(text[:-3])):
        events = read(Parser("auto", TOOLS, arguments=mode), chunks)
        assert not any(isinstance(event, ToolCallStart) for event in events)
    told: list[object] = []
    parser = Parser("auto", TOOLS, on_error=lambda *what: told.append(what))
    message = build_message(read(parser, [text]))
    assert "nobody" in message.text
    assert told == [] or fmt.name == "sentinel"  # whose headers mean nothing else


def test_the_text_of_an_unknown_call_streams() -> None:
    parser = Parser("auto", TOOLS)
    parser.feed('<tool_call>{"name": "nobody", "arguments": {"a": "some')
    assert [event.text for event in parser.feed("more") if isinstance(event, TextDelta)] == ["more"]


# --- prose ---


@pytest.mark.parametrize(
    "text",
    [
        f"Write `<tool_call>{CALL}</tool_call>` to call it.",
        f"Write ``a ` <tool_call>{CALL}</tool_call>`` to call it.",
        f"```xml\n<tool_call>{CALL}</tool_call>\n```\n",
        f"~~~\n<tool_call>{CALL}</tool_call>\n~~~\n",
        f"> ```\n> <tool_call>{CALL}</tool_call>\n> ```\n",
        f"```\nfirst\n{CALL}\n```",
        f"An object like {CALL} in a line.",
        "Half a <tool_cal and a <function= and [TOOL_CALLS and <|start|> and >>> f",
        "A `<|im_end|>` ends the turn.",
        '{"name": "f", "description": "a tool", "parameters": {}}',
        '{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}',
        'Then\n[f(a="x")] is no beginning.',
        "Say <think> first.",
        '{"response": "yes"}',
        "<f> is a tag. </f>",
        "<p>The <f>Leith</f> element</p>",
        "analysis1.csv has the data.",
        "analysisLet me see: a word that no server has left behind.",
        f"- ```xml\n  <tool_call>{CALL}</tool_call>\n  ```\n",
        "1. ```\n<write_file/>\n```",
        "* - ~~~\n<write_file/>\n~~~",
        f"The format is `<tool_call>\n{CALL}\n</tool_call>` ok",
        f"The format is ``<tool_call>\n`\n{CALL}\n</tool_call>`` ok",
        "The <|tool_call|> token.",
    ],
)
def test_prose_about_calls_is_prose(text: str) -> None:
    message = parse(text, repair=True)
    assert message.text == text
    assert not message.tool_calls


def test_a_call_behind_code_is_a_call() -> None:
    message = parse(f"Not `<tool_call>`:\n```\n<tool_call>\n```\n<tool_call>{CALL}</tool_call>")
    assert called(message) == [("f", {"a": "x"})]


@pytest.mark.parametrize("trim", [False, True])
@pytest.mark.parametrize(
    "before",
    [
        "Not `<tool_call>`,\n",
        "Not `<tool_call>\n<function=`,\n",
        "A ` is left open before <tool_call>\n\n",
        "The ` key\n",
        "A ` before [[- is left open\n",
        "Not `<tool_call>\n```\n<function=\n```\n`\n",
        "- ```\n  <tool_call>\n  ```\n",
        "```\n- ```\n```\n",
    ],
)
def test_a_call_behind_the_end_of_code_is_a_call(before: str, trim: bool) -> None:  # noqa: FBT001
    message = parse(f"{before}<tool_call>{CALL}</tool_call>", trim=trim)
    assert called(message) == [("f", {"a": "x"})]
    assert message.text.rstrip() == before.rstrip()


# --- what it must do besides ---


@pytest.mark.parametrize(
    "text",
    [
        "<function=f>\n<parameter=a>\nx",
        "<function=f>\n<parameter=a>\nx\n</parameter>",
        CALL[:-1],
        CALL[:-3],
        f"```json\n{CALL[:-1]}",
        f"<tool_call>{CALL[:-1]}",
        "<tool_call>f\n<arg_key>a</arg_key><arg_value>x",
        '<tool name="f"><arg name="a">x</arg>',
        '<TOOL name="f"><arg name="a">x</arg>',
    ],
)
def test_a_call_that_the_model_left_open_is_mended(text: str) -> None:
    assert called(parse(text, repair=True)) == [("f", {"a": "x"})]
    assert not [call for call in parse_whole(text) if call.complete]


@pytest.mark.parametrize("text", ["<function=write_file>", "<function=write_file>\n"])
def test_a_call_without_arguments_that_the_model_left_open_is_mended(text: str) -> None:
    assert called(parse(text, repair=True)) == [("write_file", {})]
    assert parse(text, repair=True, cut=True).text == text
    assert parse(text).text == text
    unmet = text.replace("write_file", "f")  # which has to have an argument
    assert parse(unmet, repair=True).text == unmet


def test_a_function_that_closes_itself_needs_nothing_behind_it() -> None:
    assert called(parse("<function=write_file/>")) == [("write_file", {})]


def test_the_token_of_granite_counts_behind_text() -> None:
    message = parse(f"Sure. <|tool_call|>[{CALL}, {CALL}]")
    assert called(message) == [("f", {"a": "x"})] * 2
    assert message.text == "Sure. "


def parse_whole(text: str) -> list[ToolCall]:
    return build_message(read(Parser("auto", TOOLS, repair=True), [text])).tool_calls


def test_a_broken_call_is_mended_and_the_next_one_read() -> None:
    text = f'<tool_call>{{"name": "f", "arguments": {{"a": "x" "n": 3}}}}</tool_call>\n{CALL}'
    assert called(parse(text, repair=True)) == [("f", {"a": "x", "n": 3}), ("f", {"a": "x"})]


def test_other_formats_are_seen_behind_the_first_call() -> None:
    text = (
        f'<tool_call>{CALL}</tool_call>\n[TOOL_CALLS]f[ARGS]{{"a": "y"}}\n'
        "<function=f>\n<parameter=a>\nz\n</parameter>\n</function>"
    )
    assert [arguments["a"] for _, arguments in called(parse(text))] == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("text", "thinking", "shown"),
    [
        ("<think>hm</think>Yes.", "hm", "Yes."),
        ("So [THINK]hm[/THINK]Yes.", "hm", "So Yes."),
        ("<|channel|>analysis<|message|>hm<|end|><|channel|>final<|message|>Yes.", "hm", "Yes."),
        ("<seed:think>hm</seed:think>Yes.", "hm", "Yes."),
        ("analysishm assistantfinalYes.", "hm ", "Yes."),
        ("analysis: none", "", "analysis: none"),
    ],
)
def test_reasoning_of_any_style_is_read(text: str, thinking: str, shown: str) -> None:
    message = parse(text)
    assert (message.thinking, message.text) == (thinking, shown)


def test_reasoning_that_nobody_wants_stays_in_the_text() -> None:
    assert parse("<think>hm</think>[THINK]", reasoning="none").text == "<think>hm</think>[THINK]"


def test_a_call_ends_a_thought_only_in_a_format_whose_models_leave_it_open() -> None:
    tags = "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>"
    assert called(parse(f"<think>hm {tags}")) == [("f", {"a": "x"})]
    assert parse(f"<think>hm <tool_call>{CALL}</tool_call>").thinking.endswith("</tool_call>")


def test_a_string_streams_as_it_comes() -> None:
    parser = Parser("auto", TOOLS, arguments="live")
    parser.feed("<function=write_file>\n<parameter=content>\nfirst")
    events = parser.feed(" more")
    assert [event.arguments for event in events if isinstance(event, ToolCallDelta)] == [" more"]


def test_calls_are_written_as_hermes_writes_them() -> None:
    call = ToolCall("c", "f", {"a": "x"})
    assert AUTO.render_call(call) == FORMATS["hermes"].render_call(call)
    assert AUTO.parse(AUTO.render_call(call), TOOLS).tool_calls[0].arguments == call.arguments


# --- laws ---


def pieces() -> list[str]:
    """Give every marker, and every way to write a call of a tool that is known or not."""
    calls = [ToolCall("c", "f", {"a": "x\ny", "n": 3}), ToolCall("c", "nobody", {"a": "b"})]
    found = [*rows_for(("f", "write_file"))]
    for fmt in FORMATS.values():
        for call in calls:
            try:
                found.append(fmt.render_call(call))
            except UsageError:
                continue
    for style in STYLES.values():
        found += [*style.starts, *style.ends]
    return [piece for piece in dict.fromkeys(found) if piece]


OPTIONS = st.fixed_dictionaries(
    {
        "arguments": st.sampled_from(MODES),
        "repair": st.booleans(),
        "trim": st.booleans(),
        "prompt_suffix": st.sampled_from(["", "<think>", "<|start|>assistant", ">>>"]),
        "cut": st.booleans(),
    }
)


@settings(max_examples=100)
@given(
    text=soup(*pieces(), "`", "```json\n", "\n", "f", "nobody", "{}", "</tool_call>", "<|end|>"),
    cuts=CUTS,
    options=OPTIONS,
)
def test_the_laws_hold_on_the_markers_of_all_formats(
    text: str, cuts: list[int], options: dict[str, Any]
) -> None:
    cut = options.pop("cut")

    def make() -> Ending:
        return Ending(Parser("auto", TOOLS, **options), cut=cut)

    for chunks in (cut_at(text, cuts), one_by_one(text)):
        check_lossless(make, chunks)
        check_chunk_free(make, chunks)
        events = read(make(), chunks)
        check_monotone(events)
        starts = [event for event in events if isinstance(event, ToolCallStart)]
        assert all(start.name in ("f", "write_file") for start in starts)


def test_prose_holds_back_no_more_than_a_marker() -> None:
    text = "It is a < b, [see] the function f(x) {of x}; functions >> tools. `a` *b* Act 1. " * 3
    check_no_stall(partial(Parser, "auto", TOOLS), text, len("function call<|role_sep|>\n"))


@pytest.mark.parametrize(
    "piece",
    ["<tool_call>", "[", "{", "```", '{"name": "', "<|start|>", "~~~\n", "<function=f>", "`"],
)
def test_hostile_text_takes_linear_time(piece: str) -> None:
    def run(size: int) -> None:
        read(Parser("auto", TOOLS), [piece * size])

    check_linear(run, 200, 2000, at_most=4, tries=3)


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name":"f","arguments":{{</tool_call>',
        '<function=f>{"""{"</function>\n',
        '<tool_calls>{"name":"f","args":{a"{"</tool_calls>',
        '<|tool_call>`<|tool_call><tool_call|>"',
        '[[SEG_START{"type":"tool","tool_name":"f"}]][{"tool":{"function":"f","parameters":{}}}"',
    ],
)
@pytest.mark.parametrize("trim", [False, True])
@pytest.mark.parametrize("repair", [False, True])
def test_a_marker_that_means_nothing_leaves_no_trace(
    text: str,
    trim: bool,  # noqa: FBT001
    repair: bool,  # noqa: FBT001
) -> None:
    """Where it is cut such a marker opens a reader, which finds out; the end of a call stays."""
    found = []
    for chunks in chunkings(text):
        told: list[str] = []
        options: Any = {"arguments": "live", "trim": trim, "repair": repair}
        options["on_error"] = lambda _, segment, told=told: told.append(segment.text)
        events = read(Parser("auto", TOOLS, **options), chunks)
        assert all(segment in text for segment in told)
        found.append((merged(events), raw_by_block(events), told))
    assert all(one == found[0] for one in found)


def test_words_that_are_markers_count_only_first_of_all() -> None:
    call = f"functools[{CALL}]"
    assert called(parse(call)) == [("f", {"a": "x"})]
    assert parse(f"See: {call}").text == f"See: {call}"
    role = f"function call<|role_sep|>\n{CALL}"
    assert called(parse(role)) == [("f", {"a": "x"})]
    assert called(parse(f"Wait.<|message_sep|>\n\n{role}")) == [("f", {"a": "x"})]
    check_no_stall(partial(Parser, "auto", TOOLS), "x of function functools, if half ", 2)


@pytest.mark.parametrize(
    "text", ["functools[0]", "[TOOL_CALLS] marker", 'Action:\n```json\n[{"a":1}]\n```']
)
@pytest.mark.parametrize("repair", [False, True])
def test_nobody_is_told_of_prose(text: str, *, repair: bool) -> None:
    told: list[str] = []
    parser = Parser("auto", TOOLS, repair=repair, on_error=lambda message, _: told.append(message))
    parser.feed(text)
    parser.finish(cut=False)
    assert told == []


@pytest.mark.parametrize("body", ['command= "ls"', 'command}: "ls"', 'command:" "ls"'])
@pytest.mark.parametrize("arguments", ["whole", "live"])
def test_damaged_yaml_is_not_the_command_itself(body: str, arguments: Arguments) -> None:
    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    parser = Parser("auto", [Tool("run_bash", "Run", schema)], arguments=arguments, repair=True)
    text = f"<run_bash>\n{body}\n</run_bash>"
    events = [*parser.feed(text), *parser.finish(cut=False)]
    assert not [event for event in events if isinstance(event, ToolCallEnd) and event.call.complete]
