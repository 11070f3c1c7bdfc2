"""A callback for LiteLLM's proxy: calls printed as text become tool calls.

    litellm_settings:
      callbacks: penstock.integrations.litellm.callback

`callback` sends tools natively and parses the text of the responses, streamed or not, of the Chat
and Messages endpoints. `prompt_callback` describes the tools in the system prompt, for models
without native tools. Requests without tools and all other endpoints pass unchanged.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final

from litellm.integrations.custom_logger import CustomLogger
from litellm.types.utils import ModelResponse, ModelResponseStream

from penstock import _json
from penstock.framing import sse
from penstock.integrations import Exchange, RewriteOptions, prepare

__all__ = ["PenstockCallback", "callback", "prompt_callback"]

OPEN_REQUESTS: Final = 10_000
"""How many requests with their tools in the prompt may be open; the oldest are forgotten."""

_APIS: Final = {
    "completion": "openai-chat",
    "acompletion": "openai-chat",
    "anthropic_messages": "anthropic",
    "aanthropic_messages": "anthropic",
}
_REQUEST_FIELDS: Final = (
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_tokens",
    "n",
    "stop",
    "stop_sequences",
)


class PenstockCallback(CustomLogger):  # type: ignore[misc]
    """Rewrites the responses of the proxy; the options are those of `RewriteOptions`."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = RewriteOptions(**options)
        self._prompted: OrderedDict[str, Exchange] = OrderedDict()

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        """Put the tools of a request into its prompt, if that is the mode."""
        del user_api_key_dict, cache
        id_ = data.get("litellm_call_id")
        api = _APIS.get(call_type)
        if self._options.tools != "prompt" or not id_ or not api or not data.get("tools"):
            return data
        exchange = self._prepare(api, data)
        if exchange is None:
            return data
        self._prompted[id_] = exchange
        if len(self._prompted) > OPEN_REQUESTS:
            self._prompted.popitem(last=False)
        kept = {key: value for key, value in data.items() if key not in _REQUEST_FIELDS}
        return {**kept, **_json.decode(exchange.body)}

    async def async_post_call_success_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, response: Any
    ) -> Any:
        """Rewrite a whole response of the Chat or the Messages endpoint."""
        del user_api_key_dict
        is_chat = isinstance(response, ModelResponse)
        if not is_chat and not isinstance(response, dict):
            return response
        exchange = self._find("openai-chat" if is_chat else "anthropic", data)
        if exchange is None:
            return response
        body = response.model_dump_json().encode() if is_chat else _json.encode_wire(response)
        written = exchange.rewrite(body)
        if written == body:
            return response
        found = _json.decode(written)
        return ModelResponse(**found) if is_chat else found

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        """Rewrite a stream: chunks of the Chat endpoint, or bytes of the Messages endpoint."""
        del user_api_key_dict
        rewriter: _ChunkRewriter | None = None
        is_first = True
        async with aclosing(_as_generator(response)) as chunks:
            async for chunk in chunks:
                if is_first:
                    is_first = False
                    rewriter = self._start(chunk, request_data)
                for one in [chunk] if rewriter is None else rewriter.feed(chunk):
                    yield one
        for one in [] if rewriter is None else rewriter.finish():
            yield one

    def _start(self, chunk: Any, data: Mapping[str, Any]) -> _ChunkRewriter | None:
        """Return the rewriter for a stream that begins with *chunk*, if it is to be rewritten."""
        is_bytes = isinstance(chunk, bytes)
        if not is_bytes and not isinstance(chunk, ModelResponseStream):
            return None
        exchange = self._find("anthropic" if is_bytes else "openai-chat", data)
        return None if exchange is None else _ChunkRewriter(exchange, is_bytes=is_bytes)

    def _prepare(self, api: str, data: Mapping[str, Any]) -> Exchange | None:
        body = {key: data[key] for key in _REQUEST_FIELDS if data.get(key) is not None}
        return prepare(api, _json.encode_wire(body), self._options)

    def _find(self, api: str, data: Mapping[str, Any]) -> Exchange | None:
        """Return the exchange of a request: the one its prompt was made by, or a new one."""
        prompted = self._prompted.pop(data.get("litellm_call_id", ""), None)
        if prompted is not None or self._options.tools == "prompt":
            return prompted
        return self._prepare(api, data) if data.get("tools") else None


async def _as_generator(response: Any) -> AsyncGenerator[Any, None]:
    async for chunk in response:
        yield chunk


class _ChunkRewriter:
    """Rewrites the chunks of one stream: bytes, or objects of the Chat endpoint."""

    def __init__(self, exchange: Exchange, *, is_bytes: bool) -> None:
        self._exchange = exchange
        self._is_bytes = is_bytes
        self._frames = sse.Decoder()

    def feed(self, chunk: Any) -> list[Any]:
        """Return the chunks to send for *chunk*."""
        if self._is_bytes:
            return self._read(self._exchange.feed(chunk))
        sent = b"data: " + chunk.model_dump_json(exclude_none=True).encode() + b"\n\n"
        written = self._exchange.feed(sent)
        return [chunk] if written == sent else self._read(written)

    def finish(self) -> list[Any]:
        """Return the chunks at the end of the stream."""
        if self._is_bytes:
            return self._read(self._exchange.finish())
        return self._read(self._exchange.feed(b"data: [DONE]\n\n") + self._exchange.finish())

    def _read(self, data: bytes) -> list[Any]:
        if self._is_bytes or not data:
            return [data] if data else []
        found = [frame.data for frame in self._frames.feed(data)]
        return [ModelResponseStream(**_json.decode(one)) for one in found if one != "[DONE]"]


callback: Final = PenstockCallback()
prompt_callback: Final = PenstockCallback(tools="prompt")
