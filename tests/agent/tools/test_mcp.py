"""Tools of MCP servers, as child processes and over HTTP on this machine."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from agent.tools import mcp_example
from agent.tools.contexts import Heard
from agent.tools.watching import PATIENCE, is_alive, until
from penstock.agent.tools import AgentTool, MCPServer, ToolOutput
from penstock.agent.tools.mcp import MAX_REASON, MAX_TOOLS, HTTPEndpoint, StdioEndpoint
from penstock.errors import ProviderError, ToolError, UsageError
from penstock.messages import Text
from penstock.request import Image

HERE = Path(__file__).parent


def named(server: MCPServer, name: str) -> AgentTool:
    return next(each for each in server.tools if each.name == name)


async def called(server: MCPServer, name: str, /, **arguments: Any) -> ToolOutput:
    result = await named(server, name).run(arguments, Heard(name))
    assert isinstance(result, ToolOutput)
    return result


def script(kind: str, **options: Any) -> MCPServer:
    """The hand-written server, bad in the way of *kind*."""
    return MCPServer.stdio(
        sys.executable, ["-S", "-E", str(HERE / "mcp_script.py"), kind], **options
    )


# --- the official package over stdio -------------------------------------------------------------


class Open:
    """A server that stays open over several tests, and the loop that it lives on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runner = asyncio.Runner()
        self.server = MCPServer.stdio(
            sys.executable,
            [str(HERE / "mcp_example.py")],
            env={"BOAT": "Anna"},
            cwd=folder,
            prefix="ex_",
        )
        self.runner.run(self.server.__aenter__())

    def close(self) -> None:
        self.runner.run(self.server.__aexit__())
        self.runner.close()


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    opened = Open(tmp_path_factory.mktemp("mcp"))
    yield opened
    pid = int(opened.runner.run(called(opened.server, "ex_where")).details["result"][2])
    opened.close()
    assert not is_alive(pid)


def test_tools_are_listed_with_names_that_every_provider_takes(example: Open) -> None:
    names = [each.name for each in example.server.tools]
    assert {"ex_add", "ex_files_show", "ex_fail"} <= set(names)
    add = named(example.server, "ex_add")
    assert add.tool.description == "Add two numbers."
    assert add.tool.parameters["required"] == ["a", "b"]
    assert add.needs_approval


def test_a_call_gives_text_with_what_is_structured_beside_it(example: Open) -> None:
    output = example.runner.run(called(example.server, "ex_add", a=1, b=2))
    assert output == ToolOutput("3", details={"result": 3})


def test_every_kind_of_content_is_shown_or_named(example: Open) -> None:
    output = example.runner.run(called(example.server, "ex_files_show"))
    picture = Image("image/png", mcp_example.PIXEL)
    assert output.content == [
        Text("text"),
        picture,
        Text("(audio, audio/wav, cannot be shown)"),
        Text("inside"),
        Text("(file:///b, application/zip, cannot be shown)"),
        picture,
        Text("log: file:///log (The log)"),
    ]


def test_structured_content_alone_is_the_content(example: Open) -> None:
    output = example.runner.run(called(example.server, "ex_structured"))
    assert (output.content, output.is_error) == ({"tide": "high"}, False)


def test_a_failure_on_the_servers_side_is_an_error(example: Open) -> None:
    output = example.runner.run(called(example.server, "ex_fail"))
    assert output.is_error
    assert "no boat" in output.content


def test_the_child_runs_where_it_is_told_with_what_it_is_given(example: Open) -> None:
    output = example.runner.run(called(example.server, "ex_where"))
    assert output.details["result"][:2] == [str(example.folder), "Anna"]


