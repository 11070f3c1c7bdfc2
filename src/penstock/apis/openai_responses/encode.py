"""Events to response events.

Items follow one another: what comes for a block waits until the blocks before it have ended. A
message is closed by whatever comes behind it, since its annotations do. A call that was cut is
never done, so that no client runs it. An answer that failed ends in ``response.failed`` alone, the
one end in an error that clients take for an end; a refusal is a message of its own, and an answer
with calls that ends in one is incomplete, lest a client runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from penstock.apis.encoding import BlockEvent, Ending, OneByOne, StreamEncoder
from penstock.apis.numbers import told_usage
from penstock.apis.openai_responses import tables
from penstock.apis.openai_responses.stream_items import (
    OpenCall,
    OpenItem,
    OpenMessage,
    OpenReasoning,
    OpenRefusal,
    Pen,
    SpokenItem,
)
from penstock.apis.openai_responses.write_items import (
    REFUSAL,
    ItemIds,
    annotations_of,
    call_item,
    ended,
    foreign_item,
    incomplete_reason,
    is_custom,
    response_of,
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
from penstock.messages import ErrorInfo, Usage

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
        self._order = OneByOne()
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
            case TextDelta() | ThinkingDelta(), SpokenItem() as item:
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
            fields["store"] = False  # Nobody goes on from there.
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
