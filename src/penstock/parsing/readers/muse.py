"""The messages of Muse Glimmer: each has a recipient, and those to a tool hold calls in ATEM.

``<|start|>assistant to=RCPT<|message|>…<|eom|>``. What is said to `self` is a thought, to `user` it
is text; any other recipient is a tool, and only there calls are calls. The start may be missing,
and the next header ends a message that has no end marker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from penstock.parsing.call_sink import CallSink
from penstock.parsing.readers.base import BodyReader, Verdict
from penstock.parsing.readers.channels import (
    Message,
    MessageCall,
    Opened,
    Opening,
    begins_any,
    opened_from,
    opened_thought,
)
from penstock.parsing.readers.tagged.messages import RawCalls
from penstock.parsing.readers.tagged.tags import RawTag
from penstock.parsing.readers.tagged.values import typed
from penstock.parsing.reasoning import Channel
from penstock.values.schema import Schema

START: Final = "<|start|>"
TO: Final = "to="
MESSAGE: Final = "<|message|>"
ENDS: Final = ("<|eom|>", "<|eot|>")
SECTION: Final = "<atem:function_calls>"
SECTION_END: Final = "</atem:function_calls>"

_HEADERS: Final = (START, TO)
_NAME: Final = r"[A-Za-z0-9_.:*-]"
_RECIPIENT: Final = re.compile(rf"to=({_NAME}{{1,160}})\s{{0,8}}\Z")
_HEADER: Final = re.compile(
    rf"\s{{0,8}}{_NAME}{{0,80}}(?:\s{{1,8}}{_NAME}{{0,80}})?"
    rf"\s{{0,8}}(?:to?|to={_NAME}{{0,160}}\s{{0,8}})?"
)
"""What may stand before the message, or the beginning of that: a role, its name, a recipient."""

_UNREAD_HEADER: Final = re.compile(r"<\|start\|>[^<]*\Z")

_THOUGHT: Final = Channel("thinking", ENDS, interrupted=True, opens=_HEADERS)
_TEXT: Final = Channel("text", ENDS, interrupted=True, opens=_HEADERS)
_TOOL: Final = Channel("text", ENDS, interrupted=True)


class ATEM(Struct, frozen=True):
    """Messages with recipients; without *calls* those to a tool are text."""

    calls: bool = True

    @property
    def starts(self) -> tuple[str, ...]:
        """What begins a header, or a section of calls where there is not one."""
        return (*_HEADERS, SECTION) if self.calls else _HEADERS

    @property
    def folds(self) -> bool:
        """Markers are matched as they are."""
        return False

    def body(self, marker: str) -> BodyReader:
        """Return a fresh reader for what follows *marker*."""
        if marker == SECTION:
            return _SectionMessage()
        return ATEMMessage(marker, calls=self.calls)

    def opened_in(self, prompt: str) -> Opening | None:
        """Return in which state *prompt* leaves the answer: it has begun the header, or more."""
        if not prompt.strip():
            return f"{START}assistant", None
        return opened_thought(prompt, ENDS) or opened_from(prompt, START, TO)


class ATEMMessage(Message):
    """Reads the message that *marker* begins; without *calls* one to a tool is text."""

    last = MESSAGE

    def __init__(self, marker: str, *, calls: bool = True) -> None:
        super().__init__("" if marker == START else marker)
        self._marker = marker
        self._calls = calls

    def _judge(self, header: str, calls: CallSink) -> Opened | Verdict:
        if self._is_answer(header):
            return Verdict.NOT_A_CALL
        # Text that was not a header is looked at again: it is not one without its start, too.
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

    def _open(self, head: str) -> Channel | MessageCall:
        found = _RECIPIENT.search(head)
        recipient = found[1] if found else "user"
        if recipient == "self":
            return _THOUGHT
        if recipient == "user" or not self._calls:
            return _TEXT
        return RawCalls(_GRAMMAR, leads=True, ends=ENDS, behind=_TOOL)


class _SectionMessage(Message):
    """Reads a section of calls that no header comes before, or text."""

    def _judge(self, header: str, calls: CallSink) -> Opened | Verdict:
        del header
        # Text that was not a message is looked at again: what is in it is not a section, either.
        if calls.line().rstrip().endswith(MESSAGE):
            return Verdict.NOT_A_CALL
        return Opened(0, RawCalls(_GRAMMAR, ends=ENDS, behind=_TOOL))


class _Grammar:
    """Invokes and parameters; the schema says what a value is."""

    section = SECTION
    section_end = SECTION_END
    call = RawTag("<atem:invoke", ">")
    call_end = "</atem:invoke>"
    argument = RawTag("<atem:parameter", ">")
    argument_end = "</atem:parameter>"
    tokens: tuple[str, ...] = ("<atem:", "</atem:", START, MESSAGE, *ENDS)
    separator = ""

    def name_of(self, attributes: Mapping[str, str]) -> str:
        return attributes.get("name", "")

    def key_of(self, attributes: Mapping[str, str]) -> str | None:
        return attributes.get("name")

    def is_text(self, attributes: Mapping[str, str], schema: Schema | None) -> bool:
        del attributes
        return schema is None or schema.is_string or schema.free

    def value_of(self, text: str, attributes: Mapping[str, str], schema: Schema | None) -> Any:
        del attributes
        return typed(text, schema)


_GRAMMAR: Final = _Grammar()
