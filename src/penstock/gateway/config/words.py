"""The kinds of values in words: for messages, and for the reference."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec import inspect

from penstock.gateway.config.addresses import Address
from penstock.gateway.config.describing import number_of
from penstock.models.http.redaction import Secret

_CUSTOM: Final[dict[type, str]] = {Secret: "a text", Address: "a URL", Path: "the path of a file"}


@cache
def kind_of(struct: type) -> inspect.Type:
    """Give msgspec's view of *struct*, made once: that takes longer than to read a file."""
    return inspect.type_info(struct)


def bare(kind: inspect.Type) -> tuple[inspect.Type, dict[str, Any]]:
    """Give the kind inside of *kind*, without None, and what the fields say of it besides."""
    extra: dict[str, Any] = {}
    while isinstance(kind, (inspect.Metadata, inspect.UnionType)):
        if isinstance(kind, inspect.Metadata):
            extra = {**extra, **(kind.extra or {})}
            kind = kind.type
        else:
            kind = next(one for one in kind.types if not isinstance(one, inspect.NoneType))
    return kind, extra


def words_for(kind: inspect.Type) -> str:
    """Say what a value of *kind* is, as in "a whole number from 0 to 65535"."""
    kind, extra = bare(kind)
    if "words" in extra:
        return str(extra["words"])
    match kind:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "a whole number" + _range(kind)
        case inspect.FloatType():
            return "a number" + _range(kind) + (", or inf" if kind.le is None else "")
        case inspect.LiteralType():
            return "one of " + ", ".join(f'"{value}"' for value in kind.values)
        case inspect.VarTupleType():
            return "a list of texts"
        case inspect.DictType() | inspect.StructType():
            return "a table"
        case inspect.CustomType():
            return _CUSTOM[kind.cls]
    return "a text"


def _range(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.gt is not None:
        above = f" above {kind.gt}"
        return above if kind.le is None else f"{above}, up to {number_of(kind.le)}"
    if kind.ge is not None and kind.le is not None:
        return f" from {number_of(kind.ge)} to {number_of(kind.le)}"
    return ""
