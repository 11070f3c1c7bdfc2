"""Reconstruct what the client received: the bytes of its API, encoded again from the events.

The bytes sent to clients are not stored. The encoder that wrote them writes the same again, except
for the creation time of the response. A client that did not ask for a stream received the response
that is stored, and one whose request was refused received a status and an error. If the client did
not receive an end, none is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct, field, structs

from penstock import _json
from penstock.errors import PenstockError
from penstock.events import ENDS, Event, Failed
from penstock.gateway import errors, http_exchange, response
from penstock.gateway.completion_handler import ALWAYS_WITH_USAGE
from penstock.gateway.inspector.spans import utf16_length
from penstock.gateway.legacy_completions import LegacyCompletionFormat
from penstock.gateway.replay import request_for
from penstock.gateway.response import EndpointFormat
from penstock.gateway.stored_responses import PREVIOUS
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.store import RequestDetail

# The log has the upstream's bytes; storing the client's as well would double it.
RECONSTRUCTED: Final = "reconstructed from the events: the bytes themselves are not stored"
ONE_CHOICE: Final = "; the client requested several choices, and this is one of them"
DISCONNECTED: Final = 499
"""The status of a client that disconnected before its response ended."""

_COMPLETIONS: Final = "/completions"
_CHAT: Final = "/chat/completions"


class ClientView(Struct, frozen=True):
    """The *body* that a client of *api* received; *pieces* say which event wrote what of it.

    A piece is the number of the event and the range in the body, in UTF-16 units.
    """

    api: str
    body: str = ""
    pieces: list[tuple[int, int, int]] = field(default_factory=list)
    stream: bool = False
    note: str = ""


def reconstruct(detail: RequestDetail, events: Sequence[Event]) -> ClientView:
    """Return what the client of *detail* received, where the log says that it received *events*."""
    row = detail.row
    is_refusal = row.status is not None and row.status >= 400 and row.status != DISCONNECTED  # noqa: PLR2004 - as in HTTP
    if row.client_api in response.PREFIXES and is_refusal:
        return _reconstruct_refusal(detail, events)
    note = next((words for is_so, words in _NO_END if is_so(detail)), "")
    if not row.stream and note:
        return ClientView(row.client_api, note=note)
    view = encode_for(detail, _add_end(detail, events))
    return _add_note(view, f"; {note}") if note else view


def encode_for(detail: RequestDetail, events: Sequence[Event]) -> ClientView:
    """Return what the client of *detail* receives for *events*."""
    row = detail.row
    if not row.stream or row.client_api not in response.PREFIXES:
        return ClientView(row.client_api, detail.response.decode("utf-8", "replace"))
    try:
        view = encode_stream(
            _make_endpoint_format(detail),
            row.client_api,
            [_redact(event, detail) for event in events],
        )
    except PenstockError as exc:
        note = f"cannot be reconstructed: {exc}"
        return ClientView(row.client_api, "", [], stream=True, note=note)
    return view if "." not in row.id else _add_note(view, ONE_CHOICE)


def encode_stream(endpoint: EndpointFormat, api: str, events: Sequence[Event]) -> ClientView:
    """Encode *events* as *endpoint* does, with the end of the stream if they have an end."""
    encoder = endpoint.encoder()
    texts: list[str] = []
    pieces: list[tuple[int, int, int]] = []
    at = 0
    for number, event in enumerate(events):
        if text := encoder.encode(event).decode("utf-8", "replace"):
            pieces.append((number, at, at + utf16_length(text)))
            texts.append(text)
            at = pieces[-1][2]
    # Without an end the client received none: a stream that was cut has no `[DONE]`.
    if events and isinstance(events[-1], ENDS):
        texts.append(encoder.finish().decode("utf-8", "replace"))
    return ClientView(api, "".join(texts), pieces, stream=True, note=RECONSTRUCTED)


# --- the end ---

# When the client received no end, or none is known, and the words for it.
_NO_END: Final[tuple[tuple[Callable[[RequestDetail], object], str], ...]] = (
    (lambda detail: detail.row.status == DISCONNECTED, "the client disconnected here"),
    (lambda detail: detail.row.state == "started", "the response is still in progress"),
    (lambda detail: detail.row.state == "interrupted", "the gateway process ended here"),
    (lambda detail: detail.notes.get("cut"), "the rest was too long to be stored"),
)


def _reconstruct_refusal(detail: RequestDetail, events: Sequence[Event]) -> ClientView:
    """Return the error that the client received instead of a response."""
    id_, _, _ = detail.row.id.partition(".")
    failed = _redact(events[-1], detail) if events else None
    error = failed.error if isinstance(failed, Failed) else _logged_error(detail)
    status, value = errors.write_error(error, detail.row.client_api, id_)
    note = f"the request was refused with status {detail.row.status or status}"
    return ClientView(detail.row.client_api, _json.encode_wire(value).decode(), note=note)


def _add_end(detail: RequestDetail, events: Sequence[Event]) -> Sequence[Event]:
    """Return *events* with the failure that the gateway itself ended them with, if it did."""
    row = detail.row
    has_end = bool(events) and isinstance(events[-1], ENDS)
    if has_end or not events or not row.error_kind or any(is_so(detail) for is_so, _ in _NO_END):
        return events
    error = _logged_error(detail)
    message = AssistantMessage(error=error)
    return [*events, Failed("aborted" if row.state == "aborted" else "error", error, message)]


def _logged_error(detail: RequestDetail) -> ErrorInfo:
    row = detail.row
    kind: Any = row.error_kind or "provider"
    return ErrorInfo(row.error_message, kind, row.error_type, row.status)


def _redact(event: Event, detail: RequestDetail) -> Event:
    """Return *event* as clients receive it: a failure without what is for the operator only.

    The log has the message with the advice that the gateway added.
    """
    if not isinstance(event, Failed):
        return event
    error, inner = structs.replace(event.error), event.message.error
    inner = None if inner is None else structs.replace(inner)
    for one in filter(None, (error, inner)):
        errors.adapt_upstream_error(one)
        # The gateway appends advice such as the flag to set, which is in the log and not in the
        # event.
        if detail.row.error_message.startswith(one.message.rstrip(". ")):
            one.message = detail.row.error_message
    return structs.replace(event, error=error, message=structs.replace(event.message, error=inner))


def _make_endpoint_format(detail: RequestDetail) -> EndpointFormat:
    """Return the format in which the gateway responded to the request of *detail*."""
    row, request = detail.row, request_for(detail)
    id_, _, _ = row.id.partition(".")
    request.model = row.model
    if row.path.endswith(_COMPLETIONS) and not row.path.endswith(_CHAT):
        return LegacyCompletionFormat(f"cmpl-{id_}", row.model, int(row.created))
    raw = request.raw or {}
    made = response.make_endpoint_format(
        row.client_api,
        request,
        id_,
        tokens=http_exchange.estimate_tokens(detail.request),
        always_usage=row.upstream_api in ALWAYS_WITH_USAGE,
        fields={"store": raw.get("store") is not False, PREVIOUS: raw.get(PREVIOUS) or None},
    )
    return structs.replace(made, created=int(row.created))


def _add_note(view: ClientView, note: str) -> ClientView:
    return structs.replace(view, note=view.note + note)
