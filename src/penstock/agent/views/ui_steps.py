"""One step of a UI message: the blocks of an answer, and the calls among them.

A client finds the parts of a step by their ids, so a text gets one that no other text of the
message has. A call keeps its own, by which people decide about it; only where two calls of one
answer share an id, the second gets another. Whatever happens, each block is closed once, and each
call ends once: with an output, an error, or the question whether it may run.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

from msgspec import Struct

from penstock.agent.events import ToolEnded, ToolStarted, ToolUpdated
from penstock.agent.views.ui_chunks import ARGUMENTS, OPAQUE, Chunk, noted, shown
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
from penstock.messages import ToolCall

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
    """An answer and what becomes of its calls; *prefix* stands before the ids of its texts."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._texts = 0
        self._blocks: dict[int, _Open] = {}
        self._calls: dict[str, _Call] = {}

    def has(self, id: str) -> bool:  # noqa: A002 - the field's name
        """Tell whether a call of this id is one of the step."""
        return id in self._calls

    # --- the answer ---

    def show(self, event: Event) -> list[Chunk]:
        """Give the chunks of an event of the answer.

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
        """Tell that the input is whole; of one that was cut its end will tell."""
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
        """Tell what a call runs with, where somebody changed it."""
        call = self._calls.get(event.id)
        if call is None or call.arguments is None or call.arguments == event.arguments:
            return []
        data = {"toolCallId": event.id, "arguments": event.arguments}
        return [{"type": ARGUMENTS, "data": data}]

    def update(self, event: ToolUpdated) -> list[Chunk]:
        """Show as much of an output as there is."""
        return [output(event.id, shown(event.partial)) | {"preliminary": True}]

    def end(self, event: ToolEnded) -> list[Chunk]:
        """Tell what a call came to; also one of an earlier run, which the client still shows."""
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
