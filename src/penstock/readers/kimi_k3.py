"""Channels of Kimi K3 (XTML): a mark is ``<|open|>`` or ``<|close|>``, a word, and ``<|sep|>``.

The channel `think` is reasoning, `response` is text, and `tools` has calls with raw values. A mark
with any other word is text, and so is everything outside of channels. The next channel ends one
that was not closed.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.parsing.body import Channel, Verdict
from penstock.parsing.call_sink import CallSink, RepairedCall
from penstock.parsing.scanner import skip_match
from penstock.readers.channels import (
    OUTSIDE,
    ClosingMark,
    Message,
    MessageSyntax,
    Opened,
    TaggedMessageReader,
)
from penstock.readers.tagged import TagDialect
from penstock.readers.tagged.tags import Spelling, make_tag

OPEN: Final = "<|open|>"
SEPARATOR: Final = "<|sep|>"


def closing(word: str) -> str:
    """Write the mark that closes *word*."""
    return f"<|close|>{word}{SEPARATOR}"


def _closings(*words: str) -> tuple[str, ...]:
    """Write the marks that close *words*; some servers decode spaces next to special tokens."""
    return tuple(
        closing(before + word + after)
        for word in words
        for before in ("", " ")
        for after in ("", " ")
    )


# Opening `response` or `tools` ends reasoning that was not closed.
_CLOSINGS: Final = (*_closings("think", "response", "tools", "message"), "<|end_of_msg|>")
"""The marks that close a channel or the turn; a mark that closes nothing is dropped."""

_THOUGHT_ENDS: Final = _closings("think", "message")
_CHANNELS: Final[dict[str, Channel]] = {
    "think": Channel("thinking", _THOUGHT_ENDS, interrupted=True, opens=(OPEN,)),
    "response": Channel("text", _closings("response", "message"), interrupted=True, opens=(OPEN,)),
    "message": OUTSIDE,
}
# Values of attributes are escaped (`&quot;`, then `&amp;`), bodies are not. A type on the wire
# counts only where the schema has none.
_TAGS: Final = {
    word: make_tag(f"{word}…{SEPARATOR}", Spelling(loose=True))
    for word in (*_CHANNELS, "tools", "call")
}
_TOOL: Final = "tool"
"""The attribute of a call that names its tool."""

# A call counts without its section, too, unless that section was given back as text.
_IN_SECTION: Final = re.compile(r"<\|open\|> ?tools ?<\|sep\|>\s*\Z")
_LEAD: Final = re.compile(r"(?:<\|open\|>)? {0,16}")
"""What may come before the word of a mark: the token again, and spaces."""


class XTML(MessageSyntax, frozen=True):
    """Channels; without *calls*, the calls of tools are text."""

    starts = (OPEN, *_CLOSINGS)  # The marks that close may close nothing.
    headers = (OPEN,)
    ends = _THOUGHT_ENDS
    calls: bool = True

    def body(self, marker: str) -> Message:
        """Return a new reader for the text after *marker*."""
        return OpeningMark(calls=self.calls) if marker == OPEN else ClosingMark()


class OpeningMark(Message):
    """Reads the mark that opens a channel, or the call that it opens."""

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Repair the call; the mark of its channel comes before it, its own mark belongs to it."""
        if self._call is None:
            return []
        mark = _TAGS["tools"].match(text)
        return self._call.repair(text[mark.end :] if mark is not None else text, ended=ended)

    def _judge(self, header: str, calls: CallSink) -> Opened | Verdict:
        at = skip_match(_LEAD, header, 0)
        for word, tag in _TAGS.items():
            found = tag.match(header, at)
            if found is None or found.is_damaged:
                continue
            if word in _CHANNELS:
                return Opened(found.end, _CHANNELS[word])
            if word == "tools":
                return Opened(found.end, TaggedMessageReader(_CALLS) if self._calls else OUTSIDE)
            # The call of a section that was given back is not a call without its section.
            is_given_back = _IN_SECTION.search(calls.line()) is not None
            if is_given_back or not self._calls or not found.attributes.get(_TOOL):
                return Verdict.NOT_A_CALL
            return Opened(at, TaggedMessageReader(_CALLS, OPEN))
        could_come = any(tag.could_begin(header, at) for tag in _TAGS.values())
        return Verdict.MORE if could_come or OPEN.startswith(header) else Verdict.NOT_A_CALL


# Every token of this dialect is special, so no value can hold one; half a mark in a value means
# that the call is damaged. Attributes are escaped, bodies are not.
_CALLS: Final = TagDialect(
    starts=(OPEN,),
    section=f"{OPEN}tools{SEPARATOR}",
    section_end=closing("tools"),
    call=f'{OPEN}call tool="NAME"{SEPARATOR}',
    call_end=closing("call"),
    parameter=f'{OPEN}argument key="KEY"{SEPARATOR}',
    parameter_end=closing("argument"),
    controls=(OPEN, "<|close|>", SEPARATOR, "<|end_of_msg|>"),
    separator=SEPARATOR,
    trims="exact",
    spelling=Spelling(loose=True, entities=True),
    special=True,
    type_attribute="type",
)
