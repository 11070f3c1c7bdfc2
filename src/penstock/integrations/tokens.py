"""Parse responses that are token ids: text, reasoning, calls, the tokens of each, and a status.

    from penstock.integrations.tokens import TokenParser

    parser = TokenParser(tokenizer, "qwen3_coder", tools)
    response = parser.parse(ids, prompt_ids=prompt_ids)

Training loops need more than calls: which tokens belong to which block, for a loss mask, and which
attempts to call a tool failed and why, for a reward. `integrations.transformers` (TRL),
`integrations.verl` and `integrations.renderers` (verifiers) are adapters of this module.

The tokenizer needs one method, ``decode(ids, skip_special_tokens=False)``, as those of transformers
and tokenizers have. Its ``eos_token_id`` is used where there is one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import Any, Final, Literal, Protocol

from msgspec import Struct, structs

from penstock.errors import JSONParseError
from penstock.events import Event, ToolCallEnd
from penstock.formats import FormatLike, get
from penstock.formats.base import build_message
from penstock.formats.parser import CompiledFormat, Span, SpanKind, count_in_tokens, find_spans
from penstock.messages import AssistantMessage, ToolCall
from penstock.parsing import BrokenCall, Reasoning
from penstock.parsing.body import CALL_CUT
from penstock.parsing.call_shape import NO_NAME

__all__ = ["CallStatus", "Span", "TokenCall", "TokenParser", "TokenResponse", "Tokenizer"]

PROMPT_TOKENS: Final = 32
"""How many tokens at the end of a prompt are searched for a marker that opens reasoning."""

MAX_WINDOW: Final = 16
"""How many tokens may make up one character before their text is taken as it is."""

CallStatus = Literal["ok", "unknown_tool", "cut", "invalid_json", "missing_name", "malformed"]
"""What became of an attempt to call a tool.

* ``ok``: a complete call of a known tool, or of any tool if none were given;
* ``unknown_tool``: a complete call of a tool that was not offered;
* ``cut``: the response ended inside the call;
* ``invalid_json``: the body is not JSON, in a format whose calls are JSON;
* ``missing_name``: the call names no tool;
* ``malformed``: the call breaks another rule of its format.
"""

_REPLACEMENT: Final = "\ufffd"


class Tokenizer(Protocol):
    """What is needed of a tokenizer."""

    def decode(self, ids: Sequence[int], /, *, skip_special_tokens: bool = False) -> str:
        """Return the text of *ids*."""


class TokenCall(Struct, frozen=True, kw_only=True):
    """One attempt to call a tool, in the tokens from *start* to *end*.

    A failed attempt has no `call`, and its `name` may be empty. `error` is the reason, and `raw` is
    the text of the tokens.
    """

    status: CallStatus
    start: int
    end: int
    name: str
    call: ToolCall | None
    raw: str
    error: str = ""

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments; empty if there is no call."""
        return self.call.arguments if self.call is not None else {}


class TokenResponse(Struct, frozen=True, kw_only=True):
    """A response of tokens.

    `spans` count tokens and cover each of them once: the end token belongs to the block before it,
    and tokens after it (padding) are ``other``. `attempts` has all calls in their order, those that
    failed too. `is_cut` is true if there was no end token. The text of a failed attempt is in
    `message`, as text; `content` is the text without it.
    """

    text: str
    message: AssistantMessage
    attempts: list[TokenCall]
    spans: list[Span]
    is_cut: bool
    content: str

    @property
    def calls(self) -> list[ToolCall]:
        """The complete calls of known tools."""
        return [one.call for one in self.attempts if one.status == "ok" and one.call is not None]

    def mask(self, *kinds: SpanKind) -> list[bool]:
        """Return for each token whether it belongs to a block of one of these *kinds*."""
        return [span.kind in kinds for span in self.spans for _ in range(span.start, span.end)]


