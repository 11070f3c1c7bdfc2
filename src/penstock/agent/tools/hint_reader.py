"""Reads type hints: which of the kinds in `hints` each is.

A hint of pydantic is recognised by what its classes have, so that pydantic is not needed for any
other. `read_hint` is the way in.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import (
    Annotated,
    Any,
    Final,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from penstock.agent.tools.hints import (
    AnnotatedHint,
    DictHint,
    EnumHint,
    HintType,
    ItemsHint,
    NativeHint,
    RecordField,
    RecordHint,
    TupleHint,
    UnionHint,
    ValidatedHint,
    describe_path,
    iter_metadata,
)
from penstock.errors import UsageError

_SEQUENCES: Final = (list, set, frozenset, tuple, Sequence)
_MAPPINGS: Final = (dict, Mapping)

# What a key of a `TypedDict` may be; `ReadOnly` is in `typing` from Python 3.13 on.
_QUALIFIERS: Final = {"Required", "NotRequired", "ReadOnly"}


def read_hint(hint: Any) -> HintType:
    """Return *hint* as a `HintType`; raise `UsageError` if it has no JSON form."""
    return _Reader().read(Any if hint is object else hint)


class _Reader:
    """Reads one hint; a record that refers to itself is read once."""

    def __init__(self) -> None:
        self._records: dict[Any, RecordHint] = {}
        self._aliases: list[Any] = []  # whose values are being read

    def read(self, hint: Any) -> HintType:
        if _is_alias(hint):
            return self._read_alias(hint)
        problem = _find_problem(hint)
        if not problem and not _has_extras(hint):
            return NativeHint(hint)
        if get_args(hint) and (found := self._read_generic(hint)) is not None:
            return found
        if (validated := _read_validated(hint)) is not None:
            return validated
        if _is_record(hint):
            return self._read_record(hint)
        if inspect.isclass(hint) and issubclass(hint, Enum) and _has_json_values(hint):
            return EnumHint(hint)
        if any(_is_of_pydantic(part) for part in _iter_parts(hint, set())):
            return _adapt(hint)  # a `NamedTuple`, or a generic record
        if not problem and _is_named_tuple(hint):
            return NativeHint(hint)
        raise UsageError(problem or f"{hint!r} has no JSON form")

    def _read_generic(self, hint: Any) -> HintType | None:
        """Return *hint*, which has arguments; None if it is not one of Python's own."""
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self._read_annotated(hint, arguments[0], arguments[1:])
        if _name_qualifier(hint):
            return self.read(arguments[0])
        if origin in (Union, types.UnionType):
            return UnionHint([self.read(one) for one in arguments])
        if origin is tuple and arguments[1:] != (Ellipsis,):
            return TupleHint([self.read(one) for one in arguments])
        if origin in _SEQUENCES:
            make = list if origin is Sequence else origin
            return ItemsHint(make, self.read(arguments[0]))
        if origin in _MAPPINGS:
            return DictHint(arguments[0], self.read(arguments[1]))
        return None

    def _read_alias(self, alias: Any) -> HintType:
        if alias in self._aliases:
            raise UsageError(f"the type alias {alias!r} refers to itself: use a class")
        self._aliases.append(alias)
        try:
            value = alias.__value__
        except NameError as exc:
            raise UsageError(f"cannot resolve the type alias {alias!r}: {exc}") from exc
        found = self.read(value)
        self._aliases.pop()
        return found

    def _read_annotated(self, hint: Any, inner: Any, metadata: tuple[Any, ...]) -> HintType:
        # A validator of pydantic changes values, so pydantic reads them. Its `Field` only
        # describes and constrains.
        if any(_has_core_schema(one) for one in iter_metadata(metadata)):
            return AnnotatedHint(_adapt(hint), metadata)
        return AnnotatedHint(self.read(inner), metadata)

    def _read_record(self, cls: Any) -> RecordHint:
        if cls in self._records:
            return self._records[cls]
        record = self._records[cls] = RecordHint(cls)
        hints = get_type_hints(cls, include_extras=True)
        record.fields = list(self._iter_fields(cls, hints))
        return record

    def _iter_fields(self, cls: Any, hints: dict[str, Any]) -> Iterator[RecordField]:
        empty = inspect.Parameter.empty
        if _is_typed_dict(cls):
            for name, hint in hints.items():
                # `__required_keys__` does not know the qualifiers of hints that are strings.
                found = set(_iter_qualifiers(hint))
                is_required = "NotRequired" not in found and (
                    "Required" in found or name in cls.__required_keys__
                )
                yield RecordField(name, name, self.read(hint), is_required)
        elif issubclass(cls, msgspec.Struct):
            for each in msgspec.structs.fields(cls):
                default = empty if each.default is msgspec.NODEFAULT else each.default
                read = self.read(hints[each.name])
                yield RecordField(each.encode_name, each.name, read, each.required, default)
        else:
            for one in dataclasses.fields(cls):
                if one.init:
                    default = empty if one.default is dataclasses.MISSING else one.default
                    required = default is empty and one.default_factory is dataclasses.MISSING
                    yield RecordField(
                        one.name, one.name, self.read(hints[one.name]), required, default
                    )


