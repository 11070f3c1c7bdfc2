"""The YAML that models write as arguments."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ParseError
from penstock.values import yaml

READ: dict[str, tuple[str, Any]] = {
    "a mapping": ("a: 1\nb: two", {"a": 1, "b": "two"}),
    "core schema": (
        "a: true\nb: ~\nc: 0o7\nd: 0x1F\ne: -1.5e3\nf: no\ng: 1_000\nh: .nan\ni: 2024-01-01",
        {"a": True, "b": None, "c": 7, "d": 31, "e": -1500.0, "f": "no", "g": "1_000",
         "h": ".nan", "i": "2024-01-01"},
    ),
    "a comment": ("a: x # y\n# z\nb: '#'", {"a": "x", "b": "#"}),
    "a list": ("a:\n  - x\n  - y: 1\n    z: 2\n  -\n    q: 3",
               {"a": ["x", {"y": 1, "z": 2}, {"q": 3}]}),
    "a list at the indentation of its key": ("a:\n- x\n- y\nb: 1", {"a": ["x", "y"], "b": 1}),
    "a nested mapping": ("a:\n  b:\n    c: 1\n  d: 2", {"a": {"b": {"c": 1}, "d": 2}}),
    "a literal block": ("a: |\n  x\n    y\n\n  z\nb: 1", {"a": "x\n  y\n\nz\n", "b": 1}),
    "a stripped block": ("a: |-\n  x\n\nb: 1", {"a": "x", "b": 1}),
    "a kept block": ("a: |+\n  x\n\nb: 1", {"a": "x\n\n", "b": 1}),
    "an indented block": ("a: |2\n   x\nb: 1", {"a": " x\n", "b": 1}),
    "a folded block": ("a: >\n  x\n  y\n\n  z\n", {"a": "x y\nz\n"}),
    "flow": ("a: [1, two, 'th ree', {k: v}]\nb: {c: [], d: {}}",
             {"a": [1, "two", "th ree", {"k": "v"}], "b": {"c": [], "d": {}}}),
    "flow over lines": ("a: [1,\n  2]\nb: 3", {"a": [1, 2], "b": 3}),
    "quotes": ("a: \"x\\n\\u00e9\\x41\\U0001F600\"\nb: 'it''s'",
               {"a": "x\n\u00e9A\U0001f600", "b": "it's"}),
    "quotes over lines": ('a: "x\n  y\n\n  z"', {"a": "x y\nz"}),
    "a plain scalar over lines": ("a: x\n  y\nb: z", {"a": "x y", "b": "z"}),
    "nothing": ("", None),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_yaml_is_read_as_it_is_meant(name: str) -> None:
    text, value = READ[name]
    assert yaml.loads(text) == value


@pytest.mark.parametrize(
    "text",
    ['a: "x', "a: [1, 2", "a: [1,, 2]", 'a: [x", y]', "a: 1\na: 2", "a: 'x' y", "a: 1\n b: 2\nc"],
)
def test_text_outside_of_the_subset_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        yaml.loads(text)


@pytest.mark.parametrize("text", ["a: " + "[" * 999, "- " * 9999, "a:\n" * 9999, "'" * 9999])
def test_hostile_text_ends(text: str) -> None:
    try:
        yaml.loads(text)
    except ParseError:
        return
