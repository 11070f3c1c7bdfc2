"""The endpoints that models answer: from a client's body to an answer on its way."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, structs

from penstock import apis
from penstock.apis.encoder import ending_of
from penstock.errors import UsageError
from penstock.gateway import http_exchange, response
from penstock.gateway.auth import Client, ConcurrencySlot, presented_keys
from penstock.gateway.errors import HTTPError
from penstock.gateway.http_exchange import HTTPExchange
from penstock.gateway.model_router import ResolvedRoute, headers_for
from penstock.gateway.request_log import RequestLog
from penstock.gateway.response import (
    EndpointFormat,
    Keep,
    MultiChoiceResponseWriter,
    ResponseWriter,
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
TELLS_USAGE: Final = frozenset({"qwen"})
"""The upstreams whose clients are told the tokens unasked: such have always been told them."""

MAX_NAME: Final = 64
"""How many characters of the name of a field are told."""

MAX_NAMES: Final = 24
"""How many fields that were omitted are named in a header: servers limit its length."""

MAX_TOOL_NAME: Final = 256
"""How many characters the name of a tool, or of a property of its schema, may have."""

MAX_MODEL_NAME: Final = 1_024
"""How many characters the name of a model may have: some are paths of files."""

_NOT_IN_HEADERS: Final = re.compile(r"[^ -:<-~]")
_COUNT: Final = re.compile(r"\d+ ")  # what differs from one request to the next
_SEALED: Final = "reasoning.encrypted_content"  # which every response has here

SESSION: Final = "x-session-id"
"""The header in which a client names its conversation."""


def new_id() -> str:
    """Make an id that sorts by the time it was made."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(8)}"


class PreparedResponse(Struct, frozen=True):
    """An answer that can begin: what *sources* give, told by *answering*.

    The request itself is not a part of it: an agent's is a hundred times as large as all that an
    open stream needs, and streams are open for minutes.
    """

    answering: ResponseWriter
    journal: RequestLog
    sources: tuple[Batches, ...]
    stream: bool


