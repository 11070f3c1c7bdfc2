"""Decode a stream of the Responses API.

An item is found by its id, or else by its `output_index`, so that items that are open at the same
time are never mixed up. An item starts with `output_item.added` or with the first event about it;
it ends with `output_item.done` or with the response. The last event repeats the output; what the
stream did not contain is taken from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, TypeVar

from penstock import _json
from penstock.apis.decoder import StreamDecoder
from penstock.apis.encoder import encode_arguments, parse_object
from penstock.apis.fields import has_content, index_at, object_at, text_at
from penstock.apis.openai_responses import tables
from penstock.apis.openai_responses.client_tools import call_name, is_client_search
from penstock.apis.openai_responses.response import ANNOTATIONS, REFUSAL, SEALED
from penstock.apis.transcript import Transcript, split_half
from penstock.messages import AssistantMessage, ErrorInfo

# --- items ---
#
# An item receives deltas, texts that are repeated whole, and its end. Servers omit any of the
# three: what the deltas did not contain is taken from the whole text, and no text is emitted twice.

_BETWEEN: Final = "\n\n"  # between two parts of a summary
_PART_TEXTS: Final = ("text", "refusal")


class Item:
    """An item that only its provider understands, kept whole when it ends."""

    types: tuple[str, ...] = ()
    """The types of items of this class; none means all others."""

    def __init__(self, transcript: Transcript, data: Mapping[str, Any]) -> None:
        self.type = text_at(data, "type")
        self.id = text_at(data, "id")
        self.call_id = text_at(data, "call_id")
        self.is_done = False
        self._is_cut = False
        self._transcript = transcript

    def end(self, data: Mapping[str, Any], *, is_cut: bool = False) -> None:
        """End the item with its final *data*; later events about it are dropped.

        *is_cut* is whether the response was cut, which may have cut the item.
        """
        if not self.is_done:
            self.is_done = True
            self._is_cut = is_cut or data.get("status") == "incomplete"
            self._end(data)

    def _end(self, data: Mapping[str, Any]) -> None:
        self._transcript.part(tables.NAME, dict(data))


class TextItem(Item):
    """An item with text in numbered parts; parts of reasoning have a blank line between them."""

    _is_thinking = False

    def __init__(self, transcript: Transcript, data: Mapping[str, Any]) -> None:
        super().__init__(transcript, data)
        self._block = transcript.thinking() if self._is_thinking else transcript.text()
        self._parts: dict[tuple[str, int], int] = {}  # where the text of each part starts
        self._whole: set[tuple[str, int]] = set()  # the parts whose whole text was read
        self._last = ("", 0)  # the part that text was added to last

    def add(self, kind: str, index: int, text: str) -> None:
        """Add text to part *index* of the list *kind*."""
        if not text:
            return
        key = (kind, index)
        if key != self._last:
            if self._parts and self._is_thinking:
                self._block.add(_BETWEEN)
            self._last = key
            self._parts.setdefault(key, self._block.pieces)
        self._block.add(text)

    def add_whole(self, kind: str, index: int, text: str) -> None:
        """Add what is new in the whole text of a part, if it can still be added.

        If the text differs from what was streamed by more than white space, a part of the stream
        was lost on the way.
        """
        key = (kind, index)
        if key not in self._parts:
            self.add(kind, index, text)
        elif text and key == self._last and key not in self._whole:
            sent, text = self._block.text_from(self._parts[key]), _sound(text)
            if text.startswith(sent):
                self.add(kind, index, text[len(sent) :])
            elif text.split() != sent.split():
                self._transcript.skipped += 1
        self._whole.add(key)

    def _add_parts(self, data: Mapping[str, Any], kind: str) -> None:
        """Add the parts of the list *kind*, if none of them has text so far."""
        if all(key[0] != kind for key in self._parts):
            for index, part in enumerate(self._transcript.read_objects(data, kind)):
                self.add(kind, index, part_text(part))
                for field in _PART_TEXTS:
                    if not isinstance(part.get(field), str):
                        self._transcript.lose(field, part.get(field))


class MessageItem(TextItem):
    """A message: one text block, whatever its parts are."""

    types = ("message",)

    def __init__(self, transcript: Transcript, data: Mapping[str, Any]) -> None:
        super().__init__(transcript, data)
        self.annotations: list[Any] = []

    def _end(self, data: Mapping[str, Any]) -> None:
        self._add_parts(data, "content")
        self._block.close(item_id(text_at(data, "id") or self.id, text_at(data, "phase")))
        annotations = read_annotations(data.get("content")) or self.annotations
        if annotations:
            self._transcript.part(tables.NAME, {"type": ANNOTATIONS, ANNOTATIONS: annotations})


class RefusalItem(Item):
    """The message that our encoder writes for a refusal: the reason, not text."""

    types = ("message",)
    reason = ""

    def _end(self, data: Mapping[str, Any]) -> None:
        self.reason = "".join(part_text(part) for part in objects(data.get("content")))


class ReasoningItem(TextItem):
    """Reasoning: a summary in parts, or the text itself; the whole item is the signature."""

    types = ("reasoning",)
    _is_thinking = True

    def _end(self, data: Mapping[str, Any]) -> None:
        self._add_parts(data, "summary")
        self._add_parts(data, "content")
        self._block.close(read_signature(data))


# `function_call_arguments.delta` has neither the name nor the call id: they are in
# `output_item.added`, and are looked up by item id or output index. OpenAI interleaves the deltas
# of parallel calls, and some servers send deltas after the item is done.
class CallItem(Item):
    """A call; its arguments may arrive at its start, in deltas, or whole at the end."""

    types = ("function_call",)

    def __init__(self, transcript: Transcript, data: Mapping[str, Any]) -> None:
        super().__init__(transcript, data)
        self._call = transcript.call(call_name(data), item_id(self.call_id, self.id))
        self._first = self._read(data)
        self._final = ""
        self._is_repeated = False

    def _read(self, data: Mapping[str, Any]) -> str:
        """Return the arguments in *data* as text; if they are in another form, note the loss."""
        arguments = data.get("arguments")
        if has_content(arguments) and not isinstance(arguments, str | dict):
            self._call.is_damaged = True
        return _sound(read_arguments(data))

    def add_value(self, arguments: object) -> None:
        """Add a delta, which may be of any type."""
        self.add(arguments if isinstance(arguments, str) else self._read({"arguments": arguments}))

    def add(self, arguments: str) -> None:
        """Add a delta; arguments of the start count, unless they were whole."""
        if arguments == "null" and not self._call.arguments:
            return
        if arguments and self._first:
            first, self._first = self._first, ""
            if parse_object(first) is None:
                self._call.add(first)
        self._call.add(arguments)

    def repeat(self, data: Mapping[str, Any]) -> None:
        """Read the whole arguments of the first `arguments.done`."""
        if not self._is_repeated and not self.is_done:
            self._is_repeated = True
            self.add_whole(data)

    def add_whole(self, data: Mapping[str, Any]) -> None:
        """Read arguments that are repeated whole, and a name that arrives late."""
        # Some servers send arguments only in `arguments.done`, or only in `output_item.done`.
        self._call.add_name(call_name(data))
        arguments, sent = self._read(data), self._call.arguments
        if not arguments.strip() or (arguments == "{}" and sent.strip()):
            return  # Some servers send empty arguments at the end.
        if arguments.startswith(sent):
            self._call.add(arguments[len(sent) :])
        self._final = arguments

    def _end(self, data: Mapping[str, Any]) -> None:
        self._call.add_id(item_id(text_at(data, "call_id"), text_at(data, "id") or self.id))
        self.add_whole(data)
        if not self._call.arguments.strip():
            self._call.add(self._first if self._first.strip() or self._is_cut else "{}")
        google = object_at(object_at(data, "extra_content"), "google")
        self._call.signature = text_at(google, "thought_signature")
        if data.get("status") == "incomplete" or (self._is_cut and not self._call.is_whole):
            self._call.is_damaged = True
        is_lost = (
            self._call.is_damaged or self._call.index < 0
        )  # A call without a name cannot be run.
        self._call.close("" if is_lost else self._final)


class CustomCallItem(CallItem):
    """A call of a free-text tool: its arguments are an object with the text."""

    types = ("custom_tool_call",)

    def __init__(self, transcript: Transcript, data: Mapping[str, Any]) -> None:
        super().__init__(transcript, data)
        self._first = ""
        self._text: list[str] = []
        self._transcript.lose(
            "input", None if isinstance(data.get("input"), str) else data.get("input")
        )
        self.add(text_at(data, "input"))

    def add(self, arguments: str) -> None:
        """Add a piece of the text."""
        self._text.append(arguments)
        self._call.add_free_text(arguments)

    def add_whole(self, data: Mapping[str, Any]) -> None:
        """Read text that is repeated whole, and a name that arrives late."""
        self._call.add_name(call_name(data))
        text, sent = _sound(text_at(data, "input")), _sound("".join(self._text))
        if text.startswith(sent):
            self.add(text[len(sent) :])
        elif text:
            self._final = f'{{"input": {_json.encode(text).decode()}}}'


_KINDS: Final = {
    type_: kind
    for kind in (MessageItem, ReasoningItem, CallItem, CustomCallItem)
    for type_ in kind.types
}


def make_item(transcript: Transcript, data: Mapping[str, Any]) -> Item:
    """Return a new item for *data*, the first data about it."""
    if text_at(data, "id").startswith(REFUSAL):
        return RefusalItem(transcript, data)
    if is_client_search(data):
        return CallItem(transcript, data)
    return _KINDS.get(text_at(data, "type"), Item)(transcript, data)


def part_text(part: Mapping[str, Any]) -> str:
    """Return the text of a part of a message or of reasoning."""
    return next((part[key] for key in _PART_TEXTS if isinstance(part.get(key), str)), "")


def read_annotations(content: object) -> list[Any]:
    """Return the annotations of all parts of *content*."""
    found = [part.get(ANNOTATIONS) for part in objects(content)]
    return [item for items in found if isinstance(items, list) for item in items]


def read_arguments(data: Mapping[str, Any]) -> str:
    """Return the arguments in *data* as JSON text; some servers send an object."""
    arguments = data.get("arguments")
    if isinstance(arguments, dict):
        return encode_arguments(arguments)
    return arguments if isinstance(arguments, str) and arguments.strip() != "null" else ""


def read_signature(item: Mapping[str, Any]) -> str:
    """Return the signature of a reasoning *item*: one that we sealed in it, or the item itself."""
    sealed = item.get("encrypted_content")
    if isinstance(sealed, str) and sealed.startswith(SEALED):
        return sealed.removeprefix(SEALED)
    return _json.encode(dict(item)).decode() if item else ""


def item_id(*words: str) -> str:
    """Return one id for two of the API: ``call_id|item_id`` or ``item_id|phase``."""
    return "|".join(word for word in words if word)


def _sound(text: str) -> str:
    """Return *text* as the transcript would emit it, without lone surrogates."""
    whole, half = split_half(text)
    return whole + "\ufffd" if half else whole


def objects(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of *value*, if it is a list."""
    for item in value if isinstance(value, list) else ():
        if isinstance(item, Mapping):
            yield item


