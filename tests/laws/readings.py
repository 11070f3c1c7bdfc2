"""All that a text reader owes for one text, from one reading for each way to cut it.

Law 1 (lossless), 2 (chunk-free), 3 (monotone) and 6 (no raise) speak of the same readings, and a
suite that tries hundreds of cuts of hundreds of texts cannot afford to read once for each law.
`check_readings` reads in one piece, then once in each way, and holds every reading to all four.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from laws.checks import TextReader, check_monotone, read
from laws.cutting import chunkings
from laws.merging import has_empty_delta, merged, raw_by_block
from penstock.events import Event


def check_readings(
    make: Callable[[], TextReader], text: str, ways: Iterable[Sequence[str]] | None = None
) -> list[Event]:
    """Check laws 1, 2, 3 and 6 on *text* in one piece and in all *ways*; give the events.

    Without *ways* these are all that each vector has to pass: one by one and every single cut. The
    events are those of one piece: what they make of the text, the other readings make of it too,
    as law 2 says they are the same but for where their deltas are cut. A caller has to look at no
    other.
    """
    whole = _read_all(make, [text])
    check_monotone(whole, strictly=True)
    blocks, raws = merged(whole), raw_by_block(whole)
    for chunks in chunkings(text) if ways is None else ways:
        if list(chunks) == [text]:
            continue
        events = _read_all(make, chunks)
        if events == whole:  # as they are at most cuts inside of a call that comes whole
            continue
        assert merged(events) == blocks, "law 2 (chunk-free): the cut changed the events"
        assert raw_by_block(events) == raws, "law 2 (chunk-free): the cut moved `raw`"
        if has_empty_delta(events):  # Only these are not among the blocks that are monotone.
            check_monotone(events, strictly=True)
    return whole


def _read_all(make: Callable[[], TextReader], chunks: Sequence[str]) -> list[Event]:
    """Read *chunks* to the end, without raising (law 6) and without losing anything (law 1)."""
    text = "".join(chunks)
    try:
        reader = make()
        events = read(reader, chunks)
    except Exception as exc:
        raise AssertionError(f"law 6 (never raises): {exc!r}") from exc
    given_back = "".join([event.raw for event in events]) + reader.rest
    assert given_back == text, "law 1 (lossless): `raw` does not give the text back"
    return events
