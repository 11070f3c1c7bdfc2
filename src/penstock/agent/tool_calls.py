"""One call on its way from the model's words to a result.

It is prepared by its schema, decided about, run and told. Whatever becomes of it, it ends with a
result for the model, unless nobody could decide about it yet.

A call can be stopped on every stage of its way. Who stops it may be part of it (a tool that aborts
its own run): then it ends at its next wait, or by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from inspect import isawaitable
from logging import getLogger
from typing import Any, Final, Literal

from msgspec import structs

from penstock.agent.approval import (
    Allow,
    Approval,
    Approve,
    Decision,
    Defer,
    Deny,
    Edit,
    Resolution,
    Resolutions,
    Retry,
    no_approver,
    read_decision,
)
from penstock.agent.cancellation import is_cancelled
from penstock.agent.conversation import Conversation
from penstock.agent.events import (
    AgentEvent,
    ApprovalRequested,
    CallApproved,
    CallDenied,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
)
from penstock.agent.hooks import Complain, Hooks
from penstock.agent.tools.base import AgentTool, ToolContext, ToolOutput
from penstock.agent.tools.results import make_content
from penstock.agent.tools.validate import prepare
from penstock.errors import ToolError
from penstock.messages import AssistantMessage, ToolCall, ToolResult

CALL_ABORTED: Final = "Tool execution was aborted."
NOT_RECORDED: Final = "The call was not run, because its beginning could not be recorded: {why}"

_LOG: Final = getLogger("penstock.agent")

Emit = Callable[[AgentEvent], None]
"""Tells everybody who looks on."""

Stage = Literal["waiting", "deciding", "running", "ending", "over"]
"""Where a call is: after others, before somebody who decides, in its tool, in a hook, done."""


class ToolPolicy:
    """What holds for all calls of an agent: its tools, and who is asked and told."""

    def __init__(
        self,
        tools: Mapping[str, AgentTool],
        approve: Approve | None,
        hooks: Hooks,
        conversation: Conversation,
    ) -> None:
        self.tools = tools
        self.approve = approve
        self.hooks = hooks
        self.emit: Emit = conversation.emit
        self.complain: Complain = conversation.complain
        self.conversation = conversation


class _Refused(Exception):  # noqa: N818 - it is an answer
    """The call does not run; the model is told why."""


class ToolExecution:
    """One call, from its start to its result; *decision* is what was decided about it before."""

    task: asyncio.Task[None]

    def __init__(
        self,
        call: ToolCall,
        tool: AgentTool | None,
        policy: ToolPolicy,
        decision: Decision | None = None,
        *,
        is_again: bool = False,
    ) -> None:
        self.call = call
        self.result: ToolResult | None = None
        self.is_deferred = False
        self.has_begun = False
        self.is_exclusive = tool is not None and tool.exclusive
        self._tool = tool
        self._policy = policy
        self._decision = decision
        self._approval: Approval = ""
        self._stage: Stage = "waiting"
        self._stopped = ""  # why
        self._is_told = False  # everybody knows that it began
        self._is_again = is_again  # it was interrupted before
        self._context = ToolContext(call.id, call.name, self._show)
        self._loop = asyncio.get_running_loop()

    # --- from outside ---

    def start(self, before: list[ToolExecution]) -> None:
        """Begin, after those of *before*."""
        waits = [run.task for run in before]
        self.task = self._loop.create_task(self._go(waits))

    def refuse(self, reason: str) -> None:
        """Answer with *reason*, in place of running, or of waiting for a decision any longer."""
        self.give(ToolOutput(reason, is_error=True))

    def give(self, output: ToolOutput) -> None:
        """Answer with *output*, in place of running."""
        self.is_deferred = False
        self.task = self._loop.create_task(self._end(output))

    def defer(self) -> None:
        """Let the call wait, as it did before."""
        self.is_deferred, self._stage = True, "over"
        self.task = self._loop.create_task(asyncio.sleep(0))

    def stop(self, reason: str, *, hard: bool = False) -> None:
        """End the call where it is; one that has its result keeps it.

        A hook that looks at the result is let finish, unless it is stopped *hard*. A tool that may
        not be aborted is waited for.
        """
        is_held = self._stage == "running" and self._tool is not None and not self._tool.abortable
        if is_held or self._stage == "over" or (self._stage == "ending" and not hard):
            return
        self._stopped = self._stopped or reason
        self._context.cancelled = True
        if self._stage == "waiting":
            return  # it sees for itself; a task that has not begun would end without a result
        if self.task is asyncio.current_task():
            self._loop.call_soon(self._cancel, self._stage)
        else:
            self.task.cancel()

    def _cancel(self, stage: Stage) -> None:
        """Cancel a call that stopped itself and has come no further since."""
        if self._stage == stage:
            self.task.cancel()

    # --- on the way ---

    async def _go(self, waits: list[asyncio.Task[None]]) -> None:
        output: ToolOutput | None
        try:
            if waits and not self._stopped:
                await asyncio.wait(waits)
            output = await self._run()
        except _Refused as refusal:
            output = ToolOutput(str(refusal), is_error=True)
        except asyncio.CancelledError:
            # By `stop`, by a tool that cancelled itself, or by the end of everything.
            if not self._stopped and is_cancelled():
                raise
            output = ToolOutput(self._stopped or CALL_ABORTED, is_error=True)
        if output is None:
            self.is_deferred, self._stage = True, "over"
        else:
            await self._end(output)

    async def _run(self) -> ToolOutput | None:
        """Run the tool; None is a call that is deferred."""
        call, tool = self.call, self._tool
        self._check()
        if tool is None:
            raise _Refused(f"Tool {call.name} not found. {self._known()}")
        arguments = self._prepare(tool, call)
        self._stage = "deciding"
        decision = await self._decide(tool, structs.replace(call, arguments=arguments))
        match decision:
            case Defer():
                return None
            case Deny(reason):
                raise _Refused(_denied(reason))
            case Edit(edited):
                arguments = self._prepare(tool, structs.replace(call, arguments=edited))
            case Allow():
                pass
        self._check()  # whoever decided may have stopped it
        begun = structs.replace(call, arguments=arguments)
        if why := await self._policy.conversation.start_call(begun, self._approval):
            raise _Refused(NOT_RECORDED.format(why=why))
        self._check()
        self._stage, self.has_begun = "running", True
        self._tell_start(arguments)
        return await self._call(tool, arguments)

    def _check(self) -> None:
        if self._stopped:
            raise _Refused(self._stopped)

    async def _call(self, tool: AgentTool, arguments: dict[str, Any]) -> ToolOutput:
        try:
            return _output(await tool.run(arguments, self._context))
        except ToolError as exc:
            return ToolOutput(str(exc), is_error=True)
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as exc:  # noqa: BLE001 - it is the tool's own, and the model is told
            return ToolOutput(f"Tool {tool.name} failed: {_words(exc)}", is_error=True)

    def _prepare(self, tool: AgentTool, call: ToolCall) -> dict[str, Any]:
        try:
            return prepare(tool, call)
        except ToolError as exc:
            raise _Refused(str(exc)) from exc

    def _known(self) -> str:
        names = ", ".join(self._policy.tools)
        return f"The tools are: {names}." if names else "There are no tools."

    # --- who decides ---

    async def _decide(self, tool: AgentTool, call: ToolCall) -> Decision:
        """Ask the hooks, and then whoever approves; what was decided before counts as approval."""
        said = await self._policy.hooks.decide(call, self._policy.complain)
        if isinstance(said, Deny) or (isinstance(said, Defer) and self._decision is None):
            return said
        if isinstance(said, Edit):
            call = structs.replace(call, arguments=said.arguments)
        asked = await self._ask(tool, call)
        return said if isinstance(asked, Allow) and isinstance(said, Edit) else asked

    async def _ask(self, tool: AgentTool, call: ToolCall) -> Decision:
        approve, decision = self._policy.approve, self._decision
        if decision is None:
            if approve is None and tool.needs_approval:
                decision = Deny(no_approver(tool.name))
                _LOG.warning("%s", decision.reason)
            elif approve is None or tool.needs_approval is False:
                return Allow()
            else:
                self._policy.emit(ApprovalRequested(call.id, call.name, call.arguments))
                decision = await self._asked(approve, call, tool)
        match decision:
            case Deny(reason):
                self._policy.emit(CallDenied(call.id, call.name, reason))
            case Edit(arguments):
                self._approval = "edited"
                self._policy.emit(CallApproved(call.id, call.name, arguments))
            case Allow():
                self._approval = "approved"
                self._policy.emit(CallApproved(call.id, call.name, call.arguments))
        if self._is_again:
            self._approval = "retried"
        return decision

    async def _asked(self, approve: Approve, call: ToolCall, tool: AgentTool) -> Decision:
        try:
            said = approve(call, tool)
            answer: object = await said if isawaitable(said) else said
        except Exception as exc:  # noqa: BLE001 - nobody could say yes, so it is a no
            self._policy.complain("approval", _words(exc))
            return Deny("nobody could be asked")
        decision = read_decision(answer)
        if decision is not None:
            return decision
        self._policy.complain(
            "approval", f"{answer!r} is no decision: give True, False, Allow, Deny, Edit or Defer"
        )
        return Deny("nobody could be asked")

    # --- what is told ---

    def _show(self, partial: object) -> None:
        """Tell how far the tool is, from its own task or from a thread."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._loop.call_soon_threadsafe(self._emit_update, partial)
        else:
            self._emit_update(partial)

    def _emit_update(self, partial: object) -> None:
        if self._stage == "running":
            shown = make_content(partial)
            self._policy.emit(ToolUpdated(self.call.id, self.call.name, shown))

    def _tell_start(self, arguments: dict[str, Any]) -> None:
        if not self._is_told:
            self._is_told = True
            self._policy.emit(ToolStarted(self.call.id, self.call.name, arguments))

    async def _end(self, output: ToolOutput) -> None:
        call, has_run = self.call, self._stage == "running"
        self._tell_start(call.arguments)  # also of one that was refused
        result = ToolResult(call.id, call.name, output.content, output.is_error)
        details = None if output.details is None else make_content(output.details)
        self._stage = "ending"
        if has_run:
            result = await self._changed(result)
        self._stage, self.result = "over", result
        await self._policy.conversation.end_call(result)
        self._policy.emit(ToolEnded(call.id, call.name, result, details))

    async def _changed(self, result: ToolResult) -> ToolResult:
        """Show what a tool gave back to the hooks; whose call it is they cannot change."""
        try:
            changed = await self._policy.hooks.ask("tool_result", result, self._policy.complain)
        except asyncio.CancelledError:
            if not self._stopped and is_cancelled():
                raise
            # A hook may have been about to hide something: without its word nothing is shown.
            return structs.replace(result, content=CALL_ABORTED, is_error=True)
        if not isinstance(changed, ToolResult):
            return result
        return structs.replace(changed, id=result.id, name=result.name)


