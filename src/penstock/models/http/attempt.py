"""One try at an answer: the call goes out, bytes come back, the API's decoder makes them events.

Only the wait for bytes is timed, never the consumer's: who reads slowly is no idle server. Whatever
ends the try, an abort too, closes the socket before anything else is done.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Final

from penstock.apis import Api
from penstock.apis.decoding import StreamDecoder
from penstock.errors import PenstockError
from penstock.events import Done, Event, Failed
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.models.base import Tap
from penstock.models.http.report import Account
from penstock.models.http.transport import (
    Answer,
    FirstByteTimeoutError,
    HTTPCall,
    IdleTimeoutError,
    Transport,
    TransportError,
)
from penstock.models.http.waiting import Patience
from penstock.streams.failures import error_of

MAX_ERROR_BODY: Final = 65_536
"""How many bytes of a refusal are read: its reason, and no flood."""

MAX_ANSWER: Final = 256 * 1024 * 1024
"""How many bytes an answer may have, uncompressed: a thousand long ones, and no bomb."""

MAX_REMAINDER: Final = 65_536
"""How many bytes behind the end of an answer are read, to keep its connection."""

GRACE: Final = 0.05
"""How many seconds the end of a body may come later than the end of the answer in it."""

_SAID: Final = ("provider", "refusal", "filter")
"""Failures that the server itself told."""

_ENDS: Final = (Done, Failed)  # a union would be made anew for each read
_REQUEST_IDS: Final = ("x-request-id", "request-id", "x-goog-request-id", "cf-ray")


class RefusedError(PenstockError):
    """The server answered, and its answer is an error."""

    def __init__(self, info: ErrorInfo) -> None:
        super().__init__(info.message)
        self.info = info


Send = Callable[[HTTPCall], Awaitable[bytes]]
"""Sends a call and gives the whole body of its answer, for what precedes the answer itself."""

Prepare = Callable[[Send], Awaitable[HTTPCall]]
"""Gives the call of a try; most have it ready."""


class Attempt:
    """Sends one call over *transport* and reads its answer, whose calls *ids* names."""

    def __init__(
        self,
        api: Api,
        transport: Transport,
        patience: Patience,
        account: Account,
        ids: Callable[[], str],
    ) -> None:
        self._api = api
        self._ids = ids
        self._transport = transport
        self._patience = patience
        self._mask = account.mask
        self._report = account.report
        self._tap = account.tap

    async def batches(self, prepare: Prepare) -> AsyncGenerator[list[Event]]:
        """Give the events, a batch for a read, up to the terminal event; never raises.

        No batch is empty.
        """
        decoder = self._api.decoder(ids=self._ids)
        answer: Answer | None = None
        broken: list[Event] = []
        try:
            call = await prepare(self._fetch)
            until = self._patience.now() + self._patience.first_byte
            answer = await self._send(call, until)
            del call, prepare  # They hold the whole request, and an answer may take minutes.
            await self._check(answer)
            async with aclosing(self._read(answer, decoder, until)) as batches:
                async for batch in batches:
                    yield batch
        except Exception as exc:  # noqa: BLE001 - whatever it is, consumers are told
            broken = _rest_of(decoder, exc)
        finally:
            self._report.session = getattr(decoder, "session", {})
            if answer is not None:
                with suppress(Exception):
                    await answer.aclose()
        if broken:
            yield broken

    async def _send(self, call: HTTPCall, until: float) -> Answer:
        self._tap.sent(call.body)
        return await self._patience.wait(self._transport.send(call), until, FirstByteTimeoutError)

    async def _read(
        self, answer: Answer, decoder: StreamDecoder, until: float
    ) -> AsyncGenerator[list[Event]]:
        """Decode the body; behind the terminal event, read on to its end, if that is near."""
        body, patience, tap = aiter(answer), self._patience, self._tap
        late: type[TransportError] = FirstByteTimeoutError
        size = 0
        while (data := await patience.wait(anext(body, None), until, late)) is not None:
            if not data:
                continue
            if not size:
                self._report.first_byte = patience.passed()
                late = IdleTimeoutError
            tap.received(data)
            size += len(data)
            if size > MAX_ANSWER:
                raise RefusedError(ErrorInfo(f"an answer of over {MAX_ANSWER} bytes", "malformed"))
            events = decoder.feed(data)
            if events and isinstance(events[-1], _ENDS):
                try:
                    yield events
                finally:  # Who has the terminal event reads no further, and closes this.
                    await _read_remainder(body, tap)
                return
            if events:
                yield events
            until = patience.now() + patience.idle
        if rest := decoder.finish():
            yield rest

    async def _check(self, answer: Answer) -> None:
        """Raise `RefusedError` unless the server agreed."""
        headers, status = answer.headers, answer.status
        self._report.status = status
        named = next((headers[name] for name in _REQUEST_IDS if name in headers), "")
        self._report.request_id = self._mask.text(named)
        if status // 100 == 2:  # noqa: PLR2004 - all that begin so are an agreement
            return
        body = self._mask.body(await self._body(answer))
        info = self._api.read_error(status, headers, body, now=time.time())
        if status // 100 == 3:  # noqa: PLR2004 - and these say to ask elsewhere
            where = headers.get("location", "elsewhere")
            info.message = f"the server redirects to {where}, and redirects are not followed"
        advice = headers.get("x-should-retry")
        if advice in ("true", "false"):
            info.retryable = advice == "true"
        raise RefusedError(info)

    async def _fetch(self, call: HTTPCall) -> bytes:
        answer = await self._send(call, self._patience.now() + self._patience.first_byte)
        try:
            await self._check(answer)
            return await self._body(answer)
        finally:
            await answer.aclose()

    async def _body(self, answer: Answer) -> bytes:
        """Read a short body: what is too long or too late in it is not worth an error."""
        body, patience, read = aiter(answer), self._patience, bytearray()
        with suppress(TransportError, OSError):
            while len(read) < MAX_ERROR_BODY:
                until = patience.now() + patience.idle
                data = await patience.wait(anext(body, None), until, IdleTimeoutError)
                if data is None:
                    break
                self._tap.received(data)
                read += data
        return bytes(read[:MAX_ERROR_BODY])


async def _read_remainder(body: AsyncIterator[bytes], tap: Tap) -> None:
    """Read the end of a body whose answer is complete, so that its connection can be used again."""
    left = MAX_REMAINDER
    with suppress(Exception):
        async with asyncio.timeout(GRACE):
            while left > 0 and (data := await anext(body, None)) is not None:
                tap.received(data)
                left -= len(data)


def _rest_of(decoder: StreamDecoder, exc: Exception) -> list[Event]:
    """Give what the decoder held back when *exc* ended the answer, and the terminal event.

    An answer that had said its last word is over, done or refused, whatever became of the
    connection.
    """
    info = exc.info if isinstance(exc, TransportError | RefusedError) else error_of(exc)
    events = decoder.finish()
    last = events[-1] if events else None
    if isinstance(last, Done) or (isinstance(last, Failed) and last.error.kind in _SAID):
        return events
    message = last.message if isinstance(last, Failed) else AssistantMessage()
    message.error = info
    held = [event for event in events if not isinstance(event, Failed)]
    return [*held, Failed("error", info, message)]
