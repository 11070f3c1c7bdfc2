"""Arguments that arrive leaf by leaf, each with its path, written as JSON text as they arrive.

With `streamFunctionCallArguments` the API sends ``{"jsonPath": "$.a.b[0]", "stringValue": …}``
instead of the arguments; pieces of a long string follow one another with the same path. Each leaf
is written after the one before, so that the text only grows: containers that are not on the new
path are closed first, and a string is written piece by piece.

A path into a container that was closed cannot be written any more. Its leaf is kept until the end;
then the whole arguments are sent once more, and the streamed text stays incomplete: of a repeated
member some clients take the first and others the last. Models write in order, so this is rare.

A path cannot express an empty element: an element that was skipped becomes an empty object, an
empty list or null, like the one that follows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from penstock import _json
from penstock._json import without_lone_surrogates
from penstock.apis.encoder import encode_arguments
from penstock.apis.fields import clean
from penstock.apis.transcript import CallBlock, split_half

MAX_DEPTH: Final = 100
"""How many steps a path may have: no schema nests deeper."""

MAX_GAP: Final = 16
"""How many elements of a list a path may skip: each is written, and empty ones are rare."""

Key = str | int
"""One step: the name of a member, or the index of an element."""

Path = tuple[Key, ...]

_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[\]]+)|\[(?P<at>\d{1,9})\]|\[(?P<quoted>'[^']*'|"[^"]*")\]"""
)


def read_path(text: object) -> Path:
    """Parse a path such as ``$.a.b[0]``; one that is invalid or too deep is the empty path."""
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
    """Return the value one step below *node*, or None."""
    if isinstance(node, dict):
        return node.get(key)
    is_there = isinstance(node, list) and isinstance(key, int) and key < len(node)
    return node[key] if is_there else None


def make_container(root: dict[str, Any], path: Path) -> Any:
    """Return the object or list that contains the leaf at *path*; create what is missing.

    Return None if *path* requires an object where there is a list, or the reverse.
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
    """Put *value* one step below *node*; return whether that is possible."""
    if isinstance(node, dict) and isinstance(key, str):
        node[key] = value
        return True
    if not isinstance(node, list) or not isinstance(key, int) or key > len(node) + MAX_GAP:
        return False
    node += [None] * (key + 1 - len(node))
    node[key] = value
    return True


# Kinds of leaves that arrive whole; the last two are not in use yet.
_VALUES: Final[dict[str, tuple[type, ...]]] = {
    "numberValue": (int, float),
    "boolValue": (bool,),
    "nullValue": (str, type(None)),  # "NULL_VALUE" or null
    "structValue": (dict,),
    "listValue": (list,),
}


class PartialArguments:
    """The arguments of *call*, which arrive leaf by leaf."""

    def __init__(self, call: CallBlock) -> None:
        self.call = call
        self._text: list[str] = []  # not added to the call yet
        self._keys: list[Key] = []  # of the open containers except the outermost
        self._open: list[_Container] = []
        self._string: Path = ()  # the path of the open string
        self._held = ""  # half of a surrogate pair at its end
        self._unended: set[Path] = set()  # strings that another path closed before their end
        self._late: dict[Path, _Late] = {}

    @property
    def is_in_string(self) -> bool:
        """Whether a string is open."""
        return bool(self._string)

    def add(self, entry: object) -> None:
        """Add a leaf, or a piece of one; one that cannot be parsed makes the call incomplete."""
        fields = entry if isinstance(entry, Mapping) else {}
        path = read_path(fields.get("jsonPath"))
        kind = next((key for key in _VALUES if key in fields), "")
        if not path:
            self.call.is_damaged = True
        elif kind:
            self._add_value(path, kind, fields[kind])
        else:
            text = fields.get("stringValue", "" if path == self._string else None)
            if isinstance(text, str):
                self._add_text(path, text, continues=fields.get("willContinue") is True)
            else:
                self.call.is_damaged = True
        self._flush()

    def finish(self) -> str:
        """Write the rest; return the whole arguments if a leaf came too late for its place."""
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
            self._text.append(encode_arguments(value))
        else:
            self._late[path] = _Late(value)

    def _add_text(self, path: Path, text: str, *, continues: bool) -> None:
        if path != self._string:
            self._end_string()
            if not self._begin(path):
                self._add_late_text(path, text, continues=continues)
                return
            self._string = path
            self._text.append('"')
        text, self._held = split_half(self._held + text)
        self._text.append(encode_arguments(text)[1:-1])
        if not continues:
            self._end_string(is_whole=True)

    def _add_late_text(self, path: Path, text: str, *, continues: bool) -> None:
        late = self._late.get(path)
        if late is None or path not in self._unended:
            late = self._late[path] = _Late("", continues=path in self._unended)
        late.pieces.append(text)
        (self._unended.add if continues else self._unended.discard)(path)

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
        """Write what precedes the leaf at *path*; return whether it can follow what was written."""
        if not self._open:
            self._open.append(_Container(path[0]))
            self._text.append("{")
        depth = self._open_depth(path)
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

    def _open_depth(self, path: Path) -> int:
        """Return how many containers on *path* are open."""
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
        """Return all arguments, with late leaves in their places."""
        arguments: dict[str, Any] = _json.decode(self.call.arguments + "}")
        for path, late in self._late.items():
            node = make_container(arguments, path)
            if not put(node, path[-1], late.value_after(value_at(node, path[-1]))):
                self.call.is_damaged = True
        return encode_arguments(arguments)


class _Container:
    """An object or a list that is open in the text; *first* is its first key."""

    def __init__(self, first: Key) -> None:
        self.is_list = isinstance(first, int)
        self._names: set[Key] = set()
        self._length = 0

    def takes(self, key: Key) -> bool:
        """Return whether *key* can be written after what was written."""
        if isinstance(key, int):
            return self.is_list and self._length <= key <= self._length + MAX_GAP
        return not self.is_list and key not in self._names

    def holds(self, key: Key) -> bool:
        """Return whether *key* was written."""
        if isinstance(key, int):
            return self.is_list and key < self._length
        return key in self._names

    def head(self, key: Key, filler: str) -> str:
        """Return the text before the value of *key*, and mark it as written."""
        comma = "," if self._length else ""
        if isinstance(key, int):
            gap, self._length = key - self._length, key + 1
            return comma + (filler + ",") * gap
        self._names.add(key)
        self._length += 1
        return f"{comma}{encode_arguments(key)}:"


class _Late:
    """A leaf that came too late for its place: a value, or pieces of a string.

    *continues* is whether the pieces continue a string that was written in time.
    """

    def __init__(self, value: object, *, continues: bool = False) -> None:
        self.pieces: list[str] = []
        self._value = value
        self._continues = continues

    def value_after(self, before: object) -> object:
        """Return the value; *before* is what was written in time."""
        if not self.pieces:
            return self._value
        begun = before if self._continues and isinstance(before, str) else ""
        text, held = split_half("".join(self.pieces))
        return begun + text + ("\ufffd" if held else "")
