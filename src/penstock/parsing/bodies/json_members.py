"""The members of an object of arguments, written to a call as they come.

Whoever follows the changes of the object knows which of them are arguments, and says so here.
"""

from __future__ import annotations

from penstock.parsing.arguments import ArgumentWriter
from penstock.values.incremental import Change


class Members:
    """Writes arguments out of the changes of a JSON value."""

    is_streaming = False
    """Whether the open string is an argument that is written as it comes."""

    def _write(self, key: str, change: Change, writer: ArgumentWriter) -> None:
        """Write what *change* says of the argument *key*."""
        match change.kind:
            case "string" if self.is_streaming:
                if change.value is not None:
                    writer.add_escaped(change.value)
                else:
                    writer.add_text(change.text)
            case "string" if writer.streams(key):
                self.is_streaming = True
                writer.open_text(key)
                writer.add_text(change.text)
            case "value" if self.is_streaming:
                self.is_streaming = False
                writer.end_text(change.value)
            case "value" if change.value == "" and writer.streams(key):
                # Its second quote may be a doubled first one, see `end_text`.
                writer.open_text(key)
                writer.end_text("")
            case "value" | "end":
                writer.put_typed(key, change.value)
