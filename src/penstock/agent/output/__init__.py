"""Typed output: a value of a type instead of text.

`Output` is the type of an agent's output, and how its model is made to write it. `OutputTask` gets
it from the responses of one run, and `OutputScanner` finds it in text.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, get_args

from penstock import _json
from penstock.agent.schemas import (
    RESULT,
    close_objects,
    inline_root,
    is_plain_object,
    is_recursive,
    is_strict,
    move_bounds,
    wrap,
)
from penstock.agent.tools.functions import NAME
from penstock.agent.tools.hint_reader import read_hint
from penstock.agent.tools.hints import HintError, HintType, convert_value
from penstock.agent.tools.validate import drop_nulls, list_faults
from penstock.errors import UsageError
from penstock.models.base import OutputMode
from penstock.request import ResponseFormat
from penstock.values import Schema, coerce

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # it has defaults, as Python has from 3.13 on

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["FINAL_TOOL", "RETRIES", "Output", "OutputFaultError"]

RETRIES: Final = 2
"""How often a faulty output is sent back: a model that fails three times rarely succeeds later."""

FINAL_TOOL: Final = "final_result"
"""The name of the tool whose arguments are the output."""

_MODES: Final = ("auto", *get_args(OutputMode))


class OutputFaultError(ValueError):
    """A value is not the output: the message lists the faults in words."""


class Output(Generic[T]):
    """An output of *type*, and how a model is made to write it.

    *type* is a dataclass, `TypedDict`, msgspec `Struct` or pydantic model, a union of these, a
    builtin or generic type, or a JSON Schema as a dict.

    *mode* is how the model is made to write it:

    * ``native``: by the response format of its API;
    * ``tool``: as the arguments of a tool called *name*;
    * ``grammar``: by a grammar, as llama.cpp accepts it;
    * ``prompt``: by instructions; for models that only print text;
    * ``auto``: whichever of these the model supports.

    A faulty output is sent back with its faults in words, up to *retries* times. *check* is called
    with each output that fits its type; it may raise `ValueError`, or fail an `assert`, to send
    that back, too. *description* describes the output to the model.

    Raises `UsageError` for a type without a JSON form and for invalid options.
    """

    def __init__(
        self,
        type: type[T] | UnionType | Mapping[str, Any],  # noqa: A002 - what it is
        *,
        mode: OutputMode | Literal["auto"] = "auto",
        retries: int = RETRIES,
        name: str = FINAL_TOOL,
        description: str = "",
        check: Callable[[T], object] | None = None,
    ) -> None:
        if mode not in _MODES:
            raise UsageError(f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
        if retries < 0:
            raise UsageError(f"retries must be 0 or more, got {retries}")
        if not NAME.fullmatch(name):
            raise UsageError(f"invalid name of an output {name!r}: use letters, digits and _")
        if inspect.iscoroutinefunction(check):
            raise UsageError("check must not be a coroutine function: it is called without `await`")
        self.mode = mode
        self.retries = retries
        self.name = name
        self.description = description
        self._check = check
        self._hint: HintType | None = None
        if isinstance(type, Mapping):
            root = dict(type)
            sent = root
        else:
            self._hint = _read_type(type)
            definitions: dict[str, Any] = {}
            root = inline_root(self._hint.write_schema(definitions), definitions)
            sent = close_objects(root)
        self.is_wrapped = not is_plain_object(root)
        """Whether the value is under the key `result`: it is not an object itself."""
        self.schema: dict[str, Any] = wrap(sent) if self.is_wrapped else sent
        """The schema that the model receives."""
        self._accepted = Schema(wrap(root) if self.is_wrapped else root)
        self._inner = Schema(root)

    # --- requests ---

    def response_format(self, api: str) -> ResponseFormat:
        """Return the response format for a server with *api*."""
        schema = move_bounds(self.schema) if api == "anthropic" else self.schema
        strict = True if api.startswith("openai") and is_strict(schema) else None
        return ResponseFormat("schema", schema, self.name, strict)

    def allows(self, mode: OutputMode, api: str) -> bool:
        """Return whether *api* accepts the schema in *mode*."""
        return not (mode == "native" and api == "anthropic" and is_recursive(self.schema))

    def render_instructions(self) -> str:
        """Return the instructions for a model that has no other way."""
        written = _json.encode(self.schema).decode()
        about = f"\n{self.description}" if self.description else ""
        return (
            "When you have all that you need, end with the result as one JSON object that fits"
            f" this JSON Schema, and write nothing after it:\n{written}{about}"
        )

    # --- values ---

    def is_candidate(self, value: Any) -> bool:
        """Return whether *value* may be meant as the output: it has a property of its schema."""
        if not isinstance(value, dict):
            return False
        return not self._accepted.properties or any(map(self.has_property, value))

    def has_property(self, name: object) -> bool:
        """Return whether *name* is a property of the output; without any declared, each is."""
        return not self._accepted.properties or name in self._accepted.properties

    def read(self, value: Any) -> T:
        """Return the JSON *value* as the type, or raise `OutputFaultError`."""
        given = drop_nulls(value, self._accepted) if isinstance(value, dict) else value
        fitting = coerce(given, self._accepted, typed=True)
        if not self._accepted.accepts(fitting):
            raise OutputFaultError(list_faults(fitting, self._accepted))
        return self._convert(fitting[RESULT] if self.is_wrapped else fitting)

    def read_bare(self, value: Any) -> T:
        """Return *value*, which is all of the text, without the key `result`; or raise."""
        if not self._inner.accepts(value):
            raise OutputFaultError("- it does not fit the schema")
        return self._convert(value)

    def _convert(self, value: Any) -> T:
        try:
            converted: T = value if self._hint is None else convert_value(self._hint, value)
        except HintError as exc:
            raise OutputFaultError(f"- {exc}") from exc
        if self._check is not None:
            try:
                self._check(converted)
            except (ValueError, AssertionError) as exc:
                raise OutputFaultError(f"- {exc}") from exc
        return converted


def _read_type(type_: Any) -> HintType:
    try:
        return read_hint(type_)
    except UsageError as exc:
        raise UsageError(f"the output cannot be described in JSON Schema: {exc}") from exc
