"""Tools made of Python functions: the schema is in the signature, the words in the docstring.

Arguments arrive as JSON and are what the hints say when the function is called. What is wrong with
a function (a hint without a JSON form, a name that no provider takes) is told when the tool is
made, not when a model calls it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, overload

from penstock.agent.tools.base import AgentTool, ToolContext
from penstock.agent.tools.calling import run_call
from penstock.agent.tools.docstrings import read_docstring
from penstock.agent.tools.signatures import Signature
from penstock.errors import UsageError
from penstock.tools import Tool

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""A name that every provider takes."""


@overload
def tool(
    fn: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    exclusive: bool = False,
    abortable: bool = True,
    asks: bool | None = None,
    lenient: bool = False,
) -> AgentTool: ...


@overload
def tool(
    fn: None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    exclusive: bool = False,
    abortable: bool = True,
    asks: bool | None = None,
    lenient: bool = False,
) -> Callable[[Callable[..., Any]], AgentTool]: ...


def tool(
    fn: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    exclusive: bool = False,
    abortable: bool = True,
    asks: bool | None = None,
    lenient: bool = False,
) -> AgentTool | Callable[[Callable[..., Any]], AgentTool]:
    """Make a tool of *fn*, as a decorator (with or without options) or as a call.

    *name* and *description* stand for those of the function; what the flags mean says `AgentTool`.
    Raises `UsageError` if no model could be told of the function.
    """

    def made(function: Callable[..., Any]) -> AgentTool:
        if isinstance(function, staticmethod):  # decorated inside a class
            function = function.__func__
        described, signature = _described(function, name, description)
        return AgentTool(
            described,
            _runner(function, signature, lenient=lenient),
            exclusive=exclusive,
            abortable=abortable,
            asks=asks,
            lenient=lenient,
        )

    return made if fn is None else made(fn)


def _described(function: Any, name: str | None, description: str | None) -> tuple[Tool, Signature]:
    if isinstance(function, AgentTool):  # decorated twice
        raise UsageError(f"`{function.name}` is a tool already")
    if not callable(function) or inspect.isclass(function):
        raise UsageError(f"a tool is made of a function, not of {function!r}")
    called = name if name is not None else _name_of(function)
    if not NAME.fullmatch(called):
        raise UsageError(f"{called!r} is no name for a tool: letters, digits, _ and -, up to 64")
    docstring = read_docstring(_docstring_of(function))
    try:
        signature = Signature(function, docstring.parameters)
    except UsageError as exc:
        raise UsageError(f"`{called}` cannot be a tool: {exc}") from exc
    words = docstring.description if description is None else description
    return Tool(called, words, signature.schema), signature


def _runner(
    function: Callable[..., Any], signature: Signature, *, lenient: bool
) -> Callable[[dict[str, Any], ToolContext], Any]:
    async def run(arguments: dict[str, Any], context: ToolContext) -> object:
        bound = signature.bind(arguments, context, lenient=lenient)
        return await run_call(function, partial(function, *bound.args, **bound.kwargs), context)

    return run


def _inner(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    return function


def _name_of(function: Any) -> str:
    inner = _inner(function)
    return str(getattr(inner, "__name__", "") or type(inner).__name__)


def _docstring_of(function: Any) -> str | None:
    """Find the docstring of the function itself, never that of its type (`partial` has one)."""
    inner = _inner(function)
    if inspect.isroutine(inner):
        return inspect.getdoc(inner)
    return inspect.getdoc(type(inner).__call__) or inspect.getdoc(type(inner))
