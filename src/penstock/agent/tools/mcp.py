"""MCP servers over stdio or streamable HTTP, and their tools; needs the extra `mcp`.

The connection has a task of its own: what the package `mcp` opens has to be closed by the task that
opened it, and a caller that is cancelled while closing must not leave a child process running.
Calls are made from the tasks of the tools, so that cancelling one notifies the server.

A server that dies is not restarted: calls in progress and all later ones return an error result.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, TypeVar

from msgspec import Struct, ValidationError, convert, field, structs

from penstock.agent.cancellation import shielded
from penstock.agent.tools.base import AgentTool, ToolContext, ToolOutput
from penstock.agent.tools.mcp_context import (
    Elicit,
    Elicitor,
    MCPPrompt,
    MCPResource,
    Sampler,
    read_contents,
    read_messages,
    read_prompt_entry,
    read_resource_entry,
    read_template_entry,
)
from penstock.agent.tools.results import cut_middle, read_encoded_image
from penstock.errors import ProviderError, ToolError, UsageError
from penstock.messages import Text, Usage
from penstock.models.base import Model
from penstock.request import Image, Message
from penstock.tools import Tool

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult, ContentBlock
    from mcp.types import Tool as ListedTool

T = TypeVar("T")

CALL_SECONDS: Final = 300.0
"""How long a call may take: longer than most tools need, shorter than people wait."""

START_SECONDS: Final = 60.0
"""How long a server may take to start and list its tools: some are downloaded first."""

SILENCE_SECONDS: Final = 3600.0
"""How long an HTTP stream may be silent: calls have their own limit, and lists rarely change."""

CONNECT_SECONDS: Final = 30.0
"""How long an HTTP connection may take to open."""

UPDATE_SECONDS: Final = 0.05
"""How much time passes between two updates of progress; some servers report every byte."""

MAX_REASON: Final = 2_000
"""How many characters of a server's error message the model sees."""

MAX_TOOLS: Final = 1000
"""How many tools, resources or prompts of a server are listed: a list may never end."""

MAX_PAGES: Final = 200
"""How many pages of a list are requested; servers put some dozens of tools on each."""

MAX_NAME: Final = 64
"""How long a tool's name may be for every provider."""

_MISSING: Final = "MCP servers need the package `mcp`, 2.3 or later: pip install 'penstock[mcp]'"
_INVALID: Final = re.compile(r"[^A-Za-z0-9_-]")


class StdioEndpoint(Struct, frozen=True):
    """A server that is started as a child process and connected over its stdin and stdout.

    It gets a few variables of this process (`PATH`, `HOME` and the like) and *env*, no more.
    """

    command: str
    args: list[str] = field(default_factory=list)
    env: dict[str, str] | None = None
    cwd: str | None = None

    def __str__(self) -> str:
        return Path(self.command).name


