"""Grammars for llama.cpp, made from the outlines of calls.

The root matches one call of one of the tools, or several, and no text besides the format's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from penstock.errors import UsageError
from penstock.grammar.outline import (
    JSON,
    Arguments,
    Keywords,
    Notation,
    Outline,
    ParameterOutline,
    Piece,
    Slot,
)
from penstock.grammar.rules import NOTHING, Rules, either, literal, optional, repeated, sequence
from penstock.grammar.schema import (
    ORDER,
    Member,
    Values,
    arguments_schema,
    bounds,
    declared,
    leaves,
    listed,
)
from penstock.grammar.text_without import text
from penstock.tools import Tool
from penstock.values.schema import Schema

_TEXT: Final = frozenset({"string"})
_CONTAINERS: Final = frozenset({"object", "array"})


class ParameterRules:
    """Makes the rules of arguments in slots; *values* makes the rules of values in a notation.

    A string is verbatim in its slot. Other values are in the notation of the format, unless objects
    and lists are elements themselves.
    """

    def __init__(self, rules: Rules, piece: ParameterOutline, values: Values) -> None:
        self._rules = rules
        self._piece = piece
        self._values = values
        # By identity: a schema that refers to itself has one rule, which does so too. The schema
        # is kept, so that no other one gets its id.
        self._objects: dict[int, tuple[str, Schema]] = {}

    def all(self, schema: Schema, name: str) -> str:
        """Match all arguments of this piece."""
        piece = self._piece
        members: list[Member] = []
        fields = list(declared(schema))
        if piece.is_sorted:
            fields.sort(key=lambda field: field[0])
        for key, child, needed in fields:
            if piece.holds(key):
                member = self._member(key, child, name, needed=needed or key in piece.needs)
                members.append(member._replace(rule=sequence(literal(piece.before), member.rule)))
        return listed(members, NOTHING)

    def _member(self, key: str, schema: Schema, name: str, *, needed: bool) -> Member:
        rule = self._rules.name(f"{name}-{key}")
        if self._piece.typed:
            ways = self._as_typed_element
        else:
            ways = self._as_element if self._piece.elements else self._ways
        return Member(self._rules.add(rule, *ways(key, schema, rule)), needed)

    # --- values in a slot ---

    def _ways(
        self, key: str, schema: Schema, name: str, kinds: frozenset[str] = frozenset(ORDER)
    ) -> list[str]:
        """Return the ways to write the argument *key*: one for each slot that its types need."""
        slots: dict[Slot, list[str]] = {}
        for kind in ORDER:
            if kind in schema.types & kinds:
                slots.setdefault(self._piece.slot(key, kind), []).append(kind)
        if not slots:
            raise UsageError(f"the schema of {key!r} allows no value")
        return [
            _in_slot(slot, *self._in(slot, schema, name, frozenset(held)))
            for slot, held in slots.items()
        ]

    def _in(self, slot: Slot, schema: Schema, name: str, kinds: frozenset[str]) -> list[str]:
        """Return the values of *kinds*: strings verbatim, others in the notation."""
        is_verbatim = "string" in kinds and not self._piece.quotes
        found = self._texts(slot, schema) if is_verbatim else []
        others = kinds - _TEXT if is_verbatim else kinds
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
        """Return the ways to write the element *key*; a list may be several elements."""
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
            raise UsageError(f"the schema of {key!r} allows no value")
        return [*([_in_slot(slot, *values)] if values else []), *several]

    def _as_typed_element(self, key: str, schema: Schema, name: str) -> list[str]:
        """Return the ways to write *key* where the slot of an element has its type."""
        scalars = frozenset(schema.types - _CONTAINERS)
        ways = self._ways(key, schema, name, scalars) if scalars else []
        for leaf in leaves(schema):
            for kind in sorted(_CONTAINERS & leaf.types):
                is_known = self._describes(leaf, kind)
                slot = self._piece.slot(key, kind if is_known else "number")
                if not is_known:
                    inside = self._values.value(leaf, f"{name}-value", frozenset({kind}))
                else:
                    inside = (
                        self._object(leaf, name) if kind == "object" else self._items(leaf, name)
                    )
                ways.append(_in_slot(slot, inside))
        if not ways:
            raise UsageError(f"the schema of {key!r} allows no value")
        return ways

    def _describes(self, schema: Schema, kind: str) -> bool:
        """Return whether *schema* says what is inside an object or a list."""
        if schema.members is not None:
            return False
        if kind == "object":
            return bool(schema.properties)
        return schema.item(0) is not None and not schema.prefix

    def _items(self, schema: Schema, name: str) -> str:
        """Match the items of a list, one element each."""
        if id(schema) not in self._objects:
            rule = self._rules.name(f"{name}-items")
            self._objects[id(schema)] = rule, schema
            low, high = bounds(schema, "minItems", "maxItems")
            item = schema.item(0)
            assert item is not None  # noqa: S101 - `_describes` has checked it
            element = self._member("", item, f"{name}-item", needed=True).rule
            self._rules.add(rule, repeated(element, low, high) if high != 0 else NOTHING)
        return self._objects[id(schema)][0]

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
        """Return the rules of a list inside the slot of its key, and as several slots."""
        low, high = bounds(schema, "minItems", "maxItems")
        item = schema.item(0)
        # A list in a list would need a tag for the inner one: it is written as JSON.
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


Count = Literal["one", "many"]
"""How many calls a grammar matches: exactly one, or one and more."""


def write_gbnf(outlines: Iterable[tuple[Tool, Outline]], calls: Count = "one") -> str:
    """Return the grammar whose root matches one call of the tools, or several."""
    rules = Rules()
    root = rules.name("root")
    writer = GrammarWriter(rules)
    frames: dict[tuple[str, str, str | None], list[str]] = {}
    for tool, outline in outlines:
        # Calls share one section if their format has one, so tools with equal frames are choices.
        frame = outline.opening, outline.closing, outline.between
        frames.setdefault(frame, []).append(writer.call(tool, outline))
    if not frames:
        raise UsageError("a grammar needs at least one tool")
    choices = []
    for (opening, closing, between), names in frames.items():
        inside = either(*names) if calls == "one" else _several(either(*names), between)
        choices.append(sequence(literal(opening), inside, literal(closing)))
    rules.add(root, *choices)
    return rules.written()


def write_piece(tool: Tool, piece: Piece) -> str:
    """Return the grammar of one piece of a call of *tool*."""
    rules = Rules()
    root = rules.name("root")
    rules.add(root, GrammarWriter(rules).piece(piece, Schema(arguments_schema(tool)), tool.name))
    return rules.written()


def _several(call: str, between: str | None) -> str:
    if between is None:
        raise UsageError("this format allows one call per response: use calls='one'")
    return sequence(call, repeated(sequence(literal(between), call)))


class GrammarWriter:
    """Makes the rules of calls."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._values_of: dict[str, Values] = {}

    def call(self, tool: Tool, outline: Outline) -> str:
        """Add the rule of a call of *tool*; return its name."""
        name = self._rules.name(tool.name)
        schema = Schema(arguments_schema(tool))
        parts = (self.piece(piece, schema, name) for piece in outline.call)
        return self._rules.add(name, sequence(*parts))

    def piece(self, piece: Piece, schema: Schema, name: str) -> str:
        """Match one piece of a call."""
        match piece:
            case str():
                return literal(piece)
            case Arguments():
                values = self._notated(piece.notation)
                return values.value(schema, f"{name}-arguments", frozenset({"object"}))
            case Keywords():
                return self._keywords(piece, schema, name)
            case ParameterOutline():
                values = self._notated(piece.notation)
                return ParameterRules(self._rules, piece, values).all(schema, name)

    def _keywords(self, piece: Keywords, schema: Schema, name: str) -> str:
        values = self._notated(piece.notation)
        members = []
        for key, child, needed in declared(schema):
            rule = sequence(literal(key + piece.equals), values.value(child, f"{name}-{key}"))
            members.append(Member(self._rules.new(f"{name}-{key}-pair", rule), needed))
        return listed(members, literal(piece.comma))

    def _notated(self, notation: Notation) -> Values:
        if notation.name not in self._values_of:
            self._values_of[notation.name] = Values(self._rules, notation)
        return self._values_of[notation.name]


