"""The parameters of one call, read as they arrive, up to the end of the call.

Between values stand tags and white space and nothing else, so a text without them is soon known to
be no call. The call begins with the first of these tags: until then nothing of it goes out.
"""

from __future__ import annotations

import re
from contextlib import suppress

from penstock.errors import ParseError
from penstock.parsing.bodies.base import NoCallError, Run, Verdict
from penstock.parsing.bodies.json_arguments import JSONArgumentReader
from penstock.parsing.bodies.parameters.dialects import Grammar
from penstock.parsing.bodies.parameters.endings import (
    SECTION,
    SECTION_END,
    AnyClosingTag,
    ClosingTag,
    Ending,
    ForgottenTag,
    OuterTag,
    SectionEnd,
    read_text,
)
from penstock.parsing.bodies.parameters.tags import attributes_of, is_self_closing
from penstock.parsing.bodies.parameters.texts import CollectedText, OpenText, StreamedText
from penstock.parsing.bodies.parameters.writing import Parameter, ParameterWriter
from penstock.parsing.calls import Calls
from penstock.parsing.scanner import Scanner, markers
from penstock.values.schema import Schema


class Parameters:
    """Reads the parameters of the call of *name*; *schema* is the tool's."""

    def __init__(self, grammar: Grammar, name: str, schema: Schema | None) -> None:
        self.error: str | ParseError = ""
        self.is_json = False  # an object stands for the parameters
        self._grammar = grammar
        self._name = name
        self._schema = schema
        self._writer: ParameterWriter | None = None  # once the call has begun
        self._key: str | None = None  # that stands apart: its value has not begun
        self._parameter = Parameter("")  # whose value is open, or begins
        self._begins = False  # how the value begins is not known yet
        self._value: OpenText | None = None
        self._ending: Ending | None = None
        self._json: JSONArgumentReader | None = None
        self._left_open = ""  # what would have ended the value that the answer ended in

    @property
    def closing(self) -> str:
        """What ends the value that is open, or was where the answer ended; empty for none."""
        if self._value is None and not self._begins:
            return self._left_open
        dialect = self._grammar.dialect
        section_end = SECTION_END if isinstance(self._ending, SectionEnd) else ""
        closing = dialect.parameter_end.replace("KEY", self._parameter.key)
        return section_end + dialect.spelling.prefix + closing

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; `DONE` tells that the end of the call has come, and that the call is open."""
        try:
            return self._read_on(scanner, calls)
        except NoCallError as exc:
            self.error = str(exc)
            return Verdict.BROKEN

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended; `DONE` tells that it ended with the call.

        An open value takes what was held back, or ends where more text could have made it go on.
        """
        self._left_open = self.closing
        if self._begins:
            self._open_value()
        with suppress(NoCallError):
            value = self._value
            if value is None or not self._read_value(value, scanner, calls, final=True):
                return self._read_on(scanner, calls)
        return Verdict.MORE

    def run(self) -> Run | None:
        """Give the string that streams just now, if there is one."""
        if self._json is not None:
            return self._json.run()
        return None if self._value is None else self._value.run()

    def open_text(self) -> str | None:
        """Give what has gone out of the string that streams just now."""
        if self._json is not None:
            return self._json.open_text()
        return None if self._value is None else self._value.gone_out()

    def _read_on(self, scanner: Scanner, calls: Calls) -> Verdict:
        verdict = None
        while verdict is None:
            verdict = self._step(scanner, calls)
        return verdict

    def _step(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        """Take one step; None tells to go on."""
        if self._value is not None:
            return self._read_value(self._value, scanner, calls)
        if self._begins:
            return self._look_at_value(scanner)
        if self._json is not None:
            return self._read_json(self._json, scanner, calls)
        return self._read_between(scanner, calls)

    def _begun(self, calls: Calls) -> ParameterWriter:
        """Give the writer of the call, which begins here if it has not yet."""
        if self._writer is None:
            dialect = self._grammar.dialect
            self._writer = ParameterWriter(dialect, calls.open(self._name), self._schema)
        return self._writer

    # --- between values ---

    def _read_between(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        """Pass white space, and take the tag that follows."""
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
        if self.is_json and text[at] in "}]":  # models write too many
            scanner.at = at + 1
            return None
        if not self.is_json and self._take_tag(scanner, at, calls):
            return None
        if self._may_become_tag(text, at):
            return Verdict.MORE
        if self._writer is None and self._begin_otherwise(scanner, at, calls):
            return None
        raise NoCallError("something else than a parameter or the end of the call")

    def _take_tag(self, scanner: Scanner, at: int, calls: Calls) -> bool:
        """Take the tag of a parameter, or of its value, if it stands at *at*."""
        grammar, text = self._grammar, scanner.text
        found = grammar.parameter.match(text, at)
        if found is not None:
            writer = self._begun(calls)
            scanner.at = found.end()
            if grammar.value is not None:
                self._key = found["key"].strip()  # one without a value is dropped
            elif is_self_closing(found):
                writer.put_nothing(_parameter_of(found))
            else:
                self._begin_value(_parameter_of(found))
            return True
        if grammar.value is None or self._key is None:
            return False
        found = grammar.value.match(text, at)
        if found is not None:
            scanner.at = found.end()
            self._begin_value(Parameter(self._key))
            self._key = None
        return found is not None

    def _may_become_tag(self, text: str, at: int) -> bool:
        grammar = self._grammar
        tags = [grammar.call_end]
        if not self.is_json:
            tags.append(grammar.parameter)
            if grammar.value is not None and self._key is not None:
                tags.append(grammar.value)
        return any(tag.is_begun(text, at) for tag in tags)

    def _begin_otherwise(self, scanner: Scanner, at: int, calls: Calls) -> bool:
        """Begin what may stand in the place of the first parameter: an object, or a bare value."""
        dialect = self._grammar.dialect
        if dialect.json != "nowhere" and scanner.text[at] == "{":
            self._begun(calls)
            self.is_json = True
            self._json = JSONArgumentReader(self._name, self._schema)
            scanner.at = at
        elif dialect.nests:
            self._value = CollectedText("nothing")
            self._ending = AnyClosingTag(self._grammar)
        else:
            return False
        return True

    # --- values ---

    def _begin_value(self, parameter: Parameter) -> None:
        dialect = self._grammar.dialect
        self._parameter = parameter
        if dialect.cdata or dialect.nests:
            self._begins = True
        else:
            self._open_value()

    def _look_at_value(self, scanner: Scanner) -> Verdict | None:
        """Tell whether the value begins as a CDATA section, or with an element; open it."""
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
            ending = SectionEnd(grammar, parameter.key)
        elif grammar.dialect.unclosed:
            ending = ForgottenTag(grammar, parameter.key, self._is_missing)
        elif grammar.dialect.nests and writer is None:
            ending = OuterTag(grammar, parameter.key)
        else:
            ending = ClosingTag(grammar, parameter.key)
        self._ending = ending
        self._value = (
            CollectedText(trims) if writer is None else StreamedText(ending.marks, writer, trims)
        )

    def _is_missing(self, key: str) -> bool:
        """Tell whether *key* is a parameter that was not given, and is not being given."""
        assert self._writer is not None  # noqa: S101 - a value is open
        return self._writer.is_missing(key, self._parameter)

    def _read_value(
        self, value: OpenText, scanner: Scanner, calls: Calls, *, final: bool = False
    ) -> Verdict | None:
        """Read on in the open value; None tells that it has ended."""
        ending = self._ending
        assert ending is not None  # noqa: S101 - a value is open
        if not read_text(value, ending, scanner, final=final):
            return Verdict.MORE
        self._value = None
        if isinstance(ending, AnyClosingTag):
            self._parameter = Parameter(ending.key)
        writer = self._begun(calls)
        if isinstance(value, CollectedText):
            writer.put(self._parameter, value.text)
        else:
            writer.note(self._parameter, value.gone_out() or "")
        return None

    def _read_json(
        self, json: JSONArgumentReader, scanner: Scanner, calls: Calls
    ) -> Verdict | None:
        verdict = json.read(scanner, calls)
        if verdict is Verdict.DONE:
            self._json = None
            return None
        self.error = json.error
        return verdict


def _parameter_of(found: re.Match[str]) -> Parameter:
    """Give the parameter that an opening tag names."""
    if "attributes" not in found.groupdict():
        return Parameter(found["key"].strip())
    attributes = attributes_of(found)
    if "name" not in attributes:
        raise NoCallError("a parameter without a name")
    is_text = {"true": True, "false": False}.get(attributes.get("string", ""))
    return Parameter(attributes["name"], is_text)
