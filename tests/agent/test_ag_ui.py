"""AG-UI events: each is valid for the protocol's own models, and their order is the protocol's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import Event, Message, RunAgentInput
from hypothesis import given, settings
from pydantic import TypeAdapter

from agent.test_ai_sdk_laws import SCENES, Scene, agent_of
from penstock.agent import Agent, AgentRun, Allow, Defer, Deny, Edit, tool
from penstock.agent.ag_ui import (
    AGUIEvent,
    AGUIStream,
    ag_ui_stream,
    read_run_input,
    write_ag_ui_messages,
)
from penstock.agent.events import AgentStarted
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, Text, Thinking, ToolCall, ToolResult
from penstock.models import DemoModel
from penstock.request import Image, UserMessage

EVENTS: TypeAdapter[Any] = TypeAdapter(Event)
MESSAGES: TypeAdapter[Any] = TypeAdapter(list[Message])


def check_valid(event: AGUIEvent) -> None:
    """Let the protocol's own models read *event*; they must know every field."""
    read = EVENTS.validate_python(json.loads(json.dumps(event)))
    assert not read.model_extra
    assert set(event) <= {*read.model_dump(by_alias=True)}


class Order:
    """The rules of the protocol's own client for the order of events."""

    def __init__(self) -> None:
        self.started = self.ended = False
        self.open: set[tuple[str, str]] = set()
        self.calls: set[str] = set()
        self.messages: set[str] = set()

    def add(self, event: AGUIEvent) -> None:
        kind = event["type"]
        assert not self.ended, f"{kind} after the end"
        assert self.started == (kind != "RUN_STARTED")
        self.started = True
        name, _, step = kind.rpartition("_")
        key = (name, event.get("messageId") or event.get("toolCallId") or event.get("stepName", ""))
        if kind in ("RUN_FINISHED", "RUN_ERROR"):
            assert not self.open, f"open at the end: {self.open}"
            self.ended = True
        elif kind.startswith("STEP_"):
            (self.start if step == "STARTED" else self.open.remove)(key)
        elif kind == "TOOL_CALL_RESULT":
            assert event["messageId"] not in self.messages
            self.messages.add(event["messageId"])
        elif step == "START":
            if name in ("TEXT_MESSAGE", "REASONING_MESSAGE"):
                assert event["messageId"] not in self.messages, "a message starts twice"
                self.messages.add(event["messageId"])
            self.start(key)
        elif step in ("CONTENT", "ARGS"):
            assert key in self.open, f"{kind} of what is not open"
        elif step == "END":
            self.open.remove(key)

    def start(self, key: tuple[str, str]) -> None:
        assert key not in self.open
        self.open.add(key)


def check_events(events: list[AGUIEvent]) -> None:
    order = Order()
    for event in events:
        check_valid(event)
        order.add(event)
    assert order.ended


async def played(agent: Agent, run: AgentRun, view: AGUIStream, scene: Scene) -> list[AGUIEvent]:
    events: list[AGUIEvent] = []
    count = 0
    async for one in run:
        events += view.feed(one)
        count += 1
        if count == scene.abort_at:
            await agent.abort()
        if count == scene.steer_at and agent.busy:
            agent.steer("Left!")
    assert view.finish() == []
    return events


@settings(max_examples=60, deadline=None)
@given(scene=SCENES)
async def test_every_run_is_valid_and_says_what_was_said(scene: Scene) -> None:
    agent = agent_of(scene)
    events = await played(agent, agent.run("Go."), AGUIStream("t", "r1"), scene)
    check_events(events)
    dropped = {one["value"]["messageId"] for one in events
               if one.get("name") == "penstock.dropped"}  # fmt: skip
    shown = [one["delta"] for one in events if one["type"] == "TEXT_MESSAGE_CONTENT"
             and one["messageId"].partition("-text-")[0] not in dropped]  # fmt: skip
    said = [one.text for one in agent.messages if isinstance(one, AssistantMessage)]
    assert "".join(shown) == "".join(said)
    results = [one["toolCallId"] for one in events if one["type"] == "TOOL_CALL_RESULT"]
    assert {one.id for one in agent.messages if isinstance(one, ToolResult)} <= {*results}
    MESSAGES.validate_python(write_ag_ui_messages(agent.messages))
    if agent.deferred and scene.approves is not None:
        outcome = events[-1]["outcome"]
        assert outcome["type"] == "interrupt"
        answers = [{"interruptId": one["id"], "status": "resolved",
                    "payload": {"approved": scene.approves}}
                   for one in outcome["interrupts"]]  # fmt: skip
        body = {"threadId": "t", "runId": "r2", "messages": [], "resume": answers}
        RunAgentInput.model_validate(body)
        scene.abort_at = scene.steer_at = None
        run = agent.resume(read_run_input(body).decisions)
        check_events(await played(agent, run, AGUIStream("t", "r2"), scene))