class CompletionHandler:
    """One request of one client, as far as it is understood."""

    def __init__(self, gateway: Gateway, caller: HTTPExchange, api: str, guest: Client) -> None:
        self.id = new_id()
        caller.extra.append((b"x-request-id", self.id.encode()))
        self._gateway = gateway
        self._caller = caller
        self._api = api
        self._guest = guest
        self._data = b""
        self._fields: dict[str, Any] = {}
        self._previous = ""
        self._omitted: list[str] = []  # what of the request has no place in a `Request`
        self._secrets = gateway.secrets.with_keys(presented_keys(caller))

    async def plan(self, stay: ConcurrencySlot) -> PreparedResponse:
        """Read the request, and plan its answer; raise `HTTPError` for one that cannot be.

        In *stay* it is counted for as many answers as it wants.
        """
        request = await self._read()
        way = self._way(request)
        self._note(request, way)
        self._caller.late = partial(_headers, way)
        if request.n is not None and request.n > 1:
            stay.widen(request.n)
            return self._choices(request, way, request.n)
        return self._one(request, way)

    def _one(self, request: Request, way: ResolvedRoute) -> PreparedResponse:
        journal = self._journal(request, way, self.id)
        self._caller.late = partial(_headers, way, journal)
        dialect = self._dialect(request, way)
        answering = ResponseWriter(
            self._caller, dialect, journal, self._keep(dialect), patience=self._gateway.patience
        )
        batches = way.batches(request, journal, journal.complain)
        return PreparedResponse(answering, journal, (batches,), request.stream)

    def _choices(self, request: Request, way: ResolvedRoute, number: int) -> PreparedResponse:
        """Ask as many times as the client wants choices."""
        ids = [self.id, *(f"{self.id}.{choice}" for choice in range(1, number))]
        journals = [self._journal(request, way, id_) for id_ in ids]
        self._caller.late = partial(_headers, way, journals[0])
        tokens = http_exchange.tokens_in(self._data)
        dialect = response.dialect_of(self._api, request, self.id, tokens=tokens)
        answering = MultiChoiceResponseWriter(
            self._caller, dialect, journals, _nothing_to_keep, patience=self._gateway.patience
        )
        alone = structs.replace(request, n=None)
        sources = [way.batches(alone, journal, journal.complain) for journal in journals]
        return PreparedResponse(answering, journals[0], tuple(sources), request.stream)

    def _journal(self, request: Request, way: ResolvedRoute, id_: str) -> RequestLog:
        gateway = self._gateway
        started = self._started(request, way, id_)
        read_as = way.options, request.tools
        journal = RequestLog(started, read_as, gateway.store, self._secrets, bodies=gateway.bodies)
        journal.omitted, journal.adapted = self._omitted, way.adapted(request)
        journal.handled = _handled(self._fields)
        return journal

    def _note(self, request: Request, way: ResolvedRoute) -> None:
        """Say once in the log what the gateway omits or changes itself."""
        self._omitted += way.omitted(request)
        for name in self._omitted:
            self._gateway.warn_once(f"{way.name}: {name[:MAX_NAME]!r} omitted")
        for words in way.adapted(request):
            self._gateway.warn_once(f"{way.name}: {_COUNT.sub('', words)}")

    # --- what was asked ---

    async def _read(self) -> Request:
        limits = self._gateway.limits
        self._data = await self._caller.body(limits.body_bytes, limits.body_seconds)
        self._fields = http_exchange.read_object(self._data, limits.depth)
        if self._api == RESPONSES:
            self._previous = str(self._fields.get(PREVIOUS) or "")
            known = self._gateway.conversations
            self._fields = await known.continued(self._fields, self._guest.name)
        try:
            request = self._parse(self._fields)
        except UsageError as exc:
            raise HTTPError(400, str(exc)) from None
        self._check(request)
        request.headers = headers_for(self._caller.headers)
        request.session = self._caller.header(SESSION) or request.session
        return request

    def _parse(self, fields: dict[str, Any]) -> Request:
        return apis.get(self._api).read_request(fields)

    def _check(self, request: Request) -> None:
        limits = self._gateway.limits
        if len(request.model) > MAX_MODEL_NAME:
            limit = f"names have at most {MAX_MODEL_NAME:,} characters here"
            raise HTTPError(400, f"`model` is too long: {limit}.")
        if len(request.tools) > limits.tools:
            raise HTTPError(400, f"a request has at most {limits.tools} tools here")
        for tool in request.tools:
            _check_names(tool)
        if request.n is not None and request.n > limits.choices:
            raise HTTPError(400, f"a request has at most {limits.choices} choices (`n`) here")

    def _way(self, request: Request) -> ResolvedRoute:
        way = self._gateway.directory.way(request.model, self._guest.name)
        if not self._guest.may_use(way.name):
            raise HTTPError(403, f"this key is not for the model {way.name!r}")
        try:
            way.check(request)
        except UsageError as exc:
            raise HTTPError(400, str(exc)) from None
        request.model = way.name
        return way.for_request(request)

    # --- how it is answered ---

    def _dialect(self, request: Request, way: ResolvedRoute) -> EndpointFormat:
        tokens = http_exchange.tokens_in(self._data)
        always = way.api in TELLS_USAGE
        if always and self._api == CHAT and not request.include_usage:
            tokens = 0  # Such clients are told what the server counted, and nothing is made up.
        is_kept = self._fields.get("store") is not False
        fields = {"store": is_kept, PREVIOUS: self._previous or None}
        return response.dialect_of(
            self._api, request, self.id, tokens=tokens, always=always, fields=fields
        )

    def _keep(self, dialect: EndpointFormat) -> Keep:
        """Return what keeps the answer for a request that continues from it."""
        if self._api != RESPONSES or self._fields.get("store") is False:
            return _nothing_to_keep

        known, scope, previous = self._gateway.conversations, self._guest.name, self._previous
        said, secrets = known.said(self._fields), self._secrets

        async def keep(message: AssistantMessage) -> None:
            if not isinstance(ending_of(message), ErrorInfo):  # from those nobody can continue
                await known.keep(said, dialect.whole(message), scope, previous, secrets)

        return keep

    def _started(self, request: Request, way: ResolvedRoute, id_: str) -> RequestStarted:
        return RequestStarted(
            id=id_,
            created=time.time(),
            scope=self._guest.name,
            session=request.session,
            client_api=self._api,
            path=self._caller.path,
            model=request.model,
            upstream=way.upstream,
            upstream_api=way.wire,
            upstream_model=way.asked,
            format=way.options.format,
            mode=way.options.mode,
            stream=request.stream,
            request=self._secrets.body(self._data) if self._gateway.bodies else b"",
        )


