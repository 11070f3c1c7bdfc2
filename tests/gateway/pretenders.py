"""Servers that pretend to be models of all kinds, for the doctor.

A `Pretender` speaks one API at its usual path. What it does with tools, thoughts and forms is what
a test says; everything else is refused as real servers refuse it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from models.loopback_servers import NEW_CHAT, Reply, Seen, Step, refusal, stream_of, whole
from penstock import _json
from penstock.messages import AssistantMessage, Content, Text, Thinking, ToolCall, Usage
from penstock.models.http.endpoints import ENDPOINTS
from penstock.models.http.list_models import LIST_ENDPOINTS

MARK = "zqx-7391-vlk"
CALL = ToolCall("call_1", "get_tide", {"port": "Leith"})
HERMES = '<tool_call>{"name": "get_tide", "arguments": {"port": "Leith"}}</tool_call>'
CODER = (
    "<tool_call>\n<function=get_tide>\n<parameter=port>\nLeith\n</parameter>\n</function>\n"
    "</tool_call>"
)
LISTS: dict[str, Any] = {
    "openai-chat": {"object": "list", "data": [{"id": "text-embed-1"}, {"id": "m-1"}]},
    "openai-responses": {"object": "list", "data": [{"id": "text-embed-1"}, {"id": "m-1"}]},
    "anthropic": {"data": [{"type": "model", "id": "m-1"}], "has_more": False, "last_id": "m-1"},
    "gemini": {"models": [{"name": "models/embedding-1"}, {"name": "models/m-1"}]},
    "ollama": {"models": [{"name": "m-1", "model": "m-1"}]},
    "qwen": {"data": [{"id": "m-1"}]},
}


@dataclass
class Pretender:
    """A server of *api*; return the instance to `serving`.

    *calls* is ``native``, or the text that a call is written as; *refuses_tools* answers 400 to
    them and *ignores_tools* as if there were none, so that only words in the prompt are heard.
    """

    api: str = "openai-chat"
    calls: str = "native"
    refuses_tools: bool = False
    ignores_tools: bool = False
    streams: bool = True
    thought: str = ""
    thinks_in_text: str = ""
    forms: tuple[str, ...] = ()
    usage: bool = True
    edit: Callable[[bytes], bytes] = lambda data: data
    names: object = None

    def __call__(self, seen: Seen) -> Reply:
        if seen.path == LIST_ENDPOINTS[self.api].path:
            return _json_reply(LISTS[self.api] if self.names is None else self.names)
        if self.api == "qwen" and seen.path == "/api/v2/chats/new":
            return NEW_CHAT
        if not seen.path.startswith(ENDPOINTS[self.api].path) or not seen.body:
            return refusal(404, {"detail": "Not Found"})
        return self._answer(seen.json)

    def _answer(self, body: dict[str, Any]) -> Reply:
        if body.get("tools") and self.refuses_tools:
            return refusal(400, {"error": {"message": "this model does not support tools"}})
        content = self._content(body)
        usage = Usage(input=12, output=5, total=17) if self.usage else Usage()
        has_call = any(isinstance(block, ToolCall) for block in content)
        end: Any = "tool_use" if has_call else "stop"
        message = AssistantMessage("m1", "m", content, end, "", usage)
        if not self.streams:
            return whole(self.api, message)
        data = self.edit(stream_of(self.api, message))
        size = max(1, len(data) // 8)
        steps: list[Step] = []
        for at in range(0, len(data), size):
            steps += [data[at : at + size], 0.001]
        return Reply(steps)

    def _content(self, body: dict[str, Any]) -> list[Content]:
        if said := self._held_to(body):
            return [Text(said)]
        thoughts: list[Content] = [Thinking(self.thought)] if self.thought else []
        is_told = "get_tide" in _json.encode({**body, "tools": None}).decode()
        is_offered = bool(body.get("tools")) and not self.ignores_tools
        if is_offered and self.calls == "native":
            return [*thoughts, CALL]
        if is_told or is_offered:
            text = "I do not know." if self.calls == "native" else self.calls
            return [*thoughts, Text(f"{self.thinks_in_text}Let me look. {text}")]
        return [*thoughts, Text(f"{self.thinks_in_text}one, two, three, "), Text("four, five, six")]

    def _held_to(self, body: dict[str, Any]) -> str:
        wanted = body.get("response_format") or {}
        if "grammar" in self.forms and "grammar" in body:
            return MARK
        if "json_schema" in self.forms and wanted.get("type") == "json_schema":
            return _json.encode({"zqx": MARK}).decode()
        if "structural_tag" in self.forms and wanted.get("type") == "structural_tag":
            return f"<zqx>{MARK}</vlk>"
        return ""


def _json_reply(value: object) -> Reply:
    return Reply(whole=_json.encode(value), headers={"content-type": "application/json"})
