"""The header of a message, and the call that the message may be.

A header is taken as it comes, so that it may have begun in the prompt, and judged as a whole: it is
not done, it is not one, or something follows it. What follows is a channel, which ends the body, or
a call, which the body continues with. A header that is not one is prose: its marker is text.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Protocol

from penstock.errors import JSONParseError, ParseError
from penstock.parsing.call_sink import CallSink, RepairedCall
from penstock.parsing.readers.base import OpenString, Verdict
from penstock.parsing.readers.envelope import Envelope, repair_body
from penstock.parsing.readers.json_calls import MAX_BLANK, JSONCallReader
from penstock.parsing.readers.tagged.strings import MAX_GAP, PlainString
from penstock.parsing.reasoning import Channel
from penstock.parsing.scanner import Scanner, markers
from penstock.values.incremental_state import Change

# Messages that hold a call in JSON, up to an end marker.
#
# Either all of the call stands there, or its name is in the header and its arguments alone
# stand there: an object, JSON inside a string, or null; nothing at all before an end marker is
# an empty object, too. After the JSON surplus brackets are dropped; any other text is the
# message's.


_BLANK: Final = re.compile(rf"[ \t\r\n]{{0,{MAX_BLANK + 1}}}")
_SURPLUS: Final = ("}", "]", ",", ";")
_ARGUMENTS: Final = "arguments"


class JSONMessageReader(JSONCallReader):
    """Reads the calls of one message.

    It ends with one of *ends*; *after* is the channel of what else comes before that.
    """

    def __init__(self, ends: tuple[str, ...] = (), behind: Channel | None = None) -> None:
        super().__init__(ends[0] if ends else "")
        self.enters: Channel | None = None
        self._ends = ends
        self._behind = behind

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: a value that is whole stands without its end marker."""
        verdict = super().finish(scanner, calls)
        if verdict is Verdict.DONE and begins_any(self._ends, scanner.unread.lstrip()):
            scanner.at = len(scanner.text)  # the piece of a cut marker is not a content
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
        """Look for an end marker or another value; None tells to continue."""
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

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        if not self._has_begun:
            verdict = self._begin(scanner, calls)
            if verdict is not None:
                return verdict
        return super().read(scanner, calls)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: a value that is whole stands without its end marker."""
        if self._has_begun:
            return super().finish(scanner, calls)
        self.error = "the call was cut"
        return Verdict.GIVE_UP

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make a call of *text*, which holds JSON that is broken, or not whole."""
        del ended
        try:
            value, repairs, text = repair_body(text, *self._ends)
        except JSONParseError:
            return []
        if not isinstance(value, dict):
            return []
        mended, envelope = RepairedCall(self._name, value, repairs, written=text), self._envelope
        is_same = envelope is None or envelope.agrees_with(mended, self.open_text())
        return [mended] if is_same else []

    def _begin(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
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
        """Follow *changes* as those of the arguments in an envelope that nobody has written."""
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

    def _begins_another(self, text: str, at: int) -> bool:
        """Return that a message has one value: what looks like another is text."""
        del text, at
        return False


def begins_any(markers: tuple[str, ...], piece: str) -> bool:
    """Return whether *piece* is the beginning of one of *markers*."""
    return bool(piece) and any(marker.startswith(piece) for marker in markers)


MAX_HEADER: Final = 240
"""How many characters a header may have: a long name of a tool, and some junk."""

OUTSIDE: Final = Channel("text", (), interrupted=True)
"""Text in no channel, after a message: a header may follow."""

_GAP: Final = re.compile(rf"\s{{0,{MAX_GAP + 1}}}")
_RECIPIENT: Final = "to="
_THINK: Final = "<think>"
_THINK_END: Final = "</think>"

Opening = tuple[str, Channel | None]
"""Text to be read as if it stood before the answer, and the channel to read it in."""


class MessageCall(Protocol):
    """A body after a header: a call that may be repaired, and that says what follows it."""

    error: str | ParseError
    end: str

    @property
    def enters(self) -> Channel | None:
        """The channel that begins where the call is done."""

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on."""

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended."""

    def run(self) -> OpenString | None:
        """Return the string that streams just now."""

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, all that comes after the header."""

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams just now."""


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
        self._given = -1  # how much of it is in the prompt
        self._channel: Channel | None = None
        self._call: MessageCall | None = None

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
        verdict = self._call.read(scanner, calls)
        self.error, self.end = self._call.error, self._call.end
        return verdict

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: a header that was cut is what text it is."""
        if self._call is None:
            return Verdict.NOT_A_CALL
        verdict = self._call.finish(scanner, calls)
        self.error, self.end = self._call.error, self._call.end
        return verdict

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        return None if self._call is None else self._call.run()

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Let the call be repaired; of *text* only what comes after the header is its own."""
        if self._call is None:
            return []
        at = text.find(self.last)
        behind = text[at + len(self.last) :] if at != -1 else text
        return self._call.mend(behind, ended=ended)

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams just now."""
        return None if self._call is None else self._call.open_text()

    def _read_header(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Take more of the header; None tells that a call follows it."""
        if scanner.offset + scanner.at == 0:  # No marker comes before it in the answer.
            self._given = len(self._header)
        room = MAX_HEADER - len(self._header)
        piece = scanner.text[scanner.at : scanner.at + room]
        self._header += piece
        scanner.at += len(piece)
        found = self._judge(self._header, calls)
        if found is Verdict.MORE and len(self._header) >= MAX_HEADER:
            return Verdict.NOT_A_CALL
        if isinstance(found, Verdict):
            return found
        scanner.at -= len(self._header) - found.size
        if isinstance(found.follows, Channel):
            self._channel = found.follows
            return Verdict.DONE
        self._call = found.follows
        return None

    def _judge(self, header: str, calls: CallSink) -> Opened | Verdict:
        """Return what *header* is: whole, `MORE` or `PROSE`."""
        raise NotImplementedError

    def _is_answer(self, header: str, *words: str) -> bool:
        """Return whether the answer begins without a header, though the prompt has begun one.

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
    """Passes a mark that closes a message, or nothing: what follows is in no channel."""

    def _judge(self, header: str, calls: CallSink) -> Opened:
        """Return that the mark is all there is."""
        del header, calls
        return Opened(0, OUTSIDE)


def skip_gap(text: str, at: int) -> int | None:
    """Skip white space from *at* on; None where there is too much of it."""
    found = _GAP.match(text, at)
    end = found.end() if found else at
    return None if end - at > MAX_GAP else end


def opened_thought(prompt: str, ends: tuple[str, ...]) -> Opening | None:
    """Return the thought that a *prompt* opens as it may for any model; *ends* end it, too."""
    if not prompt.rstrip().endswith(_THINK):
        return None
    return "", Channel("thinking", (_THINK_END, *ends), interrupted=True)


def opened_from(prompt: str, *markers: str) -> Opening | None:
    """Return the end of *prompt* from the last of *markers* on; the first that it has counts."""
    for marker in markers:
        at = prompt.rfind(marker)
        if at != -1:
            return prompt[at:], None
    return None


# A call whose one argument is the text of its message, as it stands: code, or free text.
#
# Nothing in such a text is escaped. It reaches to the first marker that ends its message; where
# the format has no such marker the end of the answer is as good.


CODE: Final = "code"
"""The argument of `python` that takes code."""


class VerbatimReader:
    """Reads a call of *name* with the text as *key*.

    Any of *ends* ends it; so does any of *borders*, which belongs to what follows. With *stands*,
    the end of the answer does, too.
    """

    def __init__(
        self,
        name: str,
        key: str,
        ends: tuple[str, ...],
        borders: tuple[str, ...] = (),
        *,
        stands: bool = False,
    ) -> None:
        self.error: str | ParseError = ""
        self.end = ends[0] if ends else ""
        self.enters: Channel | None = None
        self._name = name
        self._key = key
        self._ends = ends
        self._marks = markers(*ends, *borders)
        self._stands = stands
        self._string: PlainString | None = None

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on, up to what ends the text."""
        string = self._string or self._open(calls)
        found = self._marks.find(scanner.text, scanner.at)
        if found is None:
            _add(string, scanner, self._marks.find_held(scanner.text, scanner.at))
            return Verdict.MORE
        _add(string, scanner, found.start())
        scanner.at = found.end() if found[0] in self._ends else found.start()
        self._close(string, calls)
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended."""
        string = self._string or self._open(calls)
        _add(string, scanner, len(scanner.text))
        if self._stands:
            self._close(string, calls)
            return Verdict.DONE
        self.error = "the call was cut"
        return Verdict.GIVE_UP

    def run(self) -> OpenString | None:
        """Return the text as a run."""
        return None if self._string is None else self._string.run()

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Take all of *text*, if the model ended where it does."""
        del text
        written = self.open_text()
        if not ended or written is None:
            return []
        return [RepairedCall(self._name, {self._key: written}, ["closed the message"])]

    def open_text(self) -> str | None:
        """Return what has gone out so far."""
        return None if self._string is None else self._string.gone_out()

    def _open(self, calls: CallSink) -> PlainString:
        writer = calls.open(self._name)
        writer.open_text(self._key)
        self._string = PlainString(self._marks, writer)
        return self._string

    def _close(self, string: PlainString, calls: CallSink) -> None:
        string.close("")
        calls.close()


class ChannelCodeReader:
    """Reads a call of *name* whose message is code, or a JSON object with the arguments.

    It is an object where the first thing of it is a brace. *json* reads that; *code* the rest.
    """

    def __init__(self, json: NamedJSONReader, code: VerbatimReader) -> None:
        self.error: str | ParseError = ""
        self.end = json.end
        self._json = json
        self._code = code
        self._chosen: MessageCall | None = None

    @property
    def enters(self) -> Channel | None:
        """The channel that begins where the body is done."""
        return None if self._chosen is None else self._chosen.enters

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Look at how the message begins, then read it."""
        chosen = self._chosen or self._choose(scanner)
        if chosen is None:
            return Verdict.MORE
        verdict = chosen.read(scanner, calls)
        self.error = chosen.error
        return verdict

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended."""
        verdict = (self._chosen or self._code).finish(scanner, calls)
        self.error = (self._chosen or self._code).error
        return verdict

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        return None if self._chosen is None else self._chosen.run()

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Let the reader repair that was chosen."""
        return [] if self._chosen is None else self._chosen.mend(text, ended=ended)

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams just now."""
        return None if self._chosen is None else self._chosen.open_text()

    def _choose(self, scanner: Scanner) -> MessageCall | None:
        begins = skip_gap(scanner.text, scanner.at)
        if begins == len(scanner.text):
            return None
        is_json = begins is not None and scanner.text.startswith("{", begins)
        self._chosen = self._json if is_json else self._code
        return self._chosen


def _add(string: PlainString, scanner: Scanner, end: int) -> None:
    if end > scanner.at:
        piece = scanner.text[scanner.at : end]
        scanner.at = end
        string.add(piece)
