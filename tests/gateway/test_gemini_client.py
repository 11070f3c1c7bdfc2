"""The Gemini API for clients: Google's own client, and bytes that it never sends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.serving import Actor, Served, Stage, ask, until, upstream_table
from models.loopback_servers import CUT, Reply, refusal, stream_of
from penstock import apis
from penstock.conformance.gemini import check
from penstock.messages import AssistantMessage, Text, ToolCall, Usage

genai = pytest.importorskip("google.genai")
errors: Any = pytest.importorskip("google.genai.errors")
types: Any = pytest.importorskip("google.genai.types")

KEY = "psk_" + "g" * 40
MODEL = "qwen3:8b"
CALLS = "".join(
    f'<tool_call>{{"name": "get_weather", "arguments": {{"city": "{city}"}}}}</tool_call>\n'
    for city in ("Paris", "Oslo")
)
USAGE = Usage(input=21, output=9, total=30)
BOTH = AssistantMessage(
    "m", "m", [Text(f"<think>Two cities.</think>I look.\n{CALLS}")], "stop", "", USAGE
)
COAT = AssistantMessage("m", "m", [Text("Take a coat.")], "stop", "", USAGE)
CITIES = [{"city": "Paris"}, {"city": "Oslo"}]
WEATHER = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(
            name="get_weather",
            description="Return the weather",
            parameters_json_schema={
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        )
    ]
)
CONFIG = types.GenerateContentConfig(
    tools=[WEATHER],
    system_instruction="Be brief.",
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)
PATH = f"/v1beta/models/{MODEL}"
BODY: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    text = '[keys.sdk]\nenv = "KEY"\n' + upstream_table(actor, retries=0, model=MODEL)
    return stage.gateway(tmp_path_factory.mktemp("gateway"), text, {"KEY": KEY})


def make_client(served: Served, key: str = KEY, version: str | None = None) -> Any:
    options = types.HttpOptions(
        base_url=served.url,
        api_version=version,
        retry_options=types.HttpRetryOptions(attempts=1),
    )
    return genai.Client(api_key=key, http_options=options)


@pytest.fixture(scope="module", params=[None, "v1beta"], ids=["default", "v1beta"])
def client(served: Served, request: pytest.FixtureRequest) -> Iterator[Any]:
    client = make_client(served, version=request.param)
    yield client
    client.close()


def generate(client: Any, contents: Any, *, stream: bool, **more: Any) -> list[Any]:
    """Return the responses: the chunks of a stream, or the only one."""
    arguments = {"model": MODEL, "contents": contents, "config": CONFIG, **more}
    if stream:
        return list(client.models.generate_content_stream(**arguments))
    return [client.models.generate_content(**arguments)]


def parts_of(chunks: list[Any]) -> list[Any]:
    return [part for chunk in chunks for part in chunk.candidates[0].content.parts or []]


def broken() -> Reply:
    data = stream_of("openai-chat")
    return Reply([data[: len(data) // 2], CUT])


both = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


@both
def test_printed_calls_are_function_calls_and_take_their_results(
    client: Any, actor: Actor, *, stream: bool
) -> None:
    actor.say(BOTH)
    chunks = generate(client, "How is the weather?", stream=stream)
    parts = parts_of(chunks)
    calls = [part.function_call for part in parts if part.function_call]
    assert [(call.name, call.args) for call in calls] == [("get_weather", one) for one in CITIES]
    assert len({call.id for call in calls}) == 2
    texts = [part for part in parts if part.text]
    assert "".join(one.text for one in texts if not one.thought).strip() == "I look."
    assert "".join(one.text for one in texts if one.thought).strip() == "Two cities."
    last = chunks[-1]
    assert last.candidates[0].finish_reason == types.FinishReason.STOP
    assert last.usage_metadata.prompt_token_count == 21
    assert last.usage_metadata.total_token_count == 30
    assert last.model_version == MODEL
    sent = json.dumps(json.loads(actor.seen[-1].body))
    assert "get_weather" in sent
    assert "Be brief." in sent

    actor.say(COAT)
    results = [
        types.Part(
            function_response=types.FunctionResponse(
                id=call.id, name=call.name, response={"output": f"rain in {call.args['city']}"}
            )
        )
        for call in calls
    ]
    history = [
        types.Content(role="user", parts=[types.Part(text="How is the weather?")]),
        types.Content(role="model", parts=[types.Part(function_call=call) for call in calls]),
        types.Content(role="user", parts=results),
    ]
    found = parts_of(generate(client, history, stream=stream))
    assert "".join(part.text or "" for part in found) == "Take a coat."
    sent = json.dumps(json.loads(actor.seen[-1].body))
    assert "rain in Paris" in sent
    assert "rain in Oslo" in sent


def test_a_chat_calls_python_functions_by_itself(client: Any, actor: Actor) -> None:
    asked = []

    def get_weather(city: str) -> str:
        """Return the weather of a city."""
        asked.append(city)
        return "rain"

    actor.say(BOTH, COAT)
    chat = client.chats.create(model=MODEL, config=types.GenerateContentConfig(tools=[get_weather]))
    assert chat.send_message("How is the weather?").text == "Take a coat."
    assert asked == ["Paris", "Oslo"]


# Google's client inherits from a class of aiohttp that warns of it.
@pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")
async def test_the_asynchronous_client_streams(served: Served, actor: Actor) -> None:
    actor.say(BOTH)

    def run() -> list[Any]:
        async def collect() -> list[Any]:
            client = make_client(served)
            stream = await client.aio.models.generate_content_stream(
                model=MODEL, contents="Hi", config=CONFIG
            )
            chunks = [chunk async for chunk in stream]
            await client.aio.aclose()
            return chunks

        return asyncio.run(collect())

    chunks = await asyncio.to_thread(run)
    calls = [part.function_call for part in parts_of(chunks) if part.function_call]
    assert [call.args for call in calls] == CITIES


def test_tokens_are_counted_and_models_listed(client: Any) -> None:
    counted = client.models.count_tokens(model=MODEL, contents="How is the weather in Oslo?")
    assert 5 < counted.total_tokens < 100
    assert f"models/{MODEL}" in [model.name for model in client.models.list()]
    assert client.models.get(model=MODEL).display_name == MODEL


# --- errors ---


@both
def test_an_upstreams_refusal_is_googles_exception(
    client: Any, actor: Actor, *, stream: bool
) -> None:
    actor.play(refusal(429, {"error": {"message": "too many"}}))
    with pytest.raises(errors.ClientError) as raised:
        generate(client, "Hi", stream=stream)
    assert (raised.value.code, raised.value.status) == (429, "RESOURCE_EXHAUSTED")
    assert "too many" in raised.value.message


def test_a_wrong_key_is_googles_exception(served: Served) -> None:
    client = make_client(served, "wrong")
    with pytest.raises(errors.ClientError) as raised:
        generate(client, "Hi", stream=False)
    assert (raised.value.code, raised.value.status) == (401, "UNAUTHENTICATED")
    client.close()


def test_a_stream_that_breaks_is_an_exception_and_no_answer(client: Any, actor: Actor) -> None:
    actor.play(broken())
    with pytest.raises(errors.APIError):
        generate(client, "Hi", stream=True)


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        (f"{PATH}:embedContent", BODY, 404, "use /v1beta/models/{model}:generateContent"),
        (f"{PATH}:", BODY, 404, "unknown path"),
        ("/v1beta/models/:generateContent", BODY, 404, "unknown path"),
        ("/v1beta/files", BODY, 404, "unknown path"),
        (f"{PATH}:generateContent", {"contents": 1}, 400, "contents"),
        (f"{PATH}:countTokens", {}, 400, "`contents` or `generateContentRequest` is missing"),
        (
            f"{PATH}:generateContent",
            {**BODY, "generationConfig": {"candidateCount": 2}},
            400,
            "`candidateCount` must be 1",
        ),
    ],
)
def test_errors_are_in_geminis_shape(
    served: Served, path: str, body: dict[str, Any], status: int, words: str
) -> None:
    answer = ask(served, path, body, **{"x-goog-api-key": KEY})
    error = answer.json["error"]
    assert (answer.status, error["code"]) == (status, status)
    assert error["status"] in ("NOT_FOUND", "INVALID_ARGUMENT")
    assert words in error["message"]


# --- keys and streams ---


def test_a_key_in_the_url_is_accepted_for_this_api_only(served: Served, actor: Actor) -> None:
    actor.say(COAT)
    assert ask(served, f"{PATH}:generateContent?key={KEY}", BODY).status == 200
    assert ask(served, f"{PATH}:generateContent?key=x", BODY).status == 401
    stable = PATH.replace("v1beta", "v1")
    assert ask(served, f"{stable}:generateContent?key={KEY}", BODY).status == 200
    assert ask(served, f"/v1/models?key={KEY}").status == 401
    assert ask(served, f"/v1/chat/completions?key={KEY}", BODY).status == 401


def test_a_stream_is_events_with_alt_sse_and_an_array_without(served: Served, actor: Actor) -> None:
    headers = {"x-goog-api-key": KEY}
    actor.say(BOTH)
    body = {**BODY, "tools": [{"functionDeclarations": [{"name": "get_weather"}]}]}
    events = ask(served, f"{PATH}:streamGenerateContent?alt=sse", body, **headers)
    assert events.headers["content-type"].startswith("text/event-stream")
    assert check(events.body) == []
    actor.say(BOTH)
    array = ask(served, f"{PATH}:streamGenerateContent", body, **headers)
    assert array.headers["content-type"] == "application/json"
    chunks = json.loads(array.body)
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"
    decoder = apis.get("gemini").decoder()
    frames = b"".join(b"data: " + json.dumps(one).encode() + b"\r\n\r\n" for one in chunks)
    assert check(frames) == []
    end = [*decoder.feed(frames), *decoder.finish()][-1]
    calls = [(c.name, c.arguments) for c in end.message.tool_calls]  # type: ignore[union-attr]
    assert calls == [("get_weather", one) for one in CITIES]


def test_an_array_that_breaks_is_valid_json_with_the_error_last(
    served: Served, actor: Actor
) -> None:
    actor.play(broken())
    array = ask(served, f"{PATH}:streamGenerateContent", BODY, **{"x-goog-api-key": KEY})
    *_, last = json.loads(array.body)
    assert last["error"]["code"] >= 500


def test_the_log_has_neither_the_key_nor_another_api(served: Served, actor: Actor) -> None:
    actor.say(COAT)
    asked = ask(served, f"{PATH}:generateContent?key={KEY}", BODY)
    path, key = f"/v1/requests/{asked.headers['x-request-id']}", {"x-api-key": KEY}
    until(lambda: ask(served, path, **key).json.get("state") == "done")
    found = ask(served, path, **key).json
    assert found["client_api"] == "gemini"
    assert KEY not in json.dumps(found)


def test_native_calls_of_the_upstream_pass(client: Any, actor: Actor) -> None:
    call = ToolCall("call_7", "get_weather", {"city": "Bergen"})
    actor.say(AssistantMessage("m", "m", [call], "tool_use", "", USAGE))
    (response,) = generate(client, "Hi", stream=False)
    assert [one.args for one in response.function_calls] == [{"city": "Bergen"}]
