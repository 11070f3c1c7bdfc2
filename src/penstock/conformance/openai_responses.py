"""The grammar of a stream of response events, checked from the outside.

Knows nothing of the encoder: it reads bytes as a strict client does and lists what one of them
would stumble over. Items are checked by what was said of them in between: what is done repeats it.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.conformance.base import Complaints, is_count, is_text, is_word_of, objects_of

# What the grammar says of one item, of the response around it, and of its usage.


_MAX_ID: Final = 64
_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
_CALL_EVENTS: Final = {
    "function_call_arguments": "function_call",
    "custom_tool_call_input": "custom_tool_call",
}
_PART_EVENTS: Final = {
    "content_part": "content_index",
    "reasoning_summary_part": "summary_index",
}
_TEXT_EVENTS: Final = {
    "output_text": ("content_index", "output_text", "text"),
    "refusal": ("content_index", "refusal", "refusal"),
    "reasoning_text": ("content_index", "reasoning_text", "text"),
    "reasoning_summary_text": ("summary_index", "summary_text", "text"),
}
EVENTS: Final = frozenset(
    {
        "output_item.done",
        "output_text.annotation.added",
        *(f"{kind}.{verb}" for kind in _PART_EVENTS for verb in ("added", "done")),
        *(f"{kind}.{verb}" for kind in _TEXT_EVENTS for verb in ("delta", "done")),
        *(f"{kind}.{verb}" for kind in _CALL_EVENTS for verb in ("delta", "done")),
    }
)
"""The events that are of an item, without what all of them begin with."""

_NUMBER: Final = (int, float)
_FIELDS: Final[dict[str, tuple[type, ...]]] = {
    "created_at": _NUMBER,
    "model": (str,),
    "output": (list,),
    "parallel_tool_calls": (bool,),
    "tools": (list,),
    "tool_choice": (str, dict),
}
_NULLABLE: Final[dict[str, tuple[type, ...]]] = {
    "error": (dict,),
    "incomplete_details": (dict,),
    "instructions": (str, list),
    "metadata": (dict,),
    "temperature": _NUMBER,
    "top_p": _NUMBER,
}
_OPTIONAL: Final[dict[str, tuple[type, ...]]] = {
    "background": (bool,),
    "max_output_tokens": (int,),
    "previous_response_id": (str,),
    "reasoning": (dict,),
    "store": (bool,),
    "text": (dict,),
    "truncation": (str,),
    "usage": (dict,),
    "user": (str,),
}
"""The fields of a response: those with a value, those that may be `null`, those that may lack."""

_LISTS: Final = {"message": "content", "reasoning": "summary"}
_PREFIXES: Final = {"message": "msg_", "reasoning": "rs_", "function_call": "fc_"}


class CheckedItem:
    """An item: as it was added, what was said of it, and as it was done."""

    def __init__(self, first: dict[str, Any], complain: Complaints) -> None:
        self.complain = complain
        self.first = first
        self.type = first.get("type")
        self.is_done = False
        self.final: dict[str, Any] = {**first, "status": "incomplete"}
        self.parts: list[dict[str, Any]] = []
        self.open = ""  # which part event is yet to be done
        self.texts: list[str] = []  # of the parts
        self.has_text_done = True
        self.deltas = ""
        self.whole: str | None = None  # the arguments when they were done
        self.check_first()

    @property
    def is_call(self) -> bool:
        """Whether a client would run it."""
        return self.type in _CALLS

    def check_first(self) -> None:
        """Check how the item was added."""
        complain, first = self.complain, self.first
        id_ = first.get("id")
        complain.unless(isinstance(id_, str) and id_ != "", "an item has no id")
        prefix = _PREFIXES.get(str(self.type))
        if prefix:
            is_good = str(id_).startswith(prefix) and len(str(id_)) <= _MAX_ID
            complain.unless(is_good, f"the id of a {self.type} is {id_!r}")
        if self.type == "message":
            is_good = first.get("role") == "assistant" and first.get("status") == "in_progress"
            complain.unless(is_good, "a message is not the assistant's, in progress")
        if self.type in _LISTS:
            complain.unless(first.get(_LISTS[str(self.type)]) == [], "an item begins with parts")
        if self.is_call:
            for key in ("call_id", "name"):
                value = first.get(key)
                complain.unless(isinstance(value, str) and value != "", f"a call has no {key}")
            complain.unless(first.get(_CALLS[str(self.type)]) == "", "a call begins with arguments")
            complain.unless(first.get("status") == "in_progress", "a call is not in progress")

    # --- what is said of it ---

    def read(self, event: str, data: dict[str, Any]) -> None:
        """Read one event of the item."""
        kind, _, verb = event.rpartition(".")
        if kind in _PART_EVENTS:
            self.read_part(kind, verb, data)
        elif kind in _TEXT_EVENTS:
            self.read_text(kind, verb, data)
        elif kind in _CALL_EVENTS:
            self.read_arguments(kind, verb, data)
        elif kind == "output_text.annotation":
            number, notes = data.get("annotation_index"), self.annotations()
            self.complain.unless(number == len(notes), "annotation_index does not count")
            notes.append(data.get("annotation"))
        else:
            is_own = self.type in _LISTS or self.is_call
            self.complain.unless(not is_own, f"{event} of a {self.type}")

    def annotations(self) -> list[Any]:
        """Return the notes on the last part."""
        notes = self.parts[-1].setdefault("annotations", []) if self.parts else []
        return notes if isinstance(notes, list) else []

    def read_part(self, kind: str, verb: str, data: dict[str, Any]) -> None:
        """Read that a part begins or is done."""
        complain, part = self.complain, data.get("part")
        if not isinstance(part, dict):
            complain("a part is no object")
            return
        number = len(self.parts) - (verb == "done")
        complain.unless(data.get(_PART_EVENTS[kind]) == number, f"the index of {kind} is off")
        if verb == "added":
            complain.unless(not self.open, "a part begins before the last is done")
            self.open, self.has_text_done = kind, False
            self.parts.append(part)
            self.texts.append("")
            complain.unless(_text_of(part) == "", "a part begins with text")
            is_good = part.get("type") != "output_text" or part.get("annotations") == []
            complain.unless(is_good, "a part begins without its annotations")
        else:
            complain.unless(self.open == kind, "a part is done that is not open")
            complain.unless(self.has_text_done, "a part is done before its text is")
            expected = self.parts[-1] if self.parts else {}
            is_same = {**part, "text": "", "refusal": ""} == {**expected, "text": "", "refusal": ""}
            complain.unless(is_same, "a part changes")
            said = self.texts[-1] if self.texts else ""
            complain.unless(_text_of(part) == said, "a part is not what was said")
            self.open = ""
            if self.parts:
                self.parts[-1] = part

    def read_text(self, kind: str, verb: str, data: dict[str, Any]) -> None:
        """Read a delta of a part's text, or that the text is done."""
        complain = self.complain
        index, type_, field = _TEXT_EVENTS[kind]
        is_open = bool(self.open) and self.parts[-1].get("type") == type_
        if not is_open or data.get(index) != len(self.parts) - 1:
            complain(f"{kind}.{verb} of a part that is not open")
            return
        complain.unless(not self.has_text_done, f"{kind}.{verb} of a text that is done")
        text = data.get("delta" if verb == "delta" else field)
        complain.unless(isinstance(text, str), f"{kind}.{verb} has no text")
        if kind == "output_text":
            complain.unless(isinstance(data.get("logprobs"), list), "logprobs are no list")
        if verb == "delta":
            self.texts[-1] += str(text)
        else:
            complain.unless(text == self.texts[-1], f"{kind}.done is not what was said")
            self.has_text_done = True

    def read_arguments(self, kind: str, verb: str, data: dict[str, Any]) -> None:
        """Read a delta of a call's arguments, or that they are done."""
        complain = self.complain
        complain.unless(self.type == _CALL_EVENTS[kind], f"{kind} of a {self.type}")
        complain.unless(self.whole is None, "arguments follow those that were done")
        text = data.get("delta" if verb == "delta" else _CALLS.get(str(self.type), ""))
        complain.unless(isinstance(text, str), f"{kind}.{verb} has no text")
        if not self.is_call:
            return
        if verb == "delta":
            self.deltas += str(text)
            self.final[_CALLS[str(self.type)]] = self.deltas
        else:
            self.whole = str(text)

    # --- the end ---

    def read_done(self, item: Any) -> None:
        """Read the item as it is done."""
        complain = self.complain
        complain.unless(not self.is_done, "an item is done twice")
        self.is_done = True
        if not isinstance(item, dict):
            complain("an item that is done is no object")
            return
        for key in ("id", "type", "call_id", "name", "role"):
            complain.unless(item.get(key) == self.first.get(key), f"the {key} of an item changes")
        is_cut = item.get("status") == "incomplete"
        complain.unless(not self.open or is_cut, "an item is done before its part is")
        if self.type in _LISTS:
            parts = item.get(_LISTS[str(self.type)])
            complain.unless(self.is_said(parts, is_cut=is_cut), "an item is not what was said")
        if self.is_call:
            self.check_call(item)
        if self.type == "message" or self.is_call:
            is_good = item.get("status") in ("completed", "incomplete")
            complain.unless(is_good, f"the status of a {self.type} that is done")
        self.final = item

    def is_said(self, parts: Any, *, is_cut: bool) -> bool:
        """Return whether *parts* are those that were said; one that was cut may not be done."""
        if not is_cut or not isinstance(parts, list):
            return bool(parts == self.parts)
        return [_text_of(part) for part in parts if isinstance(part, dict)] == self.texts

    def check_call(self, item: dict[str, Any]) -> None:
        """Check that a call is done with its arguments; they may repair what the deltas said."""
        complain, arguments = self.complain, item.get(_CALLS[str(self.type)])
        complain.unless(item.get("status") != "incomplete", "a call that was cut is done")
        complain.unless(self.whole == arguments, "a call's arguments are not those that were done")
        complain.unless(bool(self.deltas) or not arguments, "a call's arguments have no deltas")

    def check_completed(self) -> None:
        """Check what must be so in a response that a client acts on."""
        if self.type == "function_call":
            self.complain.unless_object(str(self.final.get("arguments")))


