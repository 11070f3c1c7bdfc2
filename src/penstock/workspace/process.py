"""End all processes that a command has started, and know when they are gone.

A shell with job control (`set -m`) and tools such as `timeout` put what they start into process
groups of their own. All of them stay in the session that the command leads, so the session is
ended: its groups are found in `/proc` and signalled, again and again until none is left, because a
process that ends may start others. Without `/proc` only the command's own group is known.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

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
