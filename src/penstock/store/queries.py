"""What is asked of the database: each function takes a connection and gives structs.

Lists go by key, not by offset: a page begins where the one before ended, however deep it lies and
whatever was written in between.
"""

from __future__ import annotations

import base64
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import structs
from sqlalchemy import (
    Connection,
    Integer,
    RowMapping,
    Select,
    and_,
    cast,
    delete,
    func,
    or_,
    select,
    tuple_,
)
from sqlalchemy.sql.elements import ColumnElement

from penstock import _json
from penstock.errors import UsageError
from penstock.store.compression import unpack
from penstock.store.records import (
    MAX_PAGE,
    Bucket,
    Overview,
    OverviewQuery,
    Page,
    Percentiles,
    RequestDetail,
    RequestQuery,
    RequestRow,
    ResponseRow,
    SessionQuery,
    SessionRow,
    Totals,
)
from penstock.store.sanitize import clean_key, clean_text
from penstock.store.tables import BODIES, REQUESTS, RESPONSES, SESSIONS

MAX_MODELS: Final = 50
"""How many models a sum names: clients may ask for any name they like."""

_ROW: Final = [REQUESTS.c[name] for name in RequestRow.__struct_fields__]

_NO_REPAIRS: Final = "[]"  # as the column has it

_SUMS: Final = (
    "calls",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
)


def find_session(
    connection: Connection, scope: str | None, name: str, digest: str
) -> SessionRow | None:
    """Find the newest live session by its id, or else by its conversation's hash."""
    for column, value in ((SESSIONS.c.id, name), (SESSIONS.c.hash, digest)):
        if not value:
            continue
        found = select(SESSIONS).where(column == clean_key(value), _is_live(SESSIONS))
        if scope is not None:
            found = found.where(SESSIONS.c.scope == clean_key(scope))
        row = connection.execute(found.order_by(SESSIONS.c.used.desc()).limit(1)).mappings().first()
        if row is not None:
            return _session(row)
    return None


def find_response(connection: Connection, scope: str, name: str) -> ResponseRow | None:
    """Find a live response by its id."""
    found = select(RESPONSES).where(
        RESPONSES.c.scope == clean_key(scope),
        RESPONSES.c.id == clean_key(name),
        _is_live(RESPONSES),
    )
    row = connection.execute(found).mappings().first()
    return None if row is None else ResponseRow(**row)


def list_requests(connection: Connection, query: RequestQuery) -> Page[RequestRow]:
    """List requests, newest first."""
    wanted = select(*_ROW).where(*_request_filters(query))
    total = _count(connection, wanted) if query.count else None
    if query.before:
        wanted = wanted.where(REQUESTS.c.id < clean_key(query.before))
    limit = _limit(query.limit)
    rows = (
        connection.execute(wanted.order_by(REQUESTS.c.id.desc()).limit(limit + 1)).mappings().all()
    )
    items = [_request(row) for row in rows[:limit]]
    return Page(items=items, next=items[-1].id if len(rows) > limit else "", total=total)


def list_newer(connection: Connection, after: str, limit: int) -> list[RequestRow]:
    """List requests newer than the one with the id *after*, oldest first."""
    newer = select(*_ROW).where(REQUESTS.c.id > clean_key(after))
    rows = connection.execute(newer.order_by(REQUESTS.c.id).limit(_limit(limit))).mappings()
    return [_request(row) for row in rows]


def list_named(connection: Connection, names: Sequence[str]) -> list[RequestRow]:
    """List the requests with these ids, as many as a page has."""
    keys = [clean_key(name) for name in names[:MAX_PAGE]]
    rows = connection.execute(select(*_ROW).where(REQUESTS.c.id.in_(keys))).mappings()
    return [_request(row) for row in rows]


