"""A chat model and an output parser for LangChain: calls printed as text become tool calls.

    from penstock.integrations.langchain import PenstockChatModel

    model = PenstockChatModel(model=ChatOllama(model="my-model"), tools_in="prompt")

Use it for chat models that do not send their requests with httpx. For all others, the HTTP client
of `penstock.integrations.httpx` is enough.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    convert_to_messages,
    convert_to_openai_messages,
)
from langchain_core.output_parsers import BaseGenerationOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult, Generation
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool

from penstock import _json
from penstock.integrations import (
    DeltaRewriter,
    Exchange,
    RewriteOptions,
    prepare_chat,
    rewrite_message,
)

__all__ = ["PenstockChatModel", "PenstockOutputParser"]

# The finish reasons of OpenAI, Anthropic and Gemini for a response that the token limit cut.
_LIMITS = ("length", "max_tokens", "MAX_TOKENS")


class PenstockChatModel(BaseChatModel):  # type: ignore[misc]
    """A chat model that rewrites the responses of *model*.

    * *tools_in*: ``request`` binds tools to *model* as it does itself; ``prompt`` describes them in
      the system prompt, for models without tools.
    * *options* are other options of `RewriteOptions`, such as ``{"format": "hermes"}``.
    """

    model: BaseChatModel
    tools_in: Literal["request", "prompt"] = "request"
    options: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies it

    @property
    def _llm_type(self) -> str:
        return f"penstock-{self.model._llm_type}"  # noqa: SLF001 - LangChain's interface

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Runnable[Any, Any]:
        """Return the model with *tools*."""
        written = [convert_to_openai_tool(tool) for tool in tools]
        native: dict[str, Any] = {}
        if self.tools_in == "request":
            native = dict(self.model.bind_tools(tools, **options).kwargs)
        return self.bind(penstock_tools=written, **native)

    def _should_stream(self, **given: Any) -> bool:
        """Return whether *model* streams: if it does not, LangChain requests whole responses."""
        inner = self.model._should_stream(**given)  # noqa: SLF001 - LangChain's interface
        return bool(inner and super()._should_stream(**given))

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        sent, exchange = self._prepare(messages, kwargs)
        found = self.model._generate(sent, stop=stop, run_manager=run_manager, **kwargs)  # noqa: SLF001
        return _rewrite_result(found, exchange)

    async def _agenerate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        sent, exchange = self._prepare(messages, kwargs)
        found = await self.model._agenerate(sent, stop=stop, run_manager=run_manager, **kwargs)  # noqa: SLF001
        return _rewrite_result(found, exchange)

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        sent, exchange = self._prepare(messages, kwargs)
        stream = _StreamRewriter(exchange)
        for chunk in self.model._stream(sent, stop=stop, **kwargs):  # noqa: SLF001
            for one in stream.feed(chunk):
                if run_manager is not None:
                    run_manager.on_llm_new_token(one.text, chunk=one)
                yield one
        for one in stream.finish():
            if run_manager is not None:
                run_manager.on_llm_new_token(one.text, chunk=one)
            yield one

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        sent, exchange = self._prepare(messages, kwargs)
        stream = _StreamRewriter(exchange)
        async for chunk in self.model._astream(sent, stop=stop, **kwargs):  # noqa: SLF001
            for one in stream.feed(chunk):
                if run_manager is not None:
                    await run_manager.on_llm_new_token(one.text, chunk=one)
                yield one
        for one in stream.finish():
            if run_manager is not None:
                await run_manager.on_llm_new_token(one.text, chunk=one)
            yield one

    def _prepare(
        self, messages: list[BaseMessage], kwargs: dict[str, Any]
    ) -> tuple[list[BaseMessage], Exchange | None]:
        """Return the messages to send, and the exchange; take our own option out of *kwargs*."""
        tools = kwargs.pop("penstock_tools", [])
        mode: Literal["auto", "prompt"] = "prompt" if self.tools_in == "prompt" else "auto"
        options = RewriteOptions(tools=mode, **self.options)
        if not tools:
            return messages, None
        written: Any = convert_to_openai_messages(messages)
        sent, exchange = prepare_chat(written, tools, options)
        return (messages if mode == "auto" else convert_to_messages(sent)), exchange


class PenstockOutputParser(BaseGenerationOutputParser[AIMessage]):  # type: ignore[misc]
    """Makes a message with tool calls of a model's text: ``model | PenstockOutputParser(tools=…)``.

    *tools* are functions, schemas or tools of LangChain; *options* are those of `RewriteOptions`.
    """

    tools: list[Any]
    options: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies it

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> AIMessage:
        """Return the message; a *partial* one is parsed as far as it goes."""
        del partial
        tools = [convert_to_openai_tool(tool) for tool in self.tools]
        first = result[0]
        # Models of LangChain's older interface return text without a message.
        message = first.message if isinstance(first, ChatGeneration) else AIMessage(first.text)
        _, exchange = prepare_chat([], tools, RewriteOptions(**self.options))
        found: AIMessage = _rewrite_message(message, exchange)
        return found


def _rewrite_result(result: ChatResult, exchange: Exchange | None) -> ChatResult:
    for one in result.generations:
        one.message = _rewrite_message(one.message, exchange)
        one.text = str(one.message.text)
    return result


def _rewrite_message(message: Any, exchange: Exchange | None) -> Any:
    """Return *message* with its printed calls as calls; one that has calls is not changed."""
    text = str(message.text)
    if exchange is None or not text or message.tool_calls:
        return message
    reason = _find_reason(message)
    found = rewrite_message(exchange, {"role": "assistant", "content": text}, reason)
    calls = [
        {
            "type": "tool_call",
            "id": one["id"],
            "name": one["function"]["name"],
            "args": _json.decode(one["function"]["arguments"]),
        }
        for one in found.get("tool_calls") or ()
    ]
    reasoning = found.get("reasoning_content")
    more = {"reasoning_content": reasoning} if reasoning else {}
    return message.model_copy(
        update={
            "content": found.get("content") or "",
            "tool_calls": calls,
            "additional_kwargs": message.additional_kwargs | more,
        }
    )


def _find_reason(message: Any) -> str:
    metadata = message.response_metadata
    given = metadata.get("finish_reason") or metadata.get("done_reason")
    return "length" if (given or metadata.get("stop_reason")) in _LIMITS else "stop"


class _StreamRewriter:
    """Rewrites the chunks of one stream."""

    def __init__(self, exchange: Exchange | None) -> None:
        self._deltas = None if exchange is None else DeltaRewriter(exchange)
        self._reason = "stop"

    def feed(self, chunk: ChatGenerationChunk) -> list[ChatGenerationChunk]:
        """Return the chunks to emit for *chunk*."""
        message = chunk.message
        if self._deltas is None:
            return [chunk]
        if _find_reason(message) == "length":
            self._reason = "length"
        text = str(message.text)
        if not text:
            return [chunk]
        made = [_make_chunk(delta) for delta in self._deltas.feed(text)]
        # What the chunk has beside its text: calls, usage, metadata.
        rest = ChatGenerationChunk(message=message.model_copy(update={"content": ""}))
        return [one for one in made if one is not None] + [rest]

    def finish(self) -> list[ChatGenerationChunk]:
        """Return the chunks at the end."""
        if self._deltas is None:
            return []
        made = [_make_chunk(delta) for delta in self._deltas.finish(self._reason)]
        return [one for one in made if one is not None]


def _make_chunk(delta: dict[str, Any]) -> ChatGenerationChunk | None:
    """Return the chunk of a Chat *delta*, or None if it has nothing."""
    calls = [
        {
            "type": "tool_call_chunk",
            "index": one["index"],
            "id": one.get("id"),
            "name": one["function"].get("name"),
            "args": one["function"].get("arguments"),
        }
        for one in delta.get("tool_calls") or ()
    ]
    content, reasoning = delta.get("content") or "", delta.get("reasoning_content")
    if not calls and not content and not reasoning:
        return None
    more = {"reasoning_content": reasoning} if reasoning else {}
    message = AIMessageChunk(content=content, tool_call_chunks=calls, additional_kwargs=more)
    return ChatGenerationChunk(message=message)
