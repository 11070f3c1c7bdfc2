"""A request is made of what people write: strings, OpenAI's dicts, or the values themselves."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DemoModel, ToolMiddleware
from penstock.agent import Agent
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall, ToolResult
from penstock.request import (
    Image,
    Message,
    Request,
    SystemMessage,
    ToolChoice,
    UserMessage,
    make_request,
    read_message,
)
from penstock.tools import Tool

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}

READ: dict[str, tuple[Any, Message]] = {
    "a string": ("hi", UserMessage([Text("hi")])),
    "a user": ({"role": "user", "content": "hi", "name": "me"}, UserMessage([Text("hi")])),
    "parts": (
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
                {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "AA"}},
            ],
        },
        UserMessage(
            [
                Text("look"),
                Image(media_type="image/png", data="AA"),
                Image(url="https://x/y.png", detail="low"),
                Opaque("openai-chat", {"type": "input_audio", "input_audio": {"data": "AA"}}),
            ]
        ),
    ),
    "instructions": (
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        SystemMessage("Be brief."),
    ),
    "an answer": (
        {"role": "assistant", "content": "yes", "reasoning_content": "hm", "tool_calls": None},
        AssistantMessage(content=[Thinking("hm"), Text("yes")]),
    ),
    "calls": (
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        AssistantMessage(content=[ToolCall("c1", "f", {"a": 1})]),
    ),
    "a result": (
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
        ToolResult("c1", "", "done"),
    ),
    "a result in parts": (
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "done"}]},
        ToolResult("c1", "", "done"),
    ),
}


@pytest.mark.parametrize(("given", "message"), READ.values(), ids=READ)
def test_strings_and_openai_dicts_are_read_as_messages(given: Any, message: Message) -> None:
    assert read_message(given) == message
    assert read_message(message) is message
    leads = isinstance(message, SystemMessage)
    assert Request(messages=["first", given]).messages == [UserMessage("first"), message]
    assert Request(messages=[given]).messages == ([] if leads else [message])


def test_no_words_are_lost_on_the_way_into_a_request() -> None:
    assert UserMessage("hi") == UserMessage([Text("hi")])
    assert UserMessage(["hi", {"type": "text", "text": "ho"}]).text == "hi\nho"
    assert AssistantMessage(content="yes").text == "yes"
    request = Request(
        system="First.",
        messages=[{"role": "system", "content": "Second."}, "hi"],
        tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}],
        tool_choice="f",
        stop="END",
    )
    assert request.system == "First.\n\nSecond."
    assert request.messages == [UserMessage("hi")]
    assert request.tools == [Tool("f")]
    assert request.tool_choice == ToolChoice("tool", "f")
    assert Request(messages="hi").messages == [UserMessage("hi")]
    assert request.stop == ["END"]
    assert make_request(request) is request


async def test_a_model_is_asked_in_plain_words() -> None:
    for model in (DemoModel(), ToolMiddleware(DemoModel("hermes"), "hermes")):
        for asked in ("How deep?", {"role": "user", "content": "How deep?"}, ["How deep?"]):
            assert "How deep?" in (await model.complete(asked)).text
            assert "How deep?" in (await model.stream(asked).result()).text


WRONG: list[Any] = [
    5,
    None,
    b"hi",
    [],
    [5],
    [None],
    {"content": "hi"},
    {"role": "robot", "content": "hi"},
    {"role": "user"},
    {"role": "user", "contents": "hi"},
    {"role": "user", "content": 5},
    {"role": "user", "content": [{"type": "tool_use", "id": "c1"}]},
    {"role": "user", "content": [{"type": "text", "txt": "hi"}]},
    {"role": "user", "content": [5]},
    {"role": "system", "content": [{"type": "image_url", "image_url": "https://x"}]},
    {"role": "assistant"},
    {"role": "assistant", "tool_calls": [{"id": "c1"}]},
    {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 5}}]},
    {"role": "tool", "content": "done"},
]


@pytest.mark.parametrize("asked", WRONG, ids=str)
async def test_what_is_no_message_raises_and_is_never_a_quiet_failure(asked: Any) -> None:
    model = DemoModel()
    middleware = ToolMiddleware(model, "hermes")
    for begin in (model.stream, middleware.stream, model.batches, middleware.batches):
        with pytest.raises(UsageError):
            begin(asked)
    with pytest.raises(UsageError):
        await model.complete(asked)
    agent = Agent(model)
    with pytest.raises(UsageError):
        agent.run(asked)
    assert not agent.busy


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": 5},
        {"messages": b"hi"},
        {"tools": ["f"]},
        {"tools": "f"},
        {"temperature": "hot"},
        {"max_tokens": 1.5},
        {"system": ["Be brief."]},
        {"tool_choice": {"type": "auto"}},
        {"response_format": {"type": "json_object"}},
        {"extra": "x"},
    ],
    ids=str,
)
def test_a_field_that_cannot_be_raises_when_the_request_is_made(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Request(**fields)


@pytest.mark.parametrize("content", [5, None, [5], [{"type": "nonsense"}], {"type": "text"}])
def test_a_message_of_no_content_raises_when_it_is_made(content: Any) -> None:
    with pytest.raises(UsageError):
        UserMessage(content)
    with pytest.raises(UsageError):
        AssistantMessage(content=content)


@pytest.mark.parametrize("text", [5, None, b"hi", ["hi"], {"text": "hi"}], ids=str)
def test_a_block_whose_text_is_not_a_string_raises_when_it_is_made(text: Any) -> None:
    with pytest.raises(UsageError, match="must be a string"):
        Text(text)
    with pytest.raises(UsageError, match="must be a string"):
        Thinking(text)
    with pytest.raises(UsageError, match="must be a string"):
        Image(url=text)
    with pytest.raises(UsageError):
        UserMessage([{"type": "text", "text": text}])


async def test_what_was_added_to_a_request_later_is_read_before_it_is_sent() -> None:
    request = Request()
    messages: list[Any] = request.messages
    messages.append({"role": "user", "content": "How deep?"})
    assert "How deep?" in (await DemoModel().complete(request)).text
    request.messages.append(5)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        await DemoModel().complete(request)
