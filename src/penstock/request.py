"""What a model is asked: the conversation so far, the tools, and how to answer.

One shape for all providers. What a field is left at (`None`, empty) is left to the provider; what
only one provider knows is kept in `Request.extra` and goes back to that provider alone.

Messages may be given as strings and as dicts in the shape of OpenAI's chat API, and are then read
when the value is made. What is neither raises `UsageError` there, before anything is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from msgspec import Struct, field

from penstock.errors import UsageError
from penstock.messages import (
    AssistantMessage,
    Block,
    Content,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from penstock.tools import Tool

OPENAI: Final = "openai-chat"
"""The API in whose shape dicts are read; what only it understands goes back to it alone."""

Source = Literal["", "rule", "guard", "summary"]
"""Who speaks in the user's place: a rule, a guard, a summary of what was said; empty: the user."""


class Image(Block, tag="image"):
    """A picture: *data* is its bytes in base64 with their *media_type*, or *url* says where it is.

    *detail* is how closely a model should look, in OpenAI's words.
    """

    media_type: str = ""
    data: str = ""
    url: str = ""
    detail: str = ""

    @classmethod
    def at(cls, url: str, detail: str = "") -> Image:
        """Return the image at *url*; a data URL holds it."""
        head, comma, data = url.partition(";base64,")
        if comma and head.startswith("data:"):
            return cls(media_type=head.removeprefix("data:"), data=data, detail=detail)
        return cls(url=url, detail=detail)


UserContent = Text | Image | Opaque
"""One block of what a user says."""

UserBlock: Final = (Text, Image, Opaque)


class SystemMessage(Struct, tag="system", tag_field="role"):
    """Instructions that come later than the system prompt."""

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise UsageError(f"a system message is text, not {_name(self.text)}")


class UserMessage(Struct, tag="user", tag_field="role", omit_defaults=True):
    """What the user says: blocks, or given as text or as content parts of OpenAI's.

    *source* names who speaks in the user's place: what a ``rule`` or a ``guard`` reminds the model
    of goes to it as a user's message, and is not shown as one.

    Raises `UsageError` for content that is not one of these.
    """

    content: list[UserContent] = field(default_factory=list)
    source: Source = ""

    if TYPE_CHECKING:  # what it may be given as; msgspec makes the rest

        def __init__(
            self,
            content: str | Iterable[UserContent | str | Mapping[str, Any]] = (),
            source: Source = "",
        ) -> None: ...

    def __post_init__(self) -> None:
        content = self.content
        if type(content) is not list or not _are_all(content, UserBlock):
            self.content = read_content(content)
        if self.source and self.source not in get_args(Source):
            raise UsageError(f"a source is one of {', '.join(get_args(Source)[1:])}")

    @property
    def text(self) -> str:
        """All text blocks, one a line."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))


Message = SystemMessage | UserMessage | AssistantMessage | ToolResult
"""One turn of a conversation; several results in a row answer the calls of one message."""

MessageLike = Message | str | Mapping[str, Any]
"""What a message may be given as: one, the user's words, or a dict in OpenAI's shape."""


SystemPlacement = Literal["keep", "first", "user"]
"""Where a system message among the others goes: it stays, or becomes part of the system prompt or
of the user's message beside it."""


class ToolChoice(Struct, frozen=True):
    """Whether tools are called: as the model likes, never, at least one, or the one of *name*."""

    mode: Literal["auto", "none", "required", "tool"] = "auto"
    name: str = ""


class ResponseFormat(Struct, frozen=True):
    """What the text of the answer has to be: text, any JSON, or JSON that fits *schema*."""

    kind: Literal["text", "json", "schema"] = "text"
    schema: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    strict: bool | None = None


class ReasoningOptions(Struct, frozen=True):
    """How much a model thinks before it answers.

    *effort* is a word (``none``, ``minimal``, ``low``, ``medium``, ``high``, ``xhigh``, ``max``),
    *budget* a number of tokens, *summary* how much of it is shown (``auto``, ``concise``,
    ``detailed``).
    """

    effort: str = ""
    budget: int | None = None
    summary: str = ""


