"""Entries as a tree: the path to an entry, the context at it, and what a crash left unfinished.

A record that is damaged, written twice or edited by hand is still read completely:

* the parent of an entry is the newest entry of that id that was written *before* it, so there are
  no cycles;
* an entry whose parent is missing follows the entry written before it: where a line was lost, the
  conversation continues across the gap;
* an entry whose id is taken gets a new id, unless it is equal: then it is the same entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field, structs

from penstock.agent.session.entries import (
    CompactionEntry,
    Entry,
    FindingEntry,
    LabelEntry,
    MessageEntry,
    TitleEntry,
    ToolEndEntry,
    ToolStartEntry,
)
from penstock.agent.summarize import replace_with_summary
from penstock.messages import AssistantMessage, ToolCall, ToolResult, Usage, sum_usage
from penstock.request import Message, UserMessage

ContextMessage = tuple[str, Message]
"""A message of the context, and the id of its entry."""


class Branch(Struct, frozen=True):
    """A path to the last entry *leaf* of a branch; *start* is the first that no other has.

    *label* is the label of its last labelled entry, *prompt* the last prompt of the user.
    """

    leaf: str
    start: str
    time: float
    messages: int
    prompt: str = ""
    label: str = ""


class Tree:
    """The entries of a session, in the order in which they were written."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries: list[Entry] = []
        self.messages = 0
        """The number of messages on all branches."""
        self.title: str | None = None
        """The last title on any branch."""
        self._positions: dict[str, int] = {}  # by id
        self._parents: list[int] = []  # of each entry; -1 for a root
        self._newest: dict[str, str] = {}  # the current id of the last entry with a written id
        for entry in entries:
            self.add(entry)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._positions

    def __getitem__(self, id_: str) -> Entry:
        return self.entries[self._positions[id_]]

    @property
    def last(self) -> str:
        """The id of the entry that was written last; empty if there is none."""
        return self.entries[-1].id if self.entries else ""

    def add(self, entry: Entry) -> str:
        """Add *entry*; return the id that it has in this tree."""
        known = self._positions.get(entry.id)
        # A write that was repeated after an error leaves the same line twice.
        if known is not None and self.entries[known] == entry:
            return entry.id
        parent = -1
        if entry.parent:
            id_ = self._newest.get(entry.parent, entry.parent)
            parent = self._positions.get(id_, len(self.entries) - 1)
        written = entry.id
        if known is not None:
            entry = structs.replace(entry, id=self._make_free_id(entry.id))
        self._newest[written] = entry.id
        self._positions[entry.id] = len(self.entries)
        self._parents.append(parent)
        self.entries.append(entry)
        if isinstance(entry, MessageEntry):
            self.messages += 1
        elif isinstance(entry, TitleEntry):
            self.title = entry.title
        return entry.id

    def path(self, leaf: str) -> list[Entry]:
        """Return the entries from the root to *leaf*; none for an unknown id."""
        return [self.entries[position] for position in reversed(list(self._climb(leaf)))]

    def branches(self) -> list[Branch]:
        """List all branches, in the order in which their last entries were written."""
        inner = set(self._parents)
        labels = {
            entry.target: entry.label for entry in self.entries if isinstance(entry, LabelEntry)
        }
        seen: set[int] = set()
        found: list[Branch] = []
        for position, leaf in enumerate(self.entries):
            if position in inner:
                continue
            climb = list(self._climb(leaf.id))
            own = [step for step in climb if step not in seen]
            seen.update(own)
            path = [self.entries[step] for step in reversed(climb)]
            messages = [entry.message for entry in path if isinstance(entry, MessageEntry)]
            prompts = [one for one in messages if isinstance(one, UserMessage) and not one.source]
            given = [labels[entry.id] for entry in path if labels.get(entry.id)]
            found.append(
                Branch(
                    leaf=leaf.id,
                    start=self.entries[own[-1]].id,
                    time=leaf.time,
                    messages=len(messages),
                    prompt=" ".join(prompts[-1].text.split()) if prompts else "",
                    label=given[-1] if given else "",
                )
            )
        return found

    def _climb(self, leaf: str) -> Iterator[int]:
        position = self._positions.get(leaf, -1)
        while position >= 0:
            yield position
            position = self._parents[position]

    def _make_free_id(self, id_: str) -> str:
        number = 2
        while f"{id_}~{number}" in self._positions:
            number += 1
        return f"{id_}~{number}"