# --- structural tags ---
#
# Each tool has a tag that begins with the constant start of its call. Plain JSON arguments are
# given as the tool's schema, other arguments as a grammar in the notation of llama.cpp.


def write_structural_tag(
    outlines: Iterable[tuple[Tool, Outline]], *, at_least_one: bool, stop_after_first: bool
) -> dict[str, Any]:
    """Return the structural tag of the tools, made from their outlines."""
    found = list(outlines)
    if not found:
        raise UsageError("a structural tag needs at least one tool")
    if any(outline.leads for _, outline in found) and not (at_least_one and stop_after_first):
        raise UsageError(
            "calls of this format must begin the response: a structural tag needs "
            "at_least_one=True and stop_after_first=True"
        )
    tags = [_tag(tool, outline) for tool, outline in found]
    return {
        "type": "structural_tag",
        "format": {
            "type": "triggered_tags",
            "triggers": _triggers(found, [tag["begin"] for tag in tags]),
            "tags": tags,
            "at_least_one": at_least_one,
            "stop_after_first": stop_after_first,
        },
    }


def _tag(tool: Tool, outline: Outline) -> dict[str, Any]:
    begin, *inside = outline.call
    end = inside.pop()
    if not isinstance(begin, str) or not isinstance(end, str):
        raise UsageError("a structural tag needs constant text at both ends of a call")
    begin, end = outline.opening + begin, end + outline.closing
    contents = [_content(tool, piece) for piece in inside]
    content = contents[0] if len(contents) == 1 else {"type": "sequence", "elements": contents}
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def _content(tool: Tool, piece: Piece) -> dict[str, Any]:
    if isinstance(piece, str):
        return {"type": "const_string", "value": piece}
    if isinstance(piece, Arguments) and piece.notation == JSON:
        return {"type": "json_schema", "json_schema": arguments_schema(tool) or {"type": "object"}}
    return {"type": "grammar", "grammar": write_piece(tool, piece)}


def _triggers(outlines: list[tuple[Tool, Outline]], begins: list[str]) -> list[str]:
    """Return the triggers: the start markers of calls, or the text before the names."""
    found = [
        outline.trigger or begin.partition(tool.name)[0]
        for (tool, outline), begin in zip(outlines, begins, strict=True)
    ]
    triggers = [
        trigger if len(trigger) > 1 else begin for trigger, begin in zip(found, begins, strict=True)
    ]
    # xgrammar allows one trigger per tag: drop a trigger that begins with another one.
    return [one for one in dict.fromkeys(triggers) if not any(
        one != other and one.startswith(other) for other in triggers)]  # fmt: skip
