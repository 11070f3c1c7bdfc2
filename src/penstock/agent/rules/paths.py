"""Which paths a call names, and whether a glob fits them.

Paths are compared with forward slashes, whatever the model writes. ``*`` and ``?`` stay within a
folder, ``**`` goes through any number of them, ``[…]`` is one of some characters and ``{a,b}`` one
of some words. A glob without a slash is about the name of a file, wherever it is.
"""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache
from typing import Final

MAX_PATH: Final = 4_096
"""How long a path may be to be looked at: as long as a system takes one."""

_PIECES: Final = re.compile(
    r"(?P<folders>\*\*/)|(?P<all>\*\*)|(?P<some>\*)|(?P<one>\?)"
    r"|(?P<set>\[[!^]?\]?[^\]]*\])|(?P<open>\{(?=[^{}]*\}))|(?P<close>\})|(?P<comma>,)|(?P<char>.)",
    re.DOTALL,
)
_MEANINGS: Final = {"folders": "(?:.*/)?", "all": ".*", "some": "[^/]*", "one": "[^/]"}
_SPECIAL: Final = re.compile(r"[\\&~|\[]|(?<=-)-")  # of a set, to `re` but not to a glob


def names_path(key: str) -> bool:
    """Tell whether an argument called *key* holds a path, or a list of paths."""
    return key.lower().endswith(("path", "paths"))


def spellings(path: str, folder: str) -> list[str]:
    """Give the ways to write *path*: as given, without ``./``, absolute, and from *folder* on."""
    if not path or len(path) > MAX_PATH:
        return []
    given = path.replace("\\", "/")
    folder = folder.replace("\\", "/")
    plain = posixpath.normpath(given)
    absolute = posixpath.normpath(posixpath.join(folder, given))
    relative = posixpath.relpath(absolute, folder) if absolute.startswith("/") else plain
    return list(dict.fromkeys([given, plain, absolute, relative]))


def fits(path: str, glob: str) -> bool:
    """Tell whether *glob* fits *path*, all of it or its last name."""
    pattern = _pattern_of(glob.removeprefix("./"))
    return bool(pattern.fullmatch(path) or pattern.fullmatch(posixpath.basename(path)))


@lru_cache(maxsize=512)
def _pattern_of(glob: str) -> re.Pattern[str]:
    depth = 0
    parts = []
    for found in _PIECES.finditer(glob):
        kind = str(found.lastgroup)
        if kind == "open":
            depth += 1
            parts.append("(?:")
        elif kind == "close" and depth:
            depth -= 1
            parts.append(")")
        elif kind == "comma" and depth:
            parts.append("|")
        elif kind == "set":
            parts.append(_set_of(found[0]))
        else:
            parts.append(_MEANINGS.get(kind) or re.escape(found[0]))
    return _compiled("".join(parts), glob)


def _set_of(text: str) -> str:
    inside = text[1:-1]
    negation = "^" if inside[:1] in {"!", "^"} else ""
    plain = _SPECIAL.sub(r"\\\g<0>", inside[len(negation) :])
    return f"[{negation}{plain}]"


def _compiled(pattern: str, glob: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.DOTALL)
    except re.error:  # a set such as `[z-a]`: then it is no set
        return re.compile(re.escape(glob))
