"""Queries: each function takes a connection and returns records.

Lists are paged by key, not by offset: a page starts where the previous one ended, at the same cost
for every page, and independent of what was written in between.
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
from penstock.store.records import (
    MAX_PAGE,
    Bucket,
    ConversationRow,
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
from penstock.store.tables import (
    BODIES,
    REQUESTS,
    RESPONSES,
    SESSIONS,
    clean_key,
    clean_text,
    matches,
    unpack,
)

MAX_MODELS: Final = 50
"""How many models, formats or errors are listed: clients choose the names of models."""

_ROW: Final = [REQUESTS.c[name] for name in RequestRow.__struct_fields__]

SORTS: Final = (
    *("duration", "first_token", "input_tokens", "output_tokens"),
    *("calls", "chunks", "size", "messages"),
)
"""The columns by which requests can be sorted, besides their time."""

_NO_REPAIRS: Final = "[]"  # the JSON in the column

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
    """Return the newest live session with this id, or else with this hash of its conversation."""
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
    """Return a live response by its id."""
    found = select(RESPONSES).where(
        RESPONSES.c.scope == clean_key(scope),
        RESPONSES.c.id == clean_key(name),
        _is_live(RESPONSES),
    )
    row = connection.execute(found).mappings().first()
    return None if row is None else ResponseRow(**row)


def list_requests(connection: Connection, query: RequestQuery) -> Page[RequestRow]:
    """Return requests, newest first."""
    wanted = select(*_ROW).where(*_request_filters(connection, query))
    total = _count(connection, wanted) if query.count else None
    limit = _limit(query.limit)
    # By another column than the time there is no key to continue from: the page has no `next`.
    if query.sort:
        column = _read_sort(query.sort)
        largest = wanted.where(column.is_not(None)).order_by(column.desc(), REQUESTS.c.id.desc())
        found = connection.execute(largest.limit(limit)).mappings()
        return Page(items=[_request(row) for row in found], total=total)
    if query.before:
        wanted = wanted.where(REQUESTS.c.id < clean_key(query.before))
    rows = (
        connection.execute(wanted.order_by(REQUESTS.c.id.desc()).limit(limit + 1)).mappings().all()
    )
    items = [_request(row) for row in rows[:limit]]
    return Page(items=items, next=items[-1].id if len(rows) > limit else "", total=total)


def _read_sort(name: str) -> ColumnElement[Any]:
    if name not in SORTS:
        raise UsageError(f"`sort` must be one of {', '.join(SORTS)}, not {name!r}")
    return REQUESTS.c[name]


def list_newer(connection: Connection, after: str, limit: int) -> list[RequestRow]:
    """Return requests newer than the one with the id *after*, oldest first."""
    newer = select(*_ROW).where(REQUESTS.c.id > clean_key(after))
    rows = connection.execute(newer.order_by(REQUESTS.c.id).limit(_limit(limit))).mappings()
    return [_request(row) for row in rows]


def list_named(connection: Connection, names: Sequence[str]) -> list[RequestRow]:
    """Return the requests with these ids, at most `MAX_PAGE`."""
    keys = [clean_key(name) for name in names[:MAX_PAGE]]
    rows = connection.execute(select(*_ROW).where(REQUESTS.c.id.in_(keys))).mappings()
    return [_request(row) for row in rows]


def find_request(connection: Connection, name: str) -> RequestDetail | None:
    """Return a request with its bodies."""
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
    """Return sessions, the newest first."""
    wanted = select(SESSIONS).where(*_session_filters(query))
    total = _count(connection, wanted) if query.count else None
    order = (SESSIONS.c.created, SESSIONS.c.id, SESSIONS.c.scope)
    if query.before:
        wanted = wanted.where(tuple_(*order) < tuple_(*_read_cursor(query.before)))
    limit = _limit(query.limit)
    newest = wanted.order_by(*(column.desc() for column in order))
    # One row more than the page has: it shows whether there is another page.
    rows = connection.execute(newest.limit(limit + 1)).mappings().all()
    items = [_session(row) for row in rows[:limit]]
    return Page(
        items=items, next=_write_cursor(items[-1]) if len(rows) > limit else "", total=total
    )


def delete_session(connection: Connection, name: str, scope: str | None) -> bool:
    """Delete a session, of one scope or of all; return whether there was one."""
    statement = delete(SESSIONS).where(SESSIONS.c.id == clean_key(name))
    if scope is not None:
        statement = statement.where(SESSIONS.c.scope == clean_key(scope))
    return connection.execute(statement).rowcount > 0


def delete_response(connection: Connection, name: str, scope: str) -> bool:
    """Delete a response; return whether there was a live one."""
    keys = RESPONSES.c.scope == clean_key(scope), RESPONSES.c.id == clean_key(name)
    return connection.execute(delete(RESPONSES).where(*keys, _is_live(RESPONSES))).rowcount > 0


def find_totals(connection: Connection, since: float) -> Totals:
    """Return the totals of the requests since *since*."""
    sums = [func.coalesce(func.sum(REQUESTS.c[name]), 0).label(name) for name in _SUMS]
    groups = select(REQUESTS.c.state, REQUESTS.c.model, func.count().label("number"), *sums)
    groups = groups.where(REQUESTS.c.created >= since)
    states: Counter[str] = Counter()
    models: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for row in connection.execute(groups.group_by(REQUESTS.c.state, REQUESTS.c.model)):
        states[row.state] += row.number
        models[row.model] += row.number
        whole.update({name: int(row._mapping[name]) for name in _SUMS})  # noqa: SLF001 - public
    return Totals(
        requests=states.total(),
        states=dict(states),
        models=dict(models.most_common(MAX_MODELS)),
        size=int(connection.scalar(select(func.sum(REQUESTS.c.size))) or 0),
        **{name: whole[name] for name in _SUMS},
    )


# --- parts of queries and results ---


def _request_filters(connection: Connection, query: RequestQuery) -> list[ColumnElement[bool]]:
    columns = REQUESTS.c
    given = structs.asdict(query)
    names = ("model", "upstream", "client_api", "state", "finish")
    filters = [columns[name] == clean_text(given[name]) for name in names if given[name]]
    keys = ("session", "conversation")
    filters += [columns[name] == clean_key(given[name]) for name in keys if given[name]]
    if query.scope is not None:
        filters.append(columns.scope == clean_key(query.scope))
    if query.format:
        filters.append(_is_of_format(clean_text(query.format)))
    if query.error:
        filters.append(columns.error_kind == clean_text(query.error))
    if query.search:
        filters.append(matches(connection, query.search))
    return filters + _range_filters(query)


def _range_filters(query: RequestQuery) -> list[ColumnElement[bool]]:
    columns = REQUESTS.c
    filters: list[ColumnElement[bool]] = []
    if query.repairs is not None:
        filters.append((columns.repairs != _NO_REPAIRS) == query.repairs)
    if query.unread is not None:
        filters.append((columns.unread > 0) == query.unread)
    if query.after:
        filters.append(columns.id > clean_key(query.after))
    if query.since is not None:
        filters.append(columns.created >= query.since)
    if query.until is not None:
        filters.append(columns.created < query.until)
    return filters


def _is_of_format(name: str) -> ColumnElement[bool]:
    """Return the condition that a response was parsed as, or has calls in, the format *name*."""
    columns = REQUESTS.c
    # `notes` is JSON as text: SQLite's and PostgreSQL's functions for JSON differ, and a substring
    # is enough to find a name in quotes.
    noted = columns.notes.contains(f'"{name}"', autoescape=True)
    named = columns.notes.contains('"formats":[', autoescape=True)
    return or_(columns.format == name, and_(columns.calls > 0, named, noted))


def _session_filters(query: SessionQuery) -> list[ColumnElement[bool]]:
    columns = SESSIONS.c
    filters = []
    if query.upstream:
        filters.append(columns.upstream == clean_text(query.upstream))
    if query.model:
        filters.append(columns.model == clean_text(query.model))
    if query.scope is not None:
        filters.append(columns.scope == clean_key(query.scope))
    return [*filters, _is_live(SESSIONS)] if query.live else filters


def _is_live(table: Any) -> ColumnElement[bool]:
    # Maintenance deletes expired rows later, in batches, so every query ignores them.
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
        raise UsageError("`before` must be the `next` of a page of sessions") from None
    return created, clean_key(id_), clean_key(scope)


# --- requests over time ---

# The database aggregates; only the results are read. Percentiles are rows at a rank, so the
# database returns two rows per bucket, however many requests there are. The formats of calls are in
# JSON notes, which are not aggregated in SQL: those of the newest requests are read.


MAX_BUCKETS: Final = 200
"""The most buckets: a plot cannot show more columns."""

MAX_NOTED: Final = 2_000
"""Of how many requests with calls the formats are counted."""

_FAILED: Final = ("failed", "interrupted")
_C: Final = REQUESTS.c


def overview(connection: Connection, query: OverviewQuery) -> Overview:
    """Return the statistics of the requests that match *query*."""
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
        failures=_counts(connection, _C.model, [*filters, _C.state.in_(_FAILED)]),
        states=_counts(connection, _C.state, filters),
    )


def _place(connection: Connection, since: float, width: float) -> ColumnElement[Any]:
    """Return the number of a row's bucket: SQLite's cast truncates, PostgreSQL's rounds."""
    number = (_C.created - since) / width
    if connection.dialect.name == "postgresql":
        number = func.floor(number)
    return cast(number, Integer)


