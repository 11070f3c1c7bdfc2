"""Response events to events.

An item is found by its id, else by its place in the output, so that items which are open side by
side never mix. Items begin when they are announced, or with the first that is said of them; they
end when they are done, or with the answer. The last event repeats the output: of that, what the
stream did not say counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from penstock import _json
from penstock.apis.decoder import StreamDecoder
from penstock.apis.encoder import object_text
from penstock.apis.fields import index_of, object_at, text_at
from penstock.apis.openai_responses import tables
from penstock.apis.openai_responses.response import ANNOTATIONS, REFUSAL, SEALED, read_response
from penstock.apis.transcript import Transcript, joined
from penstock.errors import JSONParseError
from penstock.messages import AssistantMessage, ErrorInfo

# The items of an answer as they grow: messages, reasoning, calls, and all that others run.
#
# An item is told of its deltas, of texts that are repeated whole, and of its end. Servers leave
# out any of the three: what the deltas did not say is taken from the whole, and what they said
# is never said again.


_BETWEEN: Final = "\n\n"  # two parts of a summary
_PART_TEXTS: Final = ("text", "refusal")


class Item:
    """An item that only its provider understands: kept whole when it ends."""

    types: tuple[str, ...] = ()
    """The types on the wire that an item of this class can have; none means all others."""

    def __init__(self, transcript: Transcript, data: Mapping[str, Any]) -> None:
        self.type = text_at(data, "type")
        self.id = text_at(data, "id")
        self.call_id = text_at(data, "call_id")
        self.is_done = False
        self._is_cut = False
        self._transcript = transcript

    def end(self, data: Mapping[str, Any], *, is_cut: bool = False) -> None:
        """Take the item as it is at its end; what comes for it later is dropped.

        *is_cut* says that the answer was cut and may have cut the item.
        """
        if not self.is_done:
            self.is_done = True
            self._is_cut = is_cut or data.get("status") == "incomplete"
            self._end(data)

    def _end(self, data: Mapping[str, Any]) -> None:
        self._transcript.part(tables.NAME, dict(data))


class MessageItemReader(Item):
    """An item that says something in numbered parts; reasoning have a blank line between them."""

    _is_thinking = False

    def __init__(self, transcript: Transcript, data: Mapping[str, Any]) -> None:
        super().__init__(transcript, data)
        self._passage = transcript.thinking() if self._is_thinking else transcript.text()
        self._spoken: set[tuple[str, int]] = set()  # the parts that have said something
        self._last = ("", 0)  # the part that said something last

    def add(self, kind: str, index: int, text: str) -> None:
        """Add to what part *index* of the list *kind* says."""
        if not text:
            return
        key = (kind, index)
        if key != self._last:
            if self._spoken and self._is_thinking:
                self._passage.add(_BETWEEN)
            self._last = key
            self._spoken.add(key)
        self._passage.add(text)

    def add_whole(self, kind: str, index: int, text: str) -> None:
        """Take the whole text of a part, if it has said nothing so far."""
        if (kind, index) not in self._spoken:
            self.add(kind, index, text)

    def _add_parts(self, data: Mapping[str, Any], kind: str) -> None:
        """Take the parts of the list *kind*, if none of them has said anything so far."""
        if all(key[0] != kind for key in self._spoken):
            for index, part in enumerate(objects(data.get(kind))):
                self.add(kind, index, text_of_part(part))


class MessageItem(MessageItemReader):
    """A message: one passage of text, whatever parts it comes in."""

    types = ("message",)

    def __init__(self, transcript: Transcript, data: Mapping[str, Any]) -> None:
        super().__init__(transcript, data)
        self.annotations: list[Any] = []

    def _end(self, data: Mapping[str, Any]) -> None:
        self._add_parts(data, "content")
        self._passage.close(item_id(text_at(data, "id") or self.id, text_at(data, "phase")))
        annotations = annotations_in(data.get("content")) or self.annotations
        if annotations:
            self._transcript.part(tables.NAME, {"type": ANNOTATIONS, ANNOTATIONS: annotations})


class RefusalItem(Item):
    """The message of ours that says why the answer ends as refused: no text, but the reason."""

    types = ("message",)
    reason = ""

    def _end(self, data: Mapping[str, Any]) -> None:
        self.reason = "".join(text_of_part(part) for part in objects(data.get("content")))


class ReasoningItem(MessageItemReader):
    """Thoughts: a summary in parts, or the reasoning itself; the whole item is the signature."""

    types = ("reasoning",)
    _is_thinking = True

    def _end(self, data: Mapping[str, Any]) -> None:
        self._add_parts(data, "summary")
        self._add_parts(data, "content")
        self._passage.close(signature_of(data))


class CallItem(Item):
    """A call; its arguments may come at its beginning, in deltas, or whole at either end."""

    types = ("function_call",)

    def __init__(self, transcript: Transcript, data: Mapping[str, Any]) -> None:
        super().__init__(transcript, data)
        self._call = transcript.call(text_at(data, "name"), item_id(self.call_id, self.id))
        self._first = _sound(arguments_of(data))
        self._final = ""
        self._is_repeated = False

    def add(self, arguments: str) -> None:
        """Add a delta; arguments that the item began with count, unless they were whole."""
        if arguments == "null" and not self._call.arguments:
            return
        if arguments and self._first:
            first, self._first = self._first, ""
            if not _is_object(first):
                self._call.add(first)
        self._call.add(arguments)

    def repeat(self, data: Mapping[str, Any]) -> None:
        """Take the arguments when they are said to be done, which is once."""
        if not self._is_repeated and not self.is_done:
            self._is_repeated = True
            self.add_whole(data)

    def add_whole(self, data: Mapping[str, Any]) -> None:
        """Take the arguments that are repeated whole, and a name that comes late."""
        self._call.add_name(text_at(data, "name"))
        arguments, said = _sound(arguments_of(data)), self._call.arguments
        if not arguments.strip() or (arguments == "{}" and said.strip()):
            return  # Some servers forget at the end what they streamed.
        if arguments.startswith(said):
            self._call.add(arguments[len(said) :])
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
        is_lost = self._call.is_damaged or self._call.index < 0  # Without a name nobody runs it.
        self._call.close("" if is_lost else self._final)


class CustomCallItem(CallItem):
    """A call of a tool that takes free text: to us, an object with the text in it."""

    types = ("custom_tool_call",)

    def __init__(self, transcript: Transcript, data: Mapping[str, Any]) -> None:
        super().__init__(transcript, data)
        self._first = ""
        self._said: list[str] = []
        self.add(text_at(data, "input"))

    def add(self, arguments: str) -> None:
        """Add a piece of the text."""
        self._said.append(arguments)
        self._call.add_free_text(arguments)

    def add_whole(self, data: Mapping[str, Any]) -> None:
        """Take the text that is repeated whole, and a name that comes late."""
        self._call.add_name(text_at(data, "name"))
        text, said = _sound(text_at(data, "input")), _sound("".join(self._said))
        if text.startswith(said):
            self.add(text[len(said) :])
        elif text:
            self._final = f'{{"input": {_json.encode(text).decode()}}}'


_KINDS: Final = {
    type_: kind
    for kind in (MessageItem, ReasoningItem, CallItem, CustomCallItem)
    for type_ in kind.types
}


def begin_item(transcript: Transcript, data: Mapping[str, Any]) -> Item:
    """Begin the item that *data* is the first word of."""
    if text_at(data, "id").startswith(REFUSAL):
        return RefusalItem(transcript, data)
    return _KINDS.get(text_at(data, "type"), Item)(transcript, data)


def text_of_part(part: Mapping[str, Any]) -> str:
    """Return what a part of a message or of reasoning says."""
    return next((part[key] for key in _PART_TEXTS if isinstance(part.get(key), str)), "")


def annotations_in(content: object) -> list[Any]:
    """Return the notes on all parts of *content*."""
    found = [part.get(ANNOTATIONS) for part in objects(content)]
    return [note for notes in found if isinstance(notes, list) for note in notes]


def arguments_of(data: Mapping[str, Any]) -> str:
    """Return the arguments in *data* as JSON text, also where a server sends an object."""
    arguments = data.get("arguments")
    if isinstance(arguments, dict):
        return object_text(arguments)
    return arguments if isinstance(arguments, str) and arguments.strip() != "null" else ""


def signature_of(item: Mapping[str, Any]) -> str:
    """Return the signature of a reasoning *item*: what we sealed in it, or else the item itself."""
    sealed = item.get("encrypted_content")
    if isinstance(sealed, str) and sealed.startswith(SEALED):
        return sealed.removeprefix(SEALED)
    return _json.encode(dict(item)).decode() if item else ""


def item_id(*words: str) -> str:
    """Return an id of ours of what the API says in two: ``call_id|item_id``, ``item_id|phase``."""
    return "|".join(word for word in words if word)


def _sound(text: str) -> str:
    """Return *text* as the transcript has it once it has all of it."""
    whole, half = joined(text)
    return whole + "\ufffd" if half else whole


def objects(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list, and none of what is not a list."""
    for item in value if isinstance(value, list) else ():
        if isinstance(item, Mapping):
            yield item


