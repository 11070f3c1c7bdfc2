"""The endpoints that models serve: from a request body to a response that can start.

`completion_endpoint`, at the end of this file, is the life of one request: the client is
authenticated, `CompletionHandler.prepare` reads the body and resolves the model, and
`ResponseWriter.run` sends the response. What the request needs is released before the response
starts, because a response may take minutes.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, structs

from penstock import apis
from penstock.apis.encoder import find_ending
from penstock.errors import UsageError
from penstock.gateway.auth import Client, ConcurrencySlot, with_presented_keys
from penstock.gateway.conversation import RequestSummary, summarize_request
from penstock.gateway.errors import HTTPError
from penstock.gateway.http_exchange import HTTPExchange, estimate_tokens, parse_object
from penstock.gateway.model_router import ResolvedRoute, forwarded_headers
from penstock.gateway.request_log import RequestLog
from penstock.gateway.response import (
    EndpointFormat,
    MultiChoiceResponseWriter,
    ResponseWriter,
    SaveResponse,
    make_endpoint_format,
)
from penstock.gateway.stored_responses import PREVIOUS
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.models.base import Batches
from penstock.request import Request
from penstock.store import RequestStarted
from penstock.tools import Tool

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

RESPONSES: Final = "openai-responses"
CHAT: Final = "openai-chat"
ALWAYS_WITH_USAGE: Final = frozenset({"qwen"})
"""Upstreams whose clients get the usage without asking: clients of chat.qwen.ai expect it."""

MAX_SHOWN_NAME: Final = 64
"""How many characters of the name of a field, a tool or a property are shown."""

MAX_OMITTED: Final = 24
"""How many omitted fields are named in the header ``x-penstock``: proxies limit header sizes."""

MAX_REPAIRS: Final = 8
"""How many repairs of a response are named in the header ``x-penstock``."""

MAX_REPAIR: Final = 120
"""How many characters of a repair are in the header ``x-penstock``."""

MAX_TOOL_NAME: Final = 256
"""The longest name of a tool or of a property of its schema, in characters."""

MAX_PROPERTIES: Final = 10_000
"""How many properties, required names and enum values all tools of a request may have: reading
40,000 of them blocked other requests for 0.2 s."""

MAX_MODEL_NAME: Final = 1_024
"""The longest name of a model, in characters: some are paths of files."""

# Printable ASCII is kept, except `;`, which separates the parts of `x-penstock`.
_NOT_IN_HEADERS: Final = re.compile(r"[^ -:<-~]")
_COUNT: Final = re.compile(r"\d+ ")  # the part of a warning that differs between requests
_ENCRYPTED_REASONING: Final = "reasoning.encrypted_content"  # Every response has it.

SESSION_HEADER: Final = "x-session-id"
"""The header in which a client names its conversation."""


# Milliseconds first, so ids sort by time, as UUIDv7 does, and a B-tree index grows at its end.
def new_request_id() -> str:
    """Return an id that sorts by creation time."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(8)}"


class PreparedResponse(Struct, frozen=True):
    """A response that can start: *writer* writes the events of *sources*.

    It does not hold the request: an agent's is a hundred times as large as the state of an open
    stream, and streams are open for minutes.
    """

    writer: ResponseWriter
    log: RequestLog
    sources: tuple[Batches, ...]
    stream: bool


