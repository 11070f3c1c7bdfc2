"""What a chat has to be told beside the messages: tools, instructions and rules that are new to it.

A new chat is told everything in its first message. A chat that goes on knows what it was told; only
what has changed since is said again, before the message, and the rule of the moment behind it.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from penstock.formats import Format, get
from penstock.models.middleware.choice import Demand
from penstock.models.middleware.presets import qwen_prompt
from penstock.models.qwen_web.conversation import digest_of_text, digest_of_tools
from penstock.models.qwen_web.sessions import QwenSession
from penstock.request import Request
from penstock.tools import Tool

_INSTRUCTIONS: Final = "The instructions have changed. From now on they are:"
_TOOLS: Final = "The tools have changed. From now on they are these, and no others:"
_NO_TOOLS: Final = "There are no tools any more: answer in plain text."


class Briefing(Struct, frozen=True):
    """What is said in a chat that goes on, and digests of what any chat knows afterwards."""

    instructions: str
    tools: str
    known_tools: str
    """What a chat that goes on was told: the tools of before, where none may be called now."""
    news: str = ""
    rule: str = ""


def brief(request: Request, demand: Demand, session: QwenSession | None) -> Briefing:
    """Say what the chat of *session* has to be told for *request*, which wants *demand*."""
    instructions, tools = digest_of_text(request.system), digest_of_tools(demand.tools)
    if session is None:
        return Briefing(instructions, tools, tools)
    is_paused = not tools and bool(request.tools)  # they are there, and may not be called now
    news: list[str] = []
    if instructions != session.instructions and request.system.strip():
        news.append(f"{_INSTRUCTIONS}\n\n{request.system.strip()}")
    if tools != session.tools and not is_paused:
        news.append(f"{_TOOLS}\n\n{_shown(demand.tools)}" if tools else _NO_TOOLS)
    known = session.tools if is_paused else tools
    return Briefing(instructions, tools, known, "\n\n".join(news), demand.rule)


def _shown(tools: list[Tool]) -> str:
    format_ = get("qwen_web")
    if isinstance(format_, Format):
        return format_.render_tools(tools, template=qwen_prompt)
    return format_.render_tools(tools)
