"""Agents behind web pages: what is served, and what is refused before a response begins."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, HTTPException
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.testclient import TestClient

from agent.test_ag_ui import check_events
from agent.ui_law import check, folded
from penstock.agent import Agent, Defer, Session, tool
from penstock.agent.ai_sdk_messages import read_ui_messages
from penstock.integrations.starlette import AgentEndpoint
from penstock.messages import AssistantMessage, Text, ToolCall
from penstock.models import DemoModel

RUNS: list[str] = []


@tool(needs_approval=True)
def get_weather(city: str) -> str:
    """Weather of a city."""
    RUNS.append(city)
    return "Snow."


async def approve_later(_call: object, _tool: object) -> Defer:
    return Defer()


def make_agent() -> Agent:
    return Agent(DemoModel("native"), [get_weather], approve=approve_later)


@pytest.fixture
def agents() -> dict[str, Agent]:
    RUNS.clear()
    return {"chat-1": make_agent()}


@pytest.fixture
def client(agents: dict[str, Agent]) -> TestClient:
    endpoint = AgentEndpoint(lambda id_, _: agents.get(id_), max_body=10_000)
    return TestClient(Starlette(routes=endpoint.routes()))


def said(text: str, id_: str = "m1") -> dict[str, Any]:
    return {"id": id_, "role": "user", "parts": [{"type": "text", "text": text}]}


def chunks(text: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def asking(*messages: object) -> dict[str, Any]:
    return {"id": "chat-1", "messages": list(messages), "trigger": "submit-message"}


JSON = {"content-type": "application/json"}
QUESTION = said("How is the weather in Oslo?")


def test_a_page_asks_approves_and_is_loaded_again(
    client: TestClient, agents: dict[str, Agent]
) -> None:
    response = client.post("/api/chat", json=asking(QUESTION))
    assert response.headers["x-vercel-ai-ui-message-stream"] == "v1"
    shown = chunks(response.text)
    check(shown)
    # The page is closed, and opened again: it asks for the conversation, and shows the question.
    loaded = client.get("/api/chat/chat-1").json()
    (asked,) = [part for part in loaded[-1]["parts"] if part.get("state") == "approval-requested"]
    asked |= {"state": "approval-responded", "approval": {"id": "x", "approved": True}}
    response = client.post("/api/chat", json=asking(*loaded))
    rest = chunks(response.text)
    check(rest, [asked["toolCallId"]])
    assert RUNS == ["Oslo"]
    page = folded(rest, deepcopy(loaded[-1]))
    again = client.get("/api/chat/chat-1").json()
    assert [one["role"] for one in again] == ["user", "assistant"]
    texts = [[part["text"] for part in one["parts"] if part["type"] == "text"]
             for one in (page.message, again[-1])]  # fmt: skip
    assert texts[0] == texts[1]
    assert len(read_ui_messages(again)) == len(agents["chat-1"].messages)
    # The same decision again decides nothing.
    assert client.post("/api/chat", json=asking(*loaded)).status_code == 409
    assert RUNS == ["Oslo"]


def test_an_ag_ui_client_asks_approves_and_is_loaded_again(client: TestClient) -> None:
    user = {"id": "u1", "role": "user", "content": "How is the weather in Oslo?"}
    body: dict[str, Any] = {"threadId": "chat-1", "runId": "r1", "messages": [user]}
    first = chunks(client.post("/api/chat/ag-ui", json=body).text)
    check_events(first)
    (interrupt,) = first[-1]["outcome"]["interrupts"]
    answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
    body |= {"runId": "r2", "resume": [answer]}
    second = chunks(client.post("/api/chat/ag-ui", json=body).text)
    check_events(second)
    assert second[-1]["outcome"] == {"type": "success"}
    assert RUNS == ["Oslo"]
    roles = [one["role"] for one in client.get("/api/chat/chat-1/ag-ui").json()]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert client.post("/api/chat/ag-ui", json=body).status_code == 409
    again = client.post("/api/chat/ag-ui", json=body | {"resume": None})
    assert (again.status_code, again.json()) == (409, {"error": "the message 'u1' was sent before"})


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "not valid JSON"),
        (b"\xff", 400, "not valid JSON"),
        (b"[]", 400, "must be a JSON object"),
        ({"id": "chat-1"}, 400, "`messages` is empty"),
        ({"id": "chat-1", "messages": []}, 400, "`messages` is empty"),
        ({"id": "chat-1", "messages": "x"}, 400, "`messages` is empty"),
        ({"id": "chat-1", "messages": [1]}, 400, "message 0"),
        ({"id": 7, "messages": [QUESTION]}, 400, "id of the conversation is missing"),
        ({"id": "nobody", "messages": [QUESTION]}, 404, "no conversation 'nobody'"),
        (asking(said("  \n")), 400, "the message is empty"),
        (asking({"id": "m", "role": "user", "parts": []}), 400, "must contain text or an image"),
        (asking({"id": "m", "role": "assistant", "parts": []}), 400, "not a message of the user"),
        (asking(QUESTION) | {"trigger": "regenerate-message"}, 400, "generated again"),
        (asking(said("x" * 20_000)), 413, "more than 10,000 bytes"),
    ],
)
def test_invalid_requests_are_refused(
    client: TestClient, agents: dict[str, Agent], body: Any, status: int, words: str
) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = client.post("/api/chat", content=data, headers=JSON)
    assert (response.status_code, words in response.json()["error"]) == (status, True)
    assert agents["chat-1"].messages == []


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize("path", ["/api/chat", "/api/chat/ag-ui"])
def test_a_body_that_any_web_page_can_send_is_refused(
    client: TestClient, agents: dict[str, Agent], path: str, kind: str
) -> None:
    data = json.dumps(asking(QUESTION))
    response = client.post(path, content=data, headers={"content-type": kind} if kind else {})
    assert response.status_code == 415
    assert "application/json" in response.json()["error"]
    assert agents["chat-1"].messages == []


def test_a_conversation_that_utf_8_cannot_express_is_loaded(
    client: TestClient, agents: dict[str, Agent]
) -> None:
    call = ToolCall("c1", "get_weather", {"city": "\ud83d", "height": float("nan")})
    said_so = AssistantMessage("r", "m", [Text("Half of \ud83d."), call], "tool_use")
    agents["chat-1"] = Agent(DemoModel("native"), [get_weather], messages=["Hi", said_so])
    shown = client.get("/api/chat/chat-1").json()
    assert shown[-1]["parts"][-1]["input"] == {"city": "\ufffd", "height": None}
    (asked,) = client.get("/api/chat/chat-1/ag-ui").json()[-1]["toolCalls"]
    assert json.loads(asked["function"]["arguments"], parse_constant=pytest.fail) == {
        "city": "\ufffd",
        "height": None,
    }


def test_a_message_that_is_sent_again_is_refused(
    client: TestClient, agents: dict[str, Agent]
) -> None:
    hello = said("Hello!")
    assert client.post("/api/chat", json=asking(hello)).status_code == 200
    again = client.post("/api/chat", json=asking(hello))
    assert (again.status_code, again.json()["error"]) == (409, "the message 'm1' was sent before")
    assert client.post("/api/chat", json=asking(said("Hello!", "m2"))).status_code == 200
    assert len(agents["chat-1"].messages) == 4


def post(body: dict[str, Any]) -> Request:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    headers = [(b"content-type", b"application/json; charset=utf-8")]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers, "query_string": b""}
    return Request(scope, receive)


def body_of(response: Response) -> AsyncIterator[Any]:
    assert isinstance(response, StreamingResponse)
    return response.body_iterator.__aiter__()


async def test_an_agent_that_is_busy_refuses_and_a_page_that_leaves_stops_it() -> None:
    started = asyncio.Event()

    @tool(needs_approval=False)
    async def get_weather(city: str) -> str:
        """Weather of a city."""
        started.set()
        await asyncio.Event().wait()
        return city

    agent = Agent(DemoModel("native"), [get_weather])
    endpoint = AgentEndpoint(lambda *_: agent)
    # Of two requests at the same time, one is served.
    first, second = await asyncio.gather(
        endpoint.chat(post(asking(QUESTION))), endpoint.chat(post(asking(said("Hi", "m2"))))
    )
    assert (first.status_code, second.status_code) == (200, 409)
    assert b"the agent is busy" in bytes(second.body)
    body = body_of(first)
    await anext(body)
    await started.wait()
    third = await endpoint.chat(post(asking(said("Hi", "m3"))))
    assert third.status_code == 409
    loaded = await endpoint.history(
        Request({"type": "http", "path_params": {"id": "chat-1"}, "headers": []})
    )
    (part,) = [one for one in json.loads(bytes(loaded.body))[-1]["parts"] if "state" in one
               and one["type"].startswith("tool-")]  # fmt: skip
    assert part["state"] == "input-available"
    await body.aclose()  # type: ignore[attr-defined]
    assert not agent.busy
    # The message that was refused was not used up.
    fourth = await endpoint.chat(post(asking(said("Hi", "m3"))))
    assert fourth.status_code == 200
    assert b"".join([piece async for piece in body_of(fourth)]).endswith(b"[DONE]\n\n")


async def test_sessions_are_served_and_recorded(tmp_path: Path) -> None:
    async with Session(make_agent(), tmp_path / "chat.jsonl") as session:

        async def find(_id: str, _request: Request) -> Session:
            return session

        response = await AgentEndpoint(find).chat(post(asking(said("Hello!"))))
        assert [piece async for piece in body_of(response)]
    assert "Hello!" in (tmp_path / "chat.jsonl").read_text()


def check_user(request: Request) -> str:
    if request.headers.get("authorization") != "Bearer me":
        raise HTTPException(401)
    return "me"


def test_fastapi_uses_the_routes_and_the_handlers_with_its_dependencies(
    agents: dict[str, Agent],
) -> None:
    endpoint = AgentEndpoint(lambda id_, _: agents.get(id_))
    app = FastAPI()

    @app.post("/private/chat")
    async def chat(request: Request, user: Annotated[str, Depends(check_user)]) -> Response:
        assert user == "me"
        return await endpoint.chat(request)

    app.router.routes.extend(endpoint.routes("/api/chat"))
    client = TestClient(app)
    assert client.post("/private/chat", json=asking(QUESTION)).status_code == 401
    allowed = client.post(
        "/private/chat", json=asking(QUESTION), headers={"authorization": "Bearer me"}
    )
    check(chunks(allowed.text))
    assert client.get("/api/chat/chat-1").json()[0]["role"] == "user"
    assert client.get("/api/chat/other").status_code == 404