class CompletionHandler:
    """Handles one request of *client* in *api*."""

    def __init__(self, gateway: Gateway, exchange: HTTPExchange, api: str, client: Client) -> None:
        self.id = new_request_id()
        exchange.extra_headers.append((b"x-request-id", self.id.encode()))
        self._gateway = gateway
        self._exchange = exchange
        self._api = api
        self._client = client
        self._data = b""
        self._fields: dict[str, Any] = {}
        self._previous = ""
        self._omitted: list[str] = []  # parts of the request that a `Request` cannot express
        self._redactor = with_presented_keys(gateway.redactor, exchange)
        self._summary = RequestSummary()

    async def prepare(self, slot: ConcurrencySlot) -> PreparedResponse:
        """Read the request and prepare its response; raise `HTTPError` for an invalid one.

        *slot* is widened to the number of choices that the client wants.
        """
        request = await self._read()
        await self._gateway.router.prepare(request.model)
        route = self._resolve(request)
        self._omitted += route.find_omitted(request)
        for name in self._omitted:
            self._gateway.warn_once(f"{route.name}: {name[:MAX_SHOWN_NAME]!r} omitted")
        for change in route.describe_changes(request):
            self._gateway.warn_once(f"{route.name}: {_COUNT.sub('', change)}")
        self._exchange.late_headers = partial(_make_headers, route)
        if request.n is not None and request.n > 1:
            await self._gateway.quotas.widen(slot, request.n)
            return self._prepare_choices(request, route, request.n)
        log = self._make_log(request, route, self.id)
        self._exchange.late_headers = partial(_make_headers, route, log)
        endpoint = self._make_endpoint_format(request, route)
        seconds = self._gateway.keepalive_seconds
        writer = ResponseWriter(
            self._exchange, endpoint, log, self._make_save(endpoint), keepalive_seconds=seconds
        )
        batches = route.batches(request, log, log.add_complaint, log.add_repair)
        return PreparedResponse(writer, log, (batches,), request.stream)

    def _prepare_choices(
        self, request: Request, route: ResolvedRoute, number: int
    ) -> PreparedResponse:
        """Prepare as many upstream requests as the client wants choices."""
        # The ids of further choices sort right after the first, so they are neighbours in the log.
        ids = [self.id, *(f"{self.id}.{choice}" for choice in range(1, number))]
        logs = [self._make_log(request, route, id_) for id_ in ids]
        self._exchange.late_headers = partial(_make_headers, route, logs[0])
        tokens = estimate_tokens(self._data)
        endpoint = make_endpoint_format(self._api, request, self.id, tokens=tokens)
        seconds = self._gateway.keepalive_seconds
        writer = MultiChoiceResponseWriter(
            self._exchange, endpoint, logs, _save_nothing, keepalive_seconds=seconds
        )
        single = structs.replace(request, n=None)
        sources = [route.batches(single, log, log.add_complaint, log.add_repair) for log in logs]
        return PreparedResponse(writer, logs[0], tuple(sources), request.stream)

    # --- the request ---

    async def _read(self) -> Request:
        limits = self._gateway.limits
        self._data = await self._exchange.read_body(limits.body_bytes, limits.body_seconds)
        self._fields = parse_object(self._data, limits.depth)
        if self._api == RESPONSES:
            # The client repeats nothing of an earlier response: it is read from the store.
            self._previous = str(self._fields.get(PREVIOUS) or "")
            stored = self._gateway.stored_responses
            self._fields = await stored.expand(self._fields, self._client.name)
        try:
            request = self._parse(self._fields)
        except UsageError as exc:
            raise HTTPError(400, str(exc)) from None
        if len(request.model) > MAX_MODEL_NAME:
            raise HTTPError(400, f"`model` is longer than {MAX_MODEL_NAME:,} characters")
        if len(request.tools) > limits.tools:
            message = f"the request has {len(request.tools)} tools: at most {limits.tools}"
            raise HTTPError(400, f"{message} are accepted")
        number = sum(map(_check_names, request.tools))
        if number > MAX_PROPERTIES:
            what = f"the tools have {number:,} properties, required names and enum values"
            raise HTTPError(400, f"{what}: at most {MAX_PROPERTIES:,} are accepted")
        choice = request.tool_choice
        if choice is not None and len(choice.name) > MAX_TOOL_NAME:
            raise _name_too_long("the tool in `tool_choice`")
        if request.n is not None and request.n > limits.choices:
            message = f"`n` is {request.n}: at most {limits.choices} choices are accepted"
            raise HTTPError(400, message)
        request.headers = forwarded_headers(self._exchange.headers)
        request.session = self._exchange.header(SESSION_HEADER) or request.session
        return request

    def _parse(self, fields: dict[str, Any]) -> Request:
        return apis.get(self._api).read_request(fields)

    def _resolve(self, request: Request) -> ResolvedRoute:
        route = self._gateway.router.resolve(request.model, self._client.name)
        # Checked with the name of the route: a request without a model means the default model.
        if not self._client.may_use(route.name):
            raise HTTPError(403, f"this key does not allow the model {route.name!r}")
        try:
            route.check(request)
        except UsageError as exc:
            raise HTTPError(400, str(exc)) from None
        request.model = route.name
        return route.for_request(request)

    # --- the response ---

    def _make_endpoint_format(self, request: Request, route: ResolvedRoute) -> EndpointFormat:
        tokens = estimate_tokens(self._data)
        always = route.api in ALWAYS_WITH_USAGE
        if always and self._api == CHAT and not request.include_usage:
            tokens = 0  # These clients get what the server counted, and no estimate.
        is_stored = self._fields.get("store") is not False
        fields = {"store": is_stored, PREVIOUS: self._previous or None}
        return make_endpoint_format(
            self._api, request, self.id, tokens=tokens, always_usage=always, fields=fields
        )

    def _make_save(self, endpoint: EndpointFormat) -> SaveResponse:
        """Return the function that stores the response for a request that continues from it."""
        if self._api != RESPONSES or self._fields.get("store") is False:
            return _save_nothing
        stored, scope, previous = self._gateway.stored_responses, self._client.name, self._previous
        items, redactor = stored.pack_input(self._fields), self._redactor

        async def save(message: AssistantMessage) -> None:
            if not isinstance(find_ending(message), ErrorInfo):  # Those cannot be continued.
                await stored.keep(items, endpoint.write_whole(message), scope, previous, redactor)

        return save

    def _make_log(self, request: Request, route: ResolvedRoute, id_: str) -> RequestLog:
        gateway = self._gateway
        if gateway.store is not None and not self._summary.messages:
            self._summary = summarize_request(request)
        summary = self._summary
        started = RequestStarted(
            id=id_,
            created=time.time(),
            scope=self._client.name,
            session=request.session,
            client_api=self._api,
            path=self._exchange.path,
            model=request.model,
            upstream=route.upstream,
            upstream_api=route.wire,
            upstream_model=route.upstream_model,
            format=route.options.format,
            mode=route.options.mode,
            stream=request.stream,
            messages_hash=summary.messages_hash,
            prefix_hash=summary.prefix_hash,
            messages=summary.messages,
            prompt=self._redactor.text(summary.prompt),
            request=self._redactor.body(self._data) if gateway.bodies else b"",
        )
        log = RequestLog(
            started, route.options, request.tools, gateway.store, self._redactor,
            bodies=gateway.bodies,
        )  # fmt: skip
        log.asked, log.route = summary.asked, route
        log.trace_headers = request.headers
        log.falls_back = route.can_fall_back(request)
        log.omitted_here, log.adapted = self._omitted, route.describe_changes(request)
        included = self._fields.get("include")
        is_handled = isinstance(included, list) and all(
            each == _ENCRYPTED_REASONING for each in included
        )
        log.handled = frozenset({"store", "stream_options", *(["include"] if is_handled else [])})
        return log


