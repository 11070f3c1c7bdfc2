"""How providers word the errors that matter to recovery: tables only, `failures` decides.

Every pattern is bounded by words, so that a part of a number or a word does not match, and spans a
limited number of characters, so that the cost is linear in the length of a message. The wordings
were collected from the servers named beside them. A new one needs a line here and one in the test.
"""

from __future__ import annotations

import re
from typing import Final

MAX_READ: Final = 2_000
"""How many characters of a message are searched: reasons are short, echoed prompts are long."""

# --- overflow of the context ---

OVERFLOW_TYPES: Final = frozenset(
    {
        "context_length_exceeded",  # OpenAI, Groq, DeepSeek
        "context_window_exceeded",
        "contextwindowexceedederror",  # LiteLLM
        "exceed_context_size_error",  # llama.cpp
        "model_context_window_exceeded",  # Anthropic's stop reason, Z.ai
        "request_too_large",  # Anthropic, with 413
    }
)
"""Error types, in lower case, for a conversation that is longer than the model's window."""

_TOO_LONG: Final = (
    r"context[ _-]?(?:length|window|size|limit)[ _-](?:has been )?exceed(?:ed|s)\b",
    # Responses, llama.cpp, SGLang, Anthropic with its `max_tokens`, Ollama, LM Studio
    r"\bexceed(?:s|ed)? (?:[\w'()]+ ){0,4}?context (?:length|window|size|limit)\b",
    r"\bexceed_context_size",  # llama.cpp
    r"\bmaximum (?:context|prompt|model) length (?:is|of)\b",  # OpenAI, vLLM, DeepSeek, xAI
    r"\btoo large for model with \d+ maximum context\b",  # Mistral
    # Groq, OpenAI: more than the limit of a minute, so waiting does not help
    r"\brequest too large\b",
    r"\b(?:prompt|input)(?: \([^)\n]{0,40}\))?(?: is)? too long\b",  # Anthropic, Bedrock, Ollama
    r"\b(?:input|prompt) token count\b[^.\n]{0,40}\bexceeds\b",  # Gemini, Copilot
    r"\binput token count is \d+ but model only supports up to\b",  # Vertex
    r"\bnumber of input tokens exceeds maximum length\b",  # Bedrock's Nova
    r"\binputs`? must have less than \d+ tokens\b",  # TGI
    # Cohere, which uses it for `max_tokens` that is too large as well
    r"\btoo many tokens: (?:total number of tokens|size limit|minimal context|multi-hop prompt)",
    r"\btotal length of all messages is too long\b",
    r"\bcontextwindowexceedederror\b",  # LiteLLM, before the message of its server
    r"\binput tokens exceed\b",  # OpenAI, a limit of the account
    r"\blonger than the (?:model'?s context|maximum model) length\b",  # SGLang, Together, vLLM
    r"\bgreater than the context length\b",  # LM Studio
    r"\bcontext length of only\b",  # LM Studio, older
    r"\bn_keep\b[^\n]{0,20}>= ?n_ctx\b",  # LM Studio's engine
    r"\breduce the length of the (?:messages|prompt|input)\b",  # Groq, OpenAI
    r"\brange of input length should be\b",  # Qwen
    r"\binputs`? tokens \+ `?max_new_tokens\b",  # Together, TGI
    r"\bexceeded model token limit\b",  # Kimi
    r"\bconfigured context size is\b",
    r"\bprompt exceeds max length\b",  # Z.ai
    r"超(?:过|出)\S{0,20}上下文|prompt ?超长",  # Z.ai and others, in Chinese
)
TOO_LONG: Final = re.compile("|".join(_TOO_LONG), re.IGNORECASE)
"""Matches a message about a conversation that is longer than the model's window."""

THROTTLED: Final = re.compile(
    r"\bplease wait\b|\brate limit (?:reached|exceeded)\b|\bthrottl(?:ed|ing)\b", re.IGNORECASE
)
"""Matches a message about too many tokens per minute, which is not an overflow."""

NO_REASON: Final = re.compile(r"\bgave no reason\b|\bno error details\b|\(no body\)", re.IGNORECASE)
"""Matches what our own readers write for a response without a body."""

# --- retries ---

