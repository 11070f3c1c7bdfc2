"""Content in a form that its API does not have is never lost without a sign."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from apis.test_mutations import APIS, paths, replaced, shape, streams, written
from laws import effort, merged, one_by_one
from laws.checks import read
from penstock import MessageBuilder, apis
from penstock.apis import Api
from penstock.apis.fields import dropped_parts
from penstock.errors import UsageError
from penstock.events import Done, Event, Failed
from penstock.messages import AssistantMessage, Text

CHAT = apis.get("openai-chat")
NOTHING: Final[list[Any]] = [None, False, "", [], {}, "null"]
DAMAGED: Final[list[Any]] = [7, 0, 1.5, True, [1], ["x"], [{}], "7", "[1]", '"x"']


def stream(api: str, *frames: dict[str, Any]) -> bytes:
    if api == "ollama":
        return b"".join(json.dumps(frame).encode() + b"\n" for frame in frames)
    return b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames)


def message_of(events: list[Event]) -> AssistantMessage:
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
    return builder.message


def decoded(api: str, *frames: dict[str, Any]) -> tuple[AssistantMessage, int]:
    data = stream(api, *frames)
    decoder = apis.get(api).decoder()
    events = read(decoder, [data])
    assert merged(read(apis.get(api).decoder(), one_by_one(data))) == merged(events)
    return message_of(events), decoder.skipped


# --- arguments ---


def chat(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def part(**fields: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": [fields]}, "finishReason": "STOP"}]}


def item_frames(whole: object, *, delta: object = None) -> list[dict[str, Any]]:
    item = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": ""}
    kind = "response.function_call_arguments.delta"
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": kind, "output_index": 0, "delta": delta},
        {"type": "response.output_item.done", "output_index": 0,
         "item": {**item, "arguments": whole}},
        {"type": "response.completed", "response": {"id": "r", "status": "completed"}},
    ]  # fmt: skip


def block_frames(given: object, *, delta: object = "") -> list[dict[str, Any]]:
    block = {"type": "tool_use", "id": "c", "name": "f", "input": given}
    return [
        {"type": "message_start", "message": {"id": "m", "model": "m"}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0,
         "delta": {"type": "input_json_delta", "partial_json": delta}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]  # fmt: skip


def call_frames(api: str, arguments: Any) -> Iterator[list[dict[str, Any]]]:
    """Give the streams of *api* with a call that has *arguments*, one for each place of them."""
    function = {"name": "f", "arguments": arguments}
    match api:
        case "openai-chat":
            yield [chat(tool_calls=[{"index": 0, "id": "c", "function": function}]), chat("stop")]
            yield [chat(function_call=function), chat("function_call")]
        case "anthropic":
            yield block_frames(arguments)
            yield block_frames({}, delta=arguments)
        case "openai-responses":
            yield item_frames(arguments)
            yield item_frames("", delta=arguments)
        case "gemini":
            yield [part(functionCall={"name": "f", "args": arguments})]
        case "ollama":
            yield [{"message": {"tool_calls": [{"function": function}]}}, {"done": True}]


CALLERS: Final = ("openai-chat", "openai-responses", "anthropic", "gemini", "ollama")


@pytest.mark.parametrize("api", CALLERS)
def test_arguments_that_are_no_object_are_never_taken_for_none(api: str) -> None:
    for arguments in DAMAGED:
        for frames in call_frames(api, arguments):
            message, _ = decoded(api, *frames)
            assert not any(call.complete for call in message.tool_calls), (arguments, frames)
            assert message.error is not None
            assert message.error.kind == "malformed"


@pytest.mark.parametrize("api", CALLERS)
def test_a_call_without_arguments_is_complete_however_that_is_written(api: str) -> None:
    for arguments in NOTHING:
        for frames in call_frames(api, arguments):
            message, skipped = decoded(api, *frames)
            assert [(c.name, c.arguments, c.complete) for c in message.tool_calls] == [
                ("f", {}, True)
            ]
            assert skipped == 0


@pytest.mark.parametrize("entry", [{"stringValue": 7}, {}, {"futureValue": "x"}, 7, "x"])
def test_a_leaf_of_streamed_arguments_that_cannot_be_read_costs_the_call(entry: object) -> None:
    leaf = {"jsonPath": "$.a", **entry} if isinstance(entry, dict) else entry
    message, _ = decoded("gemini", part(functionCall={"name": "f", "partialArgs": [leaf]}))
    assert [call.complete for call in message.tool_calls] == [False]


def test_streamed_arguments_that_are_one_leaf_are_read() -> None:
    leaf = {"jsonPath": "$.a", "stringValue": "x"}
    message, _ = decoded("gemini", part(functionCall={"name": "f", "partialArgs": leaf}))
    assert [call.arguments for call in message.tool_calls] == [{"a": "x"}]


# --- text ---


def text_frames(api: str, text: Any) -> list[dict[str, Any]]:
    """Return a stream of *api* with "Transfer 1", *text* and " euros"."""
    match api:
        case "openai-chat":
            return [*(chat(content=t) for t in ("Transfer 1", text, " euros")), chat("stop")]
        case "qwen":
            said = [chat(content=t, phase="answer") for t in ("Transfer 1", text, " euros")]
            return [*said, chat(content="", phase="answer", status="finished")]
        case "anthropic":
            said = [
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta",
                                                                      "text": t}}
                for t in ("Transfer 1", text, " euros")
            ]  # fmt: skip
            start, stop = block_frames({})[0], block_frames({})[3:]
            block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
            return [start, block, *said, *stop]
        case "openai-responses":
            said = [
                {"type": "response.output_text.delta", "output_index": 0, "delta": t}
                for t in ("Transfer 1", text, " euros")
            ]
            return [*said, item_frames("")[-1]]
        case "gemini":
            texts = ("Transfer 1", text, " euros")
            said = [{"candidates": [{"content": {"parts": [{"text": t}]}}]} for t in texts]
            return [*said, part(text="")]
    said = [{"message": {"content": t}} for t in ("Transfer 1", text, " euros")]
    return [*said, {"done": True}]


@APIS
def test_text_in_another_form_is_read_or_makes_the_response_fail(api: Api) -> None:
    for text in (7, 0, 1.5, [7], {"a": 1}, [[1]], {"text": 7}, [{"text": 7}], True):
        message, skipped = decoded(api.name, *text_frames(api.name, text))
        if api.name in ("openai-chat", "qwen") and text == {"a": 1}:  # a part without text
            assert skipped == 1
            continue
        assert message.error is not None, text
        assert message.error.kind == "malformed"
        assert message.text == "Transfer 1"


@APIS
def test_no_text_is_no_damage(api: Api) -> None:
    texts: list[Any] = [None, False, "", [], {}]
    for text in texts:
        message, skipped = decoded(api.name, *text_frames(api.name, text))
        assert (message.text, message.stop_reason, skipped) == ("Transfer 1 euros", "stop", 0)


@pytest.mark.parametrize("text", ["00", ["00"], {"text": "00"}, [{"type": "text", "text": "00"}]])
def test_text_of_a_chat_chunk_is_read_in_every_form_that_has_it(text: object) -> None:
    message, _ = decoded("openai-chat", *text_frames("openai-chat", text))
    assert message.content == [Text("Transfer 100 euros")]


def test_text_of_the_older_completions_is_read() -> None:
    said = {"choices": [{"index": 0, "text": "Hi", "finish_reason": "stop"}]}
    assert decoded("openai-chat", said)[0].text == "Hi"


def test_one_object_in_place_of_a_list_is_read() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}
    delta = {"content": "Hi", "tool_calls": call}
    message, _ = decoded("openai-chat", {"choices": {"delta": delta, "finish_reason": "stop"}})
    assert (message.text, len(message.tool_calls)) == ("Hi", 1)


def test_what_no_other_api_can_express_is_counted() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    for delta in ({"images": [image]}, {"audio": {"id": "a"}}, {"content": [image]},
                  {"reasoning": {"a": 1}}):  # fmt: skip
        message, skipped = decoded("openai-chat", chat(content="Hi"), chat(**delta), chat("stop"))
        assert (message.text, skipped) == ("Hi", 1)


@pytest.mark.parametrize(
    ("whole", "text", "skipped"),
    [
        ("Transfer 100 euros", "Transfer 1 euros", 1),
        ("Transfer 1 euros and more", "Transfer 1 euros and more", 0),
        (" Transfer 1 euros\n", "Transfer 1 euros", 0),
        ("", "Transfer 1 euros", 0),
    ],
    ids=["a lost delta", "a lost end", "white space", "nothing"],
)
def test_the_whole_text_at_the_end_shows_what_the_stream_lost(
    whole: str, text: str, skipped: int
) -> None:
    *said, end = text_frames("openai-responses", "")
    done = {"type": "response.output_text.done", "output_index": 0, "text": whole}
    message, counted = decoded("openai-responses", *said, done, done, end)
    assert (message.text, counted) == (text, skipped)


# --- every field ---

_FORMS: Final[list[Any]] = [7, 0, 1.5, [7], ["x"], [[7]]]
"""Values that no field of content has; objects with unknown fields are those of newer servers."""

_CONTENT: Final = frozenset(
    {"choices", "delta", "content", "text", "tool_calls", "function", "arguments", "message",
     "parts", "candidates", "functionCall", "args", "partial_json", "input", "response"}
)  # fmt: skip


def changes(api: Api) -> Iterator[tuple[bytes, bytes, Any]]:
    """Give streams of *api*, as they are and with one field of content in another form."""
    seen: set[Any] = set()
    for frames in streams(api):
        for number, (head, data) in enumerate(frames):
            kind = data.get("type") if isinstance(data, dict) else None
            for path in paths(data):
                names = [key for key in path if isinstance(key, str)]
                if names[-1] not in _CONTENT or (kind, shape(path)) in seen:
                    continue
                seen.add((kind, shape(path)))
                for form in _FORMS:
                    changed = (head, replaced(data, path, form))
                    damaged = [*frames[:number], changed, *frames[number + 1 :]]
                    yield written(frames), written(damaged), (kind, path, form)


@APIS
def test_no_field_of_content_is_lost_without_a_sign(api: Api) -> None:
    for data, damaged, what in effort.some(changes(api)):
        whole = read(api.decoder(), [data])[-1]
        decoder = api.decoder()
        end = read(decoder, [damaged])[-1]
        if not isinstance(whole, Done) or isinstance(end, Failed) or decoder.skipped:
            continue
        assert isinstance(end, Done)
        assert len(end.message.text) >= len(whole.message.text), what
        calls = [call.arguments for call in end.message.tool_calls if call.complete]
        assert len(calls) >= len(whole.message.tool_calls), what
        for call in whole.message.tool_calls:
            assert call.arguments in calls or "arguments" not in what[1], what


# --- requests ---

_BAD_CONTENT: Final[list[Any]] = [
    {"type": "text", "text": "Hi"}, 7, [7], [["Hi"]], [{"type": "text", "text": {"value": "Hi"}}],
    [{"type": "tool_result", "tool_use_id": "c", "content": [["Hi"]]}],
    [{"type": "document", "source": {"type": "content", "content": [7]}}],
]  # fmt: skip
_LISTS: Final = {
    "openai-chat": "messages",
    "openai-responses": "input",
    "anthropic": "messages",
}


@pytest.mark.parametrize("api", _LISTS)
@pytest.mark.parametrize("role", ["system", "user", "assistant"])
@pytest.mark.parametrize("content", _BAD_CONTENT, ids=repr)
def test_content_that_would_be_lost_is_refused(api: str, role: str, content: object) -> None:
    message = {"type": "message", "role": role, "content": content}
    with pytest.raises(UsageError, match=r"content|text"):
        apis.get(api).read_request({"model": "m", _LISTS[api]: [message]})


def chat_message(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", **fields}]}


@pytest.mark.parametrize(
    ("api", "request_body"),
    [
        ("anthropic", {"messages": [], "system": {"type": "text", "text": "Be brief."}}),
        ("openai-responses", {"input": "Hi", "instructions": ["Be brief."]}),
        ("openai-chat", {"messages": [], "tools": ["f"]}),
        ("openai-chat", {"messages": [], "tools": [{"function": {"name": "f", "description": 7}}]}),
        ("anthropic", {"messages": [], "tools": [{"name": "f", "description": ["d"]}]}),
        ("openai-chat", chat_message(tool_calls="f")),
        ("openai-chat", chat_message(tool_calls=["f"])),
        ("openai-chat", chat_message(tool_calls=[{"function": {"name": "f", "arguments": [1]}}])),
        ("openai-chat", chat_message(tool_calls=[{"custom": {"name": "f", "input": {"a": 1}}}])),
        (
            "openai-responses",
            {"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": 7}]},
        ),
        (
            "anthropic",
            {
                "messages": [
                    {
                        "role": "assistant",
                        "content": [{"type": "tool_use", "id": "c", "name": "f", "input": [1]}],
                    }
                ]
            },
        ),
        (
            "openai-chat",
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image_url", "image_url": {"uri": "x"}}],
                    }
                ]
            },
        ),
        (
            "anthropic",
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image", "source": {"type": "base64", "data": 7}}],
                    }
                ]
            },
        ),
    ],
)
def test_a_part_of_a_request_that_would_be_lost_is_refused(
    api: str, request_body: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        apis.get(api).read_request({"model": "m", **request_body})


@pytest.mark.parametrize(
    "inner", ["Tides.", ["Tides."], {"type": "text", "text": "Tides."}, [{"text": "Tides."}]]
)
@pytest.mark.parametrize("kind", ["search_result", "document"])
def test_text_inside_a_document_is_written_in_every_form(kind: str, inner: object) -> None:
    part: dict[str, Any] = {"type": kind, "title": "T", "source": "s", "content": inner}
    if kind == "document":
        part |= {"source": {"type": "content", "content": inner}}
    request = apis.get("anthropic").read_request(
        {"model": "m", "messages": [{"role": "user", "content": [part]}]}
    )
    assert "Tides." in json.dumps(CHAT.write_request(request))


@pytest.mark.parametrize(
    ("api", "body", "names"),
    [
        ("openai-chat", {"messages": [{"role": "system", "content": [{"a": "x"}]}]}, ["unknown"]),
        ("anthropic", {"messages": [], "system": [{"type": "image"}]}, ["image"]),
        (
            "anthropic",
            {"messages": [{"role": "system", "content": [{"type": "document"}]}]},
            ["document"],
        ),
        ("anthropic", {"messages": [], "system": [{"type": "text", "text": "x"}, "y"]}, []),
        ("anthropic", {"messages": [{"role": "assistant", "content": [{"type": "a"}]}]}, []),
    ],
)
def test_parts_of_instructions_that_are_not_read_are_named(
    api: str, body: dict[str, Any], names: list[str]
) -> None:
    request = apis.get(api).read_request({"model": "m", **body})
    assert dropped_parts(request) == [f"content: {name}" for name in names]
