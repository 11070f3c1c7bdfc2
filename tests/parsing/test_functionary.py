"""Functionary's recipients: text for all, and calls for known tools."""

from __future__ import annotations

from typing import Any

import pytest

from parsing.channel_samples import MODES, TOOLS, Mode, parse, parts
from penstock.events import TextDelta, ToolCallDelta
from penstock.parsing import Engine
from penstock.readers.functionary import Recipients

FUNCTIONARY = Recipients()

READ = {
    "text for all": ("all\nSo it is.\n", ["So it is.\n"]),
    "a call": ('note\n{"size": 1}', [("note", {"size": 1})]),
    "text, then calls": (
        'all\nSo:>>>note\n{"size": 1}>>>note\n{}',
        ["So:", ("note", {"size": 1}), ("note", {})],
    ),
    "a call, then text": ("note\n{}>>>all\nSo.", [("note", {}), "So."]),
    "text behind a call": ("note\n{}\nSo.", [("note", {}), "\nSo."]),
    "the first mark in the answer": (">>>all\nSo.", ["So."]),
    "a mark before prose": ("all\n>>> print(1)\n1", [">>> print(1)\n1"]),
    "a mark before a tool that nobody knows": (
        "all\n>>>other\n{}>>>allow\n",
        [">>>other\n{}>>>allow\n"],
    ),
    "a mark before a tool and no new line": ("all\n>>>note {}", [">>>note {}"]),
    "no recipient": ("So it is.", ["So it is."]),
    "a tool that nobody knows": ("other\n{}", ["other\n{}"]),
    "half a recipient": ("no", ["no"]),
    "a mark at the end": ("all\nSo>>", ["So>>"]),
    "a mark in a string": ('note\n{"text": ">>>all\\n"}', [("note", {"text": ">>>all\n"})]),
    "code": ('python\nprint(">>>")\n', [("python", {"code": 'print(">>>")\n'})]),
    "code, then text": ("python\n\n1\n>>>all\nSo.", [("python", {"code": "\n1\n"}), "So."]),
    "code, then a call": ("python\n1>>>note\n{}", [("python", {"code": "1"}), ("note", {})]),
    "code up to the end of the turn": (
        "python\n1<|eot_id|>",
        [("python", {"code": "1"}), "<|eot_id|>"],
    ),
    "arguments for code": ('python\n {"code": "1"}', [("python", {"code": "1"})]),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("text", "expected"), READ.values(), ids=READ)
def test_recipients_are_read_at_any_cut(text: str, expected: list[Any], mode: Mode) -> None:
    assert parts(parse(FUNCTIONARY, text, tools=TOOLS, mode=mode)) == expected


def test_a_broken_call_is_text_and_later_calls_are_found() -> None:
    message = parse(FUNCTIONARY, "note\n{,}>>>note\n[]>>>note\n{}", tools=TOOLS)
    assert parts(message) == ["note\n{,}>>>note\n[]", ("note", {})]


def test_a_cut_call_is_text() -> None:
    text = '>>>note\n{"text": "a'
    assert parts(parse(FUNCTIONARY, text, tools=TOOLS)) == [text]


def test_without_tools_only_text_has_a_recipient() -> None:
    assert parts(parse(FUNCTIONARY, "all\nSo>>>note\n{}")) == ["So>>>note\n{}"]


PROMPTS = {
    "a mark": (">>>", "note\n{}", [("note", {})]),
    "a mark behind a header": ("assistant\n\n>>>", "all\nSo.", ["So."]),
    "a recipient": (">>>note\n", "{}", [("note", {})]),
    "text": (">>>all\n", "So.", ["So."]),
    "half a recipient": (">>>no", "te\n{}", [("note", {})]),
    "something else": ("assistant:", "all\nSo.", ["all\nSo."]),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("prompt", "text", "expected"), PROMPTS.values(), ids=PROMPTS)
def test_the_prompt_may_have_begun_a_piece(
    prompt: str, text: str, expected: list[Any], mode: Mode
) -> None:
    assert parts(parse(FUNCTIONARY, text, tools=TOOLS, prompt=prompt, mode=mode)) == expected


def test_strings_and_code_leave_as_they_come() -> None:
    machine = Engine(FUNCTIONARY, TOOLS, arguments="live")
    machine.feed('note\n{"text": "a')
    assert machine.feed("bc") == [ToolCallDelta(0, "bc", "bc")]
    machine.feed('"}>>>python\nx')
    assert machine.feed("y>") == [ToolCallDelta(1, "y", "y")]
    assert machine.feed("> z") == [ToolCallDelta(1, ">> z", ">> z")]


@pytest.mark.parametrize("text", ["So it is.", "nothing", "a\n", ">>"])
def test_an_answer_without_a_recipient_leaves_soon(text: str) -> None:
    machine = Engine(FUNCTIONARY, TOOLS)
    shown = [event.text for event in machine.feed(text) if isinstance(event, TextDelta)]
    assert "".join(shown) == text.rstrip(">")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("lead", ["", "{} "])
def test_code_may_begin_with_much_white_space(lead: str, mode: Mode) -> None:
    code = " " * 300 + "{1}"
    message = parse(FUNCTIONARY, f"all\n{lead}>>>python\n{code}", tools=TOOLS, mode=mode)
    assert parts(message)[-1] == ("python", {"code": code})
