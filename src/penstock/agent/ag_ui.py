"""An agent's run as events of AG-UI, the protocol between agents and user interfaces (1.0).

::

    RUN_STARTED [STATE_SNAPSHOT] step* ( RUN_FINISHED | RUN_ERROR )
    step := STEP_STARTED ( text | reasoning | call | result | STATE_DELTA | CUSTOM )* STEP_FINISHED

A step is a response with its calls. Calls whose decision was deferred are the interrupts of
RUN_FINISHED; the next request answers them in its `resume`. What the protocol has no event for is
CUSTOM, with a name that begins with ``penstock.``.

As for the AI SDK, a page can send anything: only the last message and the answers to interrupts are
read here, and the conversation stays with the agent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from itertools import count
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from penstock import _json
from penstock.agent import events as agent_events
from penstock.agent.ai_sdk_stream import ErrorText
from penstock.agent.approval import Allow, Decision, Deny, Edit
from penstock.agent.run import AgentRun
from penstock.agent.tools.results import make_content
from penstock.apis.history import content_text
from penstock.errors import UsageError
from penstock.events import (
    Event,
    Part,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.framing import sse
from penstock.messages import (
    AssistantMessage,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    sum_usage,
)
from penstock.request import Image, Message, SystemMessage, UserContent, UserMessage
from penstock.views.ai_sdk import convert_usage

AGUIEvent = dict[str, Any]
"""One event: a JSON object with a `type`."""

VERSION: Final = "1.0"
"""The version of the protocol."""

APPROVAL: Final = "tool_approval"
"""The `reason` of an interrupt that asks whether a call may run."""

APPROVAL_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string"},
        "arguments": {"type": "object"},
    },
    "required": ["approved"],
}
"""What answers such an interrupt; *arguments* replace those of the model."""

AG_UI_HEADERS: Final = {
    "content-type": sse.CONTENT_TYPE,
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # otherwise nginx buffers the stream until it ends
}
"""The headers of a response whose body is a stream of events."""


# --- requests ---


class ResumeEntry(Struct, rename="camel"):
    """The answer to an interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class RunInput(Struct, rename="camel"):
    """What a client sends to start a run; fields that are not used here are ignored."""

    thread_id: str
    run_id: str
    messages: list[dict[str, Any]]
    state: Any = None
    resume: list[ResumeEntry] | None = None

    @property
    def prompt(self) -> UserMessage:
        """The last message; raises `UsageError` if it is not a message of the user."""
        last = self.messages[-1] if self.messages else {}
        if last.get("role") != "user":
            raise UsageError("the last message is not a message of the user")
        content = last.get("content")
        parts = [content] if isinstance(content, str) else content
        if not isinstance(parts, list) or not any(parts):
            raise UsageError("the message of the user is empty")
        return UserMessage([_read_part(part) for part in parts])

    @property
    def decisions(self) -> dict[str, Decision]:
        """The decisions about calls by id; raises `UsageError` for an invalid answer."""
        return {one.interrupt_id: _read_decision(one) for one in self.resume or ()}


def read_run_input(body: object) -> RunInput:
    """Read the body of a request; raise `UsageError` if it is not the input of a run."""
    try:
        return msgspec.convert(body, RunInput)
    except msgspec.ValidationError as exc:
        raise UsageError(f"not the input of an AG-UI run: {exc}") from exc


def _read_part(part: object) -> UserContent:
    match part:
        case str() as text:
            return Text(text)
        case {"type": "text", "text": str() as text}:
            return Text(text)
        case {"type": "image", "source": {"type": "url", "value": str() as url}}:
            if url.startswith(("http://", "https://")):
                return Image.at(url)
        case {"type": "image", "source": {"type": "data", "value": str() as data, **source}}:
            return Image(media_type=str(source.get("mimeType") or "image/png"), data=data)
        case _:
            pass
    raise UsageError("a part of a message must be text, or an image with its data or a web URL")


