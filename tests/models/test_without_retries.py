"""A twin of a model that tries once, counted by the requests that a real server gets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from models.loopback_servers import Script, Upstream, refusal, serving, streamed
from models.qwen_server import CREDENTIALS
from models.upstreams import asking
from penstock import DemoModel, HTTPModel, Request, ToolMiddleware, apis
from penstock.models import Model, QwenWebModel
from penstock.models.http import RetryPolicy
from penstock.request import ToolChoice

SOON = RetryPolicy(attempts=3, base=0.001)
BUSY = refusal(503, {"error": {"message": "busy"}})
API = "openai-chat"


def http(url: str) -> HTTPModel:
    return HTTPModel(API, url, "m", "", retry=SOON)


def middleware(url: str) -> ToolMiddleware:
    return ToolMiddleware(http(url), "hermes", retries=2)


def nested(url: str) -> ToolMiddleware:
    return ToolMiddleware(middleware(url), "hermes")


def qwen(url: str) -> QwenWebModel:
    return QwenWebModel(url, "qwen3-max", credentials=CREDENTIALS, retry=SOON)


async def counted(
    make: Callable[[str], Model], request: Request, *script: Script
) -> tuple[int, int, Upstream]:
    """Ask the twin, close it, and ask the model; return how often each asked the server."""
    async with serving(*script) as upstream:
        model = make(upstream.url)
        twin = model.without_retries()
        try:
            await twin.complete(request)
            once = len(upstream.seen)
            await twin.close()
            await model.complete(request)
        finally:
            await model.close()
        return once, len(upstream.seen) - once, upstream


@pytest.mark.parametrize("make", [http, middleware, nested, qwen])
async def test_a_twin_asks_a_server_that_is_busy_once(make: Callable[[str], Model]) -> None:
    once, often, _ = await counted(make, Request(messages=asking().messages), BUSY)
    assert (once, often) == (1, SOON.attempts)


async def test_a_twin_shares_the_connection_and_closes_none() -> None:
    _, _, upstream = await counted(http, asking(), streamed(API))
    assert upstream.connections == 1
    assert len(upstream.seen) == 2


async def test_a_twin_of_a_middleware_asks_for_no_missing_call_again() -> None:
    demanding = asking(tool_choice=ToolChoice("required"))
    once, often, _ = await counted(middleware, demanding, streamed(API))
    assert (once, often) == (1, 3)


@pytest.mark.parametrize("api", apis.names())
async def test_a_twin_is_the_same_model_otherwise(api: str) -> None:
    async with HTTPModel(api, "http://127.0.0.1:1", "m", "", interval=0.5) as model:
        twin = model.without_retries()
        assert (twin.name, twin.api, twin.interval) == (model.name, model.api, model.interval)
        assert repr(twin) == repr(model)


def test_any_other_model_is_given_back_as_it_is() -> None:
    model = DemoModel()
    assert model.without_retries() is model
