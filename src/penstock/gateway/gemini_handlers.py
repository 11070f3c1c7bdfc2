"""The Gemini API for clients: ``/v1beta/models/{model}:generateContent`` and its relatives.

The model and the action are in the path, so one handler serves all actions. A stream is sent as
server-sent events with ``?alt=sse``, and otherwise as a JSON array, one chunk after the other.

Google's client uses ``/v1`` instead of ``/v1beta`` from version 3 on. There the paths of models are
OpenAI's too: a client that sends a header of Google's gets Gemini's list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock import apis
from penstock.apis.encoder import StreamEncoder
from penstock.apis.gemini.encode import ArrayEncoder
from penstock.errors import UsageError
from penstock.gateway.completion_handler import CompletionHandler, completion_endpoint
from penstock.gateway.errors import HTTPError
from penstock.gateway.http_exchange import JSON, HTTPExchange, estimate_tokens, parse_object
from penstock.gateway.model_router import ResolvedRoute
from penstock.gateway.response import ApiEndpointFormat, EndpointFormat
from penstock.request import Request

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

GEMINI: Final = "gemini"
PREFIX: Final = "/v1beta/models/"
"""The path of a model, which is followed by its name and perhaps an action."""

STABLE_PREFIX: Final = "/v1/models/"
"""The same path in the stable version of the API."""

STREAM: Final = "streamGenerateContent"
GENERATE: Final = "generateContent"
COUNT: Final = "countTokens"
_ACTIONS: Final = (GENERATE, STREAM, COUNT)
_SSE: Final = "sse"


def split_path(path: str) -> tuple[str, str]:
    """Return the model and the action of *path*; names of models may have colons too."""
    name, _, action = _remove_prefix(path).rpartition(":")
    return name, action


def _remove_prefix(path: str) -> str:
    return path.removeprefix(PREFIX).removeprefix(STABLE_PREFIX)


def is_gemini_client(exchange: HTTPExchange) -> bool:
    """Return whether the request has a header of Google's clients."""
    return "x-goog-api-key" in exchange.headers or "x-goog-api-client" in exchange.headers


class GeminiHandler(CompletionHandler):
    """Handles one request of `generateContent` or `streamGenerateContent`."""

    @property
    def _is_array(self) -> bool:
        """Whether the stream is a JSON array."""
        return self._exchange.query.get("alt", "").lower() != _SSE

    def _parse(self, fields: dict[str, Any]) -> Request:
        model, action = split_path(self._exchange.path)
        own = {key: value for key, value in fields.items() if key not in ("model", "stream")}
        stream = action == STREAM
        request = apis.get(GEMINI).read_request({**own, "model": model, "stream": stream})
        if request.n is not None and request.n > 1:
            raise UsageError("this endpoint returns one candidate: `candidateCount` must be 1")
        request.n = None
        if stream and self._is_array:
            self._exchange.stream_type = JSON[1]
        return request

    def _make_endpoint_format(self, request: Request, route: ResolvedRoute) -> EndpointFormat:
        found = super()._make_endpoint_format(request, route)
        if request.stream and self._is_array and isinstance(found, ApiEndpointFormat):
            return GeminiArrayFormat(
                found.api, found.id, found.model, found.created, found.options, found.tokens
            )
        return found


class GeminiArrayFormat(ApiEndpointFormat, frozen=True):
    """Writes a stream as a JSON array."""

    def encoder(self) -> StreamEncoder:
        """Return the encoder of the stream."""
        return ArrayEncoder(model=self.model, id=self.id, created=self.created, **self.options)


_complete: Final = completion_endpoint(GEMINI, "Generate content.", GeminiHandler)


async def act(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Generate content (Gemini): ``{id}`` is the model with its action."""
    exchange.api = GEMINI
    name, action = split_path(exchange.path)
    if action not in _ACTIONS or not name:
        gateway.auth.authenticate(exchange)
        known = ", ".join(f"{PREFIX}{{model}}:{one}" for one in _ACTIONS)
        raise HTTPError(404, f"unknown path {exchange.path}; use {known}")
    if action == COUNT:
        await _count(gateway, exchange)
    else:
        await _complete(gateway, exchange)


async def _count(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Estimate the tokens of a request."""
    gateway.auth.authenticate(exchange)
    limits = gateway.limits
    data = await exchange.read_body(limits.body_bytes, limits.body_seconds)
    fields = parse_object(data, limits.depth)
    if not fields.keys() & {"contents", "generateContentRequest", "generate_content_request"}:
        raise HTTPError(400, "`contents` or `generateContentRequest` is missing")
    await exchange.respond(200, {"totalTokens": estimate_tokens(data)})


async def models(gateway: Gateway, exchange: HTTPExchange) -> None:
    """List the models (Gemini)."""
    exchange.api = GEMINI
    gateway.auth.authenticate(exchange)
    listed = await gateway.router.list_models()
    await exchange.respond(200, {"models": [_describe(one["id"]) for one in listed]})


async def model(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Describe one model (Gemini)."""
    exchange.api = GEMINI
    gateway.auth.authenticate(exchange)
    name = _remove_prefix(exchange.path)
    if name not in {one["id"] for one in await gateway.router.list_models()}:
        gateway.router.resolve(name)  # It raises for a model that no upstream serves.
    await exchange.respond(200, _describe(name))


def _describe(name: str) -> dict[str, Any]:
    return {
        "name": f"models/{name}",
        "displayName": name,
        "supportedGenerationMethods": list(_ACTIONS),
    }
