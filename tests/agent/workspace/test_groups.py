"""A process group is ended as a whole, and known to be gone when it is."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import pytest

from agent.tools.watching import PATIENCE, is_alive
from models.loopback_servers import run
from penstock.agent.workspace.groups import GRACE_SECONDS, end_group, signal_group


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
def test_a_group_is_ended_even_if_nobody_collects_it(code: str) -> None:
    with started(code) as child:
        run(end_group(child.pid))
        deadline = time.monotonic() + PATIENCE
        while is_alive(child.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not is_alive(child.pid)
        assert signal_group(child.pid, 0)  # it is still there, for its parent to look at
    assert not signal_group(child.pid, 0)


def test_nobody_is_no_trouble() -> None:
    with started("import time") as child:
        child.kill()

    async def main() -> None:
        async with asyncio.timeout(PATIENCE * GRACE_SECONDS):
            await end_group(child.pid)

    run(main())
