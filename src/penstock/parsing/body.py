"""The contracts between the engine, the syntax of a format and its body readers.

`Syntax` and `BodyReader` declare every member that the engine touches, with a default where one
makes sense. Formats derive from them; nothing is probed for at run time.

A `Reasoning` describes how a model marks its reasoning. A `Channel` is a stretch of text of one
kind, opened by a reasoning marker or by the header of a message. The engine is in one channel at a
time; outside of all channels text is text. A `Wrapper` is a marker without content, which comes
around an answer or after a turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from msgspec import Struct

from penstock.errors import ParseError, UsageError, shorten
from penstock.parsing.scanner import Scanner
from penstock.tools import Tool

if TYPE_CHECKING:  # The sink works on the engine's state, which refers to these contracts.
    from penstock.parsing.call_sink import CallSink, RepairedCall


Kind = Literal["text", "thinking"]
"""The kinds of blocks that show text."""

ReasoningOnly = Literal["reasoning", "text"]
"""What a response is that ended inside reasoning which the prompt had opened."""

StrayReasoning = Literal["text", "split"]
"""What an end marker of reasoning is that no start marker came before."""

Place = Literal["anywhere", "first", "last", "before_call", "after_call", "between_calls", "stray"]
"""Where in a response a wrapper has no content; elsewhere it is text.

