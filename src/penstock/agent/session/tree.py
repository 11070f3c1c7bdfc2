"""Entries as a tree: what was said on the way to an entry, and what the model is shown of it.

The record may be damaged, written twice or edited by hand, and it is still read, whole:

* an entry hangs on the newest entry of its parent's id that was written *before* it, so there are
  no rings;
* one whose parent is not there hangs on the entry written before it: where a line was lost, the
  conversation continues across the gap;
* one whose id was given to another entry already gets a new id; an equal one is the same entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, structs

from penstock.agent.recovery.summarize import compacted
from penstock.agent.session.entries import (
    CompactionEntry,
    Entry,
    FindingEntry,
    LabelEntry,
    MessageEntry,
    TitleEntry,
)
from penstock.messages import AssistantMessage, Usage, summed
from penstock.request import Message, UserMessage

Shown = tuple[str, Message]
"""A message of the context, and the id of the entry that it comes from."""


class Branch(Struct, frozen=True):
    """A way through a session to its end: *leaf* is the last entry, *start* the first of its own.

    *label* is the name of the branch's last labelled entry, *prompt* what the user said last.
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
        """How many messages there are, on all branches."""
        self.title: str | None = None
        """The title that was given last, on whichever branch."""
        self._places: dict[str, int] = {}  # by id
        self._parents: list[int] = []  # of each entry; -1 is not one
        self._newest: dict[str, str] = {}  # the id under which a written id was hung last
        for entry in entries:
            self.add(entry)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._places

    def __getitem__(self, id_: str) -> Entry:
        return self.entries[self._places[id_]]

    @property
    def last(self) -> str:
        """The id of the entry that was written last; empty if there is not one."""
        return self.entries[-1].id if self.entries else ""

    def add(self, entry: Entry) -> str:
        """Hang *entry* where it belongs; return the id that it has here."""
        known = self._places.get(entry.id)
        if known is not None and self.entries[known] == entry:
            return entry.id
        parent = self._find_parent(entry)
        written = entry.id
        if known is not None:
            entry = structs.replace(entry, id=self._free_id(entry.id))
        self._newest[written] = entry.id
        self._places[entry.id] = len(self.entries)
        self._parents.append(parent)
        self.entries.append(entry)
        if isinstance(entry, MessageEntry):
            self.messages += 1
        elif isinstance(entry, TitleEntry):
            self.title = entry.title
        return entry.id

    def path(self, leaf: str) -> list[Entry]:
        """Return the entries from the root to *leaf*; none for an id that is not there."""
        return [self.entries[place] for place in reversed(list(self._climb(leaf)))]

    def branches(self) -> list[Branch]:
        """List the ways to every end, in the order in which the ends were written."""
        inner = set(self._parents)
        labels = self._labels()
        seen: set[int] = set()
        found: list[Branch] = []
        for place, entry in enumerate(self.entries):
            if place not in inner:
                climb = list(self._climb(entry.id))
                own = [step for step in climb if step not in seen]
                seen.update(own)
                path = [self.entries[step] for step in reversed(climb)]
                found.append(self._branch(path, self.entries[own[-1]].id, labels))
        return found

    def _branch(self, path: Sequence[Entry], start: str, labels: dict[str, str]) -> Branch:
        said = [entry.message for entry in path if isinstance(entry, MessageEntry)]
        users = [one for one in said if isinstance(one, UserMessage) and not one.source]
        prompts = [text_of(message) for message in users]
        named = [labels[entry.id] for entry in path if entry.id in labels]
        return Branch(
            leaf=path[-1].id,
            start=start,
            time=path[-1].time,
            messages=len(said),
            prompt=prompts[-1] if prompts else "",
            label=named[-1] if named else "",
        )

    def _labels(self) -> dict[str, str]:
        labels = {
            entry.target: entry.label for entry in self.entries if isinstance(entry, LabelEntry)
        }
        return {target: label for target, label in labels.items() if label}

    def _climb(self, leaf: str) -> Iterator[int]:
        place = self._places.get(leaf, -1)
        while place >= 0:
            yield place
            place = self._parents[place]

    def _find_parent(self, entry: Entry) -> int:
        if not entry.parent:
            return -1
        id_ = self._newest.get(entry.parent, entry.parent)
        return self._places.get(id_, len(self.entries) - 1)

    def _free_id(self, id_: str) -> str:
        number = 2
        while f"{id_}~{number}" in self._places:
            number += 1
        return f"{id_}~{number}"


def shown(path: Sequence[Entry]) -> list[Shown]:
    """Return what the model is shown at the end of *path*, each message with its entry's id.

    After a compaction that is its summary, what it kept, and what came later.
    """
    places = [at for at, entry in enumerate(path) if isinstance(entry, CompactionEntry)]
    if not places:
        return list(_kept(path))
    last = places[-1]
    compaction = path[last]
    assert isinstance(compaction, CompactionEntry)  # noqa: S101 - it was chosen so
    start = next((at for at in range(last) if path[at].id == compaction.first_kept), last)
    before = list(_kept(path[start:last]))
    messages = compacted(compaction.summary, [message for _, message in before])
    ids = [compaction.id, *(id_ for id_, _ in before)]
    return [*zip(ids, messages, strict=True), *_kept(path[last:])]


def context(path: Sequence[Entry]) -> list[Message]:
    """Return the messages that the model is shown at the end of *path*."""
    return [message for _, message in shown(path)]


def spoken(path: Iterable[Entry]) -> list[str]:
    """Name the rules that have spoken on *path*, each once."""
    names = (
        name
        for entry in path
        if isinstance(entry, FindingEntry) and entry.source == "rule"
        for name in entry.names
    )
    return list(dict.fromkeys(names))


def usage(entries: Iterable[Entry]) -> Usage:
    """Add up what the answers among *entries* took; also what was not kept has been paid for."""
    said = (entry.message for entry in entries if isinstance(entry, MessageEntry))
    return summed(message.usage for message in said if isinstance(message, AssistantMessage))


def text_of(message: UserMessage) -> str:
    """Return a prompt as one line, for lists."""
    return " ".join(message.text.split())


def _kept(entries: Iterable[Entry]) -> Iterator[Shown]:
    for entry in entries:
        if isinstance(entry, MessageEntry) and entry.kept:
            yield entry.id, entry.message
