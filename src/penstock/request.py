"""A request to a model: conversation, tools and options, in one shape for all providers.

A field that is None or empty is left to the provider. What only one provider supports is kept in
`Request.extra` and sent only to that provider.

Messages may be strings and dicts in the shape of OpenAI's chat API; they are converted when the
request is created. Any other value raises `UsageError` there, before anything is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, get_args

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
"""The API in whose shape dicts are read; opaque parts are sent only to it."""

Source = Literal["", "rule", "guard", "summary", "output"]
"""The author of a user message: a rule, a guard, a summary, or the faults of a typed output.

Empty: the user."""


class Image(Block, tag="image"):
    """An image: *data* is its bytes in base64 with their *media_type*, or *url* is its address.

    *detail* is the resolution at which the model reads it, one of OpenAI's values.
    """

    type: ClassVar[Literal["image"]] = "image"
    media_type: str = ""
    data: str = ""
    url: str = ""
    detail: str = ""

    def __post_init__(self) -> None:
        for name in ("media_type", "data", "url", "detail"):
            if not isinstance(value := getattr(self, name), str):
                raise UsageError(f"`{name}` of an image must be a string, not {_name(value)}")

    @classmethod
    def at(cls, url: str, detail: str = "") -> Image:
        """Return the image at *url*, which may be a ``data:`` URL."""
        # OpenAI's API takes images as ``data:`` URLs; other APIs have fields for the type and the
        # data.
        head, comma, data = url.partition(";base64,")
        if comma and head.startswith("data:"):
            return cls(media_type=head.removeprefix("data:"), data=data, detail=detail)
        return cls(url=url, detail=detail)


UserContent = Text | Image | Opaque
"""One block of a user message."""

UserBlock: Final = (Text, Image, Opaque)


class SystemMessage(Struct, tag="system", tag_field="role"):
    """Instructions after the system prompt."""

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise UsageError(f"a system message must be text, not {_name(self.text)}")


class UserMessage(Struct, tag="user", tag_field="role", omit_defaults=True):
    """A user message: blocks, or text or OpenAI's content parts, which become blocks.

    *source* is the author if it is not the user: the reminder of a ``rule`` or a ``guard`` is sent
    as a user message and not displayed as one.

    Raises `UsageError` for any other content.
    """

    content: list[UserContent] = field(default_factory=list)
    source: Source = ""

    if TYPE_CHECKING:  # the accepted types; msgspec generates the method

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
            raise UsageError(f"`source` must be one of {', '.join(get_args(Source)[1:])}")

    @property
    def text(self) -> str:
        """The text of all text blocks, one per line."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))


Message = SystemMessage | UserMessage | AssistantMessage | ToolResult
"""One message of a conversation; consecutive results belong to the calls of one message."""

MessageLike = Message | str | Mapping[str, Any]
"""A message, the text of a user message, or a dict in OpenAI's shape."""


SystemPlacement = Literal["keep", "first", "user"]
"""Where a later system message goes: it stays, or becomes part of the system prompt or of the
adjacent user message."""


class ToolChoice(Struct, frozen=True):
    """Whether the model may call tools: freely, never, at least one, or the one called *name*."""

    mode: Literal["auto", "none", "required", "tool"] = "auto"
    name: str = ""


class ResponseFormat(Struct, frozen=True):
    """What the text of the response must be: text, any JSON, or JSON that fits *schema*."""

    kind: Literal["text", "json", "schema"] = "text"
    schema: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    strict: bool | None = None


class ReasoningOptions(Struct, frozen=True):
    """How much a model reasons before it responds.

    *effort* is ``none``, ``minimal``, ``low``, ``medium``, ``high``, ``xhigh`` or ``max``, *budget*
    a number of tokens, *summary* how much of it is returned (``auto``, ``concise``, ``detailed``).
    """

    effort: str = ""
    budget: int | None = None
    summary: str = ""


