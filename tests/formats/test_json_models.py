"""The formats of calls in JSON: what they write, and the laws."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import (
    check_chunk_free,
    check_lossless,
    check_monotone,
    check_no_leak,
    check_round_trip,
    cut_at,
    one_by_one,
)
from laws.checks import read
from laws.strategies import ANY_TEXT, CUTS, JSON_VALUES, NAMES, soup
from penstock.errors import UsageError
from penstock.formats.base import Format, build_message
from penstock.formats.json_models import FORMATS as MARKED
from penstock.formats.json_models import LEADING_FORMATS as LEADING
from penstock.messages import AssistantMessage, ToolCall, ToolResult
from penstock.tools import Tool

Mode = Literal["whole", "live"]
MODES: tuple[Mode, ...] = ("whole", "live")

FORMATS = (*MARKED, *LEADING)
BY_NAME = {fmt.name: fmt for fmt in FORMATS}

TOOLS = [
    Tool("f", parameters={"properties": {"a": {"type": "string"}, "n": {"type": "integer"}}}),
    Tool("g"),
]
CALL = '{"name": "f", "arguments": {"a": "x"}}'

any_format = pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)


def parse(name: str, text: str, **options: Any) -> AssistantMessage:
    """Read *text* in both modes, whole and one by one, and give what all of them say."""
    readings = [
        build_message(read(BY_NAME[name].parser(TOOLS, arguments=mode, **options), chunks))
        for mode in MODES
        for chunks in ([text], one_by_one(text))
    ]
    assert all(reading == readings[0] for reading in readings)
    return readings[0]


def called(message: AssistantMessage) -> list[tuple[str, dict[str, Any]]]:
    assert all(call.complete for call in message.tool_calls)
    return [(call.name, call.arguments) for call in message.tool_calls]


# --- what is written ---


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("qwen25", '<tool_call>\n{"name": "f", "arguments": {"a": [1, ","]}}\n</tool_call>'),
        (
            "longcat",
            '<longcat_tool_call>{"name": "f", "arguments": {"a": [1, ","]}}</longcat_tool_call>',
        ),
        (
            "internlm",
            (
                '<|action_start|><|plugin|>\n{"name": "f", "parameters": {"a": [1, ","]}}'
                "<|action_end|>"
            ),
        ),
        (
            "jamba",
            '<tool_calls>[\n    {"name": "f", "arguments": {"a": [1, ","]}}\n]</tool_calls>',
        ),
        ("hunyuan_a13b", '<tool_calls>[{"name": "f", "arguments": {"a": [1, ","]}}]</tool_calls>'),
        ("minimax_m1", '<tool_calls>\n{"name": "f", "arguments": {"a": [1, ","]}}\n</tool_calls>'),
        ("phi4_mini_json", 'functools[{"name": "f", "arguments": {"a": [1, ","]}}]'),
        ("firefunction_v2", ' functools[{"name": "f", "arguments": {"a": [1, ","]}}]'),
        ("granite_20b_fc", '<function_call> {"name": "f", "arguments": {"a": [1, ","]}}'),
        ("gigachat3", '<|function_call|>{"name": "f", "arguments": {"a": [1, ","]}}'),
        (
            "nemotron_toolcall",
            '<TOOLCALL>[{"name": "f", "arguments": {"a": [1, ","]}}]</TOOLCALL>',
        ),
        ("apertus", '<|tools_prefix|>[{"f": {"a": [1, ","]}}]<|tools_suffix|>'),
        (
            "cohere_command",
            (
                '<|START_ACTION|>\n[{"tool_call_id": "7", "tool_name": "f", '
                '"parameters": {"a": [1, ","]}}]\n<|END_ACTION|>'
            ),
        ),
        (
            "command_r7b",
            (
                '<|START_ACTION|>[\n    {"tool_call_id": "7", "tool_name": "f", '
                '"parameters": {"a": [1, ","]}}\n]<|END_ACTION|>'
            ),
        ),
        (
            "command_r_plus",
            (
                'Action:\n```json\n[\n    {\n        "tool_name": "f",\n        "parameters": {\n'
                '            "a": [\n                1,\n                ","\n            ]\n'
                "        }\n    }\n]```"
            ),
        ),
        ("llama3_json", '{"name": "f", "parameters": {"a": [1, ","]}}'),
        ("xlam", '[{"name": "f", "arguments": {"a": [1, ","]}}]'),
        ("granite", '<|tool_call|>[{"name": "f", "arguments": {"a": [1, ","]}}]'),
        ("generic_json", '{"tool_call": {"name": "f", "arguments": {"a": [1, ","]}}}'),
    ],
)
def test_a_call_is_written_as_its_models_write_it(name: str, written: str) -> None:
    assert BY_NAME[name].render_call(ToolCall("7", "f", {"a": [1, ","]})) == written


@given(
    fmt=st.sampled_from(FORMATS),
    name=NAMES | ANY_TEXT,
    arguments=st.dictionaries(NAMES | ANY_TEXT, JSON_VALUES | ANY_TEXT, max_size=3),
)
@settings(max_examples=150)
def test_what_can_be_written_reads_back(fmt: Format, name: str, arguments: dict[str, Any]) -> None:
    def read_back(text: str) -> ToolCall:
        message = fmt.parse(text, [Tool(name)])
        assert message.text == ""
        (call,) = message.tool_calls
        return call

    check_round_trip(fmt.render_call, read_back, ToolCall("call_1", name, arguments))


@any_format
def test_strings_full_of_markup_read_back(fmt: Format) -> None:
    style: Any = fmt.calls
    text = "".join((*style.starts, style.end, "{call}{content} \\\" ', \r\n\t\x00 \u2028 😀<co>"))
    (call,) = fmt.parse(fmt.render_call(ToolCall("", "f", {"a": text})), TOOLS).tool_calls
    assert call.arguments == {"a": text}


@any_format
def test_what_json_has_no_word_for_is_refused(fmt: Format) -> None:
    for value in (float("nan"), object(), {1: 2}):
        with pytest.raises(UsageError):
            fmt.render_call(ToolCall("", "f", {"a": value}))


@any_format
def test_the_prompt_shows_a_call_that_reads_back(fmt: Format) -> None:
    tool = Tool("tide_at", "", {"properties": {"port": {"type": "string"}}, "required": ["port"]})
    example = fmt.render_call(ToolCall("", "tide_at", {"port": "some text"}))
    assert f"\n\n{example}\n\n" in fmt.render_tools([tool])


def test_a_result_is_written_where_its_models_read_it() -> None:
    rendered = {
        fmt.name: fmt.render_result(ToolResult("7", "f", {"tide": [4, "{id}"]})) for fmt in FORMATS
    }
    content = '{"tide": [4, "{id}"]}'
    for name in ("qwen25", "granite4", "trinity", "ernie45"):
        assert rendered.pop(name) == f"<tool_response>\n{content}\n</tool_response>"
    for name in ("cohere_command", "command_r7b"):
        assert rendered.pop(name) == (
            '<|START_TOOL_RESULT|>[\n    {\n        "tool_call_id": "7",\n        "results": {\n'
            f'            "0": {content}\n        }},\n        "is_error": null\n    }}\n'
            "]<|END_TOOL_RESULT|>"
        )
    assert rendered.pop("nemotron_toolcall") == f"<TOOL_RESPONSE>[{content}]</TOOL_RESPONSE>"
    assert rendered.pop("command_r_plus") == f"<results>\n{content}</results>"
    assert rendered.pop("apertus") == f"[{content}]"
    assert rendered.pop("minimax_m1") == f"tool result: {content}"
    assert set(rendered.values()) == {content}


def test_a_result_that_is_text_stands_as_it_is() -> None:
    result = ToolResult("7", "f", 'wet "{json}"')
    assert BY_NAME["jamba"].render_result(result) == 'wet "{json}"'
    assert BY_NAME["nemotron_toolcall"].render_result(result) == (
        '<TOOL_RESPONSE>[wet "{json}"]</TOOL_RESPONSE>'
    )


def test_a_result_that_is_text_is_json_where_the_models_expect_that() -> None:
    result = ToolResult("7", "f", 'wet "{json}"')
    assert BY_NAME["llama3_json"].render_result(result) == r'"wet \"{json}\""'


def test_a_result_says_that_it_is_an_error_where_it_has_a_place_for_that() -> None:
    written = BY_NAME["command_r7b"].render_result(ToolResult("7", "f", "wet", is_error=True))
    assert '"0": "wet"' in written
    assert '"is_error": true' in written


# --- what all of them have in common ---


@any_format
def test_a_call_before_text_and_after_a_thought_is_read(fmt: Format) -> None:
    style = fmt.usual_reasoning
    assert style is not None
    written = fmt.render_call(ToolCall("", "f", {"a": "x"}))
    text = f"{style.starts[0]} hm {style.ends[0]}{written}\nand on"
    message = parse(fmt.name, text)
    assert (message.thinking, message.text) == (" hm ", "\nand on")
    assert called(message) == [("f", {"a": "x"})]


@any_format
def test_what_ends_a_turn_is_no_content(fmt: Format) -> None:
    written = fmt.render_call(ToolCall("", "f", {}))
    for token in ("<|im_end|>", "<|eot_id|>", "</s>"):
        assert parse(fmt.name, written + token).text == ""
        assert parse(fmt.name, "So be it." + token).text == "So be it."


@any_format
def test_a_call_without_its_end_marker_stands(fmt: Format) -> None:
    style: Any = fmt.calls
    written = fmt.render_call(ToolCall("", "f", {"a": "x"}))
    missing = len(style.end) - 3 if style.end and written.endswith(style.end) else 0
    message = parse(fmt.name, written[: len(written) - missing])
    assert (message.text.strip(), called(message)) == ("", [("f", {"a": "x"})])


@any_format
def test_strings_leave_as_they_come(fmt: Format) -> None:
    written = fmt.render_call(ToolCall("", "f", {"a": "x" * 20}))
    parser = fmt.parser(TOOLS, arguments="live")
    begin = written.index("xxxx") + 1
    assert "x" in str(parser.feed(written[:begin])[-1])
    for character in written[begin : begin + 19]:
        (event,) = parser.feed(character)
        assert (event.raw, getattr(event, "arguments", None)) == ("x", "x")


@any_format
@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_the_model_left_open_is_mended(fmt: Format, mode: Mode) -> None:
    written = fmt.render_call(ToolCall("", "f", {"a": "x"}))
    parser = fmt.parser(TOOLS, arguments=mode, repair=True)
    events = [*parser.feed(written[: written.index('x"') + 1]), *parser.finish(cut=False)]
    message = build_message(events)
    assert called(message) == [("f", {"a": "x"})]
    assert message.tool_calls[0].repairs


PIECES = (
    CALL,
    '{"name": "zz", "parameters": {"a": "',
    '{"tool_call": {"name": "f", "arguments": {}}}',
    '{"tool_calls": [',
    '{"f": {"a": "x"}}',
    '{"arguments": "{\\"a\\": 1}", "name": "g"}',
    "</co: 0:[1]>", "<co>", "[TOOL_CALLS]", "<|im_end|>", "<think>", "</think>", ", ", "; ", "]}",
)  # fmt: skip


@any_format
@settings(max_examples=12)
@given(data=st.data(), cuts=CUTS, mode=st.sampled_from(MODES), repair=st.booleans())
def test_the_laws_hold_for_any_text(
    fmt: Format, data: st.DataObject, cuts: list[int], mode: Mode, *, repair: bool
) -> None:
    style: Any = fmt.calls
    text = data.draw(soup(*style.starts, *filter(None, [style.end]), *PIECES))
    make = partial(fmt.parser, TOOLS, arguments=mode, repair=repair)
    for chunks in (cut_at(text, cuts), one_by_one(text)):
        check_lossless(make, chunks)
        check_chunk_free(make, chunks)
    check_monotone(read(make(), [text]))


@any_format
@given(cuts=CUTS)
@settings(max_examples=5)
def test_no_marker_comes_out_as_text(fmt: Format, cuts: list[int]) -> None:
    style: Any = fmt.calls
    text = fmt.render_call(ToolCall("", "f", {"a": "x"})) + "\nso\n"
    markers = [marker for marker in (*style.starts, style.end) if len(marker) > 1]
    check_no_leak(partial(fmt.parser, TOOLS), cut_at(text, cuts), markers)


# --- what is particular ---


def test_a_thought_of_trinity_ends_where_a_call_begins() -> None:
    message = parse("trinity", f"<think>hm <tool_call>{CALL}</tool_call></think>so")
    assert (message.thinking, message.text) == ("hm ", "so")
    assert called(message) == [("f", {"a": "x"})]


@pytest.mark.parametrize("name", ["hunyuan_a13b", "minimax_m1", "jamba"])
def test_a_call_inside_of_a_thought_is_none(name: str) -> None:
    message = parse(name, f"<think>a<tool_calls>[{CALL}]</tool_calls>b</think>c")
    assert called(message) == []
    assert (message.thinking, message.text) == (f"a<tool_calls>[{CALL}]</tool_calls>b", "c")


@pytest.mark.parametrize("name", ["hunyuan_a13b", "minimax_m1", "jamba"])
@pytest.mark.parametrize("between", [",", "\n", ", ", ""])
def test_calls_may_stand_in_a_list_or_in_a_row(name: str, between: str) -> None:
    two = [("f", {"a": "x"})] * 2
    assert called(parse(name, f"<tool_calls>\n{CALL}{between}{CALL}\n</tool_calls>")) == two
    assert called(parse(name, f"<tool_calls>[{CALL},{CALL}]</tool_calls>")) == two


def test_what_names_the_speaker_is_dropped_where_an_answer_begins() -> None:
    speaker = "\u52a9\u624b\uff1a"
    assert parse("hunyuan_a13b", f"{speaker}so {speaker}").text == f"so {speaker}"


@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_white_space_may_part_the_two_markers_of_internlm(blank: str) -> None:
    text = f"<|action_start|>{blank}<|plugin|>{CALL}<|action_end|>"
    message = parse("internlm", text * 2)
    assert (message.text, called(message)) == ("", [("f", {"a": "x"})] * 2)


def test_the_piece_of_a_message_behind_its_end_is_a_call_of_gigachat() -> None:
    text = f"So.<|message_sep|>\n\nfunction call<|role_sep|>\n{CALL}</s>"
    message = parse("gigachat3", text)
    assert (message.text.strip(), called(message)) == ("So.", [("f", {"a": "x"})])


def test_a_second_marker_opens_a_second_call() -> None:
    message = parse("gigachat3", f"<|function_call|>{CALL}<|function_call|>{CALL}")
    assert (message.text, called(message)) == ("", [("f", {"a": "x"})] * 2)


def test_a_list_inside_of_the_arguments_does_not_end_the_list_of_calls() -> None:
    text = 'functools[{"name": "f", "arguments": {"a": "]", "n": 1, "b": [[]]}}, {"name": "g"}] so'
    message = parse("phi4_mini_json", text)
    assert called(message) == [("f", {"a": "]", "n": 1, "b": [[]]}), ("g", {})]
    assert message.text == " so"


def test_the_space_before_functools_belongs_to_the_call() -> None:
    assert parse("firefunction_v2", f"So. functools[{CALL}]").text == "So."
    assert parse("firefunction_v2", "the functools module").text == "the functools module"


@pytest.mark.parametrize("name", ["cohere_command", "command_r7b"])
def test_a_citation_is_its_text(name: str) -> None:
    text = "<|START_RESPONSE|>It <co>rains</co: 0:[1,2],1:[0]> now, <co>so</co>.<|END_RESPONSE|>"
    assert parse(name, text).text == "It rains now, so."


@pytest.mark.parametrize("text", ["</code>", "</co", "</co: 0", "</co: 0\n>", "</co: <b>"])
def test_what_is_no_end_of_a_citation_is_text(text: str) -> None:
    assert parse("cohere_command", f"a {text}").text == f"a {text}"


def test_an_id_on_the_wire_is_the_id_of_the_call() -> None:
    text = '<|START_ACTION|>[{"tool_call_id": "7", "tool_name": "f"}]<|END_ACTION|>'
    (call,) = parse("command_r7b", text).tool_calls
    assert (call.id, call.name, call.arguments) == ("7", "f", {})


@pytest.mark.parametrize("start", ["Action:\n```json\n", "Action: ```json\n", "Action:```json"])
@pytest.mark.parametrize("end", ["\n```", "```"])
def test_an_action_of_command_r_ends_with_its_fence(start: str, end: str) -> None:
    text = f'Plan: look.\n{start}[{{"tool_name": "f", "parameters": {{"a": "```"}}}}]{end}\nso'
    message = parse("command_r_plus", text)
    assert (message.text, called(message)) == ("Plan: look.\n\nso", [("f", {"a": "```"})])


def test_the_key_is_the_name_of_a_call_of_apertus() -> None:
    text = '<|tools_prefix|>[{"f": {"a": "x"}}, {"g": null}, {"zz": "{\\"b\\": 1}"}]'
    message = parse("apertus", text + "<|tools_suffix|>so")
    assert called(message) == [("f", {"a": "x"}), ("g", {}), ("zz", {"b": 1})]
    assert message.text == "so"


@pytest.mark.parametrize("item", ["{}", '{"": {}}', '{"g": 3}', '{"g": []}', '{"g": "no"}', "7"])
def test_an_object_without_one_name_is_no_call_of_apertus(item: str) -> None:
    text = f"<|tools_prefix|>[{item}]<|tools_suffix|>"
    assert parse("apertus", text).text == text


def test_an_object_with_two_names_is_no_call_of_apertus() -> None:
    text = '<|tools_prefix|>[{"f": {"a": "x"}, "g": {}}]<|tools_suffix|>'
    message = BY_NAME["apertus"].parse(text, TOOLS)
    assert (message.text, message.tool_calls) == (text, [])


@pytest.mark.parametrize(
    ("text", "shown", "calls"),
    [
        (f"q</think>[{CALL}]", "q</think>", 1),
        (f"q</think>\n\n[{CALL}] so", "q</think>\n\n so", 1),
        (f"q</think> {CALL}", "q</think> ", 1),
        (f"q</think>a [{CALL}]", f"q</think>a [{CALL}]", 0),
        ("q</think>[1, 2]", "q</think>[1, 2]", 0),
        ("q</think> ", "q</think> ", 0),
        (f"<think>q</think>[{CALL}]", "", 1),
    ],
)
def test_a_list_behind_a_thought_that_nobody_saw_begin_is_a_call_of_xlam(
    text: str, shown: str, calls: int
) -> None:
    for mode in MODES:
        make = partial(BY_NAME["xlam"].parser, TOOLS, arguments=mode)
        for chunks in ([text], one_by_one(text)):
            check_lossless(make, chunks)
            check_chunk_free(make, chunks)
    message = parse("xlam", text)
    assert (message.text, len(called(message))) == (shown, calls)
