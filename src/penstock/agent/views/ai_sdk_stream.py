"""An agent's run as a UI message stream of the AI SDK, as `useChat` reads it.

::

    start ( step | note )* [message-metadata] ( [error] finish | abort )
    step := start-step ( text | reasoning | call | note )* finish-step

A run is one message. A step is an answer with the calls in it, so a turn is one step; an answer
that is retried gets a step of its own. The protocol cannot take back what was shown: the
step of an answer that was dropped holds a ``data-dropped`` part, for a front end to hide it by.

The protocol's own question whether a call may run is answered with the next request. So it is asked
at the end of a run, about the calls that were deferred; where somebody is asked meanwhile, that is
a note. A run of `Agent.proceed` continues with the message that the client has: it tells the
outputs of calls that stand there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from itertools import chain
from typing import Any, Final, assert_never

import msgspec
from msgspec import Struct

from penstock import _json
from penstock.agent.events import (
    AgentEnded,
    AgentEvent,
    AgentStarted,
    ApprovalRequested,
    CallApproved,
    CallDenied,
    CompactionEnded,
    CompactionStarted,
    ExtensionErrorEvent,
    FindingMade,
    MessageEnded,
    MessageStarted,
    MessageUpdated,
    RetryEnded,
    RetryStarted,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    TurnStarted,
)
from penstock.agent.run import AgentRun
from penstock.agent.tools.results import make_content
from penstock.apis.history import text_of
from penstock.errors import UsageError
from penstock.events import (
    Delta,
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
from penstock.messages import AssistantMessage, ErrorInfo, ToolCall, Usage, summed
from penstock.request import UserMessage

# The chunks of the AI SDK's UI message stream: plain dicts, and how they go over the wire.
#
# A chunk is a JSON object with a `type`; each leaves as a server-sent event, and ``[DONE]``
# after the last. What the protocol has no chunk for goes as ``data-NAME``. A *transient* one
# is told to whoever listens and is not a part of the message; any other stays in it and comes back
# with it.


Chunk = dict[str, Any]
"""One chunk: a JSON object with a `type`."""

ErrorText = Callable[[ErrorInfo], str]
"""Says what people are told of a failure."""

UI_HEADERS: Final = {
    "content-type": sse.CONTENT_TYPE,
    "cache-control": "no-cache",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",  # else nginx holds the stream back until it ends
}
"""The headers of a response whose body is a UI message stream."""

DONE: Final = sse.encode("[DONE]")
"""What comes after the last chunk."""

NAMESPACE: Final = "penstock"
"""The key of `providerMetadata` under which we note what the protocol has no field for."""

# --- the data parts that stay in a message; whoever reads it back knows them ---

DROPPED: Final = "data-dropped"
"""The step that it is in was taken back: the answer is not a part of the conversation."""
SAID: Final = "data-said"
"""Something that the user said between two answers."""
REMINDER: Final = "data-reminder"
"""What a rule or a guard told the model: `source` says which; not the user's words."""
OPAQUE: Final = "data-opaque"
"""A block that only its provider understands."""
ARGUMENTS: Final = "data-arguments"
"""What a call ran with, where that is not what the model asked for."""


def encode(chunk: Chunk) -> bytes:
    """Write *chunk* as a server-sent event; raise `UsageError` for what is no JSON value."""
    return sse.encode(_json.encode_wire(chunk))


def note(kind: str, **data: object) -> Chunk:
    """Make a chunk that is told once and kept by nobody."""
    return {"type": f"data-{kind}", "data": data, "transient": True}


def noted(chunk: Chunk, **notes: object) -> Chunk:
    """Add to *chunk* what the protocol has no field for, where there is any."""
    said = {name: value for name, value in notes.items() if value}
    if said:
        chunk["providerMetadata"] = {NAMESPACE: said}
    return chunk


def shown(value: object) -> Any:
    """Return *value*, whatever a tool made of it, as JSON: blocks are objects with a `type`."""
    return msgspec.to_builtins(make_content(value))


