"""Type hints as JSON: the schema of a hint, and the conversion of a JSON value to its type.

msgspec reads what it supports: builtin and generic types, dataclasses, `TypedDict`, `NamedTuple`,
`Struct`, enums, `Literal`, dates. This module adds what it does not:

* models of pydantic, which write their schema and validate their values themselves. They are
  recognised by their methods, so that pydantic is not needed for anything else;
* constraints and descriptions in ``Annotated``: pydantic's `Field`, `annotated_types`, plain text;
* unions whose members JSON cannot tell apart, such as two dataclasses or ``str | Path``. Their
  members are tried from left to right;
* all of this inside lists, dicts, dataclasses, `TypedDict` and `Struct`.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import (
    Annotated,
    Any,
    Final,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec

from penstock import _json
from penstock.errors import UsageError

_REFERENCE: Final = "#/$defs/{name}"

_CONSTRAINTS: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
"""Attributes of metadata that are keywords of numbers."""

_LENGTHS: Final = {"string": "Length", "array": "Items", "object": "Properties"}
_SEQUENCES: Final = (list, set, frozenset, tuple, Sequence)
_MAPPINGS: Final = (dict, Mapping)


class HintError(ValueError):
    """A JSON value does not fit its hint; the message says where and why."""


class HintType(ABC):
    """A hint as JSON."""

    @abstractmethod
    def write_schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        """Return the schema; schemas that it refers to are added to *definitions*."""

    @abstractmethod
    def convert(self, value: Any, at: str, *, strict: bool) -> Any:
        """Convert the JSON *value*, which is at the path *at*, or raise `HintError`.

        Unless *strict*, an integer may be written 4.0, and a number as text.
        """


def read_hint(hint: Any) -> HintType:
    """Return *hint* as a `HintType`; raise `UsageError` if it has no JSON form."""
    return _Reader().read(Any if hint is object else hint)


def convert_value(hint: HintType, value: Any) -> Any:
    """Convert the JSON *value* to the type of *hint*, or raise `HintError`."""
    try:
        return hint.convert(value, "", strict=True)
    except HintError:
        return hint.convert(value, "", strict=False)


# --- kinds of hints ---


class _Native(HintType):
    """A hint that msgspec supports as a whole."""

    def __init__(self, hint: Any) -> None:
        self._hint = hint

    def write_schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        def make(template: str) -> tuple[dict[str, Any], dict[str, Any]]:
            (schema,), found = msgspec.json.schema_components(
                [self._hint], schema_hook=_describe_path, ref_template=template
            )
            return schema, found

        return _merge(make, "name", definitions)

    def convert(self, value: Any, at: str, *, strict: bool) -> Any:
        try:
            return msgspec.convert(
                value, self._hint, strict=strict, str_keys=True, dec_hook=_decode_path
            )
        except msgspec.ValidationError as exc:
            raise HintError(_place(at, str(exc))) from exc


class _Validated(HintType):
    """A model of pydantic, or one of its dataclasses."""

    def __init__(
        self, make_schema: Callable[[str], dict[str, Any]], validate: Callable[[bytes], Any]
    ) -> None:
        self._make_schema = make_schema
        self._validate = validate

    def write_schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        def make(template: str) -> tuple[dict[str, Any], dict[str, Any]]:
            schema = dict(self._make_schema(template))
            return schema, schema.pop("$defs", {})

        return _merge(make, "model", definitions)

    def convert(self, value: Any, at: str, *, strict: bool) -> Any:
        del strict  # The model has its own configuration.
        try:
            # JSON, because a strict model takes a date as text only from JSON.
            return self._validate(_json.encode_strict(value))
        except ValueError as exc:  # pydantic's `ValidationError` is one
            raise HintError("; ".join(_explain_validation(exc, at))) from exc


class _Choice(HintType):
    """A union whose members are tried from left to right."""

    def __init__(self, members: list[HintType]) -> None:
        self._members = members

    def write_schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        return {"anyOf": [each.write_schema(definitions) for each in self._members]}

    def convert(self, value: Any, at: str, *, strict: bool) -> Any:
        reasons: list[str] = []
        for member in self._members:
            try:
                return member.convert(value, at, strict=strict)
            except HintError as exc:
                reasons.append(str(exc))
        raise HintError(reasons[-1] if len(reasons) == 1 else " or ".join(reasons))


class _Items(HintType):
    """A list, set or tuple of any length."""

    def __init__(self, make: Callable[[list[Any]], Any], item: HintType) -> None:
        self._make = make
        self._item = item

    def write_schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        return {"type": "array", "items": self._item.write_schema(definitions)}

    def convert(self, value: Any, at: str, *, strict: bool) -> Any:
        if not isinstance(value, list):
            raise HintError(_place(at, f"Expected `array`, got `{type(value).__name__}`"))
        return self._make(
            [self._item.convert(one, f"{at}[{n}]", strict=strict) for n, one in enumerate(value)]
        )


class _Values(HintType):
    """A dict with text as keys."""

    def __init__(self, value: HintType) -> None:
        self._value = value

    def write_schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self._value.write_schema(definitions)}

    def convert(self, value: Any, at: str, *, strict: bool) -> Any:
        if not isinstance(value, dict):
            raise HintError(_place(at, f"Expected `object`, got `{type(value).__name__}`"))
        return {
            name: self._value.convert(one, f"{at}.{name}", strict=strict)
            for name, one in value.items()
        }


class _Annotated(HintType):
    """A hint with constraints and a description, which only the schema has.

    Values are checked by the schema before they are converted.
    """

    def __init__(self, inner: HintType, metadata: Sequence[Any]) -> None:
        self._inner = inner
        self._metadata = metadata

    def write_schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        schema = self._inner.write_schema(definitions)
        for one in _iter_metadata(self._metadata):
            schema = {**_constrain(schema, one), **_read_description(one)}
        return schema

    def convert(self, value: Any, at: str, *, strict: bool) -> Any:
        return self._inner.convert(value, at, strict=strict)


@dataclasses.dataclass
class _Field:
    """A field of a record: *name* in JSON, *key* in Python."""

    name: str
    key: str
    type: HintType
    required: bool
    default: Any = inspect.Parameter.empty


class _Record(HintType):
    """A dataclass, `TypedDict` or `Struct` with fields that msgspec does not support."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls
        self.fields: list[_Field] = []

    def write_schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        name = self._cls.__name__
        reference = {"$ref": _REFERENCE.format(name=name)}
        known = definitions.get(name)
        if known is not None and known.get(_OWNER) in (None, self):
            return reference
        while name in definitions:
            name += "_2"
        schema: dict[str, Any] = {"title": self._cls.__name__, "type": "object", _OWNER: self}
        definitions[name] = schema
        documentation = inspect.getdoc(self._cls) or ""
        # A dataclass without a docstring gets its signature as one.
        if documentation and not documentation.startswith(f"{self._cls.__name__}("):
            schema["description"] = documentation
        schema["properties"] = {
            field.name: _add_default(field.type.write_schema(definitions), field.default)
            for field in self.fields
        }
        schema["required"] = [field.name for field in self.fields if field.required]
        del schema[_OWNER]
        return {"$ref": _REFERENCE.format(name=name)}

    def convert(self, value: Any, at: str, *, strict: bool) -> Any:
        if not isinstance(value, dict):
            raise HintError(_place(at, f"Expected `object`, got `{type(value).__name__}`"))
        given: dict[str, Any] = {}
        for field in self.fields:
            if field.name in value:
                inner = f"{at}.{field.name}"
                given[field.key] = field.type.convert(value[field.name], inner, strict=strict)
            elif field.required:
                raise HintError(_place(at, f"Object missing required field `{field.name}`"))
        try:
            return self._cls(**given)
        except (TypeError, ValueError) as exc:  # of its `__post_init__`
            raise HintError(_place(at, str(exc))) from exc


