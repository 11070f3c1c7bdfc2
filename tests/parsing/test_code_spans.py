"""Calls in code: a fence, inline code or a block quote around a call says that it is none."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import Ending, check_linear, check_readings, cut_at, one_by_one
from laws.strategies import CUTS
from penstock import MessageBuilder, Parser, UsageError
from penstock.formats.registry import BUILT_IN
from penstock.messages import AssistantMessage, ToolCall
from penstock.parsing import BrokenCall
from penstock.tools import Tool

Mode = Literal["whole", "live"]
MODES: tuple[Mode, ...] = ("whole", "live")
TEXT: dict[str, Any] = {"type": "string"}
TOOLS = [
    Tool("get_weather", "", {"type": "object", "properties": {"city": TEXT}}),
    Tool("ping", "", {"type": "object", "properties": {}}),
]
OSLO = ToolCall("c", "get_weather", {"city": "Oslo"})
CALL = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
CODER = (
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n"
    "</function>\n</tool_call>"
)
UNMARKED = {"json_tool", "json_tool_openai", "json_tool_gemini", "bare_json", "generic_json"}
"""Formats whose calls are JSON and nothing else: they have rules of their own for fences."""
MARKED = [
    fmt
    for fmt in BUILT_IN
    if fmt.name not in ("none", "file_tags", "auto", "pythonic", "xlam", "gemma", *UNMARKED)
]


def read(text: str, format_: str = "hermes", **options: Any) -> AssistantMessage:
    parser = Parser(format_, TOOLS, **options)
    builder = MessageBuilder()
    for event in (*parser.feed(text), *parser.finish(cut=False)):
        builder.add(event)
    return builder.message


@pytest.mark.parametrize("fmt", MARKED, ids=lambda fmt: fmt.name)
def test_a_fence_protects_in_every_marked_format(fmt: Any) -> None:
    call = fmt.render_call(OSLO)
    text = f"An example:\n```text\n{call}\n```\n"
    for mode in MODES:
        for repair in (False, True):
            assert read(text, fmt.name, arguments=mode, repair=repair).tool_calls == []
        # Some formats have calls first in an answer, or with nothing behind them.
        calls = read(f"An example:\n{call}", fmt.name, arguments=mode).tool_calls
        if "]```" not in call:  # which is no line that closes a fence
            again = read(f"{text}\n{call}", fmt.name, arguments=mode).tool_calls
            assert len(again) == len(calls)
        fenced = read(text, fmt.name, arguments=mode, fenced="calls").tool_calls
        assert [one.arguments for one in fenced] == [OSLO.arguments] * len(calls)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fmt", MARKED, ids=lambda fmt: fmt.name)
def test_inline_code_and_a_block_quote_protect_in_every_marked_format(fmt: Any, mode: Mode) -> None:
    call = fmt.render_call(OSLO)
    for text in (
        f"It writes `{call}` then.\n\n",
        f"The page:\n\n> {call}\n\n",
        "> " + call.replace("\n", "\n> ") + "\n\n",
    ):
        if mode == "live":
            make = partial(Parser, fmt.name, TOOLS, arguments=mode)
            check_readings(lambda make=make: Ending(make(), cut=False), text)  # type: ignore[misc]
        for repair in (False, True):
            assert read(text, fmt.name, arguments=mode, repair=repair).tool_calls == []
        calls = read(f"An example:\n{call}", fmt.name, arguments=mode).tool_calls
        if "]```" not in call:  # which is no line that closes a fence
            again = read(f"{text}{call}", fmt.name, arguments=mode).tool_calls
            assert len(again) == len(calls)


MESSAGES = {
    "harmony": "<|channel|>final<|message|>{}<|end|>",
    "beam": "<|start|>assistant<|channel|>final<|message|>{}<|end|>",
    "inkling": "<|message_model|><|content_text|>{}<|end_message|>",
    "kimi_k3": "<|open|>response<|sep|>{}<|close|>response<|sep|>",
    "muse_glimmer": "<|start|>assistant to=user<|message|>{}<|eom|>",
    "functionary_v3_2": "all\n{}\n",
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MESSAGES)
def test_the_code_of_a_message_ends_with_it(name: str, mode: Mode) -> None:
    call = next(fmt for fmt in BUILT_IN if fmt.name == name).render_call(OSLO)
    said = ["The user`s wish", "> said the user", "Like `>>>` or `<|start|>x` or\n> this"]
    said += ["~~~\nx"] if name != "functionary_v3_2" else []  # Nothing ends its messages.
    for one in said:
        text = MESSAGES[name].format(one) + call
        make = partial(Parser, name, TOOLS, arguments=mode)
        check_readings(lambda make=make: Ending(make(), cut=False), text)  # type: ignore[misc]
        (found,) = read(text, name, arguments=mode).tool_calls
        assert found.arguments == OSLO.arguments


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MESSAGES)
def test_code_in_a_message_protects_all_calls_in_it(name: str, mode: Mode) -> None:
    call = next(fmt for fmt in BUILT_IN if fmt.name == name).render_call(OSLO)
    for said in (f"See `{call}{call}`", f"See\n```\n{call}\n{call}\n```\n", f"> {call}\n> {call}"):
        text = MESSAGES[name].format(said)
        assert read(text, name, arguments=mode).tool_calls == []


IN_CODE = {
    "a fence": f"```\n{CALL}\n```",
    "a fence with a label": f"Look:\n```xml title=a\n{CALL}\n```",
    "a fence of tildes": f"~~~\n{CALL}\n~~~",
    "backticks in a fence of tildes": f"~~~\n```\n```\n{CALL}\n~~~",
    "a longer fence": f"````\n```\n{CALL}\n```\n````",
    "an indented fence": f"- a\n\n      ```\n      {CALL}\n      ```",
    "a fence that begins an item": f"1. ```\n   {CALL}\n   ```",
    "a fence with other line ends": f"```xml\r\n{CALL}\r\n```\r\n",
    "a fence that is never closed": f"```\nx = 1\n\n{CALL}",
    "a fence that a labelled line does not close": f"```\na\n```py\n{CALL}\n```",
    "a fence in a fence": f"```md\n```py\na\n```\n{CALL}\n```",
    "a fence behind a fence": f"```\na\n```\ntext\n```\n{CALL}\n```",
    "a fence on the line of the marker": f"```{CALL}```",
    "inline code": f"It writes `{CALL}` then.",
    "inline code further on": f"It writes `x = {CALL}` then.",
    "inline code with two backticks": f"It writes `` ` {CALL} `` then.",
    "inline code behind a long line": f"{'`a` and ' * 60}`{CALL}`",
    "a block quote": f"The page:\n\n> {CALL}\n",
    "a block quote in a block quote": f"> > {CALL}\n",
    "a block quote in a list": f"- > {CALL}\n",
    "a fence in a block quote": f"> ```\n> {CALL}\n> ```\n",
}
NOT_IN_CODE = {
    "a fence that is closed": f"```\ncode\n```\n{CALL}",
    "a fence that is closed by more": f"```\ncode\n`````  \n{CALL}",
    "a fence that is closed with other line ends": f"```\r\ncode\r\n```\r\n{CALL}",
    "a fence in a fence that is closed": f"```md\n```py\na\n```\n```\n{CALL}",
    "two fences": f"```\na\n```\n~~~\nb\n~~~\n{CALL}",
    "backticks inside a line": f"Write ``` to begin a fence.\n{CALL}",
    "inline code of three backticks": f"```a``` is code.\n{CALL}",
    "inline code that is closed": f"The tool `get_weather` it is: {CALL}",
    "many of them in a long line": f"{'`a` and ' * 60}{CALL}",
    "a backtick too many on another line": f"The user`s wish.\n{CALL}",
    "a block quote before": f"> said the user\n\n{CALL}",
    "a block quote on the line before": f"> said the user\n{CALL}",
    "a comparison": f"a > b {CALL}",
    "an item of a list": f"- {CALL}",
}


@pytest.mark.parametrize("text", IN_CODE.values(), ids=IN_CODE)
def test_a_call_in_code_is_text(text: str) -> None:
    for mode in MODES:
        for trim in (False, True):
            make = partial(Parser, "hermes", TOOLS, arguments=mode, trim=trim)
            check_readings(lambda make=make: Ending(make(), cut=False), text)  # type: ignore[misc]
            found = read(text, arguments=mode, trim=trim)
            assert found.tool_calls == []
            assert found.text == text
        assert len(read(text, fenced="calls").tool_calls) == 1
        assert len(read(text, "auto", fenced="calls").tool_calls) == 1


@pytest.mark.parametrize("text", NOT_IN_CODE.values(), ids=NOT_IN_CODE)
def test_a_call_behind_code_is_a_call(text: str) -> None:
    for mode in MODES:
        for trim in (False, True):
            make = partial(Parser, "hermes", TOOLS, arguments=mode, trim=trim)
            check_readings(lambda make=make: Ending(make(), cut=False), text)  # type: ignore[misc]
            calls = read(text, arguments=mode, trim=trim).tool_calls
            assert [call.arguments for call in calls] == [OSLO.arguments]


@pytest.mark.parametrize(
    "text",
    [f"`{CODER}`", f"> {CODER}", "> " + CODER.replace("\n", "\n> "), f"```\n{CODER}\n```"],
)
def test_all_markers_of_a_call_in_code_are_text(text: str) -> None:
    for mode in MODES:
        assert read(text, "qwen3_coder", arguments=mode, repair=True).text == text
        assert len(read(f"{text}\n\n{CODER}", "qwen3_coder", arguments=mode).tool_calls) == 1


def test_a_fence_inside_a_call_or_a_thought_is_not_one_of_the_text() -> None:
    call = CALL.replace("Oslo", "Oslo\\n```\\n")
    assert len(read(f"{call}\n{CALL}").tool_calls) == 2
    coder = CODER.replace("Oslo", "Oslo\n```\nx")
    assert len(read(f"{coder}\n{CODER}", "qwen3_coder").tool_calls) == 2
    assert len(read(f"<think>Like\n```\nthis</think>{CALL}").tool_calls) == 1


def test_a_fence_that_is_the_format_is_no_code() -> None:
    call = '```tool_call\n{"name": "ping", "arguments": {}}\n```'
    for mode in MODES:
        assert len(read(f"Sure.\n{call}\n{call}", "gemma", arguments=mode).tool_calls) == 2
        assert len(read(f"```\na\n{call}", "gemma", arguments=mode).tool_calls) == 1
        for fence in ("````", "~~~"):
            assert read(f"{fence}\n{call}\n{fence}\n", "gemma", arguments=mode).tool_calls == []


def test_a_broken_call_with_a_fence_in_it_does_not_hide_the_next() -> None:
    good = next(fmt for fmt in BUILT_IN if fmt.name == "deepseek_v3").render_call(OSLO)
    broken = good.replace('{"city": "Oslo"}', '{"city": ]')
    assert broken != good
    assert len(read(f"{broken}\n{good}", "deepseek_v3").tool_calls) == 1


def test_a_call_in_code_is_reported() -> None:
    def told(text: str, format_: str, **options: Any) -> list[tuple[str, BrokenCall]]:
        found: list[tuple[str, BrokenCall]] = []
        read(text, format_, on_error=lambda *each: found.append(each), **options)
        return found

    for format_ in ("hermes", "auto"):
        [(why, segment)] = told(f"So:\n```xml\n{CALL}\n```", format_)
        assert "code fence" in why
        assert (segment.tool_name, segment.text) == ("get_weather", CALL)
        assert told("Calls begin with `<tool_call>` here.", format_) == []
        assert told(f"```\n{CALL.replace('get_weather', 'unknown')}\n```", format_) == []
        assert told(f"```\n{CALL}\n```", format_, fenced="calls") == []


def test_only_two_words_are_known() -> None:
    with pytest.raises(UsageError, match="fenced"):
        Parser("hermes", TOOLS, fenced="yes")  # type: ignore[arg-type]


PARTS = ["```", "~~~", "````", "`", "> ", "- ", "\n", "\n\n", " ", "py", "<", "<tool_call", CALL]
PARTS += [fmt.render_call(OSLO) for fmt in BUILT_IN if fmt.name in MESSAGES]


@settings(max_examples=60)
@given(
    parts=st.lists(st.sampled_from(PARTS), max_size=14),
    name=st.sampled_from(["hermes", "qwen3_coder", "morph_xml", *MESSAGES, "auto"]),
    mode=st.sampled_from(MODES),
    cuts=CUTS,
    trim=st.booleans(),
)
def test_no_cut_changes_what_is_code(
    parts: list[str], name: str, mode: Mode, cuts: list[int], *, trim: bool
) -> None:
    text = "".join(parts)
    make = partial(Parser, name, TOOLS, arguments=mode, trim=trim, repair=trim)
    check_readings(lambda: Ending(make(), cut=False), text, [one_by_one(text), cut_at(text, cuts)])


def test_many_markers_in_one_line_of_code_cost_as_much_each_as_few() -> None:
    def run(size: int) -> None:
        read("`" + "a <tool_call> " * size)

    check_linear(run, 300, 3_000, at_most=2.5)
