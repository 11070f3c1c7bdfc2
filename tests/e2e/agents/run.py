"""Coding agents from npm write files with a model that prints its calls as text.

Claude Code asks the gateway for messages and opencode for chat completions, without a screen, in a
scratch folder; behind the gateway is a model that prints a call of their own file-writing tool. In
three shapes of text (and once told of the tools in words, as a model without native ones is) the
file has to be there, byte for byte, and the agent has to end with the model's last words. Where the
call breaks off in its middle there must be no file: told of a limit the agent goes on, and where
the line was cut it has to end with an error. The log of the gateway has to say the same. The agents
run side by side; each cell prints a row, and the exit code is the number of those that failed.

Node has to be there; `AGENTS=skip` passes without a look, for machines that have none.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from e2e.agents import npm
from e2e.agents.gateway import LOG_SECONDS, Gateway
from e2e.agents.headless import AGENTS, Agent, Outcome
from e2e.agents.shapes import SHAPES
from e2e.agents.upstream import FAREWELL, QUESTION, printing

HERE: Final = Path(__file__).parent
PLACED: Final = {"@anthropic-ai/claude-code": "install.cjs", "opencode-ai": "postinstall.mjs"}
"""What puts the program of each package in its place."""

WHOLE: Final = (*SHAPES, "hermes-told")
BROKEN: Final = ("hermes-cut", "bare_json-length", "qwen3_coder-cut", "qwen3_coder-length")
"""The models that write a file, and those that break off before."""

TOLD: Final = """
[models.hermes-told]
model = "hermes"
format = "hermes"
tools = "prompt"
"""
"""How a model is named to the gateway that has to be told of its tools in words."""

Rows = list[dict[str, Any]]
"""What the log has of the requests of a cell."""

FILE: Final = "nasty.md"
"""Claude Code drops blanks at the end of lines, but in Markdown, where they mean something."""


def main() -> int:
    if os.environ.get("AGENTS") == "skip":
        print("agents: skipped, as AGENTS=skip asks for")
        return 0
    node, program = shutil.which("node"), shutil.which("npm")
    if node is None or program is None:
        print("agents: there is no node or npm here; install Node.js, or pass AGENTS=skip")
        return 1
    began = time.monotonic()
    npm.install(program, HERE, *find_scripts(node))
    installed = time.monotonic()
    failed = run_all()
    cells = len(AGENTS) * len(WHOLE + BROKEN)
    took = f"{installed - began:.0f} s to install, {time.monotonic() - installed:.0f} s to run"
    print(f"{cells - failed} of {cells} cells are as they should be ({took})")
    return failed


def find_scripts(node: str) -> list[list[str]]:
    """Return the commands that put the programs in place."""
    return [[node, f"node_modules/{package}/{script}"] for package, script in PLACED.items()]


def run_all() -> int:
    """Let every agent ask every model; give how many went wrong."""
    print(f"{'agent':<12} {'model':<20} {'file':>6} {'seconds':>8}  last words", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as name,
        printing() as upstream,
        Gateway(upstream.address, Path(name), TOLD) as gateway,
        ThreadPoolExecutor(len(AGENTS)) as pool,
    ):
        failed = sum(pool.map(lambda agent: run_agent(agent, gateway, Path(name)), AGENTS))
        if failed:
            print(f"the gateway said:\n{gateway.said}")
    return failed


def run_agent(agent: Agent, gateway: Gateway, scratch: Path) -> int:
    failed = 0
    for model in WHOLE + BROKEN:
        folder = scratch / agent.name.replace(" ", "-") / model
        began = time.monotonic()
        try:
            row = run_cell(agent, model, gateway, folder)
        except (AssertionError, LookupError, OSError, ValueError) as exc:
            failed += 1
            row = f"FAILED {exc!r}"
        took = time.monotonic() - began
        size, _, words = row.partition(" ")
        print(f"{agent.name:<12} {model:<20} {size:>6} {took:>8.1f}  {words}", flush=True)
    return failed


def run_cell(agent: Agent, model: str, gateway: Gateway, folder: Path) -> str:
    """Let *agent* ask *model*, and see to what came of it; give the size and its last words."""
    file = folder / "work" / FILE
    outcome = agent.ask(QUESTION.format(file), model, gateway.address, folder)
    shape, _, ending = model.partition("-")
    if model in WHOLE:
        check_file(file, SHAPES[shape].content)
        check_rows = partial(check_call, shape=shape, is_told=ending == "told")
    else:
        check_nothing(file)
        check_rows = partial(check_broken_call, is_cut=ending == "cut")
    (check_cut_end if ending == "cut" else check_end)(outcome)
    check_log(check_rows, lambda: gateway.answered(model=model, client_api=agent.api))
    size = file.stat().st_size if file.exists() else "none"
    return f"{size} {outcome.last or outcome.errors[0]}"


def check_file(file: Path, content: str) -> None:
    assert file.exists(), f"there is no {file.name}"
    found, wanted = file.read_bytes(), content.encode()
    pairs = enumerate(zip_longest(found, wanted))
    at = next((at for at, (there, here) in pairs if there != here), 0)
    there, here = found[at : at + 30], wanted[at : at + 30]
    assert found == wanted, f"the file differs at byte {at}: {there!r}, not {here!r}"
    assert [*file.parent.iterdir()] == [file], "there is more than the file"


def check_nothing(file: Path) -> None:
    found = [one.name for one in file.parent.iterdir()]
    assert not found, f"a call that broke off left {found}"


def check_end(outcome: Outcome) -> None:
    assert outcome.code == 0, f"it ended with {outcome.code}: {outcome.errors}"
    assert outcome.last == FAREWELL, f"it said {outcome.last!r} at last: {outcome.errors}"


def check_cut_end(outcome: Outcome) -> None:
    assert outcome.code != 0, f"it takes half an answer for a whole one: {outcome.last!r}"
    assert outcome.errors, "it does not say why it ended"


def check_log(check: Callable[[Rows], None], read: Callable[[], Rows]) -> None:
    """See that the log says the same, soon: it is written beside the answers."""
    until = time.monotonic() + LOG_SECONDS
    while True:
        try:
            check(read())
        except AssertionError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return


def check_call(rows: Rows, *, shape: str, is_told: bool) -> None:
    """See that the log has the call, how it was read, and an answer after it."""
    ends = [row["state"] for row in rows]
    assert set(ends) == {"done"}, f"not every request is done: {ends}"
    calls = [row for row in rows if row["calls"]]
    assert [row["finish"] for row in calls] == ["tool_use"], f"the log has {len(calls)} calls"
    (call,) = calls
    assert call is not rows[-1], "nothing was asked after the call"
    read = (call["mode"], call["format"])
    wanted = ("prompt", "hermes") if is_told else ("native", "auto")
    assert read == wanted, f"the call was read by {read}"
    repairs = call["repairs"]
    if shape == "qwen3_coder":  # the model forgot both end tags
        assert len(repairs) == 2, f"the repairs are {repairs}"
        assert repairs[0].startswith("closed the value of ")
        assert repairs[1] == "closed the call"
    else:
        assert repairs == [], f"the repairs are {repairs}"


def check_broken_call(rows: Rows, *, is_cut: bool) -> None:
    """See that the call was begun and never taken for complete, and what broke it off."""
    ends = [(row["state"], row["finish"], row["calls"]) for row in rows]
    assert not any(finish == "tool_use" for _, finish, _ in ends), f"the log says {ends}"
    wanted = ("failed", "error", 1) if is_cut else ("done", "length", 1)
    assert wanted in ends, f"the log says {ends}, and not {wanted}"


if __name__ == "__main__":
    sys.exit(main())
