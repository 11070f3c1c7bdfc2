"""An agent's run as segments, and what becomes of the calls among them.

The answers are shown as `penstock.views.segments` shows any answer. What follows a call (somebody
is asked, it is approved or denied, it runs, it ends) comes as an event of its own whose
``invocation_id`` is the id of the segment, so a front end needs no table of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

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

NATIVE: Final = "api_tool_call"
"""The strategy: an agent's calls are events by the time that anybody sees them."""


class AgentSegments:
    """Shows the runs of an agent that has these *tools*; *id_prefix* comes before made-up ids."""

    def __init__(self, tools: Iterable[AgentTool] = (), *, id_prefix: str = "") -> None:
        self._prefix = id_prefix
        described = [tool.tool for tool in tools]
        self._handler = Handler(NATIVE, tools=described, id_prefix=id_prefix)
        self._answers = 0

    def feed(self, event: AgentEvent) -> list[dict[str, Any]]:
        """Return what a front end is told of *event*; nothing, for most events around answers."""
        match event:
            case MessageStarted(AssistantMessage()):
                self._answers += 1
                self._handler.reset(f"{self._prefix}answer_{self._answers}:")
                return []
            case MessageUpdated():
                return [one.as_dict() for one in self._handler.feed(event.event)]
            case MessageEnded(AssistantMessage() as answer):
                cut = answer.stop_reason in ("error", "aborted", "length")
                return [one.as_dict() for one in self._handler.finish(cut=cut)]
        told = _told(event)
        return [] if told is None else [told]


def _told(event: AgentEvent) -> dict[str, Any] | None:
    """Return an event of a call in a front end's words; None for any other."""
    said: dict[str, Any]
    match event:
        case ApprovalRequested() | CallApproved():
            said = {"arguments": event.arguments}
        case CallDenied():
            said = {"reason": event.reason}
        case ToolStarted():
            return _about(event, "tool_execution_started", {"arguments": event.arguments})
        case ToolUpdated():
            return _about(event, "tool_execution_update", {"partial": event.partial})
        case ToolEnded():
            failed = event.result.is_error
            kind = "tool_execution_failed" if failed else "tool_execution_succeeded"
            return _about(event, kind, {"error" if failed else "result": event.result.content})
        case _:
            return None
    return _about(event, event.type, said)


def _about(
    event: ApprovalRequested | CallApproved | CallDenied | ToolStarted | ToolUpdated | ToolEnded,
    kind: str,
    payload: dict[str, Any],
) -> dict[str, Any]:
    return {
        "type": kind,
        "invocation_id": event.id,
        "tool_name": event.name,
        "payload": payload,
    }
