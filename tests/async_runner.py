"""Run `async def` tests: a loop of its own for each, with checks for leaks.

A plugin of ours instead of pytest-asyncio, because a test here needs more than a loop: it fails if
it leaves a task or a file descriptor open, and with ``@pytest.mark.virtual_time`` it runs on a
clock that jumps to the next timer. It is also what makes 500 async tests cost no more than plain
ones: no fixture is set up per loop. There are no async fixtures; use ``async with``.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import selectors
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

TIMEOUT = 60.0
"""Seconds that an async test may take on a busy machine; a test that waits longer hangs."""

LAST_TURNS = 3
"""Turns of the loop that closing callbacks may take after the last line of a test."""

Loops = Callable[[], asyncio.AbstractEventLoop]
"""Makes an event loop."""


class VirtualSelector(selectors.SelectSelector):
    """A selector that never waits: it moves its clock instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("the test hangs: no callback and no timer is left")
        self.now += max(timeout, 0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on the clock of its selector, which collects unhandled exceptions."""

    def __init__(self) -> None:
        self.clock = VirtualSelector()
        self.reports: list[dict[str, Any]] = []
        super().__init__(self.clock)
        self.set_exception_handler(lambda _loop, report: self.reports.append(report))

    def time(self) -> float:
        return self.clock.now


def run(main: Coroutine[Any, Any, T], loops: Loops | None = None, *, files: bool = True) -> T:
    """Run *main* on a new loop; fail if it hangs, or leaves a task or (*files*) an open file."""
    before = count_descriptors()
    with asyncio.Runner(loop_factory=loops) as runner:
        result = runner.run(_check_tasks(main, TIMEOUT))
    if files and count_descriptors() > before:
        gc.collect()  # Garbage is not a leak: unclosed sockets warn, and warnings are errors.
        assert count_descriptors() <= before, "the test left a file or a socket open"
    return result


def run_in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """Run *main* on a `VirtualLoop`; fail if it leaves a task or an unhandled exception."""
    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(_check_tasks(main, None))
    assert not loop.reports, loop.reports
    return result


def count_descriptors() -> int:
    """Return the number of files and sockets that are open in this process."""
    return sum(1 for _ in Path("/dev/fd").iterdir())


async def _check_tasks(main: Coroutine[Any, Any, T], seconds: float | None) -> T:
    async with asyncio.timeout(seconds):
        result = await main
    for _ in range(LAST_TURNS):
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"the test left a task: {left}"
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test, or each example of an async property test."""
    runner: Callable[[Coroutine[Any, Any, None]], None]
    if pyfuncitem.get_closest_marker("virtual_time"):
        runner = run_in_virtual_time
    elif "stage" in pyfuncitem.fixturenames or pyfuncitem.get_closest_marker("leaves_files"):
        runner = partial(run, files=False)  # The servers of a stage run in threads beside us.
    else:
        runner = run
    property_test = getattr(pyfuncitem.obj, "hypothesis", None)
    if property_test and inspect.iscoroutinefunction(property_test.inner_test):
        property_test.inner_test = _wrap(property_test.inner_test, runner)
        return None
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    runner(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def _wrap(
    test: Callable[..., Coroutine[Any, Any, None]],
    runner: Callable[[Coroutine[Any, Any, None]], None],
) -> Callable[..., None]:
    @wraps(test)
    def example(*args: Any, **values: Any) -> None:
        runner(test(*args, **values))

    return example
