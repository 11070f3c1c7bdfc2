"""What the raw text of a value says, once it is whole: by its schema, or as the wire declares it.

A text is trimmed before it is read as anything but a string. Where a string stands beside other
types, only what can hardly be meant otherwise is not a string: null, and whole JSON. What cannot be
read as the schema wants stays the text that it was, except for a list or an object: text that has
brackets or quotes and is not JSON was damaged, and is not a value.
"""

from __future__ import annotations

import re
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, Final, Protocol

from penstock import _json
from penstock.errors import PenstockError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.call_sink import NoCallError
from penstock.parsing.readers.base import OpenString, Translated
from penstock.parsing.readers.tagged.dialect import Trim
from penstock.parsing.readers.tagged.strings import MAX_TAIL, Tail
from penstock.parsing.readers.tagged.tags import MAX_GAP, MAX_NAME
from penstock.parsing.scanner import Markers
from penstock.values import rjson
from penstock.values.coercion import UNREAD, coerce, read_boolean, read_number
from penstock.values.json_grammar import MAX_DEPTH
from penstock.values.rxml.elements import empty_value, is_list, is_string_field
from penstock.values.schema import Schema

_CONTAINERS: Final = ("{", "[")
_SIGNS: Final = frozenset('[]{}"')


class UnreadableValueError(NoCallError):
    """The text of a value was meant to be a list or an object, and is not one."""


def typed(text: str, schema: Schema | None) -> Any:
    """Return what *text* says where *schema* speaks of it; without one it is text.

    One value where a list is wanted is a list of it. Raises `UnreadableValueError` for a damaged
    list or object.
    """
    if schema is None or schema.free or schema.is_string:
        return text
    if any(node.members is not None for node in (schema, *schema.family)):
        return coerce(text, schema)
    bare = text.strip()
    if bare == "null" and schema.nullable:
        return None
    found = _strict(bare) if "string" in schema.types else _read(bare, schema)
    if isinstance(found, dict | list):
        is_wanted = ("object" if isinstance(found, dict) else "array") in schema.types
        return coerce(found, schema) if is_wanted or "string" not in schema.types else text
    if found is not UNREAD:
        return found
    wanted = schema.types & {"object", "array"}
    if not wanted or "string" in schema.types:
        return text
    if not _SIGNS.isdisjoint(bare):
        raise UnreadableValueError(f"the text of a value is not {' or '.join(sorted(wanted))}")
    return coerce(text, schema, typed=True) if is_list(schema) else text


def repaired_list(text: str, schema: Schema | None) -> Any:
    """Return the list that *text* is but for a bracket at its end or at its beginning."""
    bare = text.strip()
    if schema is None or not is_list(schema):
        return None
    for whole in (bare + "]", "[" + bare):
        found = _strict(whole)
        if isinstance(found, list) and found:
            return coerce(found, schema, typed=True)
    return None


def declared(text: str) -> Any:
    """Return what *text* says that the wire declares to be no string: JSON, or else itself."""
    found = _relaxed(text)
    return text if found is UNREAD else found


def object_in(text: str) -> dict[str, Any] | None:
    """Return the object that *text* is, if it is one."""
    found = _relaxed(text) if text.lstrip().startswith("{") else None
    return found if isinstance(found, dict) else None


def _read(bare: str, schema: Schema) -> Any:
    """Read text where no string is wanted."""
    found = UNREAD
    if "boolean" in schema.types:
        found = read_boolean(bare)
    if found is UNREAD and "integer" in schema.types:
        found = read_number(bare)
    if found is UNREAD and bare.startswith(_CONTAINERS) and schema.types & {"object", "array"}:
        found = _relaxed(bare)
    return found


def _strict(bare: str) -> Any:
    if not bare.startswith(_CONTAINERS):
        return UNREAD
    try:
        return _writable(_json.decode(bare))
    except PenstockError:
        return UNREAD


def _relaxed(text: str) -> Any:
    try:
        return _writable(rjson.loads(text, duplicates="last"))
    except PenstockError:
        return UNREAD


def _writable(value: Any) -> Any:
    """Return *value* if JSON can write it; raise `PenstockError` otherwise."""
    _json.encode_strict(value)
    return value


