"""The laws of the library, held to one text: a user sees them hold, or has found a bug.

Nothing is lost: what the events consumed joins to the text. Cuts do not matter: however the text is
cut, the events are the same once neighbouring deltas are merged. Nothing is taken back: the events
make a message, and the deltas of a call join to its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from msgspec import Struct, field, structs

from penstock import _json
from penstock.builder import MessageBuilder
from penstock.errors import JSONParseError, UsageError
from penstock.events import Event, TextDelta, ThinkingDelta, ToolCallDelta, ToolCallEnd
from penstock.messages import ToolCall

MAX_PROVED: Final = 20_000
"""Up to how many characters a text is read one by one, to see that cuts do not matter."""

Read = Callable[[int], list[Event]]
"""Reads the text in pieces of so many characters; 0 is all of it at once."""


class Laws(Struct):
    """Which laws hold; None where a text is too long to be tried."""

    lossless: bool = True
    chunk_free: bool | None = None
    monotone: bool = True
    notes: list[str] = field(default_factory=list)


def prove(text: str, events: list[Event], rest: str, read: Read) -> Laws:
    """Hold the laws to *text*, in which *events* were read and a *rest* is left; *read* it anew."""
    laws = Laws(lossless="".join(event.raw for event in events) + rest == text)
    if not laws.lossless:
        laws.notes.append("lossless: what the events consumed is not the text")
    for words in _taken_back(events):
        laws.monotone = False
        laws.notes.append(f"monotone: {words}")
    if len(text) > MAX_PROVED:
        laws.notes.append(f"chunk-free is tried up to {MAX_PROVED:,} characters")
        return laws
    merged = _merged(events)
    others = {"whole": 0, "character by character": 1}
    differ = [name for name, chunk in others.items() if _merged(read(chunk)) != merged]
    laws.chunk_free = not differ
    laws.notes += [f"chunk-free: read {name} it gives other events" for name in differ]
    return laws


def _taken_back(events: Iterable[Event]) -> Iterator[str]:
    """Say where a sequence breaks the contract of events, or says one thing and means another."""
    builder = MessageBuilder()
    said: dict[int, list[str]] = {}
    for event in events:
        try:
            builder.add(event)
        except UsageError as exc:
            yield str(exc)
            return
        if isinstance(event, ToolCallDelta):
            said.setdefault(event.index, []).append(event.arguments)
        elif isinstance(event, ToolCallEnd) and event.call.complete:
            yield from _misquoted(event.call, "".join(said.pop(event.index, [])))


def _misquoted(call: ToolCall, text: str) -> Iterator[str]:
    try:
        if _json.decode(text) == call.arguments:
            return
    except JSONParseError:
        pass
    yield f"the deltas of `{call.name}` do not join to its arguments"


_SAID: Final[dict[type[Event], Callable[[Any], str]]] = {
    TextDelta: lambda event: str(event.text),
    ThinkingDelta: lambda event: str(event.text),
    ToolCallDelta: lambda event: str(event.arguments),
}


def _merged(events: Iterable[Event]) -> list[Any]:
    """Give what of *events* must not depend on how the text was cut."""
    found: list[Any] = []
    for (kind, index), run in groupby(events, lambda event: (type(event), _index(event))):
        if kind not in _SAID:
            found += [structs.replace(event, raw="") for event in run]
        elif said := "".join(map(_SAID[kind], run)):
            found.append((kind, index, said))
    return found


def _index(event: Event) -> int:
    index: int = getattr(event, "index", -1)
    return index
