"""Run the inspector's heavy work in a process of its own, away from the gateway's event loop.

Analyses, replays and the playground parse texts that models or users chose, and some of those are
hostile. On a thread such work shares the interpreter with the streams of all clients, and it cannot
be stopped from outside. So it runs in a worker process (a `ProcessPoolExecutor` of one):

* The process starts with the first work, or with `warm_up`. It ends after `MAX_IDLE` seconds
  without work and after `MAX_JOBS` pieces of work, which returns its memory; the next work starts
  another.
* The process is killed when work takes more than `MAX_SECONDS` (its client gets an error);
  when work continues for `MAX_ABANDONED` seconds after its client has disconnected; and when the
  gateway shuts down.
* One piece of work runs at a time. Clients with different keys take turns. A key has at most
  `MAX_PER_KEY` pieces of work in the pool, and at most `MAX_WAITING` wait.

Work is a function of a module with arguments that can be pickled. Its result comes back as bytes,
encoded as JSON by the worker.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from multiprocessing import connection, resource_tracker
from multiprocessing.process import BaseProcess
from typing import Any, Final

from penstock import _json
from penstock.errors import UsageError
from penstock.gateway.errors import RETRY_SOON, HTTPError
from penstock.gateway.process import blocked_signals

MAX_SECONDS: Final = 20.0
"""How many seconds a piece of work may run, by the clock. The full analysis of 100,000 events takes
two seconds of processor time, and a busy machine may give it a tenth of a processor."""

MAX_ABANDONED: Final = 1.0
"""How many seconds work may run after its client has disconnected.

