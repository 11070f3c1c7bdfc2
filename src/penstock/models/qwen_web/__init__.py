"""The web chat of Qwen as an upstream: its server keeps the conversations.

Start with `model.QwenWebModel`. A request that continues an earlier response is sent to the chat of
that response with only the new messages; any other request is sent whole to a new chat. `sessions`
finds and stores the position in a chat, `turn` gets one response.
"""

from penstock.models.qwen_web.model import QwenCredentials, QwenWebModel
from penstock.models.qwen_web.sessions import MemorySessions, QwenSession, QwenSessions

__all__ = ["MemorySessions", "QwenCredentials", "QwenSession", "QwenSessions", "QwenWebModel"]