class Request(Struct):
    """One request to a model, whoever asks and whoever answers.

    *messages* may be strings and OpenAI-style dicts, *tools* the JSON of tools in any shape, and
    *tool_choice* a word or the name of a tool. System messages that are dicts and come first are
    the system prompt.

    *session* is the caller's own name for the conversation, *headers* go along over HTTP.
    *system_messages* says where later system messages go; None leaves that to the API's writer.
    *source* names the API that it was read from, *extra* holds that API's fields that have no
    place here, and *raw* is the request as it came.

    Raises `UsageError` for a field that cannot be what it is given as.
    """

    model: str = ""
    system: str = ""
    messages: list[Message] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: list[str] = field(default_factory=list)
    n: int | None = None
    response_format: ResponseFormat | None = None
    reasoning: ReasoningOptions | None = None
    stream: bool = False
    include_usage: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    user: str = ""
    session: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    system_messages: SystemPlacement | None = None
    source: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    raw: dict[str, Any] | None = None

    if TYPE_CHECKING:  # what it may be given as; msgspec makes the rest

        def __init__(  # noqa: PLR0913, PLR0917 - the fields, in their order
            self,
            model: str = "",
            system: str = "",
            messages: str | Iterable[MessageLike] = (),
            tools: Iterable[Tool | Mapping[str, Any]] = (),
            tool_choice: ToolChoice | str | None = None,
            parallel_tool_calls: bool | None = None,  # noqa: FBT001
            max_tokens: int | None = None,
            temperature: float | None = None,
            top_p: float | None = None,
            top_k: int | None = None,
            seed: int | None = None,
            presence_penalty: float | None = None,
            frequency_penalty: float | None = None,
            stop: str | Sequence[str] = (),
            n: int | None = None,
            response_format: ResponseFormat | None = None,
            reasoning: ReasoningOptions | None = None,
            stream: bool = False,  # noqa: FBT001, FBT002
            include_usage: bool = False,  # noqa: FBT001, FBT002
            metadata: dict[str, Any] = ...,
            user: str = "",
            session: str = "",
            headers: dict[str, str] = ...,
            source: str = "",
            extra: dict[str, Any] = ...,
            raw: dict[str, Any] | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name, types in _FIELDS:
            value = getattr(self, name)
            if value is not None and not isinstance(value, types):
                self._read_field(name, value)
        if not _are_all(self.messages, _MESSAGES):
            self._read_messages(self.messages)
        if not _are_all(self.tools, (Tool,)):
            self.tools = [Tool.read(tool) for tool in self.tools]

    def _read_field(self, name: str, value: Any) -> None:
        """Read a field that was given as something else; raise `UsageError` for what it is not."""
        if name == "messages" and isinstance(value, MessageTypes):
            self.messages = [read_message(value)]
        elif name in ("messages", "tools") and _is_many(value):
            setattr(self, name, list(value))
        elif name == "stop" and (isinstance(value, str) or _is_many(value)):
            self.stop = [value] if isinstance(value, str) else list(value)
        elif name == "tool_choice" and isinstance(value, str):
            words: Any = value
            known = value in ("auto", "none", "required")
            self.tool_choice = ToolChoice(words) if known else ToolChoice("tool", value)
        else:
            raise UsageError(f"`{name}` of a request cannot be {_name(value)}")

    def _read_messages(self, given: Sequence[Any]) -> None:
        messages: list[Message] = []
        system = [self.system] if self.system else []
        for one in given:
            message = read_message(one)
            if isinstance(message, SystemMessage) and isinstance(one, Mapping) and not messages:
                system.append(message.text)
            else:
                messages.append(message)
        self.system, self.messages = "\n\n".join(system), messages


_MESSAGES: Final = (UserMessage, AssistantMessage, ToolResult, SystemMessage)
MessageTypes: Final = (*_MESSAGES, str, Mapping)
"""What a message may be given as, to be told from a list of them."""

_NUMBER: Final = (int, float)
_FIELDS: Final[tuple[tuple[str, type | tuple[type, ...]], ...]] = (
    ("model", str),
    ("system", str),
    ("messages", list),
    ("tools", list),
    ("tool_choice", ToolChoice),
    ("max_tokens", int),
    ("temperature", _NUMBER),
    ("top_p", _NUMBER),
    ("top_k", int),
    ("seed", int),
    ("presence_penalty", _NUMBER),
    ("frequency_penalty", _NUMBER),
    ("stop", list),
    ("n", int),
    ("response_format", ResponseFormat),
    ("reasoning", ReasoningOptions),
    ("metadata", Mapping),
    ("headers", Mapping),
    ("extra", Mapping),
)
"""The fields of a request that are checked when it is made, each with its types."""

RequestLike = Request | MessageLike | Iterable[MessageLike]
"""What a model may be asked: a request, the user's words, a message, or several."""


def make_request(asked: RequestLike) -> Request:
    """Return *asked* as a request; raise `UsageError` for what cannot be one."""
    if isinstance(asked, Request):
        asked.__post_init__()  # its lists may have been added to since
        return asked
    if isinstance(asked, MessageTypes) or _is_many(asked):
        request = Request(messages=asked)  # type: ignore[arg-type]  # checked there
        if request.messages:
            return request
        raise UsageError("a request holds at least one message")
    raise UsageError(
        f"a model is asked with a Request, a string or a list of messages, not with {_name(asked)}"
    )


# --- messages in OpenAI's shape ---


def read_message(given: MessageLike) -> Message:
    """Read a message; raise `UsageError` for what is not one."""
    if isinstance(given, _MESSAGES):
        return given
    if isinstance(given, str):
        return UserMessage([Text(given)])
    if not isinstance(given, Mapping):
        raise UsageError(f"a message is a string, a dict or a message, not {_name(given)}")
    role = given.get("role")
    match role:
        case "user":
            _check_keys(given, "content", "name")
            return UserMessage(read_content(given.get("content")))
        case "system" | "developer":
            _check_keys(given, "content", "name")
            return SystemMessage(_read_text(given.get("content")))
        case "assistant":
            return _read_assistant(given)
        case "tool" | "function":
            return _read_result(given)
    raise UsageError(
        f"a message dict has the role user, assistant, system, developer or tool, not {role!r}"
    )


def read_content(content: object) -> list[UserContent]:
    """Read what a user says: text, or blocks and content parts; raise `UsageError` for others."""
    if isinstance(content, str):
        return [Text(content)]
    if isinstance(content, UserBlock):
        return [content]
    if not _is_many(content):
        raise UsageError(f"a message's content is text or a list of parts, not {_name(content)}")
    return [_read_part(part) for part in content]  # type: ignore[attr-defined]  # it is many


def _read_part(part: object) -> UserContent:
    if isinstance(part, UserBlock):
        return part
    if isinstance(part, str):
        return Text(part)
    if not isinstance(part, Mapping):
        raise UsageError(f"a content part is text, a dict or a block, not {_name(part)}")
    kind, value = part.get("type"), None
    match kind:
        case "text" | "refusal":
            value = part.get(kind)
            if isinstance(value, str):
                return Text(value)
        case "image_url":
            value = part.get("image_url")
            picture = value if isinstance(value, Mapping) else {"url": value}
            url, detail = picture.get("url"), picture.get("detail")
            if isinstance(url, str):
                return Image.at(url, detail if isinstance(detail, str) else "")
        case "input_audio" | "file":
            return Opaque(OPENAI, dict(part))
        case _:
            raise UsageError(
                "a content part has the type text, image_url, input_audio, file or refusal,"
                f" not {kind!r}"
            )
    raise UsageError(f"a content part of the type {kind!r} holds no {kind!r}: {_name(value)}")


def _read_text(content: object) -> str:
    blocks = read_content(content)
    texts = [block.text for block in blocks if isinstance(block, Text)]
    if len(texts) < len(blocks):
        raise UsageError("a system message holds text alone")
    return "\n".join(texts)


_ANSWER: Final = frozenset(
    {"role", "content", "refusal", "reasoning_content", "reasoning", "tool_calls", "function_call"}
)


def _read_assistant(given: Mapping[str, Any]) -> AssistantMessage:
    content: list[Content] = []
    for key in ("reasoning_content", "reasoning"):
        if isinstance(given.get(key), str) and given[key]:
            content.append(Thinking(given[key]))
            break
    for said in (given.get("content"), given.get("refusal")):
        blocks = read_content(said) if said else []
        content += [one for one in blocks if isinstance(one, Text | Opaque)]
        if any(isinstance(one, Image) for one in blocks):
            raise UsageError("an assistant's message holds no images")
    for number, call in enumerate(given.get("tool_calls") or ()):
        content.append(_read_call(call, number))
    if given.get("function_call"):
        content.append(_read_call({"function": given["function_call"]}, 0))
    rest = {key: value for key, value in given.items() if value and key not in _ANSWER}
    if rest:
        content.append(Opaque(OPENAI, rest))
    if not content and given.get("content") is None:
        raise UsageError("an assistant's message has neither content nor tool calls")
    return AssistantMessage(content=content)


def _read_call(call: object, number: int) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    fields = call if isinstance(call, Mapping) else {}
    function = fields.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name, str):
        raise UsageError('a tool call is {"id": …, "function": {"name": …, "arguments": …}}')
    id_ = str(fields.get("id") or f"call_{number}")
    arguments = function.get("arguments")
    if isinstance(arguments, Mapping):
        return ToolCall(id_, name, dict(arguments))
    if arguments is not None and not isinstance(arguments, str):
        raise UsageError(f"the arguments of a tool call are JSON text, not {_name(arguments)}")
    return ToolCall.from_text(id_, name, arguments or "")


def _read_result(given: Mapping[str, Any]) -> ToolResult:
    _check_keys(given, "content", "name", "tool_call_id")
    name = given.get("name") or ""
    id_ = given.get("tool_call_id") or name
    if not isinstance(id_, str) or not id_:
        raise UsageError("a tool's message has the `tool_call_id` of its call")
    blocks = read_content(given.get("content"))
    texts = [block.text for block in blocks if isinstance(block, Text)]
    return ToolResult(id_, str(name), "\n".join(texts) if len(texts) == len(blocks) else blocks)


def _check_keys(given: Mapping[str, Any], *known: str) -> None:
    """Refuse what would be lost: a misspelt key, or one that has no place in a message."""
    odd = [str(key) for key in given if key != "role" and key not in known and given[key]]
    if odd:
        raise UsageError(f"a message of the role {given['role']!r} has no {', '.join(odd)}")


def _are_all(values: Iterable[object], types: tuple[type, ...]) -> bool:
    for value in values:  # noqa: SIM110 - every request is checked, and `all` costs twice as much
        if not isinstance(value, types):
            return False
    return True


def _is_many(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _name(value: object) -> str:
    return "None" if value is None else type(value).__name__
