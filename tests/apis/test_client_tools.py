"""Namespaces and searches for tools, as Codex uses them: flat for models, restored for clients."""

from __future__ import annotations

import json
from typing import Any

from penstock import apis
from penstock.apis.openai_responses.client_tools import read_client_tools
from penstock.builder import message_events
from penstock.messages import AssistantMessage, ToolCall, ToolResult
from penstock.request import ToolChoice

API = apis.get("openai-responses")
CHAT = apis.get("openai-chat")
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
READ = {"type": "function", "name": "read", "description": "Read a file.", "parameters": SCHEMA}
FILES = {"type": "namespace", "name": "mcp__files", "tools": [READ]}
SHELL = {"type": "function", "name": "shell", "parameters": {"type": "object"}}
PATCH = {"type": "custom", "name": "patch", "format": {"type": "text"}}
SEARCH = {
    "type": "tool_search",
    "execution": "client",
    "description": "Find tools.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
}


def read(**fields: Any) -> Any:
    body = {"model": "m", "input": "Hi.", "tools": [SHELL, FILES, PATCH]}
    return API.read_request(body | fields)


def encode(request: Any, call: ToolCall) -> list[dict[str, Any]]:
    """Return the events of a stream with *call* for the client of *request*."""
    encoder: Any = API.encoder(tools=read_client_tools(request.raw))  # type: ignore[call-arg]
    message = AssistantMessage("r", "m", [call], "tool_use")
    data = b"".join(map(encoder.encode, message_events(message))) + encoder.finish()
    assert API.check(data) == []
    return [json.loads(line[6:]) for line in data.decode().splitlines() if line[:5] == "data:"]


def test_tools_in_a_namespace_are_one_list_for_models() -> None:
    request = read()
    assert [tool.name for tool in request.tools] == ["shell", "mcp__files__read", "patch"]
    assert request.tools[1].parameters == SCHEMA
    assert "tools" not in request.extra
    sent = CHAT.write_request(request)
    assert [tool["function"]["name"] for tool in sent["tools"]][:2] == ["shell", "mcp__files__read"]


def test_a_call_goes_to_the_client_under_its_own_names() -> None:
    request = read()
    call = ToolCall("call_1", "mcp__files__read", {"path": "a"})
    events = encode(request, call)
    (item,) = events[-1]["response"]["output"]
    assert (item["type"], item["namespace"], item["name"]) == (
        "function_call",
        "mcp__files",
        "read",
    )
    added = next(e for e in events if e["type"] == "response.output_item.added")["item"]
    assert (added["namespace"], added["name"]) == ("mcp__files", "read")
    message = AssistantMessage("r", "m", [call], "tool_use")
    written = API.write_response(message, tools=read_client_tools(request.raw))  # type: ignore[call-arg]
    assert (written["output"][0]["namespace"], written["output"][0]["name"]) == (
        "mcp__files",
        "read",
    )
    (plain,) = encode(request, ToolCall("call_2", "shell", {}))[-1]["response"]["output"]
    assert plain["name"] == "shell"
    assert "namespace" not in plain


def test_history_and_choice_name_the_tool_as_models_do() -> None:
    call = {
        "type": "function_call",
        "call_id": "call_1",
        "namespace": "mcp__files",
        "name": "read",
        "arguments": '{"path": "a"}',
    }
    output = {"type": "function_call_output", "call_id": "call_1", "output": "text"}
    choice = {"type": "function", "namespace": "mcp__files", "name": "read"}
    request = read(input=["Hi.", call, output], tool_choice=choice)
    assert request.messages[1].tool_calls[0].name == "mcp__files__read"
    assert request.messages[2].name == "mcp__files__read"
    assert request.tool_choice == ToolChoice("tool", "mcp__files__read")


