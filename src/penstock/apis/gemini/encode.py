"""Events to chunks of `streamGenerateContent`.

Each chunk is an answer of its own with one part in it. A call goes out whole when it ends; a call
that was cut has no chunk. A signature follows the text that it is of, on an empty part.

The API's own client shapes what is written here. It cuts lines wherever Python does, so the
separators that JSON leaves alone are escaped; it takes a comment for JSON, so a sign of life is
an empty part; its chat forgets an answer with a chunk that has no part, so every chunk has one.
"""

from __future__ import annotations

from typing import Any, Final

from penstock import _json
from penstock._json import without_lone_surrogates
from penstock.apis.encoder import BlockEvent, BlockSequencer, Ending, IdMaker, StreamEncoder
from penstock.apis.gemini import tables
from penstock.apis.gemini.response import EMPTY, is_part, metadata_of, signed, write_call
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
from penstock.messages import ErrorInfo

_HEAD: Final = b'data: {"candidates":[{"content":{"parts":[{"text":'
_END: Final = b"\r\n\r\n"
_SEPARATORS: Final = (
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
    ("\x85".encode(), b"\\u0085"),
)


class Encoder(StreamEncoder):
    """Events in, the bytes of a Gemini stream out."""

    streams_arguments = False

    def __init__(
        self,
        *,
        model: str = "",
        id: str = "",  # noqa: A002 - the field's name
        created: int = 0,
        usage: bool = True,
    ) -> None:
        del created, usage  # Chunks have no time, and the last always has the tokens.
        super().__init__()
        self._model, self._id = model, id
        self._blocks = BlockSequencer()
        self._ids = IdMaker()
        self._names = self._tail = self._thought_tail = b""

    def encode(self, event: Event) -> bytes:
        """Write what *event* means to a client; nothing is written after the terminal event."""
        if type(event) is TextDelta and event.index == self._blocks.current and event.text:
            return _HEAD + _written(event.text) + self._tail
        return super().encode(event)

    def keep_alive(self) -> bytes:
        """Write a part that says nothing: comments would break the API's own client."""
        return _HEAD + b'""' + self._tail if self._begun and not self._ended else b""

    def _write_start(self, event: MessageStart) -> bytes:
        names = {
            "modelVersion": self._model or event.model,
            "responseId": self._id or event.id or "response-1",
        }
        self._names = b"," + _written(names)[1:] + _END
        self._tail = b'}],"role":"model"},"index":0}]' + self._names
        self._thought_tail = b',"thought":true' + self._tail
        return b""

    def _write(self, event: BlockEvent) -> bytes:
        return b"".join(map(self._write_in_turn, self._blocks.put(event)))

    def _write_in_turn(self, event: BlockEvent) -> bytes:
        match event:
            case TextDelta(text=text) if text:
                return _HEAD + _written(text) + self._tail
            case ThinkingDelta(text=text) if text:
                return _HEAD + _written(text) + self._thought_tail
            case TextEnd(signature=signature) if signature:
                return self._write_chunk({**EMPTY, **signed(signature)})
            case ThinkingEnd(signature=signature) if signature:
                return self._write_chunk({**EMPTY, "thought": True, **signed(signature)})
            case ToolCallEnd(call=call) if call.complete:
                return self._write_chunk(write_call(call, self._ids.give))
            case Part(part=part) if is_part(part):
                return self._write_chunk(part.data)
            case Part(part=part) if metadata := metadata_of(part):
                return self._write_chunk(EMPTY, **metadata)
        return b""

    def _write_chunk(self, part: dict[str, Any], **more: Any) -> bytes:
        content = {"parts": [part], "role": "model"}
        candidate = without_lone_surrogates({"content": content, **more, "index": 0})
        return b'data: {"candidates":' + _written([candidate]) + self._names

    def _write_end(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        message = event.error.message if isinstance(event, Failed) else ""
        if not isinstance(ending, ErrorInfo):
            finish = tables.finish_reason(ending, event.message.raw_stop_reason)
        elif ending.type in tables.MALFORMED | tables.FAILURES:
            finish = ending.type  # It was this API's own word.
        else:
            error = without_lone_surrogates({"error": tables.write_error(ending)})
            return b"data: " + _written(error) + _END
        last: dict[str, Any] = {
            "content": {"parts": [EMPTY], "role": "model"},
            "finishReason": finish,
            **({"finishMessage": message} if message else {}),
            "index": 0,
        }
        usage = _written(tables.write_usage(event.message.usage))
        head = b'data: {"candidates":' + _written([without_lone_surrogates(last)])
        return head + b',"usageMetadata":' + usage + self._names


def _written(value: object) -> bytes:
    """Write *value* on one line, whatever a reader takes for the end of one."""
    data = _json.encode_wire(value)
    if not data.isascii():
        for separator, escape in _SEPARATORS:
            data = data.replace(separator, escape)
    return data
