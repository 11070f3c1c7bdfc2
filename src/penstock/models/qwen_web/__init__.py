"""The web chat of Qwen as an upstream: its server keeps conversations, penstock the place in them.

`model` is what a user holds. A request that goes on where an earlier answer ended (`conversation`
tells, `sessions` remember) is asked in the chat of that answer, with what is new and nothing else;
any other is told whole, in a new chat. `turn` asks for one answer, `credentials` say who asks.
"""

from penstock.models.qwen_web.credentials import QwenCredentials
from penstock.models.qwen_web.model import QwenWebModel
from penstock.models.qwen_web.sessions import MemorySessions, QwenSession, Sessions

__all__ = ["MemorySessions", "QwenCredentials", "QwenSession", "QwenWebModel", "Sessions"]
