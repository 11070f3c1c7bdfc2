"""What the Responses encoder writes for any lawful sequence: lawful, and the same answer again."""

from __future__ import annotations

from hypothesis import given, settings

from laws import check_monotone
from laws.checks import read
from laws.strategies import event_sequences
from penstock import MessageBuilder, apis
from penstock.events import Event
from penstock.messages import AssistantMessage, Text, Thinking, ToolCall

API = apis.get("openai-responses")


def encoded(events: list[Event]) -> bytes:
    encoder = API.encoder(created=1)
    return b"".join([encoder.encode(event) for event in events]) + encoder.finish()


def folded(events: list[Event]) -> AssistantMessage:
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
    return builder.message


@given(event_sequences())
@settings(max_examples=40)
def test_any_lawful_sequence_is_written_lawfully(
    sequence: tuple[list[Event], AssistantMessage],
) -> None:
    assert API.check(encoded(sequence[0])) == []


@given(event_sequences())
@settings(max_examples=40)
def test_what_was_written_reads_as_the_same_answer(
    sequence: tuple[list[Event], AssistantMessage],
) -> None:
    events, message = sequence
    again = read(API.decoder(), [encoded(events)])
    check_monotone(again)
    found = folded(again)
    blocks = [block for block in message.content if isinstance(block, Text | Thinking | ToolCall)]
    assert [said(block) for block in found.content] == [said(block) for block in blocks]
    assert_same_end(found, message)


def said(block: object) -> object:
    """What the API can say of a block."""
    match block:
        case ToolCall():
            return (block.name, block.complete, block.arguments if block.complete else None)
        case Text():
            return ("text", block.text)
        case Thinking():
            return ("thinking", block.text, block.signature)
    return block


def assert_same_end(found: AssistantMessage, message: AssistantMessage) -> None:
    if message.error is not None:
        expected = "error"
        assert found.error is not None
        if message.error.kind == "refusal":
            assert (found.error.kind, found.error.message) == ("refusal", message.error.message)
    elif any(not call.complete for call in message.tool_calls) and message.stop_reason != "length":
        expected = "error"
    elif message.stop_reason == "length":
        expected = "length"
    else:
        expected = "tool_use" if message.tool_calls else "stop"
    assert found.stop_reason == expected
    usage, was = found.usage, message.usage
    assert (usage.input, usage.output) == (was.input, was.output)
    assert (usage.cache_read, usage.cache_write) == (was.cache_read, was.cache_write)
    assert usage.reasoning == was.reasoning
