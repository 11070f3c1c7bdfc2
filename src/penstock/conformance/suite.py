"""The suite: texts of models and streams of providers with what they mean, and its runner.

A `Driver` reads a case in pieces. `run_suite` lets it read every case whole, one character at a
time and at cuts that look random but are the same in every run, and counts what is right. The suite
imports no reader: it tests those of penstock and of other projects alike.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, Literal, Protocol
from zlib import crc32

from msgspec import Struct, field
from msgspec.json import Decoder

from penstock.errors import UsageError, describe_exception, shorten, suggest
from penstock.tools import Tool, read_tools

Suite = Literal["calls", "reasoning", "wild", "streams"]
"""What a case has: calls as a model's template says, reasoning, calls as models really print them,
or the bytes of a provider's stream."""

SUITES: Final[tuple[Suite, ...]] = ("calls", "reasoning", "wild", "streams")
WAYS: Final = ("whole", "by character", "random cuts")
"""The ways to cut a case."""

RANDOM_WAYS: Final = 4
"""In how many ways a case is cut at random."""

MEAN_PIECE: Final = 6
"""How many characters a random piece has on average: about as many as a token or two."""

_FILE: Final = "cases.jsonl"


class Expected(Struct, frozen=True, omit_defaults=True):
    """What a case means; without *reasoning*, that is not compared."""

    content: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    reasoning: str | None = None


