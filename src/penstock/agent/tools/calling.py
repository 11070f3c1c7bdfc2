"""How a function is run for an agent, whatever kind of function it is.

* A coroutine function runs on the loop and is cancelled as any task is.
* A plain function runs in a thread. A thread cannot be cancelled: `ToolContext.cancelled` tells it
  to end, and it is waited for, so that nothing runs on after the agent said that it has stopped.
* A generator, async or not, shows each value that it yields as an update; the last is the result.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, closing
from functools import partial
from typing import Any

from penstock.agent.cancellation import shielded
from penstock.agent.tools.base import ToolContext
from penstock.errors import ToolError

Call = Callable[[], Any]
"""A function with all of its arguments."""


async def run_call(function: Callable[..., Any], call: Call, context: ToolContext) -> object:
    """Run *call*, which is *function* with its arguments, and give what it gives."""
    try:
        if is_kind(function, inspect.isasyncgenfunction):
            return await _last_of(call(), context)
        if is_kind(function, inspect.iscoroutinefunction):
            result = await call()
        else:
            result = await _in_thread(call, context)
        if inspect.isasyncgen(result):
            return await _last_of(result, context)
        return await result if inspect.isawaitable(result) else result
    except SystemExit as exc:
        raise ToolError(f"the tool wanted to end the program, with {exc.code!r}") from exc


def is_kind(function: Callable[..., Any], is_one: Callable[[Any], bool]) -> bool:
    """Tell whether *function*, or what it calls, is of a kind that `inspect` knows."""
    while isinstance(function, partial):
        function = function.func
    return is_one(function) or is_one(type(function).__call__)


async def _last_of(values: AsyncIterator[Any], context: ToolContext) -> object:
    result = None
    async with aclosing(values) as open_values:  # type: ignore[type-var]
        async for result in open_values:
            context.update(result)
    return result


async def _in_thread(call: Call, context: ToolContext) -> object:
    def work() -> object:
        if context.cancelled:  # while it waited for a free thread
            return None
        try:
            result = call()
            return _last_in_thread(result, context) if inspect.isgenerator(result) else result
        except StopIteration as exc:  # a future cannot hold one: it would be waited for for ever
            raise ToolError(f"the tool raised StopIteration({exc.value!r})") from exc
        except SystemExit as exc:  # nor this one: it would end the loop
            raise ToolError(f"the tool wanted to end the program, with {exc.code!r}") from exc

    def cancel() -> None:
        context.cancelled = True

    context.tell_through(asyncio.get_running_loop().call_soon_threadsafe)
    return await shielded(asyncio.to_thread(work), cancel)


def _last_in_thread(values: Iterator[Any], context: ToolContext) -> object:
    result = None
    with closing(values):  # type: ignore[type-var]
        for result in values:
            if context.cancelled:
                break
            context.update(result)
    return result
