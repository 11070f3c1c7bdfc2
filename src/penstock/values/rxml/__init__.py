"""Robust XML: elements that models write for arguments, read by a schema and written back.

`loads` reads the inside of a call, or any run of elements, into an object. Fields that the schema
declares as strings are raw text up to their structural closing tag, so ``a < b && c``, HTML,
comments and tags of other tools come out exactly; the rest is elements, numbers, lists and JSON
text, which `coerce` fits to the schema. `dumps` writes a value so that `loads` reads it back.

This is not an XML parser: there are no namespaces, no DTD and no custom entities, and a text that
an XML parser would refuse is read as far as its tags are whole and match.

The text is read once, with a stack of open elements and no recursion. At every opening tag the
schema decides how the inside is read (`elements`): raw text is taken up to its structural closing
tag (`closing_tags`) in one step, JSON text up to where the JSON ends, and anything else opens an
`Element` whose children follow. An element becomes a value when it is closed, so there is no tree.

Outside raw text, comments, declarations and text beside elements have no meaning; a ``<`` that
opens no tag is text; CDATA is text as written.

A body may be in a root that the schema does not declare (``<arguments>…</arguments>``). Only its
end shows whether an unknown first element is such a root, so it is read as one, and if a second
element follows it the text is read again with one root less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from penstock.errors import CoercionError, DuplicateStringTagError, UsageError, XMLParseError
from penstock.values.coercion import coerce
from penstock.values.json_grammar import MAX_DEPTH
from penstock.values.rxml.closing_tags import ClosingRule, find_closing
from penstock.values.rxml.elements import (
    Child,
    Element,
    XMLDialect,
    XMLReading,
    close_element,
    empty_child,
    find_reading,
    json_child,
    make_object,
    may_be_raw,
    may_hold,
    text_child,
)
from penstock.values.rxml.markup import (
    CDATA,
    CDATA_END,
    COMMENT,
    NEXT_MARKUP,
    Landmarks,
    MarkupTag,
    TagIndex,
    closing_at,
    find_declaration_end,
    find_json_end,
    opening_at,
    read_attributes,
    skip_space,
)
from penstock.values.rxml.writer import dumps
from penstock.values.schema import Schema

__all__ = ["dumps", "loads"]


if TYPE_CHECKING:
    from collections.abc import Callable


MAX_ROOTS: Final = 2
"""How many unknown roots around a body are removed; each may cost one more reading."""


def read_elements(text: str, schema: Schema | None, dialect: XMLDialect) -> Element:
    """Read *text* into an element without a name that holds its fields.

    Raises `XMLParseError` for a tag that is never closed, closes nothing or nests too deep.
    """
    roots = MAX_ROOTS if schema is not None and schema.properties else 0
    refused: XMLParseError | None = None
    while True:
        reader = _Reader(text, schema, dialect, roots)
        try:
            return reader.read()
        except _NotAlone as not_alone:
            # `<a>…</a><b>…</b>`: the first element was a field after all, not a root around all.
            roots = not_alone.roots - 1
        except XMLParseError as error:
            if reader.roots_seen == 0:
                raise refused or error from None  # Nothing was taken for a root: no other reading.
            refused = refused or error
            roots = 0


class _NotAlone(Exception):  # noqa: N818 - control flow inside the reader
    """A second element follows what was read as the root around the body."""

    def __init__(self, roots: int) -> None:
        super().__init__(roots)
        self.roots = roots


class _Reader:
    def __init__(self, text: str, schema: Schema | None, dialect: XMLDialect, roots: int) -> None:
        self._text = text
        self._dialect = dialect
        self._max_roots = roots
        self.roots_seen = 0
        self._rule = ClosingRule(text, strict=dialect.strict)
        self._index = TagIndex(text)
        self._far_ends = {
            COMMENT: Landmarks(text, "-->"),
            CDATA: Landmarks(text, CDATA_END),
        }
        self._root = Element("", schema, start=0)
        self._open = [self._root]

    def read(self) -> Element:
        text, at = self._text, 0
        while (found := NEXT_MARKUP.search(text, at)) is not None:
            self._open[-1].add_text(text[at : found.start()])
            at = self._step(found.start())
        self._open[-1].add_text(text[at:])
        if len(self._open) > 1:
            element = self._open[-1]
            raise self._error(f"`<{element.name}>` is never closed", element.opening)
        return self._root.innermost()

    def _step(self, at: int) -> int:
        """Take what begins with the ``<`` at *at*; return where to continue."""
        if self._text[at + 1] == "/":
            return self._step_over_closing(at)
        if self._text[at + 1] in "!?":
            return self._step_over_remark(at)
        tag = opening_at(self._text, at)
        return self._step_over_text(at) if tag is None else self._step_into(tag, at)

    def _step_over_remark(self, at: int) -> int:
        """Take a comment, CDATA or declaration; if it has no end it is text."""
        for marker, ends in self._far_ends.items():
            if self._text.startswith(marker, at):
                end = ends.after(at + len(marker))
                if end != -1 and marker == CDATA:
                    self._open[-1].add_text(self._text[at + len(CDATA) : end - 3], literal=True)
                break
        else:
            end = find_declaration_end(self._text, at)
        return self._step_over_text(at) if end == -1 else end

    def _step_over_closing(self, at: int) -> int:
        closing = closing_at(self._text, at)
        element = self._open[-1]
        if closing is None:
            return self._step_over_text(at)
        name, end = closing
        if len(self._open) == 1:
            raise self._error(f"`</{name}>` closes nothing", at)
        if name != element.name:
            # A string may hold half of any markup; where the schema allows none, tags must match.
            if may_be_raw(element.schema):
                return self._step_over_text(at)
            raise self._error(f"`</{name}>` where `<{element.name}>` is open", at)
        self._open.pop()
        parent = self._open[-1]
        # A root with text and no fields is a field whose name the schema does not have.
        if element.root and (element.children_seen or not element.text()):
            parent.inner = element
        else:
            parent.add(close_element(element, self._text, at, self._dialect))
        return end

    def _step_over_text(self, at: int) -> int:
        """Take the ``<`` at *at* as text."""
        self._open[-1].add_text("<")
        return at + 1

    def _step_into(self, tag: MarkupTag, at: int) -> int:
        parent = self._open[-1]
        if parent.inner is not None:
            raise _NotAlone(parent.inner.root)
        element = Element(tag.name, parent.child_schema(tag.name), start=tag.end, opening=at)
        element.is_loose = parent.schema is None or not parent.schema.closed
        if tag.attributes:
            element.attributes = read_attributes(tag.attributes)
        if tag.empty:
            parent.add(empty_child(element))
            return tag.end
        reading = find_reading(tag.name, element.schema)
        if reading is XMLReading.TEXT_OR_ELEMENTS:  # The schema allows a string and an object.
            reading = XMLReading.ELEMENTS if self._holds_element(element) else XMLReading.TEXT
        if reading is XMLReading.TEXT:
            return self._take_text(element, parent)
        return self._take_json(element, parent) or self._enter(element, parent)

    def _enter(self, element: Element, parent: Element) -> int:
        if len(self._open) >= MAX_DEPTH:
            raise self._error(f"elements nest deeper than {MAX_DEPTH}", element.opening)
        if parent is self._root or parent.root:
            element.become_root(parent, self._max_roots)
            self.roots_seen = element.root or self.roots_seen
        self._open.append(element)
        return element.start

    def _take_text(self, element: Element, parent: Element) -> int:
        """Take an element whose inside is raw text."""
        place = parent.place_for(element.name)
        closing = find_closing(self._rule, self._index, element.name, element.start, place)
        if closing is not None:
            at, end = closing
            parent.add(text_child(element, self._text[element.start : at], self._dialect))
            return end
        if may_be_raw(parent.schema):
            return self._step_over_text(element.opening)
        raise self._error(f"`<{element.name}>` is never closed", element.opening)

    def _take_json(self, element: Element, parent: Element) -> int:
        """Take an element that JSON text fills (tags in its strings are data); 0 if none does."""
        at = skip_space(self._text, element.start)
        # Models write nested values as JSON between tags: `<items>["</items>", 2]</items>`.
        json_end = find_json_end(self._text, at)
        if json_end == -1:
            return 0
        closing = closing_at(self._text, skip_space(self._text, json_end))
        if closing is None or closing[0] != element.name:
            return 0
        parent.add(json_child(element, self._text[at:json_end], self._dialect))
        return closing[1]

    def _holds_element(self, element: Element) -> bool:
        """Return whether the inside begins with an element that is closed somewhere."""
        at = self._rule.skip_margin(element.start)
        tag = opening_at(self._text, at)
        if tag is None or not may_hold(element.schema, tag.name):
            return False
        closings = self._index.closings(tag.name)
        return tag.empty or (bool(closings) and closings[-1] >= tag.end)

    def _error(self, message: str, position: int) -> XMLParseError:
        return XMLParseError(message, text=self._text, position=position)


def loads(  # noqa: PLR0913 - each is an option of the reader
    xml: str,
    schema: object = None,
    *,
    text_node: str = "#text",
    duplicates: Literal["error", "first"] = "error",
    trims: bool = False,
    strict: bool = False,
    on_error: Callable[[str], object] | None = None,
    on_skip: Callable[[str], object] | None = None,
) -> dict[str, Any]:
    """Read a run of elements into an object of *schema* (a JSON Schema, a `Schema`, or None).

    *text_node* is the key of an element's text beside its attributes (``@_name``). A string field
    given twice at the top is an error; with ``duplicates="first"`` the first one counts and
    *on_error* is called. With *trims* strings lose one newline next to each of their tags. With
    *strict*, as in calls, a string that holds unmatched tags of its own name is an error, and a
    doubled closing tag is skipped. *on_skip* is called with text beside the elements, which has no
    meaning.

    Raise `XMLParseError` for tags that do not match, `DuplicateStringTagError`, and `CoercionError`
    if the schema demands something else than an object or cannot be read.
    """
    if duplicates not in ("error", "first"):
        raise UsageError(f'duplicates must be "error" or "first", not {duplicates!r}')
    guide = None if schema is None else Schema.of(schema).resolve()
    root = read_elements(xml, guide, XMLDialect(text_node, trims, strict))
    fields, surplus = _split_surplus(root.children)
    for child in surplus:
        message = f"`<{child.name}>` is a string and is given more than once"
        if duplicates == "error":
            raise DuplicateStringTagError(message, text=xml, position=child.opening)
        if on_error is not None:
            on_error(f"{message}; the first one counts")
    if on_skip is not None and (skipped := root.text()):
        on_skip(skipped)
    value = coerce(make_object(fields), guide)
    if not isinstance(value, dict) or (guide is not None and "object" not in guide.types):
        raise CoercionError("the schema demands something else than an object", text=xml)
    return value


def _split_surplus(children: list[Child]) -> tuple[list[Child], list[Child]]:
    """Split the fields from the string fields whose name came before."""
    seen: set[str] = set()
    fields: list[Child] = []
    surplus: list[Child] = []
    for child in children:
        (surplus if child.is_string and child.name in seen else fields).append(child)
        seen.add(child.name)
    return fields, surplus
