"""Generic options in the words of every API, as a server sees them; what an API lacks is said."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from models.loopback_servers import Seen, refusal, script_for, serving, streamed
from models.upstreams import NOTE
from penstock import HTTPModel, Request, apis
from penstock.messages import Text
from penstock.models.http import Report, RetryPolicy
from penstock.models.http.model import MAX_LOGGED_FIELDS
from penstock.request import ReasoningOptions, ResponseFormat, ToolChoice, UserMessage

APIS = ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama", "qwen"]
LACKS = ""
"""Where an option stands that an API has no word for."""

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}

# Each option with its value, and for each API in the order above its place in the body. What
# follows a colon is the value there, if it differs.
TABLE: list[tuple[str, Any, tuple[str, str, str, str, str, str]]] = [
    (
        "max_tokens",
        900,
        (
            "max_tokens",
            "max_output_tokens",
            "max_tokens",
            "generationConfig.maxOutputTokens",
            "options.num_predict",
            LACKS,
        ),
    ),
    (
        "temperature",
        0.5,
        (
            "temperature",
            "temperature",
            "temperature",
            "generationConfig.temperature",
            "options.temperature",
            LACKS,
        ),
    ),
    (
        "top_p",
        0.25,
        ("top_p", "top_p", "top_p", "generationConfig.topP", "options.top_p", LACKS),
    ),
    ("top_k", 7, ("top_k", LACKS, "top_k", "generationConfig.topK", "options.top_k", LACKS)),
    ("seed", 8, ("seed", LACKS, LACKS, "generationConfig.seed", "options.seed", LACKS)),
    (
        "presence_penalty",
        0.1,
        (
            "presence_penalty",
            LACKS,
            LACKS,
            "generationConfig.presencePenalty",
            "options.presence_penalty",
            LACKS,
        ),
    ),
    (
        "frequency_penalty",
        0.2,
        (
            "frequency_penalty",
            LACKS,
            LACKS,
            "generationConfig.frequencyPenalty",
            "options.frequency_penalty",
            LACKS,
        ),
    ),
    (
        "stop",
        ["END"],
        ("stop", LACKS, "stop_sequences", "generationConfig.stopSequences", "options.stop", LACKS),
    ),
    ("n", 2, ("n", LACKS, LACKS, "generationConfig.candidateCount", LACKS, LACKS)),
    (
        "reasoning",
        ReasoningOptions("low"),
        (
            "reasoning_effort:low",
            "reasoning.effort:low",
            "thinking.type:enabled",
            "generationConfig.thinkingConfig.thinkingLevel:LOW",
            "think:low",
            "messages.0.feature_config.thinking_enabled:True",
        ),
    ),
    (
        "tool_choice",
        ToolChoice("required"),
        (
            "tool_choice:required",
            "tool_choice:required",
            "tool_choice.type:any",
            "toolConfig.functionCallingConfig.mode:ANY",
            LACKS,
            LACKS,
        ),
    ),
    (
        "tool_choice",
        ToolChoice("tool", "take_note"),
        (
            "tool_choice.function.name:take_note",
            "tool_choice.name:take_note",
            "tool_choice.name:take_note",
            "toolConfig.functionCallingConfig.allowedFunctionNames.0:take_note",
            LACKS,
            LACKS,
        ),
    ),
    (
        "tool_choice",
        ToolChoice("none"),
        (
            "tool_choice:none",
            "tool_choice:none",
            "tool_choice.type:none",
            "toolConfig.functionCallingConfig.mode:NONE",
            LACKS,
            LACKS,
        ),
    ),
    (
        "parallel_tool_calls",
        False,
        (
            "parallel_tool_calls",
            "parallel_tool_calls",
            "tool_choice.disable_parallel_tool_use:True",
            LACKS,
            LACKS,
            LACKS,
        ),
    ),
    (
        "response_format",
        ResponseFormat("schema", SCHEMA, "s"),
        (
            "response_format.json_schema.schema.type:object",
            "text.format.schema.type:object",
            "output_config.format.schema.type:object",
            "generationConfig.responseSchema.type:OBJECT",
            "format.type:object",
            LACKS,
        ),
    ),
    ("user", "u-1", ("user", "user", "metadata.user_id", LACKS, LACKS, LACKS)),
    ("metadata", {"k": "v"}, ("metadata", "metadata", LACKS, LACKS, LACKS, LACKS)),
]


async def asked(api: str, **options: Any) -> tuple[Seen, Report]:
    """Ask with *options*; return what the server saw, and what was said about it."""
    async with (
        serving(*script_for(api, streamed(api))) as upstream,
        HTTPModel(api, upstream.url, "m", environ={}) as model,
    ):
        words = UserMessage([Text("When is high water?")])
        stream = model.stream(Request(messages=[words], tools=[NOTE], **options))
        assert (await stream.result()).error is None
    return upstream.seen[-1], stream.report


def find(body: Any, path: str) -> Any:
    """Return the value at *path* of *body*; None if there is none."""
    for key in path.split("."):
        if isinstance(body, list):
            body = body[int(key)] if int(key) < len(body) else None
        else:
            body = body.get(key) if isinstance(body, dict) else None
    return body


def test_the_table_has_every_api() -> None:
    assert apis.names() == APIS


@pytest.mark.parametrize("at", range(len(APIS)), ids=APIS)
@pytest.mark.parametrize(
    ("name", "value", "places"),
    TABLE,
    ids=[f"{name}={value.mode}" if name == "tool_choice" else name for name, value, _ in TABLE],
)
async def test_an_option_stands_where_the_api_has_it_or_is_said_to_be_left_out(
    name: str, value: Any, places: tuple[str, ...], at: int
) -> None:
    seen, report = await asked(APIS[at], **{name: value})
    place, _, word = places[at].partition(":")
    if places[at] == LACKS:
        plain, _ = await asked(APIS[at])
        assert name in report.omitted_fields
        assert without_names(seen.json) == without_names(plain.json), "it is in there all the same"
    else:
        assert name not in report.omitted_fields
        found = find(seen.json, place)
        assert (str(found) == word) if word else (found == value)


def without_names(body: Any) -> Any:
    """Return *body* without what is new in each request to chat.qwen.ai."""
    if isinstance(body, dict):
        return {k: without_names(v) for k, v in body.items() if k not in ("fid", "timestamp")}
    return [without_names(each) for each in body] if isinstance(body, list) else body


@pytest.mark.parametrize("api", APIS)
async def test_headers_and_the_session_go_along_to_every_api(api: str) -> None:
    seen, report = await asked(api, headers={"X-Team": "tides"}, session="s-1")
    assert (seen.headers["x-team"], seen.headers["x-session-id"]) == ("tides", "s-1")
    assert not {"headers", "session"} & set(report.omitted_fields)


async def test_what_is_left_out_is_logged_once_for_each_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "penstock.models"):
        async with (
            serving(*script_for("qwen", streamed("qwen"))) as upstream,
            HTTPModel("qwen", upstream.url, "m", environ={}) as model,
        ):
            request = Request(messages=[UserMessage([Text("Hi")])], seed=1)
            await model.complete(request)
            request.stop = ["END"]
            await model.complete(request)
            await model.complete(request)
    assert [record.getMessage() for record in caplog.records] == [
        "qwen cannot express 'seed': omitted",
        "qwen cannot express 'stop': omitted",
    ]


async def test_names_that_clients_choose_forge_no_line_and_fill_no_memory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    forged = "evil\nWARNING all is lost" + "z" * 1000

    with caplog.at_level(logging.WARNING, "penstock.models"):
        async with (
            serving(streamed("anthropic")) as upstream,
            HTTPModel("anthropic", upstream.url, "m", environ={}) as model,
        ):
            for names in (
                [forged],
                [f"field{number}" for number in range(2 * MAX_LOGGED_FIELDS)],
                ["late"],
            ):
                extra = dict.fromkeys(names, 1)
                asked = Request(messages=[UserMessage([Text("Hi")])], extra=extra)
                await model.complete(asked)
    first, second = (record.getMessage() for record in caplog.records)
    assert first == f"anthropic cannot express {forged[:64]!r}: omitted"
    assert "\n" not in first
    assert second.count("'field") == MAX_LOGGED_FIELDS - 1


async def test_of_a_system_prompt_with_marks_only_the_marks_are_left_out() -> None:
    block = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    said = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    request = apis.get("anthropic").read_request({**said, "system": [block]})
    seen, report = await asked("openai-chat", source="anthropic", extra=request.extra)
    assert seen.json["messages"]
    assert report.omitted_fields == ["system.cache_control"]


# --- the key by which a server knows a request again ---

KEYED = ["openai-chat", "openai-responses", "anthropic"]


async def keys_sent(api: str, *, headers: dict[str, str] | None = None) -> list[str]:
    """Ask twice, the first time with a refusal before the answer, and return the keys of all."""
    script = [refusal(503, {"error": {"message": "busy"}}), streamed(api), streamed(api)]
    async with (
        serving(*script) as upstream,
        HTTPModel(api, upstream.url, "m", retry=RetryPolicy(base=0.0), environ={}) as model,
    ):
        request = Request(messages=[UserMessage([Text("Hi")])], headers=headers or {})
        for _ in range(2):
            assert (await model.complete(request)).error is None
    return [seen.headers.get("idempotency-key", "") for seen in upstream.seen]


@pytest.mark.parametrize("api", KEYED)
async def test_all_tries_of_an_answer_have_one_key_and_the_next_answer_another(api: str) -> None:
    first, again, other = await keys_sent(api)
    assert first == again != other
    assert len(first) == len(other) == 32


@pytest.mark.parametrize("api", ["gemini", "ollama"])
async def test_servers_that_know_no_such_key_get_none(api: str) -> None:
    assert await keys_sent(api) == ["", "", ""]


async def test_a_key_of_the_callers_own_stays() -> None:
    assert await keys_sent("openai-chat", headers={"Idempotency-Key": "mine"}) == ["mine"] * 3