def test_progress_is_an_update_and_cancelling_reaches_the_server(
    example: Open, tmp_path: Path
) -> None:
    async def main() -> list[object]:
        context = Heard()
        wait = named(example.server, "ex_wait").run({"marks": str(tmp_path)}, context)
        task = asyncio.ensure_future(wait)
        await until((tmp_path / "begun").exists)
        await until(lambda: len(context.updates) == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until((tmp_path / "cancelled").exists)
        return context.updates

    assert example.runner.run(main()) == ["1/2 half", "2"]
    assert example.runner.run(called(example.server, "ex_add", a=1, b=1)).content == "2"


def test_a_new_tool_is_heard_of(example: Open) -> None:
    async def main() -> None:
        await called(example.server, "ex_grow")
        await until(lambda: "ex_grown" in [each.name for each in example.server.tools])
        assert (await called(example.server, "ex_grown")).content == "grown"

    example.runner.run(main())


# --- over HTTP -----------------------------------------------------------------------------------


@asynccontextmanager
async def http_server() -> AsyncIterator[str]:
    listening = socket.create_server(("127.0.0.1", 0))
    app = mcp_example.server.streamable_http_app()
    config = uvicorn.Config(
        app, log_level="critical", ws="none", timeout_graceful_shutdown=1, lifespan="on"
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await until(lambda: server.started)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await serving
        listening.close()


async def test_the_same_tools_are_reached_over_http(tmp_path: Path) -> None:
    async with (
        http_server() as url,
        MCPServer.http(url, headers={"X-Boat": "Anna"}, needs_approval=False) as server,
    ):
        assert not named(server, "add").needs_approval
        assert (await called(server, "add", a=1, b=2)).content == "3"
        assert (await called(server, "header", name="x-boat")).content == "Anna"
        wait = named(server, "wait").run({"marks": str(tmp_path)}, Heard())
        task = asyncio.ensure_future(wait)
        await until((tmp_path / "begun").exists)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until((tmp_path / "cancelled").exists)


async def test_an_address_where_nobody_is_fails_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ProviderError, match="cannot use MCP server"):
        async with MCPServer.http(f"http://127.0.0.1:{port}/mcp?key=secret"):
            pass


# --- servers that behave badly -------------------------------------------------------------------


async def test_an_older_server_tells_of_changes_by_itself() -> None:
    heard: list[list[str]] = []

    def changed(tools: list[AgentTool]) -> None:
        heard.append([each.name for each in tools])

    async with script("good", on_change=changed) as server:
        assert [each.name for each in server.tools] == ["tide", "wind_gust"]
        await called(server, "wind_gust")
        await until(lambda: heard)
    assert heard == [["tide", "wind_gust", "grown"]]


@pytest.mark.parametrize("kind", ["good", "babbles"])
async def test_the_child_is_gone_after_the_end(kind: str) -> None:
    async with script(kind) as server:
        pid = int((await called(server, "tide")).content)
        assert is_alive(pid)
    with pytest.raises(ToolError, match="is closed"):
        await called(server, "tide")
    assert not is_alive(pid)


async def test_a_server_that_dies_in_a_call_is_an_error_and_not_a_wait() -> None:
    async with script("dies") as server:
        for _ in range(2):
            with pytest.raises(ToolError, match="failed"):
                await called(server, "tide")


async def test_a_call_that_takes_too_long_is_an_error() -> None:
    async with script("hangs", call_seconds=0.1) as server:
        with pytest.raises(ToolError, match=r"[Tt]imed out"):
            await called(server, "tide")


async def test_a_call_in_flight_ends_when_the_server_is_closed() -> None:
    async with script("hangs") as server:
        task = asyncio.ensure_future(named(server, "tide").run({}, Heard()))
        await asyncio.sleep(0)
    with pytest.raises(ToolError, match="failed"):
        async with asyncio.timeout(PATIENCE):
            await task


async def test_a_server_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from mcp.client import stdio  # noqa: PLC0415 - how long it waits for a child to end

    monkeypatch.setattr(stdio, "PROCESS_TERMINATION_TIMEOUT", 0.2)
    with pytest.raises(ProviderError, match=r"no response within 0\.1 s"):
        async with script("silent", start_seconds=0.1):
            pass


async def test_cancelling_while_it_closes_leaves_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    from mcp.client import stdio  # noqa: PLC0415

    monkeypatch.setattr(stdio, "PROCESS_TERMINATION_TIMEOUT", 0.2)
    monkeypatch.setattr(stdio, "FORCE_KILL_TIMEOUT", 0.2)
    pids: list[int] = []
    closing = asyncio.Event()

    async def use() -> None:
        async with script("stubborn") as server:
            pids.append(int((await called(server, "tide")).content))
            closing.set()

    task = asyncio.create_task(use())
    await closing.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.01)
    with suppress(asyncio.CancelledError):
        await task
    assert not is_alive(pids[0])


async def test_cancelling_while_it_starts_leaves_no_task() -> None:
    async def use() -> None:
        async with script("silent"):
            pass

    task = asyncio.create_task(use())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(PATIENCE):
            await task


async def test_names_that_become_one_are_told_apart() -> None:
    async with script("twins") as server:
        assert [each.name for each in server.tools] == ["a_b", "a_b_2"]


async def test_a_list_without_an_end_has_one() -> None:
    async with script("endless") as server:
        assert len(server.tools) == MAX_TOOLS


@pytest.mark.parametrize("kind", ["hollow", "circling"])
async def test_a_list_that_leads_nowhere_has_an_end(kind: str) -> None:
    async with script(kind, start_seconds=PATIENCE) as server:
        assert server.tools == []


async def test_a_list_that_stops_coming_is_given_up() -> None:
    async with script("stalls", start_seconds=PATIENCE) as server:
        server._start_seconds = 0.1
        with pytest.raises(ProviderError, match=r"no response within 0\.1 s"):
            await server.refresh()


async def test_a_long_reason_for_a_failure_is_cut() -> None:
    async with script("raves") as server:
        with pytest.raises(ToolError, match="failed: no") as caught:
            await called(server, "tide")
        assert len(str(caught.value)) < MAX_REASON + 200


@pytest.mark.parametrize("command", ["nonesuch-command", "false"])
async def test_a_command_that_does_not_start_is_told(command: str) -> None:
    with pytest.raises(ProviderError, match=f"cannot use MCP server {command}"):
        async with MCPServer.stdio(command):
            pass


async def test_a_server_is_opened_once() -> None:
    server = script("good")
    async with server:
        with pytest.raises(UsageError, match="opened only once"):
            await server.__aenter__()


# --- settings ------------------------------------------------------------------------------------


def test_settings_are_read_as_clients_keep_them() -> None:
    child = MCPServer({"command": "npx", "args": ["-y", "boats"], "env": {"A": "b"}, "disabled": 0})
    assert child.endpoint == StdioEndpoint("npx", ["-y", "boats"], {"A": "b"})
    far = MCPServer({"type": "http", "url": "https://boats.example/mcp", "headers": {"A": "b"}})
    assert far.endpoint == HTTPEndpoint("https://boats.example/mcp", {"A": "b"})


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"command": "a", "url": "b"},
        {"command": 3},
        {"command": "a", "args": "b"},
        {"url": "https://boats.example/sse", "type": "sse"},
    ],
)
def test_settings_that_say_nothing_or_too_much_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        MCPServer(settings)


async def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(UsageError, match=r"penstock\[mcp\]"):
        async with script("good"):
            pass
