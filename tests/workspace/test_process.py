"""All that a command started is ended, in whatever group, and known to be gone when it is."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.tools.watching import PATIENCE, is_alive
from penstock.workspace import shell
from penstock.workspace.shell import GRACE_SECONDS, CommandGroups


def started(code: str) -> subprocess.Popen[bytes]:
    """Start Python in a group of its own; give it once it has said that it is ready."""
    child = subprocess.Popen(  # noqa: S603 - ours
        [sys.executable, "-S", "-E", "-c", f"{code}; print('ready', flush=True); time.sleep(300)"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    return child


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("import time", id="who listens"),
        pytest.param(
            "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)",
            id="who does not",
        ),
    ],
)
async def test_a_group_is_ended_even_if_nobody_collects_it(code: str) -> None:
    with started(code) as child:
        await CommandGroups(child.pid).end()
        assert not is_alive(child.pid)
        os.killpg(child.pid, 0)  # it is still there, for its parent to look at
    with pytest.raises(ProcessLookupError):
        os.killpg(child.pid, 0)


async def test_groups_that_part_from_the_commands_own_are_ended_too(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    code = (
        "import os, pathlib, time; apart = os.fork() or time.sleep(300); os.setpgid(apart, apart)"
        f"; pathlib.Path({str(told)!r}).write_text(str(apart))"
    )
    with started(code) as child:
        await CommandGroups(child.pid).end()
        assert not is_alive(int(told.read_text()))


async def test_without_proc_the_commands_own_group_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with started("import time") as child:
        monkeypatch.setattr(shell, "_PROC", tmp_path)
        monkeypatch.setattr(shell, "KILL_SECONDS", 0.05)  # nobody collects it, so it seems to be
        await CommandGroups(child.pid).end()
        assert child.wait(PATIENCE) != 0


async def test_a_stranger_with_the_same_number_is_left_alone() -> None:
    with started("import time") as child:
        known = CommandGroups(child.pid)
        known._started = b"1"  # a number cannot be made to come again
        known.kill()
        await known.end()
        assert is_alive(child.pid)
        child.kill()


async def test_nobody_is_no_trouble() -> None:
    with started("import time") as child:
        child.kill()
    async with asyncio.timeout(PATIENCE * GRACE_SECONDS):
        await CommandGroups(child.pid).end()
