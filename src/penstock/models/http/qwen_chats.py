"""Chats of chat.qwen.ai: the server stores them, so a chat must be created before its first use.

`HTTPModel` needs this for the API ``qwen``; `models.qwen_web` builds on that model.
"""

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
from penstock.models.http.attempt import Prepare, Send, UpstreamError
from penstock.models.http.transport import HTTPCall
from penstock.request import Request

Write = Callable[[str, dict[str, Any]], HTTPCall]
"""Returns the call that sends a body to a URL."""


def prepare_chat(api: Api, request: Request, base_url: str, write: Write) -> Prepare:
    """Return the function that makes the call for *request*, in its chat or in a new one.

    `Request.extra` has the chat as `chat_id` and the response to continue from as `parent_id`.
    """
    base_url = base_url.removesuffix("/").removesuffix("/chat/completions")
    request = deepcopy(request)  # It is written for each attempt; the caller may change it.

    async def prepare(send: Send) -> HTTPCall:
        now = time.time()
        chat = request.extra.get("chat_id") or await create(send, now)
        own = {"chat_id": chat, "fid": str(uuid4()), "timestamp": int(now), **request.extra}
        body = api.write_request(replace(request, extra={**own, "chat_id": chat}))
        url = endpoints.join(base_url, endpoints.ENDPOINTS[api.name].path, {"chat_id": chat})
        return write(url, body)

    async def create(send: Send, now: float) -> str:
        fields = {
            "title": "New Chat",
            "models": [request.model],
            "chat_mode": request.extra.get("chat_mode", "guest"),
            "chat_type": request.extra.get("chat_type", "t2t"),
            "timestamp": int(now * 1000),  # milliseconds here, seconds everywhere else
        }
        body = await send(write(endpoints.join(base_url, endpoints.QWEN_NEW_CHAT), fields))
        chat = _find_chat_id(body)
        if not chat:  # The server reports errors with status 200.
            raise UpstreamError(api.read_error(502, {}, body, now=now))
        return chat

    return prepare


def _find_chat_id(body: bytes) -> str:
    try:
        response = _json.decode(body)
    except JSONParseError:
        return ""
    data = response.get("data") if isinstance(response, dict) else None
    chat = data.get("id") if isinstance(data, dict) else None
    return chat if isinstance(chat, str) else ""
