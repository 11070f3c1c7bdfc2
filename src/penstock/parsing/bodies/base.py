"""What the parser and its body readers say to each other."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol, runtime_checkable

from penstock.errors import ParseError
from penstock.parsing.calls import Calls, Mended, NoCallError
from penstock.parsing.reasoning import Channel
from penstock.parsing.scanner import Scanner


class Verdict(Enum):
    """How far a body reader has come."""

    MORE = "the text ends inside the body"
    DONE = "the body has ended, and its end marker with it"
    STANDS = "the calls stand, but the end marker has not come"
    BROKEN = "this is no call; what follows its start marker is to be looked at again"
    TEXT = "this is no call, and all that was read is text"
    LONG = "the body has more characters than a call may have"
    PROSE = "no call was meant: the start marker is text, and nobody has to be told"


__all__ = ["Body", "Header", "Mendable", "NoCallError", "Run", "Translated", "Verdict"]

Translated = tuple[str, str, int]
"""A piece of a string: what it says, how strict JSON writes it, how much text it took."""


class Run(NamedTuple):
    """A string that streams: text without a match of `gate` may go straight to `pieces`.

    It is written as it came. Other text may go there too if `translate` knows how to read and to
    write it; what is left of it is read with the text that follows.
    """

    gate: re.Pattern[str]
    pieces: list[str]
    translate: Callable[[str], Translated | None] | None = None


class Body(Protocol):
    """Reads what follows a start marker, up to where the call ends by its own grammar."""

    error: str | ParseError
    """Why the body is broken: in words, or as the reader of its values has it."""

    end: str
    """The marker that is to come behind the call; empty where there is none."""

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended; tell whether what was read stands.

        A string that is open takes what was held back, for a call that is shown up to its cut.
        """

    def run(self) -> Run | None:
        """Give the string that streams just now, if there is one."""


@runtime_checkable
class Mendable(Body, Protocol):
    """A body whose text can be mended when it broke, or when the model stopped inside it."""

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Make calls of *text*, all that stands between the start marker and the end marker.

        With *ended* the model stopped inside it, and it was lawful so far; otherwise it broke. An
        empty list tells that nothing can be made of it.
        """

    def open_text(self) -> str | None:
        """Give what has gone out of the string that streams just now, decoded."""


class Header(Body, Protocol):
    """A body that is the header of a channel: text of one kind follows it."""

    enters: Channel | None
    """The channel that begins where the body is done."""
