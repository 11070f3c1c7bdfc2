"""An agent's run as a UI message stream of the AI SDK, as `useChat` reads it.

::

    start ( step | note )* [message-metadata] ( [error] finish | abort )
    step := start-step ( text | reasoning | call | note )* finish-step

A run is one message. A step is a response with its calls, so a turn is one step; a response that is
requested again gets a step of its own. The protocol cannot take back what was shown: the step of a
dropped response contains a ``data-dropped`` part, by which a front end can hide it.

The protocol's own question whether a call may run is answered with the next request. So it is sent
at the end of a run, for calls whose decision was deferred. An approval during a run is a note. A
run of `Agent.resume` continues the message that the client has, with outputs for calls in it.

A chunk is a JSON object with a `type`; each is sent as a server-sent event, with ``[DONE]`` after
the last. Events that the protocol has no chunk for are sent as ``data-NAME``. A *transient* chunk
(a note) is shown by the client and not stored; any other is part of the message and comes back with
it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from itertools import chain
from typing import Any, Final

import msgspec
from msgspec import Struct

from penstock import _json
from penstock.agent import events as agent_events
from penstock.agent.run import AgentRun
from penstock.agent.tools.results import make_content
from penstock.apis.history import content_text
from penstock.errors import UsageError
from penstock.events import (
    Event,
    Part,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.framing import sse
from penstock.messages import AssistantMessage, ErrorInfo, ToolCall, Usage, sum_usage
from penstock.request import UserMessage
from penstock.views.ai_sdk import convert_usage

Chunk = dict[str, Any]
"""One chunk: a JSON object with a `type`."""

ErrorText = Callable[[ErrorInfo], str]
"""Returns what users see of an error."""

# The AI SDK requires `x-vercel-ai-ui-message-stream` of servers that are not written with it.
UI_HEADERS: Final = {
    "content-type": sse.CONTENT_TYPE,
    "cache-control": "no-cache",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",  # otherwise nginx buffers the stream until it ends
}
"""The headers of a response whose body is a UI message stream."""

DONE: Final = sse.encode("[DONE]")
"""The last event of a stream."""

NAMESPACE: Final = "penstock"
"""The key of `providerMetadata` for fields that the protocol does not have."""

# --- data parts that are stored in a message, and read back by `ai_sdk_messages` ---

DROPPED: Final = "data-dropped"
"""The response of this step is not part of the conversation."""
SAID: Final = "data-said"
"""A message of the user between two responses."""
REMINDER: Final = "data-reminder"
"""A message of a rule or a guard (`source`) to the model."""
OPAQUE: Final = "data-opaque"
"""A block that only its provider understands."""
ARGUMENTS: Final = "data-arguments"
"""The arguments that a call ran with, if they are not those of the model."""

NOT_RUN: Final = "The call was not run."

_FINISH_REASONS: Final = {"stop": "stop", "length": "length", "tool_use": "tool-calls"}


def encode(chunk: Chunk) -> bytes:
    """Encode *chunk* as a server-sent event; raise `UsageError` if it has no JSON form."""
    return sse.encode(_json.encode_wire(chunk))


async def ui_stream(run: AgentRun, view: UIStream | None = None) -> AsyncGenerator[bytes, None]:
    """Yield *run* as the body of a response with `UI_HEADERS`.

    Closing the generator before its end, as when the client disconnects, aborts the run.
    """
    view = view or UIStream()
    async with run:
        async for event in run:
            if chunks := view.feed(event):
                yield b"".join(map(encode, chunks))
    yield b"".join(map(encode, view.finish())) + DONE


class UIStream:
    """Converts one run: `feed` takes its events and returns chunks; call `finish` after the last.

    *message_id* is the id of the message if the server assigns ids; *id_prefix* is put before the
    ids of texts; *metadata* is sent with ``start``. *error_text* returns what users see of an
    error, by default its message.
    """

    def __init__(
        self,
        *,
        message_id: str = "",
        id_prefix: str = "",
        metadata: Mapping[str, Any] | None = None,
        error_text: ErrorText = lambda error: error.message,
    ) -> None:
        self.ended = False
        """Whether the last chunk was returned."""
        self._message_id = message_id
        self._prefix = id_prefix
        self._metadata = metadata
        self._error_text = error_text
        self._has_started = False
        self._responses = 0
        self._turn = 0
        self._step = Step("")  # of the message that the client has; not open
        self._is_open = False
        self._last: AssistantMessage | None = None
        self._usage = Usage()
        self._denied: set[str] = set()

    def feed(self, event: agent_events.AgentEvent) -> list[Chunk]:
        """Return the chunks of *event*; raise `UsageError` for an event after the end."""
        if self.ended:
            raise UsageError(f"the run has ended; got `{event.type}` after its last event")
        return [*self._start(), *self._convert(event)]

    def finish(self) -> list[Chunk]:
        """End a stream whose run was not read to its end; otherwise there is nothing left."""
        if self.ended:
            return []
        return [*self._start(), *self._close_step(), *self._abort("the run was left")]

    def _convert(self, event: agent_events.AgentEvent) -> list[Chunk]:
        match event:
            case agent_events.MessageUpdated():
                return self._step.convert(event.event)
            case agent_events.MessageStarted(AssistantMessage()):
                return self._open_step()
            case agent_events.MessageEnded():
                return self._end_message(event)
            case agent_events.ToolStarted() | agent_events.ToolUpdated() | agent_events.ToolEnded():
                return self._follow_call(event)
            case agent_events.TurnStarted():
                self._turn = event.turn
                return self._close_step()
            case agent_events.AgentEnded():
                return self._end(event)
            case (
                agent_events.AgentStarted()
                | agent_events.TurnEnded()
                | agent_events.MessageStarted()
                | agent_events.OutputUpdated()
            ):
                return []
            case _:
                # If the client itself denied a call of an earlier run, its part says so, and the
                # protocol has a chunk for its end. Any other denied call has failed.
                if isinstance(event, agent_events.CallDenied) and not self._step.has(event.id):
                    self._denied.add(event.id)
                return [_make_note(event, self._error_text)]

    def _start(self) -> list[Chunk]:
        if self._has_started:
            return []
        self._has_started = True
        start: Chunk = {"type": "start"}
        if self._message_id:
            start["messageId"] = self._message_id
        if self._metadata is not None:
            start["messageMetadata"] = dict(self._metadata)
        return [start]

    def _open_step(self) -> list[Chunk]:
        closing = self._close_step()
        self._responses += 1
        self._is_open = True
        self._step = Step(f"{self._prefix}{self._responses}-")
        return [*closing, {"type": "start-step"}]

    def _close_step(self) -> list[Chunk]:
        if not self._is_open:
            return []
        self._is_open = False
        return [*self._step.close(), {"type": "finish-step"}]

    def _end_message(self, event: agent_events.MessageEnded) -> list[Chunk]:
        message = event.message
        if isinstance(message, UserMessage):
            if self._turn <= 1 and not self._responses and not message.source:
                return []  # the prompt, which the client has sent
            data = {"content": msgspec.to_builtins(message.content)}
            if message.source:
                return [{"type": REMINDER, "data": {"source": message.source, **data}}]
            return [{"type": SAID, "data": data}]
        if not isinstance(message, AssistantMessage):
            return []
        self._last = message
        self._usage = sum_usage((self._usage, message.usage))
        if event.kept:
            return []
        # Version 6 of the protocol has no chunk that removes parts.
        error = _convert_error(message.error, self._error_text)
        return [{"type": DROPPED, "data": {"error": error}}]

    def _follow_call(
        self, event: agent_events.ToolStarted | agent_events.ToolUpdated | agent_events.ToolEnded
    ) -> list[Chunk]:
        if isinstance(event, agent_events.ToolStarted):
            return self._step.start_call(event)
        if isinstance(event, agent_events.ToolUpdated):
            return [_make_output(event.id, event.partial) | {"preliminary": True}]
        if event.id in self._denied:
            self._denied.remove(event.id)
            return [{"type": "tool-output-denied", "toolCallId": event.id}]
        return self._step.end_call(event)

    def _end(self, event: agent_events.AgentEnded) -> list[Chunk]:
        requests = [self._step.request_approval(call) for call in event.deferred]
        chunks = [*requests, *self._close_step()]
        error = event.error
        # The AI SDK ends aborted streams with `abort` and without `finish`.
        if error is not None and error.kind == "aborted" and error.type != "turns":
            return [*chunks, *self._abort(error.message)]
        self.ended = True
        chunks += self._make_metadata()
        if error is None:
            last = self._last.stop_reason if self._last is not None else None
            reason = _FINISH_REASONS.get(last or "stop", "other")
            reason = "tool-calls" if event.deferred else reason
        elif error.kind in ("refusal", "filter"):
            reason = "content-filter"
        else:
            chunks.append({"type": "error", "errorText": self._error_text(error)})
            reason = "other" if error.kind == "aborted" else "error"
        return [*chunks, {"type": "finish", "finishReason": reason}]

    def _abort(self, reason: str) -> list[Chunk]:
        self.ended = True
        return [*self._make_metadata(), {"type": "abort", "reason": reason}]

    def _make_metadata(self) -> list[Chunk]:
        """Return the model and the usage; before an error, where clients stop reading."""
        if self._last is None:
            return []
        metadata = {"model": self._last.model, "usage": convert_usage(self._usage)}
        return [{"type": "message-metadata", "messageMetadata": metadata}]


# --- steps ---


class _OpenBlock(Struct):
    """An open block: its kind, and the id of its part."""

    kind: str
    id: str


class _Call(Struct):
    """A call of the step; *arguments* are None until they are complete."""

    name: str
    arguments: dict[str, Any] | None = None
    partial: Any = None
    has_ended: bool = False


class Step:
    """The blocks of a response and the calls in it; *prefix* is put before the ids of its texts.

    A client finds the parts of a step by their ids, so the id of a text is unique in the message. A
    call keeps its own id, by which users decide about it; if two calls of a response share an id,
    the second gets another one. Each block is closed once, and each call ends once: with an output,
    an error, or the question whether it may run.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._texts = 0
        self._blocks: dict[int, _OpenBlock] = {}
        self._calls: dict[str, _Call] = {}

    def has(self, id: str) -> bool:  # noqa: A002 - the field's name
        """Return whether the step has a call with this id."""
        return id in self._calls

    def convert(self, event: Event) -> list[Chunk]:
        """Return the chunks of an event of the response.

        Raises `UsageError` for a delta or an end of a block that is not open.
        """
        match event:
            case TextDelta() | ThinkingDelta():
                block = self._find(event)
                chunk = {"type": f"{block.kind}-delta", "id": block.id, "delta": event.text}
                return [chunk] if event.text else []
            case ToolCallDelta(arguments=arguments):
                id_ = self._find(event).id
                chunk = {"type": "tool-input-delta", "toolCallId": id_, "inputTextDelta": arguments}
                return [chunk] if arguments else []
            case TextStart() | ThinkingStart():
                kind = "text" if isinstance(event, TextStart) else "reasoning"
                self._texts += 1
                id_ = f"{self._prefix}{kind}-{self._texts}"
                self._blocks[event.index] = _OpenBlock(kind, id_)
                return [{"type": f"{kind}-start", "id": id_}]
            case TextEnd() | ThinkingEnd():
                block = self._take(event)
                end = {"type": f"{block.kind}-end", "id": block.id}
                return [_add_metadata(end, signature=event.signature)]
            case ToolCallStart():
                return [self._open_call(event)]
            case ToolCallEnd():
                return self._end_input(self._take(event).id, event.call)
            case Part(part=part):
                return [{"type": OPAQUE, "data": {"provider": part.provider, "data": part.data}}]
        return []

    def _find(
        self, event: TextDelta | ThinkingDelta | ToolCallDelta | TextEnd | ThinkingEnd | ToolCallEnd
    ) -> _OpenBlock:
        block = self._blocks.get(event.index)
        if block is None:
            raise UsageError(f"`{event.type}` for block {event.index}, which is not open")
        return block

    def _take(self, event: TextEnd | ThinkingEnd | ToolCallEnd) -> _OpenBlock:
        block = self._find(event)
        del self._blocks[event.index]
        return block

    def _open_call(self, event: ToolCallStart) -> Chunk:
        id_, number = event.id, 1
        while id_ in self._calls:
            number += 1
            # The client keeps one part per `toolCallId`: a second call would overwrite the first.
            id_ = f"{event.id}-{number}"
        self._calls[id_] = _Call(event.name)
        self._blocks[event.index] = _OpenBlock("tool-input", id_)
        return {"type": "tool-input-start", "toolCallId": id_, "toolName": event.name}

    def _end_input(self, id_: str, call: ToolCall) -> list[Chunk]:
        """Return the complete input; an incomplete call is reported at its end."""
        if not call.complete:
            self._calls[id_].partial = call.arguments
            return []
        self._calls[id_].arguments = call.arguments
        chunk = {
            "type": "tool-input-available",
            "toolCallId": id_,
            "toolName": call.name,
            "input": call.arguments,
        }
        return [_add_metadata(chunk, signature=call.signature, repairs=call.repairs)]

    def start_call(self, event: agent_events.ToolStarted) -> list[Chunk]:
        """Return the arguments that a call runs with, if they were changed."""
        call = self._calls.get(event.id)
        if call is None or call.arguments is None or call.arguments == event.arguments:
            return []
        data = {"toolCallId": event.id, "arguments": event.arguments}
        return [{"type": ARGUMENTS, "data": data}]

    def end_call(self, event: agent_events.ToolEnded) -> list[Chunk]:
        """Return the result of a call; also of one of an earlier run, which the client shows."""
        result = event.result
        reason = content_text(result.content) if result.is_error else ""
        call = self._calls.get(event.id)
        if call is not None and (call.has_ended or call.arguments is None):
            return self._fail(event.id, call, reason or NOT_RUN)
        if call is not None:
            call.has_ended = True
        if result.is_error:
            chunk = _make_output_error(event.id, reason)
        else:
            chunk = _make_output(event.id, result.content)
        details = None if event.details is None else convert_value(event.details)
        return [_add_metadata(chunk, details=details)]

    def request_approval(self, call: ToolCall) -> Chunk:
        """Return the question whether *call* may run: its step ends without an output."""
        if call.id in self._calls:
            self._calls[call.id].has_ended = True
        return {
            "type": "tool-approval-request",
            "approvalId": f"approval-{call.id}",
            "toolCallId": call.id,
        }

    def close(self) -> list[Chunk]:
        """Close the open blocks, and end the calls that are not run any more."""
        texts = [block for block in self._blocks.values() if block.kind != "tool-input"]
        self._blocks.clear()
        ends = [{"type": f"{block.kind}-end", "id": block.id} for block in texts]
        calls = [self._fail(id_, call, NOT_RUN) for id_, call in self._calls.items()]
        return [*ends, *chain.from_iterable(calls)]

    def _fail(self, id_: str, call: _Call, reason: str) -> list[Chunk]:
        if call.has_ended:
            return []
        call.has_ended = True
        if call.arguments is not None:
            return [_make_output_error(id_, reason)]
        chunk = {"type": "tool-input-error", "toolCallId": id_, "toolName": call.name}
        return [chunk | {"input": call.partial or {}, "errorText": reason}]