# Values that hold elements, once their text is whole: objects, lists, and leaves by their
# schema.
#
# Only tags with the prefix of the dialect are elements; any other tag is text. Child elements
# make an object, ``item`` elements a list, and an element that comes again a list under its
# name. Where text is beside elements, or tags do not match, there is not a value:
# `UnreadableValueError`. The elements that are open are in a list: no depth of the text is a depth
# of the reader.


ITEM: Final = "item"
"""The name of an element that is an item of a list."""


def nested_value(text: str, schema: Schema | None, prefix: str) -> Any:
    """Return what *text*, all that is between the tags of a parameter, says."""
    if not text:
        return empty_value(schema)
    if prefix in text and not is_string_field(schema):
        root = _read_tree(text, schema, _tag(prefix))
        if root is None:
            raise UnreadableValueError("text beside elements, or elements that do not match")
        return root.value("")
    return typed(text, schema)


def list_of(texts: list[str], schema: Schema | None, prefix: str) -> list[Any]:
    """Return the values of a parameter that came several times."""
    if is_list(schema) and schema is not None:
        schemas = [schema.item(at) for at in range(len(texts))]
    else:
        schemas = [schema] * len(texts)
    return [nested_value(text, each, prefix) for text, each in zip(texts, schemas, strict=True)]


class _Element:
    """An element that is open: what it is called, what is inside so far."""

    __slots__ = ("children", "key", "schema", "start")

    def __init__(self, key: str, schema: Schema | None, start: int) -> None:
        self.key = key
        self.schema = schema
        self.start = start  # where its inside begins
        self.children: list[tuple[str, str | None, Any]] = []  # key, text of a leaf, value

    def child(self, key: str) -> Schema | None:
        """Return the schema of the next child."""
        if self.schema is None:
            return None
        if key == ITEM and "array" in self.schema.types and ITEM not in self.schema.properties:
            return self.schema.item(len(self.children))
        return self.schema.property(key)

    def value(self, inside: str) -> Any:
        """Return what the element says; *inside* is its text, if it is a leaf."""
        if not self.children:
            return typed(inside, self.schema) if inside else empty_value(self.schema)
        if self._is_list:
            return [value for _, _, value in self.children]
        groups: dict[str, list[tuple[str | None, Any]]] = {}
        for key, text, value in self.children:
            groups.setdefault(key, []).append((text, value))
        return {key: self._joined(key, group) for key, group in groups.items()}

    @property
    def _is_list(self) -> bool:
        declares_item = self.schema is not None and ITEM in self.schema.properties
        return not declares_item and all(key == ITEM for key, _, _ in self.children)

    def _joined(self, key: str, group: list[tuple[str | None, Any]]) -> Any:
        """Join the children of one name; items of a list are what its schema says of items."""
        if len(group) == 1:
            return group[0][1]
        schema = self.child(key)
        items = schema if is_list(schema) else None
        return [
            value if text is None or items is None else typed(text, items.item(at))
            for at, (text, value) in enumerate(group)
        ]


def _read_tree(text: str, schema: Schema | None, tag: re.Pattern[str]) -> _Element | None:
    """Read the elements in *text*; None where it is not a tree."""
    root = _Element("", schema, 0)
    path = [root]
    at = 0
    for found in tag.finditer(text):
        is_closing, key = bool(found["closing"]), found["key"]
        between = text[at : found.start()]
        at = found.end()
        element = path[-1]
        is_leaf = is_closing and not element.children
        if between.strip() and not is_leaf:
            return None
        if not is_closing:
            if len(path) > MAX_DEPTH:
                return None
            path.append(_Element(key, element.child(key), at))
        elif len(path) == 1 or element.key != key:
            return None
        else:
            path.pop()
            inside = text[element.start : found.start()] if is_leaf else ""
            leaf = inside if is_leaf else None
            path[-1].children.append((key, leaf, element.value(inside)))
    is_tree = len(path) == 1 and root.children and not text[at:].strip()
    return root if is_tree else None


@lru_cache(maxsize=16)
def _tag(prefix: str) -> re.Pattern[str]:
    """Return the pattern of any tag with *prefix*."""
    key = rf"(?P<key>[^\s<>/=\"']{{1,{MAX_NAME}}}+)"
    return re.compile(rf"{re.escape(prefix)}\s{{0,{MAX_GAP}}}+<(?P<closing>/?){key}>")


