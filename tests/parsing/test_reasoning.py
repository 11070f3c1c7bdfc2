"""Reasoning in the machine: where it begins and ends, what a prompt opened, what a call ends."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import (
    check_no_stall,
    check_readings,
    cut_at,
    one_by_one,
)
from laws.strategies import CUTS, soup
from parsing.samples import HERMES, TOOLS, complete_calls, message_of
from penstock.events import ThinkingDelta, ThinkingStart
from penstock.messages import AssistantMessage
from penstock.parsing import Engine, Reasoning

Mode = Literal["whole", "live"]

LEADING = Reasoning("leading", ("<think>",), ("</think>",), leading=True)
ONCE = Reasoning("once", ("<think>",), ("</think>",))
RECURRING = Reasoning("recurring", ("[THINK]",), ("[/THINK]",), recurs=True)
INTERRUPTED = Reasoning("interrupted", ("<think>",), ("</think>",), interrupted=True)
STYLES = (LEADING, ONCE, RECURRING, INTERRUPTED)

CALL = '<tool_call>{"name": "write", "arguments": {"path": "a"}}</tool_call>'


def parse(text: str, reasoning: Reasoning, **options: Any) -> AssistantMessage:
    make = partial(Engine, HERMES, TOOLS, reasoning=reasoning, **options)
    return message_of(check_readings(make, text))


CASES = [
    pytest.param(
        LEADING,
        "<think>hm</think>\nyes",
        ("hm", "\nyes"),
        id="the first thing of the answer is a thought",
    ),
    pytest.param(
        LEADING,
        " \n<think>hm</think>yes",
        ("hm", "yes"),
        id="white space before the first thought is nobody's",
    ),
    pytest.param(
        LEADING,
        " \n yes",
        ("", " \n yes"),
        id="white space before anything else is text",
    ),
    pytest.param(
        LEADING,
        "well <think>hm</think>",
        ("", "well <think>hm</think>"),
        id="behind text the markers of a leading style are text",
    ),
    pytest.param(
        ONCE,
        "well <think>hm</think>yes",
        ("hm", "well yes"),
        id="behind text the markers of another style are markers",
    ),
    pytest.param(
        ONCE,
        "<think>a</think>b<think>c</think>d",
        ("a", "b<think>c</think>d"),
        id="once it has ended, further markers are text",
    ),
    pytest.param(
        RECURRING,
        "[THINK]a[/THINK]b[THINK]c[/THINK]d",
        ("ac", "bd"),
        id="reasoning that recurs is read again",
    ),
    pytest.param(
        ONCE,
        "<think> <think>a <think> b</think>c",
        (" a <think> b", "c"),
        id="a repeated start marker is dropped at the beginning and is data elsewhere",
    ),
    pytest.param(ONCE, "<think>a", ("a", ""), id="reasoning that is cut is reasoning"),
    pytest.param(ONCE, "a</think>b", ("", "a</think>b"), id="an end without a start is text"),
    pytest.param(ONCE, "<think></think>a", ("", "a"), id="an empty thought is no block"),
    pytest.param(ONCE, "<think>a</thi", ("a</thi", ""), id="half an end marker is reasoning"),
]


@pytest.mark.parametrize(("style", "text", "expected"), CASES)
def test_reasoning_is_parted_from_the_answer(
    style: Reasoning, text: str, expected: tuple[str, str]
) -> None:
    message = parse(text, style)
    assert (message.thinking, message.text) == expected


def test_a_call_inside_a_thought_is_a_thought() -> None:
    message = parse(f"<think>a {CALL} b</think>c", ONCE)
    assert message.thinking == f"a {CALL} b"
    assert not message.tool_calls


@pytest.mark.parametrize("mode", ["whole", "live"])
def test_a_call_ends_the_thought_of_a_style_that_says_so(mode: Mode) -> None:
    message = parse(f"<think>a {CALL} b</think>c", INTERRUPTED, arguments=mode)
    assert message.thinking == "a "
    assert complete_calls(message) == [("write", {"path": "a"})]
    assert message.text == " bc", "the end marker that comes later belongs to the thought"


def test_what_looks_like_a_call_and_is_none_stays_a_thought() -> None:
    message = parse("<think>a <tool_call>no b</think>c", INTERRUPTED)
    assert (message.thinking, message.text) == ("a <tool_call>no b", "c")


def test_a_cut_call_inside_a_thought_stays_a_thought() -> None:
    message = parse('<think>a <tool_call>{"name": "wr', INTERRUPTED)
    assert message.thinking == 'a <tool_call>{"name": "wr'


PROMPTS = [
    pytest.param("assistant\n<think>\n", ("a", "b"), id="an open block goes on"),
    pytest.param("<think>\n\n</think>\n", ("", "a</think>b"), id="a closed one is over"),
    pytest.param("<think>x</think> <think>", ("a", "b"), id="the last one counts"),
    pytest.param("assistant\n", ("", "a</think>b"), id="none opens nothing"),
]


@pytest.mark.parametrize(("prompt", "expected"), PROMPTS)
@pytest.mark.parametrize("style", [LEADING, ONCE, INTERRUPTED], ids=lambda style: style.name)
def test_the_prompt_may_have_opened_a_thought(
    style: Reasoning, prompt: str, expected: tuple[str, str]
) -> None:
    message = parse("a</think>b", style, prompt_suffix=prompt)
    assert (message.thinking, message.text) == expected


def test_nothing_of_the_prompt_comes_out() -> None:
    machine = Engine(HERMES, TOOLS, reasoning=ONCE, prompt_suffix="<think>\nso far <thi")
    events = [*machine.feed("nk"), *machine.finish()]
    assert events[0] == ThinkingStart(0)
    assert [event.text for event in events if isinstance(event, ThinkingDelta)] == ["nk"]


def test_a_thought_leaves_as_it_comes() -> None:
    machine = Engine(HERMES, TOOLS, reasoning=ONCE)
    machine.feed("<think>a")
    assert machine.feed("bc") == [ThinkingDelta(0, "bc", "bc")]
    assert machine.feed("d<") == [ThinkingDelta(0, "d", "d")]
    assert machine.feed("/x") == [ThinkingDelta(0, "</x", "</x")]


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
def test_no_more_is_held_back_than_may_begin_a_marker(style: Reasoning) -> None:
    make = partial(Engine, HERMES, TOOLS, reasoning=style)
    check_no_stall(make, "x < y <think <tool_ </thin [TH [/TH", len("<tool_call>"))


PIECES = soup("<think>", "</think>", "[THINK]", "[/THINK]", CALL, "<tool_call>", "</tool_call>")


@settings(max_examples=60)
@given(
    text=PIECES,
    cuts=CUTS,
    mode=st.sampled_from(["whole", "live"]),
    style=st.sampled_from(STYLES),
    trim=st.booleans(),
    prompt=st.sampled_from(["", "<think>", "<think></think>", "[THINK]"]),
)
def test_the_laws_hold_with_reasoning(
    text: str,
    cuts: list[int],
    mode: Mode,
    style: Reasoning,
    trim: bool,  # noqa: FBT001
    prompt: str,
) -> None:
    make = partial(
        Engine, HERMES, TOOLS, arguments=mode, reasoning=style, trim=trim, prompt_suffix=prompt
    )
    check_readings(make, text, [cut_at(text, cuts), one_by_one(text)])
