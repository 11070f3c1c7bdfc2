"""How far the reading of a JSON text has come, and the steps through its structure.

A state is a table from a character to its step; a step reads on from there and returns where it
stopped. A token that runs past the end of a piece either waits in `JSONReading.held`, when it is
short and must be seen whole (an escape, a literal, the beginning or end of a comment), or leaves a
step in `JSONReading.resume` that continues with the next piece. So the cost of a piece does not
depend on what came before. Steps through strings are in `strings`, those through words and comments
in `words`; `dialects` makes the tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from msgspec import Struct

from penstock.errors import JSONParseError, UsageError
from penstock.values.json_grammar import MAX_DEPTH, WHITESPACE

# A value that grows while its text arrives: what `IncrementalJSON` builds, whatever the
# grammar.
#
# Containers are filled in place, so the root stays one object. The text of an open string waits
# as parts and is joined when the string closes or somebody looks. Every step leaves a `Change`;
# folding the changes gives the value that `live` shows.


Path = tuple[str | int, ...]
"""Keys and indexes that lead from the root to a value; ``()`` is the root."""

Container = dict[Any, Any] | list[Any]


class Change(Struct, frozen=True, gc=False):
    """One thing that happened to the value at `path`.

    `kind` says what: an "object" or "array" opened; more `text` of a "string" arrived (never an
    empty piece); a scalar "value" is whole, and `value` holds it, for a string after its pieces;
    a container came to its "end", and `value` is that container, which changes no more.
    """

    path: Path
    kind: Literal["object", "array", "string", "value", "end"]
    text: str = ""
    value: Any = None


class Watch:
    """The decoded text of one string field while its JSON still arrives.

    `complete` is true when no more will come: the string closed, something other than a string
    came in its place (which gives no text), or the root ended without it. A field that was cut
    stays incomplete. Of a repeated key the first value is followed.
    """

    def __init__(self) -> None:
        self.complete = False
        self._pieces: list[str] = []

    def take(self) -> str:
        """Take the text that arrived since the last `take`."""
        text = "".join(self._pieces)
        self._pieces.clear()
        return text

    def add(self, piece: str) -> None:
        """Give the watcher one more *piece*; for the reader that it watches."""
        self._pieces.append(piece)

    def twin(self, copies: dict[int, Any]) -> Watch:
        """Return this watcher's copy, one for all who ask with the same *copies*."""
        twin: Watch | None = copies.get(id(self))
        if twin is None:
            copies[id(self)] = twin = Watch()
            twin.complete = self.complete
            twin._pieces = self._pieces.copy()
        return twin


class Draft:
    """The value so far, where in it the next piece belongs, and the changes not yet handed out."""

    def __init__(self) -> None:
        self.root: Any = None
        self.complete = False
        self.changes: list[Change] = []
        self.node: Container | None = None  # the innermost open container
        self.trail: Path = ()  # its path
        self.above: list[tuple[Container | None, Path]] = []  # the containers around it
        self.path: Path = ()  # of the value that comes next, or of the open string
        self.text_open = False
        self.parts: list[str] = []  # of the open string, or of a token that is not whole
        self.watches: dict[Path, list[Watch]] = {}
        self.watching: list[Watch] = []  # those of the open string

    def name(self, key: str) -> None:
        """Say which *key* the next value has."""
        self.path = self.trail + (key,)  # noqa: RUF005 - four times as fast as unpacking

    def next_item(self) -> None:
        """Say that the next value is one more item of the open list."""
        self.path = self.trail + (len(self.node or ()),)  # noqa: RUF005 - as in `name`

    def open(self, container: Container) -> None:
        """Put an empty *container* in its place and go inside."""
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
        """Put *value*, a new container or a scalar that is whole, where the next value belongs."""
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
        """Put a string that is whole."""
        path = self.path
        if text:
            self.changes.append(Change(path, "string", text))
            for watch in self.watches.get(path, ()):
                watch.add(text)
        self.place(text, Change(path, "value", "", text))

    def open_text(self) -> None:
        """Begin a string; it shows in the value once it has text or is closed."""
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
        """Write what the open string has, *text*, in its place."""
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
        """Note that the root is whole, so that nothing more can come for any watcher."""
        self.complete = True
        for waiting in self.watches.values():
            for watch in waiting:
                watch.complete = True
        self.watches = {}

    def forget_watches(self) -> None:
        """Leave all watchers as they are: what they follow was cut."""
        self.watches = {}
        self.watching = []

    def live(self) -> Any:
        """Return the root with all that has arrived, the open string too."""
        if self.text_open and self.parts:
            text = "".join(self.parts)
            self.parts = [text]
            self.show_text(text)
        return self.root

    def watch(self, path: Path) -> Watch:
        """Follow the string at *path*, with what is already there."""
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
        """Whether `root` holds anything yet: ``None`` may also be a value."""
        return self.complete or self.node is not None


