"""A function's parameters: the JSON Schema that a model sees, and how arguments become values.

Every hint that msgspec understands is understood here; a path is a string. Of a union that msgspec
refuses, the first type that an argument fits is the one; deeper inside a hint it is refused.

* A parameter without a default is required; one whose default is None takes null too.
* A parameter without a hint takes anything.
* ``*names: str`` is a list `names`; ``**options: int`` stands for all arguments of other names,
  which are refused where there is no such parameter.
* A parameter of the type `ToolContext` is filled in, and the model knows nothing of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import Parameter
from typing import Any, Optional

import msgspec

from penstock.agent.tools.base import ToolContext
from penstock.agent.tools.hints import (
    from_json,
    hints_of,
    is_context,
    plain_words,
    readable,
    schemas_of,
    to_json,
)
from penstock.errors import ToolError, UsageError


@dataclass(frozen=True)
class Argument:
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
        """Make *value* what the hint says, or raise `ToolError`."""
        for strict in (True, False):  # a whole number may be written 4.0
            for hint in self.types:
                try:
                    return from_json(value, hint, strict=strict)
                except msgspec.ValidationError as exc:
                    reason = str(exc)
        raise ToolError(f"`{self.name}` cannot be read: {reason}")


class Signature:
    """The parameters of *function*; *said* describes them by name.

    Raises `UsageError` for what no model could be told: a hint without a JSON form, or one whose
    name means nothing where the function stands.
    """

    def __init__(self, function: Callable[..., Any], said: Mapping[str, str]) -> None:
        try:
            self._signature = inspect.signature(function)
        except (TypeError, ValueError) as exc:
            raise UsageError(f"the parameters of {function!r} cannot be seen: {exc}") from exc
        hints = hints_of(function)
        self._fixed = set(function.keywords) if isinstance(function, partial) else set()
        self._context: list[str] = []
        self.arguments: dict[str, Argument] = {}
        for parameter in self._signature.parameters.values():
            hint = hints.get(parameter.name, Any)
            if is_context(hint):
                self._context.append(parameter.name)
            elif parameter.name not in self._fixed:
                self._add(parameter, hint, said.get(parameter.name, ""))
        self.schema = self._write_schema()

    def bind(
        self, arguments: Mapping[str, Any], context: ToolContext, *, lenient: bool = False
    ) -> inspect.BoundArguments:
        """Make the call's values of its JSON *arguments*, or raise `ToolError`.

        A *lenient* one takes as it is what does not fit, and leaves out what nobody knows.
        """
        bound: dict[str, Any] = {}
        for name, value in arguments.items():
            argument = self._argument(name)
            if argument is None and lenient:
                continue
            if argument is None:
                raise ToolError(f"there is no parameter `{name}`")
            converted = _convert(argument, value, lenient=lenient)
            if argument.kind is Parameter.VAR_KEYWORD:
                bound.setdefault(argument.name, {})[name] = converted
            else:
                bound[name] = converted
        bound.update(dict.fromkeys(self._context, context))
        missing = [each.name for each in self.arguments.values() if each.required]
        missing = [name for name in missing if name not in bound]
        if missing:
            raise ToolError(f"missing: {', '.join(missing)}")
        found = inspect.BoundArguments(self._signature, bound)
        found.apply_defaults()
        return found

    def _argument(self, name: str) -> Argument | None:
        """Find what takes *name*; what a model is not told of is nothing that it can give."""
        if name in self._fixed or name in self._context:
            return None
        every = self.arguments.values()
        rest = next((each for each in every if each.kind is Parameter.VAR_KEYWORD), None)
        return self.arguments.get(name) or rest

    def _add(self, parameter: Parameter, hint: Any, said: str) -> None:
        name = parameter.name
        if name in {"self", "cls"} and not self.arguments and hint is Any:
            raise UsageError("a method needs its object: make the tool of the object's method")
        words = plain_words(hint) or said
        if parameter.default is None:
            hint = Optional[hint]  # noqa: UP045 - a hint is a value here, and may be no type
        if parameter.kind is Parameter.VAR_POSITIONAL:
            hint = list[hint]
        types_, problem = readable(hint)
        if problem:
            raise UsageError(f"a model cannot be told of parameter `{name}`: {problem}")
        self.arguments[name] = Argument(name, parameter.kind, types_, parameter.default, words)

    def _write_schema(self) -> dict[str, Any]:
        all_types = [hint for each in self.arguments.values() for hint in each.types]
        written, definitions = schemas_of(all_types)
        queue = iter(written)
        properties = {}
        additional: Any = False
        for each in self.arguments.values():
            described = _described([next(queue) for _ in each.types], each)
            if each.kind is Parameter.VAR_KEYWORD:
                additional = described or True
            else:
                properties[each.name] = described
        required = [each.name for each in self.arguments.values() if each.required]
        schema = {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": additional,
        }
        return schema | ({"$defs": definitions} if definitions else {})


def _convert(argument: Argument, value: Any, *, lenient: bool) -> Any:
    try:
        return argument.convert(value)
    except ToolError:
        if not lenient:
            raise
        return value


def _described(schemas: list[dict[str, Any]], argument: Argument) -> dict[str, Any]:
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    if argument.description and "description" not in schema:
        schema = {**schema, "description": argument.description}
    if argument.default is not Parameter.empty and argument.default is not None:
        try:
            default = to_json(argument.default)
        except (TypeError, ValueError, RecursionError, UsageError):
            return schema  # not to be written in JSON, so it stays between the function and Python
        schema = {**schema, "default": default}
    return schema
