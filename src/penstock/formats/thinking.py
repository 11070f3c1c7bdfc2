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


def reasoning_of(usual: Reasoning | None, wanted: str | Reasoning | None) -> Reasoning | None:
    """Give the style that is *wanted*, by name or as it is; None asks for the *usual* one.

    Raises `UsageError` for a name that nobody has.
    """
    if wanted is None:
        return usual
    if isinstance(wanted, Reasoning):
        return wanted
    if wanted == NONE:
        return None
    try:
        return _STYLES[wanted]
    except KeyError:
        known = ", ".join(sorted([NONE, *_STYLES]))
        raise UsageError(f"no reasoning style is called {wanted!r}; there are {known}") from None
