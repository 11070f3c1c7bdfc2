"""Calls in JSON whose name is a key: ``[{"NAME": {arguments}}, …]``."""

from __future__ import annotations

from typing import Any

from penstock.errors import JSONParseError
from penstock.parsing.bodies.base import NoCallError
from penstock.parsing.bodies.envelope import Envelope, read_arguments
from penstock.parsing.bodies.json_calls import JSONCallReader
from penstock.parsing.bodies.json_mending import repair_body
from penstock.parsing.calls import Calls, Mended
from penstock.values.incremental import Change


class KeyEnvelope(Envelope):
    """Follows an object of one member, which is the call: its key the name, its value the rest."""

    def follow(self, change: Change) -> None:
        """Take a change at or below the object; raise `NoCallError` where it can be no call."""
        path = change.path[self._base :]
        if self.inner is not None and change.kind == "string":
            self._begin_inner(change.text)
        elif path:
            self._note_key(str(path[0]))
            self._follow_arguments(change, path)
        elif change.kind == "end":
            self._close()

    def _note_key(self, key: str) -> None:
        if not key or (self.name and key != self.name):
            raise NoCallError("an object with other keys than the one name")
        self.name = key


class KeyedJSONReader(JSONCallReader):
    """Reads calls whose name is a key; *end* is their end marker."""

    def _new_envelope(self, calls: Calls) -> Envelope:
        return KeyEnvelope(calls, self._base)

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Make calls of *text*, which holds JSON that is broken, or not whole."""
        del ended
        if self._closed:
            text = "[" + text.lstrip(" \t\r\n,;")
        try:
            value, repairs, text = repair_body(text, self.end)
            calls = [_read_call(item, repairs, text) for item in _items(value)]
        except (JSONParseError, NoCallError):
            return []
        envelope = self._envelope
        if calls and envelope is not None and not envelope.agrees_with(calls[0], self.open_text()):
            return []
        return calls


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _read_call(item: Any, repairs: list[str], text: str) -> Mended:
    if not isinstance(item, dict) or len(item) != 1:
        raise NoCallError("something else than an object with one key")
    ((name, arguments),) = item.items()
    if not name:
        raise NoCallError("a call without a name")
    return Mended(name, read_arguments(arguments), list(repairs), written=text)
