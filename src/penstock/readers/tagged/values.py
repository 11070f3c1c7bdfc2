"""The values of parameters from their whole text: by schema, or by the type that a tag declares.

Text is trimmed before it is read as anything but a string. Where the schema allows a string and
other types, only null and a whole JSON container are not a string. Text that cannot be
read as the schema demands stays text, except for a list or an object: text with brackets or quotes
that is not JSON was damaged, and is not a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final

from msgspec import Struct

from penstock import _json
from penstock.errors import PenstockError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.call_sink import CallSink, NoCallError
from penstock.readers.plausible import fits, is_misspelled
from penstock.readers.tagged import TagDialect
from penstock.readers.tagged.tags import MAX_GAP, MAX_NAME
from penstock.values import rjson
from penstock.values.coercion import UNREAD, coerce, decode_entities, read_boolean, read_number
from penstock.values.json_grammar import MAX_DEPTH
from penstock.values.rxml.elements import empty_value, is_list, is_string_field
from penstock.values.rxml.markup import (
    CDATA,
    CDATA_END,
    COMMENT,
    MarkupTag,
    closing_at,
    opening_at,
    skip_space,
)
from penstock.values.schema import Schema

_CONTAINERS: Final = ("{", "[")
_SIGNS: Final = frozenset('[]{}"')
BRACKETS: Final = frozenset("[]{}")


class UnclearError(NoCallError):
    """The text cannot be a call, and it is not clear what was meant: no repair may guess."""


class UnreadableValueError(NoCallError):
    """The text of a value was meant to be a list or an object, and is not one."""


def read_typed(text: str, schema: Schema | None) -> Any:
    """Read *text* by its *schema*; without one it is text.

    A single value is read as a list of it where the schema demands a list. Raise
    `UnreadableValueError` for a damaged list or object.
    """
    if schema is None or schema.free or schema.is_string:
        return text
    family = schema.family
    if schema.members is not None or (family and any(n.members is not None for n in family)):
        return coerce(text, schema)
    bare, types = text.strip(), schema.types
    if bare == "null" and schema.nullable:
        return None
    found = _parse_strict(bare) if "string" in types else _read(bare, schema)
    if isinstance(found, (dict, list)):
        is_wanted = ("object" if isinstance(found, dict) else "array") in types
        return coerce(found, schema) if is_wanted or "string" not in types else text
    if found is not UNREAD:
        return found
    wanted = types & {"object", "array"}
    if "string" in types:
        return text
    if not wanted:
        if not fits(bare, schema):
            raise UnreadableValueError(f"the text of a value is not {' or '.join(types)}")
        return text
    if not _SIGNS.isdisjoint(bare):
        raise UnreadableValueError(f"the text of a value is not {' or '.join(sorted(wanted))}")
    return coerce(text, schema, typed=True) if is_list(schema) else text


def repair_list(text: str, schema: Schema | None) -> Any:
    """Return the list of *text* with the missing bracket added; None if that is not a list."""
    bare = text.strip()
    if schema is None or not is_list(schema):
        return None
    for whole in (bare + "]", "[" + bare):
        found = _parse_strict(whole)
        if isinstance(found, list) and found:
            edges = (found[0], found[-1])
            if any(isinstance(edge, str) and edge.strip("[]") != edge for edge in edges):
                return None  # The bracket may be inside the quotes.
            return coerce(found, schema, typed=True)
    return None


def is_prose(text: str) -> bool:
    """Return whether *text* between two tags is prose, or a token that ends the turn.

    A single word, or text with brackets, may be a value that has lost its tags.
    """
    words = [word for word in text.split() if not word.startswith("<")]
    return len(words) != 1 and BRACKETS.isdisjoint(text) and '="' not in text


STRING_KINDS: Final = frozenset({"string", "true"})
"""The declared types of a string: Kimi K3's ``type="string"`` and DSML's ``string="true"``."""

_JSON_KIND: Final = "false"
"""DSML's ``string="false"``: the value is JSON."""


