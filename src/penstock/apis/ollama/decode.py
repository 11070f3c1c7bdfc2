"""Lines of Ollama's chat (and of its older `generate`) to events.

A call comes whole, often without an id; the last line says ``done``, why, and the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock import ndjson
from penstock.apis.arguments import object_text
from penstock.apis.decoding import StreamDecoder
from penstock.apis.ollama import tables
from penstock.apis.speech import Speech
from penstock.messages import AssistantMessage, ErrorInfo


class Decoder(StreamDecoder):
    """Bytes of an Ollama stream in, events out."""

    def __init__(self, *, ids: Callable[[], str] | None = None) -> None:
        super().__init__(ndjson.Decoder(), ids=ids)
        self._speech = Speech(self._transcript)

    def _read(self, data: dict[str, Any], event: str) -> None:
        del event  # Lines have no names.
        error = tables.find_error(data)
        if error is not None:
            self._transcript.fail(error)
            return
        model = data.get("model")
        self._transcript.begin(model=model if isinstance(model, str) else "")
        message = data.get("message")
        if isinstance(message, Mapping):
            self._read_message(message)
        else:
            self._speech.think(data.get("thinking"))
            self._speech.say(data.get("response"))
        if data.get("done") is True:
            self._conclude(data)

    def _read_message(self, message: Mapping[str, Any]) -> None:
        self._speech.think(message.get("thinking"))
        self._speech.say(message.get("content"))
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, Mapping) and isinstance(call.get("function"), Mapping):
                self._read_call(call, call["function"])

    def _read_call(self, call: Mapping[str, Any], function: Mapping[str, Any]) -> None:
        self._speech.close()
        name, id_ = function.get("name"), call.get("id")
        arguments = function.get("arguments")
        begun = self._transcript.call(
            name if isinstance(name, str) else "", id_ if isinstance(id_, str) else ""
        )
        if isinstance(arguments, str):
            begun.add(arguments)
        elif arguments is not None:
            begun.add(object_text(arguments))
        begun.close()

    def _conclude(self, data: Mapping[str, Any]) -> None:
        transcript = self._transcript
        transcript.usage = tables.read_usage(data)
        reason = data.get("done_reason")
        reason = reason if isinstance(reason, str) else ""
        word = reason.lower()
        if word in tables.LENGTH:
            transcript.done("length", reason)
        elif word in tables.FILTER:
            message = f"the provider ended the answer: {reason}"
            transcript.fail(ErrorInfo(message, "filter", reason), reason)
        else:  # Unknown words are new words for an end, since it says `done`.
            transcript.done("stop", reason)

    def _read_whole(self, data: dict[str, Any]) -> AssistantMessage | ErrorInfo | None:
        del data  # Every body is made of lines, so this one was read as such.
        return None
