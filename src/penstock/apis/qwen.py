"""The web API of chat.qwen.ai: a chat with phases, whose history is kept by the server.

A request contains one user message and the id of the response before it. So only what came after
that response is sent; for a chat that the server does not know (no `parent_id`), the whole
conversation is sent as one text. The API has no tool calls: a caller that uses tools renders them
into the text before. `chat_id`, `parent_id`, `fid`, `timestamp` and the like belong to the session
and are in `Request.extra`.

The chunks of a stream look like chat completions with a phase: reasoning, the answer, or something
else. The end is a chunk of the answer's phase whose status is ``finished``, or ``[DONE]``; either
alone is a normal end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock import _json
from penstock._json import without_lone_surrogates
from penstock.apis import Api
from penstock.apis.encoder import (
    BlockEvent,
    BlockSequencer,
    Ending,
    GuardedArguments,
    IdMaker,
    StreamEncoder,
    find_whole_ending,
    with_writable_calls,
)
from penstock.apis.errors import error_info, find_message, read_body, retry_after
from penstock.apis.fields import (
    clean,
    count_at,
    effort_for,
    integer_at,
    object_at,
    short_repr,
    string_at,
    string_list,
    text_at,
)
from penstock.apis.history import convert_content, find_lost_content, result_text
from penstock.apis.openai_chat import decode as chat
from penstock.apis.openai_chat.encode import refusal_field, write_message
from penstock.conformance.qwen import check
from penstock.errors import UsageError
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    Part,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import AssistantMessage, ErrorInfo, Text, ToolResult, Usage
from penstock.request import Message, ReasoningOptions, Request, SystemMessage, UserMessage

__all__ = ["API"]

NAME: Final = "qwen"

THINKING: Final = frozenset({"think", "thinking_summary"})
ASIDE: Final = frozenset({"web_search", "local_tool", "image_gen", "image_gen_tool"})
"""Phases of a response; any other is the answer."""

FINISH_REASONS: Final[dict[Ending, str]] = {
    "length": "length",
    "refusal": "content_filter",
    "filter": "content_filter",
}
"""Ends other than a normal one, as in chat completions: the web API has no values of its own."""

STATUSES: Final = {
    "ratelimited": 429,
    "rate_limited": 429,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "bad_request": 400,
}
"""Codes of errors that arrive with status 200, and the status that they mean."""

NO_OUTPUT: Final = "(Command completed successfully with no output)"
"""The text for a tool result without content."""

_CHALLENGE: Final = ("FAIL_SYS_USER_VALIDATE", "RGV587_ERROR")  # of the bot protection in front
_HOUR: Final = 3600.0
_TIMESTAMP: Final = "timestamp"
_SESSION: Final = ("chat_id", "parent_id", "fid", _TIMESTAMP, "chat_mode", "chat_type")
_UNSUPPORTED: Final = (
    "tool_choice", "parallel_tool_calls", "max_tokens", "temperature", "top_p", "top_k", "seed",
    "presence_penalty", "frequency_penalty", "n", "response_format",
)  # fmt: skip

_HEAD: Final = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":'
_ANSWER: Final = b',"phase":"answer","status":"typing"}}]}\n\n'
_REASONING: Final = b',"phase":"think","status":"typing"}}]}\n\n'
_REASONING_END: Final = _HEAD + b'"","phase":"think","status":"finished"}}]}\n\n'
_TYPING: Final = {"role": "assistant", "content": "", "phase": "answer", "status": "typing"}


# --- usage and errors ---


def read_usage(data: Mapping[str, Any]) -> Usage:
    """Read token counts; the input includes the cache."""
    given, output = count_at(data, "input_tokens"), count_at(data, "output_tokens")
    cached = count_at(data, "cached_tokens")
    details = object_at(data, "output_tokens_details")
    return Usage(
        input=max(0, given - cached),
        output=output,
        cache_read=cached,
        reasoning=count_at(details, "reasoning_tokens"),
        total=count_at(data, "total_tokens") or given + output,
        raw=dict(data),
    )


def write_usage(usage: Usage) -> dict[str, Any]:
    """Write token counts as the API counts them."""
    given = usage.input + usage.cache_read + usage.cache_write
    return {
        "input_tokens": given,
        "output_tokens": usage.output,
        "total_tokens": usage.total or given + usage.output,
        "cached_tokens": usage.cache_read,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def _find_error(data: Mapping[str, Any]) -> ErrorInfo | None:
    """Return the error in a body or a frame, in any of the shapes that come with status 200."""
    if data.get("error"):
        return _read_details(data["error"])
    # The format of Alibaba's gateway in front of the site, which also answers for its bot
    # protection.
    if isinstance(data.get("ret"), list) and "choices" not in data:
        words = string_list(data["ret"])
        is_challenge = any(word.startswith(_CHALLENGE) for word in words)
        type_ = words[0].partition("::")[0] if words else "ret"
        status = 403 if is_challenge else 502
        return error_info("; ".join(words) or "refused", type=type_, status=status)
    if data.get("success") is False:
        inner = data.get("data")
        return _read_details(inner if isinstance(inner, Mapping) else data)
    return None


def _read_details(error: Any) -> ErrorInfo:
    fields = error if isinstance(error, Mapping) else {}
    code = fields.get("code")
    word = code if isinstance(code, str) else ""
    status = code if isinstance(code, int) else STATUSES.get(word.lower())
    wait = count_at(fields, "num") * _HOUR  # how many hours a limit lasts
    return error_info(
        find_message(error, word or "no reason"),
        type=word,
        status=status,
        retry_after=wait or None if status == STATUSES["ratelimited"] else None,
    )


def _read_page(text: str, status: int | None = None) -> ErrorInfo:
    """Read a body that is not JSON; an HTML page is the challenge of the bot protection."""
    if text[:1] == "<":
        message = "the server requires a browser: it returned a page instead of a response"
        return error_info(message, type="challenge", status=status or 403)
    return error_info(text or "the server gave no reason", kind="malformed", status=status)


def read_error(
    status: int, headers: Mapping[str, str], body: bytes, *, now: float = 0.0
) -> ErrorInfo:
    """Read an error response."""
    data = read_body(body)
    found = _find_error(data) if isinstance(data, Mapping) else None
    wait = retry_after(headers, now)
    if found is None and isinstance(data, str):
        is_page = body.lstrip()[:1] == b"<"
        return _read_page("<" if is_page else data, status)
    if found is None:
        return error_info(find_message(data), status=status, retry_after=wait)
    return error_info(
        found.message,
        type=found.type,
        status=found.status or status,
        retry_after=wait or found.retry_after,
    )


def write_error(error: ErrorInfo) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of the response that reports *error*."""
    body = {"success": False, "request_id": "", "data": _write_details(error)}
    return error.status or 502, body


