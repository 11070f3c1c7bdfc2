"""Handlers for models, token counts, health and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import _json
from penstock.gateway import gemini_handlers
from penstock.gateway.errors import HTTPError
from penstock.gateway.http_exchange import HTTPExchange, estimate_tokens, parse_object
from penstock.gateway.inspector import static
from penstock.gateway.metrics import CONTENT_TYPE
from penstock.gateway.model_router import describe_model

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

WELCOME = (
    b"penstock: tool calls from any model, streamed correctly, to any client.\n"
    b"Endpoints: /v1/chat/completions, /v1/responses and /v1/messages; /docs lists all of them.\n"
)


async def models(gateway: Gateway, exchange: HTTPExchange) -> None:
    """List the models, with the fields of all APIs."""
    if gemini_handlers.is_gemini_client(exchange):
        await gemini_handlers.models(gateway, exchange)
        return
    gateway.auth.authenticate(exchange)
    data = await gateway.router.list_models()
    await exchange.respond(200, {"object": "list", "data": data, "has_more": False})


async def model(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Describe one model."""
    if gemini_handlers.is_gemini_client(exchange):
        await gemini_handlers.model(gateway, exchange)
        return
    gateway.auth.authenticate(exchange)
    name = exchange.path.removeprefix("/v1/models/")
    known = {one["id"]: one for one in await gateway.router.list_models()}
    if name not in known:
        known[name] = describe_model(name, gateway.router.resolve(name).upstream)
    await exchange.respond(200, known[name])


async def count_tokens(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Estimate the input tokens of an Anthropic request."""
    exchange.api = "anthropic"
    gateway.auth.authenticate(exchange)
    limits = gateway.limits
    data = await exchange.read_body(limits.body_bytes, limits.body_seconds)
    fields = parse_object(data, limits.depth)
    if not isinstance(fields.get("messages"), list):
        raise HTTPError(400, "`messages` must be a list")
    await exchange.respond(200, {"input_tokens": estimate_tokens(data)})


async def count_input_tokens(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Estimate the input tokens of a Responses request, with the conversation it continues."""
    exchange.api = "openai-responses"
    client = gateway.auth.authenticate(exchange)
    limits = gateway.limits
    data = await exchange.read_body(limits.body_bytes, limits.body_seconds)
    fields = parse_object(data, limits.depth)
    if not isinstance(fields.get("input"), str | list | None):
        raise HTTPError(400, "`input` must be a string or a list of items")
    expanded = await gateway.stored_responses.expand(fields, client.name)
    data = data if expanded is fields else _json.encode(expanded)
    counted = {"object": "response.input_tokens", "input_tokens": estimate_tokens(data)}
    await exchange.respond(200, counted)


async def live(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Return 200 while the process runs."""
    del gateway
    await exchange.respond(200, {"status": "live"})


async def ready(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Return 200 while requests are accepted, whatever the state of the log."""
    if gateway.is_draining:
        await exchange.respond(503, {"status": "draining"})
        return
    health = gateway.store.health if gateway.store is not None else None
    log = "off" if health is None else "up" if health.is_up else "down"
    state = {"log": log, "quotas": gateway.quotas.state, "streams": gateway.streams}
    await exchange.respond(200, {"status": "ready", **state})


async def metrics(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Return the metrics for Prometheus."""
    gateway.auth.authenticate(exchange)
    gateway.update_log_metrics()
    page = gateway.metrics.page()
    await exchange.respond(200, page, (b"content-type", CONTENT_TYPE), is_json=False)


async def openapi(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Return the OpenAPI document."""
    del gateway
    # Imported here because it imports the routes, and few gateways need it.
    from penstock.gateway.openapi import make_document  # noqa: PLC0415

    await exchange.respond(200, make_document())


async def docs(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Return the endpoints as a web page."""
    del gateway
    await static.send_file(exchange, "docs.html")


async def welcome(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Return the inspector to a browser, and a description to other clients."""
    del gateway
    exchange.extra_headers.append((b"vary", b"accept"))
    if static.wants_page(exchange):
        await static.send_file(exchange, static.INDEX)
        return
    await exchange.respond(200, WELCOME, (b"content-type", b"text/plain"), is_json=False)
