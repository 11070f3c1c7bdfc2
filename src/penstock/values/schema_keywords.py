"""What the keywords of schema nodes mean: their types, where references point, and validation.

Keywords are read leniently: a keyword of the wrong shape is ignored. A set of types with "number"
always has "integer", so such sets can be joined and intersected directly.

A *document* is a whole JSON Schema; a `$ref` names a place in it by JSON pointer (``#``,
``#/$defs/X``, with ``~0 ~1`` and ``%`` escapes), by `$anchor` or by `$id`. Nothing is ever
fetched: a reference to anywhere else cannot be resolved. `gather` flattens a node into the plain
keyword sets that all hold for a value (the node itself, the target of its `$ref`, and its `allOf`),
and the lists of alternatives of which one must hold. It uses a list of nodes to visit and a set of
visited ones, so depth and cycles are harmless.

`Validation` checks as much as coercion and repair need: types, `enum`, `const`, `required`,
properties, items, all combinators, `not`, and the bounds in `_CHECKS`. `oneOf` is read as `anyOf`:
alternatives of tool schemas often overlap (integer and number), and a value that fits two of them
is still valid. An unknown property is refused only by ``additionalProperties: false``. Values
nested deeper than `MAX_DEPTH` are accepted. With alternatives the same value is checked against
the same schema many times, at every level of a nested value. The results are cached, so the work is
at most values times schema nodes.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from penstock.errors import CoercionError
from penstock.values.schema_patterns import safe_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.values.schema import Schema


Part = dict[str, Any]
"""The keywords of a schema node; references and combinators are resolved by `gather`."""

# From the strictest syntax to the most tolerant: any text is a string, so that type is tried last.
PREFERENCE: Final = ("object", "array", "boolean", "number", "integer", "string", "null")
"""The order in which coercion tries several types."""

ALL_TYPES: Final = frozenset(PREFERENCE)

_IMPLIED_TYPES: Final = {
    "properties": "object",
    "additionalProperties": "object",
    "patternProperties": "object",
    "items": "array",
    "prefixItems": "array",
}


def json_type(value: object) -> str:
    """Return the JSON type of *value*; ``""`` for a value that JSON does not have.

    A whole number is an integer, also as a float (4.0), and a bool is not a number.
    """
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    if value is None:
        return "null"
    # Before the integers: Python's booleans are integers.
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return ""


def allowed_types(part: Part) -> frozenset[str]:
    """Return the types that *part* allows, named or implied."""
    named = _named_types(part.get("type"))
    if not named:
        named = {json_type(member) for member in member_list(part) or ()} & ALL_TYPES
    if not named:
        named = {name for keyword, name in _IMPLIED_TYPES.items() if keyword in part}
    if not named:
        return ALL_TYPES
    # OpenAPI 3.0 and Gemini write `nullable`, JSON Schema has a type "null".
    if part.get("nullable") is True:
        named.add("null")
    return frozenset(named | {"integer"} if "number" in named else named)


def member_list(part: Part) -> list[Any] | None:
    """Return the values of `const` or `enum`, or None where there is neither."""
    if "const" in part:
        return [part["const"]]
    members = part.get("enum")
    return members if isinstance(members, list) and members else None


def declared(part: Part) -> dict[str, Any]:
    """Return the schemas of `properties` by name."""
    return _by_name(part, "properties")


def undeclared(parts: Iterable[Part], name: str) -> list[Any]:
    """Return the schemas of an undeclared property: by pattern, else as additional."""
    matching: list[Any] = []
    rest: list[Any] = []
    for part in parts:
        for pattern, raw in _by_name(part, "patternProperties").items():
            if safe_pattern(pattern).occurs_in(name):
                matching.append(raw)
        raw = part.get("additionalProperties")
        if isinstance(raw, dict) or raw is True:
            rest.append(raw)
    # `additionalProperties` counts only for names that no pattern matches.
    return matching or rest


def required_names(part: Part) -> list[str]:
    """Return the names of the required properties."""
    names = part.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def prefix_items(part: Part) -> list[Any]:
    """Return the schemas of the first items; older drafts have them in `items` itself."""
    # Draft 2020-12 renamed the list form of `items`.
    for keyword in ("prefixItems", "items"):
        found = part.get(keyword)
        if isinstance(found, list):
            return found
    return []


def item_schemas(parts: Iterable[Part], index: int) -> list[Any]:
    """Return the schemas of the item at *index*, an empty list if it is undeclared."""
    found: list[Any] = []
    for part in parts:
        prefix = prefix_items(part)
        rest = part.get("additionalItems" if isinstance(part.get("items"), list) else "items")
        if index < len(prefix):
            found.append(prefix[index])
        elif isinstance(rest, (dict, bool)):
            found.append(rest)
    return found


def _by_name(part: Part, keyword: str) -> dict[str, Any]:
    found = part.get(keyword)
    if not isinstance(found, dict):
        return {}
    return {name: raw for name, raw in found.items() if isinstance(name, str)}


def _named_types(said: object) -> set[str]:
    """Read the keyword `type`; names match in any case, because Gemini writes ``STRING``."""
    names = said if isinstance(said, list) else [said]
    return {name.lower() for name in names if isinstance(name, str)} & ALL_TYPES


# --- references ---

CONSTRAINTS: Final = frozenset(
    {
        "type", "enum", "const", "not", "properties", "patternProperties", "additionalProperties",
        "required", "items", "prefixItems", "additionalItems", "minimum", "maximum",
        "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
        "minItems", "maxItems", "minProperties", "maxProperties",
    }
)  # fmt: skip
"""The keywords that constrain a value; `gather` resolves the combinators."""

_PERCENT: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
# RFC 6901: no leading zeros.
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")


class Gathered(NamedTuple):
    """The constraints of one node, with references followed and `allOf` merged."""

    parts: tuple[Part, ...]
    """Keyword sets that all hold."""
    unions: tuple[list[Any], ...]
    """Lists of alternatives; of each list one alternative holds."""
    possible: bool
    """False if the schema `false` is among the parts."""
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
    """A JSON Schema as the target of `$ref`: one root, and names for places in it."""

    __slots__ = ("_found", "_names", "merged", "nodes", "root")

    def __init__(self, root: object) -> None:
        self.root = unwrap(root)
        # Filled by `Schema`: one for every node, and one for every set of merged nodes.
        self.nodes: dict[int, Any] = {}
        self.merged: dict[tuple[int, ...], Any] = {}
        self._found: dict[str, Any] = {}
        self._names: dict[str, Any] | None = None

    def find(self, reference: object) -> Any:
        """Return the node that *reference* names; raise `CoercionError` if it is missing."""
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
            # In this order (RFC 6901): "~01" is "~1" and not "/".
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
    """Return the schema in ``{"jsonSchema": …}``, the wrapper of the Vercel AI SDK."""
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
                # From draft 2019-09 on, keywords beside `$ref` count; older drafts ignore them, but
                # clients write `description` and `default` there.
                found.insert(0, document.find(part["$ref"]))
            except CoercionError as exc:
                broken = broken or exc.reason
        waiting.extend(reversed(found))
    if circular is not None and not unions and not any(map(narrows, parts.values())):
        broken = broken or f"a $ref that only refers to itself: {circular!r}"
    return Gathered(tuple(parts.values()), tuple(unions), possible, broken)


def narrows(part: Part) -> bool:
    """Return whether *part* itself constrains a value."""
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


_Value = TypeVar("_Value")


class cached(Generic[_Value]):  # noqa: N801 - used as a decorator
    """`functools.cached_property` without the lock that it has before Python 3.12.

    With the lock, the first coercion by a schema takes a third longer.
    """

    def __init__(self, find: Callable[[Any], _Value]) -> None:
        self.__doc__ = find.__doc__
        self._find = find
        self._name = find.__name__

    def __get__(self, owner: Any, _class: type) -> _Value:
        if owner is None:
            return self  # type: ignore[return-value]  # for documentation tools
        value = owner.__dict__[self._name] = self._find(owner)
        return value


# --- validation ---

Check = Callable[[Any, Any], bool]
"""Returns whether a value keeps within a bound."""

Limits = dict[str, list[tuple[Check, Any]]]
"""The checks, each with its bound, by the JSON type that they apply to."""


def collect_limits(parts: Iterable[Part]) -> Limits:
    """Return the checks of *parts*: those that are cheap, so not `uniqueItems` or `format`."""
    found: Limits = {}
    for part in parts:
        for keyword, (types, check) in _CHECKS.items():
            bound = part.get(keyword)
            if _is_bound(keyword, bound):
                for name in types:
                    found.setdefault(name, []).append((check, bound))
    return found


def _is_bound(keyword: str, bound: object) -> bool:
    if keyword == "pattern":
        return isinstance(bound, str)
    return isinstance(bound, (int, float)) and not isinstance(bound, bool)


def _is_multiple(value: Any, step: Any) -> bool:
    # Fractions are accepted: as a float, 0.3 is not a multiple of 0.1.
    return not (isinstance(value, int) and isinstance(step, int) and step > 0) or value % step == 0


def _keeps_pattern(text: Any, pattern: Any) -> bool:
    return not safe_pattern(pattern).forbids(text)


def _is_long(value: Any, bound: Any) -> bool:
    return bool(len(value) >= bound)


def _is_short(value: Any, bound: Any) -> bool:
    return bool(len(value) <= bound)


_NUMBERS: Final = ("number", "integer")
_CHECKS: Final[dict[str, tuple[tuple[str, ...], Check]]] = {
    "minimum": (_NUMBERS, operator.ge),
    "maximum": (_NUMBERS, operator.le),
    "exclusiveMinimum": (_NUMBERS, operator.gt),
    "exclusiveMaximum": (_NUMBERS, operator.lt),
    "multipleOf": (_NUMBERS, _is_multiple),
    "minLength": (("string",), _is_long),
    "maxLength": (("string",), _is_short),
    "pattern": (("string",), _keeps_pattern),
    "minItems": (("array",), _is_long),
    "maxItems": (("array",), _is_short),
    "minProperties": (("object",), _is_long),
    "maxProperties": (("object",), _is_short),
}


MAX_DEPTH: Final = 64
"""How deep a value is checked: deeper than any real argument, well within Python's stack."""


