r"""Tags of calls as values: `Tag.match` finds one, `Tag.could_begin` knows its beginnings.

A template shows a tag as models write it: ``NAME`` is the tool, ``KEY`` a parameter, and
``name="NAME"`` means attributes in any order and with any quotes (``…`` for attributes that
may be missing). `make_tag` compiles a template once. A reader never guesses at half a tag: it waits
while `could_begin` holds, which is at most for `MAX_TAG` characters.

Tags of formats that resemble XML are read by `penstock.values.rxml.markup`; `take_opening` reads
one of them after its start marker.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import Struct

from penstock.parsing.body import Verdict
from penstock.parsing.scanner import Scanner, skip_match
from penstock.values.rxml.markup import MarkupTag, find_attributes, may_become_opening, opening_at

MAX_TAG: Final = 1024
"""How many characters a tag may have, with its name, key and white space."""

MAX_GAP: Final = 256
"""How much white space may be between two tags, and after a closing tag."""

_GAP: Final = re.compile(rf"\s{{0,{MAX_GAP + 1}}}")

MAX_NAME: Final = 256
"""How many characters the name of a tool or of a parameter may have."""

_NAME: Final = rf"(?=[.:-]{{0,{MAX_NAME}}}+\w)[\w.:-]{{1,{MAX_NAME}}}+"
NAME: Final = re.compile(_NAME)
"""The name of a tool: letters, digits and ``_ - . :``.

