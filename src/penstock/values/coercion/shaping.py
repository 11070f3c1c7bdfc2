"""Objects of the wrong shape: a list that came as an object, and keys that are nearly right.

An XML reader cannot tell a list of one from an object, and models invent wrappers: ``{"item": …}``,
``{"row": [..]}``, ``{"0": .., "1": ..}``, columns instead of rows. `elements_of` says which list
was meant. `rename_keys` is for strict objects only, where an unknown key is an error anyway.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from penstock.values.schema.keywords import type_of
from penstock.values.schema.validate import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.values.schema import Schema

_INDEX: Final = re.compile(r"[0-9]{1,18}")


def may_wrap(value: object, schema: Schema) -> bool:
    """Tell whether wrapping *value* comes to an end: not where arrays hold only arrays."""
    kind = type_of(value)
    seen: set[int] = set()
    level: Schema | None = schema
    while level is not None and not level.free and kind not in level.types:
        if not kind or id(level) in seen or len(seen) > MAX_DEPTH:
            return False
        seen.add(id(level))
        if "array" not in level.types:
            break
        level = level.trunk.item(0)
    return True


def is_element(value: dict[Any, Any], item: Schema | None) -> bool:
    """Tell whether *value* could be one element: the item's schema declares every key of it."""
    return item is not None and bool(value) and all(name in item.properties for name in value)


def elements_of(value: dict[Any, Any], item: Schema | None) -> list[Any]:
    """List the elements that *value*, an object where an array is wanted, stands for.

    In this order: columns of equal length when items are strict objects, a sole ``item``, a sole
    key that holds an array, index keys, a sole key around one element, else one element.
    """
    if _are_columns(value, item):
        return _zip(value)
    if len(value) == 1:
        (name, inner), *_ = value.items()
        if isinstance(inner, list):
            return inner
        if name == "item" or _is_wrapper(name, inner, item):
            return [inner]
    if all(isinstance(name, str) and _INDEX.fullmatch(name) for name in value):
        return [value[name] for name in sorted(value, key=int)]
    return [value]


def rename_keys(value: dict[Any, Any], schema: Schema) -> dict[Any, Any]:
    """Give unknown keys of a strict object the names of missing required ones that they resemble.

    Alike are names that differ in case and ``_`` only, and then those that also differ in a final
    ``s``; each must be the only one like the other. Order is kept.
    """
    if not schema.closed:
        return value
    required = dict.fromkeys(schema.required)
    missing = [name for name in required if name not in value]
    if not missing:
        return value
    extra = [name for name in value if isinstance(name, str) and name not in required]
    unknown = [name for name in extra if schema.property(name) is None]
    renamed: dict[str, str] = {}
    for plurals in (False, True):
        pairs = _alike(
            [name for name in missing if name not in renamed.values()],
            [name for name in unknown if name not in renamed],
            plurals=plurals,
        )
        renamed.update(pairs)
    return {renamed.get(name, name): inner for name, inner in value.items()} if renamed else value


def _are_columns(value: dict[Any, Any], item: Schema | None) -> bool:
    if item is None or not item.closed or not value:
        return False
    if not all(isinstance(column, list) for column in value.values()):
        return False
    one_length = len(set(map(len, value.values()))) == 1
    return one_length and (len(value) > 1 or next(iter(value)) in item.properties)


def _zip(columns: dict[Any, list[Any]]) -> list[Any]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _is_wrapper(name: object, inner: object, item: Schema | None) -> bool:
    """Tell whether a sole key only names the kind of element, as in ``{"row": {…}}``."""
    if item is None or item.free:
        return False
    if "object" not in item.types:
        return True
    return isinstance(inner, dict) and bool(item.properties) and name not in item.properties


def _alike(missing: list[str], unknown: list[str], *, plurals: bool) -> Iterator[tuple[str, str]]:
    """Yield the pairs (unknown, missing) of names that are alike, each like no other."""
    by_stem: dict[str, list[str]] = {}
    for name in unknown:
        by_stem.setdefault(_stem(name), []).append(name)
    found = {
        name: [u for stem in _stems(name, plurals=plurals) for u in by_stem.get(stem, ())]
        for name in missing
    }
    times = Counter(name for names in found.values() for name in names)
    for name, names in found.items():
        if len(names) == 1 and times[names[0]] == 1:
            yield names[0], name


def _stem(name: str) -> str:
    return name.replace("_", "").casefold()


def _stems(name: str, *, plurals: bool) -> list[str]:
    stem = _stem(name)
    if not plurals:
        return [stem]
    return [stem, stem + "s", *([stem[:-1]] if stem.endswith("s") else [])]