def _check_names(tool: Tool) -> int:
    """Return how many properties, required names and enum values *tool* has.

    Raise `HTTPError` for a tool, or a property of it, whose name is too long: parsers look for each
    name in the model's text, and a name of 1.5 MB took 8 s.
    """
    number = 0
    if len(tool.name) > MAX_TOOL_NAME:
        raise _name_too_long(f"tool {tool.name[:MAX_SHOWN_NAME] + '…'!r}")
    waiting: list[Any] = [tool.parameters]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            properties = value.get("properties")
            for listed in (properties, *map(value.get, ("required", "enum", "type"))):
                number += len(listed) if isinstance(listed, dict | list) else 0
            for name in properties if isinstance(properties, dict) else ():
                if len(name) > MAX_TOOL_NAME:
                    shown = f"{name[:MAX_SHOWN_NAME] + '…'!r}"
                    raise _name_too_long(f"property {shown} of tool {tool.name!r}")
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return number


def _name_too_long(what: str) -> HTTPError:
    return HTTPError(400, f"the name of {what} is longer than {MAX_TOOL_NAME} characters")


def _make_headers(route: ResolvedRoute, log: RequestLog | None = None) -> list[tuple[bytes, bytes]]:
    """Return ``x-penstock``: how the request is handled, what is omitted and what was repaired.

    The header of a stream is sent before its calls, so it has only earlier repairs: the fallback.

    Clients choose the names of some fields, so they are truncated and made safe for a header.
    """
    options = route.options
    parts = [
        f"upstream={route.upstream}",
        f"api={route.api}",
        f"tools={options.tools}",
        *([] if options.parse else ["parse=false"]),
        f"format={options.format}",
        f"arguments={options.arguments}",
    ]
    if log is not None:
        parts += [_NOT_IN_HEADERS.sub("?", change) for change in log.adapted]
        repairs = [_NOT_IN_HEADERS.sub("?", repair[:MAX_REPAIR]) for repair in log.repairs]
        parts += [f"repaired: {repair}" for repair in repairs[:MAX_REPAIRS]]
        if len(repairs) > MAX_REPAIRS:
            parts.append(f"{len(repairs) - MAX_REPAIRS} more repairs")
    names = [] if log is None else log.omitted
    shown = (_NOT_IN_HEADERS.sub("?", name[:MAX_SHOWN_NAME]) for name in names[:MAX_OMITTED])
    parts += [f"{name} omitted" for name in shown]
    if len(names) > MAX_OMITTED:
        parts.append(f"{len(names) - MAX_OMITTED} more omitted")
    return [(b"x-penstock", "; ".join(parts).encode("ascii", "replace"))]


async def _save_nothing(message: AssistantMessage) -> None:
    del message


def completion_endpoint(
    api: str, summary: str, kind: type[CompletionHandler] = CompletionHandler
) -> Callable[[Gateway, HTTPExchange], Awaitable[None]]:
    """Return the handler of an endpoint of *api*; *summary* becomes its docstring."""

    async def handle(gateway: Gateway, exchange: HTTPExchange) -> None:
        exchange.api = api
        # First of all, so that a client without a key cannot make the gateway read its body.
        client = gateway.auth.authenticate(exchange)
        gateway.enter()
        try:
            slot = await gateway.quotas.take(client, gateway.auth.now())
            try:
                prepared = await kind(gateway, exchange, api, client).prepare(slot)
                exchange.drop_headers()
                gateway.begin(prepared.writer, prepared.log)
                try:
                    await prepared.writer.run(*prepared.sources, stream=prepared.stream)
                finally:
                    gateway.end(prepared.writer, prepared.log, api)
            finally:
                gateway.quotas.release(slot)
        finally:
            gateway.leave()

    handle.__doc__ = summary
    return handle
