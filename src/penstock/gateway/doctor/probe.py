"""One question to a server and what comes back, as it comes, for who finds out what it does."""

from __future__ import annotations

import time
from typing import Any, Final

from penstock import apis
from penstock.events import Done, Event, Failed, TextDelta, ThinkingDelta, ToolCallDelta
from penstock.messages import AssistantMessage, ErrorInfo, Text
from penstock.models import ToolMiddleware
from penstock.models.base import Model, Tap, iter_events
from penstock.request import Request, UserMessage

MAX_TOKENS: Final = 512
"""How long an answer may be: a model that thinks needs some before it says anything."""

MAX_HEARD: Final = 4 * 1024 * 1024
"""How many bytes of an answer are looked at: some servers stop at nothing."""

_DELTAS: Final = TextDelta | ThinkingDelta | ToolCallDelta


class ProbeResult(Tap):
    """One answer as it came: its message before any text in it was read, and when its parts came.

    *arrivals* counts the reads that brought a part of the answer, *deltas* the parts.
    """

    def __init__(self, api: str) -> None:
        self.message = AssistantMessage()
        self.error: ErrorInfo | None = None
        self.status: int | None = None
        self.took = 0.0
        self._api = apis.get(api)
        self._report: Any = None
        self._begin()

    def _begin(self) -> None:
        self.raw = bytearray()
        self.deltas = 0
        self.arrivals = 0
        self.first: float | None = None
        self._decoder = self._api.decoder()
        self._began = time.monotonic()

    def sent(self, body: bytes) -> None:
        """Begin again with each call: some servers are asked for a chat before they are asked."""
        del body
        self._begin()

    def received(self, data: bytes) -> None:
        """Note when a part came, and keep it."""
        self.raw += data[: MAX_HEARD - len(self.raw)]
        self.arrivals += self._count(self._decoder.feed(data)) > 0

    def _count(self, events: list[Event]) -> int:
        deltas = sum(isinstance(event, _DELTAS) for event in events)
        self.deltas += deltas
        if deltas and self.first is None:
            self.first = time.monotonic() - self._began
        return deltas

    def reported(self, report: Any) -> None:
        """Keep the report, which fills as the answer comes."""
        self._report = report

    def end(self, message: AssistantMessage, error: ErrorInfo | None) -> None:
        """Take note of the end."""
        self.message, self.error = message, error
        self.took = time.monotonic() - self._began
        self._count(self._decoder.finish())  # A whole answer is read when all of it is there.
        self.status = getattr(self._report, "status", None)

    @property
    def why(self) -> str:
        """What went wrong, in one line."""
        if self.error is None:
            return ""
        status = f"{self.status}: " if self.status not in (None, 200) else ""
        return f"{status}{self.error.message}"


class ProbeClient:
    """Asks one *model*, called *name* after *api*."""

    def __init__(self, model: Model, api: str, name: str) -> None:
        self._model = model
        self.api = api
        self.name = name

    async def ask(self, question: str, *, in_words: bool = False, **fields: Any) -> ProbeResult:
        """Ask *question*; *fields* are those of `Request`; *in_words*, tools are told in words."""
        request = Request(
            model=self.name,
            messages=[UserMessage([Text(question)])],
            max_tokens=MAX_TOKENS,
            source=self.api,
            **fields,
        )
        heard = ProbeResult(self.api)
        model = ToolMiddleware(self._model, retries=0) if in_words else self._model
        error: ErrorInfo | None = None
        async for event in iter_events(model.batches(request, heard)):
            if isinstance(event, Failed):
                error = event.error
        heard.end(_natively(self.api, bytes(heard.raw)), error)
        return heard


def _natively(api: str, raw: bytes) -> AssistantMessage:
    """Read an answer as its API tells it, with nothing read out of text."""
    decoder = apis.get(api).decoder()
    events = [*decoder.feed(raw), *decoder.finish()]
    ends = [event.message for event in events if isinstance(event, Done | Failed)]
    return ends[-1] if ends else AssistantMessage()
