"""What the parser and its body readers say to each other."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol

from penstock.parsing.calls import Calls
from penstock.parsing.scanner import Scanner


class Verdict(Enum):
    """How far a body reader has come."""

    MORE = "the text ends inside the body"
    DONE = "the body has ended, and its end marker with it"
    STANDS = "the calls stand, but the end marker has not come"
    BROKEN = "this is no call"


class Run(NamedTuple):
    """A string that streams: text without a match of `gate` may go straight to `pieces`.

    Text that `decode` knows how to read may go there too, decoded; it is written as it came.
    """

    gate: re.Pattern[str]
    pieces: list[str]
    decode: Callable[[str], str | None] | None = None


class Body(Protocol):
    """Reads what follows a start marker, up to where the call ends by its own grammar."""

    error: str
    """Why the body is broken, in words."""

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended; tell whether what was read stands."""

    def run(self) -> Run | None:
        """Give the string that streams just now, if there is one."""
