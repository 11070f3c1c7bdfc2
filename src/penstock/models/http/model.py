"""`HTTPModel`: a model over HTTP, through any of the supported APIs."""

from __future__ import annotations

import os
import ssl
from codecs import getincrementaldecoder
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from copy import copy
from importlib.metadata import PackageNotFoundError, version
from inspect import isawaitable
from logging import getLogger
from typing import Any, Final

from msgspec.structs import replace

from penstock import _json, apis
from penstock.apis import Api
from penstock.apis.errors import error_from_exception
from penstock.debug import DebugSettings, Summary
from penstock.errors import UsageError, describe_exception
from penstock.events import Failed
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.models.base import Batches, Model, OutputMode, Tap, ids_for, iter_events, new_id
from penstock.models.http import endpoints
from penstock.models.http.attempt import (
    CallContext,
    HTTPStream,
    Prepare,
    Report,
    RetryingRequest,
    Send,
)
from penstock.models.http.list_models import LIST_SECONDS, list_models
from penstock.models.http.policy import NO_RETRY, RetryPolicy, Timeouts
from penstock.models.http.qwen_chats import prepare_chat
from penstock.models.http.transport import TRANSPORT_HEADERS, HTTPCall, Transport
from penstock.models.tracing import ResponseTrace, Tracer, Write
from penstock.redaction import (
    Redactor,
    Secret,
    StreamRedactor,
    find_header_secrets,
    find_secret,
    find_url_secrets,
)
from penstock.request import Request, RequestLike, make_request
from penstock.streams import INTERVAL

KeySource = Callable[[], str | Awaitable[str]]
"""Returns the API key, or awaits it."""

_LOG: Final = getLogger("penstock.models")
MAX_LOGGED_FIELDS: Final = 256
"""How many omitted fields are logged: no API has more."""

MAX_FIELD_NAME: Final = 64
"""How many characters of the name of an omitted field are logged."""

_Utf8Decoder = getincrementaldecoder("utf-8")


