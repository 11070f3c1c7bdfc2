"""Text outside of calls: emitted up to the next marker that counts, as text or as reasoning.

Only the beginning of a marker is held back, and white space that may be dropped: before the first
reasoning, and with `trim` next to a call and after reasoning.

Which markers count depends on the open channel, on whether the model may still reason, and on what
may follow the last call. Sets of markers are compiled once and shared; the state refers to one of
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from typing import Final

from msgspec import Struct

from penstock.parsing.body import Channel, Kind, Place, Reasoning, Syntax, Wrapper
from penstock.parsing.fast_path import MAX_HELD_BLANK, TextRun
from penstock.parsing.quotations import FENCE, CodeSpans
from penstock.parsing.scanner import Markers, markers, scattered, skip_match
from penstock.parsing.state import (
    DELTAS,
    EngineState,
    Places,
    close_segment,
    current_line,
    emit_read,
    emit_text,
    extend_segment,
)

SPECIAL: Final = re.compile(r"[|\uff5c]|\A\[")
"""Special tokens: they do not occur in text by chance."""

_LEADING_BLANK: Final = re.compile(r"\s*+")

MAX_SETS: Final = 64
"""How many sets of markers the responses of one format share: a model may choose end markers."""


class MarkerRole(Enum):
    """What a marker does where it is."""

    BROKEN_END = "ends the segment of a call that broke"
    CALL = "opens a call"
    STRAY = "ends a call or reasoning that has ended already"
    WRAPPER = "is around content and is not content"
    CHANNEL_END = "ends the channel"
    CHANNEL_START = "opens the channel that is open already"
    REASONING = "opens reasoning"


class OpenedMarker(Struct, frozen=True, gc=False):
    """A start marker, or a wrapper: a body reader reads the text after it.

    *start* is where the marker begins or, with `trim`, the white space before it; *end* is where
    the marker ends.
    """

    start: int
    end: int
    marker: str
    is_wrapper: bool = False  # dropped if it is the last thing of the response


def begin_markers(
    state: EngineState, syntax: Syntax, reasoning: Reasoning | None, wrappers: Iterable[Wrapper]
) -> None:
    """Look for the markers that count at the beginning of a response."""
    state.syntax = syntax
    state.reasoning = reasoning
    own, starts = reasoning.wrappers if reasoning is not None else (), syntax.starts
    known, key = state.marker_sets.places, (own, state.strays)
    places = known.get(key)
    if places is None:
        if len(known) >= MAX_SETS:
            known.clear()
        places = known[key] = _find_places((*wrappers, *own), state.strays, syntax.folds, starts)
    state.wrappers, state.sections, state.others = places
    state.starts, state.leading = starts, syntax.leading
    state.awaits_reasoning = reasoning is not None
    state.may_reason = reasoning is not None and not reasoning.leading
    refresh_markers(state)


def _find_places(
    wrappers: Iterable[Wrapper],
    strays: tuple[str, ...],
    folds: bool,  # noqa: FBT001 - a property of the syntax
    starts: tuple[str, ...],
) -> Places:
    """Return where each wrapper is dropped; the responses of one format share it.

    A wrapper before calls that begins with a start marker is found by that, and is listed apart;
    so are those before calls that are not special tokens.
    """
    places: dict[str, Place] = {
        wrapper.marker.lower() if folds else wrapper.marker: wrapper.where for wrapper in wrappers
    }
    for end in strays:  # What is dropped anywhere parts nothing.
        marker = end.lower() if folds else end
        places[marker] = "anywhere" if places.get(marker) == "anywhere" else "stray"
    sections = [
        marker
        for marker, place in places.items()
        if place == "before_call" and marker.startswith(starts)
    ]
    found = {marker: place for marker, place in places.items() if marker not in sections}
    others = (marker for marker, place in found.items() if place == "before_call")
    return (
        found,
        tuple(sorted(sections, key=len, reverse=True)),
        tuple(marker for marker in others if SPECIAL.search(marker) is None),
    )


# --- which markers count ---


def current_kind(state: EngineState) -> Kind:
    """Return the kind of text here."""
    return "text" if state.channel is None else state.channel.kind


def may_call(state: EngineState) -> bool:
    """Return whether a call may begin here."""
    return state.channel is None or state.channel.interrupted


def marker_role(state: EngineState, marker: str) -> MarkerRole:
    """Return what *marker*, one of the markers that count, does here."""
    channel = state.channel
    if state.broken_end and marker == state.broken_end:
        return MarkerRole.BROKEN_END
    place = state.wrappers.get(marker)
    if state.after_block and place == "after_call":
        return MarkerRole.WRAPPER  # In some formats an end marker opens a body, too.
    if place == "stray" and channel is None and marker not in state.reasoning_ends:
        return MarkerRole.WRAPPER
    if marker in state.openers:
        return MarkerRole.CALL
    if marker == state.call_end or marker in state.reasoning_ends:
        return MarkerRole.STRAY
    if channel is not None and marker in channel.ends:
        return MarkerRole.CHANNEL_END
    if place is not None:
        return MarkerRole.WRAPPER
    return MarkerRole.REASONING if channel is None else MarkerRole.CHANNEL_START


def _find_openers(state: EngineState) -> tuple[str, ...]:
    """Return the markers that open a body here."""
    channel = state.channel
    if channel is None:
        return state.starts
    return (channel.opens or state.starts) if channel.interrupted else ()


def stop_awaiting_reasoning(state: EngineState) -> None:
    """Note that the response does not begin with reasoning."""
    state.awaits_reasoning = False


def begin_reasoning(state: EngineState, channel: Channel) -> None:
    """Enter *channel*, which is reasoning."""
    state.awaits_reasoning = False
    state.may_reason = state.reasoning is not None and state.reasoning.recurs
    enter_channel(state, channel)


def enter_channel(state: EngineState, channel: Channel | None) -> None:
    """Enter a channel, or with None leave the one that is open."""
    if state.code is not None and state.syntax.has_headers:
        state.code.end_message(state.pieces if state.kind == "text" else None)
    state.channel = channel
    state.is_fresh = channel is not None
    if channel is not None:
        state.reasoning_ends = ()
    refresh_markers(state)


def end_fresh(state: EngineState) -> None:
    """Note that text was emitted in the channel."""
    state.is_fresh = False
    refresh_markers(state)


def leave_beginning(state: EngineState) -> None:
    """Note that something was emitted: no marker is the first thing any more."""
    if state.leading:
        state.starts, state.leading = state.syntax.later_starts, ()
        refresh_markers(state)


def restore_beginning(state: EngineState) -> None:
    """Note that what comes next is the first thing after all: only reasoning came before it."""
    beginning = (state.syntax.starts, state.syntax.leading)
    if beginning != (state.starts, state.leading):
        state.starts, state.leading = beginning
        refresh_markers(state)


def follow_call(
    state: EngineState, end: str, *, has_ended_reasoning: bool, ends_block: bool
) -> None:
    """Continue after a call; *end* may still come and belongs to it.

    With *ends_block*, nothing has come after the call.
    """
    if has_ended_reasoning and state.channel is not None:
        state.reasoning_ends = state.channel.ends
        state.channel = None
    state.call_end = end
    state.after_block = state.after_block or ends_block
    refresh_markers(state)


def expect_call_end(state: EngineState, end: str) -> None:
    """Look for *end*, the end marker of the last call, which may still come."""
    state.call_end = end
    refresh_markers(state)


def expect_broken_end(state: EngineState, end: str) -> None:
    """Look for *end*, the end marker of a call that broke; an empty one stops the search."""
    state.broken_end = end.lower() if state.syntax.folds else end
    refresh_markers(state)


def drop_stray(state: EngineState, marker: str) -> None:
    """Stop looking for *marker*, the end of a call or of reasoning that has ended."""
    if marker == state.call_end:
        state.call_end = ""
    else:
        state.reasoning_ends = ()
    refresh_markers(state)


def note_after_block(state: EngineState, *, after: bool) -> None:
    """Note whether only white space came *after* the end of a call or of reasoning."""
    if state.after_block != after:
        state.after_block = after
        refresh_markers(state)


def refresh_markers(state: EngineState) -> None:
    """Collect the markers that count now; the same collection is made once for all responses."""
    channel, reasoning = state.channel, state.reasoning
    ends = (state.call_end, state.broken_end, *state.reasoning_ends)
    own: tuple[str, ...] = ()
    if channel is None and reasoning is not None and state.may_reason:
        own = reasoning.starts
    wrappers = () if reasoning is None else reasoning.wrappers
    state_of_text = (state.is_fresh, state.after_block, bool(state.leading))
    # Each call changes the set twice. Collecting one was measured to take 30 times this look-up.
    key = (ends, channel, state_of_text, own, wrappers, state.strays)
    sets = state.marker_sets.sets
    known = sets.get(key)
    if known is None:
        openers = _find_openers(state)
        known = _collect_markers(state, openers, ends, own), frozenset(openers)
        if len(sets) >= MAX_SETS:
            sets.clear()
        sets[key] = known
    state.markers, state.openers = known


def _collect_markers(
    state: EngineState, openers: tuple[str, ...], ends: Iterable[str], own: Iterable[str]
) -> Markers:
    """Return the markers that count now; *openers*, *ends* and *own* are some of them."""
    syntax, channel = state.syntax, state.channel
    wrappers = [
        marker
        for marker, place in state.wrappers.items()
        if place != "between_calls" or state.after_block
    ]
    found = [*openers, *filter(None, ends), *wrappers, *own]
    if channel is not None:
        found += [*channel.ends, *(channel.starts if state.is_fresh else ())]
    folds, unless = syntax.folds, syntax.unless
    guarded = openers if unless else ()
    if guarded and not folds:
        return scattered(*found, unless=unless, guarded=guarded)
    return markers(*found, fold=folds, unless=unless, guarded=guarded)


# --- text ---


def read_text(state: EngineState, *, final: bool) -> OpenedMarker | bool:
    """Emit text up to the next marker and pass the marker.

    Returns the marker if a body reader has to continue, otherwise whether to continue with text.
    """
    scanner = state.scanner
    if state.trim and state.follows_call:
        _skip(state, _find_blank_end(state))
    if state.newlines:
        _skip_newlines(state)
    if state.awaits_reasoning and state.reasoning is not None:
        has_begun = _find_first_reasoning(state, state.reasoning, final=final)
        if has_begun is not False:
            return has_begun is True
    text, markers = scanner.text, state.markers
    start = scanner.at
    if state.clear is not None and state.clear[0] is markers:
        start = max(start, state.clear[1] - scanner.offset)
    found = markers.find(text, start)
    if found is None:
        end = len(text) if final else markers.find_held(text, start)
        state.clear = (markers, scanner.offset + end)
        show(state, end if final else _before_blank(state, end))
        return False
    # A longer marker may begin before the one that was found, or with it: `<tool_call` is a marker
    # of one format and the beginning of `<tool_calls>` in another.
    if not final and (held := markers.find_growing(text, start, found.start())) != -1:
        show(state, _before_blank(state, held))
        return False
    if found[0] in state.leading and text[scanner.at : found.start()].strip():
        # It opens a call only as the first thing of a response, and text comes before it. Emitting
        # that text changes which markers count, so the search begins again.
        show(state, _before_blank(state, found.start()))
        return True
    return _pass_marker(state, found, found[0].lower() if state.syntax.folds else found[0])


def begin_response(state: EngineState) -> None:
    """Forget what is known of the text: it was the end of the prompt."""
    state.clear, state.blank = None, (0, 0)


def show(state: EngineState, end: int) -> None:
    """Emit the text up to *end*."""
    scanner = state.scanner
    if end <= scanner.at:
        return
    state.follows_call = False
    text, kind, was_first = scanner.text[scanner.at : end], current_kind(state), state.is_first
    extend_segment(state, text)
    emit_text(state, end, kind)
    _note_shown(state, text, kind, was_first=was_first)


def show_read(state: EngineState) -> None:
    """Emit the text that a body reader has read and no event has claimed: it is not a call."""
    text, kind, was_first = state.scanner.read_since_call(), current_kind(state), state.is_first
    if not text:
        return
    state.follows_call = False
    extend_segment(state, text)
    emit_read(state, text, kind)
    state.scanner.forget()
    _note_shown(state, text, kind, was_first=was_first)


def _note_shown(state: EngineState, text: str, kind: Kind, *, was_first: bool) -> None:
    """Note that *text* was emitted: what follows is not the first thing any more."""
    if not (state.is_fresh or was_first or state.after_block) or text.isspace():
        return
    note_after_block(state, after=False)
    if kind == "text" and was_first:
        leave_beginning(state)
    if state.is_fresh:
        end_fresh(state)


def open_text_run(state: EngineState) -> TextRun | None:
    """Return the open text as a run, if text that comes next could be emitted directly."""
    waits = state.is_fresh or state.after_block or state.segment_is_open or state.newlines
    if state.pieces is None or state.scanner.has_raw or waits:
        return None
    # Markers of `leading` still count while nothing but white space was emitted.
    if state.is_first and state.kind == "text":
        return None
    trims = state.trim and may_call(state)
    return TextRun(state.markers, state.pieces, state.index, DELTAS[state.kind], trims=trims)


def end_broken(state: EngineState) -> None:
    """Report the call that broke, now that its segment has ended."""
    if state.segment_is_open:
        close_segment(state)
        expect_broken_end(state, "")


# --- markers ---


def _pass_marker(state: EngineState, found: re.Match[str], marker: str) -> OpenedMarker | bool:
    scanner = state.scanner
    if state.after_block and scanner.text[scanner.at : found.start()].strip():
        show(state, _before_blank(state, found.start()))
        return True  # What the marker does depends on this text.
    role = marker_role(state, marker)
    if role is MarkerRole.WRAPPER:
        return _pass_wrapper(state, found, state.wrappers[marker], marker)
    if role is MarkerRole.CALL:
        if state.code is not None and _is_in_code(state, state.code, found, marker):
            show(state, found.end())
            return True
        return OpenedMarker(_before_blank(state, found.start()), found.end(), found[0])
    is_first = not scanner.text[scanner.at : found.start()].strip()
    # Models repeat the start marker of reasoning that the prompt has opened; anywhere else in
    # reasoning the same marker is a quotation.
    is_data = role is MarkerRole.CHANNEL_START and not (state.is_fresh and is_first)
    if not is_data:
        show(state, found.start())
    # The end marker of a call that became text is text (law 1: the segment is given back whole).
    is_shown = role is MarkerRole.BROKEN_END and marker != state.call_end
    if is_data or is_shown:
        show(state, found.end())
    else:
        _skip(state, found.end())
    _follow_marker(state, role, marker)
    return True


def _pass_wrapper(
    state: EngineState, found: re.Match[str], place: Place, marker: str
) -> OpenedMarker | bool:
    """Drop a marker without content, or show it where it is content."""
    scanner = state.scanner
    show(state, _before_blank(state, found.start()))
    before = scanner.text[scanner.at : found.start()]
    is_frame = place in ("before_call", "after_call", "between_calls", "stray")
    in_sentence = False
    if state.syntax.follows_code:
        line = current_line(state) + before
        is_data = state.syntax.is_quoted(line)
        # After a blank it may be a word of a sentence about tokens: if text follows, it is.
        in_sentence = place == "anywhere" and line.endswith(" ") and not line.isspace()
    else:
        is_data = is_frame and state.code is not None and _is_in_code(state, state.code, found, "")
    if not is_data and not (state.after_block and place in ("last", "first", "after_call")):
        if place == "last" or in_sentence or (is_frame and may_call(state)):
            return OpenedMarker(scanner.at, found.end(), found[0], is_wrapper=True)
        is_data = is_frame or (place == "first" and not state.is_first)
    if is_data:
        show(state, found.end())
    else:
        _skip(state, found.end())
        _follow_marker(state, MarkerRole.WRAPPER, marker)
    return True


def _is_in_code(state: EngineState, code: CodeSpans, found: re.Match[str], marker: str) -> bool:
    """Return whether the start marker at *found* is in code, and so is text."""
    if len(marker) == 1 or marker == FENCE or marker.startswith("</"):
        return False  # Its reader handles fences, or the marker does not open a call.
    kind = current_kind(state)
    if state.syntax.has_headers and kind != "text":
        return False  # It may be the header of the next message; reasoning may end in any state.
    show(state, _before_blank(state, found.start()))
    place = None if state.syntax.has_headers else state.channel
    code.note(state.pieces if state.kind == kind else None, place)
    gap = state.scanner.text[state.scanner.at : found.start()]
    return code.protects(marker, gap)


def _skip(state: EngineState, end: int) -> None:
    """Read the text up to *end* without emitting it; an open segment includes it."""
    extend_segment(state, state.scanner.take_to(end))


def _follow_marker(state: EngineState, role: MarkerRole, marker: str) -> None:
    """Change which markers count, after *marker* was passed."""
    reasoning = state.reasoning
    match role:
        case MarkerRole.BROKEN_END:
            if marker == state.call_end:
                drop_stray(state, marker)
            end_broken(state)
        case MarkerRole.STRAY:
            drop_stray(state, marker)
        case MarkerRole.CHANNEL_END if state.channel is not None:
            state.newlines = state.channel.newlines
            state.follows_call = True
            enter_channel(state, None)
            note_after_block(state, after=True)
        case MarkerRole.REASONING if reasoning is not None:
            begin_reasoning(state, reasoning.channel)
        case MarkerRole.WRAPPER if reasoning is not None:
            state.newlines = reasoning.newlines
        case _:
            pass


def _find_first_reasoning(state: EngineState, reasoning: Reasoning, *, final: bool) -> bool | None:
    """Begin reasoning that is the first thing of the response; return whether it is.

    Returns None if more text is needed. White space before it is dropped.
    """
    scanner, starts = state.scanner, reasoning.starts
    text, at = scanner.text, _find_blank_end(state)
    if not text.startswith(starts, at):
        may_wait = not final and at - scanner.at <= MAX_HELD_BLANK
        if may_wait and _compile_starts(starts).may_grow(text, at):
            return None
        stop_awaiting_reasoning(state)
        return False
    start = next(start for start in starts if text.startswith(start, at))
    _skip(state, at + len(start))
    begin_reasoning(state, reasoning.channel_for(start))
    return True


@lru_cache(maxsize=64)
def _compile_starts(starts: tuple[str, ...]) -> Markers:
    return markers(*starts)


# --- white space ---


def _before_blank(state: EngineState, end: int) -> int:
    """Return where the white space before *end* begins; without `trim`, return *end*."""
    if not state.trim or not may_call(state):
        return end
    scanner = state.scanner
    at, offset = scanner.at, scanner.offset
    start, seen = state.blank[0] - offset, state.blank[1] - offset
    if not (at <= start <= seen <= end) or scanner.text[seen:end].strip():
        start = at + len(scanner.text[at:end].rstrip())
    state.blank = (offset + start, offset + end)
    return start if end - start <= MAX_HELD_BLANK else end


def _skip_newlines(state: EngineState) -> None:
    """Drop the newlines that belong to a marker, up to the first other character."""
    scanner = state.scanner
    while state.newlines and scanner.startswith("\n"):
        _skip(state, scanner.at + 1)
        state.newlines -= 1
    if not scanner.is_at_end:
        state.newlines = 0


def _find_blank_end(state: EngineState) -> int:
    """Find where the white space ends that the unread text begins with."""
    scanner = state.scanner
    at, offset = scanner.at, scanner.offset
    start, seen = state.blank[0] - offset, state.blank[1] - offset
    end = skip_match(_LEADING_BLANK, scanner.text, seen if at == start <= seen else at)
    state.blank = (offset + at, offset + end)
    return end
