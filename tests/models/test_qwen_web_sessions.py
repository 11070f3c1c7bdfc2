"""Conversations with chat.qwen.ai: which chat, after which response, and for which client."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from models.loopback_servers import STALL
from models.qwen_server import (
    LOOK,
    QwenServer,
    Talk,
    asking,
    chats,
    delta,
    talking,
)
from penstock import apis
from penstock.events import Done
from penstock.messages import Text, ToolResult
from penstock.models.qwen_sessions import MemorySessions
from penstock.request import ToolChoice, UserMessage
from penstock.tools import Tool

WRITE = Tool("write", "Write a file", {"properties": {"path": {"type": "string"}}})
TWO_CALLS = "Both.\n<look><path>a</path></look>\n<look><path>b</path></look>"


# --- a conversation continues ---


async def test_only_what_is_new_is_sent_and_the_chain_holds() -> None:
    server = QwenServer("One.", "Two.", "Three.")
    async with talking(server) as talk:
        talk.fields["system"] = "Be brief."
        for question in ("first?", "second?", "third?"):
            await talk.say(question)
    assert len(set(chats(server))) == 1
    whole, *rest = server.history()
    assert whole.startswith("Be brief.")
    assert rest == ["second?", "third?"]


async def test_all_results_since_the_last_answer_are_sent_by_name() -> None:
    server = QwenServer(TWO_CALLS, "Done.")
    async with talking(server) as talk:
        await talk.say("Read both")
        await talk.give_back("alpha", "")
    assert server.told() == (
        "Tool Result from look:\nalpha\n"
        "Tool Result from look:\n(Command completed successfully with no output)"
    )
    assert len(set(chats(server))) == 1


async def test_the_next_message_may_name_the_parent_id() -> None:
    server = QwenServer("One.", "Two.", parent="parent_id")
    async with talking(server, parent="parent_id") as talk:
        await talk.say("first?")
        await talk.say("second?")
    assert server.told() == "second?"
    assert str(server.messages[-1].parent_id).startswith("usr-")


@pytest.mark.parametrize("api", ["openai-chat", "anthropic"])
async def test_an_answer_that_went_through_a_client_is_known_again(api: str) -> None:
    server = QwenServer("Look:\n\n<look><path>a</path></look>", "Thanks.")
    spoken = apis.get(api)
    async with talking(server) as talk:
        body: dict[str, Any] = {
            "model": "qwen3-max",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "Go"}],
            "tools": [{"name": "look", "input_schema": LOOK.parameters}],
        }
        if api == "openai-chat":
            function = {"name": "look", "parameters": LOOK.parameters}
            body["tools"] = [{"type": "function", "function": function}]
        answer = await talk.model.complete(spoken.read_request(body))
        whole = spoken.write_response(answer, created=1)
        if api == "openai-chat":
            echoed = whole["choices"][0]["message"]
            call = echoed["tool_calls"][0]["id"]
            result = {"role": "tool", "tool_call_id": call, "content": "alpha"}
        else:
            echoed = {"role": "assistant", "content": whole["content"]}
            block = {"type": "tool_result", "tool_use_id": whole["content"][-1]["id"]}
            result = {"role": "user", "content": [{**block, "content": "alpha"}]}
        body["messages"] += [echoed, result]
        await talk.model.complete(spoken.read_request(body))
    assert server.told() == "Tool Result from look:\nalpha"
    assert len(set(chats(server))) == 1


async def test_the_place_is_written_down_before_anybody_hears_of_the_end() -> None:
    sessions = MemorySessions()

    async def script() -> list[int]:
        async with talking(QwenServer("A few words."), sessions=sessions) as talk:
            talk.messages = [UserMessage([Text("Go")])]
            kept = []
            async for batch in talk.model.batches(talk.request()):
                kept += [len(sessions)] * len(batch)
                last = batch[-1]
            assert isinstance(last, Done)
            return kept

    kept = await script()
    assert (kept[0], kept[-1]) == (0, 1)


async def test_who_has_the_end_goes_on_at_once_though_the_stream_is_not_closed() -> None:
    server = QwenServer("One.", "Two.")
    async with talking(server) as talk:
        await talk.say("first?")
        talk.messages.append(UserMessage([Text("second?")]))
        batches = talk.model.batches(talk.request())
        async for batch in batches:
            if isinstance(batch[-1], Done):
                talk.messages.append(batch[-1].message)
                await talk.say("third?")
        await batches.aclose()
    assert (server.told(), len(set(chats(server)))) == ("third?", 1)


# --- what is sent to a chat again ---


async def test_tools_that_changed_are_announced_once() -> None:
    server = QwenServer("ok")
    async with talking(server) as talk:
        await talk.say("1")
        await talk.say("2", tools=[LOOK, WRITE])
        await talk.say("3", tools=[LOOK, WRITE])
        await talk.say("4", tools=[])
        await talk.say("5", tools=[])
    _, second, third, fourth, fifth = [message.content for message in server.messages]
    assert second.startswith("The tools have changed.")
    assert ("## write" in second, second.endswith("\n\n2")) == (True, True)
    assert (third, fifth) == ("3", "5")
    assert fourth == "There are no tools any more: answer in plain text.\n\n4"
    assert len(set(chats(server))) == 1


async def test_tools_that_rest_for_a_turn_are_not_told_again() -> None:
    server = QwenServer("<look><path>a</path></look>", "ok")
    async with talking(server) as talk:
        await talk.say("1")
        await talk.give_back("alpha", tool_choice=ToolChoice("none"))
        await talk.say("3")
    assert "Call no tool in this response" in server.told(1)
    assert server.told() == "3"


async def test_what_is_new_is_not_said_again_when_a_call_is_asked_for_again() -> None:
    server = QwenServer("ok", "I could.", "<write><path>a</path></write>")
    async with talking(server) as talk:
        await talk.say("1")
        answer = await talk.say("2", tools=[WRITE], tool_choice=ToolChoice("required"))
    assert [call.name for call in answer.tool_calls] == ["write"]
    assert "## write" in server.told(1)
    assert "## write" not in server.told(2)
    assert len(set(chats(server))) == 1


async def test_a_rule_of_the_moment_stands_behind_the_message() -> None:
    server = QwenServer("ok", "<look><path>a</path></look>")
    async with talking(server) as talk:
        await talk.say("1")
        await talk.say("2", tool_choice=ToolChoice("required"))
    assert server.told() == "2\n\nYou must call at least one tool in this response."


# --- whose conversation it is ---


async def test_scopes_never_share_a_conversation() -> None:
    server = QwenServer("ok")
    async with talking(server) as talk:
        for scope in ("alice", "bob", "alice"):
            other = Talk(talk.model.scoped(scope), session="shared-name")
            other.messages = list(talk.messages)
            await other.say("second?" if talk.messages else "first?")
            talk.messages = talk.messages or other.messages
    first, bobs, alices = chats(server)
    assert first == alices != bobs
    assert "first?" in server.told(1)
    assert server.told(2) == "second?"


async def test_a_named_session_goes_on_though_the_client_pruned_its_history() -> None:
    server = QwenServer(TWO_CALLS, "One.", "Two.")
    async with talking(server) as talk:
        talk.fields["session"] = "s-1"
        await talk.say("Read both")
        await talk.give_back("alpha" * 1000, "beta")
        assert isinstance(talk.messages[2], ToolResult)
        talk.messages[2].content = "[cleared]"
        await talk.say("And?", system="Be brief.")
    assert len(set(chats(server))) == 1
    changed = "The instructions have changed. From now on they are:\n\nBe brief."
    assert server.told() == f"{changed}\n\nAnd?"


async def test_a_name_without_measure_is_kept_short() -> None:
    server, sessions = QwenServer("ok"), MemorySessions()
    async with talking(server, sessions=sessions) as talk:
        talk.fields["session"] = "s" * 100_000
        await talk.say("1")
        await talk.say("2", system="New.")
    assert len(set(chats(server))) == len(sessions) == 1


async def test_another_request_of_the_same_name_stays_out_of_the_chat() -> None:
    server = QwenServer("One.", "A title", "Two.")
    async with talking(server) as talk:
        talk.fields["session"] = "s-1"
        await talk.say("first?")
        await Talk(talk.model, session="s-1", tools=[]).say("Give it a title")
        await talk.say("second?")
    first, title, second = chats(server)
    assert title not in (first, second)
    assert "title" not in server.told()
    assert "first?" in "".join(server.history())


async def test_two_requests_on_one_session_do_not_meet() -> None:
    server = QwenServer("One.", [delta("Slow"), STALL], "Quick.", "Next.")

    async with asking(server) as (model, upstream):
        talk = Talk(model)
        await talk.say("first?")
        quick = Talk(model)
        quick.messages = list(talk.messages)
        slow = asyncio.create_task(talk.say("slow?"))
        await upstream.stalls.wait()
        assert (await quick.say("quick?")).text == "Quick."
        await quick.say("next?")
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
    first, second, other, after = chats(server)
    assert first == second != other == after
    assert server.told() == "next?"
