"""What tests of sessions are made of: messages, agents, and records of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from penstock.agent import Agent
from penstock.agent.session import MessageEntry, Session
from penstock.agent.session.entries import VERSION, Entry, Header, write_line
from penstock.messages import AssistantMessage, Text, Thinking, ToolCall, ToolResult, Usage
from penstock.models import DemoModel
from penstock.request import Message, UserMessage

Result = TypeVar("Result")

PATIENCE = 30.0
"""How many seconds a busy machine may take for what should take none."""

HEADER = Header(version=VERSION, id="s1", created=1000.0, cwd="/home/me")


def user(text: str) -> UserMessage:
    return UserMessage([Text(text)])


def answer(text: str, tokens: int = 5) -> AssistantMessage:
    return AssistantMessage(
        id="a", model="m", content=[Text(text)], stop_reason="stop", usage=Usage(output=tokens)
    )


CALL = AssistantMessage(
    id="c",
    model="m",
    content=[Thinking("hm"), ToolCall("c1", "read", {"path": "a\nb", "n": [1, None]})],
    stop_reason="tool_use",
    usage=Usage(input=7, output=3, total=10),
)
RESULT = ToolResult("c1", "read", {"lines": ["ä", "\u2028", "\ud83d"]})

TALK: list[Message] = [user("read it"), CALL, RESULT, answer("done")]


def entry(number: int, message: Message, parent: int | str | None = None, **more: Any) -> Entry:
    """Make a message's entry; its id is ``e`` and its number, its parent the one before."""
    behind = number - 1 if parent is None else parent
    hung = f"e{behind}" if isinstance(behind, int) and behind else ""
    hung = behind if isinstance(behind, str) else hung
    return MessageEntry(
        id=f"e{number}", parent=hung, time=1000.0 + number, message=message, number=number, **more
    )


def talk(*texts: str) -> list[Entry]:
    """Make entries of what a user and a model say in turn."""
    said = [answer(text) if at % 2 else user(text) for at, text in enumerate(texts)]
    return [entry(number, message) for number, message in enumerate(said, 1)]


def lines_of(*items: Header | Entry) -> bytes:
    """Write a record as a file has it."""
    return b"".join(write_line(item).data + b"\n" for item in items)


def agent(*messages: Message) -> Agent:
    return Agent(DemoModel(), messages=messages)


async def recorded(path: Path, *messages: Message) -> Session:
    """Open a session at *path* and tell it *messages*, as an agent would."""
    session = await Session(agent(), path).open()
    for message in messages:
        await session.message(message)
    return session


def texts(messages: list[Message]) -> list[str]:
    """Give what was said, in short."""
    return [
        str(message.content) if isinstance(message, ToolResult) else message.text
        for message in messages
    ]