def _write_details(error: ErrorInfo) -> dict[str, Any]:
    return {"code": clean(error.type) or error.kind, "details": clean(error.message)}


# --- streams ---


class Decoder(chat.Decoder):
    """Bytes of a stream of chat.qwen.ai in, events out.

    `session` has the ids that the next request of the chat needs.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._summary: list[str] = []

    def _read(self, data: dict[str, Any], event: str) -> None:
        error = _find_error(data)
        if error is not None:
            self._transcript.fail(error)
            return
        created = data.get("response.created")
        own = self.session.get("response_id")
        if isinstance(created, Mapping):
            for key in ("chat_id", "parent_id", "response_id"):
                if isinstance(created.get(key), str):
                    self.session.setdefault(key, created[key])
            self._transcript.begin(self.session.get("response_id", ""))
        elif own is None or string_at(data, "response_id") in ("", own):
            # Frames of another response, which the server may interleave, are ignored.
            super()._read({"id": own or "", **data}, event)

    def _read_usage(self, data: Mapping[str, Any]) -> None:
        if isinstance(data.get("usage"), Mapping):
            self._transcript.usage = read_usage(data["usage"])

    def _read_delta(self, delta: Mapping[str, Any]) -> None:
        phase, content = text_at(delta, "phase"), delta.get("content")
        if phase in THINKING:
            self._block.add_reasoning(content)
            self._read_summary(delta)
        elif phase in ASIDE:
            if delta.get("status") != "finished" or delta.get("extra"):
                self._block.close()
                self._transcript.part(NAME, dict(delta))
        else:
            super()._read_delta(delta)
            if delta.get("status") == "finished":
                self._finish = self._finish or "finished"

    def _read_summary(self, delta: Mapping[str, Any]) -> None:
        """Read reasoning that arrives as a list of summaries, which grows from frame to frame."""
        thought = object_at(object_at(delta, "extra"), "summary_thought")
        found = thought.get("content")
        summary = string_list(found) if isinstance(found, list) else []
        if self._summary and len(self._summary) <= len(summary):
            before, now = self._summary[-1], summary[len(self._summary) - 1]
            if now.startswith(before):  # The last summary may grow.
                self._block.add_reasoning(now[len(before) :])
                self._summary[-1] = now
        for text in summary[len(self._summary) :]:
            self._block.add_reasoning(text if not self._summary else "\n\n" + text)
            self._summary.append(text)

    def _read_choice(self, choice: Mapping[str, Any]) -> None:
        super()._read_choice(choice)
        if self._finish == "finished":
            self._conclude("finished")

    def _conclude(self, finish: str) -> None:
        if finish == "finished":
            self._block.close()
            self._transcript.done("stop", finish)
        else:
            super()._conclude(finish)

    def _read_whole(self, data: dict[str, Any]) -> AssistantMessage | ErrorInfo | None:
        error = _find_error(data)
        if error is not None:
            return error
        return read_response(data) if isinstance(data.get("data"), Mapping) else None

    def _read_page(self, text: str) -> ErrorInfo:
        return _read_page(text)


class Encoder(StreamEncoder):
    """Events in, the bytes of a stream of chat.qwen.ai out; calls are those of chat completions."""

    def __init__(
        self,
        *,
        model: str = "",
        id: str = "",  # noqa: A002 - the field's name
        created: int = 0,
        usage: bool = True,
    ) -> None:
        del model, created, usage  # Frames have neither; the usage is always sent.
        super().__init__()
        self._id = id
        self._order = BlockSequencer()
        self._ids = IdMaker()
        self._numbers: dict[int, int] = {}
        self._arguments = GuardedArguments()

    def encode(self, event: Event) -> bytes:
        """Return the bytes of *event*; nothing is written after the terminal event."""
        if self._ended:
            return super().encode(event)
        if type(event) is TextDelta and event.index == self._order.current and event.text:
            return _HEAD + _json.encode_text(event.text) + _ANSWER
        return super().encode(event)

    def _write_start(self, event: MessageStart) -> bytes:
        created = {"chat_id": "chat-1", "parent_id": "", "response_id": self._id or event.id}
        return _frame({"response.created": created})

    def _write(self, event: BlockEvent) -> bytes:
        return b"".join(map(self._write_in_turn, self._order.put(event)))

    def _write_in_turn(self, event: BlockEvent) -> bytes:
        match event:
            case TextDelta(text=text) if text:
                return _HEAD + _json.encode_text(text) + _ANSWER
            case ThinkingDelta(text=text) if text:
                return _HEAD + _json.encode_text(text) + _REASONING
            case ThinkingEnd(text=text) if text:
                return _REASONING_END
            case ToolCallStart():
                self._arguments = GuardedArguments()
                number = self._numbers[event.index] = len(self._numbers)
                call = {"index": number, "id": self._ids.make(event.id), "type": "function"}
                return _call_frame({**call, "function": {"name": event.name, "arguments": ""}})
            case ToolCallDelta():
                return self._write_arguments(event.index, self._arguments.add(event.arguments))
            case ToolCallEnd():
                return self._write_arguments(event.index, self._arguments.end(event.call))
            case Part(part=part) if part.provider == NAME and isinstance(part.data, dict):
                return _frame({"choices": [{"index": 0, "delta": part.data}]})
        return b""

    def _write_arguments(self, index: int, arguments: str) -> bytes:
        if not arguments:
            return b""
        function = {"arguments": arguments}
        return _call_frame({"index": self._numbers[index], "function": function})

    def _write_end(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        if isinstance(ending, ErrorInfo):
            return _frame({"error": _write_details(ending)})
        usage, counted = event.message.usage, b""
        if usage != Usage():
            choice: dict[str, Any] = {"index": 0, "delta": _TYPING}
            counted = _frame({"choices": [choice], "usage": write_usage(usage)})
        last = {"role": "assistant", "content": "", "phase": "answer"}
        if ending in FINISH_REASONS:
            choice = {"index": 0, "delta": last, "finish_reason": FINISH_REASONS[ending]}
        else:
            choice = {"index": 0, "delta": {**last, "status": "finished"}}
        return counted + _frame({"choices": [choice]}) + b"data: [DONE]\n\n"


def _call_frame(call: dict[str, Any]) -> bytes:
    return _frame({"choices": [{"index": 0, "delta": {**_TYPING, "tool_calls": [call]}}]})


def _frame(data: dict[str, Any]) -> bytes:
    return b"data: " + _json.encode_wire(data) + b"\n\n"


# --- whole responses ---


def read_response(data: Mapping[str, Any]) -> AssistantMessage:
    """Read a whole response; if it is an error, `error` is set."""
    error = _find_error(data)
    if error is not None:
        return AssistantMessage(stop_reason="error", error=error)
    inner = object_at(data, "data") or data
    choices = inner.get("choices")
    return _BodyDecoder().read_whole({"id": text_at(inner, "message_id"), "choices": choices})


class _BodyDecoder(chat.Decoder):
    """Reads a body with a message: the server sends no finish reason, so the end is normal."""

    _has_message = False

    def _read_choice(self, choice: Mapping[str, Any]) -> None:
        self._has_message |= isinstance(choice.get("message"), Mapping)
        super()._read_choice(choice)

    def _read_end(self) -> None:
        if self._has_message:
            self._conclude(self._finish)
        else:
            super()._read_end()


def write_response(message: AssistantMessage, *, created: int = 0) -> dict[str, Any]:
    """Write a whole response; raise `UsageError` for a failed one."""
    del created
    ending, _ = find_whole_ending(message)
    message = with_writable_calls(message)
    choice = {"index": 0, "message": {**write_message(message), **refusal_field(message, ending)}}
    if ending in FINISH_REASONS:
        choice["finish_reason"] = FINISH_REASONS[ending]
    data = {
        "chat_id": "chat-1",
        "parent_id": "",
        "message_id": message.id,
        "choices": [choice],
    }
    return without_lone_surrogates({"success": True, "request_id": "", "data": data})


# --- requests ---


def read_request(data: Mapping[str, Any]) -> Request:
    """Read the body that a client sent; raise `UsageError` if it is not a request."""
    messages = data.get("messages")
    if not isinstance(messages, list):
        raise UsageError("`messages` must be a list")
    read = [_read_message(message) for message in messages]
    last = messages[-1] if messages else {}
    integer_at(data, _TIMESTAMP)  # Raises if it is not a number.
    extra = {key: data[key] for key in _SESSION if data.get(key) is not None}
    for key, value in extra.items():
        if key != _TIMESTAMP and not isinstance(value, str):
            raise UsageError(f"`{key}` must be text")
    if text_at(last, "fid"):
        extra["fid"] = last["fid"]
    thinks = object_at(last, "feature_config").get("thinking_enabled") is True
    return Request(
        model=text_at(data, "model"),
        messages=read,
        reasoning=ReasoningOptions("medium") if thinks else None,
        stream=data.get("stream") is not False,
        source=NAME,
        extra=extra,
        raw=dict(data),
    )


def _read_message(data: object) -> Message:
    """Read a message: the user's, or any message of a chat that is sent from its start."""
    if not isinstance(data, Mapping):
        raise UsageError("a message must be a JSON object")
    role, text = data.get("role"), text_at(data, "content")
    if role == "user":
        return UserMessage([Text(text)])
    if role == "assistant":
        return AssistantMessage(content=[Text(text)])
    if role == "system":
        return SystemMessage(text)
    raise UsageError(f"`role` must be system, user or assistant, not {short_repr(role)}")


