"""The laws, for every API: what an encoder writes is lawful and says the same as the events."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_never_raises, cut_at, effort
from laws.checks import check_honest_end, read
from laws.sequences import sequences
from laws.strategies import CUTS, event_sequences
from penstock import MessageBuilder, UsageError, apis
from penstock.apis import Api
from penstock.events import (
    Done,
    Event,
    MessageStart,
    TextDelta,
    TextStart,
    ToolCallDelta,
    ToolCallStart,
)
from penstock.messages import AssistantMessage

APIS = pytest.mark.parametrize("api", apis.names(), indirect=True)
WHOLE_CALLS = {"gemini", "ollama"}
"""APIs that say a call in one piece, and so none that was cut."""

Sequence = tuple[list[Event], AssistantMessage]


@pytest.fixture(scope="session")
def api(request: pytest.FixtureRequest) -> Api:
    return apis.get(request.param)


def written(api: Api, events: list[Event]) -> bytes:
    encoder = api.encoder(model="m", id="id-1")
    return b"".join(map(encoder.encode, events)) + encoder.finish()


def message_of(events: list[Event]) -> AssistantMessage:
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
    return builder.message


@APIS
def test_thousands_of_answers_are_written_lawfully_and_read_back(api: Api) -> None:
    for events, message in effort.some(sequences(seed=5, number=400)):
        data = written(api, events)
        assert api.check(data) == [], events
        assert_same(api, message_of(read(api.decoder(), [data])), message)


@APIS
@settings(max_examples=30)
@given(sequence=event_sequences())
def test_any_answer_is_written_lawfully_and_reads_back(api: Api, sequence: Sequence) -> None:
    events, message = sequence
    data = written(api, events)
    assert api.check(data) == []
    assert_same(api, message_of(read(api.decoder(), [data])), message)


def assert_same(api: Api, found: AssistantMessage, message: AssistantMessage) -> None:
    """Compare what every API can say."""
    assert found.text.strip() == message.text.strip()
    assert found.thinking == message.thinking
    calls = [(call.name, call.arguments) for call in message.tool_calls if call.complete]
    if message.stop_reason in ("stop", "tool_use") and len(calls) == len(message.tool_calls):
        assert [(c.name, c.arguments) for c in found.tool_calls if c.complete] == calls
        assert found.stop_reason == ("tool_use" if calls else "stop")
    if message.stop_reason == "length":
        assert found.stop_reason == "length"
    if message.error is not None:
        assert found.error is not None
        assert found.stop_reason == "error"
    complete = [call for call in found.tool_calls if call.complete]
    assert len(complete) <= len(calls)
    said = [c for c in message.tool_calls if c.complete or api.name not in WHOLE_CALLS]
    assert [c.name for c in found.tool_calls] == [c.name for c in said]


@APIS
@settings(max_examples=30)
@given(sequence=event_sequences(), cuts=CUTS)
def test_a_decoder_does_not_care_how_its_bytes_are_cut(
    api: Api, sequence: Sequence, cuts: list[int]
) -> None:
    data = written(api, sequence[0])
    whole = message_of(read(api.decoder(), [data]))
    assert message_of(read(api.decoder(), cut_at(data, cuts))) == whole


@APIS
@settings(max_examples=30)
@given(sequence=event_sequences(), at=st.integers(0, 10_000))
def test_a_stream_that_was_cut_is_never_done(api: Api, sequence: Sequence, at: int) -> None:
    data = written(api, sequence[0])
    events = read(api.decoder(), [data[: at % (len(data) + 1)]])
    check_honest_end(events, cut=False)
    whole, found = message_of(read(api.decoder(), [data])), message_of(events)
    assert whole.text.startswith(found.text)
    if found.error is None:
        assert (found.text, found.tool_calls) == (whole.text, whole.tool_calls)


@APIS
@settings(max_examples=30)
@given(
    data=st.binary(max_size=200)
    | st.lists(
        st.sampled_from(
            [
                b"data: ",
                b"{",
                b"}",
                b"[",
                b"]",
                b'"',
                b":",
                b",",
                b"null",
                b"1",
                b"\n",
                b"\r\n",
                b"\n\n",
                b"event: error\n",
                b"[DONE]",
                b'"choices"',
                b'"delta"',
                b'"error"',
                b'"type"',
                b'"index"',
                b'"content"',
                b'"message"',
                b'"candidates"',
                b'"parts"',
                b'"tool_calls"',
                b'"function"',
            ]
        )
    ).map(b"".join),
    cuts=CUTS,
)
def test_no_bytes_make_a_decoder_raise(api: Api, data: bytes, cuts: list[int]) -> None:
    check_never_raises(api.decoder, cut_at(data, cuts))


@APIS
def test_a_sequence_without_an_end_is_written_as_one_that_was_cut(api: Api) -> None:
    found = message_of(read(api.decoder(), [written(api, [])]))
    assert found.stop_reason == "error"


OPEN_TEXT: list[Event] = [TextStart(0), TextDelta(0, "a")]
OPEN_CALL: list[Event] = [ToolCallStart(0, "c1", "f"), ToolCallDelta(0, '{"a": ')]


@APIS
@pytest.mark.parametrize("events", [OPEN_TEXT, OPEN_CALL], ids=["text", "call"])
def test_an_open_block_is_not_continued_after_the_end(api: Api, events: list[Event]) -> None:
    encoder = api.encoder(model="m", id="id-1")
    for event in [MessageStart(), *events, Done("length", AssistantMessage(stop_reason="length"))]:
        encoder.encode(event)
    assert encoder.encode(events[-1]) == b""
    encoder.finish()
    with pytest.raises(UsageError):
        encoder.encode(events[-1])
