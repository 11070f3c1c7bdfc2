"""Rules for the values that a JSON Schema accepts, in a notation.

Supported: types, `enum`, `const`, `required`, properties in the order of the schema, items,
`prefixItems`, `minItems` and `maxItems`, `minLength` and `maxLength`, small ranges of integers,
`anyOf` and `oneOf`, `allOf`, `$ref` with any recursion. An object has the declared properties and
no others, unless `additionalProperties` allows them or none is declared; a tool with empty
`properties` takes no arguments. Other keywords are ignored: the rules may match values that violate
them, but they match every value that the schema accepts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from penstock.errors import UsageError
from penstock.grammar.outline import Notation
from penstock.grammar.rules import NOTHING, Rules, either, literal, optional, repeated, sequence
from penstock.grammar.text_without import other_text, text
from penstock.tools import Tool
from penstock.values.schema import Schema
from penstock.values.schema_keywords import json_type

MAX_LISTED: Final = 64
"""The maximum size of an integer range that is written as a list of numbers."""

MAX_LEAVES: Final = 256
"""The maximum number of alternatives of a union; schemas in practice have far fewer."""

# At most 16 digits, as in llama.cpp's own grammar of JSON: 2**53, up to which a double is exact,
# has 16.
_INTEGER: Final = '"-"? ("0" | [1-9] [0-9]{0,15})'
_NATURAL: Final = '"0" | [1-9] [0-9]{0,15}'
_POSITIVE: Final = "[1-9] [0-9]{0,15}"
_FRACTION: Final = '("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?'

SCALARS: Final = ("string", "integer", "number", "boolean", "null")
ORDER: Final = ("object", "array", *SCALARS)
"""The types in the order of their rules."""

_OTHERS: Final = ("additionalProperties", "patternProperties")
# A name that no schema declares.
_UNDECLARED: Final = "\ue000"


_SPEAKING: Final = frozenset((*_OTHERS, "$ref", "allOf", "anyOf", "oneOf", "required"))


def arguments_schema(tool: Tool) -> dict[str, Any]:
    """Return the schema of the arguments of *tool*; empty `properties` mean no arguments."""
    parameters = tool.parameters
    # Clients declare tools without parameters so, although JSON Schema itself would allow any
    # member.
    if parameters.get("properties") != {} or not _SPEAKING.isdisjoint(parameters):
        return parameters
    return {**parameters, "additionalProperties": False}


class Member(NamedTuple):
    """The rule of a key and its value, and whether it is required."""

    rule: str
    needed: bool


class Values:
    """Makes the rules of values in one *notation*, once for each schema node."""

    def __init__(self, rules: Rules, notation: Notation) -> None:
        self._rules = rules
        self._notation = notation
        self._made: dict[tuple[int, frozenset[str]], str] = {}
        self._kept: list[Schema] = []  # keeps the ids in `_made` from being reused

    @property
    def comma(self) -> str:
        """The separator between two members."""
        return self._spaced(",")

    @property
    def colon(self) -> str:
        """The separator between a key and its value."""
        return self._spaced(":")

    def value(self, schema: Schema, name: str, types: frozenset[str] = frozenset(ORDER)) -> str:
        """Match a value of one of *types* that *schema* accepts."""
        if schema.free and types >= set(ORDER):
            return self.anything()
        key = id(schema), types
        if key not in self._made:
            self._kept.append(schema)
            self._made[key] = self._rules.name(name)
            choices = self._choices(schema, self._made[key], types)
            if not choices:
                raise UsageError(f"the schema of {name!r} allows no value")
            self._rules.add(self._made[key], *dict.fromkeys(choices))
        return self._made[key]

    def anything(self) -> str:
        """Match any value."""
        rules, notation = self._rules, self._notation
        name = f"{notation.name}-value"
        if name in rules.known:
            return name
        rules.known[name] = rules.name(name)
        free = Schema(True)
        kinds = (self._of_type(kind, free, name) for kind in ORDER if kind != "integer")
        return rules.add(name, *kinds)

    def string(self, low: int = 0, high: int | None = None) -> str:
        """Match a string in quotes."""
        notation = self._notation
        inside = text(self._rules, notation.letters, notation.marks, low, high)
        return sequence(literal(notation.quote), inside, literal(notation.quote))

    def member(self, key: str, schema: Schema, name: str) -> str:
        """Match a key and its value."""
        written = literal(self._notation.key(key))
        return sequence(written, self.colon, self.value(schema, f"{name}-{key}"))

    # --- one node ---

    def _choices(self, schema: Schema, name: str, types: frozenset[str]) -> list[str]:
        types &= schema.types
        if schema.broken is not None:
            return [self.anything()]
        members = schema.members
        if members is not None:
            accepted = [value for value in members.values if schema.accepts(value)]
            return [self._given(value) for value in accepted if json_type(value) in types]
        if schema.unions:
            chosen = [schema.choose(0, one) for one in schema.unions[0]]
            return [self.value(one, f"{name}-{n}", types) for n, one in enumerate(chosen, 1)
                    if one.types & types]  # fmt: skip
        kinds = [kind for kind in ORDER if kind in types]
        if "number" in kinds:
            # Every integer is a number too; two rules for one text would make the grammar
            # ambiguous.
            kinds.remove("integer")
        return [self._of_type(kind, schema, name) for kind in kinds]

    def _given(self, value: Any) -> str:
        """Match one constant value, with or without spaces between its members."""
        match value:
            case dict():
                pairs = [
                    sequence(literal(self._notation.key(key)), self.colon, self._given(inner))
                    for key, inner in value.items()
                ]
                return sequence(literal("{"), f" {self.comma} ".join(pairs), literal("}"))
            case list():
                items = [self._given(inner) for inner in value]
                return sequence(literal("["), f" {self.comma} ".join(items), literal("]"))
            case _:
                return literal(self._notation.write(value))

    def _of_type(self, kind: str, schema: Schema, name: str) -> str:
        match kind:
            case "object":
                return self._object(schema, name)
            case "array":
                return self._array(schema, name)
            case "string":
                low, high = bounds(schema, "minLength", "maxLength")
                return self.string(low, high)
            case "boolean":
                return either(literal(self._notation.true), literal(self._notation.false))
            case "null":
                return literal(self._notation.null)
            case _:
                return self._number(schema, whole=kind == "integer")

    def _number(self, schema: Schema, *, whole: bool) -> str:
        low, high = _range(schema)
        if whole and low is not None and high is not None and 0 <= high - low < MAX_LISTED:
            return either(*(literal(str(number)) for number in range(low, high + 1)))
        rules = self._rules
        if low is not None and low >= 1 and whole:
            return rules.shared("positive", _POSITIVE)
        if low is not None and low >= 0:
            integer = rules.shared("natural", _NATURAL)
        else:
            integer = rules.shared("integer", _INTEGER)
        return integer if whole else sequence(integer, rules.shared("fraction", _FRACTION))

    def _object(self, schema: Schema, name: str) -> str:
        members = [
            Member(self._rules.new(f"{name}-{key}-pair", self.member(key, child, name)), needed)
            for key, child, needed in declared(schema)
        ]
        inside = listed(members, self.comma, self._extra(schema, name))
        return sequence(literal("{"), inside, literal("}"))

    def _extra(self, schema: Schema, name: str) -> str:
        """Return the rule of an undeclared member; empty if none is allowed."""
        speaks = any(keyword in part for part in schema.parts for keyword in _OTHERS)
        # By JSON Schema other members are allowed; a model that is free to invent arguments does,
        # so they need an explicit `additionalProperties`.
        if schema.closed or (schema.properties and not speaks):
            return ""
        child = schema.property(_UNDECLARED)
        value = self.anything() if child is None else self.value(child, f"{name}-other-value")
        key = self.string(1) if not schema.properties else self._other_key(list(schema.properties))
        return self._rules.new(f"{name}-other", sequence(key, self.colon, value))

    def _other_key(self, known: list[str]) -> str:
        notation = self._notation
        inside = other_text(self._rules, notation.letters, notation.marks, known)
        return sequence(literal(notation.quote), inside, literal(notation.quote))

    def _array(self, schema: Schema, name: str) -> str:
        low, high = bounds(schema, "minItems", "maxItems")
        count = schema.prefix if high is None else min(schema.prefix, high)
        firsts = [self._item(schema, at, f"{name}-{at + 1}") for at in range(count)]
        last = schema.item(schema.prefix)
        if last is not None and not last.types:
            high = count  # no more items than have a schema of their own
        more = NOTHING if high == count else self._item(schema, schema.prefix, f"{name}-item")
        inside = in_turn(firsts, more, self.comma, low, high)
        return sequence(literal("["), inside, literal("]"))

    def _item(self, schema: Schema, at: int, name: str) -> str:
        child = schema.item(at)
        return self.anything() if child is None else self.value(child, name)

    def _spaced(self, sign: str) -> str:
        return f'{literal(sign)} " "?' if self._notation.spaced else literal(sign)


def leaves(schema: Schema) -> list[Schema]:
    """Return the alternatives of the unions in *schema*; without unions, *schema* alone."""
    found: list[Schema] = []
    waiting = [schema]
    while waiting and len(found) < MAX_LEAVES:
        one = waiting.pop()
        if one.unions and one.members is None:
            waiting += reversed([one.choose(0, inner) for inner in one.unions[0]])
        else:
            found.append(one)
    return found


def declared(schema: Schema) -> Iterator[tuple[str, Schema, bool]]:
    """Yield the properties of *schema*: name, schema, and whether it is required.

    Optional properties whose schema allows no value are omitted.
    """
    required = set(schema.required)
    for key, child in schema.properties.items():
        if child.types or key in required:
            yield key, child, key in required
    for key in schema.required:
        if key not in schema.properties:
            yield key, schema.property(key) or Schema(True), True


def listed(members: Sequence[Member], comma: str, extra: str = "") -> str:
    """Match *members* in order, where optional ones may be omitted, and any number of *extra*."""
    more = repeated(sequence(comma, extra)) if extra else NOTHING
    choices: list[str] = []
    for member in reversed(members):
        if member.needed:
            choices.clear()
        choices.append(sequence(member.rule, more))
        part = sequence(comma, member.rule)
        more = sequence(part if member.needed else optional(part), more)
    if any(member.needed for member in members):
        return either(*reversed(choices))
    if extra:
        choices.insert(0, sequence(extra, repeated(sequence(comma, extra))))
    return optional(either(*reversed(choices))) if choices else NOTHING


def in_turn(firsts: Sequence[str], more: str, comma: str, low: int, high: int | None) -> str:
    """Match from *low* to *high* items: *firsts* in order, then any number of *more*."""
    count = len(firsts)
    left = None if high is None else max(high - count, 0)
    needed = max(low - count, 0)
    if not firsts:
        rest = None if left is None else max(left - 1, 0)
        items = sequence(more, repeated(sequence(comma, more), max(needed - 1, 0), rest))
        return NOTHING if left == 0 else items if needed else optional(items)
    inside = NOTHING if left == 0 else repeated(sequence(comma, more), needed, left)
    for at in reversed(range(count)):
        item = sequence(comma if at else NOTHING, firsts[at], inside)
        inside = item if at < low else optional(item)
    return inside


def bounds(schema: Schema, lower: str, upper: str) -> tuple[int, int | None]:
    """Return the bounds on a length from the keywords *lower* and *upper*."""
    lows = [math.ceil(bound) for bound in _numbers(schema, lower)]
    highs = [math.floor(bound) for bound in _numbers(schema, upper)]
    return max([0, *lows]), max(min(highs), 0) if highs else None


def _range(schema: Schema) -> tuple[int | None, int | None]:
    """Return the least and the greatest integer, None for a missing bound."""
    lows = [math.ceil(bound) for bound in _numbers(schema, "minimum")]
    lows += [math.floor(bound) + 1 for bound in _numbers(schema, "exclusiveMinimum")]
    highs = [math.floor(bound) for bound in _numbers(schema, "maximum")]
    highs += [math.ceil(bound) - 1 for bound in _numbers(schema, "exclusiveMaximum")]
    return max(lows, default=None), min(highs, default=None)


def _numbers(schema: Schema, keyword: str) -> list[Any]:
    found = [part.get(keyword) for part in schema.parts]
    return [
        bound
        for bound in found
        if isinstance(bound, int | float) and not isinstance(bound, bool) and math.isfinite(bound)
    ]
