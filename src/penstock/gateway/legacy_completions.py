"""``/v1/completions``: the older endpoint, where a prompt is text and so is the answer.

The models after the gateway converse, so the prompt is what a user says. There are not tools here
and no place for reasoning: what is not text is omitted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from penstock import _json, apis
from penstock.apis.encoder import BlockEvent, BlockSequencer, Ending, StreamEncoder, whole_ending_of
from penstock.apis.fields import is_counted, told_usage
from penstock.apis.openai_chat import tables
from penstock.errors import UsageError
from penstock.events import Done, Failed, MessageStart, TextDelta, TextEnd, TextStart
from penstock.gateway.completion_handler import CompletionHandler
from penstock.gateway.http_exchange import tokens_in
from penstock.gateway.model_router import ResolvedRoute
from penstock.gateway.response import EndpointFormat
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.request import Request

CHAT: Final = "openai-chat"
_DONE: Final = b"data: [DONE]\n\n"
_FINISH: Final = {"stop": "stop", "length": "length", "tool_use": "stop"}


class CompletionAsked(CompletionHandler):
    """One request of a client of the older endpoint."""

    def _parse(self, fields: dict[str, Any]) -> Request:
        rest = {name: value for name, value in fields.items() if name not in ("prompt", "suffix")}
        message = {"role": "user", "content": prompt_of(fields)}
        request = apis.get(CHAT).read_request({**rest, "messages": [message], "tools": []})
        if (request.n or 1) > 1 or (fields.get("best_of") or 1) != 1:
            raise UsageError("this endpoint gives one answer: `n` and `best_of` are 1 here")
        self._omitted += sorted({*request.extra, *(["suffix"] if fields.get("suffix") else [])})
        request.raw = None
        request.extra = {}
        return request

    def _dialect(self, request: Request, way: ResolvedRoute) -> EndpointFormat:
        del way
        return CompletionDialect(
            f"cmpl-{self.id}",
            request.model,
            int(time.time()),
            usage=request.include_usage,
            tokens=tokens_in(self._data),
        )


def prompt_of(fields: Mapping[str, Any]) -> str:
    """Return the one prompt of a request; raise `UsageError` for several, or for tokens."""
    prompt = fields.get("prompt", "")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise UsageError("`prompt` must be one text: lists and tokens are not served here")
    return prompt


class CompletionDialect(Struct, frozen=True):
    """Tells answers as ``text_completion`` objects."""

    id: str
    model: str
    created: int
    usage: bool = True
    tokens: int = 0
    api: str = CHAT

    def encoder(self) -> StreamEncoder:
        """Make what writes the stream."""
        return CompletionEncoder(self)

    def whole(self, message: AssistantMessage) -> dict[str, Any]:
        """Write the whole answer."""
        ending, _ = whole_ending_of(message)
        return {
            **self.object(message.text, _FINISH.get(ending, "content_filter")),
            "usage": tables.write_usage(told_usage(message, self.tokens)),
        }

    def object(self, text: str, finish: str | None) -> dict[str, Any]:
        """Write one object of the answer."""
        choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": finish}
        return {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": [choice],
        }


class CompletionEncoder(StreamEncoder):
    """Events in, the bytes of a stream of ``text_completion`` objects out."""

    def __init__(self, dialect: CompletionDialect) -> None:
        super().__init__()
        self._dialect = dialect
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
        return _frame(self._dialect.object(event.text, None))

    def _write_end(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        if isinstance(ending, ErrorInfo):
            return _frame({"error": tables.write_error(ending)}) + _DONE
        end = _frame(self._dialect.object("", _FINISH.get(ending, "content_filter")))
        usage = told_usage(event.message, self._dialect.tokens)
        if self._dialect.usage and is_counted(usage):
            told = self._dialect.object("", None)
            end += _frame({**told, "choices": [], "usage": tables.write_usage(usage)})
        return end + _DONE


def _frame(value: dict[str, Any]) -> bytes:
    return b"data: " + _json.encode_wire(value) + b"\n\n"
