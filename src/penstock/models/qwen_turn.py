"""One response of a chat: requested after the previous response, or in a new chat.

A `ChatTurn` is the upstream of the tool middleware for one request: it receives tools and calls as
text. It knows its position in a chat and moves it after each complete response, so that a retry of
the middleware continues in the same chat. If the server has lost the chat, or is busy in it, the
request is sent whole to a new one.
"""

from __future__ import annotations

import re
from contextlib import aclosing
from typing import Final

from msgspec import structs

from penstock import _json
from penstock.apis import Api
from penstock.errors import JSONParseError
from penstock.events import ENDS, Done, Event, Failed, MessageStart, ToolCallDelta, ToolCallEnd
from penstock.messages import AssistantMessage
from penstock.models.base import Batches, Model, Tap, iter_events
from penstock.models.http import HTTPModel, HTTPStream, Report
from penstock.models.qwen_sessions import MAX_ID, ChatPosition, ParentField
from penstock.request import Message, Request, SystemMessage

# A client of the gateway sends headers of its own, which must not replace those of the account.
OWN_HEADERS: Final = frozenset({"authorization", "cookie", "bx-umidtoken", "user-agent"})
"""The headers of the credentials: those of a request are not sent."""

MAX_REASON: Final = 500
"""How many characters of an error message are searched: reasons are short."""

_EDGES: Final = (MessageStart, *ENDS)
_GONE: Final = frozenset({404, 410})
# Errors for a chat that does not exist, has no such response, or is still busy.
_LOST: Final = re.compile(
    r"\b(?:chat|parent|conversation)\w*\b.*"
    r"\b(?:not exist|not found|no longer|deleted|expired|in progress)\b",
    re.IGNORECASE | re.DOTALL,
)


class ChatTurn(Model):
    """Gets one response from *http*, at *position*; *report* collects the statistics.

    *news* and *rule* are what the chat does not know yet; they precede and follow the message.
    """

    def __init__(
        self,
        http: HTTPModel,
        position: ChatPosition,
        parent: ParentField,
        report: Report,
        *,
        chat_mode: str = "guest",
        news: str = "",
        rule: str = "",
    ) -> None:
        self.position = position
        self.is_new = False
        """Whether a new chat was started."""
        self._model = report.model
        self._http = http
        self._parent: ParentField = parent
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
        """The API of the server."""
        return self._http.api

    @property
    def api_name(self) -> str:
        """The name of the server's API."""
        return self._http.api_name

    def stream(self, request: Request) -> HTTPStream:
        """Start the response to *request*; every failure is reported in the stream."""
        return HTTPStream(iter_events(self.batches(request)), self._report, interval=0)

    async def batches(self, request: Request, tap: Tap | None = None) -> Batches:
        """Yield the events of the response, from this chat or from a new one."""
        if self.position.parent_for_next(self._parent):
            lost = False
            async with aclosing(self._send(self._make_next(request), tap)) as batches:
                async for batch in batches:
                    lost = is_lost(batch)
                    if not lost:
                        yield batch
            if not lost:
                return
        self.position, self.is_new = ChatPosition(), True
        whole = self._make_request(request, request.messages, {})
        async with aclosing(self._send(whole, tap)) as batches:
            async for batch in batches:
                yield batch

    async def _send(self, request: Request, tap: Tap | None) -> Batches:
        """Yield the events of one request.

        The start event is held until content follows: a server that starts a response only to
        refuse it has then refused before the first event. The terminal event is held until the
        position is known.
        """
        recorder = _RecordingTap(tap)
        held: list[Event] = []
        async with aclosing(self._http.batches(request, recorder)) as batches:
            async for batch in batches:
                held += batch
                if held and not isinstance(held[-1], _EDGES):
                    yield self._set_model(held)
                    held = []
        add_report(self._report, recorder.report)
        if held and isinstance(held[-1], Done):
            ids = {k: v for k, v in recorder.report.session.items() if len(v) <= MAX_ID}
            self.position = ChatPosition(
                ids.get("chat_id") or recorder.chat_id,
                ids.get("parent_id", ""),
                ids.get("response_id", ""),
            )
            self._news = self._rule = ""
        if held:
            yield self._set_model(held)

    def _set_model(self, batch: list[Event]) -> list[Event]:
        """Set the name of the model, which this API does not send."""
        first, last = batch[0], batch[-1]
        if isinstance(first, MessageStart) and not first.model:
            batch[0] = structs.replace(first, model=self._model)
        if isinstance(last, ENDS):
            last.message.model = last.message.model or self._model
        return batch

    def _make_next(self, request: Request) -> Request:
        """Return a request with the messages since the last response and what else is new."""
        before = [SystemMessage(self._news)] if self._news else []
        after = [SystemMessage(self._rule)] if self._rule else []
        parent = self.position.parent_for_next(self._parent)
        ids = {"chat_id": self.position.chat_id, "parent_id": parent}
        messages = [*before, *since_response(request.messages), *after]
        return self._make_request(request, messages, ids)

    def _make_request(
        self, request: Request, messages: list[Message], ids: dict[str, str]
    ) -> Request:
        """Return the upstream request; the client sets only messages and options of it."""
        headers = {k: v for k, v in request.headers.items() if k.lower() not in OWN_HEADERS}
        return structs.replace(
            request,
            messages=messages,
            session="",
            headers=headers,
            extra={**ids, "chat_mode": self._chat_mode},
        )


