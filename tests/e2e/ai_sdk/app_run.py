"""The FastAPI application of the documentation, with the AI SDK's chat class and reloads.

The program is the file `app.py` of docs/integrations/fastapi.md, unchanged. A page asks, is loaded
again while a call waits for approval, approves the call, and is loaded again.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PAGE = ROOT / "docs" / "integrations" / "fastapi.md"
START_SECONDS = 30
RUN_SECONDS = 60


def read_program() -> str:
    """Return the program of the page."""
    found = re.search(r"<!-- file: app\.py -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found, "the page has no app.py"
    return found[1]


@contextmanager
def serving() -> Iterator[str]:
    """Run the program as a user would; yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="penstock-app-") as folder:
        Path(folder, "app.py").write_text(read_program())
        python = ROOT / ".venv" / "bin" / "python"
        command = [str(python), "-m", "uvicorn", "app:app", "--port", str(port)]
        with subprocess.Popen([*command, "--log-level", "warning"], cwd=folder) as server:
            try:
                wait_for(port, server)
                yield f"http://127.0.0.1:{port}"
            finally:
                server.terminate()


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        assert server.poll() is None, "the application ended"
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise AssertionError("the application does not listen")


def compare_app(node: str) -> int:
    """Let the page talk to the application; return how many scenes failed."""
    print("the FastAPI application of the documentation:", flush=True)
    with serving() as address:
        done = subprocess.run(
            [node, str(HERE / "app_client.mjs"), address],
            cwd=HERE,
            stdout=subprocess.PIPE,
            text=True,
            timeout=RUN_SECONDS,
            check=True,
            env={**os.environ, "NODE_NO_WARNINGS": "1"},
        )
    try:
        check(json.loads(done.stdout))
    except AssertionError as exc:
        print(f"{'reload':<16} FAILED: {exc}", flush=True)
        return 1
    print(f"{'reload':<16} approved after a reload; 400 and 409 where they belong", flush=True)
    return 0


def check(seen: dict[str, Any]) -> None:
    assert seen["first"] == []
    assert plain(seen["asked"]) == plain(seen["reloaded"]), "the reloaded page differs"
    assert seen["ends"] == ["tool-calls", "stop"], seen["ends"]
    assert plain(seen["finished"]) == plain(seen["last"]), "the page differs after its end"
    (call,) = [one for one in seen["last"][-1]["parts"] if one["type"] == "tool-get_weather"]
    assert (call["state"], call["output"]) == ("output-available", "Snow in Oslo.")
    statuses = [seen[name] for name in ("repeated", "empty", "blank", "decided", "both")]
    assert statuses == [409, 400, 400, 409, [200, 409]], statuses


def plain(messages: list[dict[str, Any]]) -> list[object]:
    """Return what a page shows of its messages."""
    keys = ("type", "text", "input", "output", "toolCallId")
    found: list[object] = []
    for message in messages:
        parts = [{key: part[key] for key in keys if key in part} for part in message["parts"]]
        found.append([message["role"], parts])
    return found


if __name__ == "__main__":
    sys.exit(compare_app(sys.argv[1]))
