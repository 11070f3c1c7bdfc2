"""One answer out of one or more attempts: what of each passes, and under which number.

Blocks of every attempt go into the same message, numbered on. A call passes unless the request does
not allow it (another tool than the chosen one, a second call where one is allowed), or unless it is
sent back; what does not pass is told, and its text rides on the next event, so nothing is lost.

Where calls are judged, events wait from the start of a call to its end; from a call that was
refused on, they wait for the end of the attempt: whether it is sent back is decided there. Calls
that the upstream made itself pass untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct, field, structs

from penstock.errors import ParseError
from penstock.events import (
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
from penstock.formats.base import end_of
from penstock.messages import Content, Opaque, Text, Thinking, ToolCall, Usage, summed
from penstock.models.middleware.choice import Demand
from penstock.parsing.errors import BrokenCall, OnError

PROVIDER: Final = "penstock"
"""Whose part it is that tells of a retry; no API sends it on."""

# Tuples, since a union in a call of `isinstance` is made anew each time.
_DELTAS: Final = (TextDelta, ThinkingDelta, ToolCallDelta)
_ENDS: Final = (Done, Failed)
_STARTS: Final = (TextStart, ThinkingStart, ToolCallStart, Part)

Complaint = Callable[[ToolCall], str]
"""Says what is wrong with a call; nothing where it may be run."""


class Refused(Struct, frozen=True):
    """A call that may be sent back, and why."""

    call: ToolCall
    why: str


class Attempt(Struct):
    """What is known of the attempt that runs."""

    indexes: dict[int, int] = field(default_factory=dict)  # its numbers, and ours
    dropped: dict[int, list[str]] = field(default_factory=dict)  # the text of calls not allowed
    judged: set[int] = field(default_factory=set)  # calls that are not whole yet
    held: list[Event] = field(default_factory=list)
    refused: dict[int, Refused] = field(default_factory=dict)
    raws: list[str] = field(default_factory=list)
    calls: int = 0  # complete ones that were not refused
    end: Done | Failed | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether a call is judged, or was refused: what comes now has to wait."""
        return bool(self.judged or self.refused)

    @property
    def is_special(self) -> bool:
        """Whether something of it waits or was dropped: then a delta has to be looked at."""
        return bool(self.held or self.dropped or self.judged or self.refused)

    @property
    def text(self) -> str:
        """All that the model wrote in this attempt, where it may be needed."""
        return "".join(self.raws)


