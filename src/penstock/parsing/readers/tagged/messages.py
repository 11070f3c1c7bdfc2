"""Calls with raw values: a section of them, each with arguments between tags, nothing escaped.

The tags are tokens that a model does not write as data: a value ends at its closing tag, and where
that was forgotten before an argument that is missing or the end of the call. Any other tag inside a
value makes the call incomplete. A call is complete with its own end tag. What is in a section and
is not a call is text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from penstock.errors import ParseError
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.readers.base import OpenString, Verdict
from penstock.parsing.readers.channels import OUTSIDE, begins_any, skip_gap
from penstock.parsing.readers.plausible import TURN_ENDS
from penstock.parsing.readers.tagged.endings import (
    DOUBLED_NOTE,
    MAX_SKIPPED,
    UnclearError,
    closed_note,
    is_prose,
    skipped_note,
)
from penstock.parsing.readers.tagged.strings import DATA, MORE, OpenValue, PlainString, read_value
from penstock.parsing.readers.tagged.tags import (
    RawTag,
    attributes_of_raw_tags,
    is_self_closing_raw_tags,
)
from penstock.parsing.reasoning import Channel
from penstock.parsing.scanner import Markers, Scanner, markers
from penstock.values.rxml.elements import is_list
from penstock.values.schema import Schema

_CUT: Final = "the call was cut"
_SOMETHING_ELSE: Final = "something else than an argument, or the end of the call"


class RawGrammar(Protocol):
    """How a section of calls is written, and what its values say."""

    section: str
    section_end: str
    call: RawTag
    call_end: str
    argument: RawTag
    argument_end: str
    tokens: tuple[str, ...]
    """What tags consist of or begin with: no value has one."""
    separator: str
    """The token that ends every tag, where there is one."""

    def name_of(self, attributes: Mapping[str, str]) -> str:
        """Return the name of the tool that a call's *attributes* say.

        Empty where there is not one.
        """

    def key_of(self, attributes: Mapping[str, str]) -> str | None:
        """Return the key that an argument's *attributes* say."""

    def is_text(self, attributes: Mapping[str, str], schema: Schema | None) -> bool:
        """Return whether the value of an argument is its text, as it stands."""

    def value_of(self, text: str, attributes: Mapping[str, str], schema: Schema | None) -> Any:
        """Return what *text* says as the value of an argument."""