A new worker takes about a second of processor time for its imports, and the playground abandons
its request at every key that is pressed: most of these requests end within milliseconds.
"""

MAX_START: Final = 60.0
"""How many seconds the process may take to start: it imports most of penstock."""

MAX_IDLE: Final = 120.0
"""After how many seconds without work the process ends: it holds about 50 MB."""

MAX_JOBS: Final = 500
"""After how many pieces of work the process is replaced, in case some of them leak memory."""

MAX_WAITING: Final = 16
"""How many pieces of work may wait: a page requests one or two at a time."""

MAX_PER_KEY: Final = 4
"""How many pieces of work of one key may run or wait."""

MAX_RESULT: Final = 100_000_000
"""How many bytes a result may have: it is held twice in the gateway's memory while it is sent.
The full analysis of 100,000 chunks with 13 MB has 57 MB; the log keeps 16 MB of a stream."""

Work = Callable[..., object]


class WorkFailedError(Exception):
    """Work raised an exception that is a bug; the message is the traceback of the worker."""


class _Job:
    """One piece of work: ``function(*arguments)``, requested with *key*."""

    __slots__ = ("arguments", "function", "key", "result")

    def __init__(self, function: Work, arguments: tuple[Any, ...], key: str | None) -> None:
        self.function = function
        self.arguments = arguments
        self.key = key
        self.result: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        """Cancelled when the client has disconnected."""


# A process and not a thread: parsing holds the interpreter, and responses would wait for it.
class WorkerPool:
    """Runs work in a process, one piece at a time; belongs to one event loop."""

    def __init__(self) -> None:
        self._executor: ProcessPoolExecutor | None = None
        self._waiting: list[_Job] = []
        self._running: _Job | None = None
        self._last_key: str | None = None
        self._count = 0  # pieces of work that this process has done
        self._task: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """Whether work runs or waits."""
        return self._task is not None

    @property
    def pids(self) -> list[int]:
        """The id of the worker process; empty while it does not run."""
        return [] if self._executor is None else [*_processes(self._executor)]

    async def run(self, function: Work, *arguments: Any, key: str | None = None) -> bytes:
        """Run ``function(*arguments)`` in the worker; return its result, bytes or a value as JSON.

        A caller that is cancelled abandons the work. Raises `HTTPError` if too much work waits (429
        for one key, 503 for all), if the work takes too long or its result is too large (413), and
        with what the work itself raises as `HTTPError` or `UsageError` (400). Raises
        `WorkFailedError` for any other exception.
        """
        self._check_room(key)
        job = _Job(function, arguments, key)
        self._enqueue(job)
        try:
            return await job.result
        finally:
            if job in self._waiting:
                self._waiting.remove(job)

    def warm_up(self) -> None:
        """Start the process if it does not run, without waiting for it.

        The page calls ``/about`` first: its first analysis need not wait for the imports then.
        """
        if self._executor is None and self._task is None and not self._is_closed:
            job = _Job(_noop, (), None)
            job.result.add_done_callback(_discard)
            self._enqueue(job)

    def close(self) -> None:
        """Kill the worker process; refuse all work that waits, and all that comes later."""
        self._is_closed = True
        for job in (*self._waiting, self._running):
            if job is not None and not job.result.done():
                job.result.set_exception(_closing())
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
        self._kill()

    def _check_room(self, key: str | None) -> None:
        if self._is_closed:
            raise _closing()
        if len(self._waiting) >= MAX_WAITING:
            reason = f"The inspector is busy: {MAX_WAITING} requests are waiting. Try again later."
            raise HTTPError(503, reason, retry_after=RETRY_SOON)
        jobs = [job for job in (*self._waiting, self._running) if job is not None]
        if key is not None and sum(job.key == key for job in jobs) >= MAX_PER_KEY:
            reason = f"This key has {MAX_PER_KEY} inspector requests in progress. Try again later."
            raise HTTPError(429, reason, retry_after=RETRY_SOON)

    # --- the queue ---

    def _enqueue(self, job: _Job) -> None:
        self._waiting.append(job)
        if self._task is None:
            self._task = asyncio.create_task(self._run_all(), name="penstock: inspector work")

    async def _run_all(self) -> None:
        """Run the waiting work until the queue is empty."""
        if self._idle is not None:
            self._idle.cancel()
        try:
            while self._waiting:
                await self._run_next()
        except BaseException:  # The event loop ends, and the process with it.
            self._kill()
            raise
        finally:
            self._task = self._running = None
        loop = asyncio.get_running_loop()
        self._idle = loop.call_later(MAX_IDLE, self._retire)

    async def _run_next(self) -> None:
        """Run the first job of a key that did not have the last turn, or else the first job."""
        others = (job for job in self._waiting if job.key != self._last_key)
        job = self._running = next(others, self._waiting[0])
        self._waiting.remove(job)
        self._last_key = job.key
        try:
            data = await self._run_job(job)
        except Exception as exc:  # noqa: BLE001 - the caller raises it
            if not job.result.done():
                job.result.set_exception(exc)
        else:
            if not job.result.done():
                job.result.set_result(data)
        finally:
            self._running = None

    async def _run_job(self, job: _Job) -> bytes:
        try:
            executor = await self._start()
            if job.result.done():
                return b""
            future = asyncio.wrap_future(executor.submit(_execute, job.function, job.arguments))
        except (OSError, RuntimeError) as exc:  # It did not start, or was killed meanwhile.
            self._kill()
            raise _closing() if self._is_closed else _ended() from exc
        waiting: set[asyncio.Future[Any]] = {future, job.result}
        await asyncio.wait(waiting, timeout=MAX_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if job.result.cancelled() and not future.done():
            await asyncio.wait({future}, timeout=MAX_ABANDONED)
        if not future.done():
            future.add_done_callback(_discard)
            self._kill()
            raise HTTPError(
                413,
                f"This took more than {MAX_SECONDS:g} seconds and was stopped. Try a shorter text "
                "or fewer tools.",
            )
        try:
            error, status, data = future.result()
        except (BrokenExecutor, asyncio.CancelledError) as exc:
            self._kill()
            raise _closing() if self._is_closed else _ended() from exc
        self._count += 1
        if self._count >= MAX_JOBS:
            self._retire()
        if status:
            raise HTTPError(status, error)
        if error:
            raise WorkFailedError(error)
        return data

    # --- the process ---

    async def _start(self) -> ProcessPoolExecutor:
        """Return the executor, with a process that is ready to work."""
        if self._executor is not None:
            processes = _processes(self._executor).values()
            if not processes or not all(process.is_alive() for process in processes):
                self._kill()  # The process was killed from outside, by the kernel perhaps.
        if self._executor is None:
            context = multiprocessing.get_context("spawn")  # no lock or socket of ours is inherited
            self._executor = ProcessPoolExecutor(1, context, _prepare)
            self._count = 0
            # To start a process takes milliseconds, which the event loop should not wait for.
            started = asyncio.wrap_future(await asyncio.to_thread(_launch, self._executor))
            try:
                await asyncio.wait_for(started, MAX_START)
            except TimeoutError as exc:
                raise RuntimeError("the worker process does not start") from exc
        executor = self._executor
        if executor is None:
            raise RuntimeError("the worker process was killed while it started")
        return executor

    def _kill(self) -> None:
        """Kill the process, whatever it does."""
        executor, self._executor = self._executor, None
        if self._idle is not None:
            self._idle.cancel()
        if executor is None:
            return
        processes = _processes(executor)
        executor.shutdown(wait=False, cancel_futures=True)
        for process in list(processes.values()):  # one that was just starting is among them now
            process.kill()

    def _retire(self) -> None:
        """End the process, which is idle."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False)


