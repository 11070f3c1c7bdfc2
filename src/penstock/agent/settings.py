"""The options of an agent: limits, retries, compaction, and all that is not the conversation."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.agent.approval import Approve
from penstock.agent.failures import EMPTY, is_transient, limit_wait
from penstock.agent.hooks import Guard, Hooks
from penstock.agent.output import Output
from penstock.agent.summarize import MIN_ROOM, ROOM
from penstock.agent.tools.base import AgentTool
from penstock.errors import UsageError
from penstock.messages import ErrorInfo, Usage
from penstock.models.base import Model, OutputMode
from penstock.models.catalog import Catalog, Cost, ModelFacts, Prices, cost, find_facts
from penstock.models.http.policy import RetryPolicy
from penstock.models.telemetry import Telemetry
from penstock.request import Request

# --- limits of a run, and what it has cost so far ---

Spent = tuple[str, Usage]
"""The tokens of one response, and the name of its model."""


class RunLimits(Struct, frozen=True):
    """How much one run may use; None: as much as it needs.

    *tokens* counts all tokens of all responses: prompts, responses, failures and summaries. *cost*
    is in US dollars, by the prices of the catalog. Both are checked before each turn, so the last
    turn may exceed them. *seconds* is the time of the whole run; it stops a response or a tool in
    the middle. A run that reaches a limit ends with an error whose `type` is ``turns``, ``tokens``,
    ``cost`` or ``time``.

    Raises `UsageError` for a limit that is not positive.
    """

    turns: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"the limit of {name} must be more than 0, got {value}")

    def find_excess(
        self, turns: int, spent: Iterable[Spent], prices: PriceList
    ) -> ErrorInfo | None:
        """Return the error of a run that has reached a limit, after *turns* that *spent* this."""
        if self.turns is not None and turns >= self.turns:
            number = "1 turn" if turns == 1 else f"{turns} turns"
            return ErrorInfo(f"the agent stopped after {number}", "aborted", "turns")
        each = list(spent)
        used = sum(count_tokens(usage) for _, usage in each)
        if self.tokens is not None and used >= self.tokens:
            reason = f"the agent stopped after {used:,} tokens; the limit is {self.tokens:,}"
            return ErrorInfo(reason, "aborted", "tokens")
        if self.cost is not None:
            paid = prices.sum(each)
            if paid is None:
                names = ", ".join(sorted({name for name, _ in each if not prices.has(name)}))
                reason = f"the cost is limited, but the price of {names} is unknown: pass `catalog`"
                return ErrorInfo(reason, "aborted", "cost")
            if paid.total >= self.cost:
                reason = f"the agent stopped after ${paid.total:.4f}; the limit is ${self.cost:g}"
                return ErrorInfo(reason, "aborted", "cost")
        return None


def count_tokens(usage: Usage) -> int:
    """Return all tokens of *usage*; some servers send no total."""
    return max(usage.total, usage.input + usage.cache_read + usage.cache_write + usage.output)


class PriceList:
    """The prices of models: those of *catalog*, or else of the package's table.

    A response names its model; *fallback* is the name for one that does not.
    """

    def __init__(self, catalog: Catalog | None, fallback: str) -> None:
        self._catalog = catalog
        self._fallback = fallback

    def has(self, name: str) -> bool:
        """Return whether the prices of the model *name* are known."""
        return self._find(name) is not None

    def sum(self, spent: Iterable[Spent]) -> Cost | None:
        """Return the cost of *spent*; None if a price is unknown."""
        total = Cost()
        for name, usage in spent:
            if not count_tokens(usage):
                continue
            prices = self._find(name)
            if prices is None:
                return None
            total += cost(usage, prices)
        return total

    def _find(self, name: str) -> Prices | None:
        # The server's name may be an alias or a file, while the caller's is in the catalog.
        found = find_facts(name or self._fallback, self._catalog).prices
        return found or find_facts(self._fallback, self._catalog).prices


# --- all settings ---

MAX_TURNS: Final = 200
"""How many turns one prompt may take, so that a model that only calls tools ends at some point."""

MAX_INTERRUPTIONS: Final = 20
"""How often guards may stop a response in one prompt, whatever budgets they have themselves."""

RESERVE: Final = 16_384
"""How many tokens of the window are reserved for the response and for errors of the estimate."""

KEEP: Final = 20_000
"""How many tokens of the conversation a compaction keeps unchanged."""

RESERVE_SHARE: Final = 4
"""The reserve is at most the window divided by this: a small window would be all reserve."""


class AgentRetry(Struct, frozen=True):
    """How often a failed response is retried, and how long to wait before.

    *attempts* does not count the first try; an empty response is retried at most once. The first
    wait is *base* seconds and each further one twice as long, up to *longest*. A random share of up
    to *jitter* is subtracted. If the server names a time to wait, or the account has reached a
    limit, the wait is that long; if it exceeds *longest_asked*, the failure is passed on.

    Raises `UsageError` for a negative number.
    """

    attempts: int = 3
    base: float = 2.0
    longest: float = 60.0
    longest_asked: float = 300.0
    jitter: float = 0.25

    def __post_init__(self) -> None:
        if self.attempts < 0:
            raise UsageError(f"attempts must be 0 or more, got {self.attempts}")
        self._policy()

    def delay(self, tried: int, error: ErrorInfo, chance: float) -> float | None:
        """Return the seconds to wait after *tried* tries, the last of which ended in *error*.

        None means not to try again. *chance* is a random number from 0 to 1.
        """
        # A model that returns nothing twice for the same conversation usually does so again.
        if not is_transient(error) or (error.type == EMPTY and tried > 1):
            return None
        # `retry_after` comes from headers, from fields or from the text ("try again in 7m12s").
        wait = limit_wait(error, chance) or error.retry_after
        return self._policy().delay(tried, replace(error, retryable=True, retry_after=wait), chance)

    def _policy(self) -> RetryPolicy:
        """Return the policy of a single request, which counts the first try too."""
        # Backoff and jitter are those of single requests; only the count and the errors differ.
        return RetryPolicy(
            self.attempts + 1, self.base, self.longest, self.longest_asked, self.jitter
        )


class Compaction(Struct, frozen=True):
    """When a conversation is summarized, and how much of it is kept.

    A conversation that does not fit into *window* less *reserve* tokens is summarized, except for
    about *keep* tokens at its end. With *prune*, old outputs of tools are shortened first, which
    may be enough. *model* writes the summary instead of the agent's own. Without a window (0) that
    of the catalog is used; if the model is not in it, a conversation is summarized only when the
    model refuses it as too long.

    Of a small window at most a quarter is reserved, and at most half of the rest is kept. Raises
    `UsageError` for a negative number.
    """

    window: int = 0
    reserve: int = RESERVE
    keep: int = KEEP
    prune: bool = True
    model: Model | None = None

    def __post_init__(self) -> None:
        if min(self.window, self.reserve, self.keep) < 0:
            raise UsageError("window, reserve and keep must be 0 or more tokens")

    @property
    def threshold(self) -> int:
        """How many tokens a conversation may have; 0 if unknown."""
        return self.window - min(self.reserve, self.window // RESERVE_SHARE)

    @property
    def kept(self) -> int:
        """How many tokens are kept: *keep*, or as many as the window allows."""
        return min(self.keep, self.threshold // 2) if self.window else self.keep

    @property
    def room(self) -> int:
        """How many tokens of the conversation one request for a summary may contain."""
        return max(MIN_ROOM, min(ROOM, self.threshold // 2)) if self.window else ROOM

    def is_due(self, tokens: int) -> bool:
        """Return whether a conversation of *tokens* is too long."""
        return 0 < self.threshold < tokens


class AgentSettings(Struct):
    """The model, the tools and the options of an agent; see `Agent`.

    Raises `UsageError` for invalid options.
    """

    model: Model
    tools: list[AgentTool] = field(default_factory=list)
    system: str = ""
    request: Request = field(default_factory=Request)
    approve: Approve | None = None
    guards: tuple[Guard, ...] = ()
    retry: AgentRetry = field(default_factory=AgentRetry)
    compaction: Compaction | None = None
    eager: bool = False
    steering: Literal["now", "later"] = "now"
    max_turns: int = MAX_TURNS
    output: Output[Any] | None = None
    limits: RunLimits = field(default_factory=RunLimits)
    catalog: dict[str, ModelFacts] = field(default_factory=dict)
    fallback: tuple[Model, ...] = ()
    deps: Any = None
    telemetry: Telemetry = field(default_factory=Telemetry)
    refused_modes: set[OutputMode] = field(default_factory=set)
    """The modes of typed output that the server of the model has refused."""
    hooks: Hooks = field(default_factory=Hooks)
    chance: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if self.max_turns < 1:
            raise UsageError(f"max_turns must be 1 or more, got {self.max_turns}")
        if self.steering not in ("now", "later"):
            raise UsageError(f"steering must be 'now' or 'later', got {self.steering!r}")
        if self.limits.cost is not None:
            for model in (self.model, *self.fallback):
                if not PriceList(self.catalog, model.name).has(model.name):
                    raise UsageError(
                        f"the cost is limited, but the price of {model.name!r} is unknown:"
                        " pass it as `catalog`"
                    )
        if self.output is not None and any(tool.name == self.output.name for tool in self.tools):
            raise UsageError(
                f"a tool has the name of the output, {self.output.name!r}: pass Output(…, name=…)"
            )
