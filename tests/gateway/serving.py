"""A gateway and its upstreams on this machine, for tests over HTTP.

They run in a thread with a loop of its own, as they are processes of their own in real life; a test
is a client, with whatever library it likes. An `Actor` is an upstream of one API that answers as
the test tells it to. What a test asks is sent by `ask`, and `said` reads a stream as a message.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Self, TypeVar

import uvloop

from models.loopback_servers import Reply, Script, Seen, Upstream, script_for, serving, streamed
from penstock import apis
from penstock.config import load
from penstock.events import Done, Failed
from penstock.gateway.app import Gateway
from penstock.gateway.factory import build
from penstock.gateway.server import GatewayServer
from penstock.messages import AssistantMessage

T = TypeVar("T")

DEADLINE = 20.0
"""How many seconds anything may take: the machine of the tests is a busy one."""

CLIENTS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
}
"""The APIs that clients speak, and where."""

UPSTREAMS = apis.names()


class Actor:
    """An upstream of *api*: each request gets the next of the replies that were set last."""

    def __init__(self, api: str) -> None:
        self.api = api
        self.upstream = Upstream()
        self._replies: list[Script] = []

    def play(self, *replies: Script) -> None:
        """Answer with *replies* one after the other, and with the last of them from then on."""
        self._replies = list(replies)

    def say(self, *messages: AssistantMessage) -> None:
        """Answer with *messages*, streamed in a few pieces."""
        self.play(*(streamed(self.api, message) for message in messages))

    def next_reply(self, seen: Seen) -> Reply:
        """Return the reply to what was *seen*."""
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        return reply if isinstance(reply, Reply) else reply(seen)

    @property
    def url(self) -> str:
        return self.upstream.url

    @property
    def seen(self) -> list[Seen]:
        return self.upstream.seen


class Stage:
    """A thread in whose loop servers run; what is begun last is ended first."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="stage", daemon=True)
        self._open = AsyncExitStack()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.do(self._open.aclose())
        except TimeoutError:
            # uvloop waits without end in `close` for a handle that something still uses.
            self._loop.call_soon_threadsafe(self._loop.stop)
            raise
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run *work* in the loop, and go on."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* in the loop, and wait for it."""
        return self.begin(work).result(DEADLINE)

    def actor(self, api: str) -> Actor:
        """Begin an upstream of *api*."""
        actor = Actor(api)
        script = script_for(api, actor.next_reply)
        actor.upstream = self.do(self._open.enter_async_context(serving(*script)))
        return actor

    def gateway(
        self, folder: Path, text: str, environ: Mapping[str, str] | None = None, **flags: Any
    ) -> Served:
        """Begin a gateway with the settings *text*, whose file and database are in *folder*."""
        served = Served(self, folder, text, environ or {}, flags)
        self.do(self._open.enter_async_context(served))
        return served


class Served:
    """A gateway that serves."""

    gateway: Gateway
    server: GatewayServer

    def __init__(
        self,
        stage: Stage,
        folder: Path,
        text: str,
        environ: Mapping[str, str],
        flags: Mapping[str, Any],
    ) -> None:
        self.stage = stage
        self.file = folder / "penstock.toml"
        self.database = folder / "penstock.db"
        self.file.write_text(text)
        self.settings = load(
            self.file, environ, **{"port": 0, "store": str(self.database), **flags}
        )
        self.port = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        up = asyncio.Event()

        def announce(port: int) -> None:
            self.port = port
            up.set()

        self.gateway = build(self.settings)
        self.server = GatewayServer(self.gateway, self.settings, announce=announce)
        self._task = asyncio.create_task(self.server._serve())
        async with asyncio.timeout(DEADLINE):
            await up.wait()
            await self._until_the_store_is_up()
        return self

    async def _until_the_store_is_up(self) -> None:
        store = self.gateway.store
        while store is not None and not store.health.is_up:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.002)

    async def __aexit__(self, *_: object) -> None:
        self.server.should_exit = True
        assert self._task is not None
        await self._task

    @property
    def url(self) -> str:
        scheme = "https" if self.settings.server.tls_cert else "http"
        return f"{scheme}://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Stop the gateway, as SIGTERM does."""

        async def tell() -> None:
            self.server.stop()

        self.stage.do(tell())

    @property
    def has_ended(self) -> bool:
        return self._task is not None and self._task.done()


# --- what a client does ---


@dataclass
class Answer:
    """What a client got."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(served: Served, path: str, body: object = None, method: str = "", **headers: str) -> Answer:
    """Ask once, on a connection of its own; a name's ``_`` is the ``-`` of a header."""
    with asking(served, path, body, method, **headers) as response:
        named = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, named, response.read())


@contextmanager
def asking(
    served: Served, path: str, body: object = None, method: str = "", **headers: str
) -> Iterator[http.client.HTTPResponse]:
    """Ask, and return the answer as it begins."""
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if data is not None:
        named = {"content-type": "application/json", **named}
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=DEADLINE)
    try:
        connection.request(method or ("POST" if data is not None else "GET"), path, data, named)
        response = connection.getresponse()
        try:
            yield response
        finally:
            response.close()
    finally:
        connection.close()


def request_of(api: str, model: str, *, stream: bool = True, **more: Any) -> dict[str, Any]:
    """Return a request of a client of *api* who says hello."""
    said = [{"role": "user", "content": "How is the weather in Paris?"}]
    common = {"model": model, "stream": stream, **more}
    if api == "openai-responses":
        return {"input": said, **common}
    if api == "anthropic":
        return {"messages": said, "max_tokens": 500, **common}
    options = {"stream_options": {"include_usage": True}} if stream else {}
    return {"messages": said, **options, **common}


def tools_of(api: str) -> list[dict[str, Any]]:
    """Return the tool of most tests, as clients of *api* write it."""
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    }
    named = {"name": "get_weather", "description": "Weather of a city"}
    if api == "anthropic":
        return [{**named, "input_schema": schema}]
    if api == "openai-responses":
        return [{"type": "function", **named, "parameters": schema}]
    return [{"type": "function", "function": {**named, "parameters": schema}}]


def said(api: str, data: bytes) -> AssistantMessage:
    """Return the message of a stream of *api*, which must be valid."""
    assert apis.check(api, data) == []
    decoder = apis.get(api).decoder()
    events = [*decoder.feed(data), *decoder.finish()]
    ends = [event for event in events if isinstance(event, Done | Failed)]
    assert len(ends) == 1
    end = ends[0]
    if isinstance(end, Failed):
        end.message.error = end.error
    return end.message


def told(api: str, answer: Answer, *, stream: bool) -> AssistantMessage:
    """Read the answer of a client of *api*, streamed or whole."""
    assert answer.status == 200, answer.body
    if stream:
        assert answer.headers["content-type"].startswith("text/event-stream")
        return said(api, answer.body)
    return apis.get(api).read_response(answer.json)


def until(is_so: Callable[[], object], seconds: float = DEADLINE) -> None:
    """Wait until something is so; the longer it takes, the less often is looked."""
    end = time.monotonic() + seconds
    pause = 0.002
    while not is_so():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(pause)
        pause = min(0.05, pause * 1.5)


def upstream_table(actor: Actor, name: str = "", **options: object) -> str:
    """Return the settings of the upstream that *actor* is."""
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in options.items())
    head = f'[upstreams.{name or actor.api}]\napi = "{actor.api}"\nbase_url = "{actor.url}"\n'
    return f"{head}{lines}\n"
