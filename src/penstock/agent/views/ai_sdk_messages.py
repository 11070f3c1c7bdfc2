"""What `useChat` sends: UI messages made into a conversation, and answers into decisions.

One message of a client is all that a run said: steps, each an answer with the results of its calls,
and between them what others said. A step that was dropped stays out. A call without a result is one
that waits, as long as nothing follows; where something does, nobody decided about it.

A browser can send whatever it likes. What is read here is valid, not true: who relies on what was
said before, or on what was asked, keeps the conversation on the server and takes the last message
and the decisions only.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct, field

from penstock.agent.approval import Allow, Decision, Deny
from penstock.agent.loop import UNDECIDED
from penstock.agent.views.ai_sdk_stream import DROPPED, NAMESPACE, OPAQUE, REMINDER, SAID
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

# The parts of a UI message, as a browser sends them back: read once, and refused by name.
#
# What a browser sends is anybody's: every part is read into its shape here, so that those who
# make messages of them meet no surprise.


_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?((?:;[^;,]*)*?)(;base64)?,")
_WEB: Final = ("http://", "https://")

State = Literal[
    "input-streaming",
    "input-available",
    "approval-requested",
    "approval-responded",
    "output-available",
    "output-error",
    "output-denied",
]
"""How far a call is, in the client's eyes."""


class UIMessage(Struct, rename="camel"):
    """One message of a conversation, as `useChat` keeps it."""

    role: Literal["system", "user", "assistant"]
    parts: list[dict[str, Any]]
    metadata: Any = None

    @property
    def model(self) -> str:
        """The model that answered, where the stream told it."""
        known = self.metadata.get("model") if isinstance(self.metadata, dict) else None
        return known if isinstance(known, str) else ""


class TextPart(Struct, rename="camel"):
    """Text, or reasoning."""

    text: str
    provider_metadata: dict[str, Any] | None = None


class FilePart(Struct, rename="camel"):
    """A file: its bytes in the URL, or where it is."""

    media_type: str
    url: str


class ReminderPart(Struct):
    """Who reminded the model: the words of neither are the user's."""

    source: Literal["rule", "guard"]


class OpaquePart(Struct):
    """What only its provider understands."""

    provider: str
    data: Any = None


class Approval(Struct):
    """A question whether a call may run, and its answer."""

    approved: bool | None = None
    reason: str | None = None


class CallPart(Struct, rename="camel"):
    """A call, and what came of it."""

    tool_call_id: str
    state: State
    tool_name: str = ""
    input: Any = None
    raw_input: Any = None
    output: Any = None
    error_text: str = ""
    preliminary: bool | None = None
    approval: Approval = field(default_factory=Approval)
    call_provider_metadata: dict[str, Any] | None = None

    @property
    def is_cut(self) -> bool:
        """Whether its input never was whole."""
        return self.input is None and self.raw_input is not None

    @property
    def arguments(self) -> dict[str, Any]:
        """Its input; raises `UsageError` for one that is not an object."""
        if self.is_cut:
            return self.raw_input if isinstance(self.raw_input, dict) else {}
        given = {} if self.input is None else self.input
        if not isinstance(given, dict):
            raise UsageError(f"the input of call {self.tool_call_id!r} is no object")
        return given


T = TypeVar("T")


