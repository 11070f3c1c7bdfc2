"""From the bytes of chat.qwen.ai to a client's chunks and to the record, through the gateway.

The first part is the example that this upstream was described by, its input as it stands there;
then its two broken calls, its vectors, its refusals, and the order in which things are written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.qwen_scene import CHAT, MODEL, READ, Scene, asks, gateway, record_of, rows_of
from gateway.serving import DEADLINE, Answer, Served, Stage, ask, asking, said, until
from models.loopback_servers import CUT, Reply
from models.qwen_server import (
    COOKIE,
    GUARDED,
    IN_STREAM_ERROR,
    RATE_LIMITED,
    TOKEN,
    UMID,
    as_json,
    challenge,
    delta,
    refused,
)
from penstock import apis

EXAMPLE = r"""
# Chunk 1: Metadata
data: {"response.created":{"chat_id":"chat-123","parent_id":"parent-456","response_id":"resp-789"}}

# Chunk 2: Start of text
data: {"choices":[{"delta":{"role":"assistant","content":"I'll ","phase":"answer","status":"typing"}}],"usage":{"input_tokens":25,"output_tokens":1}}

# Chunk 3: More text
data: {"choices":[{"delta":{"content":"read "}}]}

# Chunk 4: More text
data: {"choices":[{"delta":{"content":"the "}}]}

# Chunk 5: End of text
data: {"choices":[{"delta":{"content":"file.\n\n"}}]}

# Chunk 6: Start of XML
data: {"choices":[{"delta":{"content":"<read>\n"}}]}

# Chunk 7: XML parameter
data: {"choices":[{"delta":{"content":"<filePath>/home/user/package.json</filePath>\n"}}]}

# Chunk 8: End of XML
data: {"choices":[{"delta":{"content":"</read>"}}]}

# Chunk 9: Finish marker
data: {"choices":[{"delta":{"content":"","phase":"answer","status":"finished"}}]}

data: [DONE]

