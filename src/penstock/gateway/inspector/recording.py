"""A stream out of a file, as the log would have it: so that the same page shows it.

What a file holds is found out by reading it: each API's decoder takes its beginning, and whoever
hears most has it. Where nobody hears anything the file is what a model wrote, as text. A file says
nothing about time: its pieces have their order, and no more.
"""

from __future__ import annotations

import re
import zlib
from array import array
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from penstock import _json, apis
from penstock.errors import UsageError
from penstock.events import Event, Failed
from penstock.formats import EventParser
from penstock.gateway.config.routes import ModelOptions
from penstock.gateway.inspector.playing import Play, answer_of, played
from penstock.gateway.inspector.recorded import UNTIMED, said_by
from penstock.gateway.replaying import folded
from penstock.gateway.request_log import MAX_KEPT
from penstock.messages import AssistantMessage
from penstock.store import MAX_TEXT, RequestEnded, RequestStarted
from penstock.tools import Tool

TEXT: Final = "text"
"""In place of an API: the bytes are the model's text."""

MAX_WRITTEN: Final = 1_000_000
"""How many bytes of a model's own text are shown: a file is read once, and by whoever has it."""

MAX_HEARD: Final = 65_536
"""How many bytes of a file are read to tell its API."""

_QWEN: Final = "qwen"
_QWEN_WORDS: Final = (b'"phase"', b'"response.created"')
_WITH_EVENTS: Final = ("anthropic", "openai-responses")  # whose frames have names
_CLIENT: Final = "openai-chat"
_FRAME: Final = re.compile(rb".*?(?:\r?\n\r?\n|\Z)", re.DOTALL)
_LINE: Final = re.compile(rb"[^\n]*\n?")
_WORD: Final = re.compile(rb"\s*\S+|\s+")


class Recording(Struct, frozen=True):
    """What a file holds: its bytes, the API that they are of, and how they are to be read."""

    data: bytes
    api: str
    options: ModelOptions
    tools: Sequence[Tool] = ()
    name: str = ""

    def records(self, id_: str, created: float) -> tuple[RequestStarted, RequestEnded]:
        """Give the records that the log would have; raise `UsageError` for what cannot be read."""
        complaints: list[str] = []
        events = self._events(complaints)
        message = folded(events)
        started = self._started(id_, created, message)
        return started, self._ended(id_, events, message, complaints)

    def _started(self, id_: str, created: float, message: AssistantMessage) -> RequestStarted:
        model = message.model or self.name
        tools = [{"type": "function", "function": msgspec.to_builtins(tool)} for tool in self.tools]
        return RequestStarted(
            id=id_,
            created=created,
            client_api=_CLIENT,
            path="/v1/chat/completions",
            model=model,
            upstream=self.name,
            upstream_api=self.api,
            upstream_model=model,
            format=self.options.format,
            mode=self.options.mode,
            stream=True,
            request=_json.encode_wire({"model": model, "messages": [], "tools": tools}),
        )

    def _ended(
        self, id_: str, events: list[Event], message: AssistantMessage, complaints: list[str]
    ) -> RequestEnded:
        error, calls = message.error, message.tool_calls
        pieces = self._pieces()
        return RequestEnded(
            id=id_,
            state="done" if error is None else "failed",
            finish=message.stop_reason or "",
            error_kind="" if error is None else error.kind,
            error_message="" if error is None else error.message,
            input_tokens=message.usage.input,
            output_tokens=message.usage.output,
            chunks=len(pieces),
            calls=len(calls),
            repairs=[repair for call in calls for repair in call.repairs],
            text=message.text[:MAX_TEXT],
            raw=[zlib.compress(self.data)],
            timeline=_timeline(pieces),
            events=[zlib.compress(b"".join(_json.encode(event) + b"\n" for event in events))],
            notes=self._notes(complaints),
        )

    def _notes(self, complaints: list[str]) -> dict[str, Any]:
        notes = {"options": msgspec.to_builtins(self.options), UNTIMED: True}
        return {**notes, "complaints": complaints} if complaints else notes

    def _pieces(self) -> list[bytes]:
        """Cut the bytes as they may have come: frame by frame, line by line, word by word."""
        cut = _WORD if self.api == TEXT else _FRAME if b"data:" in self.data[:4096] else _LINE
        return [piece for piece in cut.findall(self.data) if piece]

    def _events(self, complaints: list[str]) -> list[Event]:
        options = self.options
        if self.api == TEXT:
            play = Play.of(self.data.decode("utf-8", "replace"), options)
            once = played(play, self.tools, [play.text])
            complaints += once.whys
            return answer_of(once, self.name)
        parser = EventParser(
            options.format,
            self.tools,
            arguments=options.arguments,
            reasoning=options.reasoning,
            repair=options.repair,
            trim=options.trim,
            fenced=options.fenced,
            on_error=lambda why, _: complaints.append(why),
        )
        decoder = apis.get(self.api).decoder()
        decoded = [event for piece in self._pieces() for event in decoder.feed(piece)]
        return [out for event in [*decoded, *decoder.finish()] for out in parser.add(event)]


def recording_of(
    data: bytes, options: ModelOptions, tools: Sequence[Tool] = (), *, name: str = "", api: str = ""
) -> Recording:
    """Make a recording of *data*; without *api* it is found out.

    Raises `UsageError` for a file that is empty or too long.
    """
    found = api or api_of(data)
    limit = MAX_WRITTEN if found == TEXT else MAX_KEPT
    if not data.strip():
        raise UsageError("there is nothing in it")
    if len(data) > limit:
        raise UsageError(f"it has {len(data):,} bytes, and {limit:,} are shown at most")
    return Recording(data, found, options, tools, name)


def api_of(data: bytes) -> str:
    """Give the API whose stream *data* is, or `TEXT`."""
    for head in dict.fromkeys((data[:MAX_HEARD], data)):  # A first line may be a long one.
        is_qwen = any(word in head for word in _QWEN_WORDS)  # which else is the chat of others
        heard = {name: _heard(name, head) for name in apis.names() if is_qwen or name != _QWEN}
        best = max(heard, key=lambda name: (heard[name], name == _QWEN))
        if heard[best]:
            return best
    return _api_of_error(data[:MAX_HEARD])


def _api_of_error(data: bytes) -> str:
    """Give the API whose frames tell of an error and nothing else; `TEXT` where none does."""
    if b"data:" not in data:
        return TEXT
    names = _WITH_EVENTS if b"event:" in data else [one for one in apis.names() if one != _QWEN]
    told = {name: _error_told(name, data) for name in names}
    best = max(told, key=lambda name: told[name])  # Of several, the first.
    return best if told[best] else TEXT


def _error_told(name: str, data: bytes) -> int:
    """Tell how much of an error the decoder of an API reads in *data*: nothing, some, its type."""
    decoder = apis.get(name).decoder()
    ends = [one for one in [*decoder.feed(data), *decoder.finish()] if isinstance(one, Failed)]
    errors = [end.error for end in ends if end.error.kind == "provider"]
    return max((1 + (error.type not in ("", "error")) for error in errors), default=0)


def _heard(name: str, data: bytes) -> int:
    """Count the characters that the decoder of an API hears in *data*."""
    decoder = apis.get(name).decoder()
    return sum(len(said_by(event)) for event in [*decoder.feed(data), *decoder.finish()])


def _timeline(pieces: list[bytes]) -> bytes:
    """Give each piece a number, in place of its time."""
    numbers = array("I")
    for number, piece in enumerate(pieces):
        numbers.extend((number, len(piece)))
    return numbers.tobytes()
