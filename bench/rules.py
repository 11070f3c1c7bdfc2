"""What stream rules add to an answer: the same bytes with 50 rules and without.

An answer goes the way that it goes in an agent: bytes, decoder, builder, and the watch that sees
every event. The deltas have four characters. No rule is met, so that all of the answer is looked
through. The rules are of the kinds that people write, some of them with looks around.
"""

from __future__ import annotations

import json
import time
from itertools import cycle, islice

from penstock import MessageBuilder, apis
from penstock.agent.rules import Rule, RuleGuard
from penstock.events import (
    Done,
    Event,
    MessageStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import AssistantMessage, ToolCall

Row = tuple[str, str, str, str]

SMALL, LARGE = 1_000, 200_000
DELTA = 4
RULES = 50
ROUNDS = 5
ENOUGH = 5_000
"""How many deltas one timing takes at least: short answers are read several times over."""
MAX_COST, MAX_GROWTH = 3.0, 1.3

PROSE = "The pipe leads the water to the turbine, one way, under control, no drop lost. "
CODE = (
    "async function load(path) {\n    const found = await fetch(`/api/${path}`);\n"
    "    if (!found.ok) { throw new Error(found.statusText); }\n    return found.json();\n}\n\n"
)
CONDITIONS = (
    r"console\.(?:log|debug)\(",
    r"TODO{0}: \w+",
    r"(?i)as an ai (?:language )?model{0}",
    r"\bforbidden{0}\b",
    r"import\s+lodash{0}",
    r"except\s*:\s*pass{0}$",
    r"(?<!await )sleep{0}\(",
    r"\.innerHTML{0}\s*=",
    r"password{0}\s*=\s*['\"][^'\"]+['\"]",
    r"rm -rf{0} /(?!tmp)",
)


def rules(count: int) -> list[Rule]:
    """Make *count* rules of all kinds."""
    conditions = islice(cycle(CONDITIONS), count)
    return [
        Rule(f"rule-{number}", (condition.replace("{0}", str(number)),), "Do not.")
        for number, condition in enumerate(conditions)
    ]


def text_events(text: str) -> list[Event]:
    """Make an answer of text."""
    deltas = [TextDelta(0, text[at : at + DELTA]) for at in range(0, len(text), DELTA)]
    return [TextStart(0), *deltas, TextEnd(0, text)]


def call_events(text: str) -> list[Event]:
    """Make an answer that writes *text* to a file."""
    arguments = {"path": "src/load.ts", "content": text}
    whole = json.dumps(arguments)
    deltas = [ToolCallDelta(0, whole[at : at + DELTA]) for at in range(0, len(whole), DELTA)]
    call = ToolCall("c1", "write_file", arguments)
    return [ToolCallStart(0, "c1", "write_file"), *deltas, ToolCallEnd(0, call)]


ANSWERS = {"prose": (PROSE, text_events), "code": (CODE, text_events), "call": (CODE, call_events)}


def chunks(kind: str, size: int) -> list[bytes]:
    """Write an answer of *size* characters as a provider does, a chunk for each event."""
    source, events = ANSWERS[kind]
    text = (source * (size // len(source) + 1))[:size]
    encoder = apis.get("openai-chat").encoder(created=1_763_200_000)
    written = [encoder.encode(event) for event in [MessageStart("m", "some-model"), *events(text)]]
    message = AssistantMessage()
    done = Done("tool_use", message) if kind == "call" else Done("stop", message)
    written.append(encoder.encode(done))
    return [*filter(None, [*written, encoder.finish()])]


def read(chunked: list[bytes], watch: RuleGuard | None) -> None:
    """Read one answer as an agent does."""
    decoder = apis.get("openai-chat").decoder()
    builder = MessageBuilder()
    if watch is not None:
        watch.response_started()
    for events in (*map(decoder.feed, chunked), decoder.finish()):
        for event in events:
            if watch is not None and watch.check(event) is not None:
                raise AssertionError(event)
            builder.add(event)


def seconds(chunked: list[bytes], watch: RuleGuard | None) -> float:
    """Return the CPU seconds of one chunk."""
    times = max(1, ENOUGH // len(chunked))
    began = time.process_time()
    for _ in range(times):
        read(chunked, watch)
    return (time.process_time() - began) / times / len(chunked)


def rows_of(kind: str) -> list[Row]:
    """Measure one kind of answer, short and long, without rules and with them."""
    answers = {size: chunks(kind, size) for size in (SMALL, LARGE)}
    watches = {0: None, RULES: RuleGuard(rules(RULES))}
    best: dict[tuple[int, int], float] = {}
    for _ in range(ROUNDS):
        for size, chunked in answers.items():
            for count, watch in watches.items():
                taken = seconds(chunked, watch)
                best[size, count] = min(taken, best.get((size, count), taken))
    figures = " · ".join(f"{best[size, count] * 1e6:.1f}" for count in watches for size in answers)
    return [
        (f"{kind}: µs a delta at 1 · 200 KB, without and with {RULES} rules", figures, "", ""),
        ratio(f"{kind}: {RULES} rules, 200 KB", best[LARGE, RULES] / best[LARGE, 0], MAX_COST),
        ratio(f"{kind}: 200 KB against 1 KB, no rules", best[LARGE, 0] / best[SMALL, 0], 0),
        ratio(
            f"{kind}: 200 KB against 1 KB, {RULES} rules",
            best[LARGE, RULES] / best[SMALL, RULES],
            MAX_GROWTH,
        ),
    ]


def ratio(what: str, times: float, most: float) -> Row:
    """Make the row of a ratio; *most* is its bar, or zero for none."""
    if not most:
        return what, f"{times:.2f} times", "", ""
    return what, f"{times:.2f} times", f"at most {most:g}", "ok" if times <= most else "MISSED"


def table() -> list[Row]:
    """Measure all; return rows of what, measured, bar and verdict."""
    return [row for kind in ANSWERS for row in rows_of(kind)]


if __name__ == "__main__":
    for row in table():
        print("{:60} {:>24}  {:>12}  {}".format(*row))
