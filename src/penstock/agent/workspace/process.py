"""Process groups: how all that a command started is ended, and how it is known to be gone.

A shell that watches over jobs (`set -m`), and tools such as `timeout`, put what they start into
groups of their own. All of these stay in the session that the command leads, so the session is what
is ended: its groups are looked up in `/proc` and signalled, again and again until none is left, for
who is asked to end may start others. Without a `/proc` only the command's own group is known.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

GRACE_SECONDS: Final = 0.5
"""How long those who were asked to end have before they are killed."""

KILL_SECONDS: Final = 5.0
"""How long the killed are waited for: one that waits for a disk cannot even die."""

_LOOK_SECONDS: Final = 0.01
_PROCESSES: Final = Path("/proc")
_ENDED: Final = (b"Z", b"X")
_STARTED: Final = 19  # where the moment of the start stands, after the name


class CommandGroups:
    """The groups in the session that the process *leader* leads; made while it is young.

    The number of a leader is nobody else's while any of its session lives. Once all are gone it may
    be given out again; a leader that started at another moment is a stranger, and left alone.
    """

    def __init__(self, leader: int) -> None:
        self._leader = leader
        found = _look(leader)
        self._started = found.started if found is not None else None

    async def end(self) -> None:
        """End every process: ask, wait a moment, kill. Nobody there is not a trouble."""
        for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
            asked: set[int] = set()
            deadline = asyncio.get_running_loop().time() + seconds
            while alive := self._alive():
                # Asking twice would make some end less gently; only who is new is asked.
                _signal(alive if number == signal.SIGKILL else alive - asked, number)
                asked |= alive
                if asyncio.get_running_loop().time() > deadline:
                    break
                await asyncio.sleep(_LOOK_SECONDS)
            else:
                return

    def kill(self) -> None:
        """Kill every process that is there now."""
        _signal(self._alive(), signal.SIGKILL)

    def _alive(self) -> set[int]:
        """Find the groups in which a process still runs.

        Who has ended but was not collected by its parent counts for the system; in a container,
        where often nobody collects, that would be for ever. So where there is a `/proc`, it is
        asked.
        """
        if not _PROCESSES.joinpath("self", "stat").exists():
            return {self._leader} if _signal({self._leader}) else set()
        found = [each for each in _look_at_all() if each.session == self._leader]
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


def _look_at_all() -> Iterator[_Process]:
    for name in (entry.name for entry in _PROCESSES.iterdir()):
        if name.isdigit() and (found := _look(int(name))) is not None:
            yield found


def _look(process: int) -> _Process | None:
    with suppress(OSError, ValueError, IndexError):  # it may be gone by now
        # The name, in brackets, may hold anything; what counts comes after it.
        fields = _PROCESSES.joinpath(str(process), "stat").read_bytes().rpartition(b")")[2].split()
        state, _, group, session = fields[:4]
        return _Process(process, int(group), int(session), state not in _ENDED, fields[_STARTED])
    return None


def _signal(groups: set[int], number: int = 0) -> bool:
    """Send a signal to all of *groups*; return whether anybody heard it."""
    heard = False
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
            heard = True
    return heard
