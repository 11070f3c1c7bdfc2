"""Where each path leads: a table, and what is in it once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from penstock.gateway import completion_handler, log_handlers, meta_handlers, openapi
from penstock.gateway.errors import HTTPError
from penstock.gateway.http_exchange import HTTPExchange
from penstock.gateway.inspector import handlers, static
from penstock.gateway.legacy_completions import CompletionAsked

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

Handler = Callable[["Gateway", HTTPExchange], Awaitable[None]]

_MODELS: Final = {
    "/chat/completions": completion_handler.completion_endpoint(
        "openai-chat", "Ask a model, as OpenAI Chat."
    ),
    "/responses": completion_handler.completion_endpoint(
        "openai-responses", "Ask a model, as OpenAI Responses."
    ),
    "/messages": completion_handler.completion_endpoint(
        "anthropic", "Ask a model, as Anthropic Messages."
    ),
    "/completions": completion_handler.completion_endpoint(
        "openai-chat", "Ask a model to go on with a text.", CompletionAsked
    ),
}
"""The endpoints that models answer; each with and without the version in front."""

PATHS: Final[dict[str, dict[str, Handler]]] = {
    **{path: {"POST": handler} for path, handler in _MODELS.items()},
    **{f"/v1{path}": {"POST": handler} for path, handler in _MODELS.items()},
    "/v1/messages/count_tokens": {"POST": meta_handlers.count_tokens},
    "/v1/responses/input_tokens": {"POST": meta_handlers.count_input_tokens},
    "/responses/input_tokens": {"POST": meta_handlers.count_input_tokens},
    "/v1/models": {"GET": meta_handlers.models},
    "/models": {"GET": meta_handlers.models},
    "/v1/requests": {"GET": log_handlers.requests},
    "/v1/sessions": {"GET": log_handlers.sessions},
    "/health/live": {"GET": meta_handlers.live, "HEAD": meta_handlers.live},
    "/health/ready": {"GET": meta_handlers.ready, "HEAD": meta_handlers.ready},
    "/metrics": {"GET": meta_handlers.metrics},
    "/openapi.json": {"GET": openapi.document},
    "/docs": {"GET": openapi.page},
    "/inspector/api/about": {"GET": handlers.about},
    "/inspector/api/overview": {"GET": handlers.overview},
    "/inspector/api/live": {"GET": handlers.live},
    "/inspector/api/parse": {"POST": handlers.parse},
    "/inspector/api/formats": {"POST": handlers.formats},
    "/": {"GET": meta_handlers.welcome, "HEAD": meta_handlers.welcome},
}
"""Every path, and what is done there by each method."""

BELOW: Final[dict[str, dict[str, Handler]]] = {
    "/v1/models/": {"GET": meta_handlers.model},
    "/v1/requests/": {"GET": log_handlers.request},
    "/v1/sessions/": {"GET": log_handlers.session, "DELETE": log_handlers.forget_session},
    "/v1/responses/": {"GET": log_handlers.response, "DELETE": log_handlers.delete_response},
    handlers.STREAMS: {"GET": handlers.stream, "POST": handlers.replay},
    static.PREFIX: {"GET": static.file, "HEAD": static.file},
}
"""What lies below a path: the rest of it is an id."""


def find(caller: HTTPExchange) -> Handler:
    """Return what *caller* asked for.

    Raise `HTTPError` for a path or a method that is not there.
    """
    path = caller.path.rstrip("/") or "/"
    methods = PATHS.get(path)
    if methods is None:
        methods = next((found for prefix, found in BELOW.items() if path.startswith(prefix)), None)
    if methods is None:
        raise HTTPError(404, f"there is nothing at {caller.path}")
    handler = methods.get(caller.method)
    if handler is None:
        caller.extra.append((b"allow", ", ".join(methods).encode()))
        raise HTTPError(405, f"{caller.method} is not for {caller.path}")
    return handler
