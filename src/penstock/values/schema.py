"""A JSON Schema node for coercion and parsing: its types, children and members.

A `Schema` is a view of a node and of the document that its references point into. Look-ups follow
`$ref`, `allOf`, `anyOf` and `oneOf` on the way. They are made on first use and cached, so a tool's
schema is read once for any number of calls. The document must not change in the meantime.

How the loose schemas of real tools are read:

* without `type`, `enum` and `const` give the types of their members, `properties` and
  `additionalProperties` mean an object, `items` and `prefixItems` an array;
* a property or an item that several alternatives declare may be what any of them says;
* a keyword of the wrong shape is ignored, and a reference that leads nowhere makes its node accept
  everything: only `Schema.resolve` raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock import _json
from penstock.errors import CoercionError, PenstockError
from penstock.values.schema_keywords import (
    ALL_TYPES,
    PREFERENCE,
    Document,
    Gathered,
    Limits,
    Part,
    Validation,
    allowed_types,
    cached,
    collect_limits,
    declared,
    gather,
    item_schemas,
    member_list,
    narrows,
    prefix_items,
    required_names,
    undeclared,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


# --- enum and const -----------------------------------------------------------------------------
#
# A text means a member if that is the only one that equals it after trimming and folding: of case,
# of quotes (their shape, and those around the text), and of inner white space. A member that is
# not a string is compared by its JSON text, so ``"2"`` finds 2.


_QUOTES: Final = str.maketrans(dict.fromkeys("\"'`\u2018\u2019\u201a\u201c\u201d\u201e", "'"))
_EDGES: Final = " '"

NO_MEMBER: Final = object()
"""The result of `Members.meant_by` when no single member is meant."""


class Members:
    """The members of an `enum`, or the one of a `const`, prepared for look-up."""

    __slots__ = ("_containers", "_folded", "_scalars", "values")

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        self._scalars = {_key(value) for value in values if not isinstance(value, (dict, list))}
        self._containers = [value for value in values if isinstance(value, (dict, list))]
        self._folded: dict[str, list[Any]] | None = None

    @classmethod
    def common(cls, lists: list[list[Any]]) -> Members:
        """Return the values that all *lists* have: an `allOf` may have several `enum`s."""
        first, *others = map(cls, lists)
        return cls([value for value in first.values if all(value in other for other in others)])

    def __contains__(self, value: object) -> bool:
        if isinstance(value, (dict, list)):
            return any(same(value, member) for member in self._containers)
        return _key(value) in self._scalars

    def meant_by(self, text: str) -> Any:
        """Return the one member that *text* means, or `NO_MEMBER`."""
        if self._folded is None:
            folded: dict[str, list[Any]] = {}
            for value in self.values:
                _fold_in(folded, value)
            self._folded = folded
        found = self._folded.get(_fold(text), [])
        return found[0] if len(found) == 1 else NO_MEMBER


def same(one: object, other: object) -> bool:
    """Return whether two values are equal as JSON: 1 equals 1.0, but not True."""
    waiting = [(one, other)]
    seen: set[tuple[int, int]] = set()
    while waiting:
        a, b = waiting.pop()
        if not isinstance(a, (dict, list)):
            if isinstance(b, (dict, list)) or _key(a) != _key(b):
                return False
        elif (id(a), id(b)) not in seen:
            seen.add((id(a), id(b)))
            if isinstance(a, dict):
                if not isinstance(b, dict) or a.keys() != b.keys():
                    return False
                waiting.extend((a[name], b[name]) for name in a)
            else:
                if not isinstance(b, list) or len(a) != len(b):
                    return False
                waiting.extend(zip(a, b, strict=True))
    return True


def _key(value: object) -> tuple[str, object]:
    if value is None or isinstance(value, bool):
        return "word", value
    if isinstance(value, (int, float)):
        return "number", value
    if isinstance(value, str):
        return "text", value
    return "other", id(value)


def _fold_in(folded: dict[str, list[Any]], value: object) -> None:
    try:
        text = value if isinstance(value, str) else _json.encode(value).decode()
    except PenstockError:  # not a JSON value, so no text means it
        return
    equal = folded.setdefault(_fold(text), [])
    if not any(same(value, other) for other in equal):
        equal.append(value)


def _fold(text: str) -> str:
    return " ".join(text.translate(_QUOTES).casefold().split()).strip(_EDGES)


# --- nodes --------------------------------------------------------------------------------------
#
# A node is identified by its dict, and there is one `Schema` for each, so that recursive schemas
# are finite graphs and every look-up is made once. A node consists of *parts* (keyword sets that
# all hold) and of *unions* (lists of alternatives; of each, one holds).


MAX_NESTED_UNIONS: Final = 32
"""How deep alternatives may hold alternatives of their own; deeper ones allow anything."""

MAX_MERGED: Final = 4096
"""How many nodes are merged for undeclared names: models choose these, so memory is limited."""


class Schema:
    """One node of a JSON Schema, together with the document that its `$ref`s point into.

    *document* is a JSON Schema (a dict or a bool), one wrapped in ``{"jsonSchema": …}``, or None,
    which means that nothing is known; ``{}`` means that any value is valid.
    """

    def __init__(
        self,
        document: object = None,
        *,
        within: Document | None = None,
        nesting: int = 0,
        gathered: Gathered | None = None,
        trunk_of: Schema | None = None,
    ) -> None:
        self.document = Document(document) if within is None else within
        self.raw: Any = self.document.root if within is None else document
        self.nesting = nesting
        self._trunk_of = trunk_of
        self._choices: dict[tuple[int, int], Schema] = {}
        self._items: dict[int, Schema | None] = {}
        if gathered is not None:
            self.__dict__["gathered"] = gathered
        if within is None:
            self.document.nodes[id(self.raw)] = self

    @classmethod
    def of(cls, document: object) -> Schema:
        """Return *document* itself if it is a `Schema`, else make one of it."""
        return document if isinstance(document, Schema) else cls(document)

    def __repr__(self) -> str:
        return f"Schema({self.raw!r})"

    def accepts(self, value: object) -> bool:
        """Return whether *value* satisfies the schema, as far as `Validation` checks."""
        return Validation().accepts(value, self)

    def resolve(self) -> Schema:
        """Return this schema if it can be read; raise `CoercionError` for a `$ref` to nowhere."""
        if self.broken is not None:
            raise CoercionError(self.broken)
        return self

    # --- parts and alternatives ------------------------------------------------------------------

    @cached
    def gathered(self) -> Gathered:
        """The node with its references followed; most other look-ups start here."""
        raw = self.raw if self.nesting <= MAX_NESTED_UNIONS else True
        return gather(raw, self.document)

    @property
    def absent(self) -> bool:
        """Whether nothing is known about the value: the schema is None."""
        return self.raw is None

    @property
    def broken(self) -> str | None:
        """Why this node cannot be read, or None. A broken node accepts every value."""
        return self.gathered.broken

    @property
    def possible(self) -> bool:
        """Whether any value is valid: not so for the schema ``false``."""
        return self.gathered.possible

    @cached
    def parts(self) -> tuple[Part, ...]:
        """The keyword sets that all hold: the node's own, its reference's, those of `allOf`."""
        return self.gathered.parts

    @cached
    def unions(self) -> tuple[tuple[Schema, ...], ...]:
        """The alternatives: of every inner tuple (an `anyOf` or a `oneOf`) one schema holds."""
        return tuple(map(self._spread, self.gathered.unions))

    @cached
    def family(self) -> tuple[Schema, ...]:
        """Every alternative, and the alternatives of alternatives, in order and once."""
        found: dict[int, Schema] = {}
        waiting = [schema for union in reversed(self.unions) for schema in reversed(union)]
        while waiting:
            schema = waiting.pop()
            if schema is not self and id(schema) not in found:
                found[id(schema)] = schema
                waiting.extend(inner for union in schema.unions for inner in reversed(union))
        return tuple(found.values())

    @cached
    def refused(self) -> tuple[Schema, ...]:
        """The schemas under `not`: a valid value satisfies none of them."""
        found = [part["not"] for part in self.parts if isinstance(part.get("not"), (dict, bool))]
        return tuple(self._node(raw, self.nesting + 1) for raw in found)

    @cached
    def has_trunk(self) -> bool:
        """Whether the node has constraints besides its alternatives."""
        return not self.possible or any(map(narrows, self.parts))

    @cached
    def trunk(self) -> Schema:
        """The node without its alternatives, but of their types.

        A child that only an alternative declares is free here.
        """
        if not self.unions:
            return self
        return self._child(self.raw, self.nesting, self.gathered._replace(unions=()), self)

    @cached
    def free(self) -> bool:
        """Whether every value is valid as it is: ``true``, ``{}``, None, a broken reference."""
        return not (self.gathered.unions or self.has_trunk) or self.broken is not None

    @property
    def marked_null(self) -> bool:
        """Whether the node itself has ``nullable: true``, over whatever it refers to."""
        return bool(self.parts) and self.parts[0].get("nullable") is True

    def choose(self, union: int, alternative: Schema) -> Schema:
        """Return the schema of a value once *alternative* is chosen in that union.

        The other unions stay open. One that was chosen from before does not come back, so a
        schema that refers to itself comes to an end.
        """
        key = (union, id(alternative))
        if key not in self._choices:
            gathered = self.gathered.choose(union, alternative.gathered)
            self._choices[key] = self._child(self.raw, self.nesting + 1, gathered)
        return self._choices[key]

    # --- types, members, limits ------------------------------------------------------------------

    @cached
    def types(self) -> frozenset[str]:
        """The JSON types that a value may have; "number" never comes without "integer"."""
        self.__dict__["types"] = frozenset()  # for a schema that refers to itself
        try:
            return self._find_types()
        except RecursionError:
            del self.__dict__["types"]
            raise

    @cached
    def settled_types(self) -> frozenset[str]:
        """The types whose values are valid as they are: no member or alternative to compare with.

        Values inside objects and arrays have schemas of their own.
        """
        if self.absent or self.unions or self.members is not None:
            return frozenset()
        return self.types - {"array", "object"}

    @cached
    def wants(self) -> str | None:
        """The type that coercion prefers, or None where any type is allowed."""
        if self.types == ALL_TYPES:
            return None
        return next((name for name in PREFERENCE if name in self.types), None)

    @cached
    def is_string(self) -> bool:
        """Whether only a string is allowed, without `enum` or `const`, so that it may stream."""
        if self.types != {"string"} or self.members is not None:
            return False
        return all(schema.members is None for schema in self.family)

    @property
    def nullable(self) -> bool:
        """Whether null is allowed, by ``nullable: true`` or as a type."""
        return "null" in self.types

    @cached
    def members(self) -> Members | None:
        """The values of `enum` or `const`, or None where there is neither."""
        lists = [found for part in self.parts if (found := member_list(part)) is not None]
        return Members.common(lists) if lists else None

    @cached
    def limits(self) -> Limits:
        """The bounds on numbers, lengths, sizes and text, by the type that they apply to."""
        return collect_limits(self.parts)

    # --- objects ---------------------------------------------------------------------------------

    @cached
    def properties(self) -> Mapping[str, Schema]:
        """Every declared property, through references, `allOf` and all alternatives."""
        own, *offers = [_declared(schema.parts) for schema in (self, *self.family)]
        offered: dict[str, list[list[Any]]] = {}
        for names in offers:
            for name, raws in names.items():
                offered.setdefault(name, []).append(raws)
        found = {
            name: self._merge(own.get(name, []), offered.get(name, [])) for name in own | offered
        }
        if self._trunk_of is None:
            return found
        return dict.fromkeys(self._trunk_of.properties, self._node(True)) | found

    @cached
    def required(self) -> tuple[str, ...]:
        """The required properties, without those that only an alternative requires."""
        names = [name for part in self.parts for name in required_names(part)]
        return tuple(dict.fromkeys(names))

    @cached
    def closed(self) -> bool:
        """Whether unknown properties are refused: ``additionalProperties: false``."""
        return any(part.get("additionalProperties") is False for part in self.parts)

    # --- arrays ----------------------------------------------------------------------------------

    @cached
    def prefix(self) -> int:
        """How many items have a schema of their own: the length of `prefixItems`."""
        parts = [part for schema in (self, *self.family) for part in schema.parts]
        return max((len(prefix_items(part)) for part in parts), default=0)

    def item(self, index: int) -> Schema | None:
        """Return the schema of the item at *index*, or None if it is undeclared."""
        index = min(index, self.prefix)
        if index not in self._items:
            own, *offers = [item_schemas(schema.parts, index) for schema in (self, *self.family)]
            elsewhere = self._trunk_of and self._trunk_of.item(index)
            self._items[index] = self._merged_child(own, offers, elsewhere)
        return self._items[index]

    # --- children --------------------------------------------------------------------------------

    def _node(self, raw: Any, nesting: int = 0) -> Schema:
        """Return the one `Schema` of a node of this document."""
        known: Schema | None = self.document.nodes.get(id(raw))
        if known is not None and known.raw is raw:
            return known
        fresh = self.document.nodes[id(raw)] = self._child(raw, nesting)
        return fresh

    def _child(
        self,
        raw: Any,
        nesting: int,
        gathered: Gathered | None = None,
        trunk_of: Schema | None = None,
    ) -> Schema:
        return Schema(
            raw, within=self.document, nesting=nesting, gathered=gathered, trunk_of=trunk_of
        )

    def _spread(self, alternatives: list[Any]) -> tuple[Schema, ...]:
        """List alternatives; one that is only a union itself is replaced by its own."""
        found: dict[int, Schema] = {}
        seen = {id(alternatives)}
        waiting = list(reversed(alternatives))
        while waiting:
            schema = self._node(waiting.pop(), self.nesting + 1)
            inner = schema.gathered
            if schema.has_trunk or schema.marked_null or inner.broken or len(inner.unions) != 1:
                found[id(schema)] = schema
            elif id(inner.unions[0]) not in seen:
                seen.add(id(inner.unions[0]))
                waiting.extend(reversed(inner.unions[0]))
        return tuple(found.values())

    def _merged_child(
        self, own: list[Any], offers: list[list[Any]], elsewhere: Schema | None
    ) -> Schema | None:
        if own or any(offers):
            return self._merge(own, offers)
        return None if elsewhere is None else self._node(True)

    def _find_types(self) -> frozenset[str]:
        if self._trunk_of is not None:
            return self._trunk_of.types
        if self.broken is not None:
            return ALL_TYPES
        types = ALL_TYPES if self.possible else frozenset[str]()
        for part in self.parts:
            types &= allowed_types(part)
        for union in self.unions:
            types &= frozenset[str]().union(*(schema.types for schema in union))
        return types | {"null"} if self.marked_null else types

    def _merge(self, own: list[Any], offers: list[list[Any]]) -> Schema:
        """Return the schema of all *own* nodes and of all nodes of one of the *offers*."""
        offers = [raws for raws in offers if raws]
        if len(own) + sum(map(len, offers)) == 1:
            return self._node((own or offers[0])[0])
        # The same nodes are merged only once, so recursive schemas stay finite.
        merged: dict[tuple[int, ...], Schema] = self.document.merged
        key = tuple(id(raw) for raws in (own, *offers) for raw in (None, *raws))
        if key not in merged:
            choices = [{"allOf": raws} if len(raws) > 1 else raws[0] for raws in offers]
            merged[key] = self._child({"allOf": own, "anyOf": choices}, 0)
        return merged[key]

    # This is the last method because its name hides the decorator.
    def property(self, name: str) -> Schema | None:
        """Return the schema of the property *name*, or None if it is unknown.

        A declaration precedes `patternProperties`, and these precede `additionalProperties`.
        """
        known = self.properties.get(name)
        if known is not None:
            return known
        own, *offers = [undeclared(schema.parts, name) for schema in (self, *self.family)]
        if len(self.document.merged) >= MAX_MERGED and sum(map(len, (own, *offers))) > 1:
            return self._node(True)
        elsewhere = self._trunk_of and self._trunk_of.property(name)
        return self._merged_child(own, offers, elsewhere)


def _declared(parts: Iterable[Part]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for part in parts:
        for name, raw in declared(part).items():
            found.setdefault(name, []).append(raw)
    return found
