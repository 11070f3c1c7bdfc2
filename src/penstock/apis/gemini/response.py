"""Whole answers, both ways, and the parts that answers are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.apis.encoding import whole_ending_of, writable
from penstock.apis.gemini import tables
from penstock.apis.gemini.signatures import is_base64, sealed
from penstock.apis.ids import Ids
from penstock.apis.surrogates import without_lone_surrogates
from penstock.messages import AssistantMessage, Content, Opaque, Text, Thinking, ToolCall

EMPTY: Final = {"text": ""}
"""A part that says nothing, where the API's clients want to see one."""


_ON_ANY: Final = frozenset({"thought", "thoughtSignature"})
_NO_KIND: Final = frozenset({"text", "functionCall", *tables.METADATA})
"""What is said in blocks of our own, or of all parts together."""


def read_response(data: Mapping[str, Any]) -> AssistantMessage:
    """Read a whole answer, by the rules of the stream: one chunk that says it all."""
    from penstock.apis.gemini.decode import Decoder  # noqa: PLC0415 - it reads bodies by us

    return Decoder().read_whole(data)


def write_response(message: AssistantMessage, *, created: int = 0) -> dict[str, Any]:
    """Write a whole answer; `UsageError` for one that failed."""
    del created  # Answers have no time.
    ending, flaw = whole_ending_of(message)
    message = writable(message)
    give = Ids().give
    parts = [part for block in message.content for part in write_block(block, give)]
    candidate: dict[str, Any] = {
        "content": {"parts": parts or [EMPTY], "role": "model"},
        "finishReason": tables.finish_reason(ending, message.raw_stop_reason)
        if flaw is None
        else "MALFORMED_FUNCTION_CALL",
        "index": 0,
    }
    error = flaw or message.error
    if error is not None and error.message:
        candidate["finishMessage"] = error.message
    for block in message.content:
        candidate |= metadata_of(block)
    answer = {
        "candidates": [candidate],
        "usageMetadata": tables.write_usage(message.usage),
        "modelVersion": message.model,
        "responseId": message.id,
    }
    return without_lone_surrogates(answer)


def write_block(block: Content, give: Callable[[str], str]) -> list[dict[str, Any]]:
    """Write *block* as parts, none or one; a call that is not complete is none.

    *give* is asked for the id of a call.
    """
    if isinstance(block, ToolCall):
        return [write_call(block, give)] if block.complete else []
    if isinstance(block, Text | Thinking):
        is_said = block.text or block.signature
        return [write_text(block.text, block)] if is_said else []
    return [dict(block.data)] if is_part(block) else []


def write_text(text: str, block: Text | Thinking) -> dict[str, Any]:
    """Write *text* as a part, marked and signed as *block* is."""
    part: dict[str, Any] = {"text": text}
    if isinstance(block, Thinking):
        part["thought"] = True
    return {**part, **signed(block.signature)}


def write_call(call: ToolCall, give: Callable[[str], str]) -> dict[str, Any]:
    """Write a call as a part: its arguments are an object here."""
    function = {"id": give(call.id), "name": call.name, "args": call.arguments}
    return {"functionCall": function, **signed(call.signature)}


def signed(signature: str) -> dict[str, str]:
    """Write the signature of a part, if it has one."""
    return {"thoughtSignature": sealed(signature)} if signature else {}


def is_part(block: Opaque) -> bool:
    """Tell whether *block* is a part that a client of this API can read.

    One of a kind that is new is: a client may be newer than we are.
    """
    data = block.data if block.provider == tables.NAME else None
    if not isinstance(data, dict) or data.keys() & _NO_KIND:
        return False
    kinds = data.keys() & tables.KINDS or data.keys() - _ON_ANY
    return (
        len(kinds) == 1
        and all(isinstance(data[kind], dict) for kind in kinds)
        and isinstance(data.get("thought", False), bool)
        and is_base64(data.get("thoughtSignature", ""))
    )


def metadata_of(block: Content) -> dict[str, Any]:
    """Give what *block* says of the candidate as a whole, if it is that."""
    data = block.data if isinstance(block, Opaque) and block.provider == tables.NAME else None
    fields = data if isinstance(data, dict) else {}
    return {key: fields[key] for key in tables.METADATA if isinstance(fields.get(key), dict)}
