"""Floods of what may begin something, one character at a time, cost every format the same a piece.

Time is compared with time of the same run, coarsely: eight times as much may cost three times as
much again as it should, on a machine that does something else meanwhile.
"""

from __future__ import annotations

from time import process_time

import pytest

from penstock import Parser, formats

TOOLS = [
    {
        "name": "write_file",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "tags": {"type": "array"}},
        },
    }
]
FLOODS = ("[", "{", '"', "\\", "<a>", "</", "```\n", '{"', "<think>")
FEW, MANY = 125, 1_000
BLANK = 4_000
"""How much white space: nearly all that is held back, which is what could be read again."""


def cost(format_: str, *units: str, size: int) -> float:
    """Measure the seconds of a flood of *size* characters of each of *units*."""
    parsers = [Parser(format_, TOOLS, trim=True, repair=True, arguments="live") for _ in units]
    began = process_time()
    for parser, unit in zip(parsers, units, strict=True):
        for char in (unit * size)[:size]:
            parser.feed(char)
        parser.finish()
    return process_time() - began


@pytest.mark.parametrize("name", formats.names())
def test_a_flood_costs_the_same_however_long_it_is(name: str) -> None:
    cost(name, *FLOODS, "\r\n", size=10)  # what is made once
    check_growth(name, *FLOODS, few=FEW, many=MANY)
    check_growth(name, "\r\n", few=BLANK // 20, many=BLANK)


def check_growth(name: str, *units: str, few: int, many: int) -> None:
    for _ in range(4):
        before, after = cost(name, *units, size=few), cost(name, *units, size=many)
        if after < 3 * (many / few) * before:
            return
    pytest.fail(f"{few} of each take {before:.4f} s, {many} take {after:.4f} s")


@pytest.mark.parametrize("unit", ["[", "[{", '{"', "[[{"])
def test_auto_opens_no_call_for_each_bracket_of_a_flood(unit: str) -> None:
    cost("auto", "{", unit, size=10)
    ratios = [cost("auto", unit, size=MANY) / cost("auto", "{", size=MANY) for _ in range(3)]
    assert min(ratios) < 3  # a body for each made it seven
