"""The header of a message, and the call that the message may be.

A header is taken as it comes, so that it may have begun in the prompt, and judged as a whole: it is
not done, it is none, or something follows it. What follows is a channel, which ends the body, or a
call, which the body goes on with. A header that is none is prose: its marker is text.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Protocol

from penstock.errors import ParseError
from penstock.parsing.bodies.base import Run, Verdict
from penstock.parsing.bodies.closers import MAX_GAP
from penstock.parsing.calls import Calls, Mended
from penstock.parsing.reasoning import Channel
from penstock.parsing.scanner import Scanner

MAX_HEADER: Final = 240
"""How many characters a header may have: a long name of a tool, and some junk."""

OUTSIDE: Final = Channel("text", (), interrupted=True)
"""Text in no channel, behind a message: a header may follow."""

_GAP: Final = re.compile(rf"\s{{0,{MAX_GAP + 1}}}")
_RECIPIENT: Final = "to="
_THINK: Final = "<think>"
_THINK_END: Final = "</think>"

Opening = tuple[str, Channel | None]
"""Text to be read as if it stood before the answer, and the channel to read it in."""


class MessageCall(Protocol):
    """A body behind a header: a call that may be mended, and that says what follows it."""

    error: str | ParseError
    end: str

    @property
    def enters(self) -> Channel | None:
        """The channel that begins where the call is done."""

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on."""

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended."""

    def run(self) -> Run | None:
        """Give the string that streams just now."""

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Make calls of *text*, all that stands behind the header."""

    def open_text(self) -> str | None:
        """Give what has gone out of the string that streams just now."""


class Opened(NamedTuple):
    """A header that is whole: how long it is, and what follows it."""

    size: int
    follows: Channel | MessageCall


class Message:
    """Reads a header, of which *header* has come already, and what it opens.

    Subclasses judge it. *last* is the marker that it ends with.
    """

    last = ""

    def __init__(self, header: str = "") -> None:
        self.error: str | ParseError = ""
        self.end = ""
        self._header = header
        self._given = -1  # how much of it stands in the prompt
        self._channel: Channel | None = None
        self._call: MessageCall | None = None

    @property
    def enters(self) -> Channel | None:
        """The channel that begins where the body is done."""
        return self._channel if self._call is None else self._call.enters

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read the header, then the call."""
        if self._call is None:
            verdict = self._read_header(scanner, calls)
            if verdict is not None:
                return verdict
        assert self._call is not None  # noqa: S101 - the header has opened it
        verdict = self._call.read(scanner, calls)
        self.error, self.end = self._call.error, self._call.end
        return verdict

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended: a header that was cut is what text it is."""
        if self._call is None:
            return Verdict.PROSE
        verdict = self._call.finish(scanner, calls)
        self.error, self.end = self._call.error, self._call.end
        return verdict

    def run(self) -> Run | None:
        """Give the string that streams just now, if there is one."""
        return None if self._call is None else self._call.run()

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Let the call be mended; of *text* only what stands behind the header is its own."""
        if self._call is None:
            return []
        at = text.find(self.last)
        behind = text[at + len(self.last) :] if at != -1 else text
        return self._call.mend(behind, ended=ended)

    def open_text(self) -> str | None:
        """Give what has gone out of the string that streams just now."""
        return None if self._call is None else self._call.open_text()

    def _read_header(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        """Take more of the header; None tells that a call follows it."""
        if scanner.offset + scanner.at == 0:  # No marker stands before it in the answer.
            self._given = len(self._header)
        room = MAX_HEADER - len(self._header)
        piece = scanner.text[scanner.at : scanner.at + room]
        self._header += piece
        scanner.at += len(piece)
        found = self._judge(self._header, calls)
        if found is Verdict.MORE and len(self._header) >= MAX_HEADER:
            return Verdict.PROSE
        if isinstance(found, Verdict):
            return found
        scanner.at -= len(self._header) - found.size
        if isinstance(found.follows, Channel):
            self._channel = found.follows
            return Verdict.DONE
        self._call = found.follows
        return None

    def _judge(self, header: str, calls: Calls) -> Opened | Verdict:
        """Tell what *header* is: whole, `MORE` or `PROSE`."""
        raise NotImplementedError

    def _is_answer(self, header: str, *words: str) -> bool:
        """Tell whether the answer begins without a header, though the prompt has begun one.

        A token, a recipient or one of *words* goes on with a role; anything else is text.
        """
        if self._given < 0 or _RECIPIENT in header[: self._given] or "<" in header[: self._given]:
            return False
        begins = header[self._given :]
        bare = begins.lstrip()
        if bare.startswith((_RECIPIENT, "<")) or _RECIPIENT.startswith(bare):
            return False
        return not any(begins.startswith(word) or word.startswith(begins) for word in words)


class ClosingMark(Message):
    """Passes a mark that closes a message, or nothing: what follows is in no channel."""

    def _judge(self, header: str, calls: Calls) -> Opened:
        """Tell that the mark is all there is."""
        del header, calls
        return Opened(0, OUTSIDE)


def skip_gap(text: str, at: int) -> int | None:
    """Skip white space from *at* on; None where there is too much of it."""
    found = _GAP.match(text, at)
    end = found.end() if found else at
    return None if end - at > MAX_GAP else end


def opened_thought(prompt: str, ends: tuple[str, ...]) -> Opening | None:
    """Give the thought that a *prompt* opens as it may for any model; *ends* end it, too."""
    if not prompt.rstrip().endswith(_THINK):
        return None
    return "", Channel("thinking", (_THINK_END, *ends), interrupted=True)


def opened_from(prompt: str, *markers: str) -> Opening | None:
    """Give the end of *prompt* from the last of *markers* on; the first that it has counts."""
    for marker in markers:
        at = prompt.rfind(marker)
        if at != -1:
            return prompt[at:], None
    return None
