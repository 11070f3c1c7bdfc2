"""`RuleGuard`: applies rules to a response while it arrives.

A rule fires at most once in a turn, all rules together at most `budget` times in a prompt, and a
rule that does not repeat once in a conversation. So no model is stopped forever. A rule that may
not fire now may do so later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Final

from penstock import _json
from penstock.agent.hooks import Finding, Guard
from penstock.agent.rules.matcher import ConditionSet, Matcher
from penstock.agent.rules.rule import (
    Interrupt,
    Kind,
    Rule,
    RuleSettings,
    holds_path,
    list_spellings,
    matches_glob,
)
from penstock.events import (
    BLOCK_ENDS,
    DELTAS,
    Delta,
    Event,
    TextEnd,
    TextStart,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.values import IncrementalJSON
from penstock.values.incremental_state import Change

MAX_COMPILED: Final = 64
"""For how many tools rules stay compiled: more than an agent has. Models make up names."""

_INTERRUPTED: Final[dict[Interrupt, tuple[Kind, ...]]] = {
    "always": ("text", "thinking", "tool"),
    "prose-only": ("text", "thinking"),
    "tool-only": ("tool",),
    "never": (),
}


class RuleGuard(Guard):
    """Searches every response for *rules*; the first of two with the same name counts.

    Relative paths in calls begin at *folder*. The cost of a delta does not depend on the length of
    the response, and hardly on the number of rules.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        settings: RuleSettings | None = None,
        *,
        folder: str | Path = ".",
    ) -> None:
        by_name: dict[str, Rule] = {}
        for rule in rules:
            by_name.setdefault(rule.name, rule)
        self.rules = list(by_name.values())
        self.settings = settings or RuleSettings()
        self._folder = Path(folder).absolute().as_posix()
        self._compiled: dict[tuple[Kind, str], StreamRules] = {}
        self._streams: dict[int, RuleStream] = {}
        self._fired: dict[str, int] = {}  # the turn in which each rule fired last
        self._turn = 0
        self._left = self.settings.budget

    # --- for sessions ---

    @property
    def fired_rules(self) -> list[str]:
        """The names of the rules that have fired, in the order in which they first did."""
        return list(self._fired)

    def restore(self, names: Iterable[str]) -> None:
        """Mark the rules called *names* as fired in this turn, and no others."""
        self._fired = dict.fromkeys(names, self._turn)

    # --- the methods of a `Guard` ---

    def prompt_started(self) -> None:
        """Start a prompt with a full budget."""
        self._left = self.settings.budget

    def turn_started(self) -> None:
        """Start a turn."""
        self._streams.clear()

    def response_started(self) -> None:
        """Start a response."""
        self._streams.clear()

    def check(self, event: Event) -> Finding | None:
        """Read *event*; return the reminders of the rules that fire."""
        if isinstance(event, DELTAS):
            stream = self._streams.get(event.index)
            matches = stream.add(event) if stream is not None else None
        elif isinstance(event, BLOCK_ENDS):
            stream = self._streams.pop(event.index, None)
            matches = stream.close(event) if stream is not None else None
        else:
            self._open(event)
            return None
        return self._fire(matches, stream.kind) if matches and stream is not None else None

    def turn_ended(self) -> None:
        """End the turn: gaps are counted in turns."""
        self._turn += 1

    # --- streams ---

    def _open(self, event: Event) -> None:
        # Without a budget no stream is searched, so rules cost nothing any more.
        if not self.settings.enabled or self._left <= 0:
            return
        if isinstance(event, TextStart | ThinkingStart):
            kind: Kind = "text" if isinstance(event, TextStart) else "thinking"
            rules = self._rules_for(kind)
            if any(map(self._may_fire, rules.rules)):
                self._streams[event.index] = ProseStream(rules, kind)
        elif isinstance(event, ToolCallStart):
            rules = self._rules_for("tool", event.name)
            if any(map(self._may_fire, rules.rules)):
                self._streams[event.index] = CallStream(rules, self._folder)

    def _rules_for(self, kind: Kind, tool: str = "") -> StreamRules:
        rules = self._compiled.get((kind, tool))
        if rules is None:
            if len(self._compiled) >= MAX_COMPILED:
                self._compiled.clear()
            rules = self._compiled[kind, tool] = StreamRules(self.rules, kind, tool)
        return rules

    # --- firing ---

    def _may_fire(self, rule: Rule) -> bool:
        fired = self._fired.get(rule.name)
        if fired is None:
            return True
        repeats = (rule.repeat or self.settings.repeat) == "after-gap"
        return repeats and self._turn - fired >= (rule.gap or max(1, self.settings.gap))

    def _fire(self, matches: Sequence[RuleMatch], kind: Kind) -> Finding | None:
        # Several rules may match in one delta: they fire together and cost one of the budget.
        paths = {rule.name: path for rule, path in matches if self._may_fire(rule)}
        rules = [rule for rule in self.rules if rule.name in paths]
        if not rules or self._left <= 0:
            return None
        self._left -= 1
        for rule in rules:
            self._fired[rule.name] = self._turn
        stopping = [
            rule
            for rule in rules
            if kind in _INTERRUPTED[rule.interrupt or self.settings.interrupt]
        ]
        return Finding(
            source="rule",
            names=[rule.name for rule in rules],
            text="\n\n".join(render_reminder(rule, paths[rule.name]) for rule in rules),
            interrupts=bool(stopping),
            keep=all(map(self._keeps, stopping or rules)),
        )

    def _keeps(self, rule: Rule) -> bool:
        return self.settings.context == "keep" if rule.keep is None else rule.keep


def render_reminder(rule: Rule, path: str = "") -> str:
    """Render the text of *rule* for the model, with its name and the *path* of the call."""
    about = f' path="{escape(path)}"' if path else ""
    opening = f'<rule_reminder reason="rule_met" rule="{escape(rule.name)}"{about}>'
    return f"{opening}\n{rule.text.strip()}\n</rule_reminder>"


# --- the streams of one response ---
#
# A stream is searched on its own and returns the rules that match in it. Every value in the
# arguments of a call is a stream: strings are searched decoded (``"`` is one character, not
# ``\"``), any other value as JSON. A rule with a glob matches once the path is known, which may be
# after its condition.

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
