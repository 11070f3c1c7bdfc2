"""Compaction: shorten a conversation that is too long for its model, while the run waits.

Old outputs of tools are shortened first, which costs nothing: a file that was read an hour ago has
been dealt with, and its beginning is enough. If the conversation is still too long, the model
summarizes its older part. A summary that fails leaves the conversation unchanged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from penstock.agent.cancellation import CancelToken, RunCancelledError
from penstock.agent.conversation import Conversation
from penstock.agent.events import CompactionEnded, CompactionStarted
from penstock.agent.hooks import Cancel, HookName
from penstock.agent.settings import AgentSettings, Compaction
from penstock.agent.summarize import (
    SummaryError,
    fit_text,
    read_summary,
    replace_with_summary,
    summarize,
)
from penstock.agent.tokens import context_tokens, message_tokens, ratio
from penstock.apis.errors import error_from_exception
from penstock.apis.history import content_text, non_text_blocks
from penstock.messages import AssistantMessage, ErrorInfo, ToolResult
from penstock.models.catalog import find_facts
from penstock.request import Message, UserMessage
from penstock.tools import Tool

MIN_KEPT: Final = 0.5
"""What share of the tokens that could be kept a cut between two turns must keep.

With less, more is lost by forgetting what was done than by forgetting what was requested."""

WHOLE_TOKENS: Final = 10_000
"""How many tokens of the newest outputs stay whole: what the model is working with."""

MAX_OLD_OUTPUT: Final = 1_200
"""How many characters of an old output are kept: enough to see what it was and how it ended."""

Reason = Literal["threshold", "overflow", "asked"]
"""Why a conversation is summarized: it nears the limit, it exceeded it, or `Agent.compact`."""


class Compactor:
    """Keeps the conversation of a run within the window of its model."""

    def __init__(
        self, settings: AgentSettings, conversation: Conversation, cancel: CancelToken
    ) -> None:
        self._settings = settings
        self._compaction = settings.compaction or Compaction()
        if not self._compaction.window:
            facts = find_facts(settings.model.name, settings.catalog)
            self._compaction = replace(self._compaction, window=facts.window)
        self._conversation = conversation
        self._cancel = cancel
        self._can_remedy = settings.compaction is not None
        # The system prompt and the tools are sent with every request, so providers count them too.
        self._rest = (settings.system, [tool.tool for tool in settings.tools])

    def take_remedy(self) -> Callable[[], Awaitable[bool]] | None:
        """Return a function that makes room after an overflow; None if it did not help before."""
        if not self._can_remedy:
            return None
        self._can_remedy = False  # once per run
        return partial(self.compact, "overflow")

    async def compact_if_due(self) -> None:
        """Shorten the conversation if it nears the limit."""
        messages = self._conversation.messages
        tokens = context_tokens(messages, *self._rest)
        if self._settings.compaction is None or not self._compaction.is_due(tokens):
            return
        if self._compaction.prune:
            pruned = prune(messages)
            messages[:] = pruned.messages
            tokens -= round(pruned.saved * ratio(messages, *self._rest))
        if self._compaction.is_due(tokens):
            await self.compact("threshold")

    async def compact(self, reason: Reason) -> bool:
        """Summarize the older part; return whether the conversation is shorter now."""
        messages = self._conversation.messages
        tokens = context_tokens(messages, *self._rest)
        cut = plan_compaction(messages, self._compaction, *self._rest)
        if cut is None:
            return False
        if isinstance(await self._run_hook("session_before_compact", reason), Cancel):
            return False
        self._conversation.emit(CompactionStarted(reason, tokens))
        ended = await self._summarize(cut, tokens)
        self._conversation.emit(ended)
        if ended.error is None:
            await self._run_hook("session_compact", ended)
        return ended.error is None

    async def _run_hook(self, hook: HookName, value: object) -> object:
        """Run the hooks; an abort counts as `Cancel`."""
        try:
            async with self._cancel.guard():
                report = self._conversation.report_error
                return await self._settings.hooks.run(hook, value, report)
        except RunCancelledError:
            return Cancel("aborted")

    async def _summarize(self, cut: Cut, tokens: int) -> CompactionEnded:
        conversation = self._conversation
        old, kept = conversation.messages[: cut.at], conversation.messages[cut.at :]
        # The agent retries whole turns, so a failed summary is not retried below it.
        model = self._compaction.model or self._settings.model.without_retries()
        try:
            async with self._cancel.guard():
                summary, usage = await summarize(model, old, room=self._compaction.room)
        except RunCancelledError:
            return CompactionEnded(error=ErrorInfo("the summary was aborted", "aborted"))
        except SummaryError as exc:
            conversation.spend(model.name, exc.usage, "compaction")
            return CompactionEnded(error=exc.info)
        except Exception as exc:  # noqa: BLE001 - a user's model may raise anything
            return CompactionEnded(error=error_from_exception(exc))
        conversation.spend(model.name, usage, "compaction")
        shorter = replace_with_summary(summary, kept)
        await conversation.compact(shorter, summary, len(kept), tokens)
        return CompactionEnded(summary, len(kept))


# --- where to cut ---
#
# A call and its results are never separated, and the kept part never begins with a result. A cut is
# between two turns if that keeps enough; a single turn that is too long is cut before a response.


class Cut(Struct, frozen=True):
    """A cut before the message *at*, which keeps about *tokens*.

    *splits_turn* says that a prompt is before the cut and responses to it are after it.
    """

    at: int
    tokens: int
    splits_turn: bool = False


def plan_compaction(
    messages: Sequence[Message],
    compaction: Compaction,
    system: str = "",
    tools: Sequence[Tool] = (),
) -> Cut | None:
    """Return where *compaction* cuts *messages*; None if there is nothing to summarize.

    *system* and *tools* are sent with the conversation, so they are part of its counts.
    """
    return plan_cut(messages, round(compaction.kept / ratio(messages, system, tools)))


def plan_cut(messages: Sequence[Message], keep_tokens: int) -> Cut | None:
    """Return the cut that keeps as much as possible, at most *keep_tokens*.

    At most half of the conversation is kept, so that a summary is worth its cost. If even the last
    unit that cannot be separated is too long, it alone is kept. None if there is nothing to
    summarize.
    """
    points = find_cut_points(messages)
    if not points:
        return None
    sizes = [message_tokens(message) for message in messages]
    tokens_from = [*accumulate(reversed(sizes))][::-1]  # of each message and all after it
    budget = min(keep_tokens, tokens_from[0] // 2)
    fitting = [at for at in points if tokens_from[at] <= budget]
    if fitting:
        least = tokens_from[fitting[0]] * MIN_KEPT
        turns = (at for at in fitting if isinstance(messages[at], UserMessage))
        at = next((at for at in turns if tokens_from[at] >= least), fitting[0])
    else:
        at = points[-1]
    return Cut(at, tokens_from[at], splits_turn=not isinstance(messages[at], UserMessage))


def find_cut_points(messages: Sequence[Message]) -> list[int]:
    """Return the positions before which a conversation may be cut, in order.

    Before each there is something new to summarize: a summary alone is not summarized again.
    """
    first = 2 if messages and read_summary(messages[0]) is not None else 1
    # The last result of each response. Results belong to the response before them: many models use
    # the same ids in every response.
    last_results: dict[int, int] = {}
    response, ids = -1, frozenset[str]()
    for at, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            response, ids = at, frozenset(call.id for call in message.tool_calls)
        elif isinstance(message, ToolResult) and message.id in ids:
            last_results[response] = at
    points, furthest = [], -1
    for at, message in enumerate(messages):
        if at >= first and furthest < at and not isinstance(message, ToolResult):
            points.append(at)
        furthest = max(furthest, last_results.get(at, -1))
    return points


# --- old outputs ---


class Pruned(Struct, frozen=True):
    """A conversation with shortened outputs, and about how many tokens that *saved*."""

    messages: list[Message]
    saved: int = 0


def prune(messages: Sequence[Message], whole_tokens: int = WHOLE_TOKENS) -> Pruned:
    """Shorten the old outputs of tools; return a new list.

    The outputs of the last response stay whole, and as many before them as fit into *whole_tokens*.
    Pruning again changes nothing. The count of the last response is then too high by `saved`.
    """
    pruned, saved, left = list(messages), 0, whole_tokens
    calling = [
        at
        for at, message in enumerate(messages)
        if isinstance(message, AssistantMessage) and message.tool_calls
    ]
    newest = calling[-1] if calling else -1
    for at in range(len(messages) - 1, -1, -1):
        result = messages[at]
        if not isinstance(result, ToolResult):
            continue
        size = message_tokens(result)
        left -= size
        if at >= newest or left >= 0:
            continue
        images = len(non_text_blocks(result))
        note = f"\n[{images} images or files omitted]" if images else ""
        # Providers reject a call without a result, so the message stays and only its text is
        # shortened.
        short = replace(
            result, content=fit_text(content_text(result.content), MAX_OLD_OUTPUT) + note
        )
        if message_tokens(short) < size:
            pruned[at] = short
            saved += size - message_tokens(short)
    return Pruned(pruned, saved)