_Data = Mapping[str, Any]
_Kind = TypeVar("_Kind", bound=Item)
# The class of the item, its list of parts, and the field with the number of the part.
_Source = tuple[type[TextItem], str, str]

_TEXT: Final[_Source] = (MessageItem, "content", "content_index")
_SUMMARY: Final[_Source] = (ReasoningItem, "summary", "summary_index")
_REASONING: Final[_Source] = (ReasoningItem, "content", "content_index")

DELTAS: Final[dict[str, _Source]] = {
    "response.output_text.delta": _TEXT,
    "response.refusal.delta": _TEXT,
    "response.reasoning_summary_text.delta": _SUMMARY,
    "response.reasoning_text.delta": _REASONING,
}
TEXTS: Final[dict[str, _Source]] = {
    "response.output_text.done": _TEXT,
    "response.refusal.done": _TEXT,
    "response.reasoning_summary_text.done": _SUMMARY,
    "response.reasoning_summary_part.done": _SUMMARY,
    "response.reasoning_text.done": _REASONING,
}
ARGUMENTS: Final[dict[str, type[CallItem]]] = {
    "response.function_call_arguments.delta": CallItem,
    "response.function_call_arguments.done": CallItem,
    "response.custom_tool_call_input.delta": CustomCallItem,
    "response.custom_tool_call_input.done": CustomCallItem,
}
ENDS: Final = {
    # A response that reached `max_output_tokens` ends with `response.incomplete`, never with
    # `completed`. `response.done` is the name in OpenAI's realtime API.
    "response.completed": "completed",
    "response.done": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
"""The events that end a response, and the status that they mean."""


class Decoder(StreamDecoder):
    """Bytes of a stream of the Responses API in, events out."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._items: list[Item] = []
        self._by_id: dict[str, Item] = {}
        self._by_index: dict[int, Item] = {}
        self._latest: dict[type[Item], Item] = {}

    def _read(self, data: dict[str, Any], event: str) -> None:
        kind = text_at(data, "type") or event
        if kind in DELTAS:
            self._read_delta(data, *DELTAS[kind])
        elif kind in TEXTS:
            self._read_text(data, *TEXTS[kind])
        elif kind in ARGUMENTS:
            self._read_arguments(data, ARGUMENTS[kind])
        elif kind in ENDS:
            self._read_terminal(object_at(data, "response"), ENDS[kind])
        elif kind in self._OTHERS:
            self._OTHERS[kind](self, data)
        # Servers that ignore `stream` send the response as one JSON body or in one frame.
        elif data.get("object") == "response":  # A whole response.
            self._read_terminal(data, "completed")
        # ``{"type": "error"}`` has its fields beside the type; compatible servers put them under
        # `error`, as chat completions do.
        elif kind == "error" or data.get("error"):
            self._transcript.fail(tables.read_error(data.get("error") or data))

    # --- items ---

    def _find(self, id_: str, place: int | None) -> Item | None:
        """Find an item by its id, or by its index: some servers change ids within a stream."""
        found = self._by_id.get(id_) if id_ else None
        return found or (None if place is None else self._by_index.get(place))

    def _begin(self, data: _Data, place: int | None) -> Item:
        item = make_item(self._transcript, data)
        self._items.append(item)
        self._latest[type(item)] = item
        if item.id:  # The id of an item is null on some compatible servers.
            self._by_id[item.id] = item
        if place is not None:
            self._by_index[place] = item
        return item

    def _item(self, data: _Data, kind: type[_Kind]) -> _Kind | None:
        """Return the item that *data* is about; an item that was not announced starts here.

        If the index is that of another item, the open item of this kind is meant.
        """
        id_, place = text_at(data, "item_id"), index_at(data, "output_index")
        found = self._find(id_, place)
        if isinstance(found, kind):
            return found
        latest = self._latest.get(kind)
        if found is not None or (not id_ and place is None):
            if isinstance(latest, kind) and not latest.is_done:
                return latest
            if found is not None:
                return None
        begun = self._begin({"type": kind.types[0], "id": id_}, place)
        return begun if isinstance(begun, kind) else None

    def _read_added(self, data: _Data) -> None:
        item, place = object_at(data, "item"), index_at(data, "output_index")
        if item and not self._is_known(item, place):
            self._begin(item, place)

    def _is_known(self, data: _Data, place: int | None) -> bool:
        """Return whether an item was announced: by its id, or as the same call at its index."""
        id_, found = text_at(data, "id"), self._find(text_at(data, "id"), place)
        if found is None or found.type != text_at(data, "type"):
            return False
        is_same_call = bool(found.call_id) and found.call_id == text_at(data, "call_id")
        return found.id == id_ if id_ and found.id else is_same_call

    def _read_item_done(self, data: _Data) -> None:
        item, place = object_at(data, "item"), index_at(data, "output_index")
        if item:
            self._end_item(item, place)

    def _end_item(self, data: _Data, place: int | None) -> None:
        found = self._find(text_at(data, "id"), place)
        is_other = found is None or found.type != text_at(data, "type")
        if found is None or is_other or (found.is_done and not self._is_known(data, place)):
            found = self._begin(data, place)
        found.end(data)

    # --- contents of items ---

    def _read_delta(self, data: _Data, kind: type[TextItem], list_: str, index: str) -> None:
        item, text = self._item(data, kind), data.get("delta")
        if not isinstance(text, str):
            self._transcript.lose("delta", text)
        elif item is not None:
            item.add(list_, index_at(data, index) or 0, text)
        elif text:
            self._transcript.skipped += 1

    def _read_text(self, data: _Data, kind: type[TextItem], list_: str, index: str) -> None:
        """Read a text that is repeated whole, alone or in its part."""
        item = self._item(data, kind)
        if item is not None:
            text = part_text(object_at(data, "part") or data)
            item.add_whole(list_, index_at(data, index) or 0, text)

    def _read_part_done(self, data: _Data) -> None:
        is_reasoning = object_at(data, "part").get("type") == "reasoning_text"
        self._read_text(data, *(_REASONING if is_reasoning else _TEXT))

    def _read_annotation(self, data: _Data) -> None:
        item = self._item(data, MessageItem)
        if item is not None and data.get("annotation") is not None:
            item.annotations.append(data["annotation"])

    def _read_arguments(self, data: _Data, kind: type[CallItem]) -> None:
        item, delta = self._item(data, kind), data.get("delta")
        if item is not None and "delta" not in data:
            item.repeat(data)
        elif item is not None:
            item.add_value(delta)

    # --- the response ---

    def _read_begin(self, data: _Data) -> None:
        response = object_at(data, "response")
        self._transcript.begin(text_at(response, "id"), text_at(response, "model"))

    def _read_terminal(self, response: _Data, status: str) -> None:
        """Read the end; the status of the response overrides the name of the event."""
        transcript = self._transcript
        transcript.begin(text_at(response, "id"), text_at(response, "model"))
        if isinstance(response.get("usage"), Mapping):
            transcript.usage = tables.read_usage(response["usage"])
        # OpenAI ends at the limit with `response.incomplete`, never with `response.completed`.
        status = text_at(response, "status") or status
        if status not in tables.STOP | tables.LENGTH:
            transcript.fail(tables.read_failure(response, status), status)
            return
        is_cut = status in tables.LENGTH
        self._end_items(response, is_cut=is_cut)
        error = self._find_refusal(response, is_cut=is_cut)
        if error is not None:
            transcript.fail(error, status)
        else:
            transcript.done("length" if is_cut else "stop", status)

    def _find_refusal(self, response: _Data, *, is_cut: bool) -> ErrorInfo | None:
        """Return the refusal or the filter that ended the response, if one did."""
        refusal = self._latest.get(RefusalItem)
        if isinstance(refusal, RefusalItem):
            return ErrorInfo(refusal.reason, "refusal")
        reason = text_at(object_at(response, "incomplete_details"), "reason")
        if is_cut and reason in tables.FILTER:
            return ErrorInfo(f"the provider ended the response: {reason}", "filter", reason)
        return None

    def _end_items(self, response: _Data, *, is_cut: bool) -> None:
        """End open items with what the last event repeats; a call that it lacks was cut.

        Items are matched by id, or else each with the next of its type: some servers send wrong ids
        and indexes.
        """
        by_call = {item.call_id: item for item in self._items if item.call_id}
        unmatched: dict[str, dict[Item, None]] = {}  # in reverse order
        for item in reversed(self._items):
            unmatched.setdefault(item.type, {})[item] = None
        for data in self._transcript.read_objects(response, "output"):
            type_ = text_at(data, "type")
            alike = unmatched.get(type_, {})
            found = self._by_id.get(text_at(data, "id")) or by_call.get(text_at(data, "call_id"))
            if found is None or found.type != type_:
                found = _next_like(data, alike) or self._begin(data, None)
            alike.pop(found, None)
            found.end(data, is_cut=is_cut)
        for item in self._items:
            if isinstance(item, TextItem | CallItem):
                item.end({}, is_cut=is_cut)

    def _read_done(self) -> None:
        """Read the ``[DONE]`` of a server without a last event; without items it was truncated."""
        if self._items:
            self._end_items({}, is_cut=False)
            self._transcript.done("stop")
        else:
            self.fail_truncated()

    def _read_whole(self, data: dict[str, Any]) -> AssistantMessage | ErrorInfo | None:
        if data.get("object") == "response" or isinstance(data.get("output"), list):
            return read_response({**data, "object": "response"})
        return tables.read_error(data["error"]) if data.get("error") else None

    # Not read: the progress of `web_search_call`, `file_search_call`, `code_interpreter_call`,
    # `image_generation_call`, `mcp_call` and others. Their items are kept whole at
    # `output_item.done`.
    _OTHERS: ClassVar[dict[str, Callable[[Decoder, _Data], None]]] = {
        "response.created": _read_begin,
        "response.queued": _read_begin,
        "response.in_progress": _read_begin,
        "response.output_item.added": _read_added,
        "response.output_item.done": _read_item_done,
        "response.content_part.done": _read_part_done,
        "response.output_text.annotation.added": _read_annotation,
    }
    """All other events that are read; the rest report the progress of the server's own tools."""


def _next_like(data: _Data, alike: dict[Item, None]) -> Item | None:
    """Return the next of *alike* that *data* may be; calls with different ids never match."""
    id_ = text_at(data, "call_id")
    candidates = (item for item in reversed(alike) if not id_ or item.call_id in ("", id_))
    return next(candidates, None)


def read_response(data: Mapping[str, Any]) -> AssistantMessage:
    """Read a whole response by the rules of the stream, as its last event."""
    return Decoder().read_whole(data)
