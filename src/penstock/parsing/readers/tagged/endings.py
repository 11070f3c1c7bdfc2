r"""Where a raw value ends: the one place that decides what is markup and what is data.

Every tag of the dialect inside a value is judged, in the order in which it comes. More text never
changes a judgement, and what is held back for one is at most a tag and the white space after it.

1. The closing tag of the value ends it. What follows is judged between the parameters: text that
   cannot be there makes the call incomplete, so a closing tag that was meant as data never cuts a
   value short in a complete call.
2. Where a closing tag was forgotten, the value ends before a parameter that the tool has and that
   was not given yet, and before the end of a call that something follows which can follow a call.
3. In a dialect of plain tags two things are data. A tag inside quotes: a quote or a backslash
   follows it, and a quote comes before it on its line, as in ``text.split("</parameter>")``. And
   tags that balance: what a call or a parameter inside the value opens, its own tags close, as in a
   file that documents the format.
4. Any other tag makes the call incomplete (law 11). Tags that are special tokens never are data.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple, Protocol

from penstock.parsing.call_sink import NoCallError
from penstock.parsing.readers.tagged.dialect import Grammar, TagKind, Token
from penstock.parsing.readers.tagged.tags import key_of
from penstock.parsing.readers.tagged.values import ITEM, OpenText
from penstock.parsing.scanner import Markers, Scanner, markers
from penstock.values.schema import Schema

SECTION: Final = "<![CDATA["
SECTION_END: Final = "]]>"

MAX_SKIPPED: Final = 512
"""How much text between two parameters is skipped: a sentence or two, no file."""

MAX_SHOWN: Final = 80
"""How much of the text that was skipped its note shows."""

_QUOTES: Final = "\"'`"
_SIGNS: Final = frozenset("[]{}")


class UnclearError(NoCallError):
    """The text cannot be a call, and no repair can tell what was meant."""


class Action(Enum):
    """What becomes of a tag inside a value."""

    DATA = "it is part of the value"
    SKIP = "it says nothing: it came twice"
    MORE = "only more text can tell"
    END = "the value has ended"


class EndingJudgement(NamedTuple):
    """What becomes of a tag inside a value, and where reading continues."""

    action: Action
    end: int = 0


_DATA: Final = EndingJudgement(Action.DATA)
_MORE: Final = EndingJudgement(Action.MORE)


class Ending(Protocol):
    """Knows what ends one value."""

    has_markup: bool
    """Whether a tag of the dialect is part of the value."""

    is_forgotten: bool
    """Whether the value ended without its closing tag."""

    is_doubled: bool
    """Whether the opening tag of the value came twice."""

    @property
    def marks(self) -> Markers:
        """What tags begin with."""

    def judge(self, text: str, at: int, value: OpenText, *, final: bool) -> EndingJudgement:
        """Judge the mark at *at*, up to which *text* is part of *value*.

        *final* tells that no more text will come; then the judgement is not `MORE`. Raises
        `NoCallError` for what no complete call can have here.
        """


def read_text(value: OpenText, ending: Ending, scanner: Scanner, *, final: bool = False) -> bool:
    """Read on in *value*, up to what ends it; return whether it has ended."""
    text, marks = scanner.text, ending.marks
    while found := marks.find(text, scanner.at):
        _add(value, scanner, found.start())
        action, end = ending.judge(text, found.start(), value, final=final)
        if action is Action.MORE:
            return False
        if action is Action.DATA:
            _add(value, scanner, found.end())
            continue
        scanner.at = end
        if action is Action.END:
            value.close(forgotten=ending.is_forgotten)
            return True
    _add(value, scanner, len(text) if final else marks.find_held(text, scanner.at))
    return False


def _add(value: OpenText, scanner: Scanner, end: int) -> None:
    at = scanner.at
    if end > at:
        piece = scanner.text[at:end]
        # What waits is claimed by no event: where the call breaks off, it is text at any cut.
        scanner.at = end - value.count_waiting(piece)
        value.add(piece)
        scanner.at = end


class ValueEnding:
    """The end of the value of *key*; *is_missing* knows the parameters that were not given.

    With *repairs*, all of the text is there, and a value may end where the turn does.
    """

    def __init__(
        self, grammar: Grammar, key: str, is_missing: Callable[[str], bool], *, repairs: bool
    ) -> None:
        self.marks = grammar.marks
        self.has_markup = False
        self.is_forgotten = False
        self.is_doubled = False
        self._grammar = grammar
        self._key = key
        self._is_missing = is_missing
        self._repairs = repairs
        self._is_special = grammar.dialect.special
        self._has_calls = False  # a call or a parameter inside the value is data
        self._open: list[TagKind] = []  # tags inside the value whose closing tags have not come
        self._sections = 0  # the same for sections: text may name one without its end

    def judge(self, text: str, at: int, value: OpenText, *, final: bool) -> EndingJudgement:
        """Judge the tag at *at*."""
        grammar = self._grammar
        token = grammar.token(text, at)
        if token is None:
            if not final and grammar.may_become_token(text, at):
                return _MORE
            return _DATA
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
        self, token: Token, text: str, at: int, value: OpenText, *, final: bool
    ) -> EndingJudgement:
        """Judge a tag outside of tags that are data."""
        if token.kind is TagKind.VALUE_END:
            return EndingJudgement(Action.END, token.end)
        if token.kind in (TagKind.PARAMETER, TagKind.VALUE):
            return self._judge_opening(token, at, value)
        if token.kind in (TagKind.CALL_END, TagKind.SECTION_END):
            return self._judge_outer_end(token, text, at, value, final=final)
        if self._is_special or token.kind in (TagKind.KEY, TagKind.TRAIL):
            raise UnclearError(f"{token.found[0]} inside the value of {self._key}")
        if token.kind is TagKind.CALL:
            self._has_calls = True
            self._open.append(TagKind.CALL)
        else:
            self._sections += 1
        return self._keep()

    @property
    def is_clear(self) -> bool:
        """Whether the value may end without its closing tag.

        It may hold tags that are quoted, and sections that have come to their end: files about
        calls have both. A call in it may be the next one.
        """
        return not (self._has_calls or self._open or self._sections)

    def _keep(self) -> EndingJudgement:
        self.has_markup = True
        return _DATA

    def _judge_turn_end(self, token: Token, text: str, at: int, value: OpenText) -> EndingJudgement:
        """Judge a token that ends the turn: it never is part of a value."""
        if not self._repairs:
            raise NoCallError(f"the turn ended inside the value of {self._key}")
        if self._open or text[token.end :].strip():
            raise UnclearError(f"{token.found[0]} inside the value of {self._key}")
        return self._forget(at, value)

    def _forget(self, at: int, value: OpenText) -> EndingJudgement:
        """End the value before a tag that is not its own."""
        if value.is_blank or value.ends_with_newline:  # Is that a part of the value?
            raise UnclearError(f"no end of the value of {self._key}")
        self.is_forgotten = True
        return EndingJudgement(Action.END, at)

    def _judge_opening(self, token: Token, at: int, value: OpenText) -> EndingJudgement:
        """Judge the opening tag of a parameter or of a value: the closing tag was forgotten."""
        key = key_of(token.found) if token.kind is TagKind.PARAMETER else self._key
        if key == self._key and value.is_blank and not self.has_markup and value.restart():
            self.is_doubled = True
            return EndingJudgement(Action.SKIP, token.end)
        if token.kind is TagKind.PARAMETER and self._is_missing(key):
            if self.has_markup:  # Which of the tags was meant as data?
                raise UnclearError(f"no end of the value of {self._key}")
            return self._forget(at, value)
        if self._is_special:
            raise UnclearError(f"{token.found[0]} inside the value of {self._key}")
        if token.kind is TagKind.VALUE or not self._grammar.dialect.value:
            self._open.append(token.kind)
        self._has_calls = True
        return self._keep()

    def _judge_outer_end(
        self, token: Token, text: str, at: int, value: OpenText, *, final: bool
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
            raise UnclearError(f"{token.found[0]} inside the value of {self._key}")
        if is_section and not self._repairs:
            raise NoCallError(f"{token.found[0]} inside the value of {self._key}")
        return self._forget(at, value)

    def _judge_inside(self, token: Token) -> EndingJudgement:
        """Judge a tag inside of tags that are data: those balance."""
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
                raise UnclearError(f"{token.found[0]} inside the value of {self._key}")
            opened.pop()
        return self._keep()


class SectionEnd:
    """The end of a CDATA section, where the closing tag of the value of *key* follows."""

    has_markup = False
    is_doubled = False

    def __init__(self, grammar: Grammar, key: str, is_missing: Callable[[str], bool]) -> None:
        self.lacks_tag = False  # the section has ended, and no closing tag follows
        self.marks = markers(SECTION_END)
        self.is_forgotten = False
        self._grammar = grammar
        self._key = key
        self._is_missing = is_missing

    def judge(self, text: str, at: int, value: OpenText, *, final: bool) -> EndingJudgement:
        """Judge the end of a section by the tag that follows it."""
        del value
        end = at + len(SECTION_END)
        at_tag = self._grammar.skip_gap(text, end)
        if at_tag is None:
            return _DATA
        token = self._grammar.token(text, at_tag)
        if token is None:
            is_begun = self._grammar.may_become_token(text, at_tag)
            return _MORE if is_begun and not final else _DATA
        if token.kind is TagKind.VALUE_END:
            return EndingJudgement(Action.END, token.end)
        if token.kind is TagKind.PARAMETER and self._is_missing(key_of(token.found)):
            self.lacks_tag = True
            return EndingJudgement(Action.END, end)
        if token.kind is not TagKind.CALL_END:
            return _DATA
        follows = self._grammar.ends_call(text, token.end, final=final)
        if follows is None:
            return _MORE
        self.lacks_tag = follows
        return EndingJudgement(Action.END, end) if follows else _DATA


class TreeEnding:
    """The end of a value that may hold elements: the closing tag of *key* outside of them."""

    has_markup = False

    def __init__(
        self,
        grammar: Grammar,
        key: str,
        is_missing: Callable[[str], bool],
        schema: Schema | None,
    ) -> None:
        self.marks = grammar.marks
        self.is_forgotten = False
        self.is_doubled = False
        self._grammar = grammar
        self._key = key
        self._is_missing = is_missing
        self._schema = schema
        self._has_elements = False
        self._open: list[str] = []  # the elements that are open

    def judge(self, text: str, at: int, value: OpenText, *, final: bool) -> EndingJudgement:
        """Judge the tag of an element, or of the call."""
        token = self._grammar.token(text, at)
        if token is None:
            if not final and self._grammar.may_become_token(text, at):
                return _MORE
            return _DATA
        unclear = UnclearError(f"{token.found[0]} inside the value of {self._key}")
        if token.kind is TagKind.VALUE_END:
            key = key_of(token.found)
            if key != (self._open[-1] if self._open else self._key):
                raise unclear
            if not self._open:
                return EndingJudgement(Action.END, token.end)
            self._open.pop()
            return _DATA
        if token.kind is TagKind.PARAMETER:
            return self._judge_element(key_of(token.found), token, at, value)
        if self._open or token.kind is not TagKind.CALL_END:
            raise unclear
        follows = self._grammar.ends_call(text, token.end, final=final)
        if follows is None:
            return _MORE
        if not follows:
            raise unclear
        self.is_forgotten = True
        return EndingJudgement(Action.END, at)

    def _judge_element(self, key: str, token: Token, at: int, value: OpenText) -> EndingJudgement:
        is_blank = value.is_blank
        if not self._open:
            if self._has_elements or not is_blank:
                if self._is_missing(key) and not self._may_hold(key):
                    self.is_forgotten = True
                    return EndingJudgement(Action.END, at)
            elif key == self._key and not self._may_be_object:
                self.is_doubled = True
                return EndingJudgement(Action.SKIP, token.end)
            if not self._has_elements and not is_blank:
                raise UnclearError(f"{token.found[0]} inside the value of {self._key}")
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


class AnyClosingTag:
    """The first closing tag of all: it says what the *key* of the value is."""

    has_markup = False
    is_forgotten = False
    is_doubled = False

    def __init__(self, grammar: Grammar, is_missing: Callable[[str], bool]) -> None:
        self.key = ""
        self.marks = grammar.marks
        self._grammar = grammar
        self._is_missing = is_missing

    def judge(self, text: str, at: int, value: OpenText, *, final: bool) -> EndingJudgement:
        """Judge a closing tag; no other tag may come before it."""
        del value
        token = self._grammar.token(text, at)
        if token is None:
            if not final and self._grammar.may_become_token(text, at):
                return _MORE
            return _DATA
        if token.kind is not TagKind.VALUE_END:
            raise NoCallError("text before the first parameter")
        self.key = key_of(token.found)
        if not self._is_missing(self.key):
            raise UnclearError("a value without its parameter")
        return EndingJudgement(Action.END, token.end)


def _is_quoted(token: Token, text: str, value: OpenText, *, final: bool) -> bool | None:
    """Return whether *token* is inside quotes; None for not yet."""
    line = value.line()
    if not any(quote in line for quote in _QUOTES):
        return False
    if token.end == len(text):
        return False if final else None
    return text[token.end] in "\"'`\\"


def closed_note(key: str) -> str:
    """Say that the closing tag of the value of *key* was forgotten."""
    return f"closed the value of {key!r}"


DOUBLED_NOTE: Final = "dropped a closing tag that came twice"


def is_prose(text: str) -> bool:
    """Return whether *text* between two tags says nothing: words, or a token that ends the turn.

    A single word, or what has brackets, may be a value that has lost its tags.
    """
    words = [word for word in text.split() if not word.startswith("<")]
    return len(words) != 1 and _SIGNS.isdisjoint(text)


def skipped_note(text: str) -> str:
    """Return the note on a call that *text* between its parameters was skipped."""
    shown = " ".join(text.split())
    if len(shown) > MAX_SHOWN:
        shown = shown[:MAX_SHOWN] + "…"
    return f'skipped text between parameters: "{shown}"'
