"""Calls as elements in hostile text: time grows with the text, and what is held has a bound."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from laws import check_linear, check_readings, cut_at
from laws.checks import read
from parsing.element_samples import MODES, Mode, parser
from penstock.parsing import Engine
from penstock.readers.elements import ElementCalls
from penstock.readers.walker import MAX_TAG
from penstock.tools import Tool

HOSTILE = {
    "a string": lambda size: "<write><content>" + "plain words " * size,
    "look-alikes of the closing tag": lambda size: "<write><content>" + "</content>x " * size,
    "closing tags that are never decided": lambda size: "<write><content>" + "</content>" * size,
    "own tags in a string": lambda size: "<write><content>" + "<content a='" * size,
    "nothing but first characters": lambda size: "<write><content>" + "<" * 10 * size,
    "first characters between tags": lambda size: "<write>" + "<" * 10 * size,
    "first characters as text": lambda size: "<" * 10 * size,
    "a tag without an end": lambda size: "<write><a b='" + "x" * 10 * size,
    "white space behind a closing tag": lambda size: "<write><path>a</path>" + " " * 10 * size,
    "comments behind a closing tag": lambda size: "<write><path>a</path>" + "<!-- -->" * size,
    "white space in an end tag": lambda size: "<write></b></write" + " " * 10 * size,
    "end tags of the call in a string": lambda size: "<write><content>" + "</write> " * size,
    "white space behind such a tag": lambda size: "<write><path></write>" + " " * 10 * size,
    "a declaration without an end": lambda size: "<write>" + "<?x " * size + "<!x" + " " * size,
    "entities": lambda size: "<write><content>" + "&amp;" * 3 * size,
    "ampersands": lambda size: "<write><content>" + "&" * 10 * size,
    "JSON": lambda size: '<write><meta>{"a": [' + '"\\n</meta>", ' * size,
    "a comment": lambda size: "<write><!--" + "-" * 10 * size,
    "nested elements": lambda size: "<write>" + "<a>" * size + "</write>",
    "many children": lambda size: "<write>" + "<mode>1</mode>" * size + "</write>",
    "many calls": lambda size: "<write><path>a</path></write>" * size,
    "many broken calls": lambda size: "<write></b></write>" * size,
    "calls that never end": lambda size: "<write><path>" * size,
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("mode", MODES)
def test_time_grows_with_the_text_and_no_faster(make: Any, mode: Mode) -> None:
    def run(size: int) -> None:
        text = make(size)
        read(parser(mode), [text[at : at + 64] for at in range(0, len(text), 64)])

    check_linear(run, 250, 2500, at_most=3, tries=2)


def test_forty_names_cost_about_as_much_as_one() -> None:
    text = "<p>if (a < b) { return vector<int>{1, 2}; }</p> <div class='x'>{ }</div> " * 50

    def run(size: int) -> None:
        tools = [Tool(f"tool_{number}") for number in range(size)]
        reader = Engine(ElementCalls.of(tools), tools)
        for _ in range(40):
            for at in range(0, len(text), 4):
                reader.feed(text[at : at + 4])

    check_linear(run, 1, 40, at_most=2 / 40, tries=3)


def test_what_is_not_decided_within_the_limit_is_text_at_any_cut() -> None:
    for size in (MAX_TAG - 20, MAX_TAG, MAX_TAG + 20):
        text = "<write><path>a</path>" + " " * size + "</write> on"
        for mode in MODES:
            make = partial(parser, mode)
            places = (1, 20, 21, 22, 30, MAX_TAG, MAX_TAG + 13, size + 20, size + 25)
            ways = [cut_at(text, cuts) for at in places for cuts in ([at], [at, at + 7])]
            check_readings(make, text, ways)
