"""A JSON Schema node as coercion and parsing ask about it: which types, which child, which members.

A `Schema` is a view of a node and of the document that its references point into. Look-ups follow
`$ref`, `allOf`, `anyOf` and `oneOf` on the way, are made when first asked for and then kept, so a
tool's schema is read once however many calls follow. The document must not change meanwhile.

How a schema is read where tool schemas in the wild are loose:

* without `type`, `enum` and `const` give the types of their members, `properties` and
  `additionalProperties` mean an object, `items` and `prefixItems` an array;
* a property or an item that several alternatives declare may be what any of them says;
* a keyword of the wrong shape is as good as absent, and a reference that leads nowhere makes its
  node accept everything: only `Schema.resolve` complains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from penstock import _json
from penstock.errors import CoercionError, PenstockError
from penstock.values.schema.keywords import (
    ALL_TYPES,
    PREFERENCE,
    Part,
    declared,
    item_schemas,
    member_list,
    prefix_items,
    required_names,
    types_of,
    undeclared,
)
from penstock.values.schema.references import Document, Gathered, gather, narrows
from penstock.values.schema.validate import Limits, Validation, limits_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


# The values that an `enum` or a `const` allows, and the one that a model most likely meant.
#
# A member is meant when it is the only one that equals the text after trimming and folding:
# case, the shape of quotes and those around the text, and runs of inner white space. A member
# that is not a string is compared by its JSON text, so ``"2"`` finds 2.


_QUOTES: Final = str.maketrans(dict.fromkeys("\"'`\u2018\u2019\u201a\u201c\u201d\u201e", "'"))
_EDGES: Final = " '"

NO_MEMBER: Final = object()
"""What `Members.meant_by` answers when no single member is meant."""


class Members:
    """The members of an `enum` (or the one of a `const`), ready for look-up."""

    __slots__ = ("_containers", "_folded", "_scalars", "values")

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        self._scalars = {_key(value) for value in values if not isinstance(value, (dict, list))}
        self._containers = [value for value in values if isinstance(value, (dict, list))]
        self._folded: dict[str, list[Any]] | None = None

    @classmethod
    def common(cls, lists: list[list[Any]]) -> Members:
        """Keep what every one of *lists* holds: an `allOf` may name members more than once."""
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
    """Return whether two values are equal as JSON: 1 is 1.0, but True is not 1."""
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
    except PenstockError:  # not a JSON value: no text can mean it
        return
    equal = folded.setdefault(_fold(text), [])
    if not any(same(value, other) for other in equal):
        equal.append(value)


def _fold(text: str) -> str:
    return " ".join(text.translate(_QUOTES).casefold().split()).strip(_EDGES)


# The nodes of a JSON Schema, and how references, `allOf` and alternatives tie them together.
#
# A node is known by the identity of the dict that it views, and there is one `Node` for each,
# so that recursive schemas are finite graphs and every look-up is made once. What a node says
# is its *parts* (keyword sets that all hold) and its *unions* (alternatives, one of which holds
# in each).


MAX_NESTED_UNIONS: Final = 32
"""How deep alternatives may hold alternatives of their own; deeper ones allow anything."""


class Node:
    """One node of a schema document; `Schema` adds what can be asked about values."""

    __slots__ = (
        "_choices", "_family", "_free", "_gathered", "_has_trunk", "_refused", "_trunk",
        "_trunk_of", "_unions", "document", "nesting", "raw",
    )  # fmt: skip

    def __init__(
        self,
        document: object = None,
        *,
        within: Document | None = None,
        nesting: int = 0,
        gathered: Gathered | None = None,
        trunk_of: Self | None = None,
    ) -> None:
        self.document = Document(document) if within is None else within
        self.raw: Any = self.document.root if within is None else document
        self.nesting = nesting
        self._gathered = gathered
        self._trunk_of = trunk_of
        self._trunk: Self | None = None
        self._choices: dict[tuple[int, int], Self] = {}
        self._unions: tuple[tuple[Self, ...], ...] | None = None
        self._family: tuple[Self, ...] | None = None
        self._refused: tuple[Self, ...] | None = None
        self._has_trunk: bool | None = None
        self._free: bool | None = None
        if within is None:
            self.document.nodes[id(self.raw)] = self

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
        """Whether any value at all is right: not so for the schema ``false``."""
        return self.gathered.possible

    @property
    def has_trunk(self) -> bool:
        """Whether the node says anything besides its alternatives."""
        if self._has_trunk is None:
            self._has_trunk = not self.possible or any(map(narrows, self.parts))
        return self._has_trunk

    @property
    def trunk(self) -> Self:
        """The node without its alternatives, but of their types.

        A child that only an alternative speaks of is free here.
        """
        if self._trunk is None:
            own = self.gathered._replace(unions=())
            self._trunk = self._child(self.raw, self.nesting, own, self) if self.unions else self
        return self._trunk

    @property
    def free(self) -> bool:
        """Whether every value is right as it is: ``true``, ``{}``, None, a broken reference."""
        if self._free is None:
            silent = not (self.gathered.unions or self.has_trunk)
            self._free = silent or self.broken is not None
        return self._free

    @property
    def marked_null(self) -> bool:
        """Whether the node itself says ``nullable: true``, over whatever it refers to."""
        return bool(self.parts) and self.parts[0].get("nullable") is True

    @property
    def parts(self) -> tuple[Part, ...]:
        """The keyword sets that all hold: the node's own, its reference's, those of `allOf`."""
        return self.gathered.parts

    @property
    def unions(self) -> tuple[tuple[Self, ...], ...]:
        """The alternatives: of every inner tuple (an `anyOf` or a `oneOf`) one schema holds."""
        if self._unions is None:
            self._unions = tuple(map(self._spread, self.gathered.unions))
        return self._unions

    @property
    def family(self) -> tuple[Self, ...]:
        """Every alternative, and the alternatives of alternatives, in order and once."""
        if self._family is None:
            found: dict[int, Self] = {}
            waiting = [schema for union in reversed(self.unions) for schema in reversed(union)]
            while waiting:
                schema = waiting.pop()
                if schema is not self and id(schema) not in found:
                    found[id(schema)] = schema
                    waiting.extend(inner for union in schema.unions for inner in reversed(union))
            self._family = tuple(found.values())
        return self._family

    @property
    def refused(self) -> tuple[Self, ...]:
        """The schemas under `not`: a right value satisfies none of them."""
        if self._refused is None:
            nesting = self.nesting + 1
            found = [
                part["not"] for part in self.parts if isinstance(part.get("not"), (dict, bool))
            ]
            self._refused = tuple(self._node(raw, nesting) for raw in found)
        return self._refused

    def choose(self, union: int, alternative: Self) -> Self:
        """Return what holds for a value once *alternative* is chosen in that union.

        The other unions stay open. One that was chosen from before does not come back, so a
        schema that refers to itself comes to an end.
        """
        key = (union, id(alternative))
        if key not in self._choices:
            gathered = self.gathered.choose(union, alternative.gathered)
            self._choices[key] = self._child(self.raw, self.nesting + 1, gathered)
        return self._choices[key]

    @property
    def gathered(self) -> Gathered:
        """The node with its references followed; most other look-ups start here."""
        if self._gathered is None:
            raw = self.raw if self.nesting <= MAX_NESTED_UNIONS else True
            self._gathered = gather(raw, self.document)
        return self._gathered

    def _node(self, raw: Any, nesting: int = 0) -> Self:
        """Return the one `Schema` of a node of this document; nodes are known by identity."""
        known: Self | None = self.document.nodes.get(id(raw))
        if known is not None and known.raw is raw:
            return known
        fresh = self.document.nodes[id(raw)] = self._child(raw, nesting)
        return fresh

    def _child(
        self,
        raw: Any,
        nesting: int,
        gathered: Gathered | None = None,
        trunk_of: Self | None = None,
    ) -> Self:
        return self.__class__(
            raw, within=self.document, nesting=nesting, gathered=gathered, trunk_of=trunk_of
        )

    def _spread(self, alternatives: list[Any]) -> tuple[Self, ...]:
        """List alternatives; one that is only a union itself is replaced by its own."""
        found: dict[int, Self] = {}
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


MAX_MERGED: Final = 4096
"""How many nodes are merged for undeclared names, which models choose: they must fill no memory."""


class Schema(Node):
    """One node of a JSON Schema, together with the document that its `$ref`s point into.

    *document* is a JSON Schema (a dict or a bool), one wrapped in ``{"jsonSchema": …}``, or None
    for "nothing is known", which is not the same as ``{}``: "anything is right".
    """

    __slots__ = (
        "_closed", "_items", "_limits", "_members", "_prefix", "_properties", "_required", "_types",
    )  # fmt: skip

    def __init__(
        self,
        document: object = None,
        *,
        within: Document | None = None,
        nesting: int = 0,
        gathered: Gathered | None = None,
        trunk_of: Schema | None = None,
    ) -> None:
        super().__init__(
            document, within=within, nesting=nesting, gathered=gathered, trunk_of=trunk_of
        )
        self._types: frozenset[str] | None = None
        self._members: tuple[Members | None] | None = None
        self._limits: Limits | None = None
        self._required: tuple[str, ...] | None = None
        self._closed: bool | None = None
        self._properties: dict[str, Schema] | None = None
        self._prefix: int | None = None
        self._items: dict[int, Schema | None] = {}

    @classmethod
    def of(cls, document: object) -> Schema:
        """Return *document* itself if it is a `Schema` already, else make one of it."""
        return document if isinstance(document, Schema) else cls(document)

    def __repr__(self) -> str:
        return f"Schema({self.raw!r})"

    def accepts(self, value: object) -> bool:
        """Return whether *value* satisfies the schema, as far as `validate` looks."""
        return Validation().accepts(value, self)

    def resolve(self) -> Schema:
        """Return this schema if it can be read; raise `CoercionError` for a `$ref` to nowhere."""
        if self.broken is not None:
            raise CoercionError(self.broken)
        return self

    # --- types, members, limits ------------------------------------------------------------------

    @property
    def types(self) -> frozenset[str]:
        """The JSON types that a value may have; "number" never comes without "integer"."""
        if self._types is None:
            self._types = frozenset()  # what a cycle sees
            try:
                self._types = self._find_types()
            except RecursionError:
                self._types = None
                raise
        return self._types

    @property
    def wants(self) -> str | None:
        """The type that coercion aims at first, or None where any type will do."""
        if self.types == ALL_TYPES:
            return None
        return next((name for name in PREFERENCE if name in self.types), None)

    @property
    def is_string(self) -> bool:
        """Whether a string is allowed and nothing else, without `enum` or `const`: may stream."""
        if self.types != {"string"} or self.members is not None:
            return False
        return all(schema.members is None for schema in self.family)

    @property
    def nullable(self) -> bool:
        """Whether null is allowed, be it by ``nullable: true`` or as a type."""
        return "null" in self.types

    @property
    def members(self) -> Members | None:
        """What `enum` or `const` allow, or None where neither is said."""
        if self._members is None:
            lists = [found for part in self.parts if (found := member_list(part)) is not None]
            self._members = (Members.common(lists) if lists else None,)
        return self._members[0]

    @property
    def limits(self) -> Limits:
        """The bounds on numbers, lengths, sizes and text, by the type that they bind."""
        if self._limits is None:
            self._limits = limits_of(self.parts)
        return self._limits

    # --- objects ---------------------------------------------------------------------------------

    @property
    def properties(self) -> Mapping[str, Schema]:
        """Every declared property, through references, `allOf` and all alternatives."""
        if self._properties is None:
            own, *offers = [_declared(schema.parts) for schema in (self, *self.family)]
            offered: dict[str, list[list[Any]]] = {}
            for names in offers:
                for name, raws in names.items():
                    offered.setdefault(name, []).append(raws)
            self._properties = {
                name: self._merge(own.get(name, []), offered.get(name, []))
                for name in own | offered
            }
            if self._trunk_of is not None:
                free = dict.fromkeys(self._trunk_of.properties, self._node(True))
                self._properties = free | self._properties
        return self._properties

    @property
    def required(self) -> tuple[str, ...]:
        """The properties that must be there, apart from those that only an alternative asks for."""
        if self._required is None:
            names = [name for part in self.parts for name in required_names(part)]
            self._required = tuple(dict.fromkeys(names))
        return self._required

    @property
    def closed(self) -> bool:
        """Whether unknown properties are refused: ``additionalProperties: false``."""
        if self._closed is None:
            self._closed = any(part.get("additionalProperties") is False for part in self.parts)
        return self._closed

    # --- arrays ----------------------------------------------------------------------------------

    @property
    def prefix(self) -> int:
        """How many items have a schema of their own: the length of `prefixItems`."""
        if self._prefix is None:
            parts = [part for schema in (self, *self.family) for part in schema.parts]
            self._prefix = max((len(prefix_items(part)) for part in parts), default=0)
        return self._prefix

    def item(self, index: int) -> Schema | None:
        """Return the schema of the item at *index*, or None where nothing is said about it."""
        index = min(index, self.prefix)
        if index not in self._items:
            own, *offers = [item_schemas(schema.parts, index) for schema in (self, *self.family)]
            elsewhere = self._trunk_of and self._trunk_of.item(index)
            self._items[index] = self._child_of(own, offers, elsewhere)
        return self._items[index]

    # --- how it is found ------------------------------------------------------------------------

    def _child_of(
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
            types &= types_of(part)
        for union in self.unions:
            types &= frozenset[str]().union(*(schema.types for schema in union))
        return types | {"null"} if self.marked_null else types

    def _merge(self, own: list[Any], offers: list[list[Any]]) -> Schema:
        """Return the schema for which all of *own* holds, and all of one of the *offers*."""
        offers = [raws for raws in offers if raws]
        if len(own) + sum(map(len, offers)) == 1:
            return self._node((own or offers[0])[0])
        # What is merged of the same nodes is one node, so recursive schemas stay finite.
        merged: dict[tuple[int, ...], Schema] = self.document.merged
        key = tuple(id(raw) for raws in (own, *offers) for raw in (None, *raws))
        if key not in merged:
            choices = [{"allOf": raws} if len(raws) > 1 else raws[0] for raws in offers]
            merged[key] = self._child({"allOf": own, "anyOf": choices}, 0)
        return merged[key]

    # The last method, since its name hides the decorator from what would follow.
    def property(self, name: str) -> Schema | None:
        """Return the schema of the property *name*, or None where nothing is said about it.

        A declaration goes before `patternProperties`, and these before `additionalProperties`.
        """
        known = self.properties.get(name)
        if known is not None:
            return known
        own, *offers = [undeclared(schema.parts, name) for schema in (self, *self.family)]
        if len(self.document.merged) >= MAX_MERGED and sum(map(len, (own, *offers))) > 1:
            return self._node(True)
        elsewhere = self._trunk_of and self._trunk_of.property(name)
        return self._child_of(own, offers, elsewhere)


def _declared(parts: Iterable[Part]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for part in parts:
        for name, raw in declared(part).items():
            found.setdefault(name, []).append(raw)
    return found
