"""A logged stream run through today's parser: what it would be read as now.

The bytes that the upstream sent are decoded again, in the pieces in which they came, and their text
is read again, with the options that held then or with others. So a user's bug is looked at as it
happened, and a new version or another format is tried on what models really wrote.

The way is that of the gateway itself (`manners.ask`); only the model at its end is one that gives
the answers of the log, one for each time that it is asked.
"""

from __future__ import annotations

from itertools import accumulate, pairwise, takewhile
from typing import Any, Final

import msgspec
from msgspec import Struct, ValidationError, field, structs

from penstock import _json, apis
from penstock.apis import Api
from penstock.errors import JSONParseError, UsageError
from penstock.events import Done, Event, Failed
from penstock.formats import get
from penstock.gateway import manners
from penstock.gateway.config.routes import Options
from penstock.gateway.config.rules import reasoning_name
from penstock.gateway.differences import Difference, differences
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.models.base import Batches, Tap, message_of, one_by_one
from penstock.models.ids import Ids
from penstock.requests import Request
from penstock.store import RequestDetail
from penstock.streams import EventStream
from penstock.streams.record import Record

ANSWERS: Final = "answers"
"""The note that says where in the raw bytes each answer of the upstream begins, if it is there."""

MAX_LEADING: Final = 16
"""How many pieces the short bodies before an answer may have: refusals, a chat that is begun."""

_LINE: Final = 8  # bytes of the timeline for one piece: when it came, and how long it was
_UNTOLD: Final = ErrorInfo("the log holds no further answer of the upstream", "truncated")


class Replayed(Struct):
    """What came of it: the *events* of today, the messages of then and *now*, what is different.

    *complaints* say which calls could not be read now.
    """

    events: list[Event]
    then: AssistantMessage
    now: AssistantMessage
    differences: list[Difference] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


async def replay(detail: RequestDetail, **changes: str | bool | None) -> Replayed:
    """Read the stream of *detail* again; *changes* are options that hold in place of the logged.

    Raises `UsageError` for a request whose stream cannot be read again, and for an option that
    cannot be.
    """
    check_replayable(detail)
    options = changed(options_of(detail), changes)
    model = LoggedModel(detail)
    complaints: list[str] = []
    asked = manners.ask(
        options, model, request_of(detail), Tap(), lambda why, _segment: complaints.append(why)
    )
    events = [event async for event in one_by_one(asked)]
    then, is_whole = logged_message(detail)
    now = folded(events)
    found = differences(then, now, is_whole=is_whole)
    return Replayed(events, then, now, found, complaints)


def check_replayable(detail: RequestDetail) -> None:
    """Raise `UsageError`, which says why, for a request whose stream cannot be read again."""
    row = detail.row
    if row.upstream_api not in apis.names():
        raise UsageError(
            f"request {row.id} was answered by {row.upstream_api or 'nobody'!r}: "
            "a model in the process sends no bytes that could be read again"
        )
    if row.state == "started":
        raise UsageError(f"request {row.id} has not ended yet")
    if row.state == "interrupted":
        raise UsageError(f"request {row.id} was interrupted: what had come of it is lost")
    if not detail.raw and not detail.request:
        raise UsageError(f"the bodies of request {row.id} were not kept (store.bodies is off)")
    if not detail.raw:
        raise UsageError(f"request {row.id} got no answer: {row.error_message or row.state}")
    if detail.notes.get("cut"):
        raise UsageError(f"the stream of request {row.id} was too long to be kept whole")


# --- how it was asked ---


def options_of(detail: RequestDetail) -> Options:
    """Give the options that a request was read with, as far as the log knows them."""
    row, known = detail.row, Options.__struct_fields__
    noted = detail.notes.get("options")
    fields = {name: value for name, value in (noted or {}).items() if name in known}
    told = {"format": row.format, "tools": row.mode}
    return changed(Options(), {**{name: one for name, one in told.items() if one}, **fields})


def changed(options: Options, changes: dict[str, Any]) -> Options:
    """Give *options* with *changes*; raise `UsageError` for one that cannot be."""
    try:
        found = msgspec.convert({**structs.asdict(options), **changes}, Options)
        if found.reasoning is not None:
            reasoning_name(found.reasoning)
    except (ValidationError, ValueError) as exc:
        raise UsageError(str(exc)) from exc
    get(found.format)
    return found


