"""Read a request of the Messages API into a `Request`.

Clients send fields that are in no specification; they are kept in `Request.extra`, and only a value
that cannot be a request raises. Bodies for counting tokens are read the same way.

Cache marks are on single blocks, which a `Request` cannot express. Those of the system prompt are
kept with it. Those of the messages go back to their blocks as long as the messages are unchanged
(`OriginalBlocks`); for changed messages, the last mark is kept for the whole request, where it
means the last block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import structs

from penstock import _json
from penstock.apis.anthropic import tables
from penstock.apis.fields import (
    check_arguments,
    check_content,
    check_list,
    check_text,
    integer_at,
    list_at,
    number_at,
    object_at,
    short_repr,
    split_tools,
    string_list,
    text_at,
    without_keys,
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
    ReasoningOptions,
    Request,
    ResponseFormat,
    SystemMessage,
    ToolChoice,
    UserContent,
    UserMessage,
)
from penstock.tools import Tool

_SYSTEM: Final = ("system", "developer")


class MessagesReader:
    """Reads messages in order.

    Tool results are blocks of a user message in this API and messages of their own in ours; they
    come before the user's other blocks. Blocks that only this API understands are kept whole;
    citations become a block after their text, and the caller of a call becomes one before it.

    *system* is the system prompt; instructions before all other messages are added to it.
    `cache_mark` is the last cache mark, and `sources` has each block with the data it was read
    from.
    """

    def __init__(self, system: str) -> None:
        self.system = [system] if system else []
        self.messages: list[Message] = []
        self.cache_mark: object = None
        self.sources: list[tuple[object, Mapping[str, Any]]] = []
        self._names: dict[str, str] = {}  # of calls, by id

    def read(self, data: object) -> None:
        """Read a message; raise `UsageError` if it is not one."""
        if not isinstance(data, Mapping):
            raise UsageError("a message must be a JSON object")
        role, content = data.get("role"), data.get("content")
        check_content(content)
        blocks = _read_blocks(content)
        for block in blocks:
            self.cache_mark = block.get("cache_control") or self.cache_mark
        if role in _SYSTEM:
            self._read_system(join_text(content), data)
        elif role == "user":
            self._read_user(blocks)
        elif role == "assistant":
            self._read_assistant(blocks)
        else:
            raise UsageError(f"`role` must be user, assistant or system, not {short_repr(role)}")

    def _read_system(self, text: str, data: Mapping[str, Any]) -> None:
        """Read instructions; Claude Code sends some among the messages."""
        if self.messages:
            message = SystemMessage(text)
            self.sources.append((message, data))
            self.messages.append(message)
        elif text:
            self.system.append(text)

    def _read_user(self, blocks: list[Mapping[str, Any]]) -> None:
        parts = [block for block in blocks if block.get("type") != "tool_result"]
        self.messages += [self._read_result(b) for b in blocks if b.get("type") == "tool_result"]
        if parts or not blocks:
            content = [_read_part(block) for block in parts]
            self.sources += zip(content, parts, strict=True)
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
    """Read a block of an assistant message."""
    match block.get("type"):
        case "text":
            text = Text(text_at(block, "text"))
            citations = block.get("citations")
            return [text, Opaque(tables.NAME, {"citations": citations})] if citations else [text]
        case "thinking":
            return [Thinking(text_at(block, "thinking"), text_at(block, "signature"))]
        case "tool_use":
            # `caller` names the server tool (code execution) that made the call; it goes back with
            # it.
            caller = block.get("caller")
            before = [Opaque(tables.NAME, {"caller": caller})] if isinstance(caller, dict) else []
            return [*before, _read_call(block)]
    return [Opaque(tables.NAME, dict(block))]


def _read_call(block: Mapping[str, Any]) -> ToolCall:
    id_, name, given = text_at(block, "id"), text_at(block, "name"), block.get("input")
    if not id_ or not name:
        raise UsageError("a `tool_use` block needs an `id` and a `name`")
    check_arguments(given)
    if isinstance(given, str):
        return ToolCall.from_text(id_, name, given)
    return ToolCall(id_, name, given or {})


def _read_part(block: Mapping[str, Any]) -> UserContent:
    """Read a block of a user message or a tool result."""
    kind, source = block.get("type"), object_at(block, "source")
    if kind == "text":
        return Text(text_at(block, "text"))
    if kind == "image" and source.get("type") in ("base64", "url"):
        for key in ("media_type", "data", "url"):
            check_text(source, key)
    if kind == "image" and source.get("type") == "base64":
        return Image(media_type=text_at(source, "media_type"), data=text_at(source, "data"))
    if kind == "image" and source.get("type") == "url":
        return Image(url=text_at(source, "url"))
    return Opaque(tables.NAME, without_keys(block, frozenset({"cache_control"})))


def _read_output(content: object) -> Any:
    """Read the content of a result: text if it is only text, otherwise its blocks."""
    if not isinstance(content, str | list):
        return "" if content is None else content
    parts = [_read_part(block) for block in _read_blocks(content)]
    texts = [part.text for part in parts if isinstance(part, Text)]
    return "\n".join(texts) if len(texts) == len(parts) else parts


def _read_blocks(content: object) -> list[Mapping[str, Any]]:
    """Return *content* as blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    parts = content if isinstance(content, list) else []
    texts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return [block for block in texts if isinstance(block, Mapping)]


