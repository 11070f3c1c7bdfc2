"""Whole chat completions, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock import _json
from penstock._json import without_lone_surrogates
from penstock.apis.encoder import Ending, IdMaker, whole_ending_of, writable
from penstock.apis.openai_chat import tables
from penstock.messages import AssistantMessage, Opaque


def read_response(data: Mapping[str, Any]) -> AssistantMessage:
    """Read a whole answer, by the rules of the stream: one chunk that says it all."""
    from penstock.apis.openai_chat.decode import Decoder  # noqa: PLC0415 - it reads bodies by us

    return Decoder().read_whole(data)


def write_response(message: AssistantMessage, *, created: int = 0) -> dict[str, Any]:
    """Write a whole answer; `UsageError` for one that failed.

    A call that is not complete is omitted; the choice then has an `error`, as OpenRouter's have.
    """
    ending, flaw = whole_ending_of(message)
    message = writable(message)
    answer = {
        "id": message.id or "chatcmpl-1",
        "object": "chat.completion",
        "created": created,
        "model": message.model,
        "choices": [
            {
                "index": 0,
                "message": {**write_message(message), **reason_of(message, ending)},
                "logprobs": None,
                "finish_reason": tables.FINISH_REASONS[ending],
                **({} if flaw is None else {"error": tables.write_error(flaw)}),
            }
        ],
        "usage": tables.write_usage(message.usage),
    }
    return without_lone_surrogates(answer)


def reason_of(message: AssistantMessage, ending: Ending) -> dict[str, Any]:
    """Write why the model refused, where it did: the end of the answer has it."""
    if ending != "refusal" or message.error is None or not message.error.message:
        return {}
    return {"refusal": message.error.message}


def write_message(message: AssistantMessage) -> dict[str, Any]:
    """Write the blocks of *message*; calls that are not complete are omitted."""
    calls = [call for call in message.tool_calls if call.complete]
    fields: dict[str, Any] = {"role": "assistant", "content": message.text or None, "refusal": None}
    if message.thinking:
        fields["reasoning_content"] = message.thinking
    ids = IdMaker()
    if calls:
        fields["tool_calls"] = [
            {
                "id": ids.give(call.id),
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": _json.encode_wire(call.arguments).decode(),
                },
                **signed(call.signature),
            }
            for call in calls
        ]
    for block in message.content:
        if isinstance(block, Opaque) and block.provider == tables.NAME:
            fields |= block.data if isinstance(block.data, dict) else {}
    return fields


def signed(signature: str) -> dict[str, Any]:
    """Write a call's signature where Gemini's own chat endpoint has it."""
    if not signature:
        return {}
    return {"extra_content": {"google": {"thought_signature": signature}}}
