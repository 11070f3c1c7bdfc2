"""JSON objects in the text of a model: found whole, by characters and at every cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import _json
from penstock.agent.output.scanner import MAX_FOUND, MAX_OPENING, OutputScanner, read_object
from penstock.values import Change

CASES: dict[str, tuple[str, list[Any]]] = {
    "alone": ('{"a": 1}', [{"a": 1}]),
    "in a fence after a sentence": (
        'Here it is:\n```json\n{"a": [1, {"b": 2}]}\n```\n',
        [{"a": [1, {"b": 2}]}],
    ),
    "after braces in prose": (
        'Replace {name} and {} by {x: y}: {"a": 1}.',
        [{}, {"x": "y"}, {"a": 1}],
    ),
    "after reasoning with a draft": ('<think>maybe {"a": 2}?</think>{"a": 1}', [{"a": 1}]),
    "after reasoning whose opening tag was in the prompt": (
        'maybe {"a": 2}</think>\n{"a": 1}',
        [{"a": 1}],
    ),
    "reasoning that never ends": ('<think>maybe {"a": 2}', []),
    "a closing tag in a string is data": (
        '{"a": "</think> and } and {"}',
        [{"a": "</think> and } and {"}],
    ),
    "two objects": ('{"a": 1} or {"a": 2}', [{"a": 1}, {"a": 2}]),
    "escapes and surrogate pairs": ('{"a": "\\ud83c\\udf0a \\"x\\" \\\\"}', [{"a": '🌊 "x" \\'}]),
    "relaxed JSON": ("{'a': True, // yes\n b: [1,],}", [{"a": True, "b": [1]}]),
    "quotes that were not escaped": (
        '{"a": "say "hi" now", "b": 1}',
        [{"a": 'say "hi" now', "b": 1}],
    ),
    "cut inside a string": ('{"a": "hel', ["the text ends inside it"]),
    "cut inside a key": ('{"a": 1, "b', ["the text ends inside it"]),
    "cut after the first brace": ("I say {", []),
    "a repeated key": ('{"a": 1, "a": 2}', ["the key `a` is repeated"]),
    "a brace before the object": ('{ {"a": 1}', [{"a": 1}]),
    "no object": ("Nothing to see, 3 < 4 <th", []),
}


def scan(text: str, *cuts: int) -> tuple[list[Any], list[Change]]:
    scanner, at, changes = OutputScanner(), 0, []
    for cut in (*cuts, len(text)):
        changes += scanner.feed(text[at:cut])
        at = cut
    scanner.finish()
    assert scanner.text == text
    values = [read_object(text, found) for found in scanner.found]
    return [fault or value for value, fault in values], changes


def joined(changes: list[Change]) -> list[tuple[Any, ...]]:
    """Take the changes of the last object, and join neighbouring pieces of one string."""
    out: list[tuple[Any, ...]] = []
    roots = [n for n, change in enumerate(changes) if change.kind == "object" and not change.path]
    for change in changes[roots[-1] :]:
        if change.kind == "string" and out and out[-1][:2] == (change.path, "string"):
            out[-1] = (*out[-1][:2], out[-1][2] + change.text, None)
        else:
            out.append((change.path, change.kind, change.text, repr(change.value)))
            if change.kind == "string":
                out[-1] = (*out[-1][:3], None)
    return out


@pytest.mark.parametrize("case", CASES)
def test_objects_are_found_at_every_cut(case: str) -> None:
    text, expected = CASES[case]
    whole, changes = scan(text)
    assert whole == expected
    assert scan(text, *range(1, len(text)))[0] == expected
    for cut in range(len(text) + 1):
        values, pieces = scan(text, cut)
        assert values == expected, cut
        if len(expected) == 1 and isinstance(expected[0], dict):
            assert joined(pieces) == joined(changes), cut


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
PROSE = st.text(st.characters(codec="utf-8", exclude_characters="{<"), max_size=30)


@given(PROSE, st.dictionaries(st.text(max_size=8), JSON, min_size=1, max_size=5), PROSE, st.data())
def test_an_object_in_prose_is_found_as_it_was_written(
    before: str, value: dict[str, Any], after: str, data: st.DataObject
) -> None:
    text = before + _json.encode(value).decode() + after
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    assert scan(text, *cuts)[0] == [value]


@pytest.mark.parametrize("text", ['{"a": 1, "b": "x}', '{"a": 1, "b": "x} y', '{"a": [{"b": "x}]}'])
def test_a_brace_in_a_string_that_was_cut_does_not_end_the_object(text: str) -> None:
    assert scan(text)[0] == ["the text ends inside it"]


@given(st.dictionaries(st.text(max_size=8), JSON, min_size=1, max_size=5), st.data())
def test_an_object_that_was_cut_is_never_taken_for_a_whole_one(
    value: dict[str, Any], data: st.DataObject
) -> None:
    text = _json.encode(value).decode()
    cut = data.draw(st.integers(0, len(text) - 1))
    assert all(isinstance(one, str) for one in scan(text[:cut])[0])


def test_a_broken_object_hides_what_is_inside_it() -> None:
    # Of a tree, every node would fit the schema of the tree.
    text = '{"name": "root" "nodes": [{"name": "leaf", "nodes": []}]'
    values, _ = scan(text)
    assert isinstance(values[0], str), "the root is not certain"


def test_a_flood_of_braces_and_of_objects_is_bounded() -> None:
    scanner = OutputScanner()
    scanner.feed("{" * 100_000 + '{"a": 1}' * 1_000)
    scanner.finish()
    assert len(scanner.found) == MAX_FOUND + 1
    scanner = OutputScanner()
    for _ in range(50):
        scanner.feed('{"' + "x" * MAX_OPENING)
    scanner.finish()
    assert not scanner.found
