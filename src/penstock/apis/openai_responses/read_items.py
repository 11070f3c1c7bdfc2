"""The items of an answer as they grow: messages, thoughts, calls, and all that others run.

An item is told of its deltas, of texts that are repeated whole, and of its end. Servers leave out
any of the three: what the deltas did not say is taken from the whole, and what they said is never
said again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock import _json
from penstock.apis.arguments import object_text
from penstock.apis.openai_responses import tables
from penstock.apis.openai_responses.write_items import ANNOTATIONS, REFUSAL, SEALED
from penstock.apis.passages import joined
from penstock.apis.reading import object_at, text_at
from penstock.apis.transcript import Transcript
from penstock.errors import JSONParseError

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


class SpokenItem(Item):
    """An item that says something in numbered parts; thoughts have a blank line between them."""

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


class MessageItem(SpokenItem):
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


class ReasoningItem(SpokenItem):
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
    """Give what a part of a message or of reasoning says."""
    return next((part[key] for key in _PART_TEXTS if isinstance(part.get(key), str)), "")


def annotations_in(content: object) -> list[Any]:
    """Give the notes on all parts of *content*."""
    found = [part.get(ANNOTATIONS) for part in objects(content)]
    return [note for notes in found if isinstance(notes, list) for note in notes]


def arguments_of(data: Mapping[str, Any]) -> str:
    """Give the arguments in *data* as JSON text, also where a server sends an object."""
    arguments = data.get("arguments")
    if isinstance(arguments, dict):
        return object_text(arguments)
    return arguments if isinstance(arguments, str) and arguments.strip() != "null" else ""


def signature_of(item: Mapping[str, Any]) -> str:
    """Give the signature of a reasoning *item*: what we sealed in it, or else the item itself."""
    sealed = item.get("encrypted_content")
    if isinstance(sealed, str) and sealed.startswith(SEALED):
        return sealed.removeprefix(SEALED)
    return _json.encode(dict(item)).decode() if item else ""


def item_id(*words: str) -> str:
    """Give an id of ours of what the API says in two: ``call_id|item_id``, ``item_id|phase``."""
    return "|".join(word for word in words if word)


def _sound(text: str) -> str:
    """Give *text* as the transcript has it once it has all of it."""
    whole, half = joined(text)
    return whole + "\ufffd" if half else whole


def objects(value: object) -> Iterator[Mapping[str, Any]]:
    """Give the objects of a list, and none of what is no list."""
    for item in value if isinstance(value, list) else ():
        if isinstance(item, Mapping):
            yield item


def _is_object(text: str) -> bool:
    try:
        return isinstance(_json.decode_strict(text), dict)
    except JSONParseError:
        return False