def request_of(detail: RequestDetail) -> Request:
    """Give what the client asked; what was not kept of it is left out."""
    row = detail.row
    try:
        data = _json.decode(detail.request)
        request = apis.get(row.client_api).read_request(data)
    except (JSONParseError, UsageError):  # the older endpoint has no messages, and no tools
        request = Request()
    return structs.replace(request, model=row.upstream_model, n=None, stream=row.stream)


# --- what was answered ---


class LoggedModel:
    """A model that gives the answers of *detail*, one for each time that it is asked."""

    def __init__(self, detail: RequestDetail) -> None:
        self.name = detail.row.upstream_model
        self.api: Api = apis.get(detail.row.upstream_api)
        self._answers = answers_of(detail, self.api)

    def batches(self, request: Request, tap: Tap | None = None) -> Batches:
        """Give the events of the next answer, as many at a time as there were."""
        del tap
        return self._decoded(request)

    def stream(self, request: Request) -> EventStream:
        """Begin to give the next answer."""
        return EventStream(one_by_one(self.batches(request)), interval=0.0)

    async def complete(self, request: Request) -> AssistantMessage:
        """Give the next answer whole."""
        return await message_of(self.batches(request))

    async def close(self) -> None:
        """Hold nothing."""

    async def _decoded(self, request: Request) -> Batches:
        if not self._answers:
            yield [Failed("error", _UNTOLD, AssistantMessage(error=_UNTOLD))]
            return
        decoder = self.api.decoder(ids=Ids(request))
        for piece in self._answers.pop(0):
            events = decoder.feed(piece)
            yield events
            if events and isinstance(events[-1], Done | Failed):
                return
        yield decoder.finish()


def answers_of(detail: RequestDetail, api: Api) -> list[list[bytes]]:
    """Give the answers of the upstream, each in pieces.

    A request may have had several: one that was asked for again after a failure or by the
    middleware, or the chat that was begun for it. Those that say nothing but a failure, and after
    which another came, are left out: the client never heard of them.
    """
    pieces = pieces_of(detail)
    starts = detail.notes.get(ANSWERS)
    answers = _cut_at(pieces, starts) if isinstance(starts, list) else _guessed(pieces, api)
    *earlier, last = answers or [[]]
    return [*(one for one in earlier if not _is_failure(one, api)), last]


def pieces_of(detail: RequestDetail) -> list[bytes]:
    """Give the raw bytes in the pieces in which they came; in one, where that was not kept."""
    raw, timeline = detail.raw, detail.timeline
    whole = len(timeline) - len(timeline) % _LINE
    sizes = memoryview(timeline[:whole]).cast("I")[1::2].tolist() if whole else []
    if sum(sizes) != len(raw):
        return [raw]
    edges = accumulate(sizes, initial=0)
    return [raw[start:end] for start, end in pairwise(edges)]


def _cut_at(pieces: list[bytes], starts: list[Any]) -> list[list[bytes]]:
    answers: list[list[bytes]] = []
    at = 0
    for piece in pieces:
        if not answers or at in starts:
            answers.append([])
        answers[-1].append(piece)
        at += len(piece)
    return answers


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


def _is_failure(answer: list[bytes], api: Api) -> bool:
    decoder = api.decoder()
    events = [*decoder.feed(b"".join(answer)), *decoder.finish()]
    said = [*takewhile(lambda event: not isinstance(event, Failed), events)]
    return len(said) < len(events) and not folded(said).content


# --- what the client was told ---


def logged_message(detail: RequestDetail) -> tuple[AssistantMessage, bool]:
    """Give the message that the client was told then, and whether it was told its end."""
    try:
        lines = detail.events.splitlines()
        events: list[Event] = [_json.decode_as(line, Event) for line in lines if line]
        record = _recorded(events)
    except (JSONParseError, ValidationError, UsageError):
        return AssistantMessage(), False
    return record.message, record.ended


def folded(events: list[Event]) -> AssistantMessage:
    """Give the message that *events* make."""
    return _recorded(events).message


def _recorded(events: list[Event]) -> Record:
    record = Record()
    for event in events:
        record.add(event)
    return record
