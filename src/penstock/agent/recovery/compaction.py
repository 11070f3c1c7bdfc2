"""When a conversation is too long for its model, and how much of it stays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from penstock.agent.recovery.summarize import LEAST_ROOM, ROOM, summary_of
from penstock.agent.recovery.token_estimate import message_tokens, ratio
from penstock.agent.text import shortened
from penstock.apis.history import beside_text, text_of
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, ToolResult
from penstock.models.base import Model
from penstock.request import Message, UserMessage
from penstock.tools import Tool

# Where a conversation may be cut in two, and where it is best cut.
#
# What comes before a cut becomes a summary, what comes after it stays as it is. A call and
# its results are never parted, and nothing begins with a result. A cut falls between two turns
# where that keeps enough; a turn that is too long by itself is cut before one of its answers.


LEAST_KEPT: Final = 0.5
"""What share of the messages that could stay a cut between two turns must keep.

Below it, more is lost by forgetting what was done than by forgetting what was asked.
"""


class Cut(Struct, frozen=True):
    """A cut before the message *at*: of those after it, about *tokens* stay.

    *splits_turn* says that a question is on one side and answers to it are on the other.
    """

    at: int
    tokens: int
    splits_turn: bool = False


def plan(messages: Sequence[Message], keep_tokens: int) -> Cut | None:
    """Say where to cut so that at most *keep_tokens* stay, and as many of them as can be.

    At most half of the conversation stays, so that there is something to gain. Where not even
    what cannot be parted fits, that alone stays. None is not a cut: there is nothing to sum up.
    """
    points = cut_points(messages)
    if not points:
        return None
    behind = _tokens_behind(messages)
    budget = min(keep_tokens, behind[0] // 2)
    at = _choose(messages, points, behind, budget)
    return Cut(at, behind[at], splits_turn=not isinstance(messages[at], UserMessage))


def cut_points(messages: Sequence[Message]) -> list[int]:
    """Return the places before which a conversation may be cut, in order.

    There is something new to sum up before each: a summary alone is not summed up again.
    """
    first = 2 if messages and summary_of(messages[0]) is not None else 1
    until = _last_results(messages)
    points, furthest = [], -1
    for at, message in enumerate(messages):
        if at >= first and furthest < at and not isinstance(message, ToolResult):
            points.append(at)
        furthest = max(furthest, until.get(at, -1))
    return points


def _choose(messages: Sequence[Message], points: list[int], behind: list[int], budget: int) -> int:
    fitting = [at for at in points if behind[at] <= budget]
    if not fitting:
        return points[-1]
    most = behind[fitting[0]]
    turns = (at for at in fitting if isinstance(messages[at], UserMessage))
    return next((at for at in turns if behind[at] >= most * LEAST_KEPT), fitting[0])


def _last_results(messages: Sequence[Message]) -> dict[int, int]:
    """Say for each answer with calls where the last of their results stands.

    Results belong to the answer before them: models name their calls alike in every answer.
    """
    until: dict[int, int] = {}
    answer, waiting = -1, frozenset[str]()
    for at, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            answer, waiting = at, frozenset(call.id for call in message.tool_calls)
        elif isinstance(message, ToolResult) and message.id in waiting:
            until[answer] = at
    return until


def _tokens_behind(messages: Sequence[Message]) -> list[int]:
    """Return for each message the tokens of it and all after it."""
    sizes = [message_tokens(message) for message in messages]
    return [*accumulate(reversed(sizes))][::-1]


# Old outputs of tools made short: the cheapest room there is, and nobody has to be asked for
# it.
#
# A file that was read an hour ago has been dealt with; that it was read, and how it began, is
# enough. The newest outputs stay whole: those of the last answer in any case, and as many
# before them as fit into `WHOLE_TOKENS`. What was shortened before stays as it is, so pruning
# twice is pruning once.


WHOLE_TOKENS: Final = 10_000
"""How many tokens of the newest outputs stay whole: what a model works with at the moment."""

SHORT: Final = 1_200
"""How many characters an old output keeps: enough to see what it was, and how it ended."""


class Pruned(Struct, frozen=True):
    """A conversation with short old outputs, and about how many tokens they had been more."""

    messages: list[Message]
    saved: int = 0


def prune(messages: Sequence[Message], whole_tokens: int = WHOLE_TOKENS) -> Pruned:
    """Shorten the old outputs of tools in *messages*, which stay as they are.

    What has been counted with the last answer is no longer true then: `saved` says by how much.
    """
    pruned, saved = list(messages), 0
    newest, left = _last_calls(messages), whole_tokens
    for at in range(len(messages) - 1, -1, -1):
        result = messages[at]
        if not isinstance(result, ToolResult):
            continue
        size = message_tokens(result)
        left -= size
        if at < newest and left < 0:
            pruned[at] = _short(result)
            saved += size - message_tokens(pruned[at])
    return Pruned(pruned, saved)


def _last_calls(messages: Sequence[Message]) -> int:
    """Return the place of the last answer that calls tools: what comes after it is the newest."""
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, AssistantMessage) and message.tool_calls:
            return at
    return -1


def _short(result: ToolResult) -> ToolResult:
    """Return *result* with what it begins and ends with.

    The same one where that is not a shorter.
    """
    pictures = len(beside_text(result))
    note = f"\n[{pictures} pictures or files left out]" if pictures else ""
    short = replace(result, content=shortened(text_of(result.content), SHORT) + note)
    return short if message_tokens(short) < message_tokens(result) else result


RESERVE: Final = 16_384
"""How many tokens of the window are left for the answer, and for what guesses are wrong by."""

KEEP: Final = 20_000
"""How many tokens of the conversation stay as they are."""

MOST_RESERVED: Final = 4
"""The reserve is at most one part of so many of the window: small windows are all reserve else."""


class Compaction(Struct, frozen=True):
    """Sums up a conversation that no longer fits into *window* less *reserve* tokens.

    About *keep* tokens of it stay as they are; with *prune*, old outputs of tools are shortened
    first, which may be enough. *model* sums up, in place of the agent's own. Without a window (0)
    nobody knows what fits: then only a model that refuses makes a compaction.

    Of a small window at most a quarter is reserved, and at most half of the rest stays.

    Raises `UsageError` for a number below zero.
    """

    window: int = 0
    reserve: int = RESERVE
    keep: int = KEEP
    prune: bool = True
    model: Model | None = None

    def __post_init__(self) -> None:
        if min(self.window, self.reserve, self.keep) < 0:
            raise UsageError("a window, a reserve and what is kept are zero or more tokens")

    @property
    def threshold(self) -> int:
        """How long a conversation may be; 0 where nobody knows."""
        return self.window - min(self.reserve, self.window // MOST_RESERVED)

    @property
    def kept(self) -> int:
        """How many tokens stay as they are: *keep*, or as many as the window allows."""
        return min(self.keep, self.threshold // 2) if self.window else self.keep

    @property
    def room(self) -> int:
        """How many tokens of conversation one question for a summary may hold."""
        return max(LEAST_ROOM, min(ROOM, self.threshold // 2)) if self.window else ROOM

    def is_due(self, tokens: int) -> bool:
        """Return whether a conversation of *tokens* is too long."""
        return 0 < self.threshold < tokens

    def cut(
        self, messages: Sequence[Message], system: str = "", tools: Sequence[Tool] = ()
    ) -> Cut | None:
        """Say where to cut *messages*; None where there is nothing to sum up.

        *system* and *tools* go along with the conversation: they tell what its tokens weigh.
        """
        return plan(messages, round(self.kept / ratio(messages, system, tools)))
