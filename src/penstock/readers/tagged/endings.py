r"""Where a raw value ends: what is markup and what is data is decided here.

`read_value` reads a value up to its end. Everything in it that looks like a tag is judged by the
value's `Ending`, in the order in which it comes. More text never changes a judgement, and at
most a tag and the white space after it are held back for one.

In a dialect of tags (`ValueEnding`):

1. The closing tag of the value ends it. What follows is judged between the parameters: text that
   cannot be there makes the call incomplete, so a closing tag that was meant as data never cuts a
   value short in a complete call.
2. Where a closing tag was forgotten, the value ends before a parameter that the tool has and that
   was not given yet, and before the end of a call that something follows which can follow a call.
3. In a dialect of plain tags two things are data. A tag inside quotes: a quote or a backslash
   follows it, and a quote comes before it on its line, as in ``text.split("</parameter>")``. And
   tags that balance: what a call or a parameter inside the value opens, its own tags close, as in a
   file that documents the format.
4. Any other tag makes the call incomplete (law 11). Tags that are special tokens are never data.

In formats that resemble XML a closing tag ends its value if structure follows it; see
`StructuralTagEnding`. The elements of `morph_xml` have the rules of `values/rxml/closing_tags.py`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from penstock.parsing.call_shape import find_name
from penstock.parsing.call_sink import NoCallError
from penstock.parsing.scanner import Markers, Scanner, markers
from penstock.readers.plausible import ends_with_loose_tag
from penstock.readers.tagged import QUOTES, CompiledDialect, TagKind, Token
from penstock.readers.tagged.strings import OpenValue, take_text
from penstock.readers.tagged.tags import MAX_GAP, MAX_TAG, skip_gap
from penstock.readers.tagged.values import ITEM, UnclearError, find_key
from penstock.values.rxml.closing_tags import ClosingRule, TagVerdict
from penstock.values.rxml.markup import (
    CDATA_END,
    MarkupTag,
    may_become_closing,
    may_become_opening,
    opening_at,
)
from penstock.values.schema import Schema

TAG_BEGINS: Final = ("<", "[", "]", "&lt;", "```")
"""How a value without its opening tag does not begin: the tag may be damaged."""


class Action(Enum):
    """What becomes of a tag inside a value."""

    DATA = "it is part of the value"
    SKIP = "it came twice: it is dropped"
    MORE = "only more text can decide"
    END = "the value has ended"


class EndingJudgement(NamedTuple):
    """What becomes of a tag inside a value, and where reading continues."""

    action: Action
    end: int = 0


_DATA: Final = EndingJudgement(Action.DATA)
_MORE: Final = EndingJudgement(Action.MORE)


class Ending(ABC):
    """Decides what ends one value; `marks` are the beginnings of all that may."""

    has_markup = False
    """Whether a tag of the dialect is part of the value."""

    is_forgotten = False
    """Whether the value ended without its closing tag."""

    is_doubled = False
    """Whether the opening tag of the value came twice."""

    is_damaged = False
    """Whether the prefix of all tags is part of the value, so that a tag is damaged."""

    marks: Markers

    @abstractmethod
    def judge(self, text: str, at: int, value: OpenValue, *, final: bool) -> EndingJudgement:
        """Judge the mark at *at*; the text before it is in *value*.

        With *final* no more text comes, and the judgement is not `MORE`. Raise `NoCallError` for
        what no complete call can have here.
        """


def read_value(value: OpenValue, ending: Ending, scanner: Scanner, *, final: bool = False) -> bool:
    """Continue reading *value* up to its end; return whether it has ended."""
    text, marks = scanner.text, ending.marks
    while found := marks.find(text, scanner.at):
        take_text(value, scanner, found.start())
        action, end = ending.judge(text, found.start(), value, final=final)
        if action is Action.MORE:
            return False
        if action is Action.DATA:
            take_text(value, scanner, found.end())
            continue
        scanner.advance_to(end)
        if action is Action.END:
            value.close(forgotten=ending.is_forgotten)
            return True
    take_text(value, scanner, len(text) if final else marks.find_held(text, scanner.at))
    return False


class TokenEnding(Ending):
    """The first of *ends*, or of *borders*, which belong to what follows: no text holds them."""

    def __init__(self, ends: tuple[str, ...], borders: tuple[str, ...] = ()) -> None:
        self.marks = markers(*ends, *borders)
        self._ends = ends

    def judge(self, text: str, at: int, value: OpenValue, *, final: bool) -> EndingJudgement:
        """End the value at the mark, whatever follows it."""
        del value, final
        end = next((end for end in self._ends if text.startswith(end, at)), "")
        return EndingJudgement(Action.END, at + len(end))


class _DialectEnding(Ending):
    """The end of the value of *key*; *is_missing* returns whether a parameter was not given yet."""

    def __init__(
        self, grammar: CompiledDialect, key: str, is_missing: Callable[[str], bool]
    ) -> None:
        self.marks = grammar.marks
        self._grammar = grammar
        self._key = key
        self._is_missing = is_missing

    def judge(self, text: str, at: int, value: OpenValue, *, final: bool) -> EndingJudgement:
        """Judge the tag at *at*."""
        token = self._grammar.token(text, at)
        if token is not None:
            return self._judge_token(token, text, at, value, final=final)
        if not final and self._grammar.could_begin_token(text, at):
            return _MORE
        prefix = self._grammar.dialect.spelling.prefix
        self.is_damaged = self.is_damaged or (prefix != "" and text.startswith(prefix, at))
        return _DATA

    @abstractmethod
    def _judge_token(
        self, token: Token, text: str, at: int, value: OpenValue, *, final: bool
    ) -> EndingJudgement:
        """Judge the tag *token* at *at*."""

    def _unclear(self, token: Token) -> UnclearError:
        return UnclearError(f"{token.tag.text} inside the value of {self._key}")


class ValueEnding(_DialectEnding):
    """The end of a value of plain text.

    With *repairs*, the text is complete, and a value may end where the turn ends.
    """

    def __init__(
        self,
        grammar: CompiledDialect,
        key: str,
        is_missing: Callable[[str], bool],
        *,
        repairs: bool,
    ) -> None:
        super().__init__(grammar, key, is_missing)
        self._repairs = repairs
        self._is_special = grammar.dialect.special
        self._has_calls = False  # a call or a parameter inside the value is data
        self._open: list[TagKind] = []  # tags inside the value that are not closed yet
        self._sections = 0  # the same for sections: text may name one without its end

    @property
    def is_clear(self) -> bool:
        """Whether the value may end without its closing tag.

        It may hold quoted tags and complete sections: files about calls have both. A call in it may
        be the next call of the response.
        """
        return not (self._has_calls or self._open or self._sections)

    def _judge_token(
        self, token: Token, text: str, at: int, value: OpenValue, *, final: bool
    ) -> EndingJudgement:
        if not self._is_special:
            quoted = _is_quoted(token, text, value, final=final or self._repairs)
            if quoted is None:
                return _MORE
            if quoted:
                return self._keep()
        if token.kind is TagKind.TURN_END:
            return self._judge_turn_end(token, text, at, value)
        if self._open:
            return self._judge_inside(token)
        return self._judge_outside(token, text, at, value, final=final)

    def _judge_outside(
        self, token: Token, text: str, at: int, value: OpenValue, *, final: bool
    ) -> EndingJudgement:
        """Judge a tag outside of tags that are data."""
        kind = token.kind
        if kind is TagKind.VALUE_END:
            # The last tag of the value may be one that the model put in the wrong place.
            if self._sections and ends_with_loose_tag(value.text):
                raise self._unclear(token)
            return EndingJudgement(Action.END, token.end)
        if kind in (TagKind.PARAMETER, TagKind.VALUE):
            return self._judge_opening(token, at, value)
        if kind in (TagKind.CALL_END, TagKind.SECTION_END):
            return self._judge_outer_end(token, text, at, value, final=final)
        if self._is_special or kind in (TagKind.KEY, TagKind.TRAIL, TagKind.NAME_END):
            raise self._unclear(token)
        if kind is TagKind.CALL:
            self._has_calls = True
            self._open.append(TagKind.CALL)
        else:
            self._sections += 1
        return self._keep()

    def _keep(self) -> EndingJudgement:
        self.has_markup = True
        return _DATA

    def _judge_turn_end(
        self, token: Token, text: str, at: int, value: OpenValue
    ) -> EndingJudgement:
        """Judge a token that ends the turn: it is never part of a value."""
        if not self._repairs:
            raise NoCallError(f"the turn ended inside the value of {self._key}")
        if self._open or text[token.end :].strip():
            raise self._unclear(token)
        return self._end_before(at, value)

    def _end_before(self, at: int, value: OpenValue) -> EndingJudgement:
        """End the value at *at*, before a tag that is not its own closing tag."""
        # White space or a newline at the end may be part of the value, or not.
        if value.is_blank or value.ends_with_newline:
            raise UnclearError(f"the value of {self._key} has no end")
        self.is_forgotten = True
        return EndingJudgement(Action.END, at)

    def _judge_opening(self, token: Token, at: int, value: OpenValue) -> EndingJudgement:
        """Judge the opening tag of a parameter or of a value: the closing tag was forgotten."""
        # A tag that came twice is dropped only while nothing of the value has come.
        key = token.tag.key if token.kind is TagKind.PARAMETER else self._key
        if key == self._key and value.is_blank and not self.has_markup and value.restart():
            self.is_doubled = True
            return EndingJudgement(Action.SKIP, token.end)
        if token.kind is TagKind.PARAMETER and self._is_missing(key):
            if self.has_markup:  # It is not clear which of the tags was meant as data.
                raise UnclearError(f"the value of {self._key} has no end")
            return self._end_before(at, value)
        if self._is_special:
            raise self._unclear(token)
        if token.kind is TagKind.VALUE or not self._grammar.dialect.value:
            self._open.append(token.kind)
        self._has_calls = True
        return self._keep()

    def _judge_outer_end(
        self, token: Token, text: str, at: int, value: OpenValue, *, final: bool
    ) -> EndingJudgement:
        """Judge the end of a call or of a section: the closing tag was forgotten."""
        is_section = token.kind is TagKind.SECTION_END
        if is_section and self._sections:
            self._sections -= 1
            return self._keep()
        follows = self._grammar.ends_call(text, token.end, final=final or self._repairs)
        if follows is None:
            return _MORE
        if not follows or not self.is_clear:
            raise self._unclear(token)
        # A call needs its own end tag; only a repair ends it with its section.
        if is_section and not self._repairs:
            raise NoCallError(f"{token.tag.text} inside the value of {self._key}")
        return self._end_before(at, value)

    def _judge_inside(self, token: Token) -> EndingJudgement:
        """Judge a tag inside of tags that are data: they have to balance."""
        kind, opened = token.kind, self._open
        has_values = bool(self._grammar.dialect.value)
        if kind in (TagKind.CALL, TagKind.VALUE) or (kind is TagKind.PARAMETER and not has_values):
            opened.append(kind)
        elif kind is TagKind.SECTION:
            self._sections += 1
        elif kind is TagKind.SECTION_END and self._sections:
            self._sections -= 1
        elif kind in (TagKind.VALUE_END, TagKind.CALL_END, TagKind.SECTION_END):
            if (kind is TagKind.CALL_END) != (opened[-1] is TagKind.CALL):
                raise self._unclear(token)
            opened.pop()
        return self._keep()


class CDATAEnding(_DialectEnding):
    """The end of a CDATA section that is the value; its closing tag follows (MiniCPM5)."""

    def __init__(
        self, grammar: CompiledDialect, key: str, is_missing: Callable[[str], bool]
    ) -> None:
        super().__init__(grammar, key, is_missing)
        self.marks = markers(CDATA_END)
        self.lacks_tag = False  # the section has ended, and no closing tag follows

    def judge(self, text: str, at: int, value: OpenValue, *, final: bool) -> EndingJudgement:
        """Judge the end of a section by the tag that follows it."""
        at_tag = self._grammar.skip_gap(text, at + len(CDATA_END))
        return _DATA if at_tag is None else super().judge(text, at_tag, value, final=final)

    def _judge_token(
        self, token: Token, text: str, at: int, value: OpenValue, *, final: bool
    ) -> EndingJudgement:
        del value
        if token.kind is TagKind.VALUE_END:
            return EndingJudgement(Action.END, token.end)
        follows: bool | None = False
        if token.kind is TagKind.PARAMETER:
            follows = self._is_missing(token.tag.key)
        elif token.kind is TagKind.CALL_END:
            follows = self._grammar.ends_call(text, token.end, final=final)
        if follows is None:
            return _MORE
        self.lacks_tag = follows
        end = text.rindex(CDATA_END, 0, at) + len(CDATA_END)
        return EndingJudgement(Action.END, end) if follows else _DATA


class TreeEnding(_DialectEnding):
    """The end of a value that may hold elements: the closing tag outside of them (MiniMax-M3)."""

    def __init__(
        self,
        grammar: CompiledDialect,
        key: str,
        is_missing: Callable[[str], bool],
        schema: Schema | None,
    ) -> None:
        super().__init__(grammar, key, is_missing)
        self._schema = schema
        self._has_elements = False
        self._open: list[str] = []  # the elements that are open

    def _judge_token(
        self, token: Token, text: str, at: int, value: OpenValue, *, final: bool
    ) -> EndingJudgement:
        if token.kind is TagKind.VALUE_END:
            if token.tag.key != (self._open[-1] if self._open else self._key):
                raise self._unclear(token)
            if not self._open:
                return EndingJudgement(Action.END, token.end)
            self._open.pop()
            return _DATA
        if token.kind is TagKind.PARAMETER:
            return self._judge_element(token, at, value)
        if self._open or token.kind is not TagKind.CALL_END:
            raise self._unclear(token)
        follows = self._grammar.ends_call(text, token.end, final=final)
        if follows is None:
            return _MORE
        if not follows:
            raise self._unclear(token)
        self.is_forgotten = True
        return EndingJudgement(Action.END, at)

    def _judge_element(self, token: Token, at: int, value: OpenValue) -> EndingJudgement:
        key, is_blank = token.tag.key, value.is_blank
        if not self._open:
            if self._has_elements or not is_blank:
                if self._is_missing(key) and not self._may_hold(key):
                    self.is_forgotten = True
                    return EndingJudgement(Action.END, at)
            elif key == self._key and not self._may_be_object:
                self.is_doubled = True
                return EndingJudgement(Action.SKIP, token.end)
            if not self._has_elements and not is_blank:
                raise self._unclear(token)
        self._has_elements = True
        self._open.append(key)
        return _DATA

    @property
    def _may_be_object(self) -> bool:
        return self._schema is None or self._schema.free or "object" in self._schema.types

    def _may_hold(self, key: str) -> bool:
        """Return whether *key* may be an element of the value."""
        schema = self._schema
        if schema is None or schema.free:
            return True
        if "array" in schema.types and key == ITEM:
            return True
        return "object" in schema.types and (not schema.properties or key in schema.properties)


class AnyClosingTag(_DialectEnding):
    """The first closing tag of all: it names the `key` of a value whose opening tag is missing."""

    def __init__(self, grammar: CompiledDialect, is_missing: Callable[[str], bool]) -> None:
        super().__init__(grammar, "", is_missing)
        self.key = ""

    def _judge_token(
        self, token: Token, text: str, at: int, value: OpenValue, *, final: bool
    ) -> EndingJudgement:
        del text, at, final
        if token.kind is not TagKind.VALUE_END:
            raise NoCallError("text before the first parameter")
        if value.text.lstrip().startswith(TAG_BEGINS):
            raise UnclearError("the opening tag of a value is damaged")
        self.key = token.tag.key
        if not self._is_missing(self.key):
            raise UnclearError("a value without its parameter")
        return EndingJudgement(Action.END, token.end)


def _is_quoted(token: Token, text: str, value: OpenValue, *, final: bool) -> bool | None:
    """Return whether *token* is inside quotes; None if it is undecided."""
    line = value.last_line()
    if not any(quote in line for quote in "\"'`"):
        return False
    if token.end == len(text):
        return False if final else None
    return text[token.end] in QUOTES


# Formats that resemble XML (tool_tag, file_tags). Names of tags match in any case.

MAX_FOLLOWED: Final = 2 * MAX_TAG
"""How much text after a closing tag decides about it: comments, a remark and another tag."""

MAX_MISSING: Final = 64
"""How many arguments are looked for in a value whose closing tag may have been forgotten."""

CALL_ENDS: Final = ("arguments", "tool")
"""The elements around a value, whose closing tags may follow it."""

# What the functions below return instead of a position; every position is greater.
_IS_DATA: Final = -1
_IS_OPEN: Final = -2  # only more text can decide


def _judgement(end: int, *, final: bool) -> EndingJudgement:
    if end == _IS_OPEN and not final:
        return _MORE
    return EndingJudgement(Action.END, end) if end > _IS_DATA else _DATA


class FirstTagEnding(Ending):
    """The first closing tag of *name* ends the value (file_tags)."""

    def __init__(self, name: str) -> None:
        self.marks = markers(f"</{name}", fold=True)
        self._name = name

    def judge(self, text: str, at: int, value: OpenValue, *, final: bool) -> EndingJudgement:
        """Judge a closing tag alone."""
        del value
        return _judgement(_find_closing_end(text, at, self._name), final=final)


class _ArgumentPlace(NamedTuple):
    """What may follow an argument of a call; see `StructuralTagEnding`."""

    names: Collection[str] | None
    tools: Collection[str]
    is_inside: bool  # an element of the argument's own name is open

    def closes(self, name: str) -> bool:
        return name.lower() in CALL_ENDS

    def may_close(self, text: str, at: int) -> bool:
        return any(may_become_closing(text.lower(), at, name) for name in CALL_ENDS)

    def allows(self, tag: MarkupTag, *, known: bool) -> bool:
        name, given = tag.name.lower(), tag.quoted_attributes.get("name")
        if name == "tool" and given is not None and find_name(given, self.tools) is not None:
            return True
        if self.is_inside or name == "arg":
            return not self.is_inside and given is not None
        return not known and (self.names is None or tag.name in self.names)


class StructuralTagEnding(Ending):
    """A closing tag of *name* ends the value if something follows that may follow a value.

    That is the end of the call or of its arguments, ``<arg name=…>``, the opening tag of another
    argument (*known* has their names; with None any tag may be one), the opening tag of a call of
    one of *tools*, whose predecessor has no end tag, or the end of all text. White space and
    comments may come before it. With *nests*, the value holds elements: a closing tag that belongs
    to an element of the same name inside is data.

    Where *nests* is None the value is content exactly as written. In any other value a remark may
    come before the next ``<arg name=…>`` or the end of the call. With *cdata*, the value is a CDATA
    section, whose end comes before the closing tag.

    *missing* are the arguments that were not given yet. The opening tag of one after a single line
    without markup may mean that the closing tag was forgotten: ``<arg name=…>`` ends the value, and
    with *repairs* so does ``<k>``; without, the value waits for its end.
    """

    def __init__(
        self,
        name: str,
        known: Collection[str] | None,
        tools: Collection[str],
        *,
        nests: bool | None = None,
        cdata: bool = False,
        missing: Collection[str] = (),
        repairs: bool = False,
    ) -> None:
        opening: tuple[str, ...] = ()
        if nests is not None:
            names = dict.fromkeys((name.lower(), "arg", *sorted(missing)[:MAX_MISSING]))
            opening = tuple(f"<{each}" for each in names)
        self.marks = markers(CDATA_END) if cdata else markers(f"</{name}", *opening, fold=True)
        self._name = name
        self._known = known
        self._tools = tools
        self._nests = bool(nests)
        self._remarks = nests is not None
        self._unmatched = 0  # opening tags of the same name inside the value
        self._missing = missing
        self._repairs = repairs
        self._is_first = True  # no tag was judged yet

    def judge(self, text: str, at: int, value: OpenValue, *, final: bool) -> EndingJudgement:
        """Judge a closing tag by what follows it; count an opening tag."""
        if text.startswith(CDATA_END, at):
            end = _find_closing_after(text, at + len(CDATA_END), self._name)
        elif text.startswith("</", at):
            end = _find_closing_end(text, at, self._name)
        else:
            return self._judge_opening(text, at, value, final=final)
        self._is_first = self._is_first and end == _IS_OPEN
        if end > _IS_DATA:
            end = self._judge_end(text, end, final=final)
        return _judgement(end, final=final)

    def _judge_end(self, text: str, end: int, *, final: bool) -> int:
        """Judge the closing tag that ends at *end*."""
        window = text[end : end + MAX_FOLLOWED]
        is_cut = len(window) == MAX_FOLLOWED
        is_inside = self._nests and self._unmatched > 0
        place = _ArgumentPlace(self._known, self._tools, is_inside)
        rule = ClosingRule(window, final=final and not is_cut, strict=self._remarks)
        verdict, size = rule.judge(self._name, 0, place, unmatched=self._unmatched > 0)
        if verdict is TagVerdict.STRUCTURAL:
            return end + size
        if verdict is TagVerdict.UNKNOWN and not is_cut:
            return _IS_OPEN
        follows = rule.skip_margin(0)
        is_tag = may_become_opening(window, follows) or place.may_close(window, follows)
        if final and not is_inside and is_tag and follows < len(window):
            return end  # The text was cut within the tag that follows.
        self._unmatched = max(0, self._unmatched - 1)
        return _IS_DATA

    def _judge_opening(
        self, text: str, at: int, value: OpenValue, *, final: bool
    ) -> EndingJudgement:
        """Count an opening tag; it ends the value if the closing tag was forgotten before it."""
        window = text[at : at + MAX_TAG]
        tag = opening_at(window, 0)
        if tag is None and not final and len(window) < MAX_TAG and may_become_opening(window, 0):
            return _MORE
        is_first, self._is_first = self._is_first, False
        if tag is not None and is_first and find_key(tag) in self._missing and is_line(value.text):
            if self._repairs or tag.name.lower() == "arg":
                self.is_forgotten = True
                return EndingJudgement(Action.END, at)
            value.wait()
        is_own = tag is not None and tag.name.lower() == self._name.lower() and not tag.empty
        self._unmatched += is_own
        return _DATA


def is_line(text: str) -> bool:
    """Return whether *text*, up to the tag of another argument, can be a whole value.

    Several lines may have words of the model after the value, and a bracket a damaged tag.
    """
    bare = text.strip()
    return bare != "" and not any(sign in bare for sign in ("\n", "<", ">", "&gt;", "```"))


class EndMarkerEnding(Ending):
    """The *end_marker* ends the value if the closing tag of *name* follows it.

    If the end marker was forgotten, a closing tag ends the value if it ends the call as well and
    nothing follows the call. Anywhere else closing tags are content: it may be a file about calls,
    and such a file must not be cut.
    """

    def __init__(self, name: str, end_marker: str) -> None:
        self.marks = markers(end_marker, f"</{name}", fold=True)
        self._name = name
        self._end_marker = end_marker

    def judge(self, text: str, at: int, value: OpenValue, *, final: bool) -> EndingJudgement:
        """Judge an end marker, or a closing tag without one."""
        del value
        if text.startswith(self._end_marker, at):
            after = at + len(self._end_marker)
            return _judgement(_find_closing_after(text, after, self._name), final=final)
        end = _find_closing_end(text, at, self._name)
        if end > _IS_DATA:
            end = self._judge_call_end(text, end, final=final)
            self.is_forgotten = end > _IS_DATA
        return _judgement(end, final=final)

    def _judge_call_end(self, text: str, end: int, *, final: bool) -> int:
        """Judge the closing tag that ends at *end* by whether the call ends with it."""
        arguments = _find_closing_after(text, end, "arguments")
        tool = _find_closing_after(text, arguments if arguments > _IS_DATA else end, "tool")
        if tool <= _IS_DATA:
            return _IS_OPEN if _IS_OPEN in (arguments, tool) else _IS_DATA
        if skip_gap(text, tool) != len(text):
            return _IS_DATA
        return end if final else _IS_OPEN


def _find_closing_end(text: str, at: int, name: str) -> int:
    """Find the end of the closing tag of *name* at *at*."""
    found = _closing_pattern(name).match(text, at)
    if found is None:
        return _IS_DATA
    if found[0].endswith(">"):
        return found.end()
    return _IS_OPEN if found.end() == len(text) else _IS_DATA


def _find_closing_after(text: str, at: int, name: str) -> int:
    """Find the end of the closing tag of *name* after the white space at *at*."""
    follows = skip_gap(text, at)
    if follows is None:
        return _IS_DATA
    if follows == len(text):
        return _IS_OPEN
    if markers(f"</{name}", fold=True).find_held(text, follows) == follows:
        return _IS_OPEN
    return _find_closing_end(text, follows, name)


@lru_cache(maxsize=512)
def _closing_pattern(name: str) -> re.Pattern[str]:
    """Match the closing tag of *name*, or its beginning."""
    return re.compile(rf"(?ai:</{re.escape(name)})\s{{0,{MAX_GAP}}}>?")
