"""What a model is to penstock: a request in, a stream of events out.

A stream function returns at once and never raises: whatever fails is in the stream. So a model can
be wrapped by another (`ToolMiddleware` is one), and whoever reads the stream has one place to look.
"""

from __future__ import annotations

from typing import Protocol

from penstock.messages import AssistantMessage
from penstock.requests import Request
from penstock.streams import EventStream


class Model(Protocol):
    """Anything that answers requests."""

    @property
    def name(self) -> str:
        """The name of the model that answers, as its server knows it."""

    def stream(self, request: Request) -> EventStream:
        """Begin to answer *request*; never raises, every failure is in the stream."""

    async def complete(self, request: Request) -> AssistantMessage:
        """Give the whole answer; one that failed has `error` set."""

    async def close(self) -> None:
        """Let go of what the model holds: connections, threads, memory."""
