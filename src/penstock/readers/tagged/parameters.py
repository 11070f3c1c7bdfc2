"""The parameters of one call, read as they arrive, up to the end of the call.

Between values there are tags and white space. A sentence there, or a token that ends the turn, is
skipped and noted if a missing parameter follows, or the end of the call; anything else makes the
call incomplete. The call begins with the first of these tags: nothing is emitted before.

`values.ParameterWriter` reads and writes the values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from msgspec import structs

from penstock.parsing.body import StreamingPart, ValueReader, Verdict, make_skipped_note
from penstock.parsing.call_sink import CallSink, NoCallError
from penstock.parsing.scanner import Scanner, markers
from penstock.readers.json_arguments import JSONArgumentReader
from penstock.readers.tagged import CompiledDialect, TagKind, Token
from penstock.readers.tagged.endings import (
    TAG_BEGINS,
    AnyClosingTag,
    CDATAEnding,
    Ending,
    TreeEnding,
    ValueEnding,
    read_value,
)
from penstock.readers.tagged.strings import CollectedText, OpenValue, StreamedText, trim_text
from penstock.readers.tagged.tags import FoundTag
from penstock.readers.tagged.values import Parameter, ParameterWriter, UnclearError, is_prose
from penstock.values.rxml.markup import CDATA
from penstock.values.schema import Schema

MAX_SKIPPED: Final = 512
"""How much text between two parameters is skipped: a sentence or two, not a file."""

_MISNAMED_KEY: Final = re.compile(r"\s{0,16}([\w.-]{1,128})\s{0,16}")
_EXPECTED: Final = "expected a parameter or the end of the call"


class _Step(NamedTuple):
    """The next tag between values, with the text before it."""

    token: Token
    start: int
    skipped: str

    @property
    def has_text(self) -> bool:
        """Whether there is anything but white space before the tag."""
        return bool(self.skipped.strip())


class ParameterReader(ValueReader):
    """Reads the parameters of the call of *name*; *schema* is the tool's.

    With *repairs*, the text is complete and was refused: missing tags are added if it is clear what
    was meant.
    """

    def __init__(
        self, grammar: CompiledDialect, name: str, schema: Schema | None, *, repairs: bool = False
    ) -> None:
        self.is_json = False  # an object is in the place of the parameters
        self.is_unclear = False  # it is not clear what was meant, so nothing is repaired
        self._grammar = grammar
        self._name = name
        self._schema = schema
        self._repairs = repairs
        self._writer = ParameterWriter(grammar.dialect, schema, repairs=repairs)
        self._key: str | None = None  # a key whose value has not begun
        self._kind = ""  # the type that was declared after the key
        self._ends_with_json = False  # the end of the call may be missing
        self._parameter = Parameter("")  # the one whose value is open or begins
        self._begins = False  # how the value begins is not known yet
        self._value: OpenValue | None = None
        self._ending: Ending | None = None
        self._json: JSONArgumentReader | None = None
        self._follows_value = False  # nothing but white space came since the last value
        self._is_doubled = False  # the opening tag of a value came twice
        self._is_assigned = False  # the value was inside the opening tag; a closing tag may follow

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text; after `DONE` the end of the call was read, and the caller closes it."""
        try:
            return self._read_on(scanner, calls)
        except NoCallError as exc:
            self.error = str(exc)
            self.is_unclear = isinstance(exc, UnclearError)
            return Verdict.BROKEN

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text; return `DONE` if it ended with the call.

        Text that was held back is added to an open value, or ends it.
        """
        if self._ends_with_json and self._json is None:
            if self._grammar.could_begin_end(scanner.text, scanner.at):
                scanner.skip_all()
            self._begin(calls).close()
            return Verdict.DONE
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
        """Close the call at the end of its text, and skip what belongs to it.

        Return whether that is clear: an open value has text and no tag in it, and no parameter was
        begun without a value.
        """
        if self._json is not None or self._begins or self._key is not None:
            return False
        with suppress(NoCallError):
            if self._value is not None:
                self._close_value_early(self._value, scanner, calls)
            self._pass_rest(scanner)
            self._begin(calls).close()
            return True
        return False

    def _close_value_early(self, value: OpenValue, scanner: Scanner, calls: CallSink) -> None:
        ending, tail = self._ending, scanner.unread
        assert ending is not None  # noqa: S101 - a value is open
        is_tag = len(tail) > 1 and self._grammar.could_begin_token(scanner.text, scanner.at)
        if tail and not is_tag:
            value.add(tail)
        scanner.skip_all()
        is_clear = isinstance(ending, ValueEnding) and ending.is_clear
        if (
            value.is_blank
            or (ending.has_markup and not is_clear)
            or isinstance(ending, TreeEnding | AnyClosingTag)
        ):
            raise UnclearError("an open value")
        value.close(forgotten=True)
        self._parameter = structs.replace(self._parameter, is_cut=True)
        self._take_value(value, calls)

    def _pass_rest(self, scanner: Scanner) -> None:
        """Skip white space, ends of the turn and the beginning of an end; leave other text."""
        grammar, text = self._grammar, scanner.text
        at = scanner.at
        while at < len(text):
            at = grammar.skip_gap(text, at) or len(text)
            token = grammar.token(text, at)
            if token is None:
                if at < len(text) and not grammar.could_begin_end(text, at):
                    if text[at] == "<" and grammar.could_begin_token(text, at):
                        raise UnclearError("the tag of a parameter is incomplete")
                    if not self._writer.is_begun or grammar.has_tags_inside(text, at):
                        raise UnclearError("text in the place of parameters")
                    return
                at = len(text)
            else:
                at = token.end
        scanner.skip_all()

    @property
    def open_part(self) -> StreamingPart | None:
        """The part that is being read; a string in it may stream."""
        return self._json or self._value

    def _read_on(self, scanner: Scanner, calls: CallSink) -> Verdict:
        verdict = None
        while verdict is None:
            verdict = self._step(scanner, calls)
        return verdict

    def _step(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Take one step; return None to continue."""
        if self._value is not None:
            return self._read_value(self._value, scanner, calls)
        if self._begins:
            return self._look_at_value(scanner)
        if self._json is not None:
            return self._read_json(self._json, scanner, calls)
        if self.is_json:
            return self._read_after_json(scanner, calls)
        return self._read_between(scanner, calls)

    def _begin(self, calls: CallSink) -> ParameterWriter:
        """Return the writer of the call, which begins here if it has not yet."""
        self._writer.begin(self._name, calls)
        return self._writer

    # --- between values ---

    def _read_between(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Skip white space and prose, and take the tag that follows."""
        if self._key is None and not self._repairs:
            self._take_simple(scanner, calls)
        grammar, text = self._grammar, scanner.text
        at = grammar.skip_gap(text, scanner.at)
        if at is None:
            raise NoCallError("too much white space between tags")
        if at == len(text):
            return Verdict.MORE
        if self._writer.is_begun:
            ending = grammar.call_end.match(text, at) if self._key is None else None
            if ending is not None:  # Nothing is before it, so nothing needs judgement.
                self._writer.close()
                scanner.advance_to(ending.end)
                return Verdict.DONE
        elif self._begin_otherwise(scanner, at, calls):
            return None
        step = self._find_tag(text, at)
        return Verdict.MORE if step is None else self._take(step, scanner, calls)

    def _take_simple(self, scanner: Scanner, calls: CallSink) -> None:
        """Take the parameters that have come whole, as long as nothing in them needs judgement."""
        grammar, text, writer = self._grammar, scanner.text, self._writer
        trims = grammar.dialect.trims
        while (found := grammar.find_simple(text, scanner.at)) is not None:
            if writer.find_fault(found.key):
                return  # The tag is taken alone, so that the call breaks at the same place.
            writer.begin(self._name, calls)
            self._parameter = Parameter(found.key, found.kind)
            self._is_doubled = self._is_assigned = False
            self._follows_value = True
            writer.begin_another()
            scanner.advance_to(found.end)
            writer.put_simple(self._parameter, trim_text(found.value, trims))

    def _find_tag(self, text: str, at: int) -> _Step | None:
        """Find the next tag from *at* on; None if more text is needed."""
        grammar, start = self._grammar, at
        limit = len(text) if self._repairs else start + MAX_SKIPPED
        while True:
            token = grammar.token(text, at)
            if token is not None and token.kind is not TagKind.TURN_END:
                return _Step(token, at, text[start:at])
            if token is not None:
                at = token.end
            elif grammar.could_begin_token(text, at):
                return None
            else:
                at = self._skip_text(text, at)
            if at > limit:
                raise NoCallError(_EXPECTED)
            if at == len(text):
                return None

    def _skip_text(self, text: str, at: int) -> int:
        """Return where the text at *at* ends: before the next thing that may be a tag."""
        marks = self._grammar.marks
        found = marks.find(text, at + 1)
        end = found.start() if found else marks.find_held(text, at + 1)
        tag = text.find("<", at, end)
        if tag != -1 and not self._repairs:
            raise NoCallError(_EXPECTED)
        return end

    def _take(self, step: _Step, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Take a tag between values."""
        kind = step.token.kind
        self._check_text(step)
        if kind is TagKind.CALL_END:
            return self._take_end(step, scanner, calls)
        if kind in (TagKind.CALL, TagKind.SECTION):
            return self._take_next_call(step, scanner, calls)
        if kind is TagKind.PARAMETER:
            self._take_parameter(step, scanner, calls)
        elif kind is TagKind.TYPE and self._key is not None and not step.has_text:
            self._kind = step.token.tag.key.partition("[")[0].strip().replace("any", "string")
            scanner.advance_to(step.token.end)
        elif kind is TagKind.VALUE and self._key is not None:
            self._note(step, calls)
            scanner.advance_to(step.token.end)
            self._begin_value(Parameter(self._key, self._kind))
            self._key, self._kind = None, ""
        elif kind is TagKind.VALUE_END:
            self._take_surplus_end(step, scanner, calls)
        elif kind is TagKind.KEY:
            return self._take_key(step, scanner, calls)
        elif kind in (TagKind.SECTION_END, TagKind.TRAIL):
            if self._repairs and self._writer.is_begun:
                return Verdict.MORE  # `close_early` takes it.
            raise NoCallError(f"{step.token.tag.text} without the end of the call")
        else:
            return self._take_token(step, scanner, calls)
        return None

    def _take_token(self, step: _Step, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Skip a token of a tag that came twice, and any separator.

        The header of the next message ends the call; no other token may be here.
        """
        written, end = step.token.tag.text, step.token.end
        if written == self._grammar.dialect.header:
            return self._close_before_next(step, calls)
        is_after_name = step.token.kind is TagKind.NAME_END and not self._writer.is_begun
        is_separator = is_after_name or written == self._grammar.dialect.separator
        if not step.skipped and (is_separator or scanner.text.startswith(written, end)):
            scanner.advance_to(end)
            return None
        if not step.skipped and written.startswith(scanner.text[end:]):
            return Verdict.MORE
        raise UnclearError(f"{written} between parameters")

    def _check_text(self, step: _Step) -> None:
        """Raise `UnclearError` if the text before a tag may be a value without its tags."""
        takes_text = step.token.kind in (TagKind.VALUE_END, TagKind.KEY)
        if step.has_text and not takes_text and not is_prose(step.skipped):
            raise UnclearError("the text between parameters may be a value without its tags")
        if step.has_text and self._grammar.damaged_tags.are_in(step.skipped):
            raise UnclearError("a damaged tag between parameters")

    def _note(self, step: _Step, calls: CallSink) -> None:
        """Note the text that was skipped before a tag."""
        if step.has_text:
            self._begin(calls)
            calls.note(make_skipped_note(step.skipped))

    def _take_end(self, step: _Step, scanner: Scanner, calls: CallSink) -> Verdict:
        """Take the end of the call."""
        if not self._writer.is_begun and self._schema is not None and self._schema.required:
            raise UnclearError("a call without its parameters")
        if step.has_text and (not self._writer.is_begun or self._key is not None):
            raise NoCallError(_EXPECTED)
        if step.has_text and not self._writer.has_required:
            raise UnclearError("text in the place of a required parameter")
        if self._key is not None and self._writer.is_begun:
            calls.note(f"dropped a parameter without a value: {self._key!r}")
        self._note(step, calls)
        self._begin(calls).close()
        scanner.advance_to(step.token.end)
        return Verdict.DONE

    def _take_next_call(self, step: _Step, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Take the tag of another call: it ends this one, or is the tag of this one again.

        DeepSeek V4 also writes ``<invoke name="key" string="value" />`` for a parameter.
        """
        grammar, text = self._grammar, scanner.text
        opening = grammar.open_call(text, step.start)
        if opening is not None and opening.is_empty and not step.has_text:
            value = opening.attributes.get(grammar.dialect.type_attribute)
            is_own = self._schema is not None and opening.name in self._schema.properties
            is_tool = calls.find_schema(opening.name) is not None
            is_type = value in ("true", "false") and (is_tool or not is_own)
            if value is not None and not is_type and self._key is None:
                self._begin(calls).put_whole(Parameter(opening.name), value)
                scanner.advance_to(opening.end)
                return None
        if step.token.kind is TagKind.CALL and not self._writer.is_begun:
            opening = grammar.open_call(text, step.start)
            if opening is None and grammar.call.could_begin(text, step.start):
                return Verdict.MORE
            if opening is not None and opening.name == self._name and not step.skipped:
                scanner.advance_to(opening.end)
                return None
        is_complete = self._writer.is_begun and self._writer.has_required
        if not is_complete and not step.has_text and self._key is None:
            is_key = self._take_misnamed_key(step, scanner, calls)
            if is_key is not None:
                return None if is_key else Verdict.MORE
        return self._close_before_next(step, calls)

    def _close_before_next(self, step: _Step, calls: CallSink) -> Verdict:
        """Close the call before the tag of another one, or the header of the next message."""
        if step.has_text or not self._writer.is_begun or self._key is not None:
            raise NoCallError("another call inside the call")
        if not self._writer.has_required:
            raise NoCallError("another call before the required parameters")
        calls.note("closed the call before the next one")
        self._writer.close()
        return Verdict.DONE

    # GLM-5.3-Flash writes a second ``<tool_call>`` where ``<arg_key>`` belongs.
    def _take_misnamed_key(self, step: _Step, scanner: Scanner, calls: CallSink) -> bool | None:
        """Take a key after the tag of a call; return None if there is none, False if one may come.

        It counts only if the tool has such a parameter and it was not given yet.
        """
        grammar, text = self._grammar, scanner.text
        begin = grammar.call_begin.match(text, step.start)
        if grammar.value is None or begin is None or self._schema is None:
            return None
        closer = grammar.dialect.parameter.partition("KEY")[2]
        found = _MISNAMED_KEY.match(text, begin.end)
        end = found.end() if found else begin.end
        if len(text) - end < len(closer) and closer.startswith(text[end:]):
            return False
        if found is None or not text.startswith(closer, end):
            return None
        if not self._writer.is_missing(found[1]):
            return None
        self._begin(calls)
        calls.note(f"completed the tag of the parameter {found[1]!r}")
        self._key = found[1]
        self._follows_value = False
        scanner.advance_to(end + len(closer))
        return True

    def _take_parameter(self, step: _Step, scanner: Scanner, calls: CallSink) -> None:
        """Take the tag of a parameter."""
        grammar, token = self._grammar, step.token
        if step.has_text and not (self._schema or self._writer.is_begun or not calls.schemas):
            raise UnclearError("words after a name that is not a tool")
        writer = self._begin(calls)
        parameter = self._parse_parameter(token.tag)
        if step.skipped and (self._key is not None or not writer.is_missing(parameter.key)):
            raise UnclearError("text before a parameter that is not missing")
        if token.tag.has_words:
            raise UnclearError("words in the tag of a parameter")
        if token.tag.is_damaged:
            if self._schema is None or not writer.is_missing(parameter.key):
                raise UnclearError("a damaged tag of a parameter")
            calls.note(f"repaired the tag of {parameter.key!r}")
        self._note(step, calls)
        self._follows_value = self._is_assigned = False
        scanner.advance_to(token.end)
        if grammar.value is not None:
            if self._key is not None and self._key != parameter.key:
                calls.note(f"dropped a parameter without a value: {self._key!r}")
            self._key = parameter.key
        elif token.tag.is_empty:
            self._take_attribute(token.tag, calls)
        elif "=" in parameter.key and not token.tag.attributes:
            self._take_assignment(parameter, calls)
        else:
            self._begin_value(parameter)

    def _take_attribute(self, tag: FoundTag, calls: CallSink) -> None:
        """Take a parameter without content: DeepSeek V4 also writes its value as an attribute.

        Such a value is in the place of the type (``string="ls"``), or its attribute says so.
        """
        declared = self._grammar.dialect.type_attribute
        kind, value = tag.attributes.get(declared, ""), tag.attributes.get("value")
        if value is None and kind not in ("", "true", "false"):
            kind, value = "", kind
        if len(tag.attributes) > 1 + (declared in tag.attributes) + ("value" in tag.attributes):
            raise UnclearError("a parameter without content has other attributes")
        if value is not None:
            calls.note(f"took the value of {tag.key!r} out of its tag")
        self._begin(calls).put_whole(Parameter(tag.key, kind), value or "")

    def take_attributes(self, attributes: Mapping[str, str], calls: CallSink) -> None:
        """Take the parameters among the *attributes* of a call that has no content."""
        writer, schema = self._begin(calls), self._schema
        for key, value in attributes.items():
            if schema is not None and key in schema.properties:
                calls.note(f"took the value of {key!r} out of the tag of its call")
                writer.put_whole(Parameter(key), value)
        writer.close()

    def _parse_parameter(self, tag: FoundTag) -> Parameter:
        """Return the parameter that an opening tag names, and the type that the tag declares."""
        dialect = self._grammar.dialect
        if not tag.key and '="KEY"' in dialect.parameter:
            raise UnclearError("a parameter without a name")
        return Parameter(tag.key, tag.attributes.get(dialect.type_attribute, ""))

    def _take_assignment(self, parameter: Parameter, calls: CallSink) -> None:
        """Take ``<parameter=command=ls>``: the value is in the tag, if the tool has such a one."""
        writer = self._begin(calls)
        key, _, text = parameter.key.partition("=")
        key = key.strip()
        if writer.is_declared(parameter.key) or not writer.is_declared(key):
            self._begin_value(parameter)
            return
        calls.note(f"took the value of {key!r} out of its tag")
        writer.put_whole(Parameter(key), text.strip().strip("\"'"))
        self._follows_value = self._is_assigned = True  # Its end follows, or was forgotten.

    # MiniMax-M3 omits the opening tag of a first value; its closing tag comes alone then.
    def _take_surplus_end(self, step: _Step, scanner: Scanner, calls: CallSink) -> None:
        """Take the end of a value that is not open: it came twice, or its beginning is missing."""
        nests = self._grammar.dialect.nests
        is_same = not nests or step.token.tag.key == self._parameter.key
        if self._follows_value and is_same and not step.has_text and not self._is_doubled:
            self._follows_value = False
            scanner.advance_to(step.token.end)
            if not self._is_assigned:
                calls.note("dropped a closing tag that came twice")
            return
        key = self._key if self._repairs else None
        if nests:
            key = step.token.tag.key
            key = key if self._begin(calls).is_missing(key) else None
        if key is None or not step.has_text or step.skipped.lstrip().startswith(TAG_BEGINS):
            raise UnclearError("the end of a value that has no beginning")
        self._key = None
        scanner.advance_to(step.token.end)
        calls.note(f"added the beginning of the value of {key!r}")
        self._check_tags(step.skipped)
        self._begin(calls).put_whole(Parameter(key), step.skipped.strip())
        self._follows_value = True

    def _take_key(self, step: _Step, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Take half of the tag of a key: the other half is missing, or it came twice."""
        token, text, grammar = step.token, scanner.text, self._grammar
        is_closing = token.tag.text.startswith("</")
        if is_closing and self._key is not None and not step.has_text:
            scanner.advance_to(token.end)
            return None
        if not is_closing:
            at = grammar.skip_gap(text, token.end)
            if at is None or at == len(text):
                return Verdict.MORE
            again = grammar.token(text, at)
            if again is not None and again.kind is TagKind.PARAMETER and not step.skipped:
                scanner.advance_to(at)
                return None
            if grammar.could_begin_token(text, at):
                return Verdict.MORE
        if not self._repairs:
            raise NoCallError("the tag of a parameter is incomplete")
        end = token.end
        if is_closing:
            key = step.skipped.strip()
        else:
            found = grammar.marks.find(text, end)
            if found is None:
                return Verdict.MORE
            key, end = text[end : found.start()].strip(), found.start()
        self._complete_key(key, end, scanner, calls)
        return None

    def _complete_key(self, key: str, end: int, scanner: Scanner, calls: CallSink) -> None:
        """Take *key*, which ends at *end* and has only half of its tag."""
        writer, follows = self._begin(calls), self._grammar.token(scanner.text, end)
        # GLM-5.3-Flash writes ``<arg_key>key=value</arg_value>``.
        is_value = follows is not None and follows.kind is TagKind.VALUE_END
        if is_value and "=" in key and self._key is None:
            if not writer.is_declared(key.partition("=")[0].strip()):
                raise UnclearError("the tag of a parameter is incomplete")
            scanner.advance_to(end)
            self._take_assignment(Parameter(key), calls)
            return
        if self._key is not None or not writer.is_missing(key):
            raise UnclearError("the tag of a parameter is incomplete")
        calls.note(f"completed the tag of the parameter {key!r}")
        self._key = key
        self._follows_value = False
        scanner.advance_to(end)

    def _read_after_json(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Take the end of the call after the object in the place of the parameters."""
        grammar, text = self._grammar, scanner.text
        at = grammar.skip_gap(text, scanner.at)
        if at is None:
            raise NoCallError("too much white space between tags")
        if at == len(text):
            return Verdict.MORE
        ending = grammar.call_end.match(text, at)
        if ending is not None:
            self._begin(calls).close()
            scanner.advance_to(ending.end)
            return Verdict.DONE
        if text[at] in "}]":  # Models write too many brackets after an object.
            scanner.advance_to(at + 1)
            return None
        if grammar.call_end.could_begin(text, at):
            return Verdict.MORE
        if self._ends_with_json:
            self._begin(calls).close()
            return Verdict.DONE
        raise NoCallError("expected the end of the call")

    def begin_json(self, calls: CallSink) -> None:
        """Begin an object in the place of the parameters; the end of the call may be missing."""
        self._begin(calls)
        self.is_json = self._ends_with_json = True
        self._json = JSONArgumentReader(self._name, self._schema)

    def _begin_otherwise(self, scanner: Scanner, at: int, calls: CallSink) -> bool:
        """Begin an object in the place of the parameters, or a value without its opening tag."""
        grammar, text = self._grammar, scanner.text
        dialect = grammar.dialect
        if dialect.json in ("in calls", "in sections") and text[at] == "{":
            self._begin(calls)
            self.is_json = True
            self._json = JSONArgumentReader(self._name, self._schema)
            scanner.advance_to(at)
            return True
        if not dialect.nests or grammar.token(text, at) is not None:
            return False
        if grammar.could_begin_token(text, at):
            return False
        self._value = CollectedText("nothing", grammar.marks)
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
        """Find out whether the value begins as a CDATA section or with an element, and open it."""
        grammar, text = self._grammar, scanner.text
        at = grammar.skip_gap(text, scanner.at)
        is_section = False
        if at is not None and grammar.dialect.cdata:
            if markers(CDATA).find_held(text, at) == at:
                return Verdict.MORE
            is_section = text.startswith(CDATA, at)
            if is_section:
                scanner.advance_to(at + len(CDATA))
        holds_elements = False
        if at is not None and grammar.dialect.nests:
            holds_elements = grammar.parameter.match(text, at) is not None
            if not holds_elements and grammar.parameter.could_begin(text, at):
                return Verdict.MORE
        self._open_value(is_section=is_section, holds_elements=holds_elements)
        return None

    def _open_value(self, *, is_section: bool = False, holds_elements: bool = False) -> None:
        """Open the value: as a string that streams, or as text that waits."""
        grammar, parameter = self._grammar, self._parameter
        self._begins = False
        trims = "nothing" if is_section else grammar.dialect.trims
        writer = self._writer.open_text(parameter, holds_elements=holds_elements)
        ending: Ending
        if is_section:
            ending = CDATAEnding(grammar, parameter.key, self._is_missing)
        elif grammar.dialect.nests and writer is None:
            schema = self._writer.child(parameter.key)
            ending = TreeEnding(grammar, parameter.key, self._is_missing, schema)
        else:
            ending = ValueEnding(grammar, parameter.key, self._is_missing, repairs=self._repairs)
        self._ending = ending
        self._value = (
            CollectedText(trims, ending.marks)
            if writer is None
            else StreamedText(ending.marks, writer, trims)
        )

    def _is_missing(self, key: str) -> bool:
        """Return whether *key* is a parameter that was not given, and is not being given."""
        return self._writer.is_missing(key, self._parameter.key)

    def _read_value(
        self, value: OpenValue, scanner: Scanner, calls: CallSink, *, final: bool = False
    ) -> Verdict | None:
        """Continue reading the open value; return None if it has ended."""
        ending = self._ending
        assert ending is not None  # noqa: S101 - a value is open
        if not read_value(value, ending, scanner, final=final):
            return Verdict.MORE
        if isinstance(ending, AnyClosingTag):
            self._parameter = Parameter(ending.key)
        if ending.is_forgotten:
            self._parameter = structs.replace(self._parameter, is_cut=True)
        self._is_doubled = ending.is_doubled
        self._follows_value = not ending.is_forgotten
        self._take_value(value, calls)
        if ending.is_forgotten or (isinstance(ending, CDATAEnding) and ending.lacks_tag):
            follows = self._grammar.token(scanner.text, scanner.at)
            # Where the turn ended, the call is closed, too.
            if follows is None or follows.kind is not TagKind.TURN_END:
                calls.note(f"closed the value of {self._parameter.key!r}")
        return None

    def _take_value(self, value: OpenValue, calls: CallSink) -> None:
        """Write the value that has ended."""
        self._value = None
        self._check_tags(value.text, is_cut=self._parameter.is_cut)
        writer = self._begin(calls)
        if isinstance(value, CollectedText):
            writer.put(self._parameter, value.text)
        else:
            writer.mark_given(self._parameter.key)

    def _check_tags(self, text: str, *, is_cut: bool = True) -> None:
        """Raise `UnclearError` if *text*, a value, has a tag in it that is damaged."""
        is_damaged = self._ending is not None and self._ending.is_damaged
        if is_damaged or self._grammar.damaged_tags.are_in(text, is_cut=is_cut):
            raise UnclearError(f"a damaged tag inside the value of {self._parameter.key}")

    def _read_json(
        self, json: JSONArgumentReader, scanner: Scanner, calls: CallSink
    ) -> Verdict | None:
        verdict = json.read(scanner, calls)
        if verdict is Verdict.DONE:
            self._json = None
            return None
        self.error = json.error
        return verdict
