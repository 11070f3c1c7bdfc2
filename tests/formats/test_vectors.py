"""Every vector of every model's format: whole, by characters and at every cut, in both modes.

The parsers are made as a user makes them, with the reasoning style that is usual for the format. A
cut changes nothing: neither the events nor, block by block, the text that they consumed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from laws import check_readings
from penstock.formats.base import build_message
from penstock.formats.registry import BUILT_IN
from penstock.messages import AssistantMessage
from penstock.parsing import Arguments, Engine
from penstock.tools import read_tools

HERE: Final = Path(__file__).parents[1] / "vectors"
MODES: Final[tuple[Arguments, ...]] = ("whole", "live")
FORMATS: Final = {fmt.name: fmt for fmt in BUILT_IN}
TOOLSETS: Final = {
    name: read_tools(tools)
    for name, tools in json.loads((HERE / "toolsets.json").read_text("utf-8")).items()
}
LINES: Final = [
    line
    for name in ("formats", "formats_2026")
    for line in (HERE / f"{name}.jsonl").read_text("utf-8").splitlines()
]
VECTORS: Final = [
    pytest.param(vector, id=f"{vector['id']}: {vector['why']}") for vector in map(json.loads, LINES)
]


WITHOUT_VECTORS: Final = {
    *("command_r7b", "command_r_plus", "firefunction_v2", "functionary_v3_1", "functionary_v3_2"),
    *("magistral", "nemotron_toolcall"),  # One engine alone reads these; each has its own tests.
    *("ling3", "mimo", "step3p5"),  # They are written as others are that have vectors.
    "gemma",  # Its vectors are in a file of their own.
}


def test_every_models_format_has_vectors_or_says_why_not() -> None:
    tried = {json.loads(line)["format"] for line in LINES}
    assert {fmt.name for fmt in BUILT_IN if fmt.models} - tried == WITHOUT_VECTORS


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("vector", VECTORS)
def test_a_vector_reads_the_same_at_every_cut(vector: dict[str, Any], mode: Arguments) -> None:
    text, known = vector["text"], TOOLSETS.get(vector["tools"], [])
    prompt = vector.get("options", {}).get("prompt_suffix", "")

    def make() -> Engine:
        return FORMATS[vector["format"]].parser(known, arguments=mode, prompt_suffix=prompt)

    ways = None if mode == "live" else some_cuts(text)
    check_expected(build_message(check_readings(make, text, ways)), vector, mode)


def some_cuts(text: str) -> list[list[str]]:
    """Cut *text* one by one and at every eleventh place: both modes have the same readers."""
    return [[*text], *([text[:at], text[at:]] for at in range(1 + len(text) % 11, len(text), 11))]


def check_expected(message: AssistantMessage, vector: dict[str, Any], mode: Arguments) -> None:
    """Compare with what the vector says; what an incomplete call took is text only in `whole`."""
    expect = vector["expect"]
    complete = [call for call in message.tool_calls if call.complete]
    assert [{"name": c.name, "arguments": c.arguments} for c in complete] == expect["calls"]
    assert message.thinking.split() == (expect["reasoning"] or "").split()
    if len(complete) < len(message.tool_calls):
        assert mode == "live"
        return
    if vector["content_mode"] == "exact":
        assert message.text == (expect["content"] or "")
    elif vector["content_mode"] == "strip":
        assert message.text.split() == (expect["content"] or "").split()
