"""Encode a stream of chat completion chunks.

Calls are numbered in the order in which they start, and their deltas may interleave. Text has no
blocks here, so two text blocks that are open at the same time are written one after the other.
Deltas are the hot path: fixed pieces of bytes around the quoted text.
"""

from __future__ import annotations

from typing import Any, Final

from penstock import _json
from penstock._json import without_lone_surrogates
from penstock.apis.encoder import (
    BlockEvent,
    BlockSequencer,
    Ending,
    GuardedArguments,
    IdMaker,
    StreamEncoder,
    find_whole_ending,
    with_writable_calls,
)
from penstock.apis.errors import truncated_error
from penstock.apis.fields import ESTIMATED, estimate_mark, is_counted, usage_or_estimate
from penstock.apis.openai_chat import tables
from penstock.errors import UsageError
from penstock.events import (
    ENDS,
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
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, Usage, sum_usage

# OpenAI sends `logprobs` and `finish_reason` in every delta, as null until the last.
_TAIL: Final = b'},"logprobs":null,"finish_reason":null}]}\n\n'
_CALL_TAIL: Final = b"}}]" + _TAIL
DONE: Final = b"data: [DONE]\n\n"
"""The end of every stream."""


class Encoder(StreamEncoder):
    """Events in, the bytes of a chat completion stream out.

    *index* is the number of the choice; see `ChoicesEncoder` for several. *error_id* is added to an
    error, so that it can be found in the log. *input_tokens* is the estimated size of the prompt:
    with it, a client that asked for token counts gets an estimate if the upstream has no counts.
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
        self._order = BlockSequencer()
        self._ids = IdMaker()
        self._numbers: dict[int, int] = {}  # of calls, by the index of the block
        # The arguments of open calls and the bytes before each delta, likewise.
        self._open_calls: dict[int, tuple[GuardedArguments, bytes]] = {}
        self._head = self._delta_head = self._text_head = b""  # the bytes before each delta

    def encode(self, event: Event) -> bytes:
        """Return the bytes of *event*; nothing is written after the terminal event."""
        if self._ended:
            return super().encode(event)
        # The hot path: most events are deltas of an open block, and only their text differs, so the
        # JSON around it is written once.
        if type(event) is TextDelta and event.index == self._order.current and event.text:
            return self._text_head + _json.encode_text(event.text) + _TAIL
        if type(event) is ToolCallDelta and event.index in self._open_calls:
            self._note_arguments(event)
            arguments, head = self._open_calls[event.index]
            sent = arguments.add(event.arguments)
            return head + _json.encode_text(sent) + _CALL_TAIL if sent else b""
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
        # OpenAI sends the role once, in a first delta without text; SDKs concatenate roles.
        return choice + b'"role":"assistant","content":""' + _TAIL

    def _write(self, event: BlockEvent) -> bytes:
        match event:
            case ToolCallStart():
                return self._write_call(event)
            case ToolCallEnd():
                return self._write_call_end(event)
            case Part() if event.part.provider == tables.NAME and isinstance(event.part.data, dict):
                return self._write_delta(event.part.data)
            case Part() | ToolCallDelta():  # `encode` writes the deltas of open calls.
                return b""
        return b"".join(map(self._write_text, self._order.put(event)))

    def _write_text(self, event: BlockEvent) -> bytes:
        if not isinstance(event, TextDelta | ThinkingDelta) or not event.text:
            return b""
        # `reasoning_content` is the field that most clients read (DeepSeek's name for it); OpenAI
        # itself never sends reasoning here.
        if isinstance(event, TextDelta):
            return self._text_head + _json.encode_text(event.text) + _TAIL
        return self._delta_head + b'"reasoning_content":' + _json.encode_text(event.text) + _TAIL

    def _write_delta(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": self._index, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._head + b',"choices":' + _json.encode_wire([choice]) + b"}\n\n"

    # --- calls ---

    def _write_call(self, event: ToolCallStart) -> bytes:
        # Clients join the fragments of a call by this number, so each call needs its own. Id and
        # name are in the first fragment only, as OpenAI sends them.
        number = self._numbers[event.index] = len(self._numbers)
        head = b'"tool_calls":[{"index":%d,"function":{"arguments":' % number
        self._open_calls[event.index] = GuardedArguments(), self._delta_head + head
        call = {
            "index": number,
            "id": self._ids.make(event.id),
            "type": "function",
            "function": {"name": event.name, "arguments": ""},
        }
        return self._write_delta({"tool_calls": [call]})

    def _write_arguments(self, index: int, arguments: str, **more: Any) -> bytes:
        if not arguments and not more:
            return b""
        number = self._numbers[index]
        call = {"index": number, "function": {"arguments": arguments}, **more}
        return self._write_delta({"tool_calls": [call]})

    def _write_call_end(self, event: ToolCallEnd) -> bytes:
        """Write what the deltas omitted: the end of the arguments and the signature."""
        arguments, _ = self._open_calls.pop(event.index)
        rest = arguments.end(event.call)
        return self._write_arguments(event.index, rest, **signature_field(event.call.signature))

    # --- the end ---

    def _write_end(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        return self._write_finish(event, ending) + self._write_tail(event, ending)

    def _write_finish(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        """Write the finish reason of the choice, or the error."""
        if isinstance(ending, ErrorInfo):
            error = tables.write_error(ending)
            if self._error_id:
                error["error_id"] = self._error_id
            # OpenAI's SDKs raise `APIError` for any chunk with a truthy `error`, whatever else it
            # has.
            return b"data: " + _json.encode_wire({"error": error}) + b"\n\n"
        return self._write_delta(
            refusal_field(event.message, ending), tables.FINISH_REASONS[ending]
        )

    def _write_tail(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        """Write the end of the stream: the token counts and ``[DONE]``."""
        is_error = isinstance(ending, ErrorInfo)
        usage = usage_or_estimate(event.message, self._input_tokens)
        return (b"" if is_error else self.write_usage(usage)) + DONE

    def write_usage(self, usage: Usage) -> bytes:
        """Write the token counts, if the client asked for them and there are any."""
        if not self._asked_for_usage or not is_counted(usage):
            return b""
        written = _json.encode_wire(tables.write_usage(usage))
        # A chunk of its own with empty `choices`, after the finish reason, as OpenAI sends it.
        return self._head + b',"choices":[],"usage":' + written + b"}\n\n"


class ChoicesEncoder:
    """Events of *number* responses in, the bytes of one stream with as many choices out.

    Each choice has an encoder of its own, and deltas are written in the order in which they arrive.
    The stream ends when all choices have ended, or with the first that fails: a client that asked
    for three choices and gets two could not tell which one is missing.
    """

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
        """Whether the end of the stream was written."""
        return not self._open

    def encode(self, choice: int, event: Event) -> bytes:
        """Return the bytes of *event* of the response *choice*."""
        encoder = self._choices[choice]
        if not self._open or encoder.has_ended:
            return b""
        data = encoder.encode(event)
        if not isinstance(event, ENDS):
            return data
        self._usages.append(usage_or_estimate(event.message, self._input_tokens))
        self._open = 0 if encoder.has_failed else self._open - 1
        if self._open:
            return data
        return data + (b"" if encoder.has_failed else self._write_usage()) + DONE

    def finish(self, failed: Failed | None = None) -> bytes:
        """End the stream; if a response has not ended, with *failed* or as truncated."""
        unended = [index for index, one in enumerate(self._choices) if not one.has_ended]
        if not self._open or not unended:
            return b""
        return self.encode(
            unended[0], failed or Failed("error", truncated_error(), AssistantMessage())
        )

    def keep_alive(self) -> bytes:
        """Return bytes that keep the connection open and that clients ignore."""
        return self._choices[0].keep_alive()

    def _write_usage(self) -> bytes:
        return self._choices[0].write_usage(_sum_usage(self._usages))


class _Choice(Encoder):
    """Writes one choice, without the end of the stream."""

    has_failed = False
    has_ended = False

    def _write_tail(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        del event
        self.has_ended = True
        self.has_failed = isinstance(ending, ErrorInfo)
        return b""


def write_choices(messages: list[AssistantMessage], *, created: int = 0) -> dict[str, Any]:
    """Write *messages* as the choices of one response; raise `UsageError` if one failed."""
    if not messages:
        raise UsageError("a response needs at least one choice")
    responses = [write_response(message, created=created) for message in messages]
    choices = [{**one["choices"][0], "index": index} for index, one in enumerate(responses)]
    usage = tables.write_usage(_sum_usage([message.usage for message in messages]))
    return {**responses[0], "choices": choices, "usage": usage}


def _sum_usage(usages: list[Usage]) -> Usage:
    """Add up the token counts of all choices; the sum is an estimate if one of them is."""
    usage = sum_usage(usages)
    if any(map(estimate_mark, usages)):
        usage.raw = {ESTIMATED: True}
    return usage


# --- whole chat completions ---


def write_response(message: AssistantMessage, *, created: int = 0) -> dict[str, Any]:
    """Write a whole response; raise `UsageError` for a failed one.

    Incomplete calls are omitted; the choice then has an `error`, as OpenRouter's have.
    """
    ending, flaw = find_whole_ending(message)
    message = with_writable_calls(message)
    response = {
        "id": message.id or "chatcmpl-1",
        "object": "chat.completion",
        "created": created,
        "model": message.model,
        "choices": [
            {
                "index": 0,
                "message": {**write_message(message), **refusal_field(message, ending)},
                "logprobs": None,
                "finish_reason": tables.FINISH_REASONS[ending],
                **({} if flaw is None else {"error": tables.write_error(flaw)}),
            }
        ],
        "usage": tables.write_usage(message.usage),
    }
    return without_lone_surrogates(response)


def refusal_field(message: AssistantMessage, ending: Ending) -> dict[str, Any]:
    """Return the field with the reason of a refusal, if *ending* is one."""
    if ending != "refusal" or message.error is None or not message.error.message:
        return {}
    return {"refusal": message.error.message}


def write_message(message: AssistantMessage) -> dict[str, Any]:
    """Write *message*; incomplete calls are omitted."""
    calls = [call for call in message.tool_calls if call.complete]
    fields: dict[str, Any] = {"role": "assistant", "content": message.text or None, "refusal": None}
    if message.thinking:
        fields["reasoning_content"] = message.thinking
    ids = IdMaker()
    if calls:
        fields["tool_calls"] = [
            {
                "id": ids.make(call.id),
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": _json.encode_wire(call.arguments).decode(),
                },
                **signature_field(call.signature),
            }
            for call in calls
        ]
    for block in message.content:
        if isinstance(block, Opaque) and block.provider == tables.NAME:
            fields |= block.data if isinstance(block.data, dict) else {}
    return fields


def signature_field(signature: str) -> dict[str, Any]:
    """Return the field with a call's signature, as Gemini's OpenAI endpoint has it."""
    if not signature:
        return {}
    return {"extra_content": {"google": {"thought_signature": signature}}}
