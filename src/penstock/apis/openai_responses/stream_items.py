"""The life of an item on the wire: announced, told piece by piece, done.

The pen numbers events and places, and keeps the output that the last event repeats. An item that is
done joins the output; a call that was cut joins it as incomplete and is never done, since clients
run what is done.
"""

from __future__ import annotations

from typing import Any, ClassVar

from penstock import _json
from penstock.apis.arguments import ArgumentsOut
from penstock.apis.openai_responses.write_items import (
    filled,
    message_item,
    reasoning_item,
    text_part,
)
from penstock.messages import ToolCall


class Pen:
    """Writes events with the numbers that the API counts them by."""

    def __init__(self) -> None:
        self.number = 0
        self.places = 0
        self.output: list[dict[str, Any]] = []

    def write(self, type_: str, **fields: Any) -> bytes:
        """Write one event."""
        data = {"type": type_, "sequence_number": self.number, **fields}
        self.number += 1
        return b"event: %b\ndata: %b\n\n" % (type_.encode(), _json.encode_wire(data))

    def write_whole(self, item: dict[str, Any]) -> bytes:
        """Write an item that nothing is told of in between."""
        place = self.places
        self.places += 1
        self.output.append(item)
        added = self.write("response.output_item.added", output_index=place, item=item)
        return added + self.write("response.output_item.done", output_index=place, item=item)


class OpenItem:
    """An item that was announced and is not done."""

    def __init__(self, pen: Pen, item: dict[str, Any]) -> None:
        self.item = item
        self._pen = pen
        self._place = pen.places
        self._said: list[str] = []
        pen.places += 1

    def start(self) -> bytes:
        """Announce the item."""
        return self._pen.write(
            "response.output_item.added", output_index=self._place, item=self.item
        )

    def cut(self) -> bytes:
        """End the item where the answer was cut."""
        return b""

    def _write(self, event: str, **fields: Any) -> bytes:
        where = {"item_id": self.item["id"], "output_index": self._place}
        return self._pen.write(f"response.{event}", **where, **fields)

    def _done(self, item: dict[str, Any]) -> bytes:
        self._pen.output.append(item)
        return self._pen.write("response.output_item.done", output_index=self._place, item=item)


class SpokenItem(OpenItem):
    """An item that says something in its only part.

    A delta is the hot path: fixed bytes around the quoted text and the number of the event.
    """

    kind: ClassVar[str]
    """What its events are called by."""

    index: ClassVar[dict[str, int]]
    """The number of its part."""

    tail: ClassVar[bytes] = b',"sequence_number":'

    def __init__(self, pen: Pen, item: dict[str, Any]) -> None:
        super().__init__(pen, item)
        type_ = f"response.{self.kind}.delta"
        data = {"type": type_, "item_id": item["id"], "output_index": self._place, **self.index}
        head = _json.encode_wire(data).removesuffix(b"}")
        self._head = b'event: %b\ndata: %b,"delta":' % (type_.encode(), head)

    def add(self, text: str) -> bytes:
        """Write more of what the item says."""
        if not text:
            return b""
        self._said.append(text)
        number = self._pen.number
        self._pen.number = number + 1
        return self._head + _json.encode_text(text) + self.tail + b"%d}\n\n" % number

    def _write_part(self, event: str, **fields: Any) -> bytes:
        return self._write(event, **self.index, **fields)


