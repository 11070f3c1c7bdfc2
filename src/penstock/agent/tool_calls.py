"""Execution of tool calls: one call (`ToolExecution`), and all calls of a response.

A call is validated by its schema, decided about, run and reported. Whatever happens, it ends with a
result for the model, unless the decision about it is deferred. It can be stopped at every stage. A
tool may stop its own call (by aborting its run): then the call ends at its next wait.
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
    explain_denial,
    explain_missing_approver,
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
from penstock.agent.hooks import Hooks, ReportError
from penstock.agent.tools.base import AgentTool, ToolContext, ToolOutput
from penstock.agent.tools.results import make_content
from penstock.agent.tools.validate import prepare
from penstock.errors import ToolError, describe_exception
from penstock.messages import AssistantMessage, ToolCall, ToolResult
from penstock.models.telemetry import Telemetry

CALL_ABORTED: Final = "Tool execution was aborted."
SKIPPED: Final = "Skipped due to queued user message."
CUT_OFF: Final = "The call was cut off before its arguments were complete, so it was not run."
NOT_RECORDED: Final = "The call was not run, because its start could not be recorded: {reason}"
INTERRUPTED: Final = (
    "The call was interrupted: it was running when the process ended, and its outcome is unknown."
    " It may have taken effect, in full or in part. It was not run again."
)
NO_APPROVAL: Final = "approval failed"

_LOG: Final = getLogger("penstock.agent")

Emit = Callable[[AgentEvent], None]
"""Emits an event."""

Stage = Literal["waiting", "deciding", "running", "ending", "ended"]
"""The stage of a call: it waits for others, for a decision, for its tool, or for hooks."""


class ToolPolicy:
    """What all calls of an agent share: the tools, the approver, the hooks, the conversation."""

    def __init__(
        self,
        tools: Mapping[str, AgentTool],
        approve: Approve | None,
        hooks: Hooks,
        conversation: Conversation,
        deps: object = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.tools = tools
        self.deps = deps
        self.telemetry = telemetry or Telemetry()
        self.approve = approve
        self.hooks = hooks
        self.emit: Emit = conversation.emit
        self.report_error: ReportError = conversation.report_error
        self.conversation = conversation


class _Refusal(Exception):  # noqa: N818 - not an error, but the result of a call
    """The call is not run; the message is its result."""


class ToolExecution:
    """One call from its start to its result; *decision* is one that was made before.

    *is_retry* says that the call was interrupted and runs again.
    """

    task: asyncio.Task[None]

    def __init__(
        self,
        call: ToolCall,
        tool: AgentTool | None,
        policy: ToolPolicy,
        decision: Decision | None = None,
        *,
        is_retry: bool = False,
    ) -> None:
        self.call = call
        self.result: ToolResult | None = None
        self.is_deferred = False
        self.has_started = False
        self.is_exclusive = tool is not None and tool.exclusive
        self._tool = tool
        self._policy = policy
        self._decision = decision
        self._approval: Approval = ""
        self._stage: Stage = "waiting"
        self._stop_reason = ""
        self._is_start_emitted = False
        self._is_retry = is_retry
        self._context: ToolContext[Any] = ToolContext(
            call.id, call.name, self._show_update, policy.deps, policy.conversation.spend
        )
        self._loop = asyncio.get_running_loop()

    def start(self, before: list[ToolExecution]) -> None:
        """Start the call; it waits for those of *before* first."""
        waits = [run.task for run in before]
        self.task = self._loop.create_task(self._execute(waits))

    def refuse(self, reason: str) -> None:
        """End the call with *reason* as an error, without running it."""
        self.give(ToolOutput(reason, is_error=True))

    def give(self, output: ToolOutput) -> None:
        """End the call with *output*, without running it."""
        self.is_deferred = False
        self.task = self._loop.create_task(self._end(output))

    def defer(self) -> None:
        """Leave the call without a result."""
        self.is_deferred, self._stage = True, "ended"
        self.task = self._loop.create_task(asyncio.sleep(0))

    def stop(self, reason: str, *, hard: bool = False) -> None:
        """Stop the call at its stage; a call that has its result keeps it.

        A hook that reads the result may finish, unless the stop is *hard*. A tool that is not
        abortable runs to its end.
        """
        is_held = self._stage == "running" and self._tool is not None and not self._tool.abortable
        if is_held or self._stage == "ended" or (self._stage == "ending" and not hard):
            return
        self._stop_reason = self._stop_reason or reason
        self._context.cancelled = True
        if self._stage == "waiting":
            return  # `_execute` checks the reason; a cancelled task would have no result
        if self.task is asyncio.current_task():
            # The tool stopped itself: cancel it unless it has come further by then.
            stage = self._stage
            self._loop.call_soon(lambda: self._stage == stage and self.task.cancel())
        else:
            self.task.cancel()

    # --- stages ---

    async def _execute(self, waits: list[asyncio.Task[None]]) -> None:
        output: ToolOutput | None
        try:
            if waits and not self._stop_reason:
                await asyncio.wait(waits)
            output = await self._run()
        except _Refusal as refusal:
            output = ToolOutput(str(refusal), is_error=True)
        except asyncio.CancelledError:
            # By `stop`, by a tool that cancelled itself, or because the event loop is closing.
            if not self._stop_reason and is_cancelled():
                raise
            output = ToolOutput(self._stop_reason or CALL_ABORTED, is_error=True)
        if output is None:
            self.is_deferred, self._stage = True, "ended"
        else:
            await self._end(output)

    async def _run(self) -> ToolOutput | None:
        """Run the tool and return its output; None if the decision is deferred."""
        call, tool = self.call, self._tool
        self._check_stopped()
        if tool is None:
            raise _Refusal(self._explain_unknown_tool())
        call = _prepare(tool, call)
        self._stage = "deciding"
        match await self._decide(tool, call):
            case Defer():
                return None
            case Deny(reason):
                raise _Refusal(explain_denial(reason))
            case Edit(arguments):
                call = _prepare(tool, structs.replace(call, arguments=arguments))
            case Allow():
                pass
        self._check_stopped()  # the approver may have stopped the run
        # The start is recorded before the tool runs, so that no call runs twice after a crash
        # (decision 14). A call whose start cannot be recorded is not run.
        if reason := await self._policy.conversation.start_call(call, self._approval):
            raise _Refusal(NOT_RECORDED.format(reason=reason))
        self._check_stopped()
        self._stage, self.has_started = "running", True
        self._emit_start(call.arguments)
        with self._policy.telemetry.start_tool(call, tool.tool.description) as span:
            output = await self._call(tool, call.arguments)
            span.finish(output.content, is_error=output.is_error)
            return output

    async def _call(self, tool: AgentTool, arguments: dict[str, Any]) -> ToolOutput:
        limit = asyncio.timeout(tool.timeout)
        try:
            async with limit:
                value = await tool.run(arguments, self._context)
            if isinstance(value, ToolOutput):
                return structs.replace(value, content=make_content(value))
            return ToolOutput(make_content(value))
        except ToolError as exc:
            return ToolOutput(make_content(str(exc)), is_error=True)
        # `SystemExit` of a tool that is a function is a `ToolError` by now.
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        # `TimeoutError` of the limit arrives here as well, and one that the tool raised itself.
        except BaseException as exc:  # noqa: BLE001 - a tool may raise anything
            if limit.expired():
                reason = f"took longer than {tool.timeout:g} seconds and was stopped"
                return ToolOutput(f"Tool {tool.name} {reason}.", is_error=True)
            reason = describe_exception(exc)
            return ToolOutput(f"Tool {tool.name} failed: {reason}", is_error=True)

    def _explain_unknown_tool(self) -> str:
        names = ", ".join(self._policy.tools)
        known = f"The tools are: {names}." if names else "There are no tools."
        return f"Tool {self.call.name} not found. {known}"

    def _check_stopped(self) -> None:
        if self._stop_reason:
            raise _Refusal(self._stop_reason)

    async def _end(self, output: ToolOutput) -> None:
        call, has_run = self.call, self._stage == "running"
        self._emit_start(call.arguments)  # of a refused call too
        result = ToolResult(call.id, call.name, output.content, output.is_error)
        details = None if output.details is None else make_content(output.details)
        self._stage = "ending"
        if has_run:
            result = await self._apply_result_hooks(result)
        self._stage, self.result = "ended", result
        # Recorded before the event, and before other calls of the response have ended.
        await self._policy.conversation.end_call(result)
        self._policy.emit(ToolEnded(call.id, call.name, result, details))

    async def _apply_result_hooks(self, result: ToolResult) -> ToolResult:
        """Pass *result* through the hooks, which cannot change its id and name."""
        policy = self._policy
        try:
            changed = await policy.hooks.run("tool_result", result, policy.report_error)
        except asyncio.CancelledError:
            if not self._stop_reason and is_cancelled():
                raise
            # The hook may have been about to remove something, so nothing is shown.
            return structs.replace(result, content=CALL_ABORTED, is_error=True)
        if not isinstance(changed, ToolResult):
            return result
        return structs.replace(changed, id=result.id, name=result.name)

    # --- decisions ---

    async def _decide(self, tool: AgentTool, call: ToolCall) -> Decision:
        """Ask the hooks, then the approver; an earlier decision counts as approval."""
        hooked = await self._policy.hooks.decide(call, self._policy.report_error)
        # A hook can deny what was approved before, but not defer it again.
        if isinstance(hooked, Deny) or (isinstance(hooked, Defer) and self._decision is None):
            return hooked
        if isinstance(hooked, Edit):
            call = structs.replace(call, arguments=hooked.arguments)
        approved = await self._approve(tool, call)
        return hooked if isinstance(approved, Allow) and isinstance(hooked, Edit) else approved

    async def _approve(self, tool: AgentTool, call: ToolCall) -> Decision:
        emit, approve, decision = self._policy.emit, self._policy.approve, self._decision
        if decision is None:
            if approve is None and tool.needs_approval:
                decision = Deny(explain_missing_approver(tool.name))
                _LOG.warning("%s", decision.reason)
            elif approve is None or tool.needs_approval is False:
                return Allow()
            else:
                emit(ApprovalRequested(call.id, call.name, call.arguments))
                decision = await self._ask_approver(approve, call, tool)
        match decision:
            case Deny(reason):
                emit(CallDenied(call.id, call.name, reason))
            case Edit(arguments):
                self._approval = "edited"
                emit(CallApproved(call.id, call.name, arguments))
            case Allow():
                self._approval = "approved"
                emit(CallApproved(call.id, call.name, call.arguments))
        if self._is_retry:
            self._approval = "retried"
        return decision

    async def _ask_approver(self, approve: Approve, call: ToolCall, tool: AgentTool) -> Decision:
        """Return the decision of *approve*; a call is denied if it fails to decide."""
        try:
            returned = approve(call, tool)
            value: object = await returned if isawaitable(returned) else returned
        except Exception as exc:  # noqa: BLE001 - an approver may raise anything
            self._policy.report_error("approval", describe_exception(exc))
            return Deny(NO_APPROVAL)
        decision = read_decision(value)
        if decision is None:
            expected = "True, False, Allow, Deny, Edit or Defer"
            self._policy.report_error(
                "approval", f"{value!r} is not a decision; expected {expected}"
            )
            return Deny(NO_APPROVAL)
        return decision

    # --- events ---

    def _show_update(self, partial: object) -> None:
        """Emit an update of the tool, from its own task or from a thread."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            # A plain function runs in a thread, where asyncio's queues cannot be used.
            self._loop.call_soon_threadsafe(self._emit_update, partial)
        else:
            self._emit_update(partial)

    def _emit_update(self, partial: object) -> None:
        if self._stage == "running":
            update = ToolUpdated(self.call.id, self.call.name, make_content(partial))
            self._policy.emit(update)

    def _emit_start(self, arguments: dict[str, Any]) -> None:
        if not self._is_start_emitted:
            self._is_start_emitted = True
            self._policy.emit(ToolStarted(self.call.id, self.call.name, arguments))


