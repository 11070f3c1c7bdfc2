"""Law 11: what becomes of a call whose text was damaged.

A format renders calls whose values are plain words, so every other character of the text is its
markup. `damages` breaks the text in every single place and way that models are known to break it;
`outcome` compares what a parser made of it with what was meant. A complete call that holds markup,
or a word of a sentence that stood between two tags, is *corrupted*: the one outcome that law 11
forbids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from random import Random
from typing import Any, Final, Literal, NamedTuple

from penstock import Parser
from penstock.errors import UsageError
from penstock.events import Event, ToolCallEnd
from penstock.formats import Format
from penstock.messages import ToolCall
from penstock.parsing import Arguments
from penstock.tools import Tool

Way = Literal[
    "missing", "doubled", "words", "turn end", "ended", "forgotten", "two at once", "closed early"
]
"""How a text is damaged; see `damages`."""

Outcome = Literal["exact", "partial", "none", "altered", "corrupted"]
"""What a reading made of damaged text; see `outcome`."""

FOREIGN: Final = "I should wait here."
"""A sentence that a model puts between two tags; none of its words is a value."""

TURN_END: Final = "<|im_end|>"

_TEXT: Final[dict[str, Any]] = {"type": "string"}
_TAGS: Final[dict[str, Any]] = {"type": "array", "items": _TEXT}
TOOLS: Final = [
    Tool(
        "write_file",
        "Write a file",
        {
            "type": "object",
            "properties": {
                "path": _TEXT,
                "content": _TEXT,
                "tags": _TAGS,
                "mode": {"type": "integer"},
            },
            "required": ["path", "content"],
        },
    ),
    Tool(
        "get_weather",
        "Get the weather",
        {
            "type": "object",
            "properties": {"city": _TEXT, "days": {"type": "integer"}},
            "required": ["city"],
        },
    ),
    Tool("ping", "Check that the service answers", {"type": "object", "properties": {}}),
]

_WRITE: Final = ToolCall(
    "c1",
    "write_file",
    {"path": "alpha", "content": "bravo charlie", "tags": ["delta", "echo"], "mode": 7},
)
_WEATHER: Final = ToolCall("c2", "get_weather", {"city": "Oslo", "days": 3})
_SHORT: Final = ToolCall("c3", "write_file", {"path": "alpha", "content": "bravo charlie"})
_PING: Final = ToolCall("c4", "ping", {})
RESPONSES: Final = ((_WRITE,), (_SHORT,), (_WEATHER, _SHORT), (_PING, _WEATHER))
"""The calls of each response that is rendered and damaged."""

_PIECE: Final = re.compile(
    r"""
      (?P<markup>
          (?:\]<\]minimax\[>\[)?<[^<>\n]*>  # a tag, or a special token
        | \[\[SEG_(?:START|END)             # of sentinel
        | \[[A-Z_]+\]                       # a special token of Mistral
        | ```\w*
        | \\n
        | [^\w\s]
      )
    | (?P<words> \w+ (?:\s+\w+)* )
    | \s+
    """,
    re.VERBOSE,
)


class Setting(NamedTuple):
    """How a damaged text is read; *reader* is a name of a format, empty for the text's own."""

    name: str
    arguments: Arguments
    repair: bool
    reader: str = ""


SETTINGS: Final = (
    Setting("whole", "whole", repair=False),
    Setting("live", "live", repair=False),
    Setting("whole, repair", "whole", repair=True),
    Setting("live, repair", "live", repair=True),
    Setting("auto, whole", "whole", repair=False, reader="auto"),
    Setting("auto, live", "live", repair=False, reader="auto"),
    Setting("auto, whole, repair", "whole", repair=True, reader="auto"),
    Setting("auto, live, repair", "live", repair=True, reader="auto"),
)
"""All that law 11 has to hold in; the last one is the gateway's."""


class Damaged(NamedTuple):
    """A damaged text, the calls that were meant, and what was done to it."""

    text: str
    calls: tuple[ToolCall, ...]
    way: Way
    place: int


class Piece(NamedTuple):
    """A piece of a rendered call, without the white space that follows it."""

    start: int
    end: int
    is_markup: bool


def damaged_texts(fmt: Format) -> list[Damaged]:
    """Return every damaged text of *fmt*, in an order that does not change."""
    found = []
    for calls in RESPONSES:
        try:
            text = fmt.render_calls(calls)
        except UsageError:  # The format cannot express the call, or not several at once.
            continue
        found += [Damaged(broken, calls, way, place) for broken, way, place in damages(text)]
    return found


def twice_damaged(fmt: Format, number: int, seed: int = 7) -> list[Damaged]:
    """Return *number* texts of *fmt* with two damages each."""
    random = Random(f"{fmt.name} {seed}")
    once = [each for each in damaged_texts(fmt) if each.way != "ended"]
    found: list[Damaged] = []
    while once and len(found) < number:
        first = random.choice(once)
        again = [each for each in damages(first.text) if FOREIGN not in first.text]
        if again:
            second = random.choice(again)
            found.append(Damaged(second[0], first.calls, "two at once", second[2]))
    return found


def damages(text: str) -> Iterator[tuple[str, Way, int]]:
    """Yield *text* with one damage, the way and the place of it.

    A piece of markup is missing or doubled; words, or a token that ends the turn, are between two
    pieces of markup; the turn ends after any piece; all that follows the last value, or the end of
    it, is forgotten.
    """
    pieces = pieces_of(text)
    for piece in pieces:
        if piece.is_markup:
            yield text[: piece.start] + text[piece.end :], "missing", piece.start
            yield text[: piece.end] + text[piece.start :], "doubled", piece.start
    for before, after in pairwise(pieces):
        if before.is_markup and after.is_markup:
            at = before.end
            lead = "\n" if text[at : after.start].startswith("\n") else ""
            yield text[:at] + lead + FOREIGN + (lead or " ") + text[at:].lstrip("\n"), "words", at
            yield text[:at] + TURN_END + text[at:], "turn end", at
    for piece in pieces[1:]:
        yield text[: piece.end] + TURN_END, "ended", piece.end
    last = max((n for n, piece in enumerate(pieces) if not piece.is_markup), default=0)
    for piece in pieces[last:-1]:
        yield text[: piece.end], "forgotten", piece.end


def closed_early(fmt: Format) -> Iterator[Damaged]:
    """Yield the texts of *fmt* with brackets that close an object or a list before a comma."""
    for calls in RESPONSES:
        try:
            text = fmt.render_calls(calls)
        except UsageError:
            continue
        for comma in re.finditer(",", text):
            for closed in ("}", "]", "}}", " }\n"):
                broken = text[: comma.start()] + closed + text[comma.start() :]
                yield Damaged(broken, calls, "closed early", comma.start())


def pieces_of(text: str) -> list[Piece]:
    """Return the tags, brackets, quotes and words that *text* is made of."""
    return [
        Piece(found.start(), found.end(), is_markup=found["markup"] is not None)
        for found in _PIECE.finditer(text)
        if found["markup"] is not None or found["words"] is not None
    ]


def read_damaged(fmt: Format, text: str, setting: Setting) -> list[ToolCall]:
    """Return the calls that are read out of *text*, complete or not; the response ended."""
    parser = Parser(
        setting.reader or fmt,
        TOOLS,
        arguments=setting.arguments,
        repair=setting.repair,
        trim=setting.arguments == "live",
    )
    events: Iterable[Event] = (*parser.feed(text), *parser.finish(cut=False))
    return [event.call for event in events if isinstance(event, ToolCallEnd)]


def outcome(calls: list[ToolCall], meant: tuple[ToolCall, ...]) -> Outcome:
    """Return what became of the calls that were *meant*.

    ``exact``: these calls and no other. ``partial``: some of them. ``none``: no complete call.
    ``altered``: a complete call with arguments that were not meant, all of them values that the
    model wrote. ``corrupted``: a complete call with markup or foreign words in it.
    """
    complete = [call for call in calls if call.complete]
    if any(is_corrupted(call) for call in complete):
        return "corrupted"
    wanted = [(call.name, call.arguments) for call in meant]
    found = [(call.name, call.arguments) for call in complete]
    if found == wanted:
        return "exact" if len(calls) == len(complete) else "partial"
    if any(each not in wanted for each in found):
        return "altered"
    return "partial" if found else "none"


def is_corrupted(call: ToolCall) -> bool:
    """Return whether *call* holds what is neither a name nor a value of the rendered calls."""
    return any(map(_is_foreign, _strings((call.name, call.arguments))))


_FOREIGN_WORD: Final = re.compile(r"[^\w\s]|\b(?:should|wait|here|im_end)\b")


def _is_foreign(text: str) -> bool:
    return _FOREIGN_WORD.search(text) is not None


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _strings(key)
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)