def has_one_type(schema: Schema | None) -> bool:
    """Return whether *schema* allows one type, null aside: then the wire need not declare it."""
    if schema is None or schema.free:
        return False
    types = schema.types - {"null"}
    return len(types) == 1 or types == {"integer", "number"}


def read_declared(text: str, kind: str, schema: Schema | None) -> Any:
    """Read *text* as the type *kind* that its tag declares; without one, as its *schema* says.

    A schema with one type counts more than *kind*, and so does that of a list, which may come as
    several parameters. Text that is not of the declared type stays text, except for a
    damaged list or object.
    """
    if kind in KINDS and has_one_type(schema):
        if kind == _JSON_KIND and text.lstrip().startswith('"'):
            found = _parse_relaxed(text)
            text = found if isinstance(found, str) else text
        return read_typed(text, schema)
    if kind in STRING_KINDS and not is_list(schema):
        return text
    if kind == _JSON_KIND:
        found = _parse_relaxed(text)
        found = text if found is UNREAD else found
        return read_typed(text, schema) if isinstance(found, str) and is_list(schema) else found
    read = _READERS.get(kind)
    if read is None:
        return read_typed(text, schema)
    found = read(text)
    if is_list(schema):
        return read_typed(text, schema) if found is UNREAD else coerce(found, schema, typed=True)
    if found is not UNREAD:
        return found
    found = read_typed(text, _WIRE.get(kind))
    if kind == "object" and isinstance(found, list):
        raise UnreadableValueError("a list in the place of an object")
    return found


def _read_null(text: str) -> Any:
    return None if text.strip() == "null" else UNREAD


def _read_container(kind: type, text: str) -> Any:
    found = _parse_relaxed(text)
    return found if isinstance(found, kind) else UNREAD


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "number": read_number,
    "integer": read_number,
    "boolean": read_boolean,
    "null": _read_null,
    "object": partial(_read_container, dict),
    "array": partial(_read_container, list),
}
_WIRE: Final = {kind: Schema({"type": kind}) for kind in ("array", "object")}
KINDS: Final = frozenset({*STRING_KINDS, _JSON_KIND, *_READERS})
"""The types that a tag may declare."""


def parse_object(text: str) -> dict[str, Any] | None:
    """Parse *text* as an object; None if it is not one."""
    found = _parse_relaxed(text) if text.lstrip().startswith("{") else None
    return found if isinstance(found, dict) else None


def _read(bare: str, schema: Schema) -> Any:
    """Read text where a string is not allowed."""
    found = UNREAD
    if "boolean" in schema.types:
        found = read_boolean(bare)
    if found is UNREAD and "integer" in schema.types:
        found = read_number(bare)
    if found is UNREAD and schema.types & {"object", "array"}:
        if bare.startswith(_CONTAINERS):
            found = _parse_relaxed(bare)
        if not isinstance(found, dict | list) and '\\"' in bare:
            found = _parse_escaped(bare)
    return found


def _parse_escaped(bare: str) -> Any:
    """Read JSON that was escaped as a string, with its quotes or without (GLM)."""
    quoted = bare if bare.startswith('"') else f'"{bare}"'
    try:
        text = _json.decode(quoted)
    except PenstockError:
        return UNREAD
    found = _parse_relaxed(text.strip()) if isinstance(text, str) else UNREAD
    return found if isinstance(found, dict | list) else UNREAD


def _parse_strict(bare: str) -> Any:
    if not bare.startswith(_CONTAINERS):
        return UNREAD
    try:
        return _check_writable(_json.decode(bare))
    except PenstockError:
        return UNREAD


def _parse_relaxed(text: str) -> Any:
    try:
        return _check_writable(rjson.loads(text, duplicates="last"))
    except PenstockError:
        return UNREAD


def _check_writable(value: Any) -> Any:
    """Return *value* if JSON can write it; raise `PenstockError` otherwise."""
    _json.encode_strict(value)
    return value


# Values that hold elements. Child elements make an object, "item" elements a list, and an element
# that comes again a list under its name.