class _RecordingTap(Tap):
    """Records the chat id and the report of a request; passes the bytes to *tap*."""

    def __init__(self, tap: Tap | None) -> None:
        self.report = Report()
        self.chat_id = ""
        self._tap = tap or Tap()

    def sent(self, body: bytes) -> None:
        try:
            fields = _json.decode(body)
        except JSONParseError:
            fields = None
        chat = fields.get("chat_id") if isinstance(fields, dict) else None
        self.chat_id = chat if isinstance(chat, str) else ""
        self._tap.sent(body)

    def received(self, data: bytes) -> None:
        self._tap.received(data)

    def reported(self, report: Report) -> None:
        self.report = report


def since_response(messages: list[Message]) -> list[Message]:
    """Return the messages after the last response: a question, or the results of its calls."""
    places = [at for at, each in enumerate(messages) if isinstance(each, AssistantMessage)]
    return messages[places[-1] + 1 :] if places else list(messages)


def is_lost(batch: list[Event]) -> bool:
    """Return whether *batch* is only the failure that the chat cannot be used."""
    end = batch[-1] if batch else None
    if not isinstance(end, Failed) or any(not isinstance(e, MessageStart) for e in batch[:-1]):
        return False
    error = end.error
    if error.status in _GONE:
        return True
    return error.kind == "provider" and bool(_LOST.search(error.message[:MAX_REASON]))


def add_report(total: Report, report: Report) -> None:
    """Add the statistics of one request to those of the whole response."""
    total.attempts += report.attempts
    total.failures += report.failures
    total.skipped += report.skipped
    total.duration = (total.duration or 0.0) + (report.duration or 0.0)
    total.model = report.model
    total.status = report.status
    total.request_id = report.request_id
    total.usage = report.usage
    total.session = report.session
    if total.first_byte is None:
        total.first_byte = report.first_byte
    if total.first_token is None:
        total.first_token = report.first_token
    total.omitted_fields = list(dict.fromkeys([*total.omitted_fields, *report.omitted_fields]))


def drop_deltas(batch: list[Event]) -> list[Event]:
    """Return *batch* without the deltas of calls that end in it; their `raw` moves to the end.

    An encoder holds the last brace of a delta until the end of its call, and would send two chunks
    for arguments that arrived at once. For a call without deltas it sends one.
    """
    ended = {event.index for event in batch if isinstance(event, ToolCallEnd)}
    if not ended:
        return batch
    raws: dict[int, str] = {}
    kept: list[Event] = []
    for event in batch:
        if isinstance(event, ToolCallDelta) and event.index in ended:
            raws[event.index] = raws.get(event.index, "") + event.raw
        elif isinstance(event, ToolCallEnd):
            kept.append(structs.replace(event, raw=raws.pop(event.index, "") + event.raw))
        else:
            kept.append(event)
    return kept