# The raw text of a value while it comes: a string that goes out at once, or text that waits.
#
# What may be no part of the value (a newline at its end, white space there) is held back until
# something follows. Of a call that is cut it stays unwritten: nobody knows what it would have
# been.


MAX_LINE: Final = 256
"""How much of a line is looked at for a quote before a tag: a line of code is shorter."""


class OpenText(Protocol):
    """Takes the raw text of a value."""

    @property
    def is_blank(self) -> bool:
        """Whether the text so far is white space."""

    @property
    def ends_with_newline(self) -> bool:
        """Whether the text ends with a newline that a forgotten tag would not take along."""

    def restart(self) -> bool:
        """Forget white space, because the opening tag came again; return whether that can be."""

    def line(self) -> str:
        """Return the last line of the text so far, at most `MAX_LINE` characters of it."""

    def count_waiting(self, piece: str) -> int:
        """Return how many characters at the end of *piece*, the next one, will wait."""

    def add(self, piece: str) -> None:
        """Take more of the text, at least a character."""

    def close(self, *, forgotten: bool = False) -> None:
        """End the value: a tag follows. A newline before a *forgotten* one was not its own."""

    def gone_out(self) -> str | None:
        """Return what was written so far of a string that streams."""

    def run(self) -> OpenString | None:
        """Return the text as a run, if it streams and none of it waits."""


class StreamedText:
    """A string that goes out as it comes, but for what *trims* cuts off; *marks* may end it."""

    __slots__ = ("_edges", "_firsts", "_marks", "_pieces", "_writer")

    def __init__(self, marks: Markers, writer: ArgumentWriter, trims: Trim) -> None:
        self._pieces: list[str] = []
        self._marks = marks
        self._firsts = {literal[0] for literal in marks.literals}
        self._writer = writer
        self._edges = _EDGES[trims]()

    @property
    def is_blank(self) -> bool:
        """Whether the text so far is white space."""
        return all(map(str.isspace, self._pieces))

    @property
    def ends_with_newline(self) -> bool:
        """Whether the text ends with a newline that a forgotten tag would not take along."""
        return bool(self._pieces) and self._pieces[-1].endswith("\n")

    def restart(self) -> bool:
        """Forget white space; none may have gone out."""
        self._edges = type(self._edges)()
        return not self._pieces

    def line(self) -> str:
        """Return the last line of the text so far."""
        return "" if self._edges.is_after_newline else _last_line(self._pieces)

    def count_waiting(self, piece: str) -> int:
        """Return how many characters at the end of *piece*, the next one, will wait."""
        return len(piece) - self._edges.find(piece, len(piece))

    def add(self, piece: str) -> None:
        """Take more of the text."""
        shown = self._edges.push(piece)
        if shown:
            self._pieces.append(shown)
            self._writer.add_text(shown)

    def close(self, *, forgotten: bool = False) -> None:
        """End the string."""
        held = "" if forgotten else self._edges.held_text
        if held:
            self._pieces.append(held)
            self._writer.add_text(held)
        self._writer.close_text("".join(self._pieces))

    def gone_out(self) -> str:
        """Return what was written so far."""
        return "".join(self._pieces)

    def run(self) -> OpenString | None:
        """Return the string as a run, unless any of it waits."""
        if not self._edges.is_clear:
            return None
        return OpenString(
            _special(self._marks.literals, self._edges.gate), self._pieces, self._translate
        )

    def _translate(self, text: str) -> Translated | None:
        """Read a piece without any mark; what may begin one, or may be cut off, is left."""
        size = len(text)
        if any(first in text for first in self._firsts):
            if self._marks.find(text) is not None:
                return None
            size = self._marks.find_held(text)
        if text[size - 1 : size].isspace():
            size = self._edges.find(text, size)
        if size < len(text):
            if len(text) - size > MAX_TAIL:
                return None
            text = text[:size]
        return text, encode_basestring(text)[1:-1], size


