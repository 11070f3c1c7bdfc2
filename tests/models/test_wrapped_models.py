"""The parts are the same for a script, an agent and a gateway: what each puts together agrees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from models.fake_upstream import script
from models.loopback_servers import serving
from models.upstreams import Scripted, asking
from penstock import (
    EventParser,
    EventStream,
    HTTPModel,
    MessageBuilder,
    Request,
    Tool,
    ToolMiddleware,
    apis,
    parse_events,
)
from penstock.events import Event
from penstock.messages import AssistantMessage, Text
from penstock.models.base import iter_events
from penstock.request import ToolChoice, UserMessage
from penstock.views import ai_sdk

APIS = apis.names()
READ = Tool("read_file", "Read a file", {"type": "object"})
ASKED = Request(messages=[UserMessage([Text("Read it.")])], tools=[READ])


def said(message: AssistantMessage) -> tuple[object, ...]:
    calls = [(call.name, call.arguments) for call in message.tool_calls]
    return message.text, message.thinking, calls, message.stop_reason


async def read(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    """Read calls out of events that are waited for."""
    parser = EventParser("hermes", [READ], trim=True, repair=True)
    async for event in events:
        for each in parser.add(event):
            yield each


def folded(events: list[Event]) -> AssistantMessage:
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
    return builder.message


@pytest.mark.parametrize("mode", ["hermes", "native", "think"])
@pytest.mark.parametrize("api", APIS)
async def test_a_script_an_agent_and_a_gateway_read_the_same_answer(api: str, mode: str) -> None:
    async with (
        serving(script(api)) as upstream,
        HTTPModel(api, upstream.url, f"fake-m{mode}", environ={}) as http,
    ):
        model = ToolMiddleware(http, "hermes")
        agent = said(await model.complete(ASKED))
        by_hand = EventStream(read(iter_events(http.batches(ASKED))))
        assert said(await by_hand.result()) == agent
        events = [event async for event in http.stream(ASKED)]
        script_ = parse_events(events, "hermes", [READ], trim=True, repair=True)
        assert said(folded(list(script_))) == agent
        encoder, decoder = (
            apis.get("anthropic").encoder(model="m"),
            apis.get("messages").decoder(),
        )
        passed: list[Event] = []
        async for batch in model.batches(ASKED):
            passed += decoder.feed(b"".join(map(encoder.encode, batch)))
        passed += decoder.feed(encoder.finish())
        assert said(folded(passed)) == agent


async def test_a_stream_over_http_is_read_by_a_script_and_by_two_consumers() -> None:
    async with serving(script("ollama")) as upstream:
        model = ToolMiddleware(
            HTTPModel("ollama", upstream.url, "fake-mhermes", environ={}), "hermes"
        )

        def in_a_script() -> list[str]:
            return [event.type for event in model.stream(ASKED).sync()]

        types = await asyncio.to_thread(in_a_script)
        assert types[-1] == "done"
        one, two = model.stream(ASKED).tee()
        first = [event async for event in one]
        assert first == [event async for event in two]
        assert "toolcall_end" in types
        await model.close()


async def test_a_chosen_call_and_its_finish_are_those_of_the_ai_sdk() -> None:
    text = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
    model = ToolMiddleware(Scripted(text), constrain="json_schema")
    request = asking(tool_choice=ToolChoice("required"))
    parts = list(ai_sdk.parts([event async for event in model.stream(request)]))
    (call,) = [part for part in parts if part["type"] == "tool-call"]
    assert call["toolName"] == "get_weather"
    assert parts[-1]["type"] == "finish"
    assert parts[-1]["finishReason"] == "tool-calls"
