"""Events to chat completion chunks.

Calls are numbered in the order in which they start, and their deltas may interleave as they come.
Text has no blocks here: of two passages that are open side by side, one goes out after the other.
Deltas are the hot path: fixed pieces of bytes around the quoted text.
"""

from __future__ import annotations

from typing import Any, Final

from penstock import _json
from penstock.apis.arguments import ArgumentsOut
from penstock.apis.encoding import BlockEvent, Ending, OneByOne, StreamEncoder
from penstock.apis.ids import Ids
from penstock.apis.numbers import is_counted, told_usage
from penstock.apis.openai_chat import tables
from penstock.apis.openai_chat.response import reason_of, signed
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    Part,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import ErrorInfo, Usage

_TAIL: Final = b'},"logprobs":null,"finish_reason":null}]}\n\n'
DONE: Final = b"data: [DONE]\n\n"
"""The last word of every stream."""


class Encoder(StreamEncoder):
    """Events in, the bytes of a chat completion stream out.

    *index* is the number of the choice that they are; see `ChoicesEncoder` for several. *error_id*
    is what an error is known by to whoever served it. *input_tokens* is about what the prompt
    costs: with it, a client that asked for the tokens gets an estimate where nobody counted them.
    """

    def __init__(
        self,
        *,
        model: str = "",
        id: str = "",  # noqa: A002 - the field's name
        created: int = 0,
        usage: bool = True,
        index: int = 0,
        error_id: str = "",
        input_tokens: int = 0,
    ) -> None:
        super().__init__()
        self._input_tokens = input_tokens
        self._error_id = error_id
        self._model, self._id, self._created = model, id, created
        self._index = index
        self._asked_for_usage = usage
        self._speech = OneByOne()
        self._ids = Ids()
        self._numbers: dict[int, int] = {}  # of calls: the block's index, and theirs
        self._arguments: dict[int, ArgumentsOut] = {}  # of open calls, by the block's index
        self._head = self._delta_head = self._text_head = b""  # what stands before each delta

    def encode(self, event: Event) -> bytes:
        """Write what *event* means to a client; nothing is written after the terminal event."""
        if type(event) is TextDelta and event.index == self._speech.current and event.text:
            return self._text_head + _json.encode_text(event.text) + _TAIL
        return super().encode(event)

    def _write_start(self, event: MessageStart) -> bytes:
        chunk = _json.encode_wire(
            {
                "id": self._id or event.id or "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": self._created,
                "model": self._model or event.model,
            }
        )
        self._head = b"data: " + chunk[:-1]
        choice = self._head + b',"choices":[{"index":%d,"delta":{' % self._index
        self._delta_head = choice
        self._text_head = choice + b'"content":'
        return choice + b'"role":"assistant","content":""' + _TAIL

    def _write(self, event: BlockEvent) -> bytes:
        match event:
            case ToolCallStart():
                return self._write_call(event)
            case ToolCallDelta():
                arguments = self._arguments[event.index].add(event.arguments)
                return self._write_arguments(event.index, arguments)
            case ToolCallEnd():
                return self._write_call_end(event)
            case Part() if event.part.provider == tables.NAME and isinstance(event.part.data, dict):
                return self._write_delta(event.part.data)
            case Part():
                return b""
        return b"".join(map(self._write_speech, self._speech.put(event)))

    def _write_speech(self, event: BlockEvent) -> bytes:
        if not isinstance(event, TextDelta | ThinkingDelta) or not event.text:
            return b""
        if isinstance(event, TextDelta):
            return self._text_head + _json.encode_text(event.text) + _TAIL
        return self._delta_head + b'"reasoning_content":' + _json.encode_text(event.text) + _TAIL

    def _write_delta(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": self._index, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._head + b',"choices":' + _json.encode_wire([choice]) + b"}\n\n"

    # --- calls ---

    def _write_call(self, event: ToolCallStart) -> bytes:
        number = self._numbers[event.index] = len(self._numbers)
        self._arguments[event.index] = ArgumentsOut()
        call = {
            "index": number,
            "id": self._ids.give(event.id),
            "type": "function",
            "function": {"name": event.name, "arguments": ""},
        }
        return self._write_delta({"tool_calls": [call]})

    def _write_arguments(self, index: int, arguments: str, **more: Any) -> bytes:
        if not arguments and not more:
            return b""
        number = self._numbers[index]
        if not more:  # the hot path of calls, as that of text is
            quoted = _json.encode_text(arguments)
            head = b'"tool_calls":[{"index":%d,"function":{"arguments":' % number
            return self._delta_head + head + quoted + b"}}]" + _TAIL
        call = {"index": number, "function": {"arguments": arguments}, **more}
        return self._write_delta({"tool_calls": [call]})

    def _write_call_end(self, event: ToolCallEnd) -> bytes:
        """Write what the deltas left out: the end of the arguments, and the signature."""
        rest = self._arguments.pop(event.index).end(event.call)
        return self._write_arguments(event.index, rest, **signed(event.call.signature))

    # --- the end ---

    def _write_end(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        return self._write_finish(event, ending) + self._write_tail(event, ending)

    def _write_finish(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        """Write how the choice ends."""
        if isinstance(ending, ErrorInfo):
            told = tables.write_error(ending)
            if self._error_id:
                told["error_id"] = self._error_id
            return b"data: " + _json.encode_wire({"error": told}) + b"\n\n"
        return self._write_delta(reason_of(event.message, ending), tables.FINISH_REASONS[ending])

    def _write_tail(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        """Write what ends the stream: the tokens of an answer, and the last word."""
        is_error = isinstance(ending, ErrorInfo)
        usage = told_usage(event.message, self._input_tokens)
        return (b"" if is_error else self.write_usage(usage)) + DONE

    def write_usage(self, usage: Usage) -> bytes:
        """Write the tokens, if the client asked for them and they are counted or estimated."""
        if not self._asked_for_usage or not is_counted(usage):
            return b""
        written = _json.encode_wire(tables.write_usage(usage))
        return self._head + b',"choices":[],"usage":' + written + b"}\n\n"
