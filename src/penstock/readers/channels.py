"""Messages with headers: a header opens a channel or a call.

A header is collected as it arrives, because it may have begun in the prompt, and judged as a whole:
it is incomplete, it is not a header, or it opens something. A channel ends the body; a call is read
by the body. Text that is not a header is prose: its marker is text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

from msgspec import Struct

from penstock.errors import JSONParseError
from penstock.parsing.body import (
    CALL_CUT,
    BodyReader,
    Channel,
    ChoosingReader,
    StreamingPart,
    Syntax,
    Verdict,
)
from penstock.parsing.call_sink import CallSink, RepairedCall
from penstock.parsing.scanner import Scanner
from penstock.readers.envelope import Envelope, repair_body
from penstock.readers.json_calls import JSONCallReader, PlainCall
from penstock.readers.tagged import TagDialect
from penstock.readers.tagged.calls import TaggedCallReader
from penstock.readers.tagged.endings import TokenEnding, read_value
from penstock.readers.tagged.strings import StreamedText, take_text
from penstock.readers.tagged.tags import skip_gap
from penstock.values.incremental_state import Change
from penstock.values.schema import Schema

# Messages with a call in JSON, up to an end marker.
#
# Either the whole call is there, or its name is in the header and only its arguments are there: an
# object, JSON inside a string, or null; nothing before an end marker is an empty object, too.
# After the JSON surplus brackets are dropped; any other text is text of the message.


_ARGUMENTS: Final = "arguments"


class JSONMessageReader(JSONCallReader):
    """Reads the calls of one message.

    It ends with one of *ends*; *after* is the channel of other text before that.
    """

    enters: Channel | None = None

    def __init__(self, ends: tuple[str, ...] = (), after: Channel | None = None) -> None:
        super().__init__(ends[0] if ends else "")
        self._ends = ends
        self._after = after

    def _leave(self) -> Verdict:
        self.enters = self._after
        return Verdict.DONE


class NamedJSONReader(JSONMessageReader):
    """Reads the arguments of the call of *name*, one value: what looks like another is text."""

    _may_continue = False

    def __init__(self, name: str, ends: tuple[str, ...] = (), after: Channel | None = None) -> None:
        super().__init__(ends, after)
        self._name = name
        self._has_begun = False

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls to *calls*."""
        if not self._has_begun:
            verdict = self._begin(scanner, calls)
            if verdict is not None:
                return verdict
        return super().read(scanner, calls)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: a whole value is complete without its end marker."""
        if self._has_begun:
            return super().finish(scanner, calls)
        self.error = CALL_CUT
        return Verdict.GIVE_UP

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make a call of *text*, which holds JSON that is broken, or not whole."""
        del ended
        try:
            value, repairs, text = repair_body(text, *self._ends)
        except JSONParseError:
            return []
        if not isinstance(value, dict):
            return []
        call, envelope = RepairedCall(self._name, value, repairs, written=text), self._envelope
        is_same = envelope is None or envelope.agrees_with(call, self.open_text())
        return [call] if is_same else []

    def _begin(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Find out whether there is a value; return None to read it."""
        at, end = self._find_end(scanner)
        if end == "":
            return Verdict.MORE
        self._has_begun = True
        if end is None:
            return None
        scanner.advance_to(at + len(end))
        self._close(calls)
        return Verdict.DONE

    def _shape_plain(self, item: Any) -> PlainCall | None:
        """Return the call whose arguments *item* is."""
        return PlainCall(self._name, "", item) if isinstance(item, dict) else None

    def _find_plain(self, value: Any, schemas: Mapping[str, Schema]) -> list[PlainCall]:
        """Return the call whose arguments *value* is: a list is not."""
        return [] if isinstance(value, list) else super()._find_plain(value, schemas)

    def _new_envelope(self, calls: CallSink) -> Envelope:
        envelope = super()._new_envelope(calls)
        envelope.name = self._name
        return envelope

    def _find_envelope(self, change: Change, calls: CallSink) -> Envelope | None:
        """Return the one envelope that there is."""
        del change
        if self._envelope is None:
            self._envelope = self._new_envelope(calls)
        return self._envelope

    def _follow(self, changes: list[Change], begin: int, scanner: Scanner, calls: CallSink) -> None:
        """Follow *changes* as those of the arguments in a call object that is not in the text."""
        inside = [
            Change((_ARGUMENTS, *change.path), change.kind, change.text, change.value)
            for change in changes
        ]
        super()._follow(inside, begin, scanner, calls)
        if self._steps.complete and inside:
            calls.note(*self._steps.take_relaxed())
            self._close(calls)

    def _close(self, calls: CallSink) -> None:
        envelope = self._envelope or self._new_envelope(calls)
        envelope.follow(Change((), "end"))
        self._envelope = None


def begins_any(markers: tuple[str, ...], piece: str) -> bool:
    """Return whether *piece* is the beginning of one of *markers*."""
    return bool(piece) and any(marker.startswith(piece) for marker in markers)


MAX_HEADER: Final = 240
"""How many characters a header may have: a long name of a tool, and some junk."""

OUTSIDE: Final = Channel("text", (), interrupted=True)
"""Text in no channel, after a message: a header may follow."""

_RECIPIENT: Final = "to="
_THINK: Final = "<think>"
_THINK_END: Final = "</think>"

Opening = tuple[str, Channel | None]
"""Text to read as if it came before the response, and the channel to read it in."""


class Opened(NamedTuple):
    """A header that is whole: how long it is, and what follows it."""

    size: int
    follows: Channel | BodyReader


class Message(BodyReader):
    """Reads a header, which begins with *header* after *marker*, and what it opens.

    Subclasses judge it; without *calls* a message to a tool is text. *last* is the marker that the
    header ends with.
    """

    is_repairable = True

    last = ""

    def __init__(self, marker: str = "", header: str = "", *, calls: bool = True) -> None:
        self._marker = marker
        self._calls = calls
        self._header = header
        self._given = -1  # how much of it is in the prompt
        self._channel: Channel | None = None
        self._call: BodyReader | None = None

    @property
    def enters(self) -> Channel | None:
        """The channel that begins where the body is done."""
        return self._channel if self._call is None else self._call.enters

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read the header, then the call."""
        if self._call is None:
            verdict = self._read_header(scanner, calls)
            if verdict is not None:
                return verdict
        assert self._call is not None  # noqa: S101 - the header has opened it
        return self._relay(self._call, self._call.read(scanner, calls), with_end=True)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: a header that was cut is text."""
        if self._call is None:
            return Verdict.NOT_A_CALL
        return self._relay(self._call, self._call.finish(scanner, calls), with_end=True)

    @property
    def open_part(self) -> StreamingPart | None:
        """The part that is being read; a string in it may stream."""
        return self._call

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Repair the call in *text*, after its header."""
        if self._call is None:
            return []
        at = text.find(self.last)
        inside = text[at + len(self.last) :] if at != -1 else text
        return self._call.repair(inside, ended=ended)

    def _read_header(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Take more of the header; return None if a call follows it."""
        if scanner.position == 0:  # No marker comes before it in the response.
            self._given = len(self._header)
        room = MAX_HEADER - len(self._header)
        piece = scanner.peek(room)
        self._header += piece
        scanner.skip(len(piece))
        found = self._judge(self._header, calls)
        if found is Verdict.MORE and len(self._header) >= MAX_HEADER:
            return Verdict.NOT_A_CALL
        if isinstance(found, Verdict):
            return found
        scanner.rewind(len(self._header) - found.size)
        if isinstance(found.follows, Channel):
            self._channel = found.follows
            return Verdict.DONE
        self._call = found.follows
        self.end = self._call.end  # The call may break while it is read for the first time.
        return None

    def _judge(self, header: str, calls: CallSink) -> Opened | Verdict:
        """Return what *header* is: whole, `MORE` or `NOT_A_CALL`."""
        raise NotImplementedError

    def _is_answer(self, header: str, *words: str) -> bool:
        """Return whether the response begins without the header that the prompt has begun.

        A token, a recipient or one of *words* continues with a role; anything else is text.
        """
        if self._given < 0 or _RECIPIENT in header[: self._given] or "<" in header[: self._given]:
            return False
        begins = header[self._given :]
        bare = begins.lstrip()
        if bare.startswith((_RECIPIENT, "<")) or _RECIPIENT.startswith(bare):
            return False
        return not any(begins.startswith(word) or word.startswith(begins) for word in words)


class ClosingMark(Message):
    """Takes a mark that closes a message, or nothing: what follows is in no channel."""

    def _judge(self, header: str, calls: CallSink) -> Opened:
        """Return that the mark is all there is."""
        del header, calls
        return Opened(0, OUTSIDE)


class TaggedMessageReader(TaggedCallReader):
    """Reads the tagged calls of one message (Kimi K3, Muse Glimmer).

    *marker* began the tag of a call; without one the section has begun, or with *leads* is still to
    come. Any of *ends* ends the message. Text that is not a call belongs to the channel *after*.
    """

    enters: Channel | None = None

    def __init__(
        self,
        dialect: TagDialect,
        marker: str = "",
        *,
        leads: bool = False,
        ends: tuple[str, ...] = (),
        after: Channel = OUTSIDE,
    ) -> None:
        super().__init__(dialect, marker)
        self.end = dialect.call_end
        self._leads = leads
        self._ends = ends
        self._after = after
        self._has_ended = False  # the section has, the message has not

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: calls that have ended are complete."""
        if self._inside is None:
            if not self._calls:
                return Verdict.NOT_A_CALL
            if begins_any(self._ends, scanner.unread.lstrip()):
                scanner.skip_all()  # the piece of a cut marker is not content
                return Verdict.DONE
        return super().finish(scanner, calls)

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Repair the call; the tag of its section may come before it."""
        section = self._grammar.section
        found = section.match(text, len(text) - len(text.lstrip())) if section is not None else None
        return super().repair(text if found is None else text[found.end :], ended=ended)

    def _read_between(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Take what follows a call, the section, or the header of the message."""
        grammar, text = self._grammar, scanner.text
        at = grammar.skip_gap(text, scanner.at)
        if at is None:
            return self._leave()
        if at == len(text):
            return Verdict.MORE
        for end in self._ends:
            if text.startswith(end, at):
                scanner.advance_to(at + len(end))
                return self._enter(OUTSIDE)
            if end.startswith(text[at:]):
                return Verdict.MORE
        if self._has_ended:
            return self._leave()
        is_leading = self._leads and not self._calls
        for tag in (grammar.section,) if is_leading else grammar.section_ends:
            found = tag.match(text, at) if tag is not None else None
            if found is not None:
                scanner.advance_to(found.end)
                self._leads, self._has_ended = False, not is_leading
                return self._enter(OUTSIDE) if self._has_ended and not self._ends else None
            if tag is not None and tag.could_begin(text, at):
                return Verdict.MORE
        return self._take_next(scanner, at, calls)

    def _leave(self) -> Verdict:
        return self._enter(self._after)

    def _enter(self, channel: Channel) -> Verdict:
        """End the body; after a call the engine knows that it is in no channel."""
        is_known = channel is OUTSIDE and self._calls > 0
        self.enters = None if is_known else channel
        return Verdict.DONE


class MessageSyntax(Syntax, Struct, frozen=True):
    """The syntax of messages with headers.

    An empty prompt has begun the header *begun*. A prompt that ends with ``<think>`` has opened
    reasoning, which one of *ends* ends, too; otherwise the response continues after the last of the
    first of *headers* that the prompt has.
    """

    has_headers = True
    begun: ClassVar[str] = ""
    headers: ClassVar[tuple[str, ...]]
    ends: ClassVar[tuple[str, ...]] = ()

    def parse_prompt(self, prompt: str) -> Opening | None:
        """Return how the end of *prompt* begins the response: with a header, or a channel."""
        if self.begun and not prompt.strip():
            return self.begun, None
        if self.ends and prompt.rstrip().endswith(_THINK):
            return "", Channel("thinking", (_THINK_END, *self.ends), interrupted=True)
        found = (prompt.rfind(header) for header in self.headers)
        at = next((at for at in found if at != -1), -1)
        return (prompt[at:], None) if at != -1 else None


# A call whose one argument is the text of its message: code, or free text. Nothing in it is
# escaped. It ends at the first marker that ends its message; without such a marker, with the
# response.


CODE: Final = "code"
"""The argument of `python` that takes code."""


class VerbatimReader(BodyReader):
    """Reads a call of *name* with the text as *key*.

    Any of *ends* ends it; so does any of *borders*, which belongs to what follows. With
    *ends_with_text*, the end of the response does, too.
    """

    is_repairable = True
    enters: Channel | None = None

    def __init__(
        self,
        name: str,
        key: str,
        ends: tuple[str, ...],
        borders: tuple[str, ...] = (),
        *,
        ends_with_text: bool = False,
    ) -> None:
        self.end = ends[0] if ends else ""
        self._name = name
        self._key = key
        self._ending = TokenEnding(ends, borders)
        self._ends_with_text = ends_with_text
        self._string: StreamedText | None = None

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read up to what ends the text."""
        string = self._string or self._open(calls)
        if not read_value(string, self._ending, scanner):
            return Verdict.MORE
        calls.close()
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text."""
        string = self._string or self._open(calls)
        take_text(string, scanner, len(scanner.text))
        if self._ends_with_text:
            string.close()
            calls.close()
            return Verdict.DONE
        self.error = CALL_CUT
        return Verdict.GIVE_UP

    @property
    def open_part(self) -> StreamingPart | None:
        """The part that is being read; a string in it may stream."""
        return self._string

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Take all of *text*, if the model ended where it does."""
        del text
        written = self.open_text()
        if not ended or written is None:
            return []
        return [RepairedCall(self._name, {self._key: written}, ["closed the message"])]

    def _open(self, calls: CallSink) -> StreamedText:
        writer = calls.open(self._name)
        writer.open_text(self._key)
        self._string = StreamedText(self._ending.marks, writer)
        return self._string


class ChannelCodeReader(ChoosingReader):
    """Reads a call whose message is code, or a JSON object with the arguments.

    It is JSON if the first character is a brace: then *json* reads it, else *code*.
    """

    def __init__(self, json: NamedJSONReader, code: VerbatimReader) -> None:
        self.end = json.end
        self._json = json
        self._default = code

    def _choose(self, scanner: Scanner) -> BodyReader | None:
        begins = skip_gap(scanner.text, scanner.at)
        if begins == len(scanner.text):
            return None
        is_json = begins is not None and scanner.text.startswith("{", begins)
        return self._json if is_json else self._default
