"""Configuration errors: every problem with the key it concerns, all reported together."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import Final, Self

from penstock.errors import UsageError, shorten, suggest

MAX_SHOWN_VALUE: Final = 40
"""How many characters of a wrong value a message quotes: enough to find it in the file."""

KeyPath = tuple[str, ...]
"""The path of a setting: ``("server", "port")`` is ``server.port`` in the file."""

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


class ConfigError(UsageError):
    """Raised for an invalid configuration; *problems* has one line for each problem."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))

    # An exception is unpickled with its `args`, which is the joined text here.
    def __reduce__(self) -> tuple[Callable[..., Self], tuple[object, ...]]:
        return type(self), (self.problems,)


class ProblemList:
    """Collects problems, so that a user sees all of them at once.

    *labels* maps the path of a setting that did not come from the file to the flag or the
    environment variable that set it: messages name that instead of the path.
    """

    def __init__(self) -> None:
        self.labels: dict[KeyPath, str] = {}
        self._found: dict[str, KeyPath] = {}

    def add(self, path: KeyPath, message: str, label: str = "") -> None:
        """Add a problem with the setting at *path*, or with the value from *label* for it."""
        label = label or self.labels.get(path) or render_key(*path)
        self._found.setdefault(f"{label}: {message}", path)

    def affects(self, path: KeyPath) -> bool:
        """Return whether there is a problem at *path*, inside it or around it.

        Checks that combine several settings skip those: their message would be misleading.
        """
        return any(found[: len(path)] == path[: len(found)] for found in self._found.values())

    def raise_any(self) -> None:
        """Raise a `ConfigError` with all problems, if there are any."""
        if self._found:
            raise ConfigError(self._found)


def render_key(*names: str) -> str:
    """Return *names* as a dotted TOML key, with quotes where a name needs them."""
    return ".".join(
        name if _BARE_KEY.fullmatch(name) else '"{}"'.format(name.replace('"', '\\"'))
        for name in names
    )


def quote_value(value: object) -> str:
    """Return *value* as the file would show it, cut to `MAX_SHOWN_VALUE` characters."""
    # Before numbers: Python's booleans are integers, and TOML's are in lower case.
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    text = repr(str(value)) if isinstance(value, str) else str(value)
    return shorten(text, MAX_SHOWN_VALUE)


def describe_unknown(what: str, name: str, known: Collection[str], otherwise: str = "") -> str:
    """Return the message for an unknown *name*: with a suggestion, else with all *known* names.

    If those are too many, *otherwise* says where to find them.
    """
    hint = otherwise or f"known: {', '.join(known)}"
    return f"unknown {what} {quote_value(name)}{suggest(name, known) or f'; {hint}'}"