def error_shown(error: ErrorInfo | None, words: ErrorText) -> dict[str, Any] | None:
    """Return what people are told of *error*, in the *words* for it."""
    return None if error is None else {"message": words(error), "kind": error.kind}


def usage_shown(usage: Usage) -> dict[str, int]:
    """Count as the AI SDK does: what was read from or written to the cache is input too."""
    read = usage.input + usage.cache_read + usage.cache_write
    return {
        "inputTokens": read,
        "outputTokens": usage.output,
        "totalTokens": usage.total or read + usage.output,
        "reasoningTokens": usage.reasoning,
        "cachedInputTokens": usage.cache_read,
    }


# What happens beside the answers, as notes: told to whoever listens, no part of the message.


Approval = ApprovalRequested | CallApproved | CallDenied
Noted = (
    FindingMade
    | RetryStarted
    | RetryEnded
    | CompactionStarted
    | CompactionEnded
    | ExtensionErrorEvent
)


def note_of(event: Noted | Approval, words: ErrorText) -> Chunk:
    """Return *event* as a note, errors in *words*; what begins and ends has a `state`."""
    match event:
        case FindingMade():
            return note(
                "finding",
                source=event.source,
                names=event.names,
                text=event.text,
                interrupts=event.interrupts,
            )
        case RetryStarted() | RetryEnded():
            return _retry(event, words)
        case CompactionStarted() | CompactionEnded():
            return _compaction(event, words)
        case ExtensionErrorEvent():
            return note("complaint", source=event.source, message=event.message)
        case ApprovalRequested() | CallApproved() | CallDenied():
            return _approval(event)
        case _:
            assert_never(event)


def _retry(event: RetryStarted | RetryEnded, words: ErrorText) -> Chunk:
    error = error_shown(event.error, words)
    if isinstance(event, RetryEnded):
        return note(
            "retry", state="ended", success=event.success, attempt=event.attempt, error=error
        )
    return note(
        "retry",
        state="started",
        attempt=event.attempt,
        attempts=event.attempts,
        delay=event.delay,
        error=error,
    )


def _compaction(event: CompactionStarted | CompactionEnded, words: ErrorText) -> Chunk:
    if isinstance(event, CompactionStarted):
        return note("compaction", state="started", reason=event.reason, tokens=event.tokens)
    error = error_shown(event.error, words)
    return note("compaction", state="ended", summary=event.summary, kept=event.kept, error=error)


def _approval(event: Approval) -> Chunk:
    states = {ApprovalRequested: "requested", CallApproved: "approved", CallDenied: "denied"}
    state, call, name = states[type(event)], event.id, event.name
    if isinstance(event, CallDenied):
        return note("approval", state=state, toolCallId=call, toolName=name, reason=event.reason)
    return note("approval", state=state, toolCallId=call, toolName=name, arguments=event.arguments)


# One step of a UI message: the blocks of an answer, and the calls among them.
#
# A client finds the parts of a step by their ids, so a text gets one that no other text of the
# message has. A call keeps its own, by which people decide about it; only where two calls of
# one answer share an id, the second gets another. Whatever happens, each block is closed once,
# and each call ends once: with an output, an error, or the question whether it may run.


NEVER_RAN: Final = "The call was not run."


class _Open(Struct):
    """A block that is open: what it is, and its id among the parts."""

    kind: str
    id: str


class _Call(Struct):
    """A call of the step: what the model asked for, once that is whole."""

    name: str
    arguments: dict[str, Any] | None = None
    partial: Any = None
    has_ended: bool = False


