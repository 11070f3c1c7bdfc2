"""Arguments of a call whose name is known already, as one JSON object.

The object holds the arguments; or it is an envelope as other formats have it, with a name and the
arguments inside, and then the name says nothing new. It is an envelope if every key of it is one of
an envelope's, and none is an argument that the tool declares: so what was read waits until the
first key that is no envelope's, or until the object is whole. A list of calls waits as well.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.errors import ParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.bodies.base import NoCallError, Run, Verdict
from penstock.parsing.bodies.call_shapes import LISTS, WRAPPERS, unwrap
from penstock.parsing.bodies.envelope import CALL, NO_OBJECT
from penstock.parsing.bodies.json_members import Members
from penstock.parsing.bodies.json_steps import BrokenJSONError, Flow, JSONSteps
from penstock.parsing.calls import Calls
from penstock.parsing.scanner import Scanner
from penstock.values import rjson
from penstock.values.incremental import Change
from penstock.values.schema import Schema

_NAMES: Final = CALL.names.union(WRAPPERS)
_NAMING: Final = _NAMES | CALL.ids | {"type"}
_OUTER: Final = (*WRAPPERS, *LISTS)
_NESTS: Final = (dict, list)


class JSONArgumentReader:
    """Reads the arguments of the open call of *name*, up to the end of the JSON value.

    With *several*, the value may be a list of calls, which `close` puts out.
    """

    def __init__(self, name: str, schema: Schema | None, *, several: bool = False) -> None:
        self.error: str | ParseError = ""
        self.end = ""
        self._steps = JSONSteps()
        self._name = name
        self._object = _ArgumentObject(name, schema, several=several)

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; `DONE` tells that the value is whole."""
        moves = True
        try:
            while moves and scanner.at < len(scanner.text) and not self._steps.complete:
                moves = self._step(scanner, calls)
        except (NoCallError, ParseError) as exc:
            self.error = exc if isinstance(exc, ParseError) else str(exc)
            if isinstance(exc, BrokenJSONError):
                scanner.at = max(scanner.at, exc.at)
            return Verdict.BROKEN
        if not self._steps.complete:
            return Verdict.MORE
        calls.note(*self._steps.take_relaxed())
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended; tell whether the value is whole."""
        del scanner, calls
        return Verdict.DONE if self._steps.complete else Verdict.TEXT

    def close(self, calls: Calls) -> None:
        """Close the call, and put out those that stand behind it in a list."""
        calls.close()
        for arguments in self._object.further:
            writer = calls.open(self._name)
            for key, value in arguments.items():
                writer.put_typed(key, value)
            calls.close()

    def run(self) -> Run | None:
        """Give the string that streams just now, if there is one."""
        return self._steps.run() if self._object.is_streaming else None

    def open_text(self) -> str | None:
        """Give what has gone out of the string that streams just now, decoded."""
        return "".join(self._steps.pieces) if self._object.is_streaming else None

    def _step(self, scanner: Scanner, calls: Calls) -> bool:
        """Read up to the next change; tell whether anything came of it."""
        before, writer = scanner.at, calls.writer
        assert writer is not None  # noqa: S101 - whoever knows the name has opened the call
        flow = Flow.STREAMS if self._object.is_streaming else Flow.WAITS
        changes, scanner.at = self._steps.step(scanner.text, before, flow)
        for change in changes:
            self._object.follow(change, writer)
        return bool(changes) or scanner.at > before


class _ArgumentObject(Members):
    """Follows the object and writes the arguments of it."""

    def __init__(self, name: str, schema: Schema | None, *, several: bool) -> None:
        self.further: list[dict[str, Any]] = []  # arguments of the calls behind the first
        self._name = name
        self._several = several
        self._declared = schema.properties if schema is not None else {}
        self._is_flat = False  # it is no envelope, but the arguments themselves
        self._waiting: dict[str, Any] = {}  # what was read before that was known

    def follow(self, change: Change, writer: ArgumentWriter) -> None:
        """Take one change."""
        path = change.path
        if not path:
            self._follow_whole(change, writer)
        elif isinstance(path[0], str) and len(path) == 1:
            self._follow_member(path[0], change, writer)

    def _follow_whole(self, change: Change, writer: ArgumentWriter) -> None:
        """Take a change of the value itself."""
        if change.kind not in ("object", "end", "array" if self._several else ""):
            raise NoCallError(NO_OBJECT)
        if change.kind == "end" and not self._is_flat:
            first, *self.further = self._unwrapped(change.value)
            for key, value in first.items():
                writer.put_typed(key, value)

    def _follow_member(self, key: str, change: Change, writer: ArgumentWriter) -> None:
        if not self._is_flat and not self._may_wrap(key, change):
            self._is_flat = True
            for waiting, value in self._waiting.items():
                writer.put_typed(waiting, value)
        if self._is_flat:
            self._write(key, change, writer)
        elif change.kind in ("value", "end"):
            self._waiting[key] = change.value

    def _may_wrap(self, key: str, change: Change) -> bool:
        """Tell whether an envelope may have this under *key*."""
        if key in self._declared:
            return False
        match change.kind:
            case "object" | "end":
                return key in CALL.arguments or key in WRAPPERS or key in LISTS
            case "array":
                return self._several and key in LISTS
            case "value" if key in CALL.arguments:
                return _decoded(change.value) is not None
            case _:
                return key in _NAMING or key in CALL.arguments

    def _unwrapped(self, value: Any) -> list[dict[str, Any]]:
        """Give the arguments of each call in *value*, of which nothing can be no envelope."""
        if isinstance(value, list) or any(isinstance(value.get(key), _NESTS) for key in _OUTER):
            return unwrap(value, self._declared)
        inside = [_decoded(value[key]) for key in value if key in CALL.arguments]
        if inside and None not in inside:
            return [{key: item for each in inside for key, item in (each or {}).items()}]
        names = [value[key] for key in value if key in _NAMES]
        is_own = any(isinstance(name, str) and name.lower() == self._name.lower() for name in names)
        return [{} if is_own else value]


def _decoded(value: Any) -> dict[str, Any] | None:
    """Read arguments: an object, or JSON in a text, or nothing; None for what can be none."""
    if value is None or isinstance(value, dict):
        return value or {}
    if not isinstance(value, str):
        return None
    try:
        inside = rjson.loads(value, duplicates="last") if value.strip() else {}
    except ParseError:
        return None
    return inside if isinstance(inside, dict) else None
