"""The JSON object in the text of a response, found while the text arrives.

A model that only prints text writes its output between other things: a sentence before it, a fence
around it, reasoning before all of that, examples after it. `OutputScanner` finds every JSON object
at the top level of the text and reads it as it arrives.

* A brace that opens no JSON (``use {name}``) is prose. An object that breaks after its first member
  was meant to be one, so it is reported and nothing inside it is taken for the output.
* Objects in reasoning are drafts. Reasoning is between tags, or before a closing tag alone: some
  servers put the opening tag into the prompt.
* A brace or a tag inside a JSON string is data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from penstock.errors import JSONParseError
from penstock.values import Change, IncrementalJSON, rjson

MAX_OPENING: Final = 1_000
"""How many characters may pass between a brace and the first member: more is not JSON."""

MAX_FOUND: Final = 64
"""How many objects of one text are kept: with more, none of them is the output."""

_CUT: Final = "the text ends inside it"
_NAMES: Final = "think|thinking|thought|reasoning|reflection"
_PROSE: Final = re.compile(rf"\{{|<(/?)({_NAMES})>")
_TAG_BEGINNING: Final = re.compile(r"</?[a-z]{0,10}$")


_REASONING_END: Final = re.compile(rf"</(?:{_NAMES})>")
_REASONING: Final = re.compile(rf"<(?:{_NAMES})>")
_FENCE: Final = "```"
_JSON_FENCES: Final = frozenset({"", "json", "jsonc", "json5"})


class FoundObject(Struct):
    """An object at *start* of the text, up to *end*; *fault* says why it is not complete JSON."""

    start: int
    end: int
    fault: str = ""


class OutputScanner:
    """Finds JSON objects in text that arrives in pieces.

    `reader` reads the object that is open, and keeps the last one; None before the first.
    """

    def __init__(self) -> None:
        self.found: list[FoundObject] = []
        self.reader: IncrementalJSON | None = None
        self._pieces: list[str] = []
        self._rest = ""  # text that is not read yet, or may have to be read again
        self._base = 0  # where `_rest` begins in the text
        self._at = 0  # how far `_rest` is read
        self._start: int | None = None  # of the open object
        self._has_member = False
        self._closing = ""  # the tag that ends the reasoning that is open

    @property
    def text(self) -> str:
        """All text so far."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def feed(self, text: str) -> list[Change]:
        """Read *text*; return what changed in the last object, in the order of the text."""
        self._pieces.append(text)
        self._rest += text
        changes: list[Change] = []
        while self._step(changes):
            pass
        self._forget()
        return changes

    def finish(self) -> None:
        """Process the end of the text: an object that is still open was cut."""
        if self._start is None:
            return
        end = self._base + len(self._rest)
        if self._has_member:
            self._add(FoundObject(self._start, end, _CUT))
            self._start = None
            return
        self._go_back()
        while self._step([]):
            pass
        self.finish()

    # --- steps ---

    def _step(self, changes: list[Change]) -> bool:
        """Read on; return whether to call again."""
        if self._start is not None:
            return self._read_object(changes)
        if self._closing:
            end = self._rest.find(self._closing, self._at)
            if end < 0:
                self._at = max(self._at, len(self._rest) - len(self._closing) + 1)
                return False
            self._at, self._closing = end + len(self._closing), ""
            return True
        return self._read_prose(changes)

    def _read_prose(self, changes: list[Change]) -> bool:
        match = _PROSE.search(self._rest, self._at)
        if match is None:
            held = _TAG_BEGINNING.search(self._rest, self._at)
            self._at = len(self._rest) if held is None else held.start()
            return False
        if match[0] == "{":
            self._at = match.start()
            self._start = self._base + self._at
            self.reader, self._has_member = IncrementalJSON(lenient=True), False
            changes.clear()
            return True
        self._at = match.end()
        if match[1]:
            self.found = []  # All of it was reasoning, whose opening tag was in the prompt.
        else:
            self._closing = f"</{match[2]}>"
        return True

    def _read_object(self, changes: list[Change]) -> bool:
        reader, start = self.reader, self._start
        assert reader is not None  # noqa: S101 - for mypy: an object is open
        assert start is not None  # noqa: S101
        while self._at < len(self._rest):
            try:
                new, at = reader.advance(self._rest, self._at)
            except JSONParseError as exc:
                return self._break_off(start, exc)
            self._has_member = self._has_member or any(change.path for change in new)
            changes += new
            if reader.complete:
                self._at, self._start = at, None
                self._add(FoundObject(start, self._base + at))
                return True
            if at == self._at and not new:
                break  # It ends inside an escape or the like.
            self._at = at
        if not self._has_member and len(self._rest) - (start - self._base) > MAX_OPENING:
            self._go_back()
            return True
        return False

    def _break_off(self, start: int, exc: JSONParseError) -> bool:
        if not self._has_member:
            self._go_back()
            return True
        end = min(self._base + len(self._rest), max(self._base + self._at, start + 1))
        self._add(FoundObject(start, end, exc.reason.partition(" at offset")[0]))
        self._start = None
        return True

    def _go_back(self) -> None:
        """Take the open brace as prose, and read on after it."""
        assert self._start is not None  # noqa: S101 - for mypy: an object is open
        self._at = self._start - self._base + 1
        self._start, self.reader = None, None

    def _add(self, found: FoundObject) -> None:
        if len(self.found) <= MAX_FOUND:
            self.found.append(found)

    def _forget(self) -> None:
        """Drop text that is not read again: an object without a member may turn out as prose."""
        if self._start is None or self._has_member:
            self._rest, self._base, self._at = self._rest[self._at :], self._base + self._at, 0


def read_object(text: str, found: FoundObject) -> tuple[Any, str]:
    """Return the value of *found*, and why it is not certain; the reason is empty if it is.

    A broken object is repaired if only one reading is possible. A repeated key is refused: which
    of its values was meant is not known.
    """
    if not found.fault:
        try:
            return rjson.loads(text[found.start : found.end]), ""
        except JSONParseError as exc:
            return None, exc.reason
    last = text.rfind("}", found.start)
    if last < 0 or found.fault == _CUT:  # The brace may be in a string that was cut.
        return None, found.fault
    try:
        value, repairs = rjson.repair(text[found.start : last + 1], guess=False, closes=False)
    except JSONParseError:
        return None, found.fault
    if rjson.closes_text(repairs) or not isinstance(value, dict):
        return None, found.fault
    return value, ""


def list_bare_texts(text: str) -> list[str]:
    """Return what may be a JSON value of any type: all of *text*, or what its fences hold.

    Reasoning does not count.
    """
    ends = [match.end() for match in _REASONING_END.finditer(text)]
    rest = text[ends[-1] if ends else 0 :]
    if _REASONING.search(rest):
        return []
    return [block for info, block in _iter_fences(rest) if info in _JSON_FENCES] or [rest.strip()]


def _iter_fences(text: str) -> Iterator[tuple[str, str]]:
    """Yield the language and the content of each block between fences that is closed."""
    language: str | None = None
    lines: list[str] = []
    for line in text.split("\n"):
        stripped = line.strip()
        if language is None:
            if stripped.startswith(_FENCE):
                language, lines = stripped.strip("`").lower(), []
        elif stripped.startswith(_FENCE) and not stripped.strip("`"):
            yield language, "\n".join(lines).strip()
            language = None
        else:
            lines.append(line)