"""  # noqa: E501 - the lines of the document
COUNTED = EXAMPLE.replace(  # its answer has tokens that its chunks leave out
    '"</read>"}}]', '"</read>"}}],"usage":{"input_tokens":25,"output_tokens":15}'
)
WITHOUT_CALL = """
data: {"choices":[{"delta":{"content":"The package.json file contains 5 dependencies."}}]}
data: [DONE]
"""
ARGUMENTS = '{"filePath":"/home/user/package.json"}'
COUNTS = {"prompt_tokens": 25, "completion_tokens": 15, "total_tokens": 40}
ZEROS = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
QUESTION = "Read the package.json file"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


@pytest.fixture(scope="module")
def scene(stage: Stage) -> Scene:
    return Scene(stage)


@pytest.fixture(scope="module")
def served(stage: Stage, scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Served:
    return gateway(stage, scene, tmp_path_factory.mktemp("gateway"))


def streamed(served: Served, **more: Any) -> Answer:
    answer = ask(served, CHAT, asks(QUESTION, **more))
    assert answer.status == 200, answer.body
    return answer


def chunks_of(answer: Answer) -> list[dict[str, Any]]:
    """Return the chunks of a valid stream, with neighbouring text joined."""
    assert apis.check("openai-chat", answer.body) == []
    *frames, done, rest = answer.body.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    merged: list[dict[str, Any]] = []
    for chunk in (json.loads(frame.removeprefix("data: ")) for frame in frames):
        for choice in chunk["choices"]:
            choice.pop("logprobs")
        if merged and _is_text(merged[-1]) and _is_text(chunk):
            before = merged[-1]["choices"][0]["delta"]
            before["content"] += chunk["choices"][0]["delta"]["content"]
        else:
            merged.append(chunk)
    return merged


def _is_text(chunk: dict[str, Any]) -> bool:
    return any("content" in choice["delta"] for choice in chunk["choices"])


def as_told(answer: Answer, *choices: tuple[dict[str, Any], str | None]) -> list[dict[str, Any]]:
    """Return the chunks that the document shows: deltas, and why it ended."""
    (created,) = {chunk["created"] for chunk in chunks_of(answer)}
    head = {
        "id": f"chatcmpl-{answer.headers['x-request-id']}",
        "object": "chat.completion.chunk",
        "created": created,
        "model": MODEL,
    }
    return [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        for delta, finish in choices
    ]


def whole_of(answer: Answer, message: dict[str, Any], finish: str) -> dict[str, Any]:
    """Return the complete answer that the document stores, without its tokens."""
    stream = chunks_of(answer)[0]
    return {
        **{name: stream[name] for name in ("id", "created", "model")},
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "refusal": None, **message},
                "logprobs": None,
                "finish_reason": finish,
            }
        ],
    }


# --- the example ---


def test_the_example_comes_out_as_its_chunks_and_its_record(scene: Scene, served: Served) -> None:
    scene.says(Reply([COUNTED.encode()]))
    answer = streamed(served)
    *chunks, usage = chunks_of(answer)
    call = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": ""}}
    assert chunks == as_told(
        answer,
        ({"role": "assistant", "content": "I'll read the file."}, None),
        ({"tool_calls": [{"index": 0, **call}]}, None),
        ({"tool_calls": [{"index": 0, "function": {"arguments": ARGUMENTS}}]}, None),
        ({}, "tool_calls"),
    )
    assert usage["choices"] == []
    assert COUNTS.items() <= usage["usage"].items()

    record = record_of(served, answer)
    stored = record["response"]
    assert COUNTS.items() <= stored.pop("usage").items()
    call["function"] = {"name": "read", "arguments": ARGUMENTS}
    message = {"content": "I'll read the file.", "tool_calls": [call]}
    assert stored == whole_of(answer, message, "tool_calls")
    assert (record["state"], record["finish"], record["calls"]) == ("done", "tool_use", 1)
    assert (record["input_tokens"], record["output_tokens"]) == (25, 15)
    assert record["request"] == asks(QUESTION)
    assert record["raw"][record["notes"]["response_starts"][-1] :] == COUNTED
    session = ask(served, f"/v1/sessions/{record['session']}").json
    assert (session["chat_id"], session["parent_id"]) == ("chat-123", "parent-456")
    assert session["data"]["response_id"] == "resp-789"


def test_the_bytes_of_the_example_as_they_stand_count_what_they_count(
    scene: Scene, served: Served
) -> None:
    scene.says(Reply([EXAMPLE.encode()]))
    usage = chunks_of(streamed(served))[-1]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (25, 1)


def test_the_example_without_a_call_is_text_and_invents_no_usage(
    scene: Scene, served: Served
) -> None:
    scene.says(Reply([WITHOUT_CALL.encode()]))
    answer = streamed(served)
    text = "The package.json file contains 5 dependencies."
    assert chunks_of(answer) == as_told(
        answer, ({"role": "assistant", "content": text}, None), ({}, "stop")
    )
    stored = record_of(served, answer)["response"]
    assert ZEROS.items() <= stored.pop("usage").items()
    assert stored == whole_of(answer, {"content": text}, "stop")


def test_an_answer_that_is_only_a_call_has_no_content(scene: Scene, served: Served) -> None:
    scene.says("<read>\n<filePath>a</filePath>\n</read>")
    answer = streamed(served)
    *chunks, usage = chunks_of(answer)
    assert not [chunk for chunk in chunks if chunk["choices"][0]["delta"].get("content")]
    assert usage["usage"]["total_tokens"] == 35
    stored = record_of(served, answer)["response"]
    (choice,) = stored["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (None, "tool_calls")
    assert stored["usage"]["total_tokens"] == 35


@pytest.mark.parametrize(
    "text",
    ["<read><filePath>/test.js</read>", "Let me read it.\n\n<read>\n<filePath>/test"],
    ids=["malformed", "partial"],
)
def test_a_call_that_is_none_is_text_and_ends_with_stop(
    scene: Scene, served: Served, text: str
) -> None:
    scene.says(text)
    answer = streamed(served)
    *chunks, _usage = chunks_of(answer)
    assert chunks == as_told(answer, ({"role": "assistant", "content": text}, None), ({}, "stop"))
    record = record_of(served, answer)
    (choice,) = record["response"]["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (text, "stop")
    assert (record["calls"], record["finish"]) == (0, "stop")


def test_an_answer_in_one_piece_is_the_one_that_a_stream_is_logged_as(
    scene: Scene, served: Served
) -> None:
    scene.says(Reply([COUNTED.encode()]))
    whole = ask(served, CHAT, asks(QUESTION, stream=False))
    stored = record_of(served, whole)["response"]
    assert whole.json == stored
    streamed_one = record_of(served, streamed(served))["response"]
    for each in (stored, streamed_one):
        del each["id"], each["created"]
    assert stored == streamed_one


# --- the other APIs of clients ---


def test_a_client_of_messages_is_told_the_same(scene: Scene, served: Served) -> None:
    scene.says(Reply([COUNTED.encode()]))
    tool = {**READ, "input_schema": READ["parameters"]}
    del tool["parameters"]
    question = {"role": "user", "content": QUESTION}
    body = {"model": MODEL, "max_tokens": 99, "messages": [question], "tools": [tool]}
    answer = ask(served, "/v1/messages", {**body, "stream": True})
    message = said("anthropic", answer.body)
    assert message.text == "I'll read the file."
    assert [(call.name, call.arguments) for call in message.tool_calls] == [
        ("read", json.loads(ARGUMENTS))
    ]
    stored = record_of(served, answer)["response"]
    assert (stored["type"], stored["stop_reason"]) == ("message", "tool_use")
    assert stored["usage"]["output_tokens"] == 15
    assert ask(served, "/v1/messages", body).json["stop_reason"] == "tool_use"


def test_a_client_of_responses_is_told_the_same(scene: Scene, served: Served) -> None:
    scene.says(Reply([COUNTED.encode()]))
    body = {"model": MODEL, "input": QUESTION, "tools": [{"type": "function", **READ}]}
    answer = ask(served, "/v1/responses", {**body, "stream": True})
    message = said("openai-responses", answer.body)
    assert message.text == "I'll read the file."
    assert [call.arguments for call in message.tool_calls] == [json.loads(ARGUMENTS)]
    stored = record_of(served, answer)["response"]
    assert (stored["object"], stored["status"]) == ("response", "completed")
    shown = ask(served, f"/v1/responses/{stored['id']}").json
    assert shown == stored


# --- the vectors ---

LINES = (Path(__file__).parents[1] / "vectors" / "qwen_sse.jsonl").read_text(encoding="utf-8")
VECTORS = [json.loads(line) for line in LINES.splitlines()]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["id"]))
@pytest.mark.parametrize("size", [1, 1 << 20], ids=["per byte", "whole"])
def test_a_vector_passes_end_to_end(
    scene: Scene, served: Served, vector: dict[str, Any], size: int
) -> None:
    data, expect = vector["upstream_sse"].encode(), vector["expect"]
    scene.says(Reply([data[at : at + size] for at in range(0, len(data), size)]))
    answer = streamed(served, tools=vector["request_tools"])
    message = said("openai-chat", answer.body)
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
    record = record_of(served, answer)
    if expect["finish_reason"] is None:
        assert message.error is not None
        assert (record["state"], record["error_kind"]) == ("failed", "truncated")
        return
    stored = record["response"]
    assert stored["choices"][0]["finish_reason"] == expect["finish_reason"]
    if expect["usage"] is None:
        assert ZEROS.items() <= stored["usage"].items()
        assert all(chunk["choices"] for chunk in chunks_of(answer)), "no usage is invented"
    else:
        assert expect["usage"].items() <= chunks_of(answer)[-1]["usage"].items()
        assert expect["usage"].items() <= stored["usage"].items()


# --- what goes wrong ---


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (RATE_LIMITED, 429),
        (GUARDED, 403),
        (challenge(), 403),
        (challenge(status=503), 403),
        (refused("Weird", "who knows"), 502),
        (as_json({"hello": 1}), 502),
        (Reply([b'data: {"error": {"code": "RateLimited", "details": "later"}}\n\n']), 429),
    ],
    ids=["limit", "guard", "challenge", "challenge 503", "unknown", "no stream", "first frame"],
)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_refusal_before_the_first_byte_is_a_status(
    scene: Scene, served: Served, reply: Reply, status: int, *, stream: bool
) -> None:
    scene.says(reply)
    answer = ask(served, CHAT, asks(QUESTION, stream=stream))
    assert answer.status == status, answer.body
    assert answer.json["error"]["message"]
    record = record_of(served, answer)
    assert (record["state"], record["status"]) == ("failed", status)
    assert record["session"] == ""
    told = json.dumps(record) + answer.body.decode()
    assert not [secret for secret in (TOKEN, COOKIE, UMID) if secret in told]


def test_a_chat_that_cannot_be_begun_is_a_status_too(scene: Scene, served: Served) -> None:
    scene.says("never", creations=[RATE_LIMITED])
    answer = ask(served, CHAT, asks(QUESTION))
    assert answer.status == 429
    assert int(answer.headers["retry-after"]) == 3 * 3600


@pytest.mark.parametrize("fault", [IN_STREAM_ERROR, CUT], ids=["error", "cut"])
def test_what_breaks_in_the_stream_is_told_in_the_stream_and_kept_by_nobody(
    scene: Scene, served: Served, fault: bytes | str
) -> None:
    scene.says([delta("Half a "), delta("sentence"), fault])
    before = len(ask(served, "/v1/sessions").json["data"])
    answer = streamed(served)
    message = said("openai-chat", answer.body)
    assert message.text == "Half a sentence"
    assert message.error is not None
    record = record_of(served, answer)
    assert (record["state"], record["response"]) == ("failed", None)
    assert len(ask(served, "/v1/sessions").json["data"]) == before


# --- the order in which things are written ---


def test_place_and_hash_are_committed_before_the_end_goes_out_and_then_the_record(
    stage: Stage, scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine a commit may take longer than an answer waits; this one waits for it.
    monkeypatch.setattr("penstock.gateway.qwen_sessions.COMMIT_SECONDS", DEADLINE)
    served = gateway(stage, scene, tmp_path)
    scene.says(Reply([COUNTED.encode()]))
    with asking(served, CHAT, asks(QUESTION)) as response:
        lines = iter(response.readline, b"")
        seen = next(line for line in lines if b'"finish_reason":"tool_calls"' in line)
        sessions = rows_of(served.database, "SELECT chat_id, parent_id, hash, used FROM sessions")
        rest = b"".join(lines)
    assert seen
    ((chat, parent, digest, committed),) = sessions
    assert (chat, parent) == ("chat-123", "parent-456")
    assert len(digest) > 20
    assert rest.endswith(b"data: [DONE]\n\n")
    ended = "SELECT created + duration FROM requests WHERE state = 'done'"
    until(lambda: rows_of(served.database, ended))
    ((logged,),) = rows_of(served.database, ended)
    assert committed <= logged
