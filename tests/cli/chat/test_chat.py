"""`penstock chat` in a real terminal: with the scripted model, and with servers on this machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from msgspec import structs

from agent.scenes import calls, reply, text
from agent.session.records import HEADER, entry, lines_of, user
from cli.chat.sitting import DEADLINE, sitting
from models.loopback_servers import STALL, Reply, Upstream, serving
from penstock.agent.session import ToolStartEntry
from penstock.messages import AssistantMessage, ToolCall
from penstock.models.demo import FILES

PYTHON = FILES[".py"]
"""What the scripted model writes into a file of Python."""

DOCS = Path(__file__).parents[3] / "docs" / "chat.md"

INTERRUPT, END = "\x03", "\x04"

ASKED = "y yes, n no"
IDLE = "ask for something"


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def flags(upstream: Upstream) -> list[str]:
    return ["--upstream", upstream.url, "--api", "openai-chat", "--model", "m"]


def transcript(number: int) -> str:
    """Give what the documentation shows of a terminal."""
    pages = DOCS.read_text().split("```text\n")
    return pages[number + 1].split("```")[0].strip("\n")


def call_in_pieces(name: str, *pieces: str) -> list[bytes]:
    """Give the beginning of an answer that calls a tool, its arguments in pieces."""
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


def test_a_file_is_written_once_somebody_says_yes_and_is_remembered(tmp_path: Path) -> None:
    async def main() -> None:
        async with sitting(tmp_path, "--pace", "0") as seat:
            await seat.until("penstock-demo", IDLE)
            seat.type("write a file hello.py\r")
            seen = await seat.until("May write_file run?", ASKED)
            assert transcript(0) in seen
            assert not (tmp_path / "hello.py").exists()
            seat.type("y\r")
            await seat.until("→ Made hello.py: 149 bytes in 9 lines.", "write_file says", IDLE)
            assert (tmp_path / "hello.py").read_text() == PYTHON
            seat.type('edit hello.py: replace "world" with "moon"\r')
            await seat.until("- world", "+ moon", "May edit_file run?")
            seat.type("n the moon is far away\r")
            await seat.until("→ The call was denied: the moon is far away", IDLE)
            assert transcript(1) in seat.screen.text
            assert (tmp_path / "hello.py").read_text() == PYTHON
            seat.type(END)
            assert await seat.end() == 0
            assert "--resume goes on with this" in seat.screen.text
        async with sitting(tmp_path, "--pace", "0", "--resume") as seat:
            await seat.until("8 messages so far", "> write a file hello.py", IDLE)
            seat.type("/sessions\r")
            await seat.until("●  1", "8 messages  write a file hello.py")
            seat.type("/fork\r/export talk.md\r")
            await seat.until("a copy of", "wrote")
            assert "write a file hello.py" in (tmp_path / "talk.md").read_text()
            seat.type("\x1b[A\x1b[A\x1b[A\x1b[A")  # the prompt of the last time
            await seat.until('> edit hello.py: replace "world" with "moon"')
            seat.type(INTERRUPT)
            await seat.until(IDLE)
            seat.type(INTERRUPT)
            await seat.until("Ctrl-C again leaves")
            seat.type(INTERRUPT)
            assert await seat.end() == 0
        assert len(list((tmp_path / "state/penstock/sessions").glob("*.jsonl"))) == 2

    run(main())


def killed(folder: Path, *commands: str) -> None:
    """Leave the session of a chat that was killed while it ran *commands*."""
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
            sitting(tmp_path, *flags(upstream), "--resume", "Go on") as seat,
        ):
            await seat.until("echo 1 >> paid", "its outcome is unknown", "What became of it?")
            assert not upstream.seen
            seat.type(INTERRUPT)  # the prompt waits in the line: it is taken out
            await seat.until("r runs it again")
            seat.type("y\r")
            await seat.until("! r runs it again")
            seat.type("d paid by hand\r")
            await seat.until("What became of it?")
            seat.type("r\r")
            await seat.until("So it is.", IDLE)
            results = [one for one in upstream.seen[0].json["messages"] if one["role"] == "tool"]
            assert [one["tool_call_id"] for one in results] == ["c1", "c2"]
            assert results[0]["content"] == "paid by hand"
            assert (tmp_path / "paid").read_text() == "2\n"
            seat.type(END)
            assert await seat.end() == 0

    run(main())


def test_arguments_are_seen_growing_and_ctrl_c_stops_them(tmp_path: Path) -> None:
    begun = ['{"path": "tides.txt", "con', 'tent": "High water\\nat si', "x, \\u2026"]
    growing = Reply([*call_in_pieces("write_file", *begun), STALL])
    endless = Reply([*call_in_pieces("run_bash", '{"command": "rm -r'), STALL])
    looking = calls(("list_files", {}), words="I only look.")

    async def main() -> None:
        script = [growing, reply(text("As you like.")), endless, reply(looking)]
        async with (
            serving(*script, reply(text("Nothing is there."))) as upstream,
            sitting(tmp_path, *flags(upstream), "write the tides", "--no-session") as seat,
        ):
            await seat.until("● write_file tides.txt", "  │ High water", "  │ at six, …")
            seat.type(INTERRUPT)
            await seat.until("instead > say what")
            seat.type(INTERRUPT)
            await seat.until("the call was cut off", "■ stopped", IDLE)
            await asyncio.wait_for(upstream.left.wait(), DEADLINE)
            assert not (tmp_path / "tides.txt").exists()
            seat.type("then tidy up\r")
            await seat.until("As you like.", IDLE)
            seat.type("please\r")
            await seat.until("  $ rm -r")
            seat.type(INTERRUPT)
            await seat.until("instead > say what")
            assert transcript(2) in seat.screen.text
            seat.type("only look\r")
            await seat.until("> only look", "● list_files", "Nothing is there.", IDLE)
            assert "only look" in str(upstream.seen[3].json["messages"][-1])
            seat.type("/quit\r")
            assert await seat.end() == 0
        assert not (tmp_path / "state").exists()

    run(main())


def test_what_is_typed_while_it_works_steers_and_follows_up(tmp_path: Path) -> None:
    rules = tmp_path / ".penstock/rules"
    rules.mkdir(parents=True)
    (rules / "no-sudo.md").write_text("---\ncondition: sudo\n---\nWork without it.\n")
    slow = calls(("run_bash", {"command": "echo begun; sleep 600"}))
    script = [calls(("run_bash", {"command": "sudo reboot"})), slow]
    script += [text("I have stopped."), text("And this is the end.")]

    async def main() -> None:
        async with (
            serving(*map(reply, script)) as upstream,
            sitting(tmp_path, *flags(upstream), "wait for me") as seat,
        ):
            await seat.until("! rule no-sudo stopped the answer", "Work without it.")
            await seat.until("May run_bash run?")
            seat.type("e\r")
            await seat.until("command > echo begun; sleep 600")
            seat.type("\x1b[H\x1b[1;5C\x1b[1;5C\x08\x17well;\r")
            await seat.until("  ┆ well")
            seat.type("+and then tell me more\r")
            await seat.until("later: and then tell me more")
            seat.type("do not wait\r")
            await seat.until("→ Skipped due to queued user message.", "> do not wait")
            seen = await seat.until("I have stopped.", "> and then tell", "And this is the end.")
            assert seen.index("I have stopped.") < seen.index("> and then tell me more")
            await seat.until(IDLE)
            seat.type("/rules\r")
            await seat.until("no-sudo (has spoken): sudo")
            seat.type("/format hermez\r")
            await seat.until("no format is called 'hermez'")
            seat.type("/format hermes\r")
            await seat.until("the format is hermes")
            seat.child.kill(15)  # as a terminal that is closed does
            assert await seat.end() == 0

    run(main())


HOSTILE = "\x1b]0;owned\x07\x1b[2Jgone\r\u202eevil\x9b31m"


def test_nothing_that_a_model_or_a_tool_writes_steers_the_terminal(tmp_path: Path) -> None:
    writing = calls(
        ("write_file", {"path": "\x1b[H.txt", "content": f"{HOSTILE}\n日本語の長い行" * 12}),
        ("run_bash", {"command": "printf '\\033[2J\\033]0;owned\\007 loud'"}),
        words=HOSTILE,
    )

    async def main() -> None:
        async with (
            serving(reply(writing), reply(text("e\u0301 👩\u200d🚀 done"))) as upstream,
            sitting(tmp_path, *flags(upstream), "be evil", width=40) as seat,
        ):
            await seat.until("May write_file run?")
            seat.type("a\r")
            await seat.until("May run_bash run?")
            seat.type("y\r")
            seen = await seat.until("done", "> ask for")
            assert r"\x1b]0;owned\x07\x1b[2Jgone" in seen.replace("\n", "")
            assert r"\u202eevil\n\x9b31m".replace(r"\n", "\n") in seen
            assert r"→ \x1b[2J\x1b]0;owned\x07 loud" in seen
            seat.screen.width = 20
            seat.child.setwinsize(10, 20)
            seat.type("/tools\r")
            await seat.until("list_files", "run_bash     Run")
            seat.type(END)
            assert await seat.end() == 0
        assert "\x1b]" not in seat.raw

    run(main())


def test_commands_are_obeyed_and_a_question_can_be_stopped(tmp_path: Path) -> None:
    async def main() -> None:
        async with sitting(tmp_path, "--pace", "0") as seat:
            await seat.until(IDLE)
            seat.type("run the command `touch it`\r")
            await seat.until("May run_bash run?")
            seat.type(INTERRUPT)
            await seat.until("instead > say what")
            seat.type("\r")
            await seat.until(f"? {ASKED}")
            seat.type("list the files\r")  # no answer, so it is said to the model
            await seat.until("→ Skipped due to queued user message.", "> list the files", IDLE)
            seat.type("run the command `touch it`\r")
            await seat.when(lambda text: text.count("● run_bash") == 2 and ASKED in text)
            seat.type(INTERRUPT + INTERRUPT)
            await seat.until("■ stopped", IDLE)
            assert not (tmp_path / "it").exists()
            seat.type("/usage\r/thoughts\r/compact\r/model other\r/model\r")
            await seat.until("tokens; messages", "no thoughts", "summed up", "  ● other", IDLE)
            seat.type("/sessions 99\r/sessions 1\r")
            await seat.until("! a session is a number from 1 to 1", "messages so far")
            seat.type("\x1b[200~two\nlines\x1b[201~")
            await seat.until("> two\n  lines")
            seat.type(INTERRUPT + "/clear\r")
            await seat.when(lambda text: text.startswith("> ask for something"))
            seat.type("/sessions 1\r")
            await seat.until("4 messages so far", "> run the command `touch it`", IDLE)
            seat.type(END)
            assert await seat.end() == 0

    run(main())
