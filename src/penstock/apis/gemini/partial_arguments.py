"""Arguments that come leaf by leaf, each with its path, written as JSON text as they come.

With `streamFunctionCallArguments` the API sends ``{"jsonPath": "$.a.b[0]", "stringValue": …}``
in place of the arguments; pieces of a long string follow one another under the same path. Each leaf
is written after the one before, so that the text only grows: what is open and not on the new
path is closed first, and a string leaves piece by piece.

A path that leads back into what was closed cannot be written there any more. It waits until the
end; then the arguments are given once more, whole, and what was streamed stays open: of a member
that is there twice some clients take the first and others the last. Models write in order, so this
is rare.

What no path can say is guessed: an element that was passed over held nothing, so it is an empty
object, an empty list or null, like the one that follows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from penstock import _json
from penstock._json import without_lone_surrogates
from penstock.apis.encoder import object_text
from penstock.apis.fields import clean
from penstock.apis.transcript import CallBlock, joined

# Paths into a JSON value, such as ``$.a.b[0]``: read, and followed.


MAX_DEPTH: Final = 100
"""How many steps a path may have: no schema nests deeper."""

MAX_GAP: Final = 16
"""How many elements of a list a path may pass over: each is written, and empty ones are rare."""

Key = str | int
"""One step: the name of a member, or the index of an element."""

Path = tuple[Key, ...]

_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[\]]+)|\[(?P<at>\d{1,9})\]|\[(?P<quoted>'[^']*'|"[^"]*")\]"""
)


def read_path(text: object) -> Path:
    """Read a path that begins at an object; what is not one, or is too deep, is the empty path."""
    if not isinstance(text, str):
        return ()
    text = clean(text)
    at = len("$") if text.startswith("$") else 0
    steps: list[Key] = []
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None or len(steps) == MAX_DEPTH:
            return ()
        number, quoted = step["at"], step["quoted"]
        steps.append(int(number) if number else quoted[1:-1] if quoted else step["name"])
        at = step.end()
    return tuple(steps) if steps and isinstance(steps[0], str) else ()


def value_at(node: Any, key: Key) -> Any:
    """Return the value one step below *node*, and nothing where there is not one."""
    if isinstance(node, dict):
        return node.get(key)
    is_there = isinstance(node, list) and isinstance(key, int) and key < len(node)
    return node[key] if is_there else None


def container_of(root: dict[str, Any], path: Path) -> Any:
    """Return the object or list that holds the leaf at *path*; what is missing is made.

    Where *path* asks for both an object and a list in one place, nothing is given.
    """
    node: Any = root
    for key, following in pairwise(path):
        child = value_at(node, key)
        made: Any = [] if isinstance(following, int) else {}
        is_taken = isinstance(child, dict | list) and child
        if not is_taken and not isinstance(child, type(made)):
            child = made
            if not put(node, key, child):
                return None
        node = child
    return node


def put(node: Any, key: Key, value: Any) -> bool:
    """Put *value* one step below *node*; return whether there is such a place."""
    if isinstance(node, dict) and isinstance(key, str):
        node[key] = value
        return True
    if not isinstance(node, list) or not isinstance(key, int) or key > len(node) + MAX_GAP:
        return False
    node += [None] * (key + 1 - len(node))
    node[key] = value
    return True


_VALUES: Final[dict[str, tuple[type, ...]]] = {
    "numberValue": (int, float),
    "boolValue": (bool,),
    "nullValue": (str, type(None)),  # either spelling of null
    "structValue": (dict,),
    "listValue": (list,),
}
"""Kinds of leaves that come in one piece; the last two are not in use yet."""