class Request(Struct):
    """One request to a model, of any provider.

    *messages* may be strings and OpenAI-style dicts, *tools* the JSON of tools in any shape, and
    *tool_choice* ``auto``, ``none``, ``required`` or the name of a tool. System messages that are
    dicts and come first become the system prompt.

    *session* is the caller's own name for the conversation, *headers* are sent with an HTTP
    request. *system_messages* is where later system messages go; if None, the API decides.
    *source* is the name of the API that the request was read from, *extra* has the fields of that
    API that have no field here, and *raw* is the original request.

    *store* is whether OpenAI keeps the response on its server. If not, the Responses API returns
    its reasoning encrypted, and it is sent back with the next request. *prompt_cache* marks the
    system prompt, the tools and the last user message for Anthropic's cache; other providers cache
    without marks.

    Raises `UsageError` for a field of a wrong type.
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
    store: bool | None = None
    prompt_cache: bool | None = None

    if TYPE_CHECKING:  # the accepted types; msgspec generates the method

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
            system_messages: SystemPlacement | None = None,
            source: str = "",
            extra: dict[str, Any] = ...,
            raw: dict[str, Any] | None = None,
            store: bool | None = None,  # noqa: FBT001
            prompt_cache: bool | None = None,  # noqa: FBT001
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
        """Convert a field of another type; raise `UsageError` if that is not possible."""
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
            # In OpenAI's shape the system prompt is the first message, or several.
            if isinstance(message, SystemMessage) and isinstance(one, Mapping) and not messages:
                system.append(message.text)
            else:
                messages.append(message)
        self.system, self.messages = "\n\n".join(system), messages


_MESSAGES: Final = (UserMessage, AssistantMessage, ToolResult, SystemMessage)
MessageTypes: Final = (*_MESSAGES, str, Mapping)
"""The types of a single message, as opposed to a list of messages."""

_NUMBER: Final = (int, float)
# The fields of a request that are checked when it is created, and their types.
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

RequestLike = Request | MessageLike | Iterable[MessageLike]
"""What a model accepts: a request, the text of a user message, a message, or several."""


def make_request(given: RequestLike) -> Request:
    """Return *given* as a request; raise `UsageError` if that is not possible."""
    if isinstance(given, Request):
        given.__post_init__()  # Its lists may have been extended.
        return given
    if isinstance(given, MessageTypes) or _is_many(given):
        request = Request(messages=given)  # type: ignore[arg-type]  # checked there
        if request.messages:
            return request
        raise UsageError("a request needs at least one message")
    raise UsageError(
        f"a request must be a Request, a string or a list of messages, not {_name(given)}"
    )


# --- messages in OpenAI's shape ---


def read_message(given: MessageLike) -> Message:
    """Convert *given* to a message; raise `UsageError` if that is not possible."""
    if isinstance(given, _MESSAGES):
        return given
    if isinstance(given, str):
        return UserMessage([Text(given)])
    if not isinstance(given, Mapping):
        raise UsageError(f"a message must be a string, a dict or a message, not {_name(given)}")
    role = given.get("role")
    match role:
        case "user":
            _check_keys(given, "content", "name")
            return UserMessage(read_content(given.get("content")))
        case "system" | "developer":  # OpenAI's name for `system` since its reasoning models
            _check_keys(given, "content", "name")
            return SystemMessage(_read_text(given.get("content")))
        case "assistant":
            return _read_assistant(given)
        case "tool" | "function":  # `function` is from the API before `tool_calls`.
            return _read_result(given)
    raise UsageError(f"`role` must be user, assistant, system, developer or tool, not {role!r}")


def read_content(content: object) -> list[UserContent]:
    """Convert text, blocks or content parts to blocks; raise `UsageError` for anything else."""
    if isinstance(content, str):
        return [Text(content)]
    if isinstance(content, UserBlock):
        return [content]
    if not _is_many(content):
        raise UsageError(f"`content` must be text or a list of parts, not {_name(content)}")
    return [_read_part(part) for part in content]  # type: ignore[attr-defined]  # it is many


def _read_part(part: object) -> UserContent:
    if isinstance(part, UserBlock):
        return part
    if isinstance(part, str):
        return Text(part)
    if not isinstance(part, Mapping):
        raise UsageError(f"a content part must be text, a dict or a block, not {_name(part)}")
    kind, value = part.get("type"), None
    match kind:
        case "text" | "refusal":
            value = part.get(kind)
            if isinstance(value, str):
                return Text(value)
        case "image_url":
            value = part.get("image_url")
            image = value if isinstance(value, Mapping) else {"url": value}
            url, detail = image.get("url"), image.get("detail")
            if isinstance(url, str):
                return Image.at(url, detail if isinstance(detail, str) else "")
        case "input_audio" | "file":
            return Opaque(OPENAI, dict(part))
        case _:
            raise UsageError(
                "`type` of a content part must be text, image_url, input_audio, file or refusal,"
                f" not {kind!r}"
            )
    raise UsageError(f"`{kind}` of a content part of this type cannot be {_name(value)}")


def _read_text(content: object) -> str:
    blocks = read_content(content)
    texts = [block.text for block in blocks if isinstance(block, Text)]
    if len(texts) < len(blocks):
        raise UsageError("a system message can contain only text")
    return "\n".join(texts)


_ASSISTANT_KEYS: Final = frozenset(
    {"role", "content", "refusal", "reasoning_content", "reasoning", "tool_calls", "function_call"}
)


def _read_assistant(given: Mapping[str, Any]) -> AssistantMessage:
    content: list[Content] = []
    # DeepSeek, llama.cpp and Qwen have `reasoning_content`; OpenRouter and Ollama have `reasoning`.
    for key in ("reasoning_content", "reasoning"):
        if isinstance(given.get(key), str) and given[key]:
            content.append(Thinking(given[key]))
            break
    for value in (given.get("content"), given.get("refusal")):
        blocks = read_content(value) if value else []
        content += [block for block in blocks if isinstance(block, Text | Opaque)]
        if any(isinstance(block, Image) for block in blocks):
            raise UsageError("an assistant message cannot contain images")
    for number, call in enumerate(given.get("tool_calls") or ()):
        content.append(_read_call(call, number))
    if given.get("function_call"):  # one call without an id, from the API before `tool_calls`
        content.append(_read_call({"function": given["function_call"]}, 0))
    rest = {key: value for key, value in given.items() if value and key not in _ASSISTANT_KEYS}
    if rest:
        content.append(Opaque(OPENAI, rest))
    if not content and given.get("content") is None:
        raise UsageError("an assistant message needs `content` or `tool_calls`")
    return AssistantMessage(content=content)


def _read_call(call: object, number: int) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    fields = call if isinstance(call, Mapping) else {}
    function = fields.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name, str):
        raise UsageError('a tool call must be {"id": …, "function": {"name": …, "arguments": …}}')
    id_ = str(fields.get("id") or f"call_{number}")
    arguments = function.get("arguments")
    if isinstance(arguments, Mapping):  # as in Ollama's API
        return ToolCall(id_, name, dict(arguments))
    if arguments is not None and not isinstance(arguments, str):
        raise UsageError(f"`arguments` of a tool call must be JSON text, not {_name(arguments)}")
    return ToolCall.from_text(id_, name, arguments or "")


def _read_result(given: Mapping[str, Any]) -> ToolResult:
    _check_keys(given, "content", "name", "tool_call_id")
    name = given.get("name") or ""
    id_ = given.get("tool_call_id") or name
    if not isinstance(id_, str) or not id_:
        raise UsageError("a tool message needs the `tool_call_id` of its call")
    blocks = read_content(given.get("content"))
    texts = [block.text for block in blocks if isinstance(block, Text)]
    return ToolResult(id_, str(name), "\n".join(texts) if len(texts) == len(blocks) else blocks)


def _check_keys(given: Mapping[str, Any], *known: str) -> None:
    """Raise `UsageError` for keys that would be lost: misspelt or unsupported ones."""
    odd = [str(key) for key in given if key != "role" and key not in known and given[key]]
    if odd:
        raise UsageError(f"a {given['role']} message cannot have {', '.join(odd)}")


def _are_all(values: Iterable[object], types: tuple[type, ...]) -> bool:
    for value in values:  # noqa: SIM110 - every request is checked, and `all` costs twice as much
        if not isinstance(value, types):
            return False
    return True


def _is_many(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _name(value: object) -> str:
    return "None" if value is None else type(value).__name__
