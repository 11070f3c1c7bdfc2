"""Who looks on while an answer comes, and may stop it: stream rules and guards."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, Protocol

from msgspec import Struct

from penstock.agent.hooks import Complain
from penstock.errors import UsageError
from penstock.events import Event
from penstock.messages import ToolResult


class Finding(Struct, frozen=True):
    """What a watch found: *text* is what the model is told of it.

    One that *interrupts* stops the answer at once; any other is told after the turn. *keep* says
    that what had arrived of the answer stays in what the model is shown again. Raises `UsageError`
    for another *source*: the record says who spoke.
    """

    source: Literal["rule", "guard"]
    names: list[str]
    text: str
    interrupts: bool = True
    keep: bool = False

    def __post_init__(self) -> None:
        if self.source not in ("rule", "guard"):
            raise UsageError(f"a finding is of a rule or a guard, not of {self.source!r}")


class Watch(Protocol):
    """Sees the events of every answer as they come; must be quick, and never waits."""

    def prompt_started(self) -> None:
        """Begin a prompt: budgets are full again."""

    def turn_started(self) -> None:
        """Begin a turn."""

    def answer_started(self) -> None:
        """Begin an answer: nothing of it was seen yet."""

    def see(self, event: Event) -> Finding | None:
        """Look at *event*, before anybody else sees it."""

    def tool_ended(self, result: ToolResult) -> None:
        """See that a tool gave *result*: files may have changed."""

    def turn_ended(self) -> None:
        """End the turn."""


class Watches:
    """All who look on; what one of them raises is a complaint, and the others look on."""

    def __init__(self, watches: Iterable[Watch], complain: Complain) -> None:
        self._watches = tuple(watches)
        self._complain = complain

    def each(self, tell: Callable[[Watch], None]) -> None:
        """Tell each of them."""
        for watch in self._watches:
            try:
                tell(watch)
            except Exception as exc:  # noqa: BLE001 - it is the watch's own
                self._complain(type(watch).__name__, f"{type(exc).__name__}: {exc}")

    def see(self, event: Event) -> list[Finding]:
        """Show *event* to each of them; return what they found."""
        findings: list[Finding] = []

        def look(watch: Watch) -> None:
            finding = watch.see(event)
            if finding is not None:
                findings.append(finding)

        self.each(look)
        return findings
