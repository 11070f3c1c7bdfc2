"""Whether a bare JSON object is a call of a known tool, and not data that looks like one.

It is if it names a known tool and has arguments. A definition of a tool has both too: a description
stands beside the name, or what should be arguments is a JSON Schema. Members of the arguments that
a schema could have wait, until one comes that a schema has not: then the call opens.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.parsing.bodies.base import NoCallError
from penstock.parsing.bodies.envelope import Envelope, NotMeantError, Shape
from penstock.parsing.calls import Calls
from penstock.values.incremental import Change
from penstock.values.schema import Schema

BARE: Final = Shape(
    names=frozenset({"name", "tool", "function", "tool_name"}),
    wrappers=frozenset({"tool"}),
    holders=frozenset({"function"}),
    lists=frozenset({"tool_calls"}),
)
"""Where the parts of a bare call may stand."""

_DESCRIPTION: Final = "description"
_SCHEMA_KEYS: Final = frozenset(
    {_DESCRIPTION, "type", "properties", "required", "additionalProperties", "title", "$schema"}
)


class BareEnvelope(Envelope):
    """Follows one object and makes a call of it, if it is one.

    Raises `NotMeantError` as soon as that is known not to be so. With *skips* the object stands in
    a list of calls: then it is passed over, and told of when it has ended.
    """

    def __init__(self, calls: Calls, base: int, *, skips: bool = False) -> None:
        super().__init__(calls, base, BARE)
        self._has_arguments = False
        self._members: dict[str, Any] = {}  # of the arguments, that a schema could have too
        self._skips = skips
        self._reason = ""  # why the object is passed over

    def follow(self, change: Change) -> None:
        """Take a change at or below the object; raise `NoCallError` where it can be no call."""
        is_end = change.kind == "end" and len(change.path) == self._base
        if not self._reason:
            try:
                super().follow(change)
            except NotMeantError as exc:
                if not self._skips or self._writer is not None:
                    raise
                self._reason = str(exc)
        if self._reason and is_end:
            self._calls.tell(self._reason)

    def _note(self, key: str, change: Change, *, is_held: bool) -> None:
        if key == _DESCRIPTION:
            raise NotMeantError("a definition, for it has a description")
        super()._note(key, change, is_held=is_held)

    def _take_name(self, name: str) -> None:
        if name not in self._calls.schemas:
            raise NotMeantError(f"no tool is called {name!r}")
        super()._take_name(name)

    def _follow_all(self, change: Change) -> None:
        self._has_arguments = True
        super()._follow_all(change)

    def _begin_arguments(self) -> None:
        """Wait: they may be a schema."""

    def _follow_argument(self, key: str, change: Change) -> None:
        if self._writer is None and self.name:
            if key in _SCHEMA_KEYS and key not in self._calls.schemas[self.name].properties:
                if change.kind in ("value", "end"):
                    self._members[key] = change.value
                return
            self._waiting.append(self._members)
            self._open()
        super()._follow_argument(key, change)

    def _end_arguments(self, arguments: dict[str, Any]) -> None:
        super()._end_arguments(arguments)
        if self.name:
            self._admit(arguments)
            self._open()

    def _admit(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if is_definition(arguments, self._calls.schemas[self.name]):
            raise NotMeantError("a definition, for its arguments are a schema")
        return arguments

    def _close(self) -> None:
        if not self.name or not self._has_arguments:
            raise NotMeantError("an object without a tool's name or without arguments")
        super()._close()


def is_definition(arguments: dict[str, Any], schema: Schema | None = None) -> bool:
    """Tell whether *arguments* are a JSON Schema, and no arguments of a tool with this *schema*."""
    if arguments.get("type") != "object" or not isinstance(arguments.get("properties"), dict):
        return False
    return schema is None or not {"type", "properties"} <= schema.properties.keys()


def check_call(call: dict[str, Any]) -> None:
    """Raise `NoCallError` for a whole object that is a definition, or has no arguments."""
    arguments = [value for key, value in call.items() if key in BARE.arguments]
    held = call.get("function")
    if isinstance(held, dict):
        arguments += [value for key, value in held.items() if key in BARE.arguments]
    is_described = _DESCRIPTION in call or (isinstance(held, dict) and _DESCRIPTION in held)
    is_schema = any(isinstance(value, dict) and is_definition(value) for value in arguments)
    if is_described or is_schema or not arguments:
        raise NoCallError("a definition, or no arguments")