def _text_of(part: dict[str, Any]) -> object:
    return part.get("refusal" if part.get("type") == "refusal" else "text")


def of_response(response: dict[str, Any], complain: Complaints) -> None:
    """Check the fields that every response has."""
    complain.unless(response.get("object") == "response", "a response of another object")
    complain.unless(is_text(response.get("id")), "a response has no id")
    for key, kinds in _FIELDS.items():
        complain.unless(isinstance(response.get(key), kinds), f"a response has no {key}")
    for key in _NULLABLE:
        complain.unless(key in response, f"a response has no {key}")
    for key, kinds in (_NULLABLE | _OPTIONAL).items():
        value = response.get(key)
        is_good = value is None or isinstance(value, kinds)
        complain.unless(is_good, f"the {key} of a response is {value!r}")


def of_usage(usage: Any, complain: Complaints) -> None:
    """Check that *usage* has every count."""
    fields = usage if isinstance(usage, dict) else {}
    for key in ("input_tokens", "output_tokens", "total_tokens"):
        complain.unless(is_count(fields.get(key)), f"usage has no {key}")
    for key, inner in (
        ("input_tokens_details", "cached_tokens"),
        ("output_tokens_details", "reasoning_tokens"),
    ):
        details = fields.get(key)
        is_good = isinstance(details, dict) and is_count(details.get(inner))
        complain.unless(is_good, f"usage has no {inner}")


