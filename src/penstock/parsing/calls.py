"""The call that is being read: what body readers write to, in either argument mode.

A body reader says what it found (`open`, arguments, `close`) and does not know the mode. `live`
passes everything on as it comes; `whole` keeps it until the call is complete, so that a call that
breaks or is cut can be given back as the text that it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.messages import ToolCall
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.output import Output
from penstock.values.schema import Schema


class Calls:
    """Makes calls of what body readers find and puts them out."""

    __slots__ = ("_id", "_ids", "_output", "deltas", "live", "name", "schemas", "started", "writer")

    def __init__(
        self,
        output: Output,
        schemas: Mapping[str, Schema],
        ids: Callable[[], str],
        *,
        live: bool,
    ) -> None:
        self.schemas = schemas
        self.started = False  # events of the open call went out
        self.writer: ArgumentWriter | None = None  # of the open call
        self._output = output
        self._ids = ids
        self.live = live
        self.name = ""  # of the call that is open, or that the text may be
        self._id = ""
        self.deltas: list[str] = []  # what `whole` keeps of the open call's arguments

    def open(self, name: str, id: str = "") -> ArgumentWriter:  # noqa: A002 - the field's name
        """Open the call of *name*; give the writer of its arguments."""
        self.name = name
        self._id = id or self._ids()
        self.deltas = []
        self.writer = ArgumentWriter(self.schemas.get(name), self._write)
        if self.live:
            self.started = True
            self._output.start_call(self._id, name)
        return self.writer

    def close(self) -> None:
        """End the open call: it is complete."""
        writer = self.writer
        assert writer is not None  # noqa: S101 - readers open before they close
        writer.close()
        if not self.live:
            self._output.start_call(self._id, self.name)
            self._output.add_arguments("".join(self.deltas))
        self._output.end_call(ToolCall(self._id, self.name, writer.arguments))
        self._reset()

    def drop(self) -> None:
        """End the open call as incomplete, if any of it went out; forget it otherwise."""
        writer = self.writer
        if writer is not None and self.started:
            self._output.end_call(ToolCall(self._id, self.name, writer.arguments, complete=False))
        self._reset()

    def _write(self, piece: str) -> None:
        if self.live:
            self._output.add_arguments(piece)
        else:
            self.deltas.append(piece)

    def _reset(self) -> None:
        self.writer = None
        self.name = ""
        self.started = False
        self.deltas = []
