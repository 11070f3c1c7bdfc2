"""Responses in Arrow tables: the columns of the results, and a function from table to table.

Engines that work on Arrow batches (Ray, Spark, Polars, DuckDB) use `TableParser` as it is; see
`penstock.batch.engines`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, Unpack

import pyarrow as pa

from penstock import _json
from penstock.batch.rows import ParsedRow, RowParser
from penstock.errors import UsageError
from penstock.formats.base import ParserOptions
from penstock.formats.registry import FormatLike
from penstock.parsing import Reasoning

CALL_TYPE: Final = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("arguments", pa.string()),  # JSON: the arguments of each tool have another type
        ("complete", pa.bool_()),
        ("repairs", pa.list_(pa.string())),
    ]
)
SPAN_TYPE: Final = pa.struct(
    [("kind", pa.string()), ("block", pa.int32()), ("start", pa.int32()), ("end", pa.int32())]
)
RESULT_SCHEMA: Final = pa.schema(
    [
        ("text", pa.string()),
        ("reasoning", pa.string()),
        ("calls", pa.list_(CALL_TYPE)),
        ("repairs", pa.list_(pa.string())),
        ("spans", pa.list_(SPAN_TYPE)),
        ("outcome", pa.string()),
        ("error", pa.string()),
    ]
)
"""The columns that a parsed table has in addition to those of its input."""

ROWS_AT_ONCE: Final = 2048
"""How many rows become Python objects at a time: 2 MB of responses of 1 KB."""


class TableParser:
    """A function from an Arrow table of responses to a table with the results.

    *column* holds the responses. *tools_column* may hold the tools of each row as JSON and
    *finish_column* the provider's finish reason. The other columns are kept, and the results get
    the names of `RESULT_SCHEMA` with *prefix* before them. The other options are those of
    `penstock.Parser`.
    """

    def __init__(  # noqa: PLR0913 - each is an option that has a name
        self,
        format: FormatLike = "auto",  # noqa: A002 - as everywhere in the interface
        tools: object = (),
        *,
        column: str = "response",
        tools_column: str | None = None,
        finish_column: str | None = None,
        prefix: str = "",
        spans: bool = True,
        unread: bool = True,
        reasoning: str | Reasoning | None = None,
        **options: Unpack[ParserOptions],
    ) -> None:
        self._parser = RowParser(
            format, tools, spans=spans, unread=unread, reasoning=reasoning, **options
        )
        self._column = column
        self._tools_column = tools_column
        self._finish_column = finish_column
        self._prefix = prefix

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return *table* with the columns of the results instead of the responses."""
        self.schema_for(table.schema)
        # An empty table is parsed too, so that the result has its columns.
        starts = range(0, max(table.num_rows, 1), ROWS_AT_ONCE)
        return pa.concat_tables([self._parse(table.slice(at, ROWS_AT_ONCE)) for at in starts])

    def parse_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the results of one record batch as one record batch."""
        table = self(pa.Table.from_batches([batch])).combine_chunks()
        batches = table.to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)

    def schema_for(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the result for an input of *schema*; raise `UsageError`."""
        for name in (self._column, self._tools_column, self._finish_column):
            if name is not None and name not in schema.names:
                raise UsageError(
                    f"There is no column {name!r}; the columns are: {', '.join(schema.names)}."
                )
        kept = [one for one in schema if one.name != self._column]
        results = [one.with_name(self._prefix + one.name) for one in RESULT_SCHEMA]
        taken = {one.name for one in kept} & {one.name for one in results}
        if taken:
            raise UsageError(
                f"The column {min(taken)!r} exists already: pass a prefix for the results, "
                "for example prefix='parsed_'."
            )
        return pa.schema([*kept, *results])

    def _parse(self, table: pa.Table) -> pa.Table:
        texts = table.column(self._column).to_pylist()
        tools = self._read_column(table, self._tools_column)
        finishes = self._read_column(table, self._finish_column)
        parse = self._parser.parse
        rows = [
            parse(text, tools=one, finish=finish)
            for text, one, finish in zip(texts, tools, finishes, strict=True)
        ]
        kept = table.drop_columns([self._column])
        arrays = [*kept.columns, *make_arrays(rows)]
        return pa.Table.from_arrays(arrays, schema=self.schema_for(table.schema))

    @staticmethod
    def _read_column(table: pa.Table, name: str | None) -> Sequence[Any]:
        return table.column(name).to_pylist() if name is not None else [None] * table.num_rows


def make_arrays(rows: Sequence[ParsedRow]) -> list[pa.Array]:
    """Return the columns of `RESULT_SCHEMA` for *rows*.

    Columns are built from flat lists with offsets: that takes a fifth of the time that Arrow needs
    to convert a dict for each call and each span.
    """
    calls = [call for row in rows for call in row.calls]
    spans = [span for row in rows for span in row.spans]
    written = [_json.encode(call.arguments) for call in calls]
    call_columns = [
        _texts([call.id for call in calls]),
        _texts([call.name for call in calls]),
        pa.array(written, pa.binary()).cast(pa.string()),
        pa.array([call.complete for call in calls], pa.bool_()),
        _lists_of_texts([call.repairs for call in calls]),
    ]
    span_columns: list[pa.Array] = [
        pa.array([span.kind for span in spans], pa.string()),
        *(pa.array([span[at] for span in spans], pa.int32()) for at in range(1, len(SPAN_TYPE))),
    ]
    return [
        _texts([row.text for row in rows]),
        _texts([row.reasoning for row in rows]),
        _nest([len(row.calls) for row in rows], _make_structs(call_columns, CALL_TYPE)),
        _lists_of_texts([row.repairs for row in rows]),
        _nest([len(row.spans) for row in rows], _make_structs(span_columns, SPAN_TYPE)),
        pa.array([row.outcome for row in rows], pa.string()),
        _texts([row.error for row in rows]),
    ]


def _make_structs(columns: list[pa.Array], type_: pa.StructType) -> pa.Array:
    return pa.StructArray.from_arrays(columns, fields=list(type_))


def _nest(sizes: list[int], values: pa.Array) -> pa.Array:
    """Return lists of *sizes* from consecutive *values*."""
    offsets = pa.array(accumulate(sizes, initial=0), pa.int32())
    return pa.ListArray.from_arrays(offsets, values)


def _lists_of_texts(lists: list[list[str]]) -> pa.Array:
    return _nest([len(one) for one in lists], _texts([text for one in lists for text in one]))


def _texts(values: Sequence[str | None]) -> pa.Array:
    """Return *values* as an array; a lone surrogate, which UTF-8 cannot express, is U+FFFD."""
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        clean = [one and _json.join_surrogates(one, lone="replace") for one in values]
        return pa.array(clean, pa.string())
