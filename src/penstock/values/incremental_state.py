"""The state of a JSON text that is read in pieces: the value so far, and the place in the text.

A grammar state (`ReaderState`) is a table from a character to its step; a step reads on from there
and returns where it stopped. A token that runs past the end of a piece either waits in
`JSONReading.held`, if it is short and must be seen complete (an escape, a literal, the beginning or
end of a comment), or leaves a step in `JSONReading.resume` that continues with the next piece. So
the cost of a piece does not depend on earlier ones. The steps and the tables are in
`incremental_steps`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from msgspec import Struct

from penstock.errors import JSONParseError, UsageError

Path = tuple[str | int, ...]
"""Keys and indexes that lead from the root to a value; ``()`` is the root."""

Container = dict[Any, Any] | list[Any]


class Change(Struct, frozen=True, gc=False):
    """One change of the value at `path`.

    The `kind` is "object" or "array" if one was opened; "string" if more `text` of a string arrived
    (never an empty piece); "value" if the scalar `value` is complete, for a string after its
    pieces; "end" if the container `value` is complete and changes no more.
    """

    path: Path
    kind: Literal["object", "array", "string", "value", "end"]
    text: str = ""
    value: Any = None


class Watch:
    """The decoded text of one string field while its JSON arrives.

    `complete` is true when no more text will come: the string was closed, the value is not a string
    (then the text is empty), or the root ended without it. A field that was cut stays incomplete.
    Of a repeated key the first value is followed.
    """

    def __init__(self) -> None:
        self.complete = False
        self._pieces: list[str] = []

    def take(self) -> str:
        """Return the text that arrived since the last `take`."""
        text = "".join(self._pieces)
        self._pieces.clear()
        return text

    def add(self, piece: str) -> None:
        """Add one more *piece*; called by the reader."""
        self._pieces.append(piece)

    def twin(self, copies: dict[int, Any]) -> Watch:
        """Return the copy of this watcher in *copies*, which is made once."""
        twin: Watch | None = copies.get(id(self))
        if twin is None:
            copies[id(self)] = twin = Watch()
            twin.complete = self.complete
            twin._pieces = self._pieces.copy()
        return twin


def find(root: Any, path: Path) -> tuple[bool, Any]:
    """Return whether there is a value at *path*, and the value."""
    value = root
    for step in path:
        is_item = isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value)
        if not is_item and not (isinstance(value, dict) and step in value):
            return False, None
        value = value[step]
    return True, value


def copy_tree(root: Any, copies: dict[int, Any]) -> Any:
    """Copy nested dicts and lists without recursion; add each copy to *copies* by the id."""
    waiting: list[Container] = []

    def copied(value: Any) -> Any:
        if not isinstance(value, (dict, list)):
            return value
        copies[id(value)] = twin = value.copy()
        waiting.append(twin)
        return twin

    top = copied(root)
    while waiting:
        container = waiting.pop()
        if isinstance(container, dict):
            for key, value in container.items():
                container[key] = copied(value)
        else:
            container[:] = [copied(value) for value in container]
    return top


MAX_PROBLEMS: Final = 32
"""How many problems a recovering reader lists: enough to see what is wrong, on any input."""

Step = Callable[["JSONReading", str, int], int]
Search = Callable[..., re.Match[str] | None]


class ReaderState(dict[str, Step]):
    """The step for each character at one place of the grammar; ``""`` is any other."""

    def __missing__(self, character: str) -> Step:
        return self[""]


@dataclass(frozen=True, slots=True)
class JSONDialect:
    """One grammar: a table for each place in it, and the syntax of strings."""

    value: ReaderState
    first_item: ReaderState
    next_item: ReaderState
    first_key: ReaderState
    next_key: ReaderState
    colon: ReaderState
    after_item: ReaderState
    after_member: ReaderState
    end: ReaderState
    escapes: dict[str, str]
    closing: dict[str, str]
    """The closing quote for each opening one."""
    special: dict[str, Search]
    """For each closing quote, the search for the end of a run of plain text."""
    recovers: bool = False


class JSONReading:
    """The value so far, the changes since the last piece, and the place in the text.

    Containers are filled in place, so the root stays one object. The text of an open string is kept
    as parts, which are joined when the string is closed or `live` is called.
    """

    def __init__(self, dialect: JSONDialect) -> None:
        # The value.
        self.root: Any = None
        self.complete = False
        self.changes: list[Change] = []
        self.node: Container | None = None  # the innermost open container
        self.trail: Path = ()  # its path
        self.above: list[tuple[Container | None, Path]] = []  # the containers around it
        self.path: Path = ()  # of the next value, or of the open string
        self.text_open = False
        self.parts: list[str] = []  # of the open string, or of an incomplete token
        self.watches: dict[Path, list[Watch]] = {}
        self.watching: list[Watch] = []  # the watchers of the open string
        # The place in the text.
        self.dialect = dialect
        self.state: ReaderState = dialect.value
        self.after: ReaderState = dialect.end  # the state once the next value is complete
        self.resume: Step | None = None  # continues a token that the last piece left open
        self.gate = ""  # the closing quote while an open string or key continues with plain text
        self.held = ""  # the end of the last piece, to be read again with the next
        self.fed = 0  # how many characters have arrived
        self.awaits = ""  # the end of the open string, key or comment
        self.ended = False  # no piece will complete a cut escape
        self.stopped = ""  # why nothing more is read
        self.problems: list[str] = []
        self.problem_end = -1
        self.relaxed: dict[str, None] = {}  # what strict JSON does not have, in words

    # --- the value ---

    def name(self, key: str) -> None:
        """Set the *key* of the next value."""
        self.path = self.trail + (key,)  # noqa: RUF005 - four times as fast as unpacking

    def next_item(self) -> None:
        """Make the next value one more item of the open list."""
        self.path = self.trail + (len(self.node or ()),)  # noqa: RUF005 - as in `name`

    def open(self, container: Container) -> None:
        """Store an empty *container* and enter it."""
        path = self.path
        is_list = isinstance(container, list)
        self.place(container, Change(path, "array" if is_list else "object"))
        self.above.append((self.node, self.trail))
        self.node = container
        self.trail = path
        if is_list:
            self.path = path + (0,)  # noqa: RUF005 - as in `name`

    def close(self) -> None:
        """Leave the innermost container; it changes no more."""
        self.changes.append(Change(self.trail, "end", "", self.node))
        self.node, self.trail = self.above.pop()
        if self.node is None:
            self.end_root()

    def place(self, value: Any, change: Change) -> None:
        """Store *value*, a new container or a complete scalar, where the next value belongs."""
        self.changes.append(change)
        node = self.node
        if isinstance(node, dict):
            node[self.path[-1]] = value
        elif node is not None:
            node.append(value)
        else:
            self.root = value
            if change.kind == "value":
                self.end_root()
        if self.watches:
            for watch in self.watches.pop(self.path, ()):
                watch.complete = True

    def put_text(self, text: str) -> None:
        """Store a complete string."""
        path = self.path
        if text:
            self.changes.append(Change(path, "string", text))
            for watch in self.watches.get(path, ()):
                watch.add(text)
        self.place(text, Change(path, "value", "", text))

    def open_text(self) -> None:
        """Begin a string; it is part of the value once it has text or is closed."""
        self.text_open = True
        self.parts = []
        if self.watches:
            self.watching = self.watches.pop(self.path, [])

    def close_text(self) -> None:
        """End the open string."""
        text = "".join(self.parts)
        self.show_text(text)
        self.text_open = False
        self.changes.append(Change(self.path, "value", "", text))
        if self.watching:
            for watch in self.watching:
                watch.complete = True
            self.watching = []
        if self.node is None:
            self.end_root()

    def show_text(self, text: str) -> None:
        """Store the *text* of the open string so far."""
        node = self.node
        if isinstance(node, dict):
            node[self.path[-1]] = text
        elif node is None:
            self.root = text
        elif len(node) == self.path[-1]:
            node.append(text)
        else:
            node[-1] = text

    def end_root(self) -> None:
        """Mark the root as complete, and all watchers, as nothing more can come."""
        self.complete = True
        for waiting in self.watches.values():
            for watch in waiting:
                watch.complete = True
        self.watches = {}

    def forget_watches(self) -> None:
        """Drop all watchers without completing them: their fields were cut."""
        self.watches = {}
        self.watching = []

    def live(self) -> Any:
        """Return the root with everything that has arrived, including the open string."""
        if self.text_open and self.parts:
            text = "".join(self.parts)
            self.parts = [text]
            self.show_text(text)
        return self.root

    def watch(self, path: Path) -> Watch:
        """Follow the string at *path*, beginning with the text that is already there."""
        watch = Watch()
        if self.text_open and path == self.path:
            watch.add("".join(self.parts))
            self.watching.append(watch)
            return watch
        found, value = find(self.root, path) if self.started else (False, None)
        if isinstance(value, str):
            watch.add(value)
        watch.complete = found or self.complete
        if not watch.complete:
            self.watches.setdefault(path, []).append(watch)
        return watch

    @property
    def started(self) -> bool:
        """Whether `root` holds a value yet; ``None`` may be one."""
        return self.complete or self.node is not None

    # --- errors and copies ---

    def refuse(self, message: str, text: str, at: int) -> int:
        """Raise an error at *at* in the piece *text*; a recovering reader notes it and skips."""
        position = self.fed - len(text) + at
        if not self.dialect.recovers:
            self.stop(f"this reader broke at offset {position}: make a new one")
            raise JSONParseError(f"{message} at offset {position}", position=position)
        is_new = position != self.problem_end
        if is_new and len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{message} at offset {position}")
        self.problem_end = position + 1
        return at + 1

    def stop(self, reason: str) -> None:
        """Make any further reading a `UsageError`."""
        self.stopped = reason
        self.held = self.awaits = self.gate = ""
        self.resume = refuse_more

    def close_all(self) -> None:
        """Close all that is open; nothing becomes complete, because it was cut."""
        self.forget_watches()
        if self.text_open:
            self.close_text()
        while self.node is not None:
            self.close()
        self.complete = False

    def __deepcopy__(self, memo: dict[int, Any]) -> JSONReading:
        """Return an independent copy; tables and steps are shared."""
        twin = object.__new__(JSONReading)
        twin.__dict__.update(self.__dict__)
        twin.root = copy_tree(self.root, memo)
        twin.node = memo.get(id(self.node))
        twin.above = [(memo.get(id(node)), trail) for node, trail in self.above]
        twin.changes = []
        twin.parts = self.parts.copy()
        twin.problems = self.problems.copy()
        twin.relaxed = self.relaxed.copy()
        twin.watching = [watch.twin(memo) for watch in self.watching]
        twin.watches = {
            path: [watch.twin(memo) for watch in waiting] for path, waiting in self.watches.items()
        }
        return twin


def refuse_more(reading: JSONReading, _text: str, _at: int) -> int:
    """Raise the `UsageError` that this reader has stopped, now and for each later piece."""
    reading.resume = refuse_more
    raise UsageError(reading.stopped)