def find(root: Any, path: Path) -> tuple[bool, Any]:
    """Find the value at *path*; return whether there is one."""
    value = root
    for step in path:
        is_item = isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value)
        if not is_item and not (isinstance(value, dict) and step in value):
            return False, None
        value = value[step]
    return True, value


def copy_tree(root: Any, copies: dict[int, Any]) -> Any:
    """Copy nested dicts and lists without recursion; *copies* learns the copy of each by its id."""
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
"""How many problems a recovering reader lists: enough to tell what is wrong, on any input."""

Step = Callable[["JSONReading", str, int], int]
Search = Callable[..., re.Match[str] | None]

_find_after_space: Final[Search] = re.compile(rf"[^{WHITESPACE}]").search


class ReaderState(dict[str, Step]):
    """What each character means at one place in the text; ``""`` stands for any other."""

    def __missing__(self, character: str) -> Step:
        return self[""]


@dataclass(frozen=True, slots=True)
class JSONDialect:
    """One set of rules: a table for each place in the text, and what strings are made of."""

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
    """For each closing quote the search for what ends a run of plain text."""
    recovers: bool = False


class JSONReading(Draft):
    """A draft and the place in the text that is being read."""

    def __init__(self, dialect: JSONDialect) -> None:
        super().__init__()
        self.dialect = dialect
        self.state: ReaderState = dialect.value
        self.after: ReaderState = dialect.end  # the state once the coming value is whole
        self.resume: Step | None = None  # continues with a token that the last piece left open
        self.gate = ""  # the closing quote while an open string or key continues with plain text
        self.held = ""  # the end of the last piece, to be read again with the next
        self.fed = 0  # how many characters have come
        self.awaits = ""  # what closes the open string, key or comment
        self.ended = False  # no piece will make a cut escape whole
        self.stopped = ""  # why no more is read
        self.problems: list[str] = []
        self.problem_end = -1
        self.relaxed: dict[str, None] = {}  # what strict JSON has not, in words

    def refuse(self, message: str, text: str, at: int) -> int:
        """Raise an error at *at* in the piece *text*; a recovering reading notes it and skips."""
        position = self.fed - len(text) + at
        if not self.dialect.recovers:
            self.stop(f"this reader broke at offset {position} and reads no more")
            raise JSONParseError(f"{message} at offset {position}", position=position)
        goes_on = position == self.problem_end
        if not goes_on and len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{message} at offset {position}")
        self.problem_end = position + 1
        return at + 1

    def stop(self, reason: str) -> None:
        """Make any further reading a `UsageError`."""
        self.stopped = reason
        self.held = self.awaits = self.gate = ""
        self.resume = refuse_more

    def close_all(self) -> None:
        """Close what is still open, without calling anything complete: it was cut."""
        self.forget_watches()
        if self.text_open:
            self.close_text()
        while self.node is not None:
            self.close()
        self.complete = False

    def __deepcopy__(self, memo: dict[int, Any]) -> JSONReading:
        """Make a reading that goes its own way from here; tables and steps are shared."""
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
    """Return the caller that this reading is over, this time and the next."""
    reading.resume = refuse_more
    raise UsageError(reading.stopped)


def skip_space(_reading: JSONReading, text: str, at: int) -> int:
    """Skip white space."""
    at += 1
    if at == len(text) or text[at] not in WHITESPACE:
        return at
    found = _find_after_space(text, at)
    return len(text) if found is None else found.start()


def open_object(reading: JSONReading, text: str, at: int) -> int:
    """Go into an object."""
    if len(reading.above) >= MAX_DEPTH:
        return reading.refuse(f"containers nested more than {MAX_DEPTH} deep", text, at)
    reading.open({})
    reading.after = reading.dialect.after_member
    reading.state = reading.dialect.first_key
    return at + 1


def open_array(reading: JSONReading, text: str, at: int) -> int:
    """Go into an array."""
    if len(reading.above) >= MAX_DEPTH:
        return reading.refuse(f"containers nested more than {MAX_DEPTH} deep", text, at)
    reading.open([])
    reading.after = reading.dialect.after_item
    reading.state = reading.dialect.first_item
    return at + 1


def close(reading: JSONReading, _text: str, at: int) -> int:
    """Leave the innermost container."""
    reading.close()
    node = reading.node
    if node is None:
        state = reading.dialect.end
    elif isinstance(node, dict):
        state = reading.dialect.after_member
    else:
        state = reading.dialect.after_item
    reading.after = reading.state = state
    return at + 1


def close_after_comma(reading: JSONReading, text: str, at: int) -> int:
    """Leave the innermost container after a comma that nothing follows."""
    reading.relaxed["a trailing comma"] = None
    return close(reading, text, at)


def to_item(reading: JSONReading, text: str, at: int) -> int:
    """Pass the comma between items, and the one space that mostly follows."""
    reading.next_item()
    reading.state = reading.dialect.next_item
    at += 1
    return at + 1 if at < len(text) and text[at] == " " else at
