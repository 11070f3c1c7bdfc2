"""The schemas of request and response bodies for the OpenAPI document.

Those of the models' APIs describe the fields that the gateway reads and writes; other fields are
passed on to an upstream of the same API. Those of the log are generated from its records.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, get_args

import msgspec

from penstock.formats import UnreadReason
from penstock.gateway.inspector.playground import PlaygroundRequest
from penstock.gateway.replay import ReplayOptions
from penstock.store import ConversationRow, Overview, RequestRow, SessionRow

Schema = dict[str, Any]

_ANY: Final[Schema] = {}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _text(words: str = "", *values: str) -> Schema:
    schema: Schema = {"type": "string"}
    if words:
        schema["description"] = words
    return {**schema, "enum": list(values)} if values else schema


def _number(words: str = "") -> Schema:
    return {"type": "number", "description": words}


def _integer(words: str = "") -> Schema:
    return {"type": "integer", "description": words}


def _flag(words: str) -> Schema:
    return {"type": "boolean", "description": words}


def _list(items: Schema, words: str = "") -> Schema:
    return {"type": "array", "items": items, "description": words}


def _one_of(*schemas: Schema, words: str = "") -> Schema:
    return {"anyOf": list(schemas), "description": words}


def _object(fields: Schema, *required: str, words: str = "") -> Schema:
    return {
        "type": "object",
        "description": words,
        "properties": fields,
        "required": list(required),
    }


_JSON_SCHEMA: Final = _object({}, words="A JSON Schema.")
_MODEL: Final = _text("The name of a model of the gateway; the default model if it is missing.")
_STREAM: Final = _flag("Whether to send the response as server-sent events while it arrives.")
_TEMPERATURE: Final = _number("How random the response is.")
_TOP_P: Final = _number("The share of the most probable tokens to choose from.")

# --- OpenAI Chat Completions ---

_CALL: Final = _object(
    {
        "id": _text("The id that the result refers to."),
        "type": _text("", "function"),
        "function": _object(
            {"name": _text(), "arguments": _text("The arguments as JSON text.")},
            *("name", "arguments"),
        ),
    },
    *("id", "type", "function"),
)
_CONTENT_PART: Final = _one_of(
    _object({"type": _text("", "text"), "text": _text()}, "type", "text"),
    _object(
        {"type": _text("", "image_url"), "image_url": _object({"url": _text()}, "url")},
        *("type", "image_url"),
    ),
)
_CHAT: Final[dict[str, Schema]] = {
    "ChatMessage": _object(
        {
            "role": _text("", "system", "developer", "user", "assistant", "tool"),
            "content": _one_of(_text(), _list(_CONTENT_PART), {"type": "null"}),
            "reasoning_content": _text("The reasoning of an assistant message."),
            "tool_calls": _list(_ref("ChatToolCall"), "The calls of an assistant message."),
            "tool_call_id": _text("The call that a tool message is the result of."),
        },
        "role",
    ),
    "ChatToolCall": _CALL,
    "ChatTool": _object(
        {
            "type": _text("", "function"),
            "function": _object(
                {"name": _text(), "description": _text(), "parameters": _JSON_SCHEMA}, "name"
            ),
        },
        *("type", "function"),
    ),
    "ChatRequest": _object(
        {
            "model": _MODEL,
            "messages": _list(_ref("ChatMessage"), "The conversation so far."),
            "stream": _STREAM,
            "stream_options": _object(
                {"include_usage": _flag("Whether the last chunk has the usage.")}
            ),
            "tools": _list(_ref("ChatTool"), "The tools that the model may call."),
            "tool_choice": _one_of(
                _text("", "auto", "none", "required"),
                _object({"type": _text("", "function"), "function": _object({"name": _text()})}),
            ),
            "parallel_tool_calls": _flag("Whether the model may call several tools at once."),
            "max_completion_tokens": _integer("The token limit; `max_tokens` is read too."),
            "temperature": _TEMPERATURE,
            "top_p": _TOP_P,
            "seed": _integer(),
            "stop": _one_of(_text(), _list(_text()), words="Texts that end the response."),
            "n": _integer("The number of choices."),
            "response_format": _object(
                {"type": _text("", "text", "json_object", "json_schema"), "json_schema": _ANY},
                words="The form of the text.",
            ),
            "reasoning_effort": _text("How much the model reasons: none, low, medium, high, …"),
        },
        "messages",
    ),
    "ChatUsage": _object(
        {
            "prompt_tokens": _integer(),
            "completion_tokens": _integer(),
            "total_tokens": _integer(),
        }
    ),
    "ChatCompletion": _object(
        {
            "id": _text(),
            "object": _text("", "chat.completion"),
            "created": _integer("Seconds since 1970."),
            "model": _text(),
            "choices": _list(
                _object(
                    {
                        "index": _integer(),
                        "message": _ref("ChatMessage"),
                        "finish_reason": _text(
                            "", "stop", "length", "tool_calls", "content_filter"
                        ),
                    }
                )
            ),
            "usage": _ref("ChatUsage"),
        }
    ),
    "ChatChunk": _object(
        {
            "id": _text(),
            "object": _text("", "chat.completion.chunk"),
            "model": _text(),
            "choices": _list(
                _object(
                    {
                        "index": _integer(),
                        "delta": _ref("ChatMessage"),
                        "finish_reason": _one_of(_text(), {"type": "null"}),
                    }
                )
            ),
            "usage": _ref("ChatUsage"),
        },
        words="The data of one server-sent event; the last one is `[DONE]`.",
    ),
    "CompletionRequest": _object(
        {
            "model": _MODEL,
            "prompt": _text("The text to continue."),
            "stream": _STREAM,
            "max_tokens": _integer("The token limit."),
            "temperature": _TEMPERATURE,
            "top_p": _TOP_P,
            "stop": _one_of(_text(), _list(_text())),
        },
        "prompt",
    ),
}

# --- OpenAI Responses ---

_RESPONSES: Final[dict[str, Schema]] = {
    "ResponsesItem": _one_of(
        _object(
            {
                "type": _text("", "message"),
                "role": _text("", "user", "assistant", "system", "developer"),
                "content": _one_of(_text(), _list(_ANY)),
            }
        ),
        _object(
            {
                "type": _text("", "function_call"),
                "call_id": _text(),
                "name": _text(),
                "arguments": _text("The arguments as JSON text."),
            }
        ),
        _object({"type": _text("", "function_call_output"), "call_id": _text(), "output": _text()}),
        _object({"type": _text("", "reasoning"), "summary": _list(_ANY)}),
        words="One item of the conversation.",
    ),
    "ResponsesTool": _object(
        {
            "type": _text("", "function"),
            "name": _text(),
            "description": _text(),
            "parameters": _JSON_SCHEMA,
        },
        *("type", "name"),
    ),
    "ResponsesRequest": _object(
        {
            "model": _MODEL,
            "input": _one_of(_text(), _list(_ref("ResponsesItem"))),
            "instructions": _text("The system prompt."),
            "previous_response_id": _text("The stored response that this one continues."),
            "store": _flag("Whether the response is stored, so that it can be continued."),
            "stream": _STREAM,
            "tools": _list(_ref("ResponsesTool")),
            "tool_choice": _one_of(_text("", "auto", "none", "required"), _object({})),
            "parallel_tool_calls": _flag("Whether the model may call several tools at once."),
            "max_output_tokens": _integer("The token limit."),
            "temperature": _TEMPERATURE,
            "top_p": _TOP_P,
            "reasoning": _object({"effort": _text(), "summary": _text()}),
            "text": _object({"format": _ANY}, words="The form of the text."),
        },
        "input",
    ),
    "Response": _object(
        {
            "id": _text("The id for `previous_response_id`."),
            "object": _text("", "response"),
            "created_at": _integer("Seconds since 1970."),
            "status": _text("", "completed", "incomplete", "failed", "in_progress"),
            "model": _text(),
            "output": _list(_ref("ResponsesItem")),
            "usage": _object(
                {
                    "input_tokens": _integer(),
                    "output_tokens": _integer(),
                    "total_tokens": _integer(),
                }
            ),
        }
    ),
    "ResponsesEvent": _object(
        {"type": _text("Such as `response.output_text.delta`."), "sequence_number": _integer()},
        *("type", "sequence_number"),
        words="The data of one server-sent event.",
    ),
    "InputTokens": _object({"object": _text(), "input_tokens": _integer("An estimate.")}),
}

# --- Anthropic Messages ---

_ANTHROPIC: Final[dict[str, Schema]] = {
    "ContentBlock": _one_of(
        _object({"type": _text("", "text"), "text": _text()}),
        _object({"type": _text("", "thinking"), "thinking": _text(), "signature": _text()}),
        _object(
            {"type": _text("", "tool_use"), "id": _text(), "name": _text(), "input": _object({})}
        ),
        _object(
            {
                "type": _text("", "tool_result"),
                "tool_use_id": _text(),
                "content": _one_of(_text(), _list(_ANY)),
                "is_error": _flag("Whether the call failed."),
            }
        ),
        _object({"type": _text("", "image"), "source": _object({})}),
    ),
    "MessagesRequest": _object(
        {
            "model": _MODEL,
            "max_tokens": _integer("The token limit."),
            "messages": _list(
                _object(
                    {
                        "role": _text("", "user", "assistant"),
                        "content": _one_of(_text(), _list(_ref("ContentBlock"))),
                    },
                    *("role", "content"),
                )
            ),
            "system": _one_of(_text(), _list(_ref("ContentBlock"))),
            "stream": _STREAM,
            "tools": _list(
                _object(
                    {"name": _text(), "description": _text(), "input_schema": _JSON_SCHEMA}, "name"
                )
            ),
            "tool_choice": _object({"type": _text("", "auto", "any", "tool", "none")}),
            "temperature": _TEMPERATURE,
            "top_p": _TOP_P,
            "top_k": _integer(),
            "stop_sequences": _list(_text()),
            "thinking": _object({"type": _text(), "budget_tokens": _integer()}),
        },
        *("messages", "max_tokens"),
    ),
    "AnthropicMessage": _object(
        {
            "id": _text(),
            "type": _text("", "message"),
            "role": _text("", "assistant"),
            "model": _text(),
            "content": _list(_ref("ContentBlock")),
            "stop_reason": _text("", "end_turn", "max_tokens", "tool_use", "stop_sequence"),
            "usage": _object({"input_tokens": _integer(), "output_tokens": _integer()}),
        }
    ),
    "MessagesEvent": _object(
        {"type": _text("Such as `content_block_delta`.")},
        "type",
        words="The data of one server-sent event.",
    ),
    "TokenCount": _object({"input_tokens": _integer("An estimate.")}),
}

# --- the gateway itself ---

_READING: Final[dict[str, Schema]] = {
    "timed": _flag("Whether the times are those of the stream, in milliseconds."),
    "upstream": _object({}, words="The text in pieces with times, and its spans by kind."),
    "events": _list(_list(_ANY), "Pairs of a time and an event."),
    "message": _object({}, words="The message that the events amount to."),
    "usage": _object({}, words="Tokens."),
    "remarks": _list(_object({}), "What is unusual, each at its place in the text."),
    "client": _object({}, words="What the client received."),
    "truncated": _ref("Truncated"),
}

_GEMINI: Final[dict[str, Schema]] = {
    "GeminiContent": _object(
        {
            "role": _text("", "user", "model"),
            "parts": _list(
                _object(
                    {
                        "text": _text(),
                        "thought": _flag("Whether the text is reasoning."),
                        "thoughtSignature": _text(),
                        "functionCall": _object(
                            {"id": _text(), "name": _text(), "args": _object({})}
                        ),
                        "functionResponse": _object(
                            {"id": _text(), "name": _text(), "response": _object({})}
                        ),
                        "inlineData": _object({"mimeType": _text(), "data": _text()}),
                    }
                )
            ),
        }
    ),
    "GeminiRequest": _object(
        {
            "contents": _list(_ref("GeminiContent"), "The conversation."),
            "systemInstruction": _ref("GeminiContent"),
            "tools": _list(_object({"functionDeclarations": _list(_object({}))})),
            "toolConfig": _object({}, words="Which tools may be called."),
            "generationConfig": _object({}, words="Limits, sampling, reasoning, format."),
        },
        "contents",
    ),
    "GeminiResponse": _object(
        {
            "candidates": _list(
                _object(
                    {
                        "content": _ref("GeminiContent"),
                        "finishReason": _text("STOP, MAX_TOKENS, SAFETY, …"),
                        "index": _integer(),
                    }
                )
            ),
            "usageMetadata": _object({}, words="The tokens of the request and the response."),
            "modelVersion": _text(),
            "responseId": _text(),
        }
    ),
    "GeminiResponseList": _list(_ref("GeminiResponse"), "The chunks of the stream."),
    "GeminiTokenCount": _object({"totalTokens": _integer("An estimate.")}, "totalTokens"),
    "GeminiModel": _object(
        {
            "name": _text("`models/` and the name to request it by."),
            "displayName": _text(),
            "supportedGenerationMethods": _list(_text()),
        },
        "name",
    ),
    "GeminiModelList": _object({"models": _list(_ref("GeminiModel"))}, "models"),
}

_OWN: Final[dict[str, Schema]] = {
    "Error": _object(
        {
            "error": _object(
                {"message": _text("What is wrong, and what to do."), "type": _text()}, "message"
            )
        },
        "error",
        words="An error, with the fields of the API of the request.",
    ),
    "Model": _object(
        {"id": _text("The name to request it by."), "object": _text(), "owned_by": _text()}, "id"
    ),
    "ModelList": _object({"object": _text(), "data": _list(_ref("Model"))}),
    "RequestList": _object(
        {
            "data": _list(_ref("RequestRow"), "The newest first, or the largest with `sort`."),
            "next": _one_of(_text(), {"type": "null"}, words="The `before` of the next page."),
            "has_more": _flag("Whether there is a next page."),
            "total": _one_of(_integer(), {"type": "null"}, words="Only with `count`."),
        }
    ),
    "RequestDetail": {
        "allOf": [
            _ref("RequestRow"),
            _object(
                {
                    "text": _text("The beginning of the response."),
                    "notes": _object({}, words="Options, formats, unread calls, failures."),
                    "request": _ANY,
                    "upstream_request": _ANY,
                    "response": _ANY,
                    "raw": _text("What the upstream sent."),
                    "events": _list(_object({}), "What the client received, as events."),
                }
            ),
        ]
    },
    "ItemList": _object(
        {
            "object": _text(),
            "data": _list(_ref("ResponsesItem")),
            "has_more": _flag("Whether there are more items."),
        }
    ),
    "SessionList": _object({"data": _list(_ref("SessionRow"))}),
    "ConversationList": _object(
        {"data": _list(_ref("ConversationRow")), "next": _one_of(_text(), {"type": "null"})}
    ),
    "Conversation": _object(
        {
            "rows": _list(_ref("RequestRow"), "The requests, the oldest first."),
            "of": _text("The id of the request that has the most messages."),
            "messages": _list(_object({}), "Its messages, and the response."),
            "first": _integer("How many messages before the first one are not returned."),
            "system": _text("The system prompt."),
            "tools": _list(_object({}), "The tools that were offered."),
            "truncated": _ref("Truncated"),
        }
    ),
    "Analysis": _object(
        {
            "row": _ref("RequestRow"),
            "notes": _object({}, words="Options, formats, unread calls, failures."),
            "replayable": _text("Why it cannot be replayed; empty if it can."),
            "unread": _list(_ref("Unread"), "Text that looks like a call and is not one."),
            **_READING,
            "conversation": _object({}, words="The messages and tools of the request."),
            "request": _ANY,
            "upstream_request": _ANY,
            "response": _ANY,
        },
        words="One stream: what the model wrote, and what became of each character.",
    ),
    "Unread": _object(
        {
            "at": _one_of(_integer(), {"type": "null"}, words="Its place, in UTF-16 units."),
            "end": _one_of(_integer(), {"type": "null"}),
            "name": _text("The tool that it looks like a call of."),
            "format": _text("The format that it looks like."),
            "reason": _text("", *get_args(UnreadReason)),
            "description": _text("Why it is not a call."),
            "advice": _text("What to change."),
            "replay": _one_of(
                _ref("ReplayOptions"), {"type": "null"}, words="Options that read it."
            ),
        }
    ),
    "Replay": _object(
        {
            "analysis": _ref("Analysis"),
            "differences": _list(
                _object(
                    {
                        "path": _text("What is different."),
                        "then": _ANY,
                        "now": _ANY,
                        "words": _text("The difference by line."),
                    }
                )
            ),
            "complaints": _list(_text(), "What is wrong with the calls."),
        }
    ),
    "ParsedText": _object(
        {
            **_READING,
            "laws": _object({}, words="Whether each guarantee of the parser holds."),
            "unread": _list(_ref("Unread"), "Text that looks like a call and is not one."),
            "complaints": _list(_text(), "What is wrong with the calls."),
        }
    ),
    "ComparedFormats": _object(
        {
            "detected": _one_of(_text(), {"type": "null"}, words="The format of the text."),
            "formats": _list(
                _object(
                    {
                        "format": _text(),
                        "calls": _list(_object({})),
                        "text": _text(),
                        "thinking": _text(),
                        "complaints": _list(_text()),
                    }
                )
            ),
        }
    ),
    "TestVector": _object(
        {
            "id": _text(),
            "format": _text(),
            "tools": _list(_object({})),
            "text": _text("What the model wrote."),
            "expect": _object({}, words="The content, reasoning and calls that it means."),
            "options": _object({}, words="The options of the parser."),
        }
    ),
    "About": _object(
        {
            "version": _text(),
            "formats": _list(_object({}), "The formats, each with a sample."),
            "apis": _list(_text(), "The APIs of clients and upstreams."),
            "models": _list(_text(), "The models that your key may use."),
            "log": _flag("Whether requests are logged."),
            "bodies": _flag("Whether their bodies are stored."),
            "needs_key": _flag("Whether the gateway requires a key."),
        }
    ),
    "Truncated": {
        "type": "object",
        "description": "What was shortened: how much is returned, and how much there is.",
        "additionalProperties": _list(_integer()),
    },
    "Deleted": _object({"id": _text(), "object": _text(), "deleted": _flag("Always true.")}),
    "Health": _object({"status": _text("", "live", "ready", "draining")}, "status"),
}


@cache
def make_schemas() -> dict[str, Schema]:
    """Return all schemas by name."""
    records = (
        *(RequestRow, SessionRow, ConversationRow, Overview, ReplayOptions, PlaygroundRequest),
    )
    template = "#/components/schemas/{name}"
    _, generated = msgspec.json.schema_components(records, ref_template=template)
    counted = {**_ANTHROPIC["MessagesRequest"], "required": ["messages"]}
    own = {**_OWN, "CountTokensRequest": counted}
    return {**_CHAT, **_RESPONSES, **_ANTHROPIC, **_GEMINI, **own, **generated}
