"""Rows that one core parses in a batch: Arrow in, Arrow out, with spans and unread calls.

The floor is what any program needs for the same rows: to read and to write the table, a pattern and
`json.loads`. The rows are those of `responses`.
"""

from __future__ import annotations

import json
import re

import pyarrow as pa

from penstock.batch import TableParser
from responses import TOOLS, response, seconds

Row = tuple[str, str, str, str]

ROWS = 400
MAX_FLOORS = 8
_CALLS = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
PROSE = "The pipe leads the water to the turbine. " * 25


def floor() -> float:
    """Return the seconds that a pattern, `json.loads` and Arrow need for calls of hermes."""
    table = pa.table({"response": [response("hermes")] * ROWS})

    def work() -> None:
        found = [_CALLS.findall(text) for text in table.column("response").to_pylist()]
        calls = [[json.loads(call) for call in one] for one in found]
        pa.array([[json.dumps(call) for call in one] for one in calls], pa.list_(pa.string()))

    return seconds(work, 1, 5)


def measure(name: str, text: str, format_: str) -> Row:
    """Measure rows of *text*."""
    table = pa.table({"response": [text] * ROWS})
    parser = TableParser(format_, TOOLS)
    one, base = seconds(lambda: parser(table), 1, 5), floor()
    shown = f"{ROWS / one:,.0f} rows a second and core ({one / base:.1f} floors)"
    verdict = "ok" if one / base <= MAX_FLOORS else "MISSED"
    return name, shown, f"at most {MAX_FLOORS} floors", verdict


def table() -> list[Row]:
    """Return the rows of this benchmark."""
    return [
        measure("a call of 1 KB, hermes", response("hermes"), "hermes"),
        measure("a call of 1 KB, qwen3_coder", response("qwen3_coder"), "qwen3_coder"),
        measure("a call of 1 KB, auto", response("hermes"), "auto"),
        measure("prose of 1 KB, auto", PROSE, "auto"),
    ]


if __name__ == "__main__":
    for cells in table():
        print(*cells, sep=" | ")
