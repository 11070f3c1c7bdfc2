"""`penstock chat` in a real terminal, with the scripted model and with servers on loopback."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent.scenes import calls, reply, text
from agent.session.records import HEADER, entry, lines_of, user
from cli.chat.chat_driver import DEADLINE, start_chat
from models.loopback_servers import STALL, Reply, Upstream, serving
from penstock.agent.session import ToolStartEntry
from penstock.messages import AssistantMessage, ToolCall, Usage
from penstock.models.demo import FILES

PYTHON = FILES[".py"]
"""What the scripted model writes into a file of Python."""

DOCS = Path(__file__).parents[3] / "docs" / "agents" / "chat.md"

INTERRUPT, END = "\x03", "\x04"

ASKED = "y yes, n no"
IDLE = "type a request"


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


async def test_a_file_is_written_after_approval_and_the_session_is_resumed(tmp_path: Path) -> None:
    async with start_chat(tmp_path, "--pace", "0") as chat:
        await chat.until("penstock-demo", IDLE)
        chat.type("write a file hello.py\r")
        seen = await chat.until("Run write_file?", ASKED)
        assert transcript(0) in seen
        assert not (tmp_path / "hello.py").exists()
        chat.type("y\r")
        await chat.until("→ Created hello.py: 149 bytes in 9 lines.", "write_file says", IDLE)
        assert (tmp_path / "hello.py").read_text() == PYTHON
        chat.type('edit hello.py: replace "world" with "moon"\r')
        seen = await chat.until("● edit_file", "Run edit_file?")
        assert transcript(1) in seen
        chat.type("n the moon is far away\r")
        await chat.until("→ The call was denied: the moon is far away", IDLE)
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


async def test_a_call_that_a_crash_interrupted_is_shown_and_asked_about(tmp_path: Path) -> None:
    killed(tmp_path, "echo 1 >> paid", "echo 2 >> paid")
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


@pytest.mark.parametrize("way", ["Ctrl-D", "the terminal is closed"])
async def test_a_question_that_was_open_is_asked_again(tmp_path: Path, way: str) -> None:
    write = {"path": "a.txt", "content": "paid"}
    asked = calls(("run_bash", {"command": "echo 1 >> paid"}), ("write_file", write))
    async with serving(reply(asked), reply(text("Both are decided."))) as upstream:
        async with start_chat(tmp_path, *flags(upstream), "Pay.") as chat:
            await chat.until("Run run_bash?")
            if way == "Ctrl-D":
                chat.type(END)
            else:
                chat.child.kill(signal.SIGHUP)
            assert await chat.end() == 0
        assert not (tmp_path / "paid").exists()
        async with start_chat(tmp_path, *flags(upstream), "--resume") as chat:
            await chat.until("ended before these calls were approved", "Run run_bash?")
            chat.type("y\r")
            await chat.until("Run write_file?")
            chat.type("n not yet\r")
            await chat.until("Both are decided.", IDLE)
            chat.type(END)
            assert await chat.end() == 0
        results = [one for one in upstream.seen[1].json["messages"] if one["role"] == "tool"]
        assert [one["tool_call_id"] for one in results] == ["c1", "c2"]
        assert "not yet" in results[1]["content"]
        assert (tmp_path / "paid").read_text() == "1\n"


async def test_calls_that_waited_for_approval_are_shown_and_asked_about(tmp_path: Path) -> None:
    write = ToolCall("c1", "write_file", {"path": "a.txt", "content": "high water\n"})
    run = ToolCall("c2", "run_bash", {"command": "touch it"})
    answer = AssistantMessage("m", "m", [write, run], "tool_use")
    header = structs.replace(HEADER, cwd=str(tmp_path.resolve()))
    sessions = tmp_path / "state/penstock/sessions"
    sessions.mkdir(parents=True)
    asked = lines_of(header, entry(1, user("Do both.")), entry(2, answer))
    (sessions / "s1.jsonl").write_bytes(asked)
    async with (
        serving(reply(text("Both are decided."))) as upstream,
        start_chat(tmp_path, *flags(upstream), "--resume", "Go on") as chat,
    ):
        await chat.until("● write_file a.txt", "  │ high water", "● run_bash", "  $ touch it")
        await chat.until("ended before these calls were approved", "Run write_file?", "Go on")
        assert not upstream.seen
        chat.type(INTERRUPT)  # pauses; the prompt stays in the input
        await chat.until("instead > Go on")
        chat.type("\x15\r")  # deletes the input, and resumes
        await chat.until("Run write_file?", f"? {ASKED}")
        chat.type("y\r")
        await chat.until("Run run_bash?")
        chat.type("n not now\r")
        await chat.until("Both are decided.", IDLE)
        results = [one for one in upstream.seen[0].json["messages"] if one["role"] == "tool"]
        assert "Created a.txt" in results[0]["content"]
        assert "not now" in results[1]["content"]
        assert (tmp_path / "a.txt").read_text() == "high water\n"
        assert not (tmp_path / "it").exists()
        chat.type(END)
        assert await chat.end() == 0


MARKDOWN = """\
# Tides

