"""Codex calls a tool of an MCP server and applies a patch, with a model that prints its calls.

Codex speaks the Responses API and groups the tools of an MCP server in a namespace. The model
behind the gateway has a chat API and no tools: it prints a call of the MCP tool, then one that
applies a patch, then its last words. The note and the file have to be there, and Codex has to end
with these words. The exit code is the number of checks that failed.

Node has to be there; `AGENTS=skip` skips this script on machines without it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from e2e.agents import npm
from e2e.agents.gateway import Gateway
from e2e.agents.headless import PROGRAMS
from e2e.agents.run import HERE, find_scripts
from e2e.chat_server import ChatHandler, chatting

SECONDS: Final = 180
"""How long Codex may take; on a quiet machine it needs 2 seconds."""

NOTE: Final = 'High water at six, "</tool_call>" and é.'
LINE: Final = "hello <tool_call> {}"
FAREWELL: Final = "Noted and written."
PATCH: Final = f"""apply_patch <<'EOF'
*** Begin Patch
*** Add File: tide.txt
+{LINE}
*** End Patch
EOF"""
CALLS: Final = (
    {"name": "mcp__notes__note", "arguments": {"text": NOTE}},
    {"name": "exec_command", "arguments": {"cmd": PATCH}},
)

SERVER: Final = """\
import json, sys

TOOL = {"name": "note", "description": "Write a note.", "inputSchema": {
    "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}

for line in sys.stdin:
    message = json.loads(line)
    method, result = message.get("method"), {}
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"],
                  "capabilities": {"tools": {}}, "serverInfo": {"name": "notes", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [TOOL]}
    elif method == "tools/call":
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            file.write(message["params"]["arguments"]["text"])
        result = {"content": [{"type": "text", "text": "noted"}]}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
"""An MCP server with one tool."""


class Printing(ChatHandler):
    """Prints the next call, or its last words after the last one."""

    def answer(self, body: dict[str, Any]) -> None:
        """Print text, a few characters at a time."""
        done = sum(message["role"] == "tool" for message in body["messages"])
        text = FAREWELL
        if body.get("tools") and done < len(CALLS):
            text = f"<tool_call>{json.dumps(CALLS[done])}</tool_call>"
        for at in range(0, len(text), 3):
            self.say({"content": text[at : at + 3]})
        self.end("stop")


def main() -> int:
    """Run Codex once and print what went wrong."""
    if os.environ.get("AGENTS") == "skip":
        print("Codex: skipped because of AGENTS=skip")
        return 0
    node, program = shutil.which("node"), shutil.which("npm")
    if node is None or program is None:
        print("Codex: node or npm is not installed; install Node.js, or set AGENTS=skip")
        return 1
    npm.install(program, HERE, *find_scripts(node))
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as name,
        chatting(Printing) as upstream,
        Gateway(upstream.address, Path(name)) as gateway,
    ):
        failures = list(check(run_codex(gateway.address, Path(name)), Path(name)))
        if failures:
            print("\n".join([*failures, f"the gateway wrote:\n{gateway.said}"]))
    print(f"Codex: {len(failures)} failures ({time.monotonic() - began:.0f} s)")
    return len(failures)


def run_codex(address: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Codex in *folder*/work with the gateway at *address*."""
    home, work = folder / "home", folder / "work"
    (home / ".codex").mkdir(parents=True)
    work.mkdir()
    (folder / "server.py").write_text(SERVER)
    settings = f"""
model = "m"
model_provider = "penstock"
[model_providers.penstock]
name = "penstock"
base_url = "{address}/v1"
wire_api = "responses"
[mcp_servers.notes]
command = {json.dumps(sys.executable)}
args = {json.dumps([str(folder / "server.py"), str(folder / "note.txt")])}
default_tools_approval_mode = "approve"
"""
    (home / ".codex" / "config.toml").write_text(settings)
    options = ["--json", "--skip-git-repo-check", "--sandbox", "danger-full-access"]
    return subprocess.run(
        [str(PROGRAMS / "codex"), "exec", *options, "Write it down."],
        cwd=work,
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def check(done: subprocess.CompletedProcess[str], folder: Path) -> Iterator[str]:
    """Yield what is not as expected."""
    if done.returncode != 0:
        yield f"Codex ended with {done.returncode}: {done.stderr[-2000:]}"
    note, file = folder / "note.txt", folder / "work" / "tide.txt"
    if not note.exists() or note.read_text() != NOTE:
        yield f"the MCP tool was not called as printed: {done.stdout[-2000:]}"
    if not file.exists() or file.read_text() != LINE + "\n":
        yield f"the patch was not applied as printed: {done.stdout[-2000:]}"
    if FAREWELL not in done.stdout:
        yield f"the last words are missing: {done.stdout[-2000:]}"


if __name__ == "__main__":
    sys.exit(main())
