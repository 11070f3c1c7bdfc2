"""JSON as the templates of models write it: with blanks in it, or over lines."""

from __future__ import annotations

import re
from typing import Final

from penstock.values import rjson

_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[,:]')
_INDENT: Final = 4


def spaced_json(value: object) -> str:
    """Write *value* as most templates do, with a space after each comma and colon.

    Raises `UsageError` for what JSON has no word for.
    """
    return _TOKEN.sub(_followed_by_space, rjson.dumps(value))


def indented_json(value: object, depth: int = 0) -> str:
    """Write *value* over lines; those after the first stand as deep as in *depth* containers.

    Raises `UsageError` for what JSON has no word for.
    """
    margin = " " * (_INDENT * depth)
    return rjson.dumps(value, indent=_INDENT).replace("\n", f"\n{margin}")


def _followed_by_space(token: re.Match[str]) -> str:
    return token[0] if token[0].startswith('"') else token[0] + " "
