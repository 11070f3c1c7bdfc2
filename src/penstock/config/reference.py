"""The settings and flags as documentation, and a configuration as ``penstock.toml``."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, get_args, get_origin

from msgspec import NODEFAULT, Struct, structs

from penstock.config import settings as tables
from penstock.config.convert import describe_type, field_types, render_value, unwrap
from penstock.config.errors import KeyPath, render_key
from penstock.config.flags import FLAGS, MODELS, SECRETS, UPSTREAM
from penstock.config.routes import DEFAULTS, DEFAULTS_BY_API
from penstock.config.settings import OptionSettings, Settings

# The placeholder for the name of an upstream, a model or a key.
_ENTRY: Final = "NAME"


def describe(settings: Settings) -> str:
    """Return *settings* as a ``penstock.toml``, without unset values and with secrets hidden."""
    return "\n\n".join("\n".join(lines) for lines in _render_tables(settings, ())) + "\n"


def _render_tables(value: Any, path: KeyPath) -> Iterator[list[str]]:
    if isinstance(value, Struct):
        found = structs.asdict(value)
        items = {name: inner for name, inner in found.items() if _is_set(inner)}
    else:
        items = value
    nested = {name: inner for name, inner in items.items() if isinstance(inner, (dict, Struct))}
    lines = [f"{render_key(n)} = {render_value(v)}" for n, v in items.items() if n not in nested]
    if lines or isinstance(value, Struct):  # An empty table is an entry all the same.
        yield [f"[{render_key(*path)}]", *lines] if path else lines
    for name, inner in nested.items():
        yield from _render_tables(inner, (*path, name))


def _is_set(value: object) -> bool:
    return bool(value) or isinstance(value, (bool, int, float, Struct))


def reference() -> str:
    """Return tables of all settings: type, default, description and variable."""
    return "\n\n".join(_list_sections(Settings, ()))


def flag_reference() -> str:
    """Return a table of all flags with their variables, then of the variables without a flag."""
    rows = ["| flag | variable | sets | description | default |", "|---|---|---|---|---|"]
    for flag in FLAGS:
        sets = f"`{'.'.join(flag.path)}`" if flag.path else ""
        if flag.path[:1] == (UPSTREAM,):
            sets = f"`{flag.path[1]}` of the upstream"
        elif flag.path == (MODELS,):
            sets = "`model` of `models.PATTERN`"
        usage = f"{flag.name} {flag.metavar}".strip()
        cells = (f"`{usage}`", f"`{flag.variable}`", sets, flag.description, flag.default)
        rows.append(f"| {' | '.join(cells)} |")
    rows += [f"| | `{name}` | | {description} | |" for name, description in SECRETS.items()]
    return "\n".join(rows)


def _list_sections(hint: Any, path: KeyPath) -> Iterator[str]:
    """Yield the section for the table at *path*, then those of the tables inside."""
    kind = unwrap(hint)[0]
    if get_origin(kind) is dict:
        kind, path = unwrap(get_args(kind)[1])[0], (*path, _ENTRY)
    if not (isinstance(kind, type) and issubclass(kind, Struct)):
        return
    rows: list[str] = []
    sections: list[str] = []
    descriptions, own_last = describe_fields(kind), OptionSettings.__struct_fields__
    # The options are in the base class of two tables; their own settings come first.
    for field in sorted(structs.fields(kind), key=lambda one: one.name in own_last):
        inner = [*_list_sections(field.type, (*path, field.name))]
        sections += inner
        if not inner:
            cells = [
                f"`{field.name}`",
                describe_type(field.type),
                _render_default(field),
                descriptions[field.name],
                _find_variables((*path, field.name)),
            ]
            rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    title = f"`[{'.'.join(path)}]`" if path else "Top level"
    head = ["| setting | type | default | description | variable |", "|---|---|---|---|---|"]
    yield "\n".join([f"### {title}", "", *head, *rows])
    yield from sections


def describe_fields(table: type[Struct]) -> dict[str, str]:
    """Return the descriptions of the fields of *table*: the strings below them in the source."""
    # Python keeps no docstrings of fields at run time, so they are read from the source.
    module = ast.parse(inspect.getsource(tables))
    classes = {node.name: node.body for node in module.body if isinstance(node, ast.ClassDef)}
    found: dict[str, str] = {}
    # A subclass may describe an inherited field in words of its own.
    for base in reversed(table.__mro__):
        body = classes.get(base.__name__, [])
        for field, text in pairwise(body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(description))),
                ):
                    found[name] = " ".join(description.split())
    return {name: found.get(name, "") for name in field_types(table)}


def _render_default(field: structs.FieldInfo) -> str:
    """Return the default; that of an option depends on the API."""
    if field.default is not None:
        return _render(field.default)
    usual = getattr(DEFAULTS, field.name, None)
    by_api = {api: getattr(options, field.name, None) for api, options in DEFAULTS_BY_API.items()}
    others = [f"{api}: {_render(value)}" for api, value in by_api.items() if value != usual]
    return "; ".join([_render(usual), *others])


def _render(value: object) -> str:
    return f"`{render_value(value)}`" if value is not NODEFAULT and _is_set(value) else ""


def _find_variables(path: KeyPath) -> str:
    if path == (MODELS, _ENTRY, "model"):
        path = (MODELS,)
    elif path[:2] == ("upstreams", _ENTRY):
        path = (UPSTREAM, *path[2:])
    return ", ".join(f"`{flag.variable}`" for flag in FLAGS if flag.path == path)
