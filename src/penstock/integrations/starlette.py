"""HTTP handlers for agents in Starlette and FastAPI applications; needs the extra `starlette`.

An `AgentEndpoint` serves the requests of web pages: the AI SDK's chat (`useChat`), AG-UI clients,
and pages that were loaded again and ask for the conversation. The conversation stays on the server.
What a page sends is checked, and what cannot be done is refused before the response begins:

* 400: the body is not valid, or the last message is empty or not the user's;
* 404: there is no such conversation;
* 409: the agent is busy, the message was sent before, or the calls were decided before;
* 413: the body is too large;
* 415: the body is not declared as JSON. A browser lets any web page send other types, with the
  cookies of the user, but asks the server first before it sends JSON from another origin.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from penstock import _json
from penstock.agent import Agent, AgentBusyError, AgentRun
from penstock.agent.ag_ui import (
    AG_UI_HEADERS,
    AGUIStream,
    ag_ui_stream,
    read_run_input,
    write_ag_ui_messages,
)
from penstock.agent.ai_sdk_history import agent_ui_messages
from penstock.agent.ai_sdk_messages import read_decisions, read_prompt
from penstock.agent.ai_sdk_stream import UI_HEADERS, UIStream, ui_stream
from penstock.agent.approval import Decision
from penstock.agent.session import Session
from penstock.errors import JSONParseError, PenstockError, UsageError
from penstock.messages import Text
from penstock.request import UserMessage

MAX_BODY: Final = 20_000_000
"""The bytes of a request: `useChat` sends the whole conversation, with its images."""

MAX_REMEMBERED: Final = 1_000
"""The ids of messages that are remembered per conversation, to notice one that is sent again."""

Conversation = Agent | Session
"""The other side of a conversation: an agent, or a session, which also records it."""

FindAgent = Callable[[str, Request], Awaitable[Conversation | None] | Conversation | None]
"""Returns the agent or the session of a conversation by its id; None if there is none."""


class RequestError(PenstockError):
    """A request cannot be served; *status* is the code of the response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class AgentEndpoint:
    """Serves the agents that *find* returns.

    *find* gets the id of the conversation, as the page sent it, and the request: check there who
    may use it. Return the same agent for the same id, so that a conversation that is busy is
    noticed. A body may have *max_body* bytes. *state* returns the state of a conversation for AG-UI
    clients.
    """

    def __init__(
        self,
        find: FindAgent,
        *,
        max_body: int = MAX_BODY,
        state: Callable[[Agent], Any] | None = None,
    ) -> None:
        self._find = find
        self._max_body = max_body
        self._state = state
        # A client that lost the connection sends its message again, with the same id.
        self._sent: WeakKeyDictionary[Agent, dict[str, None]] = WeakKeyDictionary()

    def routes(self, path: str = "/api/chat") -> list[Route]:
        """Return the routes of the handlers below *path*."""
        return [
            Route(path, self.chat, methods=["POST"]),
            Route(f"{path}/ag-ui", self.ag_ui, methods=["POST"]),
            Route(f"{path}/{{id}}", self.history, methods=["GET"]),
            Route(f"{path}/{{id}}/ag-ui", self.ag_ui_history, methods=["GET"]),
        ]

    # --- handlers ---

    async def chat(self, request: Request) -> Response:
        """Respond to a request of the AI SDK's chat with a UI message stream."""
        try:
            body = await self._read_body(request)
            # `useChat` sends this for its button; the response would have to be taken out of the
            # conversation.
            if body.get("trigger") == "regenerate-message":
                raise RequestError(400, "responses cannot be generated again")
            messages = body.get("messages")
            if not isinstance(messages, list) or not messages:
                raise RequestError(400, "`messages` is empty")
            conversation = await self._find_conversation(body.get("id"), request)
            decisions = read_decisions(messages)
            prompt = None if decisions else read_prompt(messages)
            run = self._start(conversation, prompt, decisions, _read_id(messages[-1]))
        except PenstockError as exc:
            return _refuse(exc)
        return StreamingResponse(ui_stream(run, UIStream()), headers=UI_HEADERS)

    async def ag_ui(self, request: Request) -> Response:
        """Respond to a request of an AG-UI client with its events."""
        try:
            given = read_run_input(await self._read_body(request))
            conversation = await self._find_conversation(given.thread_id, request)
            decisions = given.decisions
            prompt = None if decisions else given.prompt
            agent = _agent_of(conversation)
            last = given.messages[-1] if given.messages else {}
            run = self._start(conversation, prompt, decisions, _read_id(last))
        except PenstockError as exc:
            return _refuse(exc)
        state = self._state
        view = AGUIStream(
            given.thread_id,
            given.run_id,
            state=None if state is None else lambda: state(agent),
        )
        return StreamingResponse(ag_ui_stream(run, view), headers=AG_UI_HEADERS)

    async def history(self, request: Request) -> Response:
        """Return the conversation as UI messages, for a page that was loaded again."""
        try:
            conversation = await self._find_conversation(request.path_params["id"], request)
        except PenstockError as exc:
            return _refuse(exc)
        return _write_json(agent_ui_messages(_agent_of(conversation)))

    async def ag_ui_history(self, request: Request) -> Response:
        """Return the conversation as AG-UI messages."""
        try:
            conversation = await self._find_conversation(request.path_params["id"], request)
        except PenstockError as exc:
            return _refuse(exc)
        return _write_json(write_ag_ui_messages(_agent_of(conversation).messages))

    # --- requests ---

    async def _read_body(self, request: Request) -> dict[str, Any]:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RequestError(415, "send the body with `content-type: application/json`")
        data = bytearray()
        async for piece in request.stream():
            data += piece
            if len(data) > self._max_body:
                raise RequestError(413, f"the body has more than {self._max_body:,} bytes")
        try:
            body = _json.decode(bytes(data))
        except JSONParseError as exc:
            raise RequestError(400, f"the body is not valid JSON: {exc}") from exc
        if not isinstance(body, dict):
            raise RequestError(400, "the body must be a JSON object")
        return body

    async def _find_conversation(self, id_: object, request: Request) -> Conversation:
        if not isinstance(id_, str) or not id_:
            raise RequestError(400, "the id of the conversation is missing")
        found = self._find(id_, request)
        conversation = await found if inspect.isawaitable(found) else found
        if conversation is None:
            raise RequestError(404, f"there is no conversation {id_!r}")
        return conversation

    def _start(
        self,
        conversation: Conversation,
        prompt: UserMessage | None,
        decisions: Mapping[str, Decision],
        message_id: str,
    ) -> AgentRun:
        """Start the run; nothing is awaited here, so that of two requests one is refused."""
        agent = _agent_of(conversation)
        if agent.busy:
            raise AgentBusyError("the agent is busy: wait for its response, or stop it")
        if prompt is None:
            # Decided twice, in two tabs or by a repeated request, a call must run once.
            waiting = {call.id for call in agent.deferred}
            if not decisions.keys() & waiting:
                raise RequestError(409, "no call waits for these decisions")
            return conversation.resume(
                {id_: one for id_, one in decisions.items() if id_ in waiting}
            )
        if not any(not isinstance(one, Text) or one.text.strip() for one in prompt.content):
            raise RequestError(400, "the message is empty")
        sent = self._sent.setdefault(agent, {})
        if message_id and message_id in sent:
            raise RequestError(409, f"the message {message_id!r} was sent before")
        run = conversation.run(prompt)
        if message_id:
            sent[message_id] = None
            for old in list(sent)[:-MAX_REMEMBERED]:
                del sent[old]
        return run


def _agent_of(conversation: Conversation) -> Agent:
    return conversation.agent if isinstance(conversation, Session) else conversation


def _read_id(message: object) -> str:
    id_ = message.get("id") if isinstance(message, Mapping) else None
    return id_ if isinstance(id_, str) else ""


def _write_json(value: object) -> Response:
    """Return *value* as JSON; Starlette's response fails for a lone surrogate and for NaN."""
    return Response(_json.encode_wire(value), media_type="application/json")


def _refuse(exc: PenstockError) -> Response:
    """Return the response to a request that cannot be served."""
    match exc:
        case RequestError(status=status):
            pass
        case AgentBusyError():
            status = 409
        case UsageError():
            status = 400
        case _:
            raise exc
    return JSONResponse({"error": str(exc)}, status)
