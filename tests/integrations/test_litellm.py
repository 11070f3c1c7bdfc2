"""LiteLLM's proxy with our callback: run by `make integrations`, which installs LiteLLM."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from integrations.printed_calls import PRINTED, encode, make_body, make_message
from penstock import apis
from penstock.messages import Text

pytest.importorskip("litellm", reason="`make integrations` installs LiteLLM")

from litellm.types.utils import (  # type: ignore[import-not-found, unused-ignore]
    ModelResponse,
    ModelResponseStream,
)

from penstock.integrations.litellm import PenstockCallback

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of pydantic about LiteLLM's types

MESSAGE = make_message(Text(f"Let me look.\n{PRINTED}"))


def make_data(api: str = "openai-chat") -> dict[str, Any]:
    return json.loads(make_body(api)) | {"litellm_call_id": "1", "metadata": {"user": "u"}}  # type: ignore[no-any-return]


async def stream(callback: PenstockCallback, data: dict[str, Any], chunks: list[Any]) -> list[Any]:
    async def respond() -> AsyncIterator[Any]:
        for chunk in chunks:
            yield chunk

    found = callback.async_post_call_streaming_iterator_hook(None, respond(), data)
    return [chunk async for chunk in found]


def make_chunks() -> list[Any]:
    frames = encode("openai-chat", MESSAGE).decode().split("\n\n")
    data = [one.removeprefix("data: ") for one in frames if one and "[DONE]" not in one]
    return [ModelResponseStream(**json.loads(one)) for one in data]


async def test_a_stream_of_chunks() -> None:
    found = await stream(PenstockCallback(), make_data(), make_chunks())
    text = "".join(one.choices[0].delta.content or "" for one in found if one.choices)
    calls = [call for one in found for c in one.choices for call in c.delta.tool_calls or []]
    reasons = [c.finish_reason for one in found for c in one.choices if c.finish_reason]
    assert text == "Let me look.\n"
    assert calls[0].function.name == "weather"
    assert json.loads("".join(call.function.arguments or "" for call in calls)) == {"city": "Os<lo"}
    assert reasons == ["tool_calls"]


async def test_chunks_without_calls_are_the_same_objects() -> None:
    chunks = [one for one in make_chunks()[:3] if one.choices]
    assert await stream(PenstockCallback(), make_data() | {"tools": None}, chunks) == chunks
    found = await stream(PenstockCallback(), make_data(), chunks)
    assert found[:2] == chunks[:2]


async def test_a_stream_of_the_messages_endpoint() -> None:
    data = encode("anthropic", MESSAGE)
    pieces = [data[at : at + 50] for at in range(0, len(data), 50)]
    found = b"".join(await stream(PenstockCallback(), make_data("anthropic"), pieces))
    assert apis.check("anthropic", found) == []
    assert b'"stop_reason":"tool_use"' in found


async def test_whole_responses() -> None:
    callback = PenstockCallback()
    response = ModelResponse(**apis.get("openai-chat").write_response(MESSAGE))
    found: Any = await callback.async_post_call_success_hook(make_data(), None, response)
    assert found.choices[0].finish_reason == "tool_calls"
    assert found.choices[0].message.tool_calls[0].function.name == "weather"
    message = apis.get("anthropic").write_response(MESSAGE)
    found = await callback.async_post_call_success_hook(make_data("anthropic"), None, message)
    assert found["stop_reason"] == "tool_use"


@pytest.mark.parametrize(
    ("api", "kind"), [("openai-chat", "acompletion"), ("anthropic", "anthropic_messages")]
)
async def test_tools_in_the_prompt(api: str, kind: str) -> None:
    callback = PenstockCallback(tools="prompt", format="hermes")
    data = make_data(api)
    sent = await callback.async_pre_call_hook(None, None, data, kind)
    assert "tools" not in sent
    assert sent["metadata"] == {"user": "u"}
    assert "weather" in json.dumps(sent["messages"]) + json.dumps(sent.get("system"))
    response: Any = apis.get(api).write_response(MESSAGE)
    if api == "openai-chat":
        response = ModelResponse(**response)
    found: Any = await callback.async_post_call_success_hook(sent, None, response)
    written = found if isinstance(found, dict) else found.model_dump()
    assert "tool_calls" in json.dumps(written) or written["stop_reason"] == "tool_use"
