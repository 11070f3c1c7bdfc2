"""The object around one call in JSON: its name, its id, its arguments.

Told of every change in the object, it opens the call as soon as the name is known and the arguments
have begun, writes them as they come, and closes the call with the object. Keys may come in any
order: arguments that come before the name wait for it. Arguments may be JSON inside a string; then
`inner` reads them, and they are written as they come too. An id that comes behind the arguments is
too late, in either mode: the call has begun, under an id of ours.

A `Shape` says which keys are looked at. What is not in it is no part of a call.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.bodies.base import NoCallError
from penstock.parsing.bodies.json_members import Members
from penstock.parsing.bodies.json_steps import JSONSteps
from penstock.parsing.calls import Calls, Mended
from penstock.values import rjson
from penstock.values.coercion import coerce
from penstock.values.incremental import Change

Path = tuple[str | int, ...]

NO_OBJECT: Final = "arguments that are no object"


class NotMeantError(NoCallError):
    """No call was meant: the text only looked like one."""


class Shape(Struct, frozen=True):
    """Where the parts of a call stand in its object.

    *wrappers* are keys of an object around the call (``{"tool": {…}}``), *holders* those of one
    that has the name and perhaps the arguments (``{"function": {"name": …}}``), *lists* those of a
    list of calls.
    """

    names: frozenset[str] = frozenset({"name", "tool_name"})
    arguments: frozenset[str] = frozenset({"arguments", "parameters", "args", "input"})
    ids: frozenset[str] = frozenset({"id", "tool_call_id"})
    wrappers: frozenset[str] = frozenset()
    holders: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()


def read_arguments(value: Any) -> dict[str, Any]:
    """Give the arguments that *value* says: an object, JSON inside a string, or nothing.

    Raises `NoCallError`, or `JSONParseError`, for anything else: no tool is to run without what was
    meant.
    """
    if isinstance(value, str):
        value = rjson.loads(value, duplicates="last") if value.strip() else None
    if value is not None and not isinstance(value, dict):
        raise NoCallError(NO_OBJECT)
    return value or {}


CALL: Final = Shape()
"""A call with all its parts side by side: ``{"name": …, "arguments": {…}}``."""

HELD_NAME: Final = "name"
"""The key of the name in a holder."""


class Envelope(Members):
    """Follows one object and makes a call of it; *base* is how deep it stands in the JSON."""

    def __init__(self, calls: Calls, base: int, shape: Shape = CALL) -> None:
        self.name = ""
        self.inner: JSONSteps | None = None  # reads the open string: it holds the arguments
        self._inner_begun = False
        self._calls = calls
        self._base = base
        self._shape = shape
        self._id = ""
        self._writer: ArgumentWriter | None = None
        self._waiting: list[Any] = []  # arguments that came before the name

    def follow(self, change: Change) -> None:
        """Take a change at or below the object; raise `NoCallError` where it can be no call."""
        if self.inner is not None and change.kind == "string":
            self._begin_inner(change.text)
            return
        path, is_held = self._within(change.path[self._base :])
        if not path:
            if change.kind == "end":
                self._close()
        elif path[0] in self._shape.arguments:
            self._follow_arguments(change, path)
        elif len(path) == 1:
            self._note(str(path[0]), change, is_held=is_held)

    def follow_inner(self, change: Change) -> None:
        """Take a change in the JSON that a string holds."""
        if change.path:
            self._follow_arguments(change, ("", *change.path))
        elif change.kind == "object":
            self._begin_arguments()
        elif change.kind == "end":
            self._end_arguments(change.value)
        elif change.kind == "array" or change.value is not None:
            raise NoCallError(NO_OBJECT)

    def end_inner(self) -> None:
        """Take the end of the string that holds the arguments: they have to be whole."""
        if self.inner is not None and self._inner_begun and not self.inner.complete:
            raise NoCallError("arguments that end before they are whole")
        self.inner = None

    def agrees_with(self, call: Mended, open_text: str | None) -> bool:
        """Tell whether *call*, made of the same text, says what was read before that broke.

        What mending makes of a text is a guess; what was read before the mistake is none.
        """
        writer, schema = self._writer, self._calls.schemas.get(call.name)
        if writer is None or schema is None:
            return True
        # Where nothing has gone out, the end of an open string is a guess as well.
        open_text = open_text if self._calls.started else None
        return writer.agrees_with(coerce(call.arguments, schema, typed=True), open_text)

    def _within(self, path: Path) -> tuple[Path, bool]:
        """Give *path* as seen from the call itself; tell whether it goes through a holder."""
        if len(path) > 1 and path[0] in self._shape.wrappers:
            path = path[1:]
        is_held = len(path) > 1 and path[0] in self._shape.holders
        return (path[1:] if is_held else path), is_held

    def _note(self, key: str, change: Change, *, is_held: bool) -> None:
        if change.kind != "value":
            return
        is_name = key == HELD_NAME if is_held else key in self._shape.names
        if is_name and not self.name:
            if not isinstance(change.value, str) or not change.value:
                raise NoCallError("a name that is no text")
            self._take_name(change.value)
        elif key in self._shape.ids and isinstance(change.value, str):
            self._id = change.value

    def _take_name(self, name: str) -> None:
        self.name = self._calls.name = name
        if self._waiting:
            self._open()

    # --- arguments ---

    def _follow_arguments(self, change: Change, path: Path) -> None:
        if len(path) == 1:
            self._follow_all(change)
        elif len(path) == 2 and isinstance(path[1], str):  # noqa: PLR2004 - arguments, argument
            self._follow_argument(path[1], change)

    def _follow_all(self, change: Change) -> None:
        """Take what happens to the arguments as a whole."""
        match change.kind:
            case "object" if self.name:
                self._begin_arguments()
            case "end" if isinstance(change.value, dict):
                self._end_arguments(change.value)
            case "string" if self.name:
                self.inner = JSONSteps()
                self._inner_begun = False
                self._begin_inner(change.text)
            case "value":
                if isinstance(change.value, str) and not self.name:
                    self._waiting.append(change.value)
                elif not isinstance(change.value, str | None):
                    raise NoCallError(NO_OBJECT)
            case "array":
                raise NoCallError(NO_OBJECT)

    def _begin_inner(self, text: str) -> None:
        """Note that the string that should hold the arguments holds anything at all."""
        self._inner_begun = self._inner_begun or bool(text.strip())

    def _begin_arguments(self) -> None:
        self._open()

    def _follow_argument(self, key: str, change: Change) -> None:
        if self._writer is not None:
            self._write(key, change, self._writer)

    def _end_arguments(self, arguments: dict[str, Any]) -> None:
        if self._writer is None:
            self._waiting.append(arguments)

    # --- the call ---

    def _open(self) -> ArgumentWriter:
        """Open the call, if it is not open; write what has waited for that."""
        if self._writer is None:
            waiting = [self._admit(read_arguments(value)) for value in self._waiting]
            self._waiting.clear()
            self._writer = self._calls.open(self.name, self._id)
            for arguments in waiting:
                for key, value in arguments.items():
                    self._writer.put_typed(key, value)
        return self._writer

    def _admit(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Look at arguments that have waited, before they are written."""
        return arguments

    def _close(self) -> None:
        if not self.name:
            raise NoCallError("a call without a name")
        self._open()
        self._calls.close()