def _read_decision(entry: ResumeEntry) -> Decision:
    payload = entry.payload
    if entry.status == "cancelled":
        return Deny()
    answer = payload if isinstance(payload, dict) else {"approved": payload}
    approved, reason = answer.get("approved"), answer.get("reason")
    if not isinstance(approved, bool):
        raise UsageError(f"the answer to {entry.interrupt_id!r} must say whether it is `approved`")
    if not approved:
        return Deny(reason if isinstance(reason, str) else "")
    arguments = answer.get("arguments")
    return Edit(arguments) if isinstance(arguments, dict) else Allow()


# --- events ---


def encode_event(event: AGUIEvent) -> bytes:
    """Encode *event* as a server-sent event; raise `UsageError` if it has no JSON form."""
    return sse.encode(_json.encode_wire(event))


async def ag_ui_stream(run: AgentRun, view: AGUIStream) -> AsyncGenerator[bytes, None]:
    """Yield *run* as the body of a response with `AG_UI_HEADERS`.

    Closing the generator before its end, as when the client disconnects, aborts the run.
    """
    async with run:
        async for event in run:
            if events := view.feed(event):
                yield b"".join(map(encode_event, events))
    if rest := view.finish():
        yield b"".join(map(encode_event, rest))


class _OpenBlock(Struct):
    """An open block of a response: its kind, its id, and whether it had a delta."""

    kind: Literal["text", "reasoning", "call"]
    id: str
    has_delta: bool = False


