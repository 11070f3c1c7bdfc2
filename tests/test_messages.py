"""Messages and calls: what is read from argument text, and what never is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.strategies import ANY_TEXT, ARGUMENTS
from penstock import _json
from penstock.messages import AssistantMessage, Text, Thinking, ToolCall


def test_a_message_sums_up_its_blocks() -> None:
    call = ToolCall("c", "f", {"a": 1})
    message = AssistantMessage(
        content=[Thinking("hm "), Text("a"), call, Thinking("ok"), Text("b")]
    )
    assert (message.text, message.thinking, message.tool_calls) == ("ab", "hm ok", [call])


def test_a_block_says_what_it_is() -> None:
    assert [Text().type, Thinking().type, ToolCall("", "").type] == [
        "text",
        "thinking",
        "tool_call",
    ]


def test_two_messages_share_nothing() -> None:
    one, two = AssistantMessage(), AssistantMessage()
    one.content.append(Text("x"))
    one.usage.input = 1
    assert two == AssistantMessage()


@given(ARGUMENTS)
def test_strict_arguments_are_read_as_they_are(arguments: dict[str, Any]) -> None:
    text = msgspec.json.encode(arguments).decode()
    assert ToolCall.from_text("c", "f", text) == ToolCall("c", "f", arguments)


@pytest.mark.parametrize("text", ["", "  \n", "null", "{}", " {} "], ids=repr)
def test_no_arguments_are_an_empty_object(text: str) -> None:
    assert ToolCall.from_text("c", "f", text) == ToolCall("c", "f", {})


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        pytest.param('{"a": 1,}', {"a": 1}, id="a trailing comma"),
        pytest.param("{'a': True}", {"a": True}, id="Python"),
        pytest.param('{"a": "x\ny"}', {"a": "x\ny"}, id="a raw newline"),
        pytest.param(r'{"re": "\d+"}', {"re": r"\d+"}, id="a bad escape"),
        pytest.param('"{\\"a\\": 1}"', {"a": 1}, id="an object inside a string"),
        pytest.param('{"a": 1', {"a": 1}, id="a missing closer"),
        pytest.param('{"a": NaN}', {"a": "NaN"}, id="a number without a JSON form"),
        pytest.param('{"a": 1, "a": 2}', {"a": 2}, id="a repeated key"),
    ],
)
def test_broken_arguments_are_mended_and_it_is_said(text: str, arguments: dict[str, Any]) -> None:
    call = ToolCall.from_text("c", "f", text)
    assert call.arguments == arguments
    assert call.complete
    assert call.repairs


@pytest.mark.parametrize("text", ["[1, 2]", "12", "true", '"words"', "@@@", "\x00"], ids=repr)
def test_arguments_that_hold_no_object_leave_the_call_incomplete(text: str) -> None:
    call = ToolCall.from_text("c", "f", text)
    assert not call.complete
    assert call.arguments == {}
    assert call.repairs


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('{"a": 1, "b": "hel', {"a": 1, "b": "hel"}),
        ('{"a": 1, "b', {"a": 1}),
        ('{"a": 12', {}),
        ("", {}),
        ("[1", {}),
    ],
)
def test_a_cut_call_shows_what_had_arrived(text: str, arguments: dict[str, Any]) -> None:
    call = ToolCall.from_text("c", "f", text, complete=False)
    assert call == ToolCall("c", "f", arguments, complete=False)


@given(st.one_of(ANY_TEXT, ANY_TEXT.map(lambda text: '{"a": ' + text)), st.booleans())
def test_no_argument_text_raises(text: str, complete: bool) -> None:  # noqa: FBT001
    call = ToolCall.from_text("c", "f", text, complete=complete)
    assert isinstance(call.arguments, dict)
    assert complete or not call.complete
    _json.encode(call)