_OWNER: Final = "\0owner"
"""The key of a definition that is being written, so that a recursive record ends."""


# --- reading hints ---


class _Reader:
    """Reads one hint; a record that refers to itself is read once."""

    def __init__(self) -> None:
        self._records: dict[Any, _Record] = {}

    def read(self, hint: Any) -> HintType:
        problem = _find_problem(hint)
        if not problem and not _has_extras(hint, set()):
            return _Native(hint)
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return _Annotated(self.read(arguments[0]), arguments[1:])
        if origin in (Required, NotRequired):
            return self.read(arguments[0])
        if origin in (Union, types.UnionType):
            return _Choice([self.read(one) for one in arguments])
        if origin in _SEQUENCES and arguments and arguments[1:] in ((), (Ellipsis,)):
            make = list if origin is Sequence else origin
            return _Items(make, self.read(arguments[0]))
        if origin in _MAPPINGS and arguments[:1] == (str,):
            return _Values(self.read(arguments[1]))
        if (found := _read_validated(hint)) is not None:
            return found
        if _is_record(hint):
            return self._read_record(hint)
        raise UsageError(problem or f"{hint!r} has no JSON form")

    def _read_record(self, cls: Any) -> _Record:
        if cls in self._records:
            return self._records[cls]
        record = self._records[cls] = _Record(cls)
        hints = get_type_hints(cls, include_extras=True)
        record.fields = list(self._iter_fields(cls, hints))
        return record

    def _iter_fields(self, cls: Any, hints: dict[str, Any]) -> Iterator[_Field]:
        empty = inspect.Parameter.empty
        if is_typeddict(cls):
            for name, hint in hints.items():
                yield _Field(name, name, self.read(hint), name in cls.__required_keys__)
        elif issubclass(cls, msgspec.Struct):
            for each in msgspec.structs.fields(cls):
                default = empty if each.default is msgspec.NODEFAULT else each.default
                read = self.read(hints[each.name])
                yield _Field(each.encode_name, each.name, read, each.required, default)
        else:
            for one in dataclasses.fields(cls):
                if one.init:
                    default = empty if one.default is dataclasses.MISSING else one.default
                    required = default is empty and one.default_factory is dataclasses.MISSING
                    yield _Field(one.name, one.name, self.read(hints[one.name]), required, default)


