"""Harmony's messages: headers in any order, calls, thoughts, and what is left of them."""

from __future__ import annotations

from typing import Any

import pytest

from parsing.channel_samples import MODES, TOOLS, Mode, parse, parts
from penstock.events import TextDelta, ThinkingDelta, ToolCallDelta
from penstock.parsing import Engine
from penstock.readers.harmony import Harmony

HARMONY = Harmony()
CALL = "<|channel|>commentary to=functions.note<|message|>"
START = "<|start|>assistant"

READ = {
    "a thought and an answer": (
        f"<|channel|>analysis<|message|>hm<|end|>{START}<|channel|>final<|message|>Yes<|return|>",
        [["hm"], "Yes"],
    ),
    "a recipient in the role": (
        f"{START} to=functions.note<|channel|>commentary json<|message|>{{}}<|call|>",
        [("note", {})],
    ),
    "a recipient in the role, which begins in the prompt": (
        ' to=functions.note<|channel|>commentary<|message|>{"size": 3}<|call|>',
        [("note", {"size": 3})],
    ),
    "a recipient without a channel": (
        f"{START} to=functions.note<|message|>{{}}<|call|>",
        [("note", {})],
    ),
    "a recipient in a thought": (
        "<|channel|>analysis to=functions.note<|message|>{}<|call|>",
        [("note", {})],
    ),
    "a recipient without a namespace": (
        "<|channel|>commentary to=note <|constrain|>json<|message|>{}<|call|>",
        [("note", {})],
    ),
    "a tool that nobody knows": (
        "<|channel|>commentary to=functions.a.b-c:d<|message|>{}<|call|>",
        [("a.b-c:d", {})],
    ),
    "code for a built-in tool": (
        "<|channel|>analysis to=python code<|message|> print({1})\n<|call|>so",
        [("python", {"code": " print({1})\n"}), "so"],
    ),
    "arguments for a built-in tool": (
        '<|channel|>analysis to=python<|message|>\n{"code": "1"}<|call|>',
        [("python", {"code": "1"})],
    ),
    "a built-in tool with a namespace": (
        '<|channel|>analysis to=browser.search<|message|>{"q": "x"}<|call|>',
        [("browser.search", {"q": "x"})],
    ),
    "code up to the next header": (
        f"<|channel|>analysis to=python<|message|>1{START}<|channel|>final<|message|>Yes",
        [("python", {"code": "1"}), "Yes"],
    ),
    "a channel that nobody knows, and junk": (
        "<|channel|>aside from <b> <|constrain|>x=\ny<|message|>Yes<|end|>",
        ["Yes"],
    ),
    "no channel": (f"{START}<|message|>Yes<|end|>", ["Yes"]),
    "no channel token": (f"{START}analysis<|message|>hm<|end|>", [["hm"]]),
    "a preamble": ("<|channel|>commentary<|message|>I look.<|end|>", ["I look."]),
    "two channels in a row: the last counts": (
        "<|channel|>analysis<|channel|>final<|message|>Yes",
        ["Yes"],
    ),
    "a header that begins again": (
        f"{START}{START}<|channel|>final<|message|>Yes<|return|>",
        ["Yes"],
    ),
    "a message token twice": ("<|channel|>final<|message|> <|message|>Yes", [" Yes"]),
    "no ends": (
        f"<|channel|>analysis<|message|>hm{START}<|channel|>final<|message|>Yes",
        [["hm"], "Yes"],
    ),
    "no ends and no starts": (
        "<|channel|>analysis<|message|>hm<|channel|>final<|message|>Yes",
        [["hm"], "Yes"],
    ),
    "thoughts that recur": (
        (
            f"<|channel|>analysis<|message|>a<|end|>{START}{CALL}{{}}<|call|>"
            f"{START}<|channel|>analysis<|message|>b<|end|>"
        ),
        [["a"], ("note", {}), ["b"]],
    ),
    "a thought that a call interrupts, and the next one": (
        (
            f"<|channel|>analysis<|message|>a{START}{CALL}{{}}<|call|>"
            f"{START}<|channel|>analysis<|message|>b<|end|>c"
        ),
        [["a"], ("note", {}), ["b"], "c"],
    ),
    "a result that the model made up": (
        "<|start|>functions.note to=assistant<|channel|>commentary<|message|>ok<|end|>",
        ["ok"],
    ),
    "text before and behind messages": (
        "so <|channel|>final<|message|>Yes<|end|> on",
        ["so Yes on"],
    ),
    "no header at all": ("Hello, <|end|> is a token", ["Hello, <|end|> is a token"]),
    "a header that is cut": (
        f"<|channel|>final<|message|>Yes<|end|>{START}<|chan",
        [f"Yes{START}<|chan"],
    ),
    "a header that is cut in a thought": (
        f"<|channel|>analysis<|message|>hm{START}<|channel|>fin",
        [[f"hm{START}<|channel|>fin"]],
    ),
    "tokens in prose": (
        "<|channel|>final<|message|>Write <|channel|> and <|start|> here.<|end|>",
        ["Write <|channel|> and <|start|> here."],
    ),
    "a message without text": ("<|channel|>final<|message|><|return|>", []),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("text", "expected"), READ.values(), ids=READ)
