"""The events as stream parts of the AI SDK: plain dicts, ready to be written as JSON.

A block becomes a pair of parts with an id of its own, its deltas between them. Two things differ
between the vocabularies, and both are settled here:

* Blocks may be open side by side in ours. The AI SDK wants text closed before a call, so a call
  closes the text that is open when it begins and again when it is complete; a block that continues
  afterwards continues under a new id.
* A client of the AI SDK executes every ``tool-call``, by its id. So a call that is not complete
  gets none, and calls that share an id, or have none, are told apart.

`raw` stays after: clients of the AI SDK have no use for markup.
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
from penstock.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall, Usage

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

_OTHER_KINDS: Final = frozenset(
    {
        "custom",
        "file",
        "raw",
        "reasoning-file",
        "response-metadata",
        "source",
        "stream-start",
        "tool-approval-request",
        "tool-result",
    }
)
"""Parts of the AI SDK that no event stands for. A client refuses any other unknown `type`."""


def parts(events: Iterable[Event]) -> Iterator[StreamPart]:
    """Yield the parts of *events*, each as soon as its event has come.

    A bare sequence of blocks does as well: it gives no ``finish``. Raise `UsageError` for a delta
    or an end of a block that is not open, and for an event after the terminal one.
    """
    view = Parts()
    for event in events:
        yield from view.feed(event)
    yield from view.finish()


def content(message: AssistantMessage) -> list[StreamPart]:
    """Return *message* as the content of a whole answer.

    A block is one part: ``text``, ``reasoning``, ``tool-call``, or what an opaque block holds.
    Calls have the ids that the stream gives them; incomplete ones are omitted.
    """
    ids = _CallIds()
    found: list[StreamPart] = []
    for block in message.content:
        match block:
            case Text() | Thinking():
                kind = "text" if isinstance(block, Text) else "reasoning"
                part = {"type": kind, "text": block.text}
                found.append(_noted(part, signature=block.signature))
            case ToolCall():
                id_ = ids.claim(block.id)
                if block.complete:
                    found.append(_call_part(id_, block, _written(block)))
            case Opaque():
                found.append(_passed_through(block))
            case _:
                assert_never(block)
    return found


class Parts:
    """The view of one answer: events in by `feed`, parts out, `finish` after the last one."""

    def __init__(self) -> None:
        self.ended = False
        self._blocks: dict[int, _Open] = {}
        self._shown_texts: list[_Open] = []  # those that a call has to close
        self._pairs = 0
        self._call_ids = _CallIds()
        self._has_cut_call = False

    def feed(self, event: Event) -> list[StreamPart]:
        """Return the parts that *event* stands for: none, one or several."""
        if self.ended:
            raise UsageError(f"the answer has ended: `{event.type}` belongs to no part of it")
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
                return [_passed_through(event.part)]
            case MessageStart():
                return []
            case Done() | Failed():
                return self._end(event)
            case _:
                assert_never(event)

    def finish(self) -> list[StreamPart]:
        """Close what is still open; after a terminal event nothing is."""
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
        """Open a pair for *block*, under an id that no other pair has."""
        self._pairs += 1
        block.id = f"{block.kind}-{self._pairs}"
        if block.kind == "text":
            self._shown_texts.append(block)
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
        # A signature needs a pair to stand on, even if a call has closed the one with the text.
        start = [self._show(block)] if event.signature and not block.id else []
        if not block.id:
            return []
        return [*start, block.close(signature=event.signature)]

    def _close_texts(self) -> list[StreamPart]:
        closing = [text.close() for text in self._shown_texts if text.id]
        self._shown_texts.clear()
        return closing

    # --- calls ---

    def _start_call(self, event: ToolCallStart) -> list[StreamPart]:
        closing = self._close_texts()
        block = self._open(event)
        block.id = self._call_ids.claim(event.id)
        start = {"type": "tool-input-start", "id": block.id, "toolName": event.name}
        return [*closing, start]

    def _end_call(self, event: ToolCallEnd) -> list[StreamPart]:
        block, call = self._find(event), event.call
        del self._blocks[event.index]
        if not call.complete:
            self._has_cut_call = True
            return [block.close(incomplete=True, repairs=call.repairs)]
        closing = self._close_texts()
        written = _written(call, "".join(block.pieces))
        if not block.pieces:  # A client that only reads deltas has to see the input too.
            closing.append(block.delta(written))
        whole = _call_part(block.id, call, written)
        return [*closing, block.close(), whole]

    # --- the end ---

    def _end(self, event: Done | Failed) -> list[StreamPart]:
        ending = self.finish()
        if isinstance(event, Failed):
            ending.append({"type": "error", "error": msgspec.to_builtins(event.error)})
        reason, usage = self._finish_reason(event), _usage(event.message.usage)
        ending.append({"type": "finish", "finishReason": reason, "usage": usage})
        return ending

    def _finish_reason(self, event: Done | Failed) -> str:
        if isinstance(event, Failed):
            return "content-filter" if event.error.kind in ("refusal", "filter") else "error"
        if event.reason == "tool_use" and self._has_cut_call:
            return "error"  # Law 7 forbids it; a client must not take it for calls to execute.
        return _FINISH_REASONS[event.reason]


class _Open:
    """A block that is open, and the pair of parts that shows it."""

    __slots__ = ("id", "kind", "pieces")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.id = ""  # of the pair; empty while none is open
        self.pieces: list[str] = []  # of a call's input

    def delta(self, piece: str) -> StreamPart:
        return {"type": f"{self.kind}-delta", "id": self.id, "delta": piece}

    def close(self, **notes: object) -> StreamPart:
        end = {"type": f"{self.kind}-end", "id": self.id}
        self.id = ""
        return _noted(end, **notes)


class _CallIds:
    """Tells calls apart: an id that is taken, or missing, gets a number."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}  # an id, and the last number that was put after it

    def claim(self, id: str) -> str:  # noqa: A002 - the field's name
        wanted = claimed = id or "call"
        number = self._taken.get(wanted, 1)
        while claimed in self._taken:
            number += 1
            claimed = f"{wanted}-{number}"
        self._taken[wanted] = number
        self._taken.setdefault(claimed, 1)
        return claimed


