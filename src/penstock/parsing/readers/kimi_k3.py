"""The channels of Kimi K3: every mark is ``<|open|>`` or ``<|close|>``, a word, and ``<|sep|>``.

`think` is a thought, `response` is text, and `tools` holds calls with raw values. A mark without a
word that is known here is text, and so is what is in no channel. The next channel ends one that
was not closed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from penstock.errors import ParseError
from penstock.parsing.call_sink import CallSink
from penstock.parsing.readers.base import Verdict
from penstock.parsing.readers.channels import (
    OUTSIDE,
    ClosingMark,
    Message,
    MessageCall,
    Opened,
    Opening,
    opened_from,
    opened_thought,
)
from penstock.parsing.readers.tagged.messages import RawCalls
from penstock.parsing.readers.tagged.tags import RawTag, attributes_of_raw_tags
from penstock.parsing.readers.tagged.values import UnreadableValueError, typed
from penstock.parsing.reasoning import Channel
from penstock.values import rjson
from penstock.values.coercion import UNREAD, coerce, read_boolean, read_number
from penstock.values.rxml.elements import is_list
from penstock.values.schema import Schema

OPEN: Final = "<|open|>"
SEPARATOR: Final = "<|sep|>"


def closing(word: str) -> str:
    """Write the mark that closes *word*."""
    return f"<|close|>{word}{SEPARATOR}"


_END_OF_TURN: Final = closing("message")
_CLOSINGS: Final = (
    *(closing(word) for word in ("think", "response", "tools")),
    _END_OF_TURN,
    "<|end_of_msg|>",
)
"""What closes a channel, or the turn; where it closes nothing it says nothing."""

_THOUGHT_ENDS: Final = (closing("think"), _END_OF_TURN)
_CHANNELS: Final[dict[str, Channel]] = {
    "think": Channel("thinking", _THOUGHT_ENDS, interrupted=True, opens=(OPEN,)),
    "response": Channel(
        "text", (closing("response"), _END_OF_TURN), interrupted=True, opens=(OPEN,)
    ),
    "message": OUTSIDE,
}
_TAGS: Final = {word: RawTag(word, SEPARATOR) for word in (*_CHANNELS, "tools", "call")}
_IN_SECTION: Final = re.compile(r"<\|open\|>tools<\|sep\|>\s*\Z")


class XTML(Struct, frozen=True):
    """Channels that are opened and closed; without *calls* those of the tools are text."""

    calls: bool = True

    @property
    def starts(self) -> tuple[str, ...]:
        """What begins a mark, and the marks that close what may not be open."""
        return (OPEN, *_CLOSINGS)

    @property
    def folds(self) -> bool:
        """Markers are matched as they are."""
        return False

    def body(self, marker: str) -> Message:
        """Return a fresh reader for what follows *marker*."""
        return OpeningMark(calls=self.calls) if marker == OPEN else ClosingMark()

    def opened_in(self, prompt: str) -> Opening | None:
        """Return in which state *prompt* leaves the answer: inside the channel that it opened."""
        return opened_thought(prompt, _THOUGHT_ENDS) or opened_from(prompt, OPEN)


class OpeningMark(Message):
    """Reads the mark that opens a channel, or the call that it opens."""

    last = SEPARATOR

    def __init__(self, *, calls: bool = True) -> None:
        super().__init__()
        self._calls = calls

    def _judge(self, header: str, calls: CallSink) -> Opened | Verdict:
        for word, tag in _TAGS.items():
            found = tag.match(header)
            if found is None:
                continue
            # A call whose section was none is looked at again: it is not a call by itself, either.
            if word == "call" and _IN_SECTION.search(calls.line()):
                return Verdict.NOT_A_CALL
            follows = self._open(word, attributes_of_raw_tags(found))
            return Verdict.NOT_A_CALL if follows is None else Opened(found.end(), follows)
        may_come = any(tag.is_begun(header) for tag in _TAGS.values())
        return Verdict.MORE if may_come else Verdict.NOT_A_CALL

    def _open(self, word: str, attributes: Mapping[str, str]) -> Channel | MessageCall | None:
        if word in _CHANNELS:
            return _CHANNELS[word]
        if not self._calls:
            return OUTSIDE if word == "tools" else None
        if word == "tools":
            return RawCalls(_GRAMMAR)
        name = _GRAMMAR.name_of(attributes)
        return RawCalls(_GRAMMAR, name) if name else None


class _Grammar:
    """Calls and arguments, with the type of a value beside its key."""

    section = f"{OPEN}tools{SEPARATOR}"
    section_end = closing("tools")
    call = RawTag(f"{OPEN}call", SEPARATOR, loose=True)
    call_end = closing("call")
    argument = RawTag(f"{OPEN}argument", SEPARATOR, loose=True)
    argument_end = closing("argument")
    tokens: tuple[str, ...] = (OPEN, "<|close|>", SEPARATOR, "<|end_of_msg|>")
    separator = SEPARATOR

    def name_of(self, attributes: Mapping[str, str]) -> str:
        return _decoded(attributes.get("tool", ""))

    def key_of(self, attributes: Mapping[str, str]) -> str | None:
        key = attributes.get("key")
        return None if key is None else _decoded(key)

    def is_text(self, attributes: Mapping[str, str], schema: Schema | None) -> bool:
        kind = attributes.get("type")
        if kind == "string":
            return True
        return kind not in _READERS and (schema is None or schema.is_string or schema.free)

    def value_of(self, text: str, attributes: Mapping[str, str], schema: Schema | None) -> Any:
        read = _READERS.get(attributes.get("type", ""))
        if read is None:
            return typed(text, schema)
        found = read(text)
        if found is not UNREAD:
            return coerce(found, schema, typed=True) if is_list(schema) else found
        if is_list(schema):
            return typed(text, schema)
        kind = attributes["type"]
        found = typed(text, _WIRE.get(kind))
        if kind == "object" and isinstance(found, list):
            raise UnreadableValueError("a list in the place of an object")
        return found


_WIRE: Final = {kind: Schema({"type": kind}) for kind in ("array", "object")}
_GRAMMAR: Final = _Grammar()


def _read_null(text: str) -> Any:
    return None if text.strip() == "null" else UNREAD


def _read_object(text: str) -> Any:
    found = _read_json(text)
    return found if isinstance(found, dict) else UNREAD


def _read_array(text: str) -> Any:
    found = _read_json(text)
    return found if isinstance(found, list) else UNREAD


def _read_json(text: str) -> Any:
    try:
        return rjson.loads(text, duplicates="last")
    except ParseError:
        return UNREAD


_READERS: Final = {
    "number": read_number,
    "integer": read_number,
    "boolean": read_boolean,
    "null": _read_null,
    "object": _read_object,
    "array": _read_array,
}
"""What reads a value of the type that stands beside its key; text that is not one stays text."""


def _decoded(text: str) -> str:
    return text.replace("&quot;", '"').replace("&amp;", "&")


def encoded(text: str) -> str:
    """Write *text* as an attribute's value."""
    return text.replace("&", "&amp;").replace('"', "&quot;")
