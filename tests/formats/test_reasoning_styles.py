"""How models mark their reasoning: every vector of every style, at every cut."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_readings, cut_at, one_by_one
from laws.strategies import CUTS, soup
from penstock import Parser
from penstock.errors import UsageError
from penstock.formats.base import build_message
from penstock.formats.reasoning import OWN, STYLES

CHANNELS = {"harmony", "inkling", "kimi_k3", "muse_glimmer"}
"""Styles that are read by the formats of the same names."""

VECTORS = [
    json.loads(line)
    for name in ("reasoning", "reasoning_2026")
    for line in (Path(__file__).parents[1] / "vectors" / f"{name}.jsonl").read_text().splitlines()
]


def folded(text: str | None) -> str:
    return "".join((text or "").split())


@pytest.mark.parametrize(
    "vector",
    [vector for vector in VECTORS if vector["format"] not in CHANNELS],
    ids=lambda vector: f"{vector['id']}: {vector['why']}",
)
def test_a_vector_reads_the_same_whole_by_characters_and_at_every_cut(
    vector: dict[str, Any],
) -> None:
    prompt = vector["options"].get("prompt_suffix", "")
    make = partial(Parser, "none", reasoning=vector["format"], prompt_suffix=prompt)
    expected = vector["expect"]
    message = build_message(check_readings(make, vector["text"]))
    assert message.thinking.strip() == (expected["reasoning"] or "").strip()
    if vector["content_mode"] == "exact":
        assert message.text == expected["content"]
    else:
        assert folded(message.text) == folded(expected["content"])


@pytest.mark.parametrize("suffix", ["", ":opensource", ":x", ":some-other_suffix"])
@pytest.mark.parametrize("end", ["own", "usual"])
def test_a_prompt_may_open_a_thought_of_hunyuan_with_any_suffix(suffix: str, end: str) -> None:
    closing = f"</think{suffix if end == 'own' else ''}>"
    text = f"a <b> c{closing}d"
    make = partial(Parser, "hy_v3", prompt_suffix=f"<think:y></think:y>\n<think{suffix}>\n")
    message = build_message(check_readings(make, text))
    assert (message.thinking, message.text) == ("a <b> c", "d")


MARKERS = sorted(
    {
        marker
        for style in STYLES.values()
        for marker in (*style.starts, *style.ends, *(wrapper.marker for wrapper in style.wrappers))
    }
)


@pytest.mark.parametrize("name", STYLES)
@settings(max_examples=25)
@given(
    text=soup(*MARKERS, '<tool_call>{"name": "f"}</tool_call>', "\n\n"),
    cuts=CUTS,
    prompt=st.sampled_from(["", "<think>", "<think></think>"]),
)
def test_the_laws_hold_for_every_style(name: str, text: str, cuts: list[int], prompt: str) -> None:
    make = partial(Parser, "hermes", reasoning=name, prompt_suffix=prompt)
    check_readings(make, text, [cut_at(text, cuts), one_by_one(text)])


@pytest.mark.parametrize("name", OWN)
def test_a_style_of_messages_needs_its_format(name: str) -> None:
    with pytest.raises(UsageError, match=f"set the format to '{name}'"):
        Parser("none", reasoning=name)
    Parser(name, reasoning=name)
    Parser("hermes", reasoning=name)
