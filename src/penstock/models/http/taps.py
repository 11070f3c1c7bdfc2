"""Who looks on while an answer comes over the wire: the caller's tap, and the trace.

Neither may end the answer, and neither is shown a key that the server says again.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from contextlib import aclosing, suppress
from typing import Any

from penstock.models.base import Batches, Tap
from penstock.models.http.keys import Mask, Veil
from penstock.models.tracing import Flow

_Decoder = getincrementaldecoder("utf-8")


class Hiding(Tap):
    """Lets *tap* see what passes, without what *mask* hides."""

    def __init__(self, tap: Tap, mask: Mask) -> None:
        self._tap = tap
        self._mask = mask

    def sent(self, body: bytes) -> None:
        """Pass it on as it is: keys are in headers."""
        with suppress(Exception):  # here and below: who looks on does not end the answer
            self._tap.sent(body)

    def received(self, data: bytes) -> None:
        """Pass it on without keys."""
        try:  # noqa: SIM105 - `suppress` is slower, and this is done for every piece
            self._tap.received(self._mask.body(data))
        except Exception:  # noqa: BLE001, S110
            pass

    def reported(self, report: Any) -> None:
        """Pass it on."""
        with suppress(Exception):
            self._tap.reported(report)


class Tracing(Tap):
    """Lets *flow* tell what came over the wire, and *tap* see it too."""

    def __init__(self, tap: Tap, flow: Flow, mask: Mask) -> None:
        self._tap = tap
        self._flow = flow
        self._mask = mask
        self._begin()

    def sent(self, body: bytes) -> None:
        """Begin a new text: the answer to another call goes on where no other stopped."""
        self.finish()
        self._begin()
        self._tap.sent(body)

    def received(self, data: bytes) -> None:
        """Tell of a chunk, as soon as it is known that no key begins at its end."""
        self._flow.heard(self._veil.add(self._decoder.decode(data)))
        self._tap.received(data)

    def reported(self, report: Any) -> None:
        """Pass it on."""
        self._tap.reported(report)

    def finish(self) -> None:
        """Tell of what was held back."""
        held = self._veil.add(self._decoder.decode(b"", final=True))
        self._flow.heard(held + self._veil.finish())

    def _begin(self) -> None:
        self._decoder = _Decoder("replace")
        self._veil = Veil(self._mask)


async def traced(batches: Batches, flow: Flow, tap: Tracing) -> Batches:
    """Give *batches*, and tell *flow* of them, and of the end."""
    try:
        async with aclosing(batches):
            async for batch in batches:
                flow.told(batch)
                yield batch
    finally:
        tap.finish()
        flow.finish()
