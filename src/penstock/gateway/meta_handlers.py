"""What the gateway says of itself: its models, its health, its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import _json
from penstock.gateway import http_exchange
from penstock.gateway.errors import HTTPError
from penstock.gateway.http_exchange import HTTPExchange
from penstock.gateway.inspector import static
from penstock.gateway.metrics import CONTENT_TYPE
from penstock.gateway.model_router import described

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

WELCOME = (
    b"penstock: tool calls from any model, streamed correctly, to any client.\n"
    b"Ask at /v1/chat/completions, /v1/responses or /v1/messages; /docs says how.\n"
)


async def models(gateway: Gateway, caller: HTTPExchange) -> None:
    """List the models; clients of every API find their fields."""
    gateway.door.admit(caller)
    data = await gateway.directory.listed()
    await caller.answer(200, {"object": "list", "data": data, "has_more": False})


async def model(gateway: Gateway, caller: HTTPExchange) -> None:
    """Describe one model."""
    gateway.door.admit(caller)
    name = caller.path.removeprefix("/v1/models/")
    listed = {one["id"]: one for one in await gateway.directory.listed()}
    if name not in listed:
        listed[name] = described(name, gateway.directory.way(name).upstream)
    await caller.answer(200, listed[name])


async def count_tokens(gateway: Gateway, caller: HTTPExchange) -> None:
    """Guess what a request costs: the gateway has nobody's tokenizer."""
    caller.api = "anthropic"
    gateway.door.admit(caller)
    limits = gateway.limits
    data = await caller.body(limits.body_bytes, limits.body_seconds)
    fields = http_exchange.read_object(data, limits.depth)
    if not isinstance(fields.get("messages"), list):
        raise HTTPError(400, "`messages` must be a list")
    await caller.answer(200, {"input_tokens": http_exchange.tokens_in(data)})


async def count_input_tokens(gateway: Gateway, caller: HTTPExchange) -> None:
    """Guess what a request to the Responses API costs, with all that it continues from."""
    caller.api = "openai-responses"
    guest = gateway.door.admit(caller)
    limits = gateway.limits
    data = await caller.body(limits.body_bytes, limits.body_seconds)
    fields = http_exchange.read_object(data, limits.depth)
    if not isinstance(fields.get("input"), str | list | None):
        raise HTTPError(400, "`input` must be text or a list of items")
    continued = await gateway.conversations.continued(fields, guest.name)
    data = data if continued is fields else _json.encode(continued)
    counted = {"object": "response.input_tokens", "input_tokens": http_exchange.tokens_in(data)}
    await caller.answer(200, counted)


async def live(gateway: Gateway, caller: HTTPExchange) -> None:
    """Say that the process is there."""
    del gateway
    await caller.answer(200, {"status": "live"})


async def ready(gateway: Gateway, caller: HTTPExchange) -> None:
    """Say whether requests are taken; the log has no say in it."""
    if gateway.is_draining:
        await caller.answer(503, {"status": "draining"})
        return
    health = gateway.store.health if gateway.store is not None else None
    log = "off" if health is None else "up" if health.is_up else "down"
    await caller.answer(200, {"status": "ready", "log": log, "streams": gateway.streams})


async def metrics(gateway: Gateway, caller: HTTPExchange) -> None:
    """Write the figures for Prometheus."""
    gateway.door.admit(caller)
    gateway.note_log()
    page = gateway.metrics.page()
    await caller.answer(200, page, (b"content-type", CONTENT_TYPE), is_json=False)


async def welcome(gateway: Gateway, caller: HTTPExchange) -> None:
    """Show the inspector to a browser, and say to others what this is."""
    del gateway
    caller.extra.append((b"vary", b"accept"))
    if static.wants_page(caller):
        await static.send_file(caller, static.INDEX)
        return
    await caller.answer(200, WELCOME, (b"content-type", b"text/plain"), is_json=False)
