"""How the calls of single tools are read in ``<tool name="…">``, by the tool's name.

A tool's reader is a `PipedTool`, which says what of the call is special, or a function that makes a
body reader of one's own. Names are in lower case here, so ``MY_TOOL`` finds ``my_tool``. A tool
that nobody registered is read by its schema.

``EDIT_FILE`` and its like are frozen values: `msgspec.structs.replace` makes a reader of one's own
out of one of them.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from penstock.errors import UsageError
from penstock.parsing.bodies.piped_tools import EDIT_FILE, GENERIC, RUN_BASH, WRITE_FILE, PipedTool
from penstock.parsing.bodies.tool_tags import ToolReader


class RegisteredTool(Struct, frozen=True):
    """How one tool is read, and the type of the segments that its calls are shown as."""

    reader: ToolReader = GENERIC
    segment_type: str = "tool_call"

    @property
    def content(self) -> str:
        """The argument that is the segment's content; empty where the whole call is."""
        return self.reader.content if isinstance(self.reader, PipedTool) else ""

    @property
    def metadata(self) -> tuple[str, ...]:
        """The arguments that are the segment's metadata."""
        return self.reader.metadata if isinstance(self.reader, PipedTool) else ()


_BUILT_IN: Final = {
    "write_file": RegisteredTool(WRITE_FILE, "write_file"),
    "edit_file": RegisteredTool(EDIT_FILE, "edit_file"),
    "run_bash": RegisteredTool(RUN_BASH, "run_bash"),
}
_OTHER: Final = RegisteredTool()
_tools = dict(_BUILT_IN)


def register_tool(name: str, reader: ToolReader, segment_type: str = "tool_call") -> None:
    """Read the calls of the tool *name*, in any case, with *reader* from now on.

    *reader* is a `PipedTool`, or makes a body reader when it is given the tool's name and the
    attributes of the tag. *segment_type* is what the calls are shown as in segment events.

    Raises `UsageError` for a name that is empty and for what can be no reader.
    """
    if not name.strip():
        raise UsageError("a tool needs a name")
    if not isinstance(reader, PipedTool) and not callable(reader):
        raise UsageError(f"{type(reader).__name__} is no reader of calls")
    _tools[name.lower()] = RegisteredTool(reader, segment_type)


def unregister_tool(name: str) -> None:
    """Undo `register_tool`; penstock's own reader of the name, if it has one, is back then."""
    _tools.pop(name.lower(), None)
    if name.lower() in _BUILT_IN:
        _tools[name.lower()] = _BUILT_IN[name.lower()]


def registered_tool(name: str) -> RegisteredTool:
    """Give how the tool *name* is read; for one that nobody registered, as any tool is."""
    return _tools.get(name.lower(), _OTHER)


def find_reader(name: str) -> ToolReader:
    """Give the reader of the tool *name*."""
    return registered_tool(name).reader