def _prepare(tool: AgentTool, call: ToolCall) -> ToolCall:
    """Return *call* with validated arguments, or raise `_Refusal`."""
    try:
        return structs.replace(call, arguments=prepare(tool, call))
    except ToolError as exc:
        raise _Refusal(str(exc)) from exc


# --- the calls of a response ---


class ToolCallBatch:
    """The calls of one response, as far as they have been started.

    Shared tools run in parallel. An exclusive tool waits for all calls before it, and all calls
    after it wait for it. Results are returned in the order of the calls. Each call has its own
    task, so that one can be stopped while the others continue.

    A call that is not run has a result too, which says why: an unknown tool, invalid arguments, a
    denial, a message of the user that came first, a response that failed.
    """

    def __init__(self, policy: ToolPolicy, resolutions: Resolutions | None = None) -> None:
        self._policy = policy
        self._resolutions = resolutions or {}
        self._runs: list[ToolExecution] = []
        self._stop_reason = ""

    @property
    def started(self) -> bool:
        """Whether any call was started."""
        return bool(self._runs)

    @property
    def deferred(self) -> list[ToolCall]:
        """The calls whose decision is deferred."""
        return [run.call for run in self._runs if run.is_deferred]

    def has(self, call: ToolCall) -> bool:
        """Return whether *call* was started."""
        return self._find(call) is not None

    def start(self, call: ToolCall) -> None:
        """Run *call* as soon as the calls before it allow."""
        tool = self._policy.tools.get(call.name)
        is_exclusive = tool is not None and tool.exclusive
        before = [run for run in self._runs if is_exclusive or run.is_exclusive]
        resolution = self._resolutions.get(call.id)
        run = ToolExecution(
            call,
            tool,
            self._policy,
            _read_resolution(resolution),
            is_retry=isinstance(resolution, Retry),
        )
        self._runs.append(run)
        run.start(before)
        if self._stop_reason:
            run.stop(self._stop_reason)

    def refuse(self, call: ToolCall, reason: str) -> None:
        """End *call* with *reason* as an error, without running it."""
        self._add(call).refuse(reason)

    def resume(self, call: ToolCall, *, interrupted: bool) -> None:
        """Continue with *call*, which waited, by its resolution.

        An *interrupted* call runs again only with a `Retry`: it may have taken effect.
        """
        resolution = self._resolutions.get(call.id)
        if isinstance(resolution, ToolOutput):
            self._add(call).give(ToolOutput(make_content(resolution), resolution.is_error))
        elif not interrupted or isinstance(resolution, Retry):
            self.start(call)
        elif isinstance(resolution, Defer):
            self._add(call).defer()
        else:
            reason = resolution.reason if isinstance(resolution, Deny) else ""
            self.refuse(call, f"{INTERRUPTED} {reason}".rstrip())

    def stop(self, reason: str, *, hard: bool = False) -> None:
        """Stop the calls that run, and start no more; existing results are kept.

        A *hard* stop does not wait for hooks that read results either.
        """
        self._stop_reason = self._stop_reason or reason
        for run in self._runs:
            run.stop(reason, hard=hard)

    async def results(self, message: AssistantMessage) -> list[ToolResult]:
        """Wait for all started calls; return their results in the order of the calls."""
        await self._wait()
        order = {call.id: number for number, call in enumerate(message.tool_calls)}
        results = [run.result for run in self._runs if run.result is not None]
        # With eager tools, a call that was cut off is refused after those that have run.
        return sorted(results, key=lambda result: order.get(result.id, len(order)))

    async def settle(self, message: AssistantMessage, reason: str) -> list[ToolResult]:
        """Stop; every call of *message* without a result ends with *reason* as an error."""
        self.stop(reason)
        await self._wait()
        for call in message.tool_calls:
            run = self._find(call)
            if run is None:
                self.refuse(call, reason)
            elif run.is_deferred:
                run.refuse(reason)
        return await self.results(message)

    def _add(self, call: ToolCall) -> ToolExecution:
        run = ToolExecution(call, None, self._policy)
        self._runs.append(run)
        return run

    def _find(self, call: ToolCall) -> ToolExecution | None:
        return next((run for run in self._runs if run.call.id == call.id), None)

    async def _wait(self) -> None:
        try:
            while pending := [run.task for run in self._runs if not run.task.done()]:
                await asyncio.wait(pending)
        except asyncio.CancelledError:  # the run's own task: the results are not read
            for run in self._runs:
                run.task.cancel()
            await asyncio.gather(*(run.task for run in self._runs), return_exceptions=True)
            lost = [run.call for run in self._runs if run.has_started and run.result is None]
            self._policy.conversation.interrupted += lost
            raise


def _read_resolution(resolution: Resolution | None) -> Decision | None:
    """Return the decision that *resolution* is for a call that is run."""
    if isinstance(resolution, Retry):
        return Allow() if resolution.arguments is None else Edit(resolution.arguments)
    return read_decision(resolution)
