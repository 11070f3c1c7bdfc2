"""Which closing tag ends a string field of XML.

A string field holds raw text: code, markup, tags of other tools, even its own tag. So its first
closing tag need not be its last. What follows a closing tag decides, except for white space and
comments:

* the closing tag of the element around it, the opening tag of a property of the same object (or of
  the list's next element), or the end of the input: it is structural;
* any other opening tag: structural too, unless an opening tag of the field's own name inside the
  value has no closing tag yet;
* anything else: it is data.

Calls are read with *strict* rules, because damaged calls contain data that looks like structure
(law 11). Two more closing tags are structural then: one that is followed by the same closing tag
and then by structure (the second came twice), and one that is followed by at most `MAX_REMARK`
characters without a tag and then by the end of the element around it or by a property (the text is
a remark of the model). And a value may hold its own closing tag only if it closes an opening tag
inside the value, or if a quote follows it, as in ``print("</content>")``; the same is true of its
own opening tag. Any other value is refused, because it is not clear where it ends.

`rxml.loads` has the whole text. A stream calls `ClosingRule` with ``final=False``, and a verdict
may be `UNKNOWN` then; more text never changes any other verdict.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from penstock.errors import XMLParseError
from penstock.values.rxml.markup import (
    COMMENT,
    NEXT_MARKUP,
    Landmarks,
    MarkupTag,
    TagIndex,
    closing_at,
    may_become_closing,
    may_become_opening,
    opening_at,
    skip_space,
)

if TYPE_CHECKING:
    from collections.abc import Collection


class TagVerdict(enum.Enum):
    """Whether a closing tag ends the string field of its name."""

    STRUCTURAL = "structural"
    DATA = "data"
    UNKNOWN = "unknown"


MAX_REMARK: Final = 256
"""How many characters of prose may follow a closing tag before the next tag: a sentence or two."""

QUOTES: Final = frozenset("\"'`\\")
"""The characters after a tag that is quoted in code or in prose."""


class Judgement(NamedTuple):
    """What a closing tag is, and where it ends, including a second one that came twice."""

    verdict: TagVerdict
    end: int


class ClosingPlace(NamedTuple):
    """The context of a string field.

    `enclosing` is the name of the element around the field, None at the root. `siblings` are the
    names whose opening tag may follow the field: the properties of its object, its own name among
    them, or the list's next element.
    """

    enclosing: str | None
    siblings: Collection[str]

    def closes(self, name: str) -> bool:
        """Return whether the closing tag of *name* may follow the field."""
        return name == self.enclosing

    def may_close(self, text: str, at: int) -> bool:
        """Return whether more text could make such a closing tag of what is at *at*."""
        return may_become_closing(text, at, self.enclosing)

    def allows(self, tag: MarkupTag, *, known: bool) -> bool:
        """Return whether the opening *tag* may follow; *known*: only a known one may."""
        return tag.name in self.siblings or not known


class Followers(Protocol):
    """What may follow a value: which closing tags, and which opening tags."""

    def closes(self, name: str) -> bool:
        """Return whether the closing tag of *name* may follow the value."""

    def may_close(self, text: str, at: int) -> bool:
        """Return whether more text could make such a closing tag of what is at *at*."""

    def allows(self, tag: MarkupTag, *, known: bool) -> bool:
        """Return whether the opening *tag* may follow; *known*: only a known one may."""


def _judge_tag(text: str, at: int, place: Followers, *, known: bool) -> TagVerdict:
    """Judge a closing tag by the tag that follows it at *at*; without a whole one, `UNKNOWN`."""
    closing = closing_at(text, at)
    if closing is not None:
        return TagVerdict.STRUCTURAL if place.closes(closing[0]) else TagVerdict.DATA
    tag = opening_at(text, at)
    if tag is None:
        return TagVerdict.UNKNOWN
    return TagVerdict.STRUCTURAL if place.allows(tag, known=known) else TagVerdict.DATA


class ClosingRule:
    """Judges the closing tags of string fields in one text.

    With *final*, no more text comes; *strict* rules are those for calls. Judging every closing tag
    of a text takes linear time, however its comments are arranged.
    """

    def __init__(self, text: str, *, final: bool = True, strict: bool = False) -> None:
        self.text = text
        self.strict = strict
        self._final = final
        self._comment_ends = Landmarks(text, "-->")
        self._margins: dict[int, int] = {}

    def judge(self, name: str, end: int, place: Followers, *, unmatched: bool) -> Judgement:
        """Judge the closing tag of the field *name* that ends at *end*.

        *unmatched*: inside the value, an opening tag of the field's own name has no closing tag
        yet.
        """
        text = self.text
        at = self.skip_margin(end)
        if self.strict and not unmatched and not place.closes(name):
            doubled = closing_at(text, at)
            if doubled is not None and doubled[0] == name:  # `</path></path>`: one slip, one end
                end = doubled[1]
                at = self.skip_margin(end)
            elif self._may_close(at, name):
                return Judgement(TagVerdict.UNKNOWN, end)
        return Judgement(self._judge_follower(end, at, place, unmatched=unmatched), end)

    def _judge_follower(
        self, end: int, at: int, place: Followers, *, unmatched: bool
    ) -> TagVerdict:
        """Judge the closing tag that ends at *end* by what follows it at *at*."""
        text = self.text
        if at == len(text):
            return TagVerdict.STRUCTURAL if self._final else TagVerdict.UNKNOWN
        verdict = _judge_tag(text, at, place, known=unmatched)
        if verdict is not TagVerdict.UNKNOWN or self._may_go_on(at, place):
            return verdict
        is_remark = self.strict and not unmatched
        return self._judge_remark(end, at, place) if is_remark else TagVerdict.DATA

    def _judge_remark(self, end: int, at: int, place: Followers) -> TagVerdict:
        """Judge the closing tag that ends at *end*, where text follows it at *at*."""
        text = self.text
        if text[end] in QUOTES:
            return TagVerdict.DATA  # as in `print("</content>")`, where more code follows
        limit = at + MAX_REMARK
        while found := NEXT_MARKUP.search(text, at, limit):
            at = found.start()
            # After a remark only a known tag is structure.
            verdict = _judge_tag(text, at, place, known=True)
            if verdict is not TagVerdict.UNKNOWN or self._may_go_on(at, place):
                return verdict
            at += 1
        is_open = not self._final and len(text) < limit
        return TagVerdict.UNKNOWN if is_open else TagVerdict.DATA

    def _may_close(self, at: int, name: str) -> bool:
        """Return whether more text could make the closing tag of *name* of what is at *at*."""
        is_begun = at < len(self.text) and may_become_closing(self.text, at, name)
        return is_begun and not self._final

    def skip_margin(self, position: int) -> int:
        """Skip white space and whole comments from *position* on.

        Comments may hold closing tags that more comments follow, so the same run of comments can
        be skipped from many places: each stop is cached.
        """
        stops = []
        at = skip_space(self.text, position)
        while at not in self._margins and self.text.startswith(COMMENT, at):
            end = self._comment_ends.after(at + len(COMMENT))
            if end == -1:
                break
            stops.append(at)
            at = skip_space(self.text, end)
        at = self._margins.get(at, at)
        self._margins.update(dict.fromkeys(stops, at))
        return at

    def _may_go_on(self, at: int, place: Followers) -> bool:
        """Return whether more text could still make a tag or a comment of what is at *at*."""
        if self._final:
            return False
        text = self.text
        if COMMENT.startswith(text[at : at + len(COMMENT)]):
            return True
        return place.may_close(text, at) or may_become_opening(text, at)


class OwnTags:
    """Counts, inside a value, the tags of the field's own name that are still unmatched."""

    def __init__(self, text: str, openings: list[int], start: int, *, strict: bool) -> None:
        self._text = text
        self._strict = strict
        self._openings = openings
        self._next = bisect_left(openings, start)
        self._open = 0

    def unmatched_before(self, position: int) -> bool:
        """Count the opening tags up to *position*; return whether one is unmatched."""
        while self._next < len(self._openings) and self._openings[self._next] < position:
            tag = opening_at(self._text, self._openings[self._next])
            if tag is not None and not tag.empty:
                self._open += not (self._strict and is_quoted(self._text, tag.end))
            self._next += 1
        return self._open > 0

    def match_one(self) -> None:
        """Match a closing tag that is data with the latest unmatched opening tag."""
        self._open = max(0, self._open - 1)


