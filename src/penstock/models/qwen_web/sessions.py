"""Places in conversations: in which chat, behind which answer, the next message belongs.

A session is written as one value, after a complete answer: its chat, the ids of that answer and the
hash of all that was said up to it. So whoever reads one gets a place that fits its hash, however
many write at the same moment; the last to write is found by the session's id.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

MAX_SESSIONS: Final = 10_000
"""How many sessions memory holds at most: some 10 MB; the one unused for longest goes first."""

LIFETIME: Final = 30 * 60.0
"""How many seconds after its last complete answer a session ends."""


class QwenSession(Struct, frozen=True):
    """The place behind an answer.

    *parent_id* and *response_id* are both ids that the server named when it began the answer.
    *hash* is that of the conversation up to the answer, *answer* that of the answer alone, and
    *answers* counts those of the conversation. *instructions* and *tools* are digests of what the
    chat was told. Times are seconds since 1970.
    """

    id: str
    scope: str = ""
    model: str = ""
    chat_id: str = ""
    parent_id: str = ""
    response_id: str = ""
    hash: str = ""
    answer: str = ""
    answers: int = 0
    instructions: str = ""
    tools: str = ""
    created: float = 0.0
    used: float = 0.0
    expires: float = 0.0
    turns: int = 0


class Sessions(Protocol):
    """Where sessions are kept, of one account at chat.qwen.ai.

    What fails here costs a replay of the conversation and no answer: it may raise.
    """

    async def find(self, scope: str, id: str, hash: str) -> QwenSession | None:  # noqa: A002
        """Find the session of that *id*, else the newest of that *hash*; an empty one is no name.

        Nothing of another *scope* is ever found.
        """

    async def commit(self, session: QwenSession) -> None:
        """Keep *session* in place of the one of its scope and id."""

    async def forget(self, scope: str, id: str) -> None:  # noqa: A002
        """Drop a session, if there is one."""


class MemorySessions:
    """Keeps up to *limit* sessions in this process, and none longer than it lasts."""

    def __init__(
        self, limit: int = MAX_SESSIONS, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._limit = limit
        self._clock = clock
        self._sessions: OrderedDict[tuple[str, str], QwenSession] = OrderedDict()
        self._ids: dict[tuple[str, str], str] = {}  # by scope and hash

    def __len__(self) -> int:
        return len(self._sessions)

    async def find(self, scope: str, id: str, hash: str) -> QwenSession | None:  # noqa: A002
        """Find the session of that *id*, else the newest of that *hash*."""
        found = self._live(scope, id) if id else None
        if found is None and hash:
            found = self._live(scope, self._ids.get((scope, hash), ""))
        return found

    async def commit(self, session: QwenSession) -> None:
        """Keep *session*; others make room for it."""
        self._drop(session.scope, session.id)
        self._sessions[session.scope, session.id] = session
        self._ids[session.scope, session.hash] = session.id
        while self._sessions and (len(self._sessions) > self._limit or self._has_expired()):
            self._drop(*next(iter(self._sessions)))

    async def forget(self, scope: str, id: str) -> None:  # noqa: A002
        """Drop a session, if there is one."""
        self._drop(scope, id)

    def scopes(self, id: str) -> list[str]:  # noqa: A002
        """Name everybody who has a session of that *id*."""
        return [scope for scope, each in self._sessions if each == id]

    def _live(self, scope: str, id_: str) -> QwenSession | None:
        found = self._sessions.get((scope, id_))
        return found if found is not None and found.expires > self._clock() else None

    def _has_expired(self) -> bool:
        """Tell whether the oldest is over: they stand in the order of their last use."""
        return next(iter(self._sessions.values())).expires <= self._clock()

    def _drop(self, scope: str, id_: str) -> None:
        dropped = self._sessions.pop((scope, id_), None)
        if dropped is not None and self._ids.get((scope, dropped.hash)) == id_:
            del self._ids[scope, dropped.hash]