def join_text(content: object) -> str:
    """Return the text of *content*, one paragraph per block."""
    texts = [text_at(block, "text") for block in _read_blocks(content)]
    return "\n\n".join(text for text in texts if text)


KNOWN: Final = frozenset(
    {
        "model", "system", "messages", "tools", "tool_choice", "max_tokens", "temperature",
        "top_p", "top_k", "stop_sequences", "stream", "thinking", "output_config", "output_format",
        "metadata",
        "betas", "anthropic_beta", "anthropic_version",  # for the transport, not for the model
    }
)  # fmt: skip
_MODES: Final = {"auto": "auto", "any": "required", "none": "none", "tool": "tool"}
_IN_OUTPUT: Final = frozenset({"effort", "format"})


def read_request(data: Mapping[str, Any]) -> Request:
    """Read the body that a client sent; raise `UsageError` if it is not a request."""
    messages = data.get("messages")
    if not isinstance(messages, list):
        raise UsageError("`messages` must be a list")
    check_content(data.get("system"), "system")
    reader = MessagesReader(join_text(data.get("system")))
    for position, message in enumerate(messages):
        try:
            reader.read(message)
        except UsageError as exc:
            raise UsageError(f"`messages[{position}]`: {exc}") from None
    check_list(data, "tools")
    tools, foreign = split_tools(list_at(data, "tools"), read_tool)
    choice = _choice_fields(data.get("tool_choice"))
    is_stream = data.get("stream") is True
    return Request(
        model=text_at(data, "model"),
        system="\n\n".join(reader.system),
        messages=reader.messages,
        tools=tools,
        tool_choice=_read_choice(choice),
        parallel_tool_calls=_read_parallel(choice),
        max_tokens=integer_at(data, "max_tokens"),
        temperature=number_at(data, "temperature"),
        top_p=number_at(data, "top_p"),
        top_k=integer_at(data, "top_k"),
        stop=string_list(data.get("stop_sequences")),
        response_format=_read_format(data),
        reasoning=read_reasoning(data),
        stream=is_stream,
        include_usage=is_stream,  # Every stream of this API has the token counts.
        metadata=without_keys(object_at(data, "metadata"), frozenset({"user_id"})),
        user=text_at(object_at(data, "metadata"), "user_id"),
        source=tables.NAME,
        extra=_read_extra(data, foreign, reader.cache_mark),
        raw=dict(data),
    )


def read_tool(data: object) -> Tool:
    """Read a tool that the client runs; raise `UsageError` for one that the server runs.

    Examples of input become part of the description: no other API has a field for them.
    """
    tool = read_client_tool(data) or Tool.read(data)
    examples = data.get("input_examples") if isinstance(data, Mapping) else None
    if not isinstance(examples, list) or not examples:
        return tool
    lines = "\n".join(_json.encode_wire(example).decode() for example in examples)
    description = f"{tool.description}\n\nExamples of input:\n{lines}".strip()
    return structs.replace(tool, description=description)


