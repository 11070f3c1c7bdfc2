"""The streams of one answer: each block of text or thinking, and each value in a call's arguments.

A stream is looked through on its own, and tells which rules are met in it. Of a call, every value
is a stream: text as it is meant, anything else as JSON has it. A rule that asks for a path is met
once the path is known, which may be after what it looks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from penstock.agent.rules.arguments import ArgumentReader, scalar_text
from penstock.agent.rules.finding import Conditions, Finder
from penstock.agent.rules.paths import fits, names_path, spellings
from penstock.agent.rules.rule import Rule
from penstock.agent.rules.scopes import Kind, Scope
from penstock.events import (
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
)
from penstock.values.incremental_state import Change

Piece = TextDelta | ThinkingDelta | ToolCallDelta
Ending = TextEnd | ThinkingEnd | ToolCallEnd

MAX_PATHS: Final = 400
"""How many spellings of paths a call is known by: each is held against each glob."""

Met = tuple[Rule, str]
"""A rule that is met, and the path that the call names."""


class Lookups:
    """The rules for one kind of stream, with their conditions as one set."""

    def __init__(self, rules: Iterable[Rule], kind: Kind, tool: str = "") -> None:
        self.rules = [rule for rule in rules if rule.covers(kind, tool)]
        self._scopes = {
            rule.name: [scope for scope in rule.scopes() if scope.covers(kind, tool)]
            for rule in self.rules
        }
        self._owners = [rule for rule in self.rules for _ in rule.conditions]
        self.conditions = Conditions([each for rule in self.rules for each in rule.patterns()])

    def owners(self, numbers: Sequence[int]) -> list[Rule]:
        """Give the rules whose conditions have these *numbers*."""
        return list(
            {self._owners[number].name: self._owners[number] for number in numbers}.values()
        )

    def admits(self, rule: Rule, paths: list[str]) -> bool:
        """Tell whether *rule* looks at a call that names *paths*."""
        is_named = not rule.globs or any(fits(path, glob) for path in paths for glob in rule.globs)
        scopes: list[Scope] = self._scopes[rule.name]
        return is_named and any(scope.admits(paths) for scope in scopes)


class ProseStream:
    """A block of text or thinking."""

    def __init__(self, lookups: Lookups, kind: Kind) -> None:
        self.kind = kind
        self._lookups = lookups
        self._finder = Finder(lookups.conditions)

    def add(self, event: Piece) -> list[Met]:
        """Read on; tell which rules are met."""
        if isinstance(event, ToolCallDelta):
            return []
        return self._met(self._finder.feed(event.text))

    def close(self, _event: Ending) -> list[Met]:
        """Say that the block has ended; tell which rules are met only by that."""
        return self._met(self._finder.finish())

    def _met(self, numbers: list[int]) -> list[Met]:
        return [(rule, "") for rule in self._lookups.owners(numbers)] if numbers else []


class CallStream:
    """The arguments of a call, *folder* being where paths begin."""

    kind: Kind = "tool"

    def __init__(self, lookups: Lookups, folder: str) -> None:
        self._lookups = lookups
        self._folder = folder
        self._reader = ArgumentReader()
        self._finders: dict[tuple[str | int, ...], Finder] = {}
        self._path = ""  # the first that the call names
        self._paths: list[str] = []  # all, in all their spellings
        self._waiting: dict[str, Rule] = {}  # met, but for a path

    def add(self, event: Piece) -> list[Met]:
        """Read on; tell which rules are met."""
        if not isinstance(event, ToolCallDelta):
            return []
        return self._read(self._reader.add(event))

    def close(self, event: Ending) -> list[Met]:
        """Say that the call is whole; tell which rules are met only by that."""
        changes = self._reader.close(event) if isinstance(event, ToolCallEnd) else None
        if changes is not None:
            self._finders.clear()
            met = self._read(changes)
        else:
            met = []
        for finder in self._finders.values():
            met += self._settle(finder.finish())
        return met

    def _read(self, changes: list[Change]) -> list[Met]:
        met: list[Met] = []
        for change in changes:
            if change.kind == "string":
                numbers = self._finder(change).feed(change.text)
                if numbers:
                    met += self._settle(numbers)
            elif change.kind == "value":
                met += self._end_value(change)
        return met

    def _finder(self, change: Change) -> Finder:
        finder = self._finders.get(change.path)
        if finder is None:
            finder = self._finders[change.path] = Finder(self._lookups.conditions)
        return finder

    def _end_value(self, change: Change) -> list[Met]:
        finder = self._finders.pop(change.path, None)
        numbers: list[int] = []
        if not isinstance(change.value, str):
            finder = Finder(self._lookups.conditions)
            numbers = finder.feed(scalar_text(change.value))
        met = self._settle(numbers + finder.finish()) if finder is not None else []
        if isinstance(change.value, str) and change.path and names_path(str(change.path[0])):
            met += self._take_path(change.value)
        return met

    def _take_path(self, path: str) -> list[Met]:
        self._path = self._path or path
        if len(self._paths) >= MAX_PATHS:
            return []
        self._paths += spellings(path, self._folder)
        return self._settle([])

    def _settle(self, numbers: list[int]) -> list[Met]:
        """Sort out which rules are met by now, and which wait for a path."""
        for rule in self._lookups.owners(numbers):
            self._waiting[rule.name] = rule
        met = [rule for rule in self._waiting.values() if self._lookups.admits(rule, self._paths)]
        for rule in met:
            del self._waiting[rule.name]
        return [(rule, self._path) for rule in met]


Stream = ProseStream | CallStream
"""Any stream of an answer."""
