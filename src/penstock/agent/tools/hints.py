"""The kinds of type hints as JSON: their schemas, and how a JSON value becomes their type.

msgspec reads what it supports: builtin and generic types, dataclasses, `TypedDict`, `NamedTuple`,
`Struct`, enums, `Literal`, dates. This module adds what it does not:

* models of pydantic, which write their schema and validate their values themselves. They are
  recognised by their methods, so that pydantic is not needed for anything else;
* constraints and descriptions in ``Annotated``: pydantic's `Field`, `annotated_types`, plain text;
* unions whose members JSON cannot tell apart, such as two dataclasses or ``str | Path``. A member
  that has all properties of the value comes first; then they are tried from left to right;
* enums whose values are of several types;
* all of this inside lists, dicts, dataclasses, `TypedDict` and `Struct`.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cached_property
from pathlib import PurePath
from typing import Any, Final

import msgspec

from penstock import _json
from penstock.agent.schemas import close_objects, inline_root
from penstock.errors import UsageError
from penstock.values import Schema

_REFERENCE: Final = "#/$defs/{name}"


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


def convert_value(hint: HintType, value: Any) -> Any:
    """Convert the JSON *value* to the type of *hint*, or raise `HintError`."""
    try:
        return hint.convert(value, "", strict=True)
    except HintError:
        return hint.convert(value, "", strict=False)


# --- kinds of hints ---


class NativeHint(HintType):
    """A hint that msgspec supports as a whole."""

    def __init__(self, hint: Any) -> None:
        self._hint = hint

    def write_schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        """Return the schema, as `HintType` says."""

        def make(template: str) -> tuple[dict[str, Any], dict[str, Any]]:
            (schema,), found = msgspec.json.schema_components(
                [self._hint], schema_hook=describe_path, ref_template=template
            )
            return schema, found

        return _merge(make, "name", definitions)

    def convert(self, value: Any, at: str, *, strict: bool) -> Any:
        """Convert *value*, as `HintType` says."""
        try:
            return msgspec.convert(
                value, self._hint, strict=strict, str_keys=True, dec_hook=_decode_path
            )
        except msgspec.ValidationError as exc:
            raise HintError(_place(at, str(exc))) from exc


class ValidatedHint(HintType):
    """A model of pydantic, or one of its dataclasses."""

    def __init__(
        self, make_schema: Callable[[str], dict[str, Any]], validate: Callable[[bytes], Any]
    ) -> None:
        self._make_schema = make_schema
        self._validate = validate

    def write_schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        """Return the schema, as `HintType` says."""

        def make(template: str) -> tuple[dict[str, Any], dict[str, Any]]:
            schema = dict(self._make_schema(template))
            return schema, schema.pop("$defs", {})

        return _merge(make, "model", definitions)

    def convert(self, value: Any, at: str, *, strict: bool) -> Any:
        """Convert *value*, as `HintType` says."""
        del strict  # The model has its own configuration.
        try:
            # JSON, because a strict model takes a date as text only from JSON.
            return self._validate(_json.encode_strict(value))
        except ValueError as exc:  # pydantic's `ValidationError` is one
            raise HintError("; ".join(_explain_validation(exc, at))) from exc


class UnionHint(HintType):
    """A union: a member that has all properties of the value, else the first that takes it."""

    def __init__(self, members: list[HintType]) -> None:
        self._members = members

    @cached_property
    def _closed(self) -> list[Schema]:
        """The schemas of the members without other properties; a recursive record is read late."""
        schemas = []
        for member in self._members:
            definitions: dict[str, Any] = {}
            root = inline_root(member.write_schema(definitions), definitions)
            schemas.append(Schema(close_objects(root)))
        return schemas

    def write_schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        """Return the schema, as `HintType` says."""
        return {"anyOf": [each.write_schema(definitions) for each in self._members]}

    def convert(self, value: Any, at: str, *, strict: bool) -> Any:
        """Convert *value*, as `HintType` says."""
        # Of two records with a common property, the first would drop the properties of the second.
        closed = [schema.accepts(value) for schema in self._closed]
        ordered = sorted(range(len(closed)), key=lambda at: not closed[at])
        reasons: list[str] = []
        for member in (self._members[at] for at in ordered):
            try:
                return member.convert(value, at, strict=strict)
            except HintError as exc:
                reasons.append(str(exc))
        raise HintError(reasons[-1] if len(reasons) == 1 else " or ".join(reasons))


class ItemsHint(HintType):
    """A list, set or tuple of any length."""

    def __init__(self, make: Callable[[list[Any]], Any], item: HintType) -> None:
        self._make = make
        self._item = item

    def write_schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        """Return the schema, as `HintType` says."""
        return {"type": "array", "items": self._item.write_schema(definitions)}

    def convert(self, value: Any, at: str, *, strict: bool) -> Any:
        """Convert *value*, as `HintType` says."""
        if not isinstance(value, list):
            raise HintError(_place(at, f"Expected `array`, got `{type(value).__name__}`"))
        return self._make(
            [self._item.convert(one, f"{at}[{n}]", strict=strict) for n, one in enumerate(value)]
        )


class TupleHint(HintType):
    """A tuple with a hint for each item."""

    def __init__(self, items: list[HintType]) -> None:
        self._items = items

    def write_schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        """Return the schema, as `HintType` says."""
        return {
            "type": "array",
            "prefixItems": [each.write_schema(definitions) for each in self._items],
            "minItems": len(self._items),
            "maxItems": len(self._items),
            "items": False,
        }

    def convert(self, value: Any, at: str, *, strict: bool) -> Any:
        """Convert *value*, as `HintType` says."""
        if not isinstance(value, list) or len(value) != len(self._items):
            raise HintError(_place(at, f"Expected `array` of length {len(self._items)}"))
        return tuple(
            item.convert(one, f"{at}[{n}]", strict=strict)
            for n, (item, one) in enumerate(zip(self._items, value, strict=True))
        )


class DictHint(HintType):
    """A dict; *key* is the hint of its keys, which are text in JSON."""

    def __init__(self, key: Any, value: HintType) -> None:
        self._keys = NativeHint(dict[key, Any])
        self._value = value

    def write_schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        """Return the schema, as `HintType` says."""
        return {"type": "object", "additionalProperties": self._value.write_schema(definitions)}

    def convert(self, value: Any, at: str, *, strict: bool) -> Any:
        """Convert *value*, as `HintType` says."""
        if not isinstance(value, dict):
            raise HintError(_place(at, f"Expected `object`, got `{type(value).__name__}`"))
        keys = [next(iter(self._keys.convert({name: 0}, at, strict=strict))) for name in value]
        values = [
            self._value.convert(one, f"{at}.{name}", strict=strict) for name, one in value.items()
        ]
        return dict(zip(keys, values, strict=True))


class EnumHint(HintType):
    """An enum whose values are of several types, or neither text nor integers."""

    def __init__(self, cls: type[Enum]) -> None:
        # By type as well: 1, 1.0 and True are equal.
        self._members = {(type(each.value), each.value): each for each in cls}

    def write_schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        """Return the schema, as `HintType` says."""
        del definitions
        return {"enum": [value for _, value in self._members]}

    def convert(self, value: Any, at: str, *, strict: bool) -> Any:
        """Convert *value*, as `HintType` says."""
        del strict
        kinds = (int, float) if type(value) in (int, float) else (type(value),)
        for kind in kinds if isinstance(value, Hashable) else ():
            if (kind, value) in self._members:
                return self._members[kind, value]
        written = _json.encode(value).decode()
        raise HintError(_place(at, f"Invalid enum value {written}"))


class AnnotatedHint(HintType):
    """A hint with constraints and a description.

    Values are checked by the schema before they are converted, and by the bounds that a schema
    cannot have after it.
    """

    def __init__(self, inner: HintType, metadata: Sequence[Any]) -> None:
        self._inner = inner
        self._metadata = metadata

    def write_schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        """Return the schema, as `HintType` says."""
        schema = self._inner.write_schema(definitions)
        for one in iter_metadata(self._metadata):
            schema = {**constrain(schema, one), **read_description(one)}
        return schema

    def convert(self, value: Any, at: str, *, strict: bool) -> Any:
        """Convert *value*, as `HintType` says."""
        converted = self._inner.convert(value, at, strict=strict)
        if violation := find_violation(converted, self._metadata):
            raise HintError(_place(at, violation))
        return converted


@dataclasses.dataclass
class RecordField:
    """A field of a record: *name* in JSON, *key* in Python."""

    name: str
    key: str
    type: HintType
    required: bool
    default: Any = inspect.Parameter.empty


class RecordHint(HintType):
    """A dataclass, `TypedDict` or `Struct` with fields that msgspec does not support."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls
        self.fields: list[RecordField] = []
        config = cls.__struct_config__ if issubclass(cls, msgspec.Struct) else None
        self._is_closed = config is not None and config.forbid_unknown_fields
        self._tag = {config.tag_field: config.tag} if config and config.tag is not None else {}

    def write_schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        """Return the schema, as `HintType` says."""
        name = self._cls.__name__
        reference = {"$ref": _REFERENCE.format(name=name)}
        known = definitions.get(name)
        if known is not None and known.get(_OWNER) in (None, self):
            return reference
        while name in definitions:
            name += "_2"
        schema: dict[str, Any] = {"title": self._cls.__name__, "type": "object", _OWNER: self}
        definitions[name] = schema
        # Its own: `inspect.getdoc` would return that of `dict` for a `TypedDict`.
        documentation = inspect.cleandoc(vars(self._cls).get("__doc__") or "")
        # A dataclass without a docstring gets its signature as one.
        if documentation and not documentation.startswith(f"{self._cls.__name__}("):
            schema["description"] = documentation
        schema["properties"] = {name: {"enum": [tag]} for name, tag in self._tag.items()} | {
            field.name: _add_default(field.type.write_schema(definitions), field.default)
            for field in self.fields
        }
        required = [field.name for field in self.fields if field.required]
        schema["required"] = [*self._tag, *required]
        if self._is_closed:
            schema["additionalProperties"] = False
        del schema[_OWNER]
        return {"$ref": _REFERENCE.format(name=name)}

    def convert(self, value: Any, at: str, *, strict: bool) -> Any:
        """Convert *value*, as `HintType` says."""
        if not isinstance(value, dict):
            raise HintError(_place(at, f"Expected `object`, got `{type(value).__name__}`"))
        for name, tag in self._tag.items():
            if value.get(name, tag) != tag:
                raise HintError(_place(at, f"Invalid value {value[name]!r} of `{name}`"))
        unknown = value.keys() - self._tag.keys() - {field.name for field in self.fields}
        if self._is_closed and unknown:
            raise HintError(_place(at, f"Object contains unknown field `{min(unknown)}`"))
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