ITEM: Final = "item"
"""The name of an element that is an item of a list."""


class _Element:
    """An element that is open; its inside begins at *start*."""

    __slots__ = ("children", "has_text", "key", "name", "schema", "start")

    def __init__(self, name: str, key: str, schema: Schema | None, start: int) -> None:
        self.name = name
        self.key = key
        self.schema = schema
        self.start = start
        self.children: list[tuple[str, str | None, Any]] = []  # key, text of a leaf, value
        self.has_text = False  # beside its children

    def child_schema(self, key: str) -> Schema | None:
        """Return the schema of the next child, *key*."""
        schema = self.schema
        if schema is None:
            return None
        is_item = key == ITEM and "array" in schema.types and ITEM not in schema.properties
        return (
            schema.item(len(self.children)) if is_item or is_list(schema) else schema.property(key)
        )

    def value(self) -> Any:
        """Return the value of the children: a list, or an object."""
        declares_item = self.schema is not None and ITEM in self.schema.properties
        if not declares_item and all(key.lower() == ITEM for key, _, _ in self.children):
            return [value for _, _, value in self.children]
        groups: dict[str, list[tuple[str | None, Any]]] = {}
        for key, text, value in self.children:
            groups.setdefault(key, []).append((text, value))
        return {key: self._join(key, group) for key, group in groups.items()}

    def _join(self, key: str, group: list[tuple[str | None, Any]]) -> Any:
        """Join the children of one name; the leaves of a list are read as its items."""
        if len(group) == 1:
            return group[0][1]
        schema = self.child_schema(key)
        items = schema if is_list(schema) else None
        return [
            value if text is None or items is None else read_typed(text, items.item(at))
            for at, (text, value) in enumerate(group)
        ]


class _Tree:
    """The elements of *text* while they are read; those that are open are a list, not recursion."""

    def __init__(self, text: str, schema: Schema | None) -> None:
        self._text = text
        self._open = [_Element("", "", schema, 0)]

    def read(self) -> _Element | None:
        """Return the element around all others; None if the text is not a tree."""
        raise NotImplementedError

    def _enter(self, name: str, key: str, start: int) -> _Element | None:
        """Open an element; None if there are too many around it."""
        element = _Element(name, key, self._open[-1].child_schema(key), start)
        self._open.append(element)
        return element if len(self._open) <= MAX_DEPTH + 1 else None

    def _leave(self, name: str, at: int) -> bool:
        """Close the innermost element; return whether it has this *name*, in any case."""
        element = self._open.pop()
        if not self._open or name.lower() != element.name.lower():
            return False
        self._open[-1].children.append(self._make_child(element, self._text[element.start : at]))
        return True

    def _make_child(self, element: _Element, inside: str) -> tuple[str, str | None, Any]:
        raise NotImplementedError

    def _finish(self, at: int) -> _Element | None:
        (root, *unclosed) = self._open
        is_tree = root.children and not (unclosed or root.has_text or self._text[at:].strip())
        return root if is_tree else None


# MiniMax-M3: only tags with the prefix of the dialect are elements, leaves are read by their
# schema, and text beside elements makes the value unreadable.


def read_nested(text: str, schema: Schema | None, prefix: str) -> Any:
    """Read *text*, all that is between the tags of a parameter.

    Raise `UnreadableValueError` if text is beside elements, or tags do not match.
    """
    if not text:
        return empty_value(schema)
    if prefix in text and not is_string_field(schema):
        root = _PrefixedTree(text, schema, prefix).read()
        if root is None:
            raise UnreadableValueError("text beside elements, or elements that do not match")
        return root.value()
    return read_typed(text, schema)


def read_nested_list(texts: list[str], schema: Schema | None, prefix: str) -> list[Any]:
    """Read the values of a parameter that came several times."""
    items = schema if is_list(schema) else None
    return [
        read_nested(text, schema if items is None else items.item(at), prefix)
        for at, text in enumerate(texts)
    ]


