"""Tags with attributes: whole, or begun where the text ends.

A tag is judged within `MAX_TAG` characters, so that what is held back for one has a bound.
"""

from __future__ import annotations

import re
from typing import Final

MAX_TAG: Final = 1024
"""How many characters a tag may have, with its names and keys."""

_BLANK: Final = r"\s{0,16}"
_NAME: Final = r"[\w:-]{1,64}"
_ATTRIBUTES: Final = rf"""(?:\s{{1,16}}{_NAME}{_BLANK}={_BLANK}(?:"[^"]*"|'[^']*'))*{_BLANK}"""
_BEGUN_ATTRIBUTE: Final = rf"""(?:{_NAME}{_BLANK}(?:={_BLANK}(?:"[^"]*|'[^']*)?)?)?"""
_ATTRIBUTE: Final = re.compile(rf"""({_NAME}){_BLANK}={_BLANK}(?:"([^"]*)"|'([^']*)')""")


class RawTag:
    """A tag that begins with *opening* and ends with *closing*, attributes between."""

    def __init__(self, opening: str, closing: str) -> None:
        self.opening = opening
        pieces = "|".join(re.escape(closing[:size]) for size in range(len(closing) - 1, 0, -1))
        begins = re.escape(opening) + f"({_ATTRIBUTES})"
        self._whole = re.compile(begins + f"(/?){re.escape(closing)}")
        self._begun = re.compile(f"{begins}(?:{_BEGUN_ATTRIBUTE}|/?(?:{pieces or '/?'})?)")

    def match(self, text: str, at: int = 0) -> re.Match[str] | None:
        """Give the tag that stands at *at*."""
        return self._whole.match(text, at, at + MAX_TAG)

    def is_begun(self, text: str, at: int = 0) -> bool:
        """Tell whether more text may make a tag of what stands at *at*, up to the end."""
        rest = text[at : at + MAX_TAG]
        if len(rest) == MAX_TAG:
            return False
        return self.opening.startswith(rest) or self._begun.fullmatch(rest) is not None


def attributes_of(tag: re.Match[str]) -> dict[str, str]:
    """Give the attributes of *tag*, as they are written; the first of equal ones counts."""
    attributes: dict[str, str] = {}
    for found in _ATTRIBUTE.finditer(tag[1]):
        name, double, single = found.groups()
        attributes.setdefault(name, double if double is not None else single)
    return attributes


def is_self_closing(tag: re.Match[str]) -> bool:
    """Tell whether *tag* ends what it opens."""
    return bool(tag[2])
