"""Where a conversation may be cut in two, and where it is best cut.

What stands before a cut becomes a summary, what stands behind it stays as it is. A call and its
results are never parted, and nothing begins with a result. A cut falls between two turns where
that keeps enough; a turn that is too long by itself is cut before one of its answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct

from penstock.agent.recovery.summaries import summary_of
from penstock.agent.recovery.tokens import message_tokens
from penstock.messages import AssistantMessage, ToolResult
from penstock.requests import Message, UserMessage

LEAST_KEPT: Final = 0.5
"""What share of the messages that could stay a cut between two turns must keep.

Below it, more is lost by forgetting what was done than by forgetting what was asked.
"""


class Cut(Struct, frozen=True):
    """A cut before the message *at*: of those behind it, about *tokens* stay.

    *splits_turn* says that a question is on one side and answers to it are on the other.
    """

    at: int
    tokens: int
    splits_turn: bool = False


def plan(messages: Sequence[Message], keep_tokens: int) -> Cut | None:
    """Say where to cut so that at most *keep_tokens* stay, and as many of them as can be.

    At most half of the conversation stays, so that there is something to gain. Where not even
    what cannot be parted fits, that alone stays. None is no cut: there is nothing to sum up.
    """
    points = cut_points(messages)
    if not points:
        return None
    behind = _tokens_behind(messages)
    budget = min(keep_tokens, behind[0] // 2)
    at = _choose(messages, points, behind, budget)
    return Cut(at, behind[at], splits_turn=not isinstance(messages[at], UserMessage))


def cut_points(messages: Sequence[Message]) -> list[int]:
    """Give the places before which a conversation may be cut, in order.

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
    """Give for each message the tokens of it and all behind it."""
    sizes = [message_tokens(message) for message in messages]
    return [*accumulate(reversed(sizes))][::-1]
