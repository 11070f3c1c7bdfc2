"""What the laws are tried on: JSON values, cuts, markup soup, valid event sequences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from laws.cutting import cut_at
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    Part,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import (
    AssistantMessage,
    Content,
    ErrorInfo,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    Usage,
)

TEXT = st.text(max_size=30)
"""Any text; `st.text()` already brings emoji, controls and right-to-left, but no surrogates."""

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=30)
"""Any text, lone surrogates included."""

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.:-]{0,12}", fullmatch=True)

SCALARS: SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**63, max_value=2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)

JSON_VALUES: SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)

ARGUMENTS: SearchStrategy[dict[str, Any]] = st.dictionaries(TEXT, JSON_VALUES, max_size=4)

CUTS = st.lists(st.integers(0, 200), max_size=8)


def soup(*markers: str) -> SearchStrategy[str]:
    """Text made of *markers*, halves of them, code, JSON, prose and Unicode."""
    halves = [marker[:at] for marker in markers for at in range(1, len(marker))]
    crumbs = ["<", "</", ">", "{", "}", "[", '"', "\\", "\n", " ", "`", "&lt;", "é", "😀", "日本"]
    code = ['{"name": "x"}', "if a < b && c > d:", "vector<int> v;", "</div>", "plain words"]
    pieces = st.sampled_from([*markers, *halves, *crumbs, *code]) | TEXT
    return st.lists(pieces, max_size=12).map("".join)


ODDITIES = (
    *("#", "//", "/*", "*/", "# c\n", "// c\n", "/* c */", "<!--", "-->"),  # comments
    *("\ud83d", "\ude00", "\ud83d\ude00", "\\ud83d", "\\ude00", "\\u"),  # halves of a character
    *("\ufeff", "\u2028", "\xa0", "\x0b", "\x0c", "\x1f", "\x85", "\x00", "\r", "\r\n", "\t"),
    *("9" * 90, "7" + "x" * 80, "1e999", "-", "0x", "NaN", "None", "7", "."),
    *("'", '"', '"""', "\u201c", "\u201d", "```", "```json\n", "`", "\\"),
    *("{", "}", "[", "]", "(", ")", ":", ",", "=", "s=[."),
)
"""What is rare in a model's text, and has broken a reader: alone, or before a marker."""


@st.composite
def damaged(draw: DrawFn, texts: Sequence[str], markers: Sequence[str]) -> str:
    """One of *texts* with oddities and *markers* put into it, some of it taken away, or cut.

    *markers* are those of all formats: what a reader of one of them must not stumble over.
    """
    text: str = draw(st.sampled_from(texts))
    things = st.sampled_from(ODDITIES) | st.sampled_from(markers)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        gap = draw(st.sampled_from([0, 0, 1, 4]))
        text = text[:at] + "".join(draw(st.lists(things, max_size=3))) + text[at + gap :]
    end = draw(st.none() | st.integers(0, len(text)))
    return text[:end] + draw(st.sampled_from(["", "", *markers]))


@st.composite
def event_sequences(draw: DrawFn) -> tuple[list[Event], AssistantMessage]:
    """A whole valid sequence and the message that it must fold into."""
    message = draw(_messages())
    events: list[Event] = [MessageStart(message.id, message.model)]
    for group in draw(_groups(message.content)):
        events += draw(_interleaved(message.content, group))
    reason: Any = message.stop_reason
    if message.error is not None:
        events.append(Failed(reason, message.error, message))
    else:
        events.append(Done(reason, message))
    return events, message


_calls = st.builds(
    ToolCall, TEXT, NAMES, ARGUMENTS, complete=st.booleans(), repairs=st.just([]), signature=TEXT
)
_blocks: SearchStrategy[Content] = (
    st.builds(Text, TEXT, TEXT)
    | st.builds(Thinking, TEXT, TEXT)
    | _calls
    | st.builds(Opaque, TEXT, JSON_VALUES)
)
_errors = st.builds(
    ErrorInfo, TEXT, st.sampled_from(["provider", "truncated", "refusal"]), status=st.none()
)
_usages = st.builds(Usage, *[st.integers(0, 9999)] * 6)


@st.composite
def _messages(draw: DrawFn) -> AssistantMessage:
    content = draw(st.lists(_blocks, max_size=5))
    has_cut_call = any(isinstance(block, ToolCall) and not block.complete for block in content)
    reasons = ["stop", "length", "error", "aborted"] + ["tool_use"] * (not has_cut_call)
    reason: Any = draw(st.sampled_from(reasons))
    error = draw(_errors) if reason in ("error", "aborted") else None
    usage = draw(_usages)
    return AssistantMessage(draw(TEXT), draw(TEXT), content, reason, draw(TEXT), usage, error)


@st.composite
def _groups(draw: DrawFn, content: list[Content]) -> list[list[int]]:
    """Cut the block indexes into runs that are open side by side."""
    groups: list[list[int]] = []
    for index in range(len(content)):
        joins: bool = draw(st.booleans())
        if groups and joins:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


@st.composite
def _interleaved(draw: DrawFn, content: list[Content], group: list[int]) -> list[Event]:
    """Start the blocks of *group* in order, then mix their deltas and ends."""
    starts: list[Event] = []
    waiting: list[list[Event]] = []
    for index in group:
        start, *others = draw(_block_events(index, content[index]))
        starts.append(start)
        waiting.append(others)
    events = starts
    while any(waiting):
        waiting = [queue for queue in waiting if queue]
        events.append(draw(st.sampled_from(waiting)).pop(0))
    return events


@st.composite
def _block_events(draw: DrawFn, index: int, block: Content) -> list[Event]:
    match block:
        case Text():
            deltas = [TextDelta(index, piece) for piece in cut_at(block.text, draw(CUTS))]
            return [TextStart(index), *deltas, TextEnd(index, block.text, block.signature)]
        case Thinking():
            thoughts = [ThinkingDelta(index, piece) for piece in cut_at(block.text, draw(CUTS))]
            return [
                ThinkingStart(index),
                *thoughts,
                ThinkingEnd(index, block.text, block.signature),
            ]
        case ToolCall():
            text = json.dumps(block.arguments)
            if not block.complete:
                text = text[: draw(st.integers(0, len(text) - 1))]
            pieces = [ToolCallDelta(index, piece) for piece in cut_at(text, draw(CUTS))]
            return [ToolCallStart(index, block.id, block.name), *pieces, ToolCallEnd(index, block)]
        case Opaque():
            return [Part(index, block)]