# --- chunks ---


def _make_output(id_: str, value: object) -> Chunk:
    return {"type": "tool-output-available", "toolCallId": id_, "output": convert_value(value)}


def _make_output_error(id_: str, reason: str) -> Chunk:
    return {"type": "tool-output-error", "toolCallId": id_, "errorText": reason}


def _add_metadata(chunk: Chunk, **fields: object) -> Chunk:
    """Add the fields that are not empty to *chunk* as provider metadata."""
    present = {name: value for name, value in fields.items() if value}
    if present:
        chunk["providerMetadata"] = {NAMESPACE: present}
    return chunk


def convert_value(value: object) -> Any:
    """Return the output of a tool as JSON; blocks are objects with a `type`."""
    return msgspec.to_builtins(make_content(value))


def _convert_error(error: ErrorInfo | None, error_text: ErrorText) -> dict[str, Any] | None:
    return None if error is None else {"message": error_text(error), "kind": error.kind}


NotedEvent = (
    agent_events.FindingMade
    | agent_events.RetryStarted
    | agent_events.RetryEnded
    | agent_events.FallbackStarted
    | agent_events.CompactionStarted
    | agent_events.CompactionEnded
    | agent_events.ExtensionErrorEvent
    | agent_events.ApprovalRequested
    | agent_events.CallApproved
    | agent_events.CallDenied
)
"""An event that is sent as a note."""

