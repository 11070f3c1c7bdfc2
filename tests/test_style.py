"""Rules of style that no linter checks."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "penstock"
MODULES = {path: path.read_text() for path in sorted(SOURCE.rglob("*.py"))}

NOUNS = {
    *("closing", "framing", "inkling", "merging", "parsing", "prompting", "reasoning"),
    *("recording", "rendering", "thinking", "tracing"),
}
"""Modules that end in -ing and are nouns, or names of models."""

SHARED = {"Decoder", "Encoder", "Settings", "Watch"}
"""Class names that several packages use for the same role."""


def test_no_group_is_repeated_possessively() -> None:
    """Python 3.11.0 to 3.11.4 match such patterns wrongly (decision 0005)."""
    found = [
        path for path, text in MODULES.items() if re.search(r"\)(?:[*+?]|\{+[\d,]+\}+)\+", text)
    ]
    assert found == []


def test_a_module_begins_with_a_docstring() -> None:
    openings = {path: text.removeprefix("r") for path, text in MODULES.items()}
    found = [p for p, text in openings.items() if not re.match(r'"""[A-Z`]', text)]
    assert found == []


def test_no_module_is_named_with_a_gerund() -> None:
    found = [path for path in MODULES if path.stem.endswith("ing") and path.stem not in NOUNS]
    assert found == []


def test_a_public_class_name_has_one_meaning() -> None:
    places = defaultdict(list)
    for path, text in MODULES.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    assert [name for name, found in places.items() if len(found) > 1 and name not in SHARED] == []
