"""XML elements where `yaml_xml` was prompted, one a line, some of them without their end tags.

Nova 2 Lite writes them; the AI SDK middleware repairs them as well.
"""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.parsing.call_sink import NoCallError
from penstock.readers.tagged.values import read_typed
from penstock.values.schema import Schema

_CHILD: Final = re.compile(r"[ \t]*<(?P<key>[A-Za-z_][\w.-]{0,127})>(?P<value>[^\n]*?)[ \t\r]*")


def read_child_lines(text: str, schema: Schema | None) -> dict[str, Any] | None:
    """Return the arguments in *text*, one element a line; None if a line is not one.

    An end tag may be missing; a key that is repeated is a list.
    """
    found: dict[str, Any] = {}
    if schema is None:
        return None
    for line in filter(str.strip, text.split("\n")):
        child = _CHILD.fullmatch(line)
        key = child["key"] if child is not None else ""
        if child is None or key not in schema.properties:
            return None
        value = child["value"].removesuffix(f"</{key}>")
        if not value.strip() or "<" in value:
            return None
        inner = schema.properties[key]
        is_again = key in found
        item = inner.item(0) if "array" in inner.types and not value.startswith("[") else inner
        try:
            read = read_typed(value, item)
        except NoCallError:
            return None
        if item is not inner:
            found.setdefault(key, []).append(read)
        elif is_again:
            return None
        else:
            found[key] = read
    return found or None
