"""Variables of the environment in the file: ``${NAME}`` and ``${NAME:-default}``.

They stand in strings, anywhere in them; ``$${`` is a ``${`` that means itself. What comes out is
marked, since a number or a ``true`` from the environment is text too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Self

from penstock.gateway.config.problems import Place, Problems

MAX_DEPTH: Final = 16
"""How deep tables and lists of the file may nest: the settings themselves need five."""

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What a variable may be called."""

_USUAL: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_REFERENCE: Final = re.compile(r"\$(?P<escaped>\$\{)|\$\{(?P<inside>[^{}]*)(?P<closed>\}?)")


class EnvText(str):
    """Text from the environment; *variable* is set where it is all of one variable's value."""

    __slots__ = ("variable",)
    variable: str

    def __new__(cls, text: str, variable: str = "") -> Self:
        """Mark *text*."""
        made = super().__new__(cls, text)
        made.variable = variable
        return made


def named(name: str) -> str:
    """Name a variable in a message, unless it looks like a key that was put in the wrong place."""
    return f"the environment variable {name}" if _USUAL.fullmatch(name) else "the variable"


def filled(tree: Any, environ: Mapping[str, str], problems: Problems, place: Place) -> Any:
    """Give *tree*, what a file holds, with the values of *environ* in its strings."""
    if len(place.path) > MAX_DEPTH:
        problems.add(Place(place.path[:3]), "nested too deep")
        return {}
    if isinstance(tree, dict):
        return {
            key: filled(value, environ, problems, place.child(key)) for key, value in tree.items()
        }
    if isinstance(tree, list):
        return [
            filled(value, environ, problems, place.child(str(number)))
            for number, value in enumerate(tree)
        ]
    if isinstance(tree, str) and "${" in tree:
        return _text(tree, environ, problems, place)
    return tree


def _text(text: str, environ: Mapping[str, str], problems: Problems, place: Place) -> str:
    def value(found: re.Match[str]) -> str:
        if found["escaped"]:
            return "${"
        name, has_default, default = found["inside"].partition(":-")
        if not found["closed"] or not NAME.fullmatch(name):
            problems.add(place, "write ${NAME} or ${NAME:-default}, and $${ where ${ is meant")
        elif has_default:
            return environ.get(name) or default
        elif name not in environ:
            problems.add(
                place, f"{named(name)} is not set; ${{NAME:-default}} gives a value for that case"
            )
        return environ.get(name, "")

    whole = _REFERENCE.fullmatch(text)
    is_one = whole is not None and not whole["escaped"]
    variable = whole["inside"].partition(":-")[0] if whole is not None and is_one else ""
    return EnvText(_REFERENCE.sub(value, text), variable)
