"""A gateway that is killed amid 200 streams: what was acknowledged is there, the rest is marked.

A record is acknowledged when its batch is committed, and `penstock_log_written_total` counts those:
read before the kill, it is a lower bound of what must be found. Where in addition nothing was
queued any more, every single record up to then is acknowledged, and known by its id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.qwen_scene import rows_of
from gateway.serving import DEADLINE, Stage, ask, until, upstream_table
from gateway.streaming import Load, Stream, load, spoken
from gateway.subprocesses import Process, running
from models.loopback_servers import STALL, Reply, Seen

OPEN = 200
"""How many streams are open when the gateway is killed."""


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


@pytest.fixture
def settings(stage: Stage) -> str:
    """A gateway before an upstream that never ends what it says as the model ``open``."""
    endless, whole = spoken(STALL), spoken()

    def reply(seen: Seen) -> Reply:
        return endless if seen.json["model"] == "open" else whole

    actor = stage.actor("openai-chat")
    actor.play(reply)
    return upstream_table(actor, "chat")


async def open_streams(port: int) -> list[Stream]:
    streams = await asyncio.gather(*(Stream.ask(port, "open") for _ in range(OPEN)))
    return [await stream.read(to_first=True) for stream in streams]


async def read_rest(streams: list[Stream]) -> None:
    await asyncio.gather(*(stream.read() for stream in streams), return_exceptions=True)
    for stream in streams:
        stream.close()


def settled(process: Process) -> float:
    """Wait until all is written; return how many records that are."""
    until(lambda: process.figures()["penstock_log_queue"] == 0)
    return process.figures()["penstock_log_written_total"]


def kill_amid(stage: Stage, process: Process, known: float) -> float:
    """Kill *process* while it answers others; return how many records it had acknowledged."""
    others = stage.begin(load(process.port, "m", streams=20, rounds=50))
    until(lambda: process.figures()["penstock_log_written_total"] > known + 30)
    acknowledged = process.figures()["penstock_log_written_total"]
    process.kill()
    assert others.exception(DEADLINE) is not None, "they were cut"
    return acknowledged


def test_a_kill_amid_streams_loses_nothing_that_was_acknowledged(
    stage: Stage, settings: str, tmp_path: Path
) -> None:
    path = tmp_path / "log.db"
    with running(tmp_path, settings, str(path)) as (process,):
        ended: Load = stage.do(load(process.port, "m", streams=20, rounds=2))
        opened = stage.do(open_streams(process.port))
        known = settled(process)
        acknowledged = kill_amid(stage, process, known)
    stage.do(read_rest(opened))
    assert not [stream for stream in opened if stream.is_whole], "nobody was told of an end"

    assert rows_of(path, "PRAGMA integrity_check") == [("ok",)]
    states = dict(rows_of(path, "SELECT id, state FROM requests"))
    assert {states.get(stream.id) for stream in ended.streams} == {"done"}
    assert {states.get(stream.id) for stream in opened} == {"started"}
    found = len(states) + sum(state != "started" for state in states.values())
    assert found >= acknowledged

    with running(tmp_path / "again", settings, str(path)) as (process,):
        query = "SELECT count(*) FROM requests WHERE state = 'started'"
        until(lambda: rows_of(path, query) == [(0,)])
        page = ask(process, "/v1/requests?state=interrupted&limit=1000").json["data"]
        left = [id_ for id_, state in states.items() if state == "started"]
        assert sorted(row["id"] for row in page) == sorted(left)
        for stream in ended.streams:
            record = ask(process, f"/v1/requests/{stream.id}").json
            assert record["response"]["id"] == f"chatcmpl-{stream.id}"
        assert stage.do(load(process.port, "m", streams=1, rounds=1)).streams[0].is_whole
