"""Where an MCP server is: a command to start, or an address; also as clients' settings have it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from msgspec import Struct, ValidationError, convert, field

from penstock.errors import UsageError

if TYPE_CHECKING:
    from mcp.client import Transport

MISSING: Final = "MCP servers need the package `mcp`, 2.3 or later: pip install 'penstock[mcp]'"

SILENCE_SECONDS: Final = 3600.0
"""How long an HTTP stream may be silent: a call has its own time, and lists rarely change."""

CONNECT_SECONDS: Final = 30.0
"""How long one HTTP connection may take to open."""


class Command(Struct, frozen=True):
    """A server that is started as a child process and talked to over its stdin and stdout.

    It sees a few variables of this process (`PATH`, `HOME` and the like) and *env*, no more.
    """

    command: str
    args: list[str] = field(default_factory=list)
    env: dict[str, str] | None = None
    cwd: str | None = None

    def __str__(self) -> str:
        return Path(self.command).name


class Address(Struct, frozen=True):
    """A server that is reached over streamable HTTP; *headers* go along with each request."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.url.partition("?")[0]  # a query may hold a key


def read_place(settings: Mapping[str, Any]) -> Command | Address:
    """Read a server's entry of a settings file: ``{"command": …}`` or ``{"url": …}``.

    Keys that other clients have beside these (`type`, `disabled`, …) mean nothing here.
    """
    if ("command" in settings) == ("url" in settings):
        raise UsageError('the settings of an MCP server have a "command" or a "url"')
    if settings.get("type") == "sse":
        raise UsageError("MCP over plain SSE is not spoken here, only streamable HTTP")
    try:
        if "command" in settings:
            return convert(dict(settings), Command)
        return convert(dict(settings), Address)
    except ValidationError as exc:
        raise UsageError(f"the settings of an MCP server cannot be read: {exc}") from exc


def transport_to(
    place: Command | Address, stderr: TextIO | None
) -> AbstractAsyncContextManager[Any]:
    """Make the transport to *place*; what a child prints on stderr goes to *stderr*."""
    return _child(place, stderr) if isinstance(place, Command) else _http(place)


def _child(place: Command, stderr: TextIO | None) -> Transport:
    from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: PLC0415 - an extra

    parameters = StdioServerParameters(
        command=place.command, args=place.args, env=place.env, cwd=place.cwd
    )
    return stdio_client(parameters) if stderr is None else stdio_client(parameters, stderr)


@asynccontextmanager
async def _http(place: Address) -> AsyncIterator[Any]:
    import httpx2  # noqa: PLC0415 - an extra
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    patience = httpx2.Timeout(CONNECT_SECONDS, read=SILENCE_SECONDS)
    async with (
        httpx2.AsyncClient(headers=place.headers, timeout=patience) as client,
        streamable_http_client(place.url, http_client=client) as streams,
    ):
        yield streams
