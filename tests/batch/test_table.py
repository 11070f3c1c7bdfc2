from __future__ import annotations

import json
import random
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from batch.samples import RESPONSES, TOOLS
from penstock.batch import RESULT_SCHEMA, RowParser, TableParser, parse_table
from penstock.batch.engines import polars_parse, register_duckdb
from penstock.batch.table import ROWS_AT_ONCE
from penstock.errors import UsageError

TEXTS = [response for response, _ in RESPONSES]


def expected(texts: list[str | None]) -> list[dict[str, Any]]:
    """Return the results of *texts* as Arrow returns them."""
    parser = RowParser("auto", TOOLS)
    rows = []
    for row in map(parser.parse, texts):
        calls = [
            {
                "id": call.id,
                "name": call.name,
                "arguments": json.dumps(call.arguments, ensure_ascii=False, separators=(",", ":")),
                "complete": call.complete,
                "repairs": call.repairs,
            }
            for call in row.calls
        ]
        spans = [span._asdict() for span in row.spans]
        rows.append(
            {
                "text": row.text,
                "reasoning": row.reasoning,
                "calls": calls,
                "repairs": row.repairs,
                "spans": spans,
                "outcome": row.outcome,
                "error": row.error,
            }
        )
    return rows


def without_ids(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for row in rows:
        for call in row["calls"]:
            assert call.pop("id")
    return rows


def test_a_table_has_the_columns_of_the_results() -> None:
    texts: list[str | None] = [*TEXTS, None]
    table = pa.table({"id": range(len(texts)), "response": texts})
    parsed = parse_table(table, "auto", TOOLS)
    assert parsed.schema.names == ["id", *RESULT_SCHEMA.names]
    assert parsed.column("id").to_pylist() == [*range(len(texts))]
    rows = parsed.drop_columns(["id"]).to_pylist()
    assert without_ids(rows) == without_ids(expected(texts))


@pytest.mark.parametrize("rows", [0, 1, ROWS_AT_ONCE, ROWS_AT_ONCE + 1])
def test_tables_of_any_size_and_chunking_give_the_same(rows: int) -> None:
    rng = random.Random(rows)
    # Most rows have no call: what counts here is where the pieces begin and end.
    texts = [rng.choice(TEXTS) if row % 64 in (0, 63) else "Ok." for row in range(rows)]
    whole = pa.table({"response": pa.array(texts, pa.string())})
    parser = TableParser("auto", TOOLS)
    results = parser(whole)
    assert results.num_rows == rows
    assert results.schema.names == RESULT_SCHEMA.names
    cut = rng.randint(0, rows)
    chunked = pa.concat_tables([whole.slice(0, cut), whole.slice(cut)])
    assert without_ids(parser(chunked).to_pylist()) == without_ids(results.to_pylist())
    assert (
        parser.parse_batch(whole.combine_chunks().to_batches()[0]).num_rows == rows
        if rows
        else True
    )


def test_lone_surrogates_in_arguments_stay_readable() -> None:
    table = pa.table(
        {"response": ['<tool_call>{"name": "a", "arguments": {"x": "\\ud83d"}}</tool_call>']}
    )
    parsed = parse_table(table, "hermes")
    (call,) = parsed.column("calls").to_pylist()[0]
    assert json.loads(call["arguments"]) == {"x": "\ud83d"}


def test_a_taken_name_is_an_error_that_names_the_prefix() -> None:
    table = pa.table({"response": ["x"], "error": ["y"]})
    with pytest.raises(UsageError, match=r"'error' exists already: pass a prefix"):
        parse_table(table)
    parsed = parse_table(table, prefix="parsed_")
    assert parsed.column("error").to_pylist() == ["y"]
    assert parsed.column("parsed_text").to_pylist() == ["x"]


def test_a_missing_column_is_an_error_that_lists_the_columns() -> None:
    with pytest.raises(UsageError, match=r"no column 'response'; the columns are: a, b"):
        parse_table(pa.table({"a": ["x"], "b": [1]}))


def test_rows_have_their_own_tools_and_finish_reasons() -> None:
    call = '<tool_call>{"name": "ping", "arguments": {}'
    table = pa.table(
        {
            "response": [call, call, call],
            "tools": ['[{"name": "ping"}]', '[{"name": "ping"}]', None],
            "finish": ["stop", "length", None],
        }
    )
    parsed = parse_table(
        table, "hermes", TOOLS, tools_column="tools", finish_column="finish", repair=True
    )
    assert parsed.column("outcome").to_pylist() == ["calls", "unread", "unread"]


# --- engines ---


def test_polars_parses_frames_and_lazy_frames() -> None:
    frame = pl.DataFrame({"id": range(len(TEXTS)), "response": TEXTS})
    eager = polars_parse(frame, format="auto", tools=TOOLS)
    assert without_ids(eager.drop("id").to_dicts()) == without_ids(expected([*TEXTS]))
    lazy = polars_parse(frame.lazy(), format="auto", tools=TOOLS).collect()
    assert without_ids(lazy.to_dicts()) == without_ids(eager.to_dicts())


def test_duckdb_parses_in_a_query() -> None:
    connection = duckdb.connect()
    register_duckdb(connection, format="auto", tools=TOOLS)
    connection.execute("CREATE TABLE log (id INTEGER, response VARCHAR)")
    texts: list[str | None] = [*TEXTS, None]
    connection.executemany("INSERT INTO log VALUES (?, ?)", list(enumerate(texts)))
    rows = connection.execute("SELECT parse_calls(response) FROM log ORDER BY id").fetchall()
    assert without_ids([row for (row,) in rows]) == without_ids(expected(texts))
    names = connection.execute(
        "SELECT call.name FROM (SELECT unnest(parse_calls(response).calls) AS call FROM log)"
    ).fetchall()
    assert names == [("write_file",), ("write_file",)]
