"""The tools of an agent, from whatever they are given as."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from penstock.agent.tools.base import AgentTool, ToolContext
from penstock.agent.tools.calling import run_call
from penstock.agent.tools.functions import tool
from penstock.agent.tools.hints import context_parameters
from penstock.errors import UsageError
from penstock.tools import Tool

_PAIR: Final = 2

ToolLike = AgentTool | Callable[..., Any] | tuple[Tool | Mapping[str, Any], Callable[..., Any]]
"""What can become a tool: one, a function, or a description in JSON and what it calls."""


def read_agent_tools(items: Iterable[ToolLike | Iterable[ToolLike]]) -> list[AgentTool]:
    """Make tools of *items*, in any mixture; lists inside are opened.

    A pair is a `Tool`, or the JSON of one in any provider's shape, and a function that is called
    with the arguments by name, as they come, and with a `ToolContext` where its hints ask for one.
    Two tools of one name are refused: a call could not tell which is meant.
    """
    tools = list(_each_tool(items))
    uses = Counter(each.name for each in tools)
    doubled = [name for name, count in uses.items() if count > 1]
    if doubled:
        raise UsageError(f"several tools are called {', '.join(doubled)}")
    return tools


def _each_tool(items: Iterable[Any]) -> Iterable[AgentTool]:
    if isinstance(items, (str, bytes, Mapping, AgentTool)) or not isinstance(items, Iterable):
        raise UsageError(f"tools come as a list, not as {type(items).__name__}")
    for item in items:
        if isinstance(item, AgentTool):
            yield item
        elif isinstance(item, tuple) and len(item) == _PAIR and callable(item[1]):
            yield _from_pair(*item)
        elif isinstance(item, (Tool, Mapping)):
            raise UsageError("a described tool needs what it calls: (description, function)")
        elif callable(item):
            yield tool(item)
        else:
            yield from _each_tool(item)


def _from_pair(described: Any, function: Callable[..., Any]) -> AgentTool:
    filled_in = context_parameters(function)

    async def run(arguments: dict[str, Any], context: ToolContext) -> object:
        given = {**arguments, **dict.fromkeys(filled_in, context)}
        return await run_call(function, partial(function, **given), context)

    return AgentTool(Tool.read(described), run)
