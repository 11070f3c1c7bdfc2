"""The arguments of a call as strict JSON text, written as their values come.

A string that coercion would not change is written as it comes; any other value is written, coerced,
when it is closed. So the pieces of every format join to strict JSON whose value is the call's
arguments, by construction.

A key is written once. JSON parsers disagree about which of two equal keys counts, and a client must
never run another value than the one that was checked: a value that comes again is not written, and
where it differs from the first, it is listed in `conflicts`. `CallSink` decides what becomes of the
call: the last value counts if nothing was emitted yet; otherwise the call is incomplete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from json.encoder import encode_basestring
from typing import Any, Final

from penstock import _json
from penstock.errors import UsageError
from penstock.values.coercion import coerce, describe_change
from penstock.values.schema import Schema


class ArgumentWriter:
    """Writes one call's arguments to *emit*, piece by piece; `arguments` is their value.

    *schema* is the tool's, or None for an unknown tool: its values stay as they are.
    """

    __slots__ = ("_emit", "_ended", "_is_open", "_is_repeated", "_key", "_lead", "_schema",
                 "arguments", "conflicts", "flaw", "notes")  # fmt: skip

    def __init__(self, schema: Schema | None, emit: Callable[[str], None]) -> None:
        self.arguments: dict[str, Any] = {}
        self.conflicts: dict[str, Any] = {}
        """The first values of keys whose value came again and differs; `arguments` has the last."""
        self.flaw = ""
        """Why the arguments cannot be written in strict JSON, if they cannot."""
        self.notes: list[str] = []
        """Descriptions of the values that coercion has changed."""
        self._schema = schema
        self._emit = emit
        self._key = ""
        self._is_open = False  # a string is open
        self._ended: str | None = None  # the open string, once `end_text` has ended it
        self._is_repeated = False  # the open string has a key that was written before
        self._lead = "{"  # written before the next key

    @property
    def is_repeating(self) -> bool:
        """Whether the key of the open string was written before: none of the string is written."""
        return self._is_open and self._is_repeated

    def is_written(self, key: str) -> bool:
        """Return whether a value of *key* was written; another one would not be."""
        return _json.join_surrogates(key) in self.arguments

    def streams(self, key: str) -> bool:
        """Return whether a string for *key* is written as it comes: coercion leaves it alone."""
        child = self.child(key)
        return child is None or child.is_string or child.free

    @property
    def schema(self) -> Schema | None:
        """The schema of the tool, if it is known."""
        return self._schema

    def child(self, key: str) -> Schema | None:
        """Return the schema of the argument *key*, if it is known."""
        return self._schema.property(key) if self._schema is not None else None

    def open_text(self, key: str) -> None:
        """Begin the string *key*; `add_text` and `close_text` follow."""
        self.settle()
        self._key = key = _json.join_surrogates(key)
        self._is_open = True
        self._is_repeated = key in self.arguments
        if not self._is_repeated:
            self._emit(f'{self._lead}{_quoted(key)}:"')
            self._lead = ","

    def add_text(self, piece: str) -> None:
        """Write more of the open string."""
        if piece and not self._is_repeated:
            self._emit(_quoted(piece)[1:-1])

    def add_escaped(self, piece: str) -> None:
        """Write more of the open string; *piece* is escaped for strict JSON already."""
        if not self._is_repeated:
            self._emit(piece)

    def close_text(self, text: str) -> None:
        """End the open string; *text* is all of it."""
        text = _json.join_surrogates(text)
        self._is_open = False
        self._ended = None
        if self._is_repeated:
            self._is_repeated = False
            self._repeat(self._key, text)
        else:
            self.arguments[self._key] = text
            self._emit('"')

    def end_text(self, text: str) -> None:
        """End the open string, but write its quote only once something valid follows.

        The quote may be one that the model forgot to escape: if the text after it breaks, the call
        can still be repaired without taking back anything that was emitted.
        """
        if self._is_repeated:
            self.close_text(text)
        else:
            self._ended = text
            self._emit("")  # claims the quote

    def settle(self) -> None:
        """Close the string that `end_text` has ended."""
        if self._ended is not None:
            self.close_text(self._ended)

    def take_quote(self) -> str:
        """Close the string that `end_text` has ended; return its quote, for the caller to write."""
        if self._ended is None:
            return ""
        self.arguments[self._key] = _json.join_surrogates(self._ended)
        self._is_open, self._ended = False, None
        return '"'

    def put_members(self, members: Mapping[str, Any]) -> None:
        """Write all *members* of an object of typed values."""
        for key, value in members.items():
            if isinstance(value, str) and self.streams(key):
                self.put_text(key, value)
            else:
                self.put_typed(key, value)

    def put_text(self, key: str, text: str) -> None:
        """Write a whole string as it is, if `streams` allows that for its key."""
        self.settle()
        key, text = _json.join_surrogates(key), _json.join_surrogates(text)
        if key in self.arguments:
            self._repeat(key, text)
            return
        self.arguments[key] = text
        written = f"{self._lead}{encode_basestring(key)}:{encode_basestring(text)}"
        self._emit(written if written.isascii() else _json.escape_surrogates(written))
        self._lead = ","

    def put(self, key: str, value: Any) -> None:
        """Write a whole value, coerced by its schema."""
        child = self.child(key)
        if child is not None:
            value = coerce(value, child, typed=True)
        self.write(key, value)

    def put_typed(self, key: str, value: Any) -> None:
        """Write a whole value that the model has typed; `notes` lists a change by coercion."""
        child = self.child(key)
        if child is not None:
            fitted = coerce(value, child, typed=True)
            if fitted is not value:
                self.notes.append(describe_change(key, value, fitted))
                value = fitted
        self.write(key, value)

    def write(self, key: str, value: Any) -> None:
        """Write a whole value as it is; one without a JSON form makes the arguments flawed."""
        self.settle()
        key = _json.join_surrogates(key)
        try:
            written = _json.encode_strict(value).decode()
        except UsageError:
            self.flaw = f"the value of {key[:99]!r} cannot be written in JSON"
            return
        if "\\ud" in written:
            value = json.loads(written)  # Joins the halves of surrogate pairs.
            written = _json.encode_strict(value).decode()
        if key in self.arguments:
            self._repeat(key, value)
            return
        self.arguments[key] = value
        self._emit(f"{self._lead}{_quoted(key)}:{written}")
        self._lead = ","

    def _repeat(self, key: str, value: Any) -> None:
        """Record another value of *key*, which was written before."""
        before = self.arguments[key]
        if key in self.conflicts or not _is_same(before, value):
            self.conflicts.setdefault(key, before)
            self.arguments[key] = value

    def find_damaged_key(self) -> str:
        """Return what is wrong with an argument that the tool does not have; empty if nothing is.

        With markup or a sentence in its name, it is another argument with a damaged name.
        """
        schema = self._schema
        key = None if schema is None else find_damaged_key(self.arguments, schema)
        return "" if key is None else f"the name {key[:99]!r} of an argument is damaged"

    @property
    def written(self) -> dict[str, Any]:
        """The arguments as written; where there are `conflicts`, these are not `arguments`."""
        return self.arguments | self.conflicts

    @property
    def text(self) -> str:
        """All of `arguments` as strict JSON, for a call of which nothing was emitted."""
        return _json.encode_strict(self.arguments).decode()

    @property
    def closing(self) -> str:
        """The text that ends the arguments."""
        return "{}" if self._lead == "{" else "}"

    def cut_arguments(self, open_text: str | None) -> dict[str, Any]:
        """Return the arguments of a cut call; *open_text* was emitted of an open string."""
        open_text = open_text if self._ended is None else self._ended
        if self._is_open and open_text and not self._is_repeated:
            return {**self.written, self._key: _json.join_surrogates(open_text)}
        return self.written

    def agrees_with(self, arguments: Any, open_text: str | None) -> bool:
        """Return whether *arguments* are an object that begins with what was written.

        *open_text* was emitted of a string that is not closed yet.
        """
        if not isinstance(arguments, dict):
            return False
        if any(arguments.get(key, _NOTHING) != value for key, value in self.written.items()):
            return False
        open_text = open_text if self._ended is None else self._ended
        if open_text is None:
            return True
        value = arguments.get(self._key)
        return isinstance(value, str) and value.startswith(open_text)

    def complete(self, arguments: dict[str, Any], open_text: str | None) -> None:
        """Write what is missing of *arguments*, which agree with what was written."""
        open_text = open_text if self._ended is None else self._ended
        if open_text is not None:
            text = arguments[self._key]
            self.add_text(text[len(open_text) :])
            self.close_text(text)
        for key, value in arguments.items():
            if key not in self.arguments:
                self.write(key, value)


def find_damaged_key(members: dict[str, Any], schema: Schema) -> str | None:
    """Return a key of *members* that *schema* lacks and whose name is damaged, inside too."""
    declared = schema.properties
    for key, value in members.items():
        if key in declared:
            inner = schema.property(key) if isinstance(value, (dict, list)) else None
            found = None if inner is None else _find_damaged_inside(value, inner)
            if found is not None:
                return found
        elif declared and is_damaged_key(key, declared):
            return key
    return None


def _find_damaged_inside(value: Any, schema: Schema) -> str | None:
    if isinstance(value, dict):
        return find_damaged_key(value, schema)
    for index, item in enumerate(value):
        inner = schema.item(index) if isinstance(item, dict) else None
        found = None if inner is None else find_damaged_key(item, inner)
        if found is not None:
            return found
    return None


def is_damaged_key(key: str, declared: Collection[str]) -> bool:
    """Return whether *key*, which is not among *declared*, has more in it than a name."""
    if key != key.strip() or not key or _IN_NO_KEY.search(key):
        return True
    return " " in key and any(word in declared for word in key.split())


_IN_NO_KEY: Final = re.compile(r"[<>{}\[\]|\"'`\u201c\u201d\u2018\u2019\n]|[.,:;!?]\s")
_NOTHING: Final = object()


def _quoted(text: str) -> str:
    """Write a string as JSON that can be sent, with lone surrogates escaped."""
    written: str = encode_basestring(text)
    return written if written.isascii() else _json.escape_surrogates(written)


def can_write(value: Any) -> bool:
    """Return whether *value* has a form in strict JSON; infinity has none."""
    try:
        _json.encode_strict(value)
    except UsageError:
        return False
    return True


def _is_same(value: Any, other: Any) -> bool:
    """Return whether two values have the same JSON; in Python ``1`` equals ``True``."""
    return _json.encode(value) == _json.encode(other)
