"""One answer of the model: asked for, passed on as it comes, and stopped where it has to be.

Every event of the stream is shown to the watches, folded into the one live message and told. The
answer ends with its terminal event, with an abort, or with a finding; in each case the message is
lawful: open blocks are closed, a call that was cut is incomplete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import aclosing
from typing import Final

from msgspec import Struct

from penstock.agent.events import MessageStarted, MessageUpdated
from penstock.agent.executing import Emit
from penstock.agent.interrupting import Interrupt, Interrupted
from penstock.agent.watching import Finding, Watch
from penstock.events import Done, Event, Failed, MessageStart, ToolCallEnd
from penstock.messages import AssistantMessage, ErrorInfo, ToolCall
from penstock.models.base import Model, batches
from penstock.requests import Request
from penstock.streams.failures import error_of, truncated
from penstock.streams.record import Record

ABORTED: Final = "Request was aborted"

OnCall = Callable[[ToolCall], None]
"""Is told of a call as soon as it is complete."""


class Answer(Struct):
    """What came: the final message, and the finding that stopped it."""

    message: AssistantMessage
    finding: Finding | None = None


class Reader:
    """Reads the answers of one run; *remind* is told of findings that stop nothing."""

    def __init__(
        self,
        watches: Iterable[Watch],
        interrupt: Interrupt,
        emit: Emit,
        remind: Callable[[Finding], None],
    ) -> None:
        self._watches = tuple(watches)
        self._interrupt = interrupt
        self._emit = emit
        self._remind = remind
        self.interrupts = True
        """Whether a finding may stop an answer; one that may not is told after the turn."""

    async def read(self, model: Model, request: Request, on_call: OnCall) -> Answer:
        """Ask *model*; give its answer, whatever became of it."""
        for watch in self._watches:
            watch.answer_started()
        passing = _Passing(self._emit)
        finding = None
        try:
            async with self._interrupt.guard():
                finding = await self._pass_on(model, request, passing, on_call)
        except Interrupted:
            pass
        except Exception as exc:  # noqa: BLE001 - whatever it is, the answer failed
            passing.fail(error_of(exc))
        if not passing.record.ended:
            passing.fail(self._why(finding))
        return Answer(passing.record.message, finding)

    def _why(self, finding: Finding | None) -> ErrorInfo:
        if finding is not None:
            return ErrorInfo(f"stopped by {', '.join(finding.names)}", "aborted", finding.source)
        return ErrorInfo(ABORTED, "aborted") if self._interrupt.fired else truncated()

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
        for watch in self._watches:
            finding = watch.see(event)
            if finding is None:
                continue
            if finding.interrupts and self.interrupts and not isinstance(event, Done | Failed):
                return finding
            self._remind(finding)
        return None


class _Passing:
    """Folds events and tells them."""

    def __init__(self, emit: Emit) -> None:
        self.record = Record()
        self._emit = emit
        self._is_started = False

    def add(self, event: Event) -> None:
        """Fold *event* and tell it; the terminal one ends the message, which is told later."""
        for passed in self.record.add(event):
            self._tell(passed)

    def fail(self, error: ErrorInfo) -> None:
        """End what is not ended."""
        for passed in self.record.fail(error):
            self._tell(passed)

    def _tell(self, event: Event) -> None:
        if not self._is_started:
            self._is_started = True
            self._emit(MessageStarted(self.record.message))
        if not isinstance(event, MessageStart | Done | Failed):
            self._emit(MessageUpdated(self.record.message, event))
