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


_STRICT: Final = re.compile(_ATTRIBUTES)
_LOOSE: Final = re.compile(r"""([A-Za-z]{1,16})\s*[="'][\s="']*([\w.:-]{1,64})""")
"""An attribute whose quotes or sign are missing or came twice, between tokens that delimit it."""


class RawTag:
    """A tag that begins with *opening* and ends with *closing*, attributes between.

    With *loose*, both are special tokens, so what is between is one tag even if an attribute is
    damaged: a quote or an equals sign is missing, or came twice.
    """

    def __init__(self, opening: str, closing: str, *, loose: bool = False) -> None:
        self.opening = opening
        pieces = "|".join(re.escape(closing[:size]) for size in range(len(closing) - 1, 0, -1))
        begins = re.escape(opening) + f"({_ATTRIBUTES})"
        self._whole = re.compile(begins + f"(/?){re.escape(closing)}")
        self._begun = re.compile(f"{begins}(?:{_BEGUN_ATTRIBUTE}|/?(?:{pieces or '/?'})?)")
        inside = re.escape(opening) + r"((?:\s[^<]{0,256})?)"
        self._loose = re.compile(f"{inside}(){re.escape(closing)}") if loose else None
        self._loose_begun = re.compile(f"{inside}(?:{pieces})?") if loose else None

    def match(self, text: str, at: int = 0) -> re.Match[str] | None:
        """Give the tag that stands at *at*."""
        found = self._whole.match(text, at, at + MAX_TAG)
        if found is None and self._loose is not None:
            found = self._loose.match(text, at, at + MAX_TAG)
        return found

    def is_damaged(self, tag: re.Match[str]) -> bool:
        """Return whether an attribute of *tag* is."""
        return tag.re is self._loose

    def is_begun(self, text: str, at: int = 0) -> bool:
        """Tell whether more text may make a tag of what stands at *at*, up to the end."""
        rest = text[at : at + MAX_TAG]
        if len(rest) == MAX_TAG:
            return False
        if self.opening.startswith(rest) or self._begun.fullmatch(rest) is not None:
            return True
        return self._loose_begun is not None and self._loose_begun.fullmatch(rest) is not None


def attributes_of(tag: re.Match[str]) -> dict[str, str]:
    """Give the attributes of *tag*, as they are written; the first of equal ones counts."""
    attributes: dict[str, str] = {}
    if _STRICT.fullmatch(tag[1]) is None:
        for name, value in _LOOSE.findall(tag[1]):
            attributes.setdefault(name, value)
        return attributes
    for found in _ATTRIBUTE.finditer(tag[1]):
        name, double, single = found.groups()
        attributes.setdefault(name, double if double is not None else single)
    return attributes


def is_self_closing(tag: re.Match[str]) -> bool:
    """Tell whether *tag* ends what it opens."""
    return bool(tag[2])