def write_request(request: Request) -> dict[str, Any]:
    """Write *request*; fields that the API cannot express are omitted."""
    session = {key: value for key, value in request.extra.items() if key in _SESSION}
    parent, kind = session.get("parent_id"), session.get("chat_type", "t2t")
    timestamp = session.get(_TIMESTAMP, 0)
    effort = effort_for(request.reasoning)
    content = convert_content(request, NAME, images=False)
    message = {
        "fid": session.get("fid", ""),
        "parentId": parent,
        "parent_id": parent,
        "childrenIds": [],
        "role": "user",
        "content": _write_text(content, is_new=not parent),
        "user_action": "chat",
        "files": [],
        "timestamp": timestamp,
        "models": [request.model],
        "chat_type": kind,
        "sub_chat_type": kind,
        "feature_config": {
            "thinking_enabled": bool(effort) and effort != "none",
            "output_schema": "phase",
        },
        "extra": {"meta": {"subChatType": kind}},
    }
    body = {
        "stream": request.stream,
        # Otherwise each frame repeats the whole text so far.
        "incremental_output": True,
        "chat_id": session.get("chat_id", ""),
        "chat_mode": session.get("chat_mode", "guest"),
        "model": request.model,
        "parent_id": parent,
        "messages": [message],
        "timestamp": timestamp,
    }
    return without_lone_surrogates(body)


