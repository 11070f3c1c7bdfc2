"""A model that only writes: text in, text out, one token at a time.

It knows nothing of tools. What it is to be held to, a grammar, comes with the fields of the request
that are meant for llama.cpp alone.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any, Final

from penstock.apis.fields import names_of_own, only_set
from penstock.events import Done, Event, MessageStart, TextDelta, TextEnd, TextStart
from penstock.messages import AssistantMessage, Text
from penstock.models.local.engine import Engine, Piece
from penstock.models.local.line import Line, Turn
from penstock.models.local.template import write_prompt
from penstock.request import Image, Request, ResponseFormat, UserMessage
from penstock.streams import EventStream

API: Final = "llama-cpp"
"""Whose fields `Request.extra` may hold: they go to the engine as they are."""

MAX_TOKENS: Final = 512
"""How long an answer may be where the request does not say: a small model may find no end."""

TEMPERATURE: Final = 0.2
TOP_P: Final = 0.9
"""How the model's makers run it: it is small, and strays where it is let."""

_SAME: Final = ("top_k", "seed", "presence_penalty", "frequency_penalty")
"""What engine and request call by one name."""

_LEFT_OUT: Final = ("n", "reasoning", "metadata", "user", "session", "headers")


class Writer:
    """Writes with *engine*, whose model is called *name*."""

    api = API

    def __init__(self, engine: Engine, name: str) -> None:
        self._line = Line(engine)
        self._name = name

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._name

    def stream(self, request: Request) -> EventStream:
        """Begin to answer *request*; every token is an event of its own."""
        return EventStream(self._write(request), interval=0)

    async def complete(self, request: Request) -> AssistantMessage:
        """Give the whole answer; one that failed has `error` set."""
        return await self.stream(request).result()

    async def close(self) -> None:
        """Stop what is being written and unload the model; nothing can be asked any more."""
        await asyncio.to_thread(self._line.close)

    async def _write(self, request: Request) -> AsyncIterator[Event]:
        """Give the answer as one block of text; without an end where the engine gave none."""
        message = AssistantMessage(f"msg_{secrets.token_hex(12)}", self._name)
        said: list[str] = []
        turn = Turn(fields_of(request))
        self._line.join(turn)
        try:
            yield MessageStart(message.id, message.model)
            yield TextStart(0)
            async for piece in turn:
                if piece.text:
                    said.append(piece.text)
                    yield TextDelta(0, piece.text, piece.text)
                if piece.finish:
                    yield TextEnd(0, "".join(said))
                    yield _end(message, "".join(said), piece)
        finally:
            self._line.leave(turn)


def _end(message: AssistantMessage, text: str, last: Piece) -> Done:
    message.content = [Text(text)]
    message.raw_stop_reason = last.finish
    message.usage = last.usage or message.usage
    return Done("length" if last.finish == "length" else "stop", message)


def fields_of(request: Request) -> dict[str, Any]:
    """Say *request* in the fields of llama.cpp's completions."""
    own = request.extra if request.source in ("", API) else {}
    fields = {
        "prompt": write_prompt(request),
        "max_tokens": MAX_TOKENS if request.max_tokens is None else request.max_tokens,
        "temperature": TEMPERATURE if request.temperature is None else request.temperature,
        "top_p": TOP_P if request.top_p is None else request.top_p,
        "stop": [stop for stop in request.stop if stop] or None,
        **{name: getattr(request, name) for name in _SAME},
    }
    if "grammar" not in own:  # A call that is demanded goes before JSON that is.
        fields["json_schema"] = _schema(request.response_format)
    return {**own, **only_set(fields)}


def left_out(request: Request) -> list[str]:
    """Name what of *request* the model takes no notice of; pictures count as ``images``."""
    missing = [name for name in _LEFT_OUT if getattr(request, name)]
    said = (message.content for message in request.messages if isinstance(message, UserMessage))
    if any(isinstance(block, Image) for content in said for block in content):
        missing.append("images")
    if request.source not in ("", API):
        missing += names_of_own(request)
    return missing


def _schema(wanted: ResponseFormat | None) -> dict[str, Any] | None:
    if wanted is None or wanted.kind == "text":
        return None
    return wanted.schema if wanted.kind == "schema" else {"type": "object"}
