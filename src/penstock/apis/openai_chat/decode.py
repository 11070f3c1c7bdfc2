"""Decode a stream of chat completion chunks.

Only the first choice is read. Calls are distinguished by their `index`, whatever else is repeated,
late or missing. A call ends when its arguments are whole and the next call starts, or with the
response. The terminal event waits for ``[DONE]`` or the end of the bytes, since the usage comes
after the finish reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.apis.decoder import StreamDecoder
from penstock.apis.fields import has_content, index_at, object_at, objects_at, string_at
from penstock.apis.openai_chat import tables
from penstock.apis.transcript import CallBlock, ImplicitBlock
from penstock.messages import AssistantMessage, ErrorInfo

REASONING: Final = ("reasoning_content", "reasoning", "reasoning_text")
"""Where servers put reasoning; the first that is not empty counts.

`reasoning_content` is DeepSeek's, llama.cpp's, vLLM's and Qwen's, `reasoning` is OpenRouter's,
Ollama's and newer vLLM's, `reasoning_text` is Copilot's.
"""

# Fields of a delta with content that no other API can express: OpenRouter's and OpenAI's.
_MEDIA: Final = ("images", "audio")

_LEGACY: Final = -1  # the key of the one call of the older `function_call`
_PAST: Final = -2  # keys from here down are of calls whose index another call reuses


class Decoder(StreamDecoder):
    """Bytes of a chat completion stream in, events out."""

    _finish = ""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._block = ImplicitBlock(self._transcript)
        self._calls: dict[int, CallBlock] = {}
        self._by_id: dict[str, CallBlock] = {}
        self._keys: dict[str, int] = {}  # of calls, by id
        self._signatures: dict[str, str] = {}  # of calls that have not started, by id
        self._refusal = ""
        self._annotations: list[Any] = []

    @property
    def _is_complete(self) -> bool:
        return bool(self._finish)

    def _read(self, data: dict[str, Any], event: str) -> None:
        del event  # The API has no event names.
        error = tables.find_error(data)
        if error is not None:
            self._transcript.fail(error, self._finish)
            return
        self._transcript.begin(string_at(data, "id"), string_at(data, "model"))
        # With `stream_options.include_usage` the counts come in a last chunk whose `choices` are
        # empty; some servers put them on the chunk with the finish reason, or into the choice.
        self._read_usage(data)
        # The first choice is found by its `index`, not by its position in the list.
        for choice in self._transcript.read_objects(data, "choices"):
            if not index_at(choice):
                self._read_choice(choice)

    def _read_usage(self, data: Mapping[str, Any]) -> None:
        if isinstance(data.get("usage"), Mapping):
            self._transcript.usage = tables.read_usage(data["usage"])

    def _read_choice(self, choice: Mapping[str, Any]) -> None:
        self._read_usage(choice)  # Some servers put the usage into the choice.
        # Some servers ignore `stream` and send a whole message in one chunk; others send text as in
        # the older completions.
        delta = next((choice[key] for key in ("delta", "message") if choice.get(key)), None)
        finish = string_at(choice, "finish_reason")
        if isinstance(delta, Mapping):
            self._read_delta(self._without_reason(delta, finish))
        elif has_content(delta):
            self._transcript.lose("delta", delta)
        else:
            self._block.add_text(choice.get("text"), "text")
        if choice.get("error"):
            self._transcript.fail(tables.read_error(choice["error"]), self._finish or finish)
        if finish:
            self._finish = self._finish or finish
            # After the finish reason only the usage may come, so every call has all of its
            # arguments.
            for call in self._calls.values():
                call.close()

    def _without_reason(self, delta: Mapping[str, Any], finish: str) -> Mapping[str, Any]:
        """Keep a refusal that arrives with the finish reason: it is the error, not text."""
        refusal = string_at(delta, "refusal")
        if not refusal or finish.lower() not in tables.FILTER:
            return delta
        self._refusal = refusal
        return {**delta, "refusal": None}

    def _read_delta(self, delta: Mapping[str, Any]) -> None:
        details = objects_at(delta, "reasoning_details")
        reasoning = next((delta[key] for key in REASONING if delta.get(key)), None)
        self._block.add_reasoning(reasoning)
        for detail in details:  # OpenRouter's: signatures, and reasoning that is nowhere else
            if reasoning is None:
                self._block.add_reasoning(detail.get("text"))
                self._block.add_reasoning(detail.get("summary"))
            self._block.sign(detail.get("signature"), is_text=False)
        self._read_content(delta.get("content"))
        self._block.add_text(delta.get("refusal"), "refusal")
        seen: set[str] = set()  # the ids of this list
        for position, call in enumerate(self._transcript.read_objects(delta, "tool_calls")):
            id_ = string_at(call, "id")
            self._read_call(call, id_, position, is_new=id_ in seen)
            seen.add(id_)
        # `function_call` is the interface from before November 2023, which some servers still send.
        # It has one call and no id.
        if function := self._transcript.read_object(delta, "function_call"):
            self._read_function(self._call(_LEGACY), function)
        self._sign_calls(details)
        if isinstance(delta.get("annotations"), list):
            self._annotations += delta["annotations"]
        self._transcript.skipped += sum(has_content(delta.get(key)) for key in _MEDIA)

    # --- text and reasoning ---

    def _read_content(self, content: object) -> None:
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, Mapping):
                self._read_part(part)
            else:
                self._block.add_text(part)

    def _read_part(self, part: Mapping[str, Any]) -> None:
        """Read a part of content, as Mistral's servers send it."""
        if part.get("type") == "thinking":
            inner = part.get("thinking")
            for each in inner if isinstance(inner, list) else [{"text": inner}]:
                if isinstance(each, Mapping):
                    self._block.add_reasoning(each.get("text"))
        elif "text" in part:
            self._block.add_text(part["text"], "text")
        else:  # Mistral's references, images
            self._transcript.skipped += has_content(part)

    def _sign_calls(self, details: list[Mapping[str, Any]]) -> None:
        """Read OpenRouter's encrypted reasoning of a call, by id; it may precede the call."""
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

    def _read_call(self, data: Mapping[str, Any], id_: str, position: int, *, is_new: bool) -> None:
        function = data.get("function")
        if is_new and isinstance(function, Mapping) and self._begins_another(data, id_, function):
            key = max(self._calls, default=-1) + 1  # a proxy gave several calls the same id
        else:
            key = self._find_key(data, id_, position)
        if self._is_another(key, id_, data):
            before = self._calls.pop(key)
            self._keys[before.wanted_id] = past = _PAST - len(self._calls)
            self._calls[past] = before
        call = self._call(key, id_)
        if id_:
            self._by_id.setdefault(id_, call)
            self._keys.setdefault(id_, key)
        # OpenRouter's `reasoning_details` of type reasoning.encrypted may precede their call.
        signature = _google_signature(data) or self._signatures.pop(id_, "")
        if signature:
            call.sign(signature)
        if isinstance(function, Mapping):
            if _is_growth(data, function):
                call.grow(function["arguments"])
            elif not _repeats(call, id_, function):
                self._read_function(call, function)
        elif isinstance(data.get("custom"), Mapping):
            self._read_custom(call, data["custom"])
        else:
            self._transcript.lose("tool_calls", function)

    # OpenAI numbers calls by `index` and sends the id once. Gemini's OpenAI endpoint has omitted
    # the index; then an id that was seen before continues its call, and a new id or a name begins
    # another.
    def _find_key(self, data: Mapping[str, Any], id_: str, position: int) -> int:
        """Return the key of a call: its index, or else by its id, or else by its position."""
        index = index_at(data)
        if index is not None:
            return index
        key = self._keys.get(id_)
        if key is not None and self._calls.get(key) is self._by_id.get(id_):
            return key
        has_name = isinstance(data.get("function"), Mapping) and data["function"].get("name")
        if id_ or has_name:
            return max(self._calls, default=-1) + 1
        return max(self._calls, default=position)

    def _begins_another(
        self, data: Mapping[str, Any], id_: str, function: Mapping[str, Any]
    ) -> bool:
        """Return whether *function* is a call of its own after a whole one with the same id."""
        before, index = self._by_id.get(id_), index_at(data)
        if before is None or not before.is_whole or not function.get("name"):
            return False
        if index is not None and index not in self._calls:
            return False  # its index says so
        return not _repeats(before, id_, function)

    def _is_another(self, key: int, id_: str, data: Mapping[str, Any]) -> bool:
        """Return whether a call replaces the one at *key*: Ollama sends all calls with index 0."""
        before, function = self._calls.get(key), data.get("function")
        if before is None or not isinstance(function, Mapping) or not function.get("name"):
            return False
        if id_:
            return before.wanted_id not in ("", id_) and before.is_named
        return bool(function.get("arguments")) and before.is_whole

    def _call(self, key: int, id_: str = "") -> CallBlock:
        call = self._calls.get(key)
        if call is None:
            self._block.close()
            self._close_whole_calls()
            call = self._calls[key] = self._transcript.call(id=id_)
        elif id_:
            call.add_id(id_)
        return call

    def _close_whole_calls(self) -> None:
        """End the last call if its arguments are whole: the next one has started."""
        if self._calls:
            last = next(reversed(self._calls.values()))
            if last.is_open and last.is_whole:
                last.close()

    def _read_function(self, call: CallBlock, function: Mapping[str, Any]) -> None:
        # The name is in the first fragment, but may be repeated, late, or "" in later ones.
        if isinstance(function.get("name"), str):
            call.add_name(function["name"])
        # Some servers send an object where the API has JSON text, as Ollama's native API does.
        call.add_value(function.get("arguments"))

    def _read_custom(self, call: CallBlock, custom: Mapping[str, Any]) -> None:
        """Read a call of a free-text tool: its arguments are an object with the text."""
        name, text = custom.get("name"), custom.get("input")
        if isinstance(name, str):
            call.add_name(name)
        if isinstance(text, str):
            call.add_free_text(text)
        else:
            self._transcript.lose("input", text)

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
        self._block.close()
        if self._annotations:
            transcript.part(tables.NAME, {"annotations": self._annotations})
        # Servers send `STOP` and `MAX_TOKENS` in capitals, and ``stop`` for a response with calls:
        # the transcript decides about `tool_use`.
        word = finish.lower()
        # `[DONE]` without any finish reason is accepted as a normal end: several servers send it
        # so.
        if not word or word in tables.STOP or word in tables.TOOL_USE:
            transcript.done("stop", finish)
        elif word in tables.LENGTH:
            transcript.done("length", finish)
        elif self._refusal:
            transcript.fail(ErrorInfo(self._refusal, "refusal", finish), finish)
        elif word in tables.FILTER:
            error = ErrorInfo(f"the provider ended the response: {finish}", "filter", finish)
            transcript.fail(error, finish)
        else:
            message = f"the provider ended the response with finish_reason {finish}"
            error = ErrorInfo(message, "provider", finish, retryable=word in tables.FAILURES)
            transcript.fail(error, finish)

    def _read_whole(self, data: dict[str, Any]) -> AssistantMessage | ErrorInfo | None:
        error = tables.find_error(data)
        if error is not None:
            return error
        return read_response(data) if isinstance(data.get("choices"), list) else None


def _is_growth(data: Mapping[str, Any], function: Mapping[str, Any]) -> bool:
    """Return whether *data* has a piece of the arguments of the call at an index and no more."""
    is_bare = len(function) == 1 and not data.get("id") and index_at(data) is not None
    return is_bare and isinstance(function.get("arguments"), str)


def _repeats(call: CallBlock, id_: str, function: Mapping[str, Any]) -> bool:
    """Return whether a whole call is repeated: some servers send everything again at the end."""
    arguments = function.get("arguments")
    if not id_ or id_ != call.wanted_id or not function.get("name") or not call.is_named:
        return False
    if not isinstance(arguments, str) or not arguments.lstrip().startswith("{"):
        return False
    return call.is_whole and arguments == call.arguments


def _google_signature(call: Mapping[str, Any]) -> str:
    """Return the thought signature that Gemini's OpenAI endpoint adds to a call."""
    google = object_at(object_at(call, "extra_content"), "google")
    return string_at(google, "thought_signature")


def read_response(data: Mapping[str, Any]) -> AssistantMessage:
    """Read a whole response by the rules of the stream, as one chunk."""
    return Decoder().read_whole(data)