def _read_extra(data: Mapping[str, Any], tools: list[object], mark: object) -> dict[str, Any]:
    """Return what a `Request` cannot express, also inside fields that it can."""
    output = object_at(data, "output_config")
    choice, system = data.get("tool_choice"), data.get("system")
    unread = {
        "tools": tools,
        "tool_choice": None if _read_choice(_choice_fields(choice)) else choice,
        "thinking": unread_thinking(data),
        "output_config": without_keys(output, _IN_OUTPUT),
        "system": system if _has_marks(system) else None,
        "cache_control": mark,
    }
    return {**{key: value for key, value in unread.items() if value}, **without_keys(data, KNOWN)}


def _has_marks(system: object) -> bool:
    blocks = system if isinstance(system, list) else []
    # A text block has `type` and `text`; a third field is a cache mark, or citations.
    return any(isinstance(block, Mapping) and len(block) > 2 for block in blocks)  # noqa: PLR2004


def _choice_fields(choice: object) -> Mapping[str, Any]:
    if isinstance(choice, str):
        return {"type": choice}
    return choice if isinstance(choice, Mapping) else {}


def _read_choice(choice: Mapping[str, Any]) -> ToolChoice | None:
    mode: Any = _MODES.get(str(choice.get("type")))
    if mode == "tool":
        return ToolChoice(mode, text_at(choice, "name"))
    return ToolChoice(mode) if mode else None


def _read_parallel(choice: Mapping[str, Any]) -> bool | None:
    # This API has the setting inside `tool_choice`, and negated.
    is_disabled = choice.get("disable_parallel_tool_use")
    return not is_disabled if isinstance(is_disabled, bool) else None


def _read_format(data: Mapping[str, Any]) -> ResponseFormat | None:
    wanted = object_at(object_at(data, "output_config"), "format") or object_at(
        data, "output_format"
    )
    if wanted.get("type") != "json_schema":
        return None
    return ResponseFormat("schema", dict(object_at(wanted, "schema")))


# The types of `thinking` that a request can express, and their fields that it can express.
_THINKING: Final = {
    "enabled": frozenset({"type", "budget_tokens"}),
    "adaptive": frozenset({"type"}),
    "disabled": frozenset({"type"}),
}


def read_reasoning(data: Mapping[str, Any]) -> ReasoningOptions | None:
    """Read the reasoning options: a budget, an effort, none, or the model's default."""
    thinking = object_at(data, "thinking")
    effort = text_at(object_at(data, "output_config"), "effort")
    match thinking.get("type"):
        case "disabled":
            return ReasoningOptions("none")
        case "enabled":
            return ReasoningOptions(effort, integer_at(thinking, "budget_tokens"))
        case "adaptive":
            return ReasoningOptions(effort)
    return ReasoningOptions(effort) if effort else None


