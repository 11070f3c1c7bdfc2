"""The status line below the input, and the line that says what the agent is doing.

Both are values that the terminal draws; nothing here knows a terminal. The figures are updated when
a message ends, because counting a long conversation for every redraw would be slow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.agent import Agent
from penstock.agent import events as agent_events
from penstock.agent.events import AgentEvent
from penstock.agent.tokens import context_tokens
from penstock.cli.chat.render import StyledText, escape_text
from penstock.errors import shorten
from penstock.events import TextDelta, ThinkingDelta, ToolCallStart
from penstock.models.catalog import Prices, cost, find_facts

FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
"""The steps of the spinner."""

FRAME_SECONDS: Final = 0.1
"""The time between two steps of the spinner."""

MAX_NAME: Final = 40
"""The characters of the name of a model or a tool that are shown."""

NEARLY_FULL: Final = 80
"""The percentage of the context from which it is shown in yellow."""

SEPARATOR: Final = " · "

_THOUSAND: Final = 1_000
_MILLION: Final = 1_000_000
_CENT: Final = 0.01


class ChatStatus:
    """The figures of a conversation: the model, the context, the tokens and what they cost."""

    def __init__(self, agent: Agent, folder: str, effort: str = "") -> None:
        self._agent = agent
        self._folder = folder
        self._parts: list[StyledText] = []
        self._cost: float | None = None
        self._counted = agent.usage
        self.effort = effort
        self.update()

    def update(self) -> None:
        """Count again."""
        agent = self._agent
        name = shorten(agent.model.name or "unnamed model", MAX_NAME)
        model = f"{name} ({self.effort})" if self.effort else name
        parts = [StyledText(escape_text(model), "cyan")]
        tools = [tool.tool for tool in agent.tools]
        used = context_tokens(agent.messages, agent.system, tools) if agent.messages else 0
        facts = find_facts(agent.model.name)
        if used:
            parts.append(_describe_context(used, facts.window))
        spent = agent.usage
        read = spent.input + spent.cache_read + spent.cache_write
        if read or spent.output:
            tokens = f"↑{format_count(read)} ↓{format_count(spent.output)}"
            parts.append(StyledText(tokens, "dim"))
        self._add_cost(facts.prices)
        if self._cost is not None:
            parts.append(StyledText(format_money(self._cost), "dim"))
        parts.append(StyledText(escape_text(self._folder), "dim"))
        self._parts = parts

    def _add_cost(self, prices: Prices | None) -> None:
        """Add what was spent since the last time, at the prices of the current model."""
        usage, before = self._agent.usage, self._counted
        self._counted = usage
        if prices is not None:
            spent = cost(usage, prices).total - cost(before, prices).total
            self._cost = (self._cost or 0.0) + spent

    def render(self, columns: int) -> list[StyledText]:
        """Return the line; parts that do not fit into *columns* are omitted, from the end."""
        line: list[StyledText] = []
        used = 0
        for part in self._parts:
            size = len(part.text) + (len(SEPARATOR) if line else 0)
            if used + size > columns:
                break
            line += [StyledText(SEPARATOR, "dim"), part] if line else [part]
            used += size
        return line


def _describe_context(used: int, window: int) -> StyledText:
    if not window:
        return StyledText(f"context {format_count(used)}", "dim")
    share = 100 * used // window
    style = "yellow" if share >= NEARLY_FULL else "dim"
    return StyledText(f"context {share}% of {format_count(window)}", style)


def format_count(count: int) -> str:
    """Return *count* in at most four characters and a unit: 950, 12.3k, 1.2M."""
    if count < _THOUSAND:
        return str(count)
    unit, name = (_THOUSAND, "k") if count < _MILLION - _THOUSAND // 2 else (_MILLION, "M")
    value = count / unit
    return f"{value:.1f}{name}" if value < 100 else f"{value:.0f}{name}"  # noqa: PLR2004 - digits


def format_money(amount: float) -> str:
    """Return *amount* in dollars, with the digits that matter."""
    return f"${amount:.2f}" if amount >= 10 * _CENT else f"${amount:.4f}"


class Activity:
    """What the agent is doing, with a spinner and the time since the run started."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started: float | None = None
        self._doing = ""
        self._running: dict[str, str] = {}

    @property
    def is_active(self) -> bool:
        """Whether something is in progress."""
        return self._started is not None

    def start(self, doing: str) -> None:
        """Begin to show *doing*."""
        self._started, self._doing = self._clock(), doing
        self._running.clear()

    def stop(self) -> None:
        """End; the line is empty."""
        self._started = None

    def follow(self, event: AgentEvent) -> None:
        """Change to what *event* says."""
        match event:
            case agent_events.TurnStarted():
                self._doing = "Waiting for the model"
            case agent_events.MessageUpdated(event=ThinkingDelta()):
                self._doing = "Reasoning"
            case agent_events.MessageUpdated(event=TextDelta()):
                self._doing = "Writing"
            case agent_events.MessageUpdated(event=ToolCallStart(name=name)):
                self._doing = f"Calling {_shorten_name(name)}"
            case agent_events.ToolStarted(id=call, name=name):
                self._running[call] = name
            case agent_events.ToolEnded(id=call):
                self._running.pop(call, None)
            case agent_events.RetryStarted():
                self._doing = "Waiting to retry"
            case agent_events.CompactionStarted():
                self._doing = "Summarizing"
            case _:
                return

    def render(self) -> list[StyledText]:
        """Return the line; empty if nothing is in progress."""
        if self._started is None:
            return []
        seconds = self._clock() - self._started
        frame = FRAMES[int(seconds / FRAME_SECONDS) % len(FRAMES)]
        running = [_shorten_name(name) for name in self._running.values()]
        doing = f"Running {', '.join(running)}" if running else self._doing
        return [
            StyledText(f"{frame} ", "cyan"),
            StyledText(f"{shorten(doing, 2 * MAX_NAME)}… "),
            StyledText(f"{_format_seconds(seconds)}", "dim"),
        ]


def _shorten_name(name: str) -> str:
    return shorten(escape_text(name), MAX_NAME)


def _format_seconds(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole}s" if whole < 60 else f"{whole // 60}m {whole % 60:02}s"  # noqa: PLR2004 - time
