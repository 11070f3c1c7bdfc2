"""Halves of surrogate pairs, which models do stream, and which no strict reader of JSON takes."""

from __future__ import annotations

import re
from typing import Any, Final

from penstock import _json

_LONE: Final = re.compile(r"(\\\\|\\ud[89ab]..\\ud[c-f]..)|\\ud[89a-f]..")


def without_lone_surrogates(value: dict[str, Any]) -> dict[str, Any]:
    """Give *value* with pairs joined and halves left out, wherever in it they are.

    They show as escapes in its JSON, and nothing else does but for backslashes: most values are
    cleared by a search.
    """
    text = _json.encode(value).decode()
    if "\\ud" not in text:
        return value
    cleaned: dict[str, Any] = _json.decode(_LONE.sub(lambda match: match[1] or "", text))
    return cleaned
