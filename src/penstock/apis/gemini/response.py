"""Whole responses, and the parts that they consist of."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock._json import without_lone_surrogates
from penstock.apis.encoder import IdMaker, find_whole_ending, with_writable_calls
from penstock.apis.gemini import tables
from penstock.messages import AssistantMessage, Content, Opaque, Text, Thinking, ToolCall

# --- signatures ---
#
# The API's clients parse a signature as base64, fail on anything else, and send it back in the
# alphabet for URLs. So a signature of another provider that is not base64 is sent "sealed": as
# base64 of its text after a mark. What comes back is converted to the form that was sent.

_MARK: Final = b"penstock:"
_SEAL: Final = b64encode(_MARK).decode()  # nine bytes, so there is no padding
_STANDARD: Final = str.maketrans("-_", "+/")

UNCHECKED: Final = "skip_thought_signature_validator"
"""The signature of a call that the model did not make: the API accepts this value."""


def seal(signature: str) -> str:
    """Return *signature* as base64: unchanged if it is base64 and not sealed, otherwise sealed."""
    if is_base64(signature) and not signature.startswith(_SEAL):
        return signature
    return _SEAL + b64encode(signature.encode("utf-8", "replace")).decode()


def unseal(signature: str) -> str:
    """Return the signature that was sealed, or *signature* itself."""
    if not signature.startswith(_SEAL):
        return signature
    try:
        return _decode_base64(signature)[len(_MARK) :].decode()
    except ValueError:
        return signature


def restore_signature(signature: str) -> str:
    """Return a signature that a client sent back in the form in which it was sent to it."""
    if signature == UNCHECKED:
        return ""
    padded = standard_base64(signature) + "=" * (-len(signature) % 4)
    return unseal(padded if is_base64(padded) else signature)


def standard_base64(base64: str) -> str:
    """Return *base64* in the standard alphabet; the client uses that for URLs."""
    return base64.translate(_STANDARD)


def is_base64(signature: object) -> bool:
    """Return whether *signature* is canonical base64."""
    if not isinstance(signature, str):
        return False
    try:
        return b64encode(_decode_base64(signature)).decode() == signature
    except ValueError:
        return False


def _decode_base64(signature: str) -> bytes:
    try:
        return b64decode(signature, validate=True)
    except Error as exc:
        raise ValueError(str(exc)) from exc


EMPTY: Final = {"text": ""}
"""An empty part, which the API's clients require."""


_ON_ANY: Final = frozenset({"thought", "thoughtSignature"})
_NO_KIND: Final = frozenset({"text", "functionCall", *tables.METADATA})
"""Fields that our own blocks express, or that belong to the candidate."""


def read_response(data: Mapping[str, Any]) -> AssistantMessage:
    """Read a whole response by the rules of the stream, as one chunk."""
    from penstock.apis.gemini.decode import Decoder  # noqa: PLC0415 - imports this module

    return Decoder().read_whole(data)


def write_response(message: AssistantMessage, *, created: int = 0) -> dict[str, Any]:
    """Write a whole response; raise `UsageError` for a failed one."""
    del created  # Responses have no time.
    ending, flaw = find_whole_ending(message)
    message = with_writable_calls(message)
    make_id = IdMaker().make
    parts = [part for block in message.content for part in write_block(block, make_id)]
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
        candidate |= find_metadata(block)
    response = {
        "candidates": [candidate],
        "usageMetadata": tables.write_usage(message.usage),
        "modelVersion": message.model,
        "responseId": message.id,
    }
    return without_lone_surrogates(response)


def write_block(block: Content, make_id: Callable[[str], str]) -> list[dict[str, Any]]:
    """Write *block* as a list of no part or one; an incomplete call is omitted.

    *make_id* returns the id of a call.
    """
    if isinstance(block, ToolCall):
        return [write_call(block, make_id)] if block.complete else []
    if isinstance(block, Text | Thinking):
        return [write_text(block.text, block)] if block.text or block.signature else []
    return [dict(block.data)] if is_part(block) else []


def write_text(text: str, block: Text | Thinking) -> dict[str, Any]:
    """Write *text* as a part, with the mark and the signature of *block*."""
    part: dict[str, Any] = {"text": text}
    if isinstance(block, Thinking):
        part["thought"] = True
    return {**part, **signature_field(block.signature)}


def write_call(call: ToolCall, make_id: Callable[[str], str]) -> dict[str, Any]:
    """Write a call as a part; its arguments are an object here."""
    function = {"id": make_id(call.id), "name": call.name, "args": call.arguments}
    return {"functionCall": function, **signature_field(call.signature)}


def signature_field(signature: str) -> dict[str, str]:
    """Return the field with the signature of a part, if it has one."""
    return {"thoughtSignature": seal(signature)} if signature else {}


def is_part(block: Opaque) -> bool:
    """Return whether *block* is a valid part of this API.

    A part of an unknown kind is: a client may be newer than this code.
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


def find_metadata(block: Content) -> dict[str, Any]:
    """Return the metadata of the candidate in *block*, if there is any."""
    data = block.data if isinstance(block, Opaque) and block.provider == tables.NAME else None
    fields = data if isinstance(data, dict) else {}
    return {key: fields[key] for key in tables.METADATA if isinstance(fields.get(key), dict)}
