"""`Agent`: a model, tools, and a conversation between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextvars import ContextVar, copy_context
from os import PathLike
from types import UnionType
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, overload

from penstock.agent.approval import Approve, Resolutions, check_resolution, read_approve
from penstock.agent.cancellation import CancelToken, shielded
from penstock.agent.compaction import Compactor
from penstock.agent.conversation import Conversation, Recorder
from penstock.agent.hooks import Guard, Hooks
from penstock.agent.loop import Loop, MessageQueue, Order
from penstock.agent.output import Output
from penstock.agent.run import AgentRun, OutputT, RunResult
from penstock.agent.settings import MAX_TURNS, AgentRetry, AgentSettings, Compaction, RunLimits
from penstock.agent.subscribers import EventQueue, Subscriber
from penstock.agent.tokens import Spending
from penstock.agent.tools.base import AgentTool
from penstock.agent.tools.functions import ToolLike, read_agent_tools
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, ToolCall, Usage
from penstock.models.base import Model
from penstock.models.catalog import ModelFacts, read_catalog
from penstock.models.named import open_model
from penstock.models.telemetry import Telemetry
from penstock.request import Message, MessageLike, Request, UserMessage, read_message
from penstock.streams import refuse_running_loop

T = TypeVar("T")

UserInput = str | UserMessage | Mapping[str, Any]
"""One message of a user: text, a message, or a dict in OpenAI's shape."""

Prompt = UserInput | Iterable[UserInput]
"""A prompt: one message, or several."""

# The work that the current task is part of, as one of its tools, hooks or approvals.
_CURRENT_WORK: Final[ContextVar[tuple[_Work, ...]]] = ContextVar("_CURRENT_WORK", default=())


class AgentBusyError(UsageError):
    """The agent is busy: wait for its run, steer it, or abort it."""