# The name of each note, and its `state`.
_NOTES: Final[dict[type[NotedEvent], tuple[str, str]]] = {
    agent_events.FindingMade: ("finding", ""),
    agent_events.FallbackStarted: ("fallback", ""),
    agent_events.RetryStarted: ("retry", "started"),
    agent_events.RetryEnded: ("retry", "ended"),
    agent_events.CompactionStarted: ("compaction", "started"),
    agent_events.CompactionEnded: ("compaction", "ended"),
    agent_events.ExtensionErrorEvent: ("extension-error", ""),
    agent_events.ApprovalRequested: ("approval", "requested"),
    agent_events.CallApproved: ("approval", "approved"),
    agent_events.CallDenied: ("approval", "denied"),
}

_NOTE_KEYS: Final = {"id": "toolCallId", "name": "toolName"}


def _make_note(event: NotedEvent, error_text: ErrorText) -> Chunk:
    """Return *event* as a transient chunk with its fields."""
    kind, state = _NOTES[type(event)]
    data: dict[str, Any] = {"state": state} if state else {}
    for name, value in msgspec.structs.asdict(event).items():
        is_error = name == "error"
        data[_NOTE_KEYS.get(name, name)] = _convert_error(value, error_text) if is_error else value
    return {"type": f"data-{kind}", "data": data, "transient": True}