def _is_record(hint: Any) -> bool:
    is_class = inspect.isclass(hint) and get_origin(hint) is None
    return is_class and (
        dataclasses.is_dataclass(hint) or is_typeddict(hint) or issubclass(hint, msgspec.Struct)
    )


def _read_validated(hint: Any) -> _Validated | None:
    """Return *hint* as a model of pydantic, if it is one."""
    if not inspect.isclass(hint):
        return None
    if hasattr(hint, "model_json_schema") and hasattr(hint, "model_validate_json"):
        model: Any = hint
        return _Validated(
            lambda template: model.model_json_schema(ref_template=template),
            model.model_validate_json,
        )
    if dataclasses.is_dataclass(hint) and "__pydantic_validator__" in vars(hint):
        from pydantic import TypeAdapter  # noqa: PLC0415 - a class of pydantic's: it is there

        adapter = TypeAdapter(hint)
        return _Validated(
            lambda template: adapter.json_schema(ref_template=template), adapter.validate_json
        )
    return None


def _has_extras(hint: Any, seen: set[Any]) -> bool:
    """Return whether *hint* contains what msgspec would ignore: metadata and validators."""
    if get_origin(hint) is Annotated:
        inner, *metadata = get_args(hint)
        return not all(isinstance(one, msgspec.Meta) for one in metadata) or _has_extras(
            inner, seen
        )
    if any(_has_extras(one, seen) for one in get_args(hint)):
        return True
    origin = get_origin(hint) or hint
    if not inspect.isclass(origin) or origin in seen:
        return False
    seen.add(origin)
    if _read_validated(origin) is not None:
        return True
    if not _is_record(origin):
        return False
    try:
        hints = get_type_hints(origin, include_extras=True)
    except (NameError, TypeError):
        return False
    return any(_has_extras(one, seen) for one in hints.values())


def _find_problem(hint: Any) -> str:
    """Return why msgspec does not support *hint*; empty if it does."""
    try:
        msgspec.json.schema_components([hint], schema_hook=_describe_path)
    except (TypeError, NameError, ValueError) as exc:
        return " ".join(str(exc).split()) or f"{hint!r} has no JSON form"
    return ""


# --- metadata ---