def find_request(connection: Connection, name: str) -> RequestDetail | None:
    """Find a request with its bodies."""
    key = clean_key(name)
    columns = (*_ROW, REQUESTS.c.text, REQUESTS.c.notes)
    row = connection.execute(select(*columns).where(REQUESTS.c.id == key)).mappings().first()
    if row is None:
        return None
    stored = select(BODIES.c.kind, BODIES.c.coding, BODIES.c.data).where(BODIES.c.request == key)
    bodies = {kind: unpack(coding, data) for kind, coding, data in connection.execute(stored)}
    known = {kind: body for kind, body in bodies.items() if kind in RequestDetail.__struct_fields__}
    return RequestDetail(
        row=_request(row), text=row["text"], notes=_json.decode(row["notes"]), **known
    )


def list_sessions(connection: Connection, query: SessionQuery) -> Page[SessionRow]:
    """List sessions, the newest made first."""
    wanted = select(SESSIONS).where(*_session_filters(query))
    total = _count(connection, wanted) if query.count else None
    order = (SESSIONS.c.created, SESSIONS.c.id, SESSIONS.c.scope)
    if query.before:
        wanted = wanted.where(tuple_(*order) < tuple_(*_read_cursor(query.before)))
    limit = _limit(query.limit)
    newest = wanted.order_by(*(column.desc() for column in order))
    rows = connection.execute(newest.limit(limit + 1)).mappings().all()
    items = [_session(row) for row in rows[:limit]]
    return Page(
        items=items, next=_write_cursor(items[-1]) if len(rows) > limit else "", total=total
    )


def delete_session(connection: Connection, name: str, scope: str | None) -> bool:
    """Delete a session, of one scope or of all; return whether there was one."""
    gone = delete(SESSIONS).where(SESSIONS.c.id == clean_key(name))
    if scope is not None:
        gone = gone.where(SESSIONS.c.scope == clean_key(scope))
    return connection.execute(gone).rowcount > 0


def delete_response(connection: Connection, name: str, scope: str) -> bool:
    """Delete a response; return whether there was a live one."""
    is_it = RESPONSES.c.scope == clean_key(scope), RESPONSES.c.id == clean_key(name)
    return connection.execute(delete(RESPONSES).where(*is_it, _is_live(RESPONSES))).rowcount > 0


def sum_up(connection: Connection, since: float) -> Totals:
    """Sum up the requests made since *since*."""
    sums = [func.coalesce(func.sum(REQUESTS.c[name]), 0).label(name) for name in _SUMS]
    groups = select(REQUESTS.c.state, REQUESTS.c.model, func.count().label("number"), *sums)
    groups = groups.where(REQUESTS.c.created >= since)
    states: Counter[str] = Counter()
    models: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for row in connection.execute(groups.group_by(REQUESTS.c.state, REQUESTS.c.model)):
        states[row.state] += row.number
        models[row.model] += row.number
        whole.update({name: int(getattr(row, name)) for name in _SUMS})
    return Totals(
        requests=states.total(),
        states=dict(states),
        models=dict(models.most_common(MAX_MODELS)),
        size=int(connection.scalar(select(func.sum(REQUESTS.c.size))) or 0),
        **{name: whole[name] for name in _SUMS},
    )


# --- pieces of queries and of results ---


def _request_filters(query: RequestQuery) -> list[ColumnElement[bool]]:
    columns = REQUESTS.c
    names = ("model", "upstream", "client_api", "state", "finish")
    filters = [
        columns[name] == clean_text(getattr(query, name)) for name in names if getattr(query, name)
    ]
    if query.scope is not None:
        filters.append(columns.scope == clean_key(query.scope))
    if query.session:
        filters.append(columns.session == clean_key(query.session))
    if query.format:
        filters.append(_is_of_format(clean_text(query.format)))
    if query.error:
        filters.append(columns.error_kind == clean_text(query.error))
    if query.repairs is not None:
        filters.append((columns.repairs != _NO_REPAIRS) == query.repairs)
    if query.after:
        filters.append(columns.id > clean_key(query.after))
    if query.since is not None:
        filters.append(columns.created >= query.since)
    if query.until is not None:
        filters.append(columns.created < query.until)
    if query.search:
        words = clean_text(query.search)
        places = (columns.text, columns.error_message)
        filters.append(or_(*(place.icontains(words, autoescape=True) for place in places)))
    return filters


