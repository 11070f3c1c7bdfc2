"""Rules of the house that no linter knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_no_group_is_repeated_possessively(path: Path) -> None:
    """Python 3.11.0 to 3.11.4 match such patterns wrongly (decision 0005)."""
    assert not re.findall(r"\)(?:[*+?]|\{+[\d,]+\}+)\+", path.read_text())


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_a_module_opens_with_a_sentence(path: Path) -> None:
    opening = path.read_text().removeprefix("r")
    assert opening.startswith('"""')
    assert opening[3].isupper() or opening[3] == "`"
