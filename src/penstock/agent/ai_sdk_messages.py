"""Read what `useChat` sends: UI messages as a conversation, and answers as decisions.

One message of the client is a whole run: steps, each a response with the results of its calls, and
messages of others between them. Steps that were dropped are ignored. A call without a result waits
if nothing follows it; otherwise no decision was made about it.

A browser can send anything. What is read here is valid, not trustworthy: a server that relies on
the earlier conversation, or on which calls were requested, has to store it and read only the last
message and the decisions.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct, field

from penstock.agent.ai_sdk_stream import DROPPED, NAMESPACE, OPAQUE, REMINDER, SAID
from penstock.agent.approval import Allow, Decision, Deny, explain_denial
from penstock.agent.loop import UNDECIDED
from penstock.errors import UsageError
from penstock.messages import (
    AssistantMessage,
    Content,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from penstock.request import Image, Message, SystemMessage, UserContent, UserMessage

T = TypeVar("T")

CallState = Literal[
    "input-streaming",
    "input-available",
    "approval-requested",
    "approval-responded",
    "output-available",
    "output-error",
    "output-denied",
]
"""The state of a call in the client."""

_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?((?:;[^;,]*)*?)(;base64)?,")
_WEB: Final = ("http://", "https://")

# The type of a part, the part, and its position for error messages.
_Part = tuple[str, dict[str, Any], str]


# --- shapes ---


class UIMessage(Struct, rename="camel"):
    """One message of `useChat`."""

    role: Literal["system", "user", "assistant"]
    parts: list[dict[str, Any]]
    metadata: Any = None

    @property
    def model(self) -> str:
        """The model that responded, if the stream named it."""
        model = self.metadata.get("model") if isinstance(self.metadata, dict) else None
        return model if isinstance(model, str) else ""


class TextPart(Struct, rename="camel"):
    """Text or reasoning."""

    text: str
    provider_metadata: dict[str, Any] | None = None


class FilePart(Struct, rename="camel"):
    """A file, as a URL or a data URL."""

    media_type: str
    url: str


class ReminderPart(Struct):
    """The source of a reminder to the model."""

    source: Literal["rule", "guard", "summary"]


class OpaquePart(Struct):
    """A block that only its provider understands."""

    provider: str
    data: Any = None


class ApprovalPart(Struct):
    """A question whether a call may run, and its answer."""

    approved: bool | None = None
    reason: str | None = None


class CallPart(Struct, rename="camel"):
    """A call and its result."""

    tool_call_id: str
    state: CallState
    tool_name: str = ""
    input: Any = None
    raw_input: Any = None
    output: Any = None
    error_text: str = ""
    preliminary: bool | None = None
    approval: ApprovalPart = field(default_factory=ApprovalPart)
    call_provider_metadata: dict[str, Any] | None = None

    @property
    def is_cut(self) -> bool:
        """Whether its input is incomplete."""
        return self.input is None and self.raw_input is not None

    @property
    def arguments(self) -> dict[str, Any]:
        """Its input; raises `UsageError` if it is not an object."""
        if self.is_cut:
            return self.raw_input if isinstance(self.raw_input, dict) else {}
        arguments = {} if self.input is None else self.input
        if not isinstance(arguments, dict):
            raise UsageError(f"the input of call {self.tool_call_id!r} is not an object")
        return arguments


# --- reading ---


def read_ui_messages(messages: object) -> list[Message]:
    """Read the UI *messages* of a client as a conversation.

    Sources, files that a model created and unknown data parts are dropped. Raises `UsageError` for
    anything that is not a list of UI messages, and for a file that is not an image.
    """
    found: list[Message] = []
    for number, message in enumerate(_read_all(messages)):
        for read in _read_message(message, f"message {number}"):
            if not isinstance(read, ToolResult):
                found += _settle_calls(found)
            found.append(read)
    return found


def read_prompt(messages: object) -> UserMessage:
    """Return the last of the UI *messages*; raise `UsageError` if it is not the user's."""
    last = messages[-1:] if isinstance(messages, list) else messages
    match read_ui_messages(last):
        case [UserMessage(source="") as prompt]:
            return prompt
    raise UsageError("the last message is not a message of the user")


