"""An MCP server whose tools an agent can call.

The connection lives in a task of its own: what MCP's package opens has to be closed by the task
that opened it, and a caller who is cancelled in the middle of closing must leave no child process
behind. Calls are made from the tasks of the tools, so that cancelling one tells the server.

A server that dies is not started again: calls in flight and all after them give an error result,
which the model sees.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

from penstock.agent.cancellation import shielded
from penstock.agent.tools.base import AgentTool, ToolContext
from penstock.agent.tools.contents import cut_middle
from penstock.agent.tools.mcp.listing import lawful_names, list_tools
from penstock.agent.tools.mcp.outputs import read_output
from penstock.agent.tools.mcp.places import MISSING, Address, Command, read_place, transport_to
from penstock.agent.tools.mcp.progress import Progress
from penstock.errors import ProviderError, ToolError, UsageError
from penstock.tools import Tool

if TYPE_CHECKING:
    from mcp import Client

CALL_SECONDS: Final = 300.0
"""How long a call may take: longer than most tools need, shorter than people wait."""

START_SECONDS: Final = 60.0
"""How long a server may take until its tools are known: some are downloaded when they start."""

MAX_REASON: Final = 2_000
"""How much of a server's reason for a failure the model is shown."""


class MCPServer:
    """An MCP server, open between ``async with`` and its end; `tools` are what it offers.

    *settings* are those of an entry under `mcpServers`, as many clients keep them. Each name gets
    *prefix* before it. A call takes at most *call_seconds*, the start *start_seconds*. A tool of a
    server does what its owner likes, so each call *asks* unless told otherwise, and is denied
    where nobody can approve. *on_change* is called with the new `tools` when the server says that
    they are others.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | Command | Address,
        *,
        prefix: str = "",
        call_seconds: float = CALL_SECONDS,
        start_seconds: float = START_SECONDS,
        asks: bool = True,
        on_change: Callable[[list[AgentTool]], object] | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.place = read_place(settings) if isinstance(settings, Mapping) else settings
        self.tools: list[AgentTool] = []
        self._prefix = prefix
        self._call_seconds = call_seconds
        self._start_seconds = start_seconds
        self._asks = asks
        self._on_change = on_change
        self._stderr = stderr
        self._client: Client | None = None
        self._life: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._closing = asyncio.Event()

    @classmethod
    def stdio(
        cls,
        command: str | PathLike[str],
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | PathLike[str] | None = None,
        **options: Any,
    ) -> Self:
        """Start *command* as a child process; *options* are those of `MCPServer`."""
        variables = None if env is None else dict(env)
        folder = None if cwd is None else fspath(cwd)
        return cls(Command(fspath(command), list(args), variables, folder), **options)

    @classmethod
    def http(cls, url: str, *, headers: Mapping[str, str] | None = None, **options: Any) -> Self:
        """Reach the server at *url* over streamable HTTP; *options* are those of `MCPServer`."""
        return cls(Address(url, dict(headers or {})), **options)

    # --- its life --------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._life is not None:
            raise UsageError("an MCP server is opened once")
        started = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live(started), name=f"mcp {self.place}")
        try:
            async with asyncio.timeout(self._start_seconds):
                await asyncio.wait([started, self._life], return_when="FIRST_COMPLETED")
        except BaseException as exc:
            await self._give_up()
            if isinstance(exc, TimeoutError):
                raise self._late() from exc
            raise
        if self._life.done():
            self._raise_why(self._life)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._closing.set()
        if self._life is not None:
            await shielded(self._ended(self._life))

    async def refresh(self) -> list[AgentTool]:
        """Ask the server for its tools again, and give them; that takes as long as a start may."""
        client = self._open_client()
        try:
            async with asyncio.timeout(self._start_seconds):
                found = await list_tools(client)
        except TimeoutError as exc:
            raise self._late() from exc
        names = lawful_names([each.name for each in found], self._prefix)
        self.tools = [self._tool(each, name) for each, name in zip(found, names, strict=True)]
        return self.tools

    async def _live(self, started: asyncio.Future[None]) -> None:
        try:
            from mcp import Client  # noqa: PLC0415 - an extra
        except ImportError as exc:
            raise UsageError(MISSING) from exc
        transport = transport_to(self.place, self._stderr)
        async with Client(transport, cache=None, message_handler=self._hear) as client:
            self._client = client
            try:
                await self.refresh()
                started.set_result(None)
                await self._stay(client)
            finally:
                self._client = None

    async def _stay(self, client: Client) -> None:
        """Follow what changes until somebody closes."""
        followers = [asyncio.create_task(self._follow_changes())]
        capabilities = client.server_capabilities.tools
        if capabilities is not None and capabilities.list_changed:
            followers.append(asyncio.create_task(self._subscribe(client)))
        try:
            await self._closing.wait()
        finally:
            for follower in followers:
                follower.cancel()
            await asyncio.wait(followers)

    async def _give_up(self) -> None:
        """End a start that takes too long: the task unwinds once, and undisturbed."""
        if self._life is not None:
            self._life.cancel()
            with suppress(asyncio.CancelledError):
                await shielded(self._ended(self._life))

    async def _ended(self, life: asyncio.Task[None]) -> None:
        await asyncio.wait([life])
        if not life.cancelled():
            life.exception()  # a connection that broke is told by its calls

    def _raise_why(self, life: asyncio.Task[None]) -> None:
        exc = None if life.cancelled() else life.exception()
        while isinstance(exc, BaseExceptionGroup):
            exc = exc.exceptions[0]
        if isinstance(exc, (UsageError, ProviderError)):
            raise exc
        raise self._failure(str(exc) or type(exc).__name__) from exc

    def _late(self) -> ProviderError:
        return self._failure(f"no answer within {self._start_seconds:g} s")

    def _failure(self, reason: str) -> ProviderError:
        return ProviderError(f"the MCP server {self.place} cannot be used: {reason}")

    # --- changes ---------------------------------------------------------------------------------

    async def _hear(self, message: object) -> None:
        # Servers of before 2026 tell it unasked; asking back from here would block the reader.
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            self._changed.set()

    async def _subscribe(self, client: Client) -> None:
        """Hear of changes from a server that wants to be asked for them."""
        with suppress(Exception):  # an older server, or one that is gone: calls will tell
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._changed.set()

    async def _follow_changes(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            with suppress(Exception):  # the server's trouble, and the old tools may still do
                tools = await self.refresh()
                if self._on_change is not None:
                    # Not from here: what goes wrong in it is for the loop to tell.
                    asyncio.get_running_loop().call_soon(self._on_change, tools)

    # --- calls -----------------------------------------------------------------------------------

    def _open_client(self) -> Client:
        if self._client is None:
            raise UsageError(f"the MCP server {self.place} is not open")
        return self._client

    def _tool(self, offered: Any, name: str) -> AgentTool:
        async def run(arguments: dict[str, Any], context: ToolContext) -> object:
            return await self._call(offered.name, arguments, context)

        described = Tool(name, offered.description or offered.title or "", offered.input_schema)
        return AgentTool(described, run, asks=self._asks)

    async def _call(self, name: str, arguments: dict[str, Any], context: ToolContext) -> object:
        if self._client is None:
            raise ToolError(f"The MCP server {self.place} is closed.")
        progress = Progress(context)
        try:
            result = await self._client.call_tool(
                name,
                arguments,
                read_timeout_seconds=self._call_seconds,
                progress_callback=progress.tell,
            )
        except Exception as exc:  # whatever a stranger's server and the way to it come up with
            reason = cut_middle(str(exc) or type(exc).__name__, MAX_REASON)
            raise ToolError(f"The MCP server {self.place} failed: {reason}") from exc
        finally:
            progress.close()
        return read_output(result)
