"""What a Gemini client asks, read into a `Request`.

The model and whether to stream stand in the URL; where the body has fields `model` and `stream`,
they are read from there. Names may come in camel case or with underscores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.apis.gemini import tables
from penstock.apis.gemini.read_contents import Conversation, camel, parts_of
from penstock.apis.gemini.schemas import read_schema
from penstock.apis.reading import integer, number, sorted_tools, strings, text_at, the_rest
from penstock.errors import UsageError
from penstock.requests import ReasoningOptions, Request, ResponseFormat, ToolChoice

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
_DYNAMIC: Final = -1
_UNSPECIFIED: Final = "THINKING_LEVEL_UNSPECIFIED"


def read_request(data: Mapping[str, Any]) -> Request:
    """Read what a client sent; raise `UsageError` for what is no request."""
    fields = camel(data)
    config = camel(fields.get("generationConfig"))
    conversation = _conversation(fields.get("contents"))
    tools, foreign = _read_tools(fields.get("tools"))
    choice, choice_rest = _read_choice(camel(fields.get("toolConfig")))
    format_, format_rest = _read_format(config)
    thinking, thinking_rest = _read_thinking(camel(config.get("thinkingConfig")))
    config_rest = {**the_rest(config, _CONFIG), **format_rest, **thinking_rest}
    rest = {"generationConfig": config_rest, "tools": foreign, "toolConfig": choice_rest}
    return Request(
        model=text_at(fields, "model").removeprefix("models/"),
        system=_system(fields.get("systemInstruction")),
        messages=conversation.messages,
        tools=tools,
        tool_choice=choice,
        max_tokens=integer(config, "maxOutputTokens"),
        temperature=number(config, "temperature"),
        top_p=number(config, "topP"),
        top_k=integer(config, "topK"),
        seed=integer(config, "seed"),
        presence_penalty=number(config, "presencePenalty"),
        frequency_penalty=number(config, "frequencyPenalty"),
        stop=strings(config.get("stopSequences")),
        n=integer(config, "candidateCount"),
        response_format=format_,
        reasoning=thinking,
        stream=fields.get("stream") is True,
        include_usage=True,
        source=tables.NAME,
        extra={**the_rest(fields, _KNOWN), **{key: rest[key] for key in rest if rest[key]}},
        raw=dict(data),
    )


def _conversation(contents: object) -> Conversation:
    if isinstance(contents, Mapping | str):
        contents = [contents]
    if not isinstance(contents, list):
        raise UsageError("`contents` must be a list")
    reader = Conversation()
    for content in contents:
        reader.read(content)
    return reader


def _system(content: object) -> str:
    return "\n\n".join(filter(None, (text_at(part, "text") for part in parts_of(content))))


def _read_tools(tools: object) -> tuple[Any, list[Any]]:
    """Part the functions from the tools that the API runs by itself."""
    declared: list[object] = []
    foreign: list[Any] = []
    for tool in tools if isinstance(tools, list) else [tools] if tools else []:
        fields = camel(tool)
        found = fields.pop("functionDeclarations", [])
        declared += found if isinstance(found, list) else [found]
        if fields:
            foreign.append(fields)
    own, unreadable = sorted_tools(declared)
    if unreadable:
        foreign.append({"functionDeclarations": unreadable})
    return own, foreign


def _read_choice(config: dict[str, Any]) -> tuple[ToolChoice | None, dict[str, Any]]:
    """Read whether tools are called; what our words do not say is given beside."""
    calling = camel(config.pop("functionCallingConfig", None))
    mode, names = calling.pop("mode", None), strings(calling.pop("allowedFunctionNames", None))
    word = mode.upper() if isinstance(mode, str) else ""
    choice: ToolChoice | None = None
    if word == "ANY":
        choice = ToolChoice("tool", names[0]) if len(names) == 1 else ToolChoice("required")
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
    """Read what the answer has to be; a type that we have no word for is given beside."""
    kind = text_at(config, "responseMimeType")
    for key in ("responseJsonSchema", "responseSchema"):
        if isinstance(config.get(key), Mapping) and kind in ("", _JSON):
            return ResponseFormat("schema", read_schema(config[key])), {}
    if kind in (_JSON, "text/plain"):
        return ResponseFormat("json" if kind == _JSON else "text"), {}
    keys = ("responseMimeType", "responseJsonSchema", "responseSchema")
    return None, {key: config[key] for key in keys if config.get(key) is not None}


def _read_thinking(config: dict[str, Any]) -> tuple[ReasoningOptions | None, dict[str, Any]]:
    """Read how much to think; a budget that is the model's choice is none of ours."""
    budget, level = integer(config, "thinkingBudget"), text_at(config, "thinkingLevel")
    rest = the_rest(config, _THINKING)
    if budget is not None and budget < 0:
        rest["thinkingBudget"] = _DYNAMIC
        budget = None
    effort = "" if level.upper() == _UNSPECIFIED else level.lower()
    summary = "auto" if config.get("includeThoughts") is True else ""
    options = ReasoningOptions(effort, budget, summary)
    beside = {"thinkingConfig": rest} if rest else {}
    return (None if options == ReasoningOptions() else options), beside
