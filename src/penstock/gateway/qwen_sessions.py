"""Sessions of upstreams that store conversations themselves (chat.qwen.ai), kept in the store.

The store takes precedence: another gateway may have continued a conversation, and a client may have
deleted one. If the store cannot be read, the sessions that this process wrote are used; those that
the store did not accept in time are used beside the stored ones.

A request waits for the store only briefly, and after one timeout even less until the store has
responded in time. Without a session the whole conversation is sent again, which takes longer.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final
from weakref import WeakSet

from msgspec import ValidationError, convert, structs, to_builtins

from penstock.models.qwen_sessions import MemorySessions, QwenSession
from penstock.store import SessionRow, Store, StoreError

LOOKUP_SECONDS: Final = 1.0
"""How many seconds a request waits for its session: sending the conversation takes longer."""

SHORT_LOOKUP_SECONDS: Final = 0.05
"""How many seconds it waits after the last lookup failed."""

COMMIT_SECONDS: Final = 0.05
"""How many seconds the end of a response waits until its session is written."""

_COLUMNS: Final = frozenset(
    {"id", "scope", "model", "chat_id", "parent_id", "created", "used", "expires", "turns"}
)
"""The fields of a session that have their own column."""


async def forget_session(store: Store, scope: str | None, id_: str) -> bool:
    """Delete a session from *store* and from this process; return whether there was one.

    A *scope* of None is any. Raises `StoreError` if the store still has it.
    """
    here = [sessions for sessions in _INSTANCES if sessions.store is store]
    were_unsaved = [await sessions.drop(scope, id_) for sessions in here]
    return await store.delete_session(id_, scope=scope) or any(were_unsaved)


class StoredSessions:
    """The sessions of one *upstream*, in *store*."""

    def __init__(self, store: Store, upstream: str) -> None:
        self.store = store
        self._upstream = upstream
        self._newest = MemorySessions()
        self._unsaved = MemorySessions()  # those that the store did not accept in time
        self._lookup_seconds = LOOKUP_SECONDS
        _INSTANCES.add(self)

    async def find(self, scope: str, id: str, hash: str) -> QwenSession | None:  # noqa: A002
        """Return the session with this *id*, or else the newest with this *hash*."""
        try:
            stored = await self._look_up(scope, id, hash)
        except (StoreError, TimeoutError):
            return await self._newest.find(scope, id, hash)
        unsaved = await self._unsaved.find(scope, id, hash)
        if stored is None or unsaved is None:
            return stored or unsaved
        return max(stored, unsaved, key=lambda session: session.used)

    async def commit(self, session: QwenSession) -> None:
        """Store *session*, replacing the one with its scope and id."""
        await self._newest.commit(session)
        if await self.store.save(self._make_row(session), within=COMMIT_SECONDS):
            await self._unsaved.forget(session.scope, session.id)
        else:
            await self._unsaved.commit(session)

    async def forget(self, scope: str, id: str) -> None:  # noqa: A002
        """Delete a session, if there is one.

        Raises `StoreError` or `TimeoutError` if the store may still have it.
        """
        await self._newest.forget(scope, id)
        await self._unsaved.forget(scope, id)
        async with asyncio.timeout(COMMIT_SECONDS):
            await self.store.delete_session(id, scope=scope)

    async def drop(self, scope: str | None, id_: str) -> bool:
        """Remove a session from this process; return whether the store may not have it."""
        was_unsaved = False
        for held in (self._newest, self._unsaved):
            for owner in held.scopes(id_) if scope is None else [scope]:
                was_unsaved |= held is self._unsaved and bool(await held.find(owner, id_, ""))
                await held.forget(owner, id_)
        return was_unsaved

    async def _look_up(self, scope: str, id_: str, hash_: str) -> QwenSession | None:
        try:
            async with asyncio.timeout(self._lookup_seconds):
                row = await self.store.session(scope=scope, id=id_, hash=self._scope_hash(hash_))
        except (StoreError, TimeoutError):  # the database's own timeout may come first
            self._lookup_seconds = SHORT_LOOKUP_SECONDS
            raise
        self._lookup_seconds = LOOKUP_SECONDS
        return self._read(row)

    # --- rows ---

    def _scope_hash(self, hash_: str) -> str:
        """Return *hash_* with the name of the upstream: the table is shared."""
        return f"{self._upstream}:{hash_}" if hash_ else ""

    def _make_row(self, session: QwenSession) -> SessionRow:
        fields: dict[str, Any] = to_builtins(session)
        own = {name: value for name, value in fields.items() if name in _COLUMNS}
        rest = {name: value for name, value in fields.items() if name not in _COLUMNS}
        return SessionRow(
            **own, upstream=self._upstream, hash=self._scope_hash(session.hash), data=rest
        )

    def _read(self, row: SessionRow | None) -> QwenSession | None:
        if row is None or row.upstream != self._upstream:
            return None
        columns = structs.asdict(row)
        fields = {name: columns[name] for name in _COLUMNS}
        try:
            return convert({**row.data, **fields}, QwenSession)
        except ValidationError:  # It was written by another version.
            return None


_INSTANCES: Final[WeakSet[StoredSessions]] = WeakSet()
"""All instances of this process: a reload of the settings makes new ones beside those in use."""
