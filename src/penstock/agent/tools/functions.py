"""Tools made from Python functions: schema from the signature, description from the docstring.

Arguments arrive as JSON and are converted to the types of the hints. A function that cannot be a
tool (a hint without a JSON form, a name that no provider accepts) is refused when the tool is made,
not when a model calls it. A function runs according to its kind:

* A coroutine function runs on the event loop and is cancelled like any task.
* A plain function runs in a thread. A thread cannot be cancelled: `ToolContext.cancelled` is set,
  and the agent waits for it, so that nothing runs after the agent has stopped.
* A generator, async or not, shows each value that it yields as an update; the last is the result.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, TypeVar, overload

from penstock.agent.cancellation import shielded
from penstock.agent.tools.base import AgentTool, ToolContext
from penstock.agent.tools.signatures import FunctionSignature, find_context_parameters
from penstock.errors import ToolError, UsageError
from penstock.tools import Tool

F = TypeVar("F", bound=Callable[..., Any])
# Covariant and without a bound: only then is a list of different tools a list of tools to mypy.
F_co = TypeVar("F_co", covariant=True)

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""A name that every provider accepts."""

ToolLike = AgentTool | Callable[..., Any] | tuple[Tool | Mapping[str, Any], Callable[..., Any]]
"""What can become a tool: a tool, a function, or a description in JSON and a function."""

_PAIR: Final = 2


class FunctionTool(AgentTool, Generic[F_co], frozen=True, kw_only=True):
    """A tool made from *function*; calling the tool calls the function."""

    function: F_co

    @property
    def __call__(self) -> F_co:
        """The function: a property, so that a call has its parameters and result."""
        return self.function

    @property
    def __wrapped__(self) -> F_co:
        """The function, for `inspect.signature` and others."""
        return self.function


@overload
def tool(
    fn: F,
    *,
    name: str | None = None,
    description: str | None = None,
    exclusive: bool = False,
    abortable: bool = True,
    needs_approval: bool | None = None,
    lenient: bool = False,
    timeout: float | None = None,
) -> FunctionTool[F]: ...


@overload
def tool(
    fn: None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    exclusive: bool = False,
    abortable: bool = True,
    needs_approval: bool | None = None,
    lenient: bool = False,
    timeout: float | None = None,
) -> Callable[[F], FunctionTool[F]]: ...


def tool(  # noqa: PLR0913 - each is an independent option with a default
    fn: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    exclusive: bool = False,
    abortable: bool = True,
    needs_approval: bool | None = None,
    lenient: bool = False,
    timeout: float | None = None,
) -> FunctionTool[Any] | Callable[[Callable[..., Any]], FunctionTool[Any]]:
    """Make a tool from *fn*, as a decorator (with or without options) or as a call.

    *name* and *description* replace those of the function; `AgentTool` describes the flags. The
    tool can be called like the function. Raises `UsageError` if the function cannot be a tool.
    """

    def make(function: Callable[..., Any]) -> FunctionTool[Any]:
        if isinstance(function, staticmethod):  # decorated inside a class
            function = function.__func__
        described, signature = _describe(function, name, description)

        async def run(arguments: dict[str, Any], context: ToolContext) -> object:
            bound = signature.bind(arguments, context, lenient=lenient)
            return await run_function(
                function, partial(function, *bound.args, **bound.kwargs), context
            )

        return FunctionTool(
            described,
            run,
            exclusive=exclusive,
            abortable=abortable,
            needs_approval=needs_approval,
            lenient=lenient,
            timeout=timeout,
            function=function,
        )

    return make if fn is None else make(fn)


def read_agent_tools(items: Iterable[ToolLike | Iterable[ToolLike]]) -> list[AgentTool]:
    """Make tools from *items*, in any mixture; lists inside are flattened.

    A pair is a `Tool`, or the JSON of one in any provider's shape, and a function. The function is
    called with the arguments by name, as they arrive, and with a `ToolContext` where its hints ask
    for one. Raises `UsageError` for two tools of the same name.
    """
    tools = list(_make_each(items))
    uses = Counter(each.name for each in tools)
    doubled = [name for name, count in uses.items() if count > 1]
    if doubled:
        same = ", ".join(doubled)
        raise UsageError(f"several tools have the name {same}: give each a name of its own")
    return tools


