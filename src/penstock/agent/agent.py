"""`Agent`: a model, tools, and a conversation between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextvars import ContextVar, copy_context
from typing import Any, Final, Literal, Protocol, TypeVar

from penstock.agent.approval import Approve, Resolutions, check_resolution, read_approve
from penstock.agent.cancellation import CancelToken, shielded
from penstock.agent.compactor import Compacting
from penstock.agent.conversation import Conversation, Recorder
from penstock.agent.hooks import Hooks
from penstock.agent.loop import Loop, MessageQueue, Order
from penstock.agent.recovery import AgentRetry, Compaction, Spending
from penstock.agent.run import AgentRun
from penstock.agent.settings import MAX_TURNS, AgentSettings
from penstock.agent.subscribers import EventQueue, Subscriber
from penstock.agent.tools.base import AgentTool
from penstock.agent.tools.functions import ToolLike, read_agent_tools
from penstock.agent.watch import Watch
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, ToolCall, Usage
from penstock.models.base import Model
from penstock.request import Message, MessageLike, Request, UserMessage, read_message

T = TypeVar("T")

Said = str | UserMessage | Mapping[str, Any]
"""One thing that a user says: a text, a message, or a dict in OpenAI's shape."""

Prompt = Said | Iterable[Said]
"""What an agent is asked: one thing, or several."""

_WITHIN: Final[ContextVar[tuple[_Work, ...]]] = ContextVar("_WITHIN", default=())
"""The work that the current task is part of: as one of its tools, hooks or approvals."""


class AgentBusyError(UsageError):
    """The agent works on something: wait for it, steer it, or abort it."""


