"""Events as stream parts of the AI SDK: plain dicts, ready to be written as JSON.

A block becomes a start part and an end part with an id of its own, and its deltas between them. The
vocabularies differ in two ways:

* Our blocks may be open at the same time. The AI SDK requires text to end before a call, so a call
  ends the open text when it starts and again when it is complete; a block that continues afterwards
  does so with a new id.
* A client of the AI SDK executes every ``tool-call``, by its id. So an incomplete call gets none,
  and calls that share an id, or have none, get different ids.

`raw` is dropped: clients of the AI SDK do not use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, assert_never

import msgspec

from penstock import _json
from penstock.errors import JSONParseError, UsageError
from penstock.events import (
    Delta,
    Done,
    Event,
    Failed,
    MessageStart,
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
from penstock.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall, UniqueIds, Usage

StreamPart = dict[str, Any]
"""One part: a JSON object with a `type`."""

_KINDS: Final = {
    TextStart: "text",
    TextDelta: "text",
    TextEnd: "text",
    ThinkingStart: "reasoning",
    ThinkingDelta: "reasoning",
    ThinkingEnd: "reasoning",
    ToolCallStart: "tool-input",
    ToolCallDelta: "tool-input",
    ToolCallEnd: "tool-input",
}

_FINISH_REASONS: Final = {"stop": "stop", "length": "length", "tool_use": "tool-calls"}

# Parts of the AI SDK without an event of ours. A client refuses any other unknown `type`.
_OTHER_KINDS: Final = frozenset(
    {
        "custom", "file", "raw", "reasoning-file", "response-metadata", "source", "stream-start",
        "tool-approval-request", "tool-result",
    }
)  # fmt: skip


def parts(events: Iterable[Event]) -> Iterator[StreamPart]:
    """Yield the parts of *events*, each as soon as its event has arrived.

    *events* may be bare blocks, which have no ``finish``. Raise `UsageError` for a delta or an
    end of a block that is not open, and for an event after the terminal one.
    """
    view = Parts()
    for event in events:
        yield from view.feed(event)
    yield from view.finish()


def content(message: AssistantMessage) -> list[StreamPart]:
    """Return *message* as the content of a whole response.

    A block is one part: ``text``, ``reasoning``, ``tool-call``, or the data of an opaque block.
    Calls have the same ids as in the stream; incomplete ones are omitted.
    """
    ids = UniqueIds()
    found: list[StreamPart] = []
    for block in message.content:
        match block:
            case Text() | Thinking():
                kind = "text" if isinstance(block, Text) else "reasoning"
                part = {"type": kind, "text": block.text}
                found.append(_with_notes(part, signature=block.signature))
            case ToolCall():
                id_ = ids.claim(block.id or "call")
                if block.complete:
                    found.append(_call_part(id_, block, _write_arguments(block)))
            case Opaque():
                found.append(_opaque_part(block))
            case _:
                assert_never(block)
    return found


class Parts:
    """Events of one response in, parts out; call `finish` after the last event."""

    def __init__(self) -> None:
        self.ended = False
        self._blocks: dict[int, _Open] = {}
        self._open_texts: list[_Open] = []  # that a call has to end
        self._pairs = 0
        self._call_ids = UniqueIds()
        self._has_cut_call = False

    def feed(self, event: Event) -> list[StreamPart]:
        """Return the parts of *event*: none, one or several."""
        if self.ended:
            raise UsageError(f"`{event.type}` came after the terminal event")
        match event:
            case TextDelta() | ThinkingDelta() | ToolCallDelta():
                return self._add(event)
            case TextStart() | ThinkingStart():
                return [self._show(self._open(event))]
            case TextEnd() | ThinkingEnd():
                return self._end_block(event)
            case ToolCallStart():
                return self._start_call(event)
            case ToolCallEnd():
                return self._end_call(event)
            case Part():
                return [_opaque_part(event.part)]
            case MessageStart():
                return []
            case Done() | Failed():
                return self._end(event)
            case _:
                assert_never(event)

    def finish(self) -> list[StreamPart]:
        """End the open blocks; a terminal event has ended them already."""
        self.ended = True
        closing = []
        for block in self._blocks.values():
            is_call = block.kind == "tool-input"
            self._has_cut_call |= is_call
            if block.id:
                closing.append(block.close(incomplete=is_call))
        self._blocks.clear()
        return closing

    # --- blocks ---

    def _open(self, event: TextStart | ThinkingStart | ToolCallStart) -> _Open:
        if event.index in self._blocks:
            raise UsageError(f"`{event.type}` for block {event.index}, which is open already")
        block = self._blocks[event.index] = _Open(_KINDS[type(event)])
        return block

    def _find(self, event: Delta | TextEnd | ThinkingEnd | ToolCallEnd) -> _Open:
        block = self._blocks.get(event.index)
        if block is None or block.kind != _KINDS[type(event)]:
            raise UsageError(f"`{event.type}` for block {event.index}, which is not open")
        return block

    # --- text and reasoning ---

    def _show(self, block: _Open) -> StreamPart:
        """Return a start part for *block*, with a new id."""
        self._pairs += 1
        block.id = f"{block.kind}-{self._pairs}"
        if block.kind == "text":
            self._open_texts.append(block)
        return {"type": f"{block.kind}-start", "id": block.id}

    def _add(self, event: Delta) -> list[StreamPart]:
        block = self._find(event)
        piece = event.arguments if isinstance(event, ToolCallDelta) else event.text
        if not piece:
            return []
        start = [] if block.id else [self._show(block)]
        if block.kind == "tool-input":
            block.pieces.append(piece)
        return [*start, block.delta(piece)]

    def _end_block(self, event: TextEnd | ThinkingEnd) -> list[StreamPart]:
        block = self._find(event)
        del self._blocks[event.index]
        # A signature needs a part, even if a call has ended the one with the text.
        start = [self._show(block)] if event.signature and not block.id else []
        if not block.id:
            return []
        return [*start, block.close(signature=event.signature)]

    def _close_texts(self) -> list[StreamPart]:
        closing = [text.close() for text in self._open_texts if text.id]
        self._open_texts.clear()
        return closing

    # --- calls ---

    def _start_call(self, event: ToolCallStart) -> list[StreamPart]:
        closing = self._close_texts()
        block = self._open(event)
        block.id = self._call_ids.claim(event.id or "call")
        start = {"type": "tool-input-start", "id": block.id, "toolName": event.name}
        return [*closing, start]

    def _end_call(self, event: ToolCallEnd) -> list[StreamPart]:
        block, call = self._find(event), event.call
        del self._blocks[event.index]
        if not call.complete:
            self._has_cut_call = True
            return [block.close(incomplete=True, repairs=call.repairs)]
        closing = self._close_texts()
        written = _write_arguments(call, "".join(block.pieces))
        if not block.pieces:  # A client may read only deltas.
            closing.append(block.delta(written))
        whole = _call_part(block.id, call, written)
        return [*closing, block.close(), whole]

    # --- the end ---

    def _end(self, event: Done | Failed) -> list[StreamPart]:
        ending = self.finish()
        if isinstance(event, Failed):
            ending.append({"type": "error", "error": msgspec.to_builtins(event.error)})
        reason, usage = self._finish_reason(event), convert_usage(event.message.usage)
        ending.append({"type": "finish", "finishReason": reason, "usage": usage})
        return ending

    def _finish_reason(self, event: Done | Failed) -> str:
        if isinstance(event, Failed):
            return "content-filter" if event.error.kind in ("refusal", "filter") else "error"
        if event.reason == "tool_use" and self._has_cut_call:
            return "error"  # Law 7 forbids it; a client must not execute the calls.
        return _FINISH_REASONS[event.reason]


class _Open:
    """An open block, and the id of its parts."""

    __slots__ = ("id", "kind", "pieces")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.id = ""  # empty while its parts are ended by a call
        self.pieces: list[str] = []  # of a call's input

    def delta(self, piece: str) -> StreamPart:
        return {"type": f"{self.kind}-delta", "id": self.id, "delta": piece}

    def close(self, **notes: object) -> StreamPart:
        end = {"type": f"{self.kind}-end", "id": self.id}
        self.id = ""
        return _with_notes(end, **notes)


def _call_part(id: str, call: ToolCall, written: str) -> StreamPart:  # noqa: A002 - see above
    part = {"type": "tool-call", "toolCallId": id, "toolName": call.name, "input": written}
    return _with_notes(part, signature=call.signature, repairs=call.repairs)


def _write_arguments(call: ToolCall, deltas: str = "") -> str:
    """Return the arguments of *call*: as in its *deltas* if they are equal, otherwise compact."""
    written = _json.encode(call.arguments)
    # The client has seen the deltas: the same JSON in another spelling would look like another
    # input.
    if deltas:
        try:
            if _json.encode(_json.decode(deltas)) == written:
                return deltas
        except JSONParseError:
            pass  # The arguments were repaired.
    return written.decode()


def _opaque_part(part: Opaque) -> StreamPart:
    """Return a part of the AI SDK as it is; wrap any other provider's data."""
    data = part.data
    kind = data.get("type") if isinstance(data, dict) else None
    if isinstance(kind, str) and kind in _OTHER_KINDS:
        passed: StreamPart = data
        return passed
    return {"type": "raw", "rawValue": data}


def convert_usage(usage: Usage) -> dict[str, int]:
    """Count as the AI SDK does: the input includes what was read from or written to the cache."""
    read = usage.input + usage.cache_read + usage.cache_write
    return {
        "inputTokens": read,
        "outputTokens": usage.output,
        "totalTokens": usage.total or read + usage.output,
        "reasoningTokens": usage.reasoning,
        "cachedInputTokens": usage.cache_read,
    }


def _with_notes(part: StreamPart, **notes: object) -> StreamPart:
    """Add *notes*, which the AI SDK has no fields for, to *part*."""
    given = {name: note for name, note in notes.items() if note}
    if given:
        part["providerMetadata"] = {"penstock": given}
    return part
