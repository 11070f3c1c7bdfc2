"""What real clients send beside text and tools, and what of it reaches a chat server.

The shapes are those of Claude Code, the AI SDK and OpenAI's and Anthropic's own libraries, which
are the clients here. The upstream speaks OpenAI Chat and refuses, as chat templates do, a system
message that is not the first.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.serving import (
    CLIENTS,
    Actor,
    Served,
    Stage,
    ask,
    request_of,
    told,
    tools_of,
    until,
    upstream_table,
)
from models.loopback_servers import Reply, Seen, refusal, stream_of
from penstock.messages import AssistantMessage, Text, Usage

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

CALLS = [
    f'<tool_call>{{"name": "get_weather", "arguments": {{"city": "{city}"}}}}</tool_call>'
    for city in ("Paris", "Oslo")
]
BASH = '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'
FINE = AssistantMessage("m", "m", [Text("Fine.")], "stop", "", Usage(3, 2, total=5))

both = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
clients = pytest.mark.parametrize("client", CLIENTS)


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    text = upstream_table(actor, retries=0) + "".join(
        f'[models.{name}]\nupstream = "openai-chat"\n{options}\n'
        for name, options in {
            "words": 'tools = "prompt"',
            "first": 'system_messages = "first"',
            "keep": 'system_messages = "keep"',
        }.items()
    )
    return stage.gateway(tmp_path_factory.mktemp("gateway"), text)


@pytest.fixture(scope="module")
def gpt(served: Served) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="k", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def claude(served: Served) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=served.url, api_key="k", max_retries=0) as client:
        yield client


@pytest.fixture(autouse=True)
def _strict_template(actor: Actor) -> None:
    say(actor, FINE)


def say(actor: Actor, message: AssistantMessage) -> None:
    """Answer with *message*, but refuse what a chat template would."""

    def reply(seen: Seen) -> Reply:
        roles = [one["role"] for one in seen.json["messages"]]
        if "system" in roles[1:]:
            why = "System message must be at the beginning."
            return refusal(400, {"error": {"message": why}})
        return Reply([stream_of("openai-chat", message)])

    actor.play(reply)


def say_text(actor: Actor, text: str) -> None:
    say(actor, AssistantMessage("m", "m", [Text(text)], "stop", "", FINE.usage))


def sent(actor: Actor) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = actor.seen[-1].json["messages"]
    return messages


def converse(claude: Any, *content: Any, model: str = "m", **more: Any) -> Any:
    messages = [{"role": "user", "content": [*content]}]
    fields = {"model": model, "max_tokens": 99, "messages": messages, **more}
    return claude.messages.with_raw_response.create(**fields)


def omitted(headers: Any) -> list[str]:
    """Return what the answer's header says that the model did not get."""
    return [one for one in headers["x-penstock"].split("; ") if one.endswith("omitted")]


def notes_of(served: Served, headers: Any) -> dict[str, Any]:
    """Return what the log notes of an answer, once it has been written."""
    path = f"/v1/requests/{headers['x-request-id']}"
    until(lambda: ask(served, path).json.get("notes"))
    notes: dict[str, Any] = ask(served, path).json["notes"]
    return notes


# --- system messages inside the conversation ---


LATE = [
    {"role": "user", "content": "Hi."},
    {"role": "system", "content": "Be brief."},
    {"role": "assistant", "content": "Hello."},
    {"role": "system", "content": "<system-reminder>Tuesday.</system-reminder>"},
    {"role": "user", "content": "Well?"},
]


@pytest.mark.parametrize("model", ["m", "words", "first", "mistral-small"])
@clients
def test_a_system_message_among_the_others_is_one_that_a_template_takes(
    served: Served, actor: Actor, client: str, model: str
) -> None:
    key = "input" if client == "openai-responses" else "messages"
    body = {**request_of(client, model), key: LATE, "tools": tools_of(client)}
    answer = ask(served, CLIENTS[client], body)
    assert told(client, answer, stream=True).text == "Fine."
    roles = [message["role"] for message in sent(actor)]
    said = json.dumps(sent(actor))
    assert said.count("Be brief.") == said.count("Tuesday.") == 1
    assert [role for role in roles if role != "system"] == ["user", "assistant", "user"]
    if model in ("first", "mistral-small"):
        assert "Be brief." in sent(actor)[0]["content"]
    else:
        assert "<system>\\nBe brief.\\n</system>" in said
        assert said.index("Hi.") < said.index("Be brief.") < said.index("Hello.")


