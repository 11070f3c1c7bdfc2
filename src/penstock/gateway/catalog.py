"""The models that clients can be told of: those that the settings name, and the upstream's own.

A name that the settings do not know goes to the default upstream as it is, so that upstream is
asked what it has. Its list is kept for an hour; one that cannot be had is asked for again after a
minute, and nobody waits long for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol, runtime_checkable

from penstock.errors import PenstockError

KEPT_SECONDS: Final = 3_600.0
"""How long a list is good."""

AGAIN_SECONDS: Final = 60.0
"""After how long a list is asked for again that could not be had."""

WAIT_SECONDS: Final = 3.0
"""How long a client that lists the models waits for the upstream."""


@runtime_checkable
class Listing(Protocol):
    """A model whose server can say what it has."""

    async def names(self, seconds: float) -> list[str]:
        """List the models of the server, within *seconds*."""


class Catalog:
    """Knows what the server of *model* has, as far as it says so."""

    def __init__(self, model: object, clock: Callable[[], float] = time.monotonic) -> None:
        self._model = model if isinstance(model, Listing) else None
        self._clock = clock
        self._names: list[str] = []
        self._until = clock()

    async def names(self) -> list[str]:
        """Give the names; those of before where the server does not answer."""
        if self._model is None or self._clock() < self._until:
            return self._names
        # Whoever comes meanwhile is told what is known by now.
        self._until = self._clock() + AGAIN_SECONDS
        try:
            self._names = await self._model.names(WAIT_SECONDS)
        except (PenstockError, OSError, TimeoutError):
            return self._names
        self._until = self._clock() + KEPT_SECONDS
        return self._names
