"""Messages that hold a call in JSON, up to an end marker.

Either all of the call stands there, or its name stands in the header and its arguments alone stand
there: an object, JSON inside a string, or null; nothing at all before an end marker is an empty
object, too. Behind the JSON surplus brackets are dropped; any other text is the message's.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import JSONParseError
from penstock.parsing.bodies.base import Verdict
from penstock.parsing.bodies.envelope import Envelope
from penstock.parsing.bodies.json_calls import MAX_BLANK, JSONCallReader
from penstock.parsing.bodies.json_mending import repair_body
from penstock.parsing.calls import Calls, Mended
from penstock.parsing.reasoning import Channel
from penstock.parsing.scanner import Scanner
from penstock.values.incremental import Change

_BLANK: Final = re.compile(rf"[ \t\r\n]{{0,{MAX_BLANK + 1}}}")
_SURPLUS: Final = ("}", "]", ",", ";")
_ARGUMENTS: Final = "arguments"


class JSONMessageReader(JSONCallReader):
    """Reads the calls of one message.

    It ends with one of *ends*; *behind* is the channel of what else stands before that.
    """

    def __init__(self, ends: tuple[str, ...] = (), behind: Channel | None = None) -> None:
        super().__init__(ends[0] if ends else "")
        self.enters: Channel | None = None
        self._ends = ends
        self._behind = behind

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended: a value that is whole stands without its end marker."""
        verdict = super().finish(scanner, calls)
        if verdict is Verdict.DONE and begins_any(self._ends, scanner.unread.lstrip()):
            scanner.at = len(scanner.text)  # the piece of a cut marker is no content
        return verdict

    def _look(self, scanner: Scanner) -> tuple[int, str | None]:
        """Find the end marker that follows white space, and where it begins.

        It is None where something else follows, and empty where only more text will tell.
        """
        text = scanner.text
        blank = _BLANK.match(text, scanner.at)
        at = blank.end() if blank else scanner.at
        if at - scanner.at > MAX_BLANK:
            return at, None
        rest = text[at : at + max(map(len, self._ends), default=0)]
        end = next((end for end in self._ends if rest.startswith(end)), None)
        if end is None and (at == len(text) or begins_any(self._ends, rest)):
            end = ""
        return at, end

    def _read_behind(self, scanner: Scanner) -> Verdict | None:
        """Look for an end marker or another value; None tells to go on."""
        at, end = self._look(scanner)
        if end == "":
            return Verdict.MORE
        if end is not None:
            scanner.at = at + len(end)
            return Verdict.DONE
        if scanner.text.startswith(_SURPLUS, at):
            scanner.at = at + 1
            return None
        if self._begins_another(scanner.text, at):
            scanner.at = at
            self._begin_value()
            return None
        self.enters = self._behind
        return Verdict.DONE

    def _begins_another(self, text: str, at: int) -> bool:
        return text.startswith(("{", "["), at)


class NamedJSONReader(JSONMessageReader):
    """Reads the arguments of the call of *name*."""

    def __init__(
        self, name: str, ends: tuple[str, ...] = (), behind: Channel | None = None
    ) -> None:
        super().__init__(ends, behind)
        self._name = name
        self._has_begun = False

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        if not self._has_begun:
            verdict = self._begin(scanner, calls)
            if verdict is not None:
                return verdict
        return super().read(scanner, calls)

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended: a value that is whole stands without its end marker."""
        if self._has_begun:
            return super().finish(scanner, calls)
        self.error = "the call was cut"
        return Verdict.TEXT

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Make a call of *text*, which holds JSON that is broken, or not whole."""
        del ended
        try:
            value, repairs, text = repair_body(text, *self._ends)
        except JSONParseError:
            return []
        if not isinstance(value, dict):
            return []
        mended, envelope = Mended(self._name, value, repairs, written=text), self._envelope
        is_same = envelope is None or envelope.agrees_with(mended, self.open_text())
        return [mended] if is_same else []

    def _begin(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        """Look whether there is a value at all; None tells to read it."""
        at, end = self._look(scanner)
        if end == "":
            return Verdict.MORE
        self._has_begun = True
        if end is None:
            return None
        scanner.at = at + len(end)
        self._close(calls)
        return Verdict.DONE

    def _new_envelope(self, calls: Calls) -> Envelope:
        envelope = super()._new_envelope(calls)
        envelope.name = self._name
        return envelope

    def _find_envelope(self, change: Change, calls: Calls) -> Envelope | None:
        """Give the one envelope that there is."""
        del change
        if self._envelope is None:
            self._envelope = self._new_envelope(calls)
        return self._envelope

    def _follow(self, changes: list[Change], begin: int, scanner: Scanner, calls: Calls) -> None:
        """Follow *changes* as those of the arguments in an envelope that nobody has written."""
        inside = [
            Change((_ARGUMENTS, *change.path), change.kind, change.text, change.value)
            for change in changes
        ]
        super()._follow(inside, begin, scanner, calls)
        if self._steps.complete and inside:
            calls.note(*self._steps.take_relaxed())
            self._close(calls)

    def _close(self, calls: Calls) -> None:
        envelope = self._envelope or self._new_envelope(calls)
        envelope.follow(Change((), "end"))
        self._envelope = None

    def _begins_another(self, text: str, at: int) -> bool:
        """Tell that a message has one value: what looks like another is text."""
        del text, at
        return False


def begins_any(markers: tuple[str, ...], piece: str) -> bool:
    """Tell whether *piece* is the beginning of one of *markers*."""
    return bool(piece) and any(marker.startswith(piece) for marker in markers)
