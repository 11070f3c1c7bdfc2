"""What the client got: the bytes of its API, written again from the events.

They are not stored: the encoder that wrote them writes the same again, but for the moment that it
says the answer was made. A client that asked for no stream got the response that is stored; one
that was refused got a status and an error. Where nobody was told an end, none is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct, field, structs

from penstock import _json
from penstock.errors import PenstockError
from penstock.events import Done, Event, Failed
from penstock.gateway import errors, http_exchange, response
from penstock.gateway.completion_handler import TELLS_USAGE
from penstock.gateway.inspector.jobs import look_up
from penstock.gateway.inspector.offsets import width
from penstock.gateway.legacy_completions import CompletionDialect
from penstock.gateway.replaying import request_of
from penstock.gateway.response import EndpointFormat, make_fit
from penstock.gateway.stored_responses import PREVIOUS
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.store import RequestDetail

WRITTEN_AGAIN: Final = "written again from the events: the bytes themselves are not stored"
ONE_CHOICE: Final = "; the client asked for several choices, and this is the one of them alone"
GONE: Final = 499
"""The status of a client that hung up before its answer ended."""

_COMPLETIONS: Final = "/completions"
_CHAT: Final = "/chat/completions"


class Told(Struct, frozen=True):
    """The *body* that a client of *api* got; *pieces* say which event wrote what of it."""

    api: str
    body: str = ""
    pieces: list[tuple[int, int, int]] = field(default_factory=list)
    stream: bool = False
    note: str = ""


def told_of(detail: RequestDetail, events: Sequence[Event]) -> Told:
    """Give what the client of *detail* got, which is known to have been told *events*."""
    row = detail.row
    if row.client_api in response.PREFIXES and _is_refusal(row.status):
        return _refused(detail, events)
    note = next((words for is_so, words in _NO_END if is_so(detail)), "")
    if not row.stream and note:
        return Told(row.client_api, note=note)
    told = retold(detail, _ended(detail, events))
    return _with_note(told, f"; {note}") if note else told


def retold(detail: RequestDetail, events: Sequence[Event]) -> Told:
    """Give what the client of *detail* would have got, had it been told *events*."""
    row = detail.row
    if not row.stream or row.client_api not in response.PREFIXES:
        return Told(row.client_api, detail.response.decode("utf-8", "replace"))
    try:
        told = written(_dialect(detail), row.client_api, [*map(_fit, events)])
    except PenstockError as exc:
        return Told(row.client_api, "", [], stream=True, note=f"cannot be written again: {exc}")
    return told if "." not in row.id else _with_note(told, ONE_CHOICE)


def written(dialect: EndpointFormat, api: str, events: Sequence[Event]) -> Told:
    """Write *events* as *dialect* does, with an end where they have one."""
    encoder = dialect.encoder()
    texts: list[str] = []
    pieces: list[tuple[int, int, int]] = []
    at = 0
    for number, event in enumerate(events):
        look_up()
        if text := encoder.encode(event).decode("utf-8", "replace"):
            pieces.append((number, at, at + width(text)))
            texts.append(text)
            at = pieces[-1][2]
    if events and isinstance(events[-1], Done | Failed):
        texts.append(encoder.finish().decode("utf-8", "replace"))
    return Told(api, "".join(texts), pieces, stream=True, note=WRITTEN_AGAIN)


# --- how it ended ---

_NO_END: Final[tuple[tuple[Callable[[RequestDetail], object], str], ...]] = (
    (lambda detail: detail.row.status == GONE, "the client left here"),
    (lambda detail: detail.row.state == "started", "the answer is on its way still"),
    (lambda detail: detail.row.state == "interrupted", "the process that answered ended here"),
    (lambda detail: detail.notes.get("cut"), "what came behind it was too long to be kept"),
)
"""When a client was told no end, or nobody knows what it was told, and the words for it."""


def _is_refusal(status: int | None) -> bool:
    return status is not None and status >= 400 and status != GONE  # noqa: PLR2004 - as in HTTP


def _refused(detail: RequestDetail, events: Sequence[Event]) -> Told:
    """Give the error that came in place of an answer."""
    id_, _, _ = detail.row.id.partition(".")
    failed = _fit(events[-1]) if events else None
    error = failed.error if isinstance(failed, Failed) else _noted(detail)
    status, value = errors.write(error, detail.row.client_api, id_)
    note = f"the client was refused with status {detail.row.status or status}"
    return Told(detail.row.client_api, _json.encode_wire(value).decode(), note=note)


def _ended(detail: RequestDetail, events: Sequence[Event]) -> Sequence[Event]:
    """Give *events* with the end that the gateway itself made, where it did."""
    row = detail.row
    has_end = bool(events) and isinstance(events[-1], Done | Failed)
    if has_end or not events or not row.error_kind or any(is_so(detail) for is_so, _ in _NO_END):
        return events
    error = _noted(detail)
    message = AssistantMessage(error=error)
    return [*events, Failed("aborted" if row.state == "aborted" else "error", error, message)]


def _noted(detail: RequestDetail) -> ErrorInfo:
    """Give the error that the log has noted."""
    row = detail.row
    kind: Any = row.error_kind or "provider"
    return ErrorInfo(row.error_message, kind, row.error_type, row.status)


def _fit(event: Event) -> Event:
    """Give *event* as a client is told it: of a failure, what concerns the client."""
    if not isinstance(event, Failed):
        return event
    error, inner = structs.replace(event.error), event.message.error
    make_fit(error)
    if inner is not None:
        inner = structs.replace(inner)
        make_fit(inner)
    return structs.replace(event, error=error, message=structs.replace(event.message, error=inner))


def _dialect(detail: RequestDetail) -> EndpointFormat:
    row, request = detail.row, request_of(detail)
    id_, _, _ = row.id.partition(".")
    request.model = row.model
    if row.path.endswith(_COMPLETIONS) and not row.path.endswith(_CHAT):
        return CompletionDialect(f"cmpl-{id_}", row.model, int(row.created))
    raw = request.raw or {}
    made = response.dialect_of(
        row.client_api,
        request,
        id_,
        tokens=http_exchange.tokens_in(detail.request),
        always=row.upstream_api in TELLS_USAGE,
        fields={"store": raw.get("store") is not False, PREVIOUS: raw.get(PREVIOUS) or None},
    )
    return structs.replace(made, created=int(row.created))


def _with_note(told: Told, note: str) -> Told:
    return structs.replace(told, note=told.note + note)
