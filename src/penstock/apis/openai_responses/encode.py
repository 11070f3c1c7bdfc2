"""Encode a stream of the Responses API.

One item follows another: events of a block wait until the blocks before it have ended. A message is
ended by the next event, since annotations may follow its text. A call that was cut is never done,
so that no client runs it. A failed response ends in ``response.failed`` alone, the one error that
clients accept as an end. A refusal is a message of its own, and a response with calls that ends in
one is incomplete, so that no client runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from penstock import _json
from penstock.apis.encoder import (
    BlockEvent,
    BlockSequencer,
    Ending,
    GuardedArguments,
    StreamEncoder,
)
from penstock.apis.fields import usage_or_estimate
from penstock.apis.openai_responses import tables
from penstock.apis.openai_responses.client_tools import NO_TOOLS, SEARCH_CALL, ClientTools
from penstock.apis.openai_responses.response import (
    REFUSAL,
    ItemIds,
    call_item,
    ending_fields,
    fill_call,
    find_annotations,
    foreign_item,
    incomplete_reason,
    make_response,
    message_item,
    reasoning_item,
    text_part,
)
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    Part,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import ErrorInfo, ToolCall, Usage


class EventWriter:
    """Writes events with their `sequence_number`, and keeps the output that the last one repeats.

    An item that is done is added to the output. A call that was cut is added as incomplete and
    never done, since clients run what is done.
    """

    def __init__(self) -> None:
        self.number = 0
        self.items = 0
        self.output: list[dict[str, Any]] = []

    def write(self, type_: str, **fields: Any) -> bytes:
        """Return the bytes of one event."""
        data = {"type": type_, "sequence_number": self.number, **fields}
        self.number += 1
        return b"event: %b\ndata: %b\n\n" % (type_.encode(), _json.encode_wire(data))

    # Every item has exactly one `added` and one `done`, and `output_index` counts items.
    def write_whole(self, item: dict[str, Any]) -> bytes:
        """Return the bytes of an item without events between its start and its end."""
        index = self.items
        self.items += 1
        self.output.append(item)
        added = self.write("response.output_item.added", output_index=index, item=item)
        return added + self.write("response.output_item.done", output_index=index, item=item)


class OpenItem:
    """An item that was announced and is not done."""

    def __init__(self, writer: EventWriter, item: dict[str, Any]) -> None:
        self.item = item
        self._writer = writer
        self._index = writer.items
        self._sent: list[str] = []
        writer.items += 1

    def start(self) -> bytes:
        """Return the event that announces the item."""
        return self._writer.write(
            "response.output_item.added", output_index=self._index, item=self.item
        )

    def cut(self) -> bytes:
        """End the item where the response was cut."""
        return b""

    def _write(self, event: str, **fields: Any) -> bytes:
        where = {"item_id": self.item["id"], "output_index": self._index}
        return self._writer.write(f"response.{event}", **where, **fields)

    def _done(self, item: dict[str, Any]) -> bytes:
        self._writer.output.append(item)
        return self._writer.write("response.output_item.done", output_index=self._index, item=item)


# A delta is the hot path: fixed bytes around the quoted text and the number of the event.
_NUMBER: Final = b',"sequence_number":'


def _delta_head(kind: str, id: str, output_index: int, **fields: int) -> bytes:  # noqa: A002
    """Return the bytes of a delta of *kind* before its text."""
    type_ = f"response.{kind}.delta"
    data = {"type": type_, "item_id": id, "output_index": output_index, **fields}
    head = _json.encode_wire(data).removesuffix(b"}")
    return b'event: %b\ndata: %b,"delta":' % (type_.encode(), head)


class OpenTextItem(OpenItem):
    """An item with text in its only part."""

    kind: ClassVar[str]
    """The name of its events."""

    index: ClassVar[dict[str, int]]
    """The field with the number of its part."""

    tail: ClassVar[bytes] = _NUMBER

    def __init__(self, writer: EventWriter, item: dict[str, Any]) -> None:
        super().__init__(writer, item)
        self._head = _delta_head(self.kind, item["id"], self._index, **self.index)

    def add(self, text: str) -> bytes:
        """Return the bytes of more text."""
        if not text:
            return b""
        self._sent.append(text)
        number = self._writer.number
        self._writer.number = number + 1
        return self._head + _json.encode_text(text) + self.tail + b"%d}\n\n" % number

    def _write_part(self, event: str, **fields: Any) -> bytes:
        return self._write(event, **self.index, **fields)


class OpenMessage(OpenTextItem):
    """A message; annotations may be added until it is done."""

    kind = "output_text"
    index: ClassVar = {"content_index": 0}
    tail = b',"logprobs":[],"sequence_number":'

    def __init__(self, writer: EventWriter, id: str) -> None:  # noqa: A002 - the field's name
        super().__init__(writer, message_item(id, [], status="in_progress"))
        self._annotations: list[Any] = []
        self.signature = ""

    def start(self) -> bytes:
        """Return the events that announce the message and its part."""
        return super().start() + self._write_part("content_part.added", part=self._part(""))

    def annotate(self, annotations: list[Any]) -> bytes:
        """Return the bytes of *annotations* of the text."""
        start = len(self._annotations)
        self._annotations += annotations
        event = "output_text.annotation.added"
        return b"".join(
            self._write_part(event, annotation=each, annotation_index=number)
            for number, each in enumerate(annotations, start)
        )

    def end(self, status: str = "completed") -> bytes:
        """Return the ends of the text, its part and the message."""
        text = "".join(self._sent)
        part = self._part(text)
        item = message_item(self.item["id"], [part], self.signature, status)
        done = self._write_text_done(text) + self._write_part("content_part.done", part=part)
        return done + self._done(item)

    def cut(self) -> bytes:
        """End the message where the response was cut."""
        return self.end("incomplete")

    def _part(self, text: str) -> dict[str, Any]:
        return text_part(text, self._annotations)

    def _write_text_done(self, text: str) -> bytes:
        return self._write_part("output_text.done", text=text, logprobs=[])


class OpenRefusal(OpenMessage):
    """A message with the reason of a refusal."""

    kind = "refusal"
    tail = _NUMBER

    def _part(self, text: str) -> dict[str, Any]:
        return {"type": "refusal", "refusal": text}

    def _write_text_done(self, text: str) -> bytes:
        return self._write_part("refusal.done", refusal=text)


# Reasoning is written as a summary, because OpenAI's clients show only that; `reasoning_text` is
# sent by servers of open models.
class OpenReasoning(OpenTextItem):
    """Reasoning as a summary; without text it has no part."""

    kind = "reasoning_summary_text"
    index: ClassVar = {"summary_index": 0}

    def __init__(self, writer: EventWriter, id: str) -> None:  # noqa: A002 - the field's name
        super().__init__(writer, {"id": id, "type": "reasoning", "summary": []})

    def add(self, text: str) -> bytes:
        """Return the bytes of more text."""
        if text and not self._sent:
            part = {"type": "summary_text", "text": ""}
            return self._write_part("reasoning_summary_part.added", part=part) + super().add(text)
        return super().add(text)

    def end(self, signature: str = "") -> bytes:
        """Return the ends of the summary and the item."""
        text = "".join(self._sent)
        item = reasoning_item(self.item["id"], text, signature)
        if not text:
            return self._done(item)
        done = self._write_part("reasoning_summary_text.done", text=text)
        (part,) = item["summary"]
        done += self._write_part("reasoning_summary_part.done", part=part)
        return done + self._done(item)

    def cut(self) -> bytes:
        """End the reasoning where the response was cut."""
        return self.end()


class OpenCall(OpenItem):
    """A call; free text is written at the end, since it arrives inside JSON."""

    def __init__(self, writer: EventWriter, item: dict[str, Any]) -> None:
        super().__init__(writer, item)
        self._arguments = GuardedArguments()
        self._streams = item["type"] == "function_call"  # whether arguments are sent as they arrive
        self._head = _delta_head("function_call_arguments", item["id"], self._index)

    def add(self, arguments: str) -> bytes:
        """Return the bytes of more arguments."""
        return self._send(self._arguments.add(arguments))

    def _send(self, arguments: str) -> bytes:
        if not arguments:
            return b""
        self._sent.append(arguments)
        if not self._streams:
            return b""
        writer = self._writer
        number = writer.number
        writer.number = number + 1
        return b"%b%b%b%d}\n\n" % (self._head, _json.encode_text(arguments), _NUMBER, number)

    def end(self, call: ToolCall) -> bytes:
        """Return the end of the call, with what the deltas omitted; an incomplete call has none."""
        if not call.complete:
            self._writer.output.append(fill_call(self.item, call, "".join(self._sent)))
            return b""
        rest = self._send(self._arguments.end(call))
        item = fill_call(self.item, call, "".join(self._sent))
        if item["type"] == SEARCH_CALL:
            done = b""  # Its arguments are an object in the item.
        elif not self._streams:
            done = self._write_input(item["input"])
        else:
            done = self._write(
                "function_call_arguments.done", name=item["name"], arguments=item["arguments"]
            )
        return rest + done + self._done(item)

    def cut(self) -> bytes:
        """Add the call to the output as incomplete."""
        return self.end(ToolCall("", "", complete=False))

    def _write_input(self, text: str) -> bytes:
        delta = self._write("custom_tool_call_input.delta", delta=text) if text else b""
        return delta + self._write("custom_tool_call_input.done", input=text)


_NO_BLOCK: Final = -1


class Encoder(StreamEncoder):
    """Events in, the bytes of a stream of the Responses API out.

    *tools* has the client's names of its tools. *fields* returns the fields of the
    request that the response repeats; it is called for each event with a response, so that the
    tools need not stay in memory while the response streams. *input_tokens* is the estimated size
    of the prompt, for an upstream without token counts.
    """

    streams_arguments = False

    def __init__(
        self,
        *,
        model: str = "",
        id: str = "",  # noqa: A002 - the field's name
        created: int = 0,
        usage: bool = True,
        tools: ClientTools = NO_TOOLS,
        fields: Callable[[], Mapping[str, Any]] | None = None,
        input_tokens: int = 0,
    ) -> None:
        super().__init__()
        self._input_tokens = input_tokens
        del usage  # The API always sends it.
        self._model, self._id, self._created = model, id, created
        self._tools = tools
        self._fields = fields
        self._ids = ItemIds(id)
        self._order = BlockSequencer()
        self._writer = EventWriter()
        self._open: OpenItem | None = None
        self._ended_message: OpenMessage | None = None  # its annotations may follow
        self._open_index = _NO_BLOCK  # of the open block of text
        self._call_index = _NO_BLOCK  # of the open call
        self._write_delta: Callable[[str], bytes] = str.encode  # of either

    def encode(self, event: Event) -> bytes:
        """Return the bytes of *event*; nothing is written after the terminal event."""
        if type(event) is TextDelta and event.index == self._open_index:
            return self._write_delta(event.text)
        if type(event) is ToolCallDelta and event.index == self._call_index:
            # Not noted for the check at the end: the last event of the call has all arguments.
            return self._write_delta(event.arguments)
        return super().encode(event)

    def _write_start(self, event: MessageStart) -> bytes:
        self._id = self._id or event.id or "resp_1"
        self._model = self._model or event.model
        self._ids = ItemIds(self._id)
        response = self._response("in_progress")
        # OpenAI's SDK requires `response.created` as the first event, and `response.completed` at
        # the end: its helper raises for a stream without it, also for one that ends with
        # `incomplete`.
        created = self._writer.write("response.created", response=response)
        return created + self._writer.write("response.in_progress", response=response)

    def _response(self, status: str, **fields: Any) -> dict[str, Any]:
        repeated = self._fields() if self._fields is not None else {}
        return make_response(self._id, self._model, self._created, status, **{**repeated, **fields})

    # --- blocks ---

    def _write(self, event: BlockEvent) -> bytes:
        return b"".join([self._write_in_turn(next_) for next_ in self._order.put(event)])

    def _write_in_turn(self, event: BlockEvent) -> bytes:
        match event, self._open:
            case TextStart() | ThinkingStart() | ToolCallStart(), _:
                return self._close_message() + self._open_block(event)
            case Part(), _:
                return self._write_part(event)
            case TextDelta() | ThinkingDelta(), OpenTextItem() as item:
                return item.add(event.text)
            case ToolCallDelta(), OpenCall() as item:
                return item.add(event.arguments)
            case TextEnd(), OpenMessage() as item:
                item.signature = event.signature
                self._ended_message = item
                self._leave()
            case ThinkingEnd(), OpenReasoning() as item:
                self._leave()
                return item.end(event.signature)
            case ToolCallEnd(), OpenCall() as item:
                self._leave()
                return item.end(event.call)
        return b""

    def _open_block(self, event: TextStart | ThinkingStart | ToolCallStart) -> bytes:
        item: OpenItem
        if isinstance(event, ToolCallStart):
            call = call_item(self._ids, event.id, event.name, self._tools)
            item = OpenCall(self._writer, call)
            self._call_index, self._write_delta = event.index, item.add
        elif isinstance(event, ThinkingStart):
            item = OpenReasoning(self._writer, self._ids.make("rs"))
        else:
            item = OpenMessage(self._writer, self._ids.make("msg"))
            self._open_index, self._write_delta = event.index, item.add
        self._open = item
        return item.start()

    def _leave(self) -> None:
        self._open = None
        self._open_index = self._call_index = _NO_BLOCK

    def _close_message(self) -> bytes:
        message, self._ended_message = self._ended_message, None
        return b"" if message is None else message.end()

    def _write_part(self, event: Part) -> bytes:
        annotations = find_annotations(event.part)
        if annotations:
            message = self._ended_message
            return b"" if message is None else message.annotate(annotations)
        item = foreign_item(event.part)
        if item is None:
            return b""
        return self._close_message() + self._writer.write_whole(self._ids.with_id(item))

    # --- the end ---

    def _write_end(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        # The usage is only on the terminal event.
        rest = self._close_message()
        if self._open is not None:
            rest += self._open.cut()
            self._leave()
        usage = event.message.usage
        if isinstance(ending, ErrorInfo):
            return rest + self._write_failure(ending, usage)
        if ending == "refusal" and isinstance(event, Failed):
            rest += self._write_refusal(event.error.message)
        reason = incomplete_reason(ending, self._writer.output)
        status = "incomplete" if reason else "completed"
        usage = usage_or_estimate(event.message, self._input_tokens)
        fields = ending_fields(self._writer.output, usage, reason)
        if isinstance(event, Failed):
            fields["store"] = False  # A failed response cannot be continued.
        response = self._response(status, **fields)
        return rest + self._writer.write(f"response.{status}", response=response)

    def _write_refusal(self, reason: str) -> bytes:
        item = OpenRefusal(self._writer, self._ids.make(REFUSAL))
        return item.start() + item.add(reason) + item.end()

    def _write_failure(self, error: ErrorInfo, usage: Usage) -> bytes:
        fields = ending_fields(self._writer.output, usage)
        if usage == Usage():
            fields["usage"] = None
        fields |= {"error": tables.write_error(error), "store": False}
        response = self._response("failed", **fields)
        return self._writer.write("response.failed", response=response)