# The key of a definition that is being written, so that a recursive record ends.
_OWNER: Final = "\0owner"


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
    # pydantic's `ValidationError` is a `ValueError` with a list of faults; validators of users
    # raise plain ones.
    read = getattr(exc, "errors", None)
    faults = read(include_url=False) if callable(read) else []
    if not faults:
        yield _place(at, str(exc))
    for fault in faults:
        path = at + "".join(
            f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"]
        )
        yield _place(path, str(fault["msg"]))


def describe_path(type_: type) -> dict[str, Any]:
    """Return the schema of a path; raise `TypeError` for another type."""
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


# --- metadata of Annotated ---
#
# `Field` of pydantic, `msgspec.Meta`, `annotated_types` and plain text are read by their
# attributes.

# Attributes of metadata that are keywords of numbers.
_CONSTRAINTS: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}

_LENGTHS: Final = {"string": "Length", "array": "Items", "object": "Properties"}

_COMPARISONS: Final = {
    "gt": (operator.gt, "greater than {}"),
    "ge": (operator.ge, "{} or more"),
    "lt": (operator.lt, "less than {}"),
    "le": (operator.le, "{} or less"),
}
# Types that are compared, but are strings in JSON, whose schema cannot have a bound.
_STRINGS_IN_JSON: Final = (Decimal, date, time, timedelta)


