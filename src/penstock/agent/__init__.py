"""The agent: a model, tools, and the loop between them.

`events` documents what a run emits, and in which order. An `Agent` has the model, the tools and the
conversation. `Agent.run` starts a `Loop` of turns: `turn` requests a response, and `tool_calls`
runs the calls in it. Events reach their consumers through `subscribers`, which cannot slow the run
down. Extensions take part through `hooks`, and `session` records the conversation.
"""

from penstock.agent.agent import Agent, AgentBusyError
from penstock.agent.approval import Allow, Decision, Defer, Deny, Edit, Resolution, Retry
from penstock.agent.conversation import Recorder
from penstock.agent.events import AgentEvent
from penstock.agent.hooks import Briefing, Cancel, Finding, Guard, Hooks
from penstock.agent.output import Output, OutputFaultError
from penstock.agent.run import AgentRun, AgentRunError, RunResult
from penstock.agent.session import Session
from penstock.agent.settings import AgentRetry, Compaction, RunLimits
from penstock.agent.tools import AgentTool, ResultFile, ToolContext, ToolOutput, tool

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
    "Cancel",
    "Compaction",
    "Decision",
    "Defer",
    "Deny",
    "Edit",
    "Finding",
    "Guard",
    "Hooks",
    "Output",
    "OutputFaultError",
    "Recorder",
    "Resolution",
    "ResultFile",
    "Retry",
    "RunLimits",
    "RunResult",
    "Session",
    "ToolContext",
    "ToolOutput",
    "tool",
]
