"""`Model.batches`: lists of events as they arrive, without a task or a queue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from laws import check_monotone
from models.loopback_servers import (
    ANSWER,
    CUT,
    STALL,
    Reply,
    Script,
    Step,
    call_of,
    refusal,
    script_for,
    serving,
    stream_of,
    streamed,
)
from models.upstreams import NOTE, PARIS, Scripted, asking, spoken
from penstock import DemoModel, HTTPModel, Request, ToolMiddleware, apis, formats
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import AssistantMessage, Text, ToolCall
from penstock.models import Model
from penstock.models.base import Batches, Tap, collect_message, ensure_end
from penstock.models.http import Report, RetryPolicy
from penstock.models.tool_choice import Constraint
from penstock.request import ToolChoice, UserMessage

APIS = apis.names()
ASKED = Request(messages=[UserMessage([Text("When is high water?")])])
SOON = 5.0
"""Within how many seconds a server has to see the close: at once, on a machine that may be busy."""


class Wire(Tap):
    """Keeps all that it sees."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.data: list[bytes] = []
        self.reports: list[Report] = []

    def sent(self, body: bytes) -> None:
        self.bodies.append(body)

    def received(self, data: bytes) -> None:
        self.data.append(data)

    def reported(self, report: Report) -> None:
        self.reports.append(report)


async def lists_of(model: Model, request: Request, tap: Tap | None = None) -> list[list[Event]]:
    lists = [batch async for batch in model.batches(request, tap)]
    assert all(lists), "a list is never empty"
    events = [event for batch in lists for event in batch]
    check_monotone(events)
    assert [isinstance(event, Done | Failed) for event in events].index(True) == len(events) - 1
    return lists


async def events_of(model: Model, request: Request, tap: Tap | None = None) -> list[Event]:
    return [event for batch in await lists_of(model, request, tap) for event in batch]


# --- the same events ---


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("answer", [ANSWER, call_of("tide_at", port="Leith")], ids=["text", "call"])
async def test_batches_are_the_events_of_the_stream(api: str, answer: AssistantMessage) -> None:
    async with (
        serving(*script_for(api, streamed(api, answer))) as upstream,
        HTTPModel(api, upstream.url, "m", interval=0) as model,
    ):
        expected = [event async for event in model.stream(ASKED)]
        assert await events_of(model, ASKED) == expected
        assert isinstance(expected[-1], Done)
        wrapped = ToolMiddleware(model, "hermes")
        expected = [event async for event in wrapped.stream(asking())]
        assert await events_of(wrapped, asking()) == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda: Scripted("Hi ", "Hi "),
        lambda: DemoModel("hermes"),
        lambda: DemoModel("native"),
        lambda: ToolMiddleware(DemoModel("hermes"), "hermes"),
        lambda: ToolMiddleware(ToolMiddleware(DemoModel("hermes"), "hermes"), "hermes"),
    ],
    ids=["any model", "demo", "native demo", "middleware", "middleware twice"],
)
async def test_whatever_a_model_is_its_batches_are_its_stream(make: Any) -> None:
    model: Model = make()
    expected = [event async for event in model.stream(asking())]
    assert await events_of(model, asking()) == expected


async def test_what_arrives_together_is_one_list() -> None:
    data = stream_of("openai-chat")
    async with (
        serving(Reply([data])) as upstream,
        HTTPModel("openai-chat", upstream.url, "m") as model,
    ):
        assert len(await lists_of(model, ASKED)) == 1


async def test_nothing_is_sent_before_the_first_read() -> None:
    async with (
        serving(streamed("openai-chat")) as upstream,
        HTTPModel("openai-chat", upstream.url, "m") as model,
    ):
        answer = model.batches(ASKED)
        await answer.aclose()
        assert upstream.connections == 0


# --- ends ---


class Foreign(Scripted):
    """A custom model whose batches break off."""

    def __init__(self, lists: list[list[Event]], fault: Exception | None = None) -> None:
        super().__init__()
        self._lists, self._fault = lists, fault

    async def batches(self, request: Request, tap: Tap | None = None) -> Batches:
        del request, tap
        for batch in self._lists:
            yield batch
        if self._fault is not None:
            raise self._fault


BEGUN: list[Event] = [MessageStart("m1"), TextStart(0), TextDelta(0, "Hi", "Hi")]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [(None, "truncated"), (OSError("gone"), "transport"), (KeyError("x"), "provider")],
    ids=["no end", "a way that breaks", "a bug"],
)
async def test_an_answer_that_breaks_off_has_a_lawful_end(
    fault: Exception | None, kind: str
) -> None:
    *events, failed = await events_of(ToolMiddleware(Foreign([BEGUN], fault), "hermes"), asking())
    assert isinstance(failed, Failed)
    assert failed.error.kind == kind
    assert failed.message.text == "Hi"
    assert TextEnd(0, "Hi") in events