class CollectedText:
    """Text that waits until it is whole; then `text` is all of it, but for what *trims* cuts."""

    __slots__ = ("_pieces", "_trims", "text")

    def __init__(self, trims: Trim) -> None:
        self.text = ""
        self._pieces: list[str] = []
        self._trims = trims

    @property
    def is_blank(self) -> bool:
        """Whether the text so far is white space."""
        return all(map(str.isspace, self._pieces))

    @property
    def ends_with_newline(self) -> bool:
        """Whether it matters: white space around a value that waits says nothing."""
        return False

    def restart(self) -> bool:
        """Forget white space."""
        self._pieces.clear()
        return True

    def line(self) -> str:
        """Return the last line of the text so far."""
        return _last_line(self._pieces)

    def count_waiting(self, piece: str) -> int:
        """Return 0: all of it waits, and no event comes."""
        del piece
        return 0

    def add(self, piece: str) -> None:
        """Take more of the text."""
        self._pieces.append(piece)

    def close(self, *, forgotten: bool = False) -> None:
        """End the text."""
        text = "".join(self._pieces)
        if forgotten and self._trims == "nothing":
            text = text.removesuffix("\n")
        if self._trims == "newlines":
            text = text.removeprefix("\n").removesuffix("\n")
        self.text = text.strip() if self._trims == "blanks" else text

    def gone_out(self) -> None:
        """Give nothing: none of it was written."""

    def run(self) -> None:
        """Give nothing: the text waits."""


def _last_line(pieces: list[str]) -> str:
    """Return the end of the text that *pieces* are, from its last newline on."""
    line = ""
    for piece in reversed(pieces):
        _, newline, end = piece[-MAX_LINE:].rpartition("\n")
        line = end + line
        if newline or len(line) >= MAX_LINE:
            break
    return line[-MAX_LINE:]


class _Nothing:
    """All of the text is the value; a newline at its end waits, a forgotten tag may follow it."""

    gate = ""

    def __init__(self) -> None:
        self.held_text = ""

    @property
    def is_clear(self) -> bool:
        return not self.held_text

    @property
    def is_after_newline(self) -> bool:
        return bool(self.held_text)

    def push(self, piece: str) -> str:
        text = self.held_text + piece
        self.held_text = "\n" if text.endswith("\n") else ""
        return text.removesuffix("\n")

    def find(self, text: str, size: int) -> int:
        return size - text.endswith("\n", 0, size)


class _Newlines:
    """One newline at either end is not a part of the value."""

    gate = ""
    held_text = ""  # what waits is not a part of the value

    def __init__(self) -> None:
        self._begun = False
        self._held = ""

    @property
    def is_clear(self) -> bool:
        return self._begun and not self._held

    def push(self, piece: str) -> str:
        if not self._begun:
            self._begun = True
            piece = piece.removeprefix("\n")
        text = self._held + piece
        self._held = "\n" if text.endswith("\n") else ""
        return text.removesuffix("\n")

    def find(self, text: str, size: int) -> int:
        return size - text.endswith("\n", 0, size)

    @property
    def is_after_newline(self) -> bool:
        return bool(self._held)


class _Blanks:
    """No white space at either end is part of the value."""

    gate = r"\s"
    held_text = ""

    def __init__(self) -> None:
        self._begun = False
        self._tail = Tail()

    @property
    def is_clear(self) -> bool:
        return self._begun and self._tail.is_clear

    def push(self, piece: str) -> str:
        if not self._begun:
            piece = piece.lstrip()
            self._begun = bool(piece)
        return self._tail.push(piece)

    def find(self, text: str, size: int) -> int:
        return len(text[:size].rstrip())

    @property
    def is_after_newline(self) -> bool:
        return "\n" in self._tail.held


_EDGES: dict[Trim, type[_Nothing | _Newlines | _Blanks]] = {
    "nothing": _Nothing,
    "newlines": _Newlines,
    "blanks": _Blanks,
}


@lru_cache(maxsize=512)
def _special(marks: tuple[str, ...], at_end: str) -> re.Pattern[str]:
    """Match what is not plain: the start of one of *marks*, strict JSON escapes, the end of text.

    One set is found much faster than either of two patterns; what is only special at the end, and
    does not stand there, is then let pass.
    """
    firsts = "".join(sorted({mark[0] for mark in marks}))
    always = rf'{re.escape(firsts)}"\\\x00-\x1f'
    if not at_end:
        return re.compile(f"[{always}]")
    return re.compile(rf"[{always}{at_end}](?:(?<=[{always}])|\Z)")