class PartialArguments:
    """The arguments of *call*, which grow leaf by leaf."""

    def __init__(self, call: CallBlock) -> None:
        self.call = call
        self._text: list[str] = []  # that the call has not got yet
        self._keys: list[Key] = []  # of the containers that are open, but for the outermost
        self._open: list[_Container] = []
        self._string: Path = ()  # the path of the string that is open
        self._held = ""  # half a surrogate pair at its end
        self._unended: set[Path] = set()  # strings that another path closed before their end
        self._late: dict[Path, _Late] = {}

    @property
    def is_in_string(self) -> bool:
        """Whether a string has begun and not ended."""
        return bool(self._string)

    def add(self, entry: object) -> None:
        """Take one leaf, or a piece of one; what cannot be read leaves the call incomplete."""
        fields = entry if isinstance(entry, Mapping) else {}
        path = read_path(fields.get("jsonPath"))
        kind = next((key for key in _VALUES if key in fields), "")
        if not path:
            self.call.is_damaged = True
        elif kind:
            self._add_value(path, kind, fields[kind])
        else:
            text = fields.get("stringValue")
            goes_on = fields.get("willContinue") is True
            self._add_text(path, text if isinstance(text, str) else "", goes_on=goes_on)
        self._flush()

    def finish(self) -> str:
        """Write what is left; return the arguments whole if a piece came too late for its place."""
        self._end_string()
        self._close_to(0)
        if not self._open:
            self._text.append("{")
        self._flush()
        if self._late and not self.call.is_damaged:
            return self._with_late()
        self._text.append("}")
        self._flush()
        return ""

    # --- leaves ---

    def _add_value(self, path: Path, kind: str, value: object) -> None:
        is_bool = isinstance(value, bool)
        if not isinstance(value, _VALUES[kind]) or is_bool != (kind == "boolValue"):
            self.call.is_damaged = True
            return
        value = None if kind == "nullValue" else value
        if isinstance(value, dict | list):
            value = without_lone_surrogates({"": value})[""]
        self._end_string()
        if self._begin(path):
            self._text.append(_written(value))
        else:
            self._late[path] = _Late(value)

    def _add_text(self, path: Path, text: str, *, goes_on: bool) -> None:
        if path != self._string:
            self._end_string()
            if not self._begin(path):
                self._add_late_text(path, text, goes_on=goes_on)
                return
            self._string = path
            self._text.append('"')
        text, self._held = joined(self._held + text)
        self._text.append(_written(text)[1:-1])
        if not goes_on:
            self._end_string(is_whole=True)

    def _add_late_text(self, path: Path, text: str, *, goes_on: bool) -> None:
        late = self._late.get(path)
        if late is None or path not in self._unended:
            late = self._late[path] = _Late("", goes_on=path in self._unended)
        late.pieces.append(text)
        (self._unended.add if goes_on else self._unended.discard)(path)

    def _end_string(self, *, is_whole: bool = False) -> None:
        if not self._string:
            return
        if not is_whole:
            self._unended.add(self._string)
        self._text.append('\ufffd"' if self._held else '"')
        self._held, self._string = "", ()

    # --- the text ---

    def _flush(self) -> None:
        self.call.add("".join(self._text))
        self._text.clear()

    def _begin(self, path: Path) -> bool:
        """Write all that comes before the leaf at *path*, if it can follow what is there."""
        if not self._open:
            self._open.append(_Container(path[0]))
            self._text.append("{")
        depth = self._depth_of(path)
        container = self._open[depth]
        if not container.takes(path[depth]):
            self.call.is_damaged |= not container.holds(path[depth])
            return False
        if any(isinstance(key, int) and key > MAX_GAP for key in path[depth + 1 :]):
            self.call.is_damaged = True
            return False
        self._close_to(depth)
        self._open_to(path, depth)
        return True

    def _depth_of(self, path: Path) -> int:
        """Count the containers on *path* that are open; the leaf itself is not one."""
        depth = 0
        for opened, key in zip(self._keys, path[:-1], strict=False):
            if opened != key:
                break
            depth += 1
        return depth

    def _close_to(self, depth: int) -> None:
        while len(self._open) > depth + 1:
            self._text.append("]" if self._open.pop().is_list else "}")
            self._keys.pop()

    def _open_to(self, path: Path, depth: int) -> None:
        for key, following in zip(path[depth:], path[depth + 1 :], strict=False):
            inner = _Container(following)
            self._text.append(self._open[-1].head(key, "[]" if inner.is_list else "{}"))
            self._text.append("[" if inner.is_list else "{")
            self._keys.append(key)
            self._open.append(inner)
        self._text.append(self._open[-1].head(path[-1], "null"))

    def _with_late(self) -> str:
        """Write all arguments, with what came late in its place."""
        arguments: dict[str, Any] = _json.decode(self.call.arguments + "}")
        for path, late in self._late.items():
            node = container_of(arguments, path)
            if not put(node, path[-1], late.value_after(value_at(node, path[-1]))):
                self.call.is_damaged = True
        return _written(arguments)


class _Container:
    """An object or a list that is open in the text; *first* is the first key in it."""

    def __init__(self, first: Key) -> None:
        self.is_list = isinstance(first, int)
        self._names: set[Key] = set()
        self._length = 0

    def takes(self, key: Key) -> bool:
        """Return whether *key* can be written after what is there."""
        if isinstance(key, int):
            return self.is_list and self._length <= key <= self._length + MAX_GAP
        return not self.is_list and key not in self._names

    def holds(self, key: Key) -> bool:
        """Return whether *key* was written."""
        if isinstance(key, int):
            return self.is_list and key < self._length
        return key in self._names

    def head(self, key: Key, filler: str) -> str:
        """Return what comes before the value of *key*, and note that it is there."""
        comma = "," if self._length else ""
        if isinstance(key, int):
            gap, self._length = key - self._length, key + 1
            return comma + (filler + ",") * gap
        self._names.add(key)
        self._length += 1
        return f"{comma}{_written(key)}:"


class _Late:
    """A leaf that came too late for its place: a value, or pieces of a string.

    *goes_on* says that they continue the string that was written in time.
    """

    def __init__(self, value: object, *, goes_on: bool = False) -> None:
        self.pieces: list[str] = []
        self._value = value
        self._goes_on = goes_on

    def value_after(self, before: object) -> object:
        """Return the value, where *before* is what was written in time."""
        if not self.pieces:
            return self._value
        begun = before if self._goes_on and isinstance(before, str) else ""
        text, held = joined("".join(self.pieces))
        return begun + text + ("\ufffd" if held else "")


_written = object_text
