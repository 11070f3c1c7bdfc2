"""Muse Glimmer's messages with recipients, and the calls in those to a tool."""

from __future__ import annotations

from typing import Any

import pytest

from parsing.channel_samples import MODES, TOOLS, Mode, parse, parts
from penstock.events import TextDelta, ToolCallDelta
from penstock.parsing import Engine
from penstock.readers.muse import ATEM

MUSE = ATEM()
INVOKE = '<atem:invoke name="note">\n<atem:parameter name="text">a</atem:parameter>\n</atem:invoke>'
SECTION = f"<atem:function_calls>\n{INVOKE}\n</atem:function_calls>"
CALLED = ("note", {"text": "a"})


def to(recipient: str, text: str = "", end: str = "<|eom|>") -> str:
    return f"<|start|>assistant to={recipient}<|message|>{text}{end}"


READ = {
    "a thought and an answer": (to("self", "hm") + to("user", "Yes", "<|eot|>"), [["hm"], "Yes"]),
    "a header that begins in the prompt": (
        " to=self<|message|>hm<|eom|>" + to("user", "Yes"),
        [["hm"], "Yes"],
    ),
    "headers without a start": (
        "to=self<|message|>hm<|eom|>\n to=user<|message|>Yes<|eot|>",
        [["hm"], "\n Yes"],
    ),
    "no ends": (to("self", "hm", "") + "to=user<|message|>Yes", [["hm"], "Yes"]),
    "no recipient": ("<|start|>assistant<|message|>Yes<|eom|>", ["Yes"]),
    "thoughts that recur": (
        to("self", "a") + to("note", SECTION) + to("self", "b"),
        [["a"], CALLED, ["b"]],
    ),
    "a call in a message": (to("note", SECTION) + "so", [CALLED, "so"]),
    "a call in a message without an end": (to("note", SECTION, ""), [CALLED]),
    "a call in a message with half an end": (to("note", SECTION, "\n<|eo"), [CALLED]),
    "a call that interrupts a thought": (
        to("self", "hm", "") + to("note", SECTION) + to("self", "b") + "c",
        [["hm"], CALLED, ["b"], "c"],
    ),
    "text around calls of one message": (
        to("note", f"so {SECTION} and {SECTION} on"),
        ["so ", CALLED, " and ", CALLED, " on"],
    ),
    "several calls in a section": (
        to("note", SECTION.replace(INVOKE, INVOKE * 2)),
        [CALLED, CALLED],
    ),
    "no end of the section": (to("note", f"<atem:function_calls>{INVOKE}") + "so", [CALLED, "so"]),
    "no section": (to("note", INVOKE) + "so", [CALLED, "so"]),
    "no header": (SECTION, [CALLED]),
    "a call that its own tag closes": (
        to("note", "<atem:function_calls><atem:invoke name='note' /></atem:function_calls>"),
        [("note", {})],
    ),
    "a message to a tool that is text": (to("note", "so"), ["so"]),
    "calls in an answer": (to("user", SECTION), [SECTION]),
    "calls in a thought": (to("self", SECTION), [[SECTION]]),
    "a recipient in prose": ("set to=x, to=user and so", ["set to=x, to=user and so"]),
    "text before a recipient": ("so to=self<|message|>hm", ["so ", ["hm"]]),
    "a result that the model made up": ("<|start|>tool note<|message|>ok<|eot|>", ["ok"]),
    "a header that is cut": (to("user", "so") + "<|start|>assistant to=us", [
        "so<|start|>assistant to=us"
    ]),
    "a header that is none": (to("user", "the <|start|> token, so"), ["the <|start|> token, so"]),
    "a role of two words": ("<|start|>assist ant to=self<|message|>hm", [["hm"]]),
    "an end that ends nothing": ("so <|eom|>", ["so <|eom|>"]),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("text", "expected"), READ.values(), ids=READ)
def test_messages_are_read_at_any_cut(text: str, expected: list[Any], mode: Mode) -> None:
    assert parts(parse(MUSE, text, tools=TOOLS, mode=mode)) == expected