class Case(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A text in *format*, or the stream of an API of that name, and what it means.

    *tools* names a set of tools of the file, or has them. *prompt* is the end of the prompt.
    *ended* says that the model ended the response: closing tags that are missing may be added.
    *match* says how the text is compared: with its white space, without, or not at all. *also* has
    other results that are right too.
    """

    id: str
    suite: Suite
    format: str
    text: str
    tools: str | list[dict[str, Any]] = ""
    prompt: str = ""
    ended: bool = False
    match: Literal["exact", "words", "ignore"] = "words"
    expected: Expected
    also: list[Expected] = []

    def read_tools(self) -> list[Tool]:
        """Return the tools that the model was offered."""
        tools = self.tools
        return read_tools(_load()[0].get(tools, []) if isinstance(tools, str) else tools)


class Reading(Struct, frozen=True):
    """What a driver has read. Only complete calls are in *calls*."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, Any], ...] = ()


class PiecesUnsupported(Exception):  # noqa: N818 - it is not an error of the case
    """Raised by the ``parse`` of a driver that reads whole texts only."""


class Driver(Protocol):
    """Lets one implementation read the cases of the suite."""

    @property
    def name(self) -> str:
        """The name of the implementation, with its version."""

    def supports(self, case: Case) -> bool:
        """Return whether the implementation has a reader for *case*."""

    def parse(self, case: Case, chunks: Sequence[str]) -> Reading:
        """Read the text of *case*, which arrives in *chunks*.

        May raise `PiecesUnsupported` if there is more than one.
        """

    def decode(self, case: Case, chunks: Sequence[bytes]) -> Reading:
        """Read the stream of *case*, which arrives in *chunks*."""


class Row(Struct):
    """The results of one format: how many of *cases* passed in each of the `WAYS`.

    A way that the driver does not support has no number, and does not count for *all_ways*.
    """

    suite: str
    format: str
    cases: int = 0
    passed: list[int | None] = field(default_factory=lambda: [0] * len(WAYS))
    all_ways: int = 0
    failed: list[str] = field(default_factory=list)
    """A line for each case that failed: its id, the way, and what was different."""


def load_cases(
    suites: Iterable[str] = SUITES, formats: Iterable[str] = (), limit: int = 0
) -> list[Case]:
    """Return the cases of *suites* and *formats* (all by default), at most *limit* for each format.

    Raises `UsageError` for an unknown suite or format.
    """
    cases = _load()[1]
    wanted, named = set(suites), set(formats)
    if unknown := wanted - set(SUITES):
        raise UsageError(f"unknown suite {min(unknown)!r}: the suites are {', '.join(SUITES)}")
    known = {case.format for case in cases}
    if unknown := named - known:
        raise UsageError(f"no case has the format {min(unknown)!r}{suggest(min(unknown), known)}")
    counts: dict[tuple[str, str], int] = {}
    found = []
    for case in cases:
        if case.suite not in wanted or (named and case.format not in named):
            continue
        key = (case.suite, case.format)
        counts[key] = counts.get(key, 0) + 1
        if not limit or counts[key] <= limit:
            found.append(case)
    return found


def run_suite(
    driver: Driver, cases: Iterable[Case], on_case: Callable[[Case], None] | None = None
) -> list[Row]:
    """Run *cases* with *driver*, and return one row for each suite and format that it supports.

    An exception of the driver is a failure of the case. *on_case* is called before each case.
    """
    rows: dict[tuple[str, str], Row] = {}
    for case in cases:
        if not driver.supports(case):
            continue
        if on_case is not None:
            on_case(case)
        row = rows.setdefault((case.suite, case.format), Row(case.suite, case.format))
        row.cases += 1
        results = [_find_problem(driver, case, number) for number in range(len(WAYS))]
        for number, problem in enumerate(results):
            count = row.passed[number]
            row.passed[number] = None if problem is None or count is None else count + (not problem)
        row.all_ways += not any(results)
        shown = next(((way, one) for way, one in zip(WAYS, results, strict=True) if one), None)
        if shown is not None:
            row.failed.append(f"{case.id}, {shown[0]}: {shown[1]}")
    return sorted(rows.values(), key=lambda row: (SUITES.index(row.suite), row.format))


def _find_problem(driver: Driver, case: Case, way: int) -> str | None:
    """Return what is wrong with the reading of *case* in `WAYS[way]`; the empty text if nothing.

    Returns `None` if the driver does not support this way.
    """
    for chunks in _cut(case, way):
        try:
            reading = (
                driver.decode(case, [*_encode_chunks(case, chunks)])
                if case.suite == "streams"
                else driver.parse(case, chunks)
            )
        except PiecesUnsupported:
            return None
        except Exception as exc:  # noqa: BLE001 - whatever an implementation raises is its failure
            return f"raised {describe_exception(exc)}"
        problems = [compare(reading, one, case.match) for one in (case.expected, *case.also)]
        if all(problems):
            return problems[0]
    return ""


def compare(reading: Reading, expected: Expected, match: str) -> str:
    """Return what is different; the empty text if nothing is."""
    # A bool is an int in Python, so `1 == True`: the types are compared too.
    if _with_types(reading.calls) != _with_types(expected.calls):
        return f"calls {_show(reading.calls)}, expected {_show(expected.calls)}"
    fold: Callable[[str], str] = str if match == "exact" else _fold
    if match != "ignore" and fold(reading.content) != fold(expected.content):
        return f"content {_show(reading.content)}, expected {_show(expected.content)}"
    if expected.reasoning is not None and _fold(reading.reasoning) != _fold(expected.reasoning):
        return f"reasoning {_show(reading.reasoning)}, expected {_show(expected.reasoning)}"
    return ""


_SHOWN: Final = 120


def _show(value: object) -> str:
    return shorten(repr(value), _SHOWN)


def _fold(text: str) -> str:
    return "".join(text.split())


def _with_types(value: Any) -> Any:
    """Return *value* with the type of each of its booleans beside it."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return {key: _with_types(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_with_types(each) for each in value]
    return value


# --- cuts ---


def _cut(case: Case, way: int) -> Iterator[list[str]]:
    text = case.text
    if way == 0:
        yield [text]
    elif way == 1:
        yield [*text]
    else:
        for number in range(RANDOM_WAYS):
            yield cut_by_chance(text, f"{case.id} {number}")


def cut_by_chance(text: str, seed: str) -> list[str]:
    """Cut *text* into pieces of 1 to 11 characters, the same ones for the same *seed*."""
    pieces, at, number = [], 0, 0
    while at < len(text):
        size = 1 + crc32(f"{seed} {number}".encode()) % (2 * MEAN_PIECE - 1)
        pieces.append(text[at : at + size])
        at, number = at + size, number + 1
    return pieces


def _encode_chunks(case: Case, chunks: list[str]) -> Iterator[bytes]:
    """Yield *chunks* as bytes; characters of several bytes are cut too if the case is cut."""
    if len(chunks) == 1:
        yield case.text.encode()
        return
    data = case.text.encode()
    at = 0
    for chunk in chunks:
        yield data[at : at + len(chunk)]
        at += len(chunk)
    yield data[at:]


# --- the file ---


class _Toolsets(Struct):
    toolsets: dict[str, list[dict[str, Any]]]


@cache
def _load() -> tuple[dict[str, list[dict[str, Any]]], list[Case]]:
    data = pkgutil.get_data(__package__ or "", _FILE)
    first, *lines = (data or b"").splitlines()
    decode = Decoder(Case).decode
    return Decoder(_Toolsets).decode(first).toolsets, [decode(line) for line in lines]