def test_where_system_messages_went_is_in_the_log(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    body = {**request_of("openai-chat", "first"), "messages": LATE}
    with caplog.at_level("WARNING", "penstock.gateway"):
        served.gateway._warned.clear()
        answer = ask(served, CLIENTS["openai-chat"], body)
    assert "first: system messages: merged into the system prompt" in caplog.text
    adapted = notes_of(served, answer.headers)["adapted"]
    assert adapted == ["system messages: 2 merged into the system prompt"]


def test_system_messages_stay_where_a_model_takes_them(served: Served, actor: Actor) -> None:
    body = {**request_of("openai-chat", "keep"), "messages": LATE}
    assert ask(served, CLIENTS["openai-chat"], body).status == 400
    assert [message["role"] for message in sent(actor)] == [message["role"] for message in LATE]


def test_several_system_messages_in_front_are_one(served: Served, actor: Actor) -> None:
    front = [{"role": "system", "content": "One."}, {"role": "developer", "content": "Two."}]
    body = {**request_of("openai-chat", "m"), "messages": [*front, LATE[0]]}
    assert ask(served, CLIENTS["openai-chat"], body).status == 200
    assert sent(actor)[0] == {"role": "system", "content": "One.\n\nTwo."}


# --- content ---


def document(source: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "document", "source": source, **more}


NOTES = document({"type": "text", "media_type": "text/plain", "data": "Tides."}, title="a.txt")
BLOCKS = document({"type": "content", "content": [{"type": "text", "text": "Tides."}]})
FOUND = {
    "type": "search_result",
    "source": "https://e.test",
    "title": "T",
    "content": [{"type": "text", "text": "Tides."}],
}


@pytest.mark.parametrize("model", ["m", "words"])
@pytest.mark.parametrize("block", [NOTES, BLOCKS, FOUND], ids=["text", "content", "search"])
def test_documents_of_text_are_written_as_text(
    claude: Any, actor: Actor, block: dict[str, Any], model: str
) -> None:
    answer = converse(claude, {"type": "text", "text": "Read."}, block, model=model)
    assert "Tides." in json.dumps(sent(actor))
    assert f"<{block['type']}" in json.dumps(sent(actor))
    assert omitted(answer.headers) == []


@pytest.mark.parametrize("model", ["m", "words"])
def test_failed_results_and_tool_references_reach_the_model(
    claude: Any, actor: Actor, model: str
) -> None:
    calls = [{"type": "tool_use", "id": f"t{n}", "name": "f", "input": {}} for n in range(3)]
    contents: list[Any] = [
        "no such city",
        [{"type": "tool_reference", "tool_name": "get_weather"}],
        [NOTES],
    ]
    results = [
        {"type": "tool_result", "tool_use_id": f"t{n}", "content": content, "is_error": n == 0}
        for n, content in enumerate(contents)
    ]
    messages = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": results},
    ]
    claude.messages.create(
        model=model, max_tokens=9, messages=messages, tools=tools_of("anthropic")
    )
    said = json.dumps(sent(actor))
    assert "Error: no such city" in said
    assert "The tool " in said
    assert "get_weather" in said.partition("The tool ")[2][:20]
    assert "Tides." in said
    assert "see below" not in said


def test_what_cannot_be_said_is_named_in_the_header_and_to_the_model(
    claude: Any, served: Served, actor: Actor
) -> None:
    pdf = document({"type": "file", "file_id": "file_1"}, title="a.pdf")
    search = {"type": "web_search_20250305", "name": "web_search"}
    for model in ("m", "words"):
        answer = converse(
            claude,
            {"type": "text", "text": "Read."},
            pdf,
            model=model,
            tools=[search, *tools_of("anthropic")],
            extra_body={"odd\r\n;field": 1},
        )
        assert omitted(answer.headers) == [
            "tools: web_search omitted",
            "odd???field omitted",
            "content: document omitted",
        ]
        assert "[document omitted]" in json.dumps(sent(actor))
        assert "tools: web_search" in notes_of(served, answer.headers)["omitted_fields"]


def test_a_file_of_text_from_a_responses_client_is_written_as_text(gpt: Any, actor: Actor) -> None:
    data = b64encode(b"Tides.").decode()
    file = {
        "type": "input_file",
        "filename": "a.md",
        "file_data": f"data:text/markdown;base64,{data}",
    }
    gpt.responses.create(model="m", input=[{"role": "user", "content": [file]}])
    assert '<document title=\\"a.md\\">\\nTides.' in json.dumps(sent(actor))


# --- tools that clients run and name by type ---


@pytest.mark.parametrize("model", ["m", "words"])
@both
def test_typed_client_tools_are_functions_and_are_called_by_their_names(
    claude: Any, actor: Actor, model: str, *, stream: bool
) -> None:
    say_text(actor, f"I look.\n{BASH}")
    tools = [
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        {"type": "memory_20250818", "name": "memory"},
    ]
    fields = {
        "model": model,
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "Go."}],
        "tools": tools,
    }
    if stream:
        with claude.messages.stream(**fields) as answer:
            found = answer.get_final_message()
    else:
        found = claude.messages.create(**fields)
    (call,) = [block for block in found.content if block.type == "tool_use"]
    assert (call.name, call.input, found.stop_reason) == ("bash", {"command": "ls"}, "tool_use")
    body = actor.seen[-1].json
    if model == "m":
        functions = {tool["function"]["name"]: tool["function"] for tool in body["tools"]}
        assert set(functions) == {tool["name"] for tool in tools}
        memory = functions["memory"]["parameters"]["properties"]
        assert memory["command"]["enum"][-1] == "rename"
    else:
        assert "insert_text" in json.dumps(body["messages"])


