"""Type hints: what they are where a function stands, and whether JSON has a form for them.

msgspec reads most hints; what it does not know (paths, `object`) is added here. It refuses unions
that it cannot tell apart, such as ``str | Path`` or two dataclasses; these are taken apart.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import PurePath
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec

from penstock import _json
from penstock.agent.tools.base import ToolContext
from penstock.errors import UsageError

_REFERENCE: Final = "#/$defs/{name}"


class _Hints:
    """Something with annotations, as `get_type_hints` wants it."""

    def __init__(self, annotations: dict[str, Any]) -> None:
        self.__annotations__ = annotations


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Read the hints of the parameters of *function*; raise `UsageError` where that fails."""
    while isinstance(function, partial):
        function = function.func
    if not (inspect.isroutine(function) or inspect.isclass(function)):
        function = type(function).__call__
    function = inspect.unwrap(function)
    function = getattr(function, "__func__", function)
    try:
        annotations = dict(getattr(function, "__annotations__", {}))
        annotations.pop("return", None)  # often names what only a type checker imports
        return get_type_hints(
            _Hints(annotations),
            globalns=getattr(function, "__globals__", {}),
            localns=_closure_of(function),
            include_extras=True,
        )
    except (NameError, TypeError, SyntaxError, AttributeError) as exc:
        name = getattr(function, "__qualname__", repr(function))
        raise UsageError(f"the type hints of {name} cannot be read: {exc}") from exc


def context_parameters(function: Callable[..., Any]) -> list[str]:
    """List the parameters of *function* that want the `ToolContext`."""
    return [name for name, hint in hints_of(function).items() if is_context(hint)]


def _closure_of(function: Any) -> dict[str, Any]:
    """Read the names that *function* takes from around it; one may not have its value yet."""
    found = {}
    if inspect.isfunction(function):
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            with suppress(ValueError):
                found[name] = cell.cell_contents
    return found


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in {Union, types.UnionType}


def is_context(hint: Any) -> bool:
    """Tell whether *hint* asks for the `ToolContext`."""
    if get_origin(hint) is Annotated:
        return is_context(get_args(hint)[0])
    if _is_union(hint):
        return any(map(is_context, get_args(hint)))
    return isinstance(hint, type) and issubclass(hint, ToolContext)


def plain_words(hint: Any) -> str:
    """Find a description that stands in the hint itself, as ``Annotated[str, "words"]``."""
    if get_origin(hint) is not Annotated:
        return ""
    return next((word for word in hint.__metadata__ if isinstance(word, str)), "")


def readable(hint: Any) -> tuple[tuple[Any, ...], str]:
    """Say which types stand for *hint* as msgspec reads it, or what is wrong with it."""
    if hint is object:
        hint = Any
    problem = _problem_with(hint)
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if problem and _is_union(bare):
        members = get_args(bare)
        if not any(map(_problem_with, members)):
            return members, ""
    return (hint,), problem


def _problem_with(hint: Any) -> str:
    try:
        schemas_of([hint])
    except (TypeError, NameError, ValueError) as exc:
        return " ".join(str(exc).split()) or f"{hint!r} has no JSON form"
    return ""


# --- to JSON and back ----------------------------------------------------------------------------


def schemas_of(hints: list[Any]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """Write the JSON Schemas of *hints*, and the definitions that they refer to."""
    return msgspec.json.schema_components(hints, schema_hook=_write_other, ref_template=_REFERENCE)


def from_json(value: Any, hint: Any, *, strict: bool = True) -> Any:
    """Make what *hint* says of the JSON *value*, or raise `msgspec.ValidationError`."""
    return msgspec.convert(value, hint, strict=strict, str_keys=True, dec_hook=_decode_other)


def to_json(value: Any) -> Any:
    """Make *value* what JSON holds, or raise `TypeError`, `ValueError` or `UsageError`."""
    built = msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_other)
    return _json.decode(_json.encode_strict(built))  # a tuple is a list there


def _write_other(type_: type) -> dict[str, Any]:
    if issubclass(type_, PurePath):
        return {"type": "string", "format": "path"}
    raise TypeError(f"{type_!r} has no JSON form")


def _decode_other(type_: type, value: Any) -> Any:
    if issubclass(type_, PurePath):
        if not isinstance(value, str):
            raise msgspec.ValidationError("Expected a path")
        return type_(value)
    return value


def _encode_other(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{value!r} has no JSON form")
