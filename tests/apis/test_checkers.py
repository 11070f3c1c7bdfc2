"""The checkers of all APIs: they list and never raise, and pass what providers really send."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from laws import effort
from penstock import apis
from penstock.builder import message_events
from penstock.messages import AssistantMessage, ErrorInfo, Text, Thinking, ToolCall, Usage

FOLDER = Path(__file__).parents[1] / "vectors"
ODD: list[Any] = [None, {"a": 1}, [1], -1, "zzz"]
Frames = list[tuple[str, Any]]

EXPECTED = {
    "anthropic-ping-unknown": [
        "a frame is of type 'capacity_notice'",
        "a delta is of type 'glow_delta'",
    ],
    "responses-args-done-only": ["a call's arguments have no deltas"],
    "chat-tool-empty-args": ["the arguments of a call are not a JSON object"],
}
"""Streams that end well for us and over which a strict client would stumble all the same."""


def vectors(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text("utf-8").splitlines()]


def message(*, calls: bool = True, error: ErrorInfo | None = None) -> AssistantMessage:
    content: list[Any] = [Thinking("Hm", "c2ln"), Text("Hi")]
    made = [ToolCall("call_a", "f", {"a": 1}), ToolCall("call_b", "g", {})] if calls else []
    stop: Any = "error" if error else "tool_use" if calls else "stop"
    usage = Usage(input=3, output=4, total=7)
    return AssistantMessage("id-1", "m", [*content, *made], stop, usage=usage, error=error)


def frames_of(api: apis.Api, answer: AssistantMessage) -> Frames:
    encoder = api.encoder(created=1)
    data = b"".join(map(encoder.encode, message_events(answer))) + encoder.finish()
    if api.name == "ollama":
        return [("", json.loads(line)) for line in data.splitlines()]
    frames = [frame.split("data: ") for frame in _lines(data).split("\n\n") if frame]
    return [(head, data if data == "[DONE]" else json.loads(data)) for head, data in frames]


def _lines(data: bytes) -> str:
    return data.decode().replace("\r\n", "\n")


def wire(api: apis.Api, frames: Frames) -> bytes:
    if api.name == "ollama":
        return "".join(json.dumps(data) + "\n" for _, data in frames).encode()
    texts = [(head, data if data == "[DONE]" else json.dumps(data)) for head, data in frames]
    return "".join(f"{head}data: {data}\n\n" for head, data in texts).encode()


def paths_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Give each place in *value* as its container and its key."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        yield value, key
        if isinstance(inner, dict | list):
            yield from paths_in(inner)


# --- nothing raises ---


@pytest.mark.parametrize("name", apis.names())
@pytest.mark.parametrize("error", [None, ErrorInfo("no", "refusal")])
def test_a_checker_lists_and_never_raises(name: str, error: ErrorInfo | None) -> None:
    api = apis.get(name)
    frames = frames_of(api, message(error=error))
    assert api.check(wire(api, frames)) == []
    for _, data in frames:
        if isinstance(data, str):
            continue
        for container, key in effort.some(paths_in(data)):
            before = container[key]
            for value in ODD:
                container[key] = value
                api.check(wire(api, frames))
            container[key] = before


# --- what is found ---


def change(frames: Frames, at: int, path: str, value: Any) -> None:
    *keys, last = path.split("/")
    place = frames[at][1]
    for key in keys:
        place = place[int(key) if isinstance(place, list) else key]
    if value is KeyError:
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value


CALL = "choices/0/delta/tool_calls/0"
LAXITIES: list[tuple[str, int, str, Any]] = [
    ("openai-chat", 1, "choices/0/delta/role", "assistant"),
    ("openai-chat", 3, f"{CALL}/function/name", ["f"]),
    ("openai-chat", 3, f"{CALL}/id", [1]),
    ("openai-chat", -2, "usage/prompt_tokens", -1),
    ("ollama", 3, "message/tool_calls/0/id", "call_a"),
    ("ollama", 3, "message/tool_calls", None),
    ("ollama", 1, "model", "another"),
    ("ollama", 1, "created_at", "zzz"),
    ("ollama", -1, "done_reason", "banana"),
    ("ollama", -1, "eval_count", -1),
    ("qwen", 4, f"{CALL}/function/name", ""),
    ("qwen", 4, f"{CALL}/id", KeyError),
    ("qwen", 4, f"{CALL}/index", "0"),
    ("qwen", -3, "usage/input_tokens", "many"),
    ("gemini", -1, "usageMetadata/totalTokenCount", -1),
    ("gemini", -1, "usageMetadata/promptTokenCount", True),
    ("gemini", -1, "candidates/0/finishReason", ["STOP"]),
    ("gemini", 3, "candidates/0/content/parts/0/functionCall/id", ["x"]),
    ("anthropic", -2, "delta/stop_sequence", [1]),
    ("anthropic", -2, "delta/stop_sequence", "###"),
    ("anthropic", -2, "delta/stop_reason", {}),
    ("anthropic", -2, "usage/output_tokens", None),
    ("anthropic", 0, "message/usage/input_tokens", None),
    ("openai-responses", 0, "response/instructions", KeyError),
    ("openai-responses", 0, "response/temperature", "warm"),
    ("openai-responses", 0, "response/metadata", []),
    ("openai-responses", 0, "response/text", "text"),
    ("openai-responses", -1, "response/usage/input_tokens", -1),
    ("openai-responses", -1, "response/usage/output_tokens_details/reasoning_tokens", True),
    ("openai-responses", 14, "item/status", "completed"),
]


@pytest.mark.parametrize(("name", "at", "path", "value"), LAXITIES)
def test_what_a_strict_client_would_stumble_over_is_found(
    name: str, at: int, path: str, value: Any
) -> None:
    api = apis.get(name)
    frames = frames_of(api, message())
    assert api.check(wire(api, frames)) == []
    change(frames, at, path, value)
    assert api.check(wire(api, frames)) != []


@pytest.mark.parametrize("key", ["created", "model", "id"])
def test_a_field_that_no_chunk_has_is_missed(key: str) -> None:
    api = apis.get("openai-chat")
    frames = frames_of(api, message())
    for _, data in frames[:-1]:
        del data[key]
    assert api.check(wire(api, frames)) != []


def test_arguments_of_what_is_no_call_are_found() -> None:
    api = apis.get("openai-responses")
    frames = frames_of(api, message(calls=False))
    at = next(n for n, (_, event) in enumerate(frames) if "output_text.delta" in event["type"])
    kind = "response.function_call_arguments.delta"
    frames[at] = (f"event: {kind}\n", {**frames[at][1], "type": kind})
    assert "function_call_arguments of a message" in api.check(wire(api, frames))


# --- what is lawful ---


@pytest.mark.parametrize("vector", vectors("providers.jsonl"), ids=lambda v: str(v["id"]))
def test_a_recorded_stream_that_ends_well_is_lawful(vector: dict[str, Any]) -> None:
    if vector["expect"]["error"] is None:
        found = apis.get(vector["provider"]).check(vector["sse"].encode())
        assert found == EXPECTED.get(vector["id"], [])


@pytest.mark.parametrize("vector", vectors("qwen_sse.jsonl"), ids=lambda v: str(v["id"]))
def test_a_recorded_stream_of_qwen_that_ends_is_lawful(vector: dict[str, Any]) -> None:
    if vector["expect"]["finish_reason"] is not None:
        assert apis.get("qwen").check(vector["upstream_sse"].encode()) == []


@pytest.mark.parametrize("id_", ["anthropic-refusal", "google-safety", "google-prompt-blocked"])
def test_a_recorded_refusal_is_lawful(id_: str) -> None:
    (vector,) = [vector for vector in vectors("providers.jsonl") if vector["id"] == id_]
    assert apis.get(vector["provider"]).check(vector["sse"].encode()) == []


def test_the_reason_to_stop_may_come_again_with_more_tokens() -> None:
    api = apis.get("anthropic")
    frames = frames_of(api, message())
    again = json.loads(json.dumps(frames[-2]))
    frames.insert(-1, (again[0], again[1]))
    assert api.check(wire(api, frames)) == []
    again[1]["delta"]["stop_reason"] = "max_tokens"
    frames[-2] = (again[0], again[1])
    assert api.check(wire(api, frames)) == ["there are two stop reasons"]


def test_a_candidate_may_say_nothing() -> None:
    api = apis.get("gemini")
    frames = frames_of(api, message(calls=False))
    del frames[-1][1]["candidates"][0]["content"]
    assert api.check(wire(api, frames)) == []
