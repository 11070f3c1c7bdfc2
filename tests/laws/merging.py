"""What of an event list must not depend on how its input was cut."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from penstock.events import Event, TextDelta, ThinkingDelta, ToolCallDelta

_BEFORE_BLOCKS = -1


def merged(events: Iterable[Event]) -> list[Event]:
    """Join neighbouring deltas of one block, without `raw`; empty deltas are left out."""
    result: list[Event] = []
    for event in without_raw(events):
        joined = _joined(result[-1], event) if result else None
        if joined is not None:
            result[-1] = joined
        else:
            result.append(event)
    return [event for event in result if not _is_empty_delta(event)]


def without_raw(events: Iterable[Event]) -> list[Event]:
    return [msgspec.structs.replace(event, raw="") for event in events]


def raw_by_block(events: Iterable[Event]) -> dict[int, str]:
    """Join `raw` per block; an event without an index counts for what stands between blocks."""
    result: dict[int, str] = {}
    for event in events:
        index = getattr(event, "index", _BEFORE_BLOCKS)
        result[index] = result.get(index, "") + event.raw
    return {index: raw for index, raw in result.items() if raw}


def _joined(one: Event, two: Event) -> Event | None:
    match one, two:
        case TextDelta(), TextDelta() if one.index == two.index:
            return TextDelta(one.index, one.text + two.text)
        case ThinkingDelta(), ThinkingDelta() if one.index == two.index:
            return ThinkingDelta(one.index, one.text + two.text)
        case ToolCallDelta(), ToolCallDelta() if one.index == two.index:
            return ToolCallDelta(one.index, one.arguments + two.arguments)
    return None


def _is_empty_delta(event: Event) -> bool:
    match event:
        case TextDelta() | ThinkingDelta():
            return not event.text
        case ToolCallDelta():
            return not event.arguments
    return False
