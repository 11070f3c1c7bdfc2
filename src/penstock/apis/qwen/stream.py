"""Events to the stream of chat.qwen.ai, for those who are in for it.

The web API has no calls of its own: they go out as chat completions have them, whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock import _json
from penstock.apis.encoder import (
    BlockEvent,
    BlockSequencer,
    Ending,
    GuardedArguments,
    IdMaker,
    StreamEncoder,
)
from penstock.apis.fields import text_at
from penstock.apis.openai_chat import decode as chat
from penstock.apis.qwen import tables
from penstock.apis.qwen.response import read_response
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    Part,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import AssistantMessage, ErrorInfo, Usage

# The stream of chat.qwen.ai to events.
#
# Its chunks look like chat completions that tell their phase: reasoning, the answer, or
# something aside. The end is a chunk of the answer's phase whose status is ``finished``, or the
# mark ``[DONE]``; either alone is a good end. `session` is what the next request of the chat
# needs.


class Decoder(chat.Decoder):
    """Bytes of a stream of chat.qwen.ai in, events out."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.session: dict[str, str] = {}
        self._summary: list[str] = []

    def _read(self, data: dict[str, Any], event: str) -> None:
        error = tables.find_error(data)
        if error is not None:
            self._transcript.fail(error)
            return
        if isinstance(data.get("response.created"), Mapping):
            self._read_created(data["response.created"])
        elif not self._is_foreign(data):
            super()._read({"id": self.session.get("response_id", ""), **data}, event)

    def _read_created(self, created: Mapping[str, Any]) -> None:
        for key in ("chat_id", "parent_id", "response_id"):
            if isinstance(created.get(key), str):
                self.session.setdefault(key, created[key])
        self._transcript.begin(self.session.get("response_id", ""))

    def _is_foreign(self, data: Mapping[str, Any]) -> bool:
        """Return a frame of another answer, which names another `response_id`."""
        own, named = self.session.get("response_id"), data.get("response_id")
        return own is not None and isinstance(named, str) and named not in ("", own)

    def _read_usage(self, data: Mapping[str, Any]) -> None:
        if isinstance(data.get("usage"), Mapping):
            self._transcript.usage = tables.read_usage(data["usage"])

    def _read_delta(self, delta: Mapping[str, Any]) -> None:
        phase, content = text_at(delta, "phase"), delta.get("content")
        if phase in tables.THINKING:
            self._speech.think(content)
            self._read_summary(delta)
        elif phase in tables.ASIDE:
            if delta.get("status") != "finished" or delta.get("extra"):
                self._speech.close()
                self._transcript.part(tables.NAME, dict(delta))
        else:
            super()._read_delta(delta)
            if delta.get("status") == "finished":
                self._finish = self._finish or "finished"

    def _read_summary(self, delta: Mapping[str, Any]) -> None:
        """Read reasoning that come as a list of summaries, which grows from frame to frame."""
        found: Any = delta
        for key in ("extra", "summary_thought", "content"):
            found = found.get(key) if isinstance(found, Mapping) else None
        summary = (
            [text for text in found if isinstance(text, str)] if isinstance(found, list) else []
        )
        if self._summary and len(self._summary) <= len(summary):
            before, now = self._summary[-1], summary[len(self._summary) - 1]
            if now.startswith(before):  # The last one may grow where it stands.
                self._speech.think(now[len(before) :])
                self._summary[-1] = now
        for text in summary[len(self._summary) :]:
            self._speech.think(text if not self._summary else "\n\n" + text)
            self._summary.append(text)

    def _read_choice(self, choice: Mapping[str, Any]) -> None:
        super()._read_choice(choice)
        if self._finish == "finished":
            self._conclude("finished")

    def _conclude(self, finish: str) -> None:
        if finish == "finished":
            self._speech.close()
            self._transcript.done("stop", finish)
        else:
            super()._conclude(finish)

    def _read_whole(self, data: dict[str, Any]) -> AssistantMessage | ErrorInfo | None:
        error = tables.find_error(data)
        if error is not None:
            return error
        return read_response(data) if isinstance(data.get("data"), Mapping) else None

    def _read_page(self, text: str) -> ErrorInfo:
        return tables.read_page(text)


