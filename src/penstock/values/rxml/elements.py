"""Values from elements: a text, a list or an object, by schema and by shape.

Numbers, booleans and JSON text under a schema stay text here: `coerce` converts the whole value at
the end. Decided here is what only the elements show:

* a tag given several times is a list, and so is a wrapper around equal elements where a list is
  wanted, with one element as with many;
* ``<item>`` elements, and ``<0>``, ``<1>`` … in the order of their numbers, are a list also where
  there is no schema;
* in a list of objects, a tag that holds the properties of one object is one element of the list;
* an empty element is ``""``, ``[]`` or ``{}`` by its schema, and counts as an element of a list;
* attributes become ``@_name`` beside the text node, unless a scalar or a list is wanted;
* where a string would do, elements mixed with text, or of unequal names, are raw text after all.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock import _json
from penstock.errors import JSONParseError
from penstock.values.coercion import coerce, decode_entities
from penstock.values.rxml.closing_tags import ClosingPlace

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.values.schema import Schema


# How a schema says to read an element: as raw text, as elements, or as what it begins with.
#
# Raw text is for every field that may be a string and cannot be a list or an object, even if it may
# be null, a number or one of an `enum`: coercion leaves a string that its schema allows as it is,
# so nothing of it may be lost before. A list of strings, and a string that may be a list or an
# object instead, hold elements if they begin with one, else raw text; an object must begin with one
# of its properties, since any markup begins with an element.


_CONTAINERS: Final = frozenset({"object", "array"})
_RAW_BY_NAME: Final = frozenset({"script", "style"})


class XMLReading(enum.Enum):
    """How the inside of an element is read."""

    TEXT = "text"
    TEXT_OR_ELEMENTS = "text or elements"
    ELEMENTS = "elements"


def find_reading(name: str, schema: Schema | None) -> XMLReading:
    """Return how the inside of the element *name* is read under *schema*."""
    if is_string_field(schema) or (schema is None and name in _RAW_BY_NAME):
        return XMLReading.TEXT
    return XMLReading.TEXT_OR_ELEMENTS if may_be_raw(schema) else XMLReading.ELEMENTS


def is_string_field(schema: Schema | None) -> bool:
    """Return whether a value of *schema* may be a string and cannot hold elements."""
    return schema is not None and "string" in schema.types and not schema.types & _CONTAINERS


def may_be_raw(schema: Schema | None) -> bool:
    """Return whether the whole inside of an element, markup and all, may be its value."""
    if schema is None:
        return False
    if "string" in schema.types:
        return not allows_anything(schema)
    return is_list(schema) and is_string_field(schema.item(0))


def may_hold(schema: Schema | None, name: str) -> bool:
    """Return whether a list or object of *schema* may begin with the element *name*."""
    if schema is None or "array" in schema.types or not schema.properties:
        return True
    return schema.property(name) is not None


def allows_anything(schema: Schema | None) -> bool:
    """Return whether *schema* allows any shape of a value."""
    return schema is None or schema.wants is None


def is_list(schema: Schema | None) -> bool:
    """Return whether elements under *schema* are those of a list rather than properties."""
    return schema is not None and "array" in schema.types and "object" not in schema.types


def empty_value(schema: Schema | None) -> Any:
    """Return the value of an empty element: ``""`` except for lists and objects."""
    if schema is None or "string" in schema.types:
        return ""
    return {"object": {}, "array": []}.get(schema.wants or "", "")


def wants_scalar(schema: Schema | None) -> bool:
    """Return whether *schema* demands a value that cannot have attributes."""
    return schema is not None and "object" not in schema.types


ATTRIBUTE: Final = "@_"
"""The prefix of the key of an attribute."""

_ITEM: Final = "item"
_MAX_INDEX_DIGITS: Final = 9


class Child(NamedTuple):
    """A finished element as its parent sees it.

    `alone` is its value when it is the only one of its name, `several` what it adds to a list when
    it is not: ``<tags>a, b</tags>`` alone is a list in text form, repeated it is one string.
    """

    name: str
    opening: int
    alone: Any
    several: list[Any]
    is_string: bool = False


class XMLDialect(NamedTuple):
    """The options of a format: the key of text beside attributes, and how strings are read.

    With *trims* a string loses one newline next to each of its tags; *strict* are the rules of
    `closing_tags` for calls.
    """

    text_node: str = "#text"
    trims: bool = False
    strict: bool = False


class Element:
    """An element that is open.

    `root` is the number of unknown roots that this element and those around it are, `inner` is the
    root inside this one. `is_loose`: if no schema declares the element, its text may be read as a
    number or JSON; beside the properties of a closed object it may not.
    """

    def __init__(self, name: str, schema: Schema | None, *, start: int, opening: int = 0) -> None:
        self.name = name
        self.schema = schema
        self.start = start
        self.opening = opening
        self.attributes: dict[str, str | None] = {}
        self.children: list[Child] = []
        self.root = 0
        self.inner: Element | None = None
        self.is_loose = False
        self.is_one_of_list = False
        self._text: list[tuple[str, bool]] = []

    @property
    def children_seen(self) -> bool:
        """Whether any element is inside."""
        return bool(self.children) or self.inner is not None

    def innermost(self) -> Element:
        """Return the root that really holds the fields."""
        element = self
        while element.inner is not None:
            element = element.inner
        return element

    def add(self, child: Child) -> None:
        """Add a finished child."""
        self.children.append(child)

    def add_text(self, text: str, *, literal: bool = False) -> None:
        """Add text between children; *literal* text has no entities."""
        if text:
            self._text.append((text, literal))

    def text(self) -> str:
        """Return all text between the children, trimmed, its entities decoded."""
        written = "".join(text for text, literal in self._text if not literal)
        if "<" in written or "&" not in written:
            return "".join(text for text, _ in self._text).strip()
        pieces = [text if literal else decode_entities(text) for text, literal in self._text]
        return "".join(pieces).strip()

    def child_schema(self, name: str) -> Schema | None:
        """Return the schema of the child *name*, for a list that of its next element.

        The first child of a tag in a list of objects shows whether the tag is a wrapper or, if it
        is a property of such an object, one element of the list itself. Raise `CoercionError` for a
        schema with an unresolvable reference.
        """
        schema = self.schema
        if schema is None:
            return None
        if is_list(schema) and not self.children:
            item = schema.item(0)
            if item is not None and name in item.properties:
                self.is_one_of_list = True
                self.schema = schema = item
        if is_list(schema):
            return _resolve(schema.item(int(name) if is_index(name) else len(self.children)))
        return _resolve(schema.property(name))

    def may_follow(self, name: str) -> Collection[str]:
        """Return the names whose opening tag may follow the child *name*."""
        if self.schema is None:
            return ()
        if not is_list(self.schema):
            return self.schema.properties
        return (name, str(int(name) + 1)) if is_index(name) else (name,)

    def place_for(self, name: str) -> ClosingPlace:
        """Return the context of the child *name*, a string."""
        return ClosingPlace(self.name or None, self.may_follow(name))

    def become_root(self, parent: Element, most: int) -> None:
        """Become a root of the body if it is the first of *parent* and the schema lacks it.

        At most *most* roots are removed from a body.
        """
        if self.schema is None and not parent.children_seen and parent.root < most:
            self.root = parent.root + 1
            self.schema = parent.schema


def text_child(element: Element, raw: str, dialect: XMLDialect) -> Child:
    """Make a value of an element whose inside is raw text; its attributes are dropped."""
    if dialect.trims:
        raw = raw.removeprefix("\n").removesuffix("\n")
    text, schema = decode_entities(raw), element.schema
    alone = text if text.strip() or not isinstance(empty_value(schema), list) else []
    return Child(element.name, element.opening, alone, [text], is_string_field(schema))


def json_child(element: Element, raw: str, dialect: XMLDialect) -> Child:
    """Make a value of an element whose inside is JSON text.

    Entities are decoded unless that breaks the JSON, as it would in ``{"a": "&quot;"}``.
    """
    text = decode_entities(raw)
    if text != raw and _is_json(raw) and not _is_json(text):
        text = raw
    return _text_value(element, text, dialect)


def empty_child(element: Element) -> Child:
    """Make a value of an element that holds nothing."""
    schema = element.schema
    value = empty_value(schema)
    if schema is not None and isinstance(value, list):
        return Child(element.name, element.opening, [], [empty_value(schema.item(0))])
    if element.attributes and not wants_scalar(schema):
        value = _attributes(element)
    return Child(element.name, element.opening, value, [value], is_string_field(schema))


def close_element(element: Element, source: str, end: int, dialect: XMLDialect) -> Child:
    """Make a value of an element whose inside ended at *end* of *source*."""
    if not element.children:
        if element.root:
            element.schema = None  # a root around text is a field
        text = element.text()
        return _text_value(element, text, dialect) if text else empty_child(element)
    if _is_text(element):
        return text_child(element, source[element.start : end], dialect)
    if is_list(element.schema):
        return _list_child(element)
    value = _read_by_shape(element, dialect)
    alone = [value] if element.is_one_of_list else value
    return Child(element.name, element.opening, alone, [value])


def make_object(children: list[Child]) -> dict[str, Any]:
    """Make an object of finished children: a name that comes several times holds a list."""
    groups: dict[str, list[Child]] = {}
    for child in children:
        groups.setdefault(child.name, []).append(child)
    return {
        name: group[0].alone if len(group) == 1 else [v for child in group for v in child.several]
        for name, group in groups.items()
    }


def is_index(name: str) -> bool:
    """Return whether a tag's name is the place of an element in a list."""
    return name.isascii() and name.isdigit() and len(name) <= _MAX_INDEX_DIGITS


