"""Ollama's own chat API (``POST /api/chat``): lines of JSON.

A call arrives whole on one line, often without an id, and is written whole when it ends; a call
that was cut is not written. The last line has ``done``, the reason and the token counts. The older
``/api/generate`` is read as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock import _json
from penstock._json import without_lone_surrogates
from penstock.apis import Api
from penstock.apis.decoder import StreamDecoder
from penstock.apis.encoder import (
    BlockEvent,
    BlockSequencer,
    ConversationIds,
    Ending,
    IdMaker,
    StreamEncoder,
    find_whole_ending,
    with_writable_calls,
)
from penstock.apis.errors import error_info, find_message, read_body, retry_after
from penstock.apis.fields import (
    clean,
    count_at,
    integer_at,
    list_at,
    number_at,
    object_at,
    objects_at,
    short_repr,
    split_tools,
    string_at,
    string_list,
    text_at,
    unportable_names,
    without_keys,
    without_none,
)
from penstock.apis.history import (
    convert_content,
    default_placement,
    find_lost_content,
    non_text_blocks,
    pair_results,
    place_system_messages,
    replayable_blocks,
    result_text,
)
from penstock.apis.transcript import ImplicitBlock
from penstock.conformance.ollama import check
from penstock.errors import UsageError
from penstock.events import Done, Event, Failed, MessageStart, TextDelta, ThinkingDelta, ToolCallEnd
from penstock.framing import ndjson
from penstock.messages import (
    AssistantMessage,
    Content,
    ErrorInfo,
    ErrorKind,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from penstock.request import (
    Image,
    Message,
    ReasoningOptions,
    Request,
    ResponseFormat,
    SystemMessage,
    UserContent,
    UserMessage,
)

__all__ = ["API"]

NAME: Final = "ollama"

LENGTH: Final = frozenset({"length"})
FILTER: Final = frozenset({"content_filter", "refusal"})
"""Values of `done_reason`. Others (``stop``, ``load``, ``unload``, unknown ones) are a normal end,
since the line has ``done``."""

DONE_REASONS: Final[dict[Ending, str]] = {
    "stop": "stop",
    "length": "length",
    "tool_use": "stop",
    "refusal": "refusal",
    "filter": "content_filter",
}

STATUSES: Final[dict[ErrorKind, int]] = {
    "provider": 500,
    "transport": 502,
    "truncated": 502,
    "malformed": 502,
    "refusal": 400,
    "filter": 400,
    "aborted": 499,
}

_DAY: Final = 86_400
_LAST_SECOND: Final = 253_402_300_799  # the end of the year 9999
_TAIL: Final = b'},"done":false}\n'

_KNOWN: Final = frozenset(
    {"model", "messages", "tools", "think", "format", "options", "stream", "prompt", "system"}
)
_OPTIONS: Final = frozenset(
    {
        "temperature", "top_p", "top_k", "seed", "stop", "num_predict", "presence_penalty",
        "frequency_penalty",
    }
)  # fmt: skip
# Ollama's API has none of these.
_UNSUPPORTED: Final = ("tool_choice", "parallel_tool_calls", "n")
_LEVELS: Final = frozenset({"low", "medium", "high"})


# --- usage and errors ---


def read_usage(data: Mapping[str, Any]) -> Usage:
    """Read the counts of the last line; they do not include a cache."""
    prompt, output = count_at(data, "prompt_eval_count"), count_at(data, "eval_count")
    raw = {key: value for key, value in data.items() if key.endswith(("_count", "_duration"))}
    return Usage(input=prompt, output=output, total=prompt + output, raw=raw or None)


def write_usage(usage: Usage) -> dict[str, int]:
    """Write the counts of the last line; the durations are 0, since nothing is measured."""
    return {
        "total_duration": 0,
        "load_duration": 0,
        "prompt_eval_count": usage.input + usage.cache_read + usage.cache_write,
        "prompt_eval_duration": 0,
        "eval_count": usage.output,
        "eval_duration": 0,
    }


def _find_error(data: Mapping[str, Any]) -> ErrorInfo | None:
    """Return the error of a line: the field ``error``, or the error of a proxy in between."""
    if data.get("error"):
        return error_info(find_message(data["error"]))
    is_foreign = not data.keys() & {"message", "response", "done"}
    if is_foreign and (data.get("detail") or data.get("errors")):
        return error_info(find_message(data))
    return None


def read_error(
    status: int, headers: Mapping[str, str], body: bytes, *, now: float = 0.0
) -> ErrorInfo:
    """Read an error response."""
    message = find_message(read_body(body))
    return error_info(message, status=status, retry_after=retry_after(headers, now))


def write_error(error: ErrorInfo) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of the response that reports *error*."""
    return error.status or STATUSES[error.kind], {"error": clean(error.message)}


