"""The rewriting of responses on their way to an SDK: every API, every cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from integrations.printed_calls import PRINTED, encode, make_body, make_message
from penstock import apis
from penstock.errors import UsageError
from penstock.integrations import Exchange, RewriteOptions, find_api, prepare
from penstock.messages import AssistantMessage, Text, Thinking, ToolCall

APIS = ("openai-chat", "openai-responses", "anthropic")


def make_exchange(api: str, body: bytes | None = None, **options: Any) -> Exchange:
    exchange = prepare(api, body or make_body(api), RewriteOptions(**options))
    assert exchange is not None
    return exchange


def rewrite(exchange: Exchange, *pieces: bytes) -> bytes:
    return b"".join([exchange.feed(piece) for piece in pieces]) + exchange.finish()


def decode(api: str, data: bytes) -> AssistantMessage:
    decoder = apis.get(api).decoder()
    events = [*decoder.feed(data), *decoder.finish()]
    message: AssistantMessage = events[-1].message  # type: ignore[union-attr]
    return message


@pytest.mark.parametrize("api", APIS)
def test_a_printed_call_is_a_call_at_every_cut(api: str) -> None:
    data = encode(api, make_message(Text(f"Let me look.\n{PRINTED}")))
    for at in range(0, len(data) + 1, 1 + len(data) // 150):
        out = rewrite(make_exchange(api), data[:at], data[at:])
        message = decode(api, out)
        assert apis.check(api, out) == []
        assert message.text == "Let me look.\n"
        assert [(call.name, call.arguments) for call in message.tool_calls] == [
            ("weather", {"city": "Os<lo"})
        ]
        assert message.stop_reason == "tool_use"
        assert message.usage.output == 7


@pytest.mark.parametrize("api", APIS)
def test_a_stream_byte_by_byte_says_the_same(api: str) -> None:
    data = encode(api, make_message(Text(f"<think>Hm.</think>Let me look.\n{PRINTED} So.")))
    message = decode(api, rewrite(make_exchange(api), *[data[i : i + 1] for i in range(len(data))]))
    assert message.thinking == "Hm."
    assert message.text == "Let me look.\n So."
    assert len(message.tool_calls) == 1


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
def test_a_chat_stream_without_calls_passes_byte_for_byte(end: bytes) -> None:
    frames = [
        {"id": "x", "choices": [{"index": 0, "delta": {"role": "assistant"}}]},
        *(
            {"id": "x", "choices": [{"index": 0, "delta": {"content": one}, "logprobs": {"a": 1}}]}
            for one in ("2 > 1, ", "so it is ", "fine.")
        ),
        {"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"id": "x", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
    ]
    data = b": hello" + end
    data += b"".join(b"data: " + json.dumps(one).encode() + end for one in frames)
    data += b"data: [DONE]" + end
    for at in range(len(data) + 1):
        assert rewrite(make_exchange("openai-chat"), data[:at], data[at:]) == data


def test_held_text_that_is_no_call_is_not_lost() -> None:
    data = encode("openai-chat", make_message(Text("a <tool b <tool_call> c <")))
    pieces = [data[i : i + 7] for i in range(0, len(data), 7)]
    message = decode("openai-chat", rewrite(make_exchange("openai-chat"), *pieces))
    assert message.text == "a <tool b <tool_call> c <"
    assert message.stop_reason == "stop"


@pytest.mark.parametrize("api", APIS)
def test_a_call_that_the_model_left_open_is_repaired_at_the_end(api: str) -> None:
    data = encode(api, make_message(Text(PRINTED.removesuffix("}</tool_call>"))))
    message = decode(api, rewrite(make_exchange(api), data))
    assert message.stop_reason == "tool_use"
    assert [call.arguments for call in message.tool_calls] == [{"city": "Os<lo"}]


def test_a_stream_that_was_cut_inside_a_call_does_not_end_in_a_call() -> None:
    data = encode("openai-chat", make_message(Text(PRINTED)))
    half = data[: len(data) * 6 // 10]
    message = decode("openai-chat", rewrite(make_exchange("openai-chat"), half))
    assert message.stop_reason != "tool_use"
    assert not any(call.complete for call in message.tool_calls)


def test_native_calls_pass_byte_for_byte() -> None:
    call = ToolCall("call_9", "weather", {"city": "Oslo"})
    message = AssistantMessage(
        content=[Text("Look: "), call], id="r", model="m", stop_reason="tool_use"
    )
    data = encode("openai-chat", message)
    assert rewrite(make_exchange("openai-chat"), data) == data


def test_frames_without_blank_lines_are_still_live() -> None:
    chunk = {"id": "x", "choices": [{"index": 0, "delta": {"content": "word "}}]}
    exchange = make_exchange("openai-chat")
    sent = [exchange.feed(b"data: " + json.dumps(chunk).encode() + b"\n") for _ in range(4)]
    assert b"word" in b"".join(sent)


@pytest.mark.parametrize("api", APIS)
def test_a_whole_response_has_the_call_and_keeps_other_fields(api: str) -> None:
    made = apis.get(api).write_response(make_message(Text(f"Look.\n{PRINTED}"))) | {"extra": [1]}
    data = json.loads(make_exchange(api).rewrite(json.dumps(made).encode()))
    assert data["extra"] == [1]
    assert data["usage"] == made["usage"]
    message = apis.get(api).read_response(data)
    assert [call.name for call in message.tool_calls] == ["weather"]
    assert message.text == "Look.\n"
    assert message.stop_reason == "tool_use"


@pytest.mark.parametrize("api", APIS)
def test_a_cut_call_of_a_whole_response_stays_text(api: str) -> None:
    message = make_message(Text(f"Look.\n{PRINTED[:-25]}"))
    message.stop_reason = "length"
    body = json.dumps(apis.get(api).write_response(message)).encode()
    assert make_exchange(api).rewrite(body) == body


@pytest.mark.parametrize("api", APIS)
def test_a_whole_response_without_calls_is_the_same_bytes(api: str) -> None:
    message = make_message(Text("2 < 3"))
    body = json.dumps(apis.get(api).write_response(message), indent=1).encode()
    assert make_exchange(api).rewrite(body) == body
    for other in (b"", b"[]", b"<html>", b'{"error": {"message": "no"}}', b'"x"'):
        assert make_exchange(api).rewrite(other) == other


@pytest.mark.parametrize("api", APIS)
def test_tools_go_into_the_prompt(api: str) -> None:
    exchange = make_exchange(
        api, make_body(api, temperature=0.5, odd_field={"a": 1}), tools="prompt", format="hermes"
    )
    body = json.loads(exchange.body)
    assert body["odd_field"] == {"a": 1}
    assert body["temperature"] == 0.5
    assert "tools" not in body
    assert "weather" in json.dumps(body)
    assert "Weather?" in json.dumps(body)
    message = decode(api, rewrite(exchange, encode(api, make_message(Text(PRINTED)))))
    assert [call.name for call in message.tool_calls] == ["weather"]


def test_a_request_without_tools_has_its_reasoning_read_and_no_calls() -> None:
    body = make_body("openai-chat", tools=[])
    data = encode("openai-chat", make_message(Text(f"<think>Hm.</think>{PRINTED}")))
    message = decode("openai-chat", rewrite(make_exchange("openai-chat", body), data))
    assert message.content == [Thinking("Hm."), Text(PRINTED)]


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'{"messages": 1}'])
def test_what_is_no_request_is_left_alone(body: bytes) -> None:
    assert prepare("openai-chat", body, RewriteOptions()) is None


def test_several_choices_are_left_alone() -> None:
    assert prepare("openai-chat", make_body("openai-chat", n=2), RewriteOptions()) is None


def test_paths_and_options() -> None:
    assert find_api("/v1/chat/completions") == "openai-chat"
    assert find_api("/openai/v1/responses/") == "openai-responses"
    assert find_api("/v1/messages") == "anthropic"
    assert find_api("/v1/messages/count_tokens") is None
    assert find_api("/v1/embeddings") is None
    with pytest.raises(UsageError, match="tools must be 'auto' or 'prompt'"):
        RewriteOptions(tools="native")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="hermess"):
        RewriteOptions(format="hermess")
