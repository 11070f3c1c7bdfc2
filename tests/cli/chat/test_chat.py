"""`penstock chat` in a real terminal, with the scripted model and with servers on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from msgspec import structs

from agent.scenes import calls, reply, text
from agent.session.records import HEADER, entry, lines_of, user
from cli.chat.chat_driver import DEADLINE, start_chat
from models.loopback_servers import STALL, Reply, Upstream, serving
from penstock.agent.session import ToolStartEntry
from penstock.messages import AssistantMessage, ToolCall
from penstock.models.demo import FILES

PYTHON = FILES[".py"]
"""What the scripted model writes into a file of Python."""

DOCS = Path(__file__).parents[3] / "docs" / "chat.md"

INTERRUPT, END = "\x03", "\x04"

ASKED = "y yes, n no"
IDLE = "type a request"


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def flags(upstream: Upstream) -> list[str]:
    return ["--upstream", upstream.url, "--api", "openai-chat", "--model", "m"]


def transcript(number: int) -> str:
    """Return a terminal session of the documentation."""
    pages = DOCS.read_text().split("```text\n")
    return pages[number + 1].split("```")[0].strip("\n")


def call_in_pieces(name: str, *pieces: str) -> list[bytes]:
    """Return the beginning of a response that calls a tool, with its arguments in pieces."""
    head = {"index": 0, "id": "c1", "type": "function", "function": {"name": name}}
    deltas = [head, *({"index": 0, "function": {"arguments": piece}} for piece in pieces)]
    return [
        b"data: %s\n\n"
        % json.dumps(
            {
                "id": "x",
                "object": "chat.completion.chunk",
                "model": "m",
                "choices": [{"index": 0, "delta": {"tool_calls": [delta]}}],
            }
        ).encode()
        for delta in deltas
    ]


def test_a_file_is_written_after_approval_and_the_session_is_resumed(tmp_path: Path) -> None:
    async def main() -> None:
        async with start_chat(tmp_path, "--pace", "0") as chat:
            await chat.until("penstock-demo", IDLE)
            chat.type("write a file hello.py\r")
            seen = await chat.until("Run write_file?", ASKED)
            assert transcript(0) in seen
            assert not (tmp_path / "hello.py").exists()
            chat.type("y\r")
            await chat.until("→ Made hello.py: 149 bytes in 9 lines.", "write_file says", IDLE)
            assert (tmp_path / "hello.py").read_text() == PYTHON
            chat.type('edit hello.py: replace "world" with "moon"\r')
            await chat.until("- world", "+ moon", "Run edit_file?")
            chat.type("n the moon is far away\r")
            await chat.until("→ The call was denied: the moon is far away", IDLE)
            assert transcript(1) in chat.screen.text
            assert (tmp_path / "hello.py").read_text() == PYTHON
            chat.type(END)
            assert await chat.end() == 0
            assert "--resume continues this session" in chat.screen.text
        async with start_chat(tmp_path, "--pace", "0", "--resume") as chat:
            await chat.until("8 messages so far", "> write a file hello.py", IDLE)
            chat.type("/sessions\r")
            await chat.until("●  1", "8 messages  write a file hello.py")
            chat.type("/fork\r/export talk.md\r")
            await chat.until("this is a copy of", "wrote")
            assert "write a file hello.py" in (tmp_path / "talk.md").read_text()
            chat.type("\x1b[A\x1b[A\x1b[A\x1b[A")  # the prompt of the last time
            await chat.until('> edit hello.py: replace "world" with "moon"')
            chat.type(INTERRUPT)
            await chat.until(IDLE)
            chat.type(INTERRUPT)
            await chat.until("press Ctrl-C again to quit")
            chat.type(INTERRUPT)
            assert await chat.end() == 0
        assert len(list((tmp_path / "state/penstock/sessions").glob("*.jsonl"))) == 2

    run(main())


def killed(folder: Path, *commands: str) -> None:
    """Write the session of a chat that was killed while it ran *commands*."""
    ran = [ToolCall(f"c{n}", "run_bash", {"command": one}) for n, one in enumerate(commands, 1)]
    answer = AssistantMessage("m", "m", [*ran], "tool_use")
    said = [entry(1, user("Pay both.")), entry(2, answer)]
    began, parent = [], "e2"
    for call in ran:
        fields: dict[str, Any] = {"name": call.name, "arguments": call.arguments}
        began.append(ToolStartEntry(id=f"s{call.id}", parent=parent, call=call.id, **fields))
        parent = began[-1].id
    header = structs.replace(HEADER, cwd=str(folder.resolve()))
    sessions = folder / "state/penstock/sessions"
    sessions.mkdir(parents=True)
    (sessions / "s1.jsonl").write_bytes(lines_of(header, *said, *began))


def test_a_call_that_a_crash_interrupted_is_shown_and_asked_about(tmp_path: Path) -> None:
    killed(tmp_path, "echo 1 >> paid", "echo 2 >> paid")

    async def main() -> None:
        async with (
            serving(reply(text("So it is."))) as upstream,
            start_chat(tmp_path, *flags(upstream), "--resume", "Go on") as chat,
        ):
            await chat.until("echo 1 >> paid", "its outcome is unknown", "What is its outcome?")
            assert not upstream.seen
            chat.type(INTERRUPT)  # removes the prompt, which waits in the input
            await chat.until("r runs it again")
            chat.type("y\r")
            await chat.until("! r runs it again")
            chat.type("d paid by hand\r")
            await chat.until("What is its outcome?")
            chat.type("r\r")
            await chat.until("So it is.", IDLE)
            results = [one for one in upstream.seen[0].json["messages"] if one["role"] == "tool"]
            assert [one["tool_call_id"] for one in results] == ["c1", "c2"]
            assert results[0]["content"] == "paid by hand"
            assert (tmp_path / "paid").read_text() == "2\n"
            chat.type(END)
            assert await chat.end() == 0

    run(main())


def test_arguments_are_shown_as_they_arrive_and_ctrl_c_stops_them(tmp_path: Path) -> None:
    begun = ['{"path": "tides.txt", "con', 'tent": "High water\\nat si', "x, \\u2026"]
    growing = Reply([*call_in_pieces("write_file", *begun), STALL])
    endless = Reply([*call_in_pieces("run_bash", '{"command": "rm -r'), STALL])
    looking = calls(("list_files", {}), words="I only look.")

    async def main() -> None:
        script = [growing, reply(text("As you like.")), endless, reply(looking)]
        async with (
            serving(*script, reply(text("Nothing is there."))) as upstream,
            start_chat(tmp_path, *flags(upstream), "write the tides", "--no-session") as chat,
        ):
            await chat.until("● write_file tides.txt", "  │ High water", "  │ at six, …")
            chat.type(INTERRUPT)
            await chat.until("instead > type a new")
            chat.type(INTERRUPT)
            await chat.until("the call was cut off", "■ stopped", IDLE)
            await asyncio.wait_for(upstream.left.wait(), DEADLINE)
            assert not (tmp_path / "tides.txt").exists()
            chat.type("then tidy up\r")
            await chat.until("As you like.", IDLE)
            chat.type("please\r")
            await chat.until("  $ rm -r")
            chat.type(INTERRUPT)
            await chat.until("instead > type a new")
            assert transcript(2) in chat.screen.text
            chat.type("only look\r")
            await chat.until("> only look", "● list_files", "Nothing is there.", IDLE)
            assert "only look" in str(upstream.seen[3].json["messages"][-1])
            chat.type("/quit\r")
            assert await chat.end() == 0
        assert not (tmp_path / "state").exists()

    run(main())


def test_input_during_a_response_steers_or_follows_up(tmp_path: Path) -> None:
    rules = tmp_path / ".penstock/rules"
    rules.mkdir(parents=True)
    (rules / "no-sudo.md").write_text("---\ncondition: sudo\n---\nWork without it.\n")
    slow = calls(("run_bash", {"command": "echo begun; sleep 600"}))
    script = [calls(("run_bash", {"command": "sudo reboot"})), slow]
    script += [text("I have stopped."), text("And this is the end.")]

    async def main() -> None:
        async with (
            serving(*map(reply, script)) as upstream,
            start_chat(tmp_path, *flags(upstream), "wait for me") as chat,
        ):
            await chat.until("! rule no-sudo stopped the response", "Work without it.")
            await chat.until("Run run_bash?")
            chat.type("e\r")
            await chat.until("command > echo begun; sleep 600")
            chat.type("\x1b[H\x1b[1;5C\x1b[1;5C\x17well\r")
            await chat.until("  ┆ well")
            chat.type("+and then tell me more\r")
            await chat.until("later: and then tell me more")
            chat.type("do not wait\r")
            await chat.until("→ Skipped due to queued user message.", "> do not wait")
            seen = await chat.until("I have stopped.", "> and then tell", "And this is the end.")
            assert seen.index("I have stopped.") < seen.index("> and then tell me more")
            await chat.until(IDLE)
            chat.type("/rules\r")
            await chat.until("no-sudo (has been applied): sudo")
            chat.type("/format hermez\r")
            await chat.until("no format is called 'hermez'")
            chat.type("/format hermes\r")
            await chat.until("the format is hermes")
            chat.child.kill(15)  # SIGTERM
            assert await chat.end() == 0

    run(main())


HOSTILE = "\x1b]0;owned\x07\x1b[2Jgone\r\u202eevil\x9b31m"


def test_no_text_of_a_model_or_a_tool_controls_the_terminal(tmp_path: Path) -> None:
    writing = calls(
        ("write_file", {"path": "\x1b[H.txt", "content": f"{HOSTILE}\n日本語の長い行" * 12}),
        ("run_bash", {"command": "printf '\\033[2J\\033]0;owned\\007 loud'"}),
        words=HOSTILE,
    )

    async def main() -> None:
        async with (
            serving(reply(writing), reply(text("e\u0301 👩\u200d🚀 done"))) as upstream,
            start_chat(tmp_path, *flags(upstream), "be evil", width=40) as chat,
        ):
            await chat.until("Run write_file?")
            chat.type("a\r")
            await chat.until("Run run_bash?")
            chat.type("y\r")
            seen = await chat.until("done", "> type a")
            assert r"\x1b]0;owned\x07\x1b[2Jgone" in seen.replace("\n", "")
            assert r"\u202eevil\n\x9b31m".replace(r"\n", "\n") in seen
            assert r"→ \x1b[2J\x1b]0;owned\x07 loud" in seen
            chat.screen.width = 20
            chat.child.setwinsize(10, 20)
            chat.type("/tools\r")
            await chat.until("list_files", "run_bash     Run")
            chat.type(END)
            assert await chat.end() == 0
        assert "\x1b]" not in chat.raw

    run(main())


def test_slash_commands_run_and_a_question_can_be_stopped(tmp_path: Path) -> None:
    async def main() -> None:
        async with start_chat(tmp_path, "--pace", "0") as chat:
            await chat.until(IDLE)
            chat.type("run the command `touch it`\r")
            await chat.until("Run run_bash?")
            chat.type(INTERRUPT)
            await chat.until("instead > type a new")
            chat.type("\r")
            await chat.until(f"? {ASKED}")
            chat.type("list the files\r")  # not an answer, so it is sent to the model
            await chat.until("→ Skipped due to queued user message.", "> list the files", IDLE)
            chat.type("run the command `touch it`\r")
            await chat.when(lambda text: text.count("● run_bash") == 2 and ASKED in text)
            chat.type(INTERRUPT + INTERRUPT)
            await chat.until("■ stopped", IDLE)
            assert not (tmp_path / "it").exists()
            chat.type("/usage\r/thoughts\r/compact\r/model other\r/model\r")
            await chat.until("tokens; messages", "no reasoning", "summarize", "  ● other", IDLE)
            chat.type("/sessions 99\r/sessions 1\r")
            await chat.until("! No session 99: expected a number from 1 to 1.", "messages so far")
            chat.type("\x1b[200~two\nlines\x1b[201~")
            await chat.until("> two\n  lines")
            chat.type(INTERRUPT + "/clear\r")
            await chat.when(lambda text: text.startswith(f"> {IDLE}"))
            chat.type("/sessions 1\r")
            await chat.until("4 messages so far", "> run the command `touch it`", IDLE)
            chat.type(END)
            assert await chat.end() == 0

    run(main())