class HTTPModel(Model):
    """The model *model* at *base_url*, whose server uses *api*, a name that `apis.get` accepts.

    Without *base_url* the environment or the provider's own address is used. Without *api_key* the
    key is read from the environment (`OPENAI_API_KEY`, `ANTHROPIC_API_KEY`, `GEMINI_API_KEY` or
    `GOOGLE_API_KEY`, `OLLAMA_API_KEY`, `QWEN_API_KEY`); an empty string sends none. A function,
    also an async one, is called for each request and returns the key, as for tokens that expire.
    *headers* are sent with every request. With *streaming* off, whole responses are requested; they
    are still returned as a stream. *interval* is the minimum time between two deltas of a stream.
    *on_report* is called with the report of each stream that has ended.

    *debug* is a mode of `penstock.debug`, by default that of the environment: bytes and events are
    written to *write* or else to stderr, without keys, and the summary is passed to *on_summary* if
    that is given.

    *proxy* and *ca* apply to connections that the model makes itself. With a *transport*, which
    models may share, they and the connect timeout are the transport's.

    Raises `UsageError` for an unknown API and for an invalid URL, key or option.
    """

    def __init__(  # noqa: PLR0913 - each is an option of every model
        self,
        api: str,
        base_url: str = "",
        model: str = "",
        api_key: str | KeySource | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
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
            raise UsageError(f"interval must be 0 or more seconds, got {interval}")
        environ = os.environ if environ is None else environ
        self._api = apis.get(api)
        self._endpoint = endpoints.ENDPOINTS[self._api.name]
        self._base_url = endpoints.base_url_for(self._api.name, base_url, environ)
        self._model = model
        self._key_source = api_key if callable(api_key) else None
        given = "" if callable(api_key) else api_key
        self._key = find_secret(given, self._endpoint.key_names, environ)
        self._headers = dict(headers or {})
        self._timeouts = timeouts or Timeouts()
        self._retry = retry or RetryPolicy()
        self._streaming = streaming
        self._redactor = Redactor([self._key.reveal(), *find_url_secrets(self._base_url)])
        self._interval = interval
        self._on_report = on_report
        self._tracer = Tracer(debug, write, on_summary, environ)
        self._logged: set[str] = set()  # omitted fields that were logged
        self._owns_transport = transport is None
        if transport is None:
            proxy_url = endpoints.proxy_for(self._base_url, proxy, environ) or ""
            self._redactor = self._redactor.with_secrets(find_url_secrets(proxy_url))
            transport = _make_transport(self._timeouts.connect, proxy, ca, environ)
        self._transport = transport

    @property
    def api(self) -> Api:
        """The API of the server."""
        return self._api

    @property
    def api_name(self) -> str:
        """The name of the server's API."""
        return self._api.name

    @property
    def name(self) -> str:
        """The name of the model, as its server knows it."""
        return self._model

    @property
    def interval(self) -> float:
        """The minimum number of seconds between two deltas of a stream."""
        return self._interval

    def __repr__(self) -> str:
        where = self._base_url.partition("?")[0]
        return f"HTTPModel({self._api.name!r}, {where!r}, {self._model!r})"

    def stream(self, request: RequestLike) -> HTTPStream:
        """Start the response to *request*; every failure is reported in the stream.

        Raises `UsageError` if *request* is not a request. The request is copied here and may be
        changed afterwards; it is sent at the first read of the stream. `report` of the stream has
        its statistics and the fields that the API cannot express.
        """
        report = Report(api=self._api.name, model=self._model)
        batches = self._start(make_request(request), report, None)
        return HTTPStream(iter_events(batches), report, interval=self._interval)

    def batches(self, request: RequestLike, tap: Tap | None = None) -> Batches:
        """Yield the events of the response as they arrive.

        Unlike `stream`, this neither paces nor uses a task; *tap* observes the bytes.
        """
        report = Report(api=self._api.name, model=self._model)
        return self._start(make_request(request), report, tap)

    async def complete(self, request: RequestLike) -> AssistantMessage:
        """Return the whole response; a failed one has `error` set."""
        async with self.stream(request) as stream:
            return await stream.result()

    def without_retries(self) -> HTTPModel:
        """Return a copy that tries once over the same connections; close the original only."""
        twin = copy(self)
        twin._retry, twin._owns_transport = NO_RETRY, False  # noqa: SLF001 - our own copy
        return twin

    def output_modes(self, *, has_tools: bool) -> tuple[OutputMode, ...]:
        """Return how the model can be made to write JSON, best first."""
        if self._api.name == "qwen":
            return ("prompt",)
        # A response format keeps these from calling tools.
        if has_tools and self._api.name in ("gemini", "ollama"):
            return ("tool", "prompt")
        return ("native", "tool", "prompt")

    async def names(self, seconds: float = LIST_SECONDS) -> list[str]:
        """Return the models that the server lists, within *seconds*.

        Unlike a response, this raises: `ProviderError` if the server refuses or responds with
        anything but a list, a `TransportError`, an `OSError` or a `TimeoutError` if it does not
        respond.
        """
        keyed = await self._with_key()
        return await list_models(
            self._api.name,
            self._base_url,
            keyed._key.reveal(),  # noqa: SLF001 - our own copy
            transport=self._transport,
            headers=self._headers,
            seconds=seconds,
        )

    async def close(self) -> None:
        """Close the connections, unless a transport was passed in."""
        if self._owns_transport:
            await self._transport.close()

    async def _with_key(self) -> HTTPModel:
        """Return a copy with the key that `api_key` returns now; without a function, this model.

        Raises `UsageError` if the function fails or returns anything but text.
        """
        if self._key_source is None:
            return self
        try:
            returned = self._key_source()
            key: object = await returned if isawaitable(returned) else returned
        except Exception as exc:
            reason = describe_exception(exc)
            raise UsageError(f"the function that was passed as `api_key` failed: {reason}") from exc
        if not isinstance(key, str):
            kind = type(key).__name__
            raise UsageError(f"the function that was passed as `api_key` returned {kind}, not text")
        twin = copy(self)
        twin._key_source, twin._key = None, Secret(key)  # noqa: SLF001 - our own copy
        twin._redactor = self._redactor.with_secrets([twin._key.reveal()])  # noqa: SLF001
        return twin

    # --- one response ---

    async def _start_with_key(self, request: Request, report: Report, tap: Tap | None) -> Batches:
        try:
            keyed = await self._with_key()
        except UsageError as exc:
            yield [Failed("error", error_from_exception(exc), AssistantMessage())]
            return
        async with aclosing(keyed._start(request, report, tap)) as batches:  # noqa: SLF001
            async for batch in batches:
                yield batch

    def _start(self, request: Request, report: Report, tap: Tap | None) -> Batches:
        if self._key_source is not None:
            copied = replace(request, messages=[*request.messages])
            return self._start_with_key(copied, report, tap)
        headers = {**self._headers, **(request.headers or {})}
        redactor = self._redactor.with_secrets(find_header_secrets(headers))
        if tap is None:
            tap = Tap()
        elif not tap.is_redacting:
            tap = _RedactingTap(tap, redactor)
        tap.reported(report)
        if not self._tracer.is_on:
            return self._respond(request, CallContext(report, redactor, tap))
        trace = self._tracer.start(lambda line: f"{self._api.name} {redactor.text(line)}")
        tracing = _TracingTap(tap, trace, redactor)
        batches = self._respond(request, CallContext(report, redactor, tracing))
        return _trace_batches(batches, trace, tracing)

    def _respond(self, request: Request, context: CallContext) -> Batches:
        try:
            batches = self._make_call(request, context).batches()
        except Exception as exc:  # noqa: BLE001 - every failure becomes an event
            error = error_from_exception(exc)
            error.message = context.redactor.text(error.message)
            return _fail(error)
        # Another generator per event costs time, so there is one only if reports are wanted.
        return batches if self._on_report is None else self._report_end(batches, context.report)

    def _make_call(self, request: Request, context: CallContext) -> RetryingRequest:
        request = replace(
            request,
            model=self._model or request.model,
            messages=[*request.messages],
            stream=self._streaming,
            include_usage=self._streaming,
        )
        omitted = self._api.omitted_fields(request)
        if request.source == "anthropic":  # Of its system prompt only the cache marks are lost.
            omitted = ["system.cache_control" if name == "system" else name for name in omitted]
        context.report.model = request.model
        context.report.omitted_fields = omitted
        self._log_omitted(omitted)
        return RetryingRequest(
            self._api,
            self._prepare(request),
            self._transport,
            timeouts=self._timeouts,
            retry=self._retry,
            context=context,
            ids=ids_for(request),
        )

    def _prepare(self, request: Request) -> Prepare:
        """Return the function that makes the call; the request is serialized here."""
        headers = self._make_headers(request)

        def write(url: str, body: dict[str, Any]) -> HTTPCall:
            return HTTPCall(url, headers, _json.encode_wire(body))

        if self._api.name == "qwen":  # Its body needs the id of a chat, made by another call.
            return prepare_chat(self._api, request, self._base_url, write)
        body = self._api.write_request(request)
        if request.session and self._endpoint.session_field:
            body.setdefault(self._endpoint.session_field, request.session)
        url = endpoints.url_for(
            self._api.name, self._base_url, request.model, stream=self._streaming
        )
        call = write(url, body)

        async def prepare(_send: Send) -> HTTPCall:
            return call

        return prepare

    def _make_headers(self, request: Request) -> dict[str, str]:
        """Return the headers of the API, overridden by the model's and then the request's."""
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
        if endpoint.has_idempotency:  # All attempts of a request have the same key.
            headers.setdefault("idempotency-key", new_id())
        return {name: value for name, value in headers.items() if name not in TRANSPORT_HEADERS}

    def _log_omitted(self, names: list[str]) -> None:
        """Log each omitted field once, within limits: clients choose some of the names."""
        shown = dict.fromkeys(repr(name[:MAX_FIELD_NAME]) for name in names)
        new = [name for name in shown if name not in self._logged]
        new = new[: MAX_LOGGED_FIELDS - len(self._logged)]
        if new:
            self._logged.update(new)
            _LOG.warning("%s cannot express %s: omitted", self._api.name, ", ".join(new))

    async def _report_end(self, batches: Batches, report: Report) -> Batches:
        try:
            async with aclosing(batches):
                async for batch in batches:
                    yield batch
        finally:
            if self._on_report is not None:
                with suppress(Exception):  # A failing handler must not end the response.
                    self._on_report(report)


async def _fail(error: ErrorInfo) -> Batches:
    yield [Failed("error", error, AssistantMessage())]


def _make_transport(
    connect: float | None,
    proxy: str | None,
    ca: str | os.PathLike[str] | ssl.SSLContext | None,
    environ: Mapping[str, str],
) -> Transport:
    try:  # Imported here, so that other models do not need the extra.
        from penstock.models.http.aiohttp_transport import AiohttpTransport  # noqa: PLC0415
    except ImportError as exc:
        raise UsageError("HTTPModel needs aiohttp: pip install 'penstock[client]'") from exc
    return AiohttpTransport(connect=connect, proxy=proxy, ca=ca, environ=environ)


def _make_user_agent() -> str:
    try:
        return f"penstock/{version('penstock')}"
    except PackageNotFoundError:
        return "penstock"


_USER_AGENT: Final = _make_user_agent()


# --- taps ---


class _RedactingTap(Tap):
    """Passes everything to *tap* with secrets removed; exceptions of *tap* are suppressed."""

    def __init__(self, tap: Tap, redactor: Redactor) -> None:
        self._tap = tap
        self._redactor = redactor

    def sent(self, body: bytes) -> None:
        """Pass *body* on: keys are in the headers."""
        with suppress(Exception):
            self._tap.sent(body)

    def received(self, data: bytes) -> None:
        """Pass *data* on with secrets removed."""
        try:  # noqa: SIM105 - `suppress` is slower, and this runs for every chunk
            self._tap.received(self._redactor.body(data))
        except Exception:  # noqa: BLE001, S110
            pass

    def reported(self, report: Any) -> None:
        """Pass *report* on."""
        with suppress(Exception):
            self._tap.reported(report)

    def may_retry(self, error: ErrorInfo) -> bool:
        """Return the decision of the tap; it may, if that fails."""
        try:
            return self._tap.may_retry(error)
        except Exception:  # noqa: BLE001 - an observer must not end the response
            return True


class _TracingTap(Tap):
    """Writes the received bytes to *trace*, and passes everything to *tap*."""

    def __init__(self, tap: Tap, trace: ResponseTrace, redactor: Redactor) -> None:
        self._tap = tap
        self._trace = trace
        self._redactor = redactor
        self._reset()

    def sent(self, body: bytes) -> None:
        """Reset the text decoder: a new response starts."""
        self.finish()
        self._reset()
        self._tap.sent(body)

    def received(self, data: bytes) -> None:
        """Trace *data*, except for a possible beginning of a key at its end."""
        self._trace.add_input(self._stream_redactor.feed(self._decoder.decode(data)))
        self._tap.received(data)

    def reported(self, report: Any) -> None:
        """Pass *report* on."""
        self._tap.reported(report)

    def may_retry(self, error: ErrorInfo) -> bool:
        """Return the decision of the tap."""
        return self._tap.may_retry(error)

    def finish(self) -> None:
        """Trace the text that was held back."""
        held = self._stream_redactor.feed(self._decoder.decode(b"", final=True))
        self._trace.add_input(held + self._stream_redactor.finish())

    def _reset(self) -> None:
        self._decoder = _Utf8Decoder("replace")
        self._stream_redactor = StreamRedactor(self._redactor)


async def _trace_batches(batches: Batches, trace: ResponseTrace, tap: _TracingTap) -> Batches:
    """Yield *batches*, and write their events and the summary to *trace*."""
    try:
        async with aclosing(batches):
            async for batch in batches:
                trace.add_output(batch)
                yield batch
    finally:
        tap.finish()
        trace.finish()
