"""Where each path leads: a table, and what stands in it once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from penstock.gateway import asking, listing, logged, openapi
from penstock.gateway.caller import Caller
from penstock.gateway.completions import CompletionAsked
from penstock.gateway.inspector import files, handlers
from penstock.gateway.refusals import Refusal

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

Handler = Callable[["Gateway", Caller], Awaitable[None]]

_MODELS: Final = {
    "/chat/completions": asking.endpoint("openai-chat", "Ask a model, as OpenAI Chat."),
    "/responses": asking.endpoint("openai-responses", "Ask a model, as OpenAI Responses."),
    "/messages": asking.endpoint("anthropic", "Ask a model, as Anthropic Messages."),
    "/completions": asking.endpoint(
        "openai-chat", "Ask a model to go on with a text.", CompletionAsked
    ),
}
"""The endpoints that models answer; each with and without the version in front."""

PATHS: Final[dict[str, dict[str, Handler]]] = {
    **{path: {"POST": handler} for path, handler in _MODELS.items()},
    **{f"/v1{path}": {"POST": handler} for path, handler in _MODELS.items()},
    "/v1/messages/count_tokens": {"POST": listing.count_tokens},
    "/v1/responses/input_tokens": {"POST": listing.count_input_tokens},
    "/responses/input_tokens": {"POST": listing.count_input_tokens},
    "/v1/models": {"GET": listing.models},
    "/models": {"GET": listing.models},
    "/v1/requests": {"GET": logged.requests},
    "/v1/sessions": {"GET": logged.sessions},
    "/health/live": {"GET": listing.live, "HEAD": listing.live},
    "/health/ready": {"GET": listing.ready, "HEAD": listing.ready},
    "/metrics": {"GET": listing.metrics},
    "/openapi.json": {"GET": openapi.document},
    "/docs": {"GET": openapi.page},
    "/inspector/api/about": {"GET": handlers.about},
    "/inspector/api/overview": {"GET": handlers.overview},
    "/inspector/api/live": {"GET": handlers.live},
    "/inspector/api/parse": {"POST": handlers.parse},
    "/inspector/api/formats": {"POST": handlers.formats},
    "/": {"GET": listing.welcome, "HEAD": listing.welcome},
}
"""Every path, and what is done there by each method."""

BELOW: Final[dict[str, dict[str, Handler]]] = {
    "/v1/models/": {"GET": listing.model},
    "/v1/requests/": {"GET": logged.request},
    "/v1/sessions/": {"GET": logged.session, "DELETE": logged.forget_session},
    "/v1/responses/": {"GET": logged.response, "DELETE": logged.delete_response},
    handlers.STREAMS: {"GET": handlers.stream, "POST": handlers.replay},
    files.PREFIX: {"GET": files.file, "HEAD": files.file},
}
"""What lies below a path: the rest of it is an id."""


def find(caller: Caller) -> Handler:
    """Give what *caller* asked for; raise `Refusal` for a path or a method that is not there."""
    path = caller.path.rstrip("/") or "/"
    methods = PATHS.get(path)
    if methods is None:
        methods = next((found for prefix, found in BELOW.items() if path.startswith(prefix)), None)
    if methods is None:
        raise Refusal(404, f"there is nothing at {caller.path}")
    handler = methods.get(caller.method)
    if handler is None:
        caller.extra.append((b"allow", ", ".join(methods).encode()))
        raise Refusal(405, f"{caller.method} is not for {caller.path}")
    return handler
