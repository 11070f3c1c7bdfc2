"""The laws over calls that are spelled out: any text, at any cut, of any size."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import (
    check_linear,
    check_readings,
    cut_at,
    one_by_one,
)
from laws.checks import read
from laws.strategies import CUTS, soup
from parsing.delimited_samples import MARKS, MODES, SYNTAX, TOOLS, Mode, parse, spelled
from parsing.samples import complete_calls
from penstock.parsing import Engine
from penstock.parsing.body import MAX_BLANK

PIECES = soup(
    MARKS.start,
    MARKS.end,
    MARKS.quote,
    *map(
        spelled,
        ["«write{", "path:~", "~,", "mode:5,", "tags:[", "any:{", "'k':", ",", ":", "]", "}»"],
    ),
    *map(spelled, ["«ping{}»", "007", "null", "~a~", '"x"', " " * MAX_BLANK]),
)
TEXTS = st.one_of(PIECES, PIECES.map(lambda text: spelled("«write{") + text))


@settings(max_examples=120)
@given(
    text=TEXTS,
    cuts=CUTS,
    mode=st.sampled_from(MODES),
    trim=st.booleans(),
    repair=st.booleans(),
)
def test_the_laws_hold_on_any_text_at_any_cut(
    text: str,
    cuts: list[int],
    mode: Mode,
    trim: bool,  # noqa: FBT001
    repair: bool,  # noqa: FBT001
) -> None:
    make = partial(Engine, SYNTAX, TOOLS, arguments=mode, trim=trim, repair=repair)
    check_readings(make, text, [cut_at(text, cuts), one_by_one(text)])


@given(text=TEXTS)
def test_a_complete_call_is_the_same_in_both_modes(text: str) -> None:
    whole, live = (parse(text, arguments=mode) for mode in MODES)
    if all(call.complete for call in live.tool_calls):
        assert complete_calls(whole) == complete_calls(live)


HOSTILE = {
    "an open text": lambda size: spelled("«write{path:~") + "x" * 10 * size,
    "a text of first characters": lambda size: spelled("«write{path:~") + "<" * 10 * size,
    "a text that does not stream": lambda size: spelled("«write{mode:~") + "x<" * 5 * size,
    "an open word": lambda size: spelled("«write{mode:") + "x " * 5 * size,
    "a word of first characters": lambda size: spelled("«write{mode:") + "<" * 10 * size,
    "white space": lambda size: spelled("«write{") + " " * 10 * size,
    "many keys": lambda size: spelled("«write{") + "k:1," * 3 * size,
    "many items": lambda size: spelled("«write{tags:[") + "1," * 5 * size,
    "many brackets": lambda size: spelled("«write{any:") + "[" * 10 * size,
    "brackets too many": lambda size: spelled("«ping{}") + "}" * 10 * size,
    "many calls": lambda size: spelled("«ping{}»") * size,
    "many calls without an end": lambda size: spelled("«ping{}") * size,
    "many broken calls": lambda size: spelled("«write{mode 1»") * size,
    "many markers": lambda size: MARKS.start * size,
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    ("mode", "chunk"),
    [("whole", 64), ("live", 64), ("whole", 1 << 30)],
    ids=["whole", "live", "in one piece"],
)
def test_time_grows_with_the_text_and_no_faster(make: Any, mode: Mode, chunk: int) -> None:
    def run(size: int) -> None:
        text = make(size)
        chunks = [text[at : at + chunk] for at in range(0, len(text), chunk)]
        read(Engine(SYNTAX, TOOLS, arguments=mode), chunks)

    check_linear(run, 150, 1500, at_most=3, tries=3)
