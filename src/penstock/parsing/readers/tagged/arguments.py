"""The parameters of one call, read as they arrive, up to the end of the call.

Between values there are tags and white space. A sentence there, or a token that ends the turn, is
skipped and noted if a parameter follows that is missing, or the end of the call; anything else
makes the call incomplete. The call begins with the first of these tags: until then nothing of it
goes out.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final, NamedTuple

from penstock.errors import ParseError
from penstock.parsing.call_sink import CallSink, NoCallError
from penstock.parsing.readers.base import OpenString, Verdict
from penstock.parsing.readers.envelope import JSONArgumentReader
from penstock.parsing.readers.tagged.dialect import Grammar, TagKind, Token
from penstock.parsing.readers.tagged.endings import (
    DOUBLED_NOTE,
    MAX_SKIPPED,
    SECTION,
    AnyClosingTag,
    Ending,
    SectionEnd,
    TreeEnding,
    UnclearError,
    ValueEnding,
    closed_note,
    is_prose,
    read_text,
    skipped_note,
)
from penstock.parsing.readers.tagged.tags import attributes_of, is_self_closing, key_of
from penstock.parsing.readers.tagged.values import CollectedText, OpenText, StreamedText
from penstock.parsing.readers.tagged.writer import Parameter, ParameterWriter
from penstock.parsing.scanner import Scanner, markers
from penstock.values.schema import Schema

_SOMETHING_ELSE: Final = "something else than a parameter or the end of the call"


class _Step(NamedTuple):
    """The next tag between values, with the text before it that says nothing."""

    token: Token
    start: int
    skipped: str

    @property
    def has_text(self) -> bool:
        """Whether there is anything but white space before the tag."""
        return bool(self.skipped.strip())


class ParameterReader:
    """Reads the parameters of the call of *name*; *schema* is the tool's.

    With *repairs*, the text is whole and was refused: what was forgotten is added where it is clear
    what was meant.
    """

    def __init__(
        self, grammar: Grammar, name: str, schema: Schema | None, *, repairs: bool = False
    ) -> None:
        self.error: str | ParseError = ""
        self.is_json = False  # an object is in the place of the parameters
        self.is_unclear = False  # no repair can tell what was meant
        self.is_closed_early = False  # nothing but what follows tells that the call has ended
        self._grammar = grammar
        self._name = name
        self._schema = schema
        self._repairs = repairs
        self._writer: ParameterWriter | None = None  # once the call has begun
        self._key: str | None = None  # that came alone: its value has not begun
        self._parameter = Parameter("")  # whose value is open, or begins
        self._begins = False  # how the value begins is not known yet
        self._value: OpenText | None = None
        self._ending: Ending | None = None
        self._json: JSONArgumentReader | None = None
        self._follows_value = False  # nothing but white space came since the last value
        self._is_doubled = False  # the opening tag of a value came twice
        self._is_assigned = False  # the value was in its tag, whose end may follow

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; `DONE` tells that the end of the call has come, and that the call is open."""
        try:
            return self._read_on(scanner, calls)
        except NoCallError as exc:
            self.error = str(exc)
            self.is_unclear = isinstance(exc, UnclearError)
            return Verdict.BROKEN

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended; `DONE` tells that it ended with the call.

        An open value takes what was held back, or ends where more text could have made it continue.
        """
        try:
            if self._begins:
                self._open_value()
            value = self._value
            if value is None or not self._read_value(value, scanner, calls, final=True):
                return self._read_on(scanner, calls)
        except NoCallError as exc:
            self.is_unclear = isinstance(exc, UnclearError)
        return Verdict.MORE

    def close_early(self, scanner: Scanner, calls: CallSink) -> bool:
        """Close the call where its text has ended, and pass what belongs to it.

        Returns whether that is clear: a value that is open has text and no tag in it, and nothing
        was begun that was not given.
        """
        if self._json is not None or self._begins or self._key is not None:
            return False
        with suppress(NoCallError):
            if self._value is not None:
                self._close_value_early(self._value, scanner, calls)
            self._pass_rest(scanner)
            self._begun(calls).close()
            self.is_closed_early = True
            return True
        return False

    def _close_value_early(self, value: OpenText, scanner: Scanner, calls: CallSink) -> None:
        ending, tail = self._ending, scanner.unread
        assert ending is not None  # noqa: S101 - a value is open
        is_tag = len(tail) > 1 and self._grammar.may_become_token(scanner.text, scanner.at)
        if tail and not is_tag:
            value.add(tail)
        scanner.at = len(scanner.text)
        is_clear = isinstance(ending, ValueEnding) and ending.is_clear
        if (
            value.is_blank
            or (ending.has_markup and not is_clear)
            or isinstance(ending, TreeEnding | AnyClosingTag)
        ):
            raise UnclearError("an open value")
        value.close(forgotten=True)
        self._take_value(value, calls)

    def _pass_rest(self, scanner: Scanner) -> None:
        """Pass white space, ends of the turn and what is begun of an end; leave other text."""
        grammar, text = self._grammar, scanner.text
        at = scanner.at
        while at < len(text):
            at = grammar.skip_gap(text, at) or len(text)
            token = grammar.token(text, at)
            if token is None:
                if at < len(text) and not grammar.may_become_end(text, at):
                    if text[at] == "<" and grammar.may_become_token(text, at):
                        raise UnclearError("a parameter that was begun")
                    if self._writer is None:
                        raise UnclearError("text in the place of parameters")
                    return
                at = len(text)
            else:
                at = token.end
        scanner.at = len(text)

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        if self._json is not None:
            return self._json.run()
        return None if self._value is None else self._value.run()

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams just now."""
        if self._json is not None:
            return self._json.open_text()
        return None if self._value is None else self._value.gone_out()

    def _read_on(self, scanner: Scanner, calls: CallSink) -> Verdict:
        verdict = None
        while verdict is None:
            verdict = self._step(scanner, calls)
        return verdict

    def _step(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Take one step; None tells to continue."""
        if self._value is not None:
            return self._read_value(self._value, scanner, calls)
        if self._begins:
            return self._look_at_value(scanner)
        if self._json is not None:
            return self._read_json(self._json, scanner, calls)
        if self.is_json:
            return self._read_after_json(scanner, calls)
        return self._read_between(scanner, calls)

    def _begun(self, calls: CallSink) -> ParameterWriter:
        """Return the writer of the call, which begins here if it has not yet."""
        if self._writer is None:
            dialect = self._grammar.dialect
            self._writer = ParameterWriter(
                dialect, calls.open(self._name), self._schema, calls.note, repairs=self._repairs
            )
        return self._writer

    # --- between values ---

    def _read_between(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Pass white space and what says nothing, and take the tag that follows."""
        grammar, text = self._grammar, scanner.text
        at = grammar.skip_gap(text, scanner.at)
        if at is None:
            raise NoCallError("too much white space between tags")
        if at == len(text):
            return Verdict.MORE
        if self._writer is None and self._begin_otherwise(scanner, at, calls):
            return None
        step = self._find_tag(text, at)
        return Verdict.MORE if step is None else self._take(step, scanner, calls)

    def _find_tag(self, text: str, at: int) -> _Step | None:
        """Find the next tag from *at* on; None where only more text can tell."""
        grammar, start = self._grammar, at
        limit = len(text) if self._repairs else start + MAX_SKIPPED
        while True:
            token = grammar.token(text, at)
            if token is not None and token.kind is not TagKind.TURN_END:
                return _Step(token, at, text[start:at])
            if token is not None:
                at = token.end
            elif grammar.may_become_token(text, at):
                return None
            else:
                at = self._skip_text(text, at)
            if at > limit:
                raise NoCallError(_SOMETHING_ELSE)
            if at == len(text):
                return None

    def _skip_text(self, text: str, at: int) -> int:
        """Return where the text at *at* ends: before the next thing that may be a tag."""
        marks = self._grammar.marks
        found = marks.find(text, at + 1)
        end = found.start() if found else marks.find_held(text, at + 1)
        tag = text.find("<", at, end)
        if tag != -1 and not self._repairs:
            raise NoCallError(_SOMETHING_ELSE)
        return end

    def _take(self, step: _Step, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Take a tag between values."""
        kind = step.token.kind
        takes_text = kind in (TagKind.VALUE_END, TagKind.KEY)
        if step.has_text and not takes_text and not is_prose(step.skipped):
            raise UnclearError("a value without its tags")
        if kind is TagKind.CALL_END:
            return self._take_end(step, scanner, calls)
        if kind in (TagKind.CALL, TagKind.SECTION):
            return self._take_next_call(step, scanner, calls)
        if kind is TagKind.PARAMETER:
            self._take_parameter(step, scanner, calls)
        elif kind is TagKind.VALUE and self._key is not None:
            self._note(step, calls)
            scanner.at = step.token.end
            self._begin_value(Parameter(self._key))
            self._key = None
        elif kind is TagKind.VALUE_END:
            self._take_surplus_end(step, scanner, calls)
        elif kind is TagKind.KEY:
            return self._take_key(step, scanner, calls)
        elif kind in (TagKind.SECTION_END, TagKind.TRAIL):
            if self._repairs and self._writer is not None:
                return Verdict.MORE  # `close_early` takes it.
            raise NoCallError(f"{step.token.found[0]} without the end of the call")
        else:
            raise UnclearError(f"{step.token.found[0]} between parameters")
        return None

    def _note(self, step: _Step, calls: CallSink) -> None:
        """Note the text that was skipped before a tag."""
        if step.has_text:
            self._begun(calls)
            calls.note(skipped_note(step.skipped))

    def _take_end(self, step: _Step, scanner: Scanner, calls: CallSink) -> Verdict:
        """Take the end of the call."""
        if step.has_text:
            if self._writer is None or self._key is not None:
                raise NoCallError(_SOMETHING_ELSE)
            if not self._writer.has_required:
                raise UnclearError("text in the place of a required parameter")
        if self._key is not None and self._writer is not None:
            calls.note(f"dropped a parameter without a value: {self._key!r}")
        self._note(step, calls)
        self._begun(calls).close()
        scanner.at = step.token.end
        return Verdict.DONE

    def _take_next_call(self, step: _Step, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Take the beginning of another call: it ends this one, or is this one's again."""
        grammar, text = self._grammar, scanner.text
        if step.token.kind is TagKind.CALL and self._writer is None:
            opening = grammar.open_call(text, step.start)
            if opening is None and grammar.call.is_begun(text, step.start):
                return Verdict.MORE
            if opening is not None and opening.name == self._name and not step.skipped:
                scanner.at = opening.end
                return None
        if step.has_text or self._writer is None or self._key is not None:
            raise NoCallError("another call inside the call")
        if not self._writer.has_required:
            raise NoCallError("another call before the required parameters")
        calls.note("closed the call before the next one")
        self._writer.close()
        return Verdict.DONE

    def _take_parameter(self, step: _Step, scanner: Scanner, calls: CallSink) -> None:
        """Take the tag of a parameter."""
        grammar, token = self._grammar, step.token
        writer = self._begun(calls)
        parameter = _parameter_of(token.found)
        if step.skipped and (
            self._key is not None or not writer.is_missing(parameter.key, Parameter(""))
        ):
            raise UnclearError("text before a parameter that is not missing")
        self._note(step, calls)
        self._follows_value = self._is_assigned = False
        scanner.at = token.end
        if grammar.value is not None:
            if self._key is not None and self._key != parameter.key:
                calls.note(f"dropped a parameter without a value: {self._key!r}")
            self._key = parameter.key
        elif is_self_closing(token.found):
            writer.put_nothing(parameter)
        elif "=" in parameter.key and not step.token.found.groupdict().get("attributes"):
            self._take_assignment(parameter, calls)
        else:
            self._begin_value(parameter)

    def _take_assignment(self, parameter: Parameter, calls: CallSink) -> None:
        """Take ``<parameter=command=ls>``: the value is in the tag, if the tool has such a one."""
        writer = self._begun(calls)
        key, _, text = parameter.key.partition("=")
        key = key.strip()
        if writer.is_declared(parameter.key) or not writer.is_declared(key):
            self._begin_value(parameter)
            return
        calls.note(f"took the value of {key!r} out of its tag")
        writer.put_whole(Parameter(key), text.strip().strip("\"'"))
        self._follows_value = self._is_assigned = True  # Its end follows, or was forgotten.

    def _take_surplus_end(self, step: _Step, scanner: Scanner, calls: CallSink) -> None:
        """Take the end of a value that is not open: it came twice, or its beginning is missing."""
        nests = self._grammar.dialect.nests
        is_same = not nests or key_of(step.token.found) == self._parameter.key
        if self._follows_value and is_same and not step.has_text and not self._is_doubled:
            self._follows_value = False
            scanner.at = step.token.end
            if not self._is_assigned:
                calls.note(DOUBLED_NOTE)
            return
        key = self._key
        if nests:
            key = key_of(step.token.found)
            key = key if self._begun(calls).is_missing(key, Parameter("")) else None
        elif not self._repairs:
            key = None
        if key is None or not step.has_text:
            raise UnclearError("the end of a value that has no beginning")
        self._key = None
        scanner.at = step.token.end
        calls.note(f"added the beginning of the value of {key!r}")
        self._begun(calls).put_whole(Parameter(key), step.skipped.strip())
        self._follows_value = True

    def _take_key(self, step: _Step, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Take half of the tag of a key: the other half is missing, or it came twice."""
        token, text, grammar = step.token, scanner.text, self._grammar
        is_closing = token.found[0].startswith("</")
        if is_closing and self._key is not None and not step.has_text:
            scanner.at = token.end
            return None
        if not is_closing:
            at = grammar.skip_gap(text, token.end)
            if at is None or at == len(text):
                return Verdict.MORE
            again = grammar.token(text, at)
            if again is not None and again.kind is TagKind.PARAMETER and not step.skipped:
                scanner.at = at
                return None
            if grammar.may_become_token(text, at):
                return Verdict.MORE
        if not self._repairs:
            raise NoCallError("half a tag of a parameter")
        end = token.end
        if is_closing:
            key = step.skipped.strip()
        else:
            found = grammar.marks.find(text, end)
            if found is None:
                return Verdict.MORE
            key, end = text[end : found.start()].strip(), found.start()
        if self._key is not None or not self._begun(calls).is_missing(key, Parameter("")):
            raise UnclearError("half a tag of a parameter")
        calls.note(f"completed the tag of the parameter {key!r}")
        self._key = key
        self._follows_value = False
        scanner.at = end
        return None

    def _read_after_json(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Pass what follows the object that is in the place of the parameters."""
        grammar, text = self._grammar, scanner.text
        at = grammar.skip_gap(text, scanner.at)
        if at is None:
            raise NoCallError("too much white space between tags")
        if at == len(text):
            return Verdict.MORE
        ending = grammar.call_end.match(text, at)
        if ending is not None:
            self._begun(calls).close()
            scanner.at = ending.end()
            return Verdict.DONE
        if text[at] in "}]":  # models write too many
            scanner.at = at + 1
            return None
        if grammar.call_end.is_begun(text, at):
            return Verdict.MORE
        raise NoCallError("something else than the end of the call")

    def _begin_otherwise(self, scanner: Scanner, at: int, calls: CallSink) -> bool:
        """Begin what may be in the place of the first parameter: an object, or a bare value."""
        grammar, text = self._grammar, scanner.text
        dialect = grammar.dialect
        if dialect.json != "nowhere" and text[at] == "{":
            self._begun(calls)
            self.is_json = True
            self._json = JSONArgumentReader(self._name, self._schema)
            scanner.at = at
            return True
        if not dialect.nests or grammar.token(text, at) is not None:
            return False
        if grammar.may_become_token(text, at):
            return False
        self._value = CollectedText("nothing")
        self._ending = AnyClosingTag(grammar, self._is_missing)
        self._parameter = Parameter("")
        return True

    # --- values ---

    def _begin_value(self, parameter: Parameter) -> None:
        dialect = self._grammar.dialect
        self._parameter = parameter
        self._is_doubled = False
        if dialect.cdata or dialect.nests:
            self._begins = True
        else:
            self._open_value()

    def _look_at_value(self, scanner: Scanner) -> Verdict | None:
        """Return whether the value begins as a CDATA section, or with an element; open it."""
        grammar, text = self._grammar, scanner.text
        at = grammar.skip_gap(text, scanner.at)
        is_section = False
        if at is not None and grammar.dialect.cdata:
            if markers(SECTION).find_held(text, at) == at:
                return Verdict.MORE
            is_section = text.startswith(SECTION, at)
            scanner.at = at + len(SECTION) if is_section else scanner.at
        holds_elements = False
        if at is not None and grammar.dialect.nests:
            holds_elements = grammar.parameter.match(text, at) is not None
            if not holds_elements and grammar.parameter.is_begun(text, at):
                return Verdict.MORE
        self._open_value(is_section=is_section, holds_elements=holds_elements)
        return None

    def _open_value(self, *, is_section: bool = False, holds_elements: bool = False) -> None:
        """Open the value: as a string that streams, or as text that waits."""
        grammar, parameter = self._grammar, self._parameter
        assert self._writer is not None  # noqa: S101 - a tag has begun the call
        self._begins = False
        trims = "nothing" if is_section else grammar.dialect.trims
        writer = self._writer.open_text(parameter, holds_elements=holds_elements)
        ending: Ending
        if is_section:
            ending = SectionEnd(grammar, parameter.key, self._is_missing)
        elif grammar.dialect.nests and writer is None:
            schema = self._writer.child(parameter.key)
            ending = TreeEnding(grammar, parameter.key, self._is_missing, schema)
        else:
            ending = ValueEnding(grammar, parameter.key, self._is_missing, repairs=self._repairs)
        self._ending = ending
        self._value = (
            CollectedText(trims) if writer is None else StreamedText(ending.marks, writer, trims)
        )

    def _is_missing(self, key: str) -> bool:
        """Return whether *key* is a parameter that was not given, and is not being given."""
        if self._writer is None:  # A first value without its tag: nothing was given.
            return (
                self._schema is None
                or not self._schema.properties
                or (key in self._schema.properties)
            )
        return self._writer.is_missing(key, self._parameter)

    def _read_value(
        self, value: OpenText, scanner: Scanner, calls: CallSink, *, final: bool = False
    ) -> Verdict | None:
        """Read on in the open value; None tells that it has ended."""
        ending = self._ending
        assert ending is not None  # noqa: S101 - a value is open
        if not read_text(value, ending, scanner, final=final):
            return Verdict.MORE
        if isinstance(ending, AnyClosingTag):
            self._parameter = Parameter(ending.key)
        self._is_doubled = ending.is_doubled
        self._follows_value = not ending.is_forgotten
        self._take_value(value, calls)
        if ending.is_forgotten or (isinstance(ending, SectionEnd) and ending.lacks_tag):
            follows = self._grammar.token(scanner.text, scanner.at)
            if (
                follows is None or follows.kind is not TagKind.TURN_END
            ):  # else the call is closed too
                calls.note(closed_note(self._parameter.key))
        return None

    def _take_value(self, value: OpenText, calls: CallSink) -> None:
        """Write the value that has ended."""
        self._value = None
        writer = self._begun(calls)
        if isinstance(value, CollectedText):
            writer.put(self._parameter, value.text)
        else:
            writer.note(self._parameter, value.gone_out() or "")

    def _read_json(
        self, json: JSONArgumentReader, scanner: Scanner, calls: CallSink
    ) -> Verdict | None:
        verdict = json.read(scanner, calls)
        if verdict is Verdict.DONE:
            self._json = None
            return None
        self.error = json.error
        return verdict


def _parameter_of(found: re.Match[str]) -> Parameter:
    """Return the parameter that an opening tag names."""
    if "attributes" not in found.groupdict():
        return Parameter(found["key"].strip())
    attributes = attributes_of(found)
    if "name" not in attributes:
        raise NoCallError("a parameter without a name")
    is_text = {"true": True, "false": False}.get(attributes.get("string", ""))
    return Parameter(attributes["name"], is_text)
