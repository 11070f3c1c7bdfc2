"""How models mark their reasoning, by name."""

from __future__ import annotations

from typing import Final

from penstock.errors import UsageError
from penstock.parsing import Reasoning

THINK: Final = Reasoning("think", ("<think>",), ("</think>",), leading=True)
"""What a model writes that is known for no other way: once, and first of all."""

_STYLES: Final = {style.name: style for style in (THINK,)}

NONE: Final = "none"
"""The name that switches reasoning off: all of the answer is text."""


def find_reasoning(style: str | Reasoning) -> Reasoning | None:
    """Give the style of a name; raise `UsageError` for a name that nobody has."""
    if isinstance(style, Reasoning):
        return style
    if style == NONE:
        return None
    try:
        return _STYLES[style]
    except KeyError:
        known = ", ".join(sorted([NONE, *_STYLES]))
        raise UsageError(f"no reasoning style is called {style!r}; there are {known}") from None