# --- streams ---


class Decoder(StreamDecoder):
    """Bytes of an Ollama stream in, events out."""

    def __init__(self, *, ids: Callable[[], str] | None = None) -> None:
        super().__init__(ndjson.Decoder(), ids=ids)
        self._block = ImplicitBlock(self._transcript)

    def _read(self, data: dict[str, Any], event: str) -> None:
        del event  # Lines have no event names.
        error = _find_error(data)
        if error is not None:
            self._transcript.fail(error)
            return
        self._transcript.begin(model=string_at(data, "model"))
        message = data.get("message")
        if isinstance(message, Mapping):
            self._block.add_reasoning(message.get("thinking"))
            self._block.add_text(message.get("content"))
            for call in self._transcript.read_objects(message, "tool_calls"):
                if function := self._transcript.read_object(call, "function"):
                    self._read_call(call, function)
        # The older endpoint has the text in `response`, and no calls.
        else:  # /api/generate
            self._transcript.lose("message", message)
            self._block.add_reasoning(data.get("thinking"))
            self._block.add_text(data.get("response"), "response")
        if data.get("done") is True:
            self._conclude(data)

    # Ollama sends a call whole, in one line; older versions send no id.
    def _read_call(self, call: Mapping[str, Any], function: Mapping[str, Any]) -> None:
        self._block.close()
        block = self._transcript.call(string_at(function, "name"), string_at(call, "id"))
        block.add_value(function.get("arguments"))
        block.close()

    def _conclude(self, data: Mapping[str, Any]) -> None:
        transcript = self._transcript
        transcript.usage = read_usage(data)
        reason = string_at(data, "done_reason")
        if reason.lower() in LENGTH:
            transcript.done("length", reason)
        elif reason.lower() in FILTER:
            message = f"the provider ended the response: {reason}"
            transcript.fail(ErrorInfo(message, "filter", reason), reason)
        else:
            transcript.done("stop", reason)

    def _read_whole(self, data: dict[str, Any]) -> AssistantMessage | ErrorInfo | None:
        del data  # A whole response is one line, so it was read already.
        return None


