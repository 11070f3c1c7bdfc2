"""Calls with raw values: a section of them, each with arguments between tags, nothing escaped.

A value may hold its own closing tag: that ends it only where, white space aside, another argument,
the end of the call or of the section, another call or the end of the answer follows. A call is
complete with its own end tag. What stands in a section and is no call is text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from penstock.errors import ParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.bodies.base import Run, Verdict
from penstock.parsing.bodies.channels.json_messages import begins_any
from penstock.parsing.bodies.channels.messages import OUTSIDE, skip_gap
from penstock.parsing.bodies.channels.raw_tags import RawTag, attributes_of, is_self_closing
from penstock.parsing.bodies.closers import DATA, MORE
from penstock.parsing.bodies.open_strings import OpenValue, PlainString, read_value
from penstock.parsing.calls import Calls, Mended
from penstock.parsing.reasoning import Channel
from penstock.parsing.scanner import Markers, Scanner, markers
from penstock.values.schema import Schema

_CUT: Final = "the call was cut"


class RawGrammar(Protocol):
    """How a section of calls is written, and what its values say."""

    section: str
    section_end: str
    call: RawTag
    call_end: str
    argument: RawTag
    argument_end: str

    def name_of(self, attributes: Mapping[str, str]) -> str:
        """Give the name of the tool that a call's *attributes* say; empty where there is none."""

    def key_of(self, attributes: Mapping[str, str]) -> str | None:
        """Give the key that an argument's *attributes* say."""

    def is_text(self, attributes: Mapping[str, str], schema: Schema | None) -> bool:
        """Tell whether the value of an argument is its text, as it stands."""

    def value_of(self, text: str, attributes: Mapping[str, str], schema: Schema | None) -> Any:
        """Give what *text* says as the value of an argument."""


