"""Messages of Muse Glimmer: ``<|start|>assistant to=RCPT<|message|>…<|eom|>``.

A message to `self` is reasoning, one to `user` or, in Muse Spark, to `commentary` is text; any
other recipient is a tool, and only such messages have calls (in ATEM tags). The start may be
missing, and the next header ends a message that has no end marker.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.parsing.body import BodyReader, Channel, Verdict
from penstock.parsing.call_sink import CallSink
from penstock.readers.channels import (
    Message,
    MessageSyntax,
    Opened,
    TaggedMessageReader,
    begins_any,
)
from penstock.readers.tagged import TagDialect

START: Final = "<|start|>"
TO: Final = "to="
MESSAGE: Final = "<|message|>"
ENDS: Final = ("<|eom|>", "<|eot|>")
SECTION: Final = "<atem:function_calls>"
SECTION_END: Final = "</atem:function_calls>"

_HEADERS: Final = (START, TO)
_NAME: Final = r"[A-Za-z0-9_.:*-]"
# `self` is reasoning, `user` and `commentary` are content, and any other recipient is a tool
# channel. An invoke in one of the first three is text.
_RECIPIENT: Final = re.compile(rf"to=({_NAME}{{1,160}})\s{{0,8}}\Z")
_TEXT_RECIPIENTS: Final = ("user", "commentary")
_HEADER: Final = re.compile(
    rf"\s{{0,8}}{_NAME}{{0,80}}(?:\s{{1,8}}{_NAME}{{0,80}})?"
    rf"\s{{0,8}}(?:to?|to={_NAME}{{0,160}}\s{{0,8}})?"
)
"""A header or its beginning: a role, its name, a recipient."""

_UNREAD_HEADER: Final = re.compile(r"<\|start\|>[^<]*\Z")

_THOUGHT: Final = Channel("thinking", ENDS, interrupted=True, opens=_HEADERS)
_TEXT: Final = Channel("text", ENDS, interrupted=True, opens=_HEADERS)
_TOOL: Final = Channel("text", ENDS, interrupted=True)


class ATEM(MessageSyntax, frozen=True):
    """Messages with recipients; without *calls*, messages to a tool are text."""

    headers = _HEADERS
    begun = f"{START}assistant"
    ends = ENDS
    calls: bool = True

    @property
    def starts(self) -> tuple[str, ...]:
        """The beginnings of a header, or of a section of calls without one."""
        return (*_HEADERS, SECTION) if self.calls else _HEADERS

    def body(self, marker: str) -> BodyReader:
        """Return a new reader for the text after *marker*."""
        if marker == SECTION:
            return _SectionMessage()
        return ATEMMessage(marker, "" if marker == START else marker, calls=self.calls)


class ATEMMessage(Message):
    """Reads the message that *marker* begins; without *calls*, one to a tool is text."""

    last = MESSAGE

    def _judge(self, header: str, calls: CallSink) -> Opened | Verdict:
        if self._is_answer(header):
            return Verdict.NOT_A_CALL
        # Text that was not a header is scanned again; it is not one without its start either.
        if self._marker == TO and _UNREAD_HEADER.search(calls.line()):
            return Verdict.NOT_A_CALL
        at = header.find("<")
        head = header if at == -1 else header[:at]
        if _HEADER.fullmatch(head) is None:
            return Verdict.NOT_A_CALL
        if at != -1 and header.startswith(MESSAGE, at):
            return Opened(at + len(MESSAGE), self._open(head))
        may_come = at == -1 or begins_any((MESSAGE,), header[at:])
        return Verdict.MORE if may_come else Verdict.NOT_A_CALL

    def _open(self, head: str) -> Channel | BodyReader:
        found = _RECIPIENT.search(head)
        recipient = found[1] if found else "user"
        if recipient == "self":
            return _THOUGHT
        if recipient in _TEXT_RECIPIENTS or not self._calls:
            return _TEXT
        return TaggedMessageReader(_CALLS, leads=True, ends=ENDS, after=_TOOL)


class _SectionMessage(Message):
    """Reads a section of calls without a header."""

    def _judge(self, header: str, calls: CallSink) -> Opened | Verdict:
        del header
        # Text that was not a message is scanned again; a section in it is text, too.
        if calls.line().rstrip().endswith(MESSAGE):
            return Verdict.NOT_A_CALL
        return Opened(0, TaggedMessageReader(_CALLS, ends=ENDS, after=_TOOL))


# A section may be missing, and so may its end. "<atem:" begins nothing but tags of the format.
_CALLS: Final = TagDialect(
    starts=(SECTION,),
    section=SECTION,
    section_end=SECTION_END,
    call='<atem:invoke name="NAME">',
    call_end="</atem:invoke>",
    parameter='<atem:parameter name="KEY">',
    parameter_end="</atem:parameter>",
    controls=("<atem:", "</atem:", START, MESSAGE, *ENDS),
    header=START,
    trims="exact",
    special=True,
)