def test_an_upstream_with_the_same_api_gets_the_clients_form() -> None:
    call = {
        "type": "function_call",
        "call_id": "call_1",
        "namespace": "mcp__files",
        "name": "read",
        "arguments": "{}",
    }
    output = {"type": "function_call_output", "call_id": "call_1", "output": "text"}
    choice = {"type": "function", "namespace": "mcp__files", "name": "read"}
    sent = API.write_request(read(input=["Hi.", call, output], tool_choice=choice))
    assert FILES in sent["tools"]
    assert PATCH in sent["tools"]
    assert [tool["type"] for tool in sent["tools"]].count("function") == 1
    (written,) = [item for item in sent["input"] if item["type"] == "function_call"]
    assert (written["namespace"], written["name"]) == ("mcp__files", "read")
    assert sent["tool_choice"] == choice


def test_a_call_of_an_upstream_with_namespaces_is_read() -> None:
    item = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "namespace": "mcp__files",
        "name": "read",
        "arguments": '{"path": "a"}',
        "status": "completed",
    }
    message = API.read_response(
        {"object": "response", "id": "r", "status": "completed", "output": [item]}
    )
    assert [call.name for call in message.tool_calls] == ["mcp__files__read"]


def test_a_search_of_the_client_is_a_tool_for_models() -> None:
    request = read(tools=[SEARCH])
    assert [tool.name for tool in request.tools] == ["tool_search"]
    assert request.tools[0].description == "Find tools."
    events = encode(request, ToolCall("call_1", "tool_search", {"query": "files"}))
    (item,) = events[-1]["response"]["output"]
    assert item["type"] == "tool_search_call"
    assert (item["execution"], item["arguments"]) == ("client", {"query": "files"})
    assert item["call_id"] == "call_1"
    assert item["id"].startswith("tsc_")
    assert not any("arguments.delta" in event["type"] for event in events)


def make_search_history() -> list[Any]:
    call = {
        "type": "tool_search_call",
        "call_id": "call_1",
        "execution": "client",
        "arguments": {"query": "files"},
    }
    output = {
        "type": "tool_search_output",
        "call_id": "call_1",
        "execution": "client",
        "status": "completed",
        "tools": [FILES],
    }
    return ["Hi.", call, output]


def test_tools_that_a_search_found_are_offered() -> None:
    request = read(tools=[SEARCH], input=make_search_history())
    assert [tool.name for tool in request.tools] == ["tool_search", "mcp__files__read"]
    assert request.messages[1].tool_calls == [ToolCall("call_1", "tool_search", {"query": "files"})]
    result = request.messages[2]
    assert isinstance(result, ToolResult)
    assert result.name == "tool_search"
    assert "mcp__files__read: Read a file." in str(result.content)
    (item,) = encode(request, ToolCall("call_2", "mcp__files__read", {}))[-1]["response"]["output"]
    assert (item["namespace"], item["name"]) == ("mcp__files", "read")


def test_a_search_goes_to_an_upstream_with_the_same_api_unchanged() -> None:
    sent = API.write_request(read(tools=[SEARCH], input=make_search_history()))
    assert sent["tools"] == [SEARCH]
    _, call, output = make_search_history()
    assert call in sent["input"]
    assert output in sent["input"]
    item = call | {"id": "tsc_1", "status": "completed"}
    message = API.read_response(
        {"object": "response", "id": "r", "status": "completed", "output": [item]}
    )
    assert message.tool_calls == [ToolCall("call_1|tsc_1", "tool_search", {"query": "files"})]


def test_a_search_of_the_server_is_left_to_it() -> None:
    request = read(tools=[{"type": "tool_search"}, FILES])
    assert [tool.name for tool in request.tools] == ["mcp__files__read"]
    assert {"type": "tool_search"} in API.write_request(request)["tools"]
    assert any("tool_search" in name for name in CHAT.omitted_fields(request))


def test_odd_namespaces_are_left_alone() -> None:
    for odd in ({"type": "namespace"}, {"type": "namespace", "name": "n", "tools": 5}):
        request = read(tools=[odd, SHELL])
        assert [tool.name for tool in request.tools] == ["shell"]
    inner = {"type": "namespace", "name": "n", "tools": [5, {"type": "function"}, PATCH]}
    request = read(tools=[inner])
    assert [tool.name for tool in request.tools] == ["n__patch"]
    (item,) = encode(request, ToolCall("c", "n__patch", {"input": "x"}))[-1]["response"]["output"]
    assert (item["type"], item["namespace"], item["name"]) == ("custom_tool_call", "n", "patch")
