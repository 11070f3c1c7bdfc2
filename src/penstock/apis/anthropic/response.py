"""Whole responses, and the blocks that requests and responses share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock._json import without_lone_surrogates
from penstock.apis.anthropic import tables
from penstock.apis.anthropic.opaque import (
    find_block,
    find_caller,
    find_citations,
    find_message_fields,
    find_stop_sequence,
)
from penstock.apis.encoder import IdMaker, find_whole_ending, with_writable_calls
from penstock.messages import AssistantMessage, Content, Opaque, Text, Thinking


def read_response(data: Mapping[str, Any]) -> AssistantMessage:
    """Read a whole response by the rules of the stream."""
    from penstock.apis.anthropic.decode import Decoder  # noqa: PLC0415 - imports this module

    kind = "error" if data.get("error") else "message"
    return Decoder().read_whole({"type": kind, **data})


def write_response(message: AssistantMessage, *, created: int = 0) -> dict[str, Any]:
    """Write a whole response; raise `UsageError` for a failed one.

    Incomplete calls are omitted.
    """
    del created  # The API has no time.
    ending, _ = find_whole_ending(message)
    message = with_writable_calls(message)
    parts = [block for block in message.content if isinstance(block, Opaque)]
    stop_sequence = next(filter(None, map(find_stop_sequence, parts)), None)
    response: dict[str, Any] = {
        "id": message.id or "msg_1",
        "type": "message",
        "role": "assistant",
        "model": message.model,
        "content": write_blocks(message.content, IdMaker(tables.CALL_ID, "toolu_").make),
        **tables.write_stop(ending, message.raw_stop_reason, message.error, stop_sequence),
        "usage": tables.write_usage(message.usage),
    }
    for part in parts:
        response |= find_message_fields(part)
    return without_lone_surrogates(response)


def write_blocks(
    blocks: Iterable[Content],
    make_id: Callable[[str], str],
    more: Callable[[Content], Mapping[str, Any]] = lambda _: {},
) -> list[dict[str, Any]]:
    """Write the blocks of an assistant message.

    *make_id* returns an id of a call that the API accepts; *more* returns the additional fields
    that a client gave a block.

    What the API refuses or cannot express is omitted: text of white space only, reasoning without
    text and signature, incomplete calls, blocks of other providers.
    """
    written: list[dict[str, Any]] = []
    caller: dict[str, Any] | None = None
    for block in blocks:
        by, caller = caller, None
        match block:
            case Text():
                if block.text.strip():
                    written.append({**more(block), "type": "text", "text": block.text})
            case Thinking():
                if block.text or block.signature:
                    written.append(write_thinking(block))
            case Opaque():
                caller = find_caller(block)
                _add_opaque(block, written)
            case _ if block.complete:
                id_, arguments = make_id(block.id), block.arguments
                call = {"type": "tool_use", "id": id_, "name": block.name, "input": arguments}
                written.append({**more(block), **call, **({"caller": by} if by else {})})
    return written


def write_thinking(block: Thinking) -> dict[str, Any]:
    """Write a reasoning block; the API requires a signature, even an empty one."""
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}


def _add_opaque(block: Opaque, written: list[dict[str, Any]]) -> None:
    citations, data = find_citations(block), find_block(block)
    if citations and written and written[-1]["type"] == "text":
        written[-1]["citations"] = citations
    elif data is not None:
        written.append(data)