def find_closing(
    rule: ClosingRule, index: TagIndex, name: str, start: int, place: ClosingPlace
) -> tuple[int, int] | None:
    """Find the closing tag of the string field *name* whose value begins at *start*.

    If no closing tag is structural, the last one closes the field; without any, return None. With
    strict rules, raise `XMLParseError` for a value with unmatched tags of its own name.
    """
    if not index.is_listed:
        first = _find_first(rule, name, start, place)
        if first is not None:
            return first
    own = OwnTags(rule.text, index.openings(name), start, strict=rule.strict)
    places = index.closings(name)
    last: tuple[int, int] | None = None
    is_clear, is_last_clear = True, True
    for number in range(bisect_left(places, start), len(places)):
        at = places[number]
        closing = closing_at(rule.text, at)
        if closing is None or (last is not None and at < last[1]):
            continue
        is_clear = is_clear and is_last_clear
        unmatched = own.unmatched_before(at)
        verdict, end = rule.judge(name, closing[1], place, unmatched=unmatched)
        last = at, end
        if verdict is TagVerdict.STRUCTURAL:
            break
        own.match_one()
        # A closing tag that is data must belong to an opening one, or be quoted.
        is_last_clear = unmatched or is_quoted(rule.text, end)
    else:
        # The last one closes the field, so that it matches no tag inside the value.
        is_clear = is_clear and not (last is not None and unmatched)
    if rule.strict and last is not None and (not is_clear or own.unmatched_before(last[0])):
        message = f"it is not clear where `<{name}>` ends"
        raise XMLParseError(message, text=rule.text, position=start)
    return last


def is_quoted(text: str, end: int) -> bool:
    """Return whether a quote follows the tag that ends at *end*."""
    return text[end : end + 1] in QUOTES


def _find_first(
    rule: ClosingRule, name: str, start: int, place: ClosingPlace
) -> tuple[int, int] | None:
    """Find the first closing tag if it is structural, as it is nearly always.

    This avoids the index, which is expensive for a value full of markup. Once it fails the index
    exists, so no text is searched in vain twice.
    """
    text = rule.text
    at = text.find(f"</{name}", start)
    closing = closing_at(text, at) if at != -1 else None
    if closing is None or closing[0] != name:
        return None
    # An opening tag of the same name inside the value has to be counted against its closing tag.
    if any(text.find(tag, start, at) != -1 for tag in (f"<{name}", f"</ {name}")):
        return None
    verdict, end = rule.judge(name, closing[1], place, unmatched=False)
    return (at, end) if verdict is TagVerdict.STRUCTURAL else None
