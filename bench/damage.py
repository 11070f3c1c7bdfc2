"""Law 11 in figures: what becomes of damaged calls, format by format and setting by setting.

`tests/laws/damage.py` renders calls with plain values and damages each text in every single place.
A row shows the shares of damaged texts that became a corrupted complete call and that were read
exactly as meant. The bars: at most 0.5 % corrupted in every setting, and with repair 30 % exact.

    python bench/damage.py [--formats hermes,glm45] [--setting "live, repair"] [--ways] [--show N]

With `--streams N` it reads N texts per format of `tests/laws/stream_damage.py` instead, each in
every setting, and prints the share of texts with a wrong complete call.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from laws.damage import (
    SETTINGS,
    Damaged,
    Outcome,
    Setting,
    damaged_texts,
    outcome,
    read_damaged,
    twice_damaged,
)
from laws.stream_damage import damaged_streams, find_wrong_call, read_stream
from penstock.formats import Format
from penstock.formats.registry import BUILT_IN

Row = tuple[str, str, str, str]

MAX_CORRUPTED = 0.005
MIN_EXACT = 0.30
TWICE = 60
"""How many texts with two damages are read per format."""

FORMATS = [fmt for fmt in BUILT_IN if fmt.name not in {"auto", "none"}]


def count(fmt: Format, setting: Setting, texts: list[Damaged]) -> Counter[Outcome]:
    """Return how many of *texts* had which outcome."""
    return Counter(outcome(read_damaged(fmt, text, setting), calls) for text, calls, *_ in texts)


def table() -> list[Row]:
    """Return a row per format for the gateway's setting, and a row per setting for all formats."""
    totals: dict[str, Counter[Outcome]] = {setting.name: Counter() for setting in SETTINGS}
    rows = []
    for fmt in FORMATS:
        texts = [*damaged_texts(fmt), *twice_damaged(fmt, TWICE)]
        for setting in SETTINGS:
            found = count(fmt, setting, texts)
            totals[setting.name] += found
            if setting.name == "live, repair":
                rows.append(_row(f"{fmt.name}: {setting.name}", found, min_exact=0))
    return [
        *rows,
        *(
            _row(f"all: {setting.name}", totals[setting.name], MIN_EXACT * setting.repair)
            for setting in SETTINGS
        ),
    ]


def _row(what: str, found: Counter[Outcome], min_exact: float) -> Row:
    total = found.total() or 1
    corrupted, exact = found["corrupted"] / total, found["exact"] / total
    verdict = "ok" if corrupted <= MAX_CORRUPTED and exact >= min_exact else "MISSED"
    bar = f"<= {MAX_CORRUPTED:.1%} corrupted" + (f", >= {min_exact:.0%} exact" if min_exact else "")
    measured = (
        f"{corrupted:.2%} corrupted, {found['altered'] / total:.1%} altered, {exact:.1%} exact"
    )
    return what, measured, bar, verdict


def main() -> None:
    """Print one line per format and setting, and with `--show` some of the corrupted texts."""
    options = argparse.ArgumentParser()
    options.add_argument("--formats", default="")
    options.add_argument("--setting", default="")
    options.add_argument("--ways", action="store_true", help="one line per way of damage")
    options.add_argument("--show", type=int, default=0, help="how many texts to show per line")
    options.add_argument("--streams", type=int, default=0, help="how many streams per format")
    options.add_argument("--outcome", default="corrupted", help="the outcome to show")
    chosen = options.parse_args()
    names = set(filter(None, chosen.formats.split(",")))
    if chosen.streams:
        _print_streams(chosen.streams, names)
        return
    for fmt in FORMATS:
        if names and fmt.name not in names:
            continue
        texts = [*damaged_texts(fmt), *twice_damaged(fmt, TWICE)]
        for setting in SETTINGS:
            if chosen.setting and setting.name != chosen.setting:
                continue
            _print_one(fmt, setting, texts, chosen)


def _print_streams(number: int, names: set[str]) -> None:
    """Print the share of damaged streams with a wrong call, per format and per setting."""
    totals: Counter[str] = Counter()
    read = 0
    for fmt in FORMATS:
        if names and fmt.name not in names:
            continue
        read += number
        wrong: Counter[str] = Counter()
        for damaged in damaged_streams(fmt, number, seed=2):
            for setting in SETTINGS:
                if find_wrong_call(read_stream(fmt, damaged, setting), damaged) is not None:
                    wrong[setting.name] += 1
        totals += wrong
        print(f"{fmt.name:18} {wrong.total() / number / len(SETTINGS):.2%} wrong")
    for setting in SETTINGS:
        print(f"all: {setting.name:20} {totals[setting.name] / read:.2%} wrong")


def _print_one(
    fmt: Format, setting: Setting, texts: list[Damaged], chosen: argparse.Namespace
) -> None:
    ways = sorted({each.way for each in texts}) if chosen.ways else [""]
    for way in ways:
        some = [each for each in texts if not way or each.way == way]
        read = [(each, read_damaged(fmt, each.text, setting)) for each in some]
        found = Counter(outcome(calls, each.calls) for each, calls in read)
        shares = ", ".join(f"{kind} {found[kind] / len(some):.1%}" for kind in sorted(found))
        print(f"{fmt.name:18} {setting.name:20} {way:12} {len(some):5}  {shares}")
        shown = 0
        for each, calls in read:
            if shown < chosen.show and outcome(calls, each.calls) == chosen.outcome:
                shown += 1
                print(f"    {each.way} at {each.place}: {each.text!r}")
                for call in calls:
                    print(f"        {call.name} {call.arguments!r} complete={call.complete}")


if __name__ == "__main__":
    main()
