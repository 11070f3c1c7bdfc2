"""Process groups: how all that a command started is ended, and how it is known to be gone."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

GRACE_SECONDS: Final = 0.5
"""How long a group that was asked to end has before it is killed."""

_LOOK_SECONDS: Final = 0.01
_PROCESSES: Final = Path("/proc")


async def end_group(group: int) -> None:
    """End every process of *group*: ask, wait a moment, kill. Nobody there is no trouble."""
    if not signal_group(group, signal.SIGTERM):
        return
    deadline = asyncio.get_running_loop().time() + GRACE_SECONDS
    while _has_life(group):
        if asyncio.get_running_loop().time() > deadline:
            signal_group(group, signal.SIGKILL)
            return
        await asyncio.sleep(_LOOK_SECONDS)


def signal_group(group: int, number: int) -> bool:
    """Send a signal to all of *group*; tell whether there was anybody."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _has_life(group: int) -> bool:
    """Tell whether a process of *group* still runs.

    Who has ended but was not collected by its parent counts for the system; in a container, where
    often nobody collects, that would be for ever. So where there is a `/proc`, it is asked.
    """
    if not signal_group(group, 0):
        return False
    return not _PROCESSES.joinpath("self", "stat").exists() or any(
        _runs_in(entry, group) for entry in _PROCESSES.iterdir() if entry.name.isdigit()
    )


def _runs_in(process: Path, group: int) -> bool:
    with suppress(OSError, ValueError):  # it may be gone by now
        # The name, in brackets, may hold anything; state, parent and group stand behind it.
        said = process.joinpath("stat").read_bytes().rpartition(b")")[2]
        state, _, its_group = said.split()[:3]
        return int(its_group) == group and state not in {b"Z", b"X"}
    return False
