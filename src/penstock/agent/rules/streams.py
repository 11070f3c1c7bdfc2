r"""The streams of one response: each block of text or reasoning, and each value of a call.

A stream is searched on its own and returns the rules that match in it. Every value in the arguments
of a call is a stream: strings are searched decoded (``"`` is one character, not ``\"``), any other
value as JSON. A rule with a glob matches once the path is known, which may be after its condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from penstock import _json
from penstock.agent.rules.matcher import ConditionSet, Matcher
from penstock.agent.rules.rule import Kind, Rule, holds_path, list_spellings, matches_glob
from penstock.events import Delta, TextEnd, ThinkingEnd, ToolCallDelta, ToolCallEnd
from penstock.values import IncrementalJSON
from penstock.values.incremental_state import Change

BlockEnd = TextEnd | ThinkingEnd | ToolCallEnd

MAX_PATHS: Final = 400
"""How many spellings of paths are kept for a call: each is compared with each glob."""

RuleMatch = tuple[Rule, str]
"""A rule that matches, and the first path of the call."""


class StreamRules:
    """The rules for one kind of stream, with their conditions as one set."""

    def __init__(self, rules: Iterable[Rule], kind: Kind, tool: str = "") -> None:
        self.rules = [rule for rule in rules if rule.covers(kind, tool)]
        self._scopes = {
            rule.name: [scope for scope in rule.scopes() if scope.covers(kind, tool)]
            for rule in self.rules
        }
        self._owners = [rule for rule in self.rules for _ in rule.conditions]
        self.conditions = ConditionSet([each for rule in self.rules for each in rule.patterns()])

    def rules_for(self, numbers: Sequence[int]) -> list[Rule]:
        """Return the rules whose conditions have these *numbers*."""
        owners = (self._owners[number] for number in numbers)
        return list({rule.name: rule for rule in owners}.values())

    def admits(self, rule: Rule, paths: list[str]) -> bool:
        """Return whether *rule* applies to a call with these *paths*."""
        if rule.globs and not any(
            matches_glob(path, glob) for path in paths for glob in rule.globs
        ):
            return False
        return any(scope.admits(paths) for scope in self._scopes[rule.name])


class ProseStream:
    """A block of text or reasoning."""

    def __init__(self, rules: StreamRules, kind: Kind) -> None:
        self.kind = kind
        self._rules = rules
        self._matcher = Matcher(rules.conditions)

    def add(self, event: Delta) -> list[RuleMatch]:
        """Read a delta; return the rules that match with it."""
        if isinstance(event, ToolCallDelta):
            return []
        numbers = self._matcher.feed(event.text)
        return [(rule, "") for rule in self._rules.rules_for(numbers)] if numbers else []

    def close(self, _event: BlockEnd) -> list[RuleMatch]:
        """End the block; return the rules that match only now."""
        return [(rule, "") for rule in self._rules.rules_for(self._matcher.finish())]


class CallStream:
    """The arguments of a call; relative paths begin at *folder*."""

    kind: Kind = "tool"

    def __init__(self, rules: StreamRules, folder: str) -> None:
        self._rules = rules
        self._folder = folder
        self._reader = ArgumentReader()
        self._matchers: dict[tuple[str | int, ...], Matcher] = {}
        self._path = ""  # the first of the call
        self._paths: list[str] = []  # all, in all spellings
        self._waiting: dict[str, Rule] = {}  # rules that match but for a path

    def add(self, event: Delta) -> list[RuleMatch]:
        """Read a delta; return the rules that match with it."""
        if not isinstance(event, ToolCallDelta):
            return []
        return self._read(self._reader.add(event))

    def close(self, event: BlockEnd) -> list[RuleMatch]:
        """End the call; return the rules that match only now."""
        changes = self._reader.close(event) if isinstance(event, ToolCallEnd) else None
        matches: list[RuleMatch] = []
        if changes is not None:
            self._matchers.clear()
            matches = self._read(changes)
        for matcher in self._matchers.values():
            matches += self._admit(matcher.finish())
        return matches

    def _read(self, changes: list[Change]) -> list[RuleMatch]:
        matches: list[RuleMatch] = []
        for change in changes:
            if change.kind == "string":
                matcher = self._matchers.get(change.path)
                if matcher is None:
                    matcher = self._matchers[change.path] = Matcher(self._rules.conditions)
                if numbers := matcher.feed(change.text):
                    matches += self._admit(numbers)
            elif change.kind == "value":
                matches += self._end_value(change)
        return matches

    def _end_value(self, change: Change) -> list[RuleMatch]:
        matcher = self._matchers.pop(change.path, None)
        value = change.value
        matches: list[RuleMatch] = []
        if not isinstance(value, str):
            matcher = Matcher(self._rules.conditions)
            matches = self._admit(matcher.feed(_json.encode(value).decode()))
        if matcher is not None:
            matches += self._admit(matcher.finish())
        if isinstance(value, str) and change.path and holds_path(str(change.path[0])):
            self._path = self._path or value
            if len(self._paths) < MAX_PATHS:
                self._paths += list_spellings(value, self._folder)
                matches += self._admit([])
        return matches

    def _admit(self, numbers: list[int]) -> list[RuleMatch]:
        """Return the rules that match by now; others continue to wait for a path."""
        for rule in self._rules.rules_for(numbers):
            self._waiting[rule.name] = rule
        admitted = [
            rule for rule in self._waiting.values() if self._rules.admits(rule, self._paths)
        ]
        for rule in admitted:
            del self._waiting[rule.name]
        return [(rule, self._path) for rule in admitted]


RuleStream = ProseStream | CallStream
"""Any stream of a response."""


class ArgumentReader:
    """Reads the values in the arguments of one call as they arrive; never raises.

    Some calls are repaired when they end, and some models write all of the arguments as one string
    that holds JSON. `close` returns the values of these again.
    """

    def __init__(self) -> None:
        self._reader = IncrementalJSON(recover=True)

    def add(self, event: ToolCallDelta) -> list[Change]:
        """Read a delta; return the changes to values."""
        return self._reader.feed(event.arguments)

    def close(self, event: ToolCallEnd) -> list[Change] | None:
        """End the call; return all changes if the deltas said something else, or None."""
        reader, call = self._reader, event.call
        # Some models send the arguments as one JSON string that contains JSON.
        is_read = reader.complete and not reader.problems and isinstance(reader.value, dict)
        is_same = not call.repairs or reader.value == call.arguments
        if (is_read and is_same) or not call.complete:
            return None
        return IncrementalJSON(recover=True).feed(_json.encode(call.arguments).decode())
