"""Arguments out of values: strict JSON text, written as the values come.

A string that its schema leaves alone streams as it comes; any other value is written when it is
closed, coerced. So the pieces of every format join to strict JSON whose value is the call's
arguments, by construction.

A key is written once. Readers of JSON disagree about which of two equal keys counts, and a client
must never run another value than the one that was checked: a value that comes again is not written,
and where it differs from the first, `conflicts` says so. `Calls` decides what becomes of the call:
where nothing went out yet, the last value counts; where the first went out, the call is incomplete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any, Final

from penstock import _json
from penstock.errors import UsageError
from penstock.values.coercion import coerce, describe_change
from penstock.values.schema import Schema


class ArgumentWriter:
    """Writes one call's arguments to *emit*, piece by piece; `arguments` is what they say.

    *schema* is the tool's, or None for a tool that nobody knows: its values stay as they are.
    """

    __slots__ = ("_emit", "_ended", "_is_open", "_is_repeated", "_key", "_lead", "_schema",
                 "arguments", "conflicts", "flaw", "notes")  # fmt: skip

    def __init__(self, schema: Schema | None, emit: Callable[[str], None]) -> None:
        self.arguments: dict[str, Any] = {}
        self.conflicts: dict[str, Any] = {}
        """What was written for the keys whose value came again and differs; `arguments` has the
        last one."""
        self.flaw = ""
        """Why the arguments cannot be said in strict JSON, if they cannot."""
        self.notes: list[str] = []
        """Which values coercion has changed, in words."""
        self._schema = schema
        self._emit = emit
        self._key = ""
        self._is_open = False  # whether a string is
        self._ended: str | None = None  # that string, where `end_text` has ended it
        self._is_repeated = False  # the open string has a key that was written before
        self._lead = "{"

    @property
    def is_repeating(self) -> bool:
        """Whether a string is open whose key was written before: none of it is written."""
        return self._is_open and self._is_repeated

    def is_written(self, key: str) -> bool:
        """Return whether a value of *key* was written; another one would not be."""
        return joined_halves(key) in self.arguments

    def streams(self, key: str) -> bool:
        """Return whether coercion would leave a string for *key* alone.

        It is written as it comes.
        """
        child = self.child(key)
        return child is None or child.is_string or child.free

    def child(self, key: str) -> Schema | None:
        """Return the schema of the argument *key*, where one is known."""
        return self._schema.property(key) if self._schema is not None else None

    def open_text(self, key: str) -> None:
        """Begin the string *key*; `add_text` and `close_text` follow."""
        self.settle()
        self._key = key = joined_halves(key)
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
        """Write more of the open string, which is escaped as strict JSON has it already."""
        if not self._is_repeated:
            self._emit(piece)

    def close_text(self, text: str) -> None:
        """End the open string; *text* is all of it."""
        text = joined_halves(text)
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

        The quote may be one that the model forgot to escape: what breaks after it can then be
        repaired, and nothing that went out is taken back.
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
        """Close that string; return the quote that is due, for the caller to write."""
        if self._ended is None:
            return ""
        self.arguments[self._key] = joined_halves(self._ended)
        self._is_open, self._ended = False, None
        return '"'

    def put(self, key: str, value: Any) -> None:
        """Write a whole value, coerced by its schema."""
        child = self.child(key)
        if child is not None:
            value = coerce(value, child, typed=True)
        self.write(key, value)

    def put_typed(self, key: str, value: Any) -> None:
        """Write a whole value whose type the model has written: what coercion changes is noted."""
        child = self.child(key)
        if child is not None:
            fitted = coerce(value, child, typed=True)
            if fitted is not value:
                self.notes.append(describe_change(key, value, fitted))
                value = fitted
        self.write(key, value)

    def write(self, key: str, value: Any) -> None:
        """Write a whole value as it is; one that JSON cannot say makes the arguments flawed."""
        self.settle()
        key = joined_halves(key)
        try:
            written = _json.encode_strict(value).decode()
        except UsageError:
            self.flaw = f"the value of {key[:99]!r} cannot be written in JSON"
            return
        if "\\ud" in written:
            value = json.loads(written)  # Halves of a surrogate pair that meet are one character.
            written = _json.encode_strict(value).decode()
        if key in self.arguments:
            self._repeat(key, value)
            return
        self.arguments[key] = value
        self._emit(f"{self._lead}{_quoted(key)}:{written}")
        self._lead = ","

    def _repeat(self, key: str, value: Any) -> None:
        """Take another value of *key*: the last counts, unless the first went out."""
        before = self.arguments[key]
        if key in self.conflicts or not _is_same(before, value):
            self.conflicts.setdefault(key, before)
            self.arguments[key] = value

    @property
    def written(self) -> dict[str, Any]:
        """The arguments that the pieces say; with `conflicts`, these are not `arguments`."""
        return self.arguments | self.conflicts

    @property
    def text(self) -> str:
        """All of `arguments` as strict JSON, for a call of which nothing went out."""
        return _json.encode_strict(self.arguments).decode()

    @property
    def closing(self) -> str:
        """What ends the arguments."""
        return "{}" if self._lead == "{" else "}"

    def cut_arguments(self, open_text: str | None) -> dict[str, Any]:
        """Return the arguments of a call that was cut; *open_text* went out of an open string."""
        open_text = open_text if self._ended is None else self._ended
        if self._is_open and open_text and not self._is_repeated:
            return {**self.arguments, self._key: joined_halves(open_text)}
        return self.written

    def agrees_with(self, arguments: dict[str, Any], open_text: str | None) -> bool:
        """Return whether *arguments* continue from what was written.

        *open_text* is not closed yet.
        """
        if any(arguments.get(key, _NOTHING) != value for key, value in self.written.items()):
            return False
        open_text = open_text if self._ended is None else self._ended
        if open_text is None:
            return True
        value = arguments.get(self._key)
        return isinstance(value, str) and value.startswith(open_text)

    def complete(self, arguments: dict[str, Any], open_text: str | None) -> None:
        """Write what is missing to *arguments*, which agree with what was written."""
        open_text = open_text if self._ended is None else self._ended
        if open_text is not None:
            text = arguments[self._key]
            self.add_text(text[len(open_text) :])
            self.close_text(text)
        for key, value in arguments.items():
            if key not in self.arguments:
                self.write(key, value)


_NOTHING: Final = object()


def _quoted(text: str) -> str:
    """Write a string as JSON that can be sent: half a surrogate pair only as an escape."""
    return sendable(encode_basestring(text))


def sendable(written: str) -> str:
    """Return a piece of JSON text as it can be sent: half a surrogate pair only as an escape."""
    if written.isascii():
        return written
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def joined_halves(text: str) -> str:
    """Return *text* with two halves of a surrogate pair that meet as the one character they are.

    Any reader of the JSON text joins them: the arguments have to say the same.
    """
    if text.isascii() or _PAIR.search(text) is None:
        return text
    return _PAIR.sub(lambda found: _joined_pair(found[0]), text)


_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def _joined_pair(pair: str) -> str:
    return pair.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def can_write(value: Any) -> bool:
    """Return whether *value* has a form in strict JSON, as infinity has not."""
    try:
        _json.encode_strict(value)
    except UsageError:
        return False
    return True


def _is_same(value: Any, other: Any) -> bool:
    """Return whether two values are written alike; to Python ``1`` and ``true`` are equal."""
    return _json.encode(value) == _json.encode(other)
