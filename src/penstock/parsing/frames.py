"""Tokens around calls that are not content: wrappers, doubled and empty sections, ends of turns.

Models print more markup than their formats have: a wrapper that no template knows, a section marker
twice, a section without calls, an end tag too many. Once it is known that a call comes before or
after such a token, it is dropped; otherwise it is text. Whether a call comes is known only when its
start marker has arrived, so these readers hold tokens and the white space between them, and decide
by the same text wherever it was cut.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from penstock.parsing.body import BodyReader, Verdict
from penstock.parsing.call_sink import CallSink
from penstock.parsing.scanner import Scanner, skip_match
from penstock.parsing.state import EngineState, close_text, current_line, expect_first
from penstock.parsing.text import SPECIAL, MarkerRole, marker_role

MAX_GAP: Final = 256
"""How much white space may come between two tokens."""

MAX_TOKEN: Final = 96
"""How long a section marker may be."""

MAX_OPENING: Final = 1024
"""How much text of tokens may come before a call."""

MAX_FRAMES: Final = 16
"""How many tokens in a row may belong to one call."""

_GAP: Final = re.compile(rf"\s{{0,{MAX_GAP}}}")
_WINDOW: Final = 512
"""How much text is searched for a marker at its beginning: longer than any marker and its guard."""

# The token that comes before every tag of MiniMax-M3.
_MINIMAX: Final = r"(?:\]<\]minimax\[>\[)?"
_SECTION: Final = re.compile(
    rf"{_MINIMAX}<[^<>=\s\"'/]{{1,{MAX_TOKEN}}}(?: [a-z_]{{1,16}})?>|\[[A-Z_]{{1,32}}\]"
)
"""A whole section marker: a tag without attributes, or a name in brackets."""

_BEGUN_SECTION: Final = re.compile(
    rf"{_MINIMAX}<[^<>=\s\"'/]{{1,{MAX_TOKEN}}}(?: [a-z_]{{0,16}})?|\[[A-Z_]{{0,32}}"
)
# `{}` or `[]`: a section in which a model says that it calls nothing.
_NOTHING: Final = re.compile(r"\{\s{0,8}\}|\[\s{0,8}\]")
_BEGUN_NOTHING: Final = re.compile(r"[{\[]\s{0,8}")
_OPENING_WORD: Final = re.compile(r"(?<![A-Za-z])(begin|start|START|prefix)(?![A-Za-z])")
_TO_CLOSING: Final = {"begin": "end", "start": "end", "START": "END", "prefix": "suffix"}
_IS_END: Final = re.compile(r"\[/|<[^/]")
"""The closing token of a section whose markers are special tokens: it may be missing."""

# All other closing tokens follow from the opening one.
_SOLAR: Final = {"<|tool_calls|>": "<|calls|>"}


@lru_cache(maxsize=256)
def closing_token(token: str) -> str:
    """Return the token that closes the section which *token* opens."""
    if token.startswith("["):
        return f"[/{token[1:]}"
    if token in _SOLAR:
        return _SOLAR[token]
    closing = _OPENING_WORD.sub(lambda word: _TO_CLOSING[word[1]], token.replace("_", "\0"))
    closing = closing.replace("\0", "_")
    if closing != token:
        return closing
    if token.startswith("<|") and "|" not in token[2:]:
        return f"<{token[2:-1]}|>"  # Gemma 4
    before, _, name = token.rpartition("<")
    return f"{before}</{name}"


class _TokenReader(BodyReader):
    """Reads tokens of one response, whose markers *state* has."""

    def __init__(self, state: EngineState) -> None:
        self._state = state

    def _find_next(self, scanner: Scanner, at: int) -> re.Match[str] | Verdict:
        """Return the marker at *at*, `MORE` if one may begin there, or `NOT_A_CALL`."""
        markers, text = self._state.markers, scanner.text
        end = at + _WINDOW + markers.longest
        window = text[at:end] if at or end < len(text) else text
        found = markers.find(window)
        if found is not None and found.start() == 0:
            return Verdict.MORE if markers.may_grow(window, 0) else found
        is_begun = end >= len(text) and markers.find_held(window) == 0
        return Verdict.MORE if is_begun else Verdict.NOT_A_CALL

    def _role(self, found: re.Match[str]) -> tuple[MarkerRole, str]:
        marker = found[0].lower() if self._state.syntax.folds else found[0]
        return marker_role(self._state, marker), marker


class TrailingMarker(_TokenReader):
    """Drops a marker that is the last thing of a response; elsewhere it is text.

    Other markers without content may follow it.
    """

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Skip white space and other such markers; anything else makes the marker text."""
        del calls
        while True:
            at = skip_match(_GAP, scanner.text, scanner.at)
            if at == len(scanner.text):
                scanner.skip_all()
                return Verdict.MORE
            token = self._find_next(scanner, at)
            if isinstance(token, Verdict):
                return token
            role, marker = self._role(token)
            place = self._state.wrappers.get(marker)
            if role is not MarkerRole.WRAPPER or place in ("before_call", "between_calls"):
                return Verdict.NOT_A_CALL
            scanner.advance_to(at + token.end())

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: nothing came after the marker."""
        del calls
        return Verdict.NOT_A_CALL if scanner.unread.strip() else Verdict.DONE


class FrameReader(_TokenReader):
    """Reads tokens around calls, of which one was passed, up to the start marker of a call.

    If no call follows, they are text, with two exceptions: an empty section that is alone on the
    last line, and surplus end tags after a call.
    """

    def __init__(self, state: EngineState, marker: str) -> None:
        super().__init__(state)
        before = state.marker[: len(state.marker) - len(marker)]
        line = (current_line(state) + before).rpartition("\n")[2]
        self._is_alone = not line.strip()
        place = state.wrappers.get(marker)
        self._closes = place == "after_call"  # All tokens so far are end tags.
        self._is_word = place == "between_calls"
        # An end tag may be that of a call that broke, unless there is nothing else before it.
        self._may_open = not self._closes or state.is_first or state.after_block
        self._is_empty = False  # The last token ends a section without a call.
        self._frames = 1

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read tokens; the start marker of a call opens its body."""
        del calls
        while True:
            at = skip_match(_GAP, scanner.text, scanner.at)
            if at == len(scanner.text):
                return Verdict.MORE
            token = self._find_next(scanner, at)
            if token is Verdict.MORE:
                return Verdict.MORE
            if isinstance(token, Verdict) or self._frames == MAX_FRAMES:
                return self._refuse(scanner, scanner.text[scanner.at : at])
            role, marker = self._role(token)
            is_first = marker not in self._state.leading or self._state.is_first
            if role is MarkerRole.CALL and is_first and self._may_open:
                scanner.advance_to(at + token.end())
                return open_body(self._state, token[0])
            if role is not MarkerRole.WRAPPER and role is not MarkerRole.STRAY:
                return self._refuse(scanner, scanner.text[scanner.at : at])
            is_end = self._state.wrappers.get(marker, "after_call") == "after_call"
            self._is_empty = is_end and not self._closes  # It ends a section that was opened here.
            self._closes = self._closes and is_end
            self._frames += 1
            scanner.advance_to(at + token.end())

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: no call follows."""
        del calls
        if scanner.unread.strip():
            return self._refuse(scanner, "")
        has_calls = self._state.started_calls > 0
        is_surplus = self._closes or self._is_alone or self._is_word
        is_surplus = is_surplus and has_calls and not self._state.has_broken
        if is_surplus or (self._is_empty and self._is_alone):
            scanner.skip_all()
            return Verdict.DONE
        return self._refuse(scanner, "")

    def _refuse(self, scanner: Scanner, gap: str) -> Verdict:
        """Return that the tokens are text, unless they are end tags on a line after a call."""
        state = self._state
        is_surplus = self._closes and self._is_alone and "\n" in gap and not state.has_broken
        if is_surplus and state.started_calls:
            return Verdict.DONE
        self._state.marker = scanner.read_since_call()
        return Verdict.NOT_A_CALL


class SectionReader(_TokenReader):
    """Reads a section marker of the format, after *marker*, and looks for a mistake after it.

    A marker that is doubled counts once. A section without calls is dropped where another call
    follows, or where it is alone on the last line. Otherwise the body of the call is read.
    """

    def __init__(self, state: EngineState, marker: str) -> None:
        super().__init__(state)
        self._marker = marker  # the start marker, which may be a beginning of the section marker
        before = state.marker[: len(state.marker) - len(marker)]
        line = (current_line(state) + before).rpartition("\n")[2]
        is_special = SPECIAL.search(marker) is not None
        self._begins_line = not line.strip()
        self._is_alone = is_special or self._begins_line or state.started_calls > 0

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Look ahead; nothing is consumed until it is decided."""
        del calls
        return self._decide(scanner, ended=False)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text."""
        del calls
        return self._decide(scanner, ended=True)

    def _decide(self, scanner: Scanner, *, ended: bool) -> Verdict:
        text = scanner.text
        last = scanner.at  # where the last section marker begins
        may_open = self._marker != "[" or _MISTRAL.startswith(text[last : last + len(_MISTRAL)])
        section = _SECTION.match(text, last) if may_open else None
        if section is None:
            is_begun = may_open and not ended and _BEGUN_SECTION.fullmatch(text, last)
            return Verdict.MORE if is_begun else self._open(scanner, last)
        token = section[0]
        closing = closing_token(token)
        at, is_empty = section.end(), False
        for _ in range(MAX_FRAMES):
            at = skip_match(_GAP, text, at)
            if text.startswith(token, at):
                last, at, is_empty = at, at + len(token), False
                continue
            end = self._find_closing(text, at, closing, is_optional=token[0] == "[" or ended)
            if end == -1:
                break
            at, is_empty = end, True
        if not ended and self._is_undecided(text, at, (token, closing), is_empty=is_empty):
            return Verdict.MORE
        if is_empty:
            return self._follow_empty(scanner, at, ended=ended)
        others = self._state.others
        if text.startswith(others, at):
            other = next(one for one in others if text.startswith(one, at))
            scanner.advance_to(at + len(other))
            return open_other(self._state, other)
        return self._open(scanner, last)

    def _find_closing(self, text: str, at: int, closing: str, *, is_optional: bool) -> int:
        """Return where the end of a section is that has nothing inside from *at* on; -1 if not.

        An empty list needs no closing token where that *is_optional*.
        """
        nothing = _NOTHING.match(text, at)
        end = at if nothing is None else skip_match(_GAP, text, nothing.end())
        if text.startswith(closing, end):
            return end + len(closing)
        is_token = self._begins_line and _IS_END.match(closing) is not None
        is_whole = is_optional and (nothing is not None or is_token)
        is_last = end == len(text)
        return end if is_whole and (is_last or (nothing and text[end] == "<")) else -1

    def _is_undecided(self, text: str, at: int, tokens: tuple[str, ...], *, is_empty: bool) -> bool:
        """Return whether more text decides what begins at *at*."""
        rest = text[at : at + MAX_TOKEN]
        if any(token.startswith(rest) for token in tokens):
            return True
        if is_empty:
            return False
        nothing = _NOTHING.match(text, at)
        if nothing is not None:
            after = skip_match(_GAP, text, nothing.end())
            return tokens[-1].startswith(text[after : after + MAX_TOKEN])
        is_begun = len(rest) < MAX_TOKEN and any(one.startswith(rest) for one in self._state.others)
        return is_begun or _BEGUN_NOTHING.fullmatch(text, at) is not None

    def _follow_empty(self, scanner: Scanner, at: int, *, ended: bool) -> Verdict:
        """Decide what an empty section is: a call may follow it, or the end of the response."""
        if at == len(scanner.text):
            if not ended:
                return Verdict.MORE
            if not self._is_alone or not self._state.repairing:
                return self._open(scanner, scanner.at)
            scanner.skip_all()
            return Verdict.DONE
        token = self._find_next(scanner, at)
        if token is Verdict.MORE and not ended:
            return Verdict.MORE
        if isinstance(token, re.Match):
            role, _ = self._role(token)
            if role is MarkerRole.CALL:
                scanner.advance_to(at + token.end())
                return open_body(self._state, token[0])
            if role is MarkerRole.WRAPPER and self._is_alone and self._state.repairing:
                scanner.advance_to(at)
                return Verdict.DONE
        state, section = self._state, scanner.text[scanner.at : at]
        is_line = self._is_alone and "\n" in section[len(section.rstrip()) :]
        if is_line and state.after_block and state.started_calls and state.repairing:
            scanner.advance_to(scanner.at + len(section.rstrip()))  # It belongs to the calls.
            return Verdict.DONE
        return self._open(scanner, scanner.at)

    def _open(self, scanner: Scanner, start: int) -> Verdict:
        """Read the body after the marker that begins at *start*."""
        scanner.advance_to(start + len(self._marker))
        return open_body(self._state, self._marker)


class StrayMarker(_TokenReader):
    """Drops the end marker of reasoning whose beginning was not seen.

    The prompt may have opened the reasoning although `prompt_suffix` was not given. The marker is
    the first thing of a response, or comes right after a call or reasoning, or it ends a line.
    Anywhere else it is text. What follows is the first thing of the answer; what came before
    was emitted as text, and stays a block of its own.
    """

    def __init__(self, state: EngineState, marker: str) -> None:
        super().__init__(state)
        before = state.marker[: len(state.marker) - len(marker)]
        text = "".join(state.pieces or ())[-MAX_STRAY:] + before
        self._is_first = state.is_first or state.after_block
        # After a blank the marker is part of a sentence; after its own start marker it is a pair
        # that the answer shows.
        self._is_possible = self._is_first or (
            text[-1:] not in (" ", "\t") and marker.replace("/", "") not in text
        )

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Look at what follows: a new line, or the answer itself."""
        del calls
        if not self._is_possible:
            return Verdict.NOT_A_CALL
        text, at = scanner.text, scanner.at
        end = skip_match(_BLANK_IN_LINE, text, at)
        if end == len(text):
            return Verdict.MORE
        if text[end] == "\n":
            scanner.advance_to(end)
        elif not self._is_first or end > at or _AFTER_SENTENCE.match(text, at):
            return Verdict.NOT_A_CALL
        return self._split()

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: nothing follows."""
        del scanner, calls
        return self._split() if self._is_possible else Verdict.NOT_A_CALL

    def _split(self) -> Verdict:
        state = self._state
        close_text(state)
        expect_first(state)
        state.newlines = MAX_NEWLINES
        return Verdict.DONE


MAX_STRAY: Final = 64 * 1024
"""How much text before an end marker is searched for its start marker."""

MAX_NEWLINES: Final = 2
"""How many new lines after a stray end marker are dropped."""

_BLANK_IN_LINE: Final = re.compile(rf"[ \t\r]{{0,{MAX_GAP}}}")
_AFTER_SENTENCE: Final = re.compile(r"[\s.,;:!?)\]}'\"`/-]")

# --- opening ---


_MISTRAL: Final = "[TOOL_CALLS]"
"""The one section marker that is looked for where a bracket is the start marker."""

_NAMES_CALLS: Final = re.compile(r"tool|call|function|action|python|DSML|GCML", re.IGNORECASE)


def open_wrapper(state: EngineState, marker: str) -> None:
    """Read what follows *marker*, a wrapper that was just passed."""
    folded = marker.lower() if state.syntax.folds else marker
    place = state.wrappers.get(folded)
    state.start = ""
    if place in ("last", "anywhere"):
        state.body = TrailingMarker(state)
    elif place == "stray":
        state.body = StrayMarker(state, marker)
    else:
        state.body = FrameReader(state, marker)


def open_start(state: EngineState, marker: str) -> None:
    """Read the call after *marker*, a start marker that was just passed."""
    state.start = marker
    if _may_be_section(state, marker):
        state.body = SectionReader(state, marker)
        state.scanner.rewind(len(marker))
    else:
        state.body = state.syntax.body(marker)


def open_body(state: EngineState, marker: str) -> Verdict:
    """Continue with the reader of the body after *marker*, which was just passed."""
    state.marker, state.start = state.scanner.read_since_call(), marker
    state.body = state.syntax.body(marker)
    return Verdict.OPENED


def open_other(state: EngineState, token: str) -> Verdict:
    """Look for a call after *token*, a wrapper of another format that was just passed."""
    state.marker, state.start = state.scanner.read_since_call(), ""
    state.body = FrameReader(state, token)
    return Verdict.OPENED


def open_frame(state: EngineState, body: BodyReader) -> bool:
    """Continue after a wrapper that *body* took for the start marker of a call, if it is one."""
    scanner, start = state.scanner, state.start
    if not start or isinstance(body, _TokenReader) or len(state.marker) > MAX_OPENING:
        return False
    text = start + scanner.peek(MAX_TOKEN)
    if not text.startswith(state.sections) or scanner.read_since_call() != state.marker:
        return False
    section = next(one for one in state.sections if text.startswith(one))
    if state.syntax.is_quoted(current_line(state) + state.marker[: -len(start)]):
        return False
    scanner.skip(len(section) - len(start))
    open_other(state, section)
    return True


_HEADER_BEGUN: Final = re.compile(r"\s*<\|start\|>\s*(?:assistant|commentary|analysis)?\s*")


def drop_begun_header(state: EngineState) -> bool:
    """Drop the beginning of a header that the response ends with, after a call."""
    scanner = state.scanner
    if not state.after_block or not state.started_calls:
        return False
    if not _HEADER_BEGUN.fullmatch(scanner.read_since_call() + scanner.unread):
        return False
    scanner.skip_all()
    return True


def drop_last_marker(state: EngineState) -> bool:
    """Drop a start marker that the response ends with, right after a call: it came twice."""
    scanner = state.scanner
    if not state.after_block or not state.started_calls or state.has_broken:
        return False
    marker = (scanner.read_since_call() + scanner.unread).strip()
    if marker != state.marker.strip() and not _SECTION.fullmatch(marker):  # It may be a part.
        return False
    scanner.skip_all()
    return True


def _may_be_section(state: EngineState, marker: str) -> bool:
    """Return whether *marker* may be a section marker that is doubled, or whose section is empty.

    Most are followed by a call: that is seen at a glance.
    """
    if marker == "[":  # `[TOOL_CALLS]` is found by its bracket where a list may be a call, too.
        return _MISTRAL.startswith(marker + state.scanner.peek(len(_MISTRAL) - 1))
    if not _names_calls(marker) or marker.strip("<>/ ") in state.schemas:  # the tag of a tool
        return False
    if marker[-1] in ">]":
        rest = state.scanner.peek(MAX_GAP).lstrip()
        # A list or an object with something in it follows: the section is not empty.
        if rest and (rest[0] not in "<[]{" or rest[1:2] in ("'", '"', "{")):
            return False
    if _is_followed(state, marker):
        return False
    if not state.syntax.follows_code:
        return True
    before = state.marker[: len(state.marker) - len(marker)]
    return not state.syntax.is_quoted(current_line(state) + before)


@lru_cache(maxsize=256)
def _names_calls(marker: str) -> bool:
    """Return whether *marker* is a tag or token, without attributes, whose name says calls."""
    if marker[0] not in "<[]" or "=" in marker or not _NAMES_CALLS.search(marker):
        return False
    return not marker.startswith("<|content_")  # a part of a header (Inkling)


def _is_followed(state: EngineState, marker: str) -> bool:
    """Return whether text follows *marker* that is neither a token nor an empty section."""
    text, end = state.scanner.text, state.scanner.at
    if marker[-1] != ">" and text.startswith(">", end):  # Some markers end before their tag does.
        marker, end = marker + ">", end + 1
    tokens = _find_tokens(marker)
    if tokens is None:
        text = marker + text[end : end + MAX_GAP + 2 * MAX_TOKEN]
        section = _SECTION.match(text)
        if section is None:
            return False
        tokens, end = (section[0], closing_token(section[0])), section.end()
    at = skip_match(_GAP, text, end)
    if len(text) - at < MAX_TOKEN or _NOTHING.match(text, at) is not None:
        return False
    return not text.startswith(tokens, at) and not text.startswith(state.others, at)


@lru_cache(maxsize=256)
def _find_tokens(marker: str) -> tuple[str, str] | None:
    """Return the tokens of the section that *marker* opens, if it is a whole section marker."""
    is_whole = _SECTION.fullmatch(marker) is not None
    return (marker, closing_token(marker)) if is_whole else None
