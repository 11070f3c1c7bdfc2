"""Failed responses are classified by what their servers send."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import apis
from penstock.agent.failures import (
    is_empty_response,
    is_overflow,
    is_overflow_response,
    is_transient,
    make_empty_error,
)
from penstock.apis.errors import aborted_error, error_from_exception, truncated_error
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, Text, Thinking, ToolCall, Usage
from penstock.models.http.transport import ConnectError, IdleTimeoutError, TLSError

OVERFLOWS = {
    "openai chat": "This model's maximum context length is 128000 tokens. However, your messages "
    "resulted in 204308 tokens. Please reduce the length of the messages.",
    "openai responses": "Your input exceeds the context window of this model. Please adjust your "
    "input and try again.",
    "openai, a limit of the account": "Input tokens exceed the configured limit of 272000 tokens. "
    "Your messages resulted in 300123 tokens.",
    "openai, more than a minute allows": "Request too large for gpt-4o in organization org-x on "
    "tokens per min (TPM): Limit 30000, Requested 40000. Visit /account/rate-limits to learn more.",
    "anthropic": "prompt is too long: 213462 tokens > 200000 maximum",
    "anthropic with its answer": "input length and `max_tokens` exceed context limit: 199000 + "
    "8000 > 200000, decrease input length or `max_tokens` and try again",
    "gemini": "The input token count (1196265) exceeds the maximum number of tokens allowed "
    "(1048575).",
    "ollama": "prompt too long; exceeded max context length by 4021 tokens",
    "ollama, older": "input length exceeds context length",
    "llama.cpp": "request (9762 tokens) exceeds the available context size (8192 tokens), try "
    "increasing it",
    "llama.cpp, older": "the request exceeds the available context size, try increasing it",
    "llama.cpp, while it answers": "Context size has been exceeded.",
    "vllm": "This model's maximum context length is 262144 tokens. However, you requested 128000 "
    "output tokens and your prompt contains at least 134145 input tokens",
    "vllm, other": "The decoder prompt (length 40000) is longer than the maximum model length of "
    "32768.",
    "vllm, with pictures": "The prompt (total length 25938) is too long to fit into the model",
    "sglang": "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
    "sglang with its answer": "Requested token count exceeds the model's maximum context length of "
    "64000 tokens. You requested a total of 71897 tokens",
    "lm studio": "The number of tokens to keep from the initial prompt is greater than the context "
    "length (n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length",
    "lm studio, older": "Trying to keep the first 111490 tokens when context the overflows. "
    "However, the model is loaded with context length of only 32768 tokens, which is not enough.",
    "lm studio, its engine": "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)",
    "openrouter": "This endpoint's maximum context length is 131072 tokens. However, you requested "
    "about 138956 tokens (7884 of text input, 131072 in the output).",
    "groq": "Please reduce the length of the messages or completion.",
    "mistral": "Prompt contains 150000 tokens and 0 draft tokens, too large for model with 131072 "
    "maximum context length",
    "together": "`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000 `inputs` tokens",
    "deepseek": "This model's maximum context length is 65536 tokens. However, you requested 72071 "
    "tokens (66071 in the messages, 6000 in the completion).",
    "qwen": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]",
    "xai": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "kimi": "Your request exceeded model token limit: 262144 (requested: 300000)",
    "minimax": "invalid params, context window exceeds limit (2013)",
    "bedrock": "Input is too long for requested model.",
    "copilot": "prompt token count of 130000 exceeds the limit of 128000",
    "z.ai": "Prompt exceeds max length",
    "z.ai, in Chinese": "Prompt 超长",
    "others, in Chinese": "输入内容超过模型最大上下文长度",
    "litellm": "litellm.ContextWindowExceededError: the server's own words",
    "vertex": "Unable to submit request because the input token count is 1200000 but model only "
    "supports up to 1048576. Reduce the input token count and try again.",
    "bedrock's nova": "Input Tokens Exceeded: Number of input tokens exceeds maximum length. "
    "Please update the input to try again.",
    "tgi": "Input validation error: `inputs` must have less than 3072 tokens. Given: 4021",
    "cohere": "too many tokens: size limit exceeded by 11326 tokens. Try using shorter inputs.",
    "cohere, older": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - "
    "received 4292. Try using a shorter prompt.",
    "all messages": "The total length of all messages is too long.",
}
OTHERS = {
    "tokens that were too many for the moment": "Too many tokens, please wait before trying again.",
    "a rate": "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, "
    "Requested 5000. Please try again in 8s.",
    "an answer that is asked too long": "max_tokens is too large: 200000. This model supports at "
    "most 16384 completion tokens.",
    "an answer that cohere finds too long": "too many tokens: max tokens must be less than or "
    "equal to 4096, the maximum output for this model - received 8192.",
    "an answer that became too long": "generation exceeded max tokens limit",
    "an id that is too long": "Invalid 'messages[3].tool_calls[0].id': string too long. Expected "
    "a string with maximum length 40, but got a string with length 64 instead.",
    "a name that is too long": "Invalid 'tools[0].function.name': string too long.",
    "a bad key": "Incorrect API key provided",
    "a quota": "You exceeded your current quota, please check your plan and billing details.",
    "nothing": "",
}


def error(message: str = "", **fields: Any) -> ErrorInfo:
    return ErrorInfo(message, **fields)


# --- a conversation that is too long ---


@pytest.mark.parametrize("said", OVERFLOWS.values(), ids=OVERFLOWS)
def test_a_conversation_that_is_too_long_is_known_by_what_servers_say(said: str) -> None:
    assert is_overflow(error(said.upper()))
    for status in (None, 400, 429, 500):
        told = error(said, status=status, type="invalid_request_error", retryable=True)
        assert is_overflow(told)
        assert not is_transient(told)


@pytest.mark.parametrize("said", OTHERS.values(), ids=OTHERS)
def test_other_refusals_are_no_overflow(said: str) -> None:
    assert not is_overflow(error(said, status=400))


@pytest.mark.parametrize("api", apis.names())
@pytest.mark.parametrize("status", [400, 413])
def test_a_refusal_without_a_body_is_an_overflow_in_every_api(api: str, status: int) -> None:
    assert is_overflow(apis.get(api).read_error(status, {}, b""))
    assert is_overflow(error(f"{status} status code (no body)", status=status))
    assert not is_overflow(apis.get(api).read_error(401, {}, b""))


def test_a_server_says_too_long_in_a_word_or_by_its_status() -> None:
    assert is_overflow(error("no", type="context_length_exceeded"))
    assert is_overflow(error("no", type="EXCEED_CONTEXT_SIZE_ERROR"))
    assert is_overflow(error("<html>Request Entity Too Large</html>", status=413))


@pytest.mark.parametrize("kind", ["transport", "truncated", "refusal", "filter", "aborted"])
def test_only_a_provider_says_that_a_conversation_is_too_long(kind: Any) -> None:
    assert not is_overflow(error(OVERFLOWS["anthropic"], kind=kind))


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_of_the_caller_is_no_overflow_whatever_it_quotes(status: int) -> None:
    assert not is_overflow(error(OVERFLOWS["anthropic"], status=status))


def test_a_server_that_answers_all_the_same_is_known_by_what_it_counted() -> None:
    usage = Usage(input=1_000, cache_read=7_000, cache_write=193, output=50)
    assert is_overflow(None, usage, 8_192)
    assert not is_overflow(None, usage, 8_193)
    assert not is_overflow(None, usage, None)
    assert not is_overflow(None, usage, 0)
    assert not is_overflow(None)


def test_an_answer_tells_in_any_of_three_ways_that_there_was_no_room() -> None:
    assert is_overflow_response(AssistantMessage(raw_stop_reason="model_context_window_exceeded"))
    assert is_overflow_response(AssistantMessage(error=error(OVERFLOWS["gemini"])))
    assert is_overflow_response(AssistantMessage(usage=Usage(input=9_000)), window=8_192)
    assert not is_overflow_response(AssistantMessage(raw_stop_reason="end_turn"), window=8_192)


def test_an_error_of_any_length_is_judged_at_once() -> None:
    hostile = error("input (" * 200_000 + "exceeds the " * 200_000)
    assert not is_overflow(hostile)
    assert not is_transient(hostile)


# --- what passes ---


@pytest.mark.parametrize(
    "passing",
    [
        truncated_error(),
        ConnectError("nobody listens").info,
        IdleTimeoutError("nothing came").info,
        error_from_exception(ConnectionResetError("reset")),
        error("x", status=429),
        error("x", status=500),
        error("x", status=529),
        error("x", status=599),
        error("x", status=400, retryable=True),
        error("x", type="overloaded_error"),
        error("x", type="UNAVAILABLE"),
        error("x", type="ThrottlingException"),
        error("x", type="insufficient_quota"),
        error("x", type="anything", retryable=True),
        error("x", kind="malformed", retryable=True),
        make_empty_error(),
        error("The server is overloaded, sorry"),
        error("upstream connect error or disconnect/reset before headers"),
        error("Provider returned error"),
        error("HTTP 503 from somewhere"),
        error("status code: 502"),
        error("socket hang up"),
        error("read timed out"),
    ],
    ids=lambda info: f"{info.kind} {info.status or ''} {info.type} {info.message[:20]}",
)
def test_what_passes_is_asked_for_again(passing: ErrorInfo) -> None:
    assert is_transient(passing)


@pytest.mark.parametrize(
    "lasting",
    [
        aborted_error(),
        error("overloaded", kind="refusal", retryable=True),
        error("overloaded", kind="filter", status=500),
        TLSError("who are you").info,
        error("timeout", kind="malformed"),
        error("overloaded", status=400),
        error("timeout", status=401),
        error("not implemented", status=501),
        error("overloaded", type="invalid_request_error"),
        error("overloaded", type="INVALID_ARGUMENT"),
        error("the connection was refused", type="SomeBug"),
        error("line 500 of the file is wrong"),
        error("500"),
        error("there are 429 of them and 503 others"),
        error("user 1500 has timeouts3"),
        error(""),
    ],
    ids=lambda info: f"{info.kind} {info.status or ''} {info.type} {info.message[:20]}",
)
def test_what_lasts_is_not_asked_for_again(lasting: ErrorInfo) -> None:
    assert not is_transient(lasting)


@given(
    st.builds(
        ErrorInfo,
        st.text() | st.sampled_from([*OVERFLOWS.values(), *OTHERS.values()]),
        st.sampled_from(["provider", "transport", "truncated", "malformed", "refusal", "aborted"]),
        st.text(max_size=8) | st.sampled_from(["overloaded_error", "request_too_large"]),
        st.none() | st.integers(100, 599),
        st.none() | st.floats(0, 100),
        st.booleans(),
    )
)
def test_nothing_is_both_too_long_and_passing(info: ErrorInfo) -> None:
    assert not (is_overflow(info) and is_transient(info))


# --- answers that are none ---


@pytest.mark.parametrize(
    ("message", "empty"),
    [
        (AssistantMessage(stop_reason="stop"), True),
        (AssistantMessage(stop_reason="tool_use"), True),
        (AssistantMessage(content=[Text(" \n")], stop_reason="stop"), True),
        (AssistantMessage(content=[Thinking("Hm.")], stop_reason="stop"), True),
        (AssistantMessage(content=[Text("No.")], stop_reason="stop"), False),
        (AssistantMessage(content=[ToolCall("1", "f")], stop_reason="tool_use"), False),
        (AssistantMessage(content=[Opaque("anthropic")], stop_reason="stop"), False),
        (AssistantMessage(stop_reason="length"), False),
        (AssistantMessage(stop_reason="error"), False),
        (AssistantMessage(), False),
    ],
)
def test_an_answer_is_empty_that_ended_well_and_says_nothing(
    message: AssistantMessage, empty: object
) -> None:
    assert is_empty_response(message) is empty
