"""Where a `$ref` points, and which keywords a schema node really has once it was followed.

A *document* is a whole JSON Schema; a `$ref` names a place in it by JSON pointer (``#``,
``#/$defs/X``, with ``~0 ~1`` and ``%`` escapes), by `$anchor` or by `$id`. Nothing is ever
fetched: a reference to anywhere else cannot be resolved.

`gather` flattens a node into the plain keyword sets that all hold for a value (the node itself,
what its `$ref` names, and its `allOf`), and the lists of alternatives of which one must hold. It
works through a list and remembers where it was, so neither depth nor cycles can hurt it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.errors import CoercionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.values.schema.keywords import Part

CONSTRAINTS: Final = frozenset(
    {
        "type", "enum", "const", "not", "properties", "patternProperties", "additionalProperties",
        "required", "items", "prefixItems", "additionalItems", "minimum", "maximum",
        "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
        "minItems", "maxItems", "minProperties", "maxProperties",
    }
)  # fmt: skip
"""The keywords by which a node narrows a value itself; `gather` sees to the combinators."""

_PERCENT: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")


class Gathered(NamedTuple):
    """All that one node says about a value, with references followed and `allOf` merged."""

    parts: tuple[Part, ...]
    """Keyword sets that all hold."""
    unions: tuple[list[Any], ...]
    """Lists of alternatives; of each list one alternative holds."""
    possible: bool
    """False where the schema `false` is among the parts."""
    broken: str | None
    """Why the node cannot be read: a reference that leads nowhere, or only to itself."""
    spent: frozenset[int] = frozenset()
    """The unions that were chosen from on the way here, by identity."""

    def choose(self, union: int, alternative: Gathered) -> Gathered:
        """Put *alternative* in the place of that union; a spent union does not come back."""
        spent = self.spent | {id(self.unions[union])}
        unions = _distinct((*self.unions, *alternative.unions))
        return Gathered(
            tuple(_distinct((*self.parts, *alternative.parts))),
            tuple(found for found in unions if id(found) not in spent),
            self.possible and alternative.possible,
            self.broken or alternative.broken,
            spent,
        )


class Document:
    """A JSON Schema as `$ref` sees it: one root, and names for places in it."""

    __slots__ = ("_found", "_names", "merged", "nodes", "root")

    def __init__(self, root: object) -> None:
        self.root = unwrap(root)
        # Filled and read by `Schema`: one for every node, and one for every set of merged nodes.
        self.nodes: dict[int, Any] = {}
        self.merged: dict[tuple[int, ...], Any] = {}
        self._found: dict[str, Any] = {}
        self._names: dict[str, Any] | None = None

    def find(self, reference: object) -> Any:
        """Return the node that *reference* names; raise `CoercionError` if there is not one."""
        if not isinstance(reference, str):
            raise CoercionError(f"a $ref must be a string, not {type(reference).__name__}")
        if reference not in self._found:
            self._found[reference] = self._look_up(reference)
        return self._found[reference]

    def _look_up(self, reference: str) -> Any:
        base, _, fragment = reference.partition("#")
        names = self._named_places()
        if base and base not in names:
            raise CoercionError(f"no such $ref: {reference!r} points outside the schema")
        node = names[base] if base else self.root
        fragment = _PERCENT.sub(_unescape_percent, fragment)
        if fragment and not fragment.startswith("/"):
            if "#" + fragment not in names:
                raise CoercionError(f"no such $ref: {reference!r} names no $anchor")
            return names["#" + fragment]
        for step in fragment.split("/")[1:]:
            node = _descend(node, step.replace("~1", "/").replace("~0", "~"), reference)
        return node

    def _named_places(self) -> dict[str, Any]:
        """Index every `$id` and (with ``#`` before it) every `$anchor`, once."""
        if self._names is None:
            names: dict[str, Any] = {}
            waiting, seen = [self.root], set()
            while waiting:
                node = waiting.pop()
                if not isinstance(node, (dict, list)) or id(node) in seen:
                    continue
                seen.add(id(node))
                if isinstance(node, dict):
                    _add_names(names, node)
                waiting.extend(node.values() if isinstance(node, dict) else node)
            self._names = names
        return self._names


def unwrap(node: Any) -> Any:
    """Take a schema out of ``{"jsonSchema": …}``, the wrapper that some tool kits hand over."""
    seen: set[int] = set()
    while isinstance(node, dict) and "jsonSchema" in node and id(node) not in seen:
        seen.add(id(node))
        node = node["jsonSchema"]
    return node


def gather(node: Any, document: Document) -> Gathered:
    """Flatten *node*; a reference that leads nowhere, or only to itself, is noted as broken."""
    parts: dict[int, Part] = {}
    unions: list[list[Any]] = []
    possible, broken, circular = True, None, None
    waiting = [node]
    while waiting:
        part = unwrap(waiting.pop())
        possible = possible and part is not False
        if not isinstance(part, dict):
            continue
        if id(part) in parts:
            circular = part.get("$ref", circular)
            continue
        parts[id(part)] = part
        unions.extend(_alternatives(part))
        found = list(part["allOf"]) if isinstance(part.get("allOf"), list) else []
        if "$ref" in part:
            try:
                found.insert(0, document.find(part["$ref"]))
            except CoercionError as exc:
                broken = broken or exc.reason
        waiting.extend(reversed(found))
    if circular is not None and not unions and not any(map(narrows, parts.values())):
        broken = broken or f"a $ref that only refers to itself: {circular!r}"
    return Gathered(tuple(parts.values()), tuple(unions), possible, broken)


def narrows(part: Part) -> bool:
    """Return whether *part* itself says anything about a value."""
    return not CONSTRAINTS.isdisjoint(part)


def _add_names(names: dict[str, Any], node: Part) -> None:
    for keyword, sign in (("$id", ""), ("$anchor", "#")):
        name = node.get(keyword)
        if isinstance(name, str) and name:
            names.setdefault(sign + name.removesuffix("#"), node)


def _alternatives(part: Part) -> list[list[Any]]:
    lists = [part.get("anyOf"), part.get("oneOf")]
    return [found for found in lists if isinstance(found, list) and found]


def _distinct(items: Iterable[Any]) -> list[Any]:
    return list({id(item): item for item in items}.values())


def _descend(node: Any, step: str, reference: str) -> Any:
    if isinstance(node, dict) and step in node:
        return unwrap(node[step])
    if isinstance(node, list) and _INDEX.fullmatch(step) and int(step) < len(node):
        return unwrap(node[int(step)])
    raise CoercionError(f"no such $ref: {reference!r} has no {step!r}")


def _unescape_percent(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace")