class AGUIStream:
    """Converts one run: `feed` takes its events and returns those of AG-UI; `finish` ends it.

    *state* returns the application's state, a JSON value: it is sent at the start, and what has
    changed after each tool. *error_text* returns what users see of an error.
    """

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        *,
        state: Callable[[], Any] | None = None,
        error_text: ErrorText = lambda error: error.message,
    ) -> None:
        self.ended = False
        """Whether the last event was returned."""
        self._thread = thread_id
        self._run = run_id
        self._read_state = state
        self._error_text = error_text
        self._state: Any = None
        self._has_started = False
        self._responses = 0
        self._texts = 0
        self._has_response = False
        self._is_open = False
        self._blocks: dict[int, _OpenBlock] = {}
        self._calls: set[str] = set()
        self._usage = Usage()
        self._model = ""

    def feed(self, event: agent_events.AgentEvent) -> list[AGUIEvent]:
        """Return the events of *event*; raise `UsageError` for one after the end."""
        if self.ended:
            raise UsageError(f"the run has ended; got `{event.type}` after its last event")
        return [*self._start(), *self._convert(event)]

    def finish(self) -> list[AGUIEvent]:
        """End a stream whose run was not read to its end; otherwise there is nothing left."""
        if self.ended:
            return []
        return [*self._start(), *self._close_step(), self._finish({"type": "cancelled"})]

    def _start(self) -> list[AGUIEvent]:
        if self._has_started:
            return []
        self._has_started = True
        started = {"threadId": self._thread, "runId": self._run, "protocolVersion": VERSION}
        events: list[AGUIEvent] = [{"type": "RUN_STARTED", **started}]
        if self._read_state is not None:
            self._state = self._take_state()
            events.append({"type": "STATE_SNAPSHOT", "snapshot": self._state})
        return events

    def _take_state(self) -> Any:
        """Return a copy of the state, which the application may change meanwhile."""
        return _json.decode(_json.encode(self._read_state() if self._read_state else None))

    def _convert(self, event: agent_events.AgentEvent) -> Iterable[AGUIEvent]:
        match event:
            case agent_events.MessageUpdated():
                return self._convert_block(event.event)
            case agent_events.MessageStarted(AssistantMessage()):
                return self._open_step()
            case agent_events.MessageEnded():
                return self._end_message(event)
            case agent_events.ToolEnded():
                return [*self._end_call(event), *self._compare_state()]
            case agent_events.ToolUpdated():
                partial = msgspec.to_builtins(make_content(event.partial))
                return [_custom("tool_update", {"toolCallId": event.id, "partial": partial})]
            case agent_events.TurnStarted():
                return self._close_step()
            case agent_events.AgentEnded():
                return self._end(event)
            case (
                agent_events.AgentStarted()
                | agent_events.TurnEnded()
                | agent_events.MessageStarted()
                | agent_events.ToolStarted()
            ):
                return []
            case agent_events.OutputUpdated(changes):
                return [_custom("output_update", {"changes": msgspec.to_builtins(changes)})]
            case _:
                value = msgspec.to_builtins(event)
                return [_custom(value.pop("type"), value)]

    # --- steps and messages ---

    def _open_step(self) -> list[AGUIEvent]:
        closing = self._close_step()
        self._responses += 1
        self._texts = 0
        self._is_open = True
        return [*closing, {"type": "STEP_STARTED", "stepName": self._step}]

    def _close_step(self) -> list[AGUIEvent]:
        """Close what is open; calls that were not run stay without a result."""
        if not self._is_open:
            return []
        self._is_open = False
        ends = [end for block in self._blocks.values() for end in _close_block(block)]
        self._blocks.clear()
        return [*ends, {"type": "STEP_FINISHED", "stepName": self._step}]

    @property
    def _step(self) -> str:
        return f"response-{self._responses}"

    @property
    def _message_id(self) -> str:
        return f"{self._run}-{self._responses}"

    def _end_message(self, event: agent_events.MessageEnded) -> list[AGUIEvent]:
        message = event.message
        if isinstance(message, AssistantMessage):
            self._has_response = True
            self._model = message.model
            self._usage = sum_usage((self._usage, message.usage))
            return [] if event.kept else [_custom("dropped", {"messageId": self._message_id})]
        if not isinstance(message, UserMessage) or not (self._has_response or message.source):
            return []  # a result, or the prompt, which the client has sent
        content = msgspec.to_builtins(message.content)
        return [_custom("message", {"source": message.source or "user", "content": content})]

    def _convert_block(self, event: Event) -> Iterable[AGUIEvent]:
        match event:
            case TextStart() | ThinkingStart():
                return self._open_text(event)
            case ToolCallStart():
                self._blocks[event.index] = _OpenBlock("call", event.id)
                self._calls.add(event.id)
                call = {"toolCallId": event.id, "toolCallName": event.name}
                return [{"type": "TOOL_CALL_START", **call, "parentMessageId": self._message_id}]
            case TextDelta() | ThinkingDelta() | ToolCallDelta():
                return self._add_delta(event)
            case TextEnd() | ThinkingEnd() | ToolCallEnd():
                return self._end_block(event)
            case Part(part=part):
                return [_custom("opaque", {"provider": part.provider, "data": part.data})]
        return []

    def _open_text(self, event: TextStart | ThinkingStart) -> list[AGUIEvent]:
        if isinstance(event, ThinkingStart):
            block = _OpenBlock("reasoning", f"{self._message_id}-reasoning-{event.index}")
            self._blocks[event.index] = block
            return [
                # AG-UI has two levels: a phase of reasoning, and messages in it.
                {"type": "REASONING_START", "messageId": block.id},
                {"type": "REASONING_MESSAGE_START", "messageId": block.id, "role": "reasoning"},
            ]
        # The calls of a response belong to the message with its first text.
        self._texts += 1
        suffix = f"-text-{self._texts}" if self._texts > 1 else ""
        block = _OpenBlock("text", self._message_id + suffix)
        self._blocks[event.index] = block
        return [{"type": "TEXT_MESSAGE_START", "messageId": block.id, "role": "assistant"}]

    def _add_delta(self, event: TextDelta | ThinkingDelta | ToolCallDelta) -> list[AGUIEvent]:
        block = self._find(event)
        if isinstance(event, ToolCallDelta):
            block.has_delta = True
            delta = {"toolCallId": block.id, "delta": event.arguments}
            # AG-UI's schema refuses an empty delta of text; an empty one of arguments says nothing
            # either.
            return [{"type": "TOOL_CALL_ARGS", **delta}] if event.arguments else []
        kind = "TEXT_MESSAGE" if block.kind == "text" else "REASONING_MESSAGE"
        content = {"type": f"{kind}_CONTENT", "messageId": block.id, "delta": event.text}
        return [content] if event.text else []

    def _end_block(self, event: TextEnd | ThinkingEnd | ToolCallEnd) -> list[AGUIEvent]:
        block = self._find(event)
        del self._blocks[event.index]
        before: list[AGUIEvent] = []
        if isinstance(event, ToolCallEnd):
            if not block.has_delta and event.call.arguments:
                arguments = _json.encode_wire(event.call.arguments).decode()
                before = [{"type": "TOOL_CALL_ARGS", "toolCallId": block.id, "delta": arguments}]
            return [*before, *_close_block(block)]
        if block.kind == "reasoning" and event.signature:
            # The client sends the value back with its message, so that a provider accepts the
            # reasoning again.
            signed = {"subtype": "message", "entityId": block.id, "encryptedValue": event.signature}
            before = [{"type": "REASONING_ENCRYPTED_VALUE", **signed}]
        return [*before, *_close_block(block)]

    def _find(
        self, event: TextDelta | ThinkingDelta | ToolCallDelta | TextEnd | ThinkingEnd | ToolCallEnd
    ) -> _OpenBlock:
        block = self._blocks.get(event.index)
        if block is None:
            raise UsageError(f"`{event.type}` for block {event.index}, which is not open")
        return block

    def _end_call(self, event: agent_events.ToolEnded) -> list[AGUIEvent]:
        result: AGUIEvent = {
            "type": "TOOL_CALL_RESULT",
            "messageId": f"{self._message_id}-result-{event.id}",
            "toolCallId": event.id,
            "content": _write_content(event.result.content),
            "role": "tool",
        }
        if event.result.is_error:
            result["metadata"] = {"penstock": {"isError": True}}
        return [result]

    # --- state ---

    def _compare_state(self) -> list[AGUIEvent]:
        if self._read_state is None:
            return []
        state = self._take_state()
        delta = list(_compare(self._state, state, ""))
        self._state = state
        return [{"type": "STATE_DELTA", "delta": delta}] if delta else []

    # --- the end ---

    def _end(self, event: agent_events.AgentEnded) -> list[AGUIEvent]:
        closing = self._close_step()
        error = event.error
        # An abort with a type is a limit that was reached, and the user has to see why.
        if error is not None and (error.kind != "aborted" or error.type):
            self.ended = True
            failed = {"message": self._error_text(error), "code": error.type or error.kind}
            return [*closing, {"type": "RUN_ERROR", **failed, **self._write_usage()}]
        if error is not None:
            return [*closing, self._finish({"type": "cancelled"})]
        if event.deferred:
            interrupts = [_make_interrupt(call) for call in event.deferred]
            return [*closing, self._finish({"type": "interrupt", "interrupts": interrupts})]
        return [*closing, self._finish({"type": "success"})]

    def _finish(self, outcome: AGUIEvent) -> AGUIEvent:
        self.ended = True
        ids = {"threadId": self._thread, "runId": self._run}
        return {"type": "RUN_FINISHED", **ids, "outcome": outcome, **self._write_usage()}

    def _write_usage(self) -> AGUIEvent:
        if not self._has_response:
            return {}
        counts = convert_usage(self._usage)
        counts["totalTokens"] = counts["inputTokens"] + counts["outputTokens"]
        counts["cacheWriteInputTokens"] = self._usage.cache_write
        return {"usage": [{"model": self._model, **counts}]}


