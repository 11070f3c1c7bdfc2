"""Models by name, and models whose text is parsed."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import UsageError
from penstock.models import DemoModel, HTTPModel, ParsedModel, open_model
from penstock.request import Request, ToolChoice, UserMessage
from penstock.tools import Tool

TOOL = Tool("tide_at", "The tide.", {"type": "object", "properties": {"port": {"type": "string"}}})
ASK = Request(messages=[UserMessage("What is the tide at port Leith?")], tools=[TOOL])


@pytest.mark.parametrize(
    ("name", "api", "model"),
    [
        ("openai:gpt-5.4", "openai-responses", "gpt-5.4"),
        ("openai-chat:gpt-5.4", "openai-chat", "gpt-5.4"),
        ("anthropic:claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5"),
        ("gemini:gemini-3", "gemini", "gemini-3"),
        ("ollama:qwen3:8b", "ollama", "qwen3:8b"),
        ("vllm:Qwen/Qwen3-8B", "openai-chat", "Qwen/Qwen3-8B"),
        ("https://example.com/v1#m:1", "openai-chat", "m:1"),
        ("penstock:http://127.0.0.1:8787/v1#qwen3", "openai-chat", "qwen3"),
        ("penstock:http://127.0.0.1:8787/v1", "openai-chat", ""),
    ],
)
async def test_a_name_describes_a_model(name: str, api: str, model: str) -> None:
    found = open_model(name, api_key="k")
    assert (found.api_name, found.name) == (api, model)
    assert isinstance(found, HTTPModel if name.startswith("penstock") else ParsedModel)
    await found.close()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("qwen3", "model 'qwen3' has no provider: write PROVIDER:qwen3"),
        (
            "olama:qwen3",
            "unknown provider 'olama' in the model 'olama:qwen3'; did you mean 'ollama'",
        ),
        ("ollama:", "has no name after the colon"),
        ("penstock:localhost", "expected a URL"),
        ("", "has no provider"),
    ],
)
def test_a_name_that_describes_none_is_an_error(name: str, message: str) -> None:
    with pytest.raises(UsageError) as failure:
        open_model(name)
    assert message in str(failure.value)


@pytest.mark.parametrize("format_", ["hermes", "qwen3_coder", "native"])
async def test_a_printed_call_is_a_call(format_: str) -> None:
    model = ParsedModel(DemoModel(format_))
    message = await model.complete(ASK)
    assert [call.name for call in message.tool_calls] == ["tide_at"]
    assert message.stop_reason == "tool_use"
    events = [event.type async for event in model.stream(ASK)]
    assert events[0] == "start"
    assert events[-1] == "done"
    assert "toolcall_end" in events


async def test_a_call_that_the_request_forbids_is_text() -> None:
    request: Any = Request(messages=ASK.messages, tools=[TOOL], tool_choice=ToolChoice("none"))
    message = await ParsedModel(DemoModel("hermes")).complete(request)
    assert message.tool_calls == []


async def test_a_copy_without_retries_reads_the_same() -> None:
    model = open_model("demo:morph_xml").without_retries()
    assert (await model.complete(ASK)).tool_calls[0].name == "tide_at"
