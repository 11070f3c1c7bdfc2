r"""Tags as models write them: what a tag is, and where the next one is.

This is not XML. A name is a letter, digit or ``_`` and then any of those, ``-``, ``.`` and ``:``
(Unicode letters too, and ``<0>`` for the places of a list). A tag counts only when it is whole, up
to its ``>``, so the ``<`` in ``a < b``, ``vector<int`` or ``i <3 you`` opens nothing. Models write
``</ name>`` too.

Every search is linear over the whole text, on hostile input too:

* patterns are possessive, so none goes back over what it took;
* a quote in a tag moves the reader between three states (outside, in ``"``, in ``'``) one to one,
  and a ``<`` outside quotes ends the attempt; so at any ``<`` at most two earlier attempts can
  still be running, and all attempts together cost a small multiple of the text;
* where the far end of something may be missing (``-->``, ``]]>``), its places are listed once.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from penstock.values.coercion import decode_entities

# Wider than XML's names: models name elements after the index of an item (`<0>`), and tools have
# names in any script.
_NAME: Final = r"\w[\w.:\-]*+"
# HTML allows values without quotes; the slash of `/>` is not part of one.
_VALUE: Final = r"""(?:"[^"]*+"|'[^']*+'|(?:[^\s"'<>/]|/(?!>))+)"""
_ATTRIBUTE: Final = rf"""[^\s"'<>/=]++(?:\s*+=\s*+{_VALUE})?"""
_ATTRIBUTES: Final = rf"(?:\s++{_ATTRIBUTE})*"

_VALID_NAME: Final = re.compile(_NAME)
_OPENING: Final = re.compile(rf"<({_NAME})({_ATTRIBUTES})\s*+(/?)>")
# A space after the slash is a slip of small models.
_CLOSING: Final = re.compile(rf"</ ?({_NAME})\s*+>")
_ONE_ATTRIBUTE: Final = re.compile(rf"""([^\s"'<>/=]++)(?:\s*+=\s*+({_VALUE}))?""")
_TAG_NAME: Final = re.compile(rf"<(/ ?)?({_NAME})")

# How far a tag can have come when the text stops in the middle of it.
_BEGUN_OPENING: Final = re.compile(
    rf"""<(?:({_NAME})((?:\s++{_ATTRIBUTE})+\s*+=\s*+(?:"[^"]*+|'[^']*+)?|{_ATTRIBUTES}\s*+/?+))?\Z"""
)
_BEGUN_CLOSING: Final = re.compile(rf"<(?:/ ?(?:({_NAME})\s*+)?)?\Z")
_BEGUN_DECLARATION: Final = re.compile(r"<(?:!(?:[A-Za-z][^<>]*+)?|\?[^<>]*+)\Z")

NEXT_MARKUP: Final = re.compile(r"<(?:(?:/ ?)?\w|!(?:--|\[CDATA\[|[A-Za-z])|\?)")
"""Where anything that is not plain text may begin."""

_DECLARATION: Final = re.compile(r"<(?:![A-Za-z][^<>]*+|\?[^<>]*+(?<=\?))>")
_JSON_PART: Final = re.compile(r'"(?:[^"\\]++|\\.)*"|["\[\]{}<\\]', re.DOTALL)
_SPACE: Final = re.compile(r"\s*+")

COMMENT: Final = "<!--"
CDATA: Final = "<![CDATA["
CDATA_END: Final = "]]>"


class MarkupTag(NamedTuple):
    """An opening tag: its name, its attributes as written, whether it closes itself, its end."""

    name: str
    attributes: str
    empty: bool
    end: int

    @property
    def quoted_attributes(self) -> dict[str, str]:
        """The quoted attributes, names in lower case; of two with one name the first counts."""
        attributes: dict[str, str] = {}
        for name, value, is_quoted in find_attributes(self.attributes):
            if is_quoted and value is not None:
                attributes.setdefault(name.lower(), decode_entities(value))
        return attributes


def is_name(text: str) -> bool:
    """Return whether *text* is a valid name of a tag."""
    return _VALID_NAME.fullmatch(text) is not None


def opening_at(text: str, position: int) -> MarkupTag | None:
    """Read the opening tag at *position*; None if there is no whole one."""
    match = _OPENING.match(text, position)
    if match is None:
        return None
    name, attributes, slash = match.groups()
    if attributes and name[0].isdigit():
        return None  # `<3 you>` is prose; the places of a list carry no attributes
    return MarkupTag(name, attributes, slash == "/", match.end())