def iter_metadata(metadata: Sequence[Any]) -> Iterator[Any]:
    """Yield each piece of *metadata*, and those inside it: a `Field` of pydantic is a list."""
    for one in metadata:
        yield one
        inner = getattr(one, "metadata", None)
        if isinstance(inner, list):
            yield from iter_metadata(inner)


def read_description(one: Any) -> dict[str, Any]:
    """Return the keywords with which the metadata *one* describes a schema."""
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


def constrain(schema: dict[str, Any], one: Any) -> dict[str, Any]:
    """Return *schema* with the constraints of the metadata *one*, where its type has them."""
    if isinstance(one, str):
        return schema
    if "anyOf" in schema:
        return {**schema, "anyOf": [constrain(each, one) for each in schema["anyOf"]]}
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
    # `msgspec.Meta` has the pattern as text, pydantic's `Field` as text or compiled.
    pattern = getattr(one, "pattern", None)
    if kind == "string" and pattern is not None:
        found["pattern"] = pattern.pattern if isinstance(pattern, re.Pattern) else str(pattern)
    return {**schema, **found}


def find_violation(value: object, metadata: Sequence[Any]) -> str:
    """Return how *value* violates a bound of *metadata* that its schema cannot have; or nothing."""
    if not isinstance(value, _STRINGS_IN_JSON):
        return ""
    for one in iter_metadata(metadata):
        for name, (compare, words) in _COMPARISONS.items():
            bound = getattr(one, name, None)
            if bound is None:
                continue
            try:
                fits = compare(value, bound)
            except TypeError:  # such as a date with a time zone and one without
                continue
            if not fits:
                return f"Expected {words.format(bound)}"
    return ""
