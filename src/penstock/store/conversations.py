"""Conversations: the requests of one agent run, as the writer has grouped them.

A list of conversations reads the newest requests only, so its cost does not grow with the log. The
totals of a conversation are those of all its requests.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, func, select

from penstock.store.columns import clean_key
from penstock.store.records import ConversationRow, Page
from penstock.store.tables import REQUESTS

MAX_SCANNED: Final = 20_000
"""Among how many requests a page of conversations is looked for."""

MAX_LISTED: Final = 200
"""How many conversations a page may have."""

_C: Final = REQUESTS.c
_TIMES: Final = ("created", "updated", "duration")
_FAILED: Final = ("failed", "interrupted")


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
