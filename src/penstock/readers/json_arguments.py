"""The arguments of a call whose name is known: a JSON value, up to its end.

The value is an object that holds the arguments. It may also name the tool once more around them, in
the shape of another format; see `unwrap_arguments`.
"""

from __future__ import annotations

from typing import Any

from penstock import _json
from penstock.errors import ParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.body import BodyReader, OpenString, Verdict
from penstock.parsing.call_shape import (
    ANY_CALL,
    CALL_KEYS,
    NOT_AN_OBJECT,
    parse_arguments,
    unwrap_arguments,
)
from penstock.parsing.call_sink import CallSink, NoCallError
from penstock.parsing.scanner import Scanner, skip_match
from penstock.readers.envelope import BrokenJSONError, JSONFlow, JSONSteps, MemberWriter
from penstock.readers.json_calls import BLANK, MAX_AT_ONCE
from penstock.values.incremental_state import Change
from penstock.values.schema import Schema


class JSONArgumentReader(BodyReader):
    """Reads the arguments of the open call of *name*, up to the end of the JSON value.

    With *several*, the value may be a list of calls; `close` emits them.
    """

    def __init__(self, name: str, schema: Schema | None, *, several: bool = False) -> None:
        self._steps: JSONSteps | None = None  # None until it is known that the value needs steps
        self._is_read = False  # the value is complete
        self._name = name
        self._object = _ArgumentObject(name, schema, several=several)

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text; `DONE` means that the value is complete."""
        if self._is_read:
            return Verdict.DONE
        steps = self._steps
        if steps is None:
            if calls.is_whole and self._read_at_once(scanner, calls):
                self._is_read = True
                return Verdict.DONE
            steps = self._steps = JSONSteps()
        moves = True
        try:
            while moves and not scanner.is_at_end and not steps.complete:
                before = scanner.at
                flow = JSONFlow.STREAMS if self._object.is_streaming else JSONFlow.WAITS
                changes, end = steps.step(scanner.text, before, flow)
                scanner.advance_to(end)
                for change in changes:
                    self._follow(change, calls)
                moves = bool(changes) or end > before
            if not steps.complete:
                return Verdict.MORE
            self._complete(steps, calls)
        except (NoCallError, ParseError) as exc:
            self.error = exc if isinstance(exc, ParseError) else str(exc)
            if isinstance(exc, BrokenJSONError):
                scanner.advance_to(max(scanner.at, exc.at))
            return Verdict.BROKEN
        self._is_read = True
        return Verdict.DONE

    def _read_at_once(self, scanner: Scanner, calls: CallSink) -> bool:
        """Read an object that is complete and strict JSON; return whether it was.

        As in `JSONCallReader`, this finds what the steps would find.
        """
        text = scanner.text
        at = skip_match(BLANK, text, scanner.at)
        if not text.startswith("{", at):
            return False
        found = _json.decode_strict_at(text, at, MAX_AT_ONCE)
        if found is None or not self._object.is_flat(found[0]) or calls.writer is None:
            return False
        scanner.advance_to(found[1])
        calls.writer.put_members(found[0])
        return True

    def _follow(self, change: Change, calls: CallSink) -> None:
        assert calls.writer is not None  # noqa: S101 - the reader of the name has opened the call
        self._object.follow(change, calls.writer)

    def _complete(self, steps: JSONSteps, calls: CallSink) -> None:
        calls.note(*steps.take_relaxed())

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Process the end of the text."""
        del scanner, calls
        return Verdict.DONE if self._is_read else Verdict.GIVE_UP

    def close(self, calls: CallSink) -> None:
        """Close the call, and emit those that follow it in a list."""
        calls.close()
        for arguments in self._object.further:
            calls.write(self._name, arguments)

    def open_string(self) -> OpenString | None:
        """Return the string that is streaming, if there is one."""
        steps = self._steps
        if steps is None:
            return None
        return steps.streaming_string() if self._object.is_streaming else steps.waiting_string()

    def open_text(self) -> str | None:
        """Return the text that was emitted of the streaming string, decoded."""
        steps, is_streaming = self._steps, self._object.is_streaming
        return "".join(steps.pieces) if steps is not None and is_streaming else None


class _ArgumentObject(MemberWriter):
    """Follows the object and writes the arguments in it.

    The object holds the arguments, or it is an envelope with a name and the arguments inside (see
    `unwrap_arguments`). So all members wait for the first key that no envelope has, or for the end
    of the object.
    """

    def __init__(self, name: str, schema: Schema | None, *, several: bool) -> None:
        self.further: list[dict[str, Any]] = []  # arguments of the calls after the first
        self._name = name
        self._several = several
        self._declared = schema.properties if schema is not None else {}
        self._is_flat = False  # the object holds the arguments themselves
        self._waiting: dict[str, Any] = {}  # members that were read before that was known

    def is_flat(self, value: dict[str, Any]) -> bool:
        """Return whether the object *value* holds the arguments themselves, as its first key says.

        An empty object may be one or the other.
        """
        return next(iter(value), None) in self._declared

    def follow(self, change: Change, writer: ArgumentWriter) -> None:
        """Process one change."""
        path = change.path
        if not path:
            if change.kind not in ("object", "end", "array" if self._several else ""):
                raise NoCallError(NOT_AN_OBJECT)
            if change.kind == "end" and not self._is_flat:
                first, *self.further = unwrap_arguments(change.value, self._name, self._declared)
                for key, value in first.items():
                    writer.put_typed(key, value)
        elif isinstance(path[0], str) and len(path) == 1:
            self._follow_member(path[0], change, writer)

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
        """Return whether an envelope may have this value under *key*."""
        if key in self._declared:
            return False
        shape = ANY_CALL
        match change.kind:
            case "object" | "end":
                return key in (*shape.arguments, *shape.outer_keys, *shape.holders, *shape.lists)
            case "array":
                return self._several and key in shape.lists
            case "value" if key in shape.arguments:
                try:
                    parse_arguments(change.value)
                except (NoCallError, ParseError):
                    # The name of the call next to it shows that these are its arguments, broken.
                    if self._name in map(self._waiting.get, shape.names):
                        raise
                    return False
                return True
            case _:
                return key in CALL_KEYS and key not in shape.lists
