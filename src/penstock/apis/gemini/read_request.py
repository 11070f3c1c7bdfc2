"""Read a request of `generateContent` into a `Request`, and schemas in both of its forms.

The model and whether to stream are in the URL; the fields `model` and `stream` of the body are read
if they are present. Names may be in camel case or with underscores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock.apis.fields import (
    clean,
    integer_at,
    number_at,
    object_at,
    short_repr,
    split_tools,
    string_list,
    text_at,
    without_keys,
)
from penstock.apis.gemini import tables
from penstock.apis.gemini.tables import restore_signature, standard_base64
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

# The role may be missing; older clients send results with the role `function`.
_USERS: Final = ("user", "function", "tool", None, "")
# A result is an object: Google's SDKs put a plain value under `result`, the documentation under
# `output`.
_OUTPUTS: Final = ("output", "result")
_DETAILS: Final = {"MEDIA_RESOLUTION_LOW": "low", "MEDIA_RESOLUTION_HIGH": "high"}


def camel(data: object) -> dict[str, Any]:
    """Return the fields of *data* with names in camel case: the API accepts both forms."""
    fields = data if isinstance(data, Mapping) else {}
    return {_camel_name(key): value for key, value in fields.items()}


def _camel_name(name: object) -> str:
    head, *rest = str(name).split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest)


def read_parts(content: object) -> list[dict[str, Any]]:
    """Return the parts of a turn, which may also be a string or a single part."""
    if isinstance(content, str):
        return [{"text": content}]
    fields = camel(content)
    parts = fields.get("parts")
    if isinstance(parts, Mapping | str):
        parts = [parts]
    elif not isinstance(parts, list):
        parts = [fields] if "text" in fields else []
    return [{"text": part} if isinstance(part, str) else camel(part) for part in parts]


class ContentsReader:
    """Reads turns in order.

    A client that streamed sends each chunk back as a turn, so consecutive turns of the model are
    one message, and consecutive texts one block. Results are parts of a user turn; a result belongs
    to the call with its id, or else to the oldest open call of its name.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._open: list[ToolCall] = []  # calls that have no result yet
        self._wire_ids: dict[str, str] = {}  # of calls, by our id
        self._given: set[str] = set()

    def read(self, content: object) -> None:
        """Read a turn; raise `UsageError` if its role is unknown."""
        if not isinstance(content, Mapping | str):
            raise UsageError("an item of `contents` must be a JSON object")
        role = content.get("role") if isinstance(content, Mapping) else "user"
        parts = read_parts(content)
        if role in ("model", "assistant"):
            self._read_model(parts)
        elif role in ("system", "developer"):
            text = "\n\n".join(text_at(part, "text") for part in parts)
            self.messages.append(SystemMessage(text))
        elif role in _USERS:
            self._read_user(parts)
        else:
            raise UsageError(f"`role` must be user or model, not {short_repr(role)}")

    # --- the model ---

    def _read_model(self, parts: list[dict[str, Any]]) -> None:
        last = self.messages[-1] if self.messages else None
        if not isinstance(last, AssistantMessage):
            last = AssistantMessage()
            self.messages.append(last)
        for part in parts:
            self._read_model_part(part, last.content)

    def _read_model_part(self, part: dict[str, Any], content: list[Content]) -> None:
        signature = restore_signature(text_at(part, "thoughtSignature"))
        if isinstance(part.get("functionCall"), Mapping):
            content.append(self._read_call(camel(part["functionCall"]), signature))
        elif isinstance(part.get("text"), str):
            kind = Thinking if part.get("thought") is True else Text
            _append_text(content, kind(text_at(part, "text"), signature))
        elif part:
            content.append(Opaque(tables.NAME, part))

    def _read_call(self, data: dict[str, Any], signature: str) -> ToolCall:
        wire_id, args = text_at(data, "id"), data.get("args")
        id_, number = wire_id, len(self._given)
        while not id_ or id_ in self._given:
            number += 1
            id_ = f"call_{number}"
        self._given.add(id_)
        self._wire_ids[id_] = wire_id
        arguments = dict(args) if isinstance(args, Mapping) else {}
        call = ToolCall(id_, text_at(data, "name"), arguments, signature=signature)
        self._open.append(call)
        return call

    # --- the user ---

    def _read_user(self, parts: list[dict[str, Any]]) -> None:
        message: UserMessage | None = None
        for part in parts:
            if isinstance(part.get("functionResponse"), Mapping):
                self.messages.append(self._read_result(camel(part["functionResponse"])))
                message = None
            elif part:
                if message is None:
                    message = UserMessage()
                    self.messages.append(message)
                message.content.append(read_user_part(part))

    def _read_result(self, data: dict[str, Any]) -> ToolResult:
        id_, name = text_at(data, "id"), text_at(data, "name")
        content, is_error = _read_output(data.get("response"))
        files = [read_user_part(camel(part)) for part in data.get("parts") or []]
        if files:
            text = [Text(content)] if isinstance(content, str) and content else []
            content = [*text, *files]
        call = self._take_call(id_, name)
        if call is None:
            return ToolResult(id_ or name, name, content, is_error)
        return ToolResult(call.id, call.name, content, is_error)

    def _take_call(self, id_: str, name: str) -> ToolCall | None:
        """Return the call that a result belongs to; it is not open any more."""
        for call in self._open:
            if self._wire_ids[call.id] == id_ if id_ else name in ("", call.name):
                self._open.remove(call)
                return call
        return None


