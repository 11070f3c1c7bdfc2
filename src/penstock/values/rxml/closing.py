"""The structural-close rule: which closing tag ends a string field.

A string field holds raw text: code, markup, other tools' tags, even its own tag. So its first
closing tag need not be its last. What follows a closing tag decides, white space and comments
aside:

* the closing tag of the element around it, the opening tag of a property of the same object (or of
  the list's next element), or the end of the input: it is structural;
* any other opening tag: structural too, unless an opening tag of the field's own name inside the
  value still waits for its own closing tag;
* anything else: it is data.

The rule lives here alone. `rxml.loads` has the whole text; a stream asks with ``final=False`` and
may hear that the answer is not known yet. Whatever it hears then, more text never changes it.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from penstock.values.rxml.markup import (
    COMMENT,
    Landmarks,
    TagIndex,
    closing_at,
    may_become_closing,
    may_become_opening,
    opening_at,
    skip_space,
)

if TYPE_CHECKING:
    from collections.abc import Collection


class Verdict(enum.Enum):
    """What a closing tag is to the string field of its name."""

    STRUCTURAL = "structural"
    DATA = "data"
    UNKNOWN = "unknown"


class Place(NamedTuple):
    """Where a string field stands: in which element, beside which properties.

    `enclosing` is the name of the element around the field, None at the root. `siblings` are the
    names whose opening tag may follow the field: the properties of its object (its own name among
    them), or the list's next element.
    """

    enclosing: str | None
    siblings: Collection[str]


class ClosingRule:
    """Judges the closing tags of string fields in one text.

    *final* says that no more text will come. Asking about every closing tag of a text costs time
    in proportion to the text, however its comments are arranged.
    """

    def __init__(self, text: str, *, final: bool = True) -> None:
        self.text = text
        self._final = final
        self._comment_ends = Landmarks(text, "-->")
        self._margins: dict[int, int] = {}

    def judge(self, end: int, place: Place, *, unmatched: bool) -> Verdict:
        """Judge the closing tag that ends at *end*.

        *unmatched* tells whether, inside the value, an opening tag of the field's own name has had
        no closing tag yet.
        """
        text = self.text
        at = self.skip_margin(end)
        if at == len(text):
            return Verdict.STRUCTURAL if self._final else Verdict.UNKNOWN
        if text[at] != "<":
            return Verdict.DATA
        closing = closing_at(text, at)
        if closing is not None:
            return Verdict.STRUCTURAL if closing[0] == place.enclosing else Verdict.DATA
        opening = opening_at(text, at)
        if opening is not None:
            known = opening.name in place.siblings
            return Verdict.STRUCTURAL if known or not unmatched else Verdict.DATA
        return Verdict.UNKNOWN if self._may_go_on(at, place) else Verdict.DATA

    def skip_margin(self, position: int) -> int:
        """Skip white space and whole comments from *position* on.

        Comments may hold closing tags that more comments follow, so the same run of comments can
        be asked for from many places: each stop on the way is remembered.
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

    def _may_go_on(self, at: int, place: Place) -> bool:
        """Tell whether more text could still make a tag or a comment of what stands at *at*."""
        if self._final:
            return False
        text = self.text
        if COMMENT.startswith(text[at : at + len(COMMENT)]):
            return True
        return may_become_closing(text, at, place.enclosing) or may_become_opening(text, at)


class OwnTags:
    """Counts, inside a value, the tags of the field's own name that are still unmatched."""

    def __init__(self, text: str, openings: list[int], start: int) -> None:
        self._text = text
        self._openings = openings
        self._next = bisect_left(openings, start)
        self._open = 0

    def unmatched_before(self, position: int) -> bool:
        """Count the opening tags up to *position*; tell whether one is unmatched."""
        while self._next < len(self._openings) and self._openings[self._next] < position:
            tag = opening_at(self._text, self._openings[self._next])
            self._open += tag is not None and not tag.empty
            self._next += 1
        return self._open > 0

    def match_one(self) -> None:
        """Let a closing tag that is data match the latest unmatched opening tag."""
        self._open = max(0, self._open - 1)


def find_closing(
    rule: ClosingRule, index: TagIndex, name: str, start: int, place: Place
) -> tuple[int, int] | None:
    """Find the closing tag of the string field *name* whose value begins at *start*.

    Where no closing tag is structural the last one closes the field; without any there is None.
    """
    if not index.is_listed:
        first = _find_first(rule, name, start, place)
        if first is not None:
            return first
    own = OwnTags(rule.text, index.openings(name), start)
    places = index.closings(name)
    last = None
    for number in range(bisect_left(places, start), len(places)):
        at = places[number]
        closing = closing_at(rule.text, at)
        if closing is None:
            continue
        last = at, closing[1]
        unmatched = own.unmatched_before(at)
        if rule.judge(closing[1], place, unmatched=unmatched) is Verdict.STRUCTURAL:
            return last
        own.match_one()
    return last


def _find_first(rule: ClosingRule, name: str, start: int, place: Place) -> tuple[int, int] | None:
    """Find the first closing tag if it is structural, as nearly always it is.

    This spares the index, which a value full of markup makes dear. Once it has failed there is an
    index, so that no text is searched in vain twice.
    """
    text = rule.text
    at = text.find(f"</{name}", start)
    closing = closing_at(text, at) if at != -1 else None
    if closing is None or closing[0] != name or text.find(f"<{name}", start, at) != -1:
        return None
    verdict = rule.judge(closing[1], place, unmatched=False)
    return (at, closing[1]) if verdict is Verdict.STRUCTURAL else None