def _is_object(text: str) -> bool:
    try:
        return isinstance(_json.decode_strict(text), dict)
    except JSONParseError:
        return False


_Data = Mapping[str, Any]
_Kind = TypeVar("_Kind", bound=Item)
_Source = tuple[type[MessageItemReader], str, str]
"""Whose text it is, the list of parts that it is in, and where its number in that is."""

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
    "response.completed": "completed",
    "response.done": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
"""The events that end an answer, and the status that they stand for."""

OTHERS: Final = {
    "response.created": "_read_begin",
    "response.queued": "_read_begin",
    "response.in_progress": "_read_begin",
    "response.output_item.added": "_read_added",
    "response.output_item.done": "_read_item_done",
    "response.content_part.done": "_read_part_done",
    "response.output_text.annotation.added": "_read_annotation",
}
"""All other events that mean something; the rest tell how far a server's own tools have come."""


class Decoder(StreamDecoder):
    """Bytes of a stream of response events in, events out."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._items: list[Item] = []
        self._by_id: dict[str, Item] = {}
        self._by_place: dict[int, Item] = {}
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
        elif kind in OTHERS:
            getattr(self, OTHERS[kind])(data)
        elif data.get("object") == "response":  # A whole answer.
            self._read_terminal(data, "completed")
        elif kind == "error" or data.get("error"):
            self._transcript.fail(tables.read_error(data.get("error") or data))

    # --- items ---

    def _find(self, id_: str, place: int | None) -> Item | None:
        """Find an item by its id, or by its place: some servers change ids as they go."""
        found = self._by_id.get(id_) if id_ else None
        return found or (None if place is None else self._by_place.get(place))

    def _begin(self, data: _Data, place: int | None) -> Item:
        item = begin_item(self._transcript, data)
        self._items.append(item)
        self._latest[type(item)] = item
        if item.id:
            self._by_id[item.id] = item
        if place is not None:
            self._by_place[place] = item
        return item

    def _item(self, data: _Data, kind: type[_Kind]) -> _Kind | None:
        """Return the item that *data* speaks of; one that nobody announced begins here.

        Where the place is another item's, the item of this kind that is open is meant.
        """
        id_, place = text_at(data, "item_id"), index_of(data, "output_index")
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
        item, place = object_at(data, "item"), index_of(data, "output_index")
        if item and not self._is_known(item, place):
            self._begin(item, place)

    def _is_known(self, data: _Data, place: int | None) -> bool:
        """Return whether an item was announced before: by its id, or the same call in its place."""
        id_, found = text_at(data, "id"), self._find(text_at(data, "id"), place)
        if found is None or found.type != text_at(data, "type"):
            return False
        is_same_call = bool(found.call_id) and found.call_id == text_at(data, "call_id")
        return found.id == id_ if id_ and found.id else is_same_call

    def _read_item_done(self, data: _Data) -> None:
        item, place = object_at(data, "item"), index_of(data, "output_index")
        if item:
            self._end_item(item, place)

    def _end_item(self, data: _Data, place: int | None) -> None:
        found = self._find(text_at(data, "id"), place)
        is_other = found is None or found.type != text_at(data, "type")
        if found is None or is_other or (found.is_done and not self._is_known(data, place)):
            found = self._begin(data, place)
        found.end(data)

    # --- what items say ---

    def _read_delta(
        self, data: _Data, kind: type[MessageItemReader], list_: str, index: str
    ) -> None:
        item, text = self._item(data, kind), data.get("delta")
        if item is not None and isinstance(text, str):
            item.add(list_, index_of(data, index) or 0, text)

    def _read_text(
        self, data: _Data, kind: type[MessageItemReader], list_: str, index: str
    ) -> None:
        """Read a text that is repeated whole, by itself or in its part."""
        item = self._item(data, kind)
        if item is not None:
            text = text_of_part(object_at(data, "part") or data)
            item.add_whole(list_, index_of(data, index) or 0, text)

    def _read_part_done(self, data: _Data) -> None:
        is_thought = object_at(data, "part").get("type") == "reasoning_text"
        self._read_text(data, *(_REASONING if is_thought else _TEXT))

    def _read_annotation(self, data: _Data) -> None:
        item = self._item(data, MessageItem)
        if item is not None and data.get("annotation") is not None:
            item.annotations.append(data["annotation"])

    def _read_arguments(self, data: _Data, kind: type[CallItem]) -> None:
        item, delta = self._item(data, kind), data.get("delta")
        if item is not None and "delta" not in data:
            item.repeat(data)
        elif item is not None:
            item.add(delta if isinstance(delta, str) else arguments_of({"arguments": delta}))

    # --- the answer ---

    def _read_begin(self, data: _Data) -> None:
        response = object_at(data, "response")
        self._transcript.begin(text_at(response, "id"), text_at(response, "model"))

    def _read_terminal(self, response: _Data, status: str) -> None:
        """Read the end; the response's own status goes before the name of the event."""
        transcript = self._transcript
        transcript.begin(text_at(response, "id"), text_at(response, "model"))
        if isinstance(response.get("usage"), Mapping):
            transcript.usage = tables.read_usage(response["usage"])
        status = text_at(response, "status") or status
        if status not in tables.STOP | tables.LENGTH:
            transcript.fail(tables.read_failure(response, status), status)
            return
        is_cut = status in tables.LENGTH
        self._end_items(response, is_cut=is_cut)
        error = self._chosen_end(response, is_cut=is_cut)
        if error is not None:
            transcript.fail(error, status)
        else:
            transcript.done("length" if is_cut else "stop", status)

    def _chosen_end(self, response: _Data, *, is_cut: bool) -> ErrorInfo | None:
        """Return the refusal or the filter that ended the answer."""
        refusal = self._latest.get(RefusalItem)
        if isinstance(refusal, RefusalItem):
            return ErrorInfo(refusal.reason, "refusal")
        reason = text_at(object_at(response, "incomplete_details"), "reason")
        if is_cut and reason in tables.FILTER:
            return ErrorInfo(f"the provider ended the answer: {reason}", "filter", reason)
        return None

    def _end_items(self, response: _Data, *, is_cut: bool) -> None:
        """End what is open, and take what only the last event has; a call that is open was cut.

        Items are matched by id, else each with the next of its type: ids and places may lie.
        """
        by_call = {item.call_id: item for item in self._items if item.call_id}
        unmatched: dict[str, dict[Item, None]] = {}  # the next of each type is the last here
        for item in reversed(self._items):
            unmatched.setdefault(item.type, {})[item] = None
        for data in objects(response.get("output")):
            type_ = text_at(data, "type")
            alike = unmatched.get(type_, {})
            found = self._by_id.get(text_at(data, "id")) or by_call.get(text_at(data, "call_id"))
            if found is None or found.type != type_:
                found = _next_like(data, alike) or self._begin(data, None)
            alike.pop(found, None)
            found.end(data, is_cut=is_cut)
        for item in self._items:
            if isinstance(item, MessageItemReader | CallItem):
                item.end({}, is_cut=is_cut)

    def _read_done(self) -> None:
        """Read the mark of a server that never named its end; without any item it was cut."""
        if self._items:
            self._end_items({}, is_cut=False)
            self._transcript.done("stop")
        else:
            self.fail_truncated()

    def _read_whole(self, data: dict[str, Any]) -> AssistantMessage | ErrorInfo | None:
        if data.get("object") == "response" or isinstance(data.get("output"), list):
            return read_response({**data, "object": "response"})
        return tables.read_error(data["error"]) if data.get("error") else None


def _next_like(data: _Data, alike: dict[Item, None]) -> Item | None:
    """Return the next of *alike* that may be what *data* is: two calls with ids are never one."""
    id_ = text_at(data, "call_id")
    candidates = (item for item in reversed(alike) if not id_ or item.call_id in ("", id_))
    return next(candidates, None)
