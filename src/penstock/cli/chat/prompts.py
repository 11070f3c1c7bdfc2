"""How the prompt looks: what stands before the line, and what in an empty one."""

from __future__ import annotations

from typing import Final

from penstock import _json
from penstock.cli.chat.questions import Question
from penstock.cli.chat.rows import Line, Span, shown
from penstock.messages import ToolCall

MAX_ARGUMENTS: Final = 300
"""How much is shown of the arguments of a call that was interrupted."""

IDLE: Final = (Span("> ", "bold"), "ask for something; /help says what there is")
LEAVING: Final = (Span("> ", "bold"), "Ctrl-C again leaves")
BUSY: Final = (
    Span("> ", "dim"),
    "working: Enter steers, + waits until the end, Ctrl-C asks what instead",
)
HELD: Final = (Span("instead > ", "yellow"), "say what; Enter goes on, Ctrl-C stops")
ASKED: Final = (Span("? ", "yellow"), "y yes, n no, e edit, a always; or say what instead")


INTERRUPTED: Final = (
    Span("? ", "yellow"),
    "r runs it again, d and words give its result, u leaves it unknown",
)


def unknown(call: ToolCall) -> str:
    """Say what is known of a call that was interrupted."""
    arguments = _json.encode(call.arguments).decode()
    cut = arguments if len(arguments) <= MAX_ARGUMENTS else f"{arguments[:MAX_ARGUMENTS]}…"
    return f"{call.name} {cut} had begun when the last process ended: its outcome is unknown"


def asking_again(call: ToolCall) -> Line:
    """Give the line that asks what became of a call that was interrupted."""
    return Line([Span(f"{shown(call.name)} may have run. What became of it?", "yellow")])


def asking(question: Question) -> Line:
    """Give the line that asks about a call."""
    return Line([Span(f"May {shown(question.call.name)} run?", "yellow")])


def editing(question: Question) -> tuple[Span, str]:
    """Give what stands before an argument that is edited."""
    name = "arguments" if question.edits == "*" else question.edits
    return Span(f"{name} > ", "yellow"), "Enter runs it, Ctrl-C goes back"
