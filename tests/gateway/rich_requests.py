"""Requests that use all of an API: content of every type, tools, results and options."""

from __future__ import annotations

from typing import Any, Final

PRINTED: Final = (
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo", "days": "3", "tags": "x"}}'
    "\n</tool_call>"
)
"""A call as a model prints it."""

SCHEMA: Final = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "A city", "enum": ["Oslo", "Paris"]},
        "days": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
    },
    "required": ["city"],
    "$defs": {"tag": {"type": ["string", "null"]}},
    "additionalProperties": False,
}
PIXEL: Final = "data:image/png;base64,iVBORw0KGgo="

CHAT: Final[dict[str, Any]] = {
    "model": "openai-chat",
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "developer", "content": "Be exact.", "name": "dev"},
        {
            "role": "user",
            "name": "Ann",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "file", "file": {"file_data": PIXEL, "filename": "a.png"}},
            ],
        },
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, "Yes"],
            "refusal": None,
            "reasoning_content": "Hm.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
                    "extra_content": {"google": {"thought_signature": "c2ln"}},
                },
                {"id": "call_2", "type": "custom", "custom": {"name": "grep", "input": "x"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "Sun"}]},
        {"role": "tool", "tool_call_id": "call_2", "content": "none"},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
        {"role": "system", "content": "Now answer."},
        {"role": "user", "content": "And now?"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Weather",
                "parameters": SCHEMA,
                "strict": True,
            },
        },
        {"type": "custom", "custom": {"name": "grep", "format": {"type": "text"}}},
        {"type": "web_search"},
    ],
    "functions": [{"name": "f", "parameters": {"type": "object", "properties": {}}}],
    "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
    "parallel_tool_calls": False,
    "max_completion_tokens": 100,
    "max_tokens": 100,
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 20,
    "seed": 7,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "stop": ["END"],
    "n": 1,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "r", "schema": {"type": "object"}, "strict": True},
    },
    "reasoning_effort": "low",
    "reasoning": {"effort": "low", "max_tokens": 2000, "exclude": True},
    "stream_options": {"include_usage": True, "include_obfuscation": False},
    "metadata": {"a": "b"},
    "user": "ann",
    "logit_bias": {"1": 2},
    "logprobs": True,
    "modalities": ["text"],
    "session_id": "s",
}
ANTHROPIC: Final[dict[str, Any]] = {
    "model": "anthropic",
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What?", "cache_control": {"type": "ephemeral"}},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                             "data": "iVBORw0KGgo="}},
                {"type": "image", "source": {"type": "url", "url": "https://m.test/a.png"}},
                {"type": "document", "title": "T", "context": "c", "citations": {"enabled": True},
                 "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
                {"type": "document", "source": {"type": "content", "content": [
                    {"type": "text", "text": "words"}]}},
                {"type": "search_result", "source": "s", "title": "t", "content": [
                    {"type": "text", "text": "found"}]},
            ],
        },
        {"role": "system", "content": "Later words."},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "AAAA"},
                {"type": "text", "text": "Let me see.", "citations": [
                    {"type": "char_location", "cited_text": "w", "document_index": 0}]},
                {"type": "tool_use", "id": "toolu_1", "name": "get_weather",
                 "input": {"city": "Oslo"}, "caller": {"type": "direct"}},
                {"type": "server_tool_use", "id": "srv_1", "name": "web_search",
                 "input": {"query": "q"}},
                {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True, "content": [
                    {"type": "text", "text": "Sun"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                                 "data": "iVBORw0KGgo="}},
                    {"type": "tool_reference", "tool_name": "get_weather"}]},
                {"type": "text", "text": "And now?"},
            ],
        },
    ],
    "tools": [
        {"name": "get_weather", "description": "Weather", "input_schema": SCHEMA, "strict": True,
         "input_examples": [{"city": "Oslo"}], "cache_control": {"type": "ephemeral"}},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool",
         "max_characters": 10},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
    ],
    "tool_choice": {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True},
    "max_tokens": 3000,
    "temperature": 1,
    "top_p": 0.9,
    "top_k": 20,
    "stop_sequences": ["END"],
    "thinking": {"type": "enabled", "budget_tokens": 2000, "display": "summarized"},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}},
    "output_format": {"type": "json_schema", "schema": {"type": "object"}},
    "metadata": {"user_id": "ann", "a": "b"},
    "container": {"id": "c"},
    "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
    "mcp_servers": [{"type": "url", "url": "https://m.test", "name": "m"}],
    "betas": ["b"],
}  # fmt: skip
RESPONSES: Final[dict[str, Any]] = {
    "model": "openai-responses",
    "instructions": "Be brief.",
    "previous_response_id": "",  # of a response that was kept; see `conversation`
    "store": False,
    "input": [
        {"type": "item_reference", "id": ""},  # an item of that response
        {"type": "message", "role": "developer", "content": "Be exact."},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": PIXEL, "detail": "low"},
                {"type": "input_file", "filename": "a.png", "file_data": PIXEL},
            ],
        },
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}],
         "content": [{"type": "reasoning_text", "text": "Hm."}], "encrypted_content": "AAAA"},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
         "phase": "commentary", "content": [
             {"type": "output_text", "text": "Yes", "logprobs": [],
              "annotations": [{"type": "url_citation", "url": "https://m.test"}]}]},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get_weather",
         "arguments": '{"city": "Oslo"}', "status": "completed",
         "extra_content": {"google": {"thought_signature": "c2ln"}}},
        {"type": "function_call_output", "call_id": "call_1", "output": [
            {"type": "input_text", "text": "Sun"},
            {"type": "input_image", "image_url": PIXEL}]},
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_2", "name": "grep",
         "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "none"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed",
         "action": {"type": "search", "query": "q"}},
        {"role": "user", "content": "And now?"},
    ],
    "tools": [
        {"type": "function", "name": "get_weather", "description": "Weather",
         "parameters": SCHEMA, "strict": True},
        {"type": "custom", "name": "grep", "format": {"type": "text"}},
        {"type": "mcp", "server_label": "m", "server_url": "https://m.test"},
    ],
    "tool_choice": {"type": "function", "name": "get_weather"},
    "parallel_tool_calls": False,
    "max_output_tokens": 100,
    "temperature": 0.5,
    "top_p": 0.9,
    "text": {"format": {"type": "json_schema", "name": "r", "schema": {"type": "object"},
                        "strict": True}, "verbosity": "low"},
    "reasoning": {"effort": "low", "summary": "auto"},
    "metadata": {"a": "b"},
    "user": "ann",
    "include": ["reasoning.encrypted_content"],
    "truncation": "auto",
    "service_tier": "auto",
    "prompt_cache_key": "k",
    "conversation": None,
    "background": False,
}  # fmt: skip
COMPLETION: Final[dict[str, Any]] = {
    "model": "openai-chat",
    "prompt": ["Once upon a time"],
    "suffix": "the end",
    "max_tokens": 100,
    "temperature": 0.5,
    "n": 1,
    "best_of": 1,
    "logprobs": 1,
    "echo": False,
    "stop": ["END"],
    "stream_options": {"include_usage": True},
    "user": "ann",
}
PLAY: Final[dict[str, Any]] = {
    "text": PRINTED,
    "format": "hermes",
    "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}],
    "arguments": "live",
    "reasoning": "think",
    "repair": True,
    "trim": True,
    "fenced": "text",
    "chunk": 3,
}
CHANGES: Final[dict[str, Any]] = {
    "format": "hermes",
    "arguments": "whole",
    "reasoning": "think",
    "repair": True,
    "trim": True,
    "quoted": "calls",
    "fenced": "calls",
}
