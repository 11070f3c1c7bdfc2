"""What a delta inside a call costs in Python and with the compiled modules, in one run.

``python bench/compiled.py build/compiled`` compares the sources with the package in that folder,
which ``make compiled-test`` builds. Each is measured in processes of its own, in turn; the best of
the rounds counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from formats import TOOLS, written
from parsing import CODE, PROSE, cost, pieces
from penstock import Parser
from penstock.formats import Format
from penstock.formats.registry import BUILT_IN
from penstock.parsing import engine

FORMATS = ("hermes", "deepseek_v3", "qwen3_coder", "seed_oss", "morph_xml", "step3", "pythonic")
SIZE = 10_000
ROUNDS = 3
SOURCES = Path(__file__).parents[1] / "src"


def measure() -> dict[str, float]:
    """Return the microseconds of a delta for each format, in prose and in code."""
    found: dict[str, float] = {}
    for fmt in (fmt for fmt in BUILT_IN if fmt.name in FORMATS):
        begun, prose = written(fmt, PROSE)
        code = written(fmt, CODE * 4)[1]
        if '\\"' not in code:
            code = CODE  # Models write code as it is, where nothing has to be escaped.
        for name, text in (("prose", prose), ("code", code)):
            found[f"{fmt.name}: {name}"] = _cost_in(fmt, text, begun) * 1e6
    return found


def _cost_in(fmt: Format, text: str, begun: str) -> float:
    return cost(lambda: Parser(fmt, TOOLS, arguments="live"), pieces(text, SIZE), begun)


def measured_with(folder: Path) -> dict[str, float]:
    """Return what `measure` returns in a process that imports penstock from *folder*."""
    environ = {**os.environ, "PYTHONPATH": str(folder.resolve())}
    command = [sys.executable, __file__, "--measure"]
    ran = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(ran.stdout)
    if found.pop("compiled") != (folder != SOURCES):
        raise SystemExit(f"penstock was not imported from {folder}, or is not compiled there")
    return found


def main(folder: Path) -> None:
    """Print a row per format and kind of text."""
    pairs = [(measured_with(SOURCES), measured_with(folder)) for _ in range(ROUNDS)]
    print("| in a call | Python, µs a delta | compiled | times faster |\n|---|---|---|---|")
    for what in pairs[0][0]:
        pure = min(one[what] for one, _ in pairs)
        fast = min(two[what] for _, two in pairs)
        print(f"| {what} | {pure:.2f} | {fast:.2f} | {pure / fast:.2f} |")


if __name__ == "__main__":
    if sys.argv[1] == "--measure":
        is_compiled = not engine.__file__.endswith(".py")
        print(json.dumps({"compiled": is_compiled, **measure()}))
    else:
        main(Path(sys.argv[1]))