class _PrefixedTree(_Tree):
    def __init__(self, text: str, schema: Schema | None, prefix: str) -> None:
        super().__init__(text, schema)
        self._tag = _make_tag_pattern(prefix)

    def read(self) -> _Element | None:
        text, at = self._text, 0
        for found in self._tag.finditer(text):
            is_closing, key = bool(found["closing"]), found["key"]
            is_leaf = is_closing and not self._open[-1].children
            if text[at : found.start()].strip() and not is_leaf:
                return None
            at = found.end()
            if is_closing:
                if key != self._open[-1].key or not self._leave(key, found.start()):
                    return None
            elif self._enter(key, key, at) is None:
                return None
        return self._finish(at)

    def _make_child(self, element: _Element, inside: str) -> tuple[str, str | None, Any]:
        if element.children:
            return element.key, None, element.value()
        value = read_typed(inside, element.schema) if inside else empty_value(element.schema)
        return element.key, inside, value


@lru_cache(maxsize=16)
def _make_tag_pattern(prefix: str) -> re.Pattern[str]:
    """Match any tag with *prefix*."""
    key = rf"(?P<key>[^\s<>/=\"']{{1,{MAX_NAME}}}+)"
    return re.compile(rf"{re.escape(prefix)}\s{{0,{MAX_GAP}}}+<(?P<closing>/?){key}>")


# Values that resemble XML (tool_tag). Without a schema all texts stay texts; the writer coerces by
# the schema if there is one. Text is trimmed, and its entities are decoded unless it holds a "<"
# and so was not escaped; a text that is one CDATA section is its inside. Where text is beside
# elements, or tags do not match, the value is text.


def read_markup(text: str, schema: Schema | None) -> Any:
    """Read *text*, all that is between the tags of an argument."""
    if not text.strip():
        return empty_value(schema)
    if not is_string_field(schema) and opening_at(text, skip_space(text, 0)) is not None:
        root = _MarkupTree(text, schema).read()
        if root is not None:
            return root.value()
    text = _read_text(text)
    if schema is None or schema.free or schema.members is not None:
        return text
    if "string" not in schema.types:
        return text
    # Coercion leaves a string alone where one is allowed, so null and containers are read here.
    if text == "null" and schema.nullable:
        return None
    found = _parse_relaxed(text) if text.startswith(_CONTAINERS) else UNREAD
    if isinstance(found, dict | list):
        return found if ("object" if isinstance(found, dict) else "array") in schema.types else text
    return text


def _read_text(text: str) -> str:
    text = text.strip()
    if text.startswith(CDATA) and text.endswith(CDATA_END):
        return text[len(CDATA) : -len(CDATA_END)]
    return decode_entities(text)


def find_key(tag: MarkupTag) -> str:
    """Return the name of what *tag* opens: ``<arg name="k">`` is the same as ``<k>``."""
    return tag.quoted_attributes.get("name", tag.name) if tag.name.lower() == "arg" else tag.name


class _MarkupTree(_Tree):
    def __init__(self, text: str, schema: Schema | None) -> None:
        super().__init__(text, schema)
        self._far_ends = {CDATA: CDATA_END, COMMENT: "-->"}

    def read(self) -> _Element | None:
        text, at = self._text, 0
        while (found := text.find("<", at)) != -1:
            self._open[-1].has_text |= bool(text[at:found].strip())
            closing, tag = closing_at(text, found), opening_at(text, found)
            if closing is not None:
                at = closing[1] if self._leave(closing[0], found) else -1
            elif tag is not None:
                at = self._open_tag(tag)
            else:
                at = self._skip(found)
            if at == -1:
                return None
        return self._finish(at)

    def _open_tag(self, tag: MarkupTag) -> int:
        """Open an element; a string, whatever markup it holds, ends at its closing tag."""
        key = find_key(tag)
        if tag.empty:
            self._open[-1].children.append((key, None, ""))
            return tag.end
        element = self._enter(tag.name, key, tag.end)
        if element is None or not is_string_field(element.schema):
            return -1 if element is None else tag.end
        found = re.compile(rf"(?ai:</{re.escape(tag.name)})\s*+>").search(self._text, tag.end)
        return found.start() if found else -1

    def _make_child(self, element: _Element, inside: str) -> tuple[str, str | None, Any]:
        is_text = not element.children or element.has_text or is_string_field(element.schema)
        return element.key, None, _read_text(inside) if is_text else element.value()

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


