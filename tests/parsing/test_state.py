"""The table of the engine's state says which module writes which field; this compares the two.

Only modules of `penstock.parsing` know the state: readers know its sink, and formats neither.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from penstock.parsing import state
from penstock.parsing.state import EngineState

pytestmark = pytest.mark.skipif(
    not state.__file__.endswith(".py"), reason="a compiled class has no `__slots__`"
)

_SOURCES = Path(state.__file__).parent
_ROW = re.compile(r"^\| (`[^|]*) \| ([^|]*) \| [^|]* \|$", re.MULTILINE)
_NAME = re.compile(r"`(\w+)`")


def read_table() -> dict[str, set[str]]:
    """Return which modules write each field, as the table says."""
    slots = list(EngineState.__slots__)
    writers: dict[str, set[str]] = {}
    for fields, modules in _ROW.findall(state.__doc__ or ""):
        names = _NAME.findall(fields.partition(":")[0])
        span = slots[slots.index(names[0]) : slots.index(names[-1]) + 1]
        writers.update({field: set(_NAME.findall(modules)) for field in span})
    return writers


@cache
def find_writers() -> dict[str, set[str]]:
    """Return which modules assign each field of a state, outside of its own class."""
    writers: dict[str, set[str]] = {field: set() for field in EngineState.__slots__}
    for path in _SOURCES.glob("*.py"):
        tree = ast.parse(path.read_text())
        outside = [each for each in tree.body if getattr(each, "name", "") != "EngineState"]
        for node in (node for each in outside for node in ast.walk(each)):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                owner = ast.unparse(node.value)
                if owner in ("state", "self._state") and node.attr in writers:
                    writers[node.attr].add(path.stem)
    return writers


def test_the_table_has_every_field() -> None:
    assert list(read_table()) == list(EngineState.__slots__)


def test_only_the_modules_in_the_table_write_a_field() -> None:
    table = read_table()
    others = {field: found - table[field] for field, found in find_writers().items()}
    assert not {field: found for field, found in others.items() if found}


def test_every_module_in_the_table_writes_one_of_its_fields() -> None:
    found = find_writers()
    rows: dict[frozenset[str], set[str]] = {}
    for field, modules in read_table().items():
        rows.setdefault(frozenset(modules), set()).update(found[field])
    assert all(modules == written for modules, written in rows.items())
