r"""What ends a raw value: its closing tag where something structural follows, and what stands in.

A value may hold its own closing tag. It ends there only if, white space aside, the next parameter,
the end of the call or of the section, or the end of the answer follows; elsewhere the tag is data.
An ending judges every mark that may begin one: where the value has ended, that it is data, or that
only more text can tell. What is looked at has a bound, and more text never changes the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from penstock.parsing.bodies.base import NoCallError
from penstock.parsing.bodies.parameters.dialects import Grammar
from penstock.parsing.bodies.parameters.tags import tag
from penstock.parsing.bodies.parameters.texts import OpenText
from penstock.parsing.scanner import Markers, Scanner, markers

DATA: Final = -2
"""This ends nothing."""

MORE: Final = -1
"""Only more text can tell."""

SECTION: Final = "<![CDATA["
SECTION_END: Final = "]]>"


class Ending(Protocol):
    """Knows what ends one value."""

    @property
    def marks(self) -> Markers:
        """What may begin the end of the value."""

    def judge(self, text: str, at: int, *, begins_line: bool, final: bool) -> int:
        """Judge the mark at *at*: where the end of the value ends, `DATA` or `MORE`.

        *begins_line* tells that the mark does. *final* tells that no more text will come; then
        `MORE` is no answer. Raises `NoCallError` for what no call can have here.
        """


def read_text(value: OpenText, ending: Ending, scanner: Scanner, *, final: bool = False) -> bool:
    """Read on in *value*, up to what ends it; tell whether it has ended."""
    text, marks = scanner.text, ending.marks
    while found := marks.find(text, scanner.at):
        _add(value, scanner, found.start())
        end = ending.judge(text, found.start(), begins_line=value.begins_line, final=final)
        if end == MORE:
            return False
        if end != DATA:
            scanner.at = end
            value.close()
            return True
        _add(value, scanner, found.end())
    _add(value, scanner, len(text) if final else marks.find_held(text, scanner.at))
    return False


def _add(value: OpenText, scanner: Scanner, end: int) -> None:
    at = scanner.at
    if end > at:
        scanner.at = end
        value.add(scanner.text[at:end])


class ClosingTag:
    """The closing tag of the value of *key*, where something structural follows."""

    def __init__(self, grammar: Grammar, key: str) -> None:
        self.marks = grammar.marks
        self._grammar = grammar
        self._tag = grammar.value_end(key)

    def judge(self, text: str, at: int, *, begins_line: bool, final: bool) -> int:
        """Judge a closing tag by what follows it."""
        del begins_line
        found = self._tag.match(text, at)
        if found is None:
            return MORE if not final and self._tag.is_begun(text, at) else DATA
        grammar = self._grammar
        behind = grammar.follows(grammar.behind_value, text, found.end(), final=final)
        return _settled(found.end(), follows=behind)


class ForgottenTag:
    """The closing tag of a value, or what shows that it was forgotten.

    That is the opening tag of another parameter at the beginning of a line, if *is_parameter*
    knows its key, or the end of the call, if the next call or the end of the section follows.
    """

    def __init__(self, grammar: Grammar, key: str, is_parameter: Callable[[str], bool]) -> None:
        self.marks = grammar.marks
        self._closing = ClosingTag(grammar, key)
        self._grammar = grammar
        self._is_parameter = is_parameter

    def judge(self, text: str, at: int, *, begins_line: bool, final: bool) -> int:
        """Judge a closing tag, the next parameter, or the end of the call."""
        grammar = self._grammar
        end = self._closing.judge(text, at, begins_line=begins_line, final=final)
        if end != DATA:
            return end
        if begins_line:
            parameter = grammar.parameter.match(text, at)
            if parameter is not None:
                return at if self._is_parameter(parameter["key"].strip()) else DATA
            if not final and grammar.parameter.is_begun(text, at):
                return MORE
        call_end = grammar.call_end.match(text, at)
        if call_end is None:
            return MORE if not final and grammar.call_end.is_begun(text, at) else DATA
        behind = grammar.follows(grammar.behind_call, text, call_end.end(), final=final)
        return _settled(at, follows=behind)


class SectionEnd:
    """The end of a CDATA section, where the closing tag of the value of *key* follows."""

    def __init__(self, grammar: Grammar, key: str) -> None:
        self.marks = markers(SECTION_END)
        self._closing = ClosingTag(grammar, key)
        self._grammar = grammar

    def judge(self, text: str, at: int, *, begins_line: bool, final: bool) -> int:
        """Judge the end of a section by the closing tag behind it."""
        closing = self._grammar.skip_gap(text, at + len(SECTION_END))
        if closing is None:
            return DATA
        if closing == len(text):
            return DATA if final else MORE
        return self._closing.judge(text, closing, begins_line=begins_line, final=final)


class OuterTag:
    """The closing tag of *key* that belongs to no element of that name inside the value."""

    def __init__(self, grammar: Grammar, key: str) -> None:
        self.marks = grammar.marks
        self._closing = ClosingTag(grammar, key)
        self._opening = tag(grammar.dialect.parameter.replace("KEY", key), grammar.dialect.spelling)
        self._closing_alone = grammar.value_end(key)
        self._unmatched = 0  # elements of the same name inside that are open

    def judge(self, text: str, at: int, *, begins_line: bool, final: bool) -> int:
        """Judge a closing tag; count an opening one."""
        if self._opening.match(text, at):
            self._unmatched += 1
            return DATA
        if not final and self._opening.is_begun(text, at):
            return MORE
        if self._unmatched and self._closing_alone.match(text, at):
            self._unmatched -= 1
            return DATA
        return self._closing.judge(text, at, begins_line=begins_line, final=final)


class AnyClosingTag:
    """The first closing tag of all: it says what the *key* of the value is."""

    def __init__(self, grammar: Grammar) -> None:
        self.key = ""
        self.marks = grammar.marks
        self._grammar = grammar
        self._tag = grammar.value_end("KEY")

    def judge(self, text: str, at: int, *, begins_line: bool, final: bool) -> int:
        """Judge a closing tag; no other tag may come before it."""
        grammar = self._grammar
        found = self._tag.match(text, at)
        if found is None:
            if not final and self._tag.is_begun(text, at):
                return MORE
            if grammar.parameter.match(text, at):
                raise NoCallError("text before the first parameter")
            return MORE if not final and grammar.parameter.is_begun(text, at) else DATA
        ends = (grammar.call_end, *grammar.section_ends)
        if any(each.match(text, at) for each in ends):
            raise NoCallError("text without a parameter")
        self.key = found["key"]
        closing = ClosingTag(grammar, self.key)
        return closing.judge(text, at, begins_line=begins_line, final=final)


def _settled(end: int, *, follows: bool | None) -> int:
    """Give *end* where something structural *follows*."""
    if follows is None:
        return MORE
    return end if follows else DATA
