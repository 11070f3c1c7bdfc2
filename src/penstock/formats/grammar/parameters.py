"""Arguments one after the other, each in a slot, as rules.

A text stands in its slot as it is; any other value is in the notation of the format, unless its
objects and lists are elements themselves.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import UsageError
from penstock.formats.grammar.outlines import Parameters, Slot
from penstock.formats.grammar.rules import (
    NOTHING,
    Rules,
    either,
    literal,
    optional,
    repeated,
    sequence,
)
from penstock.formats.grammar.schemas import (
    ORDER,
    Member,
    Values,
    bounds,
    declared,
    leaves,
    listed,
)
from penstock.formats.grammar.texts import text
from penstock.values.schema import Schema

_TEXT: Final = frozenset({"string"})
_CONTAINERS: Final = frozenset({"object", "array"})


class ParameterRules:
    """Makes the rules of one piece of a call; *values* makes those of what is no text."""

    def __init__(self, rules: Rules, piece: Parameters, values: Values) -> None:
        self._rules = rules
        self._piece = piece
        self._values = values
        self._objects: dict[int, tuple[str, Schema]] = {}  # by identity, as elements

    def all(self, schema: Schema, name: str) -> str:
        """Match the arguments that stand here."""
        piece = self._piece
        members: list[Member] = []
        for key, child, needed in declared(schema):
            if piece.holds(key):
                member = self._member(key, child, name, needed=needed or key in piece.needs)
                members.append(member._replace(rule=sequence(literal(piece.before), member.rule)))
        return listed(members, NOTHING)

    def _member(self, key: str, schema: Schema, name: str, *, needed: bool) -> Member:
        rule = self._rules.name(f"{name}-{key}")
        ways = self._as_element if self._piece.elements else self._ways
        return Member(self._rules.add(rule, *ways(key, schema, rule)), needed)

    # --- values in a slot ---

    def _ways(self, key: str, schema: Schema, name: str) -> list[str]:
        """Give the ways to write the argument *key*: one for each slot that its types ask for."""
        slots: dict[Slot, list[str]] = {}
        for kind in ORDER:
            if kind in schema.types:
                slots.setdefault(self._piece.slot(key, kind), []).append(kind)
        if not slots:
            raise UsageError(f"no value can be right for {key!r}: its schema allows none")
        return [
            _in_slot(slot, *self._in(slot, schema, name, frozenset(kinds)))
            for slot, kinds in slots.items()
        ]

    def _in(self, slot: Slot, schema: Schema, name: str, kinds: frozenset[str]) -> list[str]:
        """Give the values of *kinds*: text as it is, any other in the notation."""
        found = self._texts(slot, schema) if "string" in kinds else []
        others = kinds - _TEXT
        if others:
            found.append(self._values.value(schema, f"{name}-value", others))
        return found

    def _texts(self, slot: Slot, schema: Schema) -> list[str]:
        found: list[str] = []
        for leaf in leaves(schema):
            if leaf.members is not None:
                members = [value for value in leaf.members.values if isinstance(value, str)]
                found += [literal(value) for value in members if leaf.accepts(value)]
            elif "string" in leaf.types:
                low, high = bounds(leaf, "minLength", "maxLength")
                found.append(self._text(slot, low, high))
        return found

    def _text(self, slot: Slot, low: int, high: int | None) -> str:
        rules, letters = self._rules, slot.letters
        if not slot.solid:
            return text(rules, letters, slot.marks, low, high)
        first = rules.shared(f"{letters.name}-first", letters.but(" \t\r\n", rules))
        high = None if high is None else max(high - 1, 0)
        return sequence(first, text(rules, letters, slot.marks, max(low - 1, 0), high))

    # --- values as elements ---

    def _as_element(self, key: str, schema: Schema, name: str) -> list[str]:
        """Give the ways to write the element *key*, and for a list those that are several."""
        slot = self._piece.slot(key, "")
        values: list[str] = []
        several: list[str] = []
        kinds = schema.types - _CONTAINERS
        if kinds:
            values += self._in(slot, schema, name, kinds)
        for leaf in leaves(schema):
            if "object" in leaf.types:
                values.append(self._object(leaf, name))
            if "array" in leaf.types:
                inside, again = self._array(key, leaf, name)
                values += inside
                several += again
        if not values and not several:
            raise UsageError(f"no value can be right for {key!r}: its schema allows none")
        return [*([_in_slot(slot, *values)] if values else []), *several]

    def _object(self, schema: Schema, name: str) -> str:
        if schema.members is not None or not schema.properties:
            return self._values.value(schema, f"{name}-value", frozenset({"object"}))
        if id(schema) not in self._objects:
            rule = self._rules.name(f"{name}-object")
            self._objects[id(schema)] = rule, schema
            members = [
                self._member(key, child, name, needed=needed)
                for key, child, needed in declared(schema)
            ]
            self._rules.add(rule, listed(members, NOTHING))
        return self._objects[id(schema)][0]

    def _array(self, key: str, schema: Schema, name: str) -> tuple[list[str], list[str]]:
        """Give what a list is inside the slot of its key, and what it is as several slots."""
        low, high = bounds(schema, "minItems", "maxItems")
        item = schema.item(0)
        nests = item is None or "array" in item.types
        if item is None or schema.prefix or schema.members is not None or nests or high == 0:
            return [self._values.value(schema, f"{name}-value", frozenset({"array"}))], []
        tag = self._piece.item or key
        rule = self._member(tag, item, f"{name}-item", needed=True).rule
        empty = [] if low else [NOTHING]
        if self._piece.item:
            return [*empty, repeated(rule, max(low, 1), high)], []
        before = optional(literal(self._piece.before)) if self._piece.before else NOTHING
        again = sequence(before, rule)
        more = repeated(again, max(low - 1, 0), None if high is None else high - 1)
        return empty, [sequence(rule, more)]


def _in_slot(slot: Slot, *values: str) -> str:
    return sequence(literal(slot.before), either(*values), literal(slot.after))