What is dropped at the beginning or at the end of a response is dropped right after a call too. What
is dropped after a call (its surplus end tag) is dropped before one too, and where it is alone on a
line after any call. A wrapper between calls has a call before it, and a call or the end after it.
A stray one ends reasoning whose beginning was not seen.
"""


class Channel(Struct, frozen=True, cache_hash=True):
    """Text of one *kind*, up to one of *ends*.

    With *interrupted*, a call may begin inside and ends it; otherwise what looks like a call is
    text. With *opens*, only these markers open a body inside. A marker of *starts* is dropped where
    only white space came before it. Up to *newlines* are dropped after its end.
    """

    kind: Kind
    ends: tuple[str, ...]
    interrupted: bool = False
    starts: tuple[str, ...] = ()
    newlines: int = 0
    opens: tuple[str, ...] = ()


class Wrapper(Struct, frozen=True, cache_hash=True):
    """A *marker* without content in one *place*, such as the last thing of a response."""

    marker: str
    where: Place = "anywhere"


class Reasoning(Struct, frozen=True, cache_hash=True):
    """Reasoning between *starts* and *ends*.

    With *leading* it is reasoning only where the start marker is the first thing of the response,
    or the prompt ended with it. Unless it *recurs*, markers after its end are text. With
    *interrupted*, a call ends it. Up to *newlines* on either side of its end are dropped, and so
    are the *wrappers* of the answer. *preface* is text that the response lacks.
    """

    name: str
    starts: tuple[str, ...]
    ends: tuple[str, ...]
    leading: bool = False
    recurs: bool = False
    interrupted: bool = False
    newlines: int = 0
    wrappers: tuple[Wrapper, ...] = ()
    preface: str = ""

    @property
    def channel(self) -> Channel:
        """The channel that a start marker opens."""
        return self._channel(self.ends)

    @property
    def stray_ends(self) -> tuple[str, ...]:
        """The markers that end reasoning whose beginning was not seen."""
        return tuple(end for end in self.ends if end[0] in "<[")

    @property
    def depends_on_start(self) -> bool:
        """Whether each start marker opens a channel of its own."""
        return False

    def channel_for(self, start: str) -> Channel:
        """Return the channel that the marker *start* opens."""
        del start
        return self.channel

    def parse_prompt(self, prompt: str) -> tuple[str, Channel] | None:
        """Return the text of *prompt* after its last start marker, and the channel it opens.

        Any model may be prompted with ``<think>``, whatever markers it writes.
        """
        starts = (*self.starts, _DEFAULT_START)
        at, start = max((prompt.rfind(start), start) for start in starts)
        if at == -1:
            return None
        is_own = start in self.starts
        channel = self.channel if is_own else self._channel((_DEFAULT_END, *self.ends))
        return prompt[at + len(start) :], channel

    def _channel(self, ends: tuple[str, ...]) -> Channel:
        sizes = range(self.newlines, -1, -1)
        padded = tuple("\n" * size + end for end in ends for size in sizes)
        return Channel("thinking", padded, self.interrupted, self.starts, self.newlines)


def check_reasoning_options(only: object, stray: object) -> None:
    """Raise `UsageError` for unknown values of `reasoning_only` and `stray_reasoning`."""
    if only not in (None, "reasoning", "text"):
        raise UsageError(f'reasoning_only must be "reasoning" or "text", not {only!r}')
    if stray not in (None, "text", "split"):
        raise UsageError(f'stray_reasoning must be "text" or "split", not {stray!r}')


_DEFAULT_START = "<think>"
_DEFAULT_END = "</think>"


# --- bodies ---

CALL_CUT: Final = "the call was cut"
"""The error of a call that the response ends inside of."""

MAX_BLANK: Final = 256
"""How much white space may be between the parts of a call, and before its end marker."""


class Verdict(Enum):
    """The state of a body reader after it has read the available text."""

    MORE = "the text ends inside the body"
    DONE = "the body and its end marker were read"
    UNTERMINATED = "the calls are complete, but the end marker is missing"
    BROKEN = "not a call: the text after the start marker is scanned again"
    GIVE_UP = "not a call: everything that was read is text"
    TOO_LONG = "the body is longer than a call may be"
    NOT_A_CALL = "no call was meant: the start marker is text, and no error is reported"
    OPENED = "a start marker was read: the reader of its body continues"


Translated = tuple[str, str, int]
"""A piece of a string: its value, its form in strict JSON, and how much text it took."""


class OpenString(NamedTuple):
    """A string that streams: text without a match of `gate` is appended to `pieces` directly.

    Such text is written unchanged, so `values.json_grammar.string_gate` makes the gate. Other text
    is decoded by `translate`, if possible; the part that `translate` does not use is read with the
    text that follows. With `waits` nothing is written: the text belongs to a value that is written
    when it is closed, and only what ends it, or an end of text that may do so, is special.
    `known` is what it has returned for short pieces: strings that are read alike share it.
    """

    gate: re.Pattern[str]
    pieces: list[str]
    translate: Callable[[str], Translated | None] | None = None
    waits: bool = False
    known: dict[str, Translated] | None = None


class StreamingPart(Protocol):
    """What reads a string that may stream, in which the engine then emits plain text directly."""

    def open_string(self) -> OpenString | None:
        """Return the string that is streaming, if there is one."""

    def open_text(self) -> str | None:
        """Return what was emitted of the streaming string, decoded."""


class ValueReader:
    """Reads values with parts, of which the open one may have a string that streams."""

    error: str | ParseError = ""
    """Why the text is broken: a message, or the error of the value parser."""

    @property
    def open_part(self) -> StreamingPart | None:
        """The part that is being read; a string in it may stream."""
        return None

    def open_string(self) -> OpenString | None:
        """Return the string that is streaming, if there is one."""
        part = self.open_part
        return None if part is None else part.open_string()

    def open_text(self) -> str | None:
        """Return what was emitted of the streaming string, decoded."""
        part = self.open_part
        return None if part is None else part.open_text()


class BodyReader(ValueReader):
    """Reads the text after a start marker, up to where the call ends by its own grammar."""

    end: str = ""
    """The marker that ends the call; empty if there is not one."""

    is_repairable: bool = False
    """Whether `repair` can make calls of text that broke."""

    @property
    def enters(self) -> Channel | None:
        """The channel that begins after the body; the header of a message has one."""
        return None

    @property
    def next_starts(self) -> tuple[str, ...] | None:
        """The markers that end the text of a call that broke; None means those of the syntax."""
        return None

    @property
    def next_folds(self) -> bool:
        """Whether `next_starts` match in any case."""
        return False

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and report what it contains to *calls*."""
        raise NotImplementedError

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text; return whether what was read is a call.

        Text that was held back is added to an open string: an incomplete call has all of it. By
        default nothing is held back, and `read` decides.
        """
        return self.read(scanner, calls)

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, everything between the start marker and the end marker.

        With *ended* the model stopped inside it, and it was valid so far; otherwise it broke. The
        list is empty if no call can be made of it.
        """
        del text, ended
        return []

    def _relay(self, reader: BodyReader, verdict: Verdict, *, with_end: bool = False) -> Verdict:
        """Return the *verdict* of *reader*, which reads in place of this one; copy its error.

        *with_end*: the end marker of the call is that of *reader*.
        """
        self.error = reader.error
        if with_end:
            self.end = reader.end
        return verdict

    def begins_next(self, text: str, at: int) -> bool | None:
        """Return whether the start marker at *at* begins the next call; None if it may.

        It ends the segment of this one, which broke. A marker may be a part of a tag, and then
        other tags of this call begin with it.
        """
        del text, at
        return True