class HTTPEndpoint(Struct, frozen=True):
    """A server at a URL, over streamable HTTP; *headers* are sent with each request."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.url.partition("?")[0]  # the query may contain a key


class MCPServer:
    """An MCP server, connected within ``async with``; `tools` are its tools.

    *settings* is an entry of `mcpServers`, as many clients store it. *prefix* is put before each
    name. A call takes at most *call_seconds*, the start *start_seconds*. The tools of a server can
    do anything, so by default each call *needs_approval*, and is denied without an approver.
    *on_change* is called with the new `tools` when the server reports a change.

    With *sampling*, this model responds to requests of the server, and *elicit* asks the user its
    questions; without them the server is refused. *legacy* connects as before 2026: some servers
    can ask their client only in those protocol versions.
    """

    def __init__(  # noqa: PLR0913 - each is an independent option with a default
        self,
        settings: Mapping[str, Any] | StdioEndpoint | HTTPEndpoint,
        *,
        prefix: str = "",
        call_seconds: float = CALL_SECONDS,
        start_seconds: float = START_SECONDS,
        needs_approval: bool = True,
        on_change: Callable[[list[AgentTool]], object] | None = None,
        stderr: TextIO | None = None,
        sampling: Model | None = None,
        elicit: Elicit | None = None,
        legacy: bool = False,
    ) -> None:
        self.endpoint = parse_endpoint(settings) if isinstance(settings, Mapping) else settings
        self._sampler = None if sampling is None else Sampler(sampling, _read_block)
        self._elicitor = None if elicit is None else Elicitor(elicit, str(self.endpoint))
        self.tools: list[AgentTool] = []
        self._mode = "legacy" if legacy else "auto"
        self._prefix = prefix
        self._call_seconds = call_seconds
        self._start_seconds = start_seconds
        self._needs_approval = needs_approval
        self._on_change = on_change
        self._stderr = stderr
        self._client: Client | None = None
        self._connection: asyncio.Task[None] | None = None
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
        """Make a server that starts *command* as a child process; see `MCPServer` for *options*."""
        variables = None if env is None else dict(env)
        folder = None if cwd is None else fspath(cwd)
        return cls(StdioEndpoint(fspath(command), list(args), variables, folder), **options)

    @classmethod
    def http(cls, url: str, *, headers: Mapping[str, str] | None = None, **options: Any) -> Self:
        """Make a server at *url*, over streamable HTTP; see `MCPServer` for *options*."""
        return cls(HTTPEndpoint(url, dict(headers or {})), **options)

    # --- the connection ---

    async def __aenter__(self) -> Self:
        if self._connection is not None:
            raise UsageError("an MCPServer can be opened only once: make a new one")
        started = asyncio.get_running_loop().create_future()
        self._connection = asyncio.create_task(self._connect(started), name=f"mcp {self.endpoint}")
        try:
            async with asyncio.timeout(self._start_seconds):
                await asyncio.wait([started, self._connection], return_when="FIRST_COMPLETED")
        except BaseException as exc:
            # The task is cancelled once, and then left to clean up.
            self._connection.cancel()
            with suppress(asyncio.CancelledError):
                await shielded(_wait_for(self._connection))
            if isinstance(exc, TimeoutError):
                raise self._make_timeout() from exc
            raise
        if self._connection.done():
            self._raise_failure(self._connection)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._closing.set()
        if self._connection is not None:
            await shielded(_wait_for(self._connection))

    async def refresh(self) -> list[AgentTool]:
        """List the tools of the server again and return them, within the limit of a start."""
        client = self._open_client
        try:
            async with asyncio.timeout(self._start_seconds):
                found: list[ListedTool] = await _list_all(client.list_tools, "tools")
        except TimeoutError as exc:
            raise self._make_timeout() from exc
        names = make_valid_names([each.name for each in found], self._prefix)
        self.tools = [self._make_tool(each, name) for each, name in zip(found, names, strict=True)]
        return self.tools

    # --- resources and prompts ---

    async def list_resources(self) -> list[MCPResource]:
        """Return the resources of the server and its templates; none if it has none.

        Raises `ProviderError` if the server fails, here and in the methods below.
        """
        client = self._open_client
        if client.server_capabilities.resources is None:
            return []
        listed = await self._request(_list_all(client.list_resources, "resources"))
        templates = _list_all(client.list_resource_templates, "resource_templates")
        return [
            *map(read_resource_entry, listed),
            *map(read_template_entry, await self._request(templates)),
        ]

    async def read_resource(self, uri: str) -> list[Text | Image]:
        """Return the content of the resource at *uri*; bytes that are not an image are named."""
        result = await self._request(self._open_client.read_resource(uri))
        return read_contents(list(result.contents))

    async def list_prompts(self) -> list[MCPPrompt]:
        """Return the prompts of the server; none if it has none."""
        client = self._open_client
        if client.server_capabilities.prompts is None:
            return []
        listed = await self._request(_list_all(client.list_prompts, "prompts"))
        return [read_prompt_entry(one) for one in listed]

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None
    ) -> list[Message]:
        """Return the messages of the prompt *name*, with its *arguments* filled in."""
        result = await self._request(self._open_client.get_prompt(name, dict(arguments or {})))
        return read_messages(result.messages, _read_block)

    def resource_tools(self) -> list[AgentTool]:
        """Return tools with which a model lists and reads the resources of the server."""

        async def list_all(_arguments: dict[str, Any], _context: ToolContext) -> object:
            return [structs.asdict(one) for one in await self._as_tool(self.list_resources())]

        async def read(arguments: dict[str, Any], _context: ToolContext) -> object:
            return await self._as_tool(self.read_resource(arguments["uri"]))

        about = f"the MCP server {self.endpoint}"
        uri = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]}
        names = make_valid_names(["list_resources", "read_resource"], self._prefix)
        listing = Tool(names[0], f"List the resources of {about}.", {"type": "object"})
        reading = Tool(names[1], f"Read a resource of {about} by its URI.", uri)
        return [
            AgentTool(listing, list_all, needs_approval=self._needs_approval),
            AgentTool(reading, read, needs_approval=self._needs_approval),
        ]

    @property
    def sampling_usage(self) -> Usage:
        """The tokens that the server has spent by sampling."""
        return Usage() if self._sampler is None else self._sampler.usage

    @property
    def _open_client(self) -> Client:
        if self._client is None:
            raise UsageError(f"MCP server {self.endpoint} is not open: use `async with`")
        return self._client

    async def _request(self, request: Awaitable[T]) -> T:
        """Wait for the response to *request*, as long as a call may take."""
        try:
            async with asyncio.timeout(self._call_seconds):
                return await request
        except Exception as exc:  # a server and a connection can fail in any way
            reason = cut_middle(str(exc) or type(exc).__name__, MAX_REASON)
            raise self._make_error(reason) from exc

    async def _as_tool(self, request: Awaitable[T]) -> T:
        """Wait for *request*; raise a failure as `ToolError`, which the model sees."""
        try:
            return await request
        except (ProviderError, UsageError) as exc:
            raise ToolError(str(exc)) from exc

    async def _connect(self, started: asyncio.Future[None]) -> None:
        try:
            from mcp import Client  # noqa: PLC0415 - an extra
        except ImportError as exc:
            raise UsageError(_MISSING) from exc
        transport = _make_transport(self.endpoint, self._stderr)
        async with Client(
            transport,
            cache=None,
            mode=self._mode,
            message_handler=self._receive,
            sampling_callback=self._sampler,
            elicitation_callback=self._elicitor,
        ) as client:
            self._client = client
            try:
                await self.refresh()
                started.set_result(None)
                await self._follow_until_closed(client)
            finally:
                self._client = None

    async def _follow_until_closed(self, client: Client) -> None:
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

    def _raise_failure(self, connection: asyncio.Task[None]) -> None:
        exc = None if connection.cancelled() else connection.exception()
        while isinstance(exc, BaseExceptionGroup):
            exc = exc.exceptions[0]
        if isinstance(exc, (UsageError, ProviderError)):
            raise exc
        raise self._make_error(str(exc) or type(exc).__name__) from exc

    def _make_timeout(self) -> ProviderError:
        return self._make_error(f"no response within {self._start_seconds:g} s")

    def _make_error(self, reason: str) -> ProviderError:
        return ProviderError(f"cannot use MCP server {self.endpoint}: {reason}")

    # --- changes ---

    async def _receive(self, message: object) -> None:
        # Protocol versions before 2026 send this without a subscription. A request from here would
        # block the reader.
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            self._changed.set()

    async def _subscribe(self, client: Client) -> None:
        """Subscribe to changes, as newer protocol versions require."""
        with suppress(Exception):  # an older server, or a broken connection, which calls report
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._changed.set()

    async def _follow_changes(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            with suppress(Exception):  # the old tools may still work
                tools = await self.refresh()
                if self._on_change is not None:
                    # Called by the loop, so that an exception in it is reported there.
                    asyncio.get_running_loop().call_soon(self._on_change, tools)

    # --- calls ---

    def _make_tool(self, listed: ListedTool, name: str) -> AgentTool:
        async def run(arguments: dict[str, Any], context: ToolContext) -> object:
            return await self._call(listed.name, arguments, context)

        described = Tool(name, listed.description or listed.title or "", listed.input_schema)
        return AgentTool(described, run, needs_approval=self._needs_approval)

    async def _call(self, name: str, arguments: dict[str, Any], context: ToolContext) -> object:
        if self._client is None:
            raise ToolError(f"The MCP server {self.endpoint} is closed.")
        progress = ProgressUpdates(context)
        try:
            result = await self._client.call_tool(
                name,
                arguments,
                read_timeout_seconds=self._call_seconds,
                progress_callback=progress.add,
            )
        except Exception as exc:  # a server and a connection can fail in any way
            reason = cut_middle(str(exc) or type(exc).__name__, MAX_REASON)
            raise ToolError(f"The MCP server {self.endpoint} failed: {reason}") from exc
        finally:
            progress.close()
        return read_output(result)


async def _wait_for(connection: asyncio.Task[None]) -> None:
    await asyncio.wait([connection])
    if not connection.cancelled():
        connection.exception()  # mark it as retrieved: calls report a broken connection


# --- endpoints ---


def parse_endpoint(settings: Mapping[str, Any]) -> StdioEndpoint | HTTPEndpoint:
    """Parse the entry of a server in a settings file: ``{"command": …}`` or ``{"url": …}``.

    Other keys that clients use (`type`, `disabled`, …) are ignored. Raises `UsageError`.
    """
    if ("command" in settings) == ("url" in settings):
        raise UsageError('the settings of an MCP server must have either "command" or "url"')
    if settings.get("type") == "sse":
        raise UsageError("MCP over SSE is not supported: use streamable HTTP or stdio")
    try:
        if "command" in settings:
            return convert(dict(settings), StdioEndpoint)
        return convert(dict(settings), HTTPEndpoint)
    except ValidationError as exc:
        raise UsageError(f"invalid settings of an MCP server: {exc}") from exc


def _make_transport(
    endpoint: StdioEndpoint | HTTPEndpoint, stderr: TextIO | None
) -> AbstractAsyncContextManager[Any]:
    """Make the transport to *endpoint*; a child process prints its errors to *stderr*."""
    if isinstance(endpoint, HTTPEndpoint):
        return _connect_http(endpoint)
    from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: PLC0415 - an extra

    parameters = StdioServerParameters(
        command=endpoint.command, args=endpoint.args, env=endpoint.env, cwd=endpoint.cwd
    )
    return stdio_client(parameters) if stderr is None else stdio_client(parameters, stderr)


@asynccontextmanager
async def _connect_http(endpoint: HTTPEndpoint) -> AsyncIterator[Any]:
    import httpx2  # noqa: PLC0415 - an extra
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    timeout = httpx2.Timeout(CONNECT_SECONDS, read=SILENCE_SECONDS)
    async with (
        httpx2.AsyncClient(headers=endpoint.headers, timeout=timeout) as client,
        streamable_http_client(endpoint.url, http_client=client) as streams,
    ):
        yield streams


# --- lists ---


async def _list_all(request: Callable[..., Awaitable[Any]], kind: str) -> list[Any]:
    """Request all pages of a list, within the limits.

    Pages may be empty, repeat or never end, so pages and entries are counted, and a cursor is
    followed only once.
    """
    found: list[Any] = []
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await request(cursor=cursor)
        found.extend(vars(page)[kind])
        cursor = page.next_cursor
        if not cursor or cursor in seen or len(found) >= MAX_TOOLS:
            break
        seen.add(cursor)
    return found[:MAX_TOOLS]


def make_valid_names(names: list[str], prefix: str = "") -> list[str]:
    """Make unique names that every provider accepts: MCP allows dots, slashes and any length.

    A name without any valid character becomes `tool_N`, by its position in the list.
    """
    valid: dict[str, None] = {}  # in order
    for position, name in enumerate(names, 1):
        kept = _INVALID.sub("_", name)
        if not kept.strip("_-"):
            kept = f"tool_{position}"
        unique = plain = (_INVALID.sub("_", prefix) + kept)[:MAX_NAME]
        count = 1
        while unique in valid:
            count += 1
            suffix = f"_{count}"
            unique = plain[: MAX_NAME - len(suffix)] + suffix
        valid[unique] = None
    return list(valid)


# --- results and progress ---


def read_output(result: CallToolResult) -> ToolOutput:
    """Read the result of a call; one that failed on the server is an error.

    Text and images are blocks; bytes that begin like an image are one, whatever the server calls
    them. A resource is its text or its image. What a model cannot be shown (audio, drawings, large
    images, other files) is named. Structured content repeats the blocks, so it becomes `details`,
    and the content if there are no blocks.
    """
    blocks = [_read_block(block) for block in result.content]
    structured = result.structured_content
    content: Any = blocks
    if not blocks:
        content = "" if structured is None else structured
    elif all(isinstance(block, Text) for block in blocks):
        content = "\n".join(block.text for block in blocks if isinstance(block, Text))
    return ToolOutput(content, is_error=bool(result.is_error), details=structured)


def _read_block(block: ContentBlock) -> Text | Image:
    match block.type:
        case "text":
            return Text(block.text)
        case "image":
            return read_encoded_image(block.data, block.mime_type)
        case "audio":
            return Text(f"(audio, {block.mime_type}, cannot be shown)")
        case "resource":
            resource: Any = block.resource
            # The protocol has two classes for it: `TextResourceContents` has `text`, the other has
            # `blob`.
            if (text := getattr(resource, "text", None)) is not None:
                return Text(text)
            kind = resource.mime_type or "bytes"
            if kind.startswith("image/"):
                return read_encoded_image(resource.blob, f"{resource.uri}, {kind}")
            return Text(f"({resource.uri}, {kind}, cannot be shown)")
        case "resource_link":
            named = f"{block.name}: {block.uri}"
            return Text(f"{named} ({block.description})" if block.description else named)


class ProgressUpdates:
    """Shows the progress of one call as updates of *context*, no faster than people read."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._latest = ""
        self._next = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def add(self, progress: float, total: float | None, message: str | None) -> None:
        """Emit a report of the server as an update, now or a moment later."""
        count = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
        self._latest = f"{count} {message}" if message else count
        loop = asyncio.get_running_loop()
        if self._timer is None:
            if loop.time() >= self._next:
                self._show()
            else:
                self._timer = loop.call_at(self._next, self._show)

    def close(self) -> None:
        """Stop: the result follows."""
        if self._timer is not None:
            self._timer.cancel()

    def _show(self) -> None:
        self._timer = None
        self._next = asyncio.get_running_loop().time() + UPDATE_SECONDS
        self._context.update(self._latest)