def read_user_part(part: dict[str, Any]) -> UserContent:
    """Read a part of a user turn: text, an image, or a part that only the API understands."""
    if isinstance(part.get("text"), str):
        return Text(text_at(part, "text"))
    inline, file = camel(part.get("inlineData")), camel(part.get("fileData"))
    kind = text_at(inline or file, "mimeType")
    level = text_at(camel(part.get("mediaResolution")), "level")
    if kind.startswith("image/"):
        return Image(
            media_type=kind,
            data=standard_base64(text_at(inline, "data")),
            url=text_at(file, "fileUri"),
            detail=_DETAILS.get(level, ""),
        )
    return Opaque(tables.NAME, part)


def _append_text(content: list[Content], block: Text | Thinking) -> None:
    """Add *block*, merged with the one before if that is of its kind and has no signature."""
    last = content[-1] if content else None
    if isinstance(last, type(block)) and not last.signature:
        last.text += block.text
        last.signature = block.signature
    elif block.text or block.signature:
        content.append(block)


def _read_output(response: object) -> tuple[Any, bool]:
    """Return the content of a result, and whether it is an error."""
    fields = object_at({"response": response}, "response")
    if len(fields) == 1:
        (key, value), *_ = fields.items()
        if key == "error" or key in _OUTPUTS:
            return clean(value) if isinstance(value, str) else value, key == "error"
    if isinstance(response, str):
        return clean(response), False
    return dict(fields), False


_KNOWN: Final = frozenset(
    {
        "model", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig",
        "stream",
    }
)  # fmt: skip
_CONFIG: Final = frozenset(
    {
        "temperature", "topP", "topK", "maxOutputTokens", "stopSequences", "seed",
        "candidateCount", "presencePenalty", "frequencyPenalty", "responseMimeType",
        "responseSchema", "responseJsonSchema", "thinkingConfig",
    }
)  # fmt: skip
_THINKING: Final = frozenset({"thinkingBudget", "thinkingLevel", "includeThoughts"})
_JSON: Final = "application/json"
# The budget with which the model decides itself how long to think.
_DYNAMIC: Final = -1
_UNSPECIFIED: Final = "THINKING_LEVEL_UNSPECIFIED"


