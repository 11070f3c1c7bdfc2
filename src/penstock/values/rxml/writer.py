r"""`rxml.dumps`: a value as elements that `rxml.loads` reads back.

Lists are repeated tags. Where these would read back as something else, the elements go into
``<item>`` tags inside one wrapper: a list inside a list, a list of one object, a list of one text
that might itself be read as a list (``a, b``). An empty list is an empty tag.

`rxml.loads` with the value's schema returns the value if the schema declares which values are
strings, objects in lists declare their properties and have none named ``item``, and no value is
null (it reads back as an empty one) or has the keys of attributes and text (``@…``,
``_attributes``, ``#text``, ``_text``). A key that is not a tag name, NaN, infinity and values that
are not JSON are refused.

Control characters, lone surrogates and ``\r`` are written as they are: XML has no way to write all
of them, and `rxml.loads` does not need one.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final, NamedTuple

from penstock.errors import UsageError
from penstock.values.json_grammar import MAX_DEPTH
from penstock.values.rxml.markup import is_name

# Escaped text; `decode_entities` returns the original.


_ALL_FIVE: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}
)
_MARKUP_ONLY: Final = str.maketrans({"&": "&amp;", "<": "&lt;"})


def escape_text(text: str, *, minimal: bool = False) -> str:
    """Escape *text* for use between tags.

    `decode_entities` returns the original. *minimal* leaves quotes as they are, and ``>`` too
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


DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>'

_TEXT_KEYS: Final = ("#text", "_text")
_ATTRIBUTES_KEY: Final = "_attributes"
_ITEM: Final = "item"

# A text that no reader of lists would take apart, trim or take for JSON.
_PLAIN: Final = re.compile(r"\w(?:[^,]*[^\s,])?")


class Style(NamedTuple):
    """How elements are written: the options of `dumps`, and two more.

    *null* is the text of a null, which is an empty tag without one. With *pads*, a newline at
    either end of a text is doubled, for a reader that takes one off.
    """

    format: bool = True
    suppress_empty: bool = False
    minimal_escaping: bool = False
    strict_boolean_attributes: bool = False
    null: str = ""
    pads: bool = False


def dumps(
    tag: str,
    value: Any,
    *,
    format: bool = True,  # noqa: A002 - the option's name everywhere
    suppress_empty: bool = False,
    minimal_escaping: bool = False,
    strict_boolean_attributes: bool = False,
) -> str:
    """Write *value* as one element *tag*.

    *format* adds the XML declaration and indents by two spaces. None is ``<a/>``, or nothing with
    *suppress_empty*. In an object, ``@name`` keys and those of ``_attributes`` are attributes and
    ``#text`` or ``_text`` is text; an attribute of None is a bare name, or ``name="name"`` with
    *strict_boolean_attributes*. All five entities are escaped, with *minimal_escaping* only where
    they must be.

    Raises `UsageError` for what elements cannot carry.
    """
    style = Style(format, suppress_empty, minimal_escaping, strict_boolean_attributes)
    written = write_element(tag, value, style)
    return f"{DECLARATION}\n{written}" if format else written


def write_element(tag: str, value: Any, style: Style) -> str:
    """Write *value* as one element *tag* in this *style*; raise `UsageError` as `dumps` does."""
    return ("\n" if style.format else "").join(_Writer(style).write(tag, value))


class _Element(NamedTuple):
    """An element that waits to be written."""

    name: str
    value: Any
    depth: int


class _Writer:
    """Writes element by element; what is inside one waits on a stack: no recursion."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._lines: list[str] = []
        self._waiting: list[_Element | str] = []

    def write(self, tag: str, value: Any) -> list[str]:
        self._waiting.append(_Element(tag, value, 0))
        while self._waiting:
            waiting = self._waiting.pop()
            if isinstance(waiting, str):
                self._lines.append(waiting)
            else:
                self._write_element(waiting)
        return self._lines

    def _write_element(self, element: _Element) -> None:
        name, value, depth = element
        if not is_name(name):
            raise UsageError(f"{name!r} cannot be the name of a tag")
        if depth >= MAX_DEPTH:
            raise UsageError(f"the value nests deeper than {MAX_DEPTH}")
        indent = "  " * depth if self._style.format else ""
        if value is None and not self._style.null:
            if not self._style.suppress_empty:
                self._lines.append(f"{indent}<{name}/>")
        elif isinstance(value, dict):
            self._write_object(element, indent)
        elif isinstance(value, (list, tuple)):
            inner = [_Element(_ITEM, item, depth + 1) for item in value]
            self._write_tags(f"{indent}<{name}>", inner, f"</{name}>", indent)
        else:
            self._lines.append(f"{indent}<{name}>{self._text(value)}</{name}>")

    def _write_object(self, element: _Element, indent: str) -> None:
        name, value, depth = element
        attributes, text, inner = "", "", []
        for key, item in value.items():
            if not isinstance(key, str):
                raise UsageError(f"{key!r} cannot be the name of a tag")
            if key in _TEXT_KEYS:
                text += "" if item is None else self._text(item)
            elif key == _ATTRIBUTES_KEY and isinstance(item, dict):
                attributes += "".join(self._attribute(k, v) for k, v in item.items())
            elif key.startswith("@"):
                attributes += self._attribute(key.removeprefix("@_").removeprefix("@"), item)
            else:
                inner.extend(_make_elements(key, item, depth + 1))
        self._write_tags(f"{indent}<{name}{attributes}>{text}", inner, f"</{name}>", indent)

    def _write_tags(self, opening: str, inner: list[_Element], closing: str, indent: str) -> None:
        if not inner:
            self._lines.append(opening + closing)
            return
        self._lines.append(opening)
        self._waiting.append(indent + closing)
        self._waiting.extend(reversed(inner))

    def _attribute(self, name: object, value: Any) -> str:
        if not isinstance(name, str) or not is_name(name):
            raise UsageError(f"{name!r} cannot be the name of an attribute")
        if value is None and not self._style.strict_boolean_attributes:
            return f" {name}"
        text = name if value is None else _scalar(value)  # HTML's `checked="checked"`
        return f" {name}={quote_attribute(text, minimal=self._style.minimal_escaping)}"

    def _text(self, value: Any) -> str:
        text = self._style.null if value is None else _scalar(value)
        if self._style.pads:
            text = "\n" * text.startswith("\n") + text + "\n" * text.endswith("\n")
        return escape_text(text, minimal=self._style.minimal_escaping)


def _make_elements(key: str, value: Any, depth: int) -> list[_Element]:
    if isinstance(value, (list, tuple)) and _can_repeat(value):
        return [_Element(key, item, depth) for item in value]
    return [_Element(key, value, depth)]


def _can_repeat(items: list[Any] | tuple[Any, ...]) -> bool:
    """Return whether repeated tags of *items* read back as the same list."""
    if any(isinstance(item, (list, tuple)) for item in items):
        return False  # Repeated tags are one list: where the inner ones end would be lost.
    if len(items) != 1:  # One tag reads back as its value, and none as a missing key.
        return len(items) > 1
    only = items[0]
    if isinstance(only, str):
        return only.isprintable() and _PLAIN.fullmatch(only) is not None
    return isinstance(only, (bool, int, float))


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        try:
            return str(value)
        except ValueError as exc:  # Python refuses integers of more than 4,300 digits.
            raise UsageError(f"no text for this number: {exc}") from exc
    raise UsageError(f"elements cannot carry {value!r}")
