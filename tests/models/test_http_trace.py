"""The debug modes on the wire: bytes as they come, events as they go, the summary, and no key."""

from __future__ import annotations

import json
from typing import Any

import pytest

from models.loopback_servers import (
    ANSWER,
    CUT,
    STALL,
    Reply,
    Script,
    call_of,
    refusal,
    script_for,
    serving,
    stream_of,
    streamed,
)
from models.upstreams import asking
from penstock import HTTPModel, Request, ToolMiddleware, apis
from penstock.debug import DebugSettings, Summary
from penstock.events import Done, Event, TextDelta
from penstock.messages import AssistantMessage, Text
from penstock.models.http import RetryPolicy
from penstock.redaction import Redactor, StreamRedactor
from penstock.request import UserMessage

APIS = apis.names()
ASKED = Request(messages=[UserMessage([Text("When is high water?")])])
KEY = "sk-canary-0123456789-abc"


async def traced(api: str, *script: Script, debug: Any = "stream", **options: Any) -> list[str]:
    """Ask a server that answers by *script*; return the lines of the trace."""
    lines: list[str] = []
    async with (
        serving(*script_for(api, *script)) as upstream,
        HTTPModel(api, upstream.url, "m", KEY, debug=debug, write=lines.append, **options) as model,
    ):
        await model.complete(ASKED)
    return lines


def told(lines: list[str], tag: str) -> list[str]:
    """Return what the lines of *tag* say."""
    mark = f"[penstock:{tag}] "
    return [line.partition(mark)[2] for line in lines if mark in line]


@pytest.mark.parametrize("api", APIS)
async def test_bytes_and_events_are_shown_as_they_flow(api: str) -> None:
    lines = await traced(api, streamed(api))
    assert all(line.startswith(f"{api} [penstock:") for line in lines)
    shown = "".join(json.loads(line) for line in told(lines, "raw"))
    assert shown.endswith(stream_of(api).decode())
    events = [json.loads(line)["type"] for line in told(lines, "out")]
    assert (events[0], events[-1]) == ("start", "done")
    assert not told(lines, "summary")


async def test_a_line_is_written_when_its_bytes_come_and_not_at_the_end() -> None:
    data = stream_of("openai-chat")
    begun = data[: data.index(b"\n\n", data.index(b"High water")) + 2]
    lines: list[str] = []
    async with (
        serving(Reply([begun, STALL])) as upstream,
        HTTPModel("openai-chat", upstream.url, "m", debug="stream", write=lines.append) as model,
    ):
        async for event in model.stream(ASKED):
            if isinstance(event, TextDelta):
                break
        assert "".join(json.loads(line) for line in told(lines, "raw")) == begun.decode()
        assert json.loads(told(lines, "out")[-1])["text"] == "High water at "


async def test_a_trace_changes_no_event() -> None:
    async with serving(streamed("anthropic", call_of("tide_at", port="Leith"))) as upstream:
        seen: list[list[Event]] = []
        for debug in ("off", "parse"):
            options: dict[str, Any] = {"debug": debug, "write": lambda _: 1 / 0, "interval": 0}
            async with HTTPModel("anthropic", upstream.url, "m", **options) as model:
                seen.append([event async for event in model.stream(ASKED)])
                seen.append([e async for batch in model.batches(ASKED) for e in batch])
        assert seen[0] == seen[1] == seen[2] == seen[3]
        assert isinstance(seen[0][-1], Done)


async def test_the_summary_comes_at_the_end() -> None:
    lines = await traced(
        "openai-chat", streamed("openai-chat", call_of("tide_at", a=1)), debug="parse"
    )
    assert told(lines[-1:], "summary") == ['[{"name":"tide_at","arguments":{"a":1}}]']
    (origin,) = told(lines, "origin")
    assert origin.startswith("data: {")


async def test_a_program_gets_the_summary_as_a_value() -> None:
    summaries: list[Summary] = []
    answer = streamed("ollama", call_of("tide_at", port="Leith"))
    lines = await traced("ollama", answer, debug="off", on_summary=summaries.append)
    (summary,) = summaries
    assert lines == []
    assert summary.text == stream_of("ollama", call_of("tide_at", port="Leith")).decode()
    assert [call.name for call in summary.calls] == ["tide_at"]