The **sea** is `high` at *six*.

| Harbour | High water |
|---|---:|
| Brest | 18:45 |

```python
print("done")
```
"""


async def test_markdown_the_status_files_and_images_are_shown(tmp_path: Path) -> None:
    (tmp_path / "harbours").mkdir()
    (tmp_path / "harbours/brest.txt").write_text("48.38 N\n")
    (tmp_path / "map.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 16)
    answer = structs.replace(text(MARKDOWN), usage=Usage(input=1_500, output=60))
    async with (
        serving(reply(answer), reply(text("So."))) as upstream,
        start_chat(tmp_path, *flags(upstream), "--effort", "low", width=100) as chat,
    ):
        await chat.until(IDLE, "m (low) · ")
        chat.type("Compare @bre\t")
        await chat.until("> Compare @harbours/brest.txt")
        chat.type(" with @map\t")
        await chat.until(" with @map.png")
        chat.type(" please\r")
        await chat.until("+ harbours/brest.txt, 1 line", "+ image/png, 24 bytes")
        seen = await chat.until("Tides\n", "The sea is high at six.", "context 1.6k", "↑1.5k ↓60")
        assert "Harbour │ High water\n────────┼───────────\nBrest   │      18:45\n" in seen
        assert '\n  print("done")\n' in seen
        assert "**" not in seen
        assert "\x1b[0;1msea" in chat.raw or "\x1b[1msea" in chat.raw
        content = upstream.seen[0].json["messages"][-1]["content"]
        assert "48.38 N" in content[1]["text"]
        assert content[2]["image_url"]["url"].startswith("data:image/png;base64,")
        assert upstream.seen[0].json["reasoning_effort"] == "low"
        chat.type("/effort m\t")
        await chat.until("> /effort m", "minimal", "medium", "max")
        chat.type("edium\r")
        await chat.until("the effort is medium", "m (medium) · ")
        chat.type("again\r")
        await chat.until("So.", IDLE)
        assert upstream.seen[1].json["reasoning_effort"] == "medium"
        chat.type(END)
        assert await chat.end() == 0


async def test_the_spinner_says_what_the_agent_does(tmp_path: Path) -> None:
    slow = calls(("run_bash", {"command": "sleep 600"}))
    async with (
        serving(reply(slow), Reply([STALL])) as upstream,
        start_chat(tmp_path, *flags(upstream), "--approve", "all", "wait", width=60) as chat,
    ):
        await chat.until("Running run_bash… ")
        chat.type("go\r")
        await chat.until("> go", "Waiting for the model… ")
        await chat.resize(30)
        chat.type(INTERRUPT)
        await chat.when(lambda text: "instead >" in text and "Waiting for the model" not in text)
        chat.type(INTERRUPT)
        await chat.until("■ stopped", "> type a request")
        chat.type(END)
        assert await chat.end() == 0


async def test_arguments_are_shown_as_they_arrive_and_ctrl_c_stops_them(tmp_path: Path) -> None:
    begun = ['{"path": "tides.txt", "con', 'tent": "High water\\nat si', "x, \\u2026"]
    growing = Reply([*call_in_pieces("write_file", *begun), STALL])
    endless = Reply([*call_in_pieces("run_bash", '{"command": "rm -r'), STALL])
    looking = calls(("list_files", {}), words="I only look.")
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
        chat.type("only look\r")
        await chat.until("> only look", "● list_files", "Nothing is there.", IDLE)
        assert "only look" in str(upstream.seen[3].json["messages"][-1])
        chat.type("/quit\r")
        assert await chat.end() == 0
    assert not (tmp_path / "state").exists()


async def test_input_during_a_response_steers_or_follows_up(tmp_path: Path) -> None:
    rules = tmp_path / ".penstock/rules"
    rules.mkdir(parents=True)
    (rules / "no-sudo.md").write_text("---\ncondition: sudo\n---\nWork without it.\n")
    slow = calls(("run_bash", {"command": "echo begun; sleep 600"}))
    script = [calls(("run_bash", {"command": "sudo reboot"})), slow]
    script += [text("I have stopped."), text("And this is the end.")]
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
        await chat.until("unknown format 'hermez'")
        chat.type("/format hermes\r")
        await chat.until("the format is hermes")
        chat.child.kill(15)  # SIGTERM
        assert await chat.end() == 0


HOSTILE = "\x1b]0;owned\x07\x1b[2Jgone\r\u202eevil\x9b31m"


async def test_no_text_of_a_model_or_a_tool_controls_the_terminal(tmp_path: Path) -> None:
    writing = calls(
        ("write_file", {"path": "\x1b[H.txt", "content": f"{HOSTILE}\n日本語の長い行" * 12}),
        ("run_bash", {"command": "printf '\\033[2J\\033]0;owned\\007 loud'"}),
        words=HOSTILE,
    )
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
        await chat.resize(20, rows=12)
        chat.type("/tools\r")
        await chat.until("list_files", "run_bash     Run")
        chat.type(END)
        assert await chat.end() == 0
    assert "\x1b]" not in chat.raw


async def test_slash_commands_run_and_a_question_can_be_stopped(tmp_path: Path) -> None:
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
        chat.type("/usage\r/reasoning\r/compact\r/model other\r/model\r")
        await chat.until("tokens; messages", "no reasoning", "summarize")
        await chat.until("! --model: there is no server", "  ● penstock-demo", IDLE)
        chat.type("/sessions 99\r/sessions 1\r")
        await chat.until("! No session 99: expected a number from 1 to 1.", "messages so far")
        chat.type("\x1b[200~two\nlines\x1b[201~")
        await chat.until("> two\n  lines")
        chat.type(INTERRUPT + "/clear\r")
        await chat.when(lambda text: text.startswith(f"{'─' * 79}\n> {IDLE}"))
        chat.type("/sessions 1\r")
        await chat.until("4 messages so far", "> run the command `touch it`", IDLE)
        chat.type(END)
        assert await chat.end() == 0


BOOKING = """
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import (
    CallToolResult, ElicitRequest, ElicitRequestFormParams, InputRequiredResult, TextContent,
)

