"""The nodes of a JSON Schema, and how references, `allOf` and alternatives tie them together.

A node is known by the identity of the dict that it views, and there is one `Node` for each, so that
recursive schemas are finite graphs and every look-up is made once. What a node says is its *parts*
(keyword sets that all hold) and its *unions* (alternatives, one of which holds in each).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from penstock.values.schema.references import Document, Gathered, gather, narrows

if TYPE_CHECKING:
    from penstock.values.schema.keywords import Part

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
