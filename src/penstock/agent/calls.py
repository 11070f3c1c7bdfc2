"""The calls of one answer: which run, when, and what the model is told of each.

Shared tools run side by side; an exclusive one waits for all calls before it, and all after it wait
for it. Whatever order they end in, their results are given in the order of the calls. Every call
has a task of its own, so one can be stopped and the others go on; what a tool had given back by
then is kept.

A call that does not run has a result too, which says why: an unknown tool, arguments that do not
fit, a no, a message of the user's that came first, an answer that broke.
"""

from __future__ import annotations

import asyncio
from typing import Final

from penstock.agent.approval import (
    Allow,
    Decision,
    Defer,
    Deny,
    Edit,
    Resolution,
    Resolutions,
    Retry,
    read_decision,
)
from penstock.agent.executing import Execution, Policy
from penstock.agent.tools.base import ToolOutput
from penstock.agent.tools.contents import content_of
from penstock.messages import AssistantMessage, ToolCall, ToolResult

SKIPPED: Final = "Skipped due to queued user message."
INTERRUPTED: Final = (
    "The call was interrupted: it had begun when the process ended, and its outcome is unknown. It"
    " may have taken effect, in full or in part. It was not run again."
)
CUT: Final = "The call was cut off before its arguments were complete, so it was not run."


class Calls:
    """The calls of one answer, as far as they have been started."""

    def __init__(self, policy: Policy, decisions: Resolutions | None = None) -> None:
        self._policy = policy
        self._decisions = decisions or {}
        self._runs: list[Execution] = []
        self._stopped = ""

    @property
    def started(self) -> bool:
        """Whether a tool was run, or is about to be."""
        return bool(self._runs)

    def start(self, call: ToolCall) -> None:
        """Run *call*, as soon as those before it let it."""
        tool = self._policy.tools.get(call.name)
        is_exclusive = tool is not None and tool.exclusive
        before = [run for run in self._runs if is_exclusive or run.is_exclusive]
        said = self._decisions.get(call.id)
        run = Execution(call, tool, self._policy, _decision(said), is_again=isinstance(said, Retry))
        self._runs.append(run)
        run.start(before)
        if self._stopped:
            run.stop(self._stopped)

    def refuse(self, call: ToolCall, reason: str) -> None:
        """Answer *call* with *reason* in place of running it."""
        self.give(call, ToolOutput(reason, is_error=True))

    def give(self, call: ToolCall, output: ToolOutput) -> None:
        """Answer *call* with *output* in place of running it."""
        run = Execution(call, None, self._policy)
        self._runs.append(run)
        run.give(output)

    def resume(self, call: ToolCall, *, interrupted: bool) -> None:
        """Go on with *call*, which waited, as was decided.

        One that was *interrupted* runs again only if that was said: it may have done its work.
        """
        said = self._decisions.get(call.id)
        if isinstance(said, ToolOutput):
            self.give(call, ToolOutput(content_of(said), said.is_error))
        elif not interrupted or isinstance(said, Retry):
            self.start(call)
        elif isinstance(said, Defer):
            run = Execution(call, None, self._policy)
            self._runs.append(run)
            run.defer()
        else:
            reason = said.reason if isinstance(said, Deny) else ""
            self.refuse(call, f"{INTERRUPTED} {reason}".rstrip())

    def stop(self, reason: str, *, hard: bool = False) -> None:
        """End what runs and start nothing more; results that are there stay.

        A *hard* stop does not wait for those who look at results either.
        """
        self._stopped = self._stopped or reason
        for run in self._runs:
            run.stop(reason, hard=hard)

    async def results(self, message: AssistantMessage) -> list[ToolResult]:
        """Wait for all that was started; give what came of it, in the order of the calls."""
        await self._wait()
        place = {call.id: number for number, call in enumerate(message.tool_calls)}
        results = [run.result for run in self._runs if run.result is not None]
        # With eager tools a call that was cut is refused behind those that have run.
        return sorted(results, key=lambda result: place.get(result.id, len(place)))

    async def settle(self, message: AssistantMessage, reason: str) -> list[ToolResult]:
        """Run nothing more: every call of *message* without a result is answered with *reason*."""
        self.stop(reason)
        await self._wait()
        for call in message.tool_calls:
            run = self._find(call)
            if run is None:
                self.refuse(call, reason)
            elif run.is_deferred:
                run.refuse(reason)
        return await self.results(message)

    @property
    def deferred(self) -> list[ToolCall]:
        """The calls about which nobody could decide yet."""
        return [run.call for run in self._runs if run.is_deferred]

    def has(self, call: ToolCall) -> bool:
        """Tell whether *call* was started."""
        return self._find(call) is not None

    def _find(self, call: ToolCall) -> Execution | None:
        return next((run for run in self._runs if run.call.id == call.id), None)

    async def _wait(self) -> None:
        try:
            while open_ := [run.task for run in self._runs if not run.task.done()]:
                await asyncio.wait(open_)
        except asyncio.CancelledError:
            await self._end()
            raise

    async def _end(self) -> None:
        """End everything: whoever waited for the results is gone."""
        for run in self._runs:
            run.task.cancel()
        await asyncio.gather(*(run.task for run in self._runs), return_exceptions=True)
        begun = [run.call for run in self._runs if run.has_begun and run.result is None]
        self._policy.conversation.interrupted += begun


def _decision(said: Resolution | None) -> Decision | None:
    """Give what was decided before a call is looked at again."""
    if isinstance(said, Retry):
        return Allow() if said.arguments is None else Edit(said.arguments)
    return read_decision(said)
