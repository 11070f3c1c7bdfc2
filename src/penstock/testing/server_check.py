"""The streams of a running server, checked against the rules of its APIs.

Nothing is scripted: the server's model writes what it likes, and only what holds for every response
is checked. `penstock.conformance` has the rules, one checker for each API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request as HTTPRequest
from urllib.request import urlopen

from msgspec import Struct

from penstock import _json, apis
from penstock.conformance import anthropic, openai_chat, openai_responses
from penstock.errors import JSONParseError, UsageError, shorten
from penstock.messages import AssistantMessage, ToolCall, ToolResult
from penstock.request import Message, Request, UserMessage
from penstock.tools import Tool

SECONDS: Final = 120.0
"""How many seconds a server has to send something: a large model on a CPU is slow."""

MAX_BYTES: Final = 16_000_000
"""How many bytes of a response are read."""

CHECKED_APIS: Final[Mapping[str, Callable[[bytes], list[str]]]] = {
    "openai-chat": openai_chat.check,
    "openai-responses": openai_responses.check,
    "anthropic": anthropic.check,
}
"""The APIs of servers, each with its checker."""

_PATHS: Final = {
    "openai-chat": "/chat/completions",
    "openai-responses": "/responses",
    "anthropic": "/messages",
}
_NOT_SERVED: Final = (404, 405, 501)
_MAX_MESSAGE: Final = 200
_TOOL: Final = Tool(
    "tide_at",
    "Returns the next high water of a port.",
    {
        "type": "object",
        "properties": {"port": {"type": "string"}, "hours": {"type": "integer"}},
        "required": ["port"],
    },
)
_QUESTION: Final = "When is high water at Leith? Use the tool."


class ServerResult(Struct, frozen=True):
    """What was found in the stream of one request; *note* says why there is nothing to check."""

    api: str
    request: str
    problems: list[str]
    note: str = ""


def check_server(
    url: str, model: str = "", names: Iterable[str] = (), key: str = ""
) -> Iterator[ServerResult]:
    """Send requests to the server at *url* and yield what is wrong with each stream.

    *url* is the base URL of an OpenAI client: it usually ends with ``/v1``. Raises `UsageError` for
    an unknown API, and if the server cannot be reached.
    """
    wanted = [*names] or [*CHECKED_APIS]
    for name in wanted:
        if name not in CHECKED_APIS:
            known = ", ".join(CHECKED_APIS)
            raise UsageError(f"unknown API {name!r}: servers are checked by {known}")
    base = url.rstrip("/")
    model = model or _find_model(base, key)
    for api in wanted:
        for title, request in _make_requests(model).items():
            result = _check(base, api, title, request, key)
            yield result
            if result.note:  # The server does not have this API.
                break


def _make_requests(model: str) -> dict[str, Request]:
    """Return the requests by what they are about."""
    call = ToolCall("call_1", _TOOL.name, {"port": "Leith"})
    history: list[Message] = [
        UserMessage(_QUESTION),
        AssistantMessage(content=[call]),
        ToolResult(call.id, call.name, "14:20"),
    ]
    offered: dict[str, Any] = {"tools": [_TOOL], "max_tokens": 256, "stream": True}
    return {
        "text": Request(model, messages="Say hello.", max_tokens=64, stream=True),
        # The shortest response that a token limit cuts: servers forget its finish reason or its
        # counts.
        "one token": Request(model, messages=_QUESTION, max_tokens=1, stream=True),
        "a tool": Request(model, messages=_QUESTION, **offered),
        "a required tool": Request(model, messages=_QUESTION, tool_choice="required", **offered),
        "a result of a tool": Request(model, messages=history, **offered),
    }


def _check(base: str, api: str, title: str, request: Request, key: str) -> ServerResult:
    body = _json.encode(apis.get(api).write_request(request))
    try:
        data = _send(base + _PATHS[api], key, body)
    except HTTPError as exc:
        with exc:
            answer = exc.read(MAX_BYTES).decode("utf-8", "replace")
        if exc.code in _NOT_SERVED and title == "text":
            return ServerResult(api, title, [], f"not served (HTTP {exc.code})")
        return ServerResult(api, title, [f"HTTP {exc.code}: {shorten(answer, _MAX_MESSAGE)}"])
    except (OSError, HTTPException) as exc:
        return ServerResult(api, title, [f"the connection failed: {exc}"])
    return ServerResult(api, title, CHECKED_APIS[api](data))


def _find_model(base: str, key: str) -> str:
    """Return the first model of the server."""
    try:
        listed = _json.decode(_send(f"{base}/models", key))
    except HTTPError as exc:
        exc.close()
        raise UsageError(f"GET {base}/models: HTTP {exc.code}; pass --model") from exc
    except (URLError, OSError, HTTPException, JSONParseError) as exc:
        raise UsageError(f"GET {base}/models: {exc}") from exc
    models: Any = listed.get("data") if isinstance(listed, dict) else None
    first = models[0] if isinstance(models, list) and models else None
    found = first.get("id") if isinstance(first, dict) else None
    if not isinstance(found, str):
        raise UsageError(f"{base}/models lists no model: pass --model")
    return found


def _send(url: str, key: str, body: bytes | None = None) -> bytes:
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url!r} is not an HTTP URL")
    # Anthropic's API requires its version, and others ignore it.
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    if key:
        headers |= {"authorization": f"Bearer {key}", "x-api-key": key}
    request = HTTPRequest(url, body, headers)  # noqa: S310 - the scheme was checked
    with urlopen(request, timeout=SECONDS) as response:  # noqa: S310
        data: bytes = response.read(MAX_BYTES)
    return data
