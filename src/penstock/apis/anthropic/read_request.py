"""What a client of the messages API asks, read into a `Request`.

Clients send fields that no specification knows; they are kept aside in `Request.extra`, and only
what cannot be a request raises. Bodies for counting tokens are read the same way.

Marks of the cache are on single blocks, which have no place for them: those in the system prompt
are kept aside with it. Those in the messages go back to their blocks as long as the messages are
the same (`own_blocks`); for messages that have changed, the last one is kept for the whole request,
where it means the last block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from penstock import _json
from penstock.apis.anthropic import tables
from penstock.apis.anthropic.client_tools import read_client_tool
from penstock.apis.anthropic.thinking import read_reasoning, thinking_aside
from penstock.apis.fields import (
    check_content,
    check_list,
    integer,
    list_at,
    number,
    object_at,
    shown,
    sorted_tools,
    strings,
    text_at,
    the_rest,
)
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
from penstock.request import (
    Image,
    Message,
    Request,
    ResponseFormat,
    SystemMessage,
    ToolChoice,
    UserContent,
    UserMessage,
)
from penstock.tools import Tool

# The messages of a conversation, read into ours.
#
# What a tool gave back comes inside of what the user says here, and is a message of its own
# there. Blocks that only this API understands are kept whole; citations become a block after
# their text, and who made a call one before it.


_SYSTEM: Final = ("system", "developer")


class MessagesReader:
    """Messages read in order: results come before what the user says beside them.

    *system* is the system prompt; instructions in front of all other messages are added to it.
    `cache_mark` is the last mark of the cache that was seen, and `sources` has each block that was
    read with the data that it was read from.
    """

    def __init__(self, system: str) -> None:
        self.system = [system] if system else []
        self.messages: list[Message] = []
        self.cache_mark: object = None
        self.sources: list[tuple[object, Mapping[str, Any]]] = []
        self._names: dict[str, str] = {}  # of calls, by id

    def read(self, data: object) -> None:
        """Read one more message; raise `UsageError` for what is not one."""
        if not isinstance(data, Mapping):
            raise UsageError("a message is a JSON object")
        role, content = data.get("role"), data.get("content")
        blocks = _blocks_of(content)
        for block in blocks:
            self.cache_mark = block.get("cache_control") or self.cache_mark
        if role in _SYSTEM:
            self._read_system(text_of_blocks(content), data)
        elif role == "user":
            check_content(content)
            self._read_user(blocks)
        elif role == "assistant":
            self._read_assistant(blocks)
        else:
            raise UsageError(f"`role` must be user, assistant or system, not {shown(role)}")

    def _read_system(self, text: str, data: Mapping[str, Any]) -> None:
        """Read instructions; Claude Code sends some among the messages."""
        if self.messages:
            message = SystemMessage(text)
            self.sources.append((message, data))
            self.messages.append(message)
        elif text:
            self.system.append(text)

    def _read_user(self, blocks: list[Mapping[str, Any]]) -> None:
        said = [block for block in blocks if block.get("type") != "tool_result"]
        self.messages += [self._read_result(b) for b in blocks if b.get("type") == "tool_result"]
        if said or not blocks:
            content = [_read_part(block) for block in said]
            self.sources += zip(content, said, strict=True)
            self.messages.append(UserMessage(content))

    def _read_result(self, block: Mapping[str, Any]) -> ToolResult:
        id_ = text_at(block, "tool_use_id")
        content, is_error = _read_output(block.get("content")), block.get("is_error") is True
        result = ToolResult(id_, self._names.get(id_, ""), content, is_error)
        self.sources.append((result, block))
        return result

    def _read_assistant(self, blocks: list[Mapping[str, Any]]) -> None:
        content: list[Content] = []
        for block in blocks:
            read = _read_block(block)
            self.sources += [(each, block) for each in read if not isinstance(each, Opaque)]
            content += read
        message = AssistantMessage(content=content)
        self._names |= {call.id: call.name for call in message.tool_calls}
        self.messages.append(message)


def _read_block(block: Mapping[str, Any]) -> list[Content]:
    """Read a block of what the assistant said; citations become a block of their own."""
    match block.get("type"):
        case "text":
            text = Text(text_at(block, "text"))
            citations = block.get("citations")
            return [text, Opaque(tables.NAME, {"citations": citations})] if citations else [text]
        case "thinking":
            return [Thinking(text_at(block, "thinking"), text_at(block, "signature"))]
        case "tool_use":
            caller = block.get("caller")
            made = [Opaque(tables.NAME, {"caller": caller})] if isinstance(caller, dict) else []
            return [*made, _read_call(block)]
    return [Opaque(tables.NAME, dict(block))]


def _read_call(block: Mapping[str, Any]) -> ToolCall:
    id_, name, given = text_at(block, "id"), text_at(block, "name"), block.get("input")
    if not id_ or not name:
        raise UsageError("a block of tool_use needs an id and a name")
    if isinstance(given, str):
        return ToolCall.from_text(id_, name, given)
    return ToolCall(id_, name, given if isinstance(given, dict) else {})


def _read_part(block: Mapping[str, Any]) -> UserContent:
    """Read a block of what a user says or a tool gives back."""
    kind, source = block.get("type"), object_at(block, "source")
    if kind == "text":
        return Text(text_at(block, "text"))
    if kind == "image" and source.get("type") == "base64":
        return Image(media_type=text_at(source, "media_type"), data=text_at(source, "data"))
    if kind == "image" and source.get("type") == "url":
        return Image(url=text_at(source, "url"))
    return Opaque(tables.NAME, the_rest(block, frozenset({"cache_control"})))


def _read_output(content: object) -> Any:
    """Read what a tool gave back: text where it is nothing else, and else its blocks."""
    if not isinstance(content, str | list):
        return "" if content is None else content
    parts = [_read_part(block) for block in _blocks_of(content)]
    texts = [part.text for part in parts if isinstance(part, Text)]
    return "\n".join(texts) if len(texts) == len(parts) else parts


def _blocks_of(content: object) -> list[Mapping[str, Any]]:
    """Return content as blocks: text alone is one."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    parts = content if isinstance(content, list) else []
    texts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return [block for block in texts if isinstance(block, Mapping)]


