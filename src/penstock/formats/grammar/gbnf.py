"""A grammar for llama.cpp: the rules of calls, made from their outlines.

The root is one call of one of the tools, or several; nothing may stand before, between or behind
them but what the format puts there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from penstock.errors import UsageError
from penstock.formats.grammar.notations import Notation
from penstock.formats.grammar.outlines import Arguments, Keywords, Outline, Parameters, Piece
from penstock.formats.grammar.parameters import ParameterRules
from penstock.formats.grammar.rules import Rules, either, literal, repeated, sequence
from penstock.formats.grammar.schemas import Member, Values, arguments_of, declared, listed
from penstock.tools import Tool
from penstock.values.schema import Schema

Count = Literal["one", "many"]
"""How many calls a grammar lets a model write: exactly one, or one and more."""


def write_gbnf(outlines: Iterable[tuple[Tool, Outline]], calls: Count = "one") -> str:
    """Write the grammar whose root is *calls* of the tools, each as its outline has it."""
    rules = Rules()
    root = rules.name("root")
    writer = Writer(rules)
    frames: dict[tuple[str, str, str | None], list[str]] = {}
    for tool, outline in outlines:
        frame = outline.opening, outline.closing, outline.between
        frames.setdefault(frame, []).append(writer.call(tool, outline))
    if not frames:
        raise UsageError("a grammar of calls needs a tool that can be called")
    choices = []
    for (opening, closing, between), names in frames.items():
        inside = either(*names) if calls == "one" else _several(either(*names), between)
        choices.append(sequence(literal(opening), inside, literal(closing)))
    rules.add(root, *choices)
    return rules.written()


def write_piece(tool: Tool, piece: Piece) -> str:
    """Write the grammar of one piece of a call of *tool*."""
    rules = Rules()
    root = rules.name("root")
    rules.add(root, Writer(rules).piece(piece, Schema(arguments_of(tool)), tool.name))
    return rules.written()


def _several(call: str, between: str | None) -> str:
    if between is None:
        raise UsageError("this format has but one call in an answer")
    return sequence(call, repeated(sequence(literal(between), call)))


class Writer:
    """Writes the rules of calls."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._values_of: dict[str, Values] = {}

    def call(self, tool: Tool, outline: Outline) -> str:
        """Make the rule of a call of *tool*; give its name."""
        name = self._rules.name(tool.name)
        schema = Schema(arguments_of(tool))
        parts = [
            literal(piece) if isinstance(piece, str) else self.piece(piece, schema, name)
            for piece in outline.call
        ]
        return self._rules.add(name, sequence(*parts))

    def piece(self, piece: Piece, schema: Schema, name: str) -> str:
        """Match what stands in a place of a call."""
        match piece:
            case str():
                return literal(piece)
            case Arguments():
                values = self._notated(piece.notation)
                return values.value(schema, f"{name}-arguments", frozenset({"object"}))
            case Keywords():
                return self._keywords(piece, schema, name)
            case Parameters():
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
