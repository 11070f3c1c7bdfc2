"""Requests over time: the database sums them up, and only the sums are read.

Percentiles are rows at a place in an order, so the database gives two rows a bucket, however many
requests there were. Only the formats of calls stand in notes, which no database here can sum up:
those of the newest requests are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from msgspec import structs
from sqlalchemy import Connection, Integer, cast, func, or_, select
from sqlalchemy.sql.elements import ColumnElement

from penstock import _json
from penstock.store.cleaning import clean_key
from penstock.store.queries import MAX_MODELS
from penstock.store.records import Bucket, Overview, OverviewQuery, Percentiles
from penstock.store.tables import REQUESTS

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
    """Give the number of a row's bucket: SQLite cuts a number to be whole, PostgreSQL rounds it."""
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
    """Give the percentiles of *column* for each bucket that has any."""
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