_HEAD: Final = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":'
_ANSWER: Final = b',"phase":"answer","status":"typing"}}]}\n\n'
_THOUGHT: Final = b',"phase":"think","status":"typing"}}]}\n\n'
_THOUGHT_END: Final = _HEAD + b'"","phase":"think","status":"finished"}}]}\n\n'


class Encoder(StreamEncoder):
    """Events in, the bytes of a stream of chat.qwen.ai out."""

    def __init__(
        self,
        *,
        model: str = "",
        id: str = "",  # noqa: A002 - the field's name
        created: int = 0,
        usage: bool = True,
    ) -> None:
        del model, created, usage  # Its frames have none of them but the usage, always.
        super().__init__()
        self._id = id
        self._order = BlockSequencer()
        self._ids = IdMaker()
        self._numbers: dict[int, int] = {}
        self._arguments = GuardedArguments()

    def encode(self, event: Event) -> bytes:
        """Write what *event* means to a client; nothing is written after the terminal event."""
        if type(event) is TextDelta and event.index == self._order.current and event.text:
            return _HEAD + _json.encode_text(event.text) + _ANSWER
        return super().encode(event)

    def _write_start(self, event: MessageStart) -> bytes:
        created = {"chat_id": "chat-1", "parent_id": "", "response_id": self._id or event.id}
        return b"data: " + _json.encode_wire({"response.created": created}) + b"\n\n"

    def _write(self, event: BlockEvent) -> bytes:
        return b"".join(map(self._write_in_turn, self._order.put(event)))

    def _write_in_turn(self, event: BlockEvent) -> bytes:
        match event:
            case TextDelta(text=text) if text:
                return _HEAD + _json.encode_text(text) + _ANSWER
            case ThinkingDelta(text=text) if text:
                return _HEAD + _json.encode_text(text) + _THOUGHT
            case ThinkingEnd(text=text) if text:
                return _THOUGHT_END
            case ToolCallStart():
                return self._write_call(event)
            case ToolCallDelta():
                return self._write_arguments(event.index, self._arguments.add(event.arguments))
            case ToolCallEnd():
                return self._write_arguments(event.index, self._arguments.end(event.call))
            case Part(part=part) if part.provider == tables.NAME and isinstance(part.data, dict):
                return _frame({"choices": [{"index": 0, "delta": part.data}]})
        return b""

    def _write_call(self, event: ToolCallStart) -> bytes:
        number = self._numbers[event.index] = len(self._numbers)
        self._arguments = GuardedArguments()
        function = {"name": event.name, "arguments": ""}
        call = {"index": number, "id": self._ids.give(event.id), "type": "function"}
        return self._write_calls({**call, "function": function})

    def _write_arguments(self, index: int, arguments: str) -> bytes:
        if not arguments:
            return b""
        function = {"arguments": arguments}
        return self._write_calls({"index": self._numbers[index], "function": function})

    def _write_calls(self, call: dict[str, Any]) -> bytes:
        delta = {"role": "assistant", "content": "", "phase": "answer", "status": "typing"}
        return _frame({"choices": [{"index": 0, "delta": {**delta, "tool_calls": [call]}}]})

    def _write_end(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        if isinstance(ending, ErrorInfo):
            return _frame(tables.write_error(ending))
        usage = event.message.usage
        counted = b""
        if usage != Usage():
            typing = {"role": "assistant", "content": "", "phase": "answer", "status": "typing"}
            counted = _frame(
                {"choices": [{"index": 0, "delta": typing}], "usage": tables.write_usage(usage)}
            )
        last = {"role": "assistant", "content": "", "phase": "answer", "status": "finished"}
        choice: dict[str, Any] = {"index": 0, "delta": last}
        if ending in tables.FINISH_REASONS:
            del last["status"]
            choice["finish_reason"] = tables.FINISH_REASONS[ending]
        return counted + _frame({"choices": [choice]}) + b"data: [DONE]\n\n"


def _frame(data: dict[str, Any]) -> bytes:
    return b"data: " + _json.encode_wire(data) + b"\n\n"
