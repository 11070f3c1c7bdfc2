"""A conversation that has grown too long, made shorter while the run waits.

First old results of tools are cut down; where that is not enough, the model sums up what lies
further back. A summary that fails leaves the conversation as it was.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Literal

from penstock.agent.cancellation import CancelToken, RunCancelledError
from penstock.agent.conversation import Conversation
from penstock.agent.events import CompactionEnded, CompactionStarted
from penstock.agent.hooks import Cancel
from penstock.agent.recovery import (
    Compaction,
    Cut,
    SummaryError,
    compacted,
    context_tokens,
    prune,
    ratio,
    summarize,
)
from penstock.agent.settings import AgentSettings
from penstock.messages import ErrorInfo
from penstock.streams.errors import error_of
from penstock.tools import Tool

Reason = Literal["threshold", "overflow", "asked"]
"""Why a conversation is summed up: it nears the limit, it met it, or somebody wants it."""


class Compacting:
    """Keeps the conversation of a run within its model's window."""

    def __init__(
        self, setup: AgentSettings, conversation: Conversation, interrupt: CancelToken
    ) -> None:
        self._setup = setup
        self._settings = setup.compaction or Compaction()
        self._conversation = conversation
        self._interrupt = interrupt
        self._may_make_room = setup.compaction is not None  # once a run

    def remedy(self) -> Callable[[], Awaitable[bool]] | None:
        """Return what makes room for an answer that found none.

        Nothing, where that did not help.
        """
        if not self._may_make_room:
            return None
        self._may_make_room = False
        return partial(self.compact, "overflow")

    async def compact_if_due(self) -> None:
        """Make the conversation shorter if it nears the limit."""
        tokens = self._tokens()
        if self._setup.compaction is None or not self._settings.is_due(tokens):
            return
        if self._settings.prune:
            tokens -= self._prune()
        if self._settings.is_due(tokens):
            await self.compact("threshold")

    async def compact(self, reason: Reason) -> bool:
        """Sum up what lies back; return whether the conversation is shorter now."""
        tokens = self._tokens()
        cut = self._settings.cut(self._conversation.messages, *self._beside())
        if cut is None:
            return False
        allowed = await self._ask("session_before_compact", reason)
        if isinstance(allowed, Cancel):
            return False
        self._conversation.emit(CompactionStarted(reason, tokens))
        ended = await self._sum_up(cut, tokens)
        self._conversation.emit(ended)
        if ended.error is None:
            await self._ask("session_compact", ended)
        return ended.error is None

    async def _ask(self, hook: str, value: object) -> object:
        """Ask the hooks; an abort is a no."""
        try:
            async with self._interrupt.guard():
                return await self._setup.hooks.ask(hook, value, self._conversation.complain)
        except RunCancelledError:
            return Cancel("aborted")

    async def _sum_up(self, cut: Cut, tokens: int) -> CompactionEnded:
        messages = self._conversation.messages
        old, kept = messages[: cut.at], messages[cut.at :]
        model = self._settings.model or self._setup.model.without_retries()
        try:
            async with self._interrupt.guard():
                summary, usage = await summarize(model, old, room=self._settings.room)
        except RunCancelledError:
            return CompactionEnded(error=ErrorInfo("the summary was aborted", "aborted"))
        except SummaryError as exc:
            self._conversation.spending.add(exc.usage, "compaction")
            return CompactionEnded(error=exc.info)
        except Exception as exc:  # noqa: BLE001 - a model of somebody's own may raise anything
            return CompactionEnded(error=error_of(exc))
        self._conversation.spending.add(usage, "compaction")
        shorter = compacted(summary, kept)
        await self._conversation.compact(shorter, summary, len(kept), tokens)
        return CompactionEnded(summary, len(kept))

    def _prune(self) -> int:
        """Cut old results down; tell how many tokens that saves."""
        pruned = prune(self._conversation.messages)
        self._conversation.messages[:] = pruned.messages
        return round(pruned.saved * ratio(pruned.messages, *self._beside()))

    def _tokens(self) -> int:
        return context_tokens(self._conversation.messages, *self._beside())

    def _beside(self) -> tuple[str, list[Tool]]:
        """Return what goes along with the conversation."""
        return self._setup.system, [tool.tool for tool in self._setup.tools]
