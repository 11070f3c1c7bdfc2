"""Floods of what may begin a marker cost every format the same per character."""

from __future__ import annotations

from time import process_time

import pytest

from laws import check_linear
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


def flood(format_: str, *units: str, size: int) -> float:
    """Read *size* characters of each of *units*; return the seconds it took."""
    parsers = [Parser(format_, TOOLS, trim=True, repair=True, arguments="live") for _ in units]
    began = process_time()
    for parser, unit in zip(parsers, units, strict=True):
        for char in (unit * size)[:size]:
            parser.feed(char)
        parser.finish()
    return process_time() - began


@pytest.mark.parametrize("name", formats.names())
def test_a_flood_costs_the_same_however_long_it_is(name: str) -> None:
    flood(name, *FLOODS, "\r\n", size=10)  # Build the tables that are built once.
    check_linear(lambda size: flood(name, *FLOODS, size=size), FEW, MANY, at_most=3)
    check_linear(lambda size: flood(name, "\r\n", size=size), BLANK // 20, BLANK, at_most=3)


@pytest.mark.parametrize("unit", ["[", "[{", '{"', "[[{"])
def test_auto_opens_no_call_for_each_bracket_of_a_flood(unit: str) -> None:
    flood("auto", "{", unit, size=10)
    ratios = [flood("auto", unit, size=MANY) / flood("auto", "{", size=MANY) for _ in range(3)]
    assert min(ratios) < 3  # a body for each made it seven