# The parameters of a call.

_HOLDERS: Final = ("arguments", "input")
"""The names of a parameter that may hold all arguments (DSML)."""


class Parameter(Struct, frozen=True):
    """A parameter and the type that its tag declares, if it does: see `read_declared`.

    *is_cut*: the closing tag of its value is missing.
    """

    key: str
    kind: str = ""
    is_cut: bool = False


class ParameterWriter:
    """Writes the parameters of one call; *schema* is the tool's.

    With *repairs*, a bracket that a list lacks is added.
    """

    def __init__(self, dialect: TagDialect, schema: Schema | None, *, repairs: bool) -> None:
        self._dialect = dialect
        self._schema = schema
        self._repairs = repairs
        self._child_key: str | None = None  # the parameter whose schema was looked up last
        self._child: Schema | None = None
        self._writer: ArgumentWriter | None = None
        self._note: Callable[[str], object] = str
        self._given: set[str] = set()
        self._waiting: dict[str, list[tuple[Parameter, str]]] = {}  # may come again
        self._wrapped: tuple[Parameter, str] | None = None  # may hold all arguments

    @property
    def is_begun(self) -> bool:
        """Whether the call has begun."""
        return self._writer is not None

    def begin(self, name: str, calls: CallSink) -> None:
        """Begin the call of *name*, if it has not begun."""
        if self._writer is None:
            self._writer = calls.open(name)
            self._note = calls.note

    @property
    def _arguments(self) -> ArgumentWriter:
        assert self._writer is not None  # noqa: S101 - a tag has begun the call
        return self._writer

    def child(self, key: str) -> Schema | None:
        """Return the schema of the parameter *key*, if one is known."""
        if self._schema is None:
            return None
        if self._child_key != key:
            self._child_key, self._child = key, self._schema.property(key)
        return self._child

    def open_text(
        self, parameter: Parameter, *, holds_elements: bool = False
    ) -> ArgumentWriter | None:
        """Begin *parameter*; return the writer of its text if it is a string that streams.

        A value that begins with an element is a string only if its schema says so.
        """
        self.begin_parameter(parameter.key)
        if not self._is_plain_text(parameter, holds_elements=holds_elements):
            return None
        self._arguments.open_text(parameter.key)
        return self._arguments

    def _is_plain_text(self, parameter: Parameter, *, holds_elements: bool = False) -> bool:
        """Return whether the value of *parameter* is a string as it is written."""
        key, kind, child = parameter.key, parameter.kind, self.child(parameter.key)
        if holds_elements and (child is None or child.free):
            return False
        streams = self._arguments.streams(key) if child is None else child.is_string or child.free
        if kind in KINDS:
            streams = (
                streams and kind != _JSON_KIND if has_one_type(child) else kind in STRING_KINDS
            )
        return streams and not (self._may_repeat(key) or self._may_wrap(key))

    def put_simple(self, parameter: Parameter, text: str) -> None:
        """Take the whole *text* of a value that needs no judgement."""
        key, child = parameter.key, self.child(parameter.key)
        is_plain = child is not None and child.is_string and parameter.kind != _JSON_KIND
        if (is_plain and key not in _HOLDERS) or self._is_plain_text(parameter):
            self._arguments.put_text(key, text)
            self._given.add(key)
        else:
            self.put(parameter, text)

    def mark_given(self, key: str) -> None:
        """Note that a string that streamed has ended."""
        self._given.add(key)

    def put(self, parameter: Parameter, text: str) -> None:
        """Take the whole *text* of a value that `open_text` began."""
        key = parameter.key
        if self._may_wrap(key):
            self._wrapped = parameter, text
        elif self._may_repeat(key):
            self._waiting.setdefault(key, []).append((parameter, text))
        else:
            self._arguments.write(key, self._read(parameter, text))
        self._given.add(key)

    def put_whole(self, parameter: Parameter, text: str = "") -> None:
        """Take a value that was not between its tags."""
        self.begin_parameter(parameter.key)
        self.put(parameter, text)

    def close(self) -> None:
        """Write what waited for the last parameter."""
        wrapped, self._wrapped = self._wrapped, None
        if wrapped is not None:
            inside = parse_object(wrapped[1])
            if inside is None:
                self._arguments.write(wrapped[0].key, self._read(*wrapped))
            for key, value in (inside or {}).items():
                self._arguments.put(key, value)
        for key, texts in self._waiting.items():
            self._arguments.write(key, self._read_all(key, texts))
        self._waiting = {}

    def is_missing(self, key: str, open_key: str = "") -> bool:
        """Return whether *key* is a parameter that was not given, and is not *open_key*.

        If the tool is unknown, or its schema names no parameters, any key is one.
        """
        is_given = key in self._given or (open_key != "" and key == open_key)
        if self._schema is None or not self._schema.properties:
            return bool(key) and not is_given
        return key in self._schema.properties and not is_given

    def is_declared(self, key: str) -> bool:
        """Return whether the tool has a parameter *key*."""
        return self._schema is not None and key in self._schema.properties

    @property
    def has_required(self) -> bool:
        """Whether all parameters that the tool requires were given, and at least one."""
        required = self._schema.required if self._schema is not None else ()
        return bool(self._given) and self._given.issuperset(required)

    def begin_parameter(self, key: str) -> None:
        """Begin the parameter *key*; raise `UnclearError` if it cannot be here."""
        self.begin_another()
        if fault := self.find_fault(key):
            raise UnclearError(fault)

    def begin_another(self) -> None:
        """Write the parameter that might have held all arguments: it is one among others."""
        wrapped, self._wrapped = self._wrapped, None
        if wrapped is not None:
            self._arguments.write(wrapped[0].key, self._read(*wrapped))

    def find_fault(self, key: str) -> str:
        """Return why the parameter *key* cannot be here; empty if it can."""
        if key in self._given and not self._may_repeat(key):
            return f"the parameter {key!r} came twice"
        if self._schema is None or key in self._schema.properties:
            return ""
        if " " in key.strip() or is_misspelled(key, self._schema, self._given):
            return f"the name {key[:99]!r} of a parameter is damaged"
        return ""

    def _may_repeat(self, key: str) -> bool:
        """Return whether *key* may come again to make a list."""
        child = self.child(key)
        if child is None or child.free:
            return self._dialect.nests and self._schema is not None
        return is_list(child) and "string" not in child.types

    def _may_wrap(self, key: str) -> bool:
        may = self._dialect.unwraps and key in _HOLDERS and not self.is_declared(key)
        return may and not self._given

    def _read(self, parameter: Parameter, text: str) -> Any:
        child = self.child(parameter.key)
        if self._dialect.nests:
            return read_nested(text, child, self._dialect.spelling.prefix)
        try:
            return read_declared(text, parameter.kind, child)
        except UnreadableValueError:
            found = None
            if self._repairs and not parameter.is_cut:
                found = repair_list(text, child)
            if found is None:
                raise
            self._note("added a bracket to a list")
            return found

    def _read_all(self, key: str, texts: list[tuple[Parameter, str]]) -> Any:
        """Read a parameter that came once, or several times to make a list."""
        if len(texts) == 1:
            return self._read(*texts[0])
        if self._dialect.nests:
            prefix = self._dialect.spelling.prefix
            return read_nested_list([text for _, text in texts], self.child(key), prefix)
        items: list[Any] = []
        for parameter, text in texts:
            found = self._read(parameter, text)
            items += found if isinstance(found, list) else [found]
        return items
