"""Whole chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock import _json
from penstock._json import without_lone_surrogates
from penstock.apis.encoder import Ending, IdMaker, find_whole_ending, with_writable_calls
from penstock.apis.openai_chat import tables
from penstock.messages import AssistantMessage, Opaque


def read_response(data: Mapping[str, Any]) -> AssistantMessage:
    """Read a whole response by the rules of the stream, as one chunk."""
    from penstock.apis.openai_chat.decode import Decoder  # noqa: PLC0415 - imports this module

    return Decoder().read_whole(data)


def write_response(message: AssistantMessage, *, created: int = 0) -> dict[str, Any]:
    """Write a whole response; raise `UsageError` for a failed one.

    Incomplete calls are omitted; the choice then has an `error`, as OpenRouter's have.
    """
    ending, flaw = find_whole_ending(message)
    message = with_writable_calls(message)
    response = {
        "id": message.id or "chatcmpl-1",
        "object": "chat.completion",
        "created": created,
        "model": message.model,
        "choices": [
            {
                "index": 0,
                "message": {**write_message(message), **refusal_field(message, ending)},
                "logprobs": None,
                "finish_reason": tables.FINISH_REASONS[ending],
                **({} if flaw is None else {"error": tables.write_error(flaw)}),
            }
        ],
        "usage": tables.write_usage(message.usage),
    }
    return without_lone_surrogates(response)


def refusal_field(message: AssistantMessage, ending: Ending) -> dict[str, Any]:
    """Return the field with the reason of a refusal, if *ending* is one."""
    if ending != "refusal" or message.error is None or not message.error.message:
        return {}
    return {"refusal": message.error.message}


def write_message(message: AssistantMessage) -> dict[str, Any]:
    """Write *message*; incomplete calls are omitted."""
    calls = [call for call in message.tool_calls if call.complete]
    fields: dict[str, Any] = {"role": "assistant", "content": message.text or None, "refusal": None}
    if message.thinking:
        fields["reasoning_content"] = message.thinking
    ids = IdMaker()
    if calls:
        fields["tool_calls"] = [
            {
                "id": ids.make(call.id),
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": _json.encode_wire(call.arguments).decode(),
                },
                **signature_field(call.signature),
            }
            for call in calls
        ]
    for block in message.content:
        if isinstance(block, Opaque) and block.provider == tables.NAME:
            fields |= block.data if isinstance(block.data, dict) else {}
    return fields


def signature_field(signature: str) -> dict[str, Any]:
    """Return the field with a call's signature, as Gemini's OpenAI endpoint has it."""
    if not signature:
        return {}
    return {"extra_content": {"google": {"thought_signature": signature}}}
