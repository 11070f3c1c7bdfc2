"""What a short response costs: set-up, a call of 1 KB parsed at once, and the same in deltas.

Four formats are measured in detail, and one call in every format. The floor is what any program
needs for the same call: a pattern and `json.loads`, measured beside each row. The tools are 31, as
coding agents have them.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import penstock
from penstock import Done, Event, MessageStart, Parser, TextDelta, TextEnd, TextStart, ToolCall
from penstock.apis import get as get_api
from penstock.errors import UsageError
from penstock.formats import Format, get, make_event_parser
from penstock.formats.registry import BUILT_IN
from penstock.messages import AssistantMessage

Row = tuple[str, str, str, str]

GOAL = 60
"""How many microseconds a response with one call may take, on an idle core."""

FORMATS = ("hermes", "deepseek_v3", "qwen3_coder", "auto")
TEXT = {"type": "string"}
PROPERTIES = {
    "path": {**TEXT, "description": "The path of the file."},
    "content": TEXT,
    "mode": {**TEXT, "enum": ["replace", "append"]},
    "options": {"type": "object", "properties": {"tags": {"type": "array", "items": TEXT}}},
    "count": {"type": "integer"},
}
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "Writes a file. " * 8,
            "parameters": {"type": "object", "properties": PROPERTIES, "required": ["path"]},
        },
    }
    for name in (*(f"tool_{number}" for number in range(30)), "write_file")
]
BODY = ("The pipe leads the water to the turbine. " * 24).rstrip()
CALL = ToolCall("c", "tool_3", {"path": "a.txt", "content": BODY, "count": 3})
FILE_CALL = ToolCall("c", "write_file", {"path": "a.txt", "content": BODY})
"""The call of a format that has no other tools."""
_CALLS = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


def seconds(work: Callable[[], object], times: int = 40, rounds: int = 9) -> float:
    """Return the CPU seconds of *work*, the best of several rounds."""
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(times):
            work()
        best = min(best, time.process_time() - began)
    return best / times


def response(name: str) -> str:
    """Write a response of 1 KB with one call."""
    return "Ok.\n" + get("hermes" if name == "auto" else name).render_call(CALL)


def response_with_call(fmt: Format) -> str:
    """Write a response that *fmt* reads as one call: some formats allow no text before it."""
    try:
        call = fmt.render_call(CALL)
    except UsageError:
        call = fmt.render_call(FILE_CALL)
    texts = ("Ok.\n" + call, call)
    return next(text for text in texts if len(fmt.parse(text, TOOLS).tool_calls) == 1)


def of_formats() -> list[Row]:
    """Measure the response in every format: the distribution of the times."""
    times: list[tuple[float, str]] = []
    for fmt in BUILT_IN:
        if fmt.name == "none":
            continue
        compiled, text = penstock.compile(fmt.name, TOOLS), response_with_call(fmt)
        one = seconds(lambda: compiled.parse_many([text]), 20, 15)  # noqa: B023 - called at once
        times.append((one * 1e6, fmt.name))
    times.sort()
    middle = times[len(times) // 2][0]
    within = sum(each <= GOAL for each, _ in times)
    worst = " · ".join(f"{name} {each:.0f}" for each, name in reversed(times[-5:]))
    shown = f"{times[0][0]:.0f} · {middle:.0f} · {times[-1][0]:.0f} µs"
    verdict = "ok" if middle <= GOAL else "MISSED"
    return [
        (f"compile, 1 KB at once: least · median · most of {len(times)} formats", shown,
         f"median at most {GOAL} µs", verdict),
        ("compile, 1 KB at once: the slowest five, µs", worst, "none", "-"),
        (f"compile, 1 KB at once: within {GOAL} µs", f"{within} formats", "none", "-"),
    ]  # fmt: skip


def floor() -> float:
    """Return the seconds of a pattern and `json.loads` on the same call."""
    text = response("hermes")
    return seconds(lambda: [json.loads(found) for found in _CALLS.findall(text)])


def at_once(name: str) -> Row:
    """Measure whole responses with `compile`."""
    compiled, text = penstock.compile(name, TOOLS), response(name)
    base = floor()
    one = seconds(lambda: compiled.parse_many([text]))
    times = one / base
    shown = f"{times:.1f} floors ({one * 1e6:.0f} µs)"
    verdict = "ok" if times <= 10 else "MISSED"
    return f"compile, 1 KB at once: {name}", shown, "at most 10 floors", verdict


def in_deltas(name: str) -> Row:
    """Measure deltas of four characters, and how much of it is not the deltas themselves."""
    compiled, text = penstock.compile(name, TOOLS, arguments="live"), response(name)
    deltas = [text[at : at + 4] for at in range(0, len(text), 4)]

    def parse() -> None:
        parser = compiled.parser()
        for delta in deltas:
            parser.feed(delta)
        parser.finish(cut=False)

    each = seconds(parse) / len(deltas)
    parser = compiled.parser()
    parser.feed(text[:200])
    plain = seconds(lambda: parser.feed("word"), 400)
    more = (each - plain) * 1e6
    shown = f"{more:.2f} µs a delta beyond {plain * 1e6:.2f}"
    verdict = "ok" if more <= 1.5 else "MISSED"
    return f"compile, 1 KB in deltas: {name}", shown, "at most 1.5 µs", verdict


def of_tools() -> Row:
    """Compare a parser for tools that were seen before with one for new tools."""
    numbers = iter(range(1 << 30))

    def make_new() -> None:
        first = {"type": "function", "function": {"name": f"new_{next(numbers)}"}}
        Parser("auto", [first, *TOOLS])

    known, new = seconds(lambda: Parser("auto", TOOLS)), seconds(make_new, 4, 5)
    ratio = new / known
    verdict = "ok" if ratio >= 5 else "MISSED"
    shown = f"{ratio:.0f}x faster ({known * 1e6:.0f} µs)"
    return "a parser for 31 known tools / new ones", shown, "at least 5x", verdict


def of_gateway() -> Row:
    """Measure a request and its response as the gateway parses them, beside the JSON alone."""
    body = json.dumps({"model": "m", "messages": [], "tools": TOOLS, "stream": True})
    text = response("auto")
    deltas = [TextDelta(0, text[at : at + 4]) for at in range(0, len(text), 4)]
    events: list[Event] = [MessageStart("i", "m"), TextStart(0), *deltas, TextEnd(0, text)]
    api = get_api("openai-chat")

    def handle() -> None:
        request = api.read_request(json.loads(body))
        parser = make_event_parser(
            "auto", request.tools, heal=True, arguments="live", repair=True, trim=True
        )
        for event in events:
            parser.add(event)
        parser.add(Done("stop", AssistantMessage()))

    base, whole = seconds(lambda: json.loads(body)), seconds(handle)
    ratio = whole / base
    verdict = "ok" if ratio <= 20 else "MISSED"
    shown = f"{ratio:.1f}x ({whole * 1e6:.0f} µs)"
    return "a request with 31 tools and its response / its JSON", shown, "at most 20x", verdict


def table() -> list[Row]:
    """Return the rows of this benchmark."""
    rows = [measure(name) for name in FORMATS for measure in (at_once, in_deltas)]
    return [*rows, *of_formats(), of_tools(), of_gateway()]


if __name__ == "__main__":
    for cells in table():
        print(*cells, sep=" | ")
