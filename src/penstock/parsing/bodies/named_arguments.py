"""Arguments behind a head: an object that streams, or a value that is read when it is whole.

An object is written as it comes. Nothing at all, ``null`` and a text that holds the object are
arguments too, and where the head has lost the tool's name, the keys of the object tell which tool
is meant: those wait until the value is whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import ParseError
from penstock.parsing.bodies.base import NoCallError, Run, Verdict
from penstock.parsing.bodies.envelope import read_arguments
from penstock.parsing.bodies.json_steps import BrokenJSONError, Flow, JSONSteps
from penstock.parsing.calls import Calls
from penstock.parsing.scanner import Scanner
from penstock.values.schema import Schema


class WholeArguments:
    """Reads the arguments of the call of *name* and opens it once they are whole.

    Without a name the tool is the one that fits them best.
    """

    def __init__(self, name: str, id: str) -> None:  # noqa: A002 - the field's name
        self.error: str | ParseError = ""
        self.end = ""
        self._name = name
        self._id = id
        self._steps = JSONSteps()
        self._value: Any = None

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; `DONE` tells that the value is whole, and that the call is open."""
        try:
            while scanner.at < len(scanner.text) and not self._steps.complete:
                before = scanner.at
                if not self._step(scanner) and scanner.at == before:
                    return Verdict.MORE
            if not self._steps.complete:
                return Verdict.MORE
            self._write(read_arguments(self._value), calls)
        except (NoCallError, ParseError) as exc:
            self.error = exc if isinstance(exc, ParseError) else str(exc)
            if isinstance(exc, BrokenJSONError):
                scanner.at = max(scanner.at, exc.at)
            return Verdict.BROKEN
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended inside the value."""
        del scanner, calls
        return Verdict.TEXT

    def run(self) -> Run | None:
        """Give nothing: no string streams."""
        return None

    def open_text(self) -> str | None:
        """Give nothing: no string streams."""
        return None

    def _step(self, scanner: Scanner) -> bool:
        changes, scanner.at = self._steps.step(scanner.text, scanner.at, Flow.WAITS)
        for change in changes:
            if not change.path and change.kind in ("value", "end"):
                self._value = change.value
        return bool(changes)

    def _write(self, arguments: dict[str, Any], calls: Calls) -> None:
        name = self._name or find_fitting(arguments, calls.schemas)
        writer = calls.open(name, self._id)
        calls.note(*self._steps.take_relaxed())
        for key, value in arguments.items():
            writer.put_typed(key, value)


def find_fitting(arguments: dict[str, Any], schemas: Mapping[str, Schema]) -> str:
    """Give the name of the tool that *arguments* fit best.

    That is the one that declares most of the keys, less those that it does not; then the one that
    misses the fewest of what it requires, and of what it declares. Raises `NoCallError` where no
    tool declares any of them.
    """
    keys = arguments.keys()

    def fit(name: str) -> tuple[int, int, int]:
        schema = schemas[name]
        declared = schema.properties.keys()
        missing = len([key for key in schema.required if key not in keys])
        return len(keys & declared) - len(keys - declared), -missing, -len(declared - keys)

    best = max(schemas, key=fit, default="")
    if not best or (keys and not keys & schemas[best].properties.keys()):
        raise NoCallError("a call without a name, and no tool that fits its arguments")
    return best
