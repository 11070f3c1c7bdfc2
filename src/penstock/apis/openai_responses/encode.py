"""Events to response events.

Items follow one another: what comes for a block waits until the blocks before it have ended. A
message is closed by whatever comes after it, since its annotations do. A call that was cut is
never done, so that no client runs it. An answer that failed ends in ``response.failed`` alone, the
one end in an error that clients take for an end; a refusal is a message of its own, and an answer
with calls that ends in one is incomplete, lest a client runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final

from penstock import _json
from penstock.apis.encoder import (
    BlockEvent,
    BlockSequencer,
    Ending,
    GuardedArguments,
    StreamEncoder,
)
from penstock.apis.fields import told_usage
from penstock.apis.openai_responses import tables
from penstock.apis.openai_responses.response import (
    REFUSAL,
    ItemIds,
    annotations_of,
    call_item,
    ended,
    filled,
    foreign_item,
    incomplete_reason,
    is_custom,
    message_item,
    reasoning_item,
    response_of,
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

# The life of an item on the wire: announced, told piece by piece, done.
#
# The pen numbers events and places, and keeps the output that the last event repeats. An item
# that is done joins the output; a call that was cut joins it as incomplete and is never done,
# since clients run what is done.


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


class MessageItemWriter(OpenItem):
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


class OpenMessage(MessageItemWriter):
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
    """A message that says why there is not one."""

    kind = "refusal"
    tail = b',"sequence_number":'

    def _part(self, text: str) -> dict[str, Any]:
        return {"type": "refusal", "refusal": text}

    def _write_text_done(self, text: str) -> bytes:
        return self._write_part("refusal.done", refusal=text)


class OpenReasoning(MessageItemWriter):
    """Thoughts as a summary; without a thought there is not a part of it."""

    kind = "reasoning_summary_text"
    index: ClassVar = {"summary_index": 0}

    def __init__(self, pen: Pen, id: str) -> None:  # noqa: A002 - the field's name
        super().__init__(pen, {"id": id, "type": "reasoning", "summary": []})

    def add(self, text: str) -> bytes:
        """Write more reasoning."""
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
        """End the reasoning where the answer was cut."""
        return self.end()


class OpenCall(OpenItem):
    """A call; free text is told at once when it is known, since it comes wrapped in JSON."""

    def __init__(self, pen: Pen, item: dict[str, Any]) -> None:
        super().__init__(pen, item)
        self._arguments = GuardedArguments()

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
        """Write that the call is done, with what the deltas omitted; one that was cut is not."""
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


_NOBODY: Final = -1


class Encoder(StreamEncoder):
    """Events in, the bytes of a stream of response events out.

    *custom* names the client's tools that take free text: calls of them are written as such.
    *fields* gives what the response says of its request. It is asked each time that a response is
    written, so that nobody need hold the tools of a client while the answer is on its way.
    *input_tokens* is about what the prompt costs, for an upstream that counts nothing.
    """

    streams_arguments = False

    def __init__(
        self,
        *,
        model: str = "",
        id: str = "",  # noqa: A002 - the field's name
        created: int = 0,
        usage: bool = True,
        custom: Iterable[str] = (),
        fields: Callable[[], Mapping[str, Any]] | None = None,
        input_tokens: int = 0,
    ) -> None:
        super().__init__()
        self._input_tokens = input_tokens
        del usage  # The API always tells.
        self._model, self._id, self._created = model, id, created
        self._custom = frozenset(custom)
        self._fields = fields
        self._ids = ItemIds(id)
        self._order = BlockSequencer()
        self._pen = Pen()
        self._open: OpenItem | None = None
        self._ended_message: OpenMessage | None = None  # its annotations may follow
        self._speaker = _NOBODY  # the block of text that is open
        self._say: Callable[[str], bytes] = str.encode  # writes its deltas

    def encode(self, event: Event) -> bytes:
        """Write what *event* means to a client; nothing is written after the terminal event."""
        if type(event) is TextDelta and event.index == self._speaker:
            return self._say(event.text)
        return super().encode(event)

    def _write_start(self, event: MessageStart) -> bytes:
        self._id = self._id or event.id or "resp_1"
        self._model = self._model or event.model
        self._ids = ItemIds(self._id)
        response = self._response("in_progress")
        created = self._pen.write("response.created", response=response)
        return created + self._pen.write("response.in_progress", response=response)

    def _response(self, status: str, **fields: Any) -> dict[str, Any]:
        asked = self._fields() if self._fields is not None else {}
        return response_of(self._id, self._model, self._created, status, **{**asked, **fields})

    # --- blocks ---

    def _write(self, event: BlockEvent) -> bytes:
        return b"".join([self._write_in_turn(next_) for next_ in self._order.put(event)])

    def _write_in_turn(self, event: BlockEvent) -> bytes:
        match event, self._open:
            case TextStart() | ThinkingStart() | ToolCallStart(), _:
                return self._close_message() + self._open_block(event)
            case Part(), _:
                return self._write_part(event)
            case TextDelta() | ThinkingDelta(), MessageItemWriter() as item:
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
            custom = is_custom(event.id, event.name, self._custom)
            call = call_item(self._ids, event.id, event.name, is_custom=custom)
            item = OpenCall(self._pen, call)
        elif isinstance(event, ThinkingStart):
            item = OpenReasoning(self._pen, self._ids.give("rs"))
        else:
            item = OpenMessage(self._pen, self._ids.give("msg"))
            self._speaker, self._say = event.index, item.add
        self._open = item
        return item.start()

    def _leave(self) -> None:
        self._open, self._speaker = None, _NOBODY

    def _close_message(self) -> bytes:
        message, self._ended_message = self._ended_message, None
        return b"" if message is None else message.end()

    def _write_part(self, event: Part) -> bytes:
        annotations = annotations_of(event.part)
        if annotations:
            message = self._ended_message
            return b"" if message is None else message.annotate(annotations)
        item = foreign_item(event.part)
        if item is None:
            return b""
        return self._close_message() + self._pen.write_whole(self._ids.keep(item))

    # --- the end ---

    def _write_end(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        rest = self._close_message()
        if self._open is not None:
            rest += self._open.cut()
            self._leave()
        usage = event.message.usage
        if isinstance(ending, ErrorInfo):
            return rest + self._write_failure(ending, usage)
        if ending == "refusal" and isinstance(event, Failed):
            rest += self._write_refusal(event.error.message)
        reason = incomplete_reason(ending, self._pen.output)
        status = "incomplete" if reason else "completed"
        usage = told_usage(event.message, self._input_tokens)
        fields = ended(self._pen.output, usage, reason)
        if isinstance(event, Failed):
            fields["store"] = False  # Nobody continues from there.
        response = self._response(status, **fields)
        return rest + self._pen.write(f"response.{status}", response=response)

    def _write_refusal(self, reason: str) -> bytes:
        item = OpenRefusal(self._pen, self._ids.give(REFUSAL))
        return item.start() + item.add(reason) + item.end()

    def _write_failure(self, error: ErrorInfo, usage: Usage) -> bytes:
        fields = ended(self._pen.output, usage)
        if usage == Usage():
            fields["usage"] = None
        fields |= {"error": tables.write_error(error), "store": False}
        response = self._response("failed", **fields)
        return self._pen.write("response.failed", response=response)
