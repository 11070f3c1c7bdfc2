"""The checks of `laws` catch what they claim to: a lawful reader passes, crooked ones do not."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given

from laws import (
    check_bounded,
    check_bounded_holdback,
    check_bytes_chunk_free,
    check_chunk_free,
    check_honest_end,
    check_lawful_out,
    check_linear,
    check_lossless,
    check_monotone,
    check_never_raises,
    check_no_leak,
    check_no_stall,
    check_round_trip,
    chunkings,
    cut_at,
    effort,
    one_by_one,
)
from laws.strategies import CUTS, soup
from penstock.errors import UsageError
from penstock.events import (
    Done,
    Event,
    Failed,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.framing import ndjson, sse
from penstock.messages import AssistantMessage, ErrorInfo, ToolCall

SAMPLE = "before <call>ping</call> after <cal <call>x"
ENDLESS = "<call>" + "x" * 200


class Toy:
    """A lawful reader of ``<call>name</call>``, kept small on purpose."""

    start, end, limit = "<call>", "</call>", 100

    def __init__(self) -> None:
        self.text = ""
        self.rest = ""
        self.index = 0
        self.shown: list[str] | None = None

    def feed(self, text: str) -> list[Event]:
        self.text += text
        events: list[Event] = []
        while self.start in self.text:
            before, body = self.text.split(self.start, 1)
            name, end, after = body.partition(self.end)
            events += self.show(before)
            if len(name) > self.limit + (0 if end else len(self.end) - 1):
                events += self.show(self.start)
                self.text = body
            elif end:
                events += [*self.close(), *self.call(name)]
                self.text = after
            else:
                self.text = self.start + body
                return events
        safe = len(self.text) - self.held()
        events += self.show(self.text[:safe])
        self.text = self.text[safe:]
        return events

    def finish(self) -> list[Event]:
        return [*self.show(self.text), *self.close()]

    def held(self) -> int:
        return max(n for n in range(len(self.start)) if self.text.endswith(self.start[:n]))

    def show(self, text: str) -> list[Event]:
        if not text:
            return []
        begun: list[Event] = [] if self.shown is not None else [TextStart(self.index)]
        self.shown = [*(self.shown or []), text]
        return [*begun, TextDelta(self.index, text, text)]

    def close(self) -> list[Event]:
        if self.shown is None:
            return []
        end = TextEnd(self.index, "".join(self.shown))
        self.shown = None
        self.index += 1
        return [end]

    def call(self, name: str) -> list[Event]:
        index, self.index = self.index, self.index + 1
        return [
            ToolCallStart(index, f"c{index}", name, f"{self.start}{name}{self.end}"),
            ToolCallDelta(index, "{}"),
            ToolCallEnd(index, ToolCall(f"c{index}", name)),
        ]


class LosesAnEnd(Toy):
    def finish(self) -> list[Event]:
        return self.close()


class ForgetsWhatItHeld(Toy):
    def held(self) -> int:
        return 0


class TakesTextBack(Toy):
    def close(self) -> list[Event]:
        return [TextEnd(e.index, e.text.upper()) for e in super().close() if isinstance(e, TextEnd)]


class WritesPython(Toy):
    def call(self, name: str) -> list[Event]:
        start, _, end = super().call(name)
        return [start, ToolCallDelta(self.index - 1, "{'a': None}"), end]


class ShowsMarkers(Toy):
    def call(self, name: str) -> list[Event]:
        return [*self.show(self.start), *self.close(), *super().call(name)]


class Stalls(Toy):
    def feed(self, text: str) -> list[Event]:
        if len(self.text) + len(text) < 50:
            self.text += text
            return []
        return super().feed(text)


class Raises(Toy):
    def call(self, name: str) -> list[Event]:
        raise ValueError(name)


class WaitsForever(Toy):
    limit = 10**9


@given(text=soup("<call>", "</call>"), cuts=CUTS)
def test_a_lawful_reader_passes_every_check_on_any_text_at_any_cut(
    text: str, cuts: list[int]
) -> None:
    chunks = cut_at(text, cuts)
    check_lossless(Toy, chunks)
    check_chunk_free(Toy, chunks)
    check_never_raises(Toy, chunks)
    reader = Toy()
    check_monotone([e for chunk in chunks for e in reader.feed(chunk)] + reader.finish())


@pytest.mark.parametrize("chunks", list(chunkings(SAMPLE)), ids=lambda chunks: repr(chunks[0])[:30])
def test_a_lawful_reader_leaks_no_marker_at_any_cut(chunks: list[str]) -> None:
    check_no_leak(Toy, ["<call>ping</call> after", *chunks[:1]], ["</call>"])
    check_chunk_free(Toy, chunks)


def test_a_lawful_reader_neither_stalls_nor_grows_without_bound() -> None:
    check_no_stall(Toy, "a < b <cal <<ca <call", len("<call>"))
    check_bounded_holdback(Toy, ENDLESS, len("<call></call>") + Toy.limit)
    check_bounded(lambda: ndjson.Decoder(max_line=100).feed, ENDLESS.encode(), "max_line")


@pytest.mark.parametrize("length", [Toy.limit, Toy.limit + 1])
def test_a_lawful_reader_takes_a_call_over_its_limit_for_text_at_any_cut(length: int) -> None:
    text = f"<call>{'x' * length}</call> after"
    has_call = any(isinstance(event, ToolCallEnd) for event in Toy().feed(text))
    assert has_call == (length == Toy.limit)
    for chunks in chunkings(text):
        check_chunk_free(Toy, chunks)
        check_lossless(Toy, chunks)


CROOKED: list[tuple[str, Callable[[], None]]] = [
    ("law 1", lambda: check_lossless(LosesAnEnd, ["tail <call>x"])),
    ("law 2", lambda: check_chunk_free(ForgetsWhatItHeld, one_by_one("<call>x</call>"))),
    ("law 3", lambda: check_monotone([*TakesTextBack().feed("x <call>y</call>")])),
    ("law 3", lambda: check_monotone(WritesPython().feed("<call>y</call>"))),
    ("law 4", lambda: check_no_leak(ShowsMarkers, ["<call>y</call>"], ["<call>"])),
    ("law 4", lambda: check_no_stall(Stalls, "plain words are not markers", len("<call>"))),
    ("law 6", lambda: check_never_raises(Raises, ["<call>y</call>"])),
    ("law 9", lambda: check_bounded_holdback(WaitsForever, ENDLESS, 120)),
    ("law 9", lambda: check_bounded(lambda: ndjson.Decoder().feed, ENDLESS.encode(), "max_line")),
    (
        "law 9",
        lambda: check_bounded(lambda: sse.Decoder(max_event=9).feed, b"data: abcd\n", "max_line"),
    ),
]


@pytest.mark.parametrize(
    ("law", "check"), CROOKED, ids=[f"{n}: {law}" for n, (law, _) in enumerate(CROOKED)]
)
def test_a_crooked_reader_fails_under_the_law_that_it_breaks(
    law: str, check: Callable[[], None]
) -> None:
    with pytest.raises(AssertionError, match=law):
        check()


def test_a_quadratic_reader_fails_the_linear_law_and_a_linear_one_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(effort, "quick", False)

    def linear(size: int) -> None:
        sum(range(size * 2000))

    def quadratic(size: int) -> None:
        sum(range(size * size * 200))

    check_linear(linear, 10, 100, at_most=3)
    with pytest.raises(AssertionError, match="law 5"):
        check_linear(quadratic, 10, 100, at_most=3)


class BytesDecoder:
    """Decodes each chunk by itself, so an emoji cut in two is lost."""

    def __init__(self, errors: str = "replace") -> None:
        self.errors = errors

    def feed(self, data: bytes) -> list[Event]:
        return [TextDelta(0, data.decode("utf-8", self.errors))]

    def finish(self) -> list[Event]:
        return []


def test_a_decoder_that_cuts_characters_fails() -> None:
    check_bytes_chunk_free(BytesDecoder, [b"ab", b"cd"])
    with pytest.raises(AssertionError, match="law 2"):
        check_bytes_chunk_free(BytesDecoder, one_by_one("😀".encode()))


CUT_CALL = ToolCallEnd(0, ToolCall("c", "f", complete=False))
FAILED = Failed("error", ErrorInfo("cut", "truncated"), AssistantMessage())


@pytest.mark.parametrize(
    ("events", "cut"),
    [
        pytest.param([], True, id="silence"),
        pytest.param([Done("stop", AssistantMessage())], True, id="a cut that passes as done"),
        pytest.param([FAILED, FAILED], True, id="two ends"),
        pytest.param([FAILED, TextStart(0)], True, id="something after the end"),
        pytest.param(
            [CUT_CALL, Done("tool_use", AssistantMessage())], False, id="a cut call to be run"
        ),
    ],
)
def test_a_dishonest_end_fails(events: list[Event], cut: bool) -> None:  # noqa: FBT001
    with pytest.raises(AssertionError, match="law 7"):
        check_honest_end(events, cut=cut)


def test_an_honest_end_passes() -> None:
    check_honest_end([FAILED], cut=True)
    check_honest_end([CUT_CALL, Done("length", AssistantMessage())], cut=False)


def test_a_writer_that_loses_something_fails_and_one_that_refuses_passes() -> None:
    def refuse(_: object) -> str:
        raise UsageError("this format has no such thing")

    check_round_trip(json.dumps, json.loads, {"a": [1, None]})
    check_round_trip(refuse, json.loads, {"a": 1})
    with pytest.raises(AssertionError, match="law 8"):
        check_round_trip(json.dumps, json.loads, {1: 2})


class Echo:
    """Writes the type of each event on a line, and a last line."""

    def encode(self, event: Event) -> bytes:
        return event.type.encode() + b"\n"

    def finish(self) -> bytes:
        return b"end\n"


def test_an_encoder_is_judged_by_its_grammar() -> None:
    def lines_end_in_end(written: bytes) -> None:
        assert written.endswith(b"end\n"), "no last line"

    def never(_: bytes) -> None:
        raise AssertionError("nothing is good enough")

    check_lawful_out(Echo, lines_end_in_end, [TextStart(0)])
    with pytest.raises(AssertionError, match="law 10"):
        check_lawful_out(Echo, never, [TextStart(0)])
