"""What the client got: the bytes of its API, written again from the events.

They are not stored: the encoder that wrote them writes the same again, but for the moment that it
says the answer was made. A client that asked for no stream got the response that is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field, structs

from penstock.errors import PenstockError
from penstock.events import Event
from penstock.gateway import body, dialects
from penstock.gateway.answering import Dialect
from penstock.gateway.asking import TELLS_USAGE
from penstock.gateway.completions import CompletionDialect
from penstock.gateway.conversations import PREVIOUS
from penstock.gateway.inspector.offsets import width
from penstock.gateway.replaying import request_of
from penstock.store import RequestDetail

WRITTEN_AGAIN: Final = "written again from the events: the bytes themselves are not stored"
ONE_CHOICE: Final = "; the client asked for several choices, and this is the one of them alone"
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
    """Give what the client of *detail* got, where it was told *events*."""
    row = detail.row
    if not row.stream or row.client_api not in dialects.PREFIXES:
        return Told(row.client_api, detail.response.decode("utf-8", "replace"))
    try:
        told = written(_dialect(detail), row.client_api, events)
    except PenstockError as exc:
        return Told(row.client_api, "", [], stream=True, note=f"cannot be written again: {exc}")
    return told if "." not in row.id else _with_note(told, ONE_CHOICE)


def written(dialect: Dialect, api: str, events: Sequence[Event]) -> Told:
    """Write *events* as *dialect* does."""
    encoder = dialect.encoder()
    texts: list[str] = []
    pieces: list[tuple[int, int, int]] = []
    at = 0
    for number, event in enumerate(events):
        if text := encoder.encode(event).decode("utf-8", "replace"):
            pieces.append((number, at, at + width(text)))
            texts.append(text)
            at = pieces[-1][2]
    texts.append(encoder.finish().decode("utf-8", "replace"))
    return Told(api, "".join(texts), pieces, stream=True, note=WRITTEN_AGAIN)


def _dialect(detail: RequestDetail) -> Dialect:
    row, request = detail.row, request_of(detail)
    id_, _, _ = row.id.partition(".")
    request.model = row.model
    if row.path.endswith(_COMPLETIONS) and not row.path.endswith(_CHAT):
        return CompletionDialect(f"cmpl-{id_}", row.model, int(row.created))
    raw = request.raw or {}
    made = dialects.dialect_of(
        row.client_api,
        request,
        id_,
        tokens=body.tokens_in(detail.request),
        always=row.upstream_api in TELLS_USAGE,
        fields={"store": raw.get("store") is not False, PREVIOUS: raw.get(PREVIOUS) or None},
    )
    return structs.replace(made, created=int(row.created))


def _with_note(told: Told, note: str) -> Told:
    return structs.replace(told, note=told.note + note)