# --- one call at a time ---


SINGLE: dict[str, dict[str, Any]] = {
    "openai-chat": {"parallel_tool_calls": False},
    "openai-responses": {"parallel_tool_calls": False},
    "anthropic": {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
}


@pytest.mark.parametrize("model", ["m", "words"])
@both
@clients
def test_without_parallel_calls_the_first_is_one_and_the_rest_is_text(
    served: Served, actor: Actor, client: str, model: str, *, stream: bool
) -> None:
    say_text(actor, "I look.\n" + "\n".join(CALLS))
    more = {**SINGLE[client], "tools": tools_of(client)}
    body = request_of(client, model, stream=stream, **more)
    message = told(client, ask(served, CLIENTS[client], body), stream=stream)
    assert [call.arguments for call in message.tool_calls] == [{"city": "Paris"}]
    assert CALLS[1] in message.text
    assert CALLS[0] not in message.text
    assert message.stop_reason == "tool_use"


@both
@clients
def test_text_after_reasoning_does_not_begin_with_blank_lines(
    served: Served, actor: Actor, client: str, *, stream: bool
) -> None:
    body = request_of(client, "m", stream=stream, tools=tools_of(client))
    say_text(actor, "<think>Hm.</think>\n\nHello.\n\nYou.")
    message = told(client, ask(served, CLIENTS[client], body), stream=stream)
    assert (message.thinking, message.text) == ("Hm.", "Hello.\n\nYou.")


# --- references to items, and tokens ---


@both
def test_references_to_items_are_resolved(gpt: Any, actor: Actor, *, stream: bool) -> None:
    say_text(actor, f"<think>Hm.</think>I look.\n{CALLS[0]}")
    fields = {"model": "m", "tools": tools_of("openai-responses")}
    asked = {"role": "user", "content": "How is the weather?"}
    if stream:
        with gpt.responses.stream(input=[asked], **fields) as answer:
            first = answer.get_final_response()
    else:
        first = gpt.responses.create(input=[asked], **fields)
    say(actor, FINE)
    call = first.output[-1]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
    references = [{"type": "item_reference", "id": item.id} for item in first.output]
    references[1].pop("type")  # which may be omitted
    again = [asked, *references, result]
    assert gpt.responses.create(input=again, **fields).output_text == "Fine."
    _, made, back = sent(actor)
    assert made["content"] == "I look."
    assert made["tool_calls"][0]["function"]["arguments"] == '{"city":"Paris"}'
    assert back["content"] == "rain"
    few = gpt.responses.input_tokens.count(input=[asked], model="m")
    many = gpt.responses.input_tokens.count(input=again, model="m", tools=fields["tools"])
    assert 0 < few.input_tokens < many.input_tokens


def test_an_item_that_nobody_knows_is_not_found(gpt: Any) -> None:
    unknown = [{"type": "item_reference", "id": "msg_unknown_1"}]
    with pytest.raises(openai.NotFoundError, match="msg_unknown_1"):
        gpt.responses.create(model="m", input=unknown)
    with pytest.raises(openai.NotFoundError):
        gpt.responses.input_tokens.count(model="m", input=unknown)


# --- from one server of the Messages API to another ---


def test_own_fields_of_the_messages_api_stay_where_they_were(stage: Stage, tmp_path: Path) -> None:
    upstream = stage.actor("anthropic")
    served = stage.gateway(tmp_path, upstream_table(upstream, retries=0))
    caller = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
    use = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Oslo"}}
    of_message = {
        "container": {"id": "c1", "expires_at": "2030-01-01T00:00:00Z"},
        "context_management": {"applied_edits": []},
    }
    whole = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{**use, "caller": caller}],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 2},
        **of_message,
    }
    upstream.play(
        Reply(whole=json.dumps(whole).encode(), headers={"content-type": "application/json"})
    )
    body = request_of("anthropic", "m", stream=False, tools=tools_of("anthropic"))
    found = ask(served, CLIENTS["anthropic"], body).json
    assert found["content"] == whole["content"]
    assert {name: found[name] for name in of_message} == of_message
    with anthropic.Anthropic(base_url=served.url, api_key="k", max_retries=0) as claude:
        fields = {name: body[name] for name in ("model", "max_tokens", "messages", "tools")}
        with claude.beta.messages.stream(**fields) as answer:
            message = answer.get_final_message()
    assert message.content[0].caller.tool_id == "srvtoolu_1"
    assert message.container.id == "c1"
    assert message.context_management.applied_edits == []
