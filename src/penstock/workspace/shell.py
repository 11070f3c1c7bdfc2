"""The tool that runs shell commands, and the processes that they start.

A shell is not confined: it starts in the working folder and can access everything that its user
can. So each call needs approval.

Every command leads a session of its own. When the command ends, when its time is up and when the
call is cancelled, all processes of the session are ended: SIGTERM first, then SIGKILL. Only a
process that leaves the session on purpose (`setsid`) survives. The output goes through a pipe of
its own: that of asyncio's process ends only when every process that inherited it has ended.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from penstock.agent.cancellation import shielded
from penstock.agent.tools.base import ToolContext, ToolOutput
from penstock.agent.tools.results import omission_note
from penstock.errors import ToolError
from penstock.workspace.sandbox import explain_error

MAX_OUTPUT_CHARS: Final = 30_000
"""How many characters of output are kept: errors of tests and compilers are at both ends."""

SHELL_SECONDS: Final = 120.0
"""How long a command may run by default."""

DRAIN_SECONDS: Final = 0.2
"""How long to wait for output after the command has ended: children may hold the pipe open."""

UPDATE_SECONDS: Final = 0.1
"""How often updates are shown: faster than people read, slower than programs print."""

_CHUNK: Final = 1 << 16


class ShellOutput:
    """The output of a command: its beginning, its end, and the number of characters between."""

    def __init__(self, limit: int = MAX_OUTPUT_CHARS) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._room = limit - limit // 2
        self._tail_limit = limit // 2
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._tail_length = 0
        self._dropped = 0

    def add(self, data: bytes, *, final: bool = False) -> None:
        """Add *data* to the output."""
        # A character may be split between two reads.
        text = self._decoder.decode(data, final)
        head, rest = text[: self._room], text[self._room :]
        if head:
            self._head.append(head)
            self._room -= len(head)
        if rest:
            self._tail.append(rest)
            self._tail_length += len(rest)
        # Whole pieces are dropped here; `text` cuts the first remaining one.
        while self._tail and self._tail_length - len(self._tail[0]) >= self._tail_limit:
            count = len(self._tail.popleft())
            self._tail_length -= count
            self._dropped += count

    @property
    def text(self) -> str:
        """The output that is kept, with a note where some is missing."""
        tail = "".join(self._tail)
        over = max(0, len(tail) - self._tail_limit)
        dropped = self._dropped + over
        note = omission_note(dropped) if dropped else ""
        return "".join(self._head) + note + tail[over:]


class Shell:
    """The tool that runs commands in *folder*, each for at most *seconds*."""

    def __init__(
        self, folder: Path, seconds: float = SHELL_SECONDS, env: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._seconds = seconds
        self._env = env

    async def run_bash(
        self,
        context: ToolContext,
        command: str,
        seconds: Annotated[float, Meta(gt=0)] | None = None,
    ) -> ToolOutput:
        """Run a command in bash, in the working folder, and return what it prints.

        It has no stdin. All processes that it starts, in the background too, are ended with it.

        :param command: The command line; may be several lines.
        :param seconds: How long it may run, if shorter than usual.
        """
        if "\0" in command:
            raise ToolError("A command cannot contain a null character.")
        limit = min(seconds or self._seconds, self._seconds)
        job = _Job(context)
        return await shielded(job.run(command, self._folder, limit, self._env), job.cancelled.set)


class _Job:
    """One command, from its start until its last process has ended."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._output = ShellOutput()
        self._shown_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.cancelled = asyncio.Event()

    async def run(
        self, command: str, folder: Path, seconds: float, env: Mapping[str, str] | None
    ) -> ToolOutput:
        reading, writing = os.pipe()
        # `add_reader` may call `_read` when another call has emptied the pipe.
        os.set_blocking(reading, False)
        try:
            try:
                process = await _start(command, folder, writing, env)
            finally:
                os.close(writing)
            in_time = await self._follow(process, reading, seconds)
        finally:
            os.close(reading)
        return self._result(process.returncode, None if in_time else seconds)

    async def _follow(
        self, process: asyncio.subprocess.Process, reading: int, seconds: float
    ) -> bool:
        """Read the output until the command has ended; return whether it ended in time."""
        loop = asyncio.get_running_loop()
        groups = CommandGroups(process.pid)
        ended = asyncio.create_task(process.wait())
        stopped = asyncio.create_task(self.cancelled.wait())
        drained = asyncio.Event()
        loop.add_reader(reading, self._read, reading, drained)
        try:
            await asyncio.wait([ended, stopped], timeout=seconds, return_when="FIRST_COMPLETED")
            in_time = ended.done() or stopped.done()
            if in_time and not stopped.done():
                with suppress(TimeoutError):
                    await asyncio.wait_for(drained.wait(), DRAIN_SECONDS)
            await groups.end()
            await ended
            self._read(reading, drained)  # output during its end
        except asyncio.CancelledError:
            # The event loop is closing, so there is no time for SIGTERM.
            groups.kill()
            await process.wait()
            groups.kill()  # processes that were started meanwhile
            raise
        finally:
            loop.remove_reader(reading)
            stopped.cancel()
            if self._timer is not None:
                self._timer.cancel()
        return in_time

    def _read(self, reading: int, drained: asyncio.Event) -> None:
        try:
            data = os.read(reading, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(reading)
            drained.set()
            return
        self._output.add(data)
        loop = asyncio.get_running_loop()
        if loop.time() - self._shown_at >= UPDATE_SECONDS:
            self._show()
        elif self._timer is None:
            self._timer = loop.call_at(self._shown_at + UPDATE_SECONDS, self._show)

    def _show(self) -> None:
        self._timer = None
        self._shown_at = asyncio.get_running_loop().time()
        if not self.cancelled.is_set():
            self._context.update(self._output.text)

    def _result(self, code: int | None, seconds: float | None) -> ToolOutput:
        self._output.add(b"", final=True)
        text = self._output.text
        end = "" if not text or text.endswith("\n") else "\n"
        if seconds is not None:
            note = f"(Ended after {seconds:g} s: the time limit.)"
        elif code:
            note = f"(Exit code {code}.)"
        else:
            note = "" if text else "(No output.)"
        return ToolOutput(
            text + (end + note if note else ""),
            is_error=bool(code) or seconds is not None,
            details={"exit_code": code, "timed_out": seconds is not None},
        )


async def _start(
    command: str, folder: Path, output: int, env: Mapping[str, str] | None
) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env=env,
            # The session is what `CommandGroups` ends.
            start_new_session=True,
        )
    except (OSError, ValueError) as exc:  # no bash, a deleted folder, a command that is too long
        raise ToolError(f"The command cannot be started: {explain_error(exc)}.") from exc


