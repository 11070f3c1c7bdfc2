"""Sub-agents: an agent as a tool of another.

A call gives the sub-agent a task, and its last response is the result. Each call has an agent of
its own, so calls can run in parallel, and a sub-agent knows only its task. What it does is shown as
updates of the call. When the parent is aborted or steered, the sub-agent is aborted, and what it
spent counts for the parent in any case.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from penstock import _json
from penstock.agent.agent import Agent
from penstock.agent.events import AgentEvent, MessageUpdated, ToolEnded, ToolStarted
from penstock.agent.tools.base import AgentTool, ToolContext, ToolOutput
from penstock.apis.history import content_text
from penstock.errors import PenstockError, ToolError, shorten
from penstock.events import TextDelta, TextEnd
from penstock.messages import Usage
from penstock.tools import Tool

MAX_DEPTH: Final = 5
"""How deep sub-agents may start sub-agents."""

MAX_LINES: Final = 20
"""How many lines of its work are shown while a sub-agent runs."""

MAX_LINE: Final = 200
"""How many characters of each line are shown."""

OnEvent = Callable[[str, AgentEvent], object]
"""Receives the id of the call and each event of the sub-agent."""

_DEPTH: Final[ContextVar[int]] = ContextVar("_DEPTH", default=0)


def agent_tool(
    make: Callable[[], Agent[Any]],
    name: str,
    description: str,
    *,
    needs_approval: bool | None = None,
    on_event: OnEvent | None = None,
) -> AgentTool:
    """Return a tool that gives a task to the agent that *make* returns.

    *make* is called for each call: a new agent per call has a conversation of its own.
    *description* says what the sub-agent is for. Calls of its tools are approved by its own
    approver; a decision that it defers fails the call. *on_event* receives its events, besides the
    updates of the call.
    """

    async def run(arguments: dict[str, Any], context: ToolContext[Any]) -> ToolOutput:
        return await _run_task(make, arguments["task"], context, on_event)

    task = {"type": "string", "description": "The task, with all that is needed to do it."}
    schema = {"type": "object", "properties": {"task": task}, "required": ["task"]}
    return AgentTool(Tool(name, description, schema), run, needs_approval=needs_approval)


async def _run_task(
    make: Callable[[], Agent[Any]], task: str, context: ToolContext[Any], on_event: OnEvent | None
) -> ToolOutput:
    depth = _DEPTH.get()
    if depth >= MAX_DEPTH:
        raise ToolError(f"Sub-agents are nested more than {MAX_DEPTH} deep.")
    _DEPTH.set(depth + 1)  # in the task of this call, which the run inherits
    agent = make()
    before = agent.usage
    progress = _Progress(context)
    try:
        # A cancelled call leaves the block, which aborts the run and waits for its end.
        async with agent.run(task) as run:
            async for event in run:
                progress.add(event)
                if on_event is not None:
                    on_event(context.id, event)
            result = await run
    except PenstockError as exc:
        raise ToolError(f"The sub-agent failed: {exc}") from exc
    finally:
        context.spend(_subtract(agent.usage, before), agent.model.name)
    if result.error is not None:
        return ToolOutput(f"The sub-agent failed: {result.error.message}", is_error=True)
    if agent.deferred:
        names = ", ".join(call.name for call in agent.deferred)
        return ToolOutput(f"The sub-agent waits for approval of: {names}.", is_error=True)
    return ToolOutput(result.text)


def _subtract(usage: Usage, before: Usage) -> Usage:
    """Return what was spent since *before*: an agent may be used more than once."""
    return Usage(
        input=usage.input - before.input,
        output=usage.output - before.output,
        cache_read=usage.cache_read - before.cache_read,
        cache_write=usage.cache_write - before.cache_write,
        reasoning=usage.reasoning - before.reasoning,
        total=usage.total - before.total,
    )


class _Progress:
    """Shows the work of a sub-agent as updates: its calls, their results and its text."""

    def __init__(self, context: ToolContext[Any]) -> None:
        self._context = context
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._text = ""

    def add(self, event: AgentEvent) -> None:
        """Add a line for *event*, if it is one that people want to see."""
        match event:
            case ToolStarted(name=name, arguments=arguments):
                self._lines.append(f"{name} {_json.encode(arguments).decode()}"[:MAX_LINE])
            case ToolEnded(result=result):
                first = content_text(result.content).strip().partition("\n")[0]
                self._lines.append(f"  → {shorten(first, MAX_LINE)}")
            case MessageUpdated(event=TextDelta(text=text)):
                self._text = (self._text + text)[-MAX_LINE:]
            case MessageUpdated(event=TextEnd(text=text)):
                self._text = ""
                self._lines.extend(shorten(line, MAX_LINE) for line in text.strip().split("\n"))
            case _:
                return
        self._context.update("\n".join([*self._lines, self._text]).strip())