def read_request(data: Mapping[str, Any]) -> Request:
    """Read the body that a client sent; raise `UsageError` if it is not a request."""
    fields = camel(data)
    config = camel(fields.get("generationConfig"))
    conversation = _conversation(fields.get("contents"))
    tools, foreign = _read_tools(fields.get("tools"))
    choice, choice_rest = _read_choice(camel(fields.get("toolConfig")))
    format_, format_rest = _read_format(config)
    thinking, thinking_rest = _read_thinking(camel(config.get("thinkingConfig")))
    config_rest = {**without_keys(config, _CONFIG), **format_rest, **thinking_rest}
    rest = {"generationConfig": config_rest, "tools": foreign, "toolConfig": choice_rest}
    return Request(
        # Resource names are accepted, such as `models/gemini-2.5-pro`.
        model=text_at(fields, "model").removeprefix("models/"),
        system=_system(fields.get("systemInstruction")),
        messages=conversation.messages,
        tools=tools,
        tool_choice=choice,
        max_tokens=integer_at(config, "maxOutputTokens"),
        temperature=number_at(config, "temperature"),
        top_p=number_at(config, "topP"),
        top_k=integer_at(config, "topK"),
        seed=integer_at(config, "seed"),
        presence_penalty=number_at(config, "presencePenalty"),
        frequency_penalty=number_at(config, "frequencyPenalty"),
        stop=string_list(config.get("stopSequences")),
        n=integer_at(config, "candidateCount"),
        response_format=format_,
        reasoning=thinking,
        stream=fields.get("stream") is True,
        include_usage=True,
        source=tables.NAME,
        extra={**without_keys(fields, _KNOWN), **{key: rest[key] for key in rest if rest[key]}},
        raw=dict(data),
    )


def _conversation(contents: object) -> ContentsReader:
    if isinstance(contents, Mapping | str):
        contents = [contents]
    if not isinstance(contents, list):
        raise UsageError("`contents` must be a list")
    reader = ContentsReader()
    for content in contents:
        reader.read(content)
    return reader


def _system(content: object) -> str:
    return "\n\n".join(filter(None, (text_at(part, "text") for part in read_parts(content))))


def _read_tools(tools: object) -> tuple[Any, list[Any]]:
    """Split functions from tools that the API runs."""
    declared: list[object] = []
    foreign: list[Any] = []
    for tool in tools if isinstance(tools, list) else [tools] if tools else []:
        fields = camel(tool)
        found = fields.pop("functionDeclarations", [])
        declared += found if isinstance(found, list) else [found]
        if fields:
            foreign.append(fields)
    own, unreadable = split_tools(declared)
    if unreadable:
        foreign.append({"functionDeclarations": unreadable})
    return own, foreign


def _read_choice(config: dict[str, Any]) -> tuple[ToolChoice | None, dict[str, Any]]:
    """Return the tool choice, and the fields that it cannot express."""
    calling = camel(config.pop("functionCallingConfig", None))
    mode, names = calling.pop("mode", None), string_list(calling.pop("allowedFunctionNames", None))
    word = mode.upper() if isinstance(mode, str) else ""
    choice: ToolChoice | None = None
    if word == "ANY":
        choice = ToolChoice("tool", names[0]) if len(names) == 1 else ToolChoice("required")
    # `VALIDATED` lets the model choose, but constrains its calls to their schemas.
    elif word in ("AUTO", "VALIDATED"):
        choice = ToolChoice("auto")
    elif word == "NONE":
        choice = ToolChoice("none")
    if word == "VALIDATED":
        calling["mode"] = word
    if names and (choice is None or choice.mode != "tool"):
        calling["allowedFunctionNames"] = names
    return choice, {**config, **({"functionCallingConfig": calling} if calling else {})}


def _read_format(config: dict[str, Any]) -> tuple[ResponseFormat | None, dict[str, Any]]:
    """Return the response format, and the fields that it cannot express."""
    kind = text_at(config, "responseMimeType")
    for key in ("responseJsonSchema", "responseSchema"):
        if isinstance(config.get(key), Mapping) and kind in ("", _JSON):
            return ResponseFormat("schema", read_schema(config[key])), {}
    if kind in (_JSON, "text/plain"):
        return ResponseFormat("json" if kind == _JSON else "text"), {}
    keys = ("responseMimeType", "responseJsonSchema", "responseSchema")
    return None, {key: config[key] for key in keys if config.get(key) is not None}


