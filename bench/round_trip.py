"""Law 8 over a real corpus: every call of the Berkeley data, in every format, there and back.

A format writes the calls of a case, they are put into an answer (alone, with prose around them, or
several in a row), the answer is cut at random and read back, once as whole calls and once live. A
call counts as *equal* if both give back its name and arguments, and the text around it besides.
What a format cannot express its renderer has to refuse; anything else that is not equal is wrong,
and makes the exit code 1.

With `--reader auto` it is `auto` that reads what the formats wrote. Formats that it does not look
for are wrong then, so this is for looking, not for passing.

    python bench/round_trip.py [--limit CASES] [--formats hermes,glm45] [--reader auto] [--seed 7]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import berkeley
from berkeley import Case
from penstock.builder import MessageBuilder
from penstock.errors import UsageError
from penstock.formats import Format
from penstock.formats.registry import BUILT_IN
from penstock.messages import AssistantMessage, ToolCall
from penstock.parsing import Arguments, Engine

FORMATS = {fmt.name: fmt for fmt in BUILT_IN}
MODES: tuple[Arguments, ...] = ("whole", "live")

LEADING = {"generic_json", "granite", "llama3_json", "pythonic", "xlam"}
"""Formats whose calls have no marker and begin the answer: one call each, and no prose before."""

PROSE = (
    "",
    "Let me look that up.",
    "Das prüfe ich: 3 < 4, oder? 好的。",
    "Sure!\n\n- first\n- then",
)
"""What stands around calls; the empty text more often than not."""

LONGEST_PIECE = 24
"""How long the pieces are at most that an answer is cut into."""

MAX_FAILURES_SHOWN = 3


class Answer(NamedTuple):
    """A text, the calls that are in it, and what is left of it without them."""

    text: str
    calls: list[ToolCall]
    prose: str


class Tally:
    """What became of the calls that one format wrote and *reader* read."""

    def __init__(self, fmt: Format, reader: Format) -> None:
        self.fmt = fmt
        self.reader = reader
        self.calls = self.equal = self.wrong = 0
        self.refusals: dict[str, list[ToolCall]] = {}
        self.failures: list[str] = []

    @property
    def refused(self) -> int:
        """How many calls the renderer would not write."""
        return sum(map(len, self.refusals.values()))

    def add(self, case: Case, random: Random) -> None:
        """Write the calls of *case*, read them back, and count what came of them."""
        self.calls += len(case.calls)
        written = list(self._written(case))
        rows = [[pair] for pair in written] if self.fmt.name in LEADING else [written]
        for row in filter(None, rows):
            self._judge(case, self._answer(row, random), random)

    def _written(self, case: Case) -> Iterator[tuple[ToolCall, str]]:
        for call in case.calls:
            try:
                yield call, self.fmt.render_call(call)
            except UsageError as error:
                reason = str(error).replace(repr(call.name), "…")
                self.refusals.setdefault(reason, []).append(call)

    def _answer(self, row: list[tuple[ToolCall, str]], random: Random) -> Answer:
        before, between, after = (random.choice(["", "", *PROSE]) for _ in range(3))
        if self.fmt.name in LEADING:
            before = ""
        joint = f"\n{between}\n" if between else "\n"
        texts = [before, joint.join(text for _, text in row), after]
        prose = [before, *[between] * (len(row) - 1), after]
        return Answer("\n".join(filter(None, texts)), [call for call, _ in row], " ".join(prose))

    def _judge(self, case: Case, answer: Answer, random: Random) -> None:
        pieces = cut(answer.text, random)
        for mode in MODES:
            message = read(self.reader.parser(case.tools, arguments=mode), pieces)
            if difference := _difference(answer, message):
                self.wrong += len(answer.calls)
                self.failures.append(f"{case.name}, {mode}: {difference}\n    {pieces!r}")
                return
        self.equal += len(answer.calls)


def _difference(answer: Answer, message: AssistantMessage) -> str:
    """Say what *message* has that *answer* has not; nothing if they agree."""
    found = [(call.name, call.arguments, call.complete) for call in message.tool_calls]
    wanted = [(call.name, call.arguments, True) for call in answer.calls]
    if not _same(found, wanted):
        return f"wrote {wanted}\n    read  {found}"
    if message.text.split() != answer.prose.split():
        return f"text {message.text!r} for {answer.prose!r}"
    return ""


def _same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same JSON: `1` is `1.0`, but it is not `true`."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def cut(text: str, random: Random) -> list[str]:
    """Cut *text* into pieces of random length."""
    edges = [0]
    while edges[-1] < len(text):
        edges.append(min(len(text), edges[-1] + random.randint(1, LONGEST_PIECE)))
    return [text[start:end] for start, end in pairwise(edges)]


def read(parser: Engine, pieces: list[str]) -> AssistantMessage:
    """Read an answer that the model ended by itself."""
    builder = MessageBuilder()
    for piece in pieces:
        for event in parser.feed(piece):
            builder.add(event)
    for event in parser.finish(cut=False):
        builder.add(event)
    return builder.message


def show(tallies: list[Tally]) -> None:
    """Print one row for each format, then why calls were refused, and what went wrong."""
    print("| format | calls | refused | equal | wrong | read back |")
    print("|---|---|---|---|---|---|")
    for tally in tallies:
        tried = tally.equal + tally.wrong
        share = f"{100 * tally.equal / tried:.2f} %" if tried else "-"
        cells = (tally.fmt.name, tally.calls, tally.refused, tally.equal, tally.wrong, share)
        print(f"| {' | '.join(map(str, cells))} |")
    print("\nRefused by the renderer:\n")
    for tally in tallies:
        for reason, calls in tally.refusals.items():
            print(f"- {tally.fmt.name}: {len(calls)} times: {reason}, as {calls[0].arguments}")
    for tally in tallies:
        for failure in tally.failures[:MAX_FAILURES_SHOWN]:
            print(f"\nWRONG {tally.fmt.name}: {failure}")


def main() -> None:
    """Run the formats that were asked for over the cases, and tell how each fared."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--limit", type=int, help="how many cases, spread over all; else all")
    options.add_argument("--formats", default="", help="names with commas between them; else all")
    options.add_argument("--reader", choices=list(FORMATS), help="who reads; else who wrote")
    options.add_argument("--seed", type=int, default=7)
    given = options.parse_args()
    berkeley.fetch()
    cases = list(berkeley.cases())
    random = Random(given.seed)
    if given.limit and given.limit < len(cases):
        cases = random.sample(cases, given.limit)
    wanted = [name for name in given.formats.split(",") if name]
    tallies = [
        Tally(fmt, FORMATS[given.reader or fmt.name])
        for fmt in BUILT_IN
        if not wanted or fmt.name in wanted
    ]
    for case in cases:
        for tally in tallies:
            tally.add(case, random)
    show(tallies)
    sys.exit(1 if any(tally.wrong for tally in tallies) else 0)


if __name__ == "__main__":
    main()
