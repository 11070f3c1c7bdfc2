"""Every benchmark in one run, as tables of ratios.

The machines are noisy and shared, so no figure here is a time to compare with another day's: each
row is a ratio between two things measured side by side in this run, with the bar that it has to
pass. Exit code 1 tells that a bar was missed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import batches
import damage
import formats
import framing
import imports
import incremental
import inspector
import parsing
import providers
import quoted
import repair
import responses
import rules
import streams
import trace_files
import transports

Table = list[tuple[str, str, str, str]]
"""Rows of what was measured, the figure, the bar, and the verdict."""

TABLES: dict[str, Callable[[], Table]] = {
    "Import": imports.table,
    "IncrementalJSON, 4-character deltas": incremental.table,
    "repair": repair.table,
    "Framing": framing.table,
    "Parsing, 4-character deltas": parsing.table,
    "Short responses: one call of 1 KB with 31 tools": responses.table,
    "Batches: rows of 1 KB with 31 tools, Arrow in and out": batches.table,
    "Providers, a chunk from bytes to bytes beside json.loads and json.dumps": providers.table,
    "Streams, an event from its source to its consumer": streams.table,
    "HTTP client for SDKs, a chunk beside the plain client": transports.table,
    "Stream rules, an answer from bytes to message with 50 rules and without": rules.table,
    "Damaged calls: what became of them (law 11)": damage.table,
    "Quoted calls, the search for one beside its request": quoted.table,
    "Formats: text, markup; calls of 1, 10, 100 KB; code": formats.table,
    "Files that one call and one request go through": trace_files.table,
    "Inspector: latency of /health/live during an analysis, beside that at rest": inspector.table,
}


def main() -> None:
    """Run all tables, or those whose title holds one of the arguments."""
    wanted = [argument.lower() for argument in sys.argv[1:]]
    missed = 0
    for title, table in TABLES.items():
        if wanted and not any(word in title.lower() for word in wanted):
            continue
        rows = table()
        print(f"\n## {title}\n")
        show(rows)
        missed += sum(verdict == "MISSED" for *_, verdict in rows)
    sys.exit(1 if missed else 0)


def show(rows: Table) -> None:
    """Print *rows* as a Markdown table."""
    head = ("what", "measured", "bar", "verdict")
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(4)]
    for number, row in enumerate((head, *rows)):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print("| " + " | ".join(cells) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


if __name__ == "__main__":
    main()
