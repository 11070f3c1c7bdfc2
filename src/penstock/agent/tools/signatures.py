"""The parameters of a function: their JSON Schema, and the conversion of arguments to values.

All hints that msgspec supports are supported, and paths, which become strings. msgspec refuses
unions that it cannot tell apart, such as ``str | Path`` or two dataclasses; their types are tried
from left to right. Deeper inside a hint such a union is refused.

* A parameter without a default is required; one whose default is None also takes null.
* A parameter without a hint takes anything.
* ``*names: str`` is a list `names`; ``**options: int`` takes all arguments of other names, which
  are refused otherwise.
* A parameter of the type `ToolContext` is filled in, and the model does not see it.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from inspect import Parameter
from pathlib import PurePath
from typing import Annotated, Any, Final, Optional, Union, get_args, get_origin, get_type_hints

import msgspec

from penstock import _json
from penstock.agent.tools.base import ToolContext
from penstock.errors import ToolError, UsageError

_REFERENCE: Final = "#/$defs/{name}"


@dataclass(frozen=True)
class FunctionParameter:
    """One parameter as a model sees it: *types* are tried in turn."""

    name: str
    kind: Any
    types: tuple[Any, ...]
    default: Any
    description: str

    @property
    def required(self) -> bool:
        """Whether a call must have it."""
        gathers = self.kind in {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}
        return self.default is Parameter.empty and not gathers

    def convert(self, value: Any) -> Any:
        """Convert the JSON *value* to the type of the hint, or raise `ToolError`."""
        for strict in (True, False):  # an integer may be written 4.0
            for hint in self.types:
                try:
                    return msgspec.convert(
                        value, hint, strict=strict, str_keys=True, dec_hook=_decode_path
                    )
                except msgspec.ValidationError as exc:
                    reason = str(exc)
        raise ToolError(f"invalid value for `{self.name}`: {reason}")


class FunctionSignature:
    """The parameters of *function*; *descriptions* has their descriptions by name.

    Raises `UsageError` for a hint that has no JSON form or cannot be resolved.
    """

    def __init__(self, function: Callable[..., Any], descriptions: Mapping[str, str]) -> None:
        try:
            self._signature = inspect.signature(function)
        except (TypeError, ValueError) as exc:
            raise UsageError(f"the parameters of {function!r} are unknown: {exc}") from exc
        hints = _resolve_hints(function)
        self._fixed = set(function.keywords) if isinstance(function, partial) else set()
        self._context: list[str] = []
        self.parameters: dict[str, FunctionParameter] = {}
        for parameter in self._signature.parameters.values():
            hint = hints.get(parameter.name, Any)
            if _is_context(hint):
                self._context.append(parameter.name)
            elif parameter.name not in self._fixed:
                self._add(parameter, hint, descriptions.get(parameter.name, ""))
        self.schema = self._make_schema()

    def bind(
        self, arguments: Mapping[str, Any], context: ToolContext, *, lenient: bool = False
    ) -> inspect.BoundArguments:
        """Convert the JSON *arguments* of a call to values, or raise `ToolError`.

        If *lenient*, arguments that do not fit are passed as they are and unknown ones are dropped.
        """
        bound: dict[str, Any] = {}
        for name, value in arguments.items():
            parameter = self._find(name)
            if parameter is None:
                if lenient:
                    continue
                raise ToolError(f"there is no parameter `{name}`")
            try:
                converted = parameter.convert(value)
            except ToolError:
                if not lenient:
                    raise
                converted = value
            if parameter.kind is Parameter.VAR_KEYWORD:
                bound.setdefault(parameter.name, {})[name] = converted
            else:
                bound[name] = converted
        bound.update(dict.fromkeys(self._context, context))
        required = [each.name for each in self.parameters.values() if each.required]
        missing = [name for name in required if name not in bound]
        if missing:
            raise ToolError(f"missing: {', '.join(missing)}")
        found = inspect.BoundArguments(self._signature, bound)
        found.apply_defaults()
        return found

    def _find(self, name: str) -> FunctionParameter | None:
        """Return the parameter that takes *name*; one that the model does not see takes nothing."""
        if name in self._fixed or name in self._context:
            return None
        every = self.parameters.values()
        rest = next((each for each in every if each.kind is Parameter.VAR_KEYWORD), None)
        return self.parameters.get(name) or rest

    def _add(self, parameter: Parameter, hint: Any, description: str) -> None:
        name = parameter.name
        if name in {"self", "cls"} and not self.parameters and hint is Any:
            raise UsageError("a method needs its object: make the tool from the bound method")
        if get_origin(hint) is Annotated:  # `Annotated[str, "description"]`
            words = (each for each in hint.__metadata__ if isinstance(each, str))
            description = next(words, "") or description
        if parameter.default is None:
            hint = Optional[hint]  # noqa: UP045 - a hint is a value here, and may not be a type
        if parameter.kind is Parameter.VAR_POSITIONAL:
            hint = list[hint]
        types_, problem = _split_hint(hint)
        if problem:
            raise UsageError(f"parameter `{name}` cannot be described in JSON Schema: {problem}")
        self.parameters[name] = FunctionParameter(
            name, parameter.kind, types_, parameter.default, description
        )

    def _make_schema(self) -> dict[str, Any]:
        all_types = [hint for each in self.parameters.values() for hint in each.types]
        schemas, definitions = _make_schemas(all_types)
        queue = iter(schemas)
        properties = {}
        additional: Any = False
        for each in self.parameters.values():
            described = _describe([next(queue) for _ in each.types], each)
            if each.kind is Parameter.VAR_KEYWORD:
                additional = described or True
            else:
                properties[each.name] = described
        schema = {
            "type": "object",
            "properties": properties,
            "required": [each.name for each in self.parameters.values() if each.required],
            "additionalProperties": additional,
        }
        return schema | ({"$defs": definitions} if definitions else {})


def find_context_parameters(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters of *function* that take the `ToolContext`."""
    return [name for name, hint in _resolve_hints(function).items() if _is_context(hint)]


