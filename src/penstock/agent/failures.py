"""Classify failed responses: transient, caused by an overflow of the context, or neither.

Structured fields are trusted before text: the kind, the status, the provider's error type, and
whether the provider says that a retry helps. The message is searched last, and only if nothing else
decides: a "500" in it may be a line of the user's file.

An overflow is never transient: the same conversation is too long every time.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from penstock.apis.errors import RETRYABLE_STATUS
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, Text, ToolCall, Usage

LimitReason = Literal["quota", "rate", "capacity", "server"]
"""Why an account is limited: its quota, its rate, the load of the model, a fault of the server."""

QUOTA_SECONDS: Final = 30 * 60.0
"""How long to wait for a quota: its windows are hours long."""

RATE_SECONDS: Final = 30.0
"""How long to wait for a rate limit: rates are counted by the minute, so half of one on average."""

CAPACITY_SECONDS: Final = (45.0, 75.0)
"""How long to wait for an overloaded model, at random: all other clients wait for it too."""

SERVER_SECONDS: Final = 20.0
"""How long to wait for a server that failed: about as long as one takes to start."""

EMPTY: Final = "empty_answer"
"""The error type of an empty response."""

_BAD_REQUEST: Final = 400
# 402 is what DeepSeek and OpenRouter return when an account has no credit left, 413 what Anthropic
# returns as `request_too_large`.
_PAYMENT_REQUIRED: Final = 402
_TOO_LARGE: Final = 413
_SERVER_ERROR: Final = 500
_EXHAUSTED: Final = "resource_exhausted"  # Gemini's type for every limit

# Kinds of errors that were chosen, and would be again.
_FINAL_KINDS: Final = frozenset({"aborted", "refusal", "filter"})

_PERMANENT_TRANSPORT: Final = frozenset({"tls_error"})
# Server errors that do not pass: the server cannot do it.
_PERMANENT_STATUS: Final = frozenset({501, 505, 511})

# Refusals that have nothing to do with the length of the request.
_CLIENT_STATUS: Final = frozenset({401, 402, 403, 404, 405, 407})


# --- limits of the account ---


def is_usage_limit(error: ErrorInfo) -> bool:
    """Return whether the account has reached a limit; another account would get a response."""
    return limit_reason(error) is not None


def limit_reason(error: ErrorInfo) -> LimitReason | None:
    """Return why the account is limited; None if *error* is something else."""
    if error.kind != "provider":
        return None
    type_, message = error.type.lower(), error.message[:MAX_READ]
    is_used_up = _USED_UP_TEXT.search(message)
    if not (error.status == _PAYMENT_REQUIRED or type_ in _USAGE_LIMIT_TYPES or is_used_up):
        return None
    # The order matters: messages about capacity and rates often contain the word "quota" too.
    if "capacity" in type_ or _CAPACITY.search(message):
        return "capacity"
    if _RATE.search(message) or (type_ == _EXHAUSTED and not is_used_up):
        return "rate"
    return "server" if _SERVER.search(message) else "quota"


def limit_wait(error: ErrorInfo, chance: float) -> float | None:
    """Return the seconds until the account may send requests again; None for other errors.

    The server's own time is used if it names one. *chance* is a random number from 0 to 1.
    """
    reason = limit_reason(error)
    if reason is None or error.retry_after is not None:
        return error.retry_after if reason else None
    shortest, longest = CAPACITY_SECONDS
    waits: dict[LimitReason, float] = {
        "quota": QUOTA_SECONDS,
        "rate": RATE_SECONDS,
        "capacity": shortest + (longest - shortest) * chance,
        "server": SERVER_SECONDS,
    }
    return waits[reason]


# --- retries ---


def is_transient(error: ErrorInfo) -> bool:
    """Return whether the same request may succeed a little later."""
    if error.kind in _FINAL_KINDS or is_overflow(error):
        return False
    # A stream that was cut is worth another try: nothing of it was kept. A certificate that is not
    # valid will not be valid a second later.
    if error.kind in ("transport", "truncated"):
        return error.type not in _PERMANENT_TRANSPORT
    if error.status is not None and error.status >= _SERVER_ERROR:
        return error.status not in _PERMANENT_STATUS
    if error.status is not None and error.status >= _BAD_REQUEST:
        # A client error that is marked as retryable comes from a server that named a time to wait.
        return error.status in RETRYABLE_STATUS or error.retryable
    type_ = error.type.lower()
    if type_ in _TRANSIENT_TYPES or type_ in _USAGE_LIMIT_TYPES:
        return True
    if type_ in _PERMANENT_TYPES:
        return False
    says_so = error.kind == "provider" and _PASSING_TEXT.search(error.message[:MAX_READ])
    return error.retryable or (not error.type and bool(says_so))


def is_avoidable(error: ErrorInfo) -> bool:
    """Return whether another model may respond where this one failed with *error*.

    A refusal, a filter and an abort are decisions, which another model must not get around.
    """
    return error.kind not in _FINAL_KINDS


# --- overflow of the context ---


def is_overflow(
    error: ErrorInfo | None, usage: Usage | None = None, window: int | None = None
) -> bool:
    """Return whether the conversation was longer than the model's window.

    Either *error* says so, or *usage* exceeds *window*: some servers truncate the prompt silently
    and respond to the rest. Without a *window* only the error counts.
    """
    if error is not None and error.kind in ("provider", "malformed") and _is_too_long(error):
        return True
    if usage is None or not window:
        return False
    return usage.input + usage.cache_read + usage.cache_write > window


def is_overflow_response(message: AssistantMessage, window: int | None = None) -> bool:
    """Return whether *message* is the response to a conversation that was too long."""
    if message.raw_stop_reason.lower() in _OVERFLOW_TYPES:
        return True
    return is_overflow(message.error, message.usage, window)


def _is_too_long(error: ErrorInfo) -> bool:
    if error.type.lower() in _OVERFLOW_TYPES or error.status == _TOO_LARGE:
        return True
    if error.status in _CLIENT_STATUS:
        return False
    message = error.message[:MAX_READ]
    if error.status == _BAD_REQUEST and _NO_REASON.search(message):
        return True  # Cerebras and Mistral refuse a request that is too long with an empty body.
    return bool(_OVERFLOW_TEXT.search(message)) and not _THROTTLED.search(message)


# --- empty responses ---


def is_empty_response(message: AssistantMessage) -> bool:
    """Return whether a successful response has no text, no call and no opaque block.

    Reasoning alone does not count, nor does the stop reason ``tool_use`` without a call.
    """
    if message.stop_reason not in ("stop", "tool_use"):
        return False
    return not any(
        isinstance(block, ToolCall | Opaque) or (isinstance(block, Text) and block.text.strip())
        for block in message.content
    )


def make_empty_error() -> ErrorInfo:
    """Return the error of an empty response, which is retried once."""
    return ErrorInfo("the response was empty", "malformed", EMPTY, retryable=True)


# --- how providers word the errors that matter to recovery ---
#
# Every pattern is bounded by words, so that a part of a number or a word does not match, and spans
# a limited number of characters, so that the cost is linear in the length of a message. The
# wordings were collected from the servers named beside them. A new one needs a line here and one in
# the test.

MAX_READ: Final = 2_000
"""How many characters of a message are searched: reasons are short, echoed prompts are long."""

# --- overflow of the context ---

# Error types, in lower case, for a conversation that is longer than the model's window.
_OVERFLOW_TYPES: Final = frozenset(
    {
        "context_length_exceeded",  # OpenAI, Groq, DeepSeek
        "context_window_exceeded",
        "contextwindowexceedederror",  # LiteLLM
        "exceed_context_size_error",  # llama.cpp
        "model_context_window_exceeded",  # Anthropic's stop reason, Z.ai
        "request_too_large",  # Anthropic, with 413
    }
)

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
# Matches a message about a conversation that is longer than the model's window.
_OVERFLOW_TEXT: Final = re.compile("|".join(_TOO_LONG), re.IGNORECASE)

# Matches a message about too many tokens per minute, which is not an overflow.
_THROTTLED: Final = re.compile(
    r"\bplease wait\b|\brate limit (?:reached|exceeded)\b|\bthrottl(?:ed|ing)\b", re.IGNORECASE
)

# Matches what our own readers write for a response without a body.
_NO_REASON: Final = re.compile(
    r"\bgave no reason\b|\bno error details\b|\(no body\)", re.IGNORECASE
)

# --- retries ---

# Error types, in lower case, after which a retry may succeed.
_TRANSIENT_TYPES: Final = frozenset(
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

# Error types, in lower case, that the same request causes every time.
_PERMANENT_TYPES: Final = frozenset(
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
# Matches a message about a transient error; a bare number does not count.
_PASSING_TEXT: Final = re.compile("|".join(_PASSING), re.IGNORECASE)

# --- limits of the account ---

# Error types, in lower case, for an account that has reached a limit.
_USAGE_LIMIT_TYPES: Final = frozenset(
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
# Matches a message about an account that has reached a limit.
_USED_UP_TEXT: Final = re.compile("|".join(_USED_UP), re.IGNORECASE)

# Matches a message about a limit that is counted by the minute.
_RATE: Final = re.compile(
    r"per[ _-]?(?:second|minute|min\b)|\brate[ _-]limit|\btoo many requests\b"
    r"|\bresource (?:has been )?exhausted\b",  # Gemini and Vertex, whatever was used up
    re.IGNORECASE,
)

# Matches a message about a model with too many requests at once.
_CAPACITY: Final = re.compile(r"capacity|\boverloaded\b|\bhigh demand\b", re.IGNORECASE)

# Matches a message about a server that failed.
_SERVER: Final = re.compile(r"\b(?:internal|server) error\b", re.IGNORECASE)
