"""The laws over calls with raw values: any text, at any cut, of any size."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from laws import check_linear, check_readings, cut_at, effort, one_by_one
from laws.checks import read
from laws.strategies import CUTS, soup
from parsing.parameter_samples import (
    DISTINCT,
    FORMATS,
    MODES,
    TOOLS,
    Mode,
    closed,
    dialect_of,
    opened,
    parameter,
    parse,
    written,
)
from parsing.samples import complete_calls
from penstock.readers.tagged.tags import MAX_GAP

EVERY = pytest.mark.parametrize("name", DISTINCT)


@cache
def texts(name: str) -> SearchStrategy[str]:
    """Texts that are nearly calls."""
    dialect = dialect_of(name)
    prefix = dialect.spelling.prefix
    keys = ["path", "mode", "note", "tags", "input", "other"]
    ends = {dialect.parameter_end.replace("KEY", key) for key in keys[:2]}
    tags = [dialect.call_end, dialect.section, dialect.section_end, dialect.value, *ends]
    pieces = soup(
        *(prefix + tag for tag in tags if tag),
        *(parameter(name, key) for key in keys),
        *("\n" + parameter(name, key) for key in keys),
        *(parameter(name, "path", "a"), opened(name), opened(name, "ping"), written(name)),
        *dialect.starts,
        *(*dialect.lead, *dialect.trail, "<![CDATA[", "]]>", "\\n", '{"path": "x"}', "5", "null"),
        *(" " * MAX_GAP, "<|im_end|>", "</s>", ":x>", "/>", " string='true'>"),
    )
    return st.one_of(pieces, pieces.map(lambda text: opened(name) + parameter(name, "path") + text))


@EVERY
@settings(max_examples=effort.examples(60))
@given(
    data=st.data(), cuts=CUTS, mode=st.sampled_from(MODES), trim=st.booleans(), repair=st.booleans()
)
def test_the_laws_hold_on_any_text_at_any_cut(
    name: str,
    data: st.DataObject,
    cuts: list[int],
    mode: Mode,
    trim: bool,  # noqa: FBT001
    repair: bool,  # noqa: FBT001
) -> None:
    text = data.draw(texts(name))
    make = partial(FORMATS[name].parser, TOOLS, arguments=mode, trim=trim, repair=repair)
    check_readings(make, text, [cut_at(text, cuts), one_by_one(text)])


@EVERY
@settings(max_examples=effort.examples(30))
@given(data=st.data())
def test_a_complete_call_is_the_same_in_both_modes(name: str, data: st.DataObject) -> None:
    text = data.draw(texts(name))
    whole, live = (parse(name, text, arguments=mode) for mode in MODES)
    if all(call.complete for call in live.tool_calls):
        assert complete_calls(whole) == complete_calls(live)


def end_of(name: str) -> str:
    return parameter(name, "path", "").removeprefix(parameter(name, "path"))


def head_of(name: str, key: str = "path") -> str:
    return opened(name) + parameter(name, key)


HOSTILE: dict[str, Callable[[str, int], str]] = {
    "an open text": lambda name, size: head_of(name) + "x " * 5 * size,
    "a text of first characters": lambda name, size: head_of(name) + "<" * 10 * size,
    "a text of newlines": lambda name, size: head_of(name) + "\n" * 10 * size,
    "a text that does not stream": lambda name, size: head_of(name, "mode") + "x<" * 5 * size,
    "a text of its own ends": lambda name, size: head_of(name) + end_of(name) * size,
    "ends and white space": lambda name, size: head_of(name) + (end_of(name) + " " * 99) * size,
    "ends and half a tag": lambda name, size: (
        head_of(name) + (end_of(name) + '<parameter name="') * size
    ),
    "ends and a last end": lambda name, size: head_of(name) + (end_of(name) + "</s>") * size,
    "many parameters": lambda name, size: opened(name) + parameter(name, "path", "a") * size,
    "many openings": lambda name, size: opened(name) + ("\n" + parameter(name, "path")) * size,
    "white space": lambda name, size: opened(name) + " " * 10 * size,
    "many calls": lambda name, size: written(name, tool="ping") * size,
    "many broken calls": lambda name, size: (opened(name) + "}" + closed(name)) * size,
    "many markers": lambda name, size: dialect_of(name).starts[-1] * size,
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("name", ["qwen3_coder", "glm45", "deepseek_v32", "minimax_m3"])
@pytest.mark.parametrize(("mode", "chunk"), [("live", 64), ("whole", 1 << 30)])
def test_time_grows_with_the_text_and_no_faster(
    name: str, make: Callable[[str, int], str], mode: Mode, chunk: int
) -> None:
    def run(size: int) -> None:
        text = make(name, size)
        chunks = [text[at : at + chunk] for at in range(0, len(text), chunk)]
        read(FORMATS[name].parser(TOOLS, arguments=mode), chunks)

    check_linear(run, 40, 400, at_most=4, tries=2)


def test_a_list_of_many_values_is_written_once() -> None:
    text = opened("minimax_m3") + parameter("minimax_m3", "tags", "a") * 2000 + closed("minimax_m3")
    (call,) = complete_calls(parse("minimax_m3", text))
    assert call[1]["tags"] == ["a"] * 2000
