"""Many responses at once: tables, files and the gateway's log, on all cores or on an engine.

`rows` parses one response, `table` an Arrow table, `sources` and `job` are ``penstock batch``, and
`engines` has functions for Ray Data, Spark, Polars and DuckDB. All of them use `RowParser`, so the
results are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.batch.job import BatchError, BatchJob, Progress, open_source
from penstock.batch.rows import OUTCOMES, Outcome, ParsedRow, RowParser
from penstock.batch.sources import BatchOptions, LogSource, PartSummary
from penstock.formats.registry import FormatLike

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.batch.table import RESULT_SCHEMA, TableParser

__all__ = [
    "OUTCOMES",
    "RESULT_SCHEMA",
    "BatchError",
    "BatchJob",
    "BatchOptions",
    "LogSource",
    "Outcome",
    "ParsedRow",
    "PartSummary",
    "Progress",
    "RowParser",
    "TableParser",
    "open_source",
    "parse_table",
]

_TABLE_NAMES = frozenset({"RESULT_SCHEMA", "TableParser"})


def parse_table(
    table: pa.Table,
    format: FormatLike = "auto",  # noqa: A002 - as everywhere in the interface
    tools: object = (),
    **options: Any,
) -> pa.Table:
    """Parse a column of responses; the options are those of `TableParser`.

    The result has the other columns of *table*, and `text`, `reasoning`, `calls`, `repairs`,
    `spans`, `outcome` and `error`.
    """
    from penstock.batch.table import TableParser  # noqa: PLC0415 - it needs an extra

    return TableParser(format, tools, **options)(table)


def __getattr__(name: str) -> Any:
    """Load the names that need pyarrow when they are used."""
    if name in _TABLE_NAMES:
        from penstock.batch import table  # noqa: PLC0415

        return vars(table)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
