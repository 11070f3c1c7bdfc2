"""Opening tags with attributes, as their text arrives.

The name of a tag and those of its attributes count in any case; attributes come in any order, with
white space around ``=``, and a quoted value may hold ``>``. An attribute without quotes is passed
over. A tag is decided within `MAX_TAG` characters: what is none by then is prose.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from penstock.parsing.bodies.base import Verdict
from penstock.parsing.scanner import Scanner
from penstock.values.coercion.entities import decode_entities
from penstock.values.rxml.markup import Tag, may_become_opening, opening_at

MAX_TAG: Final = 1024
"""How many characters an opening tag may have: a long path, and no flood."""

_NAME_ENDS: Final = re.compile(r"[\s/>]")
_ATTRIBUTE: Final = re.compile(r"""([^\s"'<>/=]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|[^\s"'<>]++)""")


def take_opening(marker: str, scanner: Scanner) -> Tag | Verdict:
    """Take the rest of the opening tag that *marker* (``<name``) began.

    The verdict tells that more text has to come, or that no tag of this name stands here.
    """
    rest = scanner.text[scanner.at : scanner.at + MAX_TAG - len(marker)]
    if rest and _NAME_ENDS.match(rest) is None:
        return Verdict.PROSE
    window = marker + rest
    tag = opening_at(window, 0)
    if tag is not None:
        scanner.at += tag.end - len(marker)
        return tag
    is_begun = len(window) < MAX_TAG and may_become_opening(window, 0)
    return Verdict.MORE if is_begun else Verdict.PROSE


def attributes_of(tag: Tag) -> dict[str, str]:
    """Give the quoted attributes of *tag*, names in lower case, the first of equal ones."""
    attributes: dict[str, str] = {}
    for found in _ATTRIBUTE.finditer(tag.attributes):
        name, double, single = found.groups()
        value = double if double is not None else single
        if value is not None:
            attributes.setdefault(name.lower(), decode_entities(value))
    return attributes


def known_name(name: str, known: Iterable[str]) -> str | None:
    """Give the name among *known* that *name* is, exactly or but for case."""
    folded, found = name.lower(), None
    for candidate in known:
        if candidate == name:
            return candidate
        if found is None and candidate.lower() == folded:
            found = candidate
    return found
