"""How providers word what matters to recovery: tables, and no decisions.

Every pattern is bounded by words, so that a number or a word inside another says nothing, and
reaches over a limited stretch, so that a long text costs no more than its length. The wordings
were collected from the servers named beside them; a new one is a line here and a line in the test.
"""

from __future__ import annotations

import re
from typing import Final

MAX_READ: Final = 2_000
"""How many characters of a message are looked at: reasons are short, and echoes are not."""

# --- the conversation is too long ---

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
"""Words of providers for a conversation that is longer than the model's window."""

_TOO_LONG: Final = (
    r"context[ _-]?(?:length|window|size|limit)[ _-](?:has been )?exceed(?:ed|s)\b",
    # Responses, llama.cpp, SGLang, Anthropic with its `max_tokens`, Ollama, LM Studio
    r"\bexceed(?:s|ed)? (?:[\w'()]+ ){0,4}?context (?:length|window|size|limit)\b",
    r"\bexceed_context_size",  # llama.cpp
    r"\bmaximum (?:context|prompt|model) length (?:is|of)\b",  # OpenAI, vLLM, DeepSeek, xAI
    r"\btoo large for model with \d+ maximum context\b",  # Mistral
    r"\brequest too large\b",  # Groq, OpenAI: more than a minute allows, so no wait helps
    r"\b(?:prompt|input)(?: \([^)\n]{0,40}\))?(?: is)? too long\b",  # Anthropic, Bedrock, Ollama
    r"\b(?:input|prompt) token count\b[^.\n]{0,40}\bexceeds\b",  # Gemini, Copilot
    r"\binput token count is \d+ but model only supports up to\b",  # Vertex
    r"\bnumber of input tokens exceeds maximum length\b",  # Bedrock's Nova
    r"\binputs`? must have less than \d+ tokens\b",  # TGI
    # Cohere, which speaks so of an answer that is asked too long as well
    r"\btoo many tokens: (?:total number of tokens|size limit|minimal context|multi-hop prompt)",
    r"\btotal length of all messages is too long\b",
    r"\bcontextwindowexceedederror\b",  # LiteLLM, before what its server said
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
"""What a message says when the conversation is longer than the model's window."""

THROTTLED: Final = re.compile(
    r"\bplease wait\b|\brate limit (?:reached|exceeded)\b|\bthrottl(?:ed|ing)\b", re.IGNORECASE
)
"""What a message says when tokens were too many for the moment, and not for the model."""

NO_REASON: Final = re.compile(r"\bgave no reason\b|\bno error details\b|\(no body\)", re.IGNORECASE)
"""What is in place of a message where there was not a body, in the words of our own readers."""

# --- another try may help ---

TRANSIENT_TYPES: Final = frozenset(
    {
        "aborted",  # Gemini: a conflict, to be tried again
        "api_connection_error",
        "api_error",
        "capacity_exceeded",
        "connection_error",
        "deadline_exceeded",
        "engine_overloaded",
        "engine_overloaded_error",
        "insufficient_system_resource",  # DeepSeek
        "internal",
        "internal_error",
        "internal_server_error",
        "internalservererror",
        "internalserverexception",  # Bedrock
        "model_overloaded",
        "modelnotreadyexception",
        "network_error",
        "overloaded",
        "overloaded_error",
        "rate_limit",
        "rate_limit_error",
        "rate_limit_exceeded",
        "rate_limit_reached_error",
        "resource_exhausted",
        "server_error",
        "server_is_overloaded",
        "service_unavailable",
        "service_unavailable_error",
        "serviceunavailableexception",
        "slow_down",
        "throttlingexception",
        "timeout",
        "timeout_error",
        "too_many_requests",
        "unavailable",
    }
)
"""Words of providers, in lower case, for what passes by itself."""

PERMANENT_TYPES: Final = frozenset(
    {
        "accessdeniedexception",
        "authentication_error",
        "content_filter",
        "content_policy_violation",
        "failed_precondition",
        "invalid_api_key",
        "invalid_argument",
        "invalid_prompt",
        "invalid_request_error",
        "model_not_found",
        "not_found",
        "not_found_error",
        "out_of_range",
        "permission_denied",
        "permission_error",
        "unauthenticated",
        "unsupported_parameter",
        "unsupported_value",
        "validationexception",
    }
)
"""Words of providers, in lower case, for what the same request meets every time."""

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
"""What a message says of what passes by itself; a bare number is not a reason."""

# --- more than the account allows ---

USAGE_LIMIT_TYPES: Final = frozenset(
    {
        "billing_error",
        "billing_hard_limit_reached",
        "exceeded_current_quota_error",  # Kimi
        "insufficient_balance",
        "insufficient_quota",
        "model_capacity_exhausted",
        "quota_exceeded",
        "resource_exhausted",
        "servicequotaexceededexception",
        "usage_limit_exceeded",
        "usage_limit_reached",
    }
)
"""Words of providers, in lower case, for an account that has used up what it may."""

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
"""What a message says of an account that has used up what it may."""

RATE: Final = re.compile(
    r"per[ _-]?(?:second|minute|min\b)|\brate[ _-]limit|\btoo many requests\b"
    r"|\bresource (?:has been )?exhausted\b",  # Gemini and Vertex, whatever was used up
    re.IGNORECASE,
)
"""What a message says of a limit that is counted by the minute."""

CAPACITY: Final = re.compile(r"capacity|\boverloaded\b|\bhigh demand\b", re.IGNORECASE)
"""What a message says of a model that too many ask at once."""

SERVER: Final = re.compile(r"\b(?:internal|server) error\b", re.IGNORECASE)
"""What a message says of a server that failed."""