def _buckets(
    connection: Connection, place: ColumnElement[Any], filters: Sequence[ColumnElement[bool]]
) -> dict[int, Bucket]:
    """Return the buckets that have requests; the caller sets their times."""
    is_counted = _C.output_tokens > 0
    generated = _C.duration - func.coalesce(_C.first_token, 0.0)
    sums = select(
        place.label("place"),
        func.count().label("streams"),
        func.count().filter(_C.state.in_(_FAILED)).label("failed"),
        func.sum(_C.calls).label("calls"),
        func.count().filter(_C.repairs != _NO_REPAIRS).label("repaired"),
        func.sum(_C.incomplete).label("incomplete"),
        func.sum(_C.unread).label("unread"),
        func.sum(_C.input_tokens).label("input_tokens"),
        func.sum(_C.output_tokens).label("output_tokens"),
        func.sum(generated).filter(is_counted).label("seconds"),
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
            incomplete=int(row.incomplete or 0),
            unread=int(row.unread or 0),
            input_tokens=int(row.input_tokens or 0),
            output_tokens=int(row.output_tokens or 0),
            seconds=float(row.seconds or 0.0),
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
    """Return the number of failures by kind, for each bucket that has any."""
    kinds = select(place.label("place"), _C.error_kind, func.count())
    kinds = kinds.where(*filters, _C.error_kind != "").group_by(place, _C.error_kind)
    found: dict[int, dict[str, int]] = {}
    for at, kind, many in connection.execute(kinds):
        found.setdefault(int(at), {})[str(kind)] = int(many)
    return found


def _formats(
    connection: Connection, place: ColumnElement[Any], filters: Sequence[ColumnElement[bool]]
) -> dict[int, Counter[str]]:
    """Return the number of calls by format; with several formats in a response, one for each."""
    newest = select(place.label("place"), _C.calls, _C.notes).where(*filters, _C.calls > 0)
    found: dict[int, Counter[str]] = {}
    for at, calls, notes in connection.execute(newest.order_by(_C.id.desc()).limit(MAX_NOTED)):
        names = _json.decode(notes).get("formats")
        names = [str(name) for name in names] if isinstance(names, list) else []
        counted = {name: int(calls) if len(names) == 1 else 1 for name in names}
        found.setdefault(int(at), Counter()).update(counted)
    return found


# --- conversations ---
#
# A list of conversations reads the newest requests only, so its cost does not grow with the log.
# The totals of a conversation are those of all its requests.

MAX_SCANNED: Final = 20_000
"""Among how many requests a page of conversations is looked for."""

MAX_LISTED: Final = 200
"""How many conversations a page may have."""

_TIMES: Final = ("created", "updated", "duration")


def list_conversations(
    connection: Connection, scope: str | None, before: str, limit: int
) -> Page[ConversationRow]:
    """Return conversations of several requests, the one with the newest request first.

    *before* is the `next` of the previous page.
    """
    limit = max(1, min(MAX_LISTED, limit))
    newest = select(_C.id, _C.conversation).where(_C.conversation != "")
    if scope is not None:
        newest = newest.where(_C.scope == clean_key(scope))
    scanned = newest.order_by(_C.id.desc()).limit(MAX_SCANNED).subquery()
    last = func.max(scanned.c.id)
    groups = (
        select(scanned.c.conversation, last.label("last"), func.min(scanned.c.id).label("first"))
        .group_by(scanned.c.conversation)
        .having(func.count() > 1)
        .order_by(last.desc())
        .limit(limit + 1)
    )
    if before:
        groups = groups.having(last < clean_key(before))
    found = connection.execute(groups).all()
    items = [
        _read_conversation(connection, row.conversation, row.last, scope) for row in found[:limit]
    ]
    return Page(items=items, next=found[limit - 1].last if len(found) > limit else "")


def _read_conversation(
    connection: Connection, id_: str, last: str, scope: str | None
) -> ConversationRow:
    """Return the totals of a conversation, whose newest request is *last*."""
    mine = [_C.conversation == id_]
    if scope is not None:
        mine.append(_C.scope == clean_key(scope))
    sums = connection.execute(
        select(
            func.count().label("requests"),
            func.min(_C.created).label("created"),
            func.max(_C.created).label("updated"),
            func.min(_C.id).label("first"),
            func.sum(_C.calls).label("calls"),
            func.sum(_C.incomplete).label("incomplete"),
            func.sum(_C.unread).label("unread"),
            func.count().filter(_C.repairs != "[]").label("repaired"),
            func.count().filter(_C.state.in_(_FAILED)).label("failed"),
            func.count().filter(_C.state == "started").label("running"),
            func.coalesce(func.sum(_C.input_tokens), 0).label("input_tokens"),
            func.coalesce(func.sum(_C.output_tokens), 0).label("output_tokens"),
            func.sum(_C.duration).label("duration"),
        ).where(*mine)
    ).one()
    names = (_C.id, _C.model, _C.client_api, _C.prompt, _C.summary)
    ends = {
        row.id: row
        for row in connection.execute(select(*names).where(_C.id.in_([sums.first, last])))
    }
    first, newest = ends[sums.first], ends[last]
    totals: dict[str, Any] = {**sums._mapping}  # noqa: SLF001 - public
    del totals["first"]
    sizes: dict[str, Any] = {
        name: float(value) if name in _TIMES else int(value) for name, value in totals.items()
    }
    return ConversationRow(
        id=id_,
        model=newest.model,
        client_api=newest.client_api,
        prompt=first.prompt,
        summary=newest.summary,
        **sizes,
    )


def find_first_time(connection: Connection, scope: str | None, since: float) -> float | None:
    """Return when the first request after *since* arrived; None if there is none."""
    first = select(func.min(_C.created)).where(_C.created >= since)
    if scope is not None:
        first = first.where(_C.scope == clean_key(scope))
    found: float | None = connection.scalar(first)
    return found
