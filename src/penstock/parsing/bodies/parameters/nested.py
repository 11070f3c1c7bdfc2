"""Values that hold elements, once their text is whole: objects, lists, and leaves by their schema.

Only tags with the prefix of the dialect are elements; any other tag is text. Child elements make an
object, ``item`` elements a list, and an element that comes again a list under its name. Where text
is beside elements, or tags do not match, there is no value: `UnreadableError`. The elements that
are open are in a list: no depth of the text is a depth of the reader.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from penstock.parsing.bodies.parameters.tags import MAX_GAP, MAX_NAME
from penstock.parsing.bodies.parameters.values import UnreadableError, typed
from penstock.values.grammar import MAX_DEPTH
from penstock.values.rxml.fields import empty_value, is_list, is_string_field
from penstock.values.schema import Schema

ITEM: Final = "item"
"""The name of an element that is an item of a list."""


def nested_value(text: str, schema: Schema | None, prefix: str) -> Any:
    """Give what *text*, all that stands between the tags of a parameter, says."""
    if not text:
        return empty_value(schema)
    if prefix in text and not is_string_field(schema):
        root = _read_tree(text, schema, _tag(prefix))
        if root is None:
            raise UnreadableError("text beside elements, or elements that do not match")
        return root.value("")
    return typed(text, schema)


def list_of(texts: list[str], schema: Schema | None, prefix: str) -> list[Any]:
    """Give the values of a parameter that came several times."""
    if is_list(schema) and schema is not None:
        schemas = [schema.item(at) for at in range(len(texts))]
    else:
        schemas = [schema] * len(texts)
    return [nested_value(text, each, prefix) for text, each in zip(texts, schemas, strict=True)]


class _Element:
    """An element that is open: what it is called, what is inside so far."""

    __slots__ = ("children", "key", "schema", "start")

    def __init__(self, key: str, schema: Schema | None, start: int) -> None:
        self.key = key
        self.schema = schema
        self.start = start  # where its inside begins
        self.children: list[tuple[str, str | None, Any]] = []  # key, text of a leaf, value

    def child(self, key: str) -> Schema | None:
        """Give the schema of the next child."""
        if self.schema is None:
            return None
        if key == ITEM and "array" in self.schema.types and ITEM not in self.schema.properties:
            return self.schema.item(len(self.children))
        return self.schema.property(key)

    def value(self, inside: str) -> Any:
        """Give what the element says; *inside* is its text, if it is a leaf."""
        if not self.children:
            return typed(inside, self.schema) if inside else empty_value(self.schema)
        if self._is_list:
            return [value for _, _, value in self.children]
        groups: dict[str, list[tuple[str | None, Any]]] = {}
        for key, text, value in self.children:
            groups.setdefault(key, []).append((text, value))
        return {key: self._joined(key, group) for key, group in groups.items()}

    @property
    def _is_list(self) -> bool:
        declares_item = self.schema is not None and ITEM in self.schema.properties
        return not declares_item and all(key == ITEM for key, _, _ in self.children)

    def _joined(self, key: str, group: list[tuple[str | None, Any]]) -> Any:
        """Join the children of one name; items of a list are what its schema says of items."""
        if len(group) == 1:
            return group[0][1]
        schema = self.child(key)
        items = schema if is_list(schema) else None
        return [
            value if text is None or items is None else typed(text, items.item(at))
            for at, (text, value) in enumerate(group)
        ]


def _read_tree(text: str, schema: Schema | None, tag: re.Pattern[str]) -> _Element | None:
    """Read the elements in *text*; None where it is no tree."""
    root = _Element("", schema, 0)
    path = [root]
    at = 0
    for found in tag.finditer(text):
        is_closing, key = bool(found["closing"]), found["key"]
        between = text[at : found.start()]
        at = found.end()
        element = path[-1]
        is_leaf = is_closing and not element.children
        if between.strip() and not is_leaf:
            return None
        if not is_closing:
            if len(path) > MAX_DEPTH:
                return None
            path.append(_Element(key, element.child(key), at))
        elif len(path) == 1 or element.key != key:
            return None
        else:
            path.pop()
            inside = text[element.start : found.start()] if is_leaf else ""
            leaf = inside if is_leaf else None
            path[-1].children.append((key, leaf, element.value(inside)))
    is_tree = len(path) == 1 and root.children and not text[at:].strip()
    return root if is_tree else None


@lru_cache(maxsize=16)
def _tag(prefix: str) -> re.Pattern[str]:
    """Give the pattern of any tag with *prefix*."""
    key = rf"(?P<key>[^\s<>/=\"']{{1,{MAX_NAME}}}+)"
    return re.compile(rf"{re.escape(prefix)}\s{{0,{MAX_GAP}}}+<(?P<closing>/?){key}>")
