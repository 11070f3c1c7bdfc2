"""What every text of the JSON family has to pass: one reading for each cut, compared with one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from laws import check_monotone, chunkings, merged, raw_by_block
from laws.checks import read
from penstock.events import Event
from penstock.parsing import Machine


def check_everywhere(
    make: Callable[[], Machine], text: str, cuttings: Iterable[list[str]] | None = None
) -> list[Event]:
    """Check laws 1, 2, 3 and 6 on *text*, at every cut unless *cuttings* are given.

    Gives the events of one reading in one piece.
    """
    whole = read(make(), [text])
    check_monotone(whole)
    for chunks in chunkings(text) if cuttings is None else cuttings:
        machine = make()
        events = read(machine, chunks)
        given_back = "".join(event.raw for event in events) + machine.rest
        assert given_back == text, "law 1 (lossless)"
        assert merged(events) == merged(whole), "law 2 (chunk-free): the cut changed the events"
        assert raw_by_block(events) == raw_by_block(whole), "law 2 (chunk-free): it moved `raw`"
    return whole
