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

_LAST_CHARACTER: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


def decode_entities(text: str) -> str:
    """Decode the entities of *text* once, unless it holds a ``<`` and so was never escaped."""
    if "&" not in text or "<" in text:
        return text
    return _ENTITY.sub(_character, text)


def _character(entity: re.Match[str]) -> str:
    name, decimal, hexadecimal = entity.groups()
    if name is not None:
        return _NAMED[name]
    code = int(decimal) if decimal is not None else int(hexadecimal, 16)
    # NUL is no character of XML either, and a tool that gets one in a path is in danger.
    if code == 0 or code > _LAST_CHARACTER or code in _SURROGATES:
        return entity.group()
    return chr(code)
