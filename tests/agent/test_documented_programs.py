"""Programs of the documentation, run as a reader runs them: in a process, over real HTTP."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from agent.scenes import calls, reply, text
from gateway.serving import until
from models.loopback_servers import Reply, serving

DOCS = Path(__file__).parents[2] / "docs"


def program_of(page: str, name: str) -> str:
    """Give the program called *name* of a page."""
    found = re.search(
        rf"^<!-- file: {re.escape(name)} -->\n```python\n(.*?)^```",
        (DOCS / page).read_text(),
        re.MULTILINE | re.DOTALL,
    )
    assert found is not None, f"{page} has no program {name}"
    return found[1]


async def run_program(folder: Path, name: str, *arguments: str, **environ: str) -> tuple[int, str]:
    """Run a program; give its exit code and all that it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-X", "dev", "-W", "error", name, *arguments,
        cwd=folder, env={**os.environ, "PYTHONUNBUFFERED": "1", **environ},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode is not None
    # With -X dev, asyncio also prints which callback took long: on a busy machine any may.
    printed = re.sub(r"(?m)^Executing <.* took [\d.]+ seconds\n", "", output.decode())
    return process.returncode, printed


MARCH = """\
<think>
The number is A-7. A draft: {"number": "A-6", "day": "2026-03-01", "items": []}
</think>
Sure! Here is the invoice:

```json
{
  "number": "A-7",
  "day": "2026-03-01",
  "items": [
    {"name": "rope {20 m}", "price": 12.5,},  // a coil
    {"name": "anchor", "price": 87.5}
  ]
}
```

Let me know if you need anything else!
"""
FAULTY = '{"number": "A-8", "day": "2026-04-01", "items": [{"name": "sail", "price": -3}]}'
APRIL = FAULTY.replace("-3", "300")


async def test_invoices_are_read_by_a_model_that_only_prints_text(tmp_path: Path) -> None:
    (tmp_path / "invoices.py").write_text(program_of("agents/output.md", "invoices.py"))
    for name in ("march", "april", "may"):
        (tmp_path / f"{name}.txt").write_text(f"Invoice of {name}")
    # The server knows neither a response format nor tools, as an old one does.
    unknown = Reply(status=400, whole=b'{"error": {"message": "unknown field"}}')
    prose = reply(text("I cannot find an invoice."))
    answers = [reply(text(MARCH), 40), reply(text(FAULTY)), reply(text(APRIL)), prose]
    asked: list[str] = []

    def respond(seen: object) -> Reply:
        body = seen.json  # type: ignore[attr-defined]
        if "response_format" in body or "tools" in body:
            return unknown
        asked.append(body["messages"][-1]["content"])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async with serving(respond) as upstream:
        model = f"{upstream.url}/v1#small"
        files = ["march.txt", "april.txt", "may.txt"]
        code, output = await run_program(tmp_path, "invoices.py", model, *files)
    assert code == 0, output
    assert output.splitlines()[:2] == [
        "march.txt: A-7 of 2026-03-01: 100.00",
        "april.txt: A-8 of 2026-04-01: 300.00",
    ], output
    assert "may.txt: the output is not usable: Your response contains no JSON object" in output
    assert "items[0].price: expected more than 0, got -3" in asked[2], "the fault in words"
    assert len(asked) == 6, "of the last file, three responses"


PAY = calls(("pay", {"invoice": "A-7", "euros": 120.0}), words="")


async def start_payments(folder: Path, url: str, pause: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "payments.py", f"{url}/v1#small", pause,
        cwd=folder, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip


@pytest.mark.leaves_files
@pytest.mark.parametrize(("answer", "times"), [("yes", 1), ("no", 2)])
async def test_a_payment_is_not_made_twice_after_a_crash(
    tmp_path: Path, answer: str, times: int
) -> None:
    (tmp_path / "payments.py").write_text(program_of("agents/sessions.md", "payments.py"))
    ledger = tmp_path / "ledger.txt"
    async with serving(reply(PAY), reply(text("It is done."))) as upstream:
        first = await start_payments(tmp_path, upstream.url, "600")
        assert first.stdin is not None
        first.stdin.write(b"Pay A-7.\nyes\n")
        await first.stdin.drain()
        await asyncio.to_thread(until, lambda: ledger.exists() and bool(ledger.read_text()))
        first.kill()
        await first.communicate()
        second = await start_payments(tmp_path, upstream.url, "0")
        output, _ = await asyncio.wait_for(second.communicate(f"{answer}\n".encode()), 60)
        assert second.returncode == 0, output.decode()
        assert "was interrupted. Was it paid?" in output.decode()
        assert "It is done." in output.decode()
        assert ledger.read_text() == "A-7 120.0\n" * times
        results = [m for m in upstream.seen[-1].json["messages"] if m["role"] == "tool"]
        assert len(results) == 1
        assert ("before the interruption" in results[0]["content"]) == (answer == "yes")
