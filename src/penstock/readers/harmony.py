"""The messages of gpt-oss: a role, a channel, perhaps a recipient, then the text.

``<|start|>ROLE to=RCPT<|channel|>CH to=RCPT <|constrain|>json<|message|>…`` in any order, with any
junk, and with parts omitted. A message with a recipient is a call, wherever the recipient is in the
header; without one, `analysis` is reasoning and any other channel is text. A message ends with its
end marker or with the next header.

Beam has the same messages, but its calls are in the channel `analysis`, with ``<|constrain|>xml``
and a tag for each parameter in place of JSON.

If a server has stripped the special tokens, their words remain, glued to the text:
``analysisSo…assistantfinalYes``. That is recognised only at the beginning of a response.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from penstock.parsing.body import BodyReader, Channel, Verdict
from penstock.parsing.call_sink import CallSink, RepairedCall
from penstock.parsing.scanner import Scanner
from penstock.readers.channels import (
    CODE,
    ChannelCodeReader,
    Message,
    MessageSyntax,
    NamedJSONReader,
    Opened,
    VerbatimReader,
    begins_any,
)
from penstock.readers.tagged import TagDialect
from penstock.readers.tagged.calls import TaggedCallReader
from penstock.readers.tagged.parameters import ParameterReader
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
"""Recipients that are not tools: roles, and the recipient of a plain message."""

_THOUGHT: Final = Channel("thinking", ENDS, interrupted=True, starts=(MESSAGE,))
_TEXT: Final = Channel("text", ENDS, interrupted=True, starts=(MESSAGE,))
_AFTER_CALL: Final = Channel("text", ENDS, interrupted=True)

_INSIDE: Final = (CHANNEL, CONSTRAIN, MESSAGE)
_TOKEN: Final = re.compile("|".join(map(re.escape, (START, *_INSIDE, *ENDS))))
_NAME: Final = r"[A-Za-z0-9_.:-]"
# The recipient is in the role (`<|start|>assistant to=…`) or in the channel, and
# `<|constrain|>json` is optional. vLLM raises HarmonyError for tokens in another order, and its
# server answers with status 500.
_ROLE: Final = re.compile(
    rf"\s{{0,8}}{_NAME}{{0,80}}(?:\s{{1,8}}(?:t?|to|to={_NAME}{{0,160}}(?:\s{{1,8}}\w{{0,8}})?))?\s{{0,8}}"
)
"""The text between the start of a header and its first token, or the beginning of it."""

# The channel may have junk after it, so its first word counts.
_WORD: Final = re.compile(r"\s*([A-Za-z]*)")
_RECIPIENT: Final = re.compile(r"to=([\w.:-]+)")
_UNREAD_HEADER: Final = re.compile(r"<\|start\|>[^<]*\Z")

# --- without special tokens ---

# Some servers strip special tokens and leave the words: `analysis…assistantfinal…`. SGLang reads
# that too.
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


_XML: Final = re.compile(r"<\|constrain\|>\s{0,8}xml\s{0,8}\Z")
# Beam has the frame of harmony and calls in channel `analysis` with `<|constrain|>xml`. The closing
# tag, newline included, is one token; once the model writes the newline as text it may continue
# with the next parameter, and that opening tag ends the value.
_BEAM: Final = TagDialect(
    starts=("<rfl:parameter name=",),
    call='<rfl:call name="NAME">',  # The name is in the header.
    call_end=CALL,
    other_ends=(END, "<|return|>"),
    parameter='<rfl:parameter name="KEY">',
    parameter_end="</rfl:parameter>",
    controls=("<rfl:", "</rfl:", START, CHANNEL, CONSTRAIN, MESSAGE, *ENDS),
    header=START,
    trims="any newlines",
    special=True,
)


class BeamCallReader(TaggedCallReader):
    """Reads the parameters of the call of *name*, up to the end of its message."""

    def __init__(self, name: str, *, repairs: bool = False) -> None:
        super().__init__(_BEAM, "", repairs=repairs)
        self.end = CALL
        self._name = name

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls to *calls*."""
        if self._inside is None and not self._calls:
            calls.name = self._name
            schema = calls.find_schema(self._name)
            self._inside = ParameterReader(self._grammar, self._name, schema, repairs=self._repairs)
        return super().read(scanner, calls)

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Close what was left open."""
        del ended
        if self._inside is None or self._inside.is_unclear:
            return []
        return BeamCallReader(self._name, repairs=True).read_again(text, self._schemas)


class Harmony(MessageSyntax, frozen=True):
    """The syntax of messages with channels; without *calls*, those to a tool are text."""

    starts = headers = (START, CHANNEL)  # A header may begin with its channel.
    begun = f"{START}assistant"
    ends = ENDS
    calls: bool = True

    def body(self, marker: str) -> HarmonyMessage:
        """Return a new reader for the text after *marker*."""
        header = "" if marker in self.starts else marker
        return HarmonyMessage(marker, header, calls=self.calls)


class HarmonyMessage(Message):
    """Reads the message that *marker* begins; without *calls*, one to a tool is text."""

    last = MESSAGE

    def _judge(self, header: str, calls: CallSink) -> Opened | Verdict:
        if self._is_answer(header, "analysis", "commentary") or self._is_first_header(header):
            return Verdict.NOT_A_CALL
        if self._marker == CHANNEL:
            # Text that was not a header is scanned again, and is not one without its start either.
            if _UNREAD_HEADER.search(calls.line()):
                return Verdict.NOT_A_CALL
        else:
            glued = self._judge_glued(header)
            if glued is not None:
                return glued
        return self._judge_tokens(header, calls)

    def _is_first_header(self, header: str) -> bool:
        """Return whether the response has a header of its own, which replaces the prompt's."""
        given = self._given
        return header[:given] == "assistant" and header.startswith((START, CHANNEL), given)

    def _judge_tokens(self, header: str, calls: CallSink) -> Opened | Verdict:
        """Process the tokens of the header up to its last."""
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
        """Judge a role without a token: it may become a header, or not."""
        at = header.find("<", begin)
        end = len(header) if at == -1 else at
        is_token = at == -1 or begins_any((START, *_INSIDE), header[at:])
        is_role = _ROLE.fullmatch(header, begin, end) is not None
        return Verdict.MORE if is_token and is_role else Verdict.NOT_A_CALL

    def _open(self, header: str, calls: CallSink) -> Channel | BodyReader:
        """Return the channel or the call that *header*, without its tokens, opens."""
        role, found, channel = header.rpartition(CHANNEL)
        if self._marker == CHANNEL and not found:
            role, channel = "", header
        elif not found:
            role, channel = header, header.strip().removeprefix("assistant")
        recipient = _RECIPIENT.search(role) or _RECIPIENT.search(channel)
        name = _clean_name(recipient[1], calls.schemas) if recipient else ""
        if name not in _NO_TOOLS:
            is_tagged = _XML.search(header) is not None
            return BeamCallReader(name) if is_tagged and self._calls else self._open_call(name)
        word = _WORD.match(channel)
        return _THOUGHT if word and word[1] == "analysis" else _TEXT

    def _open_call(self, name: str) -> Channel | BodyReader:
        if not self._calls:
            return _TEXT
        json = NamedJSONReader(name, ENDS, _AFTER_CALL)
        if name != _PYTHON:
            return json
        return ChannelCodeReader(json, VerbatimReader(name, CODE, ENDS, (START,)))

    def _judge_glued(self, header: str) -> Opened | None:
        """Return the channel or call of a header whose tokens were stripped, if it is one."""
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
    """Return the tool that *recipient* names, without text that a damaged header glued to it."""
    name = recipient.removeprefix(_NAMESPACE)
    if name in schemas:
        return name
    bare = recipient.removeprefix(_NAMESPACE.rstrip(".")).strip(".:")
    for channel in ("", *_CHANNELS):
        if bare.removesuffix(channel) in schemas:
            return bare.removesuffix(channel)
    return name
