"""A rule: the conditions to search for, where to search, and the text for the model.

A scope is made of words. ``text`` and ``thinking`` are the model's text and reasoning; ``tool`` (or
``toolcall``) is any call, ``tool:NAME`` or just ``NAME`` the calls of one tool; ``NAME(glob)`` and
``tool(glob)`` are calls with a path that matches. The default is text and any call, without
reasoning.

In a glob, ``*`` and ``?`` stay within a folder, ``**`` matches any number of folders, ``[…]`` is
one of some characters and ``{a,b}`` one of some words. A glob without a slash is compared with the
name of the file, wherever it is. Paths are compared with forward slashes, whatever the model
writes.
"""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct

from penstock.agent.rules.matcher import compile_condition
from penstock.errors import PenstockError

Interrupt = Literal["always", "prose-only", "tool-only", "never"]
"""When a rule stops the response; otherwise the model is notified after the turn."""

Repeat = Literal["once", "after-gap"]
"""Whether a rule fires once in a conversation, or again after some turns."""

Kind = Literal["text", "thinking", "tool"]
"""The kind of stream that a rule applies to."""

GAP: Final = 10
"""How many turns pass before a rule that repeats fires again: long enough to be forgotten."""

BUDGET: Final = 8
"""How often rules fire in one prompt: a model that continues after that will not learn it now."""

MAX_PATH: Final = 4_096
"""How long a path may be to be compared with globs: the limit of Linux."""

DEFAULT_SCOPE: Final = ("text", "tool")
"""The scope of a rule that has none."""

_SCOPE_WORD: Final = re.compile(r"(?P<prefix>tool:)?(?P<name>[\w.:/-]*\w)(?:\((?P<glob>[^()]+)\))?")
_ANY_TOOL: Final = ("tool", "toolcall")
_PROSE: Final[dict[str, Kind]] = {"text": "text", "thinking": "thinking"}

SCOPE_KINDS: Final = frozenset({*_ANY_TOOL, *_PROSE})
"""Words of a scope that are not names of tools; they are written in lower case."""

_GLOB_PIECES: Final = re.compile(
    r"(?P<folders>\*\*/)|(?P<all>\*\*)|(?P<some>\*)|(?P<one>\?)"
    r"|(?P<set>\[[!^]?\]?[^\]]*\])|(?P<open>\{(?=[^{}]*\}))|(?P<close>\})|(?P<comma>,)|(?P<char>.)",
    re.DOTALL,
)
_GLOB_PATTERNS: Final = {"folders": "(?:.*/)?", "all": ".*", "some": "[^/]*", "one": "[^/]"}
_SPECIAL: Final = re.compile(r"[\\&~|\[]|(?<=-)-")  # in a set, to `re` but not to a glob


