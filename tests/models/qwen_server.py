"""A server on this machine that behaves as chat.qwen.ai does, its refusals and its guard included.

It keeps chats as a tree of answers, as the real one does: a message names the answer that it
follows, and one that names an answer or a chat that is not there is refused. So a test in which
every message was answered has proved the chain. What it cannot prove is that the real server still
behaves so: nobody here has an account.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from async_runner import run
from models.loopback_servers import Reply, Seen, Upstream, serving
from penstock import Request, _json
from penstock.events import Done, Event, Failed
from penstock.messages import AssistantMessage, Text, ToolResult
from penstock.models.qwen_web import QwenCredentials, QwenWebModel
from penstock.request import Message, UserMessage
from penstock.tools import Tool

T = TypeVar("T")

MAX_MESSAGE = 128 * 1024
"""How many bytes a body has before the guard takes it for an attack."""

TOKEN, COOKIE, UMID = "tok-canary-01234567", "ssid=cookie-canary-89", "umid-canary-4567890"
CREDENTIALS = QwenCredentials(TOKEN, f"lang=en; {COOKIE}", UMID)

PAGE = b"<!doctype html><html><script src=/punish></script></html>"
FINISHED = {"content": "", "role": "assistant", "status": "finished", "phase": "answer"}


def refused(code: str, details: str, **more: Any) -> Reply:
    """Refuse with a status of 200, as the server does."""
    data = {"code": code, "details": details, **more}
    return as_json({"success": False, "request_id": "req-1", "data": data})


def as_json(value: object, status: int = 200) -> Reply:
    headers = {"content-type": "application/json"}
    return Reply(status=status, headers=headers, whole=_json.encode(value))


def challenge(status: int = 200) -> Reply:
    return Reply(status=status, headers={"content-type": "text/html"}, whole=PAGE)


RATE_LIMITED = refused("RateLimited", "the daily limit is reached", template="limit", num=3)
GUARDED = as_json(
    {
        "ret": ["FAIL_SYS_USER_VALIDATE", "RGV587_ERROR::SM::too many"],
        "data": {"url": "https://chat.qwen.ai/punish?x=1"},
    }
)
NO_CHAT = refused("Not_Found", "chat is not exist")
BUSY = refused("Bad_Request", "The chat is in progress!")


def frame(value: object) -> bytes:
    return b"data: " + _json.encode(value) + b"\n\n"


def delta(content: str, phase: str = "answer", **more: Any) -> bytes:
    fields = {"role": "assistant", "content": content, "phase": phase, "status": "typing"}
    usage = {"input_tokens": 30, "output_tokens": 5, "total_tokens": 35}
    return frame({"choices": [{"delta": {**fields, **more}}], "usage": usage})


END = frame({"choices": [{"delta": FINISHED}]})
IN_STREAM_ERROR = frame({"error": {"code": "internal_error", "details": "the model fell over"}})


@dataclass
class Told:
    """A message that arrived, and the answer that the server began to it."""

    chat_id: str
    parent_id: str | None
    response_id: str
    content: str
    body: dict[str, Any]
    headers: dict[str, str]


Answer = str | bytes | list[Any] | Reply | Callable[[Told], Reply]
"""What is answered: text, bytes of a stream behind its beginning, steps of it, or anything else."""


class QwenServer:
    """Responds with *answers* in turn; the last one is repeated.

    *parent* is the id by which it knows an answer; *guards* turns away what is no browser.
    *creations* are what it says to those who begin a chat, until they are used up.
    """

    def __init__(
        self,
        *answers: Answer,
        parent: str = "response_id",
        guards: bool = True,
        creations: Iterable[Reply] = (),
        says_created: bool = True,
    ) -> None:
        self.messages: list[Told] = []
        self.chats: dict[str, set[str]] = {}
        """The ids of the answers of each chat."""
        self.creations: list[dict[str, Any]] = []
        self._answers = list(answers)
        self._parent = parent
        self._guards = guards
        self._refusals = list(creations)
        self._says_created = says_created
        self._numbers = count(1)

    def reply(self, seen: Seen) -> Reply:
        if self._guards and not _is_browser(seen):
            return challenge()
        if len(seen.body) > MAX_MESSAGE:
            return GUARDED
        if seen.path == "/api/v2/chats/new":
            return self._begin(seen.json)
        assert seen.path == "/api/v2/chat/completions"
        return self._answer(seen)

    def forget_chats(self) -> None:
        """Lose every chat."""
        self.chats.clear()

    def reply_to_nobody(self) -> None:
        """Take the next answer as given."""
        self._answers.pop(0)

    def told(self, at: int = -1) -> str:
        """Return what a message said."""
        return self.messages[at].content

    def history(self, at: int = -1) -> list[str]:
        """Return the conversation up to a message, by the chain of its parents."""
        message = self.messages[at]
        before = [
            index
            for index, each in enumerate(self.messages)
            if each.response_id == message.parent_id
        ]
        return [*(self.history(before[0]) if before else []), message.content]

    def _begin(self, body: dict[str, Any]) -> Reply:
        assert set(body) == {"title", "models", "chat_mode", "chat_type", "timestamp"}
        assert body["timestamp"] > 10**12, "milliseconds"
        self.creations.append(body)
        if self._refusals:
            return self._refusals.pop(0)
        chat = f"chat-{len(self.chats) + 1}-{next(self._numbers)}"
        self.chats[chat] = set()
        return as_json({"success": True, "request_id": "req-1", "data": {"id": chat}})

    def _answer(self, seen: Seen) -> Reply:
        body = seen.json
        chat, parent = body["chat_id"], body["parent_id"]
        assert seen.query["chat_id"] == chat
        (message,) = body["messages"]  # It takes one, and no more.
        assert message["role"] == "user"
        assert message["parentId"] == message["parent_id"] == parent
        assert message["timestamp"] < 10**11, "seconds"
        if chat not in self.chats:
            return NO_CHAT
        if parent is not None and parent not in self.chats[chat]:
            return refused("Bad_Request", f"parent_id {parent} is not exist")
        number = next(self._numbers)
        said = Told(chat, parent, f"res-{number}", message["content"], body, seen.headers)
        ids = {"chat_id": chat, "parent_id": f"usr-{number}", "response_id": said.response_id}
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        self.messages.append(said)
        self.chats[chat].add(ids[self._parent])
        if isinstance(answer, Reply):
            return answer
        if callable(answer):
            return answer(said)
        beginning = frame({"response.created": ids}) if self._says_created else b""
        return Reply([step for step in [beginning, *_steps(answer)] if step != b""])


def _steps(answer: str | bytes | list[Any]) -> list[Any]:
    if isinstance(answer, list):
        return answer
    if isinstance(answer, bytes):
        return [answer]
    pieces = [answer[at : at + 7] for at in range(0, len(answer), 7)]
    return [*(delta(piece) for piece in pieces), END]


def _is_browser(seen: Seen) -> bool:
    headers = seen.headers
    return "Mozilla" in headers.get("user-agent", "") and {"cookie", "bx-umidtoken"} <= set(headers)


@asynccontextmanager
async def asking(
    server: QwenServer, **options: Any
) -> AsyncIterator[tuple[QwenWebModel, Upstream]]:
    """Run *server* and a model that asks it."""
    options.setdefault("credentials", CREDENTIALS)
    options.setdefault("interval", 0)
    async with (
        serving(server.reply) as upstream,
        QwenWebModel(upstream.url, "qwen3-max", environ={}, **options) as model,
    ):
        yield model, upstream


# --- who asks it ---

READ = Tool(
    "read",
    "Read a file",
    {
        "type": "object",
        "properties": {"filePath": {"type": "string", "description": "Where it is"}},
        "required": ["filePath"],
    },
)


LOOK = Tool("look", "Look into a file", {"properties": {"path": {"type": "string"}}})


def asks(text: str = "Read the package.json file", **fields: Any) -> Request:
    fields.setdefault("tools", [READ])
    return Request(messages=[UserMessage([Text(text)])], **fields)


def answered(server: QwenServer, request: Request, **options: Any) -> list[Event]:
    async def main() -> list[Event]:
        async with asking(server, **options) as (model, _upstream):
            return [event async for event in model.stream(request)]

    return run(main())


def message_of(events: list[Event]) -> AssistantMessage:
    end = events[-1]
    assert isinstance(end, Done | Failed)
    return end.message


class Clock:
    """A clock that advances only on request."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Talk:
    """A client that gives the whole conversation back each time, as clients do."""

    def __init__(self, model: QwenWebModel, **fields: Any) -> None:
        self.model = model
        self.fields: dict[str, Any] = {"tools": [LOOK], **fields}
        self.messages: list[Message] = []

    def request(self, **fields: Any) -> Request:
        return Request(messages=list(self.messages), **{**self.fields, **fields})

    async def say(self, text: str, **fields: Any) -> AssistantMessage:
        self.messages.append(UserMessage([Text(text)]))
        return await self.go_on(**fields)

    async def give_back(self, *contents: Any, **fields: Any) -> AssistantMessage:
        last = self.messages[-1]
        assert isinstance(last, AssistantMessage)
        for call, content in zip(last.tool_calls, contents, strict=True):
            self.messages.append(ToolResult(call.id, "", content))
        return await self.go_on(**fields)

    async def go_on(self, **fields: Any) -> AssistantMessage:
        answer = await self.model.complete(self.request(**fields))
        if answer.error is None:
            self.messages.append(answer)
        return answer


@asynccontextmanager
async def talking(server: QwenServer, **options: Any) -> AsyncIterator[Talk]:
    async with asking(server, **options) as (model, _upstream):
        yield Talk(model)


def chats(server: QwenServer) -> list[str]:
    return [message.chat_id for message in server.messages]