def _resolve(schema: Schema | None) -> Schema | None:
    return None if schema is None else schema.resolve()


def _is_json(text: str) -> bool:
    try:
        _json.decode(text)
    except JSONParseError:
        return False
    return True


def _text_value(element: Element, text: str, dialect: XMLDialect) -> Child:
    value: Any = coerce(text, None) if element.schema is None and element.is_loose else text
    if element.attributes and not wants_scalar(element.schema):
        value = {dialect.text_node: value, **_attributes(element)}
    return Child(element.name, element.opening, value, [value])


def _is_text(element: Element) -> bool:
    text = element.text()
    if text[:1] in ("{", "[") and text[-1:] in ("}", "]"):
        return True  # JSON, or nearly, with markup in its strings
    if not may_be_raw(element.schema):
        return False
    return bool(text) or (is_list(element.schema) and not _are_items(element.children))


def _are_items(children: list[Child]) -> bool:
    """Return whether children are the elements of a list: of one name, or numbered."""
    return len({child.name for child in children}) == 1 or all(is_index(c.name) for c in children)


def _list_child(element: Element) -> Child:
    """Make a list of a wrapper's children; unequal ones are an object for `coerce` to judge."""
    schema = element.schema
    if schema is None or not _are_items(element.children):
        value = make_object(element.children)
        return Child(element.name, element.opening, value, [value])
    items = [child.alone for child in _sort_indexed(element.children)]
    return Child(
        element.name, element.opening, items, [items] if is_list(schema.item(0)) else items
    )


def _sort_indexed(children: list[Child]) -> list[Child]:
    if all(is_index(child.name) for child in children):
        return sorted(children, key=lambda child: int(child.name))
    return children


def _read_by_shape(element: Element, dialect: XMLDialect) -> Any:
    """Make an object, or the list that the names of the children show."""
    schema, children = element.schema, element.children
    value = make_object(children)
    value.update(_attributes(element))
    if allows_anything(schema) and (text := element.text()):
        value.setdefault(dialect.text_node, text)
    may_be_list = allows_anything(schema) or (schema is not None and "array" in schema.types)
    if may_be_list and (set(value) == {_ITEM} or _is_numbered(value)):
        return [child.alone for child in _sort_indexed(children)]
    return value


def _is_numbered(value: dict[str, Any]) -> bool:
    return all(map(is_index, value)) and sorted(map(int, value)) == list(range(len(value)))


def _attributes(element: Element) -> dict[str, Any]:
    return {ATTRIBUTE + name: value for name, value in element.attributes.items()}