def _call_part(id: str, call: ToolCall, written: str) -> StreamPart:  # noqa: A002 - see above
    part = {"type": "tool-call", "toolCallId": id, "toolName": call.name, "input": written}
    return _noted(part, signature=call.signature, repairs=call.repairs)


def _written(call: ToolCall, deltas: str = "") -> str:
    """Write the call's arguments: as its *deltas* did if they say the same, compactly if not."""
    written = _json.encode(call.arguments)
    if deltas:
        try:
            if _json.encode(_json.decode(deltas)) == written:
                return deltas
        except JSONParseError:
            pass  # They were repaired on the way to the arguments.
    return written.decode()


def _passed_through(part: Opaque) -> StreamPart:
    """Pass on a part of the AI SDK as it is; wrap what only its provider understands."""
    data = part.data
    kind = data.get("type") if isinstance(data, dict) else None
    if isinstance(kind, str) and kind in _OTHER_KINDS:
        passed: StreamPart = data
        return passed
    return {"type": "raw", "rawValue": data}


def _usage(usage: Usage) -> dict[str, int]:
    """Count as the AI SDK does: what was read from or written to the cache is input too."""
    read = usage.input + usage.cache_read + usage.cache_write
    return {
        "inputTokens": read,
        "outputTokens": usage.output,
        "totalTokens": usage.total or read + usage.output,
        "reasoningTokens": usage.reasoning,
        "cachedInputTokens": usage.cache_read,
    }


def _noted(part: StreamPart, **notes: object) -> StreamPart:
    """Add what the AI SDK has no field for, where there is any."""
    said = {name: note for name, note in notes.items() if note}
    if said:
        part["providerMetadata"] = {"penstock": said}
    return part
