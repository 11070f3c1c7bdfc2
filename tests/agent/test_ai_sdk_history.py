"""A conversation as UI messages: a page that is loaded again shows what was said."""

from __future__ import annotations

from hypothesis import given, settings

from agent.test_ai_sdk_laws import SCENES, Scene, agent_of, plainly, played
from penstock.agent import Agent, Allow
from penstock.agent.ai_sdk_history import agent_ui_messages, write_ui_messages
from penstock.agent.ai_sdk_messages import read_decisions, read_ui_messages
from penstock.messages import AssistantMessage, Text, Thinking, ToolCall, ToolResult, Usage
from penstock.models import DemoModel
from penstock.request import Image, Message, SystemMessage, UserMessage

ASKED = ToolCall("c1", "add", {"a": 1}, signature="sig")


def test_a_conversation_is_written_as_the_page_had_it() -> None:
    messages: list[Message] = [
        SystemMessage("Be brief."),
        UserMessage([Text("Hi."), Image(media_type="image/png", data="AAAA")]),
        AssistantMessage(
            "1", "m", [Thinking("Hm.", "s"), Text("So."), ASKED], "tool_use", usage=Usage(input=3)
        ),
        ToolResult("c1", "add", {"sum": 2}),
        UserMessage("Do not shout.", "rule"),
        AssistantMessage("2", "m", [Text("2.")], "stop", usage=Usage(input=4, output=1)),
        UserMessage("Thanks."),
    ]
    written = write_ui_messages(messages)
    assert [one["role"] for one in written] == ["system", "user", "assistant", "user"]
    assert len({one["id"] for one in written}) == 4
    assert written[1]["parts"][1] == {
        "type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA",
    }  # fmt: skip
    response = written[2]
    assert [part["type"] for part in response["parts"]] == [
        "step-start", "reasoning", "text", "tool-add", "data-reminder", "step-start", "text",
    ]  # fmt: skip
    assert response["parts"][3] == {
        "type": "tool-add", "toolCallId": "c1", "state": "output-available", "input": {"a": 1},
        "output": {"sum": 2}, "callProviderMetadata": {"penstock": {"signature": "sig"}},
    }  # fmt: skip
    assert response["metadata"]["model"] == "m"
    assert response["metadata"]["usage"]["inputTokens"] == 7
    assert plainly(read_ui_messages(written)) == plainly(messages)


def test_calls_without_a_result_wait_run_or_were_not_run() -> None:
    cut = ToolCall("c2", "add", {"a": 1}, complete=False)
    messages = [UserMessage("Hi."), AssistantMessage("1", "m", [ASKED, cut], "tool_use")]

    def states(**options: object) -> list[tuple[str, str]]:
        parts = write_ui_messages(messages, **options)[1]["parts"][1:]  # type: ignore[arg-type]
        return [(part["state"], part.get("errorText", "")) for part in parts]

    not_run = ("output-error", "The call was not run.")
    assert states() == [not_run, not_run]
    assert states(waiting=["c1"]) == [("approval-requested", ""), not_run]
    assert states(failed={"c1": "unknown"}) == [("output-error", "unknown"), not_run]
    assert states(is_running=True) == [("input-available", ""), not_run]


def test_an_id_that_is_used_again_is_another_call() -> None:
    messages: list[Message] = []
    for number in range(2):
        messages += [
            UserMessage("Add."),
            AssistantMessage("1", "m", [ASKED], "tool_use"),
            ToolResult("c1", "add", f"sum {number}"),
        ]
    outputs = [part["output"] for one in write_ui_messages(messages)
               for part in one["parts"] if part["type"] == "tool-add"]  # fmt: skip
    assert outputs == ["sum 0", "sum 1"]


def test_an_interrupted_call_is_shown_as_unknown() -> None:
    agent = Agent(DemoModel(), messages=[UserMessage("Hi."), AssistantMessage("1", "m", [ASKED])])
    assert agent_ui_messages(agent)[1]["parts"][1]["state"] == "approval-requested"
    agent.interrupted = [ASKED]
    part = agent_ui_messages(agent)[1]["parts"][1]
    assert part["state"] == "output-error"
    assert "unknown" in part["errorText"]


@settings(max_examples=60, deadline=None)
@given(scene=SCENES)
async def test_every_conversation_reads_back_as_it_was_said(scene: Scene) -> None:
    agent = agent_of(scene)
    await played(agent, agent.run("Go."), scene)
    written = agent_ui_messages(agent)
    assert plainly(read_ui_messages(written)) == plainly(agent.messages)
    if waiting := agent.deferred:  # the reloaded page can answer
        for part in written[-1]["parts"]:
            if part.get("state") == "approval-requested":
                part |= {"state": "approval-responded"}
                part["approval"]["approved"] = True
        assert read_decisions(written) == {call.id: Allow() for call in waiting}
