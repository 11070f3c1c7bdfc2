"""The value of an argument whose text is whole: a text, or an object or list of elements.

Without a schema all texts stay texts; the writer coerces by the schema where there is one. Text
between tags is trimmed; its entities are decoded once, unless it holds a ``<`` and so was never
escaped; a text that is one CDATA section is what stands inside. Elements make an object, equal ones
a list under their name, ``<item>`` elements a list. Where text stands beside elements, or tags do
not match, the value is no tree of elements but text.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final

from penstock.errors import JSONParseError
from penstock.parsing.bodies.opening_tags import attributes_of
from penstock.values import rjson
from penstock.values.coercion.entities import decode_entities
from penstock.values.grammar import MAX_DEPTH
from penstock.values.rxml.fields import empty_value, is_list, is_string_field
from penstock.values.rxml.markup import (
    CDATA,
    COMMENT,
    Tag,
    closing_at,
    opening_at,
    skip_space,
)
from penstock.values.schema import Schema

SECTION_END: Final = "]]>"

_ITEM: Final = "item"


def value_of(text: str, schema: Schema | None) -> Any:
    """Give the value that *text*, all that stands between an argument's tags, says."""
    if not text.strip():
        return empty_value(schema)
    if not is_string_field(schema) and opening_at(text, skip_space(text, 0)) is not None:
        tree = _Tree(text, schema).read()
        if tree is not _NO_TREE:
            return tree
    return _read_beside_string(text_of(text), schema)


def text_of(text: str) -> str:
    """Give the text that stands between two tags."""
    text = text.strip()
    if text.startswith(CDATA) and text.endswith(SECTION_END):
        return text[len(CDATA) : -len(SECTION_END)]
    return decode_entities(text)


def _read_beside_string(text: str, schema: Schema | None) -> Any:
    """Read text where the schema allows a string and more: null, an object or a list may be meant.

    Coercion would leave it alone: it is a string, and that is allowed.
    """
    if schema is None or schema.free or schema.members is not None or "string" not in schema.types:
        return text
    if text == "null" and schema.nullable:
        return None
    if text[:1] in ("{", "["):
        with suppress(JSONParseError):
            value = rjson.loads(text, duplicates="last")
            if ("object" if isinstance(value, dict) else "array") in schema.types:
                return value
    return text


def key_of(tag: Tag) -> str:
    """Give the name of what *tag* opens: ``<arg name="k">`` is the same as ``<k>``."""
    return attributes_of(tag).get("name", tag.name) if tag.name.lower() == "arg" else tag.name


_NO_TREE: Final = object()


class _Element:
    """An element whose end has not been seen yet."""

    __slots__ = ("children", "has_text", "key", "name", "schema", "start")

    def __init__(self, name: str, key: str, schema: Schema | None, start: int) -> None:
        self.name = name
        self.key = key
        self.schema = schema
        self.start = start
        self.children: list[tuple[str, Any]] = []
        self.has_text = False

    def schema_of(self, key: str) -> Schema | None:
        if self.schema is None:
            return None
        return (
            self.schema.item(len(self.children))
            if is_list(self.schema)
            else (self.schema.property(key))
        )

    def value(self, inside: str) -> Any:
        if not self.children or self.has_text or is_string_field(self.schema):
            return text_of(inside)
        if all(key.lower() == _ITEM for key, _ in self.children):
            return [value for _, value in self.children]
        groups: dict[str, list[Any]] = {}
        for key, value in self.children:
            groups.setdefault(key, []).append(value)
        return {key: values[0] if len(values) == 1 else values for key, values in groups.items()}


class _Tree:
    """Reads elements with a stack: no depth of the text is a depth of the reader."""

    def __init__(self, text: str, schema: Schema | None) -> None:
        self._text = text
        self._open = [_Element("", "", schema, 0)]
        self._far_ends = {CDATA: SECTION_END, COMMENT: "-->"}

    def read(self) -> Any:
        """Give the value of all elements, or say that this is no tree."""
        text, at = self._text, 0
        while (found := text.find("<", at)) != -1:
            if text[at:found].strip():
                self._open[-1].has_text = True
            at = self._step(found)
            if at == -1:
                return _NO_TREE
        (root, *unclosed) = self._open
        if unclosed or root.has_text or text[at:].strip():
            return _NO_TREE
        return root.value(text)

    def _step(self, at: int) -> int:
        """Take what begins with the ``<`` at *at*; return where it ends, -1 for no tree."""
        closing = closing_at(self._text, at)
        if closing is not None:
            return closing[1] if self._close(closing[0], at) else -1
        tag = opening_at(self._text, at)
        if tag is not None:
            return self._enter(tag)
        return self._skip(at)

    def _enter(self, tag: Tag) -> int:
        """Open an element; a string, whatever markup it holds, reaches to its closing tag."""
        parent, key = self._open[-1], key_of(tag)
        if tag.empty:
            parent.children.append((key, ""))
            return tag.end
        element = _Element(tag.name, key, parent.schema_of(key), tag.end)
        self._open.append(element)
        if is_string_field(element.schema):
            found = re.compile(rf"(?ai:</{re.escape(tag.name)})\s*+>").search(self._text, tag.end)
            return found.start() if found else -1
        return tag.end if len(self._open) <= MAX_DEPTH else -1

    def _close(self, name: str, at: int) -> bool:
        element = self._open.pop()
        if not self._open or name.lower() != element.name.lower():
            return False
        value = element.value(self._text[element.start : at])
        self._open[-1].children.append((element.key, value))
        return True

    def _skip(self, at: int) -> int:
        """Skip a comment or a CDATA section; any other ``<`` is text."""
        for begin, end in self._far_ends.items():
            if self._text.startswith(begin, at):
                self._open[-1].has_text |= begin == CDATA
                found = self._text.find(end, at)
                if found == -1:
                    del self._far_ends[begin]  # not to be searched for in vain again
                    break
                return found + len(end)
        self._open[-1].has_text = True
        return at + 1
