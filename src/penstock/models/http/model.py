"""`HTTPModel`: a model behind any of the APIs, over HTTP."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from copy import copy
from importlib.metadata import PackageNotFoundError, version
from logging import getLogger
from typing import Any, Final
from uuid import uuid4

from msgspec.structs import replace

from penstock import _json, apis
from penstock.apis import Api
from penstock.debug import DebugSettings, Summary
from penstock.errors import UsageError
from penstock.events import Failed
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.models.base import Batches, Closing, Tap, one_by_one
from penstock.models.http import endpoints, proxies, qwen_chats
from penstock.models.http.attempt import Prepare, Send
from penstock.models.http.exchange import Exchange
from penstock.models.http.keys import Mask, find_key, secrets_in_headers, secrets_in_url
from penstock.models.http.listing import LIST_SECONDS, model_names
from penstock.models.http.report import Account, HTTPStream, Report
from penstock.models.http.retry import NO_RETRY, Retry
from penstock.models.http.taps import Hiding, Tracing, traced
from penstock.models.http.transport import HTTPCall, Transport
from penstock.models.http.waiting import Timeouts
from penstock.models.ids import Ids
from penstock.models.tracing import Trace, Write
from penstock.request import Request, RequestLike, make_request
from penstock.streams import INTERVAL
from penstock.streams.errors import error_of

_LOG: Final = getLogger("penstock.models")
_OF_TRANSPORT: Final = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "upgrade"}
)
"""Headers that say how bytes travel, which the caller cannot know."""

MAX_SAID: Final = 256
"""How many fields that are left out are logged: there are fewer in any API."""

MAX_NAME: Final = 64
"""How many characters of such a field's name are logged."""