class Encoder(StreamEncoder):
    """Events in, the bytes of an Ollama stream out."""

    # Ollama sends a call whole, in one line, and its clients expect that.
    streams_arguments = False

    def __init__(
        self,
        *,
        model: str = "",
        id: str = "",  # noqa: A002 - the field's name
        created: int = 0,
        usage: bool = True,
    ) -> None:
        del id, usage  # Lines have no id, and the last one always has the counts.
        super().__init__()
        self._model, self._created = model, created
        self._order = BlockSequencer()
        self._ids = IdMaker()
        self._head = self._text_head = self._thinking_head = b""

    def encode(self, event: Event) -> bytes:
        """Return the bytes of *event*; nothing is written after the terminal event."""
        if self._ended:
            return super().encode(event)
        if type(event) is TextDelta and event.index == self._order.current and event.text:
            return self._text_head + _json.encode_text(event.text) + _TAIL
        return super().encode(event)

    def keep_alive(self) -> bytes:
        """Return a line with empty text: NDJSON has no comments."""
        return self._text_head + b'""' + _TAIL if self._text_head else b""

    def _write_start(self, event: MessageStart) -> bytes:
        head = {"model": self._model or event.model, "created_at": format_time(self._created)}
        self._head = _json.encode_wire(head)[:-1]
        message = self._head + b',"message":{"role":"assistant",'
        self._text_head = message + b'"content":'
        self._thinking_head = message + b'"content":"","thinking":'
        return b""

    def _write(self, event: BlockEvent) -> bytes:
        return b"".join(map(self._write_in_turn, self._order.put(event)))

    def _write_in_turn(self, event: BlockEvent) -> bytes:
        match event:
            case TextDelta(text=text) if text:
                return self._text_head + _json.encode_text(text) + _TAIL
            case ThinkingDelta(text=text) if text:
                return self._thinking_head + _json.encode_text(text) + _TAIL
            case ToolCallEnd(call=call) if call.complete:
                calls = {"tool_calls": [_write_call(call, self._ids.make)]}
                return self._text_head + b'"",' + _json.encode_wire(calls)[1:-1] + _TAIL
        return b""

    def _write_end(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        if isinstance(ending, ErrorInfo):
            return _json.encode_wire({"error": ending.message or "the response failed"}) + b"\n"
        last: dict[str, Any] = {
            "message": {"role": "assistant", "content": ""},
            "done_reason": DONE_REASONS[ending],
            "done": True,
            **write_usage(event.message.usage),
        }
        return self._head + b"," + _json.encode_wire(last)[1:] + b"\n"


def _write_call(call: ToolCall, make_id: Callable[[str], str]) -> dict[str, Any]:
    """Write a call; its arguments are an object here."""
    return {
        "id": make_id(call.id),
        "function": {"name": call.name, "arguments": call.arguments},
    }


def format_time(seconds: int) -> str:
    """Return *seconds* since 1970 in UTC, as in RFC 3339.

    The standard library's calendar belongs to modules that read the clock, which this layer must
    not import. The algorithm counts days from 1 March of the year 0, in eras of 400 years, so that
    a leap day is the last day of its year.
    """
    days, rest = divmod(min(max(seconds, 0), _LAST_SECOND), _DAY)
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    date = day - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9  # noqa: PLR2004 - March is the first
    year += era * 400 + (month <= 2)  # noqa: PLR2004 - January and February are the last
    hours, rest = divmod(rest, 3600)
    return f"{year:04}-{month:02}-{date:02}T{hours:02}:{rest // 60:02}:{rest % 60:02}Z"


# --- whole responses ---


def read_response(data: Mapping[str, Any]) -> AssistantMessage:
    """Read a whole response: a stream of one line."""
    return Decoder().read_whole(data)


def write_response(message: AssistantMessage, *, created: int = 0) -> dict[str, Any]:
    """Write a whole response; raise `UsageError` for a failed one. Incomplete calls are omitted."""
    ending, _ = find_whole_ending(message)
    message = with_writable_calls(message)
    # Unlike OpenAI's API, this one has no null here.
    fields: dict[str, Any] = {"role": "assistant", "content": message.text}
    if message.thinking:
        fields["thinking"] = message.thinking
    make_id = IdMaker().make
    calls = [_write_call(call, make_id) for call in message.tool_calls if call.complete]
    if calls:
        fields["tool_calls"] = calls
    response = {
        "model": message.model,
        "created_at": format_time(created),
        "message": fields,
        "done_reason": DONE_REASONS[ending],
        "done": True,
        **write_usage(message.usage),
    }
    return without_lone_surrogates(response)


# --- reading requests ---


def read_request(data: Mapping[str, Any]) -> Request:
    """Read the body that a client sent; raise `UsageError` if it is not a request."""
    messages = data.get("messages")
    if messages is None and isinstance(data.get("prompt"), str):  # /api/generate
        messages = [
            {"role": "system", "content": text_at(data, "system")},
            {"role": "user", "content": data["prompt"], "images": data.get("images")},
        ]
    if not isinstance(messages, list):
        raise UsageError("`messages` must be a list")
    reader = _MessagesReader()
    for message in messages:
        reader.read(message)
    tools, foreign = split_tools(list_at(data, "tools"))
    options = object_at(data, "options")
    limit = integer_at(options, "num_predict")
    extra = without_keys(data, _KNOWN)
    for key, rest in (("options", without_keys(options, _OPTIONS)), ("tools", foreign)):
        if rest:
            extra[key] = rest
    return Request(
        model=text_at(data, "model"),
        system="\n\n".join(reader.system),
        messages=reader.messages,
        tools=tools,
        # -2 means as many as fit into the context.
        max_tokens=limit if limit is not None and limit > 0 else None,  # -1 means unlimited
        temperature=number_at(options, "temperature"),
        top_p=number_at(options, "top_p"),
        top_k=integer_at(options, "top_k"),
        seed=integer_at(options, "seed"),
        presence_penalty=number_at(options, "presence_penalty"),
        frequency_penalty=number_at(options, "frequency_penalty"),
        stop=string_list(options.get("stop")),
        response_format=_read_format(data.get("format")),
        reasoning=_read_think(data.get("think")),
        stream=data.get("stream") is not False,  # Streaming is the default of this API.
        include_usage=True,
        source=NAME,
        extra=extra,
        raw=dict(data),
    )


class _MessagesReader:
    """Reads messages in order; a result belongs to the oldest open call of its name."""

    def __init__(self) -> None:
        self.system: list[str] = []
        self.messages: list[Message] = []
        self._open: list[ToolCall] = []
        self._calls = 0

    def read(self, data: object) -> None:
        if not isinstance(data, Mapping):
            raise UsageError("a message must be a JSON object")
        role, text = data.get("role"), text_at(data, "content")
        if role == "system" and self.messages:
            self.messages.append(SystemMessage(text))
        elif role == "system":
            self.system += [text] if text else []
        elif role == "user":
            blocks: list[UserContent] = [Text(text)] if text else []
            images = [image for image in list_at(data, "images") if isinstance(image, str)]
            self.messages.append(UserMessage(blocks + [Image(data=image) for image in images]))
        elif role == "assistant":
            self.messages.append(AssistantMessage(content=self._read_blocks(text, data)))
        elif role == "tool":
            self.messages.append(self._read_result(text, data))
        else:
            known = "system, user, assistant or tool"
            raise UsageError(f"`role` must be {known}, not {short_repr(role)}")

    def _read_blocks(self, text: str, data: Mapping[str, Any]) -> list[Content]:
        thinking = text_at(data, "thinking")
        blocks: list[Content] = [Thinking(thinking)] if thinking else []
        blocks += [Text(text)] if text else []
        self._open = [self._read_call(call) for call in objects_at(data, "tool_calls")]
        return [*blocks, *self._open]

    def _read_call(self, call: Mapping[str, Any]) -> ToolCall:
        function = object_at(call, "function")
        self._calls += 1
        id_ = text_at(call, "id") or f"call_{self._calls}"
        name, arguments = text_at(function, "name"), function.get("arguments")
        if isinstance(arguments, dict):
            return ToolCall(id_, name, arguments)
        return ToolCall.from_text(id_, name, arguments if isinstance(arguments, str) else "")

    def _read_result(self, text: str, data: Mapping[str, Any]) -> ToolResult:
        id_, name = text_at(data, "tool_call_id"), text_at(data, "tool_name")
        for call in self._open:
            # Clients of older versions send the name of the tool only, or nothing.
            if call.id == id_ if id_ else name in ("", call.name):
                self._open.remove(call)
                return ToolResult(call.id, call.name, text)
        return ToolResult(id_ or name, name, text)


def _read_format(data: object) -> ResponseFormat | None:
    # The schema is the value itself; OpenAI's API wraps it in `json_schema`.
    if isinstance(data, Mapping):
        return ResponseFormat("schema", dict(data))
    return ResponseFormat("json") if data == "json" else None


def _read_think(think: object) -> ReasoningOptions | None:
    if isinstance(think, str) and think:
        return ReasoningOptions(think)
    if isinstance(think, bool):
        return ReasoningOptions("medium" if think else "none")
    return None


# --- writing requests ---


def write_request(request: Request) -> dict[str, Any]:
    """Write *request*; fields that the API cannot express are omitted."""
    placement = default_placement(NAME, request.model)
    request = place_system_messages(convert_content(request, NAME), placement)
    own = request.extra if request.source == NAME else {}
    options = without_none(
        {
            "temperature": request.temperature,
            "top_p": request.top_p,
            "top_k": request.top_k,
            "seed": request.seed,
            "presence_penalty": request.presence_penalty,
            "frequency_penalty": request.frequency_penalty,
            "stop": request.stop or None,
            # Ollama's name for the token limit.
            "num_predict": request.max_tokens,
        }
    )
    tools = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters or {"type": "object", "properties": {}},
            },
        }
        for tool in request.tools
    ]
    body = {
        "model": request.model,
        "messages": _write_messages(request),
        "tools": [*tools, *own.get("tools", [])] or None,
        "think": _write_think(request.reasoning) if request.reasoning else None,
        "format": _write_format(request.response_format),
        "options": {**own.get("options", {}), **options} or None,
        "stream": request.stream,
    }
    return without_lone_surrogates({**own, **without_none(body)})


