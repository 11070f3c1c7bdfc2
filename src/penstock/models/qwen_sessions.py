"""Sessions at chat.qwen.ai: which chat a request continues, and after which response.

A session is written as one value after a complete response: its chat, the ids of that response and
a hash of the conversation up to it. So a reader always gets a position that matches its hash,
however many requests write at the same time; the last writer wins.

The hash covers the system prompt and the role, text and calls of every message up to the last
response, in a form that survives a round trip through a client: text without surrounding
whitespace, calls without ids, numbers by value. If a client returns a response in another form, the
hash differs and the conversation is sent whole to a new chat: that costs time and is never wrong.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from logging import getLogger
from typing import Any, Final, Literal, Protocol

from msgspec import Struct, to_builtins

from penstock import _json
from penstock.apis.history import content_text
from penstock.formats import Format, get
from penstock.messages import AssistantMessage, Text, ToolResult
from penstock.models.base import new_id
from penstock.models.middleware import qwen_prompt
from penstock.models.tool_choice import ToolDemand
from penstock.request import Message, Request, UserMessage
from penstock.tools import Tool

MAX_SESSIONS: Final = 10_000
"""How many sessions are kept in memory, about 10 MB; the least recently used is dropped first."""

LIFETIME: Final = 30 * 60.0
"""How many seconds after its last complete response a session expires."""

MAX_ID: Final = 128
"""The longest id that is kept: those of the server have 36 characters.

It is also the length of a key column in the store, which returns longer ones changed."""

ParentField = Literal["response_id", "parent_id"]
"""Which id of a response the next message refers to: public clients disagree."""

_LOG: Final = getLogger("penstock.models")


class QwenSession(Struct, frozen=True):
    """The position after a response.

    *parent_id* and *response_id* are ids that the server sent at the start of the response. *hash*
    is that of the conversation up to the response, *answer* that of the response alone, *answers*
    the number of responses in the conversation. *instructions* and *tools* are digests of what the
    chat knows. Times are seconds since 1970.
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


class QwenSessions(Protocol):
    """Stores the sessions of one account at chat.qwen.ai.

    The methods may raise: a failure costs sending the conversation again, never a response.
    """

    async def find(self, scope: str, id: str, hash: str) -> QwenSession | None:  # noqa: A002
        """Return the session with *id*, or else the newest with *hash*, or None.

        An empty *id* or *hash* matches nothing, and neither does a session of another *scope*.
        """

    async def commit(self, session: QwenSession) -> None:
        """Store *session*, replacing the one with its scope and id."""

    async def forget(self, scope: str, id: str) -> None:  # noqa: A002
        """Delete a session, if it exists."""


