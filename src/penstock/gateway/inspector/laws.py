"""Check the guarantees of the parser on one text: either they hold, or the user has found a bug.

* lossless: the `raw` fields of the events, joined, are the text.
* chunk-free: the events do not depend on how the text is cut, once adjacent deltas are merged.
* monotone: no event takes back an earlier one: the events fold into a message, and the deltas of a
  call join to its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from msgspec import Struct, field, structs

from penstock import _json
from penstock.builder import MessageBuilder
from penstock.errors import JSONParseError, UsageError
from penstock.events import (
    ENDS,
    Event,
    MessageStart,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
)

MAX_CHECKED: Final = 20_000
"""Up to how many characters a text is parsed one character at a time."""

ReadInChunks = Callable[[int], list[Event]]
"""Parses the text in chunks of so many characters; 0 is all of it at once."""


class Laws(Struct):
    """Which guarantees hold; None where the text is too long to check."""

    lossless: bool = True
    chunk_free: bool | None = None
    monotone: bool = True
    notes: list[str] = field(default_factory=list)


def check_laws(text: str, events: list[Event], rest: str, read: ReadInChunks) -> Laws:
    """Check *text*, in which *events* were read and a *rest* was not; *read* parses it again."""
    laws = Laws(lossless="".join(event.raw for event in events) + rest == text)
    if not laws.lossless:
        laws.notes.append("lossless: the raw text of the events is not the text")
    for words in _find_retractions(events):
        laws.monotone = False
        laws.notes.append(f"monotone: {words}")
    if len(text) > MAX_CHECKED:
        laws.notes.append(f"chunk-free: checked up to {MAX_CHECKED:,} characters only")
        return laws
    merged = _merge(events)
    others = {"as a whole": 0, "one character at a time": 1}
    differ = [name for name, chunk in others.items() if _merge(read(chunk)) != merged]
    laws.chunk_free = not differ
    laws.notes += [f"chunk-free: parsed {name}, the events differ" for name in differ]
    return laws


def _find_retractions(events: Iterable[Event]) -> Iterator[str]:
    """Yield where a sequence breaks the contract of events, or contradicts itself."""
    builder = MessageBuilder()
    arguments: dict[int, list[str]] = {}
    for event in events:
        try:
            builder.add(event)
        except UsageError as exc:
            yield str(exc)
            return
        if isinstance(event, ToolCallDelta):
            arguments.setdefault(event.index, []).append(event.arguments)
        elif isinstance(event, ToolCallEnd) and event.call.complete:
            joined = "".join(arguments.pop(event.index, []))
            try:
                is_same = _json.decode(joined) == event.call.arguments
            except JSONParseError:
                is_same = False
            if not is_same:
                yield f"the deltas of `{event.call.name}` do not join to its arguments"


_SPOKEN: Final[dict[type[Event], Callable[[Any], str]]] = {
    TextDelta: lambda event: str(event.text),
    ThinkingDelta: lambda event: str(event.text),
    ToolCallDelta: lambda event: str(event.arguments),
}


def _merge(events: Iterable[Event]) -> list[Any]:
    """Return what of *events* must not depend on the chunks."""
    found: list[Any] = []
    for (kind, index), run in groupby(events, lambda event: (type(event), _block_index(event))):
        if kind not in _SPOKEN:
            found += [structs.replace(event, raw="") for event in run]
        elif text := "".join(map(_SPOKEN[kind], run)):
            found.append((kind, index, text))
    return found


def _block_index(event: Event) -> int:
    """Return the index of the block that *event* belongs to, if it belongs to one."""
    return -1 if isinstance(event, (MessageStart, *ENDS)) else event.index
