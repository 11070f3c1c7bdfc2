"""A conversation as UI messages of the AI SDK: what a page shows after it was loaded again.

The messages after a prompt, up to the next one, are one message of the page, as they were when they
streamed: a step for each response, with the outputs of its calls. `read_ui_messages` reads them
back as the same conversation.

A call without a result either waits for a decision, and then the page shows its buttons, or is
still running, or was not run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from penstock.agent.agent import Agent
from penstock.agent.ai_sdk_stream import (
    NAMESPACE,
    NOT_RUN,
    OPAQUE,
    REMINDER,
    Chunk,
    convert_value,
)
from penstock.agent.tool_calls import INTERRUPTED
from penstock.apis.history import content_text
from penstock.messages import (
    AssistantMessage,
    Content,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    sum_usage,
)
from penstock.request import Image, Message, SystemMessage, UserContent, UserMessage
from penstock.views.ai_sdk import convert_usage

UIMessageDict = dict[str, Any]
"""One message of `useChat` as JSON."""

STEP: Final[Chunk] = {"type": "step-start"}


def agent_ui_messages(agent: Agent) -> list[UIMessageDict]:
    """Return the conversation of *agent* as UI messages; it may be busy."""
    waiting = [call.id for call in agent.deferred]
    unknown = {call.id: INTERRUPTED for call in agent.interrupted}
    return write_ui_messages(agent.messages, waiting=waiting, failed=unknown, is_running=agent.busy)


def write_ui_messages(
    messages: Iterable[Message],
    *,
    waiting: Collection[str] = (),
    failed: Mapping[str, str] | None = None,
    is_running: bool = False,
) -> list[UIMessageDict]:
    """Return *messages* as UI messages.

    The calls with the ids in *waiting* wait for a decision, those in *failed* have the given error
    text. With *is_running*, the last calls without a result are in progress; otherwise they were
    not run.
    """
    listed = list(messages)
    results = _find_results(listed)
    last = max(
        (at for at, one in enumerate(listed) if isinstance(one, AssistantMessage)), default=-1
    )
    last_calls = _Unanswered(waiting, failed or {}, is_running)
    written: list[UIMessageDict] = []
    response: _Response | None = None
    for at, message in enumerate(listed):
        if isinstance(message, AssistantMessage) or (
            isinstance(message, UserMessage) and message.source
        ):
            response = response or _Response()
            unanswered = last_calls if at == last else _Unanswered()
            response.add(message, _CallStates(results.get(at, {}), unanswered))
        elif not isinstance(message, ToolResult):
            written += [response.write(len(written))] if response is not None else []
            response = None
            written.append(_write_input(message, len(written)))
    return [*written, response.write(len(written))] if response is not None else written


def _write_input(message: UserMessage | SystemMessage, number: int) -> UIMessageDict:
    if isinstance(message, SystemMessage):
        role, parts = "system", [{"type": "text", "text": message.text}]
    else:
        role, parts = "user", [_write_user_block(block) for block in message.content]
    return {"id": f"message-{number}", "role": role, "parts": parts}


def _write_user_block(block: UserContent) -> Chunk:
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image(media_type=kind, data=data, url=url):
            address = f"data:{kind};base64,{data}" if data else url
            return {"type": "file", "mediaType": kind or "image/*", "url": address}
        case _:
            return {"type": OPAQUE, "data": {"provider": block.provider, "data": block.data}}


def _find_results(messages: list[Message]) -> dict[int, dict[str, ToolResult]]:
    """Return the results of each response, by its position: ids may be used again."""
    found: dict[int, dict[str, ToolResult]] = {}
    response = -1
    for at, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            response = at
        elif isinstance(message, ToolResult):
            found.setdefault(response, {})[message.id] = message
    return found


class _Unanswered(Struct, frozen=True):
    """What happens to calls without a result: see `write_ui_messages`."""

    waiting: Collection[str] = ()
    failed: Mapping[str, str] = {}
    is_running: bool = False


class _CallStates:
    """What became of the calls of a response."""

    def __init__(self, results: Mapping[str, ToolResult], unanswered: _Unanswered) -> None:
        self._results = results
        self._unanswered = unanswered

    def write(self, call: ToolCall) -> Chunk:
        """Return the fields of the part of *call* that depend on its result."""
        result, unanswered = self._results.get(call.id), self._unanswered
        fields: Chunk
        if not call.complete:
            reason = NOT_RUN if result is None else content_text(result.content)
            fields = {"state": "output-error", "rawInput": call.arguments, "errorText": reason}
        elif result is not None and result.is_error:
            fields = {"state": "output-error", "errorText": content_text(result.content)}
        elif result is not None:
            fields = {"state": "output-available", "output": convert_value(result.content)}
        elif call.id in unanswered.waiting:
            fields = {"state": "approval-requested", "approval": {"id": f"approval-{call.id}"}}
        elif call.id in unanswered.failed:
            fields = {"state": "output-error", "errorText": unanswered.failed[call.id]}
        elif unanswered.is_running:
            fields = {"state": "input-available"}
        else:
            fields = {"state": "output-error", "errorText": NOT_RUN}
        return fields if "rawInput" in fields else {"input": call.arguments, **fields}


class _Response:
    """One message of the page that is being written: steps, and reminders between them."""

    def __init__(self) -> None:
        self._parts: list[Chunk] = []
        self._model = ""
        self._usage = Usage()

    def add(self, message: AssistantMessage | UserMessage, states: _CallStates) -> None:
        """Add a response or a reminder."""
        if isinstance(message, UserMessage):
            data = {"source": message.source, "content": msgspec.to_builtins(message.content)}
            self._parts.append({"type": REMINDER, "data": data})
            return
        self._model = message.model or self._model
        self._usage = sum_usage((self._usage, message.usage))
        self._parts += [STEP, *(_write_block(block, states) for block in message.content)]

    def write(self, number: int) -> UIMessageDict:
        """Return the message, which is the one with this *number*."""
        metadata = {"model": self._model, "usage": convert_usage(self._usage)}
        return {
            "id": f"message-{number}",
            "role": "assistant",
            "metadata": metadata,
            "parts": self._parts,
        }


def _write_block(block: Content, states: _CallStates) -> Chunk:
    match block:
        case Text() | Thinking():
            kind = "text" if isinstance(block, Text) else "reasoning"
            part: Chunk = {"type": kind, "text": block.text, "state": "done"}
            return _add_signature(part, "providerMetadata", block.signature)
        case ToolCall():
            part = {"type": f"tool-{block.name}", "toolCallId": block.id, **states.write(block)}
            return _add_signature(part, "callProviderMetadata", block.signature)
        case _:
            return {"type": OPAQUE, "data": {"provider": block.provider, "data": block.data}}


def _add_signature(part: Chunk, key: str, signature: str) -> Chunk:
    return part | {key: {NAMESPACE: {"signature": signature}}} if signature else part
