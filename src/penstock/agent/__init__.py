"""The agent: a model, tools, and the loop between them.

`events` is the manual: what a run tells, and in which order. An `Agent` holds the model, the tools
and the conversation; `run` begins a `Loop`, whose turns are an answer (`asking`, `answering`) and
the calls in it (`calls`). Who looks on is told through `outlets`, and cannot hold the run up.
"""

from penstock.agent.agent import Agent, AgentBusyError
from penstock.agent.approval import Allow, Decision, Defer, Deny, Edit, Resolution, Retry
from penstock.agent.conversation import CallRecorder, Recorder
from penstock.agent.events import AgentEvent
from penstock.agent.hooks import Briefing, Cancel, Hooks
from penstock.agent.recovery import AgentRetry, Compaction
from penstock.agent.run import AgentRun, AgentRunError
from penstock.agent.session import Session
from penstock.agent.tools import AgentTool, ToolContext, ToolOutput, tool
from penstock.agent.watch import Finding, Watch

__all__ = [
    "Agent",
    "AgentBusyError",
    "AgentEvent",
    "AgentRetry",
    "AgentRun",
    "AgentRunError",
    "AgentTool",
    "Allow",
    "Briefing",
    "CallRecorder",
    "Cancel",
    "Compaction",
    "Decision",
    "Defer",
    "Deny",
    "Edit",
    "Finding",
    "Hooks",
    "Recorder",
    "Resolution",
    "Retry",
    "Session",
    "ToolContext",
    "ToolOutput",
    "Watch",
    "tool",
]
