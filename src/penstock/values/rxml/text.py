"""Text made fit to stand between tags or in an attribute; `decode_entities` gives it back."""

from __future__ import annotations

from typing import Final

_ALL_FIVE: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}
)
_MARKUP_ONLY: Final = str.maketrans({"&": "&amp;", "<": "&lt;"})


def escape_text(text: str, *, minimal: bool = False) -> str:
    """Escape *text* to stand between tags.

    `decode_entities` gives it back exactly. *minimal* leaves quotes as they are, and ``>`` too
    where it does not end a ``]]>``, which XML forbids in text.
    """
    if minimal:
        return text.translate(_MARKUP_ONLY).replace("]]>", "]]&gt;")
    return text.translate(_ALL_FIVE)


def quote_attribute(text: str, *, minimal: bool = False) -> str:
    """Write *text* as an attribute's value, in the quotes that need less escaping."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    if not minimal:
        return f"{quote}{text.translate(_ALL_FIVE)}{quote}"
    entity = "&apos;" if quote == "'" else "&quot;"
    return f"{quote}{text.translate(_MARKUP_ONLY).replace(quote, entity)}{quote}"
