"""Texts that call nothing: documentation, code, JSON, Markdown, logs and chat come out unchanged.

The texts stand in `harmless/`, one file for each kind, each text under a line ``=== what it is``.
Many of them talk about calls, name the tools below, or end in half a marker. For `auto` all of them
are text, whatever the options and the cut. Some kinds hold whole calls that only `auto` has to
leave alone: those in fences and of tools that nobody has (`quoted_calls`), those that diffs, code
and sentences show (`shown_calls`), and JSON with the name of a tool in it (`tool_objects`), which
some formats take as a call wherever it stands. All texts
are read with tools whose names are common words, too (`run`, `read`, `list`), in every format.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from laws import cut_at, effort, one_by_one
from penstock.events import Event, TextDelta, TextEnd, TextStart, ToolCallStart
from penstock.formats import Format
from penstock.formats.registry import BUILT_IN
from penstock.parsing import Arguments
from penstock.tools import Tool

CORPUS: Final = Path(__file__).parent / "harmless"
FEWEST: Final = 500
MODES: Final[tuple[Arguments, ...]] = ("whole", "live")


def read_corpus(kind: str) -> dict[str, str]:
    """Give the texts of one *kind* by what they are; the newline before the next is not theirs."""
    file = CORPUS / f"{kind}.txt"
    _, *parts = re.split(r"(?m)^=== (.+)\n", file.read_text("utf-8"))
    texts = dict(zip(parts[::2], parts[1::2], strict=True))
    assert len(texts) == len(parts) / 2, "two texts have the same name"
    return {name: text.removesuffix("\n") for name, text in texts.items()}


KINDS = {path.stem: read_corpus(path.stem) for path in sorted(CORPUS.glob("*.txt"))}
WITH_CALLS = ("quoted_calls", "shown_calls", "tool_objects", "common_names_in_calls")
EVERY_TEXT = [
    pytest.param(text, id=f"{kind}: {name}")
    for kind, texts in KINDS.items()
    for name, text in texts.items()
]
FORMATS = {fmt.name: fmt for fmt in BUILT_IN}

TEXT: dict[str, Any] = {"type": "string"}
UNIT: dict[str, Any] = {"type": "string", "enum": ["celsius", "fahrenheit"]}


def tool(name: str, *required: str, **properties: dict[str, Any]) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return Tool(name, parameters=schema)


TOOLS = [
    tool("write_file", "path", "content", path=TEXT, content=TEXT),
    tool("get_weather", "city", city=TEXT, unit=UNIT),
    tool("search", "query", query=TEXT),
    tool("run_bash", "command", command=TEXT),
    tool("ping"),
]


COMMON = [
    tool("run", "command", command=TEXT),
    tool("search", "query", query=TEXT),
    tool("read", "path", path=TEXT),
    tool("write", "text", text=TEXT),
    tool("write_file", "path", "content", path=TEXT, content=TEXT),
    tool("edit", "path", path=TEXT, old=TEXT, new=TEXT),
    tool("open", "file", file=TEXT),
    tool("get", key=TEXT),
    tool("code", "code", code=TEXT),
    tool("data", id=TEXT),
    tool("answer", text=TEXT),
    tool("list"),
    tool("test"),
]
"""Tools whose names are words of prose, elements of HTML and functions of programs."""


def read(
    fmt: Format,
    chunks: list[str],
    *,
    cut: bool = False,
    tools: list[Tool] = TOOLS,
    **options: Any,
) -> list[Event]:
    parser = fmt.parser(tools, **options)
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return events + parser.finish(cut=cut)


def ways_to_cut(text: str) -> list[list[str]]:
    """Give *text* whole, by characters, and cut at random, the same every time."""
    random = Random(len(text))
    cuts = [[random.randint(0, len(text)) for _ in range(number)] for number in (1, 3, 9)]
    return [[text], one_by_one(text), *(cut_at(text, places) for places in cuts)]


def assert_only_text(events: list[Event], text: str) -> None:
    assert all(isinstance(event, TextStart | TextDelta | TextEnd) for event in events)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(EVERY_TEXT) >= FEWEST
    assert set(WITH_CALLS) < set(KINDS)


@pytest.mark.parametrize("text", EVERY_TEXT)
def test_auto_leaves_it_as_it_is(text: str) -> None:
    options = list(product(MODES, (False, True), (False, True)))
    for number, chunks in enumerate(ways_to_cut(text)):
        # The whole text is read with all options, a cut one with two that share no value.
        turn = (len(text) + number) % 4
        some = options if not number or effort.exhaustive else (options[turn], options[7 - turn])
        for mode, repair, cut in some:
            events = read(FORMATS["auto"], chunks, arguments=mode, repair=repair, cut=cut)
            assert_only_text(events, text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", MODES)
def test_auto_leaves_it_as_it_is_with_tools_that_are_common_words(
    kind: str, mode: Arguments
) -> None:
    for text in KINDS[kind].values():
        for chunks in ways_to_cut(text):
            events = read(FORMATS["auto"], chunks, tools=COMMON, arguments=mode, repair=True)
            assert_only_text(events, text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", MODES)
def test_auto_leaves_it_as_it_is_with_other_line_ends(kind: str, mode: Arguments) -> None:
    for text in KINDS[kind].values():
        windows = text.replace("\n", "\r\n")
        assert_only_text(read(FORMATS["auto"], [windows], arguments=mode, repair=True), windows)


@pytest.mark.parametrize("text", KINDS["tool_objects"].values(), ids=KINDS["tool_objects"])
def test_bare_json_leaves_objects_with_the_names_of_tools_as_they_are(text: str) -> None:
    for chunks in ways_to_cut(text):
        for mode, repair in product(MODES, (False, True)):
            events = read(FORMATS["bare_json"], chunks, arguments=mode, repair=repair)
            assert_only_text(events, text)


LAWFUL: Final = {
    # All that follows the token is code, whatever it says.
    ("functionary_v3_1", "the python tag"),
}
"""Texts that are lawful calls of a format after all."""


@pytest.mark.parametrize("tools", [TOOLS, COMMON], ids=["own tools", "common words"])
@pytest.mark.parametrize("fmt", BUILT_IN, ids=lambda fmt: fmt.name)
def test_no_format_finds_a_call_in_it(fmt: Format, tools: list[Tool]) -> None:
    found = {
        (fmt.name, name)
        for kind in KINDS.keys() - set(WITH_CALLS)
        for name, text in KINDS[kind].items()
        if has_call(fmt, text, tools)
    }
    assert found == {known for known in LAWFUL if known[0] == fmt.name}


def has_call(fmt: Format, text: str, tools: list[Tool] = TOOLS) -> bool:
    """Return whether a call begins in *text*: where much is repaired, or where it is early."""
    mended = read(fmt, [text], tools=tools, repair=True)
    shown = read(fmt, [text], tools=tools, arguments="live")
    return any(isinstance(event, ToolCallStart) for event in (*mended, *shown))


IN_CODE: Final = [
    name
    for name in KINDS["quoted_calls"]
    if re.search(r"\b(fence|fences|inline code|quotation)\b", name)
    and name != "a call in inline code that began on the line before"
]
UNMARKED: Final = {"json_tool", "json_tool_openai", "json_tool_gemini", "bare_json", "xlam"}
"""Formats whose calls begin with a bracket, or with a fence."""


@pytest.mark.parametrize(
    "fmt", [fmt for fmt in BUILT_IN if fmt.name not in UNMARKED], ids=lambda fmt: fmt.name
)
def test_no_marked_format_finds_a_call_in_code(fmt: Format) -> None:
    assert len(IN_CODE) > 10
    for name in IN_CODE:
        assert not has_call(fmt, KINDS["quoted_calls"][name]), name