def text_of_blocks(content: object) -> str:
    """Return all text of *content*, one block a paragraph."""
    texts = [text_at(block, "text") for block in _blocks_of(content)]
    return "\n\n".join(text for text in texts if text)


KNOWN: Final = frozenset(
    {
        "model", "system", "messages", "tools", "tool_choice", "max_tokens", "temperature",
        "top_p", "top_k", "stop_sequences", "stream", "thinking", "output_config", "output_format",
        "metadata",
        "betas", "anthropic_beta", "anthropic_version",  # meant for the way, not for the model
    }
)  # fmt: skip
_MODES: Final = {"auto": "auto", "any": "required", "none": "none", "tool": "tool"}
_IN_OUTPUT: Final = frozenset({"effort", "format"})


def read_request(data: Mapping[str, Any]) -> Request:
    """Read what a client sent; raise `UsageError` for what is not a request."""
    messages = data.get("messages")
    if not isinstance(messages, list):
        raise UsageError("`messages` must be a list")
    reader = MessagesReader(text_of_blocks(data.get("system")))
    for position, message in enumerate(messages):
        try:
            reader.read(message)
        except UsageError as exc:
            raise UsageError(f"`messages[{position}]`: {exc}") from None
    check_list(data, "tools")
    tools, foreign = sorted_tools(list_at(data, "tools"), read_tool)
    choice = _fields(data.get("tool_choice"))
    is_stream = data.get("stream") is True
    return Request(
        model=text_at(data, "model"),
        system="\n\n".join(reader.system),
        messages=reader.messages,
        tools=tools,
        tool_choice=_read_choice(choice),
        parallel_tool_calls=_read_parallel(choice),
        max_tokens=integer(data, "max_tokens"),
        temperature=number(data, "temperature"),
        top_p=number(data, "top_p"),
        top_k=integer(data, "top_k"),
        stop=strings(data.get("stop_sequences")),
        response_format=_read_format(data),
        reasoning=read_reasoning(data),
        stream=is_stream,
        include_usage=is_stream,  # Every stream of this API tells the tokens.
        metadata=the_rest(object_at(data, "metadata"), frozenset({"user_id"})),
        user=text_at(object_at(data, "metadata"), "user_id"),
        source=tables.NAME,
        extra=_read_extra(data, foreign, reader.cache_mark),
        raw=dict(data),
    )


def read_tool(data: object) -> Tool:
    """Read a tool that the client runs; raise `UsageError` for one that the server does.

    Examples of its input become part of its description: no other API has a field for them.
    """
    tool = read_client_tool(data) or Tool.read(data)
    examples = data.get("input_examples") if isinstance(data, Mapping) else None
    if not isinstance(examples, list) or not examples:
        return tool
    shown = "\n".join(_json.encode_wire(example).decode() for example in examples)
    description = f"{tool.description}\n\nExamples of input:\n{shown}".strip()
    return structs.replace(tool, description=description)


def _read_extra(data: Mapping[str, Any], tools: list[object], mark: object) -> dict[str, Any]:
    """Keep aside what has no place in a request, also inside of fields that have one."""
    output = object_at(data, "output_config")
    choice, system = data.get("tool_choice"), data.get("system")
    aside = {
        "tools": tools,
        "tool_choice": None if _read_choice(_fields(choice)) else choice,
        "thinking": thinking_aside(data),
        "output_config": the_rest(output, _IN_OUTPUT),
        "system": system if _has_marks(system) else None,
        "cache_control": mark,
    }
    return {**{key: value for key, value in aside.items() if value}, **the_rest(data, KNOWN)}


def _has_marks(system: object) -> bool:
    blocks = system if isinstance(system, list) else []
    return any(isinstance(block, Mapping) and len(block) > 2 for block in blocks)  # noqa: PLR2004


def _fields(choice: object) -> Mapping[str, Any]:
    if isinstance(choice, str):
        return {"type": choice}
    return choice if isinstance(choice, Mapping) else {}


def _read_choice(choice: Mapping[str, Any]) -> ToolChoice | None:
    mode: Any = _MODES.get(str(choice.get("type")))
    if mode == "tool":
        return ToolChoice(mode, text_at(choice, "name"))
    return ToolChoice(mode) if mode else None


def _read_parallel(choice: Mapping[str, Any]) -> bool | None:
    is_disabled = choice.get("disable_parallel_tool_use")
    return not is_disabled if isinstance(is_disabled, bool) else None


def _read_format(data: Mapping[str, Any]) -> ResponseFormat | None:
    wanted = object_at(object_at(data, "output_config"), "format") or object_at(
        data, "output_format"
    )
    if wanted.get("type") != "json_schema":
        return None
    return ResponseFormat("schema", dict(object_at(wanted, "schema")))