TRANSIENT_TYPES: Final = frozenset(
    {
        "aborted",  # Gemini: a conflict, which may be retried
        "api_connection_error",
        "api_error",  # Anthropic
        "capacity_exceeded",
        "connection_error",
        "deadline_exceeded",  # Gemini
        "engine_overloaded",
        "engine_overloaded_error",  # Kimi
        "insufficient_system_resource",  # DeepSeek
        "internal",  # Gemini
        "internal_error",
        "internal_server_error",
        "internalservererror",
        "internalserverexception",  # Bedrock
        "model_overloaded",
        "modelnotreadyexception",  # Bedrock
        "network_error",
        "overloaded",
        "overloaded_error",  # Anthropic, with 529
        "rate_limit",
        "rate_limit_error",  # Anthropic
        "rate_limit_exceeded",  # OpenAI
        "rate_limit_reached_error",  # Kimi
        "resource_exhausted",  # Gemini
        "server_error",
        "server_is_overloaded",
        "service_unavailable",
        "service_unavailable_error",
        "serviceunavailableexception",  # Bedrock
        "slow_down",
        "throttlingexception",  # Bedrock
        "timeout",
        "timeout_error",
        "too_many_requests",
        "unavailable",  # Gemini
    }
)
"""Error types, in lower case, after which a retry may succeed."""

PERMANENT_TYPES: Final = frozenset(
    {
        "accessdeniedexception",  # Bedrock
        "authentication_error",  # Anthropic
        "content_filter",
        "content_policy_violation",
        "failed_precondition",  # Gemini
        "invalid_api_key",
        "invalid_argument",  # Gemini
        "invalid_prompt",
        "invalid_request_error",  # OpenAI, Anthropic
        "model_not_found",
        "not_found",
        "not_found_error",  # Anthropic
        "out_of_range",  # Gemini
        "permission_denied",  # Gemini
        "permission_error",  # Anthropic
        "unauthenticated",  # Gemini
        "unsupported_parameter",
        "unsupported_value",
        "validationexception",  # Bedrock
    }
)
"""Error types, in lower case, that the same request causes every time."""

_PASSING: Final = (
    r"\boverloaded\b",
    r"\bprovider returned error\b",
    r"\brate[ -]limit(?:ed|s)?\b",
    r"\btoo many requests\b",
    r"\bservice (?:is )?(?:temporarily )?unavailable\b",
    r"\btemporarily unavailable\b",
    r"\b(?:internal )?server error\b",
    r"\binternal error\b",
    r"\b(?:bad gateway|gateway time-?out)\b",
    r"\b(?:network|connection) error\b",
    r"\bconnection (?:was )?(?:refused|reset|closed|aborted|lost)\b",
    r"\bother side closed\b",
    r"\bfetch failed\b",
    r"\bupstream connect\b",
    r"\breset before headers\b",
    r"\bsocket hang up\b",
    r"\btimed[ -]?out\b",
    r"\btimeout\b",
    r"\bretry delay\b",
    r"\bstream (?:error|stalled)\b",
    r"\b(?:http|status|error)(?: code)?[ :=]+(?:429|50[0234]|529)\b",
)
PASSING: Final = re.compile("|".join(_PASSING), re.IGNORECASE)
"""Matches a message about a transient error; a bare number does not count."""

# --- limits of the account ---

USAGE_LIMIT_TYPES: Final = frozenset(
    {
        "billing_error",  # Anthropic
        "billing_hard_limit_reached",
        "exceeded_current_quota_error",  # Kimi
        "insufficient_balance",
        "insufficient_quota",  # OpenAI
        "model_capacity_exhausted",
        "quota_exceeded",
        "resource_exhausted",  # Gemini
        "servicequotaexceededexception",  # Bedrock
        "usage_limit_exceeded",
        "usage_limit_reached",
    }
)
"""Error types, in lower case, for an account that has reached a limit."""

_USED_UP: Final = (
    r"\busage[ _-]limits?\b",
    r"\bquota\b",
    r"\b(?:hourly|daily|weekly|monthly|spend(?:ing)?) limit\b",
    r"\binsufficient[ _](?:balance|credits?|funds)\b",
    r"\bcredit balance is too low\b",
    r"\bout of credits\b",
    r"\bresource (?:has been )?exhausted\b",
    r"\bcapacity exhausted\b",
)
USED_UP: Final = re.compile("|".join(_USED_UP), re.IGNORECASE)
"""Matches a message about an account that has reached a limit."""

RATE: Final = re.compile(
    r"per[ _-]?(?:second|minute|min\b)|\brate[ _-]limit|\btoo many requests\b"
    r"|\bresource (?:has been )?exhausted\b",  # Gemini and Vertex, whatever was used up
    re.IGNORECASE,
)
"""Matches a message about a limit that is counted by the minute."""

CAPACITY: Final = re.compile(r"capacity|\boverloaded\b|\bhigh demand\b", re.IGNORECASE)
"""Matches a message about a model with too many requests at once."""

SERVER: Final = re.compile(r"\b(?:internal|server) error\b", re.IGNORECASE)
"""Matches a message about a server that failed."""
