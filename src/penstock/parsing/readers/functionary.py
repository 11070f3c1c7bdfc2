"""Recipients in front of each piece, as Functionary's second version of its third format has them.

``>>>all`` and a new line begin text, ``>>>NAME`` and a new line a call with its arguments in JSON.
The first ``>>>`` is in the prompt. Nothing ends a piece but the next recipient, and only the
names of known tools are recipients: any other ``>>>`` is text, as in a session with Python.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from penstock.parsing.call_sink import CallSink
from penstock.parsing.readers.base import Verdict
from penstock.parsing.readers.channels import (
    CODE,
    OUTSIDE,
    ChannelCodeReader,
    Message,
    MessageCall,
    NamedJSONReader,
    Opened,
    Opening,
    VerbatimReader,
    opened_from,
)

START: Final = ">>>"
EVERYBODY: Final = "all"
"""The recipient of text."""

_PYTHON: Final = "python"
_ENDS_OF_TURN: Final = (
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|im_end|>",
    "<|observation|>",
    "<|user|>",
    "<｜end▁of▁sentence｜>",  # noqa: RUF001 - the token is spelled so
)


class Recipients(Struct, frozen=True):
    """Pieces with a recipient each."""

    @property
    def starts(self) -> tuple[str, ...]:
        """What comes before a recipient."""
        return (START,)

    @property
    def folds(self) -> bool:
        """Markers have no case."""
        return False

    def body(self, marker: str) -> RecipientMessage:
        """Return a fresh reader for what follows *marker*."""
        del marker
        return RecipientMessage()

    def opened_in(self, prompt: str) -> Opening | None:
        """Return in which state *prompt* leaves the answer.

        Before the first recipient, or after.
        """
        return opened_from(prompt if prompt.strip() else START, START)


class RecipientMessage(Message):
    """Reads a recipient, and the call if it is a tool."""

    last = "\n"

    def _judge(self, header: str, calls: CallSink) -> Opened | Verdict:
        name, newline, _ = header.partition("\n")
        if not newline:
            known = (EVERYBODY, *calls.schemas)
            may_come = any(candidate.startswith(name) for candidate in known)
            return Verdict.MORE if may_come else Verdict.NOT_A_CALL
        size = len(name) + len(newline)
        if name == EVERYBODY:
            return Opened(size, OUTSIDE)
        if name not in calls.schemas:
            return Verdict.NOT_A_CALL
        return Opened(size, self._open(name, calls))

    def _open(self, name: str, calls: CallSink) -> MessageCall:
        json = NamedJSONReader(name)
        if name != _PYTHON:
            return json
        switches = tuple(f"{START}{known}\n" for known in (EVERYBODY, *calls.schemas))
        code = VerbatimReader(name, CODE, (), (*_ENDS_OF_TURN, *switches), stands=True)
        return ChannelCodeReader(json, code)
