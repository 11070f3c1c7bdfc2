"""The comparison of agent kits: every row of penstock names a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "compare" / "agent_kits.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ")
][1:]


def test_every_feature_of_penstock_is_backed_by_a_test() -> None:
    assert len(ROWS) > 25
    for feature, *_, ours, named in ROWS:
        if ours.startswith(("yes", "on by default")):
            assert named, f"{feature} has no test"


def test_the_named_tests_exist() -> None:
    for feature, *_, named in ROWS:
        for path, _, name in re.findall(r"`(tests/[\w/.]+)(::(\w+))?`", named):
            file = ROOT / path
            assert file.exists(), f"{feature}: {path}"
            if name:
                tree = ast.parse(file.read_text())
                functions = (ast.FunctionDef, ast.AsyncFunctionDef)
                found = {node.name for node in tree.body if isinstance(node, functions)}
                assert name in found, f"{feature}: {path} has no {name}"