def _processes(executor: ProcessPoolExecutor) -> Mapping[int, BaseProcess]:
    """Return the processes of *executor* by id; `kill_workers` is new in Python 3.14."""
    processes: Mapping[int, BaseProcess] | None = executor._processes  # noqa: SLF001
    return {} if processes is None else processes  # None after a shutdown


def _launch(executor: ProcessPoolExecutor) -> Future[None]:
    """Start the process; return a future that is done when the process is ready.

    SIGINT of a terminal, SIGTERM and SIGHUP are for the gateway, which ends the worker itself: the
    worker inherits that they are blocked. The resource tracker of `multiprocessing` unblocks them
    when it starts, so it is started first.
    """
    resource_tracker.ensure_running()
    with blocked_signals():
        return executor.submit(_noop)


def _discard(future: asyncio.Future[Any]) -> None:
    """Retrieve the exception of a future that was abandoned, so that asyncio does not log it."""
    if not future.cancelled():
        future.exception()


def _closing() -> HTTPError:
    return HTTPError(503, "The gateway is shutting down.", retry_after=RETRY_SOON)


def _ended() -> HTTPError:
    reason = "The inspector's worker process ended unexpectedly: it may have run out of memory."
    return HTTPError(503, reason, retry_after=RETRY_SOON)


# --- in the worker ---


def _prepare() -> None:
    """Import what work needs, and end when the gateway ends, however it ends."""
    threading.Thread(target=_end_with_parent, name="penstock: parent", daemon=True).start()
    from penstock.gateway.inspector import export, playground  # noqa: F401, PLC0415 - only here


def _end_with_parent() -> None:
    """Wait for the end of the gateway: a worker of `ProcessPoolExecutor` would not notice it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _noop() -> None:
    """Do nothing: the process is ready."""


def _execute(function: Work, arguments: tuple[Any, ...]) -> tuple[str, int, bytes]:
    """Run the work; return an error message with its status, or else the result.

    Exceptions do not cross the process border: not all of them can be unpickled.
    """
    try:
        value = function(*arguments)
        data = value if isinstance(value, bytes) else _json.encode_wire(value)
    except HTTPError as exc:
        return str(exc), exc.status, b""
    except UsageError as exc:
        return str(exc), 400, b""
    except MemoryError:
        return "This takes more memory than the worker process has.", 413, b""
    except Exception:  # noqa: BLE001 - the gateway logs it
        return traceback.format_exc(), 0, b""
    if len(data) > MAX_RESULT:
        reason = f"The result has {len(data):,} bytes; at most {MAX_RESULT:,} are sent."
        return reason, 413, b""
    return "", 0, data