def omitted_fields(request: Request) -> list[str]:
    """Return the names of the fields of *request* that `write_request` omits."""
    missing = [name for name in _UNSUPPORTED if getattr(request, name) is not None]
    missing += [name for name in ("tools", "stop", "metadata", "user") if getattr(request, name)]
    missing += sorted(set(request.extra) - set(_SESSION))
    content = convert_content(request, NAME, images=False)
    return missing + find_lost_content(content, NAME, images=False)


def _write_text(request: Request, *, is_new: bool) -> str:
    """Return the messages since the last response as one text, or all of a new chat."""
    messages = request.messages
    if not is_new:
        places = [at for at, m in enumerate(messages, 1) if isinstance(m, AssistantMessage)]
        messages = messages[places[-1] :] if places else messages
    parts = [request.system] if is_new and request.system else []
    has_roles = any(isinstance(message, AssistantMessage) for message in messages)
    parts += [_write_message_text(message, with_role=has_roles) for message in messages]
    return "\n\n".join(part for part in parts if part)


def _write_message_text(message: Message, *, with_role: bool) -> str:
    if isinstance(message, ToolResult):
        name = f" from {message.name}" if message.name else ""
        return f"Tool Result{name}:\n{result_text(message).strip() or NO_OUTPUT}"
    text = message.text
    if isinstance(message, SystemMessage) or not with_role or not text:
        return text
    return f"{'Assistant' if isinstance(message, AssistantMessage) else 'User'}: {text}"


class _Qwen:
    name = NAME
    decoder = Decoder
    encoder = Encoder
    read_request = staticmethod(read_request)
    write_request = staticmethod(write_request)
    omitted_fields = staticmethod(omitted_fields)
    read_response = staticmethod(read_response)
    write_response = staticmethod(write_response)
    read_error = staticmethod(read_error)
    write_error = staticmethod(write_error)
    check = staticmethod(check)


API: Final[Api] = _Qwen()
