"""`penstock chat` without a terminal: one prompt, plain text, no questions."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from agent.scenes import reply, text
from models.loopback_servers import refusal, serving
from penstock.cli.app import app
from penstock.cli.chat import SCRIPTED
from penstock.cli.chat.sessions import default_folder


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def chat(folder: Path, *args: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, ["chat", "--folder", str(folder), *args], input=given)


def test_the_answer_goes_to_stdout_and_the_rest_to_stderr(tmp_path: Path) -> None:
    result = chat(tmp_path, "-p", "--approve", "edits", "write a file hello.sh")
    assert result.exit_code == 0
    assert result.stdout == (
        "I use write_file for that.\n"
        "write_file says: Created hello.sh: 61 bytes in 3 lines.\n"
        "(This answer is scripted.)\n"
    )
    assert result.stderr.splitlines() == [
        f"! {SCRIPTED}",
        "> write a file hello.sh",
        "● write_file hello.sh",
        "  │ #!/bin/sh",
        "  │ # A file that a script wrote.",
        '  │ echo "Hello, world!"',
        "  → Created hello.sh: 61 bytes in 3 lines.",
    ]
    assert (tmp_path / "hello.sh").read_text().endswith('echo "Hello, world!"\n')
    assert len(list(default_folder().glob("*.jsonl"))) == 1


def test_the_result_is_printed_as_json(tmp_path: Path) -> None:
    (tmp_path / "system.txt").write_text("Be short.")
    said = ["-p", "--json", "--approve", "edits", "--no-session", "write a file hello.sh"]
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    result = chat(tmp_path, *said, "--system", f"@{tmp_path}/system.txt")
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    assert printed["text"].startswith("write_file says: Created hello.sh")
    assert printed["turns"] == 2
    assert printed["usage"]["output"] > 0
    assert printed["error"] is None
    assert printed["session"] is None
    assert [one["role"] for one in printed["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert "● write_file hello.sh" in result.stderr


def test_tools_of_mcp_servers_are_used(tmp_path: Path) -> None:
    server = tmp_path / "harbour.py"
    server.write_text(SERVER)
    settings = {"mcpServers": {"my boats": {"command": sys.executable, "args": [str(server)]}}}
    (tmp_path / "mcp.json").write_text(json.dumps(settings))
    asked = ["-p", "--no-session", "--approve", "all", "--mcp", str(tmp_path / "mcp.json")]
    result = chat(tmp_path, *asked, "use my_boats__find_boat to find Maria")
    assert "● my_boats__find_boat" in result.stderr
    assert "is in the harbour" in result.stdout


SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("harbour")
@server.tool()
def find_boat(name: str) -> str:
    "Find a boat."
    return f"{name} is in the harbour"
server.run("stdio")
"""


def test_the_prompt_is_read_from_a_pipe_and_calls_are_denied(tmp_path: Path) -> None:
    result = chat(tmp_path, "--no-session", "--format", "native", given="run `touch it`\n")
    assert "The call was denied: approval is required" in result.stderr
    assert not (tmp_path / "it").exists()
    assert not default_folder().exists()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (b"one\ntwo\n", '<file path="stdin">\none\ntwo\n</file>'),
        (b"see @secret.txt", '<file path="stdin">\nsee @secret.txt\n</file>'),
        (b"", None),
        (b"\0\1", None),
    ],
)
def test_what_is_piped_is_sent_with_the_prompt(
    tmp_path: Path, given: bytes, expected: str | None
) -> None:
    (tmp_path / "secret.txt").write_text("It is hidden.")
    flags = ["--folder", str(tmp_path), "--no-session", "--json", "-p", "Review this."]
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-m", "penstock", "chat", *flags],
        input=given,
        capture_output=True,
        check=True,
    )
    blocks = json.loads(done.stdout)["messages"][0]["content"]
    texts = [block["text"] for block in blocks]
    assert texts == ["Review this.", *([] if expected is None else [expected])]
    assert (b"stdin is not sent" in done.stderr) == (given == b"\0\1")


def test_a_session_is_continued(tmp_path: Path) -> None:
    kept = tmp_path / "talk.jsonl"
    for said in ("Hello", "Again"):
        assert chat(tmp_path, "-p", "--session", str(kept), said).exit_code == 0
    text = kept.read_text()
    assert '"Hello"' in text
    assert '"Again"' in text
    assert chat(tmp_path, "-p", "--resume", "Once more").exit_code == 0
    assert len(list(default_folder().glob("*.jsonl"))) == 1


async def test_the_system_prompt_has_the_instructions_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    async with serving(reply(text("So.")), reply(text("So."))) as upstream:
        asked = ["--upstream", upstream.url, "--api", "openai-chat", "--model", "gpt-5-codex"]
        for flags in (["--system", "Be short."], ["--no-agents-md"]):
            said = ["-p", "--no-session", *asked, *flags, "Hello"]
            assert (await asyncio.to_thread(chat, tmp_path, *said)).exit_code == 0
    first, second = (one.json for one in upstream.seen)
    system = first["messages"][0]["content"]
    assert system.startswith("Be short.\n\nThe project has these instructions")
    assert "Use tabs." in system
    assert "Use tabs." not in str(second)
    names = [one["function"]["name"] for one in first["tools"]]
    assert {"grep", "apply_patch"} <= {*names}


async def test_the_exit_code_is_1_if_the_response_fails(tmp_path: Path) -> None:
    async with serving(refusal(401, {"error": {"message": "no such key"}})) as upstream:
        asked = ["--upstream", upstream.url, "--api", "openai-chat", "--model", "m"]
        result = await asyncio.to_thread(chat, tmp_path, "-p", "--no-session", *asked, "Hello")
    assert result.exit_code == 1
    assert "! " in result.stderr
    assert "no such key" in result.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["-p"], "There is no terminal"),
        (["-p", "x", "--folder", "nowhere-at-all"], "is not a directory"),
        (["-p", "x", "--format", "hermez"], "unknown format 'hermez'"),
        (["-p", "x", "--approve", "some"], "expected one of ask, edits, all"),
        (["-p", "x", "--api", "nobody"], "nobody"),
        (["-p", "x", "--effort", "huge"], "expected one of none, minimal, low"),
        (["-p", "x", "--system", "@nowhere.txt"], "the file cannot be read"),
        (["-p", "x", "--mcp", "nowhere.json"], "No such file"),
        (["-p", "x", "--mcp", "http://a/b", "--mcp", "http://a/c"], "two servers named 'a'"),
        (["-p", "x", "--mcp", "'"], "is not a file, a URL or a command line"),
        (["-p", "x", "--session", "."], "session's file cannot be opened"),
    ],
)
def test_invalid_options_are_refused_in_one_line(
    tmp_path: Path, args: list[str], words: str
) -> None:
    result = chat(tmp_path, *args, given="")
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_a_rule_that_cannot_be_read_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "bad.md").write_text("no head")
    result = chat(tmp_path, "-p", "--no-session", "--rules", str(tmp_path), "Hello")
    assert "! " in result.stderr
    assert "bad" in result.stderr


def test_the_default_folder_of_sessions_follows_xdg(tmp_path: Path) -> None:
    assert default_folder({"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "penstock/sessions"
    ends = (".local", "state", "penstock", "sessions")
    assert default_folder({"XDG_STATE_HOME": "not/absolute"}).parts[-4:] == ends