def _output(value: object) -> ToolOutput:
    if isinstance(value, ToolOutput):
        return structs.replace(value, content=make_content(value))
    return ToolOutput(make_content(value))


def _denied(reason: str) -> str:
    return f"The call was denied: {reason}" if reason else "The call was denied."


def _words(exc: BaseException) -> str:
    return f"{type(exc).__name__}: {exc}"


# The calls of one answer: which run, when, and what the model is told of each.
#
# Shared tools run side by side; an exclusive one waits for all calls before it, and all after
# it wait for it. Whatever order they end in, their results are given in the order of the calls.
# Every call has a task of its own, so one can be stopped and the others continue; what a tool had
# given back by then is kept.
#
# A call that does not run has a result too, which says why: an unknown tool, arguments that do
# not fit, a no, a message of the user's that came first, an answer that broke.


SKIPPED: Final = "Skipped due to queued user message."
INTERRUPTED: Final = (
    "The call was interrupted: it had begun when the process ended, and its outcome is unknown. It"
    " may have taken effect, in full or in part. It was not run again."
)
CUT: Final = "The call was cut off before its arguments were complete, so it was not run."


class ToolCallBatch:
    """The calls of one answer, as far as they have been started."""

    def __init__(self, policy: ToolPolicy, decisions: Resolutions | None = None) -> None:
        self._policy = policy
        self._decisions = decisions or {}
        self._runs: list[ToolExecution] = []
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
        run = ToolExecution(
            call, tool, self._policy, _decision(said), is_again=isinstance(said, Retry)
        )
        self._runs.append(run)
        run.start(before)
        if self._stopped:
            run.stop(self._stopped)

    def refuse(self, call: ToolCall, reason: str) -> None:
        """Answer *call* with *reason* in place of running it."""
        self.give(call, ToolOutput(reason, is_error=True))

    def give(self, call: ToolCall, output: ToolOutput) -> None:
        """Answer *call* with *output* in place of running it."""
        run = ToolExecution(call, None, self._policy)
        self._runs.append(run)
        run.give(output)

    def resume(self, call: ToolCall, *, interrupted: bool) -> None:
        """Go on with *call*, which waited, as was decided.

        One that was *interrupted* runs again only if that was said: it may have done its work.
        """
        said = self._decisions.get(call.id)
        if isinstance(said, ToolOutput):
            self.give(call, ToolOutput(make_content(said), said.is_error))
        elif not interrupted or isinstance(said, Retry):
            self.start(call)
        elif isinstance(said, Defer):
            run = ToolExecution(call, None, self._policy)
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
        """Wait for all that was started; return what came of it, in the order of the calls."""
        await self._wait()
        place = {call.id: number for number, call in enumerate(message.tool_calls)}
        results = [run.result for run in self._runs if run.result is not None]
        # With eager tools a call that was cut is refused after those that have run.
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
        """Return whether *call* was started."""
        return self._find(call) is not None

    def _find(self, call: ToolCall) -> ToolExecution | None:
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
    """Return what was decided before a call is looked at again."""
    if isinstance(said, Retry):
        return Allow() if said.arguments is None else Edit(said.arguments)
    return read_decision(said)
