"""Chats of chat.qwen.ai: the server keeps them, so one has to be begun before it is used."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any
from uuid import uuid4

from msgspec.structs import replace

from penstock import _json
from penstock.apis import Api
from penstock.errors import JSONParseError
from penstock.models.http import endpoints
from penstock.models.http.attempt import Prepare, RefusedError, Send
from penstock.models.http.transport import HTTPCall
from penstock.request import Request

Write = Callable[[str, dict[str, Any]], HTTPCall]
"""Makes the call that brings a body to a URL."""


def preparation(api: Api, request: Request, base_url: str, write: Write) -> Prepare:
    """Give what makes the call for *request*: in its own chat, or in one that is begun for it.

    The chat is `chat_id` in `Request.extra`, and `parent_id` the answer to go on from.
    """
    base_url = base_url.removesuffix("/").removesuffix("/chat/completions")
    request = deepcopy(request)  # It is written with each try, and may be changed meanwhile.

    async def prepare(send: Send) -> HTTPCall:
        now = time.time()
        chat = request.extra.get("chat_id") or await begin(send, now)
        own = {"chat_id": chat, "fid": str(uuid4()), "timestamp": int(now), **request.extra}
        body = api.write_request(replace(request, extra={**own, "chat_id": chat}))
        url = endpoints.join(base_url, endpoints.ENDPOINTS[api.name].path, {"chat_id": chat})
        return write(url, body)

    async def begin(send: Send, now: float) -> str:
        fields = {
            "title": "New Chat",
            "models": [request.model],
            "chat_mode": request.extra.get("chat_mode", "guest"),
            "chat_type": request.extra.get("chat_type", "t2t"),
            "timestamp": int(now * 1000),  # milliseconds here, seconds everywhere else
        }
        body = await send(write(endpoints.join(base_url, endpoints.QWEN_NEW_CHAT), fields))
        chat = _chat_in(body)
        if not chat:  # It refuses with a status of 200.
            raise RefusedError(api.read_error(502, {}, body, now=now))
        return chat

    return prepare


def _chat_in(body: bytes) -> str:
    try:
        answer = _json.decode(body)
    except JSONParseError:
        return ""
    data = answer.get("data") if isinstance(answer, dict) else None
    chat = data.get("id") if isinstance(data, dict) else None
    return chat if isinstance(chat, str) else ""
