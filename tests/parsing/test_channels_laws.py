"""The laws over all messages with headers: any text, any cut, both modes, any prompt."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import (
    check_bounded_holdback,
    check_linear,
    check_monotone,
    check_readings,
    cut_at,
    one_by_one,
)
from laws.checks import read
from laws.strategies import CUTS, soup
from parsing.channel_samples import MODES, TOOLS, Mode
from penstock.parsing import Engine, Syntax
from penstock.readers.channels import MAX_HEADER
from penstock.readers.functionary import Recipients
from penstock.readers.harmony import Harmony
from penstock.readers.inkling import Inkling
from penstock.readers.kimi_k3 import XTML
from penstock.readers.muse import ATEM

MARKERS: dict[Syntax, tuple[str, ...]] = {
    Harmony(): (
        "<|start|>assistant", "<|channel|>analysis", "<|channel|>commentary", "<|channel|>final",
        " to=functions.note", " to=python", "<|constrain|>json", "<|message|>", "<|end|>",
        "<|call|>", "<|return|>", '{"text": "', '"}', "analysisA", "assistantfinal",
        "assistantcommentary to=note json{",
    ),
    Inkling(): (
        "<|message_model|>", "<|content_thinking|>", "<|content_text|>", "note",
        "<|content_invoke_tool_json|>", "<|content_invoke_tool_text|>", "<|end_message|>",
        "<|content_model_end_sampling|>", '{"name": "note", "args": {"text": "', '"}}',
    ),
    XTML(): (
        "<|open|>think<|sep|>", "<|close|>think<|sep|>", "<|open|>response<|sep|>",
        "<|open|>tools<|sep|>", '<|open|>call tool="note" index="1"<|sep|>',
        '<|open|>argument key="text" type="string"<|sep|>', "<|close|>argument<|sep|>",
        '<|open|>argument key="size"<|sep|>', "<|close|>call<|sep|>", "<|close|>tools<|sep|>",
        "<|close|>message<|sep|>",
    ),
    ATEM(): (
        "<|start|>assistant to=note<|message|>", "to=self<|message|>", " to=user<|message|>",
        "<|eom|>", "<|eot|>", "<atem:function_calls>", "</atem:function_calls>",
        '<atem:invoke name="note">', "</atem:invoke>", '<atem:parameter name="text">',
        '<atem:parameter name="size">', "</atem:parameter>",
    ),
    Recipients(): (
        ">>>", ">>>all\n", ">>>note\n", ">>>python\n", "all\n", "note\n", '{"text": "', '"}',
        "<|eot_id|>",
    ),
}  # fmt: skip
PROMPTS = ("", "<|start|>assistant", "<think>", "<|open|>tools<|sep|>", ">>>note\n")

EVERY = pytest.mark.parametrize("syntax", MARKERS, ids=lambda syntax: type(syntax).__name__)


@EVERY
@settings(max_examples=50)
@given(
    data=st.data(),
    cuts=CUTS,
    mode=st.sampled_from(MODES),
    prompt=st.sampled_from(PROMPTS),
    trim=st.booleans(),
    repair=st.booleans(),
)
def test_the_laws_hold_at_any_cut(
    syntax: Syntax,
    data: st.DataObject,
    cuts: list[int],
    mode: Mode,
    prompt: str,
    trim: bool,  # noqa: FBT001
    repair: bool,  # noqa: FBT001
) -> None:
    text = data.draw(soup(*MARKERS[syntax]))
    make = partial(
        Engine,
        syntax,
        TOOLS,
        arguments=mode,
        prompt_suffix=prompt,
        trim=trim,
        repair=repair,
    )
    check_readings(make, text, [cut_at(text, cuts), one_by_one(text)])
    machine = make()
    check_monotone([*machine.feed(text), *machine.finish(cut=False)])


ENDLESS = {
    "a header": (Harmony(), "<|channel|>" + "a " * 500),
    "a role": (Harmony(), "<|start|>" + "a" * 1000),
    "a name": (Inkling(), "<|message_model|>" + "a" * 1000),
    "a tag": (XTML(), '<|open|>call tool="' + "a" * 1000),
    "a recipient": (ATEM(), "to=" + "a" * 1000),
}


@pytest.mark.parametrize(("syntax", "text"), ENDLESS.values(), ids=ENDLESS)
def test_a_header_without_an_end_is_text_soon(syntax: Syntax, text: str) -> None:
    make = partial(Engine, syntax, TOOLS)
    check_bounded_holdback(make, text, MAX_HEADER + len("<|message_model|>"))


HOSTILE = {
    "headers": (Harmony(), "<|start|>assistant<|channel|>"),
    "messages": (Harmony(), "<|channel|>analysis<|message|>a"),
    "starts": (Harmony(), "<|start|>"),
    "blocks": (Inkling(), "<|message_model|>"),
    "marks": (XTML(), "<|open|>"),
    "values": (XTML(), '<|open|>call tool="a"<|sep|><|open|>argument key="a"<|sep|>'),
    "ends of values": (
        XTML(),
        "<|close|>argument<|sep|> ",
    ),
    "recipients": (ATEM(), "to="),
    "sections": (ATEM(), "<atem:function_calls>"),
    "pieces": (Recipients(), ">>>note\n"),
}


@pytest.mark.parametrize(("syntax", "piece"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_stays_linear(syntax: Syntax, piece: str) -> None:
    def run(size: int) -> None:
        text = piece * size
        machine = Engine(syntax, TOOLS)
        read(machine, [text[at : at + 64] for at in range(0, len(text), 64)])

    check_linear(run, 200, 1600, at_most=3.0, tries=3)


def test_a_value_full_of_its_own_end_tags_stays_linear() -> None:
    head = '<|open|>call tool="note"<|sep|><|open|>argument key="text"<|sep|>'

    def run(size: int) -> None:
        machine = Engine(XTML(), TOOLS, arguments="live")
        machine.feed(head)
        for _ in range(size):
            machine.feed("<|close|>argument<|sep|> a ")

    check_linear(run, 200, 1600, at_most=3.0, tries=3)