async def test_refusals_cuts_and_tries_are_shown() -> None:
    busy = refusal(503, {"error": {"message": "busy"}})
    cut = Reply([b": nothing yet\n\n", CUT])
    script = (busy, cut, streamed("openai-chat"))
    lines = await traced("openai-chat", *script, retry=RetryPolicy(base=0.001))
    raw = [json.loads(line) for line in told(lines, "raw")]
    assert raw[:2] == ['{"error":{"message":"busy"}}', ": nothing yet\n\n"]
    assert "".join(raw[2:]) == stream_of("openai-chat").decode()


async def test_a_request_that_makes_no_sense_is_shown_as_a_failure() -> None:
    lines: list[str] = []
    options: dict[str, Any] = {"debug": DebugSettings("stream"), "write": lines.append}
    async with HTTPModel("gemini", "http://127.0.0.1:9", "..", **options) as model:
        assert (await model.complete(ASKED)).error is not None
    (line,) = lines
    assert '"type":"error"' in line


async def test_who_stops_reading_gets_the_summary_of_what_came() -> None:
    summaries: list[Summary] = []
    async with (
        serving(streamed("openai-chat")) as upstream,
        HTTPModel("openai-chat", upstream.url, "m", on_summary=summaries.append) as model,
    ):
        answer = model.batches(ASKED)
        await anext(answer)
        await answer.aclose()
    (summary,) = summaries
    assert stream_of("openai-chat").decode().startswith(summary.text)
    assert summary.text


@pytest.mark.parametrize("name", ["PENSTOCK_DEBUG", "DEBUG_PARSER_MW"])
async def test_the_environment_switches_it_too(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main(environ: dict[str, str], debug: str | None = None) -> None:
        async with (
            serving(streamed("openai-chat")) as upstream,
            HTTPModel("openai-chat", upstream.url, "m", environ=environ, debug=debug) as model,
        ):
            await model.complete(ASKED)

    await main({})
    await main({name: "stream"}, "off")
    assert capsys.readouterr().err == ""
    await main({name: "stream"})
    assert "openai-chat [penstock:raw]" in capsys.readouterr().err


async def test_under_a_middleware_both_are_shown_and_told_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PENSTOCK_DEBUG", "parse")
    async with (
        serving(streamed("openai-chat")) as upstream,
        HTTPModel("openai-chat", upstream.url, "m") as http,
    ):
        await ToolMiddleware(http, "hermes").complete(asking())
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith('[penstock:raw] "High water at "') for line in lines)
    assert any(line.startswith('openai-chat [penstock:raw] "data: ') for line in lines)


# --- keys ---


@pytest.mark.parametrize("split", range(1, len(KEY)))
def test_no_line_tells_a_key_however_it_is_cut(split: int) -> None:
    redactor = StreamRedactor(Redactor([KEY]))
    shown = [
        redactor.feed(f"the key {KEY[:split]}"),
        redactor.feed(f"{KEY[split:]} is wrong"),
        redactor.finish(),
    ]
    assert "".join(shown) == "the key *** is wrong"


def test_what_only_begins_like_a_key_is_shown_in_the_end() -> None:
    redactor = StreamRedactor(Redactor([KEY]))
    assert redactor.feed("a sk-") == "a "
    assert redactor.feed("ill") == "sk-ill"
    assert redactor.feed("sk-ca") == ""
    assert redactor.finish() == "sk-ca"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("debug", ["stream", "parse"])
async def test_no_trace_tells_a_key_that_the_server_says_again(api: str, debug: str) -> None:
    said = f"You sent {KEY}."
    answer = AssistantMessage("a", "m", [Text(said)], "stop")
    page = f"<!doctype html><p>{KEY}</p>".encode()
    summaries: list[Summary] = []
    for script in (
        [streamed(api, answer)],
        [refusal(401, {"error": {"message": said}})],
        [Reply([page[:30], 0.01, page[30:]], headers={"content-type": "text/html"})],
    ):
        lines = await traced(api, *script, debug=debug)
        assert any("***" in line for line in lines)
        await traced(api, *script, debug="off", on_summary=summaries.append)
        assert all(KEY[:8] not in line for line in lines)
        assert all(KEY[9:] not in line for line in lines)
    assert all(KEY[:8] not in summary.text for summary in summaries)


async def test_bytes_that_are_cut_within_a_character_are_shown_whole() -> None:
    answer = AssistantMessage("a", "m", [Text("é" * 40)], "stop", usage=ANSWER.usage)
    data = stream_of("openai-chat", answer)
    lines = await traced("openai-chat", Reply([data[at : at + 7] for at in range(0, len(data), 7)]))
    assert "".join(json.loads(line) for line in told(lines, "raw")) == data.decode()
