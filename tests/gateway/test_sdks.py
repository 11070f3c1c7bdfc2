"""The clients that people use, OpenAI's and Anthropic's own, against a gateway before a text model.

The upstream speaks OpenAI Chat and prints its calls as text; what the libraries assemble is what
their users get.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.serving import Actor, Served, Stage, tools_of, upstream_table
from models.loopback_servers import CUT, Reply, refusal, stream_of
from penstock.messages import AssistantMessage, Text, ToolCall, Usage

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

KEY = "psk_" + "s" * 40
CALLS = "".join(
    f'<tool_call>{{"name": "get_weather", "arguments": {{"city": "{city}"}}}}</tool_call>\n'
    for city in ("Paris", "Oslo")
)
USAGE = Usage(input=21, output=9, total=30)
BOTH = AssistantMessage(
    "m", "m", [Text(f"<think>Two cities.</think>I look.\n{CALLS}")], "stop", "", USAGE
)
COAT = AssistantMessage("m", "m", [Text("Take a coat.")], "stop", "", USAGE)
SAID: list[Any] = [{"role": "user", "content": "How is the weather in Paris and in Oslo?"}]
CITIES = [{"city": "Paris"}, {"city": "Oslo"}]


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    text = '[keys.sdk]\nenv = "KEY"\n' + upstream_table(actor, retries=0, model="qwen3")
    return stage.gateway(tmp_path_factory.mktemp("gateway"), text, {"KEY": KEY})


@pytest.fixture(scope="module")
def gpt(served: Served) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def claude(served: Served) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=served.url, api_key=KEY, max_retries=0) as client:
        yield client


both = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


# --- chat completions ---


def chat(gpt: Any, messages: list[Any], *, stream: bool) -> Any:
    fields = {"model": "m", "messages": messages, "tools": tools_of("openai-chat")}
    if not stream:
        return gpt.chat.completions.create(**fields)
    with gpt.chat.completions.stream(**fields, stream_options={"include_usage": True}) as answer:
        return answer.get_final_completion()


@both
def test_chat_assembles_calls_and_takes_their_results(
    gpt: Any, actor: Actor, *, stream: bool
) -> None:
    actor.say(BOTH, COAT)
    found = chat(gpt, SAID, stream=stream)
    (choice,) = found.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content.strip() == "I look."
    assert choice.message.reasoning_content == "Two cities."
    calls = choice.message.tool_calls
    assert [call.function.arguments for call in calls] == ['{"city":"Paris"}', '{"city":"Oslo"}']
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (21, 9)
    results = [{"role": "tool", "tool_call_id": c.id, "content": f"rain {c.id}"} for c in calls]
    asked = [{"id": c.id, "type": "function", "function": c.function.model_dump()} for c in calls]
    told = [*SAID, {"role": "assistant", "tool_calls": asked}, *results]
    assert chat(gpt, told, stream=stream).choices[0].message.content == "Take a coat."
    assert all(f"rain {call.id}" in actor.seen[-1].body.decode() for call in calls)


# --- responses ---


def respond(gpt: Any, given: Any, *, stream: bool, **more: Any) -> Any:
    fields = {"model": "m", "input": given, "tools": tools_of("openai-responses"), **more}
    if not stream:
        return gpt.responses.create(**fields)
    with gpt.responses.stream(**fields) as answer:
        return answer.get_final_response()


@both
def test_responses_go_on_from_an_earlier_one(gpt: Any, actor: Actor, *, stream: bool) -> None:
    actor.say(BOTH, COAT)
    found = respond(gpt, SAID, stream=stream)
    calls = [item for item in found.output if item.type == "function_call"]
    assert [call.arguments for call in calls] == ['{"city":"Paris"}', '{"city":"Oslo"}']
    assert found.output[0].type == "reasoning"
    assert (found.usage.input_tokens, found.usage.output_tokens) == (21, 9)
    results = [
        {"type": "function_call_output", "call_id": call.call_id, "output": f"rain {call.call_id}"}
        for call in calls
    ]
    last = respond(gpt, results, stream=stream, previous_response_id=found.id)
    assert last.output_text == "Take a coat."
    sent = actor.seen[-1].body.decode()
    assert "Paris and in Oslo" in sent
    assert all(f"rain {call.call_id}" in sent for call in calls)


def test_a_response_that_nobody_gave_cannot_be_gone_on_from(gpt: Any) -> None:
    with pytest.raises(openai.NotFoundError):
        respond(gpt, SAID, stream=False, previous_response_id="resp_nobody")


# --- messages ---


def converse(claude: Any, messages: list[Any], *, stream: bool) -> Any:
    fields = {"model": "m", "max_tokens": 900, "messages": messages, "tools": tools_of("anthropic")}
    if not stream:
        return claude.messages.create(**fields)
    with claude.messages.stream(**fields) as answer:
        return answer.get_final_message()


@both
def test_messages_assemble_calls_and_take_their_results(
    claude: Any, actor: Actor, *, stream: bool
) -> None:
    actor.say(BOTH, COAT)
    found = converse(claude, SAID, stream=stream)
    assert found.stop_reason == "tool_use"
    kinds = [block.type for block in found.content]
    assert kinds == ["thinking", "text", "tool_use", "tool_use"]
    calls = [block for block in found.content if block.type == "tool_use"]
    assert [call.input for call in calls] == CITIES
    assert (found.usage.input_tokens, found.usage.output_tokens) == (21, 9)
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": f"rain {call.id}"}
        for call in calls
    ]
    told = [*SAID, {"role": "assistant", "content": found.content}]
    told += [{"role": "user", "content": results}]
    assert converse(claude, told, stream=stream).content[0].text == "Take a coat."
    assert all(f"rain {call.id}" in actor.seen[-1].body.decode() for call in calls)


def test_tokens_can_be_counted_before_they_are_paid_for(claude: Any) -> None:
    few = claude.messages.count_tokens(model="m", messages=SAID)
    many = claude.messages.count_tokens(model="m", messages=[*SAID] * 50)
    assert 0 < few.input_tokens < many.input_tokens


def test_native_calls_pass(gpt: Any, actor: Actor) -> None:
    calls = [ToolCall(f"call_{n}", "get_weather", city) for n, city in enumerate(CITIES)]
    actor.say(AssistantMessage("m", "m", [*calls], "tool_use", "", USAGE))
    (choice,) = chat(gpt, SAID, stream=True).choices
    assert [call.id for call in choice.message.tool_calls] == ["call_0", "call_1"]


# --- models and errors ---


def test_models_are_listed_and_described(gpt: Any, claude: Any) -> None:
    assert "qwen3" in [model.id for model in gpt.models.list()]
    assert gpt.models.retrieve("qwen3").id == "qwen3"
    assert "qwen3" in [model.id for model in claude.models.list()]


ERRORS = {
    400: ("BadRequestError", {"error": {"message": "no", "type": "invalid_request_error"}}),
    429: ("RateLimitError", {"error": {"message": "slow down", "type": "rate_limit_error"}}),
    500: ("InternalServerError", {"error": {"message": "oh", "type": "server_error"}}),
}


@both
@pytest.mark.parametrize(("status", "expected"), ERRORS.items(), ids=map(str, ERRORS))
def test_a_refusal_is_the_exception_that_a_user_expects(
    gpt: Any, claude: Any, actor: Actor, status: int, expected: tuple[str, Any], *, stream: bool
) -> None:
    name, body = expected
    actor.play(refusal(status, body))
    for ask, client, library in ((chat, gpt, openai), (converse, claude, anthropic)):
        with pytest.raises(getattr(library, name)) as caught:
            ask(client, SAID, stream=stream)
        assert caught.value.status_code // 100 == status // 100


def test_a_wrong_key_is_the_exception_that_a_user_expects(served: Served) -> None:
    with (
        openai.OpenAI(base_url=f"{served.url}/v1", api_key="wrong", max_retries=0) as gpt,
        pytest.raises(openai.AuthenticationError),
    ):
        chat(gpt, SAID, stream=False)
    with (
        anthropic.Anthropic(base_url=served.url, api_key="wrong", max_retries=0) as claude,
        pytest.raises(anthropic.AuthenticationError),
    ):
        converse(claude, SAID, stream=False)


def test_a_stream_that_breaks_is_an_exception_and_no_answer(
    gpt: Any, claude: Any, actor: Actor
) -> None:
    data = stream_of("openai-chat")
    actor.play(Reply([data[: len(data) // 2], CUT]))
    with pytest.raises(openai.APIError):
        chat(gpt, SAID, stream=True)
    with pytest.raises(anthropic.APIError):
        converse(claude, SAID, stream=True)
    with pytest.raises(RuntimeError, match=r"response\.completed"):  # its own words
        respond(gpt, SAID, stream=True)


def ending(finish: str = "") -> Reply:
    """Say hello, and end with *finish*; without one, in the middle."""
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": {"content": "Hello"}}]}]
    if finish:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    frames = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]
    return Reply([*frames, b"data: [DONE]\n\n"] if finish else [*frames, CUT])


ENDINGS = {
    "stop": ("response.completed", "completed"),
    "length": ("response.incomplete", "max_output_tokens"),
    "content_filter": ("response.incomplete", "content_filter"),
    "": ("response.failed", "server_error"),
}


@pytest.mark.parametrize(("finish", "expected"), ENDINGS.items(), ids=[*[*ENDINGS][:-1], "cut"])
def test_every_end_of_a_response_can_be_read_from_its_last_event(
    gpt: Any, actor: Actor, finish: str, expected: tuple[str, str]
) -> None:
    actor.play(ending(finish))
    with gpt.responses.stream(model="m", input=SAID) as stream:
        last = [*stream][-1]
        if finish == "stop":
            assert stream.get_final_response().output_text == "Hello"
        else:  # The library knows no other end than a completed response.
            with pytest.raises(RuntimeError, match=r"response\.completed"):
                stream.get_final_response()
    found = last.response
    reason = found.incomplete_details.reason if found.incomplete_details else found.status
    assert (last.type, found.error.code if found.error else reason) == expected
    assert found.output_text == "Hello"


def test_a_body_that_is_too_long_is_told_so(gpt: Any) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        chat(gpt, [{"role": "user", "content": "x" * 11_000_000}], stream=False)
    assert caught.value.status_code == 413


# --- an incomplete call beside the rest ---


def native(*arguments: str, text: str = "I look.") -> Reply:
    """Respond with *text* and call `get_weather` natively with each of *arguments*."""
    calls = [
        {"index": n, "id": f"call_{n}", "function": {"name": "get_weather", "arguments": said}}
        for n, said in enumerate(arguments)
    ]
    deltas = [{"content": text}, *({"tool_calls": [call]} for call in calls)]
    chunks = [{"index": 0, "delta": delta} for delta in deltas]
    chunks.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    frames = [b"data: " + json.dumps({"choices": [chunk]}).encode() + b"\n\n" for chunk in chunks]
    return Reply([b"".join(frames) + b"data: [DONE]\n\n"])


PARIS = '{"city": "Paris"}'
bad = pytest.mark.parametrize("text", ["[1, 2]", '{"city": 1e999}', '{"city": "a", "city": "b"}'])


@bad
def test_chat_shows_the_rest_beside_an_incomplete_call(gpt: Any, actor: Actor, text: str) -> None:
    actor.play(native(PARIS, text))
    (choice,) = chat(gpt, SAID, stream=False).choices
    assert (choice.message.content, choice.finish_reason) == ("I look.", "length")
    assert [call.function.arguments for call in choice.message.tool_calls] == ['{"city":"Paris"}']
    assert "get_weather" in choice.error["message"]


@bad
def test_responses_show_the_rest_beside_an_incomplete_call(
    gpt: Any, actor: Actor, text: str
) -> None:
    actor.play(native(PARIS, text))
    found = respond(gpt, SAID, stream=False)
    assert (found.status, found.output_text) == ("failed", "I look.")
    assert "get_weather" in found.error.message
    calls = [item for item in found.output if item.type == "function_call"]
    assert [(call.status, call.arguments) for call in calls] == [("completed", '{"city":"Paris"}')]
    tools: Any = [{**tool, "strict": True} for tool in tools_of("openai-responses")]
    parsed = gpt.responses.parse(model="m", input=SAID, tools=tools)
    assert parsed.output_text == "I look."


@bad
def test_messages_show_the_rest_beside_an_incomplete_call(
    claude: Any, actor: Actor, text: str
) -> None:
    actor.play(native(PARIS, text))
    raw = claude.messages.with_raw_response.create(
        model="m", max_tokens=900, messages=SAID, tools=tools_of("anthropic")
    )
    found = raw.parse()
    assert [block.type for block in found.content] == ["text", "tool_use"]
    assert (found.content[0].text, found.content[1].input) == ("I look.", {"city": "Paris"})
    assert found.stop_reason == "max_tokens"
    assert "get_weather" in raw.headers["x-penstock-error"]


def test_a_broken_call_that_is_all_there_is_stays_an_error(gpt: Any, actor: Actor) -> None:
    actor.play(native("[1]", text=""))
    with pytest.raises(openai.APIStatusError):
        chat(gpt, SAID, stream=False)


def test_a_printed_call_that_is_broken_stays_text_in_a_whole_answer(gpt: Any, actor: Actor) -> None:
    printed = '<tool_call>{"name": "get_weather", "arguments": [1, 2]}</tool_call>'
    actor.say(AssistantMessage("m", "m", [Text(f"I look. {printed}")], "stop", "", USAGE))
    (choice,) = chat(gpt, SAID, stream=False).choices
    assert choice.finish_reason == "stop"
    assert choice.message.content == f"I look. {printed}"


# --- tokens that were not counted ---


@both
def test_tokens_that_nobody_counted_are_estimated_and_marked(
    gpt: Any, claude: Any, actor: Actor, *, stream: bool
) -> None:
    actor.say(AssistantMessage("m", "m", [Text("Take a coat.")], "stop"))
    usage = chat(gpt, SAID, stream=stream).usage
    assert usage.estimated is True
    assert (usage.prompt_tokens > 20, usage.completion_tokens) == (True, 3)
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    message, response = converse(claude, SAID, stream=stream), respond(gpt, SAID, stream=stream)
    assert response.usage.estimated is True
    for found in (message, response):
        assert (found.usage.input_tokens > 20, found.usage.output_tokens) == (True, 3)


def test_a_client_that_did_not_ask_for_tokens_gets_no_estimate(gpt: Any, actor: Actor) -> None:
    actor.say(AssistantMessage("m", "m", [Text("Take a coat.")], "stop"))
    chunks = list(gpt.chat.completions.create(model="m", messages=SAID, stream=True))
    assert all(chunk.usage is None and chunk.choices for chunk in chunks)
