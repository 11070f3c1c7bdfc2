"""``/v1/completions``: OpenAI's legacy endpoint, which completes a prompt with text.

The prompt becomes a user message. The endpoint has no tools and no field for reasoning: content
that is not text is omitted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from penstock import _json, apis
from penstock.apis.encoder import (
    BlockEvent,
    BlockSequencer,
    Ending,
    StreamEncoder,
    find_whole_ending,
)
from penstock.apis.fields import is_counted, usage_or_estimate
from penstock.apis.openai_chat import tables
from penstock.errors import UsageError
from penstock.events import Done, Failed, MessageStart, TextDelta, TextEnd, TextStart
from penstock.gateway.completion_handler import CHAT, CompletionHandler
from penstock.gateway.http_exchange import estimate_tokens
from penstock.gateway.model_router import ResolvedRoute
from penstock.gateway.response import EndpointFormat
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.request import Request

_DONE: Final = b"data: [DONE]\n\n"
# The endpoint has no finish reason for tool calls.
_FINISH: Final = {"stop": "stop", "length": "length", "tool_use": "stop"}


class LegacyCompletionHandler(CompletionHandler):
    """Handles one request of the legacy endpoint."""

    def _parse(self, fields: dict[str, Any]) -> Request:
        rest = {name: value for name, value in fields.items() if name not in ("prompt", "suffix")}
        message = {"role": "user", "content": parse_prompt(fields)}
        request = apis.get(CHAT).read_request({**rest, "messages": [message], "tools": []})
        if (request.n or 1) > 1 or (fields.get("best_of") or 1) != 1:
            raise UsageError("this endpoint returns one choice: `n` and `best_of` must be 1")
        self._omitted += sorted({*request.extra, *(["suffix"] if fields.get("suffix") else [])})
        request.raw = None
        request.extra = {}
        return request

    def _make_endpoint_format(self, request: Request, route: ResolvedRoute) -> EndpointFormat:
        del route
        return LegacyCompletionFormat(
            f"cmpl-{self.id}",
            request.model,
            int(time.time()),
            usage=request.include_usage,
            tokens=estimate_tokens(self._data),
        )


def parse_prompt(fields: Mapping[str, Any]) -> str:
    """Return the prompt of a request; raise `UsageError` for several prompts and for tokens."""
    prompt = fields.get("prompt", "")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise UsageError(
            "`prompt` must be one string: lists of prompts and token ids are not supported"
        )
    return prompt


class LegacyCompletionFormat(Struct, frozen=True):
    """Writes responses as ``text_completion`` objects."""

    id: str
    model: str
    created: int
    usage: bool = True
    tokens: int = 0
    api: str = CHAT

    def encoder(self) -> StreamEncoder:
        """Return the encoder of the stream."""
        return LegacyCompletionEncoder(self)

    def write_whole(self, message: AssistantMessage) -> dict[str, Any]:
        """Return the body of a response that is not streamed."""
        ending, _ = find_whole_ending(message)
        return {
            **self.object(message.text, _FINISH.get(ending, "content_filter")),
            "usage": tables.write_usage(usage_or_estimate(message, self.tokens)),
        }

    def object(self, text: str, finish: str | None) -> dict[str, Any]:
        """Return one object of the response."""
        choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": finish}
        return {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": [choice],
        }


class LegacyCompletionEncoder(StreamEncoder):
    """Events in, the bytes of a stream of ``text_completion`` objects out."""

    def __init__(self, endpoint: LegacyCompletionFormat) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._texts = BlockSequencer()

    def _write_start(self, event: MessageStart) -> bytes:
        del event
        return b""

    def _write(self, event: BlockEvent) -> bytes:
        if not isinstance(event, TextStart | TextDelta | TextEnd):
            return b""
        return b"".join(map(self._write_text, self._texts.put(event)))

    def _write_text(self, event: BlockEvent) -> bytes:
        if not isinstance(event, TextDelta) or not event.text:
            return b""
        return _frame(self._endpoint.object(event.text, None))

    def _write_end(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        if isinstance(ending, ErrorInfo):
            return _frame({"error": tables.write_error(ending)}) + _DONE
        end = _frame(self._endpoint.object("", _FINISH.get(ending, "content_filter")))
        usage = usage_or_estimate(event.message, self._endpoint.tokens)
        if self._endpoint.usage and is_counted(usage):
            last = self._endpoint.object("", None)
            end += _frame({**last, "choices": [], "usage": tables.write_usage(usage)})
        return end + _DONE


def _frame(value: dict[str, Any]) -> bytes:
    return b"data: " + _json.encode_wire(value) + b"\n\n"
