"""Hostile requests: every field of every API in every JSON type, and bodies that are not JSON.

The whole gateway runs in this process. Its upstreams are the real models over a transport that
answers from memory, so that what is written for each upstream is part of the test. Every response
is a valid one, or a 4xx in the words of the client's API; nothing is logged as an error.

A field is tried with some of the values. With `PENSTOCK_HOSTILE_SAMPLES`, which is the number of
pairs of replacements at each endpoint, every value is tried in every field and with every upstream;
that takes many minutes.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import pickle
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.in_process import DEADLINE, UPSTREAMS, Received, make_gateway, post, refuse_constant
from gateway.rich_requests import (
    ANTHROPIC,
    CHANGES,
    CHAT,
    COMPLETION,
    PLAY,
    RESPONSES,
)
from penstock import apis
from penstock.events import Failed
from penstock.gateway.app import Gateway
from penstock.store import RequestQuery

SAMPLES = int(os.environ.get("PENSTOCK_HOSTILE_SAMPLES", "0"))

# --- what is done to them ---

REMOVED: Final = object()
DOUBLED: Final = object()
_TWIN: Final = "a second one of this name"


def nest(levels: int) -> Any:
    value: Any = "x"
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


VALUES: Final[dict[str, Any]] = {
    "null": None,
    "true": True,
    "0": 0,
    "-1": -1,
    "1e308": 1e308,
    "2**70": 2**70,
    "no text": "",
    "text": "x",
    "half a pair": "\ud800",
    "a list": [],
    "an object": {},
    "a list of a list": [[]],
    "an object of an object": {"a": {}},
    "a list of an object": [{"type": "x", "x": None}],
    "1000 items": ["x"] * 1000,
    "100 kB": "x" * 100_000,
    "150 levels": nest(150),
    "200 levels": nest(200),
    "removed": REMOVED,
    "doubled": DOUBLED,
}

Steps = tuple[str | int, ...]


def steps_in(value: Any, before: Steps = ()) -> Iterator[Steps]:
    """Return the way to every value in *value*."""
    items: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        yield (*before, key)
        yield from steps_in(inner, (*before, key))


def replace(body: Any, steps: Steps, value: Any) -> None:
    """Put *value* at *steps* of *body*; where that is not there any more, do nothing."""
    holder = body
    for step in steps[:-1]:
        try:
            holder = holder[step]
        except (KeyError, IndexError, TypeError):
            return
    last = steps[-1]
    if isinstance(holder, dict) and last in holder:
        if value is REMOVED:
            del holder[last]
        elif value is DOUBLED:
            holder[f"{_TWIN} {last}"] = "x"
        else:
            holder[last] = value
    elif isinstance(holder, list) and isinstance(last, int) and last < len(holder):
        if value is REMOVED:
            del holder[last]
        elif value is DOUBLED:
            holder.insert(last, holder[last])
        else:
            holder[last] = value


def twin_of(body: Any) -> Any:
    """Copy *body*, some five times as fast as `copy.deepcopy`."""
    return pickle.loads(pickle.dumps(body))  # noqa: S301 - our own


def write(body: Any) -> bytes:
    return json.dumps(body).replace(f'"{_TWIN} ', '"').encode()


# --- what a response has to be ---


def problem_in(api: str, received: Received) -> str:
    """Return what is wrong with a response; empty if it is valid."""
    if 400 <= received.status < 500:
        return _problem_in_refusal(api, json.loads(received.body))
    if received.status != 200:
        return f"{received.status} {received.body[:300]!r}"
    if received.headers.get("content-type", "").startswith("text/event-stream"):
        return _problem_in_stream(api, received.body)
    data = json.loads(received.body, parse_constant=refuse_constant)
    return _problem_in_whole(api, data)


def _problem_in_refusal(api: str, data: Any) -> str:
    error = data.get("error") if isinstance(data, dict) else None
    if not isinstance(error, dict):
        return f"no error: {data!r}"[:300]
    message = error.get("message")
    if not isinstance(message, str) or not message.strip() or len(message) > 2000:
        return f"no message: {message!r}"[:300]
    if not isinstance(error.get("type"), str) or not error["type"]:
        return f"no type: {data!r}"[:300]
    if any(word in message for word in ("Error:", "object has no attribute", "NoneType")):
        return f"the message is Python's: {message}"
    return "no type of error" if api == "anthropic" and data.get("type") != "error" else ""


def _problem_in_stream(api: str, data: bytes) -> str:
    if api == "completions":
        frames = [frame.removeprefix(b"data: ") for frame in data.split(b"\n\n") if frame]
        read = [json.loads(frame) for frame in frames[:-1]]
        is_fine = all(frame.get("object") == "text_completion" for frame in read)
        return "" if is_fine and frames[-1] == b"[DONE]" else f"{data[:300]!r}"
    if problems := apis.check(api, data):
        return "; ".join(problems)[:300]
    decoder = apis.get(api).decoder()
    events = [*decoder.feed(data), *decoder.finish()]
    return next(
        (f"failed: {event.error.message}" for event in events if isinstance(event, Failed)), ""
    )


_WHOLES: Final[dict[str, dict[str, Callable[[Any], bool]]]] = {
    "openai-chat": {"id": bool, "choices": bool, "model": lambda it: isinstance(it, str)},
    "openai-responses": {
        "id": bool,
        "output": lambda it: isinstance(it, list),
        "status": lambda it: it in ("completed", "incomplete"),
    },
    "anthropic": {
        "id": bool,
        "content": lambda it: isinstance(it, list),
        "stop_reason": bool,
        "usage": bool,
    },
    "completions": {"id": bool, "choices": bool, "usage": bool},
    "count_tokens": {"input_tokens": bool},
}


def _problem_in_whole(api: str, data: Any) -> str:
    wanted = _WHOLES.get(api, {})
    missing = [name for name, is_fine in wanted.items() if not is_fine(data.get(name))]
    if missing:
        return f"{missing} of {data!r}"[:300]
    if api in apis.names():
        error = apis.get(api).read_response(data).error
        return "" if error is None else f"failed: {error.message}"
    return ""


# --- the tests ---


@dataclass(frozen=True)
class Endpoint:
    """An endpoint and the request to start from.

    Single replacements are made in parts of it, with *least* beside: most of what a request costs
    is the part that is not replaced.
    """

    path: str
    api: str
    body: dict[str, Any]
    least: dict[str, Any]

    def parts(self) -> Iterator[dict[str, Any]]:
        said = {"messages", "input", "previous_response_id", "store", "system", "instructions"}
        tools = {"tools", "functions", "tool_choice", "parallel_tool_calls"}
        for keys in (said, tools, self.body.keys() - said - tools):
            yield {**self.least, **{key: self.body[key] for key in self.body if key in keys}}


HELLO: Final = [{"role": "user", "content": "Hello"}]
CHATTED: Final = {"messages": HELLO}
ENDPOINTS: Final = [
    Endpoint("/v1/chat/completions", "openai-chat", CHAT, CHATTED),
    Endpoint("/v1/messages", "anthropic", ANTHROPIC, {**CHATTED, "max_tokens": 100}),
    Endpoint("/v1/responses", "openai-responses", RESPONSES, {"input": "Hello"}),
    Endpoint("/v1/completions", "completions", COMPLETION, {}),
]
COUNTS: Final = [
    Endpoint("/v1/messages/count_tokens", "count_tokens", ANTHROPIC, {}),
    Endpoint("/v1/responses/input_tokens", "count_tokens", RESPONSES, {}),
]


def all_of(several: list[Endpoint]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("endpoint", several, ids=[each.path for each in several])


_ID: Final = re.compile(r"[0-9a-f]{28}")


class Problems:
    """Everything that went wrong, with the first request of each kind."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self.statuses: Counter[int] = Counter()

    async def ask(
        self,
        gateway: Gateway,
        endpoint: Endpoint,
        *body: bytes,
        what: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a request, which is *what* in words, and note what is wrong with its response."""
        try:
            received = await post(gateway, endpoint.path, *body, headers=headers)
            self.statuses[received.status] += 1
            problem = problem_in(endpoint.api, received)
        except Exception as exc:  # noqa: BLE001 - every one is a problem to report
            problem = f"{type(exc).__name__}: {exc}"[:300]
        if problem := _ID.sub("…", problem):
            self.found.setdefault(problem, what)

    def check(self) -> None:
        if self.found:
            pytest.fail("\n".join(f"{what}: {why}" for why, what in self.found.items()))


class Errors(logging.Handler):
    """Everything that is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(self.format(record)[-1500:])


@pytest.fixture(autouse=True)
def _quiet_log() -> Iterator[None]:
    handler = Errors()
    root = logging.getLogger()
    root.addHandler(handler)
    yield
    root.removeHandler(handler)
    assert not handler.messages, "\n".join(dict.fromkeys(handler.messages))


async def conversation(gateway: Gateway, body: dict[str, Any]) -> dict[str, Any]:
    """Return *body*; one of the Responses API refers to a response that is kept."""
    body = twin_of(body)
    if "previous_response_id" in body:
        kept = json.loads(
            (await post(gateway, "/v1/responses", b'{"input": "Hi", "model": "openai-chat"}')).body
        )
        body["previous_response_id"] = kept["id"]
        body["input"][0]["id"] = kept["output"][0]["id"]
    return body


TYPES: Final = ["null", "1e308", "half a pair", "a list of a list", "an object of an object"]
OTHERS: Final = [name for name in VALUES if name not in TYPES]


def variants(body: dict[str, Any]) -> Iterator[tuple[str, Steps, Any]]:
    """Return every field of *body* with other values: with three types and one other, by turns.

    An exchange takes some 2 ms: with all values the tests would take a minute.
    """
    for number, steps in enumerate(steps_in(body)):
        types = [TYPES[(number + turn) % len(TYPES)] for turn in (0, 1, 3)]
        for name in VALUES if SAMPLES else [*types, OTHERS[number % len(OTHERS)]]:
            yield f"{'.'.join(map(str, steps))} = {name}", steps, VALUES[name]


def set_up(body: dict[str, Any], number: int) -> None:
    """Choose the upstream, and whether to stream, by *number*."""
    body["model"] = UPSTREAMS[number % len(UPSTREAMS)]
    body["stream"] = number // len(UPSTREAMS) % 2 == 0


@all_of(ENDPOINTS)
async def test_every_field_may_be_of_any_type(endpoint: Endpoint, tmp_path: Path) -> None:
    gateway, problems = make_gateway(tmp_path), Problems()
    numbers = itertools.count()
    for part in endpoint.parts():
        base = await conversation(gateway, part)
        for what, steps, value in variants(base):
            first = next(numbers)
            for number in range(first, first + (len(UPSTREAMS) if SAMPLES else 1)):
                body = twin_of(base)
                set_up(body, number)
                replace(body, steps, value)
                told = f"{what} ({UPSTREAMS[number % len(UPSTREAMS)]})"
                await problems.ask(gateway, endpoint, write(body), what=told)
    problems.check()
    assert problems.statuses[200]
    await gateway.close()


@all_of(COUNTS)
async def test_every_field_of_a_request_to_count_may_be_of_any_type(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    gateway, problems = make_gateway(tmp_path), Problems()
    base = await conversation(gateway, endpoint.body)
    for what, steps, value in variants(base):
        if len(steps) <= 3:
            body = twin_of(base)
            replace(body, steps, value)
            await problems.ask(gateway, endpoint, write(body), what=what)
    problems.check()
    await gateway.close()


@all_of([*ENDPOINTS, *COUNTS])
async def test_two_fields_at_once_may_be_of_any_type(endpoint: Endpoint, tmp_path: Path) -> None:
    gateway, problems = make_gateway(tmp_path), Problems()
    base = await conversation(gateway, endpoint.body)
    ways, values = [*steps_in(base)], [*VALUES.items()]
    chosen = random.Random(endpoint.path)
    for number in range(SAMPLES or 60):
        body = twin_of(base)
        set_up(body, number)
        told = []
        for _ in range(2):
            steps, (name, value) = chosen.choice(ways), chosen.choice(values)
            is_value = value is not REMOVED and value is not DOUBLED
            replace(body, steps, twin_of(value) if is_value else value)
            told.append(f"{'.'.join(map(str, steps))} = {name}")
        told.append(UPSTREAMS[number % len(UPSTREAMS)])
        await problems.ask(gateway, endpoint, write(body), what=", ".join(told))
    problems.check()
    await gateway.close()


@all_of([*ENDPOINTS, *COUNTS])
async def test_the_request_that_all_start_from_is_served_by_every_upstream(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    gateway = make_gateway(tmp_path)
    base = await conversation(gateway, endpoint.body)
    for number in range(2 * len(UPSTREAMS)):
        body = twin_of(base)
        set_up(body, number)
        received = await post(gateway, endpoint.path, write(body))
        assert received.status == 200, received.body
        assert problem_in(endpoint.api, received) == ""
    await gateway.close()


# --- what a refusal says ---

NAMELESS: Final = {"id": "c", "type": "function", "function": {"arguments": "{}"}}
LONG: Final = "x" * 2_000
SAID: Final[dict[str, tuple[str, dict[str, Any], str]]] = {
    "a role": (
        "chat/completions",
        {"messages": [*HELLO, {"role": LONG}]},
        (
            "`messages[1]`: `role` must be system, developer, user, assistant, tool or function, "
            f"not '{LONG[:63]}…"
        ),
    ),
    "content": (
        "messages",
        {"messages": [{"role": "user", "content": 5}], "max_tokens": 5},
        "`messages[0]`: `content` must be text or a list of parts",
    ),
    "a call without a name": (
        "chat/completions",
        {"messages": [*HELLO, {"role": "assistant", "tool_calls": [NAMELESS]}]},
        "`messages[1]`: a tool call needs a `name`",
    ),
    "an item without a name": (
        "responses",
        {"input": [{"type": "function_call", "call_id": "c", "arguments": "{}"}]},
        "a `function_call` needs a `name`",
    ),
    "tools": ("chat/completions", {**CHATTED, "tools": {}}, "`tools` must be a list"),
    "input": ("responses", {"input": 5}, "`input` must be text or a list of items"),
    "a model": (
        "chat/completions",
        {**CHATTED, "model": LONG},
        "`model` is longer than 1,024 characters",
    ),
    **{
        f"many {what}": (
            "chat/completions",
            {**CHATTED, "tools": [{"type": "function", "function": {"name": "f", "parameters": {
                "type": "object", "properties": {"a": {}}, **schema,
            }}}]},
            (
                f"the tools have {count} properties, required names and enum values: "
                "at most 10,000 are accepted"
            ),
        )
        for what, count, schema in (
            ("properties", "10,001", {"properties": {f"p{n}": {} for n in range(10_001)}}),
            ("required names", "10,001", {"required": ["a"] * 10_000}),
            ("enum values", "10,001", {"properties": {"a": {"enum": [*range(10_000)]}}}),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize(("path", "body", "message"), SAID.values(), ids=SAID)
async def test_a_refusal_names_the_field(
    path: str, body: dict[str, Any], message: str, tmp_path: Path
) -> None:
    gateway = make_gateway(tmp_path)
    received = await post(gateway, f"/v1/{path}", write({"model": "openai-chat", **body}))
    assert received.status == 400
    assert json.loads(received.body)["error"]["message"] == message
    await gateway.close()


# --- bodies that are not requests ---

HUGE: Final = 10_000_001  # bytes, one more than the limit
DEEP: Final = 10_000
BODIES: Final[dict[str, tuple[bytes, ...]]] = {
    "nothing": (b"",),
    "spaces": (b"  \r\n",),
    "words": (b"hello",),
    "a form": (b"model=m&messages=%5B%5D",),
    "cut": (b'{"model": "m", "messages": [{"role": "us',),
    "a list": (b"[]",),
    "a number": (b"1",),
    "null": (b"null",),
    "a string": (b'"x"',),
    "two objects": (b"{}{}",),
    "a comma too many": (b'{"model": "m",}',),
    "NaN": (b'{"messages": NaN}',),
    "infinity": (b'{"temperature": 1e999, "messages": [], "input": [], "prompt": ""}',),
    "5,000 digits": (b'{"max_tokens": 1%s, "messages": []}' % (b"0" * 5_000),),
    "only a BOM": (b"\xef\xbb\xbf",),
    "UTF-16": ('{"messages": []}'.encode("utf-16"),),
    "UTF-32": ('{"messages": []}'.encode("utf-32-le"),),
    "Latin-1": ('{"messages": [{"role": "user", "content": "é"}]}'.encode("latin-1"),),
    "half a character": (b'{"messages": "\xc3"}',),
    "a surrogate in UTF-8": (b'{"messages": "\xed\xa0\x80"}',),
    "zero bytes": (b'{"messages": "\x00"}',),
    "gzip": (b"\x1f\x8b\x08\x00\x00\x00\x00\x00",),
    "an empty key": (b'{"": {}, "messages": []}',),
    "a lone surrogate as a key": (b'{"\\ud800": 1, "messages": [], "input": "", "prompt": ""}',),
    "deep lists": (b'{"messages": ' + b"[" * DEEP + b"]" * DEEP + b"}",),
    "deep objects": (b'{"a":' * DEEP + b"1" + b"}" * DEEP,),
    "deep and cut": (b"[" * 1_000_000,),
    "huge": (b'{"messages": "', b"x" * HUGE, b'"}'),
    "huge in pieces": (b'{"messages": "', *[b"x" * 500_000] * 30),
}


@all_of([*ENDPOINTS, *COUNTS])
async def test_a_body_that_is_not_a_request_is_refused(endpoint: Endpoint, tmp_path: Path) -> None:
    gateway, problems = make_gateway(tmp_path), Problems()
    for name, pieces in BODIES.items():
        await problems.ask(gateway, endpoint, *pieces, what=name)
    problems.check()
    await gateway.close()


async def test_a_body_that_is_not_json_is_never_served(tmp_path: Path) -> None:
    readable = {"infinity", "an empty key", "a lone surrogate as a key"}
    gateway = make_gateway(tmp_path)
    for name in BODIES.keys() - readable:
        received = await post(gateway, "/v1/chat/completions", *BODIES[name])
        assert received.status == (413 if name.startswith("huge") else 400), name
    await gateway.close()


HEADERS: Final[list[dict[str, str]]] = [
    {"content-type": ""},
    {"content-type": "text/plain"},
    {"content-type": "application/x-www-form-urlencoded"},
    {"content-type": "multipart/form-data; boundary=x"},
    {"content-type": "application/json; charset=utf-16"},
    {"content-type": "\xff"},
    {"content-encoding": "gzip"},
    {"content-length": "-1"},
    {"content-length": "x"},
    {"content-length": "1"},
    {"content-length": "9" * 5_000},
    {"content-length": "²"},
    {"accept": "\xff\xfe"},
    {"authorization": ""},
    {"authorization": "Bearer"},
    {"authorization": "Bearer \xff"},
    {"authorization": "Basic " + "x" * 10_000},
    {"x-api-key": "\xff"},
    {"x-session-id": "\xff\xfe" * 5_000},
    {"x-session-id": "a\x00b"},
    {"anthropic-beta": "\xff"},
    {"anthropic-beta": "x" * 10_000},
    {"openai-beta": ""},
    {"idempotency-key": "\xff"},
]


@all_of([*ENDPOINTS, *COUNTS])
async def test_headers_may_say_anything(endpoint: Endpoint, tmp_path: Path) -> None:
    gateway, problems = make_gateway(tmp_path), Problems()
    base = {**await conversation(gateway, endpoint.body)}
    for number, headers in enumerate(HEADERS):
        set_up(base, number)
        told = f"{headers!r:.80} ({base['model']})"
        await problems.ask(gateway, endpoint, write(base), what=told, headers=headers)
    problems.check()
    await gateway.close()


# --- the inspector ---


@pytest.mark.leaves_files
async def test_every_field_of_the_playground_may_be_of_any_type(tmp_path: Path) -> None:
    gateway, problems = make_gateway(tmp_path), Problems()
    for path in ("/inspector/api/parse", "/inspector/api/formats"):
        endpoint = Endpoint(path, "inspector", PLAY, {})
        for number, (what, steps, value) in enumerate(variants(PLAY)):
            if SAMPLES or len(steps) == 1 or number % 5 == 0:
                body = twin_of(PLAY)
                replace(body, steps, value)
                await problems.ask(gateway, endpoint, write(body), what=f"{path} {what}")
        for name, pieces in BODIES.items():
            await problems.ask(gateway, endpoint, *pieces, what=f"{path} {name}")
    problems.check()
    assert problems.statuses[200]
    await gateway.close()


@pytest.mark.leaves_files
async def test_every_option_of_a_replay_may_be_of_any_type(tmp_path: Path) -> None:
    gateway, problems = make_gateway(tmp_path, store=True), Problems()
    assert gateway.store is not None
    gateway.store.start()
    async with asyncio.timeout(DEADLINE):
        while not gateway.store.health.is_up:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.002)
    await post(gateway, "/v1/chat/completions", write({**CHATTED, "model": "openai-chat"}))
    async with asyncio.timeout(DEADLINE):
        while not (page := await gateway.store.requests(RequestQuery())).items:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    path = f"/inspector/api/streams/{page.items[0].id}/replay"
    endpoint = Endpoint(path, "inspector", CHANGES, {})
    for steps, (name, value) in itertools.product(steps_in(CHANGES), VALUES.items()):
        body = twin_of(CHANGES)
        replace(body, steps, value)
        await problems.ask(gateway, endpoint, write(body), what=f"{steps} = {name}")
    for name, pieces in BODIES.items():
        await problems.ask(gateway, endpoint, *pieces, what=name)
    problems.check()
    assert problems.statuses[200]
    await gateway.close()
