"""An agent's run as segments, and the events of the calls among them.

Responses are shown as `penstock.views.segments` shows any response. The events of a call (approval
requested, approved or denied, started, ended) follow as events whose ``invocation_id`` is the id of
the segment, so a front end needs no table of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.agent.events import (
    AgentEvent,
    ApprovalRequested,
    CallApproved,
    CallDenied,
    MessageEnded,
    MessageStarted,
    MessageUpdated,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
)
from penstock.agent.tools.base import AgentTool
from penstock.messages import AssistantMessage
from penstock.views.segments import Handler
from penstock.views.segments.handler import NATIVE


class AgentSegments:
    """Converts the runs of an agent with these *tools*; *id_prefix* is put before generated ids."""

    def __init__(self, tools: Iterable[AgentTool] = (), *, id_prefix: str = "") -> None:
        self._prefix = id_prefix
        described = [tool.tool for tool in tools]
        self._handler = Handler(NATIVE, tools=described, id_prefix=id_prefix)
        self._responses = 0

    def feed(self, event: AgentEvent) -> list[dict[str, Any]]:
        """Return the segment events of *event*; most events around responses have none."""
        match event:
            case MessageStarted(AssistantMessage()):
                self._responses += 1
                self._handler.reset(f"{self._prefix}answer_{self._responses}:")
                return []
            case MessageUpdated():
                return [one.as_dict() for one in self._handler.feed(event.event)]
            case MessageEnded(AssistantMessage() as response):
                # A call that was cut off must not look complete.
                cut = response.stop_reason in ("error", "aborted", "length")
                return [one.as_dict() for one in self._handler.finish(cut=cut)]
        converted = _convert_call_event(event)
        return [] if converted is None else [converted]


def _convert_call_event(event: AgentEvent) -> dict[str, Any] | None:
    """Return an event of a call; None for any other."""
    kind: str
    payload: dict[str, Any]
    match event:
        case ApprovalRequested() | CallApproved():
            kind, payload = event.type, {"arguments": event.arguments}
        case CallDenied():
            kind, payload = event.type, {"reason": event.reason}
        case ToolStarted():
            kind, payload = "tool_execution_started", {"arguments": event.arguments}
        case ToolUpdated():
            kind, payload = "tool_execution_update", {"partial": event.partial}
        case ToolEnded(result=result) if result.is_error:
            kind, payload = "tool_execution_failed", {"error": result.content}
        case ToolEnded(result=result):
            kind, payload = "tool_execution_succeeded", {"result": result.content}
        case _:
            return None
    return {"type": kind, "invocation_id": event.id, "tool_name": event.name, "payload": payload}
