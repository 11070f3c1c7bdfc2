"""The reference of all settings and flags, made from what the code says of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import NODEFAULT, inspect

from penstock.gateway.config.describing import is_set, text_of
from penstock.gateway.config.flags import FLAGS, SECRETS, UPSTREAM
from penstock.gateway.config.routes import USUAL, USUAL_BY_API, Options
from penstock.gateway.config.settings import Settings
from penstock.gateway.config.words import bare, kind_of, words_for

_ENTRY: Final = "NAME"
"""What stands for the name of an upstream, a model or a key."""

_HEAD: Final = "| setting | is | default | means | variable |\n|---|---|---|---|---|"
_FLAG_HEAD: Final = "| flag | variable | sets | means |\n|---|---|---|---|"


def reference() -> str:
    """List every setting, by table: its kind, its default, its meaning, its variable."""
    return "\n\n".join(_sections(kind_of(Settings), ()))


def flag_reference() -> str:
    """List every flag of ``penstock serve`` with its variable, then the variables without one."""
    rows = [
        f"| `{f'{flag.name} {flag.metavar}'.strip()}` | `{flag.variable}` "
        f"| {_setting(flag.place)} | {flag.description} |"
        for flag in FLAGS
    ]
    rows += [f"| | `{name}` | | {description} |" for name, description in SECRETS.items()]
    return "\n".join([_FLAG_HEAD, *rows])


def _sections(kind: inspect.Type, path: tuple[str, ...]) -> Iterator[str]:
    """Give the tables of the settings at *path*: its own values first, then the tables in it."""
    plain = bare(kind)[0]
    if isinstance(plain, inspect.DictType):
        plain, path = bare(plain.value_type)[0], (*path, _ENTRY)
    if not isinstance(plain, inspect.StructType):
        return
    # How answers are read stands in the base of two structs, and is what matters last.
    fields = sorted(plain.fields, key=lambda field: field.name in Options.__struct_fields__)
    rows = [_row(path, field) for field in fields if not _is_section(field.type)]
    title = f"`[{'.'.join(path)}]`" if path else "At the top of the file"
    yield "\n".join([f"### {title}", "", _HEAD, *rows])
    for field in plain.fields:
        yield from _sections(field.type, (*path, field.name))


def _is_section(kind: inspect.Type) -> bool:
    plain = bare(kind)[0]
    if isinstance(plain, inspect.DictType):
        plain = bare(plain.value_type)[0]
    return isinstance(plain, inspect.StructType)


def _row(path: tuple[str, ...], field: inspect.Field) -> str:
    cells = [
        f"`{field.name}`",
        words_for(field.type),
        _default(field),
        _meaning(field.type),
        _variable((*path, field.name)),
    ]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _meaning(kind: inspect.Type) -> str:
    schema = kind.extra_json_schema if isinstance(kind, inspect.Metadata) else None
    return str((schema or {}).get("description", ""))


def _default(field: inspect.Field) -> str:
    """Show a default; for how answers are read it depends on the API."""
    if field.default is not None:
        return _shown(field.default)
    usual = getattr(USUAL, field.name, None)
    others = {api: getattr(options, field.name, None) for api, options in USUAL_BY_API.items()}
    special = [f"{api}: {_shown(value)}" for api, value in others.items() if value != usual]
    return "; ".join([_shown(usual), *special])


def _shown(value: Any) -> str:
    return f"`{text_of(value)}`" if value is not NODEFAULT and is_set(value) else ""


def _variable(path: tuple[str, ...]) -> str:
    if path[:2] == ("upstreams", _ENTRY):
        path = (UPSTREAM, *path[2:])
    return ", ".join(f"`{flag.variable}`" for flag in FLAGS if flag.place == path)


def _setting(place: tuple[str, ...]) -> str:
    if place[:1] == (UPSTREAM,):
        return f"`{place[1]}` of the upstream"
    return f"`{'.'.join(place)}`" if place else ""