_ENDS: Final = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
_BEGINNINGS: Final = {
    "response.created": ("in_progress", "queued"),
    "response.queued": ("queued",),
    "response.in_progress": ("in_progress",),
}
_REASONS: Final = {"max_output_tokens", "content_filter", "max_messages", "steered"}


def check(data: bytes) -> list[str]:
    """List every way in which the stream *data* breaks the grammar."""
    return _Checker().check(data)


class _Checker:
    def __init__(self) -> None:
        self.complain = Complaints()
        self.number = 0
        self.identity: tuple[Any, Any] | None = None
        self.end = ""
        self.items: list[CheckedItem] = []
        self.taken: set[tuple[str, str]] = set()  # ids of items and of calls

    def check(self, data: bytes) -> list[str]:
        complain = self.complain
        for frame, event in objects_of(data, complain):
            if frame.data == "[DONE]":  # No part of the API, but clients know it.
                complain.unless(bool(self.end), "[DONE] precedes the end")
                continue
            type_ = event.get("type")
            complain.unless(not self.end, "something follows the end")
            complain.unless(frame.event == type_, "a frame is not named by its event's type")
            complain.unless(event.get("sequence_number") == self.number, "numbers do not count")
            self.number += 1
            self.read(str(type_), event)
        complain.unless(bool(self.end), "there is no terminal event")
        return complain.found

    def read(self, type_: str, event: dict[str, Any]) -> None:
        if type_ in _BEGINNINGS or type_ in _ENDS:
            self.read_response(type_, event.get("response"))
        elif type_ == "error":
            self.complain.unless(isinstance(event.get("message"), str), "an error has no message")
            self.end = "failed"
        elif type_ == "response.output_item.added":
            self.read_added(event)
        elif type_.startswith("response."):
            self.read_item_event(type_.removeprefix("response."), event)
        else:
            self.complain(f"an event of type {type_!r}")

    # --- the response ---

    def read_response(self, type_: str, response: Any) -> None:
        complain = self.complain
        if not isinstance(response, dict):
            complain(f"{type_} has no response")
            return
        of_response(response, complain)
        identity = (response.get("id"), response.get("model"))
        if self.identity is None:
            complain.unless(type_ == "response.created", "response.created does not come first")
            self.identity = identity
        complain.unless(self.identity == identity, "the response's id or model changes")
        if type_ in _BEGINNINGS:
            complain.unless(response.get("status") in _BEGINNINGS[type_], f"the status of {type_}")
            complain.unless(not self.items, f"{type_} follows an item")
            complain.unless(response.get("output") == [], f"{type_} has output")
        else:
            self.end = _ENDS[type_]
            complain.unless(response.get("status") == self.end, f"the status of {type_}")
            self.read_end(response)

    def read_end(self, response: dict[str, Any]) -> None:
        complain = self.complain
        output = response.get("output")
        said = [item.final for item in self.items]
        # One server (the one after ChatGPT) never repeats it, and its clients do not wait for it.
        complain.unless(output in (said, []), "output is not what was said")
        if self.end != "failed":
            of_usage(response.get("usage"), complain)
        error = response.get("error")
        if self.end == "failed":
            words = (
                [error.get(key) for key in ("code", "message")] if isinstance(error, dict) else []
            )
            complain.unless(bool(words) and all(isinstance(w, str) for w in words), "no error")
        else:
            complain.unless(error is None, "an error in a response that did not fail")
        details = response.get("incomplete_details")
        if self.end == "incomplete":
            reason = details.get("reason") if isinstance(details, dict) else None
            complain.unless(
                is_word_of(reason, _REASONS), f"a response is incomplete for {reason!r}"
            )
        else:
            complain.unless(details is None, "details of what is not incomplete")
        if self.end == "completed":
            for item in self.items:
                complain.unless(item.is_done, "an item of a completed response is not done")
                item.check_completed()

    # --- items ---

    def read_added(self, event: dict[str, Any]) -> None:
        complain, data = self.complain, event.get("item")
        complain.unless(self.identity is not None, "response.created does not come first")
        complain.unless(event.get("output_index") == len(self.items), "output_index does not count")
        if not isinstance(data, dict) or not isinstance(data.get("type"), str):
            complain("an item has no type")
            data = {}
        if self.items:
            last = self.items[-1]
            complain.unless(last.is_done or last.is_call, "an item begins before the last is done")
        item = CheckedItem(data, complain)
        self.items.append(item)
        for key in ("id", "call_id") if item.is_call else ("id",):
            id_ = (key, str(data.get(key)))
            complain.unless(id_ not in self.taken, f"two items have one {key}")
            self.taken.add(id_)

    def read_item_event(self, type_: str, event: dict[str, Any]) -> None:
        complain, place = self.complain, event.get("output_index")
        if not isinstance(place, int) or not 0 <= place < len(self.items):
            # What nobody knows may be of anything.
            complain.unless(type_ not in EVENTS, f"{type_} of an item that was not added")
            return
        item = self.items[place]
        if type_ == "output_item.done":
            item.read_done(event.get("item"))
            return
        complain.unless(event.get("item_id") == item.first.get("id"), f"{type_} of another item_id")
        complain.unless(not item.is_done, f"{type_} of an item that is done")
        item.read(type_, event)
