"""The messages of gpt-oss: a role, a channel, perhaps a recipient, then the text.

``<|start|>ROLE to=RCPT<|channel|>CH to=RCPT <|constrain|>json<|message|>…`` in any order, with any
junk, and without what models leave out. A recipient makes it a call, wherever it stands; without
one `analysis` is a thought and any other channel is text. A message ends with its end marker or
with the next header.

Where a server has stripped the special tokens, their words are left, glued to the text:
``analysisSo…assistantfinalYes``. That is only known at the beginning of an answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from penstock.parsing.call_sink import CallSink
from penstock.parsing.readers.base import Verdict
from penstock.parsing.readers.channels import (
    CODE,
    ChannelCodeReader,
    Message,
    MessageCall,
    NamedJSONReader,
    Opened,
    Opening,
    VerbatimReader,
    begins_any,
    opened_from,
    opened_thought,
)
from penstock.parsing.reasoning import Channel
from penstock.values.schema import Schema

START: Final = "<|start|>"
CHANNEL: Final = "<|channel|>"
MESSAGE: Final = "<|message|>"
CONSTRAIN: Final = "<|constrain|>"
CALL: Final = "<|call|>"
END: Final = "<|end|>"
ENDS: Final = (CALL, END, "<|return|>")

_NAMESPACE: Final = "functions."
_PYTHON: Final = "python"
_CHANNELS: Final = ("commentary", "analysis", "final")
_NO_TOOLS: Final = frozenset({"", "assistant", "user", "system", "developer", "all"})
"""Recipients that are not tools."""

_THOUGHT: Final = Channel("thinking", ENDS, interrupted=True, starts=(MESSAGE,))
_TEXT: Final = Channel("text", ENDS, interrupted=True, starts=(MESSAGE,))
_BEHIND: Final = Channel("text", ENDS, interrupted=True)

_INSIDE: Final = (CHANNEL, CONSTRAIN, MESSAGE)
_TOKEN: Final = re.compile("|".join(map(re.escape, (START, *_INSIDE, *ENDS))))
_NAME: Final = r"[A-Za-z0-9_.:-]"
_ROLE: Final = re.compile(
    rf"\s{{0,8}}{_NAME}{{0,80}}(?:\s{{1,8}}(?:t?|to|to={_NAME}{{0,160}}(?:\s{{1,8}}\w{{0,8}})?))?\s{{0,8}}"
)
"""What may stand between the start of a header and its first token, or the beginning of that."""

_WORD: Final = re.compile(r"\s*([A-Za-z]*)")
_RECIPIENT: Final = re.compile(r"to=([\w.:-]+)")
_UNREAD_HEADER: Final = re.compile(r"<\|start\|>[^<]*\Z")

# --- without special tokens ---

_GLUED_THOUGHT: Final = re.compile(r"assistantanalysis(?=[^\W_])")
_GLUED_CALL: Final = re.compile(
    rf"assistantcommentary\s{{1,8}}to=({_NAME}{{1,160}})\s{{0,8}}(?:json|code)?\s{{0,8}}(?={{)"
)
_GLUED_START: Final = "assistantcommentary to="
_GLUED_AGAIN: Final = "assistantanalysis"
_GLUED_END: Final = ("assistantfinal",)
_BARE_THOUGHT: Final = Channel("thinking", _GLUED_END, interrupted=True, opens=(_GLUED_START,))
_BARE_TEXT: Final = Channel(
    "text", _GLUED_END, interrupted=True, opens=(_GLUED_START, _GLUED_AGAIN)
)


class Harmony(Struct, frozen=True):
    """Messages with channels; without *calls* those to a tool are text."""

    calls: bool = True

    @property
    def starts(self) -> tuple[str, ...]:
        """What begins a header: its start, or its channel where that was omitted."""
        return (START, CHANNEL)

    @property
    def folds(self) -> bool:
        """Markers are matched as they are."""
        return False

    def body(self, marker: str) -> HarmonyMessage:
        """Return a fresh reader for what follows *marker*."""
        header = "" if marker in self.starts else marker
        return HarmonyMessage(marker, header, calls=self.calls)

    def opened_in(self, prompt: str) -> Opening | None:
        """Return in which state *prompt* leaves the answer: it has begun the header, or more."""
        if not prompt.strip():
            return f"{START}assistant", None
        return opened_thought(prompt, ENDS) or opened_from(prompt, START, CHANNEL)


class HarmonyMessage(Message):
    """Reads the message that *marker* begins; without *calls* one to a tool is text."""

    last = MESSAGE

    def __init__(self, marker: str, header: str = "", *, calls: bool = True) -> None:
        super().__init__(header)
        self._marker = marker
        self._calls = calls

    def _judge(self, header: str, calls: CallSink) -> Opened | Verdict:
        if self._is_answer(header, "analysis", "commentary") or self._is_first_header(header):
            return Verdict.NOT_A_CALL
        if self._marker == CHANNEL:
            # Text that was not a header is looked at again: it is not one without its start, too.
            if _UNREAD_HEADER.search(calls.line()):
                return Verdict.NOT_A_CALL
        else:
            glued = self._judge_glued(header)
            if glued is not None:
                return glued
        return self._judge_tokens(header, calls)

    def _is_first_header(self, header: str) -> bool:
        """Return whether the answer has a header of its own.

        The role in the prompt says no more.
        """
        given = self._given
        return header[:given] == "assistant" and header.startswith((START, CHANNEL), given)

    def _judge_tokens(self, header: str, calls: CallSink) -> Opened | Verdict:
        """Follow the tokens of the header up to its last."""
        begin, in_role = 0, self._marker != CHANNEL
        for token in _TOKEN.finditer(header):
            if in_role and _ROLE.fullmatch(header, begin, token.start()) is None:
                return Verdict.NOT_A_CALL
            if token[0] == MESSAGE:
                opened = self._open(header[begin : token.start()], calls)
                return Opened(token.end(), opened)
            if token[0] == START and in_role:
                begin = token.end()  # a header that begins again
            elif token[0] not in _INSIDE:
                return Verdict.NOT_A_CALL
            else:
                in_role = False
        return self._judge_rest(header, begin) if in_role else Verdict.MORE

    def _judge_rest(self, header: str, begin: int) -> Verdict:
        """Return whether a role may become a header: no token has come yet."""
        at = header.find("<", begin)
        end = len(header) if at == -1 else at
        is_token = at == -1 or begins_any((START, *_INSIDE), header[at:])
        is_role = _ROLE.fullmatch(header, begin, end) is not None
        return Verdict.MORE if is_token and is_role else Verdict.NOT_A_CALL

    def _open(self, header: str, calls: CallSink) -> Channel | MessageCall:
        """Return what *header*, without its marks, opens."""
        role, found, channel = header.rpartition(CHANNEL)
        if self._marker == CHANNEL and not found:
            role, channel = "", header
        elif not found:
            role, channel = header, header.strip().removeprefix("assistant")
        recipient = _RECIPIENT.search(role) or _RECIPIENT.search(channel)
        name = _clean_name(recipient[1], calls.schemas) if recipient else ""
        if name not in _NO_TOOLS:
            return self._open_call(name)
        word = _WORD.match(channel)
        return _THOUGHT if word and word[1] == "analysis" else _TEXT

    def _open_call(self, name: str) -> Channel | MessageCall:
        if not self._calls:
            return _TEXT
        json = NamedJSONReader(name, ENDS, _BEHIND)
        if name != _PYTHON:
            return json
        return ChannelCodeReader(json, VerbatimReader(name, CODE, ENDS, (START,)))

    def _judge_glued(self, header: str) -> Opened | None:
        """Look for a header whose tokens were stripped."""
        thought = _GLUED_THOUGHT.match(header)
        if thought is not None:
            return Opened(thought.end(), _BARE_THOUGHT)
        call = _GLUED_CALL.match(header)
        if call is None:
            return None
        if not self._calls:
            return Opened(call.end(), _BARE_TEXT)
        name = call[1].removeprefix(_NAMESPACE)
        return Opened(call.end(), NamedJSONReader(name, (), _BARE_TEXT))


def _clean_name(recipient: str, schemas: Mapping[str, Schema]) -> str:
    """Return the name of the tool that *recipient* is.

    Without what a damaged header glued to it.
    """
    name = recipient.removeprefix(_NAMESPACE)
    if name in schemas:
        return name
    bare = recipient.removeprefix(_NAMESPACE.rstrip(".")).strip(".:")
    for channel in ("", *_CHANNELS):
        if bare.removesuffix(channel) in schemas:
            return bare.removesuffix(channel)
    return name