def unread_thinking(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of `thinking` that `read_reasoning` does not read."""
    thinking = object_at(data, "thinking")
    return without_keys(thinking, _THINKING.get(str(thinking.get("type")), frozenset()))


# --- tools that the API defines by type and the client runs ---
#
# A client sends ``{"type": "bash_20250124", "name": "bash"}`` without a schema, because Claude was
# trained on it. Any other model needs the schema, so this module has the inputs that the
# documentation of each tool lists. For other upstreams the tool is an ordinary function, and the
# client receives a call with the inputs that it expects.

_TYPE: Final = re.compile(r"(bash|text_editor|memory|computer)_(\d{8})")
# The first version of the editor whose `insert` takes `insert_text` instead of `new_str`.
_NEW_INSERT: Final = 20_250_728

# The last version of the editor with `undo_edit`.
_LAST_UNDO: Final = 20_250_124

# The first version of the computer tool with `zoom`.
_ZOOM: Final = 20_251_124


def read_client_tool(data: object) -> Tool | None:
    """Return the function for the typed tool *data*; None for any other tool."""
    if not isinstance(data, Mapping):
        return None
    found = _TYPE.fullmatch(text_at(data, "type"))
    name = text_at(data, "name")
    if found is None or not name:
        return None
    description, properties, required = _KINDS[found[1]](int(found[2]), data)
    needed = {"required": required} if required else {}
    return Tool(name, description, {"type": "object", "properties": properties, **needed})


def _string(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


def _bash(_version: int, _data: Mapping[str, Any]) -> tuple[str, dict[str, Any], list[str]]:
    properties = {
        "command": _string("The command to run. Required unless `restart` is true."),
        "restart": {"type": "boolean", "description": "Restart the session instead."},
    }
    description = "Run a command in a bash session that keeps its state from one call to the next."
    return description, properties, []


def _editing(*, insert: str) -> dict[str, Any]:
    """Return the parameters that the editor and the memory tool share.

    *insert* is the name of the parameter for inserted text.
    """
    line = {"type": "integer", "minimum": 0}
    properties = {
        "view_range": {
            "type": "array",
            "items": {"type": "integer"},
            "minItems": 2,
            "maxItems": 2,
            "description": "`view` of a file: its first and last line, from 1; -1 is the end.",
        },
        "file_text": _string("`create`: the content of the new file."),
        "old_str": _string("`str_replace`: the text to replace, exactly as it is in the file."),
        "new_str": _string("`str_replace`: the text to put in its place."),
        "insert_line": {**line, "description": "`insert`: the line after which; 0 is the start."},
    }
    if insert == "new_str":
        properties["new_str"] = _string("`str_replace` and `insert`: the new text.")
    else:
        properties[insert] = _string("`insert`: the text to insert.")
    return properties


def _text_editor(version: int, data: Mapping[str, Any]) -> tuple[str, dict[str, Any], list[str]]:
    commands = ["view", "create", "str_replace", "insert"]
    if version <= _LAST_UNDO:
        commands.append("undo_edit")
    properties = {
        "command": _string("What to do.", enum=commands),
        "path": _string("The path of the file, or of the directory to view."),
        **_editing(insert="insert_text" if version >= _NEW_INSERT else "new_str"),
    }
    description = "View, create and edit text files."
    most = data.get("max_characters")
    if isinstance(most, int):
        description += f" A view shows at most {most} characters."
    return description, properties, ["command", "path"]


def _memory(_version: int, _data: Mapping[str, Any]) -> tuple[str, dict[str, Any], list[str]]:
    commands = ["view", "create", "str_replace", "insert", "delete", "rename"]
    properties = {
        "command": _string("What to do.", enum=commands),
        "path": _string("The file or directory below /memories; not for `rename`."),
        **_editing(insert="insert_text"),
        "old_path": _string("`rename`: the present path."),
        "new_path": _string("`rename`: the new path."),
    }
    description = (
        "Keep notes in files below /memories that last from one conversation to the next. "
        "View the directory before you begin, and write down what you will need later."
    )
    return description, properties, ["command"]


def _computer(version: int, data: Mapping[str, Any]) -> tuple[str, dict[str, Any], list[str]]:
    actions = [
        "screenshot", "left_click", "right_click", "middle_click", "double_click", "triple_click",
        "left_click_drag", "left_mouse_down", "left_mouse_up", "mouse_move", "cursor_position",
        "scroll", "key", "hold_key", "type", "wait",
    ]  # fmt: skip
    point = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
    properties: dict[str, Any] = {
        "coordinate": {**point, "description": "Where, as [x, y] in pixels."},
        "start_coordinate": {**point, "description": "`left_click_drag`: where it begins."},
        "text": _string("`type`: the text. `key`, `hold_key`: the keys, such as `ctrl+s`."),
        "duration": {"type": "number", "description": "`hold_key`, `wait`: how many seconds."},
        "scroll_direction": _string("`scroll`.", enum=["up", "down", "left", "right"]),
        "scroll_amount": {"type": "integer", "description": "`scroll`: how many clicks."},
    }
    if version >= _ZOOM:
        actions.append("zoom")
        area = {**point, "minItems": 4, "maxItems": 4}
        properties["region"] = {**area, "description": "`zoom`: [x1, y1, x2, y2]."}
    size = f"{data.get('display_width_px', '?')}x{data.get('display_height_px', '?')}"
    description = (
        f"Use the mouse, the keyboard and screenshots of a computer. The screen is {size} px."
    )
    return description, {"action": _string("What to do.", enum=actions), **properties}, ["action"]


# The description, the properties and the required ones of each tool, by version and options.
_KINDS: Final[
    dict[str, Callable[[int, Mapping[str, Any]], tuple[str, dict[str, Any], list[str]]]]
] = {"bash": _bash, "text_editor": _text_editor, "memory": _memory, "computer": _computer}
