"""Entities in the text between tags, read once and never twice.

Models write code between tags, escaped or not, and only the text itself tells which. A value that
holds a ``<`` was plainly not escaped, so nothing in it is decoded; any other value has its
entities decoded exactly once. Known are the five of XML and numeric ones; what names no character
(``&nbsp;``, ``&#xD800;``, ``&#99999999;``) stays as it is.
"""

from __future__ import annotations

import re
from typing import Final

_NAMED: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ENTITY: Final = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#([0-9]{1,7})|#[xX]([0-9A-Fa-f]{1,6}));")
_BEGUN_ENTITY: Final = re.compile(
    r"&(?:a(?:mp?|p(?:os?)?)?|lt?|gt?|q(?:u(?:ot?)?)?|#[0-9]{0,7}|#[xX][0-9A-Fa-f]{0,6})?\Z"
)

_LAST_CHARACTER: Final = 0x10FFFF
_LONGEST_ENTITY: Final = len("&#xABCDEF;")
_SURROGATES: Final = range(0xD800, 0xE000)


def decode_entities(text: str) -> str:
    """Decode the entities of *text* once, unless it holds a ``<`` and so was never escaped."""
    if "&" not in text or "<" in text:
        return text
    return _ENTITY.sub(_character, text)


def find_entity(text: str) -> tuple[int, bool]:
    """Find the first entity of *text*, or what may become one at its end, or its end.

    Tells whether it is an entity already.
    """
    entity = _ENTITY.search(text)
    if entity is not None:
        return entity.start(), True
    begun = _BEGUN_ENTITY.search(text, max(0, len(text) - _LONGEST_ENTITY))
    return (begun.start() if begun else len(text)), False


def _character(entity: re.Match[str]) -> str:
    name, decimal, hexadecimal = entity.groups()
    if name is not None:
        return _NAMED[name]
    code = int(decimal) if decimal is not None else int(hexadecimal, 16)
    # NUL is no character of XML either, and a tool that gets one in a path is in danger.
    if code == 0 or code > _LAST_CHARACTER or code in _SURROGATES:
        return entity.group()
    return chr(code)