class MemorySessions:
    """Keeps up to *limit* unexpired sessions in memory."""

    def __init__(
        self, limit: int = MAX_SESSIONS, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._limit = limit
        self._clock = clock
        # In order of their last use, so that the first one is the first to expire.
        self._sessions: OrderedDict[tuple[str, str], QwenSession] = OrderedDict()
        self._ids: dict[tuple[str, str], str] = {}  # by scope and hash

    def __len__(self) -> int:
        return len(self._sessions)

    async def find(self, scope: str, id: str, hash: str) -> QwenSession | None:  # noqa: A002
        """Return the session with *id*, or else the newest with *hash*, or None."""
        found = self._find_live(scope, id) if id else None
        if found is None and hash:
            found = self._find_live(scope, self._ids.get((scope, hash), ""))
        return found

    async def commit(self, session: QwenSession) -> None:
        """Store *session*; drop expired sessions and the oldest above the limit."""
        self._drop(session.scope, session.id)
        self._sessions[session.scope, session.id] = session
        self._ids[session.scope, session.hash] = session.id
        while self._sessions:
            oldest = next(iter(self._sessions.values()))
            if len(self._sessions) <= self._limit and oldest.expires > self._clock():
                break
            self._drop(oldest.scope, oldest.id)

    async def forget(self, scope: str, id: str) -> None:  # noqa: A002
        """Delete a session, if it exists."""
        self._drop(scope, id)

    def scopes(self, id: str) -> list[str]:  # noqa: A002
        """Return all scopes that have a session with *id*."""
        return [scope for scope, each in self._sessions if each == id]

    def _find_live(self, scope: str, id_: str) -> QwenSession | None:
        found = self._sessions.get((scope, id_))
        return found if found is not None and found.expires > self._clock() else None

    def _drop(self, scope: str, id_: str) -> None:
        dropped = self._sessions.pop((scope, id_), None)
        if dropped is not None and self._ids.get((scope, dropped.hash)) == id_:
            del self._ids[scope, dropped.hash]


# --- digests ---


class ConversationDigest:
    """The messages of *request*, sent by *scope* to *model*, split into earlier and new ones."""

    def __init__(self, request: Request, model: str, scope: str = "") -> None:
        self.model = model
        self.scope = scope
        self._digests = [_digest(scope, request.system), *map(digest_message, request.messages)]
        places = [
            at for at, each in enumerate(request.messages) if isinstance(each, AssistantMessage)
        ]
        self.answers = len(places)
        """The number of responses."""
        self._earlier = places[-1] + 2 if places else 0  # The system prompt precedes them.
        self.has_news = self._earlier < len(self._digests)
        """Whether anything follows the last response."""

    @property
    def hash(self) -> str:
        """The hash of everything up to the last response; empty if there was none."""
        return _digest(*self._digests[: self._earlier]) if self._earlier else ""

    def hash_after(self, response: AssistantMessage) -> str:
        """Return the `hash` of a request that continues after *response*."""
        return _digest(*self._digests, digest_message(response))

    def continues(self, session: QwenSession, *, by_id: bool) -> bool:
        """Return whether the conversation continues *session*.

        If the caller named the session (*by_id*), its history may have been pruned, but its last
        response must be ours and at the same position. Other requests with the same name, such as
        one for a title, are not a part of the chat.
        """
        if session.scope != self.scope or session.model != self.model:
            return False
        if not self._earlier or not self.has_news:
            return False
        if session.hash == self.hash:
            return True
        last = self._digests[self._earlier - 1]
        return by_id and (session.answers, session.answer) == (self.answers, last)


def digest_message(message: Message) -> str:
    """Return the digest of the role, text, calls and images of *message*."""
    if isinstance(message, AssistantMessage):
        # Without their ids, which clients change; and text without its margins, which they trim.
        calls = [[call.name, _normalize(call.arguments)] for call in message.tool_calls]
        return _digest("assistant", message.text.strip(), calls)
    if isinstance(message, ToolResult):
        return _digest("tool", content_text(message.content).strip())
    if isinstance(message, UserMessage):
        other = [block for block in message.content if not isinstance(block, Text)]
        return _digest("user", message.text.strip(), _normalize(to_builtins(other)))
    return _digest("system", message.text.strip())


def digest_tools(tools: Iterable[Tool]) -> str:
    """Return the digest of *tools* as they are shown to the model; empty for none."""
    shown = [[tool.name, tool.description, _normalize(tool.parameters)] for tool in tools]
    return _digest(*shown) if shown else ""


def digest_text(text: str) -> str:
    """Return the digest of *text*; empty for blank text."""
    return _digest(text.strip()) if text.strip() else ""


def _digest(*parts: object) -> str:
    return sha256(_json.encode(list(parts))).hexdigest()


def _normalize(value: Any) -> Any:
    """Return a JSON value in the form on which all clients agree: sorted keys, 2.0 as 2."""
    if isinstance(value, Mapping):
        return {str(key): _normalize(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [_normalize(item) for item in value]
    # JavaScript has one type of number, and writes 2.0 as 2.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


# --- changes to send to a chat ---

_INSTRUCTIONS: Final = "The instructions have changed. From now on they are:"
_TOOLS: Final = "The tools have changed. From now on they are these, and no others:"
_NO_TOOLS: Final = "There are no tools any more: answer in plain text."


class ChatUpdate(Struct, frozen=True):
    """The changes to send to a continued chat, and digests of what the chat knows afterwards.

    A new chat gets everything in its first message. In a continued chat, *news* precedes the
    message with changed tools and instructions, and *rule* follows it. *known_tools* are the tools
    that a continued chat knows: the earlier ones, if none may be called now.
    """

    instructions: str
    tools: str
    known_tools: str
    news: str = ""
    rule: str = ""


def make_update(request: Request, demand: ToolDemand, session: QwenSession | None) -> ChatUpdate:
    """Return the changes to send to the chat of *session* for *request*, which has *demand*."""
    instructions, tools = digest_text(request.system), digest_tools(demand.tools)
    if session is None:
        return ChatUpdate(instructions, tools, tools)
    is_paused = not tools and bool(request.tools)  # tool_choice forbids calls for now
    news: list[str] = []
    if instructions != session.instructions and request.system.strip():
        news.append(f"{_INSTRUCTIONS}\n\n{request.system.strip()}")
    if tools != session.tools and not is_paused:
        news.append(f"{_TOOLS}\n\n{_describe(demand.tools)}" if tools else _NO_TOOLS)
    known = session.tools if is_paused else tools
    return ChatUpdate(instructions, tools, known, "\n\n".join(news), demand.rule)


def _describe(tools: list[Tool]) -> str:
    format_ = get("qwen_web")
    if isinstance(format_, Format):
        return format_.render_tools(tools, template=qwen_prompt)
    return format_.render_tools(tools)


# --- finding and storing positions ---


class ChatPosition(Struct, frozen=True):
    """A position in a chat: the ids that the server sent at the start of the last response."""

    chat_id: str = ""
    parent_id: str = ""
    response_id: str = ""

    def parent_for_next(self, field: ParentField) -> str:
        """Return the id that the next message refers to; empty if unknown."""
        known = self.response_id if field == "response_id" else self.parent_id
        return known if self.chat_id else ""


class SessionClaim:
    """The *session* that one request continues, if any, and the *name* of the next one.

    While it is claimed, no other request can continue the session.
    """

    def __init__(self, busy: set[tuple[str, str]], session: QwenSession | None, name: str) -> None:
        self.session = session
        self.name = name
        self.stored: dict[str, str] = {}
        """The ids of the position after the response, once it is stored."""
        self._busy = busy
        self._key = (session.scope, session.id) if session is not None else None
        if self._key is not None:
            busy.add(self._key)

    @property
    def position(self) -> ChatPosition:
        """The position at which the request continues."""
        if self.session is None:
            return ChatPosition()
        return ChatPosition(self.session.chat_id, self.session.parent_id, self.session.response_id)

    def release(self) -> None:
        """Allow other requests to continue the session; calling it again has no effect."""
        if self._key is not None:
            self._busy.discard(self._key)
            self._key = None


class SessionTracker:
    """Finds and stores positions in *sessions*, for *lifetime* seconds each.

    A failure of *sessions* is logged, and the conversation is sent whole instead.
    """

    def __init__(
        self,
        sessions: QwenSessions,
        lifetime: float,
        parent: ParentField,
        clock: Callable[[], float],
    ) -> None:
        self._sessions = sessions
        self._lifetime = lifetime
        self._parent: ParentField = parent
        self._clock = clock
        self._busy: set[tuple[str, str]] = set()

    async def claim(self, conversation: ConversationDigest, name: str) -> SessionClaim:
        """Find the session of *conversation* by *name* or hash, and claim it.

        A session that is claimed already is not found: the second request gets a new chat. Waiting
        for the first would not help, because the chat would have moved on.
        """
        if len(name) > MAX_ID:
            name = digest_text(name)
        found = await self._find(conversation, name)
        if found is not None and (found.scope, found.id) in self._busy:
            return SessionClaim(self._busy, None, name or new_id("qs_"))
        fresh = found.id if found is not None else new_id("qs_")
        return SessionClaim(self._busy, found, name or fresh)

    async def _find(self, conversation: ConversationDigest, name: str) -> QwenSession | None:
        if not conversation.answers:
            return None
        for each in dict.fromkeys((name, "")):
            try:
                found = await self._sessions.find(conversation.scope, each, conversation.hash)
            except Exception as exc:  # noqa: BLE001 - the conversation is sent whole instead
                _log_failure(exc)
                return None
            if found is None or found.expires <= self._clock():
                continue
            if conversation.continues(found, by_id=bool(name) and found.id == name):
                return found
        return None

    async def commit(
        self,
        claim: SessionClaim,
        conversation: ConversationDigest,
        position: ChatPosition,
        update: ChatUpdate,
        response: AssistantMessage,
        *,
        is_new: bool,
    ) -> None:
        """Store the *position* after a complete *response*, and release *claim*.

        *is_new* means that a new chat was started. If the server did not send the ids of the
        response, the session is deleted, because it cannot be continued.
        """
        try:
            if position.parent_for_next(self._parent):
                now, before = self._clock(), None if is_new else claim.session
                session = QwenSession(
                    id=claim.name,
                    scope=conversation.scope,
                    model=conversation.model,
                    chat_id=position.chat_id,
                    parent_id=position.parent_id,
                    response_id=position.response_id,
                    hash=conversation.hash_after(response),
                    answer=digest_message(response),
                    answers=conversation.answers + 1,
                    instructions=update.instructions,
                    tools=update.tools if before is None else update.known_tools,
                    created=now if before is None else before.created,
                    used=now,
                    expires=now + self._lifetime,
                    turns=1 if before is None else before.turns + 1,
                )
                await self._sessions.commit(session)
                claim.stored = {
                    "id": session.id,
                    "chat_id": session.chat_id,
                    "parent_id": session.parent_id,
                    "response_id": session.response_id,
                }
            elif claim.session is not None:
                await self._sessions.forget(claim.session.scope, claim.session.id)
        except Exception as exc:  # noqa: BLE001 - the response is not affected
            _log_failure(exc)
        finally:
            claim.release()


def _log_failure(exc: Exception) -> None:
    """Log the type of *exc* only: its message may contain the address of a database."""
    _LOG.warning(
        "the session store failed (%s); the conversation is sent whole", type(exc).__name__
    )