class RuleError(PenstockError):
    """A rule that cannot be used, and why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"rule {name!r}: {reason}")
        self.name = name
        self.reason = reason

    def __reduce__(self) -> tuple[type[RuleError], tuple[str, str]]:
        return type(self), (self.name, self.reason)


class RuleSettings(Struct, frozen=True):
    """The settings of all rules that have none of their own.

    *context* decides whether the model sees again what had arrived of a stopped response.
    *budget* is how often rules may fire in one prompt.
    """

    enabled: bool = True
    context: Literal["discard", "keep"] = "discard"
    interrupt: Interrupt = "always"
    repeat: Repeat = "once"
    gap: int = GAP
    budget: int = BUDGET


class Scope(Struct, frozen=True):
    """One place where a rule applies; an empty *tool* is any, an empty *glob* any path or none."""

    kind: Kind
    tool: str = ""
    glob: str = ""

    def covers(self, kind: Kind, tool: str = "") -> bool:
        """Return whether a stream of *kind*, of a call of *tool*, is searched."""
        return self.kind == kind and self.tool in ("", tool)

    def admits(self, paths: list[str]) -> bool:
        """Return whether a call with these *paths* is searched."""
        return not self.glob or any(matches_glob(path, self.glob) for path in paths)


class Rule(Struct, frozen=True):
    """Regular expressions to search for, where to search, and the *text* for the model.

    *scope* is made of the words that this module describes, *globs* narrows it to calls with a path
    that matches one of them. *interrupt*, *repeat*, *gap* and *keep* default to those of the
    settings. Raises `RuleError` if one of *conditions* or *scope* is invalid, or if no stream could
    ever match.
    """

    name: str
    conditions: tuple[str, ...]
    text: str
    scope: tuple[str, ...] = DEFAULT_SCOPE
    globs: tuple[str, ...] = ()
    interrupt: Interrupt | None = None
    repeat: Repeat | None = None
    gap: int | None = None
    keep: bool | None = None

    def __post_init__(self) -> None:
        self.patterns()
        if not self.scopes():
            reason = "its globs apply to calls only, but no call is in its scope"
            raise RuleError(self.name, reason if self.globs else "its scope is empty")
        if self.gap is not None and self.gap < 1:
            raise RuleError(self.name, f"gap must be at least 1 turn, got {self.gap}")

    def patterns(self) -> list[re.Pattern[str]]:
        """Return the compiled conditions."""
        if not self.conditions:
            raise RuleError(self.name, "no condition")
        try:
            return [compile_condition(condition) for condition in self.conditions]
        except ValueError as exc:
            raise RuleError(self.name, str(exc)) from exc

    def scopes(self) -> list[Scope]:
        """Return the places where the rule applies; with globs only those at calls."""
        scopes = []
        for word in self.scope:
            scope = parse_scope(word)
            if scope is None:
                raise RuleError(self.name, f"invalid scope {word!r}")
            if scope.kind == "tool" or not self.globs:
                scopes.append(scope)
        return scopes

    def covers(self, kind: Kind, tool: str = "") -> bool:
        """Return whether the rule applies to a stream of *kind*."""
        return any(scope.covers(kind, tool) for scope in self.scopes())


def parse_scope(word: str) -> Scope | None:
    """Parse one word of a scope; return None if it is invalid."""
    found = _SCOPE_WORD.fullmatch(word.strip())
    if found is None:
        return None
    name, glob = found["name"], found["glob"] or ""
    if found["prefix"]:
        return Scope("tool", name, glob)
    if name in _ANY_TOOL:
        return Scope("tool", "", glob)
    if name in _PROSE:
        return None if glob else Scope(_PROSE[name])
    return Scope("tool", name, glob)


# --- paths and globs ---


def holds_path(key: str) -> bool:
    """Return whether an argument called *key* holds a path, or a list of paths."""
    return key.lower().endswith(("path", "paths"))


def list_spellings(path: str, folder: str) -> list[str]:
    """List the ways to write *path*: as given, without ``./``, absolute, relative to *folder*."""
    if not path or len(path) > MAX_PATH:
        return []
    # Some models write Windows paths, on every system.
    given = path.replace("\\", "/")
    folder = folder.replace("\\", "/")
    plain = posixpath.normpath(given)
    absolute = posixpath.normpath(posixpath.join(folder, given))
    relative = posixpath.relpath(absolute, folder) if absolute.startswith("/") else plain
    return list(dict.fromkeys([given, plain, absolute, relative]))


def matches_glob(path: str, glob: str) -> bool:
    """Return whether *glob* matches *path*, all of it or its last name."""
    # Models write the same path in many ways: see `list_spellings`.
    pattern = _compile_glob(glob.removeprefix("./"))
    return bool(pattern.fullmatch(path) or pattern.fullmatch(posixpath.basename(path)))


@lru_cache(maxsize=512)
def _compile_glob(glob: str) -> re.Pattern[str]:
    depth = 0
    parts = []
    for found in _GLOB_PIECES.finditer(glob):
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
            inside = found[0][1:-1]
            negation = "^" if inside[:1] in {"!", "^"} else ""
            plain = _SPECIAL.sub(r"\\\g<0>", inside[len(negation) :])
            parts.append(f"[{negation}{plain}]")
        else:
            parts.append(_GLOB_PATTERNS.get(kind) or re.escape(found[0]))
    try:
        return re.compile("".join(parts), re.DOTALL)
    except re.error:  # a set such as `[z-a]`, which is then taken literally
        return re.compile(re.escape(glob))
