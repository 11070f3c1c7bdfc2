"""A value that grows while its text arrives: what `IncrementalJSON` builds, whatever the grammar.

Containers are filled in place, so the root stays one object. The text of an open string waits as
parts and is joined when the string closes or somebody looks. Every step leaves a `Change`; folding
the changes gives the value that `live` shows.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

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
        """Give this watcher's copy, one for all who ask with the same *copies*."""
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
        """Give the root with all that has arrived, the open string too."""
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
    """Find the value at *path*; tell whether there is one."""
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
