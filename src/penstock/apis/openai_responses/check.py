"""The grammar of a stream of response events, checked from the outside.

Knows nothing of the encoder: it reads bytes as a strict client does and lists what one of them
would stumble over. Items are checked by what was said of them in between: what is done repeats it.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.apis.checking import Complaints, is_word_of, objects_of
from penstock.apis.openai_responses.check_items import EVENTS, Item, of_response, of_usage

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
        self.items: list[Item] = []
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
        # One server (the one behind ChatGPT) never repeats it, and its clients do not wait for it.
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
        item = Item(data, complain)
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
