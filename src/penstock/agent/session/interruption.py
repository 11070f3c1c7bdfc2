"""What a crash left unfinished: calls that had begun, and results that were not said yet.

The beginning of a call is written before its tool is called, and its result as soon as there is
one. So a record that ends in between says of each call which of three is true: it never began, it
began and nobody knows what became of it, or it ended with this result.

Models use the same ids in every answer (``c1``, ``call_0``): an id means a call of the last answer
only. A tool may have been started before its answer was whole (`eager`), so what comes before an
answer and has not been answered is of that answer; where the answer never came, the calls are all
that is known of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field, structs

from penstock.agent.session.entries import Entry, MessageEntry, ToolEndEntry, ToolStartEntry
from penstock.messages import AssistantMessage, ToolCall, ToolResult
from penstock.request import Message


class Unfinished(Struct):
    """What the last answer on a path lacks.

    *said* are messages that have to follow: the answer itself, made of the calls that it is known
    by, and results that are known. *interrupted* are the calls whose outcome nobody knows, with the
    arguments that they began with. *expected* are the ids of all calls without a result, in order.
    """

    said: list[Message] = field(default_factory=list)
    interrupted: list[ToolCall] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)


def find_unfinished(path: Iterable[Entry]) -> Unfinished:
    """Return what the last answer on *path* lacks."""
    last = _Calls()
    for entry in path:
        last.add(entry)
    found = Unfinished()
    calls = last.open
    known = {call.id for call in calls}
    lost = [one for one in last.starts.values() if one.call not in known]
    if lost:  # of an answer that was still coming
        calls = [ToolCall(one.call, one.name, one.arguments) for one in lost]
        found.said.append(AssistantMessage(content=[*calls], stop_reason="tool_use"))
    for call in calls:
        if call.id in last.ends:
            found.said.append(last.ends[call.id])
            continue
        found.expected.append(call.id)
        if call.id in last.starts:
            began = last.starts[call.id]
            found.interrupted.append(structs.replace(call, arguments=began.arguments))
    return found


class _Calls:
    """The calls of the answer that came last: those that are open, have begun, have ended."""

    def __init__(self) -> None:
        self.open: list[ToolCall] = []
        self.starts: dict[str, ToolStartEntry] = {}
        self.ends: dict[str, ToolResult] = {}

    def add(self, entry: Entry) -> None:
        match entry:
            case ToolStartEntry():
                self.starts[entry.call] = entry
                self.ends.pop(entry.call, None)  # it runs again
            case ToolEndEntry(result=result):
                self.ends[result.id] = result
            case MessageEntry(message=ToolResult(id=id_), kept=True):
                self.open = [call for call in self.open if call.id != id_]
                self.starts.pop(id_, None)
                self.ends.pop(id_, None)
            case MessageEntry(message=AssistantMessage() as answer, kept=True):
                self.open = list({call.id: call for call in answer.tool_calls}.values())
            case MessageEntry(kept=True):
                self.open, self.starts, self.ends = [], {}, {}
