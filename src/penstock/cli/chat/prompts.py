"""How the prompt looks: what stands before the line, and what in an empty one."""

from __future__ import annotations

from typing import Final

from penstock.cli.chat.questions import Question
from penstock.cli.chat.rows import Line, Span, shown

IDLE: Final = (Span("> ", "bold"), "ask for something; /help says what there is")
LEAVING: Final = (Span("> ", "bold"), "Ctrl-C again leaves")
BUSY: Final = (
    Span("> ", "dim"),
    "working: Enter steers, + waits until the end, Ctrl-C asks what instead",
)
HELD: Final = (Span("instead > ", "yellow"), "say what; Enter goes on, Ctrl-C stops")
ASKED: Final = (Span("? ", "yellow"), "y yes, n no, e edit, a always; or say what instead")


def asking(question: Question) -> Line:
    """Give the line that asks about a call."""
    return Line([Span(f"May {shown(question.call.name)} run?", "yellow")])


def editing(question: Question) -> tuple[Span, str]:
    """Give what stands before an argument that is edited."""
    name = "arguments" if question.edits == "*" else question.edits
    return Span(f"{name} > ", "yellow"), "Enter runs it, Ctrl-C goes back"