class Agent(Generic[OutputT]):
    """Responds to prompts with *model*, and runs the *tools* that it calls.

    *model* is a model, or the name of one, as `open_model` reads it: ``"ollama:qwen3:8b"``. *tools*
    are functions, `AgentTool`s, or pairs of a description and a function. *output* is the type of
    the output, or an `Output` with its options; without it, the output is text.

    * *approve* decides about each call, except for tools that need no approval; ``"all"`` approves
      every call. Without it, tools that need approval are denied: a shell, changes to files, MCP
      servers. *guards* read each response as it arrives and may stop it: stream rules, the edit
      guard.
    * *retry* says how a response that failed with a transient error is retried, and *compaction*
      how long a conversation may become; without it, it is never summarized.
    * *eager* starts a tool as soon as its own call is complete. *steering* says whether a message
      of `steer` stops running tools (``now``) or waits for them (``later``), and *order* whether
      queued messages are added one per turn or all at once.
    * *limits* is how much a run may use, and *max_turns* how many turns without a limit of its own.
      *fallback* are models that respond if *model* fails before any content of its response.
      *catalog* has windows and prices of models that the package does not know: a dict or a TOML
      file. *deps* is passed to tools as `ToolContext.deps`, and *telemetry* records spans and
      metrics.
    * *request* is the template of every request: temperature, limits, reasoning.

    An agent has one run at a time. Raises `UsageError` for invalid options.
    """

    @overload
    def __init__(
        self: Agent[str],
        model: Model | str,
        tools: Iterable[ToolLike] = (),
        system: str = "",
        *,
        output: None = None,
        messages: Iterable[MessageLike] = (),
        request: Request | None = None,
        approve: Approve | Literal["all"] | None = None,
        guards: Iterable[Guard] = (),
        retry: AgentRetry | None = None,
        compaction: Compaction | None = None,
        eager: bool = False,
        steering: Literal["now", "later"] = "now",
        order: Order = "one",
        max_turns: int = MAX_TURNS,
        limits: RunLimits | None = None,
        fallback: Iterable[Model | str] = (),
        catalog: Mapping[str, ModelFacts] | str | PathLike[str] | None = None,
        deps: object = None,
        telemetry: Telemetry | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        model: Model | str,
        tools: Iterable[ToolLike] = (),
        system: str = "",
        *,
        output: type[OutputT] | Output[OutputT] | UnionType | Mapping[str, Any],
        messages: Iterable[MessageLike] = (),
        request: Request | None = None,
        approve: Approve | Literal["all"] | None = None,
        guards: Iterable[Guard] = (),
        retry: AgentRetry | None = None,
        compaction: Compaction | None = None,
        eager: bool = False,
        steering: Literal["now", "later"] = "now",
        order: Order = "one",
        max_turns: int = MAX_TURNS,
        limits: RunLimits | None = None,
        fallback: Iterable[Model | str] = (),
        catalog: Mapping[str, ModelFacts] | str | PathLike[str] | None = None,
        deps: object = None,
        telemetry: Telemetry | None = None,
    ) -> None: ...

    def __init__(  # noqa: PLR0913 - each is an independent option with a default
        self,
        model: Model | str,
        tools: Iterable[ToolLike] = (),
        system: str = "",
        *,
        output: Any = None,
        messages: Iterable[MessageLike] = (),
        request: Request | None = None,
        approve: Approve | Literal["all"] | None = None,
        guards: Iterable[Guard] = (),
        retry: AgentRetry | None = None,
        compaction: Compaction | None = None,
        eager: bool = False,
        steering: Literal["now", "later"] = "now",
        order: Order = "one",
        max_turns: int = MAX_TURNS,
        limits: RunLimits | None = None,
        fallback: Iterable[Model | str] = (),
        catalog: Mapping[str, ModelFacts] | str | PathLike[str] | None = None,
        deps: object = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._settings = AgentSettings(
            _read_model(model),
            read_agent_tools(tools),
            system,
            request or Request(),
            read_approve(approve),
            tuple(guards),
            retry or AgentRetry(),
            compaction,
            eager,
            steering,
            max_turns,
            _read_output(output),
            limits or RunLimits(),
            read_catalog(catalog) if isinstance(catalog, str | PathLike) else dict(catalog or {}),
            tuple(map(_read_model, fallback)),
            deps,
            telemetry or Telemetry(),
        )
        self._conversation = Conversation(map(read_message, messages))
        self._steering = MessageQueue(order)
        self._follow_ups = MessageQueue(order)
        self._work: _Work | None = None
        self._task: asyncio.Task[Any] | None = None

    # --- properties ---

    @property
    def model(self) -> Model:
        """The model; can be changed between runs."""
        return self._settings.model

    @model.setter
    def model(self, model: Model) -> None:
        self._check_idle()
        self._settings.model = model
        # Modes of typed output that a server refused are remembered per model.
        self._settings.refused_modes = set()

    @property
    def tools(self) -> list[AgentTool]:
        """The tools; can be changed between runs."""
        return list(self._settings.tools)

    @tools.setter
    def tools(self, tools: Iterable[ToolLike]) -> None:
        self._check_idle()
        self._settings.tools = read_agent_tools(tools)

    @property
    def system(self) -> str:
        """The system prompt; can be changed between runs."""
        return self._settings.system

    @system.setter
    def system(self, system: str) -> None:
        self._check_idle()
        self._settings.system = system

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The guards that read each response as it arrives."""
        return self._settings.guards

    @property
    def hooks(self) -> Hooks:
        """The hooks of extensions."""
        return self._settings.hooks

    @property
    def messages(self) -> list[Message]:
        """The conversation as it is sent to the model; can be replaced between runs."""
        return self._conversation.messages

    @messages.setter
    def messages(self, messages: Iterable[MessageLike]) -> None:
        self._check_idle()
        self._conversation.messages = [read_message(one) for one in messages]
        self._conversation.interrupted = []

    @property
    def recorder(self) -> Recorder | None:
        """Records the conversation."""
        return self._conversation.recorder

    @recorder.setter
    def recorder(self, recorder: Recorder | None) -> None:
        self._check_idle()
        self._conversation.recorder = recorder

    @property
    def spending(self) -> Spending:
        """The tokens spent so far: on responses, on failures and on summaries."""
        return self._conversation.spending

    @property
    def usage(self) -> Usage:
        """The sum of all tokens spent so far."""
        return self.spending.usage

    @property
    def busy(self) -> bool:
        """Whether a run or a compaction is in progress."""
        return self._task is not None and not self._task.done()

    @property
    def deferred(self) -> list[ToolCall]:
        """The calls that wait for a decision, which `resume` takes."""
        waiting = [] if self.busy else self._conversation.unanswered_calls
        return [call for call in waiting if not self._conversation.is_interrupted(call)]

    @property
    def interrupted(self) -> list[ToolCall]:
        """The calls that were running when their process ended, with the arguments they ran with.

        Their outcome is unknown, and none runs again by default: `resume` takes a `Retry` or a
        result (`ToolOutput`) for each. The model is notified that the others are unknown.
        """
        return [] if self.busy else list(self._conversation.interrupted)

    @interrupted.setter
    def interrupted(self, calls: Iterable[ToolCall]) -> None:
        self._check_idle()
        self._conversation.interrupted = list(calls)

    # --- runs ---

    def run(self, prompt: Prompt, *, deps: object = None) -> AgentRun[OutputT]:
        """Start to work on *prompt*; *deps* replaces the dependencies of the agent's tools.

        Raises `AgentBusyError` during another run, and `UsageError` for an invalid prompt.
        """
        if isinstance(prompt, str | UserMessage | Mapping) or not isinstance(prompt, Iterable):
            prompt = [prompt]
        prompts = [_read_input(one) for one in prompt]
        if not prompts:
            raise UsageError("the prompt is empty: pass at least one message")
        return self._start_run(prompts, None, deps)

    def run_sync(self, prompt: Prompt, *, deps: object = None) -> RunResult[OutputT]:
        """Work on *prompt* to the end, for code without an event loop.

        Raises `UsageError` if an event loop is running: use ``await agent.run(…)`` there.
        """
        # `asyncio.run` inside a loop raises, too, but after the coroutine was created, with a
        # message that names neither the agent nor the way out.
        refuse_running_loop("use `await agent.run(…)`")

        async def run() -> RunResult[OutputT]:
            result = await self.run(prompt, deps=deps)
            # Otherwise `asyncio.run` cancels the subscribers' task with events still queued.
            await self.drain()
            return result

        return asyncio.run(run())

    def resume(
        self, decisions: Resolutions | None = None, *, deps: object = None
    ) -> AgentRun[OutputT]:
        """Continue where the conversation ended, with *decisions* about calls that wait, by id.

        A decision is what `approve` may return, or the result of the call as a `ToolOutput`; an
        interrupted call takes a `Retry` or a result.

        Raises `UsageError` for an invalid decision, and if there is nothing to continue from: the
        conversation is empty or ends with a response, and no message is queued.
        """
        self._check_idle()
        decisions = decisions or {}
        waiting = self._conversation.waiting_calls
        for call in waiting:
            if call.id in decisions:
                interrupted = self._conversation.is_interrupted(call)
                check_resolution(call, decisions[call.id], interrupted=interrupted)
        last = self.messages[-1] if self.messages else None
        is_finished = last is None or isinstance(last, AssistantMessage)
        if is_finished and not waiting and not self.queued:
            raise UsageError("there is nothing to resume: no message and no call waits")
        return self._start_run([], decisions, deps)

    def steer(self, message: UserInput) -> None:
        """Add *message* as soon as possible; running tools may be stopped for it."""
        self._steering.put(_read_input(message))
        if self.busy and self._work is not None:
            self._work.steer()

    def follow_up(self, message: UserInput) -> None:
        """Add *message* when the run would otherwise end."""
        self._follow_ups.put(_read_input(message))

    @property
    def queued(self) -> int:
        """The number of queued messages."""
        return len(self._steering) + len(self._follow_ups)

    def clear_queues(self) -> list[UserMessage]:
        """Remove and return the queued messages."""
        return self._steering.clear() + self._follow_ups.clear()

    async def abort(self) -> None:
        """End the run; nothing of it runs any more when this returns.

        Called from one of the run's own tools or hooks it returns at once, because the run cannot
        end before they do.
        """
        if not self.busy or self._work is None or self._task is None:
            return
        # When this returns, nothing of the run is left: no task, connection or child process.
        self._work.stop()
        if self._work not in _CURRENT_WORK.get():
            await asyncio.wait({self._task})

    async def compact(self) -> bool:
        """Summarize the conversation now; return whether it is shorter.

        The agent is busy meanwhile. Raises `AgentBusyError` during a run.
        """
        work = _CompactionWork()
        compactor = Compactor(self._settings, self._conversation, work.cancel)
        task = self._start(work, compactor.compact("asked"), None)
        try:
            # A cancelled caller must not leave a half-written summary; the abort below ends it in
            # order.
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await shielded(self.abort())
            raise

    def subscribe(self, receive: Subscriber) -> Callable[[], None]:
        """Pass every event from now on to *receive*; return a function that ends this."""
        subscription = self._conversation.subscribe(receive)
        return lambda: self._conversation.unsubscribe(subscription)

    async def drain(self) -> None:
        """Wait until the subscribers have received all events so far."""
        await self._conversation.drain()

    def _start_run(
        self, prompts: list[UserMessage], decisions: Resolutions | None, deps: object
    ) -> AgentRun[OutputT]:
        self._check_idle()
        loop = Loop(self._settings, self._conversation, self._steering, self._follow_ups, deps)
        queue = EventQueue()
        task = self._start(loop, loop.run(prompts, decisions), queue)
        task.add_done_callback(lambda _: queue.end())
        return AgentRun(task, queue, self.abort)

    def _start(
        self, work: _Work, coroutine: Coroutine[Any, Any, T], queue: EventQueue | None
    ) -> asyncio.Task[T]:
        """Run *coroutine* in a task, as the current *work* of the agent."""
        try:
            self._check_idle()
            running = asyncio.get_running_loop()
        # An unawaited coroutine would be reported by asyncio.
        except (UsageError, RuntimeError):
            coroutine.close()
            raise
        self._conversation.queue = queue
        self._work = work
        # Tools, hooks and approvers run in tasks that inherit this context. So `abort` knows if it
        # is called from inside the run, and must not wait for it.
        context = copy_context()
        context.run(_CURRENT_WORK.set, (*_CURRENT_WORK.get(), work))
        self._task = task = running.create_task(coroutine, context=context)
        return task

    def _check_idle(self) -> None:
        if self.busy:
            raise AgentBusyError("the agent is busy: wait for its run, steer it, or abort it")


class _Work(Protocol):
    """What an agent is busy with: a run or a compaction."""

    def stop(self) -> None: ...
    def steer(self) -> None: ...


class _CompactionWork:
    """A compaction outside of a run."""

    def __init__(self) -> None:
        self.cancel = CancelToken()

    def stop(self) -> None:
        """Abort it."""
        self.cancel.fire()

    def steer(self) -> None:
        """Do nothing: the message waits for the next run."""


def _read_model(given: Model | str) -> Model:
    return open_model(given) if isinstance(given, str) else given


def _read_output(given: Any) -> Output[Any] | None:
    """Return the type of the output; None for text."""
    if given is None or given is str or isinstance(given, Output):
        return given if isinstance(given, Output) else None
    return Output(given)


def _read_input(value: UserInput) -> UserMessage:
    message = read_message(value)
    if not isinstance(message, UserMessage):
        raise UsageError(f"expected a message of the user, got a {type(message).__name__}")
    return message