class RawCalls:
    """Reads the calls of a section.

    The call of *name* has been opened already; without one the section has, or with *leads* is
    still to come. *ends* end the message behind the section; *behind* is the channel of any other
    text.
    """

    def __init__(
        self,
        grammar: RawGrammar,
        name: str = "",
        *,
        leads: bool = False,
        ends: tuple[str, ...] = (),
        behind: Channel = OUTSIDE,
    ) -> None:
        self.error: str | ParseError = ""
        self.end = grammar.call_end
        self.enters: Channel | None = None
        self._grammar = grammar
        self._name = name
        self._is_single = bool(name)
        self._leads = leads
        self._ends = ends
        self._behind = behind
        self._has_ended = False  # the section has, the message has not
        self._count = 0  # of calls that are complete
        self._arguments: RawArguments | None = None

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        if self._name and self._arguments is None:
            self._open(self._name, calls)
        while scanner.at < len(scanner.text):
            verdict = (
                self._read_between(scanner, calls)
                if self._arguments is None
                else self._read_call(self._arguments, scanner, calls)
            )
            if verdict is not None:
                return verdict
        return Verdict.MORE

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended: the calls stand that are complete."""
        del calls
        if self._arguments is not None:
            self._arguments.cut(scanner)
            self.error = _CUT
            return Verdict.TEXT  # What looks like a call in it may stand in a value.
        if not self._count:
            return Verdict.PROSE
        if begins_any((self._grammar.section_end, *self._ends), scanner.unread.lstrip()):
            scanner.at = len(scanner.text)  # the piece of a cut marker is no content
        return Verdict.DONE

    def run(self) -> Run | None:
        """Give the string that streams just now, if there is one."""
        return None if self._arguments is None else self._arguments.run()

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Close the call that is open, if the model ended inside it."""
        del text
        if not ended or self._arguments is None:
            return []
        return [Mended(self._name, self._arguments.so_far(), ["closed the call"])]

    def open_text(self) -> str | None:
        """Give what has gone out of the string that streams just now."""
        return None if self._arguments is None else self._arguments.open_text()

    # --- calls ---

    def _open(self, name: str, calls: Calls) -> None:
        self._name = name
        self._arguments = RawArguments(self._grammar, calls.open(name))

    def _read_call(self, arguments: RawArguments, scanner: Scanner, calls: Calls) -> Verdict | None:
        verdict = arguments.read(scanner)
        if verdict is Verdict.BROKEN:
            self.error = arguments.error
        if verdict is not Verdict.DONE:
            return verdict
        self._close(calls)
        return Verdict.DONE if self._is_single else None

    def _close(self, calls: Calls) -> None:
        calls.close()
        self._arguments, self._name = None, ""
        self._count += 1

    # --- between calls ---

    def _read_between(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        """Pass white space, and take the mark that follows; None tells to go on."""
        text, at = scanner.text, skip_gap(scanner.text, scanner.at)
        if at == len(text):
            return Verdict.MORE
        if at is not None:
            for mark in self._expected:
                if text.startswith(mark, at):
                    scanner.at = at + len(mark)
                    return self._pass(mark)
            call = None if self._has_ended else self._grammar.call.match(text, at)
            name = self._grammar.name_of(attributes_of(call)) if call else ""
            if call and name:
                scanner.at = call.end()
                self._leads = False
                self._open(name, calls)
                if is_self_closing(call):
                    self._close(calls)
                return None
            if self._may_come(text, at):
                return Verdict.MORE
        return self._leave(self._behind)

    @property
    def _expected(self) -> tuple[str, ...]:
        grammar = self._grammar
        if self._has_ended:
            return self._ends
        if self._leads:
            return (grammar.section, *self._ends)
        return (grammar.section_end, *self._ends)

    def _may_come(self, text: str, at: int) -> bool:
        rest = text[at : at + max(map(len, self._expected), default=0)]
        if begins_any(self._expected, rest):
            return True
        return not self._has_ended and self._grammar.call.is_begun(text, at)

    def _pass(self, mark: str) -> Verdict | None:
        if mark in self._ends:
            return self._leave(OUTSIDE)
        if self._leads:
            self._leads = False
            return None
        self._has_ended = True
        return None if self._ends else self._leave(OUTSIDE)

    def _leave(self, channel: Channel) -> Verdict:
        """Go on in *channel*; behind a call the machine knows that it is in none."""
        is_known = channel is OUTSIDE and self._count > 0
        self.enters = None if is_known else channel
        return Verdict.DONE


class RawArguments:
    """Reads the arguments of one call, up to its end tag, and writes them to *writer*."""

    def __init__(self, grammar: RawGrammar, writer: ArgumentWriter) -> None:
        self.error: str | ParseError = ""
        self._grammar = grammar
        self._writer = writer
        self._closer = _ArgumentEnd(grammar)
        self._key = ""
        self._attributes: Mapping[str, str] = {}
        self._value: OpenValue | None = None

    def read(self, scanner: Scanner) -> Verdict:
        """Read on; `DONE` tells that the end tag of the call has been read."""
        verdict = None
        while verdict is None and scanner.at < len(scanner.text):
            verdict = self._step(scanner)
        return verdict or Verdict.MORE

    def cut(self, scanner: Scanner) -> None:
        """Say that the text has ended: an open value takes what was held back."""
        if self._value is not None:
            self._read_value(self._value, scanner, final=True)
        scanner.at = len(scanner.text)

    def run(self) -> Run | None:
        """Give the string that streams just now, if there is one."""
        return None if self._value is None else self._value.run()

    def open_text(self) -> str | None:
        """Give what has gone out of the string that streams just now."""
        return None if self._value is None else self._value.gone_out()

    def so_far(self) -> dict[str, Any]:
        """Give the arguments that are written, and what there is of the open one."""
        written = dict(self._writer.arguments)
        if isinstance(self._value, _KeptText):
            written[self._key] = self._value_of(self._value.text)
        elif self._value is not None:
            written[self._key] = self._value.gone_out()
        return written

    def _step(self, scanner: Scanner) -> Verdict | None:
        """Take one step; None tells to go on."""
        if self._value is not None:
            return None if self._read_value(self._value, scanner) else Verdict.MORE
        grammar, text = self._grammar, scanner.text
        at = skip_gap(text, scanner.at)
        if at is None:
            self.error = "too much white space between arguments"
            return Verdict.BROKEN
        if text.startswith(grammar.call_end, at):
            scanner.at = at + len(grammar.call_end)
            return Verdict.DONE
        tag = grammar.argument.match(text, at)
        key = grammar.key_of(attributes_of(tag)) if tag else None
        if tag and key is not None:
            scanner.at = tag.end()
            self._open(key, attributes_of(tag))
            return None
        rest = text[at : at + len(grammar.call_end)]
        if not rest or begins_any((grammar.call_end,), rest) or grammar.argument.is_begun(text, at):
            return Verdict.MORE
        self.error = "something else than an argument, or the end of the call"
        return Verdict.BROKEN

    def _open(self, key: str, attributes: Mapping[str, str]) -> None:
        self._key, self._attributes = key, attributes
        if self._grammar.is_text(attributes, self._writer.child(key)):
            self._writer.open_text(key)
            self._value = PlainString(self._closer.marks, self._writer)
        else:
            self._value = _KeptText()

    def _read_value(self, value: OpenValue, scanner: Scanner, *, final: bool = False) -> bool:
        """Read on in the open value; tell whether it has ended."""
        if not read_value(value, self._closer, scanner, final=final):
            return False
        self._value = None
        if isinstance(value, _KeptText):
            self._writer.write(self._key, self._value_of(value.text))
        return True

    def _value_of(self, text: str) -> Any:
        return self._grammar.value_of(text, self._attributes, self._writer.child(self._key))


class _ArgumentEnd:
    """The closing tag of an argument, where something follows that may follow one."""

    def __init__(self, grammar: RawGrammar) -> None:
        self.marks: Markers = markers(grammar.argument_end)
        self._tag = grammar.argument_end
        self._followers = (
            grammar.argument.opening, grammar.call_end, grammar.section_end, grammar.call.opening
        )  # fmt: skip
        self._longest = max(map(len, self._followers))

    def judge(self, text: str, at: int, *, final: bool) -> int:
        """Judge a closing tag by what follows it."""
        end = at + len(self._tag)
        follows = skip_gap(text, end)
        if follows is None:
            return DATA
        rest = text[follows : follows + self._longest]
        if rest.startswith(self._followers):
            return end
        if rest and not begins_any(self._followers, rest):
            return DATA
        return end if final else MORE


class _KeptText:
    """A value that is kept until it is whole."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def add(self, piece: str) -> None:
        self._pieces.append(piece)

    def close(self, mark: str) -> None:
        del mark

    def flush(self) -> None:
        pass

    def gone_out(self) -> None:
        return None

    def run(self) -> None:
        return None
