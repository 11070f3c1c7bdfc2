"""Sessions of upstreams that keep the conversations themselves, in the store.

The store has the last word: another gateway may have gone on with a conversation, and somebody may
have deleted one. What this process wrote is in for a store that cannot be read, and what the
store had no time to take counts beside what it holds.

Whoever asks waits for the store, but not for long, and not again and again: one that was too slow
once gets only a moment until it has answered in time. Without a session the conversation is told
whole, which costs time and no answer.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final
from weakref import WeakSet

from msgspec import ValidationError, convert, to_builtins

from penstock.models.qwen_web import MemorySessions, QwenSession
from penstock.store import SessionRow, Store, StoreError

PATIENCE: Final = 1.0
"""How many seconds a request waits for its session: less than to tell a conversation again."""

IMPATIENCE: Final = 0.05
"""How many seconds it waits where the last one waited in vain."""

COMMIT_SECONDS: Final = 0.05
"""How many seconds the end of an answer waits until the place after it is written."""

_COLUMNS: Final = frozenset(
    {"id", "scope", "model", "chat_id", "parent_id", "created", "used", "expires", "turns"}
)
"""The fields of a session that have a column of their own."""


async def forget_session(store: Store, scope: str | None, id_: str) -> bool:
    """Drop a session from *store* and from this process; return whether there was one.

    It is of any scope if *scope* is None. Raises `StoreError` where the store still holds it.
    """
    here = [sessions for sessions in _HERE if sessions.store is store]
    was_held = [await sessions.let_go(scope, id_) for sessions in here]
    return await store.delete_session(id_, scope=scope) or any(was_held)


class StoredSessions:
    """The sessions of one *upstream*."""

    def __init__(self, store: Store, upstream: str) -> None:
        self.store = store
        self._upstream = upstream
        self._newest = MemorySessions()
        self._unsaved = MemorySessions()  # those of them that the store did not take in time
        self._patience = PATIENCE
        _HERE.add(self)

    async def find(self, scope: str, id: str, hash: str) -> QwenSession | None:  # noqa: A002
        """Find the session of that *id*, else the newest of that *hash*."""
        try:
            stored = await self._look_up(scope, id, hash)
        except (StoreError, TimeoutError):
            return await self._newest.find(scope, id, hash)
        unsaved = await self._unsaved.find(scope, id, hash)
        if stored is None or unsaved is None:
            return stored or unsaved
        return max(stored, unsaved, key=lambda session: session.used)

    async def commit(self, session: QwenSession) -> None:
        """Keep *session* in place of the one of its scope and id."""
        await self._newest.commit(session)
        if await self.store.save(self._row(session), within=COMMIT_SECONDS):
            await self._unsaved.forget(session.scope, session.id)
        else:
            await self._unsaved.commit(session)

    async def forget(self, scope: str, id: str) -> None:  # noqa: A002
        """Drop a session, if there is one.

        Raises `StoreError` or `TimeoutError` where the store still holds it, as far as is known.
        """
        await self._newest.forget(scope, id)
        await self._unsaved.forget(scope, id)
        async with asyncio.timeout(COMMIT_SECONDS):
            await self.store.delete_session(id, scope=scope)

    async def let_go(self, scope: str | None, id_: str) -> bool:
        """Drop what this process holds of a session; return whether the store may lack it."""
        was_unsaved = False
        for held in (self._newest, self._unsaved):
            for owner in held.scopes(id_) if scope is None else [scope]:
                was_unsaved |= held is self._unsaved and bool(await held.find(owner, id_, ""))
                await held.forget(owner, id_)
        return was_unsaved

    async def _look_up(self, scope: str, id_: str, hash_: str) -> QwenSession | None:
        try:
            async with asyncio.timeout(self._patience):
                row = await self.store.session(scope=scope, id=id_, hash=self._own(hash_))
        except TimeoutError:
            self._patience = IMPATIENCE
            raise
        self._patience = PATIENCE
        return self._read(row)

    # --- rows ---

    def _own(self, hash_: str) -> str:
        """Return a hash that no other upstream has."""
        return f"{self._upstream}:{hash_}" if hash_ else ""

    def _row(self, session: QwenSession) -> SessionRow:
        fields: dict[str, Any] = to_builtins(session)
        own = {name: value for name, value in fields.items() if name in _COLUMNS}
        rest = {name: value for name, value in fields.items() if name not in _COLUMNS}
        return SessionRow(**own, upstream=self._upstream, hash=self._own(session.hash), data=rest)

    def _read(self, row: SessionRow | None) -> QwenSession | None:
        if row is None or row.upstream != self._upstream:
            return None
        fields = {name: getattr(row, name) for name in _COLUMNS}
        try:
            return convert({**row.data, **fields}, QwenSession)
        except ValidationError:  # written by another version
            return None


_HERE: Final[WeakSet[StoredSessions]] = WeakSet()
"""All of this process: settings that are read again make new ones, and the old are still asked."""
