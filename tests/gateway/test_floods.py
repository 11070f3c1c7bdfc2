"""A gateway that an upstream floods keeps serving its other clients.

A real process is asked for `/health/live` while it reads each flood. How long one turn of its loop
may be is bounded by work and tested there (`models/test_http_floods`); here a wait only has to be
far shorter than the flood would take if it were read in one turn.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import brotli
import pytest

from gateway.serving import CLIENTS, Answer, Stage, ask, request_of, said, tools_of, upstream_table
from gateway.subprocesses import Process, running
from models.loopback_servers import Reply, Seen

SIZE = 30_000_000


def comments() -> bytes:
    return b":\n\n" * (SIZE // 3)


def chunk(**delta: Any) -> bytes:
    return b"data: %s\n\n" % json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode()


def parts(data: bytes) -> list[Any]:
    return [data[at : at + 60_000] for at in range(0, len(data), 60_000)]


FLOODS: dict[str, Callable[[], Reply]] = {
    "gzip": lambda: Reply([gzip.compress(comments(), 1)], headers={"content-encoding": "gzip"}),
    "deflate": lambda: Reply(
        [zlib.compress(comments(), 1)], headers={"content-encoding": "deflate"}
    ),
    "brotli": lambda: Reply(
        [brotli.compress(comments(), quality=2)], headers={"content-encoding": "br"}
    ),
    "comments": lambda: Reply(parts(comments())),
    "a line": lambda: Reply(parts(b"data: " + b"x" * SIZE)),
    "empty deltas": lambda: Reply(parts(chunk(content="") * 110_000)),
    "lists": lambda: Reply(parts(b'data: {"choices":[' + b"[]," * 2_000_000 + b"0]}\n\n")),
    "a giant delta": lambda: Reply(parts(chunk(content="[" * 90_000))),
    "one-byte chunks": lambda: Reply([bytes([byte]) for byte in chunk(content="x") * 40]),
}


@pytest.fixture(scope="module")
def process(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    actor = stage.actor("openai-chat")

    def reply(seen: Seen) -> Reply:
        return FLOODS[seen.json["model"]]()

    actor.play(reply)
    folder = tmp_path_factory.mktemp("flooded")
    with running(folder, upstream_table(actor, retries=0), str(folder / "log.db")) as (one,):
        yield one


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flooded_gateway_responds_to_health_checks(
    stage: Stage, process: Process, flood: str
) -> None:
    asked = stage.begin(_asked(process, flood))
    while not asked.done():  # How long each takes is measured in bench/gateway/floods.py.
        assert ask(process, "/health/live").status == 200
    answer = asked.result()
    assert answer.status in (200, 502)
    if answer.status == 200:
        assert said("openai-chat", answer.body).error is not None
    else:
        assert answer.json["error"]["message"]


async def _asked(process: Process, flood: str) -> Answer:
    body = request_of("openai-chat", flood, tools=tools_of("openai-chat"))
    return await asyncio.to_thread(ask, process, CLIENTS["openai-chat"], body)


@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_is_told_that_its_upstream_floods(process: Process, client: str) -> None:
    answer = ask(process, CLIENTS[client], request_of(client, "comments"))
    assert answer.status // 100 == 5
    assert "without an event" in answer.json["error"]["message"]
