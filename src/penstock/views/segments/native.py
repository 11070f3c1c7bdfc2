"""Native calls, which a provider sends separately from its text, as segments.

Pieces are routed by the provider's index. A segment starts with the name, or for a file with its
path; earlier pieces are held. It ends when the call has ended: by an event, when another call takes
its index, when something else starts and its arguments are whole, or with the response. A call
whose arguments are not a whole JSON object is incomplete: it is emitted and never run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from penstock import _json
from penstock.events import ToolCallDelta, ToolCallEnd, ToolCallStart
from penstock.formats.tool_tag import registered_tool
from penstock.messages import ToolCall
from penstock.parsing.call_shape import find_name
from penstock.values.incremental import IncrementalJSON
from penstock.values.schema import Schema
from penstock.views.segments.events import INCOMPLETE, RUN_BASH, TOOL_CALL, CallPiece
from penstock.views.segments.writer import ContentSegment, SegmentWriter

_Key = tuple[str, int]
"""The kind of input and its index: a chunk counts calls, an event counts blocks."""

_CHUNK: Final = "chunk"
_EVENT: Final = "event"


class NativeCalls:
    """The native calls of one response; *schemas* are those of the known tools."""

    def __init__(self, writer: SegmentWriter, schemas: Mapping[str, Schema]) -> None:
        self._writer = writer
        self._schemas = schemas
        self._open: dict[_Key, _Call] = {}
        self._whole: list[_Key] = []  # calls of chunks with whole arguments

    def take(self, piece: CallPiece) -> None:
        """Add a piece of a call."""
        self._take((_CHUNK, piece.index), piece)

    def take_event(self, event: ToolCallStart | ToolCallDelta | ToolCallEnd) -> None:
        """Add an event of a call."""
        key = (_EVENT, event.index)
        if isinstance(event, ToolCallStart):
            self._end(key)
            self._take(key, CallPiece(event.index, event.id, event.name))
        elif isinstance(event, ToolCallDelta):
            self._take(key, CallPiece(event.index, arguments=event.arguments))
        else:
            call = self._open.pop(key, None) or _Call(self._writer)
            call.take(CallPiece(event.index, event.call.id, event.call.name))
            call.end(structs.replace(event.call, name=self._known_name(event.call.name)))

    def settle(self) -> None:
        """End the calls of chunks whose arguments are whole: something else starts."""
        whole, self._whole = self._whole, []
        for key in whole:
            self._end(key)

    def finish(self, *, cut: bool = False) -> None:
        """End the open calls, in the order in which they started.

        If the response was *cut*, a call without arguments may have lost them.
        """
        for key in list(self._open):
            self._end(key, cut=cut)

    def _take(self, key: _Key, piece: CallPiece) -> None:
        call = self._open.get(key)
        if call is not None and call.is_over(piece):
            self._end(key)
            call = None
        if call is None:
            if not (piece.id or piece.name or piece.arguments.strip()):
                return  # white space after whole arguments
            self.settle()
            call = self._open[key] = _Call(self._writer)
        was_whole = call.is_whole
        call.take(piece)
        if key[0] == _CHUNK and call.is_whole and not was_whole:
            self._whole.append(key)

    def _end(self, key: _Key, *, cut: bool = False) -> None:
        call = self._open.pop(key, None)
        if call is not None:
            name = self._known_name(call.name)
            made = call.make_call(self._schemas.get(name), cut=cut)
            call.end(structs.replace(made, name=name))

    def _known_name(self, name: str) -> str:
        """Return the tool's own name; the model may write it in another case."""
        return find_name(name, self._schemas) or name


class _Call:
    """An open call, and its segment once the name is known."""

    def __init__(self, writer: SegmentWriter) -> None:
        self.name = ""
        self._writer = writer
        self._id = ""  # the provider's
        self._segment: ContentSegment | _ArgumentsSegment | None = None
        self._is_blank = True  # no arguments have arrived
        self._waiting: list[str] = []  # arguments that came before the name

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are whole."""
        return self._segment is not None and self._segment.arguments.complete

    def is_over(self, piece: CallPiece) -> bool:
        """Return whether *piece*, which has the same index, starts another call."""
        if piece.id and self._id:
            return piece.id != self._id
        if not piece.name or not self.name:
            return False
        return piece.name != self.name or (self.is_whole and piece.arguments != "")

    def take(self, piece: CallPiece) -> None:
        """Add a piece: its id, its name, or more of the arguments."""
        self._id = self._id or piece.id
        if piece.name and not self.name:
            self.name = piece.name
            self._open()
        if piece.arguments:
            self._is_blank = self._is_blank and piece.arguments.isspace()
            self._add(piece.arguments)

    def make_call(self, schema: Schema | None, *, cut: bool) -> ToolCall:
        """Return the call with the arguments that have arrived."""
        reader = self._open().arguments
        reader.finish()
        is_read, value = reader.complete and not reader.problems, reader.value
        if self._is_blank or (is_read and value is None):
            # No arguments are valid for a tool that requires none.
            is_read, value = not cut and (schema is None or schema.accepts({})), {}
        is_whole = is_read and isinstance(value, dict) and self.name != ""
        arguments = value if isinstance(value, dict) else {}
        return ToolCall(self._id, self.name, arguments, complete=is_whole)

    def end(self, call: ToolCall) -> None:
        """End the segment of *call*; its content is the arguments, even without any piece."""
        segment = self._open()
        if self._is_blank and call.arguments:
            segment.add(_json.encode(call.arguments).decode())
        segment.end(call)

    def _add(self, arguments: str) -> None:
        if self._segment is None:
            self._waiting.append(arguments)
        else:
            self._segment.add(arguments)

    def _open(self) -> ContentSegment | _ArgumentsSegment:
        """Return the segment; start it, with the held pieces, if it has not started."""
        if self._segment is None:
            tool = registered_tool(self.name)
            metadata: dict[str, Any] = {"tool_name": self.name} if self.name else {}
            if tool.content and tool.segment_type != RUN_BASH:
                self._segment = ContentSegment(self._writer, self._id, tool, metadata, patient=True)
            else:
                self._segment = _ArgumentsSegment(self._writer, self._id, metadata)
            for arguments in self._waiting:
                self._segment.add(arguments)
        return self._segment


class _ArgumentsSegment:
    """A segment whose content is the arguments of a call as JSON text."""

    def __init__(self, writer: SegmentWriter, id: str, metadata: dict[str, Any]) -> None:  # noqa: A002
        self.arguments = IncrementalJSON(recover=True)
        self._writer = writer
        self._id = writer.claim(id)
        writer.start(self._id, TOOL_CALL, metadata)

    def add(self, arguments: str) -> None:
        """Add a piece of the arguments."""
        self.arguments.feed(arguments)
        self._writer.add(self._id, arguments)

    def end(self, call: ToolCall) -> None:
        """End the segment of *call*."""
        metadata = {} if call.complete else {INCOMPLETE: True}
        self._writer.end(self._id, metadata, calls=[call])
