"""An agent's events in the words of front ends."""

from penstock.agent.views.ai_sdk_messages import decisions_of, prompt_of, read_ui_messages
from penstock.agent.views.ai_sdk_stream import DONE, UI_HEADERS, UIStream, encode, ui_stream
from penstock.agent.views.segments import AgentSegments

__all__ = [
    "DONE",
    "UI_HEADERS",
    "AgentSegments",
    "UIStream",
    "decisions_of",
    "encode",
    "prompt_of",
    "read_ui_messages",
    "ui_stream",
]
