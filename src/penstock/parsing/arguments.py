"""Arguments out of values: strict JSON text, written as the values come.

A string that its schema leaves alone streams as it comes; any other value is written when it is
closed, coerced. So the pieces of every format join to strict JSON whose value is the call's
arguments, by construction. Of a repeated key the last value counts, as it does for readers of the
JSON text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any, Final

from penstock import _json
from penstock.errors import UsageError
from penstock.values.coercion import coerce
from penstock.values.schema import Schema


class ArgumentWriter:
    """Writes one call's arguments to *emit*, piece by piece; `arguments` is what they say.

    *schema* is the tool's, or None for a tool that nobody knows: its values stay as they are.
    """

    __slots__ = ("_emit", "_ended", "_is_open", "_key", "_lead", "_schema", "arguments")

    def __init__(self, schema: Schema | None, emit: Callable[[str], None]) -> None:
        self.arguments: dict[str, Any] = {}
        self._schema = schema
        self._emit = emit
        self._key = ""
        self._is_open = False  # whether a string is
        self._ended: str | None = None  # that string, where `end_text` has ended it
        self._lead = "{"

    def streams(self, key: str) -> bool:
        """Tell whether coercion would leave a string for *key* alone: it is written as it comes."""
        child = self.child(key)
        return child is None or child.is_string or child.free

    def child(self, key: str) -> Schema | None:
        """Give the schema of the argument *key*, where one is known."""
        return self._schema.property(key) if self._schema is not None else None

    def open_text(self, key: str) -> None:
        """Begin the string *key*; `add_text` and `close_text` follow."""
        self.settle()
        self._key = key
        self._is_open = True
        self._emit(f'{self._lead}{_quoted(key)}:"')
        self._lead = ","

    def add_text(self, piece: str) -> None:
        """Write more of the open string."""
        if piece:
            self._emit(_quoted(piece)[1:-1])

    def add_escaped(self, piece: str) -> None:
        """Write more of the open string, which is escaped as strict JSON has it already."""
        self._emit(piece)

    def close_text(self, text: str) -> None:
        """End the open string; *text* is all of it."""
        self.arguments[self._key] = text
        self._is_open = False
        self._ended = None
        self._emit('"')

    def end_text(self, text: str) -> None:
        """End the open string, but write its quote only once something valid follows.

        The quote may be one that the model forgot to escape: what breaks behind it can then be
        repaired, and nothing that went out is taken back.
        """
        self._ended = text
        self._emit("")  # claims the quote

    def settle(self) -> None:
        """Close the string that `end_text` has ended."""
        if self._ended is not None:
            self.close_text(self._ended)

    def put(self, key: str, value: Any) -> None:
        """Write a whole value, coerced by its schema."""
        child = self.child(key)
        if child is not None:
            value = coerce(value, child, typed=True)
        self.write(key, value)

    def write(self, key: str, value: Any) -> None:
        """Write a whole value as it is."""
        self.settle()
        self.arguments[key] = value
        self._emit(f"{self._lead}{_quoted(key)}:{_as_json(value)}")
        self._lead = ","

    @property
    def closing(self) -> str:
        """What ends the arguments."""
        if self._ended is not None:
            return '"}'
        return "{}" if self._lead == "{" else "}"

    def cut_arguments(self, open_text: str | None = None) -> dict[str, Any]:
        """Give the arguments, with what was written of an open string, which is *open_text*."""
        open_text = open_text if self._ended is None else self._ended
        if self._is_open and (open_text or self._ended is not None):
            return {**self.arguments, self._key: open_text}
        return self.arguments

    def agrees_with(self, arguments: dict[str, Any], open_text: str | None) -> bool:
        """Tell whether *arguments* go on from what was written; *open_text* is not closed yet."""
        if any(arguments.get(key, _NOTHING) != value for key, value in self.arguments.items()):
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
    """Give a piece of JSON text as it can be sent: half a surrogate pair only as an escape."""
    if written.isascii():
        return written
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def _as_json(value: Any) -> str:
    """Write a value as strict JSON; a number too big for a float stays one that is too big."""
    try:
        return _json.encode_strict(value).decode()
    except UsageError:
        text = json.dumps(value, separators=(",", ":"))
        return _STRING_OR_WORD.sub(lambda found: _TOO_BIG.get(found[0], found[0]), text)


_STRING_OR_WORD: Final = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN')
_TOO_BIG: Final = {"Infinity": "1e999", "-Infinity": "-1e999", "NaN": "null"}
