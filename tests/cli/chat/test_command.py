"""`penstock chat` without a terminal: one prompt, plain text, no questions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from models.loopback_servers import refusal, serving
from penstock.cli.app import app
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
        "write_file says: Made hello.sh: 61 bytes in 3 lines.\n"
        "(This answer is scripted.)\n"
    )
    assert result.stderr.splitlines() == [
        "> write a file hello.sh",
        "● write_file hello.sh",
        "  │ #!/bin/sh",
        "  │ # A file that a script wrote.",
        '  │ echo "Hello, world!"',
        "  → Made hello.sh: 61 bytes in 3 lines.",
    ]
    assert (tmp_path / "hello.sh").read_text().endswith('echo "Hello, world!"\n')
    assert len(list(default_folder().glob("*.jsonl"))) == 1


def test_the_prompt_is_read_from_a_pipe_and_calls_are_denied(tmp_path: Path) -> None:
    result = chat(tmp_path, "--no-session", "--format", "native", given="run `touch it`\n")
    assert "The call was denied: approval is required" in result.stderr
    assert not (tmp_path / "it").exists()
    assert not default_folder().exists()


def test_a_session_is_continued(tmp_path: Path) -> None:
    kept = tmp_path / "talk.jsonl"
    for said in ("Hello", "Again"):
        assert chat(tmp_path, "-p", "--session", str(kept), said).exit_code == 0
    text = kept.read_text()
    assert '"Hello"' in text
    assert '"Again"' in text
    assert chat(tmp_path, "-p", "--resume", "Once more").exit_code == 0
    assert len(list(default_folder().glob("*.jsonl"))) == 1


def test_the_exit_code_is_1_if_the_response_fails(tmp_path: Path) -> None:
    async def main() -> Result:
        async with serving(refusal(401, {"error": {"message": "no such key"}})) as upstream:
            asked = ["--upstream", upstream.url, "--api", "openai-chat", "--model", "m"]
            return await asyncio.to_thread(chat, tmp_path, "-p", "--no-session", *asked, "Hello")

    result = asyncio.run(main())
    assert result.exit_code == 1
    assert "! " in result.stderr
    assert "no such key" in result.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["-p"], "There is no terminal"),
        (["-p", "x", "--folder", "nowhere-at-all"], "is not a directory"),
        (["-p", "x", "--format", "hermez"], "no format is called 'hermez'"),
        (["-p", "x", "--approve", "some"], "expected one of ask, edits, all"),
        (["-p", "x", "--api", "nobody"], "nobody"),
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
