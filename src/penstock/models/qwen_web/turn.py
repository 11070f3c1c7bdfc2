"""One answer of a chat: asked behind the answer before it, or in a new chat with all that was said.

A `Turn` is the model that the tool middleware asks, for one request: what reaches it has tools and
calls as words. It knows its place in a chat and moves it with each complete answer, so a middleware
that asks again goes on where it was. A server that has lost the chat, or is busy in it, is asked in
a new one.
"""

from __future__ import annotations

import re
from contextlib import aclosing
from typing import Final, Literal

from msgspec import Struct, structs

from penstock import _json
from penstock.apis import Api
from penstock.errors import JSONParseError
from penstock.events import Done, Event, Failed, MessageStart
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.models.base import Batches, Tap, one_by_one
from penstock.models.http import HTTPModel, HTTPStream, Report
from penstock.models.qwen_web.credentials import HEADERS
from penstock.request import Message, Request, SystemMessage

Parent = Literal["response_id", "parent_id"]
"""Which id of an answer the next message names: public clients disagree."""

MAX_ID: Final = 128
"""How many characters an id has that is kept: a server's have 36, and sessions are many.

No more than a store has for a key, which gives longer ones back as something else.
"""

MAX_REASON: Final = 500
"""How many characters of a refusal are looked at: reasons are short, and hostile ones are not."""

_EDGES: Final = (MessageStart, Done, Failed)
_GONE: Final = frozenset({404, 410})
_LOST: Final = re.compile(
    r"\b(?:chat|parent|conversation)\w*\b.*"
    r"\b(?:not exist|not found|no longer|deleted|expired|in progress)\b",
    re.IGNORECASE | re.DOTALL,
)
"""What a server says that has no such chat, no such answer in it, or is not done with it."""


class Place(Struct, frozen=True):
    """Where in which chat: the ids that the server named when it began the last answer."""

    chat_id: str = ""
    parent_id: str = ""
    response_id: str = ""

    def next_parent(self, parent: Parent) -> str:
        """Give the id that the next message names; empty where it is unknown."""
        known = self.response_id if parent == "response_id" else self.parent_id
        return known if self.chat_id else ""


