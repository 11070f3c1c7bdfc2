"""What of an event list must not depend on how its input was cut.

Every suite that cuts texts compares thousands of event lists: these few lines are what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import msgspec

from penstock.events import Event, TextDelta, ThinkingDelta, ToolCallDelta

_BEFORE_BLOCKS: Final = -1

_SAID: Final[dict[type[Event], Callable[[Any], str]]] = {
    TextDelta: attrgetter("text"),
    ThinkingDelta: attrgetter("text"),
    ToolCallDelta: attrgetter("arguments"),
}
"""How each kind of delta is asked for what it adds."""


def merged(events: Iterable[Event]) -> list[Event]:
    """Join neighbouring deltas of one block, without `raw`; empty deltas are dropped."""
    result: list[Event] = []
    for (kind, index), run in groupby(events, _kind_and_block):
        if kind not in _SAID:
            result += without_raw(run)
        elif said := "".join(map(_SAID[kind], run)):
            delta: Any = kind
            result.append(delta(index, said))
    return result


def without_raw(events: Iterable[Event]) -> list[Event]:
    return [msgspec.structs.replace(event, raw="") if event.raw else event for event in events]


def raw_by_block(events: Iterable[Event]) -> dict[int, str]:
    """Join `raw` per block; an event without an index counts as text between blocks."""
    pieces: dict[int, list[str]] = {}
    for event in events:
        if event.raw:
            pieces.setdefault(getattr(event, "index", _BEFORE_BLOCKS), []).append(event.raw)
    return {index: "".join(raws) for index, raws in pieces.items()}


def has_empty_delta(events: Iterable[Event]) -> bool:
    """Return whether a delta among *events* adds nothing, so that `merged` drops it."""
    return any(type(event) in _SAID and not _SAID[type(event)](event) for event in events)


def _kind_and_block(event: Event) -> tuple[type[Event], int]:
    return type(event), getattr(event, "index", _BEFORE_BLOCKS)
