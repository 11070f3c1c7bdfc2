"""Rules that look on while an answer comes, and speak when they are met.

A rule speaks at most once in a turn, rules together at most `budget` times in a prompt, and those
that do not repeat themselves once in a conversation: so however a model behaves, it is not stopped
for ever. A rule that may not speak now stays unspoken, and may later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from penstock.agent.rules.rule import Interrupt, Rule, RuleSettings
from penstock.agent.rules.scopes import Kind
from penstock.agent.rules.streams import CallStream, Lookups, Met, ProseStream, Stream
from penstock.agent.rules.wording import told
from penstock.agent.watch import Finding
from penstock.events import (
    Event,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import ToolResult

MAX_LOOKUPS: Final = 64
"""For how many tools the rules stay compiled: more than an agent has, unless a model makes up
names."""

_PIECES: Final = (TextDelta, ToolCallDelta, ThinkingDelta)  # made once, not for every delta
_ENDINGS: Final = (TextEnd, ToolCallEnd, ThinkingEnd)
_INTERRUPTED: Final[dict[Interrupt, tuple[Kind, ...]]] = {
    "always": ("text", "thinking", "tool"),
    "prose-only": ("text", "thinking"),
    "tool-only": ("tool",),
    "never": (),
}


class RuleWatch:
    """Looks for *rules* in every answer; of two with one name the first counts.

    *folder* is where relative paths of calls begin. Cost: one look-up for each character of an
    answer, whatever the number of rules and the length of the answer.
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
        self._lookups: dict[tuple[Kind, str], Lookups] = {}
        self._streams: dict[int, Stream] = {}
        self._spoken: dict[str, int] = {}  # the turn in which each rule spoke last
        self._turn = 0
        self._left = self.settings.budget

    # --- for sessions ---

    @property
    def spoken(self) -> list[str]:
        """The names of the rules that have spoken, in the order in which they first did."""
        return list(self._spoken)

    def restore(self, names: Iterable[str]) -> None:
        """Let the rules called *names* have spoken just now, and no others."""
        self._spoken = dict.fromkeys(names, self._turn)

    # --- a watch ---

    def prompt_started(self) -> None:
        """Begin a prompt: the budget is full again."""
        self._left = self.settings.budget

    def turn_started(self) -> None:
        """Begin a turn."""
        self._streams.clear()

    def answer_started(self) -> None:
        """Begin an answer: nothing of it was seen yet."""
        self._streams.clear()

    def see(self, event: Event) -> Finding | None:
        """Look at *event*; tell what the rules say that it meets."""
        if isinstance(event, _PIECES):
            stream = self._streams.get(event.index)
            met = stream.add(event) if stream is not None else None
        elif isinstance(event, _ENDINGS):
            stream = self._streams.pop(event.index, None)
            met = stream.close(event) if stream is not None else None
        else:
            self._open(event)
            return None
        return self._speak(met, stream.kind) if met and stream is not None else None

    def tool_ended(self, result: ToolResult) -> None:
        """See that a tool gave *result*, which is no concern of rules."""

    def turn_ended(self) -> None:
        """End the turn: gaps are counted in turns."""
        self._turn += 1

    # --- streams ---

    def _open(self, event: Event) -> None:
        if not self.settings.enabled or self._left <= 0:
            return
        match event:
            case TextStart() | ThinkingStart():
                kind: Kind = "text" if isinstance(event, TextStart) else "thinking"
                lookups = self._lookups_of(kind)
                if any(map(self._may_speak, lookups.rules)):
                    self._streams[event.index] = ProseStream(lookups, kind)
            case ToolCallStart():
                lookups = self._lookups_of("tool", event.name)
                if any(map(self._may_speak, lookups.rules)):
                    self._streams[event.index] = CallStream(lookups, self._folder)
            case _:
                pass

    def _lookups_of(self, kind: Kind, tool: str = "") -> Lookups:
        lookups = self._lookups.get((kind, tool))
        if lookups is None:
            if len(self._lookups) >= MAX_LOOKUPS:
                self._lookups.clear()
            lookups = self._lookups[kind, tool] = Lookups(self.rules, kind, tool)
        return lookups

    # --- speaking ---

    def _may_speak(self, rule: Rule) -> bool:
        spoken = self._spoken.get(rule.name)
        if spoken is None:
            return True
        repeats = (rule.repeat or self.settings.repeat) == "after-gap"
        return repeats and self._turn - spoken >= (rule.gap or max(1, self.settings.gap))

    def _speak(self, met: Sequence[Met], kind: Kind) -> Finding | None:
        paths = {rule.name: path for rule, path in met if self._may_speak(rule)}
        rules = [rule for rule in self.rules if rule.name in paths]
        if not rules or self._left <= 0:
            return None
        self._left -= 1
        for rule in rules:
            self._spoken[rule.name] = self._turn
        stopping = [rule for rule in rules if self._interrupts(rule, kind)]
        return Finding(
            source="rule",
            names=[rule.name for rule in rules],
            text="\n\n".join(told(rule, paths[rule.name]) for rule in rules),
            interrupts=bool(stopping),
            keep=all(map(self._keeps, stopping or rules)),
        )

    def _interrupts(self, rule: Rule, kind: Kind) -> bool:
        return kind in _INTERRUPTED[rule.interrupt or self.settings.interrupt]

    def _keeps(self, rule: Rule) -> bool:
        return self.settings.context == "keep" if rule.keep is None else rule.keep
