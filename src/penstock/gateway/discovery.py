"""What is known about servers before the gateway starts: which are running, and their models.

Without an upstream, the usual ports of local servers are tried on the loopback address. A server
counts if it lists models at ``/v1/models``, as all of `LOCAL_SERVERS` do, or requires a key for
that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from msgspec import Struct, field

from penstock.config.settings import UpstreamSettings
from penstock.config.types import SERVERLESS_APIS
from penstock.errors import PenstockError, ProviderError
from penstock.gateway.advice import (
    CHECK_PATH,
    LOCAL_SERVERS,
    LocalServer,
    advise,
    ask_whether_it_runs,
)
from penstock.gateway.model_router import find_chat_models
from penstock.messages import ErrorInfo
from penstock.models.http.aiohttp_transport import AiohttpTransport
from penstock.models.http.list_models import list_models
from penstock.models.http.transport import ConnectError, Transport, TransportError

DISCOVERY_SECONDS: Final = 1.0
"""How many seconds a local server has to list its models: it does so from memory."""

CHECK_SECONDS: Final = 3.0
"""How many seconds the upstream has to list its models before the gateway starts without them."""

_CHAT: Final = "openai-chat"
_OK: Final = 200
_KEY_STATUSES: Final = frozenset({401, 403})


class FoundServer(Struct, frozen=True):
    """A server that responds on the port of *program*, with its *models*."""

    program: LocalServer
    models: list[str] = field(default_factory=list)
    wants_key: bool = False

    @property
    def url(self) -> str:
        """The base URL."""
        return self.program.url

    @property
    def description(self) -> str:
        """The program, the URL and the models in one line."""
        what = "wants a key" if self.wants_key else describe_number(self.models)
        return f"{self.program.name}: {self.url} ({what})"

    @property
    def command(self) -> str:
        """The command that uses the server."""
        key = " --key-env NAME" if self.wants_key else ""
        return f"penstock serve --upstream {self.url}{key}"


def describe_number(models: list[str]) -> str:
    """Return how many models there are, in words."""
    return f"{len(models) or 'no'} model{'' if len(models) == 1 else 's'}"


async def find_servers(
    servers: Iterable[LocalServer] = LOCAL_SERVERS, seconds: float = DISCOVERY_SECONDS
) -> list[FoundServer]:
    """Return the servers that run on this machine, in the order of *servers*."""
    transport = AiohttpTransport(connect=seconds, proxy="")
    try:
        found = await asyncio.gather(*(_find(one, transport, seconds) for one in servers))
    finally:
        await transport.close()
    return [one for one in found if one is not None]


async def _find(server: LocalServer, transport: Transport, seconds: float) -> FoundServer | None:
    try:
        models = await list_models(_CHAT, server.url, transport=transport, seconds=seconds)
    except ProviderError as exc:
        return FoundServer(server, wants_key=True) if exc.status in _KEY_STATUSES else None
    except (PenstockError, OSError, TimeoutError):
        return None
    return FoundServer(server, models)


class UpstreamStatus(Struct, frozen=True):
    """Whether an upstream responds, and with which *models* (None: it has no list).

    *problem* says why there is no list, *advice* what to do.
    """

    models: list[str] | None = None
    problem: str = ""
    advice: str = ""
    responds: bool = True

    @property
    def chat_models(self) -> list[str]:
        """The models that are not for another purpose than chat."""
        return find_chat_models(self.models or [])

    def lacks(self, name: str) -> bool:
        """Return whether the list is known and has no *name*; Ollama adds ``:latest`` to one."""
        listed = self.models or []
        return bool(listed) and name not in listed and f"{name}:latest" not in listed


async def check_upstream(
    upstream: UpstreamSettings, seconds: float = CHECK_SECONDS
) -> UpstreamStatus:
    """Ask the server of *upstream* for its models; never raises."""
    if upstream.api in SERVERLESS_APIS:
        return UpstreamStatus()
    proxy = None if upstream.proxy is None else upstream.proxy.reveal()
    url = upstream.base_url.reveal()
    try:
        transport = AiohttpTransport(connect=seconds, proxy=proxy, ca=upstream.ca)
    except PenstockError as exc:
        return UpstreamStatus(problem=str(exc), responds=False)
    try:
        models = await list_models(
            upstream.api,
            url,
            upstream.key.reveal(),
            transport=transport,
            headers=upstream.revealed_headers(),
            seconds=seconds,
        )
    except ProviderError as exc:
        error = ErrorInfo(str(exc), "provider", status=exc.status)
        reason = f"{exc.status}: {exc}" if exc.status != _OK else str(exc)
        if exc.status in _KEY_STATUSES:
            return UpstreamStatus(None, reason, advise(error, upstream, ""))
        # Some servers have no list, so this may be in order.
        advice = f"If requests fail: {CHECK_PATH[0].lower()}{CHECK_PATH[1:]}"
        return UpstreamStatus(None, f"it lists no models ({reason})", advice)
    except TimeoutError:
        return UpstreamStatus(None, f"no response within {seconds:.0f} s", responds=False)
    except ConnectError as exc:
        return UpstreamStatus(None, str(exc), ask_whether_it_runs(url), responds=False)
    except TransportError as exc:
        return UpstreamStatus(None, str(exc), advise(exc.info, upstream, ""), responds=False)
    except (PenstockError, OSError) as exc:
        return UpstreamStatus(problem=str(exc), responds=False)
    finally:
        await transport.close()
    return UpstreamStatus(models)