def read_decisions(messages: object) -> dict[str, Decision]:
    """Return the decisions about calls of the last step, by call id.

    There are none if the last of the UI *messages* is not a response. Raises `UsageError` for
    anything that is not a list of UI messages.
    """
    read = _read_all(messages)
    if not read or read[-1].role != "assistant":
        return {}
    decided: dict[str, Decision] = {}
    for step in _split_steps(_read_parts(read[-1], f"message {len(read) - 1}")):
        calls = [call for call in _read_calls(step) if call.state == "approval-responded"]
        decided = {call.tool_call_id: _read_decision(call) for call in calls}
    return decided


def _convert(value: object, shape: type[T], where: str) -> T:
    """Read *value* as *shape*; raise a `UsageError` that says what is wrong, and *where*."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as exc:
        raise UsageError(f"{where}: {exc}") from exc


def _read_all(messages: object) -> list[UIMessage]:
    if not isinstance(messages, list):
        raise UsageError(f"UI messages must be a list, not {type(messages).__name__}")
    return [_convert(one, UIMessage, f"message {n}") for n, one in enumerate(messages)]


def _read_parts(message: UIMessage, where: str) -> list[_Part]:
    parts: list[_Part] = []
    for number, part in enumerate(message.parts):
        place = f"{where}, part {number}"
        kind = part.get("type")
        if not isinstance(kind, str):
            raise UsageError(f"{place}: `type` is missing")
        parts.append((kind, part, place))
    return parts


def _read_message(message: UIMessage, where: str) -> Iterable[Message]:
    parts = _read_parts(message, where)
    match message.role:
        case "system":
            texts = [_convert(part, TextPart, at) for kind, part, at in parts if kind == "text"]
            return [SystemMessage("".join(text.text for text in texts))]
        case "user":
            return [UserMessage(_read_user_content(parts))]
        case "assistant":
            return _read_steps(parts, message.model)


def _read_user_content(parts: list[_Part]) -> list[UserContent]:
    content: list[UserContent] = []
    for kind, part, where in parts:
        if kind == "text":
            content.append(Text(_convert(part, TextPart, where).text))
        elif kind == "file":
            content.append(_read_image(part, where))
        elif not _is_ignored(kind):
            raise UsageError(f"{where}: user messages cannot contain {kind!r} parts")
    if not content:
        raise UsageError("a user message must contain text or an image")
    return content


def _is_ignored(kind: str) -> bool:
    """Return whether parts of a type are not sent to a model."""
    # `source-url` and `source-document` are citations for display, and data parts belong to the
    # application.
    return kind.startswith(("data-", "source-")) or kind in ("file", "step-start")


def _read_image(part: dict[str, Any], where: str) -> Image:
    file = _convert(part, FilePart, where)
    if not file.media_type.startswith("image/"):
        kind = file.media_type or "unknown type"
        raise UsageError(f"{where}: only images can be sent to a model, got {kind}")
    if file.url.startswith(_WEB):
        return Image(media_type=file.media_type, url=file.url)
    head = _DATA_URL.match(file.url)
    if head is None or not head[3]:
        raise UsageError(f"{where}: the URL of a file must be http, https or base64 data")
    data = file.url[head.end() :]
    # Checked here, because a provider would reject the whole conversation for it.
    try:
        b64decode(data, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise UsageError(f"{where}: the file is not valid base64: {exc}") from exc
    return Image(media_type=head[1] or file.media_type, data=data)


def _settle_calls(found: list[Message]) -> list[ToolResult]:
    """Return the results of calls without a decision before another message."""
    answered: set[str] = set()
    for message in reversed(found):
        if isinstance(message, ToolResult):
            answered.add(message.id)
        elif isinstance(message, AssistantMessage):
            return [
                ToolResult(call.id, call.name, UNDECIDED, is_error=True)
                for call in message.tool_calls
                if call.id not in answered
            ]
        else:
            break
    return []


# --- steps ---


def _split_steps(parts: list[_Part]) -> Iterator[list[_Part]]:
    """Split *parts* where a step begins; a message of others between steps is one of its own."""
    step: list[_Part] = []
    for part in parts:
        kind = part[0]
        if kind in ("step-start", SAID, REMINDER):
            yield from [step] if step else []
            step = []
        if kind in (SAID, REMINDER):
            yield [part]
        elif kind != "step-start":
            step.append(part)
    yield from [step] if step else []


def _read_steps(parts: list[_Part], model: str) -> Iterator[Message]:
    for step in _split_steps(parts):
        kinds = [kind for kind, _, _ in step]
        if kinds in ([SAID], [REMINDER]):
            _, part, where = step[0]
            yield _read_other(part.get("data"), where, is_reminder=kinds == [REMINDER])
        elif DROPPED not in kinds:
            yield from _read_response(step, model)


def _read_other(data: object, where: str, *, is_reminder: bool) -> UserMessage:
    fields = data if isinstance(data, dict) else {}
    content: list[UserContent] = _convert(fields.get("content"), list[Text | Image | Opaque], where)
    if not is_reminder:
        return UserMessage(content)
    return UserMessage(content, _convert(fields, ReminderPart, where).source)


def _read_response(step: list[_Part], model: str) -> Iterator[Message]:
    content = [block for part in step for block in _read_block(*part)]
    if not content:
        return
    has_calls = any(isinstance(block, ToolCall) and block.complete for block in content)
    yield AssistantMessage("", model, content, "tool_use" if has_calls else "stop")
    for call in _read_calls(step):
        id_, name = call.tool_call_id, call.tool_name
        match call.state:
            # A preliminary output is an update of a tool that had not ended.
            case "output-available" if not call.preliminary:
                yield ToolResult(id_, name, _read_output(call.output))
            case "output-error":
                yield ToolResult(id_, name, call.error_text, is_error=True)
            case "output-denied":
                reason = explain_denial(call.approval.reason or "")
                yield ToolResult(id_, name, reason, is_error=True)


def _read_block(kind: str, part: dict[str, Any], where: str) -> Iterable[Content]:
    """Return the block of a part, if it has one."""
    if kind in ("text", "reasoning"):
        text = _convert(part, TextPart, where)
        block = Text if kind == "text" else Thinking
        return [block(text.text, _read_signature(text.provider_metadata))]
    if kind == OPAQUE:
        opaque = _convert(part.get("data"), OpaquePart, where)
        return [Opaque(opaque.provider, opaque.data)]
    if _is_call(kind):
        call = _read_call(part, kind, where)
        # The stream ended inside the arguments, so there is no call to run or to answer.
        if call.state == "input-streaming":
            return []
        id_, name, arguments = call.tool_call_id, call.tool_name, call.arguments
        signature = _read_signature(call.call_provider_metadata)
        return [ToolCall(id_, name, arguments, complete=not call.is_cut, signature=signature)]
    if not _is_ignored(kind):
        raise UsageError(f"{where}: responses cannot contain {kind!r} parts")
    return []


def _is_call(kind: str) -> bool:
    return kind == "dynamic-tool" or kind.startswith("tool-")


def _read_calls(step: list[_Part]) -> list[CallPart]:
    return [_read_call(part, kind, where) for kind, part, where in step if _is_call(kind)]


def _read_call(part: dict[str, Any], kind: str, where: str) -> CallPart:
    """Read a call; its tool is named by its type (``tool-NAME``) or by a field."""
    call = _convert(part, CallPart, where)
    if kind != "dynamic-tool":
        call.tool_name = kind.removeprefix("tool-")
    if not call.tool_name:
        raise UsageError(f"{where}: the call has no tool name")
    return call


def _read_signature(metadata: dict[str, Any] | None) -> str:
    """Return the signature that `UIStream` added to a part."""
    own = (metadata or {}).get(NAMESPACE)
    signature = own.get("signature") if isinstance(own, dict) else None
    return signature if isinstance(signature, str) else ""


def _read_output(output: Any) -> Any:
    """Return an output as the blocks that it was made of, if any."""
    if isinstance(output, list) and output:
        try:
            return msgspec.convert(output, list[Text | Image | Opaque])
        except msgspec.ValidationError:
            pass  # plain JSON, as most outputs are
    return "" if output is None else output


def _read_decision(call: CallPart) -> Decision:
    # `addToolApprovalResponse` always sets it; a forged request may not.
    if call.approval.approved is None:
        raise UsageError(f"call {call.tool_call_id!r}: `approved` is missing")
    return Allow() if call.approval.approved else Deny(call.approval.reason or "")