def _read_thinking(config: dict[str, Any]) -> tuple[ReasoningOptions | None, dict[str, Any]]:
    """Return the reasoning options, and the fields that they cannot express (a dynamic budget)."""
    budget, level = integer_at(config, "thinkingBudget"), text_at(config, "thinkingLevel")
    rest = without_keys(config, _THINKING)
    if budget is not None and budget < 0:
        rest["thinkingBudget"] = _DYNAMIC
        budget = None
    effort = "" if level.upper() == _UNSPECIFIED else level.lower()
    summary = "auto" if config.get("includeThoughts") is True else ""
    options = ReasoningOptions(effort, budget, summary)
    unread = {"thinkingConfig": rest} if rest else {}
    return (None if options == ReasoningOptions() else options), unread


# --- JSON Schemas in the API's two forms: its own subset, and standard JSON Schema ---
#
# `parameters` and `responseSchema` take a subset with types in capitals, which every model
# supports; `parametersJsonSchema` and `responseJsonSchema` take the standard. A schema that fits
# the subset is written as that.

MAX_DEPTH: Final = 32
"""How deep a schema of the subset may nest; a deeper one is written as JSON Schema."""

_KEYS: Final = frozenset(
    {
        "type", "format", "title", "description", "nullable", "enum", "default", "example",
        "items", "minItems", "maxItems", "properties", "required", "minProperties",
        "maxProperties", "propertyOrdering", "minLength", "maxLength", "pattern", "minimum",
        "maximum", "anyOf",
    }
)  # fmt: skip
_FORMATS: Final = {
    "string": {"date-time", "enum"},
    "number": {"float", "double"},
    "integer": {"int32", "int64"},
}
_TYPES: Final = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})


def read_schema(data: object) -> dict[str, Any]:
    """Read a schema in either form as JSON Schema; a value that is not one is empty."""
    try:
        return Tool.read({"name": "schema", "parameters": data}).parameters
    except UsageError:
        return {}


def write_schema(schema: dict[str, Any], key: str, standard_key: str) -> dict[str, Any]:
    """Write *schema* under *key* if it fits the subset, else under *standard_key*."""
    if fits(schema):
        return {key: _with_capitals(schema)}
    return {standard_key: schema}


def fits(schema: dict[str, Any]) -> bool:
    """Return whether the subset can express *schema*, which must be of an object."""
    level: list[object] = [schema]
    for _ in range(MAX_DEPTH):
        if not level:
            return schema.get("type") == "object"
        if not all(_fits_alone(inner) for inner in level):
            return False
        level = [below for inner in level if isinstance(inner, Mapping) for below in _below(inner)]
    return False


def _fits_alone(schema: object) -> bool:
    """Return whether *schema* fits, without the schemas inside it."""
    if not isinstance(schema, Mapping) or not schema.keys() <= _KEYS:
        return False
    if "type" not in schema:
        return bool(schema.get("anyOf")) and isinstance(schema["anyOf"], list)
    type_ = schema["type"]
    if not isinstance(type_, str) or type_ not in _TYPES:
        return False
    if "format" in schema and schema["format"] not in _FORMATS.get(type_, ()):
        return False
    if "enum" in schema and not (type_ == "string" and _are_strings(schema["enum"])):
        return False
    if type_ == "object":  # The API refuses one without properties.
        return isinstance(schema.get("properties"), Mapping) and bool(schema["properties"])
    return type_ != "array" or "items" in schema


def _are_strings(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) and value for value in values)


def _below(schema: Mapping[str, Any]) -> Iterator[object]:
    if "items" in schema:
        yield schema["items"]
    if isinstance(schema.get("properties"), Mapping):
        yield from schema["properties"].values()
    if isinstance(schema.get("anyOf"), list):
        yield from schema["anyOf"]


def _with_capitals(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Write types in capitals, also in the schemas inside; `fits` has bounded the depth."""
    written = dict(schema)
    if "type" in written:
        written["type"] = written["type"].upper()
    if "items" in written:
        written["items"] = _with_capitals(written["items"])
    if "anyOf" in written:
        written["anyOf"] = [_with_capitals(inner) for inner in written["anyOf"]]
    if "properties" in written:
        written["properties"] = {
            name: _with_capitals(inner) for name, inner in written["properties"].items()
        }
    return written
