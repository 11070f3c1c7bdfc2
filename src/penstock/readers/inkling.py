"""Messages of Inkling: typed blocks, ``<|message_model|>NAME<|content_TYPE|>…<|end_message|>``.

The name comes before calls only, and the first message token is in the prompt. A call has its name
and its arguments as one object, or it is free text for the tool that the header names.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.parsing.body import BodyReader, Channel, Verdict
from penstock.parsing.call_sink import CallSink
from penstock.readers.channels import (
    ClosingMark,
    JSONMessageReader,
    Message,
    MessageSyntax,
    Opened,
    VerbatimReader,
    begins_any,
)

MESSAGE: Final = "<|message_model|>"
THOUGHT: Final = "<|content_thinking|>"
TEXT: Final = "<|content_text|>"
JSON_CALL: Final = "<|content_invoke_tool_json|>"
TEXT_CALL: Final = "<|content_invoke_tool_text|>"
ERROR: Final = "<|content_tool_error|>"
END_OF_TURN: Final = "<|content_model_end_sampling|>"
ENDS: Final = ("<|end_message|>", END_OF_TURN)

_TYPES: Final = (THOUGHT, TEXT, JSON_CALL, TEXT_CALL, ERROR)
# Blocks may repeat in any order. A text call has a free-text payload instead of JSON.
_CALLS: Final = (JSON_CALL, TEXT_CALL)
_NAME: Final = re.compile(r"\s{0,8}[A-Za-z0-9_.:-]{0,160}\s{0,8}")
_UNREAD_HEADER: Final = re.compile(r"<\|message_model\|>[^<]*\Z")
_KEY: Final = "text"
"""The argument that is the text of a call in free text."""

_THOUGHT: Final = Channel("thinking", ENDS, interrupted=True, starts=(THOUGHT,))
_TEXT: Final = Channel("text", ENDS, interrupted=True, starts=(TEXT,))
_AFTER_CALL: Final = Channel("text", ENDS, interrupted=True)


class Inkling(MessageSyntax, frozen=True):
    """Typed blocks; without *calls*, blocks that call a tool are text."""

    # A header may begin with its type. The end of the turn comes after its last message.
    starts = (MESSAGE, *_TYPES, END_OF_TURN)
    headers = (MESSAGE, *_TYPES)
    begun = MESSAGE
    ends = ENDS
    calls: bool = True

    def body(self, marker: str) -> Message:
        """Return a new reader for the text after *marker*."""
        if marker == END_OF_TURN:
            return ClosingMark()
        return InklingMessage(marker, "" if marker == MESSAGE else marker, calls=self.calls)


class InklingMessage(Message):
    """Reads the block that *marker* begins; without *calls*, a block that calls a tool is text."""

    def _judge(self, header: str, calls: CallSink) -> Opened | Verdict:
        # Text that was not a header is scanned again; it is not one without its start either.
        if self._marker != MESSAGE and _UNREAD_HEADER.search(calls.line()):
            return Verdict.NOT_A_CALL
        at = header.find("<")
        name = header if at == -1 else header[:at]
        if _NAME.fullmatch(name) is None:
            return Verdict.NOT_A_CALL
        kind = next((kind for kind in _TYPES if at != -1 and header.startswith(kind, at)), None)
        if kind is not None and self._given == 0 and (not name or kind not in _CALLS):
            return Verdict.NOT_A_CALL  # The response begins with text, or with its own header.
        if kind is not None:
            self.last = kind
            return Opened(at + len(kind), self._open(kind, name.strip()))
        may_come = at == -1 or begins_any(_TYPES, header[at:])
        return Verdict.MORE if may_come else Verdict.NOT_A_CALL

    def _open(self, kind: str, name: str) -> Channel | BodyReader:
        if kind == THOUGHT:
            return _THOUGHT
        if not self._calls or kind in (TEXT, ERROR):
            return _TEXT
        if kind == JSON_CALL:
            return JSONMessageReader(ENDS, _AFTER_CALL)
        return VerbatimReader(name, _KEY, ENDS, (MESSAGE,)) if name else _TEXT