A name of punctuation alone is an ellipsis: texts about calls write ``<function=...>``.
"""

_BAR: Final = "[｜|]{1,2}"  # noqa: RUF001 - the token is spelled so
BLANKS: Final = " \t\r\n"
"""The white space that may be beside the signs of a *spaced* tag."""

_BLANK: Final = rf"[{BLANKS}]{{0,16}}+"
_PIECES: Final = re.compile(r'( \w+="(?:NAME|KEY)"|…|NAME|KEY|[<>/=])')
_ATTRIBUTE_PLACE: Final = re.compile(r' (\w+)="(?:NAME|KEY)"')

_WORD: Final = r"[\w:-]{1,64}"
_SPACE: Final = r"\s{0,16}"
_QUOTED: Final = rf"""(?:\s{{1,16}}{_WORD}{_SPACE}={_SPACE}(?:"[^"]*"|'[^']*'))*{_SPACE}"""
_ALL_QUOTED: Final = re.compile(_QUOTED)
_WELL_FORMED: Final = re.compile(
    r"""(?:\s*+[^\s"'<>/=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s"'<>=]++))?)*[\s/]*+"""
)
_DAMAGED_ATTRIBUTE: Final = re.compile(r"""([A-Za-z]{1,16})\s*[="'][\s="']*([\w.:-]{1,64})""")
"""An attribute whose quotes or equals sign are missing or doubled."""


class Spelling(NamedTuple):
    """Which deviations from its template a tag may have.

    *spaced*: blanks inside. *suffixed*: a ``:suffix`` before the end (Hunyuan's tokenizer).
    *glued*: no blank before attributes (MiniCPM5). *escaped*: a newline between tags written as
    backslash and n (GLM). *prefix* comes before every tag (MiniMax-M3). *strict_keys*: a key is one
    word. *longer* is a name that a tag may have instead of its own, which begins it. *loose*: the
    tag is delimited by special tokens, so it counts even if a quote or an equals sign in it is
    missing or doubled, or if a server decoded spaces next to the tokens; *entities*: ``&quot;`` and
    ``&amp;`` in a name or key are decoded (both Kimi K3).
    """

    spaced: bool = False
    suffixed: bool = False
    glued: bool = False
    escaped: bool = False
    prefix: str = ""
    strict_keys: bool = False
    longer: str = ""
    loose: bool = False
    entities: bool = False

    @property
    def gap(self) -> _Part:
        """The white space that may be between two tags."""
        if self.escaped:
            return _Part(rf"(?:\s|\\n){{0,{MAX_GAP}}}", rf"(?:\s|\\n){{0,{MAX_GAP}}}\\?")
        return _Part(rf"\s{{0,{MAX_GAP}}}+", rf"\s{{0,{MAX_GAP}}}+")


class _Part(NamedTuple):
    """A piece of a tag: a pattern of it, and one of all its beginnings, the empty one included."""

    whole: str
    begun: str


class FoundTag(Struct, frozen=True, gc=False):
    """A tag in a text: where it ends, its text, and the name or key in it (empty without one).

    *attributes* are as written; of equal names the first counts. *is_empty*: the tag closes itself.
    *is_damaged*: the attributes are not all quoted, which only a *loose* tag reports. *has_words*:
    there are words beside the attributes, as where a tag lacks its ``>`` and text follows.
    """

    end: int
    text: str
    name: str
    key: str
    attributes: dict[str, str]
    is_empty: bool
    is_damaged: bool
    has_words: bool = False


class Tag:
    """A tag that a text may have; see `make_tag`."""

    __slots__ = ("_begun", "_has_attributes", "_has_key", "_has_name", "_may_be_empty", "_plain",
                 "_spelling", "_whole", "attribute", "part")  # fmt: skip

    def __init__(self, parts: list[_Part], attribute: str, spelling: Spelling) -> None:
        self.part = _join(parts)
        self.attribute = attribute  # that has the name or the key
        self._spelling = spelling
        self._whole = re.compile(self.part.whole)
        self._begun = re.compile(self.part.begun)
        groups = self._whole.groupindex
        self._has_attributes = "attributes" in groups
        self._has_key = "key" in groups
        self._has_name = "name" in groups
        self._may_be_empty = "empty" in groups
        self._plain = _compile_plain(attribute)

    def match(self, text: str, at: int = 0) -> FoundTag | None:
        """Return the tag at *at*, if there is one."""
        found = self._whole.match(text, at, at + MAX_TAG)
        if found is None:
            return None
        return self.describe(found, found.end(), found[0])

    def describe(self, found: re.Match[str], end: int, text: str) -> FoundTag:
        """Return the tag that ends at *end*; *found* has its groups, and may have others."""
        # Without attributes the name or the key is in the tag itself, as in `<function=name>`.
        if not self._has_attributes:
            key = _without_quotes(found["key"].strip()) if self._has_key else ""
            name = found["name"] if self._has_name else ""
            is_empty = self._may_be_empty and found["empty"] is not None
            return FoundTag(end, text, name, key, {}, is_empty, False)
        source = found["attributes"]
        plain = self._plain.fullmatch(source)
        if plain is not None:
            name, other, value = plain.groups()
            attributes = (
                {self.attribute: name} if other is None else {self.attribute: name, other: value}
            )
            return FoundTag(end, text, name, name, attributes, False, False)
        is_damaged = self._spelling.loose and _ALL_QUOTED.fullmatch(source) is None
        attributes, has_words = _parse_attributes(source, is_damaged=is_damaged)
        name = attributes.get(self.attribute, "")
        is_repeated = source.count(f"{self.attribute}=") > 1
        if is_repeated or (not self._spelling.loose and not _WELL_FORMED.fullmatch(source)):
            name = ""  # A quote is missing or out of place, so the name may be another one.
        if self._spelling.entities:  # no other entity is one, and the order matters
            name = name.replace("&quot;", '"').replace("&amp;", "&")
        is_empty = source.rstrip().endswith("/")
        return FoundTag(end, text, name, name, attributes, is_empty, is_damaged, has_words)

    def read_plain(self, found: re.Match[str], attribute: str) -> tuple[str, str] | None:
        """Return the key and the value of *attribute* in the tag of which *found* has the groups.

        Return None if anything in the tag needs judgement.
        """
        if not self._has_attributes:
            key = _without_quotes(found["key"].strip())
            is_empty = self._may_be_empty and found["empty"] is not None
            return None if is_empty or not key or "=" in key else (key, "")
        plain = self._plain.fullmatch(found["attributes"])
        if plain is not None:
            return plain[1], (plain[3] if plain[2] == attribute else "")
        tag = self.describe(found, 0, "")
        if tag.is_empty or tag.is_damaged or tag.has_words or not tag.key or "=" in tag.key:
            return None
        return tag.key, tag.attributes.get(attribute, "")

    def could_begin(self, text: str, at: int = 0) -> bool:
        """Return whether *text* ends inside what may become the tag, from *at* on."""
        return len(text) - at < MAX_TAG and self._begun.fullmatch(text, at) is not None


class TagChoice:
    """Several tags, of which the first that matches counts; compiled to one pattern."""

    __slots__ = ("_begun", "_whole")

    def __init__(self, tags: Sequence[Tag]) -> None:
        wholes = [f"({_NAMED_GROUP.sub('(?:', tag.part.whole)})" for tag in tags]
        beginnings = [f"(?:{_NAMED_GROUP.sub('(?:', tag.part.begun)})" for tag in tags]
        self._whole = re.compile("|".join(wholes))
        self._begun = re.compile("|".join(beginnings))

    def find(self, text: str, at: int) -> int:
        """Return the number of the tag at *at*; -1 if there is none."""
        found = self._whole.match(text, at, at + MAX_TAG)
        return -1 if found is None or found.lastindex is None else found.lastindex - 1

    def could_begin(self, text: str, at: int) -> bool:
        """Return whether *text* ends inside what may become one of the tags, from *at* on."""
        return len(text) - at < MAX_TAG and self._begun.fullmatch(text, at) is not None


def _compile_plain(attribute: str) -> re.Pattern[str]:
    """Return a pattern of the attributes that nearly all tags have: *attribute*, and maybe another.

    Nothing in what it matches needs judgement.
    """
    other = rf'(?: (?!\w*{attribute}=)(\w{{1,64}})="(\w*)")?'
    return re.compile(rf' {attribute}="([\w.:-]+)"{other}' if attribute else "(?!)", re.ASCII)


_NAMED_GROUP: Final = re.compile(r"\(\?P<\w+>")


def make_any_tag(templates: tuple[str, ...], spelling: Spelling) -> Tag:
    """Compile *templates* without names and attributes as one tag, which matches any of them."""
    joined = [_join(_compile(template, spelling)) for template in templates]
    whole = "|".join(part.whole for part in joined)
    return Tag([_Part(f"(?:{whole})", "|".join(part.begun for part in joined))], "", spelling)


@lru_cache(maxsize=1024)
def make_tag(template: str, spelling: Spelling, lead: tuple[str, ...] = ()) -> Tag:
    """Compile *template*; each piece of *lead* may come before it."""
    attribute = next((found[1] for found in _ATTRIBUTE_PLACE.finditer(template)), "")
    return Tag(_compile(template, spelling, lead), attribute, spelling)


def _compile(template: str, spelling: Spelling, lead: tuple[str, ...] = ()) -> list[_Part]:
    gap = spelling.gap
    parts: list[_Part] = []
    for piece in lead:
        literal = _literal(piece)
        parts += [_Part(f"(?:{literal.whole})?", literal.begun), gap]
    if spelling.prefix:
        parts += [_literal(spelling.prefix), gap]
    pieces = list(filter(None, _PIECES.split(template)))
    for at, piece in enumerate(pieces):
        if piece == "…" or (piece.startswith(" ") and "=" in piece):
            parts.append(_attributes(spelling))
        elif piece == "NAME":
            parts += _name(pieces, at, spelling)
        elif piece == "KEY":
            parts.append(_key(pieces, at, spelling))
        else:
            parts += _mark(piece, pieces, at, spelling)
    return parts


def _join(parts: list[_Part]) -> _Part:
    """Return the pattern of all *parts* in a row, and that of its beginnings."""
    # The beginnings of `ab` are those of `a`, and `a` with those of `b`. Built from the end, the
    # pattern grows with the number of parts and not with its square.
    begun = parts[-1].begun
    for part in reversed(parts[:-1]):
        begun = f"(?:{part.whole}(?:{begun})|{part.begun})"
    return _Part("".join(part.whole for part in parts), begun)


def _without_quotes(key: str) -> str:
    """Return *key* without the quotes around it."""
    is_quoted = len(key) > _QUOTED_PAIR and key[0] == key[-1] and key[0] in "\"'"
    return key[1:-1] if is_quoted else key


_QUOTED_PAIR: Final = 2
_OTHER_QUOTES: Final = "\u201c\u201d\u201e\u201f\u2018\u2019\u201a\u201b\u00ab\u00bb"
"""Quotes around the attributes of DeepSeek V4 as some hosts leak it."""


def _parse_attributes(source: str, *, is_damaged: bool) -> tuple[dict[str, str], bool]:
    """Return the attributes in *source*, and whether there are words beside them."""
    attributes: dict[str, str] = {}
    has_words = False
    if is_damaged:  # Kimi K3 omits or doubles a quote or an equals sign.
        for name, value in _DAMAGED_ATTRIBUTE.findall(source):
            attributes.setdefault(name, value)
        return attributes, has_words
    for name, value, is_quoted in find_attributes(source.rstrip("/ \t\n")):
        if value is None:
            has_words = True
        else:
            attributes.setdefault(name, value if is_quoted else value.strip(_OTHER_QUOTES))
    return attributes, has_words


def _name(pieces: list[str], at: int, spelling: Spelling) -> list[_Part]:
    name = _Part(rf"(?P<name>{_NAME})", rf"[\w.:-]{{0,{MAX_NAME}}}+")
    if pieces[at - 1] == "=":
        blank = [_Part(_BLANK, _BLANK)] if spelling.spaced else []
        return [_QUOTE, name, _QUOTE, *blank, _EMPTY]
    # The name comes after a tag (GLM): another tag ends it, or white space does.
    follows = [spelling.gap] if pieces[at + 1 :] else [_Part(r"(?=[\s\\<])", "")]
    return [spelling.gap, name, *follows]


_QUOTE: Final = _Part("[\"']?+", "[\"']?+")
"""A quote that models put around the name in ``<function=name>``."""

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


def _attributes(spelling: Spelling) -> _Part:
    if spelling.loose:
        begun = rf"""{_QUOTED}(?:{_WORD}{_SPACE}(?:={_SPACE}(?:"[^"]*|'[^']*)?)?)?"""
        return _Part(
            rf"(?P<attributes>{_QUOTED}|\s[^<]{{0,256}})", rf"(?:{begun}|\s[^<]{{0,256}})?"
        )
    inside = r"""(?:[^"'<>]++|"[^"]*+"|'[^']*+')*"""
    first = "" if spelling.glued else r"\s"  # `<functionname=` (MiniCPM5) or `<function name=`
    whole = f"{first}{inside}"
    begun = rf"""(?:{first}{inside}(?:"[^"]*+|'[^']*+)?)?"""
    return _Part(f"(?P<attributes>{whole})", begun)


def _mark(piece: str, pieces: list[str], at: int, spelling: Spelling) -> list[_Part]:
    """Return a literal piece; blanks and a suffix may be beside the signs of a tag."""
    parts: list[_Part] = []
    blank = [_Part(_BLANK, _BLANK)] if spelling.spaced else []
    if piece == ">":
        if spelling.suffixed:
            parts.append(_Part(r"(?::[^<>\s]{1,64}+)?", r"(?::[^<>\s]{0,64}+)?"))
        if pieces[at - 1] not in ("KEY", "NAME"):  # Blanks after these were taken with them.
            parts += blank
    elif piece == "=" or (piece == "<" and at and spelling.loose):
        parts += blank or [_Part(_BLANK, _BLANK)]
    if spelling.longer and spelling.longer.startswith(piece):
        longer = _literal(spelling.longer)
        parts.append(_Part(f"(?:{longer.whole}|{re.escape(piece)})", longer.begun))
    else:
        parts.append(_literal(piece))
    if piece in "</=":
        parts += blank
    elif piece == ">" and spelling.loose and pieces[at + 1 :]:
        parts.append(_Part(_BLANK, _BLANK))
    return parts


def skip_gap(text: str, at: int) -> int | None:
    """Return the end of the white space at *at*; None if there is too much of it."""
    end = skip_match(_GAP, text, at)
    return None if end - at > MAX_GAP else end


def _literal(text: str) -> _Part:
    """Return *text* as a pattern; where a token has a bar, models write two, or ASCII ones.

    After the bar that ends DSML's token a space may follow, as in DeepSeek V4.1.
    """
    signs = [_BAR if sign == "｜" else re.escape(sign) for sign in text]  # noqa: RUF001
    word = re.search(r"\w｜(?=\w)", text)  # noqa: RUF001
    if word is not None:
        signs[word.end() - 1] += " ?"
    begun = ""
    for sign in reversed(signs[:-1]):
        begun = f"(?:{sign}{begun})?"
    return _Part("".join(signs), begun)


# Tags that resemble XML (tool_tag, file_tags).

_NAME_ENDS: Final = re.compile(r"[\s/>]")


def take_opening(marker: str, scanner: Scanner) -> MarkupTag | Verdict:
    """Take the rest of the opening tag that *marker* (``<name``) began.

    Names of tags and attributes match in any case. Return a verdict if more text has to come, or if
    this is not a tag of that name. A tag longer than `MAX_TAG` is prose.
    """
    rest = scanner.peek(MAX_TAG - len(marker))
    if rest and _NAME_ENDS.match(rest) is None:
        return Verdict.NOT_A_CALL  # `<tooling>` begins like `<tool>`.
    window = marker + rest
    tag = opening_at(window, 0)
    if tag is not None:
        scanner.skip(tag.end - len(marker))
        return tag
    is_begun = len(window) < MAX_TAG and may_become_opening(window, 0)
    return Verdict.MORE if is_begun else Verdict.NOT_A_CALL
