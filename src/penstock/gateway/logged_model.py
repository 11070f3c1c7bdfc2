"""A model out of the log: it answers with the bytes that an upstream once sent.

The bytes of a request are kept in one row, whatever they were: the answer, a refusal before it that
was tried again, a chat that was begun, a second answer that the middleware asked for. Here they are
taken apart, and each is given in the pieces in which it came.

The status of an answer is not among the bytes. A page that no decoder of the API reads is what a
server refused with, if the client was told of a status.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any, Final

from penstock import _json, apis
from penstock.apis import Api
from penstock.errors import JSONParseError
from penstock.events import Done, Failed
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.models.base import Batches, CallIds, Model, Tap, collect_message, iter_events
from penstock.request import Request
from penstock.store import RequestDetail
from penstock.streams import EventStream

ANSWERS: Final = "answers"
"""The note that says where in the raw bytes each answer of the upstream begins, if it is there."""

MAX_LEADING: Final = 16
"""How many pieces the short bodies before an answer may have: refusals, a chat that is begun."""

_LINE: Final = 8  # bytes of the timeline for one piece: when it came, and how long it was
_UNREADABLE: Final = ("truncated", "malformed")
_UNTOLD: Final = ErrorInfo("the log holds no further answer of the upstream", "truncated")


class LoggedModel(Model):
    """A model that gives the answers of *detail*, one for each time that it is asked.

    *status* is the one of the refusal that the last of them was, where it was one.
    """

    def __init__(self, detail: RequestDetail, status: int | None = None) -> None:
        self._status = status
        self._name = detail.row.upstream_model
        self.api: Api = apis.get(detail.row.upstream_api)
        self._answers = answers_of(detail, self.api)

    @property
    def name(self) -> str:
        """The name of the model, as its server knew it."""
        return self._name

    @property
    def api_name(self) -> str:
        """The name of the upstream's API."""
        return self.api.name

    def batches(self, request: Request, tap: Tap | None = None) -> Batches:
        """Give the events of the next answer, as many at a time as there were."""
        del tap
        return self._decoded(request)

    def stream(self, request: Request) -> EventStream:
        """Begin to give the next answer."""
        return EventStream(iter_events(self.batches(request)), interval=0.0)

    async def complete(self, request: Request) -> AssistantMessage:
        """Give the next answer whole."""
        return await collect_message(self.batches(request))

    async def _decoded(self, request: Request) -> Batches:
        if not self._answers:
            yield [Failed("error", _UNTOLD, AssistantMessage(error=_UNTOLD))]
            return
        answer = self._answers.pop(0)
        if (refused := self._refusal(answer)) is not None:
            yield [refused]
            return
        decoder = self.api.decoder(ids=CallIds(request))
        for piece in answer:
            events = decoder.feed(piece)
            yield events
            if events and isinstance(events[-1], Done | Failed):
                return
        yield decoder.finish()

    def _refusal(self, answer: list[bytes]) -> Failed | None:
        """Give *answer* as the refusal that it was, if it was one that the API has no words for."""
        if self._status is None or self._answers:
            return None
        failed = _failure_of(answer, self.api)
        if failed is None or failed.error.kind not in _UNREADABLE:
            return None
        error = self.api.read_error(self._status, {}, b"".join(answer))
        return Failed("error", error, AssistantMessage(error=error))


def answers_of(detail: RequestDetail, api: Api) -> list[list[bytes]]:
    """Give the answers of the upstream, each in pieces.

    A request may have had several: one that was asked for again after a failure or by the
    middleware, or the chat that was begun for it. Those that say nothing but a failure, and after
    which another came, are left out: the client never heard of them.
    """
    pieces = pieces_of(detail)
    starts = detail.notes.get(ANSWERS)
    answers = _cut_at(starts, pieces) if isinstance(starts, list) else _guessed(pieces, api)
    *earlier, last = answers or [[]]
    return [*(one for one in earlier if _failure_of(one, api) is None), last]


def pieces_of(detail: RequestDetail) -> list[bytes]:
    """Give the raw bytes in the pieces in which they came, and in one from where that is unknown.

    Of an answer in very many pieces only the first ones are known; a timeline that says more than
    there is says nothing.
    """
    raw, timeline = detail.raw, detail.timeline
    whole = len(timeline) - len(timeline) % _LINE
    sizes = memoryview(timeline[:whole]).cast("I")[1::2].tolist() if whole else []
    edges = [*accumulate(sizes, initial=0)] if sum(sizes) <= len(raw) else [0]
    return [raw[start:end] for start, end in pairwise([*edges, len(raw)]) if end > start]


def _cut_at(starts: list[Any], pieces: list[bytes]) -> list[list[bytes]]:
    """Cut *pieces* where answers begin: at the end of a piece, unless it is unknown."""
    edges = {start for start in starts if isinstance(start, int)}
    answers: list[list[bytes]] = [[]]
    at = 0
    for piece in pieces:
        cuts = sorted(edge - at for edge in edges if at <= edge < at + len(piece))
        for start, end in pairwise([0, *cuts, len(piece)]):
            answers[-1] += [piece[start:end]] if end > start else []
            answers += [[]] if end in cuts else []
        at += len(piece)
    return [answer for answer in answers if answer]


def _guessed(pieces: list[bytes], api: Api) -> list[list[bytes]]:
    """Find the short bodies before the answer: each is JSON by itself, which no stream begins with.

    Where every line of a stream is JSON, only an error is known to be a body of its own.
    """
    answers: list[list[bytes]] = []
    start = 0
    for end in range(1, min(len(pieces), MAX_LEADING)):
        if _is_body(b"".join(pieces[start:end]), api):
            answers.append(pieces[start:end])
            start = end
    return [*answers, pieces[start:]]


def _is_body(data: bytes, api: Api) -> bool:
    try:
        value = _json.decode(data)
    except JSONParseError:
        return False
    return isinstance(value, dict) and (api.name != "ollama" or "error" in value)


def _failure_of(answer: list[bytes], api: Api) -> Failed | None:
    """Give the failure that is all that *answer* says, if it is."""
    decoder = api.decoder()
    events = [*decoder.feed(b"".join(answer)), *decoder.finish()]
    last = events[-1] if events else None
    return last if isinstance(last, Failed) and not last.message.content else None
