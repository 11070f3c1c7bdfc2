"""Messages with a recipient before each: the format of Functionary v3.2.

``>>>all`` and a newline begin text, ``>>>NAME`` and a newline begin a call with its arguments in
JSON. The first ``>>>`` is in the prompt. Only the next recipient ends a message, and only the names
of known tools are recipients: any other ``>>>`` is text, such as the prompt of Python.
"""

from __future__ import annotations

from typing import Final

from penstock.parsing.body import BodyReader, Verdict
from penstock.parsing.call_sink import CallSink
from penstock.readers.channels import (
    CODE,
    OUTSIDE,
    ChannelCodeReader,
    Message,
    MessageSyntax,
    NamedJSONReader,
    Opened,
    VerbatimReader,
)

START: Final = ">>>"
TEXT: Final = "all"
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


# The prompt ends with `>>>`. It switches the recipient only before `all` or a known tool and a
# newline: elsewhere it is Python's prompt, or a shell's redirection.
class Recipients(MessageSyntax, frozen=True):
    """The syntax of messages with a recipient each."""

    starts = headers = (START,)
    begun = START

    def body(self, marker: str) -> RecipientMessage:
        """Return a new reader for the text after *marker*."""
        del marker
        return RecipientMessage()


class RecipientMessage(Message):
    """Reads a recipient, and the call if it is a tool."""

    last = "\n"

    def _judge(self, header: str, calls: CallSink) -> Opened | Verdict:
        name, newline, _ = header.partition("\n")
        if not newline:
            known = (TEXT, *calls.schemas)
            may_come = any(candidate.startswith(name) for candidate in known)
            return Verdict.MORE if may_come else Verdict.NOT_A_CALL
        size = len(name) + len(newline)
        if name == TEXT:
            return Opened(size, OUTSIDE)
        if name not in calls.schemas:
            return Verdict.NOT_A_CALL
        return Opened(size, self._open(name, calls))

    def _open(self, name: str, calls: CallSink) -> BodyReader:
        json = NamedJSONReader(name)
        if name != _PYTHON:
            return json
        switches = tuple(f"{START}{known}\n" for known in (TEXT, *calls.schemas))
        code = VerbatimReader(name, CODE, (), (*_ENDS_OF_TURN, *switches), ends_with_text=True)
        return ChannelCodeReader(json, code)