def _make_each(items: Iterable[Any]) -> Iterable[AgentTool]:
    # A string is iterable too, but never a list of tools.
    if isinstance(items, (str, bytes, Mapping, AgentTool)) or not isinstance(items, Iterable):
        raise UsageError(f"tools must be a list, not {type(items).__name__}")
    for item in items:
        if isinstance(item, AgentTool):
            yield item
        elif isinstance(item, tuple) and len(item) == _PAIR and callable(item[1]):
            yield _make_from_pair(*item)
        elif isinstance(item, (Tool, Mapping)):
            raise UsageError(
                "a tool description needs a function to call: pass (description, function)"
            )
        elif callable(item):
            yield tool(item)
        else:
            yield from _make_each(item)


def _make_from_pair(described: Any, function: Callable[..., Any]) -> AgentTool:
    context_parameters = find_context_parameters(function)

    async def run(arguments: dict[str, Any], context: ToolContext) -> object:
        given = {**arguments, **dict.fromkeys(context_parameters, context)}
        return await run_function(function, partial(function, **given), context)

    return AgentTool(Tool.read(described), run)


# --- describing ---


def _describe(
    function: Any, name: str | None, description: str | None
) -> tuple[Tool, FunctionSignature]:
    if isinstance(function, AgentTool):  # decorated twice
        raise UsageError(f"`{function.name}` is already a tool")
    if not callable(function) or inspect.isclass(function):
        raise UsageError(f"a tool must be made from a function, not from {function!r}")
    inner = function
    while isinstance(inner, partial):
        inner = inner.func
    if name is None:
        # An object with `__call__` has no name of its own.
        name = str(getattr(inner, "__name__", "") or type(inner).__name__)
    if not NAME.fullmatch(name):
        raise UsageError(
            f"invalid tool name {name!r}: use up to 64 letters, digits, underscores and hyphens"
        )
    if inspect.isroutine(inner):
        documentation = inspect.getdoc(inner)
    else:  # an object with `__call__`; `partial` has a docstring of its own that says nothing
        documentation = inspect.getdoc(type(inner).__call__) or inspect.getdoc(type(inner))
    docstring = parse_docstring(documentation)
    try:
        signature = FunctionSignature(function, docstring.parameters)
    except UsageError as exc:
        raise UsageError(f"`{name}` cannot be a tool: {exc}") from exc
    words = docstring.description if description is None else description
    return Tool(name, words, signature.schema), signature


# --- running ---


async def run_function(
    function: Callable[..., Any], call: Callable[[], Any], context: ToolContext
) -> object:
    """Run *call*, which is *function* with its arguments, and return its result."""
    try:
        if _is_kind(function, inspect.isasyncgenfunction):
            return await _exhaust_async(call(), context)
        if _is_kind(function, inspect.iscoroutinefunction):
            result = await call()
        else:
            result = await _run_in_thread(call, context)
        if inspect.isasyncgen(result):
            return await _exhaust_async(result, context)
        return await result if inspect.isawaitable(result) else result
    except SystemExit as exc:
        raise ToolError(f"the tool tried to exit the program with {exc.code!r}") from exc


def _is_kind(function: Callable[..., Any], is_kind: Callable[[Any], bool]) -> bool:
    """Return whether *function*, or its `__call__`, is of a kind that `inspect` knows."""
    while isinstance(function, partial):
        function = function.func
    return is_kind(function) or is_kind(type(function).__call__)


async def _exhaust_async(values: AsyncIterator[Any], context: ToolContext) -> object:
    result = None
    async with aclosing(values) as open_values:  # type: ignore[type-var]
        async for result in open_values:
            context.update(result)
    return result


async def _run_in_thread(call: Callable[[], Any], context: ToolContext) -> object:
    def work() -> object:
        if context.cancelled:  # while it waited for a free thread
            return None
        try:
            result = call()
            return _exhaust(result, context) if inspect.isgenerator(result) else result
        except StopIteration as exc:  # a future cannot hold one, and would never end
            raise ToolError(f"the tool raised StopIteration({exc.value!r})") from exc
        except SystemExit as exc:  # it would end the event loop
            raise ToolError(f"the tool tried to exit the program with {exc.code!r}") from exc

    def cancel() -> None:
        context.cancelled = True

    context.update_through(asyncio.get_running_loop().call_soon_threadsafe)
    return await shielded(asyncio.to_thread(work), cancel)


def _exhaust(values: Iterator[Any], context: ToolContext) -> object:
    result = None
    with closing(values):  # type: ignore[type-var]
        for result in values:
            if context.cancelled:
                break
            context.update(result)
    return result


