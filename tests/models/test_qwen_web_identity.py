"""How a conversation is known again: sessions in memory, and the hash of what was said."""

from __future__ import annotations

import pytest

from models.qwen_server import Clock
from penstock import Request
from penstock.messages import AssistantMessage, Text, ToolCall, ToolResult
from penstock.models.qwen_sessions import (
    ConversationDigest,
    MemorySessions,
    QwenSession,
    digest_message,
    digest_tools,
)
from penstock.request import Image, Message, SystemMessage, UserMessage


def session(id_: str, hash_: str = "h", scope: str = "a", expires: float = 10.0) -> QwenSession:
    return QwenSession(id=id_, scope=scope, hash=hash_, expires=expires)


async def test_memory_finds_by_id_and_else_by_hash_and_in_one_scope_alone() -> None:
    kept = MemorySessions(clock=lambda: 1.0)
    await kept.commit(session("1", "x"))
    await kept.commit(session("2", "x"))
    assert await kept.find("a", "1", "x") == session("1", "x")
    assert await kept.find("a", "", "x") == session("2", "x")
    assert await kept.find("a", "unknown", "x") == session("2", "x")
    assert await kept.find("b", "1", "x") is None
    assert await kept.find("a", "", "") is None
    await kept.commit(session("2", "y"))
    assert await kept.find("a", "", "x") is None
    await kept.forget("b", "2")
    assert await kept.find("a", "2", "") == session("2", "y")
    await kept.forget("a", "2")
    assert await kept.find("a", "2", "y") is None


async def test_memory_is_bounded_and_forgets_what_is_over() -> None:
    clock = Clock()
    kept = MemorySessions(3, clock=clock)
    for number in range(5):
        await kept.commit(session(str(number), f"h{number}", expires=clock.now + 60))
    assert len(kept) == 3
    assert await kept.find("a", "", "h1") is None
    clock.now += 61
    assert await kept.find("a", "4", "h4") is None
    await kept.commit(session("new", "n", expires=clock.now + 60))
    assert len(kept) == 1


# --- the hash ---


def hash_of(*messages: Message, system: str = "", scope: str = "") -> str:
    answer = AssistantMessage(content=[Text("ok")])
    return ConversationDigest(Request(system=system, messages=[*messages, answer]), "m", scope).hash


QUESTION = UserMessage([Text("Go")])


def test_what_a_client_may_change_on_the_way_changes_no_hash() -> None:
    ours = AssistantMessage(
        id="r",
        content=[Text("I look. "), ToolCall("call_1", "read", {"a": 2.0, "b": {"x": 1, "y": 2}})],
    )
    theirs = AssistantMessage(
        content=[Text("I look."), ToolCall("toolu_9", "read", {"b": {"y": 2, "x": 1}, "a": 2})]
    )
    assert digest_message(ours) == digest_message(theirs)
    after = ConversationDigest(Request(messages=[QUESTION]), "m").hash_after(ours)
    assert after == ConversationDigest(Request(messages=[QUESTION, theirs]), "m").hash


@pytest.mark.parametrize(
    "other",
    [
        hash_of(QUESTION, system="Be brief."),
        hash_of(QUESTION, scope="alice"),
        hash_of(UserMessage([Text("Go on")])),
        hash_of(SystemMessage("Go")),
        hash_of(UserMessage([Text("Go"), Image("image/png", "aGk=")])),
        hash_of(QUESTION, QUESTION),
        hash_of(QUESTION, AssistantMessage(content=[ToolCall("c", "read", {})])),
        hash_of(QUESTION, AssistantMessage(content=[ToolCall("c", "write", {})])),
        hash_of(QUESTION, ToolResult("c", "read", "Go")),
    ],
)
def test_everything_that_was_said_counts(other: str) -> None:
    assert other != hash_of(QUESTION)


def test_a_conversation_without_an_answer_has_no_hash() -> None:
    assert ConversationDigest(Request(messages=[QUESTION]), "m").hash == ""
    assert digest_tools([]) == ""


@pytest.mark.parametrize(("model", "scope"), [("m", "b"), ("other", "a")])
def test_no_conversation_goes_on_with_another_model_or_in_another_scope(
    model: str, scope: str
) -> None:
    answer = AssistantMessage(content=[Text("ok")])
    talk = ConversationDigest(Request(messages=[QUESTION, answer, QUESTION]), "m", "a")
    ours = QwenSession(id="1", scope="a", model="m", hash=talk.hash)
    assert talk.continues(ours, by_id=False)
    theirs = QwenSession(id="1", scope=scope, model=model, hash=talk.hash)
    assert not talk.continues(theirs, by_id=True)