async def test_a_list_that_goes_wrong_in_its_middle_keeps_its_beginning() -> None:
    async def lists() -> Batches:
        yield []
        yield [*BEGUN, TextStart(7)]

    (events,) = [batch async for batch in ensure_end(lists())]
    assert events[: len(BEGUN)] == BEGUN
    assert [type(event) for event in events[len(BEGUN) :]] == [TextEnd, Failed]


async def test_what_follows_the_end_is_dropped() -> None:
    async def lists() -> Batches:
        yield [*spoken("Hi"), TextStart(1)]

    assert ([batch async for batch in ensure_end(lists())]) == [spoken("Hi")]


async def test_a_message_without_an_end_says_so() -> None:
    async def lists() -> Batches:
        yield BEGUN

    message = await collect_message(lists())
    assert message.text == "Hi"
    assert message.error is not None
    assert message.error.kind == "truncated"


@pytest.mark.parametrize("choice", [ToolChoice("required"), ToolChoice("tool", "nobody")])
async def test_a_choice_that_cannot_be_made_fails_in_the_batches(choice: ToolChoice) -> None:
    request = asking(tool_choice=choice, tools=[] if choice.mode == "required" else [NOTE])
    (failed,) = await events_of(ToolMiddleware(Scripted("Hi")), request)
    assert isinstance(failed, Failed)


# --- the tap ---


@pytest.mark.parametrize("api", APIS)
async def test_a_tap_sees_the_body_that_went_out_and_every_byte_that_came(api: str) -> None:
    async with (
        serving(*script_for(api, streamed(api))) as upstream,
        HTTPModel(api, upstream.url, "m") as model,
    ):
        tap = Wire()
        await events_of(model, ASKED, tap)
        assert tap.bodies == [seen.body for seen in upstream.seen]
        data = b"".join(tap.data)
        assert data.endswith(stream_of(api))
        if api == "qwen":
            assert data.startswith(b'{"success": true'), "the chat that was begun"
        (report,) = tap.reports
        assert (report.api, report.attempts, report.usage.output) == (api, 1, 5)


async def test_a_tap_sees_refusals_and_every_try() -> None:
    busy = refusal(503, {"error": {"message": "busy"}})
    cut = Reply([b": nothing yet\n\n", CUT])
    async with (
        serving(busy, cut, streamed("openai-chat")) as upstream,
        HTTPModel("openai-chat", upstream.url, "m", retry=RetryPolicy(base=0.001)) as model,
    ):
        tap = Wire()
        assert isinstance((await events_of(model, ASKED, tap))[-1], Done)
        assert tap.bodies == [upstream.seen[0].body] * 3
        whole = stream_of("openai-chat")
        assert b"".join(tap.data) == (busy.whole or b"") + b": nothing yet\n\n" + whole
        assert [error.status for error in tap.reports[0].failures] == [503, None]


@pytest.mark.parametrize("constrain", [None, "json_schema"])
async def test_a_tap_sees_through_a_middleware_and_all_its_attempts(
    constrain: Constraint | None,
) -> None:
    call = '{"name": "take_note", "arguments": {"text": "hi"}}'
    said = call if constrain else f"<tool_call>{call}</tool_call>"
    script: list[Script] = [
        streamed("openai-chat", AssistantMessage("a", "m", [Text(said)], "stop"))
    ]
    if constrain is None:
        script.insert(0, streamed("openai-chat"))
    async with (
        serving(*script) as upstream,
        HTTPModel("openai-chat", upstream.url, "m") as http,
    ):
        tap = Wire()
        model = ToolMiddleware(http, "hermes", constrain=constrain)
        request = asking(tool_choice=ToolChoice("required"))
        *_, done = await events_of(model, request, tap)
        assert isinstance(done, Done)
        assert [each.name for each in done.message.tool_calls] == ["take_note"]
        assert tap.bodies == [seen.body for seen in upstream.seen]
        assert len(tap.bodies) == len(tap.reports) == len(script)
        assert tap.data


async def test_a_tap_that_fails_does_not_end_the_answer() -> None:
    class Broken(Tap):
        def sent(self, body: bytes) -> None:
            raise RuntimeError(len(body))

        def received(self, data: bytes) -> None:
            raise RuntimeError(len(data))

        def reported(self, report: Report) -> None:
            raise RuntimeError(report.api)

    async with (
        serving(streamed("openai-chat")) as upstream,
        HTTPModel("openai-chat", upstream.url, "m") as model,
    ):
        assert isinstance((await events_of(model, ASKED, Broken()))[-1], Done)