def _describe(schemas: list[dict[str, Any]], parameter: FunctionParameter) -> dict[str, Any]:
    """Add the description and the default of *parameter* to its schema."""
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    if parameter.description and "description" not in schema:
        schema = {**schema, "description": parameter.description}
    if parameter.default is not Parameter.empty and parameter.default is not None:
        try:
            built = msgspec.to_builtins(parameter.default, str_keys=True, enc_hook=_encode_path)
            default = _json.decode(_json.encode_strict(built))  # tuples become lists
        except (TypeError, ValueError, RecursionError, UsageError):
            return schema  # the default has no JSON form; the function still has it
        schema = {**schema, "default": default}
    return schema


# --- hints ---


class _Annotated:
    """An object with annotations, as `get_type_hints` needs it."""

    def __init__(self, annotations: dict[str, Any]) -> None:
        self.__annotations__ = annotations


def _resolve_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the hints of the parameters of *function*, or raise `UsageError`."""
    while isinstance(function, partial):
        function = function.func
    if not (inspect.isroutine(function) or inspect.isclass(function)):
        function = type(function).__call__
    function = inspect.unwrap(function)
    function = getattr(function, "__func__", function)
    names: dict[str, Any] = {}  # of the scopes around the function
    if inspect.isfunction(function):
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            with suppress(ValueError):  # it has no value yet
                names[name] = cell.cell_contents
    try:
        annotations = dict(getattr(function, "__annotations__", {}))
        annotations.pop("return", None)  # often a name that is imported for type checkers only
        return get_type_hints(
            _Annotated(annotations),
            globalns=getattr(function, "__globals__", {}),
            localns=names,
            include_extras=True,
        )
    except (NameError, TypeError, SyntaxError, AttributeError) as exc:
        name = getattr(function, "__qualname__", repr(function))
        raise UsageError(f"cannot resolve the type hints of {name}: {exc}") from exc


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in {Union, types.UnionType}


def _is_context(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return _is_context(get_args(hint)[0])
    if _is_union(hint):
        return any(map(_is_context, get_args(hint)))
    return isinstance(hint, type) and issubclass(hint, ToolContext)


def _split_hint(hint: Any) -> tuple[tuple[Any, ...], str]:
    """Return the types to try for *hint*, and what is wrong with it or the empty text."""
    if hint is object:
        hint = Any
    problem = _find_problem(hint)
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if problem and _is_union(bare):
        members = get_args(bare)
        if not any(map(_find_problem, members)):
            return members, ""
    return (hint,), problem


def _find_problem(hint: Any) -> str:
    try:
        _make_schemas([hint])
    except (TypeError, NameError, ValueError) as exc:
        return " ".join(str(exc).split()) or f"{hint!r} has no JSON form"
    return ""


# --- JSON ---


def _make_schemas(hints: list[Any]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """Make the JSON Schemas of *hints*, and the definitions that they refer to."""
    return msgspec.json.schema_components(
        hints, schema_hook=_describe_path, ref_template=_REFERENCE
    )


def _describe_path(type_: type) -> dict[str, Any]:
    if issubclass(type_, PurePath):
        return {"type": "string", "format": "path"}
    raise TypeError(f"{type_!r} has no JSON form")


def _decode_path(type_: type, value: Any) -> Any:
    if issubclass(type_, PurePath):
        if not isinstance(value, str):
            raise msgspec.ValidationError("Expected a path")
        return type_(value)
    return value


def _encode_path(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{value!r} has no JSON form")