def read(value: object, shape: type[T], where: str) -> T:
    """Read *value* as *shape*; raise a `UsageError` that says what is wrong, and *where*."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as exc:
        raise UsageError(f"{where}: {exc}") from exc


def read_kind(part: dict[str, Any], where: str) -> str:
    """Return the `type` of *part*."""
    kind = part.get("type")
    if not isinstance(kind, str):
        raise UsageError(f"{where}: a part has a `type`")
    return kind


def read_call(part: dict[str, Any], kind: str, where: str) -> CallPart:
    """Read the part of a call: its tool is named by its type, or by a field."""
    call = read(part, CallPart, where)
    if kind != "dynamic-tool":
        call.tool_name = kind.removeprefix("tool-")
    if not call.tool_name:
        raise UsageError(f"{where}: a call without the name of its tool")
    return call


def read_picture(part: dict[str, Any], where: str) -> Image:
    """Read a file as the picture that it is; raise `UsageError` for any other file."""
    file = read(part, FilePart, where)
    if not file.media_type.startswith("image/"):
        raise UsageError(
            f"{where}: a model is shown pictures, no {file.media_type or 'other'} file"
        )
    if file.url.startswith(_WEB):
        return Image(media_type=file.media_type, url=file.url)
    head = _DATA_URL.match(file.url)
    if head is None or not head[3]:
        raise UsageError(f"{where}: a file is an http, https or base64 data URL")
    data = file.url[head.end() :]
    try:
        b64decode(data, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise UsageError(f"{where}: the file is no base64: {exc}") from exc
    return Image(media_type=head[1] or file.media_type, data=data)


def signature_of(metadata: dict[str, Any] | None) -> str:
    """Return the signature that our stream noted on a part."""
    noted = (metadata or {}).get(NAMESPACE)
    signature = noted.get("signature") if isinstance(noted, dict) else None
    return signature if isinstance(signature, str) else ""


DENIED: Final = "The call was denied."

_Parts = list[tuple[str, dict[str, Any], str]]
"""Parts with their kinds, and where they stand."""


def read_ui_messages(messages: object) -> list[Message]:
    """Make a conversation of the UI *messages* that a client sends.

    Sources, files that a model drew and data of others are omitted. Raises `UsageError` for
    anything that is not a list of UI messages, and for a file that is not a picture.
    """
    found: list[Message] = []
    for number, message in enumerate(_read_all(messages)):
        for said in _messages(message, f"message {number}"):
            if not isinstance(said, ToolResult):
                found += _settled(found)
            found.append(said)
    return found


def prompt_of(messages: object) -> UserMessage:
    """Return the last of the UI *messages*: what the user says now.

    Raises `UsageError` where it is not the user's, so that nobody else's words are taken for it.
    """
    last = messages[-1:] if isinstance(messages, list) else messages
    match read_ui_messages(last):
        case [UserMessage(source="") as prompt]:
            return prompt
    raise UsageError("the last message is not the user's")


def decisions_of(messages: object) -> dict[str, Decision]:
    """Return what was decided about calls of the last step, by the ids of the calls.

    Nothing, where the last of the UI *messages* is not an answer. Raises `UsageError` for anything
    that is not a list of UI messages.
    """
    each = _read_all(messages)
    if not each or each[-1].role != "assistant":
        return {}
    parts = _read_parts(each[-1], f"message {len(each) - 1}")
    decided: dict[str, Decision] = {}
    for step in _steps(parts):
        calls = [call for call in _calls(step) if call.state == "approval-responded"]
        decided = {call.tool_call_id: _decision(call) for call in calls}
    return decided


# --- messages ---


def _read_all(messages: object) -> list[UIMessage]:
    if not isinstance(messages, list):
        raise UsageError("UI messages are a list")
    return [read(one, UIMessage, f"message {n}") for n, one in enumerate(messages)]


def _read_parts(message: UIMessage, where: str) -> _Parts:
    places = [f"{where}, part {number}" for number in range(len(message.parts))]
    return [
        (read_kind(part, place), part, place)
        for part, place in zip(message.parts, places, strict=True)
    ]


def _messages(message: UIMessage, where: str) -> Iterable[Message]:
    parts = _read_parts(message, where)
    match message.role:
        case "system":
            return [SystemMessage("".join(_texts(parts)))]
        case "user":
            return [UserMessage(_user_content(parts))]
        case "assistant":
            return _answers(parts, message.model)


def _texts(parts: _Parts) -> Iterator[str]:
    for kind, part, where in parts:
        if kind == "text":
            yield read(part, TextPart, where).text


def _user_content(parts: _Parts) -> list[UserContent]:
    content: list[UserContent] = []
    for kind, part, where in parts:
        if kind == "text":
            content.append(Text(read(part, TextPart, where).text))
        elif kind == "file":
            content.append(read_picture(part, where))
        elif not _is_beside(kind):
            raise UsageError(f"{where}: a user says no {kind!r}")
    if not content:
        raise UsageError("a user's message says something: it has a text or a picture")
    return content


def _is_beside(kind: str) -> bool:
    """Return whether a part says nothing to a model."""
    return kind.startswith(("data-", "source-")) or kind in ("file", "step-start")


def _settled(found: list[Message]) -> list[ToolResult]:
    """Answer the calls that nobody decided about before something else was said."""
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


# --- answers ---


def _steps(parts: _Parts) -> Iterator[_Parts]:
    """Cut *parts* where a step begins; what others said between stands alone."""
    step: _Parts = []
    for kind, part, where in parts:
        if kind in ("step-start", SAID, REMINDER):
            yield from [step] if step else []
            step = []
        if kind in (SAID, REMINDER):
            yield [(kind, part, where)]
        elif kind != "step-start":
            step.append((kind, part, where))
    yield from [step] if step else []


def _answers(parts: _Parts, model: str) -> Iterator[Message]:
    for step in _steps(parts):
        kinds = [kind for kind, _, _ in step]
        if kinds in ([SAID], [REMINDER]):
            yield _said(step[0][1].get("data"), step[0][2], is_reminder=kinds == [REMINDER])
        elif DROPPED not in kinds:
            yield from _answer(step, model)


def _said(data: object, where: str, *, is_reminder: bool) -> UserMessage:
    fields = data if isinstance(data, dict) else {}
    content: list[UserContent] = read(fields.get("content"), list[Text | Image | Opaque], where)
    if not is_reminder:
        return UserMessage(content)
    return UserMessage(content, read(fields, ReminderPart, where).source)


def _answer(step: _Parts, model: str) -> Iterator[Message]:
    content = [block for kind, part, where in step for block in _block(kind, part, where)]
    if not content:
        return
    calls = [block for block in content if isinstance(block, ToolCall) and block.complete]
    yield AssistantMessage("", model, content, "tool_use" if calls else "stop")
    for call in _calls(step):
        yield from _result(call)


def _block(kind: str, part: dict[str, Any], where: str) -> Iterable[Content]:
    """Return the block that a part stands for, if it stands for one."""
    if kind in ("text", "reasoning"):
        told = read(part, TextPart, where)
        block = Text if kind == "text" else Thinking
        return [block(told.text, signature_of(told.provider_metadata))]
    if kind == OPAQUE:
        opaque = read(part.get("data"), OpaquePart, where)
        return [Opaque(opaque.provider, opaque.data)]
    if _is_call(kind):
        call = read_call(part, kind, where)
        return [] if call.state == "input-streaming" else [_call(call)]
    if not _is_beside(kind):
        raise UsageError(f"{where}: an answer has no {kind!r}")
    return []


def _is_call(kind: str) -> bool:
    return kind == "dynamic-tool" or kind.startswith("tool-")


def _calls(step: _Parts) -> list[CallPart]:
    return [read_call(part, kind, where) for kind, part, where in step if _is_call(kind)]


def _call(call: CallPart) -> ToolCall:
    signature = signature_of(call.call_provider_metadata)
    id_, name, complete = call.tool_call_id, call.tool_name, not call.is_cut
    return ToolCall(id_, name, call.arguments, complete=complete, signature=signature)


def _result(call: CallPart) -> Iterator[ToolResult]:
    """Yield what a call came to; nothing, while it waits."""
    id_, name = call.tool_call_id, call.tool_name
    match call.state:
        case "output-available" if not call.preliminary:
            yield ToolResult(id_, name, _content(call.output))
        case "output-error":
            yield ToolResult(id_, name, call.error_text, is_error=True)
        case "output-denied":
            yield ToolResult(id_, name, _denied(call), is_error=True)


def _content(output: Any) -> Any:
    """Return an output as the blocks that it was made of, where it was made of any."""
    if isinstance(output, list) and output:
        try:
            return msgspec.convert(output, list[Text | Image | Opaque])
        except msgspec.ValidationError:
            pass  # it is JSON, as most outputs are
    return "" if output is None else output


def _denied(call: CallPart) -> str:
    reason = call.approval.reason
    return f"The call was denied: {reason}" if reason else DENIED


def _decision(call: CallPart) -> Decision:
    if call.approval.approved is None:
        raise UsageError(f"call {call.tool_call_id!r}: an answer says whether it is approved")
    return Allow() if call.approval.approved else Deny(call.approval.reason or "")
