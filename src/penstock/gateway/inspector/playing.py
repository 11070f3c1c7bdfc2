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
from penstock.gateway.config.routes import ModelOptions
from penstock.gateway.inspector import analysis, showing, telling
from penstock.gateway.inspector.complaints import Complaint, remarks_on_complaints
from penstock.gateway.inspector.jobs import look_up
from penstock.gateway.inspector.laws import prove
from penstock.gateway.inspector.recorded import Heard
from penstock.gateway.inspector.remarks import remarks_on
from penstock.gateway.replaying import folded
from penstock.gateway.response import ApiEndpointFormat
from penstock.messages import AssistantMessage
from penstock.tools import Tool, read_tools

MAX_PLAYED: Final = 300_000
"""How many characters may be pasted: what takes a second or two to read, however it looks."""

MAX_TOOLS: Final = 256
"""How many tools a text may be read with: readers that look for tags look for each of them."""

MAX_PIECE: Final = 50_000
"""How many characters are read in one go at most: between two, the work can be given up."""

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
    fenced: Literal["text", "calls"] = "text"
    chunk: int = 0

    @classmethod
    def of(cls, text: str, options: ModelOptions) -> Play:
        """Give what reads *text* as *options* say."""
        return cls(
            text,
            format=options.format,
            arguments=options.arguments,
            reasoning=options.reasoning,
            repair=options.repair,
            trim=options.trim,
            fenced=options.fenced,
        )

    def known_tools(self) -> list[Tool]:
        """Give the tools; those that came as JSON text too."""
        given = (
            _json.decode(self.tools) if isinstance(self.tools, str) and self.tools else self.tools
        )
        if isinstance(given, list) and len(given) > MAX_TOOLS:
            raise UsageError(f"at most {MAX_TOOLS:,} tools are known here, not {len(given):,}")
        return read_tools(given or [])


class Played(Struct, frozen=True):
    """What came of reading a text once."""

    events: list[Event]
    rest: str
    complaints: list[Complaint]

    @property
    def whys(self) -> list[str]:
        """What is wrong with text that was meant to be a call."""
        return [one.why for one in self.complaints]


def played(play: Play, tools: Sequence[Tool], pieces: Iterable[str]) -> Played:
    """Read *pieces* as *play* says; raise `UsageError` for an option that nobody has."""
    complaints: list[Complaint] = []
    numbers = count(1)
    parser = Parser(
        play.format,
        tools,
        arguments=play.arguments,
        reasoning=play.reasoning or None,
        repair=play.repair,
        trim=play.trim,
        fenced=play.fenced,
        on_error=lambda why, segment: complaints.append(Complaint(why, segment.text)),
        ids=lambda: f"call_{next(numbers)}",
    )
    events: list[Event] = []
    for piece in pieces:
        look_up()
        events += parser.feed(piece)
    events += parser.finish(cut=False)
    return Played(events, parser.rest, complaints[:MAX_COMPLAINTS])


def cut(text: str, chunk: int) -> Iterator[str]:
    """Cut *text* into pieces of *chunk* characters, or of more where those would be too many.

    0 is all of it at once, as far as it can be.
    """
    step = min(max(chunk or len(text), -(-len(text) // MAX_PIECES)), MAX_PIECE)
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
    remarks = [
        *remarks_on(whole, reading.coloured.spans),
        *remarks_on_complaints(once.whys, once.complaints, play.text),
    ]
    truncated: showing.Truncated = {}
    shown = analysis.show(reading, remarks, truncated, full=False)
    dialect = ApiEndpointFormat(_CHAT, "chatcmpl-playground", "playground", 0, {})
    return {
        **shown,
        "client": showing.client(telling.written(dialect, _CHAT, whole), truncated),
        "laws": prove(
            play.text,
            once.events,
            once.rest,
            lambda chunk: played(play, tools, cut(play.text, chunk)).events,
        ),
        "complaints": once.whys,
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
    look_up()
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
        "complaints": once.whys,
    }


def _tools_of(play: Play) -> list[Tool]:
    try:
        return play.known_tools()
    except JSONParseError as exc:
        raise UsageError(f"the tools are no JSON: {exc}") from exc


def _check_length(text: str, limit: int) -> None:
    if len(text) > limit:
        raise UsageError(f"a text has at most {limit:,} characters here, not {len(text):,}")
