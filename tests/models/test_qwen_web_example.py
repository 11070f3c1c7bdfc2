"""From the bytes of chat.qwen.ai to the chunks of a client: the example and the vectors."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from models.loopback_servers import CUT, Reply
from models.qwen_server import (
    QwenServer,
    answered,
    asking,
    asks,
    message_of,
)
from penstock import apis
from penstock.events import Event, Failed, ToolCallDelta
from penstock.messages import Text
from penstock.models.http import NO_RETRY, HTTPCall, Report, Transport
from penstock.models.http.aiohttp_transport import AiohttpTransport
from penstock.models.http.transport import HTTPResponse as HTTPAnswer
from penstock.models.qwen_sessions import MemorySessions
from penstock.tools import read_tools


def as_chunks(events: list[Event]) -> list[Any]:
    """Return what an OpenAI client sees, with neighbouring text made one."""
    encoder = apis.get("openai-chat").encoder(model="qwen3-max", id="chatcmpl-x", created=7)
    data = b"".join(encoder.encode(event) for event in events) + encoder.finish()
    assert apis.check("openai-chat", data) == []
    lines = [line[6:] for line in data.decode().split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return _merged([json.loads(line) for line in lines[:-1]])


def _merged(chunks: list[Any]) -> list[Any]:
    merged: list[Any] = []
    for chunk in chunks:
        for choice in chunk["choices"]:
            choice.pop("logprobs", None)
        before = merged[-1]["choices"] if merged else []
        if before and chunk["choices"] and _is_text(before[0]) and _is_text(chunk["choices"][0]):
            before[0]["delta"]["content"] += chunk["choices"][0]["delta"]["content"]
        else:
            merged.append(chunk)
    return merged


def _is_text(choice: Mapping[str, Any]) -> bool:
    return "content" in choice["delta"] and choice["finish_reason"] is None


# --- the flow of the example ---

WITH_CALL = """\
data: {"response.created":{"chat_id":"chat-123","parent_id":"parent-456","response_id":"resp-789"}}

data: {"choices":[{"delta":{"role":"assistant","content":"I'll ","phase":"answer","status":"typing"}}],"usage":{"input_tokens":25,"output_tokens":1}}

data: {"choices":[{"delta":{"content":"read "}}]}

data: {"choices":[{"delta":{"content":"the "}}]}

data: {"choices":[{"delta":{"content":"file.\\n\\n"}}]}

data: {"choices":[{"delta":{"content":"<read>\\n"}}]}

data: {"choices":[{"delta":{"content":"<filePath>/home/user/package.json</filePath>\\n"}}]}

data: {"choices":[{"delta":{"content":"</read>"}}]}

data: {"choices":[{"delta":{"content":"","phase":"answer","status":"finished"}}]}

data: [DONE]

