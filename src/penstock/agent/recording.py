"""Who writes down what an agent's conversation consists of: a session is one.

The agent waits for it: what was told with `message_end` has been written. A record that fails is
told as a complaint, and the run goes on; only a call whose beginning cannot be written is not run.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from penstock.agent.approval import Approval
from penstock.agent.watching import Finding
from penstock.messages import ToolCall, ToolResult
from penstock.requests import Message


class Recorder(Protocol):
    """Writes down the conversation as it becomes final."""

    async def message(self, message: Message, *, kept: bool = True) -> None:
        """Write a final message; one that is not *kept* is no part of the context."""

    async def finding(self, finding: Finding) -> None:
        """Write which rules have spoken; what they said comes as a message."""

    async def compacted(self, summary: str, kept: int, tokens: int) -> None:
        """Write that all but the last *kept* messages of the context are now *summary*.

        *tokens* is how long the context was before.
        """


@runtime_checkable
class CallRecorder(Recorder, Protocol):
    """A recorder that also writes down which calls began, so that none runs twice after a crash."""

    async def call_started(self, call: ToolCall, approval: Approval) -> None:
        """Write that *call* is about to run with the arguments that it has; why says *approval*.

        What this raises keeps the call from running.
        """

    async def call_ended(self, result: ToolResult) -> None:
        """Write what a call came to, as soon as that is known; it comes as a message later."""