def closing_at(text: str, position: int) -> tuple[str, int] | None:
    """Read the closing tag at *position*: its name and its end."""
    match = _CLOSING.match(text, position)
    return None if match is None else (match.group(1), match.end())


def may_become_opening(text: str, position: int) -> bool:
    """Return whether more text could make an opening tag of what is at *position*."""
    match = _BEGUN_OPENING.match(text, position)
    if match is None:
        return False
    name, rest = match.groups()
    return name is None or not (name[0].isdigit() and rest.strip("/ \t\r\n"))


def may_become_closing(text: str, position: int, name: str | None) -> bool:
    """Return whether more text could make the closing tag of *name* of what is there."""
    match = _BEGUN_CLOSING.match(text, position)
    if match is None:
        return False
    begun = match.group(1)
    if begun is None:
        return name is not None or text.endswith("<")
    if name is None or not name.startswith(begun):
        return False
    return begun == name or text.endswith(begun)


def may_become_markup(text: str) -> bool:
    """Return whether more text could make any tag, comment or declaration of *text*."""
    return (
        may_become_opening(text, 0)
        or _BEGUN_CLOSING.match(text) is not None
        or _BEGUN_DECLARATION.match(text) is not None
        or any(marker.startswith(text) for marker in (COMMENT, CDATA))
    )


def find_attributes(source: str) -> Iterator[tuple[str, str | None, bool]]:
    """Yield the attributes in *source*: name, value as written (None without one), is it quoted."""
    for match in _ONE_ATTRIBUTE.finditer(source):
        name, value = match.groups()
        is_quoted = value is not None and value[0] in "\"'"
        yield name, value[1:-1] if value is not None and is_quoted else value, is_quoted


def read_attributes(source: str) -> dict[str, str | None]:
    """Read the attributes of a tag, entities decoded; of two with one name the first counts."""
    attributes: dict[str, str | None] = {}
    for name, value, _ in find_attributes(source):
        attributes.setdefault(name, None if value is None else decode_entities(value))
    return attributes


class Landmarks:
    """The positions of one marker in a text, listed at the first call."""

    def __init__(self, text: str, marker: str) -> None:
        self._text = text
        self._marker = marker
        self._places: list[int] | None = None

    def after(self, position: int) -> int:
        """Find the end of the first marker that begins at *position* or later, or -1."""
        if self._places is None:
            found = re.finditer(re.escape(self._marker), self._text)
            self._places = [match.start() for match in found]
        index = bisect_left(self._places, position)
        return self._places[index] + len(self._marker) if index < len(self._places) else -1


class TagIndex:
    """The positions of everything that looks like a tag, by name; listed at the first call."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.is_listed = False
        self._openings: dict[str, list[int]] = {}
        self._closings: dict[str, list[int]] = {}

    def openings(self, name: str) -> list[int]:
        """Return the positions of ``<name``, in order."""
        self._list()
        return self._openings.get(name, [])

    def closings(self, name: str) -> list[int]:
        """Return the positions of ``</name``, in order."""
        self._list()
        return self._closings.get(name, [])

    def _list(self) -> None:
        if self.is_listed:
            return
        self.is_listed = True
        for match in _TAG_NAME.finditer(self._text):
            places = self._closings if match.group(1) else self._openings
            places.setdefault(match.group(2), []).append(match.start())


def skip_space(text: str, position: int) -> int:
    """Find the first character from *position* on that is not white space."""
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def find_declaration_end(text: str, position: int) -> int:
    """Find the end of the declaration (``<!DOCTYPE …>``, ``<?xml …?>``) at *position*, or -1."""
    match = _DECLARATION.match(text, position)
    return -1 if match is None else match.end()


def find_json_end(text: str, position: int) -> int:
    """Find the end of the JSON object or array that begins at *position*, or -1.

    Only brackets and strings are looked at: the reader of the value checks the rest. A ``<`` or a
    backslash outside strings means that this is not JSON, and ends the search.
    """
    if text[position : position + 1] not in ("{", "["):
        return -1
    depth = 0
    for match in _JSON_PART.finditer(text, position):
        part = match.group()
        if part in ("[", "{"):
            depth += 1
        elif part in ("]", "}"):
            depth -= 1
            if depth == 0:
                return match.end()
        elif len(part) == 1:
            return -1
    return -1
