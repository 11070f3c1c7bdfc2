"""Which tool a type of segment stands for, and where its arguments come from.

A segment of type ``write_file`` names no tool and has no arguments: it has a path in its metadata
and a file as its content. The syntax of its type says what call that is. How a tool's calls are
read, and as which type they are shown, is said by `penstock.formats.register_tool`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from penstock.errors import UsageError
from penstock.views.segments.events import EDIT_FILE, RUN_BASH, SEGMENT_TYPES, WRITE_FILE


class ToolSyntax(Struct, frozen=True):
    """A type of segment as a call of *tool_name*.

    *content* is the argument that the segment shows, *metadata* are those that its metadata gives,
    and without one of *required* there is no call.
    """

    segment_type: str
    tool_name: str
    content: str
    metadata: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


BUILT_IN: Final = (
    ToolSyntax(WRITE_FILE, "write_file", "content", ("path",), ("path",)),
    ToolSyntax(EDIT_FILE, "edit_file", "patch", ("path",), ("path",)),
    ToolSyntax(RUN_BASH, "run_bash", "command", ("background", "timeout_seconds"), ("command",)),
)
"""The syntaxes that penstock brings."""

_syntaxes: dict[str, ToolSyntax] = {syntax.segment_type: syntax for syntax in BUILT_IN}


def find_syntax(segment_type: str) -> ToolSyntax | None:
    """Give the syntax of a type; None for one whose content says by itself what is called."""
    return _syntaxes.get(segment_type)


def register_syntax(syntax: ToolSyntax) -> None:
    """Add the syntax of a type of one's own; raise `UsageError` for one that penstock uses."""
    if syntax.segment_type in SEGMENT_TYPES:
        raise UsageError(f"{syntax.segment_type!r} is a type of penstock's own: choose another")
    if not syntax.segment_type or not syntax.tool_name:
        raise UsageError("a syntax needs a type of segment and the name of a tool")
    _syntaxes[syntax.segment_type] = syntax


def unregister_syntax(segment_type: str) -> None:
    """Take out a syntax of one's own; nothing happens if there is none."""
    if segment_type not in SEGMENT_TYPES:
        _syntaxes.pop(segment_type, None)
