"""`ReplayModel`: a model that responds with recorded streams of a provider."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from penstock import apis
from penstock.errors import UsageError
from penstock.events import ENDS, Failed
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.models.base import (
    Batches,
    Model,
    OutputMode,
    Tap,
    ensure_end,
    ids_for,
    iter_events,
)
from penstock.request import Request, RequestLike, make_request
from penstock.streams import EventStream

CHUNK: Final = 64
"""How many bytes of a recording are read at once: a small packet."""


class ReplayModel(Model):
    """Responds with *recordings*, one per request, as a server with *api* sent them.

    A recording is the body of a streamed response: bytes, or the path of a file. It is decoded in
    pieces of *chunk* bytes. `requests` has every request. `from_log` replays a request of the
    gateway's log.

    Raises `UsageError` for an unknown API.
    """

    def __init__(
        self,
        *recordings: bytes | str | Path,
        api: str = "openai-chat",
        name: str = "recorded",
        chunk: int = CHUNK,
        modes: tuple[OutputMode, ...] = ("native", "tool", "prompt"),
    ) -> None:
        if chunk < 1:
            raise UsageError(f"chunk must be 1 or more bytes, got {chunk}")
        self.requests: list[Request] = []
        self._api = apis.get(api)
        self._name = name
        self._modes = modes
        self._streams: list[Sequence[bytes]] = []
        for recording in recordings:
            data = recording if isinstance(recording, bytes) else Path(recording).read_bytes()
            self._streams.append([data[at : at + chunk] for at in range(0, len(data), chunk)])

    @classmethod
    async def from_log(cls, database: str, request_id: str) -> ReplayModel:
        """Return a model that replays the request *request_id* of the log in *database*.

        *database* is the URL of the gateway's database. Needs the extra ``server``.
        Raises `UsageError` if the log does not have the request, or not its bodies, and
        `StoreError` if the database cannot be read.
        """
        from penstock.gateway.replay import split_responses  # noqa: PLC0415 - a heavy import
        from penstock.store import Store  # noqa: PLC0415

        store = Store(database, create=False)
        store.start()
        try:
            detail = await store.request(request_id)
        finally:
            await store.close()
        if detail is None or not detail.raw:
            raise UsageError(f"the log has no request {request_id} with its bodies")
        model = cls(api=detail.row.upstream_api, name=detail.row.upstream_model)
        model._streams = [*split_responses(detail, model._api)]
        return model

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._name

    @property
    def api_name(self) -> str:
        """The name of the API of the recordings."""
        return self._api.name

    def output_modes(self, *, has_tools: bool) -> tuple[OutputMode, ...]:
        """Return *modes*."""
        del has_tools
        return self._modes

    def stream(self, request: RequestLike) -> EventStream:
        """Start the next response."""
        return EventStream(iter_events(self.batches(request)), interval=0)

    def batches(self, request: RequestLike, tap: Tap | None = None) -> Batches:
        """Yield the events of the next response as they are decoded."""
        return ensure_end(self._decode(make_request(request), tap or Tap()))

    async def _decode(self, request: Request, tap: Tap) -> Batches:
        self.requests.append(request)
        if not self._streams:
            error = ErrorInfo(f"there is no recording for request {len(self.requests)}")
            yield [Failed("error", error, AssistantMessage(error=error))]
            return
        decoder = self._api.decoder(ids=ids_for(request))
        for piece in self._streams.pop(0):
            tap.received(piece)
            events = decoder.feed(piece)
            yield events
            if events and isinstance(events[-1], ENDS):
                return
        yield decoder.finish()
