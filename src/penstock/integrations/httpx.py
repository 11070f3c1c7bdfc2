"""HTTP clients for SDKs built on httpx or httpx2: calls printed as text become tool calls.

    from openai import OpenAI
    from penstock.integrations.httpx import penstock_client

    client = OpenAI(base_url="http://localhost:8000/v1", http_client=penstock_client())

They work for every SDK that accepts such a client, synchronous or asynchronous, streamed or not,
with the Chat, Responses or Messages API. Requests to any other path pass unchanged. `attach` is for
frameworks that create their SDK themselves and take no HTTP client.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, TypeVar

from penstock.errors import UsageError
from penstock.integrations import Exchange, RewriteOptions, find_api, prepare

__all__ = ["async_penstock_client", "attach", "penstock_client"]

SDK = TypeVar("SDK")

_LIBRARIES: Final = ("httpx2", "httpx")
# Where SDKs keep their HTTP client, and where frameworks keep their SDK.
_CLIENT_NAMES: Final = ("_client", "_async_client", "_aclient", "root_client", "root_async_client")

# Headers about the bytes of a body: they do not apply to the body that replaces it.
_BODY_HEADERS: Final = ("content-length", "content-encoding", "transfer-encoding")


def penstock_client(*, library: str | None = None, **options: Any) -> Any:
    """Return a synchronous client whose responses have their printed calls as tool calls.

    The options of `RewriteOptions` (``tools``, ``format``, …) say how; all others are options of
    the client itself, such as ``transport`` and ``timeout``. *library* is ``httpx2`` or ``httpx``;
    by default it is the first of them that is installed, which is the one that current SDKs use.

    Raises `UsageError` if no library is installed, and for a wrong option.
    """
    return _make_clients(_choose_library(library))[0](**options)


def async_penstock_client(*, library: str | None = None, **options: Any) -> Any:
    """Return an asynchronous client; see `penstock_client`."""
    return _make_clients(_choose_library(library))[1](**options)


def attach(sdk: SDK, **options: Any) -> SDK:
    """Make *sdk* act on printed calls, and return it; the options are those of `RewriteOptions`.

    *sdk* is a client of the OpenAI or Anthropic SDK, or an object of a framework that holds one,
    such as LangChain's ``ChatAnthropic``, which takes no HTTP client. Connections, timeouts and
    headers stay as they are. An HTTP client that several objects share is not changed: *sdk* gets a
    copy that uses the same connections.

    Raises `UsageError` if *sdk* holds no client of httpx or httpx2.
    """
    rewriting = RewriteOptions(**options)
    holders = [(sdk, name) for name in _CLIENT_NAMES]
    holders += [
        (inner, "_client")
        for name in _CLIENT_NAMES
        if (inner := getattr(sdk, name, None)) is not None
    ]
    is_found = False
    for holder, name in holders:
        made = _copy_client(getattr(holder, name, None), rewriting)
        if made is not None:
            setattr(holder, name, made)
            is_found = True
    if not is_found:
        raise UsageError(f"{type(sdk).__name__} holds no client of httpx or httpx2")
    return sdk


def _copy_client(client: Any, rewriting: RewriteOptions) -> Any:
    """Return a copy of an HTTP client that rewrites, or None if *client* is something else."""
    for library in _LIBRARIES:
        httpx: Any = sys.modules.get(library)
        bases = () if httpx is None else (httpx.Client, httpx.AsyncClient)
        for base, ours in zip(bases, _make_clients(library) if bases else (), strict=True):
            if isinstance(client, base):
                # The SDK's own client may be shared by several objects, which keep theirs
                # unchanged.
                made = copy.copy(client)
                kind = type(client)
                if not isinstance(client, ours):
                    kind = type(f"Penstock{kind.__name__}", (_Borrowed, ours, kind), {})
                made.__class__ = kind
                made._rewriting = rewriting  # noqa: SLF001 - of our own class
                made._original = client  # noqa: SLF001 - it closes the connections when collected
                return made
    return None


# The SDKs of OpenAI and Anthropic close their client in `__del__`.
class _Borrowed:
    """A client whose connections belong to another one, which closes them when it is collected."""

    def __del__(self) -> None:
        """Leave the connections open: SDKs close them here."""


def _choose_library(name: str | None) -> str:
    if name is not None and name not in _LIBRARIES:
        raise UsageError(f"library must be 'httpx2' or 'httpx', got {name!r}")
    for one in _LIBRARIES if name is None else (name,):
        if find_spec(one) is not None:
            return one
    raise UsageError(f"{name or 'httpx2'} is not installed: pip install 'penstock[httpx]'")


@cache
def _make_clients(library: str) -> tuple[type, type]:  # noqa: C901 - it holds four classes
    """Return the two client classes: SDKs require subclasses of their library's own."""
    httpx: Any = import_module(library)

    class RewrittenStream(httpx.SyncByteStream):  # type: ignore[misc]
        def __init__(self, exchange: Exchange, response: Any) -> None:
            self.exchange = exchange
            self.response = response
            self.outer: Any = None

        def __iter__(self) -> Iterator[bytes]:
            feed = self.exchange.feed
            for data in _body(self.response, "iter"):
                if found := feed(data):
                    yield found
            if found := self.exchange.finish():
                yield found

        def close(self) -> None:
            self.response.close()
            _copy_elapsed(self.response, self.outer)

    class AsyncRewrittenStream(httpx.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, exchange: Exchange, response: Any) -> None:
            self.exchange = exchange
            self.response = response
            self.outer: Any = None
            self.pieces = self._rewrite(_body(response, "aiter"))

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self.pieces

        async def _rewrite(self, body: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
            feed = self.exchange.feed
            async with aclosing(body):  # SDKs stop reading early.
                async for data in body:
                    if found := feed(data):
                        yield found
            if found := self.exchange.finish():
                yield found

        async def aclose(self) -> None:
            await self.pieces.aclose()
            await self.response.aclose()
            _copy_elapsed(self.response, self.outer)

    class PenstockClient(httpx.Client):  # type: ignore[misc]
        """A client that rewrites the responses of the three APIs."""

        def __init__(self, **options: Any) -> None:
            self._rewriting, others = _split_options(options)
            super().__init__(**others)

        def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
            """Send *request*; the response has its printed calls as tool calls."""
            api = _find_api(request)
            exchange = prepare(api, request.read(), self._rewriting) if api else None
            if exchange is None:
                return super().send(request, stream=stream, **options)
            # Streamed in any case: the type of the response is known only with its head.
            response = super().send(_with_body(request, exchange.body), stream=True, **options)
            try:
                if _is_stream(response):
                    body = RewrittenStream(exchange, response)
                    response = body.outer = _replace(response, stream=body)
                elif _is_json(response):
                    content = exchange.rewrite(response.read())
                    response = _replace(response, content=content)
                if not stream:
                    response.read()
            except BaseException:
                response.close()
                raise
            return response

    class AsyncPenstockClient(httpx.AsyncClient):  # type: ignore[misc]
        """A client that rewrites the responses of the three APIs."""

        def __init__(self, **options: Any) -> None:
            self._rewriting, others = _split_options(options)
            super().__init__(**others)

        async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
            """Send *request*; the response has its printed calls as tool calls."""
            api = _find_api(request)
            exchange = prepare(api, await request.aread(), self._rewriting) if api else None
            if exchange is None:
                return await super().send(request, stream=stream, **options)
            sent = _with_body(request, exchange.body)
            response = await super().send(sent, stream=True, **options)
            try:
                if _is_stream(response):
                    body = AsyncRewrittenStream(exchange, response)
                    response = body.outer = _replace(response, stream=body)
                elif _is_json(response):
                    content = exchange.rewrite(await response.aread())
                    response = _replace(response, content=content)
                if not stream:
                    await response.aread()
            except BaseException:
                await response.aclose()
                raise
            return response

    return PenstockClient, AsyncPenstockClient


def _split_options(options: dict[str, Any]) -> tuple[RewriteOptions, dict[str, Any]]:
    """Return our options, and those of the client."""
    ours = {key: value for key, value in options.items() if key in RewriteOptions.__struct_fields__}
    others = {key: value for key, value in options.items() if key not in ours}
    return RewriteOptions(**ours), others


def _find_api(request: Any) -> str | None:
    return find_api(request.url.path) if request.method == "POST" else None


def _with_body(request: Any, body: bytes) -> Any:
    """Return *request* with *body*, or itself if that is its body already."""
    if body is request.content:
        return request
    headers = [pair for pair in request.headers.raw if _key(pair[0]) not in _BODY_HEADERS]
    return type(request)(
        request.method, request.url, headers=headers, content=body, extensions=request.extensions
    )


def _replace(response: Any, **body: Any) -> Any:
    """Return *response* with another body."""
    headers = [pair for pair in response.headers.raw if _key(pair[0]) not in _BODY_HEADERS]
    made = type(response)(
        response.status_code,
        headers=headers,
        request=response.request,
        extensions=response.extensions,
        history=response.history,
        **body,
    )
    _copy_elapsed(response, made)
    return made


def _key(name: bytes) -> str:
    return name.decode("latin-1").lower()


def _is_stream(response: Any) -> bool:
    return bool(response.is_success) and _content_type(response) == "text/event-stream"


def _is_json(response: Any) -> bool:
    return bool(response.is_success) and _content_type(response) == "application/json"


def _content_type(response: Any) -> str:
    text: str = response.headers.get("content-type", "")
    return text.partition(";")[0].strip().lower()


def _body(response: Any, kind: str) -> Any:
    """Return an iterator over the decoded body; ``raw`` saves a step if nothing is encoded."""
    is_encoded = response.headers.get("content-encoding", "identity") != "identity"
    name = "bytes" if is_encoded or response.is_stream_consumed else "raw"
    return getattr(response, f"{kind}_{name}")()


def _copy_elapsed(response: Any, made: Any) -> None:
    """Copy how long the request took, which is known once the body was read."""
    if made is not None:
        with suppress(RuntimeError):  # It is not known yet.
            made.elapsed = response.elapsed
