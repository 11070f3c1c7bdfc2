"""Google's own client reads what we write, and we read what it sends, over loopback HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apis.loopback import Server, serving
from penstock import apis
from penstock.events import MessageStart
from penstock.messages import (
    AssistantMessage,
    ErrorInfo,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from penstock.request import Image, ReasoningOptions, ResponseFormat, ToolChoice, UserMessage

genai = pytest.importorskip("google.genai")
errors: Any = pytest.importorskip("google.genai.errors")
types: Any = pytest.importorskip("google.genai.types")

API = apis.get("gemini")
MODEL = "gemini-3-pro"
LINES = "a\u2028b\u2029c\x85d\x0be\x1cf\r\ng"
"""Text with everything that the client's reader takes for the end of a line."""

ANSWER = AssistantMessage(
    "r1",
    MODEL,
    [
        Thinking("Hm", "AAEC"),
        Text(LINES, "no base64!"),
        Opaque("gemini", {"executableCode": {"language": "PYTHON", "code": "1"}}),
        ToolCall("c1", "f", {"a": "é😀\u2028"}, signature="+/8="),
        ToolCall("c2", "g", {}),
    ],
    "tool_use",
    "STOP",
    Usage(7, 5, 2, reasoning=1, total=14),
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(API) as server:
        yield server


def connected(server: Server, **body: Any) -> Iterator[Any]:
    """Make a client; *body* tells the server what stands in the URL."""
    options = types.HttpOptions(base_url=server.url, extra_body=body or None)
    client = genai.Client(api_key="none", http_options=options)
    yield client
    client.close()


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Any]:
    yield from connected(server)


@pytest.fixture(scope="module")
def streaming(server: Server) -> Iterator[Any]:
    yield from connected(server, stream=True)


def streamed(client: Any) -> list[Any]:
    return list(client.models.generate_content_stream(model=MODEL, contents="Hi"))


def asked(client: Any) -> Any:
    return client.models.generate_content(model=MODEL, contents="Hi")


def assert_is_answer(parts: list[Any]) -> None:
    said = [part for part in parts if part.text is not None and not part.thought]
    assert "".join(part.text for part in said) == LINES
    thoughts = [part for part in parts if part.thought]
    assert "".join(part.text for part in thoughts) == "Hm"
    assert [part.thought_signature for part in thoughts if part.thought_signature] == [b"\0\1\2"]
    first, second = [part for part in parts if part.function_call]
    assert (first.function_call.id, first.function_call.name) == ("c1", "f")
    assert first.function_call.args == {"a": "é😀\u2028"}
    assert first.thought_signature == b"\xfb\xff"
    assert (second.function_call.name, second.function_call.args) == ("g", {})
    assert [part.executable_code.code for part in parts if part.executable_code] == ["1"]


def test_an_answer_streams_to_the_client(server: Server, streaming: Any) -> None:
    server.message = ANSWER
    chunks = streamed(streaming)
    assert_is_answer([part for chunk in chunks for part in chunk.candidates[0].content.parts])
    last = chunks[-1]
    assert last.candidates[0].finish_reason == types.FinishReason.STOP
    assert (last.response_id, last.model_version) == ("r1", MODEL)
    usage = last.usage_metadata
    assert (usage.prompt_token_count, usage.cached_content_token_count) == (9, 2)
    assert (usage.candidates_token_count, usage.thoughts_token_count) == (4, 1)
    assert usage.total_token_count == 14


def test_a_whole_answer_reaches_the_client(server: Server, client: Any) -> None:
    server.message = ANSWER
    found = asked(client)
    assert_is_answer(found.candidates[0].content.parts)
    assert [call.name for call in found.function_calls] == ["f", "g"]


