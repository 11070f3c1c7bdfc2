"""The route table, and lookup in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from penstock.errors import suggest
from penstock.gateway import gemini_handlers, log_handlers, meta_handlers
from penstock.gateway.completion_handler import completion_endpoint
from penstock.gateway.errors import HTTPError
from penstock.gateway.http_exchange import HTTPExchange
from penstock.gateway.inspector import handlers, static
from penstock.gateway.legacy_completions import LegacyCompletionHandler

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

Handler = Callable[["Gateway", HTTPExchange], Awaitable[None]]

_MODELS: Final = {
    "/chat/completions": completion_endpoint("openai-chat", "Create a chat completion (OpenAI)."),
    "/responses": completion_endpoint("openai-responses", "Create a response (OpenAI Responses)."),
    "/messages": completion_endpoint("anthropic", "Create a message (Anthropic Messages)."),
    "/completions": completion_endpoint(
        "openai-chat", "Complete a prompt (OpenAI, legacy).", LegacyCompletionHandler
    ),
}
"""The endpoints that models serve, each with and without ``/v1``."""

ROUTES: Final[dict[str, dict[str, Handler]]] = {
    **{path: {"POST": handler} for path, handler in _MODELS.items()},
    **{f"/v1{path}": {"POST": handler} for path, handler in _MODELS.items()},
    "/v1/messages/count_tokens": {"POST": meta_handlers.count_tokens},
    "/v1/responses/input_tokens": {"POST": meta_handlers.count_input_tokens},
    "/responses/input_tokens": {"POST": meta_handlers.count_input_tokens},
    "/v1/models": {"GET": meta_handlers.models},
    "/models": {"GET": meta_handlers.models},
    "/v1beta/models": {"GET": gemini_handlers.models},
    "/v1/requests": {"GET": log_handlers.requests},
    "/v1/sessions": {"GET": log_handlers.sessions},
    "/health/live": {"GET": meta_handlers.live, "HEAD": meta_handlers.live},
    "/health/ready": {"GET": meta_handlers.ready, "HEAD": meta_handlers.ready},
    "/metrics": {"GET": meta_handlers.metrics},
    "/openapi.json": {"GET": meta_handlers.openapi},
    "/docs": {"GET": meta_handlers.docs},
    "/inspector/api/about": {"GET": handlers.about},
    "/inspector/api/overview": {"GET": handlers.overview},
    "/inspector/api/live": {"GET": handlers.live},
    "/inspector/api/conversations": {"GET": handlers.conversations},
    "/inspector/api/parse": {"POST": handlers.parse},
    "/inspector/api/formats": {"POST": handlers.formats},
    "/": {"GET": meta_handlers.welcome, "HEAD": meta_handlers.welcome},
}
"""The handlers of each path, by method."""

PREFIX_ROUTES: Final[dict[str, dict[str, Handler]]] = {
    "/v1/models/": {"GET": meta_handlers.model, "POST": gemini_handlers.act},
    gemini_handlers.PREFIX: {"GET": gemini_handlers.model, "POST": gemini_handlers.act},
    "/v1/requests/": {"GET": log_handlers.request},
    "/v1/sessions/": {"GET": log_handlers.session, "DELETE": log_handlers.forget_session},
    "/v1/responses/": {"GET": log_handlers.response, "DELETE": log_handlers.delete_response},
    handlers.CONVERSATIONS: {"GET": handlers.conversation},
    handlers.STREAMS: {"GET": handlers.stream, "POST": handlers.replay},
    static.PREFIX: {"GET": static.file, "HEAD": static.file},
}
"""The handlers of paths that begin with a prefix and continue with an id."""


_NOT_SERVED: Final = (
    *("/v1/audio/", "/v1/embeddings", "/v1/images/", "/v1/moderations", "/v1/rerank"),
    *("/api/embed", "/embeddings", "/rerank"),
)
"""Paths of servers for other purposes than chat."""


_GEMINI_PATHS: Final = "/v1beta/"
"""How the paths begin whose errors are those of Gemini."""


def find_handler(exchange: HTTPExchange) -> Handler:
    """Return the handler of a request; raise `HTTPError` for an unknown path or method."""
    path = exchange.path.rstrip("/") or "/"
    if path.startswith(_GEMINI_PATHS):
        exchange.api = gemini_handlers.GEMINI
    methods = ROUTES.get(path)
    if methods is None:
        prefixes = PREFIX_ROUTES.items()
        methods = next((found for prefix, found in prefixes if path.startswith(prefix)), None)
    if methods is None:
        raise HTTPError(404, _describe_unknown(exchange.path))
    handler = methods.get(exchange.method)
    if handler is None:
        allowed = ", ".join(methods)
        exchange.extra_headers.append((b"allow", allowed.encode()))
        message = f"{exchange.method} is not allowed for {exchange.path}; use {allowed}"
        raise HTTPError(405, message)
    return handler


def _describe_unknown(path: str) -> str:
    """Return the message for an unknown path: what it may mean, or else the main endpoints."""
    doubled = path.replace("/v1/v1/", "/v1/")
    if doubled != path and doubled in ROUTES:
        return f"unknown path {path}: the base URL has one /v1 too many; use {doubled}"
    if path.startswith(_NOT_SERVED):
        return f"unknown path {path}: the gateway serves chat only; use your model server for it"
    known = suggest(path, ROUTES)
    main = "; use /v1/chat/completions, /v1/responses or /v1/messages (/docs lists all paths)"
    return f"unknown path {path}{known or main}"