def _custom(name: str, value: Any) -> AGUIEvent:
    return {"type": "CUSTOM", "name": f"penstock.{name}", "value": value}


def _close_block(block: _OpenBlock) -> list[AGUIEvent]:
    match block.kind:
        case "text":
            return [{"type": "TEXT_MESSAGE_END", "messageId": block.id}]
        case "reasoning":
            return [
                {"type": "REASONING_MESSAGE_END", "messageId": block.id},
                {"type": "REASONING_END", "messageId": block.id},
            ]
        case "call":
            return [{"type": "TOOL_CALL_END", "toolCallId": block.id}]


def _make_interrupt(call: ToolCall) -> AGUIEvent:
    return {
        "id": call.id,
        "reason": APPROVAL,
        "message": f"Run {call.name}?",
        "toolCallId": call.id,
        "responseSchema": APPROVAL_SCHEMA,
    }


def _write_content(content: Any) -> str | list[AGUIEvent]:
    """Return the content of a result: text, or parts if there are images."""
    is_blocks = isinstance(content, list) and any(isinstance(one, Image) for one in content)
    if not is_blocks:
        return content_text(content)
    return [_write_part(block) for block in content]


def _write_part(block: Text | Image | Opaque) -> AGUIEvent:
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image(data=data, media_type=kind) if data:
            return {"type": "image", "source": {"type": "data", "value": data, "mimeType": kind}}
        case Image(url=url):
            return {"type": "image", "source": {"type": "url", "value": url}}
        case _:
            return {"type": "text", "text": f"({block.provider} content)"}


