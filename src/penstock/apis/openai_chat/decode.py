"""Chat completion chunks to events.

The first choice alone counts. Calls are told apart by their `index`, whatever else repeats, comes
late or is missing; a call ends when its arguments are whole and the next begins, or with the
answer. The terminal event waits for ``[DONE]`` or the end of the bytes, since the usage comes after
the finish.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.apis.decoder import StreamDecoder
from penstock.apis.encoder import object_text
from penstock.apis.fields import index_of
from penstock.apis.openai_chat import tables
from penstock.apis.openai_chat.response import read_response
from penstock.apis.transcript import CallBlock, ImplicitBlock
from penstock.messages import AssistantMessage, ErrorInfo

REASONING: Final = ("reasoning_content", "reasoning", "reasoning_text")
"""Where servers put reasoning; the first that is not empty counts."""

_LEGACY: Final = -1  # the key of the one call that `function_call` can say
_PAST: Final = -2  # from here down are keys of calls whose index another one took


class Decoder(StreamDecoder):
    """Bytes of a chat completion stream in, events out."""

    _finish = ""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._speech = ImplicitBlock(self._transcript)
        self._calls: dict[int, CallBlock] = {}
        self._by_id: dict[str, CallBlock] = {}
        self._keys: dict[str, int] = {}  # of calls, by id
        self._signatures: dict[str, str] = {}  # of calls that are yet to come, by id
        self._refusal = ""
        self._annotations: list[Any] = []

    @property
    def _has_said_all(self) -> bool:
        return bool(self._finish)

    def _read(self, data: dict[str, Any], event: str) -> None:
        del event  # The API names no frames.
        error = tables.find_error(data)
        if error is not None:
            self._transcript.fail(error, self._finish)
            return
        id_, model = data.get("id"), data.get("model")
        self._transcript.begin(
            id_ if isinstance(id_, str) else "", model if isinstance(model, str) else ""
        )
        self._read_usage(data)
        choices = data.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, Mapping) and not index_of(choice):
                self._read_choice(choice)

    def _read_usage(self, data: Mapping[str, Any]) -> None:
        if isinstance(data.get("usage"), Mapping):
            self._transcript.usage = tables.read_usage(data["usage"])

    def _read_choice(self, choice: Mapping[str, Any]) -> None:
        self._read_usage(choice)  # Some servers put it here.
        delta, finish = choice.get("delta") or choice.get("message"), choice.get("finish_reason")
        finish = finish if isinstance(finish, str) else ""
        if isinstance(delta, Mapping):
            self._read_delta(self._without_reason(delta, finish))
        if choice.get("error"):
            self._transcript.fail(tables.read_error(choice["error"]), self._finish or finish)
        if finish:
            self._finish = self._finish or finish
            for call in self._calls.values():
                call.close()

    def _without_reason(self, delta: Mapping[str, Any], finish: str) -> Mapping[str, Any]:
        """Keep a refusal that comes with the end of the answer: it is the reason, and no text."""
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal and finish.lower() in tables.FILTER:
            self._refusal = refusal
            return {**delta, "refusal": None}
        return delta

    def _read_delta(self, delta: Mapping[str, Any]) -> None:
        details = _objects(delta, "reasoning_details")
        thoughts = next((delta[key] for key in REASONING if delta.get(key)), None)
        self._speech.think(thoughts)
        self._read_thoughts(details, are_new=thoughts is None)
        self._read_content(delta.get("content"))
        self._speech.say(delta.get("refusal"))
        for position, call in enumerate(_objects(delta, "tool_calls")):
            self._read_call(call, position)
        if isinstance(delta.get("function_call"), Mapping):
            self._read_function(self._call(_LEGACY), delta["function_call"])
        self._sign_calls(details)
        if isinstance(delta.get("annotations"), list):
            self._annotations += delta["annotations"]

    # --- text and thinking ---

    def _read_content(self, content: object) -> None:
        if not isinstance(content, list):
            self._speech.say(content)
            return
        for part in content:
            if isinstance(part, Mapping):
                self._read_part(part)

    def _read_part(self, part: Mapping[str, Any]) -> None:
        """Read content that comes in parts, as Mistral's does."""
        if part.get("type") == "thinking":
            thoughts = part.get("thinking")
            for thought in thoughts if isinstance(thoughts, list) else [{"text": thoughts}]:
                if isinstance(thought, Mapping):
                    self._speech.think(thought.get("text"))
        else:
            self._speech.say(part.get("text"))

    def _read_thoughts(self, details: list[Mapping[str, Any]], *, are_new: bool) -> None:
        """Read OpenRouter's details: reasoning that stand nowhere else, and their signatures."""
        for detail in details:
            if are_new:
                self._speech.think(detail.get("text"))
                self._speech.think(detail.get("summary"))
            self._speech.sign(detail.get("signature"), is_text=False)

    def _sign_calls(self, details: list[Mapping[str, Any]]) -> None:
        """Read what OpenRouter has sealed for a call, which its id names: it may come first."""
        for detail in details:
            id_, data = detail.get("id"), detail.get("data")
            if not isinstance(id_, str) or not isinstance(data, str):
                continue
            call = self._by_id.get(id_)
            if call is None:
                self._signatures[id_] = data
            else:
                call.sign(data)

    # --- calls ---

    def _read_call(self, data: Mapping[str, Any], position: int) -> None:
        id_ = data.get("id")
        id_ = id_ if isinstance(id_, str) else ""
        key = self._key_of(data, id_, position)
        if self._is_another(key, id_, data):
            before = self._calls.pop(key)
            self._keys[before.wanted_id] = past = _PAST - len(self._calls)
            self._calls[past] = before
        call = self._call(key, id_)
        if id_:
            self._by_id.setdefault(id_, call)
            self._keys.setdefault(id_, key)
        signature = _google_signature(data) or self._signatures.pop(id_, "")
        if signature:
            call.sign(signature)
        function = data.get("function")
        if isinstance(function, Mapping):
            if _is_growth(data, function):
                call.grow(function["arguments"])
            elif not _repeats(call, id_, function):
                self._read_function(call, function)
        elif isinstance(data.get("custom"), Mapping):
            self._read_custom(call, data["custom"])

    def _key_of(self, data: Mapping[str, Any], id_: str, position: int) -> int:
        """Return calls apart by index; without one by id, and without that by their order."""
        index = index_of(data)
        if index is not None:
            return index
        key = self._keys.get(id_)
        if key is not None and self._calls.get(key) is self._by_id.get(id_):
            return key
        has_name = isinstance(data.get("function"), Mapping) and data["function"].get("name")
        if id_ or has_name:
            return max(self._calls, default=-1) + 1
        return max(self._calls, default=position)

    def _is_another(self, key: int, id_: str, data: Mapping[str, Any]) -> bool:
        """Return a new call from more of the one at *key*: Ollama gives all of them the index 0."""
        before, function = self._calls.get(key), data.get("function")
        if before is None or not isinstance(function, Mapping) or not function.get("name"):
            return False
        if id_:
            return before.wanted_id not in ("", id_) and before.is_named
        return bool(function.get("arguments")) and before.is_whole

    def _call(self, key: int, id_: str = "") -> CallBlock:
        call = self._calls.get(key)
        if call is None:
            self._speech.close()
            self._close_whole_calls()
            call = self._calls[key] = self._transcript.call(id=id_)
        elif id_:
            call.add_id(id_)
        return call

    def _close_whole_calls(self) -> None:
        """End the call before, if its arguments are whole: the next one has begun."""
        if self._calls:
            last = next(reversed(self._calls.values()))
            if last.is_open and last.is_whole:
                last.close()

    def _read_function(self, call: CallBlock, function: Mapping[str, Any]) -> None:
        name, arguments = function.get("name"), function.get("arguments")
        if isinstance(name, str):
            call.add_name(name)
        if isinstance(arguments, str):
            call.add(arguments)
        elif isinstance(arguments, dict):
            call.add(object_text(arguments))

    def _read_custom(self, call: CallBlock, custom: Mapping[str, Any]) -> None:
        """Read a call of a tool that takes free text: to us, an object with the text in it."""
        name, text = custom.get("name"), custom.get("input")
        if isinstance(name, str):
            call.add_name(name)
        if isinstance(text, str):
            call.add_free_text(text)

    # --- ends ---

    def _read_done(self) -> None:
        self._conclude(self._finish)

    def _read_end(self) -> None:
        if self._finish:
            self._conclude(self._finish)
        else:
            self.fail_truncated()

    def _conclude(self, finish: str) -> None:
        transcript = self._transcript
        self._speech.close()
        if self._annotations:
            transcript.part(tables.NAME, {"annotations": self._annotations})
        word = finish.lower()
        if not word or word in tables.STOP or word in tables.TOOL_USE:
            transcript.done("stop", finish)
        elif word in tables.LENGTH:
            transcript.done("length", finish)
        elif self._refusal:
            transcript.fail(ErrorInfo(self._refusal, "refusal", finish), finish)
        elif word in tables.FILTER:
            error = ErrorInfo(f"the provider ended the answer: {finish}", "filter", finish)
            transcript.fail(error, finish)
        else:
            message = f"the provider ended the answer with finish_reason {finish}"
            error = ErrorInfo(message, "provider", finish, retryable=word in tables.FAILURES)
            transcript.fail(error, finish)

    def _read_whole(self, data: dict[str, Any]) -> AssistantMessage | ErrorInfo | None:
        error = tables.find_error(data)
        if error is not None:
            return error
        return read_response(data) if isinstance(data.get("choices"), list) else None


def _is_growth(data: Mapping[str, Any], function: Mapping[str, Any]) -> bool:
    """Return a piece of the arguments of the call at an index, with nothing else in it."""
    is_bare = len(function) == 1 and not data.get("id") and index_of(data) is not None
    return is_bare and isinstance(function.get("arguments"), str)


def _repeats(call: CallBlock, id_: str, function: Mapping[str, Any]) -> bool:
    """Return a call that is said once more, whole: some servers end with all they have said."""
    arguments = function.get("arguments")
    if not id_ or id_ != call.wanted_id or not function.get("name") or not call.is_named:
        return False
    if not isinstance(arguments, str) or not arguments.lstrip().startswith("{"):
        return False
    return call.is_whole and arguments == call.arguments


def _objects(data: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = data.get(key)
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def _google_signature(call: Mapping[str, Any]) -> str:
    """Return the thought signature that Gemini's own chat endpoint puts beside a call."""
    found: object = call
    for key in ("extra_content", "google", "thought_signature"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else ""