def test_messages_are_read_at_any_cut(text: str, expected: list[Any], mode: Mode) -> None:
    assert parts(parse(HARMONY, text, tools=TOOLS, mode=mode)) == expected


ARGUMENTS = {
    "nothing": ("<|call|>", {}),
    "white space": (" \n<|call|>", {}),
    "null": ("null<|call|>", {}),
    "JSON inside a string": ('"{\\"text\\": \\"a\\"}"<|call|>', {"text": "a"}),
    "no end": ('{"text": "a"}', {"text": "a"}),
    "half an end": ('{"text": "a"} <|ca', {"text": "a"}),
    "another end": ('{"text": "a"}\n<|end|>', {"text": "a"}),
    "surplus brackets": ('{"text": "a"}}] }<|call|>', {"text": "a"}),
    "markers in a string": (
        '{"text": "<|call|><|start|>assistant<|channel|>final<|message|>"}<|call|>',
        {"text": "<|call|><|start|>assistant<|channel|>final<|message|>"},
    ),
    "keys of an envelope": (
        '{"name": "note", "arguments": {"a": 1}}<|call|>',
        {"name": "note", "arguments": {"a": 1}},
    ),
    "a number in quotes": ('{"size": "3"}<|call|>', {"size": 3}),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("body", "expected"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_are_one_value(body: str, expected: dict[str, Any], mode: Mode) -> None:
    assert parts(parse(HARMONY, CALL + body, tools=TOOLS, mode=mode)) == [("note", expected)]


def test_text_behind_the_arguments_is_text_and_the_end_marker_is_not() -> None:
    text = f'{CALL}{{"size": 1}} and {{"size": 2}} <|call|>so'
    message = parse(HARMONY, text, tools=TOOLS)
    assert parts(message) == [("note", {"size": 1}), ' and {"size": 2} so']


def test_a_broken_call_is_text_from_its_header_on_and_later_calls_are_found() -> None:
    broken = f"{START}{CALL}{{,}}<|call|>"
    message = parse(HARMONY, f"{broken} so {START}{CALL}{{}}<|call|>", tools=TOOLS)
    assert parts(message) == [f"{broken} so ", ("note", {})]


def test_a_call_that_broke_after_it_began_loses_its_next_end_marker() -> None:
    text = f'{START}{CALL}{{"text": "a", ,}}<|call|> so'
    message = parse(HARMONY, text, tools=TOOLS, mode="live")
    assert parts(message) == [("note", None), ", ,} so"]


@pytest.mark.parametrize(
    "body", ['{"text": "a', "{", "", " ", '"{', "[1]<|call|>", "7<|call|>", "yes<|call|>"]
)
def test_a_cut_call_and_one_without_an_object_are_text(body: str) -> None:
    text = f"{START}{CALL}{body}"
    assert parts(parse(HARMONY, text, tools=TOOLS)) == [text]


def test_code_that_is_cut_is_no_call_but_may_be_closed_when_the_model_ended_by_itself() -> None:
    text = "<|channel|>analysis to=python<|message|>print(1)"
    assert parts(parse(HARMONY, text, tools=TOOLS)) == [text]
    machine = Engine(HARMONY, TOOLS, repair=True)
    machine.feed(text)
    events = machine.finish(cut=False)
    assert events[-1].call.arguments == {"code": "print(1)"}  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", MODES)
def test_a_broken_call_is_mended(mode: Mode) -> None:
    for text in (
        f'{START}{CALL}{{"text": "a" "size": 1}}<|call|>',
        f'{CALL}{{"text": "a", "size": 1',
    ):
        machine = Engine(HARMONY, TOOLS, repair=True, arguments=mode)
        events = [*machine.feed(text), *machine.finish(cut=False)]
        calls = [event.call for event in events if hasattr(event, "call")]
        assert [(call.arguments, call.complete) for call in calls] == [
            ({"text": "a", "size": 1}, True)
        ]


# --- what the prompt ended with ---

PROMPTS = {
    "a header that has begun": (START, "<|channel|>analysis<|message|>hm<|end|>", [["hm"]]),
    "a whole header": (f"{START}<|channel|>analysis<|message|>", "hm<|end|>Yes", [["hm"], "Yes"]),
    "a thought that has begun": (f"{START}<|channel|>analysis<|message|>So", "hm", [["hm"]]),
    "a recipient": (f"{START} to=functions.note", "<|channel|>x<|message|>{}", [("note", {})]),
    "the header of a call": (f"{START}{CALL}", '{"size": 1}<|call|>', [("note", {"size": 1})]),
    "an older message": (
        f"<|start|>user<|message|>hi<|end|>{START}",
        "<|channel|>final<|message|>Yes",
        ["Yes"],
    ),
    "a message that has ended": (f"{START}<|channel|>analysis<|message|>x<|end|>", "Yes", ["Yes"]),
    "a channel alone": ("<|channel|>final<|message|>", "Yes<|return|>", ["Yes"]),
    "another mark of thoughts": ("<think>\n", "hm</think>Yes", [["hm"], "Yes"]),
    "something else": ("assistant:", "Yes", ["Yes"]),
    "half a call": (f'{START}{CALL}{{"text": "', 'a"}<|call|>', ['a"}<|call|>']),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("prompt", "text", "expected"), PROMPTS.values(), ids=PROMPTS)
def test_the_prompt_may_have_opened_a_message(
    prompt: str, text: str, expected: list[Any], mode: Mode
) -> None:
    assert parts(parse(HARMONY, text, tools=TOOLS, prompt=prompt, mode=mode)) == expected


# --- without special tokens ---

STRIPPED = {
    "a thought and an answer": ("analysisSo it is.assistantfinalYes.", [["So it is."], "Yes."]),
    "a thought alone": ("analysis1 and 2", [["1 and 2"]]),
    "a call": (
        'analysisSo.assistantcommentary to=functions.note json{"size": 1}',
        [["So."], ("note", {"size": 1})],
    ),
    "a call, then an answer": (
        "analysisSo.assistantcommentary to=note{}assistantfinalYes",
        [["So."], ("note", {}), "Yes"],
    ),
    "a call, then a thought": (
        "analysisSo.assistantcommentary to=note{} assistantanalysisHm.assistantfinalYes",
        [["So."], ("note", {}), " ", ["Hm."], "Yes"],
    ),
    "a call first": ("commentary to=functions.note json {}", [("note", {})]),
    "a word": ("analysis of tides", ["analysis of tides"]),
    "a word alone": ("analysis", ["analysis"]),
    "a longer word": ("analysis_x assistantfinal", ["analysis_x assistantfinal"]),
    "an answer about it": (
        "analysisSo.assistantfinalIt says assistantfinal.",
        [["So."], "It says assistantfinal."],
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("text", "expected"), STRIPPED.values(), ids=STRIPPED)
def test_words_without_their_tokens_are_known_at_the_beginning(
    text: str, expected: list[Any], mode: Mode
) -> None:
    assert parts(parse(HARMONY, text, tools=TOOLS, mode=mode)) == expected


def test_without_calls_the_message_to_a_tool_is_text() -> None:
    text = f"<|channel|>analysis<|message|>a<|end|>{START}{CALL}{{}}<|call|>"
    assert parts(parse(Harmony(calls=False), text)) == [["a"], "{}"]
    stripped = "analysisSo.assistantcommentary to=note json{}"
    assert parts(parse(Harmony(calls=False), stripped)) == [["So."], "{}"]


def test_thoughts_and_strings_leave_as_they_come() -> None:
    machine = Engine(HARMONY, TOOLS, arguments="live")
    machine.feed("<|channel|>analysis<|message|>a")
    assert machine.feed("bc") == [ThinkingDelta(0, "bc", "bc")]
    machine.feed(f"<|end|>{START}{CALL}" + '{"text": "a')
    assert machine.feed("b\\n") == [ToolCallDelta(1, "b\\n", "b\\n")]
    machine.feed(f'"}}<|call|>{START}<|channel|>analysis to=python<|message|>x')
    assert machine.feed("yz") == [ToolCallDelta(2, "yz", "yz")]
    assert machine.feed(" <|") == [ToolCallDelta(2, " ", " ")]


@pytest.mark.parametrize("text", ["Hello, world", "日本語", "well, so", "1 < 2", "<b>"])
def test_an_answer_without_any_header_leaves_soon(text: str) -> None:
    machine = Engine(HARMONY, TOOLS)
    shown = [event.text for event in machine.feed(text) if isinstance(event, TextDelta)]
    assert "".join(shown) == text