class TokenParser:
    """Parses the token ids of responses; threads may share it.

    *format* and *reasoning* are those of `penstock.Parser`. With *repair*, damaged calls are
    repaired and count as ``ok``; `ToolCall.repairs` lists what was done. It is off by default:
    training should not reward them.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        format: FormatLike = "auto",  # noqa: A002 - the word of the whole interface
        tools: object = (),
        *,
        reasoning: str | Reasoning | None = None,
        repair: bool = False,
    ) -> None:
        self.tokenizer = tokenizer
        self.format = get(format)
        self._options: dict[str, Any] = {"repair": repair}
        if reasoning is not None:
            self._options["reasoning"] = reasoning
        self._compiled = CompiledFormat(self.format, tools, self._options)
        self._ends = _find_ends(tokenizer)
        self._pieces: dict[int, str] = {}

    def parse(
        self,
        ids: Sequence[int],
        *,
        tools: object = None,
        prompt_ids: Sequence[int] = (),
        is_cut: bool | None = None,
    ) -> TokenResponse:
        """Parse one response.

        *tools* replace those of the parser. *prompt_ids* is the prompt: its end shows whether the
        response begins inside reasoning. *is_cut* says whether the token limit ended the response;
        by default it did if there is no end token, where the tokenizer has one.
        """
        ids = list(ids)
        size = next((at for at, one in enumerate(ids) if one in self._ends), len(ids))
        if is_cut is None:
            is_cut = bool(self._ends) and size == len(ids)
        compiled = self._compiled
        if tools is not None:
            compiled = CompiledFormat(self.format, tools, self._options)
        text, offsets = self._decode(ids[:size])
        broken: list[BrokenCall] = []
        parser = compiled.parser(
            prompt_suffix=self._find_prompt(prompt_ids),
            on_error=lambda _message, segment: broken.append(segment),
        )
        events = [*parser.feed(text), *parser.finish(cut=is_cut)]
        spans = find_spans(events, len(parser.rest), len(text))
        attempts = _find_attempts(
            text, spans, events, broken, {tool.name for tool in compiled.tools}
        )
        message = build_message(events)
        if is_cut:
            message.stop_reason = "length"
        return TokenResponse(
            text=text,
            message=message,
            attempts=[_count_attempt_in_tokens(one, offsets) for one in attempts],
            spans=_add_end(count_in_tokens(spans, offsets), size, len(ids)),
            is_cut=is_cut,
            content=_remove_failures(message.text, attempts),
        )

    def _find_prompt(self, ids: Sequence[int]) -> str:
        tail = list(ids[-PROMPT_TOKENS:])
        return self.tokenizer.decode(tail, skip_special_tokens=False) if tail else ""

    def _decode(self, ids: list[int]) -> tuple[str, list[tuple[int, int]]]:
        """Return the text of *ids*, and the start and end of each token in it."""
        decode, known = self.tokenizer.decode, self._pieces
        whole = decode(ids, skip_special_tokens=False) if ids else ""
        for one in set(ids).difference(known):
            # A response repeats few distinct tokens, and a call of `decode` costs far more than a
            # lookup.
            known[one] = decode([one], skip_special_tokens=False)
        pieces = [known[one] for one in ids]
        # Byte-level tokenizers may split a character (an emoji has four bytes); each of its tokens
        # alone decodes to U+FFFD.
        if _REPLACEMENT not in whole and any(map(_has_replacement, pieces)):
            pieces = self._join_characters(ids, pieces)
        # SentencePiece tokenizers drop the space of the first token of what they decode.
        if "".join(pieces) != whole:
            return self._decode_slowly(ids)
        ends = list(accumulate(map(len, pieces)))
        offsets = list(zip([0, *ends], ends, strict=False))
        if "" in pieces:  # A token without text of its own is part of the character after it.
            for at in range(len(pieces) - 2, -1, -1):
                if not pieces[at]:
                    offsets[at] = offsets[at + 1]
        return whole, offsets

    def _join_characters(self, ids: list[int], pieces: list[str]) -> list[str]:
        """Return *pieces* where a character of several tokens is in the last of them."""
        joined: list[str] = []
        first = -1
        for at, piece in enumerate(pieces):
            if first < 0 and not _has_replacement(piece):
                joined.append(piece)
                continue
            first = at if first < 0 else first
            text = self.tokenizer.decode(ids[first : at + 1], skip_special_tokens=False)
            is_whole = not _has_replacement(text)
            joined.append(text if is_whole else "")
            if is_whole or at - first >= MAX_WINDOW:
                first = -1
        return joined

    def _decode_slowly(self, ids: list[int]) -> tuple[str, list[tuple[int, int]]]:
        """Decode where the text of a token depends on its neighbours.

        That is so for bytes of no valid character, and for tokenizers that write the space before
        a word only if another word comes before it. Tokens of one character get the same place.
        """
        decode = self.tokenizer.decode
        offsets: list[tuple[int, int]] = []
        texts: list[str] = []
        at = first = read = 0
        for end in range(1, len(ids) + 1):
            now = decode(ids[first:end], skip_special_tokens=False)
            if now.endswith(_REPLACEMENT) and end - read < MAX_WINDOW and end < len(ids):
                continue
            before = decode(ids[first:read], skip_special_tokens=False) if read > first else ""
            piece = now[len(before) :]
            last = self._pieces[ids[end - 1]]
            if end - read > 1 and _REPLACEMENT not in last and piece.endswith(last):
                # The tokens before it are bytes that make up no character.
                border = at + len(piece) - len(last)
                offsets += [*[(at, border)] * (end - read - 1), (border, at + len(piece))]
            else:
                offsets += [(at, at + len(piece))] * (end - read)
            texts.append(piece)
            at += len(piece)
            first, read = read, end
        return "".join(texts), offsets


def _has_replacement(piece: str) -> bool:
    return _REPLACEMENT in piece


def _find_ends(tokenizer: object) -> frozenset[int]:
    found = getattr(tokenizer, "eos_token_id", None)
    if isinstance(found, int):
        return frozenset([found])
    # Some tokenizers have several end tokens, as a list.
    return frozenset(found) if isinstance(found, Iterable) else frozenset()


def _find_attempts(
    text: str,
    spans: list[Span],
    events: list[Event],
    broken: list[BrokenCall],
    known: set[str],
) -> list[TokenCall]:
    """Return the calls and the failed attempts in their order, counted in characters."""
    calls = {event.index: event.call for event in events if isinstance(event, ToolCallEnd)}
    attempts = []
    for span in spans:
        call = calls.pop(span.block, None) if span.kind == "tool_call" else None
        if call is not None:
            is_known = not known or call.name in known
            status: CallStatus = "ok" if is_known else "unknown_tool"
            error = "" if is_known else f"there is no tool {call.name!r}"
            raw = text[span.start : span.end]
            found = TokenCall(
                status=status, start=span.start, end=span.end, name=call.name, call=call, raw=raw,
                error=error,
            )  # fmt: skip
            attempts.append(found)
    at = 0
    for segment in broken:
        start = _find_in_text(text, segment.text, spans, at)
        if start >= 0:
            at = start + len(segment.text)
            attempts.append(_make_failure(segment, start))
    return sorted(attempts, key=lambda one: one.start)


def _find_in_text(text: str, wanted: str, spans: list[Span], at: int) -> int:
    """Return where *wanted* is in a span of text from *at* on, or -1: reasoning may quote it."""
    for span in spans:
        if span.kind in ("text", "other") and span.end > at:
            found = text.find(wanted, max(at, span.start), span.end)
            if found >= 0:
                return found
    return -1


def _make_failure(segment: BrokenCall, start: int) -> TokenCall:
    message = str(segment.error)
    if message == CALL_CUT:
        status: CallStatus = "cut"
    elif isinstance(segment.error, JSONParseError):
        status = "invalid_json"
    else:
        status = "missing_name" if message.startswith(NO_NAME) else "malformed"
    end, raw = start + len(segment.text), segment.text
    return TokenCall(
        status=status, start=start, end=end, name=segment.tool_name, call=None, raw=raw,
        error=message,
    )  # fmt: skip


def _count_attempt_in_tokens(attempt: TokenCall, offsets: list[tuple[int, int]]) -> TokenCall:
    """Return *attempt* with the tokens that have at least one of its characters."""
    # A token may have characters of two blocks, such as ">\n": it counts for both.
    start = bisect_right(offsets, attempt.start, key=itemgetter(1))
    end = bisect_left(offsets, attempt.end, key=itemgetter(0))
    return structs.replace(attempt, start=start, end=end)


def _add_end(spans: list[Span], size: int, total: int) -> list[Span]:
    """Return *spans* with the end token, which belongs to the last block, and what follows it."""
    if size == total:
        return spans
    if spans:
        last = spans.pop()
        spans.append(Span(last.kind, last.block, last.start, size + 1))
    else:
        spans.append(Span("other", 0, 0, size + 1))
    if size + 1 < total:
        spans.append(Span("other", spans[-1].block, size + 1, total))
    return spans


def _remove_failures(text: str, attempts: list[TokenCall]) -> str:
    """Return *text* without the attempts that failed."""
    kept, at = [], 0
    for one in attempts:
        start = text.find(one.raw, at) if one.call is None else -1
        if start >= 0:
            kept.append(text[at:start])
            at = start + len(one.raw)
    return "".join([*kept, text[at:]])