class RawCalls:
    """Reads the calls of a section.

    The call of *name* has been opened already; without one the section has, or with *leads* is
    still to come. *ends* end the message after the section; *after* is the channel of any other
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
        self._is_unclear = False  # no repair can tell what was meant
        self._count = 0  # of calls that are complete
        self._arguments: RawArguments | None = None

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        try:
            return self._read_on(scanner, calls)
        except NoCallError as exc:
            self.error = str(exc)
            self._is_unclear = isinstance(exc, UnclearError)
            return Verdict.BROKEN

    def _read_on(self, scanner: Scanner, calls: CallSink) -> Verdict:
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

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: the calls stand that are complete."""
        del calls
        if self._arguments is not None:
            self._arguments.cut(scanner)
            self.error = _CUT
            return Verdict.GIVE_UP  # What looks like a call in it may are in a value.
        if not self._count:
            return Verdict.NOT_A_CALL
        if begins_any((self._grammar.section_end, *self._ends), scanner.unread.lstrip()):
            scanner.at = len(scanner.text)  # the piece of a cut marker is not a content
        return Verdict.DONE

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        return None if self._arguments is None else self._arguments.run()

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Close the call that is open, if it is clear that the model ended inside it.

        Text after its last argument is not a part of it.
        """
        arguments, grammar = self._arguments, self._grammar
        if arguments is None or self._is_unclear:
            return []
        bare = text.rstrip()
        has_ended = ended or bare.endswith(TURN_ENDS)
        rest = ""
        if not arguments.is_open:
            rest = text.rpartition(grammar.argument_end)[2] if arguments.given else ""
            said = _without(rest, (grammar.section_end, *self._ends, *TURN_ENDS))
            if text.count(grammar.argument_end) != arguments.closings:
                return []
            if any(token in said for token in grammar.tokens):
                return []
            rest = rest if said.strip() else ""
        elif not has_ended:
            return []
        with suppress(NoCallError):
            written = arguments.so_far()
            return [RepairedCall(self._name, written, ["closed the call"], rest=rest)]
        return []

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams just now."""
        return None if self._arguments is None else self._arguments.open_text()

    # --- calls ---

    def _open(self, name: str, calls: CallSink) -> None:
        self._name = name
        self._arguments = RawArguments(self._grammar, calls, name)

    def _read_call(
        self, arguments: RawArguments, scanner: Scanner, calls: CallSink
    ) -> Verdict | None:
        verdict = arguments.read(scanner)
        if verdict is not Verdict.DONE:
            return verdict
        self._close(calls)
        return Verdict.DONE if self._is_single else None

    def _close(self, calls: CallSink) -> None:
        calls.close()
        self._arguments, self._name = None, ""
        self._count += 1

    # --- between calls ---

    def _read_between(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Pass white space, and take the mark that follows; None tells to continue."""
        text, at = scanner.text, skip_gap(scanner.text, scanner.at)
        if at == len(text):
            return Verdict.MORE
        if at is not None:
            for mark in self._expected:
                if text.startswith(mark, at):
                    scanner.at = at + len(mark)
                    return self._pass(mark)
            call = None if self._has_ended else self._grammar.call.match(text, at)
            name = self._grammar.name_of(attributes_of_raw_tags(call)) if call else ""
            if call and self._grammar.call.is_damaged(call) and name not in calls.schemas:
                name = ""
            if call and name:
                scanner.at = call.end()
                self._leads = False
                self._open(name, calls)
                if is_self_closing_raw_tags(call):
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
        """Go on in *channel*; after a call the machine knows that it is in none."""
        is_known = channel is OUTSIDE and self._count > 0
        self.enters = None if is_known else channel
        return Verdict.DONE


class RawArguments:
    """Reads the arguments of the call of *name*, up to its end tag, and writes them to *calls*."""

    def __init__(self, grammar: RawGrammar, calls: CallSink, name: str) -> None:
        self.given: set[str] = set()
        self.closings = 0  # closing tags of arguments that were read
        self._grammar = grammar
        self._calls = calls
        self._schema = calls.schemas.get(name)
        self._writer = calls.open(name)
        self._tokens = markers(*grammar.tokens, *TURN_ENDS)
        self._closer = _ArgumentEnd(grammar, self._tokens, self.is_missing)
        self._key = ""
        self._attributes: Mapping[str, str] = {}
        self._value: OpenValue | None = None
        self._lists: dict[str, list[tuple[Mapping[str, str], str]]] = {}  # may come again
        self._follows_value = False

    @property
    def is_open(self) -> bool:
        """Whether a value is."""
        return self._value is not None

    def is_missing(self, key: str) -> bool:
        """Return whether *key* is an argument that was not given; of an unknown tool any is."""
        is_given = key in self.given or (self.is_open and key == self._key)
        if self._schema is None or not self._schema.properties:
            return not is_given
        return key in self._schema.properties and not is_given

    def read(self, scanner: Scanner) -> Verdict:
        """Read on; `DONE` tells that the end tag of the call has been read."""
        verdict = None
        while verdict is None and scanner.at < len(scanner.text):
            verdict = self._step(scanner)
        return verdict or Verdict.MORE

    def cut(self, scanner: Scanner) -> None:
        """Say that the text has ended: an open value takes what was held back."""
        with suppress(NoCallError):
            if self._value is not None:
                self._read_value(self._value, scanner, final=True)
        scanner.at = len(scanner.text)

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        return None if self._value is None else self._value.run()

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams just now."""
        return None if self._value is None else self._value.gone_out()

    def so_far(self) -> dict[str, Any]:
        """Return the arguments that are written, and what there is of the open one.

        Raises `NoCallError` where that is nothing.
        """
        written = dict(self._writer.arguments)
        lists = {key: list(texts) for key, texts in self._lists.items()}
        if self._value is not None:
            text = self._value.text if isinstance(self._value, _KeptText) else self.open_text()
            if not (text or "").strip():
                raise NoCallError("no value")
            if isinstance(self._value, _KeptText):
                lists.setdefault(self._key, []).append((self._attributes, self._value.text))
            else:
                written[self._key] = text
        return written | {key: self._list_of(key, texts) for key, texts in lists.items()}

    def _step(self, scanner: Scanner) -> Verdict | None:
        """Take one step; None tells to continue."""
        if self._value is not None:
            return None if self._read_value(self._value, scanner) else Verdict.MORE
        grammar, text = self._grammar, scanner.text
        start = at = skip_gap(text, scanner.at)
        while at is not None and at - scanner.at <= MAX_SKIPPED:
            if text.startswith(grammar.call_end, at):
                required = self._schema.required if self._schema is not None else ()
                self._skip(text[start:at], is_clear=bool(self.given) and self.given >= {*required})
                scanner.at = at + len(grammar.call_end)
                for name, texts in self._lists.items():
                    self._writer.write(name, self._list_of(name, texts))
                return Verdict.DONE
            tag = grammar.argument.match(text, at)
            key = grammar.key_of(attributes_of_raw_tags(tag)) if tag else None
            if tag and key is not None:
                self._skip(text[start:at], is_clear=self.is_missing(key))
                if grammar.argument.is_damaged(tag):
                    self._repair_tag(key)
                scanner.at = tag.end()
                self._open(key, attributes_of_raw_tags(tag))
                return None
            if at == len(text) or self._may_come(text, at):
                return Verdict.MORE
            surplus = self._find_surplus(text, at) if at == start else 0
            if surplus:
                scanner.at = surplus
                return None
            end = self._find_next(text, at)
            if end is None:
                return Verdict.MORE
            at = end
        raise NoCallError(_SOMETHING_ELSE)

    def _may_come(self, text: str, at: int) -> bool:
        """Return whether more text may make a tag or a token of what is at *at*."""
        grammar = self._grammar
        ends = (grammar.argument_end, grammar.call_end, grammar.section_end)
        doubled = (token * 2 for token in grammar.tokens)
        expected = (*ends, grammar.call.opening, *grammar.tokens, *doubled, *TURN_ENDS)
        rest = text[at : at + max(map(len, expected))]
        return begins_any(expected, rest) or grammar.argument.is_begun(text, at)

    def _repair_tag(self, key: str) -> None:
        """Note that the tag of *key* is damaged: only an argument that is missing is meant."""
        if self._schema is None or not self.is_missing(key):
            raise UnclearError("a damaged tag of an argument")
        self._calls.note(f"repaired the tag of {key!r}")

    def _find_surplus(self, text: str, at: int) -> int:
        """Return where a tag or a token ends that came twice; 0 where there is not one."""
        grammar = self._grammar
        if self._follows_value and text.startswith(grammar.argument_end, at):
            self._follows_value = False
            self.closings += 1
            self._calls.note(DOUBLED_NOTE)
            return at + len(grammar.argument_end)
        for token in grammar.tokens:
            if text.startswith(token, at):
                is_doubled = text.startswith(token, at + len(token))
                return at + len(token) if is_doubled or token == grammar.separator else 0
        return 0

    def _find_next(self, text: str, at: int) -> int | None:
        """Return where the words or the end of the turn at *at* end; None for not yet."""
        grammar = self._grammar
        found = self._tokens.find(text, at)
        if found is None:
            held = self._tokens.find_held(text, at)
            return held if held > at else None
        if found.start() > at:
            return found.start()
        if found[0] in TURN_ENDS:
            return found.end()
        if text.startswith((grammar.section_end, grammar.call.opening), at):
            raise NoCallError("no end of the call")
        raise UnclearError(_SOMETHING_ELSE)

    def _skip(self, text: str, *, is_clear: bool) -> None:
        """Note text before a tag, which *is_clear* if what follows is expected."""
        if not text.strip():
            return
        if not is_clear or not is_prose(text):
            raise UnclearError(_SOMETHING_ELSE)
        self._calls.note(skipped_note(text))

    def _open(self, key: str, attributes: Mapping[str, str]) -> None:
        schema = self._writer.child(key)
        if key in self.given and not is_list(schema):
            raise UnclearError(f"the argument {key!r} came twice")
        self._key, self._attributes = key, attributes
        self._closer.begin(key)
        if self._grammar.is_text(attributes, schema) and not is_list(schema):
            self._writer.open_text(key)
            self._value = PlainString(self._closer.marks, self._writer)
        else:
            self._value = _KeptText()

    def _read_value(self, value: OpenValue, scanner: Scanner, *, final: bool = False) -> bool:
        """Read on in the open value; return whether it has ended."""
        self._closer.value = value
        if not read_value(value, self._closer, scanner, final=final):
            return False
        self._value = None
        self._follows_value = not self._closer.is_forgotten
        if self._closer.is_forgotten:
            self._calls.note(closed_note(self._key))
        self.closings += self._follows_value
        self.given.add(self._key)
        if isinstance(value, _KeptText):
            if is_list(self._writer.child(self._key)):
                self._lists.setdefault(self._key, []).append((self._attributes, value.text))
            else:
                self._writer.write(self._key, self._value_of(value.text, self._attributes))
        return True

    def _list_of(self, key: str, texts: list[tuple[Mapping[str, str], str]]) -> Any:
        """Read an argument that may have come several times, to make a list."""
        found = [
            self._grammar.value_of(text, attributes, self._writer.child(key))
            for attributes, text in texts
        ]
        if len(found) == 1:
            return found[0]
        return [item for each in found for item in (each if isinstance(each, list) else [each])]

    def _value_of(self, text: str, attributes: Mapping[str, str]) -> Any:
        return self._grammar.value_of(text, attributes, self._writer.child(self._key))


class _ArgumentEnd:
    """The end of an argument: its closing tag, or what shows that it was forgotten."""

    def __init__(
        self, grammar: RawGrammar, tokens: Markers, is_missing: Callable[[str], bool]
    ) -> None:
        self.marks = tokens
        self.value: OpenValue | None = None
        self.is_forgotten = False  # the closing tag was
        self._grammar = grammar
        self._is_missing = is_missing
        self._key = ""

    def begin(self, key: str) -> None:
        """Say that the value of *key* begins."""
        self._key = key
        self.is_forgotten = False

    def judge(self, text: str, at: int, *, final: bool) -> int:
        """Judge a token inside a value."""
        grammar = self._grammar
        if text.startswith(grammar.argument_end, at):
            return at + len(grammar.argument_end)
        tag = grammar.argument.match(text, at)
        key = grammar.key_of(attributes_of_raw_tags(tag)) if tag else None
        if text.startswith(grammar.call_end, at) or (key is not None and self._is_missing(key)):
            if self._text.endswith("\n"):  # Is it a part of the value?
                raise UnclearError(f"no end of the value of {self._key}")
            self.is_forgotten = True
            return at
        ends = (grammar.argument_end, grammar.call_end)
        rest = text[at : at + max(map(len, ends))]
        if not final and (begins_any(ends, rest) or grammar.argument.is_begun(text, at)):
            return MORE
        found = self.marks.find(text, at)
        token = found[0] if found else ""
        if final and found and found.end() == len(text):
            return DATA
        if token in TURN_ENDS:
            raise NoCallError(f"the turn ended inside the value of {self._key}")
        raise UnclearError(f"{token} inside the value of {self._key}")

    @property
    def _text(self) -> str:
        value = self.value
        return (value.text if isinstance(value, _KeptText) else value and value.gone_out()) or ""


def _without(text: str, tokens: tuple[str, ...]) -> str:
    for token in tokens:
        text = text.replace(token, "")
    return text


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