def _is_record(hint: Any) -> bool:
    is_class = inspect.isclass(hint) and get_origin(hint) is None
    return is_class and (
        dataclasses.is_dataclass(hint) or _is_typed_dict(hint) or issubclass(hint, msgspec.Struct)
    )


def _name_qualifier(hint: Any) -> str:
    """Return the name of the qualifier that *hint* begins with, or the empty string."""
    name = str(get_origin(hint)).rpartition(".")[2]
    return name if name in _QUALIFIERS else ""


def _iter_qualifiers(hint: Any) -> Iterator[str]:
    while (name := _name_qualifier(hint)) or get_origin(hint) is Annotated:
        if name:
            yield name
        hint = get_args(hint)[0]


def _is_alias(hint: Any) -> bool:
    """Return whether *hint* is a `TypeAliasType`, of `typing` or of `typing_extensions`."""
    return type(hint).__name__ == "TypeAliasType"


def _is_typed_dict(hint: Any) -> bool:
    # That of `typing_extensions` is a class of its own before Python 3.13.
    return inspect.isclass(hint) and issubclass(hint, dict) and hasattr(hint, "__required_keys__")


def _is_named_tuple(hint: Any) -> bool:
    # One of `collections.namedtuple` has no types.
    return inspect.isclass(hint) and issubclass(hint, tuple) and hasattr(hint, "__annotations__")


def _has_json_values(cls: type[Enum]) -> bool:
    values = [each.value for each in cls]
    return bool(values) and all(isinstance(one, str | int | float | None) for one in values)


# --- pydantic ---


def _has_core_schema(part: Any) -> bool:
    """Return whether pydantic asks *part*, a class or metadata, how it is validated."""
    # pydantic is not imported, and need not be installed: its classes are recognised by their
    # members.
    return hasattr(part, "__get_pydantic_core_schema__")


def _is_of_pydantic(part: Any) -> bool:
    """Return whether *part*, a class or metadata, is of pydantic or made for it."""
    of_class = inspect.isclass(part) and "__pydantic_validator__" in vars(part)
    return of_class or _has_core_schema(part) or type(part).__module__.startswith("pydantic")


def _read_validated(hint: Any) -> ValidatedHint | None:
    """Return *hint* as a class of pydantic, if it is one."""
    if not inspect.isclass(hint) or get_origin(hint) is not None:
        return None
    if hasattr(hint, "model_json_schema") and hasattr(hint, "model_validate_json"):
        model: Any = hint
        return ValidatedHint(
            lambda template: model.model_json_schema(ref_template=template),
            model.model_validate_json,
        )
    return _adapt(hint) if _is_of_pydantic(hint) else None


def _adapt(hint: Any) -> ValidatedHint:
    """Return *hint* as pydantic reads it; raise `UsageError` if it cannot."""
    try:
        from pydantic import PydanticUserError, TypeAdapter  # noqa: PLC0415 - an optional package
    except ImportError as exc:
        raise UsageError(f"{hint!r} needs pydantic, which is not installed") from exc
    try:
        adapter = TypeAdapter(hint)
        adapter.json_schema()
    except (PydanticUserError, NameError) as exc:
        problem = str(exc).partition("\n")[0]
        raise UsageError(f"pydantic cannot read {hint!r}: {problem}") from exc
    return ValidatedHint(
        lambda template: adapter.json_schema(ref_template=template), adapter.validate_json
    )


# --- what is in a hint ---


def _has_extras(hint: Any) -> bool:
    """Return whether *hint* contains what msgspec would ignore: metadata and validators."""
    for part in _iter_parts(hint, set()):
        is_class = inspect.isclass(part)
        if not (is_class or isinstance(part, msgspec.Meta)):
            return True
        if is_class and _read_validated(part) is not None:
            return True
    return False


def _iter_parts(hint: Any, seen: set[Any]) -> Iterator[Any]:
    """Yield the classes in *hint* and in the fields of its records, and the metadata of both."""
    if get_origin(hint) is Annotated:
        inner, *metadata = get_args(hint)
        yield from metadata
        yield from _iter_parts(inner, seen)
        return
    for one in get_args(hint):
        yield from _iter_parts(one, seen)
    origin = get_origin(hint) or hint
    if not inspect.isclass(origin) or origin in seen:
        return
    seen.add(origin)
    yield origin
    if not (_is_record(origin) or _is_named_tuple(origin)):
        return
    try:
        hints = get_type_hints(origin, include_extras=True)
    except (NameError, TypeError):
        return
    for one in hints.values():
        yield from _iter_parts(one, seen)


def _find_problem(hint: Any) -> str:
    """Return why msgspec does not support *hint*; empty if it does."""
    try:
        msgspec.json.schema_components([hint], schema_hook=describe_path)
    except (TypeError, NameError, ValueError, RecursionError) as exc:
        return " ".join(str(exc).split()) or f"{hint!r} has no JSON form"
    return ""
