"""What a browser sends is read into a conversation and decisions, or refused with a reason."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from penstock.agent import Allow, Deny
from penstock.agent.ai_sdk_messages import read_decisions, read_prompt, read_ui_messages
from penstock.agent.loop import UNDECIDED
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall, ToolResult
from penstock.request import Image, SystemMessage, UserMessage

STEP = {"type": "step-start"}
SIGNED = {"penstock": {"signature": "sig"}}


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"id": "u", "role": "user", "parts": list(parts)}


def assistant(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": "a", "role": "assistant", "parts": list(parts), **fields}


def call(state: str, id_: str = "c1", **fields: Any) -> dict[str, Any]:
    part = {"type": "tool-add", "toolCallId": id_, "state": state, "input": {"a": 1}}
    return part | fields


def results(*parts: dict[str, Any]) -> list[Any]:
    """Give what the calls of an answer came to."""
    read = read_ui_messages([assistant(STEP, *parts)])
    assert isinstance(read[0], AssistantMessage)
    return read[1:]


def test_a_conversation_is_read_in_its_order() -> None:
    read = read_ui_messages(
        [
            {"role": "system", "parts": [said("Be "), said("brief.")]},
            user(said("Hi."), {"type": "data-mine", "data": 1}),
            assistant(
                STEP,
                {"type": "reasoning", "text": "Hm.", "providerMetadata": SIGNED},
                said("Let me see."),
                call("output-available", output=3, callProviderMetadata=SIGNED),
                STEP,
                said("3."),
                {"type": "source-url", "sourceId": "s", "url": "http://a.example"},
                metadata={"model": "m", "usage": {}},
            ),
        ]
    )
    asked = ToolCall("c1", "add", {"a": 1}, signature="sig")
    assert read == [
        SystemMessage("Be brief."),
        UserMessage([Text("Hi.")]),
        AssistantMessage("", "m", [Thinking("Hm.", "sig"), Text("Let me see."), asked], "tool_use"),
        ToolResult("c1", "add", 3),
        AssistantMessage("", "m", [Text("3.")], "stop"),
    ]


@pytest.mark.parametrize(
    ("part", "result"),
    [
        pytest.param(
            call("output-error", errorText="no"),
            ToolResult("c1", "add", "no", is_error=True),
            id="an error",
        ),
        pytest.param(
            call("output-denied", approval={"id": "x", "approved": False, "reason": "why"}),
            ToolResult("c1", "add", "The call was denied: why", is_error=True),
            id="a no with a reason",
        ),
        pytest.param(
            call("output-denied", approval={"id": "x", "approved": False}),
            ToolResult("c1", "add", "The call was denied.", is_error=True),
            id="a no without a reason",
        ),
        pytest.param(
            call("output-available", output=[{"type": "text", "text": "a"}]),
            ToolResult("c1", "add", [Text("a")]),
            id="blocks",
        ),
        pytest.param(
            call("output-available", output=[{"type": "row"}]),
            ToolResult("c1", "add", [{"type": "row"}]),
            id="a list that is not made of blocks",
        ),
        pytest.param(
            {"type": "dynamic-tool", "toolName": "sub", "toolCallId": "c2"}
            | {"state": "output-available", "output": "x"},
            ToolResult("c2", "sub", "x"),
            id="a dynamic tool, called without arguments",
        ),
    ],
)
def test_a_call_that_ended_has_a_result(part: dict[str, Any], result: ToolResult) -> None:
    assert results(part) == [result]


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(call("input-available"), id="it was never run"),
        pytest.param(call("approval-requested", approval={"id": "x"}), id="it was asked about"),
        pytest.param(call("output-available", output=1, preliminary=True), id="it still ran"),
    ],
)
def test_a_call_that_waits_has_a_result_only_if_something_follows(part: dict[str, Any]) -> None:
    assert results(part) == []
    read = read_ui_messages([assistant(STEP, part), user(said("Go on."))])
    assert read[1:] == [
        ToolResult("c1", "add", UNDECIDED, is_error=True),
        UserMessage([Text("Go on.")]),
    ]


def test_a_call_that_was_cut_is_incomplete() -> None:
    cut: dict[str, Any] = {"type": "tool-add", "toolCallId": "c1", "state": "output-error"}
    cut |= {"rawInput": {"a": 1}, "errorText": "cut"}
    (answer, result) = read_ui_messages([assistant(STEP, cut)])
    assert isinstance(answer, AssistantMessage)
    assert answer.content == [ToolCall("c1", "add", {"a": 1}, complete=False)]
    assert result == ToolResult("c1", "add", "cut", is_error=True)


def test_a_call_whose_input_never_came_is_none() -> None:
    assert read_ui_messages([assistant(STEP, call("input-streaming", input=None))]) == []


def test_a_step_that_was_dropped_stays_out() -> None:
    dropped = {"type": "data-dropped", "data": {}}
    read = read_ui_messages([assistant(STEP, said("Oops"), dropped, STEP, said("Yes."))])
    assert read == [AssistantMessage("", "", [Text("Yes.")], "stop")]


def test_what_was_said_between_answers_stands_between_them() -> None:
    between = {"type": "data-said", "data": {"content": [{"type": "text", "text": "Left!"}]}}
    read = read_ui_messages([assistant(STEP, said("One."), between, STEP, said("Two."))])
    assert [type(one) for one in read] == [AssistantMessage, UserMessage, AssistantMessage]
    assert read[1] == UserMessage([Text("Left!")])


def test_what_only_its_provider_understands_comes_back() -> None:
    opaque = {"type": "data-opaque", "data": {"provider": "anthropic", "data": {"x": 1}}}
    (answer,) = read_ui_messages([assistant(STEP, opaque)])
    assert answer == AssistantMessage("", "", [Opaque("anthropic", {"x": 1})], "stop")


@pytest.mark.parametrize(
    ("url", "image"),
    [
        pytest.param("data:image/png;base64,aGk=", Image("image/png", "aGk="), id="in the URL"),
        pytest.param(
            "https://a.example/a.png",
            Image("image/webp", url="https://a.example/a.png"),
            id="on the web",
        ),
    ],
)
def test_a_picture_is_read(url: str, image: Image) -> None:
    file = {"type": "file", "mediaType": "image/webp", "url": url}
    assert read_ui_messages([user(file)]) == [UserMessage([image])]


# --- the prompt ---


def test_the_prompt_is_the_last_message() -> None:
    sent = [user(said("One.")), assistant(STEP, said("Hm.")), user(said("Two."))]
    assert read_prompt(sent) == UserMessage([Text("Two.")])


@pytest.mark.parametrize(
    "last",
    [
        pytest.param([], id="nothing"),
        pytest.param([assistant(STEP, said("I say so."))], id="an answer"),
        pytest.param([{"role": "system", "parts": [said("Obey.")]}], id="an instruction"),
    ],
)
def test_nobody_elses_words_are_a_prompt(last: list[Any]) -> None:
    with pytest.raises(UsageError, match="not a message of the user"):
        read_prompt([user(said("Hi.")), *last] if last else last)


# --- decisions ---


def answered(id_: str, *, approved: bool | None, **approval: Any) -> dict[str, Any]:
    approval |= {"id": f"approval-{id_}"}
    approval |= {} if approved is None else {"approved": approved}
    return call("approval-responded", id_, approval=approval)


def test_decisions_are_those_of_the_last_step() -> None:
    message = assistant(
        STEP,
        answered("old", approved=True),
        STEP,
        answered("c1", approved=True),
        answered("c2", approved=False, reason="no"),
        answered("c3", approved=False),
        call("approval-requested", "c4", approval={"id": "x"}),
    )
    decided = read_decisions([user(said("Go.")), message])
    assert decided == {"c1": Allow(), "c2": Deny("no"), "c3": Deny()}


def test_a_message_of_the_user_decides_nothing() -> None:
    assert read_decisions([assistant(STEP, answered("c1", approved=True)), user(said("Hm."))]) == {}
    assert read_decisions([]) == {}


def test_an_answer_that_says_neither_yes_nor_no_is_refused() -> None:
    with pytest.raises(UsageError, match="call 'c1': `approved` is missing"):
        read_decisions([assistant(STEP, answered("c1", approved=None))])


# --- hostile input ---


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        pytest.param("Hi.", "UI messages must be a list", id="no list"),
        pytest.param([1], "message 0: Expected `object`", id="no object"),
        pytest.param([{"role": "tool", "parts": []}], "message 0: Invalid enum", id="no role"),
        pytest.param([{"role": "user"}], "message 0: .*`parts`", id="no parts"),
        pytest.param([user({"text": "a"})], "part 0: `type` is missing", id="no type"),
        pytest.param([user({"type": "text", "text": 1})], "message 0, part 0: .*`str`", id="text"),
        pytest.param([user()], "must contain text", id="a user who says nothing"),
        pytest.param(
            [user(call("input-available"))], "cannot contain 'tool-add'", id="a user who calls"
        ),
        pytest.param(
            [assistant({"type": "custom"})], "cannot contain 'custom'", id="an unknown part"
        ),
        pytest.param([assistant(call("done"))], "part 0: Invalid enum value 'done'", id="a state"),
        pytest.param(
            [assistant(call("input-available", input="x"))], "'c1' is not an object", id="an input"
        ),
        pytest.param(
            [assistant(call("output-error", errorText=None))], "part 0: .*errorText", id="an error"
        ),
        pytest.param(
            [assistant({"type": "tool-", "toolCallId": "c", "state": "input-available"})],
            "no tool name",
            id="a call of nothing",
        ),
        pytest.param(
            [assistant({"type": "data-said", "data": {"content": [{"type": "tool_call"}]}})],
            "message 0, part 0",
            id="a forged interjection",
        ),
        pytest.param([assistant({"type": "data-opaque", "data": []})], "part 0", id="no block"),
        *(
            pytest.param(
                [user({"type": "file", "mediaType": kind, "url": url})], reason, id=f"file {url}"
            )
            for kind, url, reason in [
                ("application/pdf", "data:application/pdf;base64,aGk=", "got application/pdf"),
                ("image/png", "file:///etc/passwd", "http, https or base64"),
                ("image/png", "data:image/png,hi", "http, https or base64"),
                ("image/png", "data:image/png;base64,a*b", "not valid base64"),
                ("image/png", "data:image/png;base64,é", "not valid base64"),
            ]
        ),
    ],
)
def test_what_is_no_message_is_refused_with_a_reason(messages: object, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        read_ui_messages(messages)


ODD: list[Any] = [None, True, 1, 0.5, "", "x", "input-available", "approval-responded", [], [1]]
ODD += [{}, {"id": 1}, {"approved": "yes"}, {"content": [1]}, {"content": []}, {"provider": "p"}]
WILD = st.sampled_from(ODD)
FIELDS = ["text", "state", "toolCallId", "input", "output", "errorText", "approval", "data"]
KINDS = ["text", "reasoning", "file", "tool-add", "dynamic-tool", "x"]
KINDS += ["data-said", "data-reminder", "data-opaque"]
PARTS = st.builds(
    lambda kind, fields: fields | {"type": kind},
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from([*FIELDS, "mediaType", "url", "toolName"]), WILD, max_size=5),
)
WILD_MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "assistant", "system"]),
            "parts": st.lists(PARTS, max_size=3),
        }
    ),
    max_size=2,
)


@settings(max_examples=60, deadline=None)
@given(messages=WILD_MESSAGES | WILD)
def test_whatever_is_sent_is_read_or_refused(messages: object) -> None:
    for reader in (read_ui_messages, read_decisions, read_prompt):
        try:
            found: object = reader(messages)
        except UsageError as refusal:
            assert str(refusal)  # noqa: PT017 - both are lawful, and no other is
        else:
            assert isinstance(found, list | dict | UserMessage)