async def test_the_state_is_sent_at_the_start_and_its_changes_after_each_tool() -> None:
    state: dict[str, Any] = {"boats": {"a/b": 1, "gone": 2}, "list": [1]}

    @tool(needs_approval=False)
    def get_weather(city: str) -> str:
        """Weather of a city."""
        state["boats"] = {"a/b": 3, "new": None}
        state["list"].append(2)
        return f"Snow in {city}."

    agent = Agent(DemoModel("native"), [get_weather])
    view = AGUIStream("t", "r", state=lambda: state)
    run = agent.run("How is the weather in Oslo?")
    body = b"".join([piece async for piece in ag_ui_stream(run, view)]).decode()
    events = [json.loads(line.removeprefix("data: ")) for line in body.split("\n\n") if line]
    check_events(events)
    assert events[1] == {
        "type": "STATE_SNAPSHOT", "snapshot": {"boats": {"a/b": 1, "gone": 2}, "list": [1]},
    }  # fmt: skip
    (delta,) = [one["delta"] for one in events if one["type"] == "STATE_DELTA"]
    assert delta == [
        {"op": "remove", "path": "/boats/gone"},
        {"op": "replace", "path": "/boats/a~1b", "value": 3},
        {"op": "add", "path": "/boats/new", "value": None},
        {"op": "replace", "path": "/list", "value": [1, 2]},
    ]
    assert events[-1]["outcome"] == {"type": "success"}
    assert events[-1]["usage"][0]["outputTokens"] > 0


async def test_a_client_that_leaves_aborts_the_run() -> None:
    async def wait_forever(city: str) -> str:
        """Weather of a city."""
        await asyncio.Event().wait()
        return city

    agent = Agent(DemoModel("native"), [tool(wait_forever, name="get_weather")], approve="all")
    stream = ag_ui_stream(agent.run("How is the weather in Oslo?"), AGUIStream("t", "r"))
    pieces = [await anext(stream) for _ in range(3)]
    await stream.aclose()
    assert not agent.busy
    assert b"RUN_STARTED" in pieces[0]


@pytest.mark.parametrize(
    ("entry", "decision"),
    [
        ({"status": "resolved", "payload": True}, Allow()),
        ({"status": "resolved", "payload": {"approved": False, "reason": "no"}}, Deny("no")),
        (
            {"status": "resolved", "payload": {"approved": True, "arguments": {"a": 1}}},
            Edit({"a": 1}),
        ),
        ({"status": "cancelled"}, Deny()),
    ],
)
def test_answers_are_decisions(entry: dict[str, Any], decision: object) -> None:
    body = {
        "threadId": "t",
        "runId": "r",
        "messages": [],
        "resume": [{"interruptId": "c", **entry}],
    }
    RunAgentInput.model_validate(body)
    assert read_run_input(body).decisions == {"c": decision}


def body_with(*messages: object, **fields: Any) -> dict[str, Any]:
    return {"threadId": "t", "runId": "r", "messages": list(messages), **fields}


def test_text_and_images_of_the_last_message_are_the_prompt() -> None:
    data = {"type": "data", "value": "AAAA", "mimeType": "image/gif"}
    content = [
        {"type": "text", "text": "Look."},
        {"type": "image", "source": data},
        {"type": "image", "source": {"type": "url", "value": "https://a.example/b.png"}},
    ]
    body = body_with({"id": "1", "role": "user", "content": content})
    RunAgentInput.model_validate(body)
    assert read_run_input(body).prompt == UserMessage(
        [
            Text("Look."),
            Image(media_type="image/gif", data="AAAA"),
            Image(url="https://a.example/b.png"),
        ]
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([], "not the input of an AG-UI run"),
        ({"threadId": 1}, "not the input of an AG-UI run"),
        (body_with(), "not a message of the user"),
        (body_with({"role": "assistant", "content": "x"}), "not a message of the user"),
        (body_with({"role": "user", "content": ""}), "is empty"),
        (body_with({"role": "user", "content": [{"type": "audio"}]}), "must be text, or an image"),
        (body_with({"role": "user", "content": [
            {"type": "image", "source": {"type": "url", "value": "file:///etc/passwd"}}
        ]}), "must be text, or an image"),
        (body_with(resume=[
            {"interruptId": "c", "status": "resolved", "payload": "yes"}
        ]), "approved"),
    ],
)  # fmt: skip
def test_invalid_requests_are_refused(body: object, words: str) -> None:
    def read() -> object:
        given_ = read_run_input(body)
        return given_.prompt if given_.resume is None else given_.decisions

    with pytest.raises(UsageError, match=words):
        read()


def test_a_conversation_is_written_with_its_reasoning_calls_and_images() -> None:
    image = Image(media_type="image/png", data="AAAA")
    written = write_ag_ui_messages(
        [
            UserMessage([Text("Hi."), image]),
            AssistantMessage(
                "1",
                "m",
                [Thinking("Hm.", "s"), Text("So."), ToolCall("c", "f", {"a": 1})],
                "tool_use",
            ),
            ToolResult("c", "f", [Text("x"), image]),
            ToolResult("d", "f", "no", is_error=True),
            UserMessage("Do not.", "rule"),
        ]
    )
    MESSAGES.validate_python(written)
    assert [one["role"] for one in written] == [
        "user", "reasoning", "assistant", "tool", "tool", "developer",
    ]  # fmt: skip
    assert written[2]["toolCalls"][0]["function"] == {"name": "f", "arguments": '{"a":1}'}


async def test_an_end_that_was_not_read_is_a_cancelled_run() -> None:
    async def approve(_call: object, _tool: object) -> Defer:
        return Defer()

    agent = Agent(DemoModel("native"), approve=approve)
    view = AGUIStream("t", "r")

    async def some(run: AgentRun) -> AsyncIterator[AGUIEvent]:
        async for event in run:
            for one in view.feed(event):
                yield one
            if any(one["type"] == "TEXT_MESSAGE_CONTENT" for one in seen):
                break

    seen: list[AGUIEvent] = []
    async with agent.run("Hello") as run:
        async for one in some(run):
            seen += [one]
    check_events([*seen, *view.finish()])
    with pytest.raises(UsageError, match="the run has ended"):
        view.feed(AgentStarted())
