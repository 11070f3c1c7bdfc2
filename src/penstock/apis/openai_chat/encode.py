"""Events to chat completion chunks.

Calls are numbered in the order in which they start, and their deltas may interleave as they come.
Text has no blocks here: of two passages that are open side by side, one goes out after the other.
Deltas are the hot path: fixed pieces of bytes around the quoted text.
"""

from __future__ import annotations

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
from penstock.apis.fields import ESTIMATED, estimate_mark, is_counted, told_usage
from penstock.apis.openai_chat import tables
from penstock.apis.openai_chat.response import reason_of, signed, write_response
from penstock.errors import UsageError
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
from penstock.messages import AssistantMessage, ErrorInfo, Usage, summed

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
        self._speech = BlockSequencer()
        self._ids = IdMaker()
        self._numbers: dict[int, int] = {}  # of calls: the block's index, and theirs
        self._arguments: dict[int, GuardedArguments] = {}  # of open calls, by the block's index
        self._head = self._delta_head = self._text_head = b""  # what comes before each delta

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
        self._arguments[event.index] = GuardedArguments()
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
        """Write what the deltas omitted: the end of the arguments, and the signature."""
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


# Several answers to one request: the choices of one chat completion, each with its number.
#
# Each choice is an answer of its own, with an encoder of its own, and what they say goes out in
# the order in which it comes. The stream ends when all have ended, or with the first that
# fails: a client that asked for three answers and gets two would not know which.


class ChoicesEncoder:
    """Events of *number* answers in, the bytes of one stream out."""

    def __init__(
        self,
        number: int,
        *,
        model: str = "",
        id: str = "",  # noqa: A002 - the field's name
        created: int = 0,
        usage: bool = True,
        input_tokens: int = 0,
    ) -> None:
        self._input_tokens = input_tokens
        self._choices = [
            _Choice(model=model, id=id, created=created, usage=usage, index=index)
            for index in range(number)
        ]
        self._usages: list[Usage] = []
        self._open = number

    @property
    def ended(self) -> bool:
        """Whether the last word was written."""
        return not self._open

    def encode(self, choice: int, event: Event) -> bytes:
        """Write what *event* of the answer *choice* means; nothing after the last word."""
        encoder = self._choices[choice]
        if not self._open or encoder.has_ended:
            return b""
        data = encoder.encode(event)
        if not isinstance(event, Done | Failed):
            return data
        self._usages.append(told_usage(event.message, self._input_tokens))
        self._open = 0 if encoder.has_failed else self._open - 1
        if self._open:
            return data
        return data + (b"" if encoder.has_failed else self._write_usage()) + DONE

    def finish(self, failed: Failed | None = None) -> bytes:
        """End the stream; where an answer has not ended, with *failed* or as one that was cut."""
        cut = ErrorInfo("the stream ended before the answer did", "truncated", retryable=True)
        is_open = [index for index, one in enumerate(self._choices) if not one.has_ended]
        if not self._open or not is_open:
            return b""
        return self.encode(is_open[0], failed or Failed("error", cut, AssistantMessage()))

    def keep_alive(self) -> bytes:
        """Write a sign of life that means nothing to a client."""
        return self._choices[0].keep_alive()

    def _write_usage(self) -> bytes:
        return self._choices[0].write_usage(_summed(self._usages))


class _Choice(Encoder):
    """Writes one choice: all of its answer but the last word of the stream."""

    has_failed = False
    has_ended = False

    def _write_tail(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        del event
        self.has_ended = True
        self.has_failed = isinstance(ending, ErrorInfo)
        return b""


def write_choices(messages: list[AssistantMessage], *, created: int = 0) -> dict[str, Any]:
    """Write *messages* as the choices of one whole answer; `UsageError` if one of them failed."""
    if not messages:
        raise UsageError("an answer has one choice or more")
    answers = [write_response(message, created=created) for message in messages]
    choices = [{**one["choices"][0], "index": index} for index, one in enumerate(answers)]
    usage = tables.write_usage(_summed([message.usage for message in messages]))
    return {**answers[0], "choices": choices, "usage": usage}


def _summed(usages: list[Usage]) -> Usage:
    """Add up the tokens of all choices; the sum is an estimate if one of them is."""
    usage = summed(usages)
    if any(map(estimate_mark, usages)):
        usage.raw = {ESTIMATED: True}
    return usage
