"""What ``import penstock`` costs beside ``import msgspec`` alone."""

from __future__ import annotations

import subprocess
import sys

ROUNDS = 9
_MEASURE = "import time; t = time.process_time(); import {}; print(time.process_time() - t)"


def table() -> list[tuple[str, str, str, str]]:
    """Measure both in fresh interpreters, turn by turn, and compare the best of each."""
    costs: dict[str, list[float]] = {"msgspec": [], "penstock": []}
    for _ in range(ROUNDS):
        for module, seen in costs.items():
            seen.append(_import_cost(module))
    ratio = min(costs["penstock"]) / min(costs["msgspec"])
    verdict = "ok" if ratio <= 2 else "MISSED"
    return [("import penstock / import msgspec", f"{ratio:.2f}", "at most 2", verdict)]


def _import_cost(module: str) -> float:
    command = [sys.executable, "-c", _MEASURE.format(module)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    print(table())
