"""Chats that cannot be continued: unknown, deleted or expired ones, and broken responses."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from models.loopback_servers import CUT, STALL, Reply
from models.qwen_server import (
    BUSY,
    END,
    NO_CHAT,
    Clock,
    QwenServer,
    Talk,
    asking,
    chats,
    delta,
    frame,
    talking,
)
from penstock import Request
from penstock.events import Done, MessageStart, TextDelta
from penstock.messages import AssistantMessage, Text, ToolCall, ToolResult
from penstock.models.http import NO_RETRY
from penstock.models.qwen_sessions import MemorySessions, QwenSession
from penstock.models.qwen_web import QwenWebModel
from penstock.request import UserMessage

# --- a chain that is not known ---


async def test_an_unknown_conversation_is_told_whole_in_a_new_chat() -> None:
    server = QwenServer("Fine.")
    async with talking(server) as talk:
        talk.fields["system"] = "Be brief."
        talk.messages = [
            UserMessage([Text("Read a")]),
            AssistantMessage(content=[Text("I look."), ToolCall("c1", "look", {"path": "a"})]),
            ToolResult("c1", "look", "alpha"),
            AssistantMessage(content=[Text("It says alpha.")]),
        ]
        await talk.say("And now?")
        await talk.say("Go on")
    whole = server.told(0)
    assert whole.startswith("Be brief.\n\n====")
    assert "\n\nUser: Read a\n\nAssistant: I look.\n<look>\n<path>a</path>\n</look>" in whole
    assert "User: Tool Result from look:\nalpha\n\nAssistant: It says alpha." in whole
    assert whole.endswith("User: And now?")
    assert (server.told(1), len(set(chats(server)))) == ("Go on", 1)


async def test_what_was_said_otherwise_is_another_conversation() -> None:
    server = QwenServer("One.", "Two.")
    async with talking(server) as talk:
        await talk.say("first?")
        talk.messages[0] = UserMessage([Text("another first?")])
        await talk.say("second?")
    assert len(set(chats(server))) == 2
    assert "another first?" in server.told()


async def test_an_answer_asked_for_once_more_begins_a_chat_of_its_own() -> None:
    server = QwenServer("One.", "Two.", "Two again.", "Three.")
    async with talking(server) as talk:
        await talk.say("first?")
        await talk.say("second?")
        talk.messages.pop()
        await talk.go_on()
        await talk.say("third?")
    first, second, third, fourth = chats(server)
    assert (first, third) == (second, fourth)
    assert first != third


LATE = [0.02, frame({"error": {"code": "Bad_Request", "details": "chat is not exist"}})]


@pytest.mark.parametrize("refusal", [NO_CHAT, BUSY, LATE], ids=["gone", "in progress", "late"])
async def test_a_chat_that_cannot_be_used_is_replaced_with_all_that_was_said(refusal: Any) -> None:
    server = QwenServer("One.", refusal, "Two.", "Three.")
    async with talking(server) as talk:
        await talk.say("first?")
        answer = await talk.say("second?")
        assert answer.text == "Two."
        await talk.say("third?")
    first, _refused, second, third = server.messages
    assert first.chat_id != second.chat_id == third.chat_id
    assert "User: first?\n\nAssistant: One.\n\nUser: second?" in second.content
    assert "## look" in second.content
    assert third.content == "third?"


async def test_an_answer_has_the_id_of_the_chat_that_gave_it() -> None:
    server = QwenServer("One.", LATE, "Two.")
    async with talking(server) as talk:
        await talk.say("first?")
        talk.messages.append(UserMessage([Text("second?")]))
        start, *_, end = [event async for event in talk.model.stream(talk.request())]
    assert isinstance(start, MessageStart)
    assert isinstance(end, Done)
    assert start.id == end.message.id == server.messages[-1].response_id


async def test_a_server_that_lost_every_chat_costs_a_replay_and_no_answer() -> None:
    server = QwenServer("One.", "Two.")
    async with talking(server) as talk:
        await talk.say("first?")
        server.forget_chats()
        assert (await talk.say("second?")).text == "Two."


async def test_another_refusal_in_a_chat_is_passed_on() -> None:
    limited = Reply(status=429, whole=b'{"detail": "slow down"}')
    server = QwenServer("One.", limited)
    async with talking(server, retry=NO_RETRY) as talk:
        await talk.say("first?")
        error = (await talk.say("second?")).error
    assert error is not None
    assert (error.status, len(server.creations)) == (429, 1)


async def test_a_server_that_does_not_name_its_answer_is_told_everything_each_time() -> None:
    server = QwenServer("One.", "Two.", says_created=False)
    sessions = MemorySessions()
    async with talking(server, sessions=sessions) as talk:
        await talk.say("first?")
        assert (await talk.say("second?")).text == "Two."
    assert (len(set(chats(server))), len(sessions)) == (2, 0)
    assert "Assistant: One." in server.told()


async def test_a_session_whose_next_answer_has_no_name_is_forgotten() -> None:
    server = QwenServer("One.", Reply([delta("Two."), END]), "Three.")
    sessions = MemorySessions()
    async with talking(server, sessions=sessions) as talk:
        kept = []
        for question in ("1", "2", "3"):
            await talk.say(question)
            kept.append(len(sessions))
        assert kept == [1, 0, 1]
    assert "Assistant: Two." in server.told()


async def test_an_answer_that_is_to_go_on_is_told_whole() -> None:
    server = QwenServer("One.", "And more.")
    async with talking(server) as talk:
        await talk.say("first?")
        await talk.go_on()
    assert len(set(chats(server))) == 2
    assert server.told().endswith("User: first?\n\nAssistant: One.")


async def test_an_id_without_measure_is_no_place_to_go_on_from() -> None:
    ids = {"chat_id": "c", "parent_id": "p", "response_id": "r" * 100_000}
    server = QwenServer(Reply([frame({"response.created": ids}), delta("One."), END]), "Two.")
    sessions = MemorySessions()
    async with talking(server, sessions=sessions) as talk:
        assert (await talk.say("first?")).text == "One."
        assert len(sessions) == 0
        await talk.say("second?")
    assert len(set(chats(server))) == 2


async def test_a_session_ends_when_nobody_went_on_for_its_time() -> None:
    server, clock = QwenServer("ok"), Clock()
    async with talking(server, clock=clock) as talk:
        for question in ("1", "2", "3"):
            await talk.say(question)
            clock.now += 29 * 60  # each response restarts the lifetime
        clock.now += 2 * 60
        await talk.say("4")
    first, second, third, fourth = chats(server)
    assert first == second == third != fourth
    assert "User: 1\n\nAssistant: ok" in server.told()


async def test_sessions_of_a_keeper_without_a_clock_end_all_the_same() -> None:
    server, clock = QwenServer("ok"), Clock()
    async with talking(server, clock=clock, sessions=MemorySessions(clock=lambda: 0.0)) as talk:
        await talk.say("1")
        clock.now += 31 * 60
        await talk.say("2")
    assert len(set(chats(server))) == 2


# --- answers that were not completed ---


@pytest.mark.parametrize("fault", [[delta("Half"), 0.02, CUT], [delta("Half"), 0.02]])
async def test_an_answer_that_failed_moves_nothing(fault: list[Any]) -> None:
    server = QwenServer("One.", fault, "Two.")
    async with talking(server, retry=NO_RETRY) as talk:
        await talk.say("first?")
        assert (await talk.say("second?")).error is not None
        await talk.go_on()
    first, failed, again = server.messages
    assert failed.parent_id == again.parent_id == first.response_id
    assert again.content == "second?"


async def test_a_first_answer_that_failed_leaves_no_session() -> None:
    sessions = MemorySessions()
    async with talking(QwenServer([delta("Half"), CUT]), sessions=sessions, retry=NO_RETRY) as talk:
        failed = await talk.say("first?")
    assert (failed.error is not None, len(sessions)) == (True, 0)


@pytest.mark.parametrize("taken", ["", "Some", "Some words,", "Some words, more", "to its end"])
async def test_a_reader_may_leave_at_any_moment_and_the_session_is_as_it_was(taken: str) -> None:
    pieces = [delta("Some"), 0.01, delta(" words,"), 0.01, delta(" more"), STALL]
    server = QwenServer("One.", pieces, "Two.")
    async with asking(server) as (model, upstream):
        talk = Talk(model)
        await talk.say("first?")
        talk.messages.append(UserMessage([Text("second?")]))
        task = asyncio.create_task(read_until(model, talk.request(), taken))
        if taken == "to its end":
            await upstream.stalls.wait()
            task.cancel()
        await asyncio.wait([task])
        if len(server.messages) == 1:  # The reader left before anything was asked.
            server.reply_to_nobody()
        await talk.go_on()
    assert server.told() == "second?"
    assert server.messages[-1].parent_id == server.messages[0].response_id


async def read_until(model: QwenWebModel, request: Request, wanted: str) -> None:
    said, batches = "", model.batches(request)
    try:
        while len(said) < len(wanted) or not said.startswith(wanted):
            batch = await anext(batches)
            said += "".join(event.text for event in batch if isinstance(event, TextDelta))
    finally:
        await batches.aclose()


# --- where sessions are kept ---


class Broken:
    """Sessions whose database is gone."""

    async def find(self, scope: str, id: str, hash: str) -> QwenSession | None:  # noqa: A002
        raise OSError(f"postgresql://user:secret@db has no {scope} {id} {hash}")

    async def commit(self, session: QwenSession) -> None:
        raise OSError(f"postgresql://user:secret@db takes no {session}")

    async def forget(self, scope: str, id: str) -> None:  # noqa: A002
        raise OSError(f"postgresql://user:secret@db has no {scope} {id}")


async def test_sessions_that_fail_cost_a_replay_and_no_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = QwenServer("One.", "Two.")

    with caplog.at_level(logging.DEBUG, "penstock"):
        async with talking(server, sessions=Broken()) as talk:
            await talk.say("first?")
            assert (await talk.say("second?")).text == "Two."
    assert "Assistant: One." in server.told()
    assert ("OSError" in caplog.text, "secret" in caplog.text) == (True, False)