def omitted_fields(request: Request) -> list[str]:
    """Return the names of the fields of *request* that `write_request` omits."""
    missing = [name for name in _UNSUPPORTED if getattr(request, name) is not None]
    missing += [name for name in ("metadata", "user") if getattr(request, name)]
    if request.source != NAME:
        missing += unportable_names(request)
    return missing + find_lost_content(convert_content(request, NAME), NAME)


def _write_messages(request: Request) -> list[dict[str, Any]]:
    ids = ConversationIds.for_model(request.model)
    written: list[dict[str, Any]] = []
    if request.system:
        written.append({"role": "system", "content": request.system})
    images: list[UserContent] = []  # of results, for a user message after all of them
    for message in pair_results(request.messages):
        if isinstance(message, ToolResult):
            found = [block for block in non_text_blocks(message) if isinstance(block, Image)]
            if found:
                images += [Text(f"What {message.name or message.id} gave back:"), *found]
        elif images:
            written.append(_write_user(images))
            images = []
        written.append(_write_message(message, request, ids))
    return written + ([_write_user(images)] if images else [])


def _write_message(message: Message, request: Request, ids: ConversationIds) -> dict[str, Any]:
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": message.text}
    if isinstance(message, UserMessage):
        return _write_user(message.content)
    if isinstance(message, ToolResult):
        return {
            "role": "tool",
            "tool_name": message.name,
            "tool_call_id": ids.result_id(message.id),
            "content": result_text(message),
        }
    fit = AssistantMessage(content=replayable_blocks(message, request.model, NAME))
    fields: dict[str, Any] = {"role": "assistant", "content": fit.text}
    if fit.thinking:
        fields["thinking"] = fit.thinking
    if fit.tool_calls:
        fields["tool_calls"] = [_write_call(call, ids.call_id) for call in fit.tool_calls]
    return fields


def _write_user(content: list[UserContent]) -> dict[str, Any]:
    """Write a user message; the API takes no URL of an image, so it is named in the text."""
    images = [block for block in content if isinstance(block, Image)]
    links = [f"[image: {image.url}]" for image in images if not image.data]
    text = UserMessage(content).text
    fields = {"role": "user", "content": "\n".join([text, *links]).strip("\n") if links else text}
    data = [image.data for image in images if image.data]
    return {**fields, "images": data} if data else fields


def _write_think(options: ReasoningOptions) -> bool | str | None:
    """Return the value of `think`: a level, or a boolean."""
    # gpt-oss takes a level; other models know only whether to think.
    if options.effort in _LEVELS:
        return options.effort
    if options.effort == "none" or (not options.effort and options.budget == 0):
        return False
    return True if options.effort or options.budget else None


def _write_format(wanted: ResponseFormat | None) -> str | dict[str, Any] | None:
    if wanted is None or wanted.kind == "text":
        return None
    return wanted.schema if wanted.kind == "schema" else "json"


class _Ollama:
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


API: Final[Api] = _Ollama()
