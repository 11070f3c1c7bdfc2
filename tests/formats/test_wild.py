"""Calls as models really print them and servers leak them, and texts that only look like calls.

Each vector is read whole, by characters and at every cut, in its own format and in `auto`, in both
modes. `also` lists other results that are right too.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from laws import chunkings
from penstock import Parser
from penstock.errors import UsageError
from penstock.events import Event
from penstock.formats.base import build_message
from penstock.messages import AssistantMessage
from penstock.parsing import Arguments
from penstock.tools import read_tools

HERE: Final = Path(__file__).parents[1] / "vectors"
TOOLS: Final = read_tools(json.loads((HERE / "toolsets.json").read_text("utf-8"))["bakery"])
VECTORS: Final = [
    pytest.param(vector, id=vector["id"])
    for vector in map(json.loads, (HERE / "wild.jsonl").read_text("utf-8").splitlines())
]


MODES: Final[tuple[Arguments, ...]] = ("whole", "live")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("vector", VECTORS)
def test_a_vector_reads_the_same_at_every_cut(vector: dict[str, Any], mode: Arguments) -> None:
    text = vector["text"]
    results = (vector["expect"], *vector.get("also", ()))
    for name, chunks in product(dict.fromkeys((vector["format"], "auto")), chunkings(text)):
        message = read(vector, name, chunks, mode)
        assert any(is_same(message, result, vector["content_mode"]) for result in results), message


def read(vector: dict[str, Any], name: str, chunks: list[str], mode: Arguments) -> AssistantMessage:
    is_cut = vector.get("cut", True)
    begun = vector.get("options", {}).get("start_in_reasoning")
    suffix = "<think>" if begun else ""
    parser = Parser(name, TOOLS, arguments=mode, prompt_suffix=suffix, repair=not is_cut)
    events: list[Event] = []
    for chunk in chunks:
        events += parser.feed(chunk)
    return build_message([*events, *parser.finish(cut=is_cut)])


def is_same(message: AssistantMessage, result: dict[str, Any], mode: str) -> bool:
    """Compare with *result*; what an incomplete call took, which only `live` has, is no text."""
    complete = [call for call in message.tool_calls if call.complete]
    calls = [{"name": call.name, "arguments": call.arguments} for call in complete]
    if len(complete) < len(message.tool_calls):
        return bool(calls == result["calls"][: len(calls)])
    if calls != result["calls"]:
        return False
    content = result["content"] or ""
    if mode == "exact":
        return message.text == content
    return mode == "ignore" or message.text.split() == content.split()


CLASSES: Final = [
    pytest.param(case, id=case["id"])
    for case in map(json.loads, (HERE / "wild_classes.jsonl").read_text("utf-8").splitlines())
]


@pytest.mark.parametrize("case", CLASSES)
def test_variations_of_the_same_drift_are_read_alike(case: dict[str, Any]) -> None:
    """Without `content` the text has no call and comes out as it is."""
    text = case["text"]
    ways = [[text], [*text], *([text[:at], text[at:]] for at in range(3, len(text), 17))]
    for name, mode in product(case["formats"], MODES):
        for chunks in ways if mode == "whole" else ways[:2]:
            parser = Parser(name, TOOLS, arguments=mode, repair=True)
            events = [event for chunk in chunks for event in parser.feed(chunk)]
            events += parser.finish(cut=False)
            message = build_message(events)
            assert "".join(event.raw for event in events) + parser.rest == text
            calls = [[call.name, call.arguments] for call in message.tool_calls if call.complete]
            if len(calls) < len(message.tool_calls):
                assert mode == "live", name  # What it has emitted cannot be repaired.
                continue
            assert calls == case.get("calls", []), name
            if "content" in case:
                assert message.text.split() == case["content"].split(), name
            else:
                assert message.text == text, name


def read_text(text: str, format_: str = "hermes", **options: Any) -> AssistantMessage:
    parser = Parser(format_, TOOLS, **options)
    return build_message([*parser.feed(text), *parser.finish(cut=False)])


BELL: Final = '<tool_call>{"name": "ring_bell", "arguments": {}}</tool_call>'
BROKEN: Final = '<tool_call>{"name" "ring_bell"}</tool_call>'


@pytest.mark.parametrize("mode", ["whole", "live"])
def test_the_wrapper_of_a_broken_call_is_text(mode: Any) -> None:
    text = f"<function_calls>\n{BROKEN}\n</function_calls>"
    message = read_text(text, arguments=mode)
    assert message.text == text
    assert message.tool_calls == []


def test_the_end_tag_of_a_broken_call_before_a_call_is_text() -> None:
    message = read_text(f"{BROKEN}\n{BELL}")
    assert [call.name for call in message.tool_calls] == ["ring_bell"]
    assert message.text == f"{BROKEN}\n"


def test_an_end_tag_after_text_that_follows_a_call_is_dropped_on_a_line_of_its_own() -> None:
    assert read_text(f"{BELL}\nIt rang.\n</function_calls>\nBye.").text == "\nIt rang.\n\nBye."
    assert read_text(f"{BELL}\nUse </function_calls> once.").text == "\nUse </function_calls> once."


def test_an_empty_section_is_text_without_repair() -> None:
    assert read_text("Done.\n<tool_call></tool_call>").text == "Done.\n<tool_call></tool_call>"
    assert read_text("Done.\n<tool_call></tool_call>", repair=True).text == "Done.\n"


def test_reasoning_that_is_all_of_a_response_is_text_too() -> None:
    opened: dict[str, Any] = {"prompt_suffix": "<think>", "reasoning_only": "text"}
    message = read_text("Use rye flour.", "glm45", **opened)
    assert (message.thinking, message.text) == ("Use rye flour.", "Use rye flour.")
    assert read_text("hm</think>Rye.", "glm45", **opened).text == "Rye."
    assert read_text("<think>hm", "glm45", reasoning_only="text").text == "", "the model opened it"
    assert read_text("Use rye.", "glm45", prompt_suffix="<think>").text == "", "off by default"
    assert read_text("Use rye.", "glm45", prompt_suffix="<think>", repair=True).text == "Use rye."
    cut = Parser("glm45", TOOLS, **opened)
    assert build_message([*cut.feed("Use rye."), *cut.finish()]).text == "", "it was cut"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("</think>\n\nKnead it.", "Knead it."),
        ("</think>Knead it.", "Knead it."),
        ("<think>hm</think></think>Knead it.", "Knead it."),
        ("Fold it first.\n</think>\n\nKnead it.", "Fold it first.\nKnead it."),
        ("Fold it first.</think>\nKnead it.", "Fold it first.Knead it."),
        ("Write </think> at the end.", "Write </think> at the end."),
        ("</think> is an end tag.", "</think> is an end tag."),
        ("It is <think>hm</think>\nand so on.", "It is <think>hm</think>\nand so on."),
    ],
)
def test_a_stray_end_of_reasoning_is_dropped(text: str, answer: str) -> None:
    for chunks in ([text], [*text]):
        parser = Parser("qwen3_coder", TOOLS, reasoning="think", stray_reasoning="split")
        events = [event for chunk in chunks for event in parser.feed(chunk)]
        assert build_message([*events, *parser.finish(cut=False)]).text == answer
    assert read_text("</think>\nKnead it.", "qwen3_coder").text == "</think>\nKnead it."


def test_unknown_values_of_the_reasoning_options_are_refused() -> None:
    with pytest.raises(UsageError, match="reasoning_only"):
        Parser("hermes", reasoning_only="both")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="stray_reasoning"):
        Parser("hermes", stray_reasoning="drop")  # type: ignore[arg-type]
