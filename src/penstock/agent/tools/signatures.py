"""The parameters of a function: their JSON Schema, and the conversion of arguments to values.

`hints` says which hints are supported.

* A parameter without a default is required; one whose default is None also takes null.
* A parameter without a hint takes anything.
* ``*names: str`` is a list `names`; ``**options: int`` takes all arguments of other names, which
  are refused otherwise.
* A parameter of the type `ToolContext` is filled in, and the model does not see it.
* A default that is a `Field` of pydantic describes the parameter and has its default.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from inspect import Parameter
from typing import Annotated, Any, Optional, Union, get_args, get_origin, get_type_hints

from penstock.agent.tools.base import ToolContext
from penstock.agent.tools.hint_reader import read_hint
from penstock.agent.tools.hints import HintError, HintType, convert_value, write_default
from penstock.errors import ToolError, UsageError


@dataclass(frozen=True)
class FunctionParameter:
    """One parameter as a model sees it."""

    name: str
    kind: Any
    type: HintType
    default: Any
    description: str

    @property
    def required(self) -> bool:
        """Whether a call must have it."""
        gathers = self.kind in {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}
        return self.default is Parameter.empty and not gathers

    def convert(self, value: Any) -> Any:
        """Convert the JSON *value* to the type of the hint, or raise `ToolError`."""
        try:
            return convert_value(self.type, value)
        except HintError as exc:
            raise ToolError(f"invalid value for `{self.name}`: {exc}") from exc


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
        self._field_defaults: dict[str, Any] = {}
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
        for name, field in self._field_defaults.items():
            if name not in bound:
                bound[name] = field.get_default(call_default_factory=True)
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
        default = parameter.default
        if _is_field(default):
            # A `Field` of pydantic: it describes the parameter, and the function expects a value.
            hint = Annotated[hint, default]
            default = self._add_field(name, default)
        elif default is Parameter.empty and get_origin(hint) is Annotated:
            for one in filter(_is_field, get_args(hint)[1:]):
                default = self._add_field(name, one)
        if default is None:
            hint = _allow_none(hint)
        if parameter.kind is Parameter.VAR_POSITIONAL:
            hint = list[hint]
        try:
            read = read_hint(hint)
        except UsageError as exc:
            raise UsageError(
                f"parameter `{name}` cannot be described in JSON Schema: {exc}"
            ) from exc
        self.parameters[name] = FunctionParameter(name, parameter.kind, read, default, description)

    def _add_field(self, name: str, field: Any) -> Any:
        """Return the default of *field*, a `Field` of pydantic; `Parameter.empty` if none."""
        if field.is_required():
            return Parameter.empty
        self._field_defaults[name] = field
        return field.get_default(call_default_factory=True)

    def _make_schema(self) -> dict[str, Any]:
        definitions: dict[str, Any] = {}
        properties = {}
        additional: Any = False
        for each in self.parameters.values():
            described = _describe(each.type.write_schema(definitions), each)
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


def _describe(schema: dict[str, Any], parameter: FunctionParameter) -> dict[str, Any]:
    """Add the description and the default of *parameter* to its schema."""
    if parameter.description and "description" not in schema:
        schema = {**schema, "description": parameter.description}
    if parameter.default is not Parameter.empty and parameter.default is not None:
        try:
            schema = {**schema, "default": write_default(parameter.default)}
        except (TypeError, ValueError, RecursionError, UsageError):
            return schema  # the default has no JSON form; the function still has it
    return schema


def _is_field(value: Any) -> bool:
    """Return whether *value* is a `Field` of pydantic."""
    return hasattr(value, "default_factory") and hasattr(value, "metadata")


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
    # A bound method has its function here, with the closure and the annotations.
    function = getattr(function, "__func__", function)
    names: dict[str, Any] = {}  # of the scopes around the function
    if inspect.isfunction(function):
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            with suppress(ValueError):  # it has no value yet
                names[name] = cell.cell_contents
    try:
        # Functions that are written in C have none.
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


def _allow_none(hint: Any) -> Any:
    """Return *hint* or None; metadata stays around both, so that a description is in front."""
    if get_origin(hint) is Annotated:
        inner, *metadata = get_args(hint)
        return Annotated[(_allow_none(inner), *metadata)]
    return Optional[hint]  # noqa: UP045 - a hint is a value here, and may not be a type


def _is_context(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return _is_context(get_args(hint)[0])
    if get_origin(hint) in {Union, types.UnionType}:
        return any(map(_is_context, get_args(hint)))
    hint = get_origin(hint) or hint  # `ToolContext[Dependencies]`
    return isinstance(hint, type) and issubclass(hint, ToolContext)