def _is_of_format(name: str) -> ColumnElement[bool]:
    """Return whether answers were read as the format *name*.

    Or had calls that were written in it.
    """
    columns = REQUESTS.c
    noted = columns.notes.contains(f'"{name}"', autoescape=True)
    named = columns.notes.contains('"formats":[', autoescape=True)
    return or_(columns.format == name, and_(columns.calls > 0, named, noted))


def _session_filters(query: SessionQuery) -> list[ColumnElement[bool]]:
    columns = SESSIONS.c
    filters = [
        columns[name] == clean_text(getattr(query, name))
        for name in ("upstream", "model")
        if getattr(query, name)
    ]
    if query.scope is not None:
        filters.append(columns.scope == clean_key(query.scope))
    return [*filters, _is_live(SESSIONS)] if query.live else filters


def _is_live(table: Any) -> ColumnElement[bool]:
    return or_(table.c.expires <= 0, table.c.expires > time.time())


def _count(connection: Connection, wanted: Select[Any]) -> int:
    return connection.scalar(select(func.count()).select_from(wanted.subquery())) or 0


def _limit(wanted: int) -> int:
    return max(1, min(MAX_PAGE, wanted))


def _request(row: RowMapping) -> RequestRow:
    fields: dict[str, Any] = {name: row[name] for name in RequestRow.__struct_fields__}
    fields["repairs"] = _json.decode(fields["repairs"])
    return RequestRow(**fields)


def _session(row: RowMapping) -> SessionRow:
    fields: dict[str, Any] = {**row}
    fields["data"] = _json.decode(fields["data"])
    return SessionRow(**fields)


def _write_cursor(row: SessionRow) -> str:
    place = msgspec.json.encode([row.created, row.id, row.scope])
    return base64.urlsafe_b64encode(place).decode()


def _read_cursor(cursor: str) -> tuple[float, str, str]:
    try:
        place = base64.urlsafe_b64decode(cursor.encode())
        created, id_, scope = msgspec.json.decode(place, type=tuple[float, str, str])
    except ValueError:
        raise UsageError("`before` is not the `next` of a page of sessions") from None
    return created, clean_key(id_), clean_key(scope)


# Requests over time: the database sums them up, and only the sums are read.
#
# Percentiles are rows at a place in an order, so the database gives two rows a bucket, however
# many requests there were. Only the formats of calls are in notes, which no database here can
# sum up: those of the newest requests are read.


MAX_BUCKETS: Final = 200
"""How many buckets there are at most: a plot has no more columns that could be told apart."""

MAX_NOTED: Final = 2_000
"""Of how many requests with calls the formats are looked at."""

_FAILED: Final = ("failed", "interrupted")
_C: Final = REQUESTS.c


def overview(connection: Connection, query: OverviewQuery) -> Overview:
    """Sum up the requests that *query* asks for."""
    number = max(1, min(MAX_BUCKETS, query.buckets))
    width = max(1e-3, (query.until - query.since) / number)
    filters = [_C.created >= query.since, _C.created < query.since + width * number]
    if query.scope is not None:
        filters.append(_C.scope == clean_key(query.scope))
    place = _place(connection, query.since, width)
    formats = _formats(connection, place, filters)
    found = _buckets(connection, place, filters)
    return Overview(
        since=query.since,
        until=query.since + width * number,
        width=width,
        buckets=[
            structs.replace(
                found.get(at, Bucket(t=0.0)),
                t=query.since + at * width,
                formats=dict(formats.get(at, {})),
            )
            for at in range(number)
        ],
        formats=dict(sum(formats.values(), Counter[str]()).most_common(MAX_MODELS)),
        errors=_counts(connection, _C.error_kind, [*filters, _C.error_kind != ""]),
        models=_counts(connection, _C.model, filters),
        states=_counts(connection, _C.state, filters),
    )


