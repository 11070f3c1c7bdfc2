"""Tags that are almost those of a dialect: one character is wrong, or half of the tag is missing.

A model that writes ``</paramter>`` or ``</para`` meant the end of its value. The reader cannot see
that tag, so the value would hold it, and all that follows up to the next tag. A value with such a
tag is not what was meant (law 11). A tag before a quote is quoted, and counts as data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from penstock.readers.plausible import MAX_LAST_TAG, ends_with_loose_tag, misspell
from penstock.values.control_tokens import has_control_token

MIN_NAME: Final = 5
"""Names that are shorter have too many neighbours that are words."""

MIN_COMMON: Final = 3
"""How many letters of a closing tag are a sign of it where no other tag follows.

Values end with ``</`` or ``</a``, too, as pieces of code do.
"""

MIN_TOKEN: Final = 7
"""The same for special tokens."""

MIN_BEGUN: Final = 6
"""How much of a special token at the end of a value is a sign of one that was cut."""

MAX_BEGUN: Final = 9
"""How much of a special token, anywhere in a value, is a sign of one that was cut."""

_BARS: Final = "|\uff5c\u2581"
_WORD: Final = rf"[\w{_BARS}](?:[\w.:/{_BARS}\-]|(?<=[{_BARS}\s])\s){{2,63}}"
_PLAIN: Final = _WORD.replace("/", "")
_CANDIDATE: Final = re.compile(
    rf"(?P<slash>/?)<(?P<lead>[<\s/]{{0,3}})(?P<name>{_WORD})|(?<![<\"'`/])/(?P<closed>{_PLAIN})>"
)
_REST: Final = re.compile(r"[^<>\n]{0,256}>")
_CLOSED: Final = re.compile(r"\s{0,16}>")
_LETTERS: Final = rf"[\w.:{_BARS}\-]"
_FIRST_HALF: Final = re.compile(
    rf"</(?P<name>{_LETTERS}{{0,64}}+)"
    rf"(?:(?:[\r\n]\s{{0,15}}+)?(?=<(?P<next>{_WORD}))|\s{{0,16}}+(?P<merged>=)|\s*+\Z)"
)
_SECOND_HALF: Final = re.compile(
    rf"(?<!{_LETTERS})(?<!<)(?<!</)/?(?P<name>{_LETTERS}{{2,64}}+)>\s*+\Z"
)
_LOOSE_END: Final = re.compile(r"(?:^|\s)[^\s<>]*\w>\s*\Z")
_NEXT: Final = re.compile(r"[ \t]*(?:[\n<]|\Z)")
_BLANKS: Final = re.compile(r"\s\s")
_QUOTES: Final = "\"'`\\"
_NAME: Final = re.compile(rf"</?({_WORD})")
_CLOSING: Final = re.compile(rf"</(?P<name>[\w.:{_BARS}\-]+)")


class DamagedTags:
    """Finds the damaged spellings of *tags*, the templates of a dialect.

    Each of *tokens* is a special token: it is never data, so part of one is a sign of damage. With
    *has_elements* the tags are named after arguments: in capitals they are markup of the value.
    """

    def __init__(
        self, tags: Iterable[str], tokens: Iterable[str], *, has_elements: bool = False
    ) -> None:
        self._has_elements = has_elements
        tags = tuple(tags)
        closings = (found["name"] for found in map(_CLOSING.match, tags) if found)
        self._closings = {name.lower() for name in closings}
        found = [name for name in map(_NAME.match, tags) if name and len(name[1]) >= MIN_NAME]
        self._names = {_normalize(name[1]) for name in found}
        opened = [name for name in found if "/" not in name[0]]
        openings = [(_normalize(name[1]), name.string[name.end() :]) for name in opened]
        bare = {name for name, rest in openings if rest == ">"}
        self._named = {name for name, rest in openings if rest[:1] in ("=", " ")} - bare
        self._barred = {name.replace("\uff5c", "") for name in self._names if "\uff5c" in name}
        self._near = {near for name in self._names for near in misspell(name)} - self._names
        self._tokens = tuple(token for token in tokens if len(token) >= MIN_TOKEN)
        self._begun_tokens = tuple(
            token[:end] for token in self._tokens for end in range(MIN_BEGUN, len(token))
        )
        wrong = {near for token in self._tokens for near in misspell(token)}
        self._wrong = re.compile("|".join(map(re.escape, wrong))) if wrong else None

    def are_in(self, text: str, *, is_cut: bool = False) -> bool:
        """Return whether *text* has a damaged tag; with *is_cut* it has no closing tag."""
        if is_cut and (has_control_token(text) or ends_with_loose_tag(text)):
            return True
        if ("<" in text or ">" in text) and self._has_damaged_tag(text, is_cut=is_cut):
            return True
        return self._has_damaged_token(text)

    def _has_damaged_tag(self, text: str, *, is_cut: bool) -> bool:
        if any(map(self._is_damaged, _CANDIDATE.finditer(text))):
            return True
        if is_cut and self._has_second_half(text):
            return True
        return any(
            self._is_first_half(found, is_cut=is_cut) for found in _FIRST_HALF.finditer(text)
        )

    def _has_damaged_token(self, text: str) -> bool:
        if self._wrong is None:
            return False
        if text.rstrip().endswith(self._begun_tokens):
            return True
        for token in self._tokens:  # Elements inside the value have whole ones.
            text = text.replace(token, "\0")
        if any(token[:MAX_BEGUN] in text for token in self._tokens):
            return True
        return self._wrong.search(text) is not None

    def _is_damaged(self, found: re.Match[str]) -> bool:
        text, end = found.string, found.end()
        if text[end : end + 1] in _QUOTES and end < len(text):
            return False
        if found["closed"] is not None:
            name = _normalize(found["closed"])
            return name in self._names or name in self._near
        name = _normalize(found["name"]).removesuffix("/")
        is_closing = "/" in found["lead"] + found["name"] + found["slash"]
        is_tag = (_CLOSED if is_closing else _REST).match(text, end) is not None
        if self._begins_barred(name):
            return True
        if self._is_near(name):
            return is_tag
        name = name if name in self._names else name.partition(":")[0]
        if name not in self._names:
            return False
        if is_tag and not self._has_elements and found["name"].upper() == found["name"]:
            return True
        is_swapped = found["slash"] != "" and "/" not in found["lead"]
        if is_swapped or found["lead"].count("/") > 1 or _BLANKS.search(found["name"]):
            return True
        if not is_closing and name in self._named and text.startswith(">", end):
            return True
        return not is_tag and _NEXT.match(text, end) is not None

    def _is_first_half(self, found: re.Match[str], *, is_cut: bool) -> bool:
        """Return whether a closing tag begins, and another tag, or its end, comes too early."""
        name = found["name"].lower()
        if found["merged"] is not None:
            name = name[:MIN_COMMON]
        is_next = is_cut and found.end() == len(found.string)  # Another tag ended the value.
        is_next = is_next or _normalize(found["next"] or "") in self._names
        is_sign = is_next or len(name) >= MIN_COMMON
        return is_sign and any(each.startswith(name) for each in self._closings)

    def _has_second_half(self, text: str) -> bool:
        """Return whether *text*, which has no closing tag, ends with half of one or quotes one."""
        if _LOOSE_END.search(text, max(0, len(text) - MAX_LAST_TAG)):
            return True
        found = _SECOND_HALF.search(text, max(0, len(text) - MAX_LAST_TAG))
        if found is not None:
            name = found["name"].lower()
            if any(
                each.partition(":")[0].endswith(name.partition(":")[0]) for each in self._closings
            ):
                return True
        line = text.rstrip().rpartition("\n")[2].lower()
        return any(f"</{each}" in line for each in self._closings)

    def _begins_barred(self, name: str) -> bool:
        """Return whether *name* begins a name with bars, which special tokens have, otherwise."""
        bare = name.replace("\uff5c", "")
        is_other = bare != name and name not in self._names and len(bare) >= MIN_NAME - 1
        return is_other and any(each.startswith(bare) for each in self._barred)

    def _is_near(self, name: str) -> bool:
        """Return whether *name* is almost one of the names."""
        if name in self._names:
            return False
        if name in self._near or name.replace("/", "") in self._names:
            return True
        return name.partition(":")[0] in self._near


@lru_cache(maxsize=256)
def element_tags(*names: str) -> DamagedTags:
    """Return the closing tags of the elements *names*, whose damaged spellings are looked for."""
    return DamagedTags((f"</{name}>" for name in names), (), has_elements=True)


def _normalize(name: str) -> str:
    """Return *name* in lower case and without the blanks that some dialects have in it."""
    return "".join(name.lower().split())
