"""The same parsing inside other engines: Ray Data, Spark, Polars and DuckDB.

Each engine distributes the rows and restarts its workers; penstock only turns a batch of Arrow data
into another one. For Ray Data, pass `penstock.batch.TableParser` itself::

    dataset.map_batches(TableParser, batch_format="pyarrow", fn_constructor_kwargs={"tools": tools})
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from penstock.batch.rows import RowParser
from penstock.batch.table import RESULT_SCHEMA, TableParser, make_arrays

_SPARK_TYPES = {"string": "STRING", "bool": "BOOLEAN", "int32": "INT", "int64": "BIGINT"}


def spark_mapper(**options: Any) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for ``DataFrame.mapInArrow``; the options are those of `TableParser`.

    Pass `spark_schema` as the schema of the result.
    """

    def parse_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parser = TableParser(**options)  # Once for each task: schemas are not sent over.
        for batch in batches:
            yield parser.parse_batch(batch)

    return parse_batches


def spark_schema(frame: Any, *, column: str = "response", prefix: str = "") -> str:
    """Return the schema of the result for the data frame *frame*, in Spark's DDL."""
    kept = [one for one in frame.schema.fields if one.name != column]
    fields = [f"`{one.name}` {one.dataType.simpleString()}" for one in kept]
    fields += [f"`{prefix}{one.name}` {_spark_type(one.type)}" for one in RESULT_SCHEMA]
    return ", ".join(fields)


def _spark_type(type_: pa.DataType) -> str:
    if pa.types.is_list(type_):
        return f"ARRAY<{_spark_type(type_.value_type)}>"
    if pa.types.is_struct(type_):
        inner = (f"`{one.name}`: {_spark_type(one.type)}" for one in type_)
        return f"STRUCT<{', '.join(inner)}>"
    return _SPARK_TYPES[str(type_)]


def polars_parse(frame: Any, **options: Any) -> Any:
    """Return the Polars data frame or lazy frame *frame* with the columns of the results.

    The options are those of `TableParser`. A lazy frame stays lazy, and is parsed in batches where
    its engine streams.
    """
    import polars as pl  # noqa: PLC0415 - it is the caller's engine

    parser = TableParser(**options)

    def parse(batch: Any) -> Any:
        return pl.from_arrow(parser(_without_views(batch.to_arrow())))

    if not isinstance(frame, pl.LazyFrame):
        return parse(frame)
    schema = parse(pl.DataFrame(schema=frame.collect_schema())).schema
    return frame.map_batches(parse, schema=schema, streamable=True)


def register_duckdb(connection: Any, name: str = "parse_calls", **options: Any) -> None:
    """Add the function *name* to a DuckDB *connection*: ``SELECT parse_calls(response) FROM …``.

    It takes a text and returns a struct with the columns of the results; the options are those of
    `RowParser`.
    """
    parser = RowParser(**options)

    def parse(texts: pa.ChunkedArray) -> pa.Array:
        rows = [parser.parse(text) for text in texts.to_pylist()]
        return pa.StructArray.from_arrays(make_arrays(rows), fields=list(RESULT_SCHEMA))

    connection.create_function(
        name, parse, ["VARCHAR"], _duckdb_type(pa.struct(list(RESULT_SCHEMA))),
        type="arrow", null_handling="special",
    )  # fmt: skip


def _duckdb_type(type_: pa.DataType) -> str:
    if pa.types.is_list(type_):
        return f"{_duckdb_type(type_.value_type)}[]"
    if pa.types.is_struct(type_):
        inner = (f'"{one.name}" {_duckdb_type(one.type)}' for one in type_)
        return f"STRUCT({', '.join(inner)})"
    return {"string": "VARCHAR", "bool": "BOOLEAN", "int32": "INTEGER"}[str(type_)]


def _without_views(table: pa.Table) -> pa.Table:
    """Return *table* with plain strings, where Polars exports string views."""
    types = [
        pa.large_string() if pa.types.is_string_view(one.type) else one.type for one in table.schema
    ]
    names = table.schema.names
    return table.cast(pa.schema(list(zip(names, types, strict=True))))