class ChoosingReader(BodyReader):
    """Reads with one of several readers, chosen by the first characters of the body."""

    is_repairable = True
    _chosen: BodyReader | None = None
    _default: BodyReader | None = None
    """The reader of a body that ends before one is chosen."""

    @property
    def enters(self) -> Channel | None:
        """The channel that begins after the body."""
        return None if self._chosen is None else self._chosen.enters

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Choose the reader, then continue with it."""
        if self._chosen is None:
            self._chosen = self._choose(scanner)
            if self._chosen is None:
                return Verdict.MORE
        return self._relay(self._chosen, self._chosen.read(scanner, calls))

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text."""
        chosen = self._chosen or self._default
        if chosen is None:
            self.error = CALL_CUT
            return Verdict.BROKEN
        return self._relay(chosen, chosen.finish(scanner, calls))

    @property
    def open_part(self) -> StreamingPart | None:
        """The part that is being read; a string in it may stream."""
        return self._chosen

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text* with the reader that was chosen."""
        return [] if self._chosen is None else self._chosen.repair(text, ended=ended)

    def begins_next(self, text: str, at: int) -> bool | None:
        """Return whether the start marker at *at* begins the next call; None if it may."""
        return True if self._chosen is None else self._chosen.begins_next(text, at)

    def _choose(self, scanner: Scanner) -> BodyReader | None:
        """Return the reader for the unread text, or None if more text is needed."""
        raise NotImplementedError


class Syntax:
    """How calls look in one format: the markers that open one, and the readers of what follows.

    A syntax without state is shared by all responses. One with state (`auto`, bare JSON) is
    created for each response.
    """

    __slots__ = ()

    @property
    def starts(self) -> tuple[str, ...]:
        """The markers that open a call, or several."""
        raise NotImplementedError

    @property
    def folds(self) -> bool:
        """Whether markers match in any case; then `starts` are in lower case."""
        return False

    @property
    def unless(self) -> str:
        """A pattern for the text after a start marker: if it matches there, the marker is text."""
        return ""

    @property
    def leading(self) -> tuple[str, ...]:
        """Those of `starts` that count only as the first thing of a response."""
        return ()

    @property
    def later_starts(self) -> tuple[str, ...]:
        """Those of `starts` that count after the beginning of a response."""
        leading = self.leading
        return tuple(start for start in self.starts if start not in leading)

    @property
    def only_known_tools(self) -> bool:
        """Whether a call of a tool that was not declared is text."""
        return False

    @property
    def has_headers(self) -> bool:
        """Whether the markers open messages, of which some are calls (`harmony`)."""
        return False

    def syntax(self, tools: Iterable[Tool]) -> Syntax:
        """Return the syntax of calls of *tools*: itself, if the markers do not depend on them."""
        del tools
        return self

    def body(self, marker: str) -> BodyReader:
        """Return a new reader for the text after *marker*, which is in the case of the text."""
        raise NotImplementedError

    def first_body(self, text: str) -> BodyReader | None:
        """Return the reader of the beginning of a response, if it needs one.

        *text* is the first that has come of it.
        """
        del text
        return None

    def parse_prompt(self, prompt: str) -> tuple[str, Channel | None] | None:
        """Return the channel that the end of *prompt* opens, and the text after its opening.

        None means that the response begins outside of all channels.
        """
        del prompt
        return None

    def make_ids(self) -> Callable[[], str] | None:
        """Return a function that creates ids for calls without one; None if any id will do."""
        return None

    # --- code: for a syntax that follows fences and inline code itself ---

    @property
    def follows_code(self) -> bool:
        """Whether this syntax decides which markers are in code, in place of `CodeSpans`."""
        return False

    @property
    def has_calls_in_code(self) -> bool:
        """Whether a marker was text because it is in code."""
        return False

    def is_quoted(self, line: str) -> bool:
        """Return whether a marker after *line*, the text before it on its line, is in code."""
        del line
        return False

    def allow_calls_in_code(self) -> None:
        """Read calls in code as calls."""

    def copy(self) -> Syntax:
        """Return a syntax for another response; one without state returns itself."""
        return self


def without_begun(text: str, closing: str) -> str:
    """Return *text* without the part of *closing* that it may end with."""
    for size in range(min(len(closing), len(text)), 1, -1):
        if closing.lower().startswith(text[-size:].lower()):
            return text[:-size]
    return text


MAX_NOTE: Final = 80
"""How many characters of skipped text a note shows."""


def make_skipped_note(text: str) -> str:
    """Return the note about *text* that was skipped between the parameters of a call."""
    shown = shorten(" ".join(text.split()), MAX_NOTE)
    return f'skipped text between parameters: "{shown}"'
