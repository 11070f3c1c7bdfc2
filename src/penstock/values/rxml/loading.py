"""Robust XML: the elements that models write for arguments, read by a schema and written back.

`loads` reads the inside of a call (or any run of elements) into an object. Fields that the schema
knows as strings are raw text up to their structural closing tag, so ``a < b && c``, HTML, comments
and other tools' tags come out exactly; the rest is elements, numbers, lists and JSON text, made
into what the schema wants by `coerce`. `dumps` writes a value so that `loads` reads it back.

This is no XML parser: there are no namespaces, no DTD, no entities of one's own, and a text that
an XML parser would refuse is read as far as its tags are whole and match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from penstock.errors import CoercionError, DuplicateStringTagError, UsageError
from penstock.values.coercion import coerce
from penstock.values.rxml.reader import read_elements
from penstock.values.rxml.shapes import Child, Dialect, object_of
from penstock.values.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable


def loads(  # noqa: PLR0913 - each is an option of the reader
    xml: str,
    schema: object = None,
    *,
    text_node: str = "#text",
    duplicates: Literal["error", "first"] = "error",
    trims: bool = False,
    strict: bool = False,
    on_error: Callable[[str], object] | None = None,
    on_skip: Callable[[str], object] | None = None,
) -> dict[str, Any]:
    """Read a run of elements into an object of *schema* (a JSON Schema, a `Schema`, or None).

    *text_node* is the key of an element's text beside its attributes (``@_name``). A string field
    given twice at the top is an error; with ``duplicates="first"`` the first one stands and
    *on_error* is told. With *trims* strings lose one newline next to each of their tags. With
    *strict*, as in calls, a string that holds unmatched tags of its own name is an error, a doubled
    closing tag is skipped. *on_skip* is called with text beside the elements, which means nothing.

    Raises `XMLParseError` for tags that do not match, `DuplicateStringTagError`, and
    `CoercionError` where the schema demands something else than an object or cannot be read.
    """
    if duplicates not in ("error", "first"):
        raise UsageError(f'duplicates is "error" or "first", not {duplicates!r}')
    guide = None if schema is None else Schema.of(schema).resolve()
    root = read_elements(xml, guide, Dialect(text_node, trims, strict))
    fields, surplus = _tell_surplus(root.children)
    for child in surplus:
        message = f"`<{child.name}>` is a string and is given more than once"
        if duplicates == "error":
            raise DuplicateStringTagError(message, text=xml, position=child.opening)
        if on_error is not None:
            on_error(f"{message}; the first one stands")
    if on_skip is not None and (skipped := root.text()):
        on_skip(skipped)
    value = coerce(object_of(fields), guide)
    if not isinstance(value, dict) or (guide is not None and "object" not in guide.types):
        raise CoercionError("the schema demands something else than an object", text=xml)
    return value


def _tell_surplus(children: list[Child]) -> tuple[list[Child], list[Child]]:
    """Part the fields from the string fields whose name came before."""
    seen: set[str] = set()
    fields: list[Child] = []
    surplus: list[Child] = []
    for child in children:
        (surplus if child.is_string and child.name in seen else fields).append(child)
        seen.add(child.name)
    return fields, surplus