async def test_a_tap_sees_no_key_that_the_server_says_again() -> None:
    key = "sk-canary-0123456789"
    async with (
        serving(refusal(401, {"message": f"no such key: {key}"})) as upstream,
        HTTPModel("openai-chat", upstream.url, "m", key) as model,
    ):
        tap = Wire()
        await events_of(model, ASKED, tap)
        assert upstream.seen[0].headers["authorization"] == f"Bearer {key}"
        assert b"".join(tap.data) == b'{"message":"no such key: ***"}'
        assert key.encode() not in tap.bodies[0]


async def test_a_report_handler_that_fails_does_not_end_the_answer() -> None:
    def handler(report: Report) -> None:
        raise RuntimeError(report.api)

    async with (
        serving(streamed("openai-chat")) as upstream,
        HTTPModel("openai-chat", upstream.url, "m", on_report=handler) as model,
    ):
        assert isinstance((await events_of(model, ASKED))[-1], Done)


# --- who stops reading, and who reads slowly ---


@pytest.mark.parametrize("tools", [False, True], ids=["http", "middleware"])
@pytest.mark.parametrize("api", APIS)
async def test_closing_batches_closes_the_socket_at_once(api: str, *, tools: bool) -> None:
    data = stream_of(api)
    begun = data[: data.index(b"\n", data.index(b"High water")) + 2]
    async with (
        serving(*script_for(api, Reply([begun, STALL]))) as upstream,
        HTTPModel(api, upstream.url, "m") as http,
    ):
        model: Model = ToolMiddleware(http, "hermes") if tools else http
        answer = model.batches(asking())
        await anext(answer)
        await upstream.stalls.wait()
        before = asyncio.get_running_loop().time()
        await answer.aclose()
        async with asyncio.timeout(10):
            await upstream.left.wait()
        assert upstream.hung_up[0] - before < SOON


@pytest.mark.parametrize("tools", [False, True], ids=["http", "middleware"])
@pytest.mark.parametrize("status", [0, 200], ids=["before the headers", "before the first byte"])
async def test_cancelling_who_waits_for_batches_closes_the_socket_at_once(
    status: int, *, tools: bool
) -> None:
    async with (
        serving(Reply([STALL], status=status)) as upstream,
        HTTPModel("openai-chat", upstream.url, "m") as http,
    ):
        model: Model = ToolMiddleware(http, "hermes") if tools else http
        waiting = asyncio.create_task(events_of(model, asking()))
        await upstream.stalls.wait()
        before = asyncio.get_running_loop().time()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with asyncio.timeout(10):
            await upstream.left.wait()
        assert upstream.hung_up[0] - before < SOON


class Flood(list[Step]):
    """Steps that are counted as they are taken."""

    taken = 0

    def __iter__(self) -> Iterator[Step]:
        for step in super().__iter__():
            self.taken += 1
            yield step


@pytest.mark.parametrize("tools", [False, True], ids=["http", "middleware"])
async def test_who_reads_slowly_slows_the_server_down(*, tools: bool) -> None:
    head, said, *_ = stream_of("openai-chat").split(b"\n\n")
    chunk = said.replace(b"High water at ", b"x" * 65_536) + b"\n\n"
    end = stream_of("openai-chat").split(b"\n\n", 3)[3]
    flood = Flood([head + b"\n\n", *[chunk] * 400, end])
    async with (
        serving(Reply(flood)) as upstream,
        HTTPModel("openai-chat", upstream.url, "m") as http,
    ):
        model: Model = ToolMiddleware(http, "hermes") if tools else http
        answer = model.batches(asking())
        await anext(answer)
        still, before = 0, -1
        while still < 5:  # until the server has not got rid of anything for a while
            still = still + 1 if flood.taken == before else 0
            before = flood.taken
            await asyncio.sleep(0.02)
        assert flood.taken < len(flood), "the whole flood waits in our memory"
        text = [e.text async for b in answer for e in b if isinstance(e, TextDelta)]
        assert sum(map(len, text)) >= 399 * 65_536
        assert flood.taken == len(flood)


# --- calls ---


async def test_a_call_in_text_is_in_the_batches_too() -> None:
    written = formats.get("hermes").render_call(ToolCall("", "get_weather", PARIS))
    events = await events_of(ToolMiddleware(Scripted(written), "hermes"), asking())
    assert any(isinstance(event, ToolCallStart) for event in events)
    (end,) = [event for event in events if isinstance(event, ToolCallEnd)]
    assert end.call.arguments == PARIS


async def test_start_markers_that_are_text_come_in_few_deltas() -> None:
    flood = "<tool_call>" * 500
    events = await events_of(ToolMiddleware(Scripted(flood), "hermes"), asking())
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(texts) == flood
    assert len(texts) <= 2