def _compare(old: Any, new: Any, path: str) -> Iterator[AGUIEvent]:
    """Yield the operations of a JSON Patch (RFC 6902); lists are replaced as a whole."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        # Python takes `1`, `1.0` and `True` for equal; JSON does not.
        if old != new or type(old) is not type(new):
            yield {"op": "replace", "path": path, "value": new}
        return
    for key in old.keys() - new.keys():
        yield {"op": "remove", "path": f"{path}/{_escape(key)}"}
    for key, value in new.items():
        if key not in old:
            yield {"op": "add", "path": f"{path}/{_escape(key)}", "value": value}
        else:
            yield from _compare(old[key], value, f"{path}/{_escape(key)}")


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


# --- conversations ---


def write_ag_ui_messages(messages: Iterable[Message]) -> list[AGUIEvent]:
    """Return a conversation as AG-UI messages, for a page that was loaded again.

    Reminders of rules and guards are messages of the developer.
    """
    names = map("message-{}".format, count(1))
    return [one for message in messages for one in _write_message(message, names)]


def _write_message(message: Message, names: Iterator[str]) -> Iterator[AGUIEvent]:
    match message:
        case SystemMessage(text=text):
            yield {"id": next(names), "role": "system", "content": text}
        case UserMessage(source=source) if source:
            yield {"id": next(names), "role": "developer", "content": message.text}
        case UserMessage(content=content):
            yield {"id": next(names), "role": "user", "content": list(map(_write_part, content))}
        case ToolResult():
            result: AGUIEvent = {"id": next(names), "role": "tool", "toolCallId": message.id}
            result["content"] = _write_content(message.content)
            yield result | ({"error": content_text(message.content)} if message.is_error else {})
        case AssistantMessage():
            yield from _write_response(message, names)


def _write_response(message: AssistantMessage, names: Iterator[str]) -> Iterator[AGUIEvent]:
    for block in message.content:
        if isinstance(block, Thinking):
            reasoning = {"id": next(names), "role": "reasoning", "content": block.text}
            yield reasoning | ({"encryptedValue": block.signature} if block.signature else {})
    response: AGUIEvent = {"id": next(names), "role": "assistant"}
    if message.text:
        response["content"] = message.text
    if message.tool_calls:
        response["toolCalls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": _json.encode_wire(call.arguments).decode(),
                },
            }
            for call in message.tool_calls
        ]
    yield response
