"""The laws, one check each; every check says in its message which law was broken."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from laws import effort
from laws.cutting import Data, one_by_one
from laws.merging import merged, raw_by_block
from penstock import MessageBuilder
from penstock.errors import LimitError, UsageError
from penstock.events import (
    Done,
    Event,
    Failed,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
)
from penstock.messages import ToolCall
from penstock.values import IncrementalJSON

Value = TypeVar("Value")


class TextReader(Protocol):
    """What a parser looks like to the laws."""

    @property
    def rest(self) -> str: ...
    def feed(self, text: str, /) -> list[Event]: ...
    def finish(self) -> list[Event]: ...


class Endable(TextReader, Protocol):
    """A text reader whose `finish` takes whether the response was cut."""

    def finish(self, cut: bool = ...) -> list[Event]: ...  # noqa: FBT001 - as the contract has it


class Ending:
    """A *reader* whose response is cut, or ends normally, under every law."""

    def __init__(self, reader: Endable, *, cut: bool) -> None:
        self._reader = reader
        self._cut = cut

    @property
    def rest(self) -> str:
        return self._reader.rest

    def feed(self, text: str) -> list[Event]:
        return self._reader.feed(text)

    def finish(self) -> list[Event]:
        return self._reader.finish(self._cut)


class Decoder(Protocol):
    """What a decoder of a provider's stream looks like to the laws."""

    def feed(self, data: bytes, /) -> list[Event]: ...
    def finish(self) -> list[Event]: ...


class Encoder(Protocol):
    """What an encoder to a client's stream looks like to the laws."""

    def encode(self, event: Event, /) -> bytes: ...
    def finish(self) -> bytes: ...


def read(reader: TextReader | Decoder, chunks: Iterable[str] | Iterable[bytes]) -> list[Event]:
    events = [event for chunk in chunks for event in reader.feed(chunk)]  # type: ignore[arg-type]
    return events + reader.finish()


def check_lossless(make: Callable[[], TextReader], chunks: Sequence[str]) -> None:
    reader = make()
    given_back = "".join(event.raw for event in read(reader, chunks)) + reader.rest
    assert given_back == "".join(chunks), "law 1 (lossless): `raw` does not give the text back"


def check_chunk_free(make: Callable[[], TextReader], chunks: Sequence[str]) -> None:
    whole, cut = read(make(), ["".join(chunks)]), read(make(), chunks)
    assert merged(cut) == merged(whole), "law 2 (chunk-free): the cut changed the events"
    assert raw_by_block(cut) == raw_by_block(whole), "law 2 (chunk-free): the cut moved `raw`"


def check_bytes_chunk_free(make: Callable[[], Decoder], chunks: Sequence[bytes]) -> None:
    whole, cut = read(make(), [b"".join(chunks)]), read(make(), chunks)
    assert merged(cut) == merged(whole), "law 2 (chunk-free): the cut changed the events"


def check_monotone(events: Sequence[Event], *, strictly: bool = False) -> None:
    """Check law 3 and the contract of `events`: the builder refuses what takes anything back.

    *strictly* is for readers of text, which write all deltas themselves: those of a call that was
    repaired are strict JSON too, and those of an incomplete call say what it holds. A decoder's
    deltas are its provider's own text.
    """
    builder = MessageBuilder()
    arguments: dict[int, str] = {}
    for event in events:
        try:
            builder.add(event)
        except UsageError as exc:
            raise AssertionError(f"law 3 (monotone): {exc}") from exc
        if isinstance(event, ToolCallDelta):
            arguments[event.index] = arguments.get(event.index, "") + event.arguments
        elif not isinstance(event, ToolCallEnd):
            continue
        elif event.call.complete and (strictly or not event.call.repairs):
            _check_arguments(arguments.get(event.index, ""), event.call)
        elif strictly:
            _check_beginning(arguments.get(event.index, ""), event.call)


def _check_beginning(text: str, call: ToolCall) -> None:
    """Check that *text*, the deltas of an incomplete call, says what the call holds."""
    for end in ("", ",", '"'):  # A number ends with what follows, and so does half a pair.
        said = IncrementalJSON(recover=True)
        said.feed(text + end)
        if call.arguments == (said.value or {}):
            return
    raise AssertionError(f"law 3 (monotone): an incomplete call holds not what {text[:99]!r} says")


def _check_arguments(text: str, call: ToolCall) -> None:
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=_without_duplicates,
        )
    except ValueError as exc:
        raise AssertionError(
            f"law 3 (monotone): the deltas are no strict JSON: {text[:99]!r}"
        ) from exc
    assert value == call.arguments, "law 3 (monotone): the deltas say something else than the call"


def _refuse_constant(name: str) -> object:
    raise ValueError(name)


