"""A run is one lawful UI message, and the message says what the run said."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agent.scenes import calls, reply, talking, text
from agent.ui_law import Chunk, check, chunks_of, folded
from models.loopback_servers import STALL, Reply, Script, refusal, stream_of
from penstock.agent import (
    Agent,
    AgentRetry,
    AgentRun,
    AgentTool,
    Allow,
    Decision,
    Defer,
    Deny,
    Edit,
    ToolContext,
    ToolOutput,
    tool,
)
from penstock.agent.ai_sdk_messages import read_decisions
from penstock.agent.ai_sdk_stream import DONE, UI_HEADERS, UIStream, encode, ui_stream
from penstock.agent.events import (
    AgentEnded,
    AgentEvent,
    AgentStarted,
    CompactionEnded,
    CompactionStarted,
    ExtensionErrorEvent,
    MessageStarted,
    MessageUpdated,
    ToolUpdated,
    TurnStarted,
)
from penstock.agent.rules import Rule, RuleGuard
from penstock.builder import message_events
from penstock.errors import ToolError, UsageError
from penstock.events import Event, Part, TextDelta, TextEnd, TextStart
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, Text, Thinking, ToolCall
from penstock.request import Image


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def count(to: int, context: ToolContext) -> ToolOutput:
    """Count aloud."""
    for number in range(1, to):
        context.update({"at": number})
        await asyncio.sleep(0)
    return ToolOutput("counted", details={"seconds": 0})


@tool
def fail() -> str:
    """Fail."""
    raise ToolError("no such thing")


@tool(needs_approval=True)
def write_file(path: str, content: str) -> str:
    """Write a file."""
    return f"{len(content)} characters to {path}"


TOOLS = [add, count, fail, write_file]
WRITES = calls(("write_file", {"path": "a.txt", "content": "la"}))


async def read(run: AgentRun, view: UIStream | None = None) -> list[Chunk]:
    """Read a run as a client does; see that it is lawful."""
    body = b"".join([piece async for piece in ui_stream(run, view)])
    chunks = chunks_of(body)
    check(chunks)
    return chunks


async def told(*script: Script | AssistantMessage, **options: Any) -> list[Chunk]:
    """Give what a run over *script* tells a client."""
    async with talking(*script) as (model, _):
        return await read(Agent(model, TOOLS, **options).run("Go."))


def kinds(chunks: list[Chunk]) -> list[str]:
    return [chunk["type"] for chunk in chunks]


def of(kind: str, chunks: list[Chunk]) -> list[Chunk]:
    return [chunk for chunk in chunks if chunk["type"] == kind]


async def test_an_answer_is_a_step_of_a_message() -> None:
    chunks = await told(reply(text("Hello."), pieces=1))
    assert chunks == [
        {"type": "start"},
        {"type": "start-step"},
        {"type": "text-start", "id": "1-text-1"},
        {"type": "text-delta", "id": "1-text-1", "delta": "Hello."},
        {"type": "text-end", "id": "1-text-1"},
        {"type": "finish-step"},
        {
            "type": "message-metadata",
            "messageMetadata": {
                "model": "m",
                "usage": {
                    "inputTokens": 10,
                    "outputTokens": 3,
                    "totalTokens": 13,
                    "reasoningTokens": 0,
                    "cachedInputTokens": 0,
                },
            },
        },
        {"type": "finish", "finishReason": "stop"},
    ]


async def test_reasoning_stands_beside_text() -> None:
    answer = AssistantMessage("i", "m", [Thinking("Hm."), Text("Yes.")], "stop")
    shown = folded(await told(answer)).message["parts"]
    assert [(part["type"], part.get("text")) for part in shown] == [
        ("step-start", None),
        ("reasoning", "Hm."),
        ("text", "Yes."),
    ]


async def test_a_call_streams_its_input_and_then_has_an_output() -> None:
    chunks = await told(calls(("add", {"a": 1, "b": 2})), text("3."))
    of_call = [chunk for chunk in chunks if chunk.get("toolCallId") == "c1"]
    assert kinds(of_call)[0] == "tool-input-start"
    assert kinds(of_call)[-2:] == ["tool-input-available", "tool-output-available"]
    assert of_call[-1]["output"] == 3
    assert kinds(chunks).count("start-step") == 2
    assert chunks[-2]["messageMetadata"]["usage"]["totalTokens"] == 26


async def test_what_a_tool_shows_on_its_way_is_preliminary() -> None:
    chunks = await told(calls(("count", {"to": 3})), text("Done."))
    outputs = of("tool-output-available", chunks)
    assert [one["output"] for one in outputs] == [{"at": 1}, {"at": 2}, "counted"]
    assert [one.get("preliminary") for one in outputs] == [True, True, None]
    assert outputs[-1]["providerMetadata"] == {"penstock": {"details": {"seconds": 0}}}


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        pytest.param("fail", {}, "no such thing", id="a tool that raises"),
        pytest.param("nobody", {}, "Tool nobody not found", id="a tool that nobody has"),
        pytest.param("add", {"a": "x"}, "add", id="arguments that do not fit"),
    ],
)
async def test_a_call_that_fails_has_an_error(name: str, given: dict[str, Any], said: str) -> None:
    (error,) = of("tool-output-error", await told(calls((name, given)), text("Oh.")))
    assert said in error["errorText"]


async def test_pictures_of_a_tool_are_objects() -> None:
    @tool
    def look() -> list[Text | Image]:
        """Look."""
        return [Text("See:"), Image("image/png", "aGk=")]

    async with talking(calls(("look", {})), text("Nice.")) as (model, _):
        chunks = await read(Agent(model, [look]).run("Go."))
        (seen,) = of("tool-output-available", chunks)
        assert [block["type"] for block in seen["output"]] == ["text", "image"]


async def test_a_call_that_was_cut_has_an_input_error() -> None:
    cut = ToolCall("c1", "add", {"a": 1}, complete=False)
    chunks = await told(AssistantMessage("i", "m", [cut], "length"), text("Again."))
    (error,) = of("tool-input-error", chunks)
    assert "cut off" in error["errorText"]
    assert not of("tool-input-available", chunks)


# --- approval ---


async def test_a_deferred_call_is_asked_about_and_goes_on_with_the_answer() -> None:
    async with talking(WRITES, text("Written.")) as (model, _):
        agent = Agent(model, TOOLS, approve=lambda *_: Defer())
        client = folded(first := await read(agent.run("Go.")))
        asked = kinds(first).index("tool-approval-request")
        assert kinds(first)[asked:] == [
            "tool-approval-request",
            "finish-step",
            "message-metadata",
            "finish",
        ]
        assert first[-1]["finishReason"] == "tool-calls"
        client.answer(approved=True)
        decisions = read_decisions([client.message])
        assert decisions == {"c1": Allow()}
        view = UIStream()
        rest = [one async for event in agent.resume(decisions) for one in view.feed(event)]
        check(rest, waiting=["c1"])
        assert kinds(rest)[:3] == ["start", "data-approval", "tool-output-available"]
        shown = folded(rest, client.message)
        assert shown.find("c1")["output"] == "2 characters to a.txt"
        assert shown.parts[-1]["text"] == "Written."


async def test_a_no_of_the_client_is_an_output_denied() -> None:
    again = calls(("add", {"a": 1, "b": 2}))  # another call of the same id
    async with talking(WRITES, again, text("Well.")) as (model, _):
        agent = Agent(model, TOOLS, approve=lambda _, of: Defer() if of == write_file else Allow())
        client = folded(await read(agent.run("Go.")))
        client.answer(approved=False, reason="not there")
        view = UIStream()
        run_ = agent.resume(read_decisions([client.message]))
        rest = [one async for event in run_ for one in view.feed(event)]
        check(rest, waiting=["c1"])
        parts = folded(rest, client.message).parts
        states = [part["state"] for part in parts if "toolCallId" in part]
        assert states == ["output-denied", "output-available"]
        assert "not there" in str(agent.messages)


async def test_a_call_that_is_deferred_again_is_asked_about_again() -> None:
    async with talking(WRITES) as (model, _):
        agent = Agent(model, TOOLS, approve=lambda *_: Defer())
        await read(agent.run("Go."))
        view = UIStream()
        rest = [one async for event in agent.resume({}) for one in view.feed(event)]
        check(rest, waiting=["c1"])
        assert kinds(rest)[-2:] == ["tool-approval-request", "finish"]


async def test_who_is_asked_meanwhile_is_a_note() -> None:
    def approve(call: ToolCall, of_tool: AgentTool) -> Decision:
        del call, of_tool
        return Deny("not there")

    chunks = await told(WRITES, text("Well."), approve=approve)
    notes = [one["data"]["state"] for one in of("data-approval", chunks)]
    assert notes == ["requested", "denied"]
    (error,) = of("tool-output-error", chunks)  # the client was not asked: it cannot have said no
    assert "not there" in error["errorText"]


async def test_other_arguments_than_the_models_are_told() -> None:
    edited = {"path": "b.txt", "content": ""}
    chunks = await told(WRITES, text("Well."), approve=lambda *_: Edit(edited))
    (changed,) = of("data-arguments", chunks)
    assert changed["data"] == {"toolCallId": "c1", "arguments": edited}
    (whole,) = of("tool-input-available", chunks)
    assert whole["input"]["path"] == "a.txt"


# --- what is dropped, and what is said between ---


async def test_an_answer_that_is_asked_for_again_has_a_step_of_its_own() -> None:
    half = stream_of("openai-chat", calls(("add", {"a": 1, "b": 2})))
    broken = Reply([half[: half.index(b"finish_reason") - 100], "cut"])
    chunks = await told(broken, text("Hello."), retry=AgentRetry(base=0.0))
    dropped = kinds(chunks).index("data-dropped")
    assert kinds(chunks)[dropped + 1] == "data-retry"
    assert kinds(chunks).count("start-step") == kinds(chunks).count("finish-step") == 2
    assert [one["data"]["state"] for one in of("data-retry", chunks)] == ["started", "ended"]


async def test_what_a_rule_says_stays_in_the_message() -> None:
    watch = RuleGuard([Rule("no-hello", ("hello",), "Say no hello.")])
    chunks = await told(text("Hello, hello."), text("Good day."), guards=[watch])
    order = [kind for kind in kinds(chunks) if kind.startswith(("data-", "start-"))]
    assert order == ["start-step", "data-dropped", "data-finding", "data-reminder", "start-step"]
    (said,) = of("data-reminder", chunks)
    assert said["data"]["source"] == "rule"
    assert said["data"]["content"][0]["text"].count("Say no hello.")


async def test_what_is_steered_stays_in_the_message_and_the_prompt_does_not() -> None:
    async with talking(text("One."), text("Two.")) as (model, _):
        agent = Agent(model)
        agent.follow_up("And then?")
        chunks = await read(agent.run("Go."))
        (said,) = of("data-said", chunks)
        assert said["data"]["content"][0]["text"] == "And then?"


# --- ends ---


async def test_a_failure_is_told_and_then_the_end() -> None:
    no = refusal(401, {"error": {"message": "no such key: sk-1"}})
    chunks = await told(no)
    assert kinds(chunks)[-3:] == ["message-metadata", "error", "finish"]
    assert chunks[-1]["finishReason"] == "error"
    assert "no such key" in chunks[-2]["errorText"]


async def test_what_people_are_told_of_a_failure_can_be_chosen() -> None:
    failing = refusal(500, {"error": {"message": "sk-secret"}})
    async with talking(failing) as (model, _):
        agent = Agent(model, retry=AgentRetry(attempts=1, base=0.0))
        view = UIStream(error_text=lambda error: f"It did not work ({error.kind}).")
        chunks = await read(agent.run("Go."), view)
        assert of("error", chunks)[0]["errorText"] == "It did not work (provider)."
        assert of("data-retry", chunks)
        assert "sk-secret" not in str(chunks)


def test_a_filter_is_an_end_and_no_error() -> None:
    view = UIStream()
    error = ErrorInfo("not that", "filter")
    chunks = [*view.feed(AgentStarted()), *view.feed(AgentEnded(error=error))]
    assert chunks == [{"type": "start"}, {"type": "finish", "finishReason": "content-filter"}]


async def test_too_many_turns_are_an_error_of_another_kind() -> None:
    chunks = await told(calls(("add", {"a": 1, "b": 2})), max_turns=2)
    assert kinds(chunks)[-2:] == ["error", "finish"]
    assert chunks[-1]["finishReason"] == "other"


def stalled() -> Reply:
    data = stream_of("openai-chat", text("Once upon a time there was"))
    return Reply([data[: data.index(b"\n\n", data.index(b"Once")) + 2], STALL])


async def test_an_abort_closes_what_is_open() -> None:
    async with talking(stalled()) as (model, upstream):
        agent, view = Agent(model), UIStream()
        chunks: list[Chunk] = []
        async for event in agent.run("Go."):
            chunks += view.feed(event)
            if "text-delta" in kinds(chunks):
                await agent.abort()
        check(chunks)
        assert kinds(chunks)[-4:] == ["text-end", "finish-step", "message-metadata", "abort"]
        await upstream.left.wait()


async def test_a_client_that_hangs_up_aborts_the_run() -> None:
    async with talking(stalled()) as (model, upstream):
        agent = Agent(model)
        body = ui_stream(agent.run("Go."))
        async for _ in body:
            break
        await body.aclose()
        assert not agent.busy
        await upstream.alone.wait()


async def test_a_reader_that_is_cancelled_aborts_the_run() -> None:
    async with talking(stalled()) as (model, upstream):
        agent = Agent(model)
        reading = asyncio.create_task(read(agent.run("Go.")))
        await upstream.stalls.wait()
        reading.cancel()
        await asyncio.wait({reading})
        assert reading.cancelled()
        assert not agent.busy
        await upstream.left.wait()


async def test_a_stream_that_is_left_is_closed_at_every_event() -> None:
    async with talking(calls(("add", {"a": 1, "b": 2}), ("fail", {})), text("3.")) as (
        model,
        _,
    ):
        events = [event async for event in Agent(model, TOOLS).run("Go.")]
    for end in range(len(events)):
        view = UIStream()
        chunks = [one for event in events[:end] for one in view.feed(event)]
        check([*chunks, *view.finish()])
        assert view.finish() == []


# --- what no model should say, and what is told beside ---


def shown(*events: Event) -> list[Chunk]:
    """Give the chunks of an answer that says *events*, and is left then."""
    view, message = UIStream(), AssistantMessage()
    chunks = view.feed(MessageStarted(message))
    chunks += [one for event in events for one in view.feed(MessageUpdated(event))]
    chunks += view.finish()
    check(chunks)
    return chunks


def test_calls_that_share_an_id_are_told_apart_and_the_second_ends_too() -> None:
    twins = [ToolCall("c1", "add", {"a": 1}), ToolCall("c1", "add", {"a": 2})]
    chunks = shown(*message_events(AssistantMessage("m", "m", [*twins], "tool_use")))
    inputs = {one["toolCallId"]: one["input"] for one in of("tool-input-available", chunks)}
    assert inputs == {"c1": {"a": 1}, "c1-2": {"a": 2}}
    assert [one["toolCallId"] for one in of("tool-output-error", chunks)] == ["c1", "c1-2"]


def test_a_block_that_only_its_provider_understands_is_data() -> None:
    (data,) = of("data-opaque", shown(Part(0, Opaque("anthropic", {"x": 1}))))
    assert data["data"] == {"provider": "anthropic", "data": {"x": 1}}


def test_a_piece_without_a_word_is_not_told() -> None:
    assert "text-delta" not in kinds(shown(TextStart(0), TextDelta(0, ""), TextEnd(0, "")))


def test_a_piece_of_a_block_that_is_not_open_is_misuse() -> None:
    with pytest.raises(UsageError, match="block 3, which is not open"):
        shown(TextDelta(3, "x"))


def test_what_has_no_json_form_is_shown_as_python_prints_it() -> None:
    view = UIStream()
    view.feed(AgentStarted())
    (update,) = view.feed(ToolUpdated("c1", "add", object))
    assert update["output"] == "<class 'object'>"


def test_half_a_character_goes_over_the_wire_as_a_lost_one() -> None:
    data = encode({"type": "text-delta", "id": "1", "delta": "\ud83d"})
    assert json.loads(data.removeprefix(b"data: "))["delta"] == "\ufffd"


def test_notes_are_told_and_not_kept() -> None:
    view = UIStream()
    error = ErrorInfo("no room")
    events: list[AgentEvent] = [
        ExtensionErrorEvent("hook", "it broke"),  # it may come before the run begins
        AgentStarted(),
        CompactionStarted("threshold", 900),
        CompactionEnded("In short.", 2),
        CompactionEnded(error=error),
    ]
    start, *notes = [one for event in events for one in view.feed(event)]
    assert start == {"type": "start"}
    assert all(one["transient"] for one in notes)
    assert [one["data"] for one in notes] == [
        {"source": "hook", "message": "it broke"},
        {"state": "started", "reason": "threshold", "tokens": 900},
        {"state": "ended", "summary": "In short.", "kept": 2, "error": None},
        {
            "state": "ended",
            "summary": "",
            "kept": 0,
            "error": {"message": "no room", "kind": "provider"},
        },
    ]


def test_nothing_follows_the_end() -> None:
    view = UIStream()
    view.finish()
    with pytest.raises(UsageError, match="got `turn_start`"):
        view.feed(TurnStarted(1))


def test_a_message_has_the_name_and_the_metadata_that_it_is_given() -> None:
    view = UIStream(message_id="m-7", id_prefix="r1:", metadata={"by": "me"})
    (start,) = view.feed(AgentStarted())
    assert start == {"type": "start", "messageId": "m-7", "messageMetadata": {"by": "me"}}


def test_the_headers_are_those_that_clients_look_for() -> None:
    assert UI_HEADERS["x-vercel-ai-ui-message-stream"] == "v1"
    assert UI_HEADERS["content-type"] == "text/event-stream"
    assert DONE == b"data: [DONE]\n\n"
