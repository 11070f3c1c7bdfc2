"""The grammar of a stream of the Responses API.

It is independent of the encoder: it reads bytes as a strict client does and lists what such a
client would reject. The end of an item must repeat its deltas.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.conformance import CheckReport, is_count, is_one_of, is_text, read_objects

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
"""The events of items, without the prefix ``response.``."""

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
# The fields of a response: required, required but nullable, and optional.
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

_LISTS: Final = {"message": "content", "reasoning": "summary"}
_PREFIXES: Final = {"message": "msg_", "reasoning": "rs_", "function_call": "fc_"}


class CheckedItem:
    """An item: its start, its events and its end."""

    def __init__(self, first: dict[str, Any], report: CheckReport) -> None:
        self.report = report
        self.first = first
        self.type = first.get("type")
        self.is_done = False
        self.final: dict[str, Any] = {**first, "status": "incomplete"}
        self.parts: list[dict[str, Any]] = []
        self.open = ""  # the kind of the open part
        self.texts: list[str] = []  # of the parts
        self.has_text_done = True
        self.deltas = ""
        self.whole: str | None = None  # the arguments of `arguments.done`
        self.check_first()

    @property
    def is_call(self) -> bool:
        """Whether a client would run it."""
        return self.type in _CALLS

    def check_first(self) -> None:
        """Check how the item was added."""
        report, first = self.report, self.first
        id_ = first.get("id")
        report.require(isinstance(id_, str) and id_ != "", "an item has no id")
        prefix = _PREFIXES.get(str(self.type))
        if prefix:
            is_good = str(id_).startswith(prefix) and len(str(id_)) <= _MAX_ID
            report.require(is_good, f"the id of a {self.type} is {id_!r}")
        if self.type == "message":
            is_good = first.get("role") == "assistant" and first.get("status") == "in_progress"
            report.require(is_good, "a message is not the assistant's, in progress")
        if self.type in _LISTS:
            report.require(first.get(_LISTS[str(self.type)]) == [], "an item begins with parts")
        if self.is_call:
            for key in ("call_id", "name"):
                value = first.get(key)
                report.require(isinstance(value, str) and value != "", f"a call has no {key}")
            # The deltas are added to this text.
            report.require(first.get(_CALLS[str(self.type)]) == "", "a call begins with arguments")
            report.require(first.get("status") == "in_progress", "a call is not in progress")

    # --- its events ---

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
            self.report.require(number == len(notes), "annotation_index does not count")
            notes.append(data.get("annotation"))
        else:
            is_own = self.type in _LISTS or self.is_call
            self.report.require(not is_own, f"{event} of a {self.type}")

    def annotations(self) -> list[Any]:
        """Return the annotations of the last part."""
        notes = self.parts[-1].setdefault("annotations", []) if self.parts else []
        return notes if isinstance(notes, list) else []

    def read_part(self, kind: str, verb: str, data: dict[str, Any]) -> None:
        """Read the start or the end of a part."""
        report, part = self.report, data.get("part")
        if not isinstance(part, dict):
            report.add("a part is not an object")
            return
        number = len(self.parts) - (verb == "done")
        report.require(data.get(_PART_EVENTS[kind]) == number, f"the index of {kind} is off")
        if verb == "added":
            report.require(not self.open, "a part begins before the last is done")
            self.open, self.has_text_done = kind, False
            self.parts.append(part)
            self.texts.append("")
            report.require(_part_text(part) == "", "a part begins with text")
            is_good = part.get("type") != "output_text" or part.get("annotations") == []
            report.require(is_good, "a part begins without its annotations")
        else:
            report.require(self.open == kind, "a part is done that is not open")
            report.require(self.has_text_done, "a part is done before its text is")
            expected = self.parts[-1] if self.parts else {}
            is_same = {**part, "text": "", "refusal": ""} == {**expected, "text": "", "refusal": ""}
            # The type and the annotations of a part are those of its start, with the annotations
            # that were added.
            report.require(is_same, "a part changes")
            text = self.texts[-1] if self.texts else ""
            report.require(_part_text(part) == text, "a part differs from its deltas")
            self.open = ""
            if self.parts:
                self.parts[-1] = part

    def read_text(self, kind: str, verb: str, data: dict[str, Any]) -> None:
        """Read a delta or the end of the text of a part."""
        report = self.report
        index, type_, field = _TEXT_EVENTS[kind]
        is_open = bool(self.open) and self.parts[-1].get("type") == type_
        if not is_open or data.get(index) != len(self.parts) - 1:
            report.add(f"{kind}.{verb} of a part that is not open")
            return
        report.require(not self.has_text_done, f"{kind}.{verb} of a text that is done")
        text = data.get("delta" if verb == "delta" else field)
        report.require(isinstance(text, str), f"{kind}.{verb} has no text")
        if kind == "output_text":
            # Required by OpenAI's types, and empty unless a client asked for them.
            report.require(isinstance(data.get("logprobs"), list), "logprobs are not a list")
        if verb == "delta":
            self.texts[-1] += str(text)
        else:
            report.require(text == self.texts[-1], f"{kind}.done differs from its deltas")
            self.has_text_done = True

    def read_arguments(self, kind: str, verb: str, data: dict[str, Any]) -> None:
        """Read a delta or the end of the arguments of a call."""
        report = self.report
        report.require(self.type == _CALL_EVENTS[kind], f"{kind} of a {self.type}")
        report.require(self.whole is None, "arguments follow those that were done")
        text = data.get("delta" if verb == "delta" else _CALLS.get(str(self.type), ""))
        report.require(isinstance(text, str), f"{kind}.{verb} has no text")
        if not self.is_call:
            return
        if verb == "delta":
            self.deltas += str(text)
            self.final[_CALLS[str(self.type)]] = self.deltas
        else:
            self.whole = str(text)

    # --- the end ---

    def read_done(self, item: Any) -> None:
        """Read the end of the item."""
        report = self.report
        report.require(not self.is_done, "an item is done twice")
        self.is_done = True
        if not isinstance(item, dict):
            report.add("an item that is done is not an object")
            return
        for key in ("id", "type", "call_id", "name", "role"):
            report.require(item.get(key) == self.first.get(key), f"the {key} of an item changes")
        is_cut = item.get("status") == "incomplete"
        report.require(not self.open or is_cut, "an item is done before its part is")
        if self.type in _LISTS:
            parts = item.get(_LISTS[str(self.type)])
            report.require(self.matches(parts, is_cut=is_cut), "an item differs from its events")
        if self.is_call:
            self.check_call(item)
        if self.type == "message" or self.is_call:
            is_good = item.get("status") in ("completed", "incomplete")
            report.require(is_good, f"the status of a {self.type} that is done")
        self.final = item

    def matches(self, parts: Any, *, is_cut: bool) -> bool:
        """Return whether *parts* match the events; the last part of a cut item may be open."""
        if not is_cut or not isinstance(parts, list):
            return bool(parts == self.parts)
        return [_part_text(part) for part in parts if isinstance(part, dict)] == self.texts

    def check_call(self, item: dict[str, Any]) -> None:
        """Check the end of a call; its arguments may repair those of the deltas."""
        report, arguments = self.report, item.get(_CALLS[str(self.type)])
        report.require(item.get("status") != "incomplete", "a call that was cut is done")
        report.require(self.whole == arguments, "a call's arguments are not those that were done")
        report.require(bool(self.deltas) or not arguments, "a call's arguments have no deltas")

    def check_completed(self) -> None:
        """Check an item of a completed response."""
        if self.type == "function_call":
            self.report.require_object(str(self.final.get("arguments")))


def _part_text(part: dict[str, Any]) -> object:
    return part.get("refusal" if part.get("type") == "refusal" else "text")


def check_response(response: dict[str, Any], report: CheckReport) -> None:
    """Check the fields that every response has."""
    report.require(response.get("object") == "response", "a response of another object")
    report.require(is_text(response.get("id")), "a response has no id")
    for key, kinds in _FIELDS.items():
        report.require(isinstance(response.get(key), kinds), f"a response has no {key}")
    for key in _NULLABLE:
        report.require(key in response, f"a response has no {key}")
    for key, kinds in (_NULLABLE | _OPTIONAL).items():
        value = response.get(key)
        is_good = value is None or isinstance(value, kinds)
        report.require(is_good, f"the {key} of a response is {value!r}")


def check_usage(usage: Any, report: CheckReport) -> None:
    """Check that *usage* has every count."""
    fields = usage if isinstance(usage, dict) else {}
    for key in ("input_tokens", "output_tokens", "total_tokens"):
        report.require(is_count(fields.get(key)), f"usage has no {key}")
    for key, inner in (
        ("input_tokens_details", "cached_tokens"),
        ("output_tokens_details", "reasoning_tokens"),
    ):
        details = fields.get(key)
        is_good = isinstance(details, dict) and is_count(details.get(inner))
        report.require(is_good, f"usage has no {inner}")


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
    """List every way in which the stream *data* violates the grammar."""
    return _Checker().check(data)


class _Checker:
    def __init__(self) -> None:
        self.report = CheckReport()
        self.number = 0
        self.identity: tuple[Any, Any] | None = None
        self.end = ""
        self.items: list[CheckedItem] = []
        self.taken: set[tuple[str, str]] = set()  # ids of items and of calls

    def check(self, data: bytes) -> list[str]:
        report = self.report
        for frame, event in read_objects(data, report):
            if frame.data == "[DONE]":  # Not part of the API, but clients accept it.
                report.require(bool(self.end), "[DONE] precedes the end")
                continue
            type_ = event.get("type")
            report.require(not self.end, "something follows the end")
            report.require(frame.event == type_, "a frame is not named by its event's type")
            # Clients that resume a background response ask for what follows a number.
            report.require(event.get("sequence_number") == self.number, "numbers do not count")
            self.number += 1
            self.read(str(type_), event)
        report.require(bool(self.end), "there is no terminal event")
        return report.found

    def read(self, type_: str, event: dict[str, Any]) -> None:
        if type_ in _BEGINNINGS or type_ in _ENDS:
            self.read_response(type_, event.get("response"))
        elif type_ == "error":
            self.report.require(isinstance(event.get("message"), str), "an error has no message")
            self.end = "failed"
        elif type_ == "response.output_item.added":
            self.read_added(event)
        elif type_.startswith("response."):
            self.read_item_event(type_.removeprefix("response."), event)
        else:
            self.report.add(f"an event of type {type_!r}")

    # --- the response ---

    def read_response(self, type_: str, response: Any) -> None:
        report = self.report
        if not isinstance(response, dict):
            report.add(f"{type_} has no response")
            return
        check_response(response, report)
        identity = (response.get("id"), response.get("model"))
        if self.identity is None:
            report.require(type_ == "response.created", "response.created does not come first")
            self.identity = identity
        # The id is the `previous_response_id` of the next request.
        report.require(self.identity == identity, "the response's id or model changes")
        if type_ in _BEGINNINGS:
            report.require(response.get("status") in _BEGINNINGS[type_], f"the status of {type_}")
            report.require(not self.items, f"{type_} follows an item")
            # SDKs start from this object and append the items as they are added.
            report.require(response.get("output") == [], f"{type_} has output")
        else:
            self.end = _ENDS[type_]
            report.require(response.get("status") == self.end, f"the status of {type_}")
            self.read_end(response)

    def read_end(self, response: dict[str, Any]) -> None:
        report = self.report
        output = response.get("output")
        items = [item.final for item in self.items]
        # ChatGPT's own backend never repeats the output, and its clients do not need it.
        report.require(output in (items, []), "output differs from the items")
        if self.end != "failed":
            check_usage(response.get("usage"), report)
        error = response.get("error")
        if self.end == "failed":
            words = (
                [error.get(key) for key in ("code", "message")] if isinstance(error, dict) else []
            )
            report.require(bool(words) and all(isinstance(w, str) for w in words), "no error")
        else:
            report.require(error is None, "an error in a response that did not fail")
        details = response.get("incomplete_details")
        # Running into `max_output_tokens` ends with `response.incomplete`, never with
        # `response.completed`.
        if self.end == "incomplete":
            reason = details.get("reason") if isinstance(details, dict) else None
            report.require(is_one_of(reason, _REASONS), f"a response is incomplete for {reason!r}")
        else:
            report.require(
                details is None, "incomplete_details in a response that is not incomplete"
            )
        if self.end == "completed":
            for item in self.items:
                report.require(item.is_done, "an item of a completed response is not done")
                item.check_completed()

    # --- items ---

    def read_added(self, event: dict[str, Any]) -> None:
        report, data = self.report, event.get("item")
        report.require(self.identity is not None, "response.created does not come first")
        report.require(event.get("output_index") == len(self.items), "output_index does not count")
        if not isinstance(data, dict) or not isinstance(data.get("type"), str):
            report.add("an item has no type")
            data = {}
        if self.items:
            last = self.items[-1]
            # Only calls run side by side, their deltas distinguished by `output_index`.
            report.require(last.is_done or last.is_call, "an item begins before the last is done")
        item = CheckedItem(data, report)
        self.items.append(item)
        for key in ("id", "call_id") if item.is_call else ("id",):
            id_ = (key, str(data.get(key)))
            report.require(id_ not in self.taken, f"two items have one {key}")
            self.taken.add(id_)

    def read_item_event(self, type_: str, event: dict[str, Any]) -> None:
        report, place = self.report, event.get("output_index")
        if not isinstance(place, int) or not 0 <= place < len(self.items):
            # An unknown event may be about anything.
            report.require(type_ not in EVENTS, f"{type_} of an item that was not added")
            return
        item = self.items[place]
        if type_ == "output_item.done":
            item.read_done(event.get("item"))
            return
        # OpenAI's SDK finds an item by `output_index`, other clients by its id: both must name the
        # same one.
        report.require(event.get("item_id") == item.first.get("id"), f"{type_} of another item_id")
        report.require(not item.is_done, f"{type_} of an item that is done")
        item.read(type_, event)
