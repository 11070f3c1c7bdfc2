"""Arguments of a call whose name is known already, as one JSON object.

The object holds the arguments; or it is an envelope as other formats have it, with a name and the
arguments inside, and then the name says nothing new. Which it is shows at the first key that can
be no envelope's, or when its arguments begin; until then what was read waits. A key that the tool
itself declares is always an argument. A call inside an envelope, ``{"function": {…}}``, and a list
of calls are taken when they are whole.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.errors import ParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.bodies.base import NoCallError, Run, Verdict
from penstock.parsing.bodies.call_shapes import LISTS, WRAPPERS, unwrap
from penstock.parsing.bodies.envelope import CALL, NO_OBJECT
from penstock.parsing.bodies.json_steps import BrokenJSONError, Flow, JSONSteps
from penstock.parsing.calls import Calls
from penstock.parsing.scanner import Scanner
from penstock.values import rjson
from penstock.values.incremental import Change
from penstock.values.schema import Schema

_NAMES: Final = CALL.names.union(WRAPPERS)
_NAMING: Final = _NAMES | CALL.ids | {"type"}


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
        return Verdict.DONE if self._steps.complete else Verdict.MORE

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
                writer.put(key, value)
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


class _ArgumentObject:
    """Follows the object and writes the arguments of it."""

    def __init__(self, name: str, schema: Schema | None, *, several: bool) -> None:
        self.is_streaming = False
        self.further: list[dict[str, Any]] = []  # arguments of the calls behind the first
        self._name = name
        self._lists = LISTS if several else ()
        self._several = several
        self._is_wrapped = False  # only the whole value tells where the arguments stand
        self._declared = schema.properties if schema is not None else {}
        self._depth = -1  # where the arguments stand in the value; not known yet
        self._waiting: dict[str, Any] = {}

    def follow(self, change: Change, writer: ArgumentWriter) -> None:
        """Take one change."""
        path = change.path
        if not path:
            self._follow_whole(change, writer)
        elif self._is_wrapped:
            pass
        elif self._depth == -1:
            self._decide(str(path[0]), change, writer)
        elif len(path) == self._depth + 1 and (self._depth == 0 or path[0] in CALL.arguments):
            self._write(str(path[-1]), change, writer)

    def _follow_whole(self, change: Change, writer: ArgumentWriter) -> None:
        """Take a change of the value itself."""
        if change.kind == "array" and self._several:
            self._is_wrapped = True
        elif change.kind not in ("object", "end"):
            raise NoCallError(NO_OBJECT)
        elif change.kind == "end" and self._is_wrapped:
            first, *self.further = unwrap(change.value, self._declared)
            for key, value in first.items():
                writer.put(key, value)
        elif change.kind == "end" and self._depth == -1:
            self._settle(writer)

    def _decide(self, key: str, change: Change, writer: ArgumentWriter) -> None:
        is_declared = key in self._declared
        if not is_declared and key in CALL.arguments:
            if change.kind == "object":
                self._depth = 1
            elif change.kind == "value":
                self._note_arguments(key, change.value, writer)
            elif change.kind == "array":
                self._become_flat(writer)
        elif not is_declared and self._wraps(key, change):
            self._is_wrapped = True
        elif not is_declared and key in _NAMING and change.kind in ("string", "value"):
            if change.kind == "value":
                self._waiting[key] = change.value
        else:
            self._become_flat(writer)
            self._write(key, change, writer)

    def _wraps(self, key: str, change: Change) -> bool:
        """Tell whether *key* is that of an envelope around a call, or around a list of them."""
        keys = {"object": WRAPPERS, "array": self._lists}.get(change.kind, ())
        return key in keys

    def _note_arguments(self, key: str, value: Any, writer: ArgumentWriter) -> None:
        """Take arguments that are a text, or none."""
        inside = _decoded(value)
        if inside is None:
            self._waiting[key] = value
            self._become_flat(writer)
            return
        self._depth = 1
        for name, argument in inside.items():
            writer.put(name, argument)

    def _settle(self, writer: ArgumentWriter) -> None:
        """Decide at the end: a name that is the tool's own says that there are no arguments."""
        named = [self._waiting[key] for key in self._waiting if key in _NAMES]
        if not any(isinstance(name, str) and name.lower() == self._name.lower() for name in named):
            self._become_flat(writer)

    def _become_flat(self, writer: ArgumentWriter) -> None:
        self._depth = 0
        for key, value in self._waiting.items():
            writer.put(key, value)

    def _write(self, key: str, change: Change, writer: ArgumentWriter) -> None:
        match change.kind:
            case "string" if self.is_streaming:
                if change.value is not None:
                    writer.add_escaped(change.value)
                else:
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


def _decoded(value: Any) -> dict[str, Any] | None:
    """Read arguments that stand in a text, or nowhere; None for what can be none."""
    if value is None:
        return {}
    if not isinstance(value, str):
        return None
    try:
        inside = rjson.loads(value, duplicates="last") if value.strip() else {}
    except ParseError:
        return None
    return inside if isinstance(inside, dict) else None