def test_a_sign_of_life_means_nothing_to_the_client(
    server: Server, streaming: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = API.encoder(model="m", id="r")
    alive = [encoder.keep_alive(), encoder.encode(MessageStart()), encoder.keep_alive()]
    server.message = AssistantMessage("r", "m", [Text("Hi")], "stop")
    data = b"".join(alive) + server.streamed()
    monkeypatch.setattr(server, "streamed", lambda: data)
    assert [chunk.text for chunk in streamed(streaming)] == ["", "Hi", ""]


@pytest.mark.parametrize(
    ("message", "finish"),
    [
        (AssistantMessage("", "m", [Text("a")], "length"), "MAX_TOKENS"),
        (
            AssistantMessage("", "m", [Text("a")], "error", error=ErrorInfo("no", "refusal")),
            "SAFETY",
        ),
        (
            AssistantMessage(
                "", "m", [Text("a")], "error", "SPII", error=ErrorInfo("SPII", "filter")
            ),
            "SPII",
        ),
    ],
    ids=["length", "refusal", "filter"],
)
def test_an_end_that_is_no_error_reaches_the_client_in_its_own_word(
    server: Server, client: Any, streaming: Any, message: AssistantMessage, finish: str
) -> None:
    server.message = message
    whole = asked(client)
    for candidate in (streamed(streaming)[-1].candidates[0], whole.candidates[0]):
        assert candidate.finish_reason == finish


def test_a_cut_call_never_reaches_the_client(server: Server, streaming: Any) -> None:
    cut = ToolCall("c", "f", {"a": "x"}, complete=False)
    server.message = AssistantMessage("", "m", [Text("a"), cut], "length")
    assert not any(chunk.function_calls for chunk in streamed(streaming))


def test_an_error_is_raised_in_both_forms(server: Server, client: Any, streaming: Any) -> None:
    error = ErrorInfo("slow down", "provider", "RESOURCE_EXHAUSTED", 429, 1.5)
    server.message = AssistantMessage("", "m", [Text("a")], "error", error=error)
    for ask in (lambda: streamed(streaming), lambda: asked(client)):
        with pytest.raises(errors.ClientError) as caught:
            ask()
        assert (caught.value.code, caught.value.status) == (429, "RESOURCE_EXHAUSTED")
        assert caught.value.message == "slow down"
    error = ErrorInfo("", "truncated")
    server.message = AssistantMessage("", "m", [Text("a")], "error", error=error)
    with pytest.raises(errors.ServerError):
        streamed(streaming)


def test_a_chat_sends_back_what_it_was_told(server: Server, streaming: Any) -> None:
    server.message = ANSWER
    chat = streaming.chats.create(model=MODEL)
    list(chat.send_message_stream("Hi"))
    results = [
        types.Part.from_function_response(name="f", response={"result": "one"}),
        types.Part.from_function_response(name="g", response={"error": "two"}),
    ]
    results[0].function_response.id = "c1"
    list(chat.send_message_stream(results))
    user, answer, *found = API.read_request(server.asked[-1]).messages
    assert user == UserMessage([Text("Hi")])
    assert isinstance(answer, AssistantMessage)
    assert [block for block in answer.content if not isinstance(block, Opaque)] == [
        block for block in ANSWER.content if not isinstance(block, Opaque)
    ]
    assert found == [
        ToolResult("c1", "f", "one"),
        ToolResult("c2", "g", "two", is_error=True),
    ]


def test_what_the_client_sends_is_read(server: Server, client: Any) -> None:
    server.message = ANSWER
    schema = types.Schema(
        type="OBJECT", properties={"q": types.Schema(type="STRING")}, required=["q"]
    )
    config = types.GenerateContentConfig(
        system_instruction="Be brief.",
        temperature=0.5,
        top_k=40,
        max_output_tokens=99,
        stop_sequences=["END"],
        tools=[
            types.Tool(function_declarations=[{"name": "f", "parameters": schema}]),
            types.Tool(google_search=types.GoogleSearch()),
        ],
        tool_config=types.ToolConfig(
            function_calling_config=types.FunctionCallingConfig(
                mode="ANY", allowed_function_names=["f"]
            )
        ),
        thinking_config=types.ThinkingConfig(thinking_level="LOW", include_thoughts=True),
        response_mime_type="application/json",
        response_schema=schema,
        safety_settings=[
            types.SafetySetting(category="HARM_CATEGORY_HARASSMENT", threshold="BLOCK_ONLY_HIGH")
        ],
    )
    picture = types.Part.from_bytes(data=b"\x89PNG\xfb\xff", mime_type="image/png")
    client.models.generate_content(model=MODEL, contents=["See", picture], config=config)
    request = API.read_request(server.asked[-1])
    standard = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    assert request.messages == [UserMessage([Text("See"), Image("image/png", "iVBOR/v/")])]
    assert (request.system, request.temperature, request.top_k) == ("Be brief.", 0.5, 40)
    assert (request.max_tokens, request.stop) == (99, ["END"])
    assert [(tool.name, tool.parameters) for tool in request.tools] == [("f", standard)]
    assert request.tool_choice == ToolChoice("tool", "f")
    assert request.reasoning == ReasoningOptions("low", summary="auto")
    assert request.response_format == ResponseFormat("schema", standard)
    assert request.extra["tools"] == [{"googleSearch": {}}]
    written = API.write_request(request)
    sent = server.asked[-1]
    assert written.pop("tools") == [*reversed(sent["tools"])]
    assert written["generationConfig"].pop("thinkingConfig") == {
        "thinkingLevel": "LOW",
        "includeThoughts": True,
    }
    del sent["generationConfig"]["thinkingConfig"]  # with underscores
    for key in ("toolConfig", "safetySettings", "generationConfig"):
        assert written[key] == sent[key]
