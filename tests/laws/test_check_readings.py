"""`check_readings` finds readers that break a law, at any cut."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from laws import check_readings, chunkings, cut_at, one_by_one
from penstock import Parser
from penstock.events import Event, TextDelta, ToolCallDelta, ToolCallEnd

TEXT = 'a <tool_call>{"name": "f", "arguments": {"x": "yz"}}</tool_call> b'


class Reader:
    """A lawful reader, to be bent: what it gives passes through `bend`, fed piece by piece."""

    def __init__(self) -> None:
        self._parser = Parser("hermes", arguments="live")
        self.fed = 0

    @property
    def rest(self) -> str:
        return self._parser.rest

    def feed(self, text: str) -> list[Event]:
        self.fed += 1
        return self.bend(self._parser.feed(text))

    def finish(self) -> list[Event]:
        return self.bend(self._parser.finish())

    def bend(self, events: list[Event]) -> list[Event]:
        return events


class LosesRaw(Reader):
    def bend(self, events: list[Event]) -> list[Event]:
        return [replace(e, raw="") if isinstance(e, ToolCallEnd) else e for e in events]


class LosesADelta(Reader):
    """It loses the text that comes in a second piece, and lets the next event claim it."""

    def bend(self, events: list[Event]) -> list[Event]:
        is_late = self.fed > 1
        return [
            replace(event, arguments="") if is_late and isinstance(event, ToolCallDelta) else event
            for event in events
        ]


class MovesRaw(Reader):
    """It says the same at every cut, and blames another block for the text."""

    def __init__(self) -> None:
        super().__init__()
        self.moved = ""

    def bend(self, events: list[Event]) -> list[Event]:
        bent: list[Event] = []
        for event in events:
            raw, self.moved = self.moved + event.raw, ""
            if self.fed > 1 and isinstance(event, ToolCallEnd):
                raw, self.moved = "", raw
            bent.append(replace(event, raw=raw))
        return bent


class SwapsAnIndex(Reader):
    def bend(self, events: list[Event]) -> list[Event]:
        return [replace(e, index=7) if isinstance(e, ToolCallDelta) else e for e in events]


class SaysNothingSomewhere(Reader):
    """It gives an empty delta to a block that nobody opened, where it was fed twice."""

    def bend(self, events: list[Event]) -> list[Event]:
        return [*events, TextDelta(9, "")] if self.fed == 2 else events


class Raises(Reader):
    def bend(self, events: list[Event]) -> list[Event]:
        if self.fed > len(TEXT) // 2:
            raise ValueError("too many pieces")
        return events


CROOKED = {
    "it loses text": (LosesRaw, "law 1"),
    "it loses a delta behind a cut": (LosesADelta, "law 2"),
    "it moves text to another block behind a cut": (MovesRaw, "law 2"),
    "it swaps an index": (SwapsAnIndex, "law 3"),
    "it gives an empty delta of no block behind a cut": (SaysNothingSomewhere, "law 3"),
    "it raises one by one": (Raises, "law 6"),
}


@pytest.mark.parametrize(("make", "law"), CROOKED.values(), ids=CROOKED)
def test_a_crooked_reader_is_caught(make: Callable[[], Reader], law: str) -> None:
    with pytest.raises(AssertionError, match=law):
        check_readings(make, TEXT)


def test_a_lawful_reader_is_read_in_all_ways_and_gives_its_events() -> None:
    fed: list[list[str]] = []

    class Noted(Reader):
        def __init__(self) -> None:
            super().__init__()
            fed.append([])

        def feed(self, text: str) -> list[Event]:
            fed[-1].append(text)
            return super().feed(text)

    reader = Reader()
    assert check_readings(Noted, TEXT) == reader.feed(TEXT) + reader.finish()
    assert fed == list(chunkings(TEXT))


def test_only_the_ways_that_are_given_are_read() -> None:
    ways = [cut_at(TEXT, [5, 9]), one_by_one(TEXT)]
    with pytest.raises(AssertionError, match="law 6"):
        check_readings(Raises, TEXT, ways)
    assert check_readings(Raises, TEXT, ways[:1])