class Gate:
    """Lets the events of attempts pass into one answer that satisfies *demand*."""

    def __init__(self, demand: Demand, on_error: OnError | None) -> None:
        self.attempt = Attempt()
        self.native: set[str] = set()
        """The ids of the calls that the upstream made itself."""
        self._demand = demand
        self._on_error = on_error
        self._complaint: Complaint | None = None
        self._keeps_text = demand.forced
        self._content: dict[int, Content] = {}
        self._admitted = 0  # calls, in all attempts
        self._next = 0
        self._raw = ""  # of what did not pass
        self._begun: MessageStart | None = None
        self._usages: list[Usage] = []

    def begin(self, complaint: Complaint | None) -> None:
        """Begin an attempt, whose calls *complaint* judges; None lets them pass as they come."""
        self.attempt = Attempt()
        self._complaint = complaint
        self._keeps_text = self._demand.forced or complaint is not None

    def add(self, event: Event) -> list[Event]:
        """Take an event of the attempt; give what passes. Its end stays in `attempt`."""
        attempt = self.attempt
        if self._keeps_text and event.raw:
            attempt.raws.append(event.raw)
        if isinstance(event, _DELTAS) and not attempt.is_special:
            return [self._numbered(event)]
        if isinstance(event, _ENDS):
            attempt.end = event
            self._usages.append(event.message.usage)
            return []
        if isinstance(event, MessageStart):
            return self._start(event)
        if isinstance(event, ToolCallStart) and event.id not in self.native:
            self._look_at(event)
        if event.index in attempt.dropped:
            self._note_dropped(event, attempt.dropped[event.index])
        elif isinstance(event, ToolCallEnd):
            self._judge(event)
        attempt.held.append(event)
        return [] if attempt.is_waiting else self._let_go()

    def settle(self, *, again: bool) -> list[Event]:
        """End the attempt: give what it still held, but for what is sent back if there is another.

        The end itself is `finish`, after the last attempt.
        """
        if not again:
            return self._let_go()
        passed = self._let_go(without=self.attempt.refused)
        if self.attempt.end is not None:
            self._raw += self.attempt.end.raw
        return passed

    def retried(self, reason: str) -> Event:
        """Give the event that makes visible that another attempt follows."""
        data: dict[str, Any] = {"type": "retry", "reason": reason}
        refused = [
            {"name": each.call.name, "arguments": each.call.arguments, "error": each.why}
            for each in self.attempt.refused.values()
        ]
        if refused:
            data["calls"] = refused
        return self._pass(Part(self._next, Opaque(PROVIDER, data)))

    def finish(self) -> Done | Failed | None:
        """Give the terminal event of the whole answer; None where the last attempt had none."""
        end = self.attempt.end
        if end is None:
            return None
        content = [self._content[index] for index in sorted(self._content)]
        message = structs.replace(end.message, content=content, usage=_total(self._usages))
        if self._begun is not None:  # An answer has one name, that of its first attempt.
            message.id, message.model = self._begun.id, self._begun.model
        raw, self._raw = self._raw + end.raw, ""
        if isinstance(end, Failed):
            return structs.replace(end, message=message, raw=raw)
        message.stop_reason = reason = end_of(message, end.reason)
        return Done(reason, message, raw)

    # --- what passes ---

    def _start(self, event: MessageStart) -> list[Event]:
        if self._begun is not None:
            return []
        self._begun = event
        return [event]

    def _let_go(self, without: Collection[int] = ()) -> list[Event]:
        """Give what was held, but for what is dropped: its text rides on the next event."""
        attempt = self.attempt
        held, attempt.held = attempt.held, []
        passed: list[Event] = []
        for event in held:
            index = getattr(event, "index", -1)
            if index in attempt.dropped or index in without:
                self._raw += event.raw
            else:
                passed.append(self._pass(event))
        return passed

    def _pass(self, event: Any) -> Event:
        """Let *event* pass; the first of a block gives it its number."""
        if isinstance(event, _STARTS):
            self.attempt.indexes[event.index] = self._next
            self._next += 1
        passed = self._numbered(event)
        self._keep(passed)
        return passed

    def _numbered(self, event: Any) -> Event:
        """Give *event* its number in the whole answer, and what no event has claimed."""
        numbered: Event = event
        index = self.attempt.indexes[event.index]
        if index != event.index or self._raw:
            numbered = structs.replace(event, index=index, raw=self._raw + event.raw)
            self._raw = ""
        return numbered

    def _keep(self, event: Event) -> None:
        match event:
            case TextEnd():
                self._content[event.index] = Text(event.text, event.signature)
            case ThinkingEnd():
                self._content[event.index] = Thinking(event.text, event.signature)
            case ToolCallEnd():
                self._content[event.index] = event.call
            case Part():
                self._content[event.index] = event.part
            case _:
                pass

    # --- calls ---

    def _look_at(self, start: ToolCallStart) -> None:
        """See to it that a call is dropped that is not allowed, and judged where that is wanted."""
        if not self._demand.allows(start.name) or (self._demand.single and self._admitted):
            self.attempt.dropped[start.index] = []
            return
        self._admitted += 1
        if self._complaint is not None:
            self.attempt.judged.add(start.index)

    def _note_dropped(self, event: Event, texts: list[str]) -> None:
        texts.append(event.raw)
        if isinstance(event, ToolCallEnd):
            name = event.call.name
            self._tell(f"the request allows no call of {name!r} here", name, "".join(texts))

    def _judge(self, end: ToolCallEnd) -> None:
        attempt, call = self.attempt, end.call
        is_judged = end.index in attempt.judged
        attempt.judged.discard(end.index)
        why = self._complaint(call) if is_judged and self._complaint is not None else ""
        if not why:
            attempt.calls += call.complete
            return
        self._admitted -= 1
        attempt.refused[end.index] = Refused(call, why)
        self._tell(why, call.name, "")

    def _tell(self, why: str, name: str, text: str) -> None:
        if self._on_error is not None:
            with suppress(Exception):  # a handler that fails must not end the stream
                self._on_error(why, BrokenCall(text, name, ParseError(why)))


def _total(usages: list[Usage]) -> Usage:
    """Add up what all attempts took."""
    if len(usages) == 1:
        return usages[0]
    return structs.replace(summed(usages), raw={"attempts": [usage.raw for usage in usages]})
