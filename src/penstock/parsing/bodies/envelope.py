"""The object around one call in JSON: its name, its id, its arguments.

Told of every change in the object, it opens the call as soon as the name is known and the arguments
have begun, writes them as they come, and closes the call with the object. Keys may come in any
order. Arguments wait for two things: for a name that comes after them, and for the end of the
string where they are JSON inside a string.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.bodies.base import NoCallError
from penstock.parsing.calls import Calls
from penstock.values import rjson
from penstock.values.incremental import Change

NAME_KEYS: Final = frozenset({"name", "tool_name"})
ARGUMENT_KEYS: Final = frozenset({"arguments", "parameters", "args", "input"})
ID_KEYS: Final = frozenset({"id", "tool_call_id"})

_NO_OBJECT: Final = "arguments that are no object"


class Envelope:
    """Follows one object and makes a call of it; *base* is how deep it stands in the JSON."""

    __slots__ = ("_base", "_calls", "_id", "_name", "_writer", "is_streaming")

    def __init__(self, calls: Calls, base: int) -> None:
        self.is_streaming = False  # the open string is an argument that is written as it comes
        self._calls = calls
        self._base = base
        self._name = ""
        self._id = ""
        self._writer: ArgumentWriter | None = None

    def follow(self, change: Change) -> None:
        """Take a change at or below the object; raise `NoCallError` where it can be no call."""
        path = change.path[self._base :]
        if not path:
            if change.kind == "end":
                self._close(change.value)
        elif path[0] in ARGUMENT_KEYS:
            self._follow_arguments(change, path)
        elif len(path) == 1 and change.kind == "value":
            self._note(path[0], change.value)

    def _note(self, key: str | int, value: Any) -> None:
        if key in NAME_KEYS and not self._name:
            if not isinstance(value, str) or not value:
                raise NoCallError("a name that is no text")
            self._name = value
        elif key in ID_KEYS and isinstance(value, str):
            self._id = value

    def _follow_arguments(self, change: Change, path: tuple[str | int, ...]) -> None:
        if len(path) == 1:
            is_scalar = change.kind == "value" and not isinstance(change.value, str | None)
            if change.kind == "array" or is_scalar:
                raise NoCallError(_NO_OBJECT)
            if change.kind == "object" and self._name:
                self._open()
        elif len(path) == 2 and self._writer is not None:  # noqa: PLR2004 - arguments, argument
            self._write(str(path[1]), change, self._writer)

    def _write(self, key: str, change: Change, writer: ArgumentWriter) -> None:
        match change.kind:
            case "string" if self.is_streaming:
                writer.add_text(change.text)
            case "string" if writer.streams(key):
                self.is_streaming = True
                writer.open_text(key)
                writer.add_text(change.text)
            case "value" if self.is_streaming:
                self.is_streaming = False
                writer.close_text(change.value)
            case "value" | "end":
                writer.put(key, change.value)

    def _open(self) -> ArgumentWriter:
        if self._writer is None:
            self._writer = self._calls.open(self._name, self._id)
        return self._writer

    def _close(self, whole: dict[str, Any]) -> None:
        if not self._name:
            raise NoCallError("a call without a name")
        if self._writer is None:
            waiting = _waiting_arguments(whole)
            writer = self._open()
            for key, value in waiting.items():
                writer.put(key, value)
        self._calls.close()


def _waiting_arguments(whole: dict[str, Any]) -> dict[str, Any]:
    """Give the arguments of an object that is whole, where none of them was written yet."""
    arguments: dict[str, Any] = {}
    for key, value in whole.items():
        if key not in ARGUMENT_KEYS:
            continue
        if isinstance(value, str):
            value = rjson.loads(value, duplicates="last") if value.strip() else None  # noqa: PLW2901
        if isinstance(value, dict):
            arguments |= value
        elif value is not None:
            raise NoCallError(_NO_OBJECT)
    return arguments