# --- processes ---
#
# A shell with job control (`set -m`) and tools such as `timeout` put what they start into process
# groups of their own. All of them stay in the session that the command leads, so the session is
# ended: its groups are found in `/proc` and signalled, again and again until none is left, because
# a process that ends may start others. Without `/proc` only the command's own group is known.

GRACE_SECONDS: Final = 0.5
"""How long processes have to end after SIGTERM before they are killed."""

KILL_SECONDS: Final = 5.0
"""How long to wait for killed processes: one that waits for a disk cannot even die."""

_POLL_SECONDS: Final = 0.01
_PROC: Final = Path("/proc")
_ENDED: Final = (b"Z", b"X")
_START_FIELD: Final = 19  # the start time in /proc/PID/stat, counted after the name


class CommandGroups:
    """The process groups in the session led by the process *leader*; create it right after it.

    The id of the leader is not reused while a process of its session lives. Once all are gone it
    may be: a leader with another start time is a different process, and is not signalled.
    """

    def __init__(self, leader: int) -> None:
        self._leader = leader
        process = _read_process(leader)
        self._started = process.started if process is not None else None

    async def end(self) -> None:
        """End every process: SIGTERM, a short wait, SIGKILL. There may be none."""
        clock = asyncio.get_running_loop().time
        for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
            signalled: set[int] = set()
            deadline = clock() + seconds
            while alive := self._find_alive():
                # A second SIGTERM makes some programs skip their cleanup: only new groups get it.
                _signal(alive if number == signal.SIGKILL else alive - signalled, number)
                signalled |= alive
                if clock() > deadline:
                    break
                await asyncio.sleep(_POLL_SECONDS)
            else:
                return

    def kill(self) -> None:
        """Kill every process that exists now."""
        _signal(self._find_alive(), signal.SIGKILL)

    def _find_alive(self) -> set[int]:
        """Return the groups in which a process runs.

        A zombie still exists for `killpg`. In a container often nothing collects zombies, so
        `/proc` is used where it exists.
        """
        if not _PROC.joinpath("self", "stat").exists():
            return {self._leader} if _signal({self._leader}) else set()
        ids = (int(path.name) for path in _PROC.iterdir() if path.name.isdigit())
        processes = [process for id_ in ids if (process := _read_process(id_)) is not None]
        found = [process for process in processes if process.session == self._leader]
        if any(each.id == self._leader and each.started != self._started for each in found):
            return set()
        # A group that may not be signalled, such as one of `sudo`, cannot be waited for either.
        return {group for group in {each.group for each in found if each.runs} if _signal({group})}


class _Process(NamedTuple):
    id: int
    group: int
    session: int
    runs: bool
    started: bytes


def _read_process(id_: int) -> _Process | None:
    with suppress(OSError, ValueError, IndexError):  # it may have ended
        # The name, in parentheses, may contain anything; the other fields come after it.
        fields = _PROC.joinpath(str(id_), "stat").read_bytes().rpartition(b")")[2].split()
        state, _, group, session = fields[:4]
        return _Process(id_, int(group), int(session), state not in _ENDED, fields[_START_FIELD])
    return None


def _signal(groups: set[int], number: int = 0) -> bool:
    """Send a signal to all of *groups*; return whether any received it."""
    received = False
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
            received = True
    return received