# --- docstrings ---
#
# Three styles are supported, also mixed: Google (``Args:`` and an indented list), NumPy
# (``Parameters`` above a line of dashes) and Sphinx (``:param name: …``). Sections about parameters
# are removed. The rest is the description, unchanged: what a function returns and raises helps a
# model as much as a person.

_GOOGLE: Final = re.compile(
    r"(?:Args|Arguments|Params|Parameters|Keyword Arg(?:ument)?s|Other Parameters):\s*$"
)
_NUMPY: Final = re.compile(r"(?:Other )?Parameters\s*$")
_DASHES: Final = re.compile(r"-{3,}\s*$")
_SPHINX: Final = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:(.*)"
)
_SPHINX_TYPE: Final = re.compile(r":type\s+\w+\s*:")
_FIELD: Final = re.compile(r":\w[^:]*:")
_GOOGLE_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*)|$)")
_NUMPY_ENTRY: Final = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")


@dataclass
class Docstring:
    """The *description* of a function, and those of its *parameters* by name."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def parse_docstring(text: str | None) -> Docstring:
    """Parse the docstring *text* in any of the styles."""
    if not text:
        return Docstring()
    parser = _DocstringParser(inspect.cleandoc(text).splitlines())
    parser.parse()
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(parser.prose)).strip()
    parameters = {
        name: " ".join(" ".join(lines).split()) for name, lines in parser.parameters.items()
    }
    return Docstring(description, {name: words for name, words in parameters.items() if words})


class _DocstringParser:
    """Parses the lines once; lines outside of sections about parameters are prose."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self.prose: list[str] = []
        self.parameters: dict[str, list[str]] = {}

    def parse(self) -> None:
        """Sort all lines."""
        while self._at < len(self._lines):
            line = self._lines[self._at].strip()
            if _GOOGLE.match(line) and self._opens_block():
                self._take_google()
            elif _NUMPY.match(line) and self._is_underlined(self._at):
                self._take_numpy()
            elif (match := _SPHINX.match(line)) is not None:
                self._take_sphinx(match[1], match[2])
            elif _SPHINX_TYPE.match(line):
                self._at += 1
            else:
                self.prose.append(self._lines[self._at])
                self._at += 1

    def _indent(self, at: int) -> int:
        line = self._lines[at]
        return len(line) - len(line.lstrip())

    def _is_blank(self, at: int) -> bool:
        return not self._lines[at].strip()

    def _is_underlined(self, at: int) -> bool:
        return at + 1 < len(self._lines) and bool(_DASHES.match(self._lines[at + 1].strip()))

    def _opens_block(self) -> bool:
        following = self._next_line(self._at + 1)
        return following < len(self._lines) and self._indent(following) > self._indent(self._at)

    def _next_line(self, at: int) -> int:
        """Return the number of the next line that is not blank."""
        while at < len(self._lines) and self._is_blank(at):
            at += 1
        return at

    def _take_google(self) -> None:
        outside = self._indent(self._at)
        self._at = self._next_line(self._at + 1)
        entries = self._indent(self._at)
        name = ""
        while self._at < len(self._lines):
            # Google: a section ends at the first line that is not indented.
            if not self._is_blank(self._at):
                if self._indent(self._at) <= outside:
                    return
                line = self._lines[self._at].strip()
                match = _GOOGLE_ENTRY.match(line) if self._indent(self._at) <= entries else None
                if match is not None:
                    name, line = match[1], match[2] or ""
                self._add(name, line)
            self._at += 1

    def _take_numpy(self) -> None:
        outside = self._indent(self._at)
        self._at += 2
        names: list[str] = []
        while self._at < len(self._lines) and not self._is_underlined(self._at):
            line = self._lines[self._at].strip()
            # NumPy: an entry may name several parameters (``x, y : int``), its text is indented.
            if line and self._indent(self._at) <= outside:
                match = _NUMPY_ENTRY.match(line)
                if match is None:
                    return
                names = [name.strip(" *") for name in match[1].split(",")]
            else:
                for name in names:
                    self._add(name, line)
            self._at += 1

    def _take_sphinx(self, name: str, text: str) -> None:
        self._add(name, text)
        self._at += 1
        while self._at < len(self._lines) and not self._is_blank(self._at):
            line = self._lines[self._at].strip()
            # Sphinx: any other field, such as ``:returns:``, ends the text of a parameter.
            if _FIELD.match(line):
                return
            self._add(name, line)
            self._at += 1

    def _add(self, name: str, line: str) -> None:
        if name:
            self.parameters.setdefault(name, []).append(line)
