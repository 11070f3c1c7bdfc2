"""A wrapper for models of pydantic-ai: calls printed as text become tool calls.

    from penstock.integrations.pydantic_ai import PenstockWrapperModel

    agent = Agent(PenstockWrapperModel("bedrock:…"))

Use it for models that do not send their requests with httpx, such as those of Bedrock. For all
others, the HTTP client of `penstock.integrations.httpx` is enough; it can also put the tools into
the prompt.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic_ai.messages import (
    ModelResponse,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel

from penstock.integrations import (
    DeltaRewriter,
    Exchange,
    RewriteOptions,
    prepare_chat,
    rewrite_message,
)

__all__ = ["PenstockWrapperModel"]


class PenstockWrapperModel(WrapperModel):  # type: ignore[misc]
    """Rewrites the responses of *wrapped*; the options are those of `RewriteOptions`."""

    def __init__(self, wrapped: Any, **options: Any) -> None:
        super().__init__(wrapped)
        self._rewriting = RewriteOptions(**options)

    async def request(self, messages: Any, model_settings: Any, parameters: Any) -> ModelResponse:
        """Return a whole response."""
        response = await super().request(messages, model_settings, parameters)
        parts: list[Any] = []
        for part in response.parts:
            exchange = self._prepare(parameters) if isinstance(part, TextPart) else None
            parts += [part] if exchange is None else _rewrite_part(exchange, part, response)
        return replace(response, parts=parts)

    @asynccontextmanager
    async def request_stream(
        self, messages: Any, model_settings: Any, parameters: Any, run_context: Any = None
    ) -> AsyncGenerator[StreamedResponse, None]:
        """Return the events of a response."""
        async with super().request_stream(
            messages, model_settings, parameters, run_context
        ) as stream:
            exchange = self._prepare(parameters)
            if exchange is None:
                yield stream
            else:
                yield RewrittenResponse(parameters, stream, DeltaRewriter(exchange))

    def _prepare(self, parameters: Any) -> Exchange | None:
        tools = [*parameters.function_tools, *parameters.output_tools]
        written = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description or "",
                    "parameters": tool.parameters_json_schema,
                },
            }
            for tool in tools
        ]
        return prepare_chat([], written, self._rewriting)[1]


def _rewrite_part(exchange: Exchange, part: TextPart, response: ModelResponse) -> list[Any]:
    reason = "length" if response.finish_reason == "length" else "stop"
    found = rewrite_message(exchange, {"role": "assistant", "content": part.content}, reason)
    parts: list[Any] = []
    if found.get("reasoning_content"):
        parts.append(ThinkingPart(found["reasoning_content"]))
    if found.get("content"):
        parts.append(replace(part, content=found["content"]))
    for call in found.get("tool_calls") or ():
        function = call["function"]
        parts.append(ToolCallPart(function["name"], function["arguments"], call["id"]))
    return parts


@dataclass
class RewrittenResponse(StreamedResponse):  # type: ignore[misc]
    """The events of *inner* with printed calls as calls."""

    inner: StreamedResponse
    deltas: DeltaRewriter

    async def _get_event_iterator(self) -> AsyncIterator[Any]:
        async for event in self.inner:
            text = _find_text(event)
            if text:
                for one in self._write(self.deltas.feed(text)):
                    yield one
            elif isinstance(event, PartEndEvent) and not isinstance(event.part, TextPart):
                # Native calls and reasoning come whole.
                yield self._parts_manager.handle_part(
                    vendor_part_id=("inner", event.index), part=event.part
                )
            self._usage = self.inner.usage
        self.finish_reason = self.inner.finish_reason
        reason = "length" if self.finish_reason == "length" else "stop"
        for one in self._write(self.deltas.finish(reason)):
            yield one

    async def close_stream(self) -> None:
        """Close the stream of the wrapped model."""
        await self.inner.close_stream()

    @property
    def model_name(self) -> str:
        """The name of the wrapped model."""
        return str(self.inner.model_name)

    @property
    def provider_name(self) -> str | None:
        """The provider of the wrapped model."""
        return None if self.inner.provider_name is None else str(self.inner.provider_name)

    @property
    def provider_url(self) -> str | None:
        """The address of the wrapped model."""
        return None if self.inner.provider_url is None else str(self.inner.provider_url)

    @property
    def timestamp(self) -> datetime:
        """The time of the response."""
        found: datetime = self.inner.timestamp
        return found

    def _write(self, deltas: list[dict[str, Any]]) -> list[Any]:
        manager, events = self._parts_manager, []
        for delta in deltas:
            if delta.get("reasoning_content"):
                events += manager.handle_thinking_delta(
                    vendor_part_id="thinking", content=delta["reasoning_content"]
                )
            if delta.get("content"):
                events += manager.handle_text_delta(vendor_part_id="text", content=delta["content"])
            for call in delta.get("tool_calls") or ():
                function = call["function"]
                made = manager.handle_tool_call_delta(
                    vendor_part_id=("call", call["index"]),
                    tool_name=function.get("name"),
                    args=function.get("arguments"),
                    tool_call_id=call.get("id"),
                )
                if made is not None:
                    events.append(made)
        return events


def _find_text(event: Any) -> str | None:
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return str(event.part.content)
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return str(event.delta.content_delta)
    return None
