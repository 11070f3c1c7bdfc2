"""Commands run, are heard while they do, and leave nothing behind."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.tools.contexts import Heard
from agent.tools.watching import PATIENCE, is_alive, until
from penstock.agent.tools import ToolOutput
from penstock.errors import ToolError
from penstock.workspace.shell import MAX_OUTPUT_CHARS, ShellOutput
from workspace.working import Workspace


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def pids_in(work: Workspace, name: str = "pids") -> list[int]:
    return [int(pid) for pid in work.text(name).split()]


def test_a_command_runs_in_the_folder_and_its_output_comes_back(work: Workspace) -> None:
    assert work.use("run_bash", command="pwd; echo oops >&2; cat") == f"{work.root}\noops\n"
    assert work.use("run_bash", command="true") == "(No output.)"


def test_a_command_that_fails_is_an_error_with_its_code(work: Workspace) -> None:
    output = work.output("run_bash", command="printf half; exit 3")
    assert output == ToolOutput(
        "half\n(Exit code 3.)", is_error=True, details={"exit_code": 3, "timed_out": False}
    )
    assert "(Exit code -9.)" in work.use("run_bash", command="kill -9 $$")


async def test_output_is_shown_as_it_comes(work: Workspace) -> None:
    heard = Heard()
    wait = "while [ ! -e go ]; do sleep 0.02; done"
    command = f"echo one; sleep 0.02; echo two; {wait}; echo three"
    task = asyncio.ensure_future(work.outcome("run_bash", heard, command=command))
    await until(lambda: "one\ntwo\n" in heard.updates)  # nothing follows, and it is shown
    work.put("go", "")
    output = await task
    assert isinstance(output, ToolOutput)
    assert output.content == "one\ntwo\nthree\n"


def test_a_flood_keeps_its_beginning_and_its_end(work: Workspace) -> None:
    text = work.use("run_bash", command="echo first; yes | head -c 3000000; echo last")
    assert text.startswith("first\ny\n")
    assert text.endswith("y\nlast\n")
    assert "characters omitted" in text
    assert len(text) < MAX_OUTPUT_CHARS + 100


def test_bytes_that_are_no_text_do_no_harm(work: Workspace) -> None:
    assert work.use("run_bash", command=r"printf 'a\377b'") == "a\ufffdb"


def test_when_the_time_is_up_the_whole_group_is_ended(work: Workspace) -> None:
    command = "sleep 300 & echo $$ $! > pids; echo begun; wait"
    output = work.output("run_bash", command=command, seconds=0.3)
    assert output.is_error
    assert output.content == "begun\n(Ended after 0.3 s: the time limit.)"
    assert not any(map(is_alive, pids_in(work)))


def test_the_agents_limit_holds_whatever_the_model_asks_for(tmp_path: Path) -> None:
    work = Workspace(tmp_path, shell_seconds=0.2)
    assert "Ended after 0.2 s" in work.use("run_bash", command="sleep 300", seconds=200)


def test_who_ignores_the_signal_is_killed(work: Workspace) -> None:
    command = "trap '' TERM; echo $$ > pids; while :; do sleep 0.05; done"
    assert "Ended" in work.use("run_bash", command=command, seconds=0.2)
    assert not any(map(is_alive, pids_in(work)))


def test_what_runs_in_the_background_ends_with_its_command(work: Workspace) -> None:
    command = "sleep 300 & echo $! > pids; sleep 300 >/dev/null 2>&1 & echo $! >> pids; echo done"
    # If the background were waited for, the output would say that the time limit ended it.
    assert work.use("run_bash", command=command, seconds=PATIENCE) == "done\n"
    assert not any(map(is_alive, pids_in(work)))


def test_who_left_the_group_with_the_pipe_is_not_waited_for(work: Workspace) -> None:
    command = "setsid sleep 300 & echo $! > pids; echo done"
    try:
        assert work.use("run_bash", command=command) == "done\n"
    finally:
        for pid in pids_in(work):
            os.kill(pid, 9)


IN_OTHER_GROUPS = {
    "by timeout": "timeout 771 sleep 770 & timeout 771 sh -c 'echo $$ > pids; exec sleep 770' &",
    "by the shell's job control": "set -m; sleep 770 & echo $! > pids;",
}


@pytest.mark.parametrize("command", IN_OTHER_GROUPS.values(), ids=IN_OTHER_GROUPS)
def test_what_was_put_into_a_group_of_its_own_ends_with_its_command(
    work: Workspace, command: str
) -> None:
    waiting = "while [ ! -s pids ]; do sleep 0.01; done"
    work.use("run_bash", command=f"{command} {waiting}")
    assert not any(map(is_alive, pids_in(work)))


@pytest.mark.parametrize("command", IN_OTHER_GROUPS.values(), ids=IN_OTHER_GROUPS)
async def test_cancelling_ends_groups_of_their_own_too(work: Workspace, command: str) -> None:
    whole = f"{command} wait"
    task = asyncio.ensure_future(work.outcome("run_bash", Heard(), command=whole))
    pids = work.root / "pids"
    await until(lambda: pids.exists() and pids.read_text().endswith("\n"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(map(is_alive, pids_in(work)))


async def test_cancelling_ends_the_whole_group_before_it_returns(work: Workspace) -> None:
    heard = Heard()
    command = "sleep 300 & echo $$ $! > draft; mv draft pids; wait"
    task = asyncio.ensure_future(work.outcome("run_bash", heard, command=command))
    await until((work.root / "pids").exists)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(map(is_alive, pids_in(work)))


@pytest.mark.parametrize("turns", range(0, 12, 2))
async def test_cancelling_at_any_moment_leaves_nothing(work: Workspace, turns: int) -> None:
    command = "echo $$ > pids; exec sleep 300"
    task = asyncio.ensure_future(work.outcome("run_bash", Heard(), command=command))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    if (work.root / "pids").exists():
        assert not any(map(is_alive, pids_in(work)))


def test_a_loop_that_is_closed_takes_its_commands_along(work: Workspace) -> None:
    async def main() -> None:
        command = "echo $$ > draft; mv draft pids; exec sleep 300"
        asyncio.ensure_future(work.outcome("run_bash", Heard(), command=command))  # noqa: RUF006
        await until((work.root / "pids").exists)

    asyncio.run(main())
    assert not any(map(is_alive, pids_in(work)))


def test_variables_are_those_it_is_given(tmp_path: Path) -> None:
    work = Workspace(tmp_path, env={"BOAT": "Anna", "PATH": os.environ["PATH"]})
    assert work.use("run_bash", command="echo $BOAT $HOME") == "Anna\n"


def test_a_command_that_cannot_be_started_is_told(work: Workspace) -> None:
    with pytest.raises(ToolError, match="null"):
        work.use("run_bash", command="a\0b")
    with pytest.raises(ToolError, match="cannot be started"):
        work.use("run_bash", command="#" * 3_000_000)
    work.root.rename(work.root.with_name("moved"))
    with pytest.raises(ToolError, match="cannot be started"):
        work.use("run_bash", command="true")


@settings(max_examples=30)
@given(pieces=st.lists(st.text(st.characters(codec="utf-8"), max_size=30)), cut=st.integers(1, 5))
def test_output_keeps_both_ends_of_whatever_comes(pieces: list[str], cut: int) -> None:
    output = ShellOutput(limit=40)
    data = "".join(pieces).encode()
    for at in range(0, len(data), cut):
        output.add(data[at : at + cut])
    output.add(b"", final=True)
    whole = "".join(pieces)
    if len(whole) <= 40:
        assert output.text == whole
    else:
        assert output.text.startswith(whole[:20])
        assert output.text.endswith(whole[-20:])
        assert f"{len(whole) - 40:,} characters" in output.text