# --- along a path ---


def find_context(path: Sequence[Entry]) -> list[ContextMessage]:
    """Return the context at the end of *path*, each message with the id of its entry.

    After a compaction it is the summary, the messages that were kept, and the later ones.
    """
    for last in range(len(path) - 1, -1, -1):
        compaction = path[last]
        if isinstance(compaction, CompactionEntry):
            break
    else:
        return list(_list_kept(path))
    start = next((at for at in range(last) if path[at].id == compaction.first_kept), last)
    before = list(_list_kept(path[start:last]))
    messages = replace_with_summary(compaction.summary, [message for _, message in before])
    ids = [compaction.id, *(id_ for id_, _ in before)]
    return [*zip(ids, messages, strict=True), *_list_kept(path[last:])]


def list_context(path: Sequence[Entry]) -> list[Message]:
    """Return the messages of the context at the end of *path*."""
    return [message for _, message in find_context(path)]


def _list_kept(entries: Iterable[Entry]) -> Iterator[ContextMessage]:
    for entry in entries:
        if isinstance(entry, MessageEntry) and entry.kept:
            yield entry.id, entry.message


def find_fired_rules(path: Iterable[Entry]) -> list[str]:
    """Return the names of the rules that have fired on *path*, each once."""
    names = (
        name
        for entry in path
        if isinstance(entry, FindingEntry) and entry.source == "rule"
        for name in entry.names
    )
    return list(dict.fromkeys(names))


def sum_entry_usage(entries: Iterable[Entry]) -> Usage:
    """Add up the usage of all responses in *entries*; those that were not kept cost tokens too."""
    messages = (entry.message for entry in entries if isinstance(entry, MessageEntry))
    return sum_usage(message.usage for message in messages if isinstance(message, AssistantMessage))


# --- what a crash left unfinished ---
#
# The start of a call is written before its tool is called, and its result as soon as it is known.
# So a record that ends between them says which of three is true for each call: it never started, it
# started and its outcome is unknown, or it ended with this result.
#
# Models use the same ids in every response (`c1`, `call_0`): an id means a call of the last
# response only. With `eager`, a tool may start before its response is complete. So a start without
# a result that precedes a response belongs to it; if the response never came, its calls are all
# that is known.


class Unfinished(Struct):
    """What the last response on a path lacks.

    *messages* have to be added: the response itself, reconstructed from its calls, and results that
    are known. *interrupted* are the calls whose outcome is unknown, with the arguments that they
    ran with. *expected* are the ids of all calls without a result, in order.
    """

    messages: list[Message] = field(default_factory=list)
    interrupted: list[ToolCall] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)


def find_unfinished(path: Iterable[Entry]) -> Unfinished:
    """Return what the last response on *path* lacks."""
    calls, starts, ends = _find_open_calls(path)
    found = Unfinished()
    known = {call.id for call in calls}
    lost = [start for start in starts.values() if start.call not in known]
    if lost:  # of a response that was not complete
        calls = [ToolCall(start.call, start.name, start.arguments) for start in lost]
        found.messages.append(AssistantMessage(content=[*calls], stop_reason="tool_use"))
    for call in calls:
        if call.id in ends:
            found.messages.append(ends[call.id])
            continue
        found.expected.append(call.id)
        if call.id in starts:
            arguments = starts[call.id].arguments
            found.interrupted.append(structs.replace(call, arguments=arguments))
    return found


def _find_open_calls(
    path: Iterable[Entry],
) -> tuple[list[ToolCall], dict[str, ToolStartEntry], dict[str, ToolResult]]:
    """Return the calls of the last response without a result, and those that started and ended."""
    calls: list[ToolCall] = []
    starts: dict[str, ToolStartEntry] = {}
    ends: dict[str, ToolResult] = {}
    for entry in path:
        match entry:
            case ToolStartEntry():
                starts[entry.call] = entry
                ends.pop(entry.call, None)  # it runs again
            case ToolEndEntry(result=result):
                ends[result.id] = result
            case MessageEntry(message=ToolResult(id=id_), kept=True):
                calls = [call for call in calls if call.id != id_]
                starts.pop(id_, None)
                ends.pop(id_, None)
            case MessageEntry(message=AssistantMessage() as response, kept=True):
                calls = list({call.id: call for call in response.tool_calls}.values())
            case MessageEntry(kept=True):
                calls, starts, ends = [], {}, {}
    return calls, starts, ends