server = MCPServer("booking", log_level="CRITICAL")
FORM = {"type": "object", "required": ["place", "metres"], "properties": {
    "place": {"type": "string", "enum": ["north", "south"], "description": "the quay"},
    "metres": {"type": "integer", "minimum": 1},
    "crane": {"type": "boolean"},
    "note": {"type": "string", "default": "none"}}}

@server.tool(structured_output=False)
async def book(ctx: Context) -> CallToolResult | InputRequiredResult:
    "Book a berth."
    if ctx.input_responses is None:
        form = ElicitRequestFormParams(message="Which\\x1b[2J berth?", requested_schema=FORM)
        return InputRequiredResult(input_requests={"berth": ElicitRequest(params=form)})
    answer = ctx.input_responses["berth"]
    return CallToolResult(content=[TextContent(text=f"{answer.action} {answer.content}")])

server.run("stdio")
"""
"""A server that asks the user."""


def booking_flags(folder: Path) -> list[str]:
    server = folder / "booking.py"
    server.write_text(BOOKING)
    settings = {"mcpServers": {"quay": {"command": sys.executable, "args": [str(server)]}}}
    (folder / "mcp.json").write_text(json.dumps(settings))
    return ["--mcp", str(folder / "mcp.json"), "--approve", "all"]


async def test_a_server_asks_the_user_field_by_field(tmp_path: Path) -> None:
    book = reply(calls(("quay__book", {})))
    more = booking_flags(tmp_path)
    async with (
        serving(book, reply(text("So.")), book, reply(text("Well."))) as upstream,
        start_chat(tmp_path, *flags(upstream), *more, width=100) as chat,
    ):
        await chat.until(IDLE)
        chat.type("book\r")
        await chat.until("? quay: Which", "quay asks for place.", "the quay; one of north, south")
        assert "\x1b[2J berth" not in chat.raw
        chat.type("west\r")
        await chat.until("! place: expected", "quay asks for place.")
        chat.type("north\r")
        await chat.until("quay asks for metres.", "an integer; Ctrl-C declines")
        chat.type("\r")
        await chat.until("! metres is required")
        chat.type("12\r")
        await chat.until("quay asks for crane.", "y or n; Enter skips it")
        chat.type("\r")
        await chat.until("quay asks for note.", "Enter takes none")
        chat.type("\r")
        await chat.until("So.", IDLE)
        result = upstream.seen[1].json["messages"][-1]["content"]
        assert result == "accept {'place': 'north', 'metres': 12, 'note': 'none'}"
        chat.type("again\r")
        await chat.until("quay asks for place.")
        chat.type(INTERRUPT)
        await chat.until("Well.", IDLE)
        assert upstream.seen[3].json["messages"][-1]["content"] == "decline None"
        chat.type("more\r")  # the input belongs to the agent again
        await chat.until("> more")
        chat.type(END)
        assert await chat.end() == 0


async def test_a_question_of_a_server_ends_with_its_run(tmp_path: Path) -> None:
    async with (
        serving(reply(calls(("quay__book", {})))) as upstream,
        start_chat(tmp_path, *flags(upstream), *booking_flags(tmp_path), width=100) as chat,
    ):
        await chat.until(IDLE)
        chat.type("book\r")
        await chat.until("asks for place.")
        chat.type(END)
        assert await chat.end() == 0
