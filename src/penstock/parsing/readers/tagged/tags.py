r"""Tags of calls, written as they look and compiled once: whole, or begun where the text ends.

A template is a tag as models write it: ``NAME`` stands for the tool, ``KEY`` for a parameter, and
``name="NAME"`` for attributes in any order and with any quotes. A `ParameterTag` tells two things
of a place in a text: that the tag stands there, and that more text may make it stand there. So a
reader never guesses, and what is held back is at most `MAX_TAG` characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from penstock.parsing.readers.base import Verdict
from penstock.parsing.scanner import Scanner
from penstock.values.coercion import decode_entities
from penstock.values.rxml.markup import MarkupTag, may_become_opening, opening_at

# Tags with attributes: whole, or begun where the text ends.
#
# A tag is judged within `MAX_TAG` characters, so that what is held back for one has a bound.


_GAP: Final = r"\s{0,16}"
_TAG_NAME: Final = r"[\w:-]{1,64}"
_ATTRIBUTES: Final = rf"""(?:\s{{1,16}}{_TAG_NAME}{_GAP}={_GAP}(?:"[^"]*"|'[^']*'))*{_GAP}"""
_BEGUN_ATTRIBUTE: Final = rf"""(?:{_TAG_NAME}{_GAP}(?:={_GAP}(?:"[^"]*|'[^']*)?)?)?"""
_QUOTED_ATTRIBUTE: Final = re.compile(rf"""({_TAG_NAME}){_GAP}={_GAP}(?:"([^"]*)"|'([^']*)')""")


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
        """Return the tag that is at *at*."""
        found = self._whole.match(text, at, at + MAX_TAG)
        if found is None and self._loose is not None:
            found = self._loose.match(text, at, at + MAX_TAG)
        return found

    def is_damaged(self, tag: re.Match[str]) -> bool:
        """Return whether an attribute of *tag* is."""
        return tag.re is self._loose

    def is_begun(self, text: str, at: int = 0) -> bool:
        """Return whether more text may make a tag of what is at *at*, up to the end."""
        rest = text[at : at + MAX_TAG]
        if len(rest) == MAX_TAG:
            return False
        if self.opening.startswith(rest) or self._begun.fullmatch(rest) is not None:
            return True
        return self._loose_begun is not None and self._loose_begun.fullmatch(rest) is not None


def attributes_of_raw_tags(tag: re.Match[str]) -> dict[str, str]:
    """Return the attributes of *tag*, as they are written; the first of equal ones counts."""
    attributes: dict[str, str] = {}
    if _STRICT.fullmatch(tag[1]) is None:
        for name, value in _LOOSE.findall(tag[1]):
            attributes.setdefault(name, value)
        return attributes
    for found in _QUOTED_ATTRIBUTE.finditer(tag[1]):
        name, double, single = found.groups()
        attributes.setdefault(name, double if double is not None else single)
    return attributes


def is_self_closing_raw_tags(tag: re.Match[str]) -> bool:
    """Return whether *tag* ends what it opens."""
    return bool(tag[2])


# Opening tags with attributes, as their text arrives.
#
# The name of a tag and those of its attributes count in any case; attributes come in any order,
# with white space around ``=``, and a quoted value may hold ``>``. An attribute without quotes
# is passed over. A tag is decided within `MAX_TAG` characters: what is not one by then is prose.


_NAME_ENDS: Final = re.compile(r"[\s/>]")
_LOOSE_ATTRIBUTE: Final = re.compile(
    r"""([^\s"'<>/=]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|[^\s"'<>]++)"""
)


def take_opening(marker: str, scanner: Scanner) -> MarkupTag | Verdict:
    """Take the rest of the opening tag that *marker* (``<name``) began.

    The verdict tells that more text has to come, or that no tag of this name stands here.
    """
    rest = scanner.text[scanner.at : scanner.at + MAX_TAG - len(marker)]
    if rest and _NAME_ENDS.match(rest) is None:
        return Verdict.NOT_A_CALL
    window = marker + rest
    tag = opening_at(window, 0)
    if tag is not None:
        scanner.at += tag.end - len(marker)
        return tag
    is_begun = len(window) < MAX_TAG and may_become_opening(window, 0)
    return Verdict.MORE if is_begun else Verdict.NOT_A_CALL


def attributes_of_opening_tags(tag: MarkupTag) -> dict[str, str]:
    """Return the quoted attributes of *tag*, names in lower case, the first of equal ones."""
    attributes: dict[str, str] = {}
    for found in _LOOSE_ATTRIBUTE.finditer(tag.attributes):
        name, double, single = found.groups()
        value = double if double is not None else single
        if value is not None:
            attributes.setdefault(name.lower(), decode_entities(value))
    return attributes


def known_name(name: str, known: Iterable[str]) -> str | None:
    """Return the name among *known* that *name* is, exactly or but for case."""
    folded, found = name.lower(), None
    for candidate in known:
        if candidate == name:
            return candidate
        if found is None and candidate.lower() == folded:
            found = candidate
    return found


MAX_TAG: Final = 1024
"""How many characters a tag may have, with the name, the key and the blanks in it."""

MAX_GAP: Final = 256
"""How much white space may stand between two tags, and after the closing tag of a value."""

MAX_NAME: Final = 256
"""How many characters the name of a tool or of a parameter may have."""

_NAME: Final = rf"(?=[.:-]{{0,{MAX_NAME}}}+\w)[\w.:-]{{1,{MAX_NAME}}}+"
NAME: Final = re.compile(_NAME)
"""What may be the name of a tool: letters, digits and ``_ - . :``.

One of signs alone is an ellipsis: ``<function=...>`` is in many a text about calls.
"""

_BAR: Final = "[｜|]{1,2}"  # noqa: RUF001 - the token is spelled so
_BLANK: Final = r"\s{0,16}+"
_ATTRIBUTE: Final = re.compile(
    r"""([^\s"'<>/=]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'<>]++))"""
)
_PIECES: Final = re.compile(r'( name="(?:NAME|KEY)"|NAME|KEY|[<>/=])')


class Spelling(NamedTuple):
    """How freely tags are written.

    *spaced*: blanks may stand inside. *suffixed*: every tag may end in ``:suffix``. *glued*: no
    blank has to stand before attributes. *escaped*: a newline between tags may be a backslash and
    an n. *prefix* comes before every tag, *strict_keys* says that a key is one word. *longer* is a
    name that a tag may have instead of its own, which it begins with.
    """

    spaced: bool = False
    suffixed: bool = False
    glued: bool = False
    escaped: bool = False
    prefix: str = ""
    strict_keys: bool = False
    longer: str = ""

    @property
    def gap(self) -> _Part:
        """The white space that may stand between two tags."""
        if self.escaped:
            return _Part(rf"(?:\s|\\n){{0,{MAX_GAP}}}", rf"(?:\s|\\n){{0,{MAX_GAP}}}\\?")
        return _Part(rf"\s{{0,{MAX_GAP}}}+", rf"\s{{0,{MAX_GAP}}}+")


class _Part(NamedTuple):
    """A piece of a tag: a pattern of it, and one of every beginning of it, the empty one too."""

    whole: str
    begun: str


class ParameterTag:
    """A tag that text may hold; see `tag`."""

    __slots__ = ("_begun", "_whole")

    def __init__(self, parts: list[_Part]) -> None:
        self._whole = re.compile("".join(part.whole for part in parts))
        begun = parts[-1].begun
        for part in reversed(parts[:-1]):
            begun = f"(?:{part.whole}(?:{begun})|{part.begun})"
        self._begun = re.compile(begun)

    def match(self, text: str, at: int = 0) -> re.Match[str] | None:
        """Return the tag that is at *at*."""
        return self._whole.match(text, at, at + MAX_TAG)

    def is_begun(self, text: str, at: int = 0) -> bool:
        """Return whether *text* ends inside what may become the tag, from *at* on."""
        return len(text) - at < MAX_TAG and self._begun.fullmatch(text, at) is not None


@lru_cache(maxsize=1024)
def tag(template: str, spelling: Spelling, lead: tuple[str, ...] = ()) -> ParameterTag:
    """Compile *template*; each piece of *lead* may stand before it, or not."""
    gap = spelling.gap
    parts: list[_Part] = []
    for piece in lead:
        literal = _literal(piece)
        parts += [_Part(f"(?:{literal.whole})?", literal.begun), gap]
    if spelling.prefix:
        parts += [_literal(spelling.prefix), gap]
    parts += _parts_of(template, spelling)
    return ParameterTag(parts)


def attributes_of(found: re.Match[str]) -> dict[str, str]:
    """Return the attributes of a tag as they stand, the first of equal names."""
    attributes: dict[str, str] = {}
    for name, double, single, bare in _ATTRIBUTE.findall(found["attributes"].rstrip("/ \t\n")):
        attributes.setdefault(name, double or single or bare)
    return attributes


def key_of(found: re.Match[str]) -> str:
    """Return the key that the tag of a parameter names; empty where it names none."""
    if "attributes" in found.groupdict():
        return attributes_of(found).get("name", "")
    return found["key"].strip()


def is_self_closing(found: re.Match[str]) -> bool:
    """Return whether the opening tag closes itself: nothing follows that belongs to it."""
    groups = found.groupdict()
    return bool(groups.get("empty")) or (groups.get("attributes") or "").rstrip().endswith("/")


def _parts_of(template: str, spelling: Spelling) -> list[_Part]:
    """Cut *template* into its parts, with what may stand between them."""
    pieces = list(filter(None, _PIECES.split(template)))
    parts: list[_Part] = []
    for at, piece in enumerate(pieces):
        if piece.startswith(" name="):
            parts.append(_attributes(glued=spelling.glued))
        elif piece == "NAME":
            parts += _name(pieces, at, spelling)
        elif piece == "KEY":
            parts.append(_key(pieces, at, spelling))
        else:
            parts += _mark(piece, pieces, at, spelling)
    return parts


def _name(pieces: list[str], at: int, spelling: Spelling) -> list[_Part]:
    name = _Part(rf"(?P<name>{_NAME})", rf"[\w.:-]{{0,{MAX_NAME}}}+")
    if pieces[at - 1] == "=":
        return [name, *([_Part(_BLANK, _BLANK)] if spelling.spaced else ()), _EMPTY]
    # The name stands bare after a tag: another tag ends it, or white space does.
    follows = [spelling.gap] if pieces[at + 1 :] else [_Part(r"(?=[\s\\<])", "")]
    return [spelling.gap, name, *follows]


_EMPTY: Final = _Part("(?P<empty>/)?", "")


def _key(pieces: list[str], at: int, spelling: Spelling) -> _Part:
    if spelling.strict_keys:
        characters, fewest = r"[^\s<>/=\"']", 1
    elif pieces[at - 1] == "=":
        characters, fewest = r"[^<>\n]", 1
    else:
        characters, fewest = r"[^<]", 0
    return _Part(
        rf"(?P<key>{characters}{{{fewest},{MAX_NAME}}}+)", rf"{characters}{{0,{MAX_NAME}}}+"
    )


def _attributes(*, glued: bool) -> _Part:
    inside = r"""(?:[^"'<>]++|"[^"]*+"|'[^']*+')*"""
    first = "" if glued else r"\s"
    return _Part(
        f"(?P<attributes>{first}{inside})", rf"""(?:{first}{inside}(?:"[^"]*+|'[^']*+)?)?"""
    )


def _mark(piece: str, pieces: list[str], at: int, spelling: Spelling) -> list[_Part]:
    """Return a literal piece; blanks and a suffix may stand beside the signs of a tag."""
    parts: list[_Part] = []
    blank = [_Part(_BLANK, _BLANK)] if spelling.spaced else []
    if piece == ">":
        if spelling.suffixed:
            parts.append(_Part(r"(?::[^<>\s]{1,64}+)?", r"(?::[^<>\s]{0,64}+)?"))
        if pieces[at - 1] not in ("KEY", "NAME"):
            parts += blank
    elif piece == "=":
        parts += blank
    if spelling.longer and spelling.longer.startswith(piece):
        longer = _literal(spelling.longer)
        parts.append(_Part(f"(?:{longer.whole}|{re.escape(piece)})", longer.begun))
    else:
        parts.append(_literal(piece))
    if piece in "</=":
        parts += blank
    return parts


def _literal(text: str) -> _Part:
    """Return *text* as a pattern; where a token has a bar, models write two, or ASCII ones."""
    signs = [_BAR if sign == "｜" else re.escape(sign) for sign in text]  # noqa: RUF001
    begun = ""
    for sign in reversed(signs[:-1]):
        begun = f"(?:{sign}{begun})?"
    return _Part("".join(signs), begun)
