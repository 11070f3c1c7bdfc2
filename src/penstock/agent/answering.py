"""One answer of the model: asked for, passed on as it comes, and stopped where it has to be.

Every event of the stream is shown to the watches, folded into the one live message and told. The
answer ends with its terminal event, with an abort, or with a finding; in each case the message is
lawful: open blocks are closed, a call that was cut is incomplete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from msgspec import Struct, field

from penstock.agent.events import MessageStarted, MessageUpdated
from penstock.agent.executing import Emit
from penstock.agent.interrupting import Interrupt, Interrupted, is_cancelled
from penstock.agent.watching import Finding, Watches
from penstock.events import Done, Event, Failed, MessageStart, ToolCallEnd
from penstock.messages import AssistantMessage, ErrorInfo, ToolCall
from penstock.models.base import Model, batches
from penstock.requests import Request
from penstock.streams.failures import error_of, truncated
from penstock.streams.record import Record

ANSWER_ABORTED: Final = "Request was aborted"

OnCall = Callable[[ToolCall], None]
"""Is told of a call as soon as it is complete."""


class Answer(Struct):
    """What came: the final message, the finding that stopped it, and those that stopped nothing."""

    message: AssistantMessage
    finding: Finding | None = None
    reminders: list[Finding] = field(default_factory=list)


class Reader:
    """Reads the answers of one run."""

    def __init__(self, watches: Watches, interrupt: Interrupt, emit: Emit) -> None:
        self._watches = watches
        self._interrupt = interrupt
        self._emit = emit
        self._reminders: list[Finding] = []
        self.may_stop = True
        """Whether a finding may stop an answer; one that may not is told after the turn."""

    async def read(self, model: Model, request: Request, on_call: OnCall) -> Answer:
        """Ask *model*; give its answer, whatever became of it."""
        self._watches.each(lambda watch: watch.answer_started())
        self._reminders = []
        passing = _Passing(self._emit)
        finding = None
        try:
            async with self._interrupt.guard():
                finding = await self._pass_on(model, request, passing, on_call)
        except Interrupted:
            pass
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            passing.fail(ErrorInfo("what the model waited for was cancelled", "transport"))
        except Exception as exc:  # noqa: BLE001 - whatever it is, the answer failed
            passing.fail(error_of(exc))
        passing.fail(self._why(finding))
        return Answer(passing.record.message, finding, self._reminders)

    def _why(self, finding: Finding | None) -> ErrorInfo:
        if finding is not None:
            return ErrorInfo(f"stopped by {', '.join(finding.names)}", "aborted", finding.source)
        return ErrorInfo(ANSWER_ABORTED, "aborted") if self._interrupt.fired else truncated()

    async def _pass_on(
        self, model: Model, request: Request, passing: _Passing, on_call: OnCall
    ) -> Finding | None:
        async with aclosing(batches(model, request)) as incoming:
            async for batch in incoming:
                for event in batch:
                    self._interrupt.check()
                    finding = self._watch(event)
                    passing.add(event)
                    if finding is not None:
                        return finding
                    if isinstance(event, ToolCallEnd) and event.call.complete:
                        on_call(event.call)
        return None

    def _watch(self, event: Event) -> Finding | None:
        """Show *event* to the watches; give the finding that stops the answer."""
        stops = self.may_stop and not isinstance(event, Done | Failed)
        for finding in self._watches.see(event):
            if finding.interrupts and stops:
                return finding
            self._reminders.append(finding)
        return None


class _Passing:
    """Folds events and tells them."""

    def __init__(self, emit: Emit) -> None:
        self.record = Record()
        self._emit = emit
        self._is_started = False

    def add(self, event: Event) -> None:
        """Fold *event* and tell it; the end of the message is told by whoever closes it."""
        for passed in self.record.add(event):
            self._tell(passed)

    def fail(self, error: ErrorInfo) -> None:
        """End what is not ended."""
        if not self.record.ended:
            for passed in self.record.fail(error):
                self._tell(passed)

    def _tell(self, event: Event) -> None:
        if not self._is_started:
            self._is_started = True
            self._emit(MessageStarted(self.record.message))
        if not isinstance(event, MessageStart | Done | Failed):
            self._emit(MessageUpdated(event, self.record))
