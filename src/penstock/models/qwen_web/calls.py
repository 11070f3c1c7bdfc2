"""Calls in one piece: who gets the arguments at the end of a call needs no delta that says them."""

from __future__ import annotations

from msgspec import structs

from penstock.events import Event, ToolCallDelta, ToolCallEnd


def in_one_piece(batch: list[Event]) -> list[Event]:
    """Give *batch* without the deltas of calls that end in it; their raw text goes to the end.

    An encoder lets the last brace of a delta wait for the end of its call, and would make two
    chunks of arguments that came at once. Of a call without deltas it makes one.
    """
    ended = {event.index for event in batch if isinstance(event, ToolCallEnd)}
    if not ended:
        return batch
    raws: dict[int, str] = {}
    folded: list[Event] = []
    for event in batch:
        if isinstance(event, ToolCallDelta) and event.index in ended:
            raws[event.index] = raws.get(event.index, "") + event.raw
        elif isinstance(event, ToolCallEnd):
            folded.append(structs.replace(event, raw=raws.pop(event.index, "") + event.raw))
        else:
            folded.append(event)
    return folded
