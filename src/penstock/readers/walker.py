"""Where elements end while their text arrives: the streaming part of `rxml`.

The walker follows the elements of one call from tag to tag without their values: it knows which
string field is open, and when the end tag of the call has come; `rxml.loads` reads the rest. It
applies the same rules to the text that is there: a string field ends at its structural closing tag,
a tag inside a JSON string is data, a comment hides what is in it.

It cannot know that something never comes. So these hide the end tag of their call, and all that
follows it, where `rxml.loads`, which has the whole text, takes them for text:

* a comment, or CDATA, without an end;
* a string field whose closing tags are all data: after the last there is text;
* JSON text with a string that is never closed;
* an element in a list of strings that is never closed: the list is raw text then.

Only if such a call is the last of its response is it read after all. One difference remains: after
``<meta>{"a": "</meta>"}``, closed by the end tag of the call, `rxml.loads` goes back to the tag in
the string, and the walker refuses the call.

A tag, and what follows a closing tag, is decided within `MAX_TAG` characters; what is not decided
there is text. So what is held back, and what is looked at again, has a bound.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

from penstock.parsing.call_sink import NoCallError
from penstock.parsing.scanner import Markers, markers
from penstock.values.json_grammar import MAX_DEPTH
from penstock.values.rxml import MAX_ROOTS
from penstock.values.rxml.closing_tags import ClosingRule, TagVerdict, is_quoted
from penstock.values.rxml.elements import Child, Element, XMLReading, find_reading, may_be_raw
from penstock.values.rxml.markup import (
    CDATA,
    COMMENT,
    MarkupTag,
    closing_at,
    find_declaration_end,
    may_become_closing,
    may_become_markup,
    may_become_opening,
    opening_at,
    skip_space,
)
from penstock.values.schema import Schema

MAX_TAG: Final = 4096
"""How many characters may pass before it is known what a ``<`` begins."""

MAX_MISSING: Final = 64
"""How many arguments are looked for in a string whose closing tag may be missing."""

MORE: Final = -1
"""The result of a step that needs more text."""

_FAR_ENDS: Final = {COMMENT: "-->", CDATA: "]]>"}
_JSON_PART: Final = re.compile(r'["\[\]{}<\\]')
_JSON_STRING_PART: Final = re.compile(r'["\\]')


class NextCallError(NoCallError):
    """Another call begins where the end tag of the open one was to come."""


class RawText:
    """The element *element*, open in *parent*, whose inside is raw text.

    A tag of its own name, of one of *others*, or the end tag of *call*, is not passed without a
    look. It `is_doubtful` whether the first tag of *others* is part of it.
    """

    __slots__ = (
        *("has_tag", "is_doubtful", "name", "others", "place", "schema", "surplus", "tags"),
        "unmatched",
    )

    def __init__(
        self, element: Element, parent: Element, call: str, others: tuple[str, ...] = ()
    ) -> None:
        self.others = others
        self.is_doubtful = False
        self.has_tag = False  # a tag was judged
        self.name = element.name
        self.schema = element.schema
        self.place = parent.place_for(element.name)
        ends = (f"{begin}{name}" for begin in ("</", "</ ") for name in (self.name, call))
        begins = (f"<{name}" for name in dict.fromkeys((self.name, *others)))
        self.tags: Markers = markers(*begins, *dict.fromkeys(ends))
        self.unmatched = 0  # opening tags of the same name inside the value
        self.surplus = 0  # closing tags inside the value that match none of these


class Walker:
    """Follows the inside of the element *name*, an object of *schema*.

    An argument that is not one of the tool's, but is named like another of *tools*, is the next
    call.
    """

    def __init__(self, name: str, schema: Schema | None, tools: Container[str] = ()) -> None:
        self.begun = False  # an argument that the schema declares has
        self.ended = False
        self.seen: set[str] = set()
        """The names of the arguments that have ended."""
        self.text: RawText | None = None
        """The element of raw text that is open."""
        self._name = name
        self._tools = tools
        self._open = [Element(name, schema, start=0)]
        self._max_roots = MAX_ROOTS if schema is not None and schema.properties else 0
        self._undecided: Element | None = None  # opened, but how is its inside read?
        self._far_end = ""  # of the open comment or CDATA
        self._json_depth = 0
        self._in_json_string = False

    @property
    def field(self) -> RawText | None:
        """The string field of the call itself that is open."""
        return self.text if len(self._open) == 1 else None

    def step(self, text: str, at: int) -> int:
        """Take a step from *at*; return where it ends, or `MORE`.

        Raises `NoCallError` for a tag that closes nothing, or the wrong element.
        """
        if at == len(text):
            return MORE
        if self.text is not None:
            return self._step_in_text(self.text, text, at)
        if self._far_end:
            return self._step_in_remark(text, at)
        if self._undecided is not None:
            return self._decide(self._undecided, text, at)
        if self._json_depth:
            return self._step_in_json(text, at)
        found = text.find("<", at)
        if found != at:
            return found if found != -1 else len(text)
        return self._step_over_markup(text[at : at + MAX_TAG], at)

    def list_open(self, rest: str) -> list[str]:
        """List the elements that are open where the text ends, the innermost first.

        *rest* is the unread text. The list is empty if it is not clear what is open, or if a
        closing tag has come that may have been meant.
        """
        if self._far_end or self._json_depth:
            return []
        names = [element.name for element in reversed(self._open)]
        inner, at = self.text or self._undecided, 0
        if inner is not None:
            closing = closing_at(rest, 0)
            if closing is None or closing[0] != inner.name:
                was_closed = self.text is not None and self.text.surplus > 0
                return [] if was_closed else [inner.name, *names]
            at = closing[1]
        has_begun_tag = may_become_opening(rest, skip_space(rest, at))
        return [] if has_begun_tag else names

    # --- between tags ---

    def _step_over_markup(self, window: str, at: int) -> int:
        """Take what begins with the ``<`` that *window* begins with."""
        closing = closing_at(window, 0)
        if closing is not None:
            self._close(closing[0])
            return at + closing[1]
        tag = opening_at(window, 0)
        if tag is not None:
            self._enter(tag)
            return at + tag.end
        for marker, end in _FAR_ENDS.items():
            if window.startswith(marker):
                self._far_end = end
                return at + len(marker)
        declaration = find_declaration_end(window, 0)
        if declaration != -1:
            return at + declaration
        may_go_on = len(window) < MAX_TAG and may_become_markup(window)
        return MORE if may_go_on else at + 1

    def _close(self, name: str) -> None:
        element = self._open[-1]
        if name == element.name:
            self._open.pop()
            self.ended = not self._open
            self._count(name)
        elif len(self._open) == 1:
            raise NoCallError(f"`</{name}>` closes nothing")
        elif not may_be_raw(element.schema):
            raise NoCallError(f"`</{name}>` where `<{element.name}>` is open")

    def _count(self, name: str) -> None:
        """Count a child of *name* that has ended."""
        if self._open:
            self._open[-1].add(Child(name, 0, None, []))
        if len(self._open) == 1:
            self.seen.add(name)

    def _enter(self, tag: MarkupTag) -> None:
        parent = self._open[-1]
        if len(self._open) == 1 and parent.schema is not None:
            is_known = tag.name in parent.schema.properties
            if self.begun and not is_known and tag.name in self._tools:
                raise NextCallError(f"a call of `{tag.name}` begins inside")
            self.begun = self.begun or is_known
        if tag.empty:
            self._count(tag.name)
            return
        element = Element(tag.name, parent.child_schema(tag.name), start=0)
        if find_reading(tag.name, element.schema) is XMLReading.TEXT:
            self.text = RawText(element, parent, self._name, self._list_missing(tag.name))
        else:
            self._undecided = element

    def _list_missing(self, name: str) -> tuple[str, ...]:
        """Return the arguments of the call that have not come, without *name*."""
        schema = self._open[0].schema
        if len(self._open) > 1 or schema is None:
            return ()
        missing = (key for key in schema.properties if key != name and key not in self.seen)
        return tuple(missing)[:MAX_MISSING]

    def _decide(self, element: Element, text: str, at: int) -> int:
        """Decide how the inside of *element* is read, by how it begins."""
        window = text[at : at + MAX_TAG]
        is_text = _begins_as_text(element, window)
        begins = skip_space(window, 0)
        if is_text is None or (begins == len(window) and len(window) < MAX_TAG):
            return MORE
        self._undecided = None
        parent = self._open[-1]
        if is_text:
            self.text = RawText(element, parent, self._name)
            return at
        if len(self._open) >= MAX_DEPTH:
            raise NoCallError(f"elements nest deeper than {MAX_DEPTH}")
        if len(self._open) == 1 or parent.root:
            element.become_root(parent, self._max_roots)
        self._open.append(element)
        self._json_depth = int(window.startswith(("{", "["), begins))
        return at + begins + self._json_depth

    # --- inside what hides tags ---

    def _step_in_remark(self, text: str, at: int) -> int:
        end = text.find(self._far_end, at)
        if end == -1:
            held = markers(self._far_end).find_held(text, at)
            return held if held > at else MORE
        end += len(self._far_end)
        self._far_end = ""
        return end

    def _step_in_json(self, text: str, at: int) -> int:
        """Pass JSON text; a ``<`` or a backslash outside its strings says that it is not one."""
        pattern = _JSON_STRING_PART if self._in_json_string else _JSON_PART
        found = pattern.search(text, at)
        if found is None:
            return len(text)
        end, part = found.end(), found[0]
        if part == '"':
            self._in_json_string = not self._in_json_string
        elif self._in_json_string:
            return end + 1 if end < len(text) else (found.start() if end - at > 1 else MORE)
        elif part in "[{":
            self._json_depth += 1
        elif part in "]}":
            self._json_depth -= 1
        else:
            self._json_depth = 0
            return found.start()
        return end

    def _step_in_text(self, raw: RawText, text: str, at: int) -> int:
        """Pass raw text up to what looks like a tag that may end it, or that."""
        found = raw.tags.find(text, at)
        if found is None:
            held = raw.tags.find_held(text, at)
            return held if held > at else MORE
        if found.start() > at:
            return found.start()
        window = text[at : at + MAX_TAG]
        size = (
            self._judge_closing(raw, window)
            if window.startswith("</")
            else _judge_opening(raw, window)
        )
        if size is None:
            size = MORE if len(window) < MAX_TAG else len(found[0])
        return MORE if size == MORE else at + size

    def _judge_closing(self, raw: RawText, window: str) -> int | None:
        """Return how much of *window* is judged: a closing tag, or a piece of text.

        Return None if it is undecided.
        """
        closing = closing_at(window, 0)
        if closing is None:
            names = (raw.name, self._name)
            begun = any(may_become_closing(window, 0, name) for name in names)
            return None if begun else len("</")
        if closing[0] != raw.name:
            # The call's end tag waits: if nothing follows it, the field was left open.
            is_last = closing[0] == self._name and skip_space(window, closing[1]) == len(window)
            raw.has_tag = raw.has_tag or not is_last
            return None if is_last else closing[1]
        rule = ClosingRule(window, final=False, strict=True)
        verdict, end = rule.judge(raw.name, closing[1], raw.place, unmatched=raw.unmatched > 0)
        if verdict is TagVerdict.UNKNOWN and len(window) < MAX_TAG:
            return None
        if verdict is TagVerdict.STRUCTURAL:
            if raw.unmatched or raw.surplus:
                raise NoCallError(f"it is not clear where `<{raw.name}>` ends")
            self.text = None
            self._count(raw.name)
        elif raw.unmatched:
            raw.unmatched -= 1
        elif not is_quoted(window, end):
            raw.surplus += 1
        return end


def _judge_opening(raw: RawText, window: str) -> int | None:
    """Count an opening tag of the field's own name; None if it is undecided."""
    tag = opening_at(window, 0)
    if tag is None and may_become_opening(window, 0):
        return None
    if tag is not None and tag.name == raw.name and not tag.empty:
        if tag.end == len(window) < MAX_TAG:
            return None  # A quote may follow.
        raw.unmatched += not is_quoted(window, tag.end)
    raw.is_doubtful = tag is not None and tag.name in raw.others and not raw.has_tag
    raw.has_tag = True
    return len("<")


def _begins_as_text(element: Element, window: str) -> bool | None:
    """Return whether raw text begins here rather than an element; None if it is undecided."""
    if find_reading(element.name, element.schema) is not XMLReading.TEXT_OR_ELEMENTS:
        return False
    at = ClosingRule(window, final=False).skip_margin(0)
    if opening_at(window, at) is not None:
        return False
    begun = at == len(window) or COMMENT.startswith(window[at : at + len(COMMENT)])
    if len(window) < MAX_TAG and (begun or may_become_opening(window, at)):
        return None
    return True