class Validation:
    """One round of checks of values that stay alive and unchanged while it lasts."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[bool, object, Schema]] = {}

    def accepts(self, value: object, schema: Schema, depth: int = 0) -> bool:
        """Return whether *value* satisfies *schema*."""
        if depth > MAX_DEPTH or schema.free:
            return True
        if not schema.unions and not schema.refused:
            return self._judge(value, schema, depth)
        key = (id(value), id(schema))
        if key not in self._known:
            # Value and schema are kept with the result, so that their ids are not reused. A schema
            # that refers to itself for the same value is not satisfied by that alone.
            self._known[key] = False, value, schema
            self._known[key] = self._judge(value, schema, depth), value, schema
        return self._known[key][0]

    def _judge(self, value: object, schema: Schema, depth: int) -> bool:
        if value is None and schema.marked_null:
            return True
        kind = json_type(value)
        if kind not in schema.types:
            return False
        if schema.members is not None and value not in schema.members:
            return False
        for check, bound in schema.limits.get(kind, ()):
            if not check(value, bound):
                return False
        for union in schema.unions:
            if not self._any_accepts(value, union, depth):
                return False
        if schema.refused and self._any_accepts(value, schema.refused, depth):
            return False
        return self._judge_inside(value, schema.trunk, depth + 1)

    def _any_accepts(self, value: object, schemas: tuple[Schema, ...], depth: int) -> bool:
        for schema in schemas:  # noqa: SIM110 - `any` takes one more stack frame per level
            if self.accepts(value, schema, depth):
                return True
        return False

    def _judge_inside(self, value: object, schema: Schema, depth: int) -> bool:
        if isinstance(value, dict):
            return self._judge_object(value, schema, depth)
        if isinstance(value, list):
            for at, inner in enumerate(value):
                item = schema.item(at)
                if item is not None and not self.accepts(inner, item, depth):
                    return False
        return True

    def _judge_object(self, value: dict[Any, Any], schema: Schema, depth: int) -> bool:
        if not all(name in value for name in schema.required):
            return False
        for name, inner in value.items():
            child = schema.property(name) if isinstance(name, str) else None
            if child is None:
                if schema.closed:
                    return False
            elif not self.accepts(inner, child, depth):
                return False
        return True
