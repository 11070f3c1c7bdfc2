"""What the parser and its body readers say to each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple, Protocol, runtime_checkable

from penstock.errors import ParseError
from penstock.events import ToolCallEnd
from penstock.messages import ToolCall
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.output import Output
from penstock.parsing.reasoning import Channel
from penstock.parsing.scanner import Scanner
from penstock.values.schema import Schema

__all__ = [
    "BodyReader",
    "CallHeader",
    "NoCallError",
    "OpenString",
    "Repairable",
    "Translated",
    "Verdict",
]


class Verdict(Enum):
    """The state of a body reader after it has read the available text."""

    MORE = "the text ends inside the body"
    DONE = "the body and its end marker were read"
    UNTERMINATED = "the calls are complete, but the end marker is missing"
    BROKEN = "not a call: the text after the start marker is scanned again"
    GIVE_UP = "not a call: everything that was read is text"
    TOO_LONG = "the body is longer than a call may be"
    NOT_A_CALL = "no call was meant: the start marker is text, and no error is reported"


Translated = tuple[str, str, int]
"""A piece of a string: what it says, how strict JSON writes it, how much text it took."""


class OpenString(NamedTuple):
    """A string that streams: text without a match of `gate` may go straight to `pieces`.

    It is written as it came. Other text may go there too if `translate` knows how to read and to
    write it; what is left of it is read with the text that follows.
    """

    gate: re.Pattern[str]
    pieces: list[str]
    translate: Callable[[str], Translated | None] | None = None


class BodyReader(Protocol):
    """Reads what follows a start marker, up to where the call ends by its own grammar."""

    error: str | ParseError
    """Why the body is broken: in words, or as the reader of its values has it."""

    end: str
    """The marker that is to come after the call; empty where there is not one."""

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended; return whether what was read stands.

        A string that is open takes what was held back, for a call that is shown up to its cut.
        """

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""


@runtime_checkable
class Repairable(BodyReader, Protocol):
    """A body whose text can be repaired when it broke, or when the model stopped inside it."""

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, all that is between the start marker and the end marker.

        With *ended* the model stopped inside it, and it was valid so far; otherwise it broke. An
        empty list tells that nothing can be made of it.
        """

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams just now, decoded."""


class CallHeader(BodyReader, Protocol):
    """A body that is the header of a channel: text of one kind follows it."""

    enters: Channel | None
    """The channel that begins where the body is done."""


# A call read from text that is whole, to see what was meant by one that never ended.


def read_call(body: BodyReader, text: str, schemas: Mapping[str, Schema]) -> ToolCall | None:
    """Return the call that *body*, a fresh reader, makes of *text*, if it ends with the text."""
    scanner = Scanner()
    output = Output(scanner)
    calls = CallSink(output, schemas, lambda: "", lambda _: None, live=False)
    scanner.push(text)
    try:
        if body.read(scanner, calls) is not Verdict.DONE or scanner.unread:
            return None
    except NoCallError:
        return None
    found = [event.call for event in output.take() if isinstance(event, ToolCallEnd)]
    return found[0] if len(found) == 1 else None


def without_begun(text: str, closing: str) -> str:
    """Return *text* without the beginning of *closing* that it may end with."""
    for size in range(min(len(closing), len(text)), 1, -1):
        if closing.lower().startswith(text[-size:].lower()):
            return text[:-size]
    return text


MAX_SHOWN: Final = 80
"""How many characters of skipped text a note shows."""


def skipped_text(text: str) -> str:
    """Return the note for *text* between the arguments of a call, which belongs to none of them."""
    text = " ".join(text.split())
    shown = text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
    return f"skipped text between arguments: {shown}"
