"""Finding the place of a conversation, claiming it for one request, and writing down the next."""

from __future__ import annotations

from collections.abc import Callable
from logging import getLogger
from typing import Final
from uuid import uuid4

from penstock.messages import AssistantMessage
from penstock.models.qwen_web.briefing import Briefing
from penstock.models.qwen_web.conversation import Conversation, digest_of, digest_of_text
from penstock.models.qwen_web.sessions import QwenSession, Sessions
from penstock.models.qwen_web.turn import MAX_ID, Parent, Place, Turn

_LOG: Final = getLogger("penstock.models")


class Claim:
    """What one request has: the *session* that it goes on with, if any, and its name for it."""

    def __init__(self, busy: set[tuple[str, str]], session: QwenSession | None, name: str) -> None:
        self.session = session
        self.name = name
        self.told: dict[str, str] = {}
        """The ids of the place behind the answer, once it is written down."""
        self._busy = busy
        self._key = (session.scope, session.id) if session is not None else None
        if self._key is not None:
            busy.add(self._key)

    @property
    def place(self) -> Place:
        """Where the request belongs."""
        if self.session is None:
            return Place()
        return Place(self.session.chat_id, self.session.parent_id, self.session.response_id)

    def release(self) -> None:
        """Let others have the session; a second time means nothing."""
        if self._key is not None:
            self._busy.discard(self._key)
            self._key = None


class Keeping:
    """Keeps the places of conversations in *sessions*, for *lifetime* seconds each.

    What fails there is logged and costs a replay, never an answer.
    """

    def __init__(
        self, sessions: Sessions, lifetime: float, parent: Parent, clock: Callable[[], float]
    ) -> None:
        self._sessions = sessions
        self._lifetime = lifetime
        self._parent: Parent = parent
        self._clock = clock
        self._busy: set[tuple[str, str]] = set()

    async def claim(self, talk: Conversation, name: str) -> Claim:
        """Find where *talk* goes on, by its *name* or by its hash, and keep others from there."""
        if len(name) > MAX_ID:
            name = digest_of_text(name)
        found = await self._find(talk, name)
        if found is not None and (found.scope, found.id) in self._busy:
            return Claim(self._busy, None, name or _new_id())
        return Claim(self._busy, found, name or (found.id if found is not None else _new_id()))

    async def _find(self, talk: Conversation, name: str) -> QwenSession | None:
        if not talk.answers:
            return None
        for each in dict.fromkeys((name, "")):
            try:
                found = await self._sessions.find(talk.scope, each, talk.hash)
            except Exception as exc:  # noqa: BLE001 - whatever it is, a replay does without
                _say(exc)
                return None
            if found is not None and self._holds(found, talk, name):
                return found
        return None

    def _holds(self, session: QwenSession, talk: Conversation, name: str) -> bool:
        is_live = session.expires > self._clock()
        return is_live and talk.continues(session, by_id=bool(name) and session.id == name)

    async def commit(
        self,
        claim: Claim,
        talk: Conversation,
        turn: Turn,
        briefing: Briefing,
        answer: AssistantMessage,
    ) -> None:
        """Write down the place behind *answer*, which is complete; then the session is free.

        Where the server did not say which answer it was, nobody can go on from it.
        """
        try:
            if turn.place.next_parent(self._parent):
                session = self._next(claim, talk, turn, briefing, answer)
                await self._sessions.commit(session)
                claim.told = _told(session)
            elif claim.session is not None:
                await self._sessions.forget(claim.session.scope, claim.session.id)
        except Exception as exc:  # noqa: BLE001 - the answer is there all the same
            _say(exc)
        finally:
            claim.release()

    def _next(
        self,
        claim: Claim,
        talk: Conversation,
        turn: Turn,
        briefing: Briefing,
        answer: AssistantMessage,
    ) -> QwenSession:
        now, before = self._clock(), None if turn.is_new else claim.session
        return QwenSession(
            id=claim.name,
            scope=talk.scope,
            model=talk.model,
            chat_id=turn.place.chat_id,
            parent_id=turn.place.parent_id,
            response_id=turn.place.response_id,
            hash=talk.hash_after(answer),
            answer=digest_of(answer),
            answers=talk.answers + 1,
            instructions=briefing.instructions,
            tools=briefing.tools if before is None else briefing.known_tools,
            created=now if before is None else before.created,
            used=now,
            expires=now + self._lifetime,
            turns=1 if before is None else before.turns + 1,
        )


def _say(exc: Exception) -> None:
    """Log what failed by its name alone: its words may hold the address of a database."""
    _LOG.warning("the sessions failed: %s; conversations are told whole", type(exc).__name__)


def _new_id() -> str:
    return f"qs_{uuid4().hex}"


def _told(session: QwenSession) -> dict[str, str]:
    names = ("id", "chat_id", "parent_id", "response_id")
    return {name: getattr(session, name) for name in names}
