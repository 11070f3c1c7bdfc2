"""A rule: what to look for in an answer, where, and what to tell the model when it is there."""

from __future__ import annotations

import re
from typing import Final, Literal

from msgspec import Struct

from penstock.agent.rules.nodes import compile_quietly
from penstock.agent.rules.scopes import DEFAULT_SCOPE, Kind, Scope, read_scope
from penstock.errors import PenstockError

Interrupt = Literal["always", "prose-only", "tool-only", "never"]
"""When a rule stops the answer; when it does not, the model is told after the turn."""

Repeat = Literal["once", "after-gap"]
"""Whether a rule speaks once in a conversation, or again after some turns."""

GAP: Final = 10
"""How many turns a rule is silent that may repeat itself: long enough for the model to forget."""

BUDGET: Final = 8
"""How often rules speak in one prompt: a model that goes on after that will not learn it now."""


class RuleError(PenstockError):
    """A rule that cannot be used, and why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"rule {name!r}: {reason}")
        self.name = name
        self.reason = reason

    def __reduce__(self) -> tuple[type[RuleError], tuple[str, str]]:
        return type(self), (self.name, self.reason)


class RuleSettings(Struct, frozen=True):
    """What holds for all rules that do not say otherwise.

    *context* says whether what had arrived of a stopped answer is shown to the model again.
    *budget* is how often rules may speak in one prompt.
    """

    enabled: bool = True
    context: Literal["discard", "keep"] = "discard"
    interrupt: Interrupt = "always"
    repeat: Repeat = "once"
    gap: int = GAP
    budget: int = BUDGET


class Rule(Struct, frozen=True):
    """Regular expressions to look for, where to look, and the *text* that the model is told.

    *scope* is made of the words that `scopes` explains, *globs* narrows it to calls that name a
    path which fits one of them. *interrupt*, *repeat*, *gap* and *keep* are those of the settings
    unless the rule has its own. Raises `RuleError` where one of *conditions* or *scope* cannot be
    read, or no stream could ever match.
    """

    name: str
    conditions: tuple[str, ...]
    text: str
    scope: tuple[str, ...] = DEFAULT_SCOPE
    globs: tuple[str, ...] = ()
    interrupt: Interrupt | None = None
    repeat: Repeat | None = None
    gap: int | None = None
    keep: bool | None = None

    def __post_init__(self) -> None:
        self.patterns()
        if not self.scopes():
            reason = "globs are for calls, and no call is in its scope"
            raise RuleError(self.name, reason if self.globs else "it looks nowhere")
        if self.gap is not None and self.gap < 1:
            raise RuleError(self.name, "its gap is less than one turn")

    def patterns(self) -> list[re.Pattern[str]]:
        """Give the conditions, compiled."""
        if not self.conditions:
            raise RuleError(self.name, "it has no condition")
        compiled = []
        for condition in self.conditions:
            pattern = compile_condition(condition)
            if isinstance(pattern, str):
                raise RuleError(self.name, pattern)
            compiled.append(pattern)
        return compiled

    def scopes(self) -> list[Scope]:
        """Give the places where the rule looks; with globs that is only at calls."""
        scopes = []
        for token in self.scope:
            scope = read_scope(token)
            if scope is None:
                raise RuleError(self.name, f"its scope {token!r} means nothing")
            if scope.kind == "tool" or not self.globs:
                scopes.append(scope)
        return scopes

    def covers(self, kind: Kind, tool: str = "") -> bool:
        """Tell whether the rule looks at a stream of *kind*."""
        return any(scope.covers(kind, tool) for scope in self.scopes())


def compile_condition(condition: str) -> re.Pattern[str] | str:
    """Compile *condition*, or say why it is none.

    ``^`` and ``$`` are the borders of lines: what is looked at is mostly code.
    """
    try:
        pattern = compile_quietly(condition, re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as exc:
        return f"its condition {condition!r} is no regular expression: {exc}"
    if pattern.search(""):
        return f"its condition {condition!r} is met by no text at all"
    return pattern
