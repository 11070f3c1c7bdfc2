"""Calls whose arguments are plain elements, read with one pattern per element.

Most calls are complete when they are read, and each of their elements is an argument that the tool
has, with text in it and no markup: ``<path>a.txt</path>``. Nothing in such a call needs judgement,
so neither the walker nor `rxml.loads` is needed, which take four times as long for a short call.
Both find the same arguments in it. They read any other call.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from penstock._json import SURROGATE
from penstock.values.rxml.elements import XMLReading, find_reading
from penstock.values.rxml.markup import find_json_end
from penstock.values.schema import Schema

MAX_GAP: Final = 256
"""How much white space may be before a tag: the walker looks no further than `MAX_TAG`."""

_GAP: Final = rf"\s{{0,{MAX_GAP}}}+"
_FIELD: Final = re.compile(rf"{_GAP}<(\w[\w.:\-]{{0,255}}+)>([^<&]++)</\1>")
_BLANKS: Final = re.compile(_GAP)


class SimpleFields(NamedTuple):
    """The arguments of a call as written, up to its end tag at *inside_end*.

    *strings* are the names of those that the writer emits as they come.
    """

    values: dict[str, str]
    strings: list[str]
    inside_end: int
    end: int


def find_simple_fields(
    name: str, schema: Schema, text: str, at: int, *, trims: bool
) -> SimpleFields | None:
    """Return the arguments of the call of *name* whose inside begins at *at*.

    Return None unless the call is complete and all of it is plain elements. With *trims*, strings
    lose one newline next to each of their tags.
    """
    if "object" not in schema.types or schema.broken is not None:
        return None
    properties = schema.properties
    values: dict[str, str] = {}
    strings: list[str] = []
    while (found := _FIELD.match(text, at)) is not None:
        key, value = found.groups()
        child = properties.get(key)
        if child is None or child.broken is not None or key in values:
            return None
        plain = _read_plain(key, value, child, trims=trims)
        if plain is None:
            return None
        if child.is_string:
            strings.append(key)
        values[key] = plain
        at = found.end()
    blanks = _BLANKS.match(text, at)
    inside_end = at if blanks is None else blanks.end()
    closing = f"</{name}>"
    if not values or not text.startswith(closing, inside_end):
        return None
    return SimpleFields(values, strings, inside_end, inside_end + len(closing))


def _read_plain(name: str, text: str, schema: Schema, *, trims: bool) -> str | None:
    """Return what `rxml` reads *text* as, all of the element *name*; None if that is not plain."""
    if text.isspace() or not (text.isascii() or SURROGATE.search(text) is None):
        return None
    reading = find_reading(name, schema)
    if reading is XMLReading.TEXT:
        return text.removeprefix("\n").removesuffix("\n") if trims else text
    bare = text.strip()
    if len(text) - len(bare) > MAX_GAP:
        return None
    if reading is XMLReading.TEXT_OR_ELEMENTS:
        return text.removeprefix("\n").removesuffix("\n") if trims else text
    if bare.startswith(("{", "[")) and find_json_end(bare, 0) != len(bare):
        return None
    return bare
