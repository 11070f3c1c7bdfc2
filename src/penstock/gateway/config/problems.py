"""What is wrong with a configuration: every problem with its place, told all at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Final, Self

from msgspec import Struct

from penstock.errors import UsageError

MAX_SHOWN: Final = 40
"""How many characters of a wrong value a message shows: enough to find it."""

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


class Place(Struct, frozen=True):
    """Where a value stands: its *path* in the settings, and the *label* that a person knows it by.

    Values of the file are known by their path; those of a flag or a variable have its name.
    """

    path: tuple[str, ...] = ()
    label: str = ""

    def child(self, *names: str) -> Place:
        """Give the place of what is called *names* in here."""
        return Place((*self.path, *names))

    def labelled(self, label: str) -> Place:
        """Give the same place, known by *label*."""
        return Place(self.path, label)

    def __str__(self) -> str:
        return self.label or ".".join(map(_key, self.path))


def _key(name: str) -> str:
    """Write *name* as a key in TOML: in quotes where it needs them."""
    return name if _BARE.fullmatch(name) else '"{}"'.format(name.replace('"', '\\"'))


class ConfigError(UsageError):
    """A configuration that cannot be used; *problems* says why, one line each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[object, ...]]:
        return type(self), (self.problems,)


class Problems:
    """Collects problems, so that one look at them is enough to mend all."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, ...]] = {}

    def add(self, place: Place, message: str) -> None:
        """Note that *message* holds at *place*."""
        self._found.setdefault(f"{place}: {message}", place.path)

    def touch(self, place: Place) -> bool:
        """Tell whether something at *place*, inside of it or around it is wrong already.

        What such values say together means nothing yet, and to complain of it would mislead.
        """
        return any(
            path[: len(place.path)] == place.path[: len(path)] for path in self._found.values()
        )

    def raise_any(self) -> None:
        """Raise a `ConfigError` with all that was found; nothing happens without any."""
        if self._found:
            raise ConfigError(self._found)


def nearest(word: str, known: Iterable[str]) -> str:
    """Give the one of *known* that *word* was probably meant to be, or nothing."""
    plain = {_plain(name): name for name in known}
    near = get_close_matches(_plain(word), plain, n=1, cutoff=0.6)
    return plain[near[0]] if near else ""


def suggestion(word: str, known: Iterable[str]) -> str:
    """Give the end of a sentence that asks whether the `nearest` was meant, or nothing."""
    near = nearest(word, known)
    return f"; did you mean {near!r}?" if near else ""


def _plain(name: str) -> str:
    return name[: 2 * MAX_SHOWN].casefold().replace("-", "_")


def shown(value: object) -> str:
    """Show *value*, cut to a length, in the words of the file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    text = repr(str(value)) if isinstance(value, str) else str(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