class Step:
    """An answer and what becomes of its calls; *prefix* comes before the ids of its texts."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._texts = 0
        self._blocks: dict[int, _Open] = {}
        self._calls: dict[str, _Call] = {}

    def has(self, id: str) -> bool:  # noqa: A002 - the field's name
        """Return whether a call of this id is one of the step."""
        return id in self._calls

    # --- the answer ---

    def show(self, event: Event) -> list[Chunk]:
        """Return the chunks of an event of the answer.

        Raises `UsageError` for a piece of a block that is not open.
        """
        match event:
            case TextDelta() | ThinkingDelta() | ToolCallDelta():
                return self._add(event)
            case TextStart():
                return [self._open(event.index, "text")]
            case ThinkingStart():
                return [self._open(event.index, "reasoning")]
            case TextEnd() | ThinkingEnd():
                block = self._close(event)
                end = {"type": f"{block.kind}-end", "id": block.id}
                return [noted(end, signature=event.signature)]
            case ToolCallStart():
                return [self._start_call(event)]
            case ToolCallEnd():
                return self._end_input(self._close(event).id, event.call)
            case Part(part=part):
                data = {"provider": part.provider, "data": part.data}
                return [{"type": OPAQUE, "data": data}]
        return []

    def _open(self, index: int, kind: str) -> Chunk:
        self._texts += 1
        block = self._blocks[index] = _Open(kind, f"{self._prefix}{kind}-{self._texts}")
        return {"type": f"{kind}-start", "id": block.id}

    def _add(self, event: Delta) -> list[Chunk]:
        block = self._find(event)
        if isinstance(event, ToolCallDelta):
            piece, chunk = event.arguments, _input_delta(block.id, event.arguments)
        else:
            piece = event.text
            chunk = {"type": f"{block.kind}-delta", "id": block.id, "delta": event.text}
        return [chunk] if piece else []

    def _find(self, event: Delta | TextEnd | ThinkingEnd | ToolCallEnd) -> _Open:
        block = self._blocks.get(event.index)
        if block is None:
            raise UsageError(f"`{event.type}` for block {event.index}, which is not open")
        return block

    def _close(self, event: TextEnd | ThinkingEnd | ToolCallEnd) -> _Open:
        block = self._find(event)
        del self._blocks[event.index]
        return block

    # --- the input of calls ---

    def _start_call(self, event: ToolCallStart) -> Chunk:
        id_, number = event.id, 1
        while id_ in self._calls:
            number += 1
            id_ = f"{event.id}-{number}"
        self._calls[id_] = _Call(event.name)
        self._blocks[event.index] = _Open("tool-input", id_)
        return {"type": "tool-input-start", "toolCallId": id_, "toolName": event.name}

    def _end_input(self, id_: str, call: ToolCall) -> list[Chunk]:
        """Return that the input is whole; of one that was cut its end will tell."""
        of = self._calls[id_]
        if not call.complete:
            of.partial = call.arguments
            return []
        of.arguments = call.arguments
        whole = {
            "type": "tool-input-available",
            "toolCallId": id_,
            "toolName": call.name,
            "input": call.arguments,
        }
        return [noted(whole, signature=call.signature, repairs=call.repairs)]

    # --- what becomes of them ---

    def run(self, event: ToolStarted) -> list[Chunk]:
        """Return what a call runs with, where somebody changed it."""
        call = self._calls.get(event.id)
        if call is None or call.arguments is None or call.arguments == event.arguments:
            return []
        data = {"toolCallId": event.id, "arguments": event.arguments}
        return [{"type": ARGUMENTS, "data": data}]

    def update(self, event: ToolUpdated) -> list[Chunk]:
        """Show as much of an output as there is."""
        return [output(event.id, shown(event.partial)) | {"preliminary": True}]

    def end(self, event: ToolEnded) -> list[Chunk]:
        """Return what a call came to; also one of an earlier run, which the client still shows."""
        result = event.result
        told = text_of(result.content) if result.is_error else ""
        call = self._calls.get(event.id)
        if call is not None and (call.has_ended or call.arguments is None):
            return self._fail(event.id, call, told or NEVER_RAN)
        if call is not None:
            call.has_ended = True
        given = output(event.id, shown(result.content))
        ended = failure(event.id, told) if result.is_error else given
        return [noted(ended, details=None if event.details is None else shown(event.details))]

    def ask(self, call: ToolCall) -> Chunk:
        """Ask whether *call* may run: its step ends without an output."""
        if call.id in self._calls:
            self._calls[call.id].has_ended = True
        return {
            "type": "tool-approval-request",
            "approvalId": f"approval-{call.id}",
            "toolCallId": call.id,
        }

    def _fail(self, id_: str, call: _Call, reason: str) -> list[Chunk]:
        if call.has_ended:
            return []
        call.has_ended = True
        if call.arguments is not None:
            return [failure(id_, reason)]
        return [
            {
                "type": "tool-input-error",
                "toolCallId": id_,
                "toolName": call.name,
                "input": call.partial or {},
                "errorText": reason,
            }
        ]

    def close(self) -> list[Chunk]:
        """Close whatever is open: blocks, and calls that nobody will run any more."""
        texts = [block for block in self._blocks.values() if block.kind != "tool-input"]
        self._blocks.clear()
        ends = [{"type": f"{block.kind}-end", "id": block.id} for block in texts]
        calls = [self._fail(id_, call, NEVER_RAN) for id_, call in self._calls.items()]
        return [*ends, *chain.from_iterable(calls)]


def output(id_: str, value: object) -> Chunk:
    """Make the chunk of what a call gave back."""
    return {"type": "tool-output-available", "toolCallId": id_, "output": value}


def failure(id_: str, reason: str) -> Chunk:
    """Make the chunk of a call that failed."""
    return {"type": "tool-output-error", "toolCallId": id_, "errorText": reason}


def _input_delta(id_: str, piece: str) -> Chunk:
    return {"type": "tool-input-delta", "toolCallId": id_, "inputTextDelta": piece}


_FINISH_REASONS: Final = {"stop": "stop", "length": "length", "tool_use": "tool-calls"}


def _message(error: ErrorInfo) -> str:
    return error.message


class UIStream:
    """Shows one run: events in by `feed`, chunks out, `finish` after the last one.

    *message_id* names the message, where the server keeps names for them; *id_prefix* comes before
    the ids of texts; *metadata* goes along with ``start``. *error_text* says what people are told
    of a failure: the error's own words, unless they are not for everybody.
    """

    def __init__(
        self,
        *,
        message_id: str = "",
        id_prefix: str = "",
        metadata: Mapping[str, Any] | None = None,
        error_text: ErrorText = _message,
    ) -> None:
        self.ended = False
        """Whether the last chunk was given."""
        self._message_id = message_id
        self._prefix = id_prefix
        self._metadata = metadata
        self._error_text = error_text
        self._has_begun = False
        self._answers = 0
        self._turn = 0
        self._step = Step("")  # of the message that the client has; not open
        self._is_open = False
        self._last: AssistantMessage | None = None
        self._usage = Usage()
        self._denied: set[str] = set()

    def feed(self, event: AgentEvent) -> list[Chunk]:
        """Return the chunks of *event*: none, one or several.

        Raises `UsageError` for an event after the last of a run.
        """
        if self.ended:
            raise UsageError(f"the run has ended: `{event.type}` is no part of it")
        start = self._begin()
        return [*start, *self._told(event)]

    def finish(self) -> list[Chunk]:
        """End a stream whose run was not told to its end; after its end there is nothing left."""
        if self.ended:
            return []
        return [*self._begin(), *self._close_step(), *self._abort("the run was left")]

    def _told(self, event: AgentEvent) -> list[Chunk]:
        match event:
            case MessageUpdated():
                return self._step.show(event.event)
            case MessageStarted(AssistantMessage()):
                return self._open_step()
            case MessageEnded():
                return self._end_message(event)
            case ToolStarted() | ToolUpdated() | ToolEnded():
                return self._follow(event)
            case ApprovalRequested() | CallApproved() | CallDenied():
                return self._approval(event)
            case TurnStarted():
                self._turn = event.turn
                return self._close_step()
            case AgentEnded():
                return self._end(event)
            case AgentStarted() | TurnEnded() | MessageStarted():
                return []
            case _:
                return [note_of(event, self._error_text)]

    # --- the message and its steps ---

    def _begin(self) -> list[Chunk]:
        if self._has_begun:
            return []
        self._has_begun = True
        start: Chunk = {"type": "start"}
        if self._message_id:
            start["messageId"] = self._message_id
        if self._metadata is not None:
            start["messageMetadata"] = dict(self._metadata)
        return [start]

    def _open_step(self) -> list[Chunk]:
        closing = self._close_step()
        self._answers += 1
        self._is_open = True
        self._step = Step(f"{self._prefix}{self._answers}-")
        return [*closing, {"type": "start-step"}]

    def _close_step(self) -> list[Chunk]:
        if not self._is_open:
            return []
        self._is_open = False
        return [*self._step.close(), {"type": "finish-step"}]

    def _end_message(self, event: MessageEnded) -> list[Chunk]:
        message = event.message
        if isinstance(message, UserMessage):
            return self._said(message)
        if not isinstance(message, AssistantMessage):
            return []
        self._last = message
        self._usage = summed((self._usage, message.usage))
        if event.kept:
            return []
        error = error_shown(message.error, self._error_text)
        return [{"type": DROPPED, "data": {"error": error}}]

    def _said(self, message: UserMessage) -> list[Chunk]:
        """Return what is said between answers.

        What is said before the first the client has sent.
        """
        if self._turn <= 1 and not self._answers and not message.source:
            return []
        content = msgspec.to_builtins(message.content)
        if message.source:
            return [{"type": REMINDER, "data": {"source": message.source, "content": content}}]
        return [{"type": SAID, "data": {"content": content}}]

    # --- calls ---

    def _follow(self, event: ToolStarted | ToolUpdated | ToolEnded) -> list[Chunk]:
        if isinstance(event, ToolStarted):
            return self._step.run(event)
        if isinstance(event, ToolUpdated):
            return self._step.update(event)
        if event.id in self._denied:
            self._denied.remove(event.id)
            return [{"type": "tool-output-denied", "toolCallId": event.id}]
        return self._step.end(event)

    def _approval(self, event: ApprovalRequested | CallApproved | CallDenied) -> list[Chunk]:
        """Return what is decided while the run continues.

        A call of an earlier run was denied by the client's own answer, and its part says so: only
        then has the protocol a word for it. Any other that is denied has failed.
        """
        if isinstance(event, CallDenied) and not self._step.has(event.id):
            self._denied.add(event.id)
        return [note_of(event, self._error_text)]

    # --- the end ---

    def _end(self, event: AgentEnded) -> list[Chunk]:
        asking = [self._step.ask(call) for call in event.deferred]
        closing = [*asking, *self._close_step()]
        error = event.error
        if error is not None and error.kind == "aborted" and error.type != "turns":
            return [*closing, *self._abort(error.message)]
        self.ended = True
        closing += self._spent()
        if error is not None and error.kind not in ("refusal", "filter"):
            closing.append({"type": "error", "errorText": self._error_text(error)})
        return [*closing, {"type": "finish", "finishReason": self._reason(event)}]

    def _abort(self, reason: str) -> list[Chunk]:
        self.ended = True
        return [*self._spent(), {"type": "abort", "reason": reason}]

    def _spent(self) -> list[Chunk]:
        """Return who answered, and what it took.

        Before an error, for clients stop to read there.
        """
        if self._last is None:
            return []
        spent = {"model": self._last.model, "usage": usage_shown(self._usage)}
        return [{"type": "message-metadata", "messageMetadata": spent}]

    def _reason(self, event: AgentEnded) -> str:
        if event.error is not None:
            kind = event.error.kind
            failed = "other" if kind == "aborted" else "error"
            return "content-filter" if kind in ("refusal", "filter") else failed
        if event.deferred:
            return "tool-calls"
        last = self._last.stop_reason if self._last is not None else None
        return _FINISH_REASONS.get(last or "stop", "other")


async def ui_stream(run: AgentRun, view: UIStream | None = None) -> AsyncGenerator[bytes, None]:
    """Yield *run* as the body of a response that has `UI_HEADERS`.

    Whoever stops to read before the end, as a client that hangs up does, aborts the run.
    """
    view = view or UIStream()
    async with run:
        async for event in run:
            if chunks := view.feed(event):
                yield b"".join(map(encode, chunks))
    yield b"".join(map(encode, view.finish())) + DONE
