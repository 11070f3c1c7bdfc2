"""The endpoints of the gateway as OpenAPI (``/openapi.json``) and as a page (``/docs``).

The document is generated from the route table: the summary of an endpoint is the docstring of its
handler. `_CONTENT` names the schemas of its bodies and lists the paths below an id, which the
handler of the id serves. The parameters of lists are the fields of their queries. The page, a file
of the inspector, shows the document and sends requests.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import msgspec
from msgspec import Struct

from penstock.gateway.openapi_schemas import make_schemas
from penstock.gateway.routes import PREFIX_ROUTES, ROUTES
from penstock.store import OverviewQuery, RequestQuery, SessionQuery

_WITHOUT_KEY: Final = (
    *("/health/live", "/health/ready", "/", "/docs", "/openapi.json"),
    "/inspector/{id}",
)
"""The paths that need no key."""

_JSON: Final = "application/json"
_SSE: Final = "text/event-stream"
_TEXT: Final = "text/plain"
_HTML: Final = "text/html"
_MODEL: Final = "demo"
_USER: Final = [{"role": "user", "content": "What is the weather in Oslo?"}]
_TOOLS: Final = [
    {
        "name": "get_weather",
        "description": "Return the weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]
_CONTENTS: Final = {
    "contents": [{"role": "user", "parts": [{"text": "What is the weather in Oslo?"}]}]
}
_CALL: Final = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


class Content(Struct, frozen=True):
    """The names of the schemas of one operation; *event* is that of a streamed response.

    *kind* is the content type of a response without a schema. *query* has the parameters, and
    *more* those that it does not have. An operation with a *summary* is not in the route table.
    """

    body: str = ""
    response: str = ""
    event: str = ""
    kind: str = ""
    query: type[Struct] | None = None
    more: tuple[str, ...] = ()
    example: dict[str, Any] | None = None
    summary: str = ""


_CONTENT: Final[dict[tuple[str, str], Content]] = {
    ("POST", "/v1/chat/completions"): Content(
        *("ChatRequest", "ChatCompletion", "ChatChunk"),
        example={"model": _MODEL, "messages": _USER, "stream": True}
        | {"tools": [{"type": "function", "function": one} for one in _TOOLS]},
    ),
    ("POST", "/v1/responses"): Content(
        *("ResponsesRequest", "Response", "ResponsesEvent"),
        example={"model": _MODEL, "input": _USER[0]["content"]},
    ),
    ("POST", "/v1/messages"): Content(
        *("MessagesRequest", "AnthropicMessage", "MessagesEvent"),
        example={"model": _MODEL, "max_tokens": 1000, "messages": _USER},
    ),
    ("POST", "/v1/completions"): Content(
        *("CompletionRequest", "ChatCompletion", "ChatChunk"),
        example={"model": _MODEL, "prompt": "Once"},
    ),
    ("POST", "/v1/messages/count_tokens"): Content(
        *("CountTokensRequest", "TokenCount"), example={"model": _MODEL, "messages": _USER}
    ),
    ("POST", "/v1/responses/input_tokens"): Content(
        *("ResponsesRequest", "InputTokens"), example={"model": _MODEL, "input": "Hello!"}
    ),
    ("GET", "/v1/models"): Content(response="ModelList"),
    ("GET", "/v1/models/{id}"): Content(response="Model"),
    ("POST", "/v1beta/models/{id}:generateContent"): Content(
        *("GeminiRequest", "GeminiResponse"),
        example=_CONTENTS,
        summary="Generate content (Gemini).",
    ),
    ("POST", "/v1beta/models/{id}:streamGenerateContent"): Content(
        *("GeminiRequest", "GeminiResponseList", "GeminiResponse"),
        more=("alt",),
        example=_CONTENTS,
        summary="Generate content as a stream (Gemini).",
    ),
    ("POST", "/v1beta/models/{id}:countTokens"): Content(
        *("GeminiRequest", "GeminiTokenCount"),
        example=_CONTENTS,
        summary="Estimate the tokens of a request (Gemini).",
    ),
    ("GET", "/v1beta/models"): Content(response="GeminiModelList"),
    ("GET", "/v1beta/models/{id}"): Content(response="GeminiModel"),
    ("GET", "/v1/requests"): Content(response="RequestList", query=RequestQuery),
    ("GET", "/v1/requests/{id}"): Content(response="RequestDetail"),
    ("GET", "/v1/requests/{id}/request"): Content(
        kind=_JSON, summary="Return the body that the client sent."
    ),
    ("GET", "/v1/requests/{id}/upstream_request"): Content(
        kind=_JSON, summary="Return the body that the upstream received."
    ),
    ("GET", "/v1/requests/{id}/raw"): Content(
        kind="application/octet-stream", summary="Return the bytes that the upstream sent."
    ),
    ("GET", "/v1/requests/{id}/events"): Content(
        kind="application/x-ndjson", summary="Return the events, one JSON object per line."
    ),
    ("GET", "/v1/requests/{id}/response"): Content(
        kind=_JSON, summary="Return the response as one object of the client's API."
    ),
    ("GET", "/v1/sessions"): Content(response="SessionList", query=SessionQuery),
    ("GET", "/v1/sessions/{id}"): Content(response="SessionRow"),
    ("DELETE", "/v1/sessions/{id}"): Content(response="Deleted"),
    ("GET", "/v1/responses/{id}"): Content(response="Response"),
    ("DELETE", "/v1/responses/{id}"): Content(response="Deleted"),
    ("GET", "/health/live"): Content(response="Health"),
    ("GET", "/health/ready"): Content(response="Health"),
    ("GET", "/v1/responses/{id}/input_items"): Content(
        response="ItemList", summary="Return the items that a response responds to."
    ),
    ("GET", "/inspector/api/about"): Content(response="About"),
    ("GET", "/inspector/api/overview"): Content(
        response="Overview", query=OverviewQuery, more=("fit",)
    ),
    ("GET", "/inspector/api/live"): Content(kind=_SSE, more=("after",)),
    ("GET", "/inspector/api/conversations"): Content(
        response="ConversationList", more=("before", "limit")
    ),
    ("GET", "/inspector/api/conversations/{id}"): Content(response="Conversation"),
    ("GET", "/inspector/api/streams/{id}"): Content(response="Analysis", more=("full",)),
    ("GET", "/inspector/api/streams/{id}/live"): Content(
        kind=_SSE, summary="Report the events of a response in progress, from its beginning."
    ),
    ("GET", "/inspector/api/streams/{id}/vector"): Content(
        response="TestVector", summary="Return a stream as a test vector."
    ),
    ("GET", "/inspector/api/streams/{id}/curl"): Content(
        kind=_TEXT, more=("base",), summary="Return a request as a curl command."
    ),
    ("POST", "/inspector/api/streams/{id}/replay"): Content(
        *("ReplayOptions", "Replay"),
        more=("full",),
        example={"format": "hermes"},
        summary="Parse one stream again with other options; return what is different.",
    ),
    ("POST", "/inspector/api/parse"): Content(
        *("PlaygroundRequest", "ParsedText"), example={"text": _CALL, "tools": _TOOLS, "chunk": 8}
    ),
    ("POST", "/inspector/api/formats"): Content(
        *("PlaygroundRequest", "ComparedFormats"), example={"text": _CALL, "tools": _TOOLS}
    ),
    ("GET", "/inspector/{id}"): Content(kind="application/octet-stream"),
    ("GET", "/metrics"): Content(kind=_TEXT),
    ("GET", "/openapi.json"): Content(kind=_JSON),
    ("GET", "/docs"): Content(kind=_HTML),
    ("GET", "/"): Content(kind=_HTML),
}
"""The bodies and parameters of the operations."""

_ONLY_BELOW: Final = (
    ("POST", "/inspector/api/streams/{id}"),
    ("POST", "/v1/models/{id}"),
    ("POST", "/v1beta/models/{id}"),
)
"""Operations of the route table that exist only for paths below them."""

_TAGS: Final = {
    "Models": "Requests to models, in the APIs of OpenAI, Anthropic and Gemini.",
    "Log": "The requests that were made with your key, and stored conversations.",
    "Inspector": "The data of the inspector's page. These endpoints may change in any version.",
    "Gateway": "The health of the gateway, its metrics, and these pages.",
}
"""The groups of operations in the order of the page."""

_GROUPS: Final = (
    ("/v1/requests", "Log"),
    ("/v1/sessions", "Log"),
    ("/v1/", "Models"),
    ("/v1beta/", "Models"),
    ("/inspector", "Inspector"),
    ("/", "Gateway"),
)
"""The group of an operation, by the beginning of its path."""

_PARAMETERS: Final = {
    "id": "The id of it.",
    "alt": "`sse` for server-sent events; otherwise the stream is a JSON array.",
    "after": "An id: only newer requests.",
    "base": "The URL of the gateway in the command; by default the one of this request.",
    "before": "The `next` of the previous page.",
    "buckets": "Into how many intervals the time is split.",
    "client_api": "The API of the client: openai-chat, openai-responses, anthropic, …",
    "conversation": "The id of a conversation.",
    "count": "Whether to return `total`, which reads every matching row.",
    "error": "The kind of an error: provider, transport, truncated, malformed, refusal, filter.",
    "finish": "How responses ended: stop, length, tool_use, error, aborted.",
    "fit": "Begin with the first request after `since`.",
    "format": "The format that responses were parsed as, or that a call was written in.",
    "full": "Return a long stream completely.",
    "limit": "How many are returned, at most 1,000.",
    "live": "Whether they are still valid.",
    "model": "The model that was requested.",
    "repairs": "Whether calls were repaired.",
    "search": "Words, or beginnings of words, that all occur; words in quotes in this order.",
    "session": "The session of the request.",
    "since": "Unix time in seconds: not before it.",
    "sort": "The column by which the largest are returned, in one page: duration, first_token, …",
    "state": "started, done, failed, aborted or interrupted.",
    "unread": "Whether a text looks like a call and is not one.",
    "until": "Unix time in seconds: before it.",
    "upstream": "The upstream that was used.",
}
"""What the parameters mean."""

_TYPES: Final = {"full": "boolean", "fit": "boolean", "limit": "integer"}
"""The types of parameters that are not strings, of endpoints without a query of their own."""


@cache
def make_document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    for path, method, summary in _list_operations():
        paths.setdefault(path, {})[method.lower()] = _make_operation(path, method, summary)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "penstock",
            "version": own_version(),
            "description": "Tool calls from any model, streamed correctly, to any client.",
        },
        "tags": [{"name": name, "description": words} for name, words in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": make_schemas(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


def _make_operation(path: str, method: str, summary: str) -> dict[str, Any]:
    content = _CONTENT.get((method, path), Content())
    found: dict[str, Any] = {}
    if content.response:
        found[_JSON] = {"schema": _refer(content.response)}
    if content.event:
        found[_SSE] = {"schema": _refer(content.event)}
    if content.kind:
        found[content.kind] = {"schema": {} if content.kind == _JSON else {"type": "string"}}
    operation: dict[str, Any] = {
        "tags": [next(name for start, name in _GROUPS if path.startswith(start))],
        "summary": summary.replace("``", "`"),
        "responses": {
            "200": {"description": "The response.", **({"content": found} if found else {})},
            "default": {
                "description": "An error.",
                "content": {_JSON: {"schema": _refer("Error")}},
            },
        },
    }
    if parameters := _list_parameters(path, content):
        operation["parameters"] = parameters
    if content.body:
        body: dict[str, Any] = {"schema": _refer(content.body)}
        if content.example is not None:
            body["example"] = content.example
        operation["requestBody"] = {"required": True, "content": {_JSON: body}}
    if path not in _WITHOUT_KEY:
        operation["security"] = [{"bearer": []}, {"header": []}, {}]
    return operation


def _refer(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _list_parameters(path: str, content: Content) -> list[dict[str, Any]]:
    """Return the parameters of an operation: the id, and the fields of its query."""
    fields = {name: {"type": _TYPES.get(name, "string")} for name in content.more}
    if content.query is not None:
        _, components = msgspec.json.schema_components((content.query,))
        fields = components[content.query.__name__]["properties"] | fields
    parameters = [("id", "path", {"type": "string"})] if "{id}" in path else []
    parameters += [(name, "query", field) for name, field in fields.items() if name != "scope"]
    return [
        {
            "name": name,
            "in": place,
            "required": place == "path",
            "description": _PARAMETERS[name],
            "schema": field,
        }
        for name, place, field in parameters
    ]


def _list_operations() -> list[tuple[str, str, str]]:
    """Return path, method and summary of every operation, without the paths that lack ``/v1``."""
    below = {f"{prefix}{{id}}": methods for prefix, methods in PREFIX_ROUTES.items()}
    unversioned = {path.removeprefix("/v1") for path in ROUTES if path.startswith("/v1/")}
    shown = {path: methods for path, methods in ROUTES.items() if path not in unversioned}
    listed = [
        (path, method, (handler.__doc__ or "").strip().splitlines()[0])
        for path, methods in {**shown, **below}.items()
        for method, handler in methods.items()
        if method != "HEAD" and (method, path) not in _ONLY_BELOW
    ]
    parts = [(path, method, one.summary) for (method, path), one in _CONTENT.items() if one.summary]
    return sorted(listed + parts, key=lambda one: one[0])


def own_version() -> str:
    """Return the version of penstock; 0 if it is not installed as a package."""
    try:
        return version("penstock")
    except PackageNotFoundError:
        return "0"
