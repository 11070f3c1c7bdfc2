"""Records become rows: the statements of one batch, in one transaction.

Every statement may be run twice without harm, since a batch whose commit got lost on the way is
written again. An end whose start was dropped still makes a row.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Table, func

from penstock.store.backlog import OVERHEAD, Record
from penstock.store.cleaning import Fields, clean_key
from penstock.store.engine import insert_into
from penstock.store.packing import bodies_of
from penstock.store.records import RequestEnded, RequestStarted, ResponseRow, SessionRow
from penstock.store.tables import BODIES, REQUESTS, RESPONSES, SESSIONS

_STARTED: Final = Fields(
    REQUESTS.c[name] for name in RequestStarted.__struct_fields__ if name in REQUESTS.c
)
_ENDED: Final = Fields(
    REQUESTS.c[name] for name in RequestEnded.__struct_fields__ if name in REQUESTS.c
)
_SESSION: Final = Fields(SESSIONS.c)
_RESPONSE: Final = Fields(RESPONSES.c)

Rows = list[dict[str, Any]]


def write(connection: Connection, records: Iterable[Record], worker: str) -> None:
    """Write *records* in the transaction that is open; *worker* serves those that name none."""
    starts: list[RequestStarted] = []
    ends: list[RequestEnded] = []
    sessions: list[SessionRow] = []
    responses: list[ResponseRow] = []
    for record in records:
        match record:
            case RequestStarted():
                starts.append(record)
            case RequestEnded():
                ends.append(record)
            case SessionRow():
                sessions.append(record)
            case ResponseRow():
                responses.append(record)
    bodies: Rows = []
    _write_starts(connection, starts, worker, bodies)
    _write_ends(connection, ends, bodies)
    _upsert(connection, BODIES, bodies)
    # In the order of their keys: two processes that write the same ones do not block each other.
    _upsert(connection, SESSIONS, _sorted(map(_SESSION.of, sessions)), keep=("created",))
    _upsert(connection, RESPONSES, _sorted(map(_RESPONSE.of, responses)))


def _write_starts(
    connection: Connection, starts: Sequence[RequestStarted], worker: str, bodies: Rows
) -> None:
    rows = []
    for record in starts:
        row = _STARTED.of(record)
        row["worker"] = row["worker"] or worker
        row["size"] = OVERHEAD + _add_bodies(record, bodies)
        rows.append(row)
    if rows:
        connection.execute(insert_into(connection, REQUESTS).on_conflict_do_nothing(), rows)


def _write_ends(connection: Connection, ends: Sequence[RequestEnded], bodies: Rows) -> None:
    if not ends:
        return
    now = time.time()
    rows = []
    for record in ends:
        row = _ENDED.of(record)
        row["size"] = _add_bodies(record, bodies) + len(record.text)
        row["created"] = now - row["duration"]  # of a request whose start is not there
        rows.append(row)
    insert = insert_into(connection, REQUESTS)
    new = insert.excluded
    changes: dict[str, Any] = {name: new[name] for name in _ENDED.names if name != "id"}
    changes["session"] = func.coalesce(func.nullif(new.session, ""), REQUESTS.c.session)
    changes["size"] = REQUESTS.c.size + new.size
    connection.execute(insert.on_conflict_do_update(index_elements=["id"], set_=changes), rows)


def _add_bodies(record: RequestStarted | RequestEnded, bodies: Rows) -> int:
    """Add the bodies of *record* to *bodies*; give their size."""
    size = 0
    for kind, coding, data in bodies_of(record):
        request = clean_key(record.id)
        bodies.append({"request": request, "kind": kind, "coding": coding, "data": data})
        size += len(data)
    return size


def _upsert(connection: Connection, table: Table, rows: Rows, keep: Sequence[str] = ()) -> None:
    """Insert *rows*, or overwrite those with the same key but for the columns to *keep*."""
    if not rows:
        return
    insert = insert_into(connection, table)
    keys = [column.name for column in table.primary_key]
    names = (column.name for column in table.c)
    changes = {name: insert.excluded[name] for name in names if name not in (*keys, *keep)}
    connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=changes), rows)


def _sorted(rows: Iterable[dict[str, Any]]) -> Rows:
    return sorted(rows, key=lambda row: (row["scope"], row["id"]))
