"""Whole messages, both ways, and the blocks that requests and answers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock._json import without_lone_surrogates
from penstock.apis.anthropic import tables
from penstock.apis.anthropic.opaque import (
    block_of,
    caller_of,
    citations_of,
    message_fields_of,
    stop_sequence_of,
)
from penstock.apis.encoder import IdMaker, whole_ending_of, writable
from penstock.messages import AssistantMessage, Content, Opaque, Text, Thinking


def read_response(data: Mapping[str, Any]) -> AssistantMessage:
    """Read a whole answer, by the rules of the stream."""
    from penstock.apis.anthropic.decode import Decoder  # noqa: PLC0415 - it reads bodies by us

    kind = "error" if data.get("error") else "message"
    return Decoder().read_whole({"type": kind, **data})


def write_response(message: AssistantMessage, *, created: int = 0) -> dict[str, Any]:
    """Write a whole answer; `UsageError` for one that failed.

    Calls that are not complete are omitted.
    """
    del created  # The API gives no time.
    ending, _ = whole_ending_of(message)
    message = writable(message)
    parts = [block for block in message.content if isinstance(block, Opaque)]
    stop_sequence = next(filter(None, map(stop_sequence_of, parts)), None)
    answer: dict[str, Any] = {
        "id": message.id or "msg_1",
        "type": "message",
        "role": "assistant",
        "model": message.model,
        "content": write_blocks(message.content, IdMaker(tables.CALL_ID, "toolu_").give),
        **tables.write_stop(ending, message.raw_stop_reason, message.error, stop_sequence),
        "usage": tables.write_usage(message.usage),
    }
    for part in parts:
        answer |= message_fields_of(part)
    return without_lone_surrogates(answer)


def write_blocks(
    blocks: Iterable[Content],
    give_id: Callable[[str], str],
    more: Callable[[Content], Mapping[str, Any]] = lambda _: {},
) -> list[dict[str, Any]]:
    """Write what an assistant said; *give_id* makes ids of calls such that the API takes them.

    *more* returns the fields that a client gave a block beside the usual ones.

    Left out is what the API refuses or has no word for: text of white space alone, thinking that is
    neither said nor signed, calls that are not complete, blocks of other providers.
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
                caller = caller_of(block)
                _add_sealed(block, written)
            case _ if block.complete:
                id_, arguments = give_id(block.id), block.arguments
                call = {"type": "tool_use", "id": id_, "name": block.name, "input": arguments}
                written.append({**more(block), **call, **({"caller": by} if by else {})})
    return written


def write_thinking(block: Thinking) -> dict[str, Any]:
    """Write a block of thinking, with its signature even if it has none."""
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}


def _add_sealed(block: Opaque, written: list[dict[str, Any]]) -> None:
    citations, data = citations_of(block), block_of(block)
    if citations and written and written[-1]["type"] == "text":
        written[-1]["citations"] = citations
    elif data is not None:
        written.append(data)
