"""An agent's events in the words of front ends."""

from penstock.agent.views.segments import AgentSegments
from penstock.agent.views.ui_chunks import DONE, UI_HEADERS, encode
from penstock.agent.views.ui_messages import decisions_of, prompt_of, read_ui_messages
from penstock.agent.views.ui_stream import UIStream, ui_stream

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
