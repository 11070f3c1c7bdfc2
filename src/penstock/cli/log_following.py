"""What is new in the log: requests that came, and requests that ended since."""

from __future__ import annotations

import time
from typing import Final

from msgspec.structs import replace
from rich.console import Console

from penstock.cli.screen import say
from penstock.store import RequestQuery, RequestRow, Store, StoreError

OVERLAP: Final = 15.0
"""How many seconds back `follow` looks: processes write what they log a moment later, each for
itself, so that an older request may turn up behind a newer one."""


class Following:
    """Notices requests that are new, or that have ended since; *query* says which."""

    def __init__(self, store: Store, query: RequestQuery) -> None:
        self._store = store
        self._query = query
        self._known: dict[str, RequestRow] = {}
        self._is_lost = False

    async def begin(self) -> list[RequestRow]:
        """Take note of what is there; give the newest, the oldest of them first."""
        page = await self._store.requests(self._query)
        self._known = {row.id: row for row in page.items}
        return page.items[::-1]

    async def news(self) -> list[RequestRow]:
        """Give the rows that came or changed since the last look, the oldest first.

        A database that cannot be read for a while is said once, and asked again.
        """
        try:
            rows = await self._rows(self._horizon())
        except StoreError as exc:
            if not self._is_lost:
                say(Console(stderr=True), f"penstock: {exc}; trying again", "yellow")
            self._is_lost = True
            return []
        self._is_lost = False
        fresh = [row for row in rows if self._is_news(row)]
        self._known |= {row.id: row for row in fresh}
        self._forget(self._horizon())
        return sorted(fresh, key=lambda row: row.id)

    async def _rows(self, since: float) -> list[RequestRow]:
        query, rows = replace(self._query, since=since), []
        while True:
            page = await self._store.requests(query)
            rows += page.items
            if not page.next:
                return rows
            query = replace(query, before=page.next)

    def _is_news(self, row: RequestRow) -> bool:
        known = self._known.get(row.id)
        return known is None or known.state != row.state

    def _horizon(self) -> float:
        """Give the time before which nothing is news: all older requests have ended."""
        begun = [row.created for row in self._known.values() if row.state == "started"]
        return min([time.time() - OVERLAP, *begun])

    def _forget(self, horizon: float) -> None:
        self._known = {id_: row for id_, row in self._known.items() if row.created >= horizon}