class HTTPModel(Closing):
    """A model behind *api* (a name that `apis.get` knows) at *base_url*, called *model* there.

    Without *base_url* the environment or the provider's own address is used; without *api_key* the
    key is that of the environment (`OPENAI_API_KEY`, `ANTHROPIC_API_KEY`, `GEMINI_API_KEY` or
    `GOOGLE_API_KEY`, `OLLAMA_API_KEY`, `QWEN_API_KEY`), and an empty one is none. *headers* go
    along with every request. *streaming* off asks for whole answers, which come as a stream all
    the same. *interval* is the pace of the streams. *on_report* is told of each that has ended.

    *debug* is a mode of `penstock.debug`, None leaves that to the environment: bytes as they come
    and events as they go are written to *write* or else to stderr, without keys, and the summary
    goes to *on_summary* where that is given.

    *proxy* and *ca* are for the connections that the model makes itself; with a *transport*, which
    models may share, they and the time to connect are the transport's.

    Raises `UsageError` for an API, a URL, a key or an option that cannot be one.
    """

    def __init__(  # noqa: PLR0913 - each is an option of every model
        self,
        api: str,
        base_url: str = "",
        model: str = "",
        api_key: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        retry: Retry | None = None,
        streaming: bool = True,
        proxy: str | None = None,
        ca: str | os.PathLike[str] | ssl.SSLContext | None = None,
        transport: Transport | None = None,
        interval: float = INTERVAL,
        environ: Mapping[str, str] | None = None,
        on_report: Callable[[Report], object] | None = None,
        debug: str | DebugSettings | None = None,
        write: Write | None = None,
        on_summary: Callable[[Summary], object] | None = None,
    ) -> None:
        if not interval >= 0:
            raise UsageError(f"an interval is zero or more seconds, not {interval}")
        environ = os.environ if environ is None else environ
        self._api = apis.get(api)
        self._endpoint = endpoints.ENDPOINTS[self._api.name]
        self._base_url = endpoints.base_url_for(self._api.name, base_url, environ)
        self._model = model
        self._key = find_key(api_key, self._endpoint.key_names, environ)
        self._headers = dict(headers or {})
        self._timeouts = timeouts or Timeouts()
        self._retry = retry or Retry()
        self._streaming = streaming
        self._mask = Mask([self._key.reveal(), *secrets_in_url(self._base_url)])
        self._interval = interval
        self._on_report = on_report
        self._trace = Trace(debug, write, on_summary, environ)
        self._said: set[str] = set()  # what was said to be left out
        self._own = transport is None
        if transport is None:
            through = proxies.proxy_for(self._base_url, proxy, environ) or ""
            self._mask = self._mask.with_secrets(secrets_in_url(through))
            transport = _own_transport(self._timeouts.connect, proxy, ca, environ)
        self._transport = transport

    @property
    def api(self) -> Api:
        """The API that the server speaks."""
        return self._api

    @property
    def name(self) -> str:
        """The name of the model, as its server knows it."""
        return self._model

    @property
    def interval(self) -> float:
        """The pace of the streams: how many seconds lie between two deltas."""
        return self._interval

    def __repr__(self) -> str:
        where = self._base_url.partition("?")[0]
        return f"HTTPModel({self._api.name!r}, {where!r}, {self._model!r})"

    def stream(self, request: RequestLike) -> HTTPStream:
        """Begin to answer *request*; every failure is in the stream.

        Raises `UsageError` for what is no request. The request is read here and may be changed
        afterwards; it is sent with the first read of the stream. `report` of the stream says what
        it took, and what the API had no word for.
        """
        report = Report(api=self._api.name, model=self._model)
        batches = self._batches(make_request(request), report, None)
        return HTTPStream(one_by_one(batches), report, interval=self._interval)

    def batches(self, request: RequestLike, tap: Tap | None = None) -> Batches:
        """Give the events of the answer as they arrive, with no stream in between.

        Like `stream`, but without its pace and its task; *tap* sees what passes on the wire.
        """
        report = Report(api=self._api.name, model=self._model)
        return self._batches(make_request(request), report, tap)

    async def complete(self, request: RequestLike) -> AssistantMessage:
        """Give the whole answer; one that failed has `error` set."""
        async with self.stream(request) as stream:
            return await stream.result()

    def without_retries(self) -> HTTPModel:
        """Give this model as one that tries once, over the same connections: close the model."""
        twin = copy(self)
        twin._retry, twin._own = NO_RETRY, False  # noqa: SLF001 - a copy of our own
        return twin

    async def names(self, seconds: float = LIST_SECONDS) -> list[str]:
        """List the models that the server has, within *seconds*.

        Unlike an answer, this raises: `ProviderError` where the server refuses or says something
        else, a `TransportError`, an `OSError` or a `TimeoutError` where it does not answer.
        """
        return await model_names(
            self._api.name,
            self._base_url,
            self._key.reveal(),
            transport=self._transport,
            headers=self._headers,
            seconds=seconds,
        )

    async def close(self) -> None:
        """Close the connections, unless they are those of a transport that was passed in."""
        if self._own:
            await self._transport.close()

    # --- what goes out ---

    def _batches(self, request: Request, report: Report, tap: Tap | None) -> Batches:
        headers = {**self._headers, **(request.headers or {})}
        mask = self._mask.with_secrets(secrets_in_headers(headers))
        watch = Tap() if tap is None else tap if tap.hides_keys else Hiding(tap, mask)
        watch.reported(report)
        if not self._trace.is_on:
            return self._answer(request, Account(report, mask, watch))
        flow = self._trace.flow(lambda line: f"{self._api.name} {mask.text(line)}")
        tracing = Tracing(watch, flow, mask)
        return traced(self._answer(request, Account(report, mask, tracing)), flow, tracing)

    def _answer(self, request: Request, account: Account) -> Batches:
        try:
            exchange = self._exchange(request, account)
        except Exception as exc:  # noqa: BLE001 - whatever it is, consumers are told
            error = error_of(exc)
            error.message = account.mask.text(error.message)
            return _failed(error)
        # Only who asked for reports pays for another generator in the way of every event.
        batches = exchange.batches()
        return batches if self._on_report is None else self._reported(batches, account.report)

    def _exchange(self, request: Request, account: Account) -> Exchange:
        asked = replace(
            request,
            model=self._model or request.model,
            messages=[*request.messages],
            stream=self._streaming,
            include_usage=self._streaming,
        )
        account.report.model = asked.model
        account.report.left_out = _named(self._api.left_out(asked), asked.source)
        self._say_left_out(account.report.left_out)
        return Exchange(
            self._api,
            self._prepare(asked),
            self._transport,
            timeouts=self._timeouts,
            retry=self._retry,
            account=account,
            ids=Ids(asked),
        )

    def _prepare(self, request: Request) -> Prepare:
        """Write the request now, so that later changes to it mean nothing."""
        headers = self._headers_for(request)

        def write(url: str, body: dict[str, Any]) -> HTTPCall:
            return HTTPCall(url, headers, _json.encode_wire(body))

        if self._api.name == "qwen":
            return qwen_chats.preparation(self._api, request, self._base_url, write)
        body = self._api.write_request(request)
        if request.session and self._endpoint.session_field:
            body.setdefault(self._endpoint.session_field, request.session)
        url = endpoints.url_for(
            self._api.name, self._base_url, request.model, stream=self._streaming
        )
        call = write(url, body)

        async def ready(_send: Send) -> HTTPCall:
            return call

        return ready

    def _headers_for(self, request: Request) -> dict[str, str]:
        """Give the headers: the API's, then the model's, then the request's own."""
        endpoint = self._endpoint
        headers = {
            "user-agent": _USER_AGENT,
            "content-type": "application/json",
            "accept": f"{endpoint.stream_type}, application/json",
            **endpoint.headers,
        }
        if self._key:
            headers[endpoint.key_header] = endpoint.key_prefix + self._key.reveal()
        if request.session:
            headers["x-session-id"] = request.session
        for given in (self._headers, request.headers):
            headers |= {name.lower(): value for name, value in given.items()}
        if endpoint.has_idempotency:  # All tries of an answer have the same one.
            headers.setdefault("idempotency-key", uuid4().hex)
        return {name: value for name, value in headers.items() if name not in _OF_TRANSPORT}

    # --- what is told ---

    def _say_left_out(self, names: list[str]) -> None:
        """Log each field that the API has no word for, once; clients choose the names of some."""
        shown = dict.fromkeys(repr(name[:MAX_NAME]) for name in names)
        fresh = [name for name in shown if name not in self._said][: MAX_SAID - len(self._said)]
        if fresh:
            self._said.update(fresh)
            _LOG.warning("%s has no word for %s: left out", self._api.name, ", ".join(fresh))

    async def _reported(self, batches: Batches, report: Report) -> Batches:
        try:
            async with aclosing(batches):
                async for batch in batches:
                    yield batch
        finally:
            if self._on_report is not None:
                with suppress(Exception):  # a handler that fails must not end the answer
                    self._on_report(report)


def _named(left_out: list[str], source: str) -> list[str]:
    """Name what is left out; of Anthropic's system prompt that is no more than its marks."""
    if source != "anthropic":
        return left_out
    return ["system.cache_control" if name == "system" else name for name in left_out]


async def _failed(error: ErrorInfo) -> Batches:
    yield [Failed("error", error, AssistantMessage())]


def _own_transport(
    connect: float | None,
    proxy: str | None,
    ca: str | os.PathLike[str] | ssl.SSLContext | None,
    environ: Mapping[str, str],
) -> Transport:
    try:  # Loaded here, so that models without a network do without the extra.
        from penstock.models.http.aiohttp_transport import AiohttpTransport  # noqa: PLC0415
    except ImportError as exc:
        raise UsageError("HTTPModel needs aiohttp: install penstock[client]") from exc
    return AiohttpTransport(connect=connect, proxy=proxy, ca=ca, environ=environ)


def _user_agent() -> str:
    try:
        return f"penstock/{version('penstock')}"
    except PackageNotFoundError:
        return "penstock"


_USER_AGENT: Final = _user_agent()