class Agent:
    """Answers prompts with *model*, and runs the *tools* that it calls.

    *tools* are functions, `AgentTool`s, or pairs of a description and something to call.

    * *approve* is asked about each call, but for tools that do not ask; ``"all"`` approves every
      call. Without it, tools that need approval are denied: a shell, changes to files, MCP servers.
      *guards* read each response as it arrives and may stop it: stream rules, the edit guard.
    * *retry* says how an answer that failed in passing is retried, and *compaction* how
      long a conversation may grow; without it, it is never summed up.
    * *eager* starts a tool as soon as its own call is complete. *steering* says whether a message
      of `steer` stops tools that run (``now``) or waits (``later``), and *order* whether waiting
      messages are said one a turn or all at once.
    * *request* is what every request begins as: temperature, limits, reasoning.

    One run at a time. Raises `UsageError` for what cannot be.
    """

    def __init__(  # noqa: PLR0913 - each is an option of its own, and has a default
        self,
        model: Model,
        tools: Iterable[ToolLike] = (),
        system: str = "",
        *,
        messages: Iterable[MessageLike] = (),
        request: Request | None = None,
        approve: Approve | Literal["all"] | None = None,
        guards: Iterable[Watch] = (),
        retry: AgentRetry | None = None,
        compaction: Compaction | None = None,
        eager: bool = False,
        steering: Literal["now", "later"] = "now",
        order: Order = "one",
        max_turns: int = MAX_TURNS,
    ) -> None:
        self._setup = AgentSettings(
            model,
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
        )
        self._conversation = Conversation(map(read_message, messages))
        self._steering = MessageQueue(order)
        self._follow_ups = MessageQueue(order)
        self._work: _Work | None = None
        self._task: asyncio.Task[Any] | None = None

    # --- what it is ---

    @property
    def model(self) -> Model:
        """Who answers; may be another from the next run on."""
        return self._setup.model

    @model.setter
    def model(self, model: Model) -> None:
        self._check_idle()
        self._setup.model = model

    @property
    def tools(self) -> list[AgentTool]:
        """What it can run."""
        return list(self._setup.tools)

    @tools.setter
    def tools(self, tools: Iterable[ToolLike]) -> None:
        self._check_idle()
        self._setup.tools = read_agent_tools(tools)

    @property
    def system(self) -> str:
        """What the model is told before everything else."""
        return self._setup.system

    @system.setter
    def system(self, system: str) -> None:
        self._check_idle()
        self._setup.system = system

    @property
    def guards(self) -> tuple[Watch, ...]:
        """The guards that read each response as it arrives."""
        return self._setup.guards

    @property
    def hooks(self) -> Hooks:
        """Where extensions take part."""
        return self._setup.hooks

    @property
    def messages(self) -> list[Message]:
        """The conversation, as the model is shown it."""
        return self._conversation.messages

    @messages.setter
    def messages(self, messages: Iterable[MessageLike]) -> None:
        self._check_idle()
        self._conversation.messages = [read_message(one) for one in messages]
        self._conversation.interrupted = []

    @property
    def recorder(self) -> Recorder | None:
        """Who writes the conversation down."""
        return self._conversation.recorder

    @recorder.setter
    def recorder(self, recorder: Recorder | None) -> None:
        self._check_idle()
        self._conversation.recorder = recorder

    @property
    def spending(self) -> Spending:
        """What was taken so far: by answers, by those that failed, and by summaries."""
        return self._conversation.spending

    @property
    def usage(self) -> Usage:
        """All that was taken so far."""
        return self.spending.usage

    @property
    def busy(self) -> bool:
        """Whether a run continues."""
        return self._task is not None and not self._task.done()

    @property
    def deferred(self) -> list[ToolCall]:
        """The calls that wait for a decision; `proceed` takes it."""
        waiting = [] if self.busy else self._conversation.unanswered
        return [call for call in waiting if not self._conversation.is_interrupted(call)]

    @property
    def interrupted(self) -> list[ToolCall]:
        """The calls that had begun when their process ended, with what they began with.

        Nobody knows what became of them, and none runs again by itself: `proceed` takes a `Retry`
        or a result (`ToolOutput`) for each; one without is told the model as unknown.
        """
        return [] if self.busy else list(self._conversation.interrupted)

    @interrupted.setter
    def interrupted(self, calls: Iterable[ToolCall]) -> None:
        self._check_idle()
        self._conversation.interrupted = list(calls)

    # --- runs ---

    def run(self, prompt: Prompt) -> AgentRun:
        """Begin to work on *prompt*.

        Raises `AgentBusyError` while a run continues, and `UsageError` for what is not a prompt.
        """
        prompts = [_read(one) for one in _each(prompt)]
        if not prompts:
            raise UsageError("a prompt is at least one message")
        return self._start(prompts, None)

    def proceed(self, decisions: Resolutions | None = None) -> AgentRun:
        """Go on where the conversation stands: with *decisions* about calls that wait, by id.

        A decision is what `approve` may return, or the result of the call as a `ToolOutput`; a call
        that was interrupted takes a `Retry` or a result.

        Raises `UsageError` for what is not a decision, and where there is nothing to continue from:
        an empty conversation, or one in which the model had the last word and no message waits.
        """
        self._check_idle()
        decisions = decisions or {}
        waiting = self._conversation.waiting
        for call in waiting:
            if call.id in decisions:
                was = self._conversation.is_interrupted(call)
                check_resolution(call, decisions[call.id], interrupted=was)
        last = self.messages[-1] if self.messages else None
        has_word = last is None or isinstance(last, AssistantMessage)
        if has_word and not waiting and not self.queued:
            raise UsageError("there is nothing to go on from: no message waits")
        return self._start([], decisions)

    def steer(self, message: Said) -> None:
        """Say *message* as soon as the run can hear it; tools that still run may be stopped."""
        self._steering.put(_read(message))
        if self.busy and self._work is not None:
            self._work.steer()

    def follow_up(self, message: Said) -> None:
        """Say *message* when the run would otherwise end."""
        self._follow_ups.put(_read(message))

    @property
    def queued(self) -> int:
        """How many messages wait to be said."""
        return len(self._steering) + len(self._follow_ups)

    def clear_queues(self) -> list[UserMessage]:
        """Take back the messages that wait."""
        return self._steering.clear() + self._follow_ups.clear()

    async def abort(self) -> None:
        """End the run: when this returns, nothing of it runs any more.

        Called from one of the run's own tools or hooks it returns at once, for the run cannot end
        before they do.
        """
        if not self.busy or self._work is None or self._task is None:
            return
        self._work.stop()
        if self._work not in _WITHIN.get():
            await asyncio.wait({self._task})

    async def compact(self) -> bool:
        """Sum the conversation up now; return whether it is shorter.

        The agent is busy meanwhile. Raises `AgentBusyError` while a run continues.
        """
        chore = _Chore()
        compacting = Compacting(self._setup, self._conversation, chore.interrupt)
        task = self._begin(chore, compacting.compact("asked"), None)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await shielded(self.abort())
            raise

    def subscribe(self, tell: Subscriber) -> Callable[[], None]:
        """Return *tell* of every event from now on; return what ends that."""
        subscription = self._conversation.subscribe(tell)
        return lambda: self._conversation.unsubscribe(subscription)

    async def drained(self) -> None:
        """Wait until every subscriber has been told everything."""
        await self._conversation.drained()

    def _start(self, prompts: list[UserMessage], decisions: Resolutions | None) -> AgentRun:
        self._check_idle()
        loop = Loop(self._setup, self._conversation, self._steering, self._follow_ups)
        outlet = EventQueue()
        task = self._begin(loop, loop.run(prompts, decisions), outlet)
        task.add_done_callback(lambda _: outlet.end())
        return AgentRun(task, outlet, self.abort)

    def _begin(
        self, work: _Work, doing: Coroutine[Any, Any, T], outlet: EventQueue | None
    ) -> asyncio.Task[T]:
        """Do *work* in a task of its own."""
        try:
            self._check_idle()
            running = asyncio.get_running_loop()
        except (UsageError, RuntimeError):
            doing.close()
            raise
        self._conversation.outlet = outlet
        self._work = work
        context = copy_context()
        context.run(_WITHIN.set, (*_WITHIN.get(), work))
        self._task = task = running.create_task(doing, context=context)
        return task

    def _check_idle(self) -> None:
        if self.busy:
            raise AgentBusyError("the agent is busy: wait for its run, steer it, or abort it")


class _Work(Protocol):
    """What an agent is busy with."""

    def stop(self) -> None: ...
    def steer(self) -> None: ...


class _Chore:
    """Something that the agent does beside its runs."""

    def __init__(self) -> None:
        self.interrupt = CancelToken()

    def stop(self) -> None:
        """End it."""
        self.interrupt.fire()

    def steer(self) -> None:
        """Let the message wait: there is nothing to be steered."""


def _each(prompt: Prompt) -> Iterable[Said]:
    if isinstance(prompt, Iterable) and not isinstance(prompt, str | bytes | Mapping):
        return prompt
    return [prompt]


def _read(said: Said) -> UserMessage:
    message = read_message(said)
    if not isinstance(message, UserMessage):
        raise UsageError(f"a prompt is the user's, not a {type(message).__name__}")
    return message
