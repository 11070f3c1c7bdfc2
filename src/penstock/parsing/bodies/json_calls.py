r"""Calls in JSON: an object with a name and arguments, a list of them, or one after the other.

The JSON is read as it arrives, in the relaxed grammar, and stops at each change, so that every call
claims its own text. A string that streams is taken apart here: plain text as it is, escapes that
strict JSON has too (``\n``, ``\"``) as they came, any other escape by itself. So when a mistake is
found all text before it has gone out, at any cut.

Behind a value stands its end marker. Where something else stands the calls are good all the same:
models drop the end marker in about one call of fourteen.
"""

from __future__ import annotations

import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Final

from penstock.errors import JSONParseError, ParseError
from penstock.parsing.bodies.base import NoCallError, Run, Translated, Verdict
from penstock.parsing.bodies.envelope import Envelope
from penstock.parsing.calls import Calls
from penstock.parsing.scanner import Scanner
from penstock.values.grammar import CLOSING_QUOTES
from penstock.values.incremental import Change, IncrementalJSON

MAX_BLANK: Final = 256
"""How much white space may stand between a value and its end marker, or the next value."""

_SPECIAL: Final = {
    quote: re.compile(rf'["{quote}\\\x00-\x1f]') for quote in CLOSING_QUOTES.values()
}
"""What is not plain in a string that ends with this quote, or has to be escaped in strict JSON."""

_TAME_ESCAPES: Final = re.compile(r'(?:\\["\\/bfnrt]){1,1000}')
_TAME: Final = re.compile(r'(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]){0,1000}')

# Behind a high surrogate only what follows tells whether it is half of a pair.
_HIGH: Final = r"[Dd][89ABab]"
_ESCAPE: Final = re.compile(
    rf"\\(?:u{_HIGH}[0-9A-Fa-f]{{2}}(?:\\u[0-9A-Fa-f]{{4}}|\\[^u]|[^\\])"
    rf"|u(?!{_HIGH})[0-9A-Fa-f]{{4}}|[^u])",
    re.DOTALL,
)
_BLANK: Final = re.compile(rf"[ \t\r\n]{{0,{MAX_BLANK}}}")
_BETWEEN: Final = ",;}]"  # separators, and the surplus brackets that models write


class JSONCallReader:
    """Reads the calls of one body; *end* is its end marker, empty where it has none."""

    def __init__(self, end: str) -> None:
        self.error: str | ParseError = ""
        self.end = end
        self._json = IncrementalJSON(lenient=True)
        self._base = 0  # how deep calls stand in the value: in a list one level
        self._envelope: Envelope | None = None
        self._begun = False  # the value has
        self._ended = False  # the value has: the end marker or another value follows

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        while scanner.at < len(scanner.text):
            verdict = self._read_behind(scanner) if self._ended else self._read_on(scanner, calls)
            if verdict is not None:
                return verdict
        return Verdict.MORE

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended: a value that is whole stands without its end marker."""
        del calls
        if not self._ended:
            self.error = "the call was cut"
            return Verdict.BROKEN
        if self.end.startswith(scanner.unread.lstrip()):
            scanner.at = len(scanner.text)  # the piece of a cut marker is no content
        return Verdict.DONE

    def run(self) -> Run | None:
        """Give the string that streams just now, if there is one."""
        opened = self._streaming_string()
        if opened is None:
            return None
        quote, pieces = opened
        return Run(_SPECIAL[quote], pieces, _translate_tame if quote == '"' else None)

    # --- inside the value ---

    def _read_on(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        """Read up to the next change; None tells to go on."""
        before = scanner.at
        opened = self._streaming_string()
        try:
            if opened is not None:
                self._read_string(*opened, scanner, calls)
            else:
                changes, scanner.at = self._json.advance(scanner.text, scanner.at)
                self._follow(changes, calls)
        except (JSONParseError, NoCallError) as exc:
            self.error = exc if isinstance(exc, ParseError) else str(exc)
            return Verdict.BROKEN
        self._ended = self._json.complete
        return Verdict.MORE if scanner.at == before and not self._ended else None

    def _streaming_string(self) -> tuple[str, list[str]] | None:
        if self._envelope is None or not self._envelope.is_streaming:
            return None
        return self._json.open_string

    def _read_string(self, quote: str, pieces: list[str], scanner: Scanner, calls: Calls) -> None:
        """Read on in a string that streams, up to and behind what is special in it."""
        text, at, writer = scanner.text, scanner.at, calls.writer
        assert writer is not None  # noqa: S101 - a string that streams has one
        special = _SPECIAL[quote].search(text, at)
        end = special.start() if special else len(text)
        if end > at:
            scanner.at = end
            pieces.append(text[at:end])
            writer.add_text(text[at:end])
        elif quote == '"' and (tame := _TAME_ESCAPES.match(text, at)):
            scanner.at = tame.end()
            pieces.append(scanstring(tame[0] + '"', 0)[0])
            writer.add_escaped(tame[0])
        elif (escape := _ESCAPE.match(text, at)) or text[at] != "\\":
            changes, used = self._json.advance(escape[0] if escape else text[at])
            scanner.at += used
            self._follow(changes, calls)

    def _follow(self, changes: list[Change], calls: Calls) -> None:
        for change in changes:
            if not self._begun:
                self._begun = True
                self._base = int(change.kind == "array")
                if change.kind not in ("array", "object"):
                    raise NoCallError("a value that is no object")
            depth = len(change.path) - self._base
            if depth == 0 and change.kind == "object":
                self._envelope = Envelope(calls, self._base)
            elif depth >= 0:
                if self._envelope is None or (depth == 0 and change.kind != "end"):
                    raise NoCallError("a list of something else than objects")
                self._envelope.follow(change)

    # --- behind the value ---

    def _read_behind(self, scanner: Scanner) -> Verdict | None:
        """Look for the end marker or another value; None tells to go on."""
        text = scanner.text
        blank = _BLANK.match(text, scanner.at)
        at = blank.end() if blank else scanner.at
        if at == len(text):
            return Verdict.MORE if at - scanner.at < MAX_BLANK else Verdict.STANDS
        if self.end and text.startswith(self.end, at):
            scanner.at = at + len(self.end)
            return Verdict.DONE
        if self.end.startswith(text[at:]):
            return Verdict.MORE
        if text[at] in _BETWEEN:
            scanner.at = at + 1
            return None
        if text[at] in "{[":
            scanner.at = at
            self._begin_value()
            return None
        return Verdict.STANDS

    def _begin_value(self) -> None:
        self._json = IncrementalJSON(lenient=True)
        self._envelope = None
        self._begun = self._ended = False


def _translate_tame(text: str) -> Translated | None:
    """Read a piece of a string if its escapes are those that strict JSON has too.

    A backslash at its end is left: what it escapes comes next.
    """
    if text[-1] == "\\" and text[-2:] != "\\\\":
        text = text[:-1]
    if _TAME.fullmatch(text) is None:
        return None
    return scanstring(text + '"', 0)[0], text, len(text)