def _iter_metadata(metadata: Sequence[Any]) -> Iterator[Any]:
    """Yield each piece of *metadata*, and those inside it: a `Field` of pydantic is a list."""
    for one in metadata:
        yield one
        inner = getattr(one, "metadata", None)
        if isinstance(inner, list):
            yield from _iter_metadata(inner)


def _read_description(one: Any) -> dict[str, Any]:
    if isinstance(one, str):
        return {"description": one}
    found: dict[str, Any] = {}
    for key in ("title", "description"):
        value = getattr(one, key, None)
        if isinstance(value, str) and value:
            found[key] = value
    documentation = getattr(one, "documentation", None)  # `typing_extensions.Doc`
    if isinstance(documentation, str):
        found["description"] = documentation
    examples = getattr(one, "examples", None)
    if isinstance(examples, list):
        found["examples"] = examples
    for key in ("json_schema_extra", "extra_json_schema"):
        extra = getattr(one, key, None)
        if isinstance(extra, dict):
            found |= extra
    return found


def _constrain(schema: dict[str, Any], one: Any) -> dict[str, Any]:
    """Return *schema* with the constraints of the metadata *one*, where its type has them."""
    if isinstance(one, str):
        return schema
    if "anyOf" in schema:
        return {**schema, "anyOf": [_constrain(each, one) for each in schema["anyOf"]]}
    kind = schema.get("type")
    found: dict[str, Any] = {}
    if kind in ("integer", "number"):
        for name, keyword in _CONSTRAINTS.items():
            value = getattr(one, name, None)
            if isinstance(value, int | float) and not isinstance(value, bool):
                found[keyword] = value
    if kind in _LENGTHS:
        for name, keyword in (("min_length", "min"), ("max_length", "max")):
            value = getattr(one, name, None)
            if isinstance(value, int) and not (name == "min_length" and value == 0):
                found[keyword + _LENGTHS[kind]] = value
    pattern = getattr(one, "pattern", None)
    if kind == "string" and pattern is not None:
        found["pattern"] = pattern.pattern if isinstance(pattern, re.Pattern) else str(pattern)
    return {**schema, **found}


# --- JSON ---


def _merge(
    make: Callable[[str], tuple[dict[str, Any], dict[str, Any]]],
    placeholder: str,
    definitions: dict[str, Any],
) -> dict[str, Any]:
    """Add the definitions of a schema to *definitions*; a name that is taken gets a number.

    *make* takes the template of a reference and returns a schema and its definitions.
    """
    number, suffix = 1, ""
    while True:
        schema, found = make(f"#/$defs/{{{placeholder}}}{suffix}")
        named = {f"{name}{suffix}": each for name, each in found.items()}
        if all(definitions.get(name, each) == each for name, each in named.items()):
            definitions |= named
            return schema
        number += 1
        suffix = f"_{number}"


def _add_default(schema: dict[str, Any], default: Any) -> dict[str, Any]:
    """Return *schema* with *default*, if that has a JSON form."""
    if default is inspect.Parameter.empty or default is None:
        return schema
    try:
        return {**schema, "default": write_default(default)}
    except (TypeError, ValueError, RecursionError, UsageError):
        return schema


def write_default(value: Any) -> Any:
    """Return *value* as JSON; raise `TypeError` or `UsageError` if it has no JSON form."""
    built = msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_other)
    return _json.decode(_json.encode_strict(built))  # tuples become lists


def _place(at: str, reason: str) -> str:
    """Return *reason* with the path *at*; msgspec's own paths begin with ``$``."""
    if not at:
        return reason
    head, separator, tail = reason.partition(" - at `$")
    return f"{head} - at `${at}{tail}" if separator else f"{reason} - at `${at}`"


def _explain_validation(exc: ValueError, at: str) -> Iterator[str]:
    """Yield the faults that pydantic found, each with its path."""
    read = getattr(exc, "errors", None)
    faults = read(include_url=False) if callable(read) else []
    if not faults:
        yield _place(at, str(exc))
    for fault in faults:
        path = at + "".join(
            f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"]
        )
        yield _place(path, str(fault["msg"]))


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


def _encode_other(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    dump = getattr(value, "model_dump", None)  # a model of pydantic
    if callable(dump):
        return dump(mode="json", by_alias=True)
    raise TypeError(f"{value!r} has no JSON form")