def _check_names(tool: Tool) -> None:
    """Raise `HTTPError` for a tool, or a property of it, whose name is too long.

    Parsers look for each name in the model's text: a name of a megabyte would cost seconds.
    """
    if len(tool.name) > MAX_TOOL_NAME:
        raise HTTPError(400, _too_long(f"tool {tool.name[:MAX_NAME] + '…'!r}"))
    waiting: list[Any] = [tool.parameters]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            named = value.get("properties")
            for name in named if isinstance(named, dict) else ():
                if len(name) > MAX_TOOL_NAME:
                    shown = f"property {name[:MAX_NAME] + '…'!r} of tool {tool.name!r}"
                    raise HTTPError(400, _too_long(shown))
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _too_long(what: str) -> str:
    return f"The name of {what} is too long: names have at most {MAX_TOOL_NAME} characters here."


def _headers(way: ResolvedRoute, journal: RequestLog | None = None) -> list[tuple[bytes, bytes]]:
    """Say in a header what is done with the request, and what of it does not reach the model.

    Clients choose the names of some fields, so those are cut and made fit for a header.
    """
    options = way.options
    told = [
        f"upstream={way.upstream}",
        f"api={way.api}",
        f"tools={options.tools}",
        *([] if options.parse else ["parse=false"]),
        f"format={options.format}",
        f"arguments={options.arguments}",
    ]
    names = [] if journal is None else journal.left_out
    told += [f"{_NOT_IN_HEADERS.sub('?', name[:MAX_NAME])} omitted" for name in names[:MAX_NAMES]]
    if len(names) > MAX_NAMES:
        told.append(f"{len(names) - MAX_NAMES} more omitted")
    return [(b"x-penstock", "; ".join(told).encode("ascii", "replace"))]


def _handled(fields: Mapping[str, Any]) -> frozenset[str]:
    """Name the fields of a request that the gateway does itself, whatever the upstream knows."""
    included = fields.get("include")
    is_sealed = isinstance(included, list) and all(each == _SEALED for each in included)
    return frozenset({"store", "stream_options", *(["include"] if is_sealed else [])})


async def _nothing_to_keep(message: AssistantMessage) -> None:
    del message


def completion_endpoint(
    api: str, what: str, kind: type[CompletionHandler] = CompletionHandler
) -> Callable[[Gateway, HTTPExchange], Awaitable[None]]:
    """Return the handler of an endpoint whose clients speak *api*; *what* says what it does."""

    async def handle(gateway: Gateway, caller: HTTPExchange) -> None:
        caller.api = api
        guest = gateway.door.admit(caller)
        gateway.enter()
        try:
            with guest.asking(gateway.door.now()) as stay:
                planned = await kind(gateway, caller, api, guest).plan(stay)
                caller.forget_head()
                gateway.begin(planned.answering, planned.journal)
                try:
                    await planned.answering.run(*planned.sources, stream=planned.stream)
                finally:
                    gateway.end(planned.answering, planned.journal, api)
        finally:
            gateway.leave()

    handle.__doc__ = what
    return handle
