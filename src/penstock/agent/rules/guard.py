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

from penstock.agent.hooks import Finding, Guard
from penstock.agent.rules.rule import Interrupt, Kind, Rule, RuleSettings
from penstock.agent.rules.streams import CallStream, ProseStream, RuleMatch, RuleStream, StreamRules
from penstock.events import BLOCK_ENDS, DELTAS, Event, TextStart, ThinkingStart, ToolCallStart

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
