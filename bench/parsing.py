"""What a delta costs in the parser, as a multiple of what any streaming API costs at least.

The floor is a method that returns a list with one event, measured beside each row. Fixed texts in
4-character deltas; inside a call the text is the value of a string argument, in JSON or raw between
tags.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from penstock import Parser
from penstock.events import Event, TextDelta
from penstock.tools import Tool

Row = tuple[str, str, str, str]

SIZE = 100_000
ROUNDS = 7
PROSE = "The pipe leads the water to the turbine, one way, under control, no drop lost. "
MARKUP = "<p>if (a < b) { return vector<int>{1, 2}; }</p> <div class='x'>{ }</div> "
CODE = 'def f(x):\n    if x < 3 and y == "a":\n        return {"k": [x, \'y\']}\n\n'
OPENING = '<tool_call>{"name": "write", "arguments": {"content": "x'
ELEMENT_OPENING = "<write><content>x"
TOOLS = [Tool("write", "", {"properties": {"content": {"type": "string"}}})]


class _Floor:
    def feed(self, text: str) -> list[Event]:
        """Return a list with one event."""
        return [TextDelta(0, text, text)]


def pieces(text: str, size: int) -> list[str]:
    """Cut *size* characters of repeated *text* into deltas of four."""
    whole = (text * (size // len(text) + 1))[:size]
    return [whole[at : at + 4] for at in range(0, size, 4)]


def cost(make: Callable[[], Any], deltas: list[str], opening: str = "") -> float:
    """Return the CPU seconds of one delta, the best of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        reader = make()
        if opening:
            reader.feed(opening)
        feed = reader.feed
        began = time.process_time()
        for delta in deltas:
            feed(delta)
        best = min(best, time.process_time() - began)
    return best / len(deltas)


def floors(what: str, make: Callable[[], Any], deltas: list[str], bar: float, opening: str) -> Row:
    """Compare a reader with the floor on the same deltas, turn by turn."""
    floor = min(cost(_Floor, deltas) for _ in range(2))
    ratio = cost(make, deltas, opening) / floor
    return what, f"{ratio:.1f} floors", f"at most {bar:g}", "ok" if ratio <= bar else "MISSED"


def in_text() -> list[Row]:
    """Measure text outside calls."""
    rows = [("prose", PROSE, 3.5), ("markup", MARKUP, 15.0), ("code", CODE, 15.0)]
    return [
        floors(f"text: {name}", lambda: Parser("hermes", TOOLS), pieces(text, SIZE), bar, "")
        for name, text, bar in rows
    ]


def in_calls() -> list[Row]:
    """Measure a string argument in JSON and between tags, live and whole, at three sizes."""
    rows = []
    for name, text, bar in (("prose", PROSE, 4.0), ("code", CODE, 8.0)):
        for size in (1_000, 4_000, SIZE):
            for mode in ("live", "whole"):
                what = f"{name}, {size // 1000} KB, {mode}"
                rows += [
                    in_json(what, text, size, mode, bar),
                    in_element(what, text, size, mode, bar),
                ]
    return rows


def in_json(what: str, text: str, size: int, mode: Any, bar: float) -> Row:
    """Measure a string argument in JSON."""
    deltas = pieces(json.dumps(text)[1:-1], size)

    def make() -> Parser:
        return Parser("hermes", TOOLS, arguments=mode)

    return floors(f"call: {what}", make, deltas, bar, OPENING)


def in_element(what: str, text: str, size: int, mode: Any, bar: float) -> Row:
    """Measure a string argument between tags."""

    def make() -> Parser:
        return Parser("morph_xml", TOOLS, arguments=mode)

    return floors(f"element: {what}", make, pieces(text, size), bar, ELEMENT_OPENING)


def of_names() -> Row:
    """Compare forty tools that calls may name with one, in text full of tags."""
    deltas = pieces(MARKUP, SIZE)
    tools = [
        Tool(f"{verb}_{number}") for verb in ("get", "put", "find", "list") for number in range(10)
    ]

    def seconds(names: list[Tool]) -> float:
        return cost(lambda: Parser("morph_xml", names), deltas)

    forty, one = zip(*((seconds(tools), seconds(tools[:1])) for _ in range(3)), strict=True)
    ratio = min(forty) / min(one)
    verdict = "ok" if ratio <= 1.3 else "MISSED"
    return "text: markup, 40 tool names / one", f"{ratio:.2f}x", "at most 1.3x", verdict


def growth() -> Row:
    """Compare a delta of a call of 100 KB with one of 1 KB."""
    small, large = (
        cost(lambda: Parser("hermes", TOOLS, arguments="live"), pieces(PROSE, size), OPENING)
        for size in (1_000, SIZE)
    )
    ratio = large / small
    verdict = "ok" if ratio <= 1.2 else "MISSED"
    return "call: a delta at 100 KB / at 1 KB", f"{ratio:.2f}x", "at most 1.2x", verdict


def in_one_piece() -> list[Row]:
    """Measure whole answers."""
    rows = []
    for name, text, bar in (("plain text", PROSE, 500), ("markup", MARKUP, 8)):
        answer = "".join(pieces(text, 10 * SIZE))
        seconds = cost(lambda: Parser("hermes", TOOLS), [answer])
        speed = len(answer) / seconds / 1e6
        verdict = "ok" if speed >= bar else "MISSED"
        rows.append((f"one piece: {name}", f"{speed:.0f} MB/s", f"at least {bar} MB/s", verdict))
    return rows


def of_auto() -> list[Row]:
    """Measure `auto`, which looks out for the markers of all formats: prose, names, one piece."""
    deltas = pieces(PROSE, SIZE)
    many = [Tool(f"tool_{number}") for number in range(40)]
    one, all_of_them = (
        cost(lambda tools=tools: Parser("auto", tools), deltas, "x")  # type: ignore[misc]
        for tools in (TOOLS, many)
    )
    ratio = all_of_them / one
    answer = "".join(pieces(PROSE, 10 * SIZE))
    speed = len(answer) / cost(lambda: Parser("auto", TOOLS), [answer]) / 1e6
    return [
        floors("auto: prose", lambda: Parser("auto", TOOLS), deltas, 4, "x"),
        _judged("auto: 40 names / one", f"{ratio:.2f}x", "at most 1.3x", is_good=ratio <= 1.3),
        _judged("auto: one piece", f"{speed:.0f} MB/s", "at least 100 MB/s", is_good=speed >= 100),
    ]


def _judged(what: str, found: str, bar: str, *, is_good: bool) -> Row:
    return what, found, bar, "ok" if is_good else "MISSED"


def table() -> list[Row]:
    """Return the rows of this benchmark."""
    return [*in_text(), of_names(), *in_calls(), growth(), *in_one_piece(), *of_auto()]


if __name__ == "__main__":
    for cells in table():
        print(*cells, sep=" | ")