class OpenMessage(SpokenItem):
    """A message with a text; it may be annotated until it is done."""

    kind = "output_text"
    index: ClassVar = {"content_index": 0}
    tail = b',"logprobs":[],"sequence_number":'

    def __init__(self, pen: Pen, id: str) -> None:  # noqa: A002 - the field's name
        super().__init__(pen, message_item(id, [], status="in_progress"))
        self._annotations: list[Any] = []
        self.signature = ""

    def start(self) -> bytes:
        """Announce the message and its part."""
        return super().start() + self._write_part("content_part.added", part=self._part(""))

    def annotate(self, annotations: list[Any]) -> bytes:
        """Write notes on the text."""
        events = []
        for note in annotations:
            number = len(self._annotations)
            self._annotations.append(note)
            events.append(
                self._write_part(
                    "output_text.annotation.added", annotation=note, annotation_index=number
                )
            )
        return b"".join(events)

    def end(self, status: str = "completed") -> bytes:
        """Write that the text, its part and the message are done."""
        text = "".join(self._said)
        part = self._part(text)
        item = message_item(self.item["id"], [part], self.signature, status)
        done = self._write_text_done(text) + self._write_part("content_part.done", part=part)
        return done + self._done(item)

    def cut(self) -> bytes:
        """End the message where the answer was cut."""
        return self.end("incomplete")

    def _part(self, text: str) -> dict[str, Any]:
        return text_part(text, self._annotations)

    def _write_text_done(self, text: str) -> bytes:
        return self._write_part("output_text.done", text=text, logprobs=[])


class OpenRefusal(OpenMessage):
    """A message that says why there is none."""

    kind = "refusal"
    tail = b',"sequence_number":'

    def _part(self, text: str) -> dict[str, Any]:
        return {"type": "refusal", "refusal": text}

    def _write_text_done(self, text: str) -> bytes:
        return self._write_part("refusal.done", refusal=text)


class OpenReasoning(SpokenItem):
    """Thoughts as a summary; without a thought there is no part of it."""

    kind = "reasoning_summary_text"
    index: ClassVar = {"summary_index": 0}

    def __init__(self, pen: Pen, id: str) -> None:  # noqa: A002 - the field's name
        super().__init__(pen, {"id": id, "type": "reasoning", "summary": []})

    def add(self, text: str) -> bytes:
        """Write more thoughts."""
        if text and not self._said:
            part = {"type": "summary_text", "text": ""}
            return self._write_part("reasoning_summary_part.added", part=part) + super().add(text)
        return super().add(text)

    def end(self, signature: str = "") -> bytes:
        """Write that the summary and the item are done."""
        text = "".join(self._said)
        item = reasoning_item(self.item["id"], text, signature)
        if not text:
            return self._done(item)
        done = self._write_part("reasoning_summary_text.done", text=text)
        (part,) = item["summary"]
        done += self._write_part("reasoning_summary_part.done", part=part)
        return done + self._done(item)

    def cut(self) -> bytes:
        """End the thoughts where the answer was cut."""
        return self.end()


class OpenCall(OpenItem):
    """A call; free text is told at once when it is known, since it comes wrapped in JSON."""

    def __init__(self, pen: Pen, item: dict[str, Any]) -> None:
        super().__init__(pen, item)
        self._arguments = ArgumentsOut()

    @property
    def _is_custom(self) -> bool:
        return bool(self.item["type"] == "custom_tool_call")

    def add(self, arguments: str) -> bytes:
        """Write more of the arguments."""
        return self._say(self._arguments.add(arguments))

    def _say(self, arguments: str) -> bytes:
        if not arguments:
            return b""
        self._said.append(arguments)
        if self._is_custom:
            return b""
        return self._write("function_call_arguments.delta", delta=arguments)

    def end(self, call: ToolCall) -> bytes:
        """Write that the call is done, with what the deltas left out; one that was cut is not."""
        if not call.complete:
            self._pen.output.append(filled(self.item, call, "".join(self._said)))
            return b""
        rest = self._say(self._arguments.end(call))
        item = filled(self.item, call, "".join(self._said))
        if self._is_custom:
            done = self._write_input(item["input"])
        else:
            done = self._write("function_call_arguments.done", arguments=item["arguments"])
        return rest + done + self._done(item)

    def cut(self) -> bytes:
        """Leave the call where the answer was cut."""
        return self.end(ToolCall("", self.item["name"], complete=False))

    def _write_input(self, text: str) -> bytes:
        delta = self._write("custom_tool_call_input.delta", delta=text) if text else b""
        return delta + self._write("custom_tool_call_input.done", input=text)
