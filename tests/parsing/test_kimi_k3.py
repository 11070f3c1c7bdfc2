"""Kimi K3's channels, and its calls with raw values."""

from __future__ import annotations

from typing import Any

import pytest

from parsing.channel_samples import MODES, TOOLS, Mode, parse, parts
from penstock.events import ToolCallDelta
from penstock.parsing import Engine
from penstock.readers.kimi_k3 import XTML

KIMI = XTML()


def opened(word: str) -> str:
    return f"<|open|>{word}<|sep|>"


def closed(word: str) -> str:
    return f"<|close|>{word}<|sep|>"


def argument(value: str, kind: str = "string", key: str = "text") -> str:
    return opened(f'argument key="{key}" type="{kind}"') + value + closed("argument")


def call(inside: str = "", name: str = "note") -> str:
    return opened(f'call tool="{name}" index="1"') + inside + closed("call")


def section(*calls: str) -> str:
    return opened("tools") + "".join(calls) + closed("tools")


READ = {
    "a thought and an answer": (
        opened("think") + "hm" + closed("think") + opened("response") + "Yes" + closed("response")
        + closed("message") + "<|end_of_msg|>",
        [["hm"], "Yes"],
    ),
    "a thought that the answer ends": (
        opened("think") + "hm" + opened("response") + "Yes",
        [["hm"], "Yes"],
    ),
    "a thought that the tools end": (
        opened("think") + "hm" + section(call()) + "so",
        [["hm"], ("note", {}), "so"],
    ),
    "a thought that a call ends, and its end marker": (
        opened("think") + "hm " + call() + "so" + closed("think") + " on",
        [["hm "], ("note", {}), "so on"],
    ),
    "a cut call in a thought": (
        opened("think") + "hm " + opened("tools") + '<|open|>call tool="no',
        [["hm " + opened("tools") + '<|open|>call tool="no']],
    ),
    "thoughts that recur": (
        opened("think") + "a" + closed("think") + section(call()) + opened("think") + "b",
        [["a"], ("note", {}), ["b"]],
    ),
    "text outside of channels": ("so " + section(call()) + " on", ["so ", ("note", {}), " on"]),
    "text in the tools": (
        opened("tools") + "so " + call() + closed("tools"),
        ["so ", ("note", {})],
    ),
    "text between calls": (
        opened("tools") + call() + " so " + call() + closed("tools"),
        [("note", {}), " so ", ("note", {})],
    ),
    "tools without a call": (opened("tools") + "\n" + closed("tools") + "so", ["so"]),
    "tools without a call in a thought": (
        opened("think") + "hm" + opened("tools") + closed("tools") + "so",
        [["hm"], "so"],
    ),
    "no end of the tools": (opened("tools") + call(), [("note", {})]),
    "half an end of the tools": (opened("tools") + call() + "<|close|>too", [("note", {})]),
    "no section": (call() + call() + closed("tools"), [("note", {})] * 2),
    "white space between all": (
        opened("tools") + " \n" + opened('call  tool = "note"') + "\n" + argument("a") + "\n"
        + closed("call") + "\n" + closed("tools"),
        [("note", {"text": "a"})],
    ),
    "marks without a word": (
        "<|open|>too<|close|>argument<|sep|><|open|>thinking<|sep|><|close|>",
        ["<|open|>too<|close|>argument<|sep|><|open|>thinking<|sep|><|close|>"],
    ),
    "a mark in a thought": (
        opened("think") + "the <|open|> mark" + closed("response") + closed("think") + "so",
        [["the <|open|> mark" + closed("response")], "so"],
    ),
    "an end that ends nothing": ("so" + closed("response") + " on", ["so on"]),
    "a message in the answer": (
        opened('message role="assistant"') + opened("response") + "Yes" + closed("message"),
        ["Yes"],
    ),
    "names that are escaped": (
        section(call(argument("&amp;", key="a&quot;b&amp;quot;"), name="a&amp;b")),
        [("a&b", {'a"b&quot;': "&amp;"})],
    ),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("text", "expected"), READ.values(), ids=READ)
def test_channels_are_read_at_any_cut(text: str, expected: list[Any], mode: Mode) -> None:
    assert parts(parse(KIMI, text, tools=TOOLS, mode=mode)) == expected


VALUES = {
    "a string": ("5", "string", "5"),
    "a string with white space": (" a\n", "string", " a\n"),
    "an empty string": ("", "string", ""),
    "a whole number": (" 9 ", "number", 9),
    "a fraction": ("-4.75e1", "number", -47.5),
    "no number": ("nine", "number", "nine"),
    "a boolean": ("True", "boolean", True),
    "no boolean": ("yes", "boolean", "yes"),
    "null": ("null", "null", None),
    "no null": ("none", "null", "none"),
    "an object": ('{"a": [1, "x"]}', "object", {"a": [1, "x"]}),
    "an array": ("[1, {}]", "array", [1, {}]),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("text", "kind", "value"), VALUES.values(), ids=VALUES)
def test_the_type_beside_the_key_says_what_a_value_is(
    text: str, kind: str, value: Any, mode: Mode
) -> None:
    written = section(call(argument(text, kind, key="other")))  # of which the schema says nothing
    assert parts(parse(KIMI, written, tools=TOOLS, mode=mode)) == [("note", {"other": value})]


