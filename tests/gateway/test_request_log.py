"""The log of one request: calls counted by format, and what is kept of a response."""

from __future__ import annotations

import threading
import zlib
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from penstock.config.routes import ModelOptions
from penstock.events import Event, TextDelta, ToolCallEnd, ToolCallStart
from penstock.formats import EventParser, UnreadCall, detect, find_unread
from penstock.formats.auto import FORMATS
from penstock.gateway import request_log
from penstock.gateway.request_log import (
    AUTO,
    MAX_BLOCK,
    MAX_HEADS,
    MIN_BLOCK,
    NATIVE,
    SHARE,
    CallStats,
    CompressedBuffer,
    RequestLog,
)
from penstock.messages import AssistantMessage, Text, ToolCall
from penstock.redaction import Redactor
from penstock.store import RequestStarted, Store
from penstock.tools import Tool

NAMES = ("get_weather", "t")
CITIES = ("Oslo", "a city of which nobody has ever heard")
WRITABLE = [name for name in FORMATS if name != "file_tags"]  # which writes files alone
TOOLS = [
    Tool(name, parameters={"type": "object", "properties": {"city": {"type": "string"}}})
    for name in NAMES
]


@pytest.fixture(autouse=True)
def _nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_log, "_formats_by_head", {})


def read(text: str) -> list[Event]:
    parser = EventParser("auto", TOOLS, arguments="live", repair=True)
    return [*parser.add(TextDelta(0, text)), *parser.finish()]


def counted(text: str) -> dict[tuple[str, bool], int]:
    counts = CallStats(AUTO, TOOLS)
    counts.add(read(text))
    return dict(counts.formats)


def written(format_: str, name: str, **arguments: Any) -> str:
    return FORMATS[format_].render_call(ToolCall("call_12345", name, arguments))


def test_what_is_remembered_names_calls_of_every_format_as_reading_them_does() -> None:
    seen = 0
    for city, format_, name in product(CITIES, WRITABLE, NAMES):
        text = written(format_, name, city=city)
        meant = detect(text, TOOLS)
        for found, _ in counted(text):
            assert found != AUTO, text
            assert meant is None or found == meant.name, text
            seen += 1
    assert seen > len(WRITABLE)


def test_a_call_that_begins_as_one_before_is_not_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert counted(written("hermes", "get_weather", city="Oslo")) == {("hermes", True): 1}
    monkeypatch.setattr(request_log, "detect", None)  # It cannot be called now.
    assert counted(written("hermes", "get_weather", city="Rome")) == {("hermes", True): 1}


def test_a_long_call_is_known_by_its_beginning_and_teaches_nothing_wrong() -> None:
    counted(written("hermes", "get_weather", city="x" * 5_000))
    assert counted(written("hermes", "get_weather", city="Oslo")) == {("hermes", True): 1}
    assert counted(written("hermes", "get_weather", city="x" * 5_000)) == {("hermes", True): 1}


def test_a_call_that_is_cut_or_repaired_is_known_by_its_marker() -> None:
    whole = written("hermes", "get_weather", city="Oslo")
    assert counted(whole[:-18]) == {("hermes", False): 1}
    assert counted(whole.replace("}}", "},}")) == {("hermes", True): 1}
    assert request_log._formats_by_head == {}


def test_a_later_call_of_a_section_has_the_format_of_the_first() -> None:
    calls = [ToolCall("c", "get_weather", {"city": city}) for city in CITIES]
    for format_ in ("mistral_array", "sarashina", "deepseek_v31", "kimi_k2"):
        assert counted(FORMATS[format_].render_calls(calls)) == {(format_, True): 2}


def test_no_more_beginnings_are_remembered_than_the_limit() -> None:
    for number in range(MAX_HEADS + 10):
        counted("\n" * number + written("bare_json", "get_weather", city="Oslo"))
    assert len(request_log._formats_by_head) <= MAX_HEADS


def test_a_call_of_the_server_itself_consumed_no_text() -> None:
    counts = CallStats(AUTO, TOOLS)
    counts.add([ToolCallStart(0, "c", "t"), ToolCallEnd(0, ToolCall("c", "t", complete=False))])
    assert dict(counts.formats) == {(NATIVE, False): 1}


# --- compressed buffers ---

PIECE = b'data: {"choices": [{"delta": {"content": "water"}}]}\n\n'


@pytest.mark.parametrize("pieces", [0, 1, 10, 100, 3_000])
def test_blocks_undone_one_by_one_are_what_came_in(pieces: int) -> None:
    spool = CompressedBuffer(Redactor())
    for _ in range(pieces):
        spool.add(PIECE)
    assert b"".join(zlib.decompress(block) for block in spool.blocks()) == PIECE * pieces
    assert spool.size == len(PIECE) * pieces


def test_blocks_grow_with_the_answer_up_to_a_limit() -> None:
    spool = CompressedBuffer(Redactor())
    for _ in range(3_000):
        spool.add(PIECE)
    *sizes, _ = (len(zlib.decompress(block)) for block in spool.blocks())
    assert sizes == sorted(sizes)
    assert sizes[0] < MIN_BLOCK + len(PIECE)
    assert MAX_BLOCK <= sizes[-1] < MAX_BLOCK + len(PIECE)
    passed = 0
    for size in sizes:
        assert size <= max(MIN_BLOCK, (passed + size) // SHARE) + len(PIECE)
        passed += size


# --- the end ---


def test_what_is_done_after_the_response_is_not_part_of_its_time() -> None:
    started = RequestStarted(id="1", created=0.0)
    log = RequestLog(started, ModelOptions(), [], None, Redactor(), bodies=False)
    log.complete()
    seconds = log.elapsed()
    log.end(AssistantMessage(), state="done", status=200)
    assert log.elapsed() == seconds


async def test_calls_that_were_not_read_are_found_on_the_thread_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def find(*given: Any, **options: Any) -> list[UnreadCall]:
        threads.append(threading.current_thread().name)
        return find_unread(*given, **options)

    monkeypatch.setattr(request_log, "find_unread", find)
    store = Store(f"sqlite:///{tmp_path / 'log.db'}")
    store.start()
    try:
        log = RequestLog(
            RequestStarted(id="1", created=0.0),
            ModelOptions(),
            TOOLS,
            store,
            Redactor(),
            bodies=True,
        )
        text = written("hermes", "send_mail", city="Oslo")
        log.end(
            AssistantMessage(content=[Text(text)], stop_reason="stop"), state="done", status=200
        )
        assert threads == []
    finally:
        await store.close(30)
    assert threads == ["penstock: store writer"]
    reader = Store(f"sqlite:///{tmp_path / 'log.db'}", create=False)
    reader.start()
    try:
        found = await reader.request("1")
    finally:
        await reader.close(30)
    assert found is not None
    assert (found.row.unread, found.notes["unread"][0]["name"]) == (1, "send_mail")
    assert "`send_mail`" in found.row.unread_reason
