"""A call read from text that is whole, to see what was meant by one that never ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.events import ToolCallEnd
from penstock.messages import ToolCall
from penstock.parsing.bodies.base import Body, NoCallError, Verdict
from penstock.parsing.calls import Calls
from penstock.parsing.output import Output
from penstock.parsing.scanner import Scanner
from penstock.values.schema import Schema


def read_call(body: Body, text: str, schemas: Mapping[str, Schema]) -> ToolCall | None:
    """Give the call that *body*, a fresh reader, makes of *text*, if it ends with the text."""
    scanner = Scanner()
    output = Output(scanner)
    calls = Calls(output, schemas, lambda: "", lambda _: None, live=False)
    scanner.push(text)
    try:
        if body.read(scanner, calls) is not Verdict.DONE or scanner.unread:
            return None
    except NoCallError:
        return None
    found = [event.call for event in output.take() if isinstance(event, ToolCallEnd)]
    return found[0] if len(found) == 1 else None


def without_begun(text: str, closing: str) -> str:
    """Give *text* without the beginning of *closing* that it may end with."""
    for size in range(min(len(closing), len(text)), 1, -1):
        if closing.lower().startswith(text[-size:].lower()):
            return text[:-size]
    return text


MAX_SHOWN: Final = 80
"""How many characters of skipped text a note shows."""


def skipped_text(text: str) -> str:
    """Return the note for *text* between the arguments of a call, which belongs to none of them."""
    text = " ".join(text.split())
    shown = text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
    return f"skipped text between arguments: {shown}"
