"""Events to lines of Ollama's chat.

A call goes out whole when it ends, since a line has no room for a piece of one; a call that was
cut has no line at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock import _json
from penstock.apis.decoder import StreamDecoder
from penstock.apis.encoder import (
    BlockEvent,
    BlockSequencer,
    Ending,
    IdMaker,
    StreamEncoder,
    object_text,
)
from penstock.apis.ollama import tables
from penstock.apis.ollama.response import created_at, write_call
from penstock.apis.transcript import ImplicitBlock
from penstock.events import Done, Event, Failed, MessageStart, TextDelta, ThinkingDelta, ToolCallEnd
from penstock.framing import ndjson
from penstock.messages import AssistantMessage, ErrorInfo

# Lines of Ollama's chat (and of its older `generate`) to events.
#
# A call comes whole, often without an id; the last line says ``done``, why, and the counts.


class Decoder(StreamDecoder):
    """Bytes of an Ollama stream in, events out."""

    def __init__(self, *, ids: Callable[[], str] | None = None) -> None:
        super().__init__(ndjson.Decoder(), ids=ids)
        self._speech = ImplicitBlock(self._transcript)

    def _read(self, data: dict[str, Any], event: str) -> None:
        del event  # Lines have no names.
        error = tables.find_error(data)
        if error is not None:
            self._transcript.fail(error)
            return
        model = data.get("model")
        self._transcript.begin(model=model if isinstance(model, str) else "")
        message = data.get("message")
        if isinstance(message, Mapping):
            self._read_message(message)
        else:
            self._speech.think(data.get("thinking"))
            self._speech.say(data.get("response"))
        if data.get("done") is True:
            self._conclude(data)

    def _read_message(self, message: Mapping[str, Any]) -> None:
        self._speech.think(message.get("thinking"))
        self._speech.say(message.get("content"))
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, Mapping) and isinstance(call.get("function"), Mapping):
                self._read_call(call, call["function"])

    def _read_call(self, call: Mapping[str, Any], function: Mapping[str, Any]) -> None:
        self._speech.close()
        name, id_ = function.get("name"), call.get("id")
        arguments = function.get("arguments")
        begun = self._transcript.call(
            name if isinstance(name, str) else "", id_ if isinstance(id_, str) else ""
        )
        if isinstance(arguments, str):
            begun.add(arguments)
        elif arguments is not None:
            begun.add(object_text(arguments))
        begun.close()

    def _conclude(self, data: Mapping[str, Any]) -> None:
        transcript = self._transcript
        transcript.usage = tables.read_usage(data)
        reason = data.get("done_reason")
        reason = reason if isinstance(reason, str) else ""
        word = reason.lower()
        if word in tables.LENGTH:
            transcript.done("length", reason)
        elif word in tables.FILTER:
            message = f"the provider ended the answer: {reason}"
            transcript.fail(ErrorInfo(message, "filter", reason), reason)
        else:  # Unknown words are new words for an end, since it says `done`.
            transcript.done("stop", reason)

    def _read_whole(self, data: dict[str, Any]) -> AssistantMessage | ErrorInfo | None:
        del data  # Every body is made of lines, so this one was read as such.
        return None


_TAIL: Final = b'},"done":false}\n'


class Encoder(StreamEncoder):
    """Events in, the bytes of an Ollama stream out."""

    streams_arguments = False

    def __init__(
        self,
        *,
        model: str = "",
        id: str = "",  # noqa: A002 - the field's name
        created: int = 0,
        usage: bool = True,
    ) -> None:
        del id, usage  # Lines have no id, and the last always has the counts.
        super().__init__()
        self._model, self._created = model, created
        self._speech = BlockSequencer()
        self._ids = IdMaker()
        self._head = self._text_head = self._thinking_head = b""

    def encode(self, event: Event) -> bytes:
        """Write what *event* means to a client; nothing is written after the terminal event."""
        if type(event) is TextDelta and event.index == self._speech.current and event.text:
            return self._text_head + _json.encode_text(event.text) + _TAIL
        return super().encode(event)

    def keep_alive(self) -> bytes:
        """Write an empty line of text: lines have no comments."""
        return self._text_head + b'""' + _TAIL if self._text_head else b""

    def _write_start(self, event: MessageStart) -> bytes:
        head = {"model": self._model or event.model, "created_at": created_at(self._created)}
        self._head = _json.encode_wire(head)[:-1]
        message = self._head + b',"message":{"role":"assistant",'
        self._text_head = message + b'"content":'
        self._thinking_head = message + b'"content":"","thinking":'
        return b""

    def _write(self, event: BlockEvent) -> bytes:
        return b"".join(map(self._write_in_turn, self._speech.put(event)))

    def _write_in_turn(self, event: BlockEvent) -> bytes:
        match event:
            case TextDelta(text=text) if text:
                return self._text_head + _json.encode_text(text) + _TAIL
            case ThinkingDelta(text=text) if text:
                return self._thinking_head + _json.encode_text(text) + _TAIL
            case ToolCallEnd(call=call) if call.complete:
                calls = {"tool_calls": [write_call(call, self._ids)]}
                return self._text_head + b'"",' + _json.encode_wire(calls)[1:-1] + _TAIL
        return b""

    def _write_end(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        if isinstance(ending, ErrorInfo):
            return _json.encode_wire({"error": ending.message or "the answer failed"}) + b"\n"
        last: dict[str, Any] = {
            "message": {"role": "assistant", "content": ""},
            "done_reason": tables.DONE_REASONS[ending],
            "done": True,
            **tables.write_usage(event.message.usage),
        }
        return self._head + b"," + _json.encode_wire(last)[1:] + b"\n"