@pytest.mark.parametrize("mode", MODES)
def test_the_schema_counts_more_than_the_type_beside_the_key(mode: Mode) -> None:
    message = parse(KIMI, section(call(argument("9", "number"))), tools=TOOLS, mode=mode)
    assert parts(message) == [("note", {"text": "9"})]


REFUSED = {
    "an object that is an array": argument("[1]", "object", key="other"),
    "a broken object": argument('{"a": ', "object", key="other"),
    "an end tag inside": argument(f"a{closed('argument')}b"),
    "marks inside": argument(f"a{opened('think')}b{closed('call')}"),
    "another argument inside": argument("<|open|>argument"),
    "an argument twice": argument("a") + argument("b"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("inside", REFUSED.values(), ids=REFUSED)
def test_no_call_is_complete_whose_meaning_is_not_clear(inside: str, mode: Mode) -> None:
    message = parse(KIMI, section(call(inside)), tools=TOOLS, mode=mode)
    assert not any(each.complete for each in message.tool_calls)


@pytest.mark.parametrize("mode", MODES)
def test_without_a_type_the_schema_says_it(mode: Mode) -> None:
    inside = f'<|open|>argument key="size"<|sep|> 3{closed("argument")}'
    inside += f'<|open|>argument key="more"<|sep|>3{closed("argument")}'
    message = parse(KIMI, section(call(inside)), tools=TOOLS, mode=mode)
    assert parts(message) == [("note", {"size": 3, "more": "3"})]


BROKEN = {
    "text before an argument": call("b" + argument("a")),
    "an argument without a key": call(opened("argument") + "a" + closed("argument")),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_call_is_text_from_its_section_on_and_later_calls_are_found(broken: str) -> None:
    text = opened("tools") + broken + call() + closed("tools")
    assert parts(parse(KIMI, text, tools=TOOLS)) == [opened("tools") + broken, ("note", {})]


@pytest.mark.parametrize("mode", MODES)
def test_a_call_without_its_end_is_closed_before_the_next_one(mode: Mode) -> None:
    text = opened("tools") + opened('call tool="note"') + argument("a") + call() + closed("tools")
    message = parse(KIMI, text, tools=TOOLS, mode=mode)
    assert parts(message) == [("note", {"text": "a"}), ("note", {})]
    assert message.tool_calls[0].repairs == ["closed the call before the next one"]


def test_a_call_without_a_tool_is_text() -> None:
    nameless = opened('call index="1"') + closed("call")
    text = opened("tools") + nameless + closed("tools")
    assert parts(parse(KIMI, text, tools=TOOLS)) == [nameless]


@pytest.mark.parametrize("mode", MODES)
def test_a_second_call_that_is_cut_does_not_undo_the_first(mode: Mode) -> None:
    cut = opened('call tool="note"') + '<|open|>argument key="text" type="string"<|sep|>ab<|clo'
    message = parse(KIMI, opened("tools") + call() + cut, tools=TOOLS, mode=mode)
    assert parts(message) == [("note", {}), cut if mode == "whole" else ("note", None)]


@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_the_model_left_open_is_closed_with_repair(mode: Mode) -> None:
    text = opened("tools") + opened('call tool="note"') + argument("3", "number", "size")
    text += '<|open|>argument key="text" type="string"<|sep|>ab'
    machine = Engine(KIMI, TOOLS, repair=True, arguments=mode)
    events = [*machine.feed(text), *machine.finish(cut=False)]
    (found,) = [event.call for event in events if hasattr(event, "call")]
    assert (found.arguments, found.complete) == ({"size": 3, "text": "ab"}, True)


PROMPTS = {
    "a thought": (opened("think"), "hm" + closed("think") + "so", [["hm"], "so"]),
    "a thought in a message": (
        opened('message role="assistant"') + opened("think"),
        "hm" + opened("response") + "so",
        [["hm"], "so"],
    ),
    "a thought that is over": (opened("think") + closed("think"), "so", ["so"]),
    "tools": (opened("tools"), call() + closed("tools"), [("note", {})]),
    "another mark of thoughts": ("<think>", "hm</think>so", [["hm"], "so"]),
    "nothing": ("", "so", ["so"]),
}


@pytest.mark.parametrize(("prompt", "text", "expected"), PROMPTS.values(), ids=PROMPTS)
def test_the_prompt_may_have_opened_a_channel(prompt: str, text: str, expected: list[Any]) -> None:
    assert parts(parse(KIMI, text, tools=TOOLS, prompt=prompt)) == expected


def test_without_calls_the_tools_are_text() -> None:
    text = opened("think") + "hm" + section(call(argument("a")))
    assert parts(parse(XTML(calls=False), text)) == [["hm"], call(argument("a"))]


def test_strings_leave_as_they_come() -> None:
    machine = Engine(KIMI, TOOLS, arguments="live")
    machine.feed(opened("tools") + opened('call tool="note"') + opened('argument key="text"'))
    assert machine.feed("ab")[-1] == ToolCallDelta(0, "ab", "ab")
    assert machine.feed("c\n") == [ToolCallDelta(0, "c\\n", "c\n")]
    assert machine.feed("d<|cl") == [ToolCallDelta(0, "d", "d")]
    assert machine.feed("x") == [ToolCallDelta(0, "<|clx", "<|clx")]
