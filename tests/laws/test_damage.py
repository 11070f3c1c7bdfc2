"""The damages of law 11: what they do to a text, and what counts as corrupted."""

from __future__ import annotations

import pytest

from laws.damage import FOREIGN, TURN_END, Outcome, damages, outcome
from penstock.messages import ToolCall

TEXT = '<t>{"a": "b"}</t>'
MEANT = (ToolCall("c", "f", {"a": "b"}),)


@pytest.mark.parametrize(
    ("damaged", "way"),
    [
        ('{"a": "b"}</t>', "missing"),
        ('<t>{"a": b"}</t>', "missing"),
        ('<t><t>{"a": "b"}</t>', "doubled"),
        (f'<t>{FOREIGN} {{"a": "b"}}</t>', "words"),
        (f'<t>{{"a": "b"}}{TURN_END}</t>', "turn end"),
        (f'<t>{{"a": "b{TURN_END}', "ended"),
        ('<t>{"a": "b"', "forgotten"),
    ],
)
def test_every_way_of_damage_is_tried(damaged: str, way: str) -> None:
    assert (damaged, way) in [(text, kind) for text, kind, _ in damages(TEXT)]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([ToolCall("x", "f", {"a": "b"})], "exact"),
        ([ToolCall("x", "f", {"a": "b"}), ToolCall("y", "f", {}, complete=False)], "partial"),
        ([ToolCall("x", "f", {"a": "b</t"}, complete=False)], "none"),
        ([ToolCall("x", "f", {})], "altered"),
        ([ToolCall("x", "f", {"a": "b</t"})], "corrupted"),
        ([ToolCall("x", "f", {"a": ["I should wait"]})], "corrupted"),
        ([ToolCall("x", "f", {'"a': "b"})], "corrupted"),
    ],
)
def test_an_outcome_compares_complete_calls_with_the_meant_ones(
    calls: list[ToolCall], expected: Outcome
) -> None:
    assert outcome(calls, MEANT) == expected
