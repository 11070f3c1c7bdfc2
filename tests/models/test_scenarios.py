"""Every scenario of the fake upstream over every API: what a server says, and how it fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from laws import check_monotone
from models.fake_upstream import LATE, scenario_of, script
from models.loopback_servers import serving
from penstock import HTTPModel, Request, Tool, ToolMiddleware, apis, formats
from penstock.builder import MessageBuilder
from penstock.events import Done, Event, Failed, TextDelta
from penstock.messages import AssistantMessage, ErrorInfo, Text, ToolCall
from penstock.models import Model
from penstock.models.base import Tap
from penstock.models.http import NO_RETRY, Report, RetryPolicy, Timeouts
from penstock.request import UserMessage

APIS = apis.names()
EVERY = pytest.mark.parametrize("api", APIS)
TEXT = {"type": "string"}
READ = Tool(
    "read_file", "Read a file", {"type": "object", "properties": {"path": TEXT, "note": TEXT}}
)
ASKED = Request(messages=[UserMessage([Text("Read it.")])], tools=[READ])
EIGHT = (
    "hermes",
    "qwen3_coder",
    "llama3_json",
    "mistral",
    "morph_xml",
    "gemma",
    "glm45",
    "pythonic",
)


class Outcome:
    """What came of an answer: as a stream, and as batches, which say the same."""

    def __init__(self, events: list[Event], report: Report) -> None:
        self.events = events
        self.report = report
        end = events[-1]
        assert isinstance(end, Done | Failed)
        self.message = end.message
        self.end = end

    @property
    def error(self) -> ErrorInfo:
        assert isinstance(self.end, Failed), self.end
        return self.end.error


class Reports(Tap):
    def __init__(self) -> None:
        self.last = Report()

    def reported(self, report: Report) -> None:
        self.last = report


async def ask(
    api: str,
    scenario: str,
    *,
    tools: str = "",
    words: str = "",
    **options: Any,
) -> Outcome:
    """Ask for *scenario*; *tools* is the format that is read in its text, *words* the text."""
    options.setdefault("retry", NO_RETRY)
    name = f"fake-c12-m{scenario}"
    seen = Reports()
    async with (
        serving(script(api, words)) as upstream,
        HTTPModel(api, upstream.url, name, environ={}, **options) as http,
    ):
        model: Model = ToolMiddleware(http, tools, retries=0) if tools else http
        streamed = [event async for event in model.stream(ASKED)]
        passed = [event async for batch in model.batches(ASKED, seen) for event in batch]
    check_monotone(passed)
    assert folded(passed) == folded(streamed)
    return Outcome(passed, seen.last)


def folded(events: list[Event]) -> AssistantMessage:
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
    builder.message.usage.raw = None
    return builder.message


def called(message: AssistantMessage) -> list[tuple[str, dict[str, Any], bool]]:
    return [(call.name, call.arguments, call.complete) for call in message.tool_calls]


# --- what a server says ---


@EVERY
async def test_text_arrives_whole_and_in_order(api: str) -> None:
    outcome = await ask(api, "text")
    assert outcome.message.text == "".join(f"{n};" for n in range(12))
    assert sum(isinstance(event, TextDelta) for event in outcome.events) == 12
    assert (outcome.message.stop_reason, outcome.message.usage.output) == ("stop", 12)


@EVERY
@pytest.mark.parametrize("mode", ["native", "par"])
@pytest.mark.parametrize("tools", ["", "hermes"], ids=["as they are", "with middleware"])
async def test_native_calls_arrive_whole(api: str, mode: str, tools: str) -> None:
    message = (await ask(api, mode, tools=tools)).message
    wanted = scenario_of(f"fake-m{mode}").arguments
    assert called(message) == [("read_file", each, True) for each in wanted]
    assert message.stop_reason == "tool_use"
    assert len({call.id for call in message.tool_calls}) == len(wanted)


@EVERY
@pytest.mark.parametrize(("mode", "tools"), [("hermes", "hermes"), ("xml", "xml"), ("xml", "auto")])
async def test_calls_in_text_become_calls(api: str, mode: str, tools: str) -> None:
    message = (await ask(api, mode, tools="morph_xml" if tools == "xml" else tools)).message
    assert called(message) == [("read_file", scenario_of(f"fake-m{mode}").arguments[0], True)]
    assert (message.text.strip(), message.stop_reason) == ("Reading now.", "tool_use")


@EVERY
async def test_thoughts_are_told_from_the_answer(api: str) -> None:
    message = (await ask(api, "think")).message
    assert message.thinking == "0;1;2;3;4;5;"
    assert message.text == "6;7;8;9;10;11;"


@EVERY
@pytest.mark.parametrize("name", EIGHT)
async def test_a_call_in_the_text_of_eight_formats_is_a_call(api: str, name: str) -> None:
    found = formats.get(name)
    written = found.render_call(ToolCall("", "read_file", {"path": "/a b.txt", "note": "é"}))
    message = (await ask(api, "text", tools=name, words=written)).message
    assert called(message) == [("read_file", {"path": "/a b.txt", "note": "é"}, True)]
    assert message.stop_reason == "tool_use"
    assert message.text.strip() == ""


# --- how it fails ---


@EVERY
@pytest.mark.parametrize("tools", ["", "hermes"], ids=["as it is", "with middleware"])
@pytest.mark.parametrize("fault", ["cut", "rst"])
async def test_a_cut_or_reset_answer_fails_behind_what_had_arrived(
    api: str, fault: str, tools: str
) -> None:
    outcome = await ask(api, f"text-f{fault}@6", tools=tools)
    assert (outcome.error.kind, outcome.error.type) == ("truncated", "truncated_body")
    assert outcome.message.text.startswith("0;1;2;")
    assert outcome.report.attempts == 1, "what went out is not asked for again"


@EVERY
@pytest.mark.parametrize("mode", ["native", "hermes"])
async def test_a_call_that_was_cut_is_never_complete(api: str, mode: str) -> None:
    """Some servers give a call as a whole: then all of it or nothing is there."""
    message = (await ask(api, f"{mode}-fcut@7", tools="hermes")).message
    whole = api in ("gemini", "ollama") and mode == "native"
    assert all(call.complete == whole for call in message.tool_calls)
    assert message.stop_reason == "error"


@EVERY
async def test_a_stalled_answer_fails_in_time_behind_what_had_arrived(api: str) -> None:
    outcome = await ask(api, "text-fstall@6", timeouts=Timeouts(idle=0.05))
    assert outcome.error.type == "idle_timeout"
    assert outcome.message.text.startswith("0;1;2;")


@EVERY
async def test_a_damaged_frame_fails_the_response_and_is_counted(api: str) -> None:
    outcome = await ask(api, "text-fbadjson@5")
    assert (outcome.error.kind, outcome.report.skipped) == ("malformed", 1)
    assert "".join(f"{n};" for n in range(12)).startswith(outcome.message.text)


@pytest.mark.parametrize("api", ["openai-chat", "qwen"])
async def test_a_missing_mark_of_the_end_is_no_failure(api: str) -> None:
    assert (await ask(api, "text-fnodone")).message.stop_reason == "stop"


@EVERY
async def test_an_answer_without_an_end_is_cut(api: str) -> None:
    """Chat completions may end in the mark alone."""
    outcome = await ask(api, "text-fnofinish")
    assert outcome.message.text == "".join(f"{n};" for n in range(12))
    if api == "openai-chat":
        assert outcome.message.stop_reason == "stop"
    else:
        assert outcome.error.kind == "truncated"


@EVERY
async def test_an_error_in_the_stream_is_told_in_the_servers_words(api: str) -> None:
    outcome = await ask(api, "text-ferr@6")
    assert outcome.error.kind == "provider"
    assert "upstream exploded" in outcome.error.message
    assert outcome.message.text.startswith("0;1;2;")


@EVERY
@pytest.mark.parametrize("status", [500, 429])
async def test_a_refusal_is_typed_and_says_when_to_come_back(api: str, status: int) -> None:
    outcome = await ask(api, f"text-fhttp{status}", retry=RetryPolicy(2, longest_asked=0.5))
    error = outcome.error
    assert (error.status, error.retry_after, error.retryable) == (status, 1.0, True)
    assert "planned" in error.message
    assert outcome.report.attempts == 1, "it asks for more time than is given"


@EVERY
async def test_a_page_in_place_of_a_stream_is_no_answer(api: str) -> None:
    outcome = await ask(api, "text-fhtml")
    assert outcome.error.kind in ("malformed", "provider")
    assert outcome.message.content == []


@EVERY
async def test_a_compressed_stream_is_read(api: str) -> None:
    assert (await ask(api, "text-fgzip")).message.text.endswith("10;11;")


@EVERY
async def test_a_slow_first_byte_is_waited_for_and_counted(api: str) -> None:
    report = (await ask(api, "text-fslow")).report
    assert report.first_byte is not None
    assert report.first_byte > LATE * 0.9


async def test_a_hundred_answers_at_once_do_not_mix() -> None:
    async with serving(script("openai-chat")) as upstream:
        models = [
            HTTPModel("openai-chat", upstream.url, f"fake-c{n}", environ={}) for n in range(1, 101)
        ]
        answers = await asyncio.gather(*(model.complete(ASKED) for model in models))
        for n, answer in enumerate(answers, 1):
            assert answer.text == "".join(f"{k};" for k in range(n))
        await asyncio.gather(*(model.close() for model in models))
