"""The messages of Inkling: typed blocks, each with a token that says what its text is.

``<|message_model|>NAME<|content_TYPE|>…<|end_message|>``. The name comes before calls only, and
the first message token is in the prompt. A call holds its name and its arguments as one object, or
it is free text, which goes to the tool that the header names.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from penstock.parsing.call_sink import CallSink
from penstock.parsing.readers.base import Verdict
from penstock.parsing.readers.channels import (
    ClosingMark,
    JSONMessageReader,
    Message,
    MessageCall,
    Opened,
    Opening,
    VerbatimReader,
    begins_any,
    opened_from,
    opened_thought,
)
from penstock.parsing.reasoning import Channel

MESSAGE: Final = "<|message_model|>"
THOUGHT: Final = "<|content_thinking|>"
TEXT: Final = "<|content_text|>"
JSON_CALL: Final = "<|content_invoke_tool_json|>"
TEXT_CALL: Final = "<|content_invoke_tool_text|>"
ERROR: Final = "<|content_tool_error|>"
END_OF_TURN: Final = "<|content_model_end_sampling|>"
ENDS: Final = ("<|end_message|>", END_OF_TURN)

_TYPES: Final = (THOUGHT, TEXT, JSON_CALL, TEXT_CALL, ERROR)
_CALLS: Final = (JSON_CALL, TEXT_CALL)
_NAME: Final = re.compile(r"\s{0,8}[A-Za-z0-9_.:-]{0,160}\s{0,8}")
_UNREAD_HEADER: Final = re.compile(r"<\|message_model\|>[^<]*\Z")
_KEY: Final = "text"
"""The argument that takes the text of a call in free text."""

_THOUGHT: Final = Channel("thinking", ENDS, interrupted=True, starts=(THOUGHT,))
_TEXT: Final = Channel("text", ENDS, interrupted=True, starts=(TEXT,))
_BEHIND: Final = Channel("text", ENDS, interrupted=True)


class Inkling(Struct, frozen=True):
    """Typed blocks; without *calls* those that call a tool are text."""

    calls: bool = True

    @property
    def starts(self) -> tuple[str, ...]:
        """What begins a header: the message token, or a type where that was omitted.

        The end of the turn comes after the end of its last message.
        """
        return (MESSAGE, *_TYPES, END_OF_TURN)

    @property
    def folds(self) -> bool:
        """Markers are matched as they are."""
        return False

    def body(self, marker: str) -> Message:
        """Return a fresh reader for what follows *marker*."""
        if marker == END_OF_TURN:
            return ClosingMark()
        return InklingMessage(marker, calls=self.calls)

    def opened_in(self, prompt: str) -> Opening | None:
        """Return in which state *prompt* leaves the answer: a message has begun, or more."""
        if not prompt.strip():
            return MESSAGE, None
        return opened_thought(prompt, ENDS) or opened_from(prompt, MESSAGE, *_TYPES)


class InklingMessage(Message):
    """Reads the block that *marker* begins; without *calls* one that calls a tool is text."""

    def __init__(self, marker: str, *, calls: bool = True) -> None:
        super().__init__("" if marker == MESSAGE else marker)
        self._marker = marker
        self._calls = calls

    def _judge(self, header: str, calls: CallSink) -> Opened | Verdict:
        # Text that was not a header is looked at again: it is not one without its start, too.
        if self._marker != MESSAGE and _UNREAD_HEADER.search(calls.line()):
            return Verdict.NOT_A_CALL
        at = header.find("<")
        name = header if at == -1 else header[:at]
        if _NAME.fullmatch(name) is None:
            return Verdict.NOT_A_CALL
        kind = next((kind for kind in _TYPES if at != -1 and header.startswith(kind, at)), None)
        if kind is not None and self._given == 0 and (not name or kind not in _CALLS):
            return Verdict.NOT_A_CALL  # The answer begins with text, or with a header of its own.
        if kind is not None:
            self.last = kind
            return Opened(at + len(kind), self._open(kind, name.strip()))
        may_come = at == -1 or begins_any(_TYPES, header[at:])
        return Verdict.MORE if may_come else Verdict.NOT_A_CALL

    def _open(self, kind: str, name: str) -> Channel | MessageCall:
        if kind == THOUGHT:
            return _THOUGHT
        if not self._calls or kind in (TEXT, ERROR):
            return _TEXT
        if kind == JSON_CALL:
            return JSONMessageReader(ENDS, _BEHIND)
        return VerbatimReader(name, _KEY, ENDS, (MESSAGE,)) if name else _TEXT
