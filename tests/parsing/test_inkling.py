"""Inkling's typed blocks."""

from __future__ import annotations

from typing import Any

import pytest

from parsing.channel_samples import MODES, TOOLS, Mode, parse, parts
from penstock.events import ToolCallDelta
from penstock.parsing import Engine
from penstock.readers.inkling import Inkling

INKLING = Inkling()
JSON = "<|content_invoke_tool_json|>"
NOTE = '{"name": "note", "args": {"size": 1}}'

READ = {
    "a thought and an answer, the first header in the prompt": (
        (
            "<|content_thinking|>hm<|end_message|>"
            "<|message_model|><|content_text|>Yes<|end_message|><|content_model_end_sampling|>"
        ),
        [["hm"], "Yes"],
    ),
    "a call whose name begins the answer": (
        f"note{JSON}{NOTE}<|end_message|><|content_model_end_sampling|>",
        [("note", {"size": 1})],
    ),
    "a call without a name before it": (
        f"<|message_model|>{JSON}{NOTE}<|content_model_end_sampling|>",
        [("note", {"size": 1})],
    ),
    "a call without its message token": (
        f"<|content_text|>so<|end_message|>{JSON}{NOTE}<|end_message|>on",
        ["so", ("note", {"size": 1}), "on"],
    ),
    "a call without an end": (f"note{JSON}{NOTE}", [("note", {"size": 1})]),
    "a call with half an end": (f"note{JSON}{NOTE}\n<|content_mod", [("note", {"size": 1})]),
    "several calls in one block": (
        f"{JSON}[{NOTE}, {NOTE}] {NOTE}<|end_message|>",
        [("note", {"size": 1})] * 3,
    ),
    "a call in free text": (
        "<|message_model|>note<|content_invoke_tool_text|> a {b}\n<|end_message|>on",
        [("note", {"text": " a {b}\n"}), "on"],
    ),
    "free text for nobody": ("<|content_invoke_tool_text|>a<|end_message|>", ["a"]),
    "an error": ("<|message_model|><|content_tool_error|>no<|end_message|>", ["no"]),
    "no ends": (
        "<|content_thinking|>hm<|message_model|><|content_text|>Yes",
        [["hm"], "Yes"],
    ),
    "thoughts that recur": (
        (
            "<|content_thinking|>a<|end_message|><|content_text|>b<|end_message|>"
            "<|message_model|><|content_thinking|>c<|end_message|>"
        ),
        [["a"], "b", ["c"]],
    ),
    "a type twice": ("<|content_text|><|content_text|>Yes<|end_message|>", ["Yes"]),
    "no header at all": ("Hello world", ["Hello world"]),
    "one word": ("Hello", ["Hello"]),
    "a header that is none": (
        "<|content_text|>the <|message_model|> token<|end_message|>",
        ["the <|message_model|> token"],
    ),
    "a header that is cut": (
        "<|content_text|>so<|end_message|><|message_model|>no<|content_",
        ["so<|message_model|>no<|content_"],
    ),
    "text behind a call": (f"{JSON}{NOTE}}} so<|end_message|>on", [("note", {"size": 1}), " soon"]),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("text", "expected"), READ.values(), ids=READ)
def test_blocks_are_read_at_any_cut(text: str, expected: list[Any], mode: Mode) -> None:
    assert parts(parse(INKLING, text, tools=TOOLS, mode=mode)) == expected


def test_a_broken_call_is_text_from_its_header_on_and_later_calls_are_found() -> None:
    broken = f'<|message_model|>note{JSON}{{"name" 1}}<|end_message|>'
    message = parse(INKLING, f"{broken} so <|message_model|>note{JSON}{NOTE}", tools=TOOLS)
    assert parts(message) == [f"{broken} so ", ("note", {"size": 1})]


PROMPTS = {
    "a message that has begun": ("<|message_model|>", "<|content_thinking|>hm", [["hm"]]),
    "a thought": ("<|message_model|><|content_thinking|>", "hm<|end_message|>Yes", [["hm"], "Yes"]),
    "a type alone": ("<|content_thinking|>", "hm", [["hm"]]),
    "the header of a call": (f"<|message_model|>note{JSON}", NOTE, [("note", {"size": 1})]),
    "another mark of thoughts": ("<think>", "hm</think>Yes", [["hm"], "Yes"]),
    "something else": ("model:", f"note{JSON}{NOTE}", ["note", ("note", {"size": 1})]),
}


@pytest.mark.parametrize(("prompt", "text", "expected"), PROMPTS.values(), ids=PROMPTS)
def test_the_prompt_may_have_opened_a_block(prompt: str, text: str, expected: list[Any]) -> None:
    assert parts(parse(INKLING, text, tools=TOOLS, prompt=prompt)) == expected


def test_without_calls_the_block_of_one_is_text() -> None:
    text = f"<|content_thinking|>hm<|end_message|><|message_model|>note{JSON}{NOTE}<|end_message|>"
    assert parts(parse(Inkling(calls=False), text)) == [["hm"], NOTE]


def test_strings_leave_as_they_come() -> None:
    machine = Engine(INKLING, TOOLS, arguments="live")
    machine.feed(f'note{JSON}{{"name": "note", "args": {{"text": "a')
    assert machine.feed("bc") == [ToolCallDelta(0, "bc", "bc")]