def _finite(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(text)
    return float(text)


def _without_duplicates(members: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(members)) < len(members):
        raise ValueError("a key that comes twice")
    return dict(members)


def check_no_leak(
    make: Callable[[], TextReader], chunks: Sequence[str], markers: Iterable[str]
) -> None:
    """Check that no marker shows up as text beside a call that was read."""
    events = read(make(), chunks)
    if not any(isinstance(event, ToolCallEnd) for event in events):
        return
    shown = "".join(e.text for e in events if isinstance(e, TextDelta | ThinkingDelta))
    for marker in markers:
        assert marker not in shown, f"law 4 (no leak): {marker!r} came out as text"


def check_no_stall(make: Callable[[], TextReader], text: str, longest_marker: int) -> None:
    """Check that *text*, which holds no whole marker, leaves but for what may begin one."""
    held = _most_held(make(), text)
    assert held < longest_marker, f"law 4 (no stall): {held} characters are held back"


def _most_held(reader: TextReader, text: str) -> int:
    """Feed *text* one by one; tell how much of it was in no event yet, at most."""
    held = most = 0
    for character in text:
        held += 1 - sum(len(event.raw) for event in reader.feed(character))
        most = max(most, held)
    return most


def check_linear(
    run: Callable[[int], object], small: int, large: int, *, at_most: float, tries: int = 5
) -> None:
    """Check that *large* units cost per unit at most *at_most* times what *small* ones do.

    CPU time, the best of as many tries as it takes, up to *tries*: coarse, but a quadratic reader
    fails by a factor of ``large / small`` every time. A second round starts from scratch, because
    a clock that jumped once would make the small one look cheap for good. A quick run measures
    nothing.
    """
    if effort.quick:
        run(small)
        return
    ratio = math.inf
    for _ in range(2):
        best = {small: math.inf, large: math.inf}
        for _ in range(tries):
            best = {size: min(cost, _cost(run, size) / size) for size, cost in best.items()}
            if best[large] <= best[small] * at_most:
                return
        ratio = best[large] / best[small]
    raise AssertionError(f"law 5 (linear): {large} units cost {ratio:.1f} times {small} per unit")


def _cost(run: Callable[[int], object], size: int) -> float:
    began = time.process_time()
    run(size)
    return time.process_time() - began


def check_never_raises(
    make: Callable[[], TextReader] | Callable[[], Decoder], chunks: Sequence[Data]
) -> None:
    try:
        read(make(), chunks)
    except Exception as exc:
        raise AssertionError(f"law 6 (never raises): {exc!r}") from exc


def check_honest_end(events: Sequence[Event], *, cut: bool) -> None:
    """Check that a cut stream failed, a whole one ended once, and no cut call looks whole."""
    assert events, "law 7 (honest ends): a stream that says nothing at all"
    ends = [event for event in events if isinstance(event, Done | Failed)]
    assert len(ends) == 1, "law 7 (honest ends): a stream has one terminal event"
    assert events[-1] is ends[0], "law 7 (honest ends): something followed the terminal event"
    if cut:
        assert isinstance(ends[0], Failed), "law 7 (honest ends): a cut stream passed as done"
    calls = [event.call for event in events if isinstance(event, ToolCallEnd)]
    if isinstance(ends[0], Done) and ends[0].reason == "tool_use":
        assert all(call.complete for call in calls), "law 7 (honest ends): a cut call as `tool_use`"


def check_round_trip(
    write: Callable[[Value], str], read_back: Callable[[str], Value], value: Value
) -> None:
    """Check that what can be written reads back equal; a writer may refuse with `UsageError`."""
    try:
        text = write(value)
    except UsageError:
        return
    assert read_back(text) == value, f"law 8 (round trip): {text[:99]!r}"


def check_bounded(make: Callable[[], Callable[[Data], object]], data: Data, limit: str) -> None:
    """Check that endless *data*, whole or one by one, meets the limit of that name.

    *make* gives the `feed` of a fresh subject. A text reader never raises: see
    `check_bounded_holdback`.
    """
    for chunks in ([data], one_by_one(data)):
        feed = make()
        try:
            for chunk in chunks:
                feed(chunk)
        except LimitError as exc:
            if exc.limit != limit:
                raise AssertionError(f"law 9 (bounded): {exc.limit} spoke before {limit}") from exc
        else:
            raise AssertionError(f"law 9 (bounded): nothing stopped {len(data)} units")


def check_bounded_holdback(make: Callable[[], TextReader], text: str, limit: int) -> None:
    """Check that of endless *text*, such as a call without an end, at most *limit* is held back."""
    held = _most_held(make(), text)
    assert held <= limit, f"law 9 (bounded): {held} characters are held back"


def check_lawful_out(
    make: Callable[[], Encoder], grammar: Callable[[bytes], None], events: Sequence[Event]
) -> None:
    """Check what an encoder makes of *events* with its API's *grammar*, which asserts."""
    encoder = make()
    written = b"".join(encoder.encode(event) for event in events) + encoder.finish()
    try:
        grammar(written)
    except AssertionError as exc:
        raise AssertionError(f"law 10 (valid output): {exc}") from exc