def _place(connection: Connection, since: float, width: float) -> ColumnElement[Any]:
    """Return the number of a row's bucket.

    SQLite cuts a number to be whole, PostgreSQL rounds it.
    """
    number = (_C.created - since) / width
    if connection.dialect.name == "postgresql":
        number = func.floor(number)
    return cast(number, Integer)


def _buckets(
    connection: Connection, place: ColumnElement[Any], filters: Sequence[ColumnElement[bool]]
) -> dict[int, Bucket]:
    """Sum up each bucket that has any requests; when it begins is said by whoever asks."""
    sums = select(
        place.label("place"),
        func.count().label("streams"),
        func.count().filter(_C.state.in_(_FAILED)).label("failed"),
        func.sum(_C.calls).label("calls"),
        func.count().filter(_C.repairs != "[]").label("repaired"),
    )
    rows = connection.execute(sums.where(*filters).group_by(place)).all()
    ttft = _percentiles(connection, _C.first_token, place, filters)
    ended = [*filters, _C.state != "started"]
    durations = _percentiles(connection, _C.duration, place, ended)
    errors = _errors(connection, place, filters)
    return {
        int(row.place): Bucket(
            t=0.0,
            streams=int(row.streams),
            failed=int(row.failed),
            calls=int(row.calls or 0),
            repaired=int(row.repaired),
            ttft=ttft.get(int(row.place)),
            duration=durations.get(int(row.place)),
            errors=errors.get(int(row.place), {}),
        )
        for row in rows
    }


def _percentiles(
    connection: Connection,
    column: ColumnElement[Any],
    place: ColumnElement[Any],
    filters: Sequence[ColumnElement[bool]],
) -> dict[int, Percentiles]:
    """Return the percentiles of *column* for each bucket that has any."""
    ranked = (
        select(
            place.label("place"),
            column.label("value"),
            func.row_number().over(partition_by=place, order_by=column).label("rank"),
            func.count().over(partition_by=place).label("number"),
        )
        .where(*filters, column.is_not(None))
        .subquery()
    ).c
    middle, high = (ranked.number + 1) // 2, (ranked.number * 19 + 19) // 20
    wanted = select(ranked.place, ranked.value)
    wanted = wanted.where(or_(ranked.rank == middle, ranked.rank == high))
    found: dict[int, list[float]] = {}
    for at, value in connection.execute(wanted.order_by(ranked.place, ranked.rank)):
        found.setdefault(int(at), []).append(float(value))
    return {at: Percentiles(values[0], values[-1]) for at, values in found.items()}


def _counts(
    connection: Connection, column: ColumnElement[Any], filters: Sequence[ColumnElement[bool]]
) -> dict[str, int]:
    number = func.count().label("number")
    groups = select(column, number).where(*filters).group_by(column).order_by(number.desc())
    return {str(name): int(many) for name, many in connection.execute(groups.limit(MAX_MODELS))}


def _errors(
    connection: Connection, place: ColumnElement[Any], filters: Sequence[ColumnElement[bool]]
) -> dict[int, dict[str, int]]:
    """Count failures by their kind, for each bucket that has any."""
    kinds = select(place.label("place"), _C.error_kind, func.count())
    kinds = kinds.where(*filters, _C.error_kind != "").group_by(place, _C.error_kind)
    found: dict[int, dict[str, int]] = {}
    for at, kind, many in connection.execute(kinds):
        found.setdefault(int(at), {})[str(kind)] = int(many)
    return found


def _formats(
    connection: Connection, place: ColumnElement[Any], filters: Sequence[ColumnElement[bool]]
) -> dict[int, Counter[str]]:
    """Count calls by the format they were written in; of several in one answer, one each."""
    newest = select(place.label("place"), _C.calls, _C.notes).where(*filters, _C.calls > 0)
    found: dict[int, Counter[str]] = {}
    for at, calls, notes in connection.execute(newest.order_by(_C.id.desc()).limit(MAX_NOTED)):
        names = _json.decode(notes).get("formats")
        names = [str(name) for name in names] if isinstance(names, list) else []
        counted = {name: int(calls) if len(names) == 1 else 1 for name in names}
        found.setdefault(int(at), Counter()).update(counted)
    return found
