"""Whole answers, both ways, and the parts that answers are made of."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock._json import without_lone_surrogates
from penstock.apis.encoder import IdMaker, whole_ending_of, writable
from penstock.apis.gemini import tables
from penstock.messages import AssistantMessage, Content, Opaque, Text, Thinking, ToolCall

# Signatures of parts: base64 on the wire, whatever they are to us.
#
# The API's clients read a signature as base64 and break on anything else; on its way back they
# spell it in the alphabet for URLs. So a signature of another provider that is not a base64 goes
# out sealed, as base64 of its text after a mark, and what comes back is spelled as it went
# out.


_MARK: Final = b"penstock:"
_SEAL: Final = b64encode(_MARK).decode()  # nine bytes, so that nothing hangs over
_STANDARD: Final = str.maketrans("-_", "+/")

UNCHECKED: Final = "skip_thought_signature_validator"
"""What stands for the signature of a call that the model did not make: the API knows the word."""


def sealed(signature: str) -> str:
    """Return *signature* as base64: as it is if it is that and has no seal yet, else sealed."""
    if is_base64(signature) and not signature.startswith(_SEAL):
        return signature
    return _SEAL + b64encode(signature.encode("utf-8", "replace")).decode()


def unsealed(signature: str) -> str:
    """Return what was sealed in *signature*, or else *signature* as it is."""
    if not signature.startswith(_SEAL):
        return signature
    try:
        return _bytes_of(signature)[len(_MARK) :].decode()
    except ValueError:
        return signature


def returned(signature: str) -> str:
    """Return the signature that a client sends back, in the alphabet in which it was sent."""
    if signature == UNCHECKED:
        return ""
    padded = standard(signature) + "=" * (-len(signature) % 4)
    return unsealed(padded if is_base64(padded) else signature)


def standard(base64: str) -> str:
    """Return *base64* in the standard's alphabet: the client's own for bytes is that for URLs."""
    return base64.translate(_STANDARD)


def is_base64(signature: object) -> bool:
    """Return whether *signature* is base64 that every reader takes."""
    if not isinstance(signature, str):
        return False
    try:
        return b64encode(_bytes_of(signature)).decode() == signature
    except ValueError:
        return False


def _bytes_of(signature: str) -> bytes:
    try:
        return b64decode(signature, validate=True)
    except Error as exc:
        raise ValueError(str(exc)) from exc


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
    give = IdMaker().give
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
    """Write *block* as parts, none or one; a call that is not complete is not one.

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
    """Return whether *block* is a part that a client of this API can read.

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
    """Return what *block* says of the candidate as a whole, if it is that."""
    data = block.data if isinstance(block, Opaque) and block.provider == tables.NAME else None
    fields = data if isinstance(data, dict) else {}
    return {key: fields[key] for key in tables.METADATA if isinstance(fields.get(key), dict)}