VALUES = {
    "text": ("text", "<b> & 1\n", "<b> & 1\n"),
    "a number": ("size", " 3\n", 3),
    "no number": ("size", "three", "three"),
    "what nobody knows": ("more", "3", "3"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("key", "text", "value"), VALUES.values(), ids=VALUES)
def test_the_schema_says_what_a_value_is(key: str, text: str, value: Any, mode: Mode) -> None:
    invoke = (
        f'<atem:invoke name="note"><atem:parameter name="{key}">{text}</atem:parameter>'
        "</atem:invoke>"
    )
    text = to("note", f"<atem:function_calls>{invoke}</atem:function_calls>")
    assert parts(parse(MUSE, text, tools=TOOLS, mode=mode)) == [("note", {key: value})]


@pytest.mark.parametrize("value", ["a</atem:parameter>b", "a<|eom|><|eot|>", "a<|im_end|>b"])
def test_a_token_of_the_format_never_is_part_of_a_value(value: str) -> None:
    text = to("note", SECTION.replace("</atem:parameter>", f"{value}</atem:parameter>"))
    assert text.count(value) == 1
    assert parts(parse(MUSE, text, tools=TOOLS)) == [text]


def test_a_broken_call_is_text_from_its_header_on_and_later_calls_are_found() -> None:
    broken = to("note", SECTION.replace("<atem:parameter", "so <atem:parameter"))
    message = parse(MUSE, f"{broken} on {to('note', SECTION)}", tools=TOOLS)
    assert parts(message) == [f"{broken} on ", CALLED]


@pytest.mark.parametrize("size", range(20, len(to("note", SECTION)) - len(SECTION) + 40, 7))
def test_a_cut_call_is_text_from_its_header_on(size: int) -> None:
    text = to("note", SECTION)[:size]
    assert parts(parse(MUSE, text, tools=TOOLS)) == [text]


PROMPTS = {
    "a header that has begun": ("<|start|>assistant", " to=self<|message|>hm", [["hm"]]),
    "a recipient that has begun": ("<|start|>assistant to=", "user<|message|>Yes", ["Yes"]),
    "a thought": (to("self", end=""), "hm<|eom|>so", [["hm"], "so"]),
    "a thought without a start": ("to=self<|message|>", "hm<|eom|>so", [["hm"], "so"]),
    "the header of a call": (to("note", end=""), SECTION, [CALLED]),
    "another mark of thoughts": ("<think>", "hm</think>so", [["hm"], "so"]),
    "something else": ("assistant:", "so", ["so"]),
    "an answer without a header": ("<|start|>assistant", "so it is", ["so it is"]),
}


@pytest.mark.parametrize(("prompt", "text", "expected"), PROMPTS.values(), ids=PROMPTS)
def test_the_prompt_may_have_opened_a_message(prompt: str, text: str, expected: list[Any]) -> None:
    assert parts(parse(MUSE, text, tools=TOOLS, prompt=prompt)) == expected


def test_without_calls_the_message_to_a_tool_is_text() -> None:
    text = to("self", "hm") + to("note", SECTION)
    assert parts(parse(ATEM(calls=False), text)) == [["hm"], SECTION]
    assert parts(parse(ATEM(calls=False), SECTION)) == [SECTION]


def test_strings_leave_as_they_come() -> None:
    machine = Engine(MUSE, TOOLS, arguments="live")
    machine.feed(to("note", SECTION, "").partition("a</atem")[0])
    assert machine.feed("ab") == [ToolCallDelta(0, "ab", "ab")]
    assert machine.feed("c</a") == [ToolCallDelta(0, "c", "c")]
    assert machine.feed("> d") == [ToolCallDelta(0, "</a> d", "</a> d")]


@pytest.mark.parametrize("text", ["so it is", "Hello, world", "well to=day is"])
def test_an_answer_without_any_header_leaves_soon(text: str) -> None:
    machine = Engine(MUSE, TOOLS)
    shown = [event.text for event in machine.feed(text) if isinstance(event, TextDelta)]
    assert "".join(shown) == text


NOTED = {
    "forgotten": ('a<atem:parameter name="size">5</atem:parameter>', "closed the value of 'text'"),
    "doubled": (
        'a</atem:parameter></atem:parameter><atem:parameter name="size">5</atem:parameter>',
        "dropped a closing tag that came twice",
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("inside", "note"), NOTED.values(), ids=NOTED)
def test_a_closing_tag_that_was_forgotten_or_came_twice_is_noted(
    inside: str, note: str, mode: Mode
) -> None:
    text = to("note", SECTION.replace("a</atem:parameter>", inside))
    message = parse(MUSE, text, tools=TOOLS, mode=mode)
    assert parts(message) == [("note", {"text": "a", "size": 5})]
    assert message.tool_calls[0].repairs == [note]
