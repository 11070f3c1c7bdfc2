"""Conversion of TOML values to settings, by the types of the fields, and back to TOML text.

`msgspec.convert` checks single values only: on a whole file it would stop at the first problem and
name Python types. A value with a problem is dropped, so its field keeps the default. No caller sees
that default, since `load` raises all problems in the end.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, Struct, ValidationError, structs

from penstock import _json
from penstock.config.errors import KeyPath, ProblemList, quote_value
from penstock.config.settings import KeySettings, Settings
from penstock.config.types import EnvText, SecretURL, StringRule
from penstock.errors import UsageError, find_nearest, suggest
from penstock.redaction import HIDDEN, Secret

# TOML has only true and false; variables come from shells, Docker and Kubernetes, whose users write
# all of these.
SWITCH_WORDS: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
"""What an environment variable may say for true and false."""

# Settings of which a table may have only one, since each names the same secret.
_SECRET_SOURCES: Final = (
    ("hash", "env"),
    *((name, f"{name}_env", f"{name}_file") for name in ("key", "cookie", "umid_token")),
)

# Settings, and the names that other programs use for them.
_OTHER_NAMES: Final = {
    "api": ("provider", "type"),
    "base_url": ("url", "api_base"),
    "format": ("parser",),
    "host": ("address", "bind"),
    "keep_days": ("retention",),
    "key_env": ("api_key", "token"),
    "keys": ("key",),
    "model": ("name", "alias"),
    "models": ("model",),
    "server": ("listen",),
    "timeouts": ("timeout",),
    "tls_cert": ("ssl_certfile",),
    "upstream": ("provider",),
    "upstreams": ("upstream",),
    "url": ("path", "database"),
}

_LONG_NUMBER: Final = 100_000


class Converter:
    """Converts values to the types of settings, and adds what is wrong to *problems*.

    Paths in the file are relative to its *folder*, paths in flags to the working directory.
    """

    def __init__(self, problems: ProblemList, folder: Path) -> None:
        self._problems = problems
        self._folder = folder

    def convert(self, hint: Any, value: object, path: KeyPath) -> Any:
        """Return *value* as the type *hint*, or `UNSET` if it is not valid."""
        kind = unwrap(hint)[0]
        if isinstance(kind, type) and issubclass(kind, Struct):
            return self._convert_table(kind, value, path)
        if get_origin(kind) is dict:
            return self._convert_entries(kind, value, path)
        if get_origin(kind) is tuple:
            return self._convert_list(kind, value, path)
        return self._convert_value(hint, value, path)

    def _convert_table(self, table: type[Struct], value: object, path: KeyPath) -> Any:
        if not isinstance(value, dict):
            return self._reject(table, value, path)
        hints = field_types(table)
        made: dict[str, object] = {}
        for name, inner in value.items():
            if name not in hints:
                self._problems.add((*path, name), _explain_unknown(table, name, hints))
                continue
            made[name] = self.convert(hints[name], inner, (*path, name))
            if isinstance(inner, EnvText) and inner.variable and f"{name}_env" in hints:
                made[f"{name}_env"] = inner.variable  # `key = "${NAME}"` is `key_env = "NAME"`
        for names in _SECRET_SOURCES:
            first, *others = [name for name in names if name in value] or [""]
            for other in others:
                # Which one wins would depend on the order of the code, and the other key would stay
                # in the file unnoticed.
                message = f"cannot be combined with {first}: set only one of them"
                self._problems.add((*path, other), message)
        return table(**{name: inner for name, inner in made.items() if inner is not UNSET})

    def _convert_entries(self, kind: Any, value: object, path: KeyPath) -> Any:
        if not isinstance(value, dict):
            return self._reject(kind, value, path)
        key_hint, value_hint = get_args(kind)
        made: dict[str, object] = {}
        for name, inner in value.items():
            key = self._convert_value(key_hint, name, (*path, name))
            converted = self.convert(value_hint, inner, (*path, name))
            if key in made:  # header names are converted to lower case
                self._problems.add((*path, name), "duplicate name: case is ignored")
            if key is not UNSET and converted is not UNSET:
                made[key] = converted
        return made

    def _convert_list(self, kind: Any, value: object, path: KeyPath) -> Any:
        if isinstance(value, EnvText):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list):
            return self._reject(kind, value, path)
        hint = get_args(kind)[0]
        items = [self.convert(hint, item, (*path, str(i))) for i, item in enumerate(value)]
        return tuple(item for item in items if item is not UNSET)

    def _convert_value(self, hint: Any, value: object, path: KeyPath) -> Any:
        kind, rule, _ = unwrap(hint)
        given = value
        try:
            if isinstance(value, EnvText):
                value = _parse_text(kind, value)
            if rule is not None and isinstance(value, str):
                value = rule.parse(value)
            if kind is Path and isinstance(value, str):
                return (Path() if path in self._problems.labels else self._folder) / value
            if kind in (Secret, SecretURL) and isinstance(value, str):
                return kind(value)
            # A rule has checked the string already; its annotation is not msgspec's.
            return msgspec.convert(value, kind if rule else hint)
        except (ValidationError, OverflowError):
            return self._reject(hint, given, path)
        except ValueError as exc:  # from a rule
            self._problems.add(path, str(exc))
        except UsageError:  # from `Secret`
            self._problems.add(path, "contains characters that are not allowed in HTTP headers")
        return UNSET

    def _reject(self, hint: Any, value: object, path: KeyPath) -> Any:
        """Add what was expected at *path*, and what is there unless that may be a secret."""
        kind, rule, _ = unwrap(hint)
        message = f"expected {describe_type(hint)}"
        is_table = get_origin(kind) is dict or (isinstance(kind, type) and issubclass(kind, Struct))
        if is_table and isinstance(value, str):
            message += ", got a string"
        # Users paste keys into the wrong setting, and error messages end up in logs.
        elif rule is None or not rule.secret:
            message += f", got {quote_value(value)}"
        if get_origin(kind) is Literal and isinstance(value, str):
            message += suggest(value, get_args(kind))
        self._problems.add(path, message)
        return UNSET


@cache
def field_types(table: type[Struct]) -> dict[str, Any]:
    """Return the types of the fields of *table*, resolved once: that is slow."""
    return {field.name: field.type for field in structs.fields(table)}


def unwrap(hint: Any) -> tuple[Any, StringRule | None, Meta]:
    """Return the type inside ``Annotated`` and ``| None``, with its rule and its range."""
    rule, meta = None, Meta()
    while True:
        origin = get_origin(hint)
        if origin is Annotated:
            for item in hint.__metadata__:
                rule = item if isinstance(item, StringRule) else rule
                meta = item if isinstance(item, Meta) else meta
            hint = hint.__origin__
        elif origin in (Union, types.UnionType):
            hint = next(each for each in get_args(hint) if each is not types.NoneType)
        else:
            return hint, rule, meta


def _parse_text(kind: Any, text: EnvText) -> object:
    """Return *text* as a boolean or a number if *kind* is one, or unchanged if it is not valid."""
    if kind is bool:
        return SWITCH_WORDS.get(text.strip().lower(), str(text))
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return str(text)


def _explain_unknown(table: type, name: str, known: Iterable[str]) -> str:
    """Return the message for a setting that *table* does not have."""
    if table is KeySettings and name in ("key", "secret", "token", "value"):
        return "keys are not stored here: run `penstock key new` and store the hash it prints"
    plain = name.lower().replace("-", "_")
    near = next((one for one in known if plain in _OTHER_NAMES.get(one, ())), "")
    near = near or find_nearest(name, known)
    if not near:  # Some users put settings of these sections at the top of the file.
        inside = {
            inner: f"{section}.{inner}"
            for section in ("server", "limits", "store")
            for inner in field_types(field_types(Settings)[section])
        }
        near = inside.get(find_nearest(name, inside), "")
    hint = f"did you mean {near!r}?" if near else f"known settings: {', '.join(known)}"
    return f"unknown setting; {hint}"


# --- text ---


def describe_type(hint: Any) -> str:
    """Return the type in words, such as "a whole number from 0 to 65535"."""
    kind, rule, meta = unwrap(hint)
    if rule is not None and rule.expected:
        return rule.expected
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(f'"{value}"' for value in get_args(kind))
    if get_origin(kind) is tuple:
        return "a list of strings"
    if kind is bool:
        return "true or false"
    if kind not in (int, float):
        return "a string" if kind is str else "a table"
    words = "a whole number" if kind is int else "a number"
    if meta.gt is not None:
        words += f" above {meta.gt}"
        return f"{words}, or inf" if meta.le is None else f"{words}, up to {render_value(meta.le)}"
    return f"{words} from {render_value(meta.ge)} to {render_value(meta.le)}"


def render_value(value: Any) -> str:
    """Return *value* as TOML, with secrets hidden."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        if not float(value).is_integer():
            return str(value)  # also `inf`, which TOML writes in the same way
        # TOML allows underscores between digits.
        return f"{int(value):_}" if value >= _LONG_NUMBER else f"{int(value)}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(render_value, value))}]"
    if isinstance(value, Secret):
        return f'"{HIDDEN}"'
    # JSON strings are TOML strings, except that TOML does not allow a raw DEL.
    return _json.encode(str(value)).decode().replace("\x7f", "\\u007f")
