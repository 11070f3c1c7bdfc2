"""How each endpoint tells an answer: its ids, the model it names, its stream and its whole."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from msgspec import Struct, structs

from penstock import _json, apis
from penstock.apis.encoding import StreamEncoder
from penstock.apis.numbers import told_usage
from penstock.apis.openai_responses.response import repeated
from penstock.messages import AssistantMessage
from penstock.requests import Request

PREFIXES: Final = {"openai-chat": "chatcmpl-", "openai-responses": "resp_", "anthropic": "msg_"}
"""How the id of an answer begins in each API."""

_OF_WHOLE: Final = ("custom",)
"""The options of a stream that a whole answer has too."""


class ApiDialect(Struct, frozen=True):
    """Tells answers as *api* does, under the name of the model that the client asked for.

    *tokens* is about what the prompt costs.
    """

    api: str
    id: str
    model: str
    created: int
    options: dict[str, Any]
    tokens: int = 0

    def encoder(self) -> StreamEncoder:
        """Make what writes the stream."""
        return apis.get(self.api).encoder(
            model=self.model, id=self.id, created=self.created, **self.options
        )

    def whole(self, message: AssistantMessage) -> dict[str, Any]:
        """Write the whole answer."""
        usage = told_usage(message, self.tokens)
        told = structs.replace(message, id=self.id, model=self.model, usage=usage)
        own = {name: self.options[name] for name in _OF_WHOLE if name in self.options}
        written = apis.get(self.api).write_response(told, created=self.created, **own)
        if "fields" not in self.options:
            return written
        has_failed = message.error is not None or written["status"] == "failed"
        is_kept = {"store": False} if has_failed else {}
        return {**written, **self.options["fields"](), **is_kept}


def dialect_of(
    api: str,
    request: Request,
    request_id: str,
    *,
    tokens: int = 0,
    always: bool = False,
    fields: Mapping[str, Any] | None = None,
) -> ApiDialect:
    """Give the dialect in which *request* of *api* is answered.

    *tokens* is what the prompt is thought to cost, for the API that tells it first and for
    upstreams that count nothing; *always* tells the tokens at the end whether the client asked for
    them or not. *fields* is what a response object says of itself, besides what it repeats of its
    request.
    """
    options: dict[str, Any] = {"input_tokens": tokens}
    if api == "openai-chat":
        options |= {"usage": request.include_usage or always, "error_id": request_id}
    elif api == "openai-responses":
        options["custom"] = _custom_tools(request)
        options["fields"] = _squeezed({**repeated(request.raw or {}), **(fields or {})})
    id_ = PREFIXES[api] + request_id
    return ApiDialect(api, id_, request.model, int(time.time()), options, tokens)


def _squeezed(fields: dict[str, Any]) -> partial[dict[str, Any]]:
    """Give what gives *fields*: the tools of an agent are large, and streams open for minutes."""
    return partial(_unsqueezed, zlib.compress(_json.encode(fields), 1))


def _unsqueezed(data: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = _json.decode(zlib.decompress(data))
    return fields


def _custom_tools(request: Request) -> list[str]:
    """Name the tools of the client that take free text."""
    raw = (request.raw or {}).get("tools")
    tools = raw if isinstance(raw, list) else []
    return [
        str(tool.get("name"))
        for tool in tools
        if isinstance(tool, dict) and tool.get("type") == "custom"
    ]
