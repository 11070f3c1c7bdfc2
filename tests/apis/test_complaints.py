"""Every shape that made a gateway lose a call comes out lawful, in each client's API."""

from __future__ import annotations

import pytest

from apis.complaints import COMPLAINTS, Complaint
from laws import cut_at, one_by_one
from laws.checks import read
from penstock import MessageBuilder, Tool, apis, parse_events
from penstock.events import Event
from penstock.messages import AssistantMessage

CLIENTS = ["openai-chat", "openai-responses", "anthropic"]
TOOLS = [
    Tool(name, "", {"type": "object", "properties": {key: {"type": "string"}}})
    for name, key in (("weather", "city"), ("tide", "port"))
]
EVERY = pytest.mark.parametrize("complaint", COMPLAINTS, ids=lambda c: str(c.name))


def answer(complaint: Complaint, chunks: list[bytes]) -> list[Event]:
    events = read(apis.get(complaint.upstream).decoder(), chunks)
    if not complaint.format:
        return events
    return [*parse_events(events, complaint.format, TOOLS, arguments="live", trim=True)]


def message_of(events: list[Event]) -> AssistantMessage:
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
    return builder.message


def assert_expected(message: AssistantMessage, complaint: Complaint) -> None:
    assert (message.text, message.thinking) == (complaint.text, complaint.thinking)
    complete = [(call.name, call.arguments) for call in message.tool_calls if call.complete]
    assert complete == complaint.calls
    assert message.stop_reason == complaint.reason
    if complaint.input_tokens is not None:
        assert message.usage.input == complaint.input_tokens


@EVERY
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_gets_the_answer_in_lawful_form(complaint: Complaint, client: str) -> None:
    events = answer(complaint, [complaint.data])
    assert_expected(message_of(events), complaint)
    api = apis.get(client)
    encoder = api.encoder(model="m")
    data = b"".join(map(encoder.encode, events)) + encoder.finish()
    assert api.check(data) == []
    assert_expected(message_of(read(api.decoder(), [data])), complaint)


@EVERY
def test_the_answer_is_the_same_at_any_cut(complaint: Complaint) -> None:
    data = complaint.data
    for chunks in (one_by_one(data), cut_at(data, range(0, len(data), 7))):
        assert_expected(message_of(answer(complaint, chunks)), complaint)
