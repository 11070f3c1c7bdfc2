"""One answer over HTTP: as many tries as it takes, and the account of them.

As long as nothing of the answer went out, a failure that may pass is kept to itself and the call is
sent anew. Whatever fails after that is the end of the answer: what had arrived, then `Failed`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from logging import getLogger
from typing import Final

from penstock.apis import Api
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from penstock.models.http.attempt import Attempt, Prepare, Send
from penstock.models.http.report import Account
from penstock.models.http.retry import Retry
from penstock.models.http.transport import HTTPCall, Transport
from penstock.models.http.waiting import Patience, Timeouts

_DELTAS: Final = (TextDelta, ThinkingDelta, ToolCallDelta)
_ENDS: Final = (Done, Failed)
_LOG: Final = getLogger("penstock.models")


async def _sent(_send: Send) -> HTTPCall:
    raise AssertionError("a call whose answer has begun is sent again")


class Exchange:
    """Gets one answer from *transport*; `batches` is read once.

    *ids* names the calls of servers that give them no name.
    """

    __slots__ = ("_account", "_api", "_ids", "_prepare", "_report", "_retry", "_timeouts",
                 "_transport")  # fmt: skip

    def __init__(
        self,
        api: Api,
        prepare: Prepare,
        transport: Transport,
        *,
        timeouts: Timeouts,
        retry: Retry,
        account: Account,
        ids: Callable[[], str],
    ) -> None:
        self._api = api
        self._prepare = prepare
        self._transport = transport
        self._timeouts = timeouts
        self._retry = retry
        self._account = account
        self._ids = ids
        self._report = account.report

    async def batches(self) -> AsyncGenerator[list[Event]]:
        """Give the events of the answer as they come, up to its terminal event.

        They are those of the first try that comes to something, or of the last.
        """
        patience, report = Patience(self._timeouts), self._report
        try:
            while True:
                again, went_out = None, False
                attempt = self._attempt(patience)
                try:
                    while batch := await attempt.read():
                        if report.first_token is None or isinstance(batch[-1], _ENDS):
                            again = self._look_at(batch, patience, went_out=went_out)
                        if again is not None:
                            break
                        if not went_out:
                            self._prepare = _sent  # There is no second try: the call may go.
                        went_out = True
                        yield batch
                finally:
                    await attempt.aclose()
                if again is None:
                    break
                await asyncio.sleep(again)
        finally:
            patience.close()
            self._report.duration = patience.passed()

    def _attempt(self, patience: Patience) -> Attempt:
        self._report.attempts += 1
        return Attempt(
            self._api, self._prepare, self._transport, patience, self._account, self._ids
        )

    def _look_at(self, batch: list[Event], patience: Patience, *, went_out: bool) -> float | None:
        """Note what *batch* says of the answer; give the seconds to wait for another try."""
        self._hide(batch)
        again = None if went_out else self._again(batch, patience)
        if again is None:
            self._note(batch, patience)
        return again

    def _again(self, batch: list[Event], patience: Patience) -> float | None:
        """Give the seconds to wait for another try, if the first thing to go out is a failure."""
        failed = batch[-1]
        if not isinstance(failed, Failed):
            return None
        if not all(isinstance(event, MessageStart) for event in batch[:-1]):
            return None
        tried, error = self._report.attempts, failed.error
        delay = self._retry.delay(tried, error, random.random())  # noqa: S311 - no secret
        if delay is None or patience.now() + delay >= patience.ends:
            return None
        self._report.failures.append(error)
        _LOG.debug("try %d failed: %s; again in %.2f s", tried, error.message, delay)
        return delay

    # --- the account ---

    def _note(self, batch: list[Event], patience: Patience) -> None:
        report = self._report
        if report.first_token is None and any(isinstance(event, _DELTAS) for event in batch):
            report.first_token = patience.passed()
        end = batch[-1]
        if isinstance(end, _ENDS):
            report.usage = end.message.usage

    def _hide(self, batch: list[Event]) -> None:
        """Take keys out of what a server may have echoed."""
        failed = batch[-1]
        if isinstance(failed, Failed):
            for error in (failed.error, failed.message.error):
                if error is not None:
                    error.message = self._account.mask.text(error.message)
                    error.type = self._account.mask.text(error.type)