"""  # noqa: E501 - the lines of the document
COUNTED = WITH_CALL.replace(  # its answer has tokens that its chunks leave out
    '{"choices":[{"delta":{"content":"</read>"}}]}',
    '{"choices":[{"delta":{"content":"</read>"}}],"usage":{"input_tokens":25,"output_tokens":15}}',
)
WITHOUT_CALL = """\
data: {"choices":[{"delta":{"content":"The package.json file contains 5 dependencies."}}]}
data: [DONE]
"""


def verbatim(stream: str) -> QwenServer:
    return QwenServer(Reply([stream.encode()]))


def test_the_flow_of_the_example_gives_its_chunks() -> None:
    chunks = as_chunks(answered(verbatim(COUNTED), asks()))
    head = {
        "id": "chatcmpl-x",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "qwen3-max",
    }
    call = {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "read", "arguments": ""},
    }
    arguments = {"index": 0, "function": {"arguments": '{"filePath":"/home/user/package.json"}'}}
    deltas = [
        ({"role": "assistant", "content": "I'll read the file."}, None),
        ({"tool_calls": [call]}, None),
        ({"tool_calls": [arguments]}, None),
        ({}, "tool_calls"),
    ]
    wanted: list[Any] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        for delta, finish in deltas
    ]
    *rest, usage = chunks
    assert rest == wanted
    assert (usage["choices"], usage["id"]) == ([], "chatcmpl-x")
    counted = {"prompt_tokens": 25, "completion_tokens": 15, "total_tokens": 40}
    assert counted.items() <= usage["usage"].items()


def test_the_complete_answer_of_the_example_is_what_its_log_holds() -> None:
    message = message_of(answered(verbatim(COUNTED), asks()))
    whole = apis.get("openai-chat").write_response(message, created=7)
    (choice,) = whole["choices"]
    assert (whole["object"], whole["model"]) == ("chat.completion", "qwen3-max")
    assert (choice["message"]["content"], choice["finish_reason"]) == (
        "I'll read the file.",
        "tool_calls",
    )
    (call,) = choice["message"]["tool_calls"]
    assert call["function"] == {
        "name": "read",
        "arguments": '{"filePath":"/home/user/package.json"}',
    }
    assert whole["usage"]["total_tokens"] == 40


def test_the_bytes_of_the_example_as_they_stand_count_what_they_count() -> None:
    usage = as_chunks(answered(verbatim(WITH_CALL), asks()))[-1]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (25, 1)


def test_the_example_without_a_call_is_text_and_invents_no_usage() -> None:
    text, end = as_chunks(answered(verbatim(WITHOUT_CALL), asks()))
    said = {"role": "assistant", "content": "The package.json file contains 5 dependencies."}
    assert text["choices"][0]["delta"] == said
    assert end["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]


@pytest.mark.parametrize(
    "text",
    [
        "<read><filePath>/test.js</read>",
        "Let me read it.\n\n<read>\n<filePath>/test",
        "Use <write><x>1</x></write> there.",
    ],
    ids=["malformed", "cut", "unknown"],
)
def test_what_is_no_call_is_text_and_ends_with_stop(text: str) -> None:
    chunks = as_chunks(answered(QwenServer(text), asks()))
    assert chunks[0]["choices"][0]["delta"]["content"] == text
    assert chunks[1]["choices"][0]["finish_reason"] == "stop"


def test_all_calls_of_an_answer_count_and_the_text_behind_them() -> None:
    text = "One.\n<read><filePath>a</filePath></read>\n<read><filePath>b</filePath></read>\nDone."
    message = message_of(answered(QwenServer(text), asks()))
    assert [call.arguments["filePath"] for call in message.tool_calls] == ["a", "b"]
    assert [block.text for block in message.content if isinstance(block, Text)] == ["One.", "Done."]


def test_arguments_come_in_pieces_where_that_is_wanted() -> None:
    text = "<read><filePath>/a/very/long/path/to/some/file</filePath></read>"
    whole, live = (answered(QwenServer(text), asks(), arguments=mode) for mode in ("whole", "live"))
    pieces = [event.arguments for event in live if isinstance(event, ToolCallDelta)]
    assert len(pieces) > 2
    assert not [event for event in whole if isinstance(event, ToolCallDelta)]
    assert message_of(whole).tool_calls == message_of(live).tool_calls
    assert "".join(event.raw for event in whole) == "".join(event.raw for event in live) == text


async def test_a_stream_that_is_cut_anywhere_is_told_honestly_and_kept_only_when_whole() -> None:
    data = COUNTED.encode()
    finished = data.index(b'"finished"')
    cuts = range(0, len(data), 17)
    sessions = MemorySessions()
    server = QwenServer(*(Reply([data[:at], CUT]) for at in cuts), "never")
    ends = []
    async with asking(server, retry=NO_RETRY, sessions=sessions) as (model, _upstream):
        for at in cuts:
            (*_, end) = [event async for event in model.stream(asks())]
            ends.append((at, end, len(sessions)))
    kept = 0
    for at, end, count in ends:
        if isinstance(end, Failed):
            assert end.error.kind in ("truncated", "transport")
            assert count == kept
            assert at < len(data) - 10
        else:
            assert at > finished
            assert count == kept + 1
        kept = count
    assert kept > 0


# --- the vectors ---

LINES = (Path(__file__).parents[1] / "vectors" / "qwen_sse.jsonl").read_text(encoding="utf-8")
VECTORS = [json.loads(line) for line in LINES.splitlines()]
EVERY = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["id"]))


class ByteByByte:
    """Returns every byte in its own read."""

    def __init__(self) -> None:
        self._transport = AiohttpTransport()

    async def send(self, call: HTTPCall) -> HTTPAnswer:
        return _Split(await self._transport.send(call))

    async def close(self) -> None:
        await self._transport.close()


class _Split:
    def __init__(self, answer: HTTPAnswer) -> None:
        self._answer = answer
        self.status, self.headers = answer.status, answer.headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._answer:
            for at in range(len(data)):
                yield data[at : at + 1]

    async def aclose(self) -> None:
        await self._answer.aclose()


@EVERY
@pytest.mark.parametrize("size", [1, 1 << 20], ids=["per byte", "whole"])
async def test_a_vector_passes_end_to_end(vector: dict[str, Any], size: int) -> None:
    data, expect = vector["upstream_sse"].encode(), vector["expect"]
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    reports: list[Report] = []

    async def main() -> list[Event]:
        transport: Transport = AiohttpTransport() if size > 1 else ByteByByte()
        options: dict[str, Any] = {"transport": transport, "on_report": reports.append}
        async with asking(QwenServer(Reply(list(pieces))), **options) as (model, _upstream):
            request = asks("Go on", tools=read_tools(vector["request_tools"]))
            try:
                return [event async for event in model.stream(request)]
            finally:
                await transport.close()

    events = await main()
    message = message_of(events)
    content = expect["content"] or ""
    match vector["content_mode"]:
        case "exact":
            assert message.text == content
        case "strip":
            assert message.text.strip() == content.strip()
        case "startswith":
            assert message.text.startswith(content)
    found = [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls]
    assert found == expect["tool_calls"]
    assert message.thinking.strip() == (expect["reasoning"] or "").strip()
    if expect["finish_reason"] is None:
        assert isinstance(events[-1], Failed)
        assert events[-1].error.kind == "truncated"
        return
    *_, last = as_chunks(events)
    if expect["usage"] is None:
        assert last["choices"][0]["finish_reason"] == expect["finish_reason"]
    else:
        assert expect["usage"].items() <= last["usage"].items()
    session = dict(reports[0].session)
    assert session.pop("id").startswith("qs_")
    assert session == expect["session"]
