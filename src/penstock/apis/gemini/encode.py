"""Encode a stream of `streamGenerateContent`.

Each chunk is a response with one part. A call is written whole when it ends; a call that was cut is
not written. A signature follows its text, on an empty part.

Google's own client determines the details. It splits lines as Python does, so the line separators
that JSON allows in strings are escaped; it parses a comment as JSON, so a keep-alive is an empty
part; its chat drops a response that has a chunk without a part, so every chunk has one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from penstock import _json
from penstock._json import without_lone_surrogates
from penstock.apis.encoder import (
    BlockEvent,
    BlockSequencer,
    Ending,
    IdMaker,
    StreamEncoder,
    find_whole_ending,
    with_writable_calls,
)
from penstock.apis.fields import usage_or_estimate
from penstock.apis.gemini import tables
from penstock.apis.gemini.tables import is_base64, seal
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    Part,
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallEnd,
)
from penstock.messages import AssistantMessage, Content, ErrorInfo, Opaque, Text, Thinking, ToolCall

_HEAD: Final = b'data: {"candidates":[{"content":{"parts":[{"text":'
_DATA: Final = b"data: "
_END: Final = b"\r\n\r\n"  # as the real service ends frames
# Valid in JSON strings, but `str.splitlines` and clients built on it end a line there.
_SEPARATORS: Final = (
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
    ("\x85".encode(), b"\\u0085"),
)


class Encoder(StreamEncoder):
    """Events in, the bytes of a Gemini stream out."""

    # A client has to ask for partial arguments (`streamFunctionCallArguments`), so calls are
    # written whole.
    streams_arguments = False

    def __init__(
        self,
        *,
        model: str = "",
        id: str = "",  # noqa: A002 - the field's name
        created: int = 0,
        usage: bool = True,
        input_tokens: int = 0,
    ) -> None:
        del created, usage  # Chunks have no time, and the last always has the token counts.
        super().__init__()
        self._model, self._id = model, id
        self._input_tokens = input_tokens  # the estimated size of the prompt
        self._order = BlockSequencer()
        self._ids = IdMaker()
        self._names = self._tail = self._thought_tail = b""

    def encode(self, event: Event) -> bytes:
        """Return the bytes of *event*; nothing is written after the terminal event."""
        if self._ended:
            return super().encode(event)
        if type(event) is TextDelta and event.index == self._order.current and event.text:
            return _HEAD + _encode_line(event.text) + self._tail
        return super().encode(event)

    def keep_alive(self) -> bytes:
        """Return an empty part: a comment would break Google's own client."""
        return _HEAD + b'""' + self._tail if self._begun and not self._ended else b""

    def _write_start(self, event: MessageStart) -> bytes:
        names = {
            "modelVersion": self._model or event.model,
            "responseId": self._id or event.id or "response-1",
        }
        self._names = b"," + _encode_line(names)[1:] + _END
        self._tail = b'}],"role":"model"},"index":0}]' + self._names
        self._thought_tail = b',"thought":true' + self._tail
        return b""

    def _write(self, event: BlockEvent) -> bytes:
        return b"".join(map(self._write_in_turn, self._order.put(event)))

    def _write_in_turn(self, event: BlockEvent) -> bytes:
        match event:
            case TextDelta(text=text) if text:
                return _HEAD + _encode_line(text) + self._tail
            case ThinkingDelta(text=text) if text:
                return _HEAD + _encode_line(text) + self._thought_tail
            case TextEnd(signature=signature) if signature:
                return self._write_chunk({**EMPTY, **signature_field(signature)})
            case ThinkingEnd(signature=signature) if signature:
                return self._write_chunk({**EMPTY, "thought": True, **signature_field(signature)})
            # The API has no sign for an incomplete call: a client would run it.
            case ToolCallEnd(call=call) if call.complete:
                return self._write_chunk(write_call(call, self._ids.make))
            case Part(part=part) if is_part(part):
                return self._write_chunk(part.data)
            case Part(part=part) if metadata := find_metadata(part):
                return self._write_chunk(EMPTY, **metadata)
        return b""

    def _write_chunk(self, part: dict[str, Any], **more: Any) -> bytes:
        content = {"parts": [part], "role": "model"}
        candidate = without_lone_surrogates({"content": content, **more, "index": 0})
        return b'data: {"candidates":' + _encode_line([candidate]) + self._names

    def _write_end(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        message = event.error.message if isinstance(event, Failed) else ""
        if not isinstance(ending, ErrorInfo):
            finish = tables.finish_reason(ending, event.message.raw_stop_reason)
        elif ending.type in tables.MALFORMED | tables.FAILURES:
            finish = ending.type  # It is a value of this API.
        else:
            error = without_lone_surrogates({"error": tables.write_error(ending)})
            return b"data: " + _encode_line(error) + _END
        last: dict[str, Any] = {
            "content": {"parts": [EMPTY], "role": "model"},
            "finishReason": finish,
            **({"finishMessage": message} if message else {}),
            "index": 0,
        }
        usage = usage_or_estimate(event.message, self._input_tokens)
        counts = _encode_line(tables.write_usage(usage))
        head = b'data: {"candidates":' + _encode_line([without_lone_surrogates(last)])
        return head + b',"usageMetadata":' + counts + self._names


class ArrayEncoder(Encoder):
    """Events in, the bytes of a stream without ``alt=sse`` out: a JSON array of the chunks."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._is_first = True

    def encode(self, event: Event) -> bytes:
        """Return the bytes of *event*; nothing is written after the terminal event."""
        return self._write_items(super().encode(event))

    def keep_alive(self) -> bytes:
        """Return a chunk with an empty part; white space alone is not read by every client."""
        return self._write_items(super().keep_alive())

    def finish(self) -> bytes:
        """End the stream and its array; without a terminal event it ends as truncated."""
        # `super().finish` calls `encode`, which writes the items.
        return super().finish() + (b"[]" if self._is_first else b"]")

    def _write_items(self, frames: bytes) -> bytes:
        """Return *frames* as items of the array."""
        written = []
        for frame in frames.split(_END):
            if frame:
                written.append(b"[" if self._is_first else b",\r\n")
                written.append(frame.removeprefix(_DATA))
                self._is_first = False
        return b"".join(written)


def _encode_line(value: object) -> bytes:
    """Return *value* as JSON on one line, by any definition of a line separator."""
    data = _json.encode_wire(value)
    if not data.isascii():
        for separator, escape in _SEPARATORS:
            data = data.replace(separator, escape)
    return data


# --- whole responses, and the parts that they consist of ---

EMPTY: Final = {"text": ""}
"""An empty part, which the API's clients require."""


_ON_ANY: Final = frozenset({"thought", "thoughtSignature"})
# Fields that our own blocks express, or that belong to the candidate.
_NO_KIND: Final = frozenset({"text", "functionCall", *tables.METADATA})


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
