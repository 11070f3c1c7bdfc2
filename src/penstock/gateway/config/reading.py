"""What a file holds becomes settings: each value by the kind of its field, all problems noted.

`msgspec.convert` would stop at the first problem and speak in the words of Python. So the kinds are
walked here, with msgspec's own view of the structs. A value with a problem is left out, which gives
its field the default; nobody sees that, since problems are raised in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import UNSET, Struct, inspect

from penstock.errors import UsageError
from penstock.gateway.config.addresses import Address
from penstock.gateway.config.hints import hint_for
from penstock.gateway.config.problems import Place, Problems, shown, suggestion
from penstock.gateway.config.variables import EnvText
from penstock.gateway.config.words import bare, words_for
from penstock.models.http.redaction import Secret

TRUE: Final = frozenset({"true", "yes", "on", "1"})
"""What a variable says for yes."""

FALSE: Final = frozenset({"false", "no", "off", "0"})
"""What a variable says for no."""


_SOURCES: Final = (
    ("hash", "env"),
    *((name, f"{name}_env", f"{name}_file") for name in ("key", "cookie", "umid_token")),
)
"""Where one secret may come from."""


class Given(Struct, frozen=True):
    """A value that is not the file's but came by a flag or a variable, which is its *label*."""

    value: object
    label: str


class WrongKindError(ValueError):
    """A value that is of another kind than its field."""


class Reader:
    """Reads values, and notes what is wrong with them in *problems*.

    Paths in the file are meant from its *folder*, those of flags from where the command runs.
    """

    def __init__(self, problems: Problems, folder: Path) -> None:
        self._problems = problems
        self._folder = folder

    def read(self, kind: inspect.Type, value: object, place: Place) -> Any:
        """Give *value* as one of *kind*; `UNSET` where it is none."""
        folder = self._folder
        if isinstance(value, Given):
            place, folder = place.labelled(value.label), Path()
            value = value.value
        plain, extra = bare(kind)
        match plain:
            case inspect.StructType():
                return self._struct(plain, value, place)
            case inspect.DictType():
                return self._entries(plain, value, place)
            case inspect.VarTupleType():
                return self._list(plain, value, place)
        return self._leaf(kind, _made_by(plain, extra, folder), value, place)

    def _struct(self, kind: inspect.StructType, value: object, place: Place) -> Any:
        if not isinstance(value, dict):
            return self._complain(kind, value, place)
        fields = {field.name: field.type for field in kind.fields}
        made: dict[str, object] = {}
        for name, inner in value.items():
            if name in fields:
                made[name] = self.read(fields[name], inner, place.child(name))
                made |= _origin(name, inner, fields)
            else:
                self._problems.add(place.child(name), hint_for(kind.cls, name, fields))
        self._check_sources(value, place)
        return kind.cls(**{name: inner for name, inner in made.items() if inner is not UNSET})

    def _entries(self, kind: inspect.DictType, value: object, place: Place) -> Any:
        if not isinstance(value, dict):
            return self._complain(kind, value, place)
        made: dict[str, object] = {}
        for name, inner in value.items():
            key = self._leaf(kind.key_type, bare(kind.key_type)[1]["rule"], name, place.child(name))
            read = self.read(kind.value_type, inner, place.child(name))
            if key in made:  # names of headers differ in case only
                self._problems.add(place.child(name), "it is given twice")
            if key is not UNSET and read is not UNSET:
                made[key] = read
        return made

    def _list(self, kind: inspect.VarTupleType, value: object, place: Place) -> Any:
        if isinstance(value, EnvText):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list):
            return self._complain(kind, value, place)
        items = [
            self.read(kind.item_type, item, place.child(str(number)))
            for number, item in enumerate(value)
        ]
        return tuple(item for item in items if item is not UNSET)

    def _leaf(
        self, kind: inspect.Type, make: Callable[[Any], object], value: object, place: Place
    ) -> Any:
        try:
            return make(value)
        except WrongKindError:
            return self._complain(kind, value, place)
        except ValueError as exc:
            self._problems.add(place, str(exc))
        except UsageError:  # from `Key`, which says nothing else
            self._problems.add(place, "it holds characters that no header may have")
        return UNSET

    def _complain(self, kind: inspect.Type, value: object, place: Place) -> Any:
        """Say what belongs here, and what is here instead unless that may be a secret."""
        plain, extra = bare(kind)
        message = words_for(kind)
        is_table = isinstance(plain, inspect.StructType | inspect.DictType)
        if is_table and isinstance(value, str):
            message += ", not a text"
        elif not extra.get("secret") and not isinstance(plain, inspect.CustomType):
            message += f", not {shown(value)}"
        if isinstance(plain, inspect.LiteralType) and isinstance(value, str):
            message += suggestion(value, map(str, plain.values))
        self._problems.add(place, message)
        return UNSET

    def _check_sources(self, value: dict[str, object], place: Place) -> None:
        """See to it that a secret comes from one place: the file, a variable or another file."""
        for names in _SOURCES:
            first, *others = [name for name in names if name in value] or [""]
            for other in others:
                message = f"{first} is there too, and only one of them can count"
                self._problems.add(place.child(other), message)


def _origin(name: str, value: object, fields: dict[str, Any]) -> dict[str, object]:
    """Note the variable that a secret came from, where ``${NAME}`` was all that stood there."""
    if isinstance(value, EnvText) and value.variable and f"{name}_env" in fields:
        return {f"{name}_env": value.variable}
    return {}


# --- single values ---


def _made_by(kind: inspect.Type, extra: dict[str, Any], folder: Path) -> Callable[[object], object]:
    """Give what makes a value of *kind*: by its kind, its range, its rule, its class."""
    rule = extra.get("rule")

    def make(value: object) -> object:
        made = _plain_value(kind, value)
        made = rule(made) if rule is not None else made
        if isinstance(kind, inspect.CustomType):
            return _wrapped(kind.cls, str(made), folder)
        return made

    return make


def _plain_value(kind: inspect.Type, value: object) -> object:
    match kind:
        case inspect.BoolType():
            return _bool(value)
        case inspect.IntType():
            return _in_range(kind, _number(int, value))
        case inspect.FloatType():
            return _in_range(kind, _number(float, value))
        case inspect.LiteralType():
            return _literal(kind, value)
    if not isinstance(value, str):
        raise WrongKindError
    return str(value)


def _bool(value: object) -> bool:
    if isinstance(value, EnvText) and value.strip().lower() in TRUE | FALSE:
        return value.strip().lower() in TRUE
    if not isinstance(value, bool):
        raise WrongKindError
    return value


def _number(wanted: type[int | float], value: object) -> float:
    if isinstance(value, EnvText):
        try:
            return wanted(value)
        except ValueError:
            raise WrongKindError from None
    allowed = (int,) if wanted is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed):
        raise WrongKindError
    return value


def _in_range(kind: inspect.IntType | inspect.FloatType, number: float) -> float:
    is_above = (kind.gt is None or number > kind.gt) and (kind.ge is None or number >= kind.ge)
    if not is_above or not (kind.le is None or number <= kind.le):
        raise WrongKindError
    return float(number) if isinstance(kind, inspect.FloatType) else number


def _literal(kind: inspect.LiteralType, value: object) -> object:
    if not isinstance(value, str) or value not in kind.values:
        raise WrongKindError
    return str(value)


def _wrapped(cls: type, text: str, folder: Path) -> object:
    if cls is Path:
        if not text or not text.isprintable():
            raise WrongKindError
        return folder / text
    return Secret(text) if cls is Secret else Address(text)
