"""The playground: a text that somebody pasted, read in any format, and the laws held to it.

It is read as it would be read in a stream, in pieces of any size, and the laws are held to it. What
every other format would read in it can be seen too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Final, Literal

from msgspec import Struct, structs

from penstock import _json, formats
from penstock.errors import JSONParseError, PenstockError, UsageError
from penstock.events import Done, Event, MessageStart
from penstock.formats import Parser
from penstock.formats.base import end_of, message_of
from penstock.gateway.config.routes import Options
from penstock.gateway.dialects import ApiDialect
from penstock.gateway.inspector import analysis, showing, telling
from penstock.gateway.inspector.laws import prove
from penstock.gateway.inspector.recorded import Heard
from penstock.gateway.inspector.remarks import complaint, remarks_on
from penstock.gateway.replaying import folded
from penstock.messages import AssistantMessage
from penstock.tools import Tool, read_tools

MAX_PLAYED: Final = 1_000_000
"""How many characters may be pasted: what takes about a second to read."""

MAX_PIECES: Final = 200_000
"""Into how many pieces a text is cut at most."""

MAX_COMPARED: Final = 50_000
"""How many characters are read in every format that there is."""

MAX_SHOWN: Final = 2_000
"""How many characters of its text each format shows: sixty of them stand side by side."""

MAX_COMPLAINTS: Final = 50
"""How many complaints are told."""

_CHAT: Final = "openai-chat"


class Play(Struct, frozen=True):
    """What is to be read, and how; *chunk* is how many characters come at a time, 0 is all."""

    text: str
    format: str = "auto"
    tools: Any = None
    arguments: Literal["whole", "live"] = "live"
    reasoning: str | None = None
    repair: bool = False
    trim: bool = False
    chunk: int = 0

    @classmethod
    def of(cls, text: str, options: Options) -> Play:
        """Give what reads *text* as *options* say."""
        return cls(
            text,
            format=options.format,
            arguments=options.arguments,
            reasoning=options.reasoning,
            repair=options.repair,
            trim=options.trim,
        )

    def known_tools(self) -> list[Tool]:
        """Give the tools; those that came as JSON text too."""
        given = (
            _json.decode(self.tools) if isinstance(self.tools, str) and self.tools else self.tools
        )
        return read_tools(given or [])


class Played(Struct, frozen=True):
    """What came of reading a text once."""

    events: list[Event]
    rest: str
    complaints: list[str]


def played(play: Play, tools: Sequence[Tool], pieces: Iterable[str]) -> Played:
    """Read *pieces* as *play* says; raise `UsageError` for an option that nobody has."""
    complaints: list[str] = []
    numbers = count(1)
    parser = Parser(
        play.format,
        tools,
        arguments=play.arguments,
        reasoning=play.reasoning or None,
        repair=play.repair,
        trim=play.trim,
        on_error=lambda why, _: complaints.append(why),
        ids=lambda: f"call_{next(numbers)}",
    )
    events = [event for piece in pieces for event in parser.feed(piece)]
    events += parser.finish(cut=False)
    return Played(events, parser.rest, complaints[:MAX_COMPLAINTS])


def cut(text: str, chunk: int) -> Iterator[str]:
    """Cut *text* into pieces of *chunk* characters, or of more where those would be too many."""
    step = max(chunk, -(-len(text) // MAX_PIECES)) if chunk else len(text)
    for at in range(0, len(text), max(1, step)):
        yield text[at : at + step]


def parse(play: Play) -> dict[str, Any]:
    """Give the analysis of a pasted text, and the laws; raise `UsageError` for what cannot be."""
    _check_length(play.text, MAX_PLAYED)
    tools = _tools_of(play)
    pieces = [*cut(play.text, max(0, play.chunk))]
    once = played(play, tools, pieces)
    whole = answer_of(once, "playground")
    reread = analysis.rereader(play.format, tools, play.repair)
    reading = analysis.read(whole, Heard([*enumerate(pieces)]), reread)
    remarks = [*remarks_on(whole, reading.coloured.spans), *map(complaint, once.complaints)]
    truncated: showing.Truncated = {}
    shown = analysis.show(reading, remarks, truncated, full=False)
    dialect = ApiDialect(_CHAT, "chatcmpl-playground", "playground", 0, {})
    return {
        **shown,
        "client": showing.client(telling.written(dialect, _CHAT, whole), truncated),
        "laws": prove(
            play.text,
            once.events,
            once.rest,
            lambda chunk: played(play, tools, cut(play.text, chunk)).events,
        ),
        "complaints": once.complaints,
        "truncated": truncated,
    }


def answer_of(once: Played, name: str = "") -> list[Event]:
    """Give the blocks that were read as a whole answer, with a beginning and an end."""
    message = _message(once)
    message.id = message.model = name
    end = Done(end_of(message, "stop"), message, once.rest)
    return [MessageStart(name, name), *once.events, end]


def _message(once: Played) -> AssistantMessage:
    """Fold what was read into a message; what breaks the laws makes none."""
    try:
        return message_of(once.events)
    except UsageError:
        return AssistantMessage()


# --- every format ---


def compare(text: str, tools: Any) -> dict[str, Any]:
    """Say what each format reads in *text*, and which of them it is taken for."""
    _check_length(text, MAX_COMPARED)
    play = Play(text, tools=tools, arguments="whole")
    known = _tools_of(play)
    found = formats.detect(text, known)
    each = [_read_as(structs.replace(play, format=name), known) for name in formats.names()]
    return {"detected": None if found is None else found.name, "formats": each}


def _read_as(play: Play, tools: Sequence[Tool]) -> dict[str, Any]:
    try:
        once = played(play, tools, [play.text])
        message = folded(once.events)
    except PenstockError as exc:
        return {"format": play.format, "calls": [], "text": "", "complaints": [str(exc)]}
    return {
        "format": play.format,
        "calls": message.tool_calls,
        "text": message.text[:MAX_SHOWN],
        "thinking": message.thinking[:MAX_SHOWN],
        "complaints": once.complaints,
    }


def _tools_of(play: Play) -> list[Tool]:
    try:
        return play.known_tools()
    except JSONParseError as exc:
        raise UsageError(f"the tools are no JSON: {exc}") from exc


def _check_length(text: str, limit: int) -> None:
    if len(text) > limit:
        raise UsageError(f"a text has at most {limit:,} characters here, not {len(text):,}")
