"""Every format, per delta of four characters: in text, and inside a call that streams.

Ratios to a floor, a method that returns a list with one event, measured beside each. A call is
opened as the format itself writes it, up to the beginning of its long text.
"""

from __future__ import annotations

from typing import Any

from parsing import CODE, MARKUP, PROSE, Row, _Floor, cost, pieces
from penstock import Parser, ToolCall
from penstock.errors import UsageError
from penstock.formats import Format
from penstock.formats.registry import BUILT_IN
from penstock.tools import Tool

TEXT: dict[str, Any] = {"type": "string"}
TOOLS = [
    Tool("write_file", "", {"properties": {"path": TEXT, "content": TEXT}}),
    Tool("run_bash", "", {"properties": {"command": TEXT}}),
]
BARS = {"prose": 4.0, "markup": 15.0, "live": 4.0, "code": 8.0, "growth": 1.2}
"""The goals are 3 floors for prose and 6 for code in a call; the bars leave room for noise."""

BRACKETS = ("json_tool", "json_tool_openai", "json_tool_gemini", "bare_json", "auto")
"""Formats without a marker: every bracket of the text may begin a call. Their bar is twice that."""

WORDS = ("firefunction_v2", "muse_glimmer")
"""Formats with a marker that begins with a space or a letter: many deltas end with one, which is
held back. Their bar for prose is twice that."""

TRIMMED = ("step3",)
"""Formats that strip the white space around a value: what a delta ends with is held back until more
comes. Their bars in a call are twice that."""


def written(fmt: Format, text: str) -> tuple[str, str]:
    """Return a call up to its long text, and that *text* as the format writes it."""
    long = f"xyzzy{text}.."  # not a blank at its end: some formats strip their values
    for call in (
        ToolCall("c", "write_file", {"path": "a", "content": long}),
        ToolCall("c", "run_bash", {"command": long}),
    ):
        try:
            opened, _, rest = fmt.render_call(call).partition("yzzy")
        except UsageError:
            continue
        return opened, rest[: len(text)]
    raise AssertionError(fmt.name)


def measured(fmt: Format) -> Row:
    """Measure one format: text, then a call of 1, 10 and 100 KB."""
    begun, prose_in_call = written(fmt, PROSE)
    code_in_call = written(fmt, CODE * 4)[1]
    if '\\"' not in code_in_call:
        code_in_call = CODE  # Models write code as it is, where nothing has to be escaped.

    def make() -> Parser:
        return Parser(fmt, TOOLS, arguments="live")

    def floors(text: str, size: int, opened: str = "") -> float:
        deltas = pieces(text, size)
        return cost(make, deltas, opened) / cost(_Floor, deltas)

    prose, markup = floors(PROSE, 20_000), floors(MARKUP, 20_000)
    calls = [floors(prose_in_call, size, begun) for size in (1_000, 10_000, 100_000)]
    code = floors(code_in_call, 10_000, begun)
    growth = min(
        cost(make, pieces(prose_in_call, 100_000), begun)
        / cost(make, pieces(prose_in_call, 1_000), begun)
        for _ in range(2)
    )
    is_good = (
        prose <= BARS["prose"] * (1 + (fmt.name in WORDS))
        and markup <= BARS["markup"] * (1 + (fmt.name in BRACKETS))
        and max(calls) <= BARS["live"] * (1 + (fmt.name in TRIMMED))
        and code <= BARS["code"] * (1 + (fmt.name in TRIMMED))
        and growth <= BARS["growth"]
    )
    shown = (
        f"{prose:.1f} · {markup:.1f} · {' · '.join(f'{call:.1f}' for call in calls)} · {code:.1f}"
    )
    return f"format: {fmt.name}", shown, "4 · 15 · 4 each, flat · 8", "ok" if is_good else "MISSED"


def table() -> list[Row]:
    """Return one row per format: prose, markup; calls of 1, 10 and 100 KB of prose; code."""
    return [measured(fmt) for fmt in BUILT_IN if fmt.name != "none"]


if __name__ == "__main__":
    for cells in table():
        print(*cells, sep=" | ")