class Turn:
    """Asks *http* for one answer, at *place*; *report* becomes the account of all that it took.

    *news* and *rule* are what the chat was not told yet, for before and behind the message.
    """

    def __init__(
        self,
        http: HTTPModel,
        place: Place,
        parent: Parent,
        report: Report,
        *,
        chat_mode: str = "guest",
        news: str = "",
        rule: str = "",
    ) -> None:
        self.place = place
        self._model = report.model
        self.is_new = False
        """Whether a chat was begun."""
        self._http = http
        self._parent: Parent = parent
        self._report = report
        self._chat_mode = chat_mode
        self._news = news
        self._rule = rule

    @property
    def name(self) -> str:
        """The name of the model, as its server knows it."""
        return self._http.name

    @property
    def api(self) -> Api:
        """The API that the server speaks."""
        return self._http.api

    def stream(self, request: Request) -> HTTPStream:
        """Begin to answer *request*; never raises, every failure is in the stream."""
        return HTTPStream(one_by_one(self.batches(request)), self._report, interval=0)

    async def complete(self, request: Request) -> AssistantMessage:
        """Give the whole answer; one that failed has `error` set."""
        return await self.stream(request).result()

    async def close(self) -> None:
        """Leave the connections alone: they are everybody's."""

    async def batches(self, request: Request, tap: Tap | None = None) -> Batches:
        """Give the events of the answer as they arrive, from this chat or from a new one."""
        if self.place.next_parent(self._parent):
            lost = False
            async with aclosing(self._ask(self._rest_of(request), tap)) as batches:
                async for batch in batches:
                    lost = is_lost(batch)
                    if not lost:
                        yield batch
            if not lost:
                return
        self.place, self.is_new = Place(), True
        async with aclosing(self._ask(self._whole_of(request), tap)) as batches:
            async for batch in batches:
                yield batch

    async def _ask(self, request: Request, tap: Tap | None) -> Batches:
        """Ask once; the beginning waits for what it begins, the end until the place is known.

        So a server that begins an answer only to refuse it has refused before the first event.
        """
        noting = _Noting(tap)
        held: list[Event] = []
        async with aclosing(self._http.batches(request, noting)) as batches:
            async for batch in batches:
                held += batch
                if held and not isinstance(held[-1], _EDGES):
                    yield self._named(held)
                    held = []
        self._note(noting, held)
        if held:
            yield self._named(held)

    def _note(self, noting: _Noting, ended: list[Event]) -> None:
        """Move on, if the answer is complete; add what it took to the account."""
        add_report(self._report, noting.report)
        if not ended or not isinstance(ended[-1], Done):
            return
        named = {k: v for k, v in noting.report.session.items() if len(v) <= MAX_ID}
        self.place = Place(
            named.get("chat_id") or noting.chat_id,
            named.get("parent_id", ""),
            named.get("response_id", ""),
        )
        self._news = self._rule = ""

    def _named(self, batch: list[Event]) -> list[Event]:
        """Name the model that answers, which this API never does."""
        first, last = batch[0], batch[-1]
        if isinstance(first, MessageStart) and not first.model:
            batch[0] = structs.replace(first, model=self._model)
        if isinstance(last, Done | Failed):
            last.message.model = last.message.model or self._model
        return batch

    # --- what is asked ---

    def _whole_of(self, request: Request) -> Request:
        """Ask with everything that was said, in a chat that is begun for it."""
        return self._asked(request, request.messages, {})

    def _rest_of(self, request: Request) -> Request:
        """Ask with what follows the last answer, and what the chat was not told before."""
        before = [SystemMessage(self._news)] if self._news else []
        behind = [SystemMessage(self._rule)] if self._rule else []
        parent = self.place.next_parent(self._parent)
        place = {"chat_id": self.place.chat_id, "parent_id": parent}
        return self._asked(request, [*before, *since_answer(request.messages), *behind], place)

    def _asked(self, request: Request, messages: list[Message], place: dict[str, str]) -> Request:
        """Give the request that goes out: nothing in it is the client's but words and options."""
        headers = {k: v for k, v in request.headers.items() if k.lower() not in HEADERS}
        return structs.replace(
            request,
            messages=messages,
            session="",
            headers=headers,
            extra={**place, "chat_mode": self._chat_mode},
        )


class _Noting(Tap):
    """Notes in which chat was asked; the rest is for *tap*."""

    def __init__(self, tap: Tap | None) -> None:
        self.report = Report()
        self.chat_id = ""
        self._tap = tap or Tap()

    def sent(self, body: bytes) -> None:
        try:
            asked = _json.decode(body)
        except JSONParseError:
            asked = None
        chat = asked.get("chat_id") if isinstance(asked, dict) else None
        self.chat_id = chat if isinstance(chat, str) else ""
        self._tap.sent(body)

    def received(self, data: bytes) -> None:
        self._tap.received(data)

    def reported(self, report: Report) -> None:
        self.report = report


def since_answer(messages: list[Message]) -> list[Message]:
    """Give the messages behind the last answer: a question, or the results of all its calls."""
    answers = [at for at, each in enumerate(messages) if isinstance(each, AssistantMessage)]
    return messages[answers[-1] + 1 :] if answers else list(messages)


def is_lost(batch: list[Event]) -> bool:
    """Tell an answer that is nothing but the news that its chat cannot be used."""
    end = batch[-1] if batch else None
    if not isinstance(end, Failed) or any(not isinstance(e, MessageStart) for e in batch[:-1]):
        return False
    return end.error.status in _GONE or _says_lost(end.error)


def _says_lost(error: ErrorInfo) -> bool:
    return error.kind == "provider" and bool(_LOST.search(error.message[:MAX_REASON]))


def add_report(total: Report, report: Report) -> None:
    """Add what one question took to what the whole answer did."""
    total.attempts += report.attempts
    total.failures += report.failures
    total.skipped += report.skipped
    total.duration = (total.duration or 0.0) + (report.duration or 0.0)
    for name in ("model", "status", "request_id", "usage", "session"):
        setattr(total, name, getattr(report, name))
    for name in ("first_byte", "first_token"):
        if getattr(total, name) is None:
            setattr(total, name, getattr(report, name))
    total.left_out = list(dict.fromkeys([*total.left_out, *report.left_out]))
