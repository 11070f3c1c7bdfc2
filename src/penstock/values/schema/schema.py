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

from typing import TYPE_CHECKING, Any, Final

from penstock.errors import CoercionError
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
from penstock.values.schema.limits import Limits, limits_of
from penstock.values.schema.members import Members
from penstock.values.schema.nodes import Node
from penstock.values.schema.validate import Validation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.values.schema.references import Document, Gathered

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
        """Tell whether *value* satisfies the schema, as far as `validate` looks."""
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
