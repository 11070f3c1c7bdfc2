"""What was parsed out of what: a trace of any parser, for people and for programs.

`Traced` stands for a parser and passes its events on as they are. On the way it writes, by mode:

* ``off``: nothing;
* ``stream``: every chunk that goes in and every event that comes out, as they flow;
* ``parse``: that, and at the end all of the text with the calls in it marked, and the calls as they
  were read.

Lines go to a callable that the caller passes in, so nothing here knows a terminal or a file; a line
that cannot be written is lost, and the stream continues. A program takes the summary as a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Literal, Protocol

from msgspec import Struct, field

from penstock import _json
from penstock.events import Event, ToolCallEnd
from penstock.messages import ToolCall
from penstock.parsing import BrokenCall

MAX_KEPT: Final = 16 * 1024 * 1024
"""How many characters of the text are kept for the summary: as many as a call may have."""

Mode = Literal["off", "stream", "parse"]
"""How much is written."""

Style = Literal["bg", "inverse", "underline", "bold"]
"""How the calls in the text are marked where there are colours."""

_MODES: Final[dict[str, Mode]] = {
    "stream": "stream",
    "1": "stream",
    "true": "stream",
    "yes": "stream",
    "parse": "parse",
    "2": "parse",
}
_STYLES: Final[dict[str, Style]] = {
    "bg": "bg",
    "inverse": "inverse",
    "invert": "inverse",
    "underline": "underline",
    "ul": "underline",
    "bold": "bold",
}
_MARKS: Final[dict[Style, str]] = {"bg": "42;30", "inverse": "7", "underline": "4", "bold": "1"}
_TAG, _RAW, _OUT, _CALLS = "90", "33", "36", "44;37"  # of a terminal: grey, yellow, cyan, on blue


class Settings(Struct, frozen=True):
    """What is to be written, and how."""

    mode: Mode = "off"
    style: Style = "bg"


def settings(environ: Mapping[str, str]) -> Settings:
    """Read the settings from *environ*, a mapping such as the environment.

    `PENSTOCK_DEBUG` and `PENSTOCK_DEBUG_STYLE` count, and where one is unset `DEBUG_PARSER_MW` or
    `DEBUG_PARSER_MW_STYLE`. A mode that nobody knows is ``off``, such a style is ``bg``.
    """
    mode = environ.get("PENSTOCK_DEBUG", environ.get("DEBUG_PARSER_MW", ""))
    style = environ.get("PENSTOCK_DEBUG_STYLE", environ.get("DEBUG_PARSER_MW_STYLE", ""))
    return Settings(
        _MODES.get(mode.strip().lower(), "off"), _STYLES.get(style.strip().lower(), "bg")
    )


class Summary(Struct):
    """What an answer was read as: its text, the pieces of it that are calls, and the calls.

    *notes* say what was not read as a call and looks like one.
    """

    text: str = ""
    segments: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def original_text(self) -> str:
        """The pieces that are calls, with a blank line between them."""
        return "\n\n".join(self.segments)


class AnyParser(Protocol):
    """What reads an answer: `feed` text, then `finish`, which may take how the answer ended."""

    def feed(self, text: str, /) -> list[Event]:
        """Read more text; return the events that it makes certain."""

    @property
    def finish(self) -> Callable[..., list[Event]]:
        """End the answer; return what was held back."""


class Traced:
    """Stands for *parser* and tells what it does; its events and its other names are the parser's.

    *write* takes each line, without its end; with *colour* lines hold escapes of a terminal.
    *call_segments* gives the pieces of a text that are calls: `Format.call_segments`, with the
    tools. With *on_summary* the summary goes there as a value, in any mode, and is not written.
    """

    def __init__(
        self,
        parser: AnyParser,
        settings: Settings,
        write: Callable[[str], object],
        *,
        colour: bool = False,
        call_segments: Callable[[str], list[str]] | None = None,
        on_summary: Callable[[Summary], object] | None = None,
    ) -> None:
        self.summary = Summary()
        """What the answer was read as, when the parser has finished; only where it is wanted."""
        self._parser = parser
        self._write = write
        self._mark = _MARKS[settings.style]
        self._colour = colour
        self._call_segments = call_segments
        self._on_summary = on_summary
        self._streams = settings.mode != "off"
        self._sums_up = settings.mode == "parse" or on_summary is not None
        self._chunks: list[str] = []
        self._refused: list[str] = []  # the texts that are not calls, whatever they look like
        self._room = MAX_KEPT

    def __getattr__(self, name: str) -> Any:
        """Return what the parser has under *name*."""
        if name.startswith("_"):  # Python's own questions, of a copy that has no parser yet too.
            raise AttributeError(name)
        return getattr(self._parser, name)

    def feed(self, text: str) -> list[Event]:
        """Read more text; return the events that it makes certain."""
        with suppress(Exception):  # here and below: a trace that fails must not end the stream
            self._note_chunk(text)
        return self._noted(self._parser.feed(text))

    def finish(self, *how: bool, **named: bool) -> list[Event]:
        """End the answer; return what was held back."""
        events = self._noted(self._parser.finish(*how, **named))
        if self._sums_up:
            with suppress(Exception):
                self._sum_up()
        return events

    def note(self, why: str, segment: BrokenCall) -> None:
        """Take what `on_error` is told: *segment* looks like a call, and why it is not one."""
        named = f"{why} ({segment.tool_name})" if segment.tool_name else why
        if self._sums_up:
            self.summary.notes.append(named)
            self._refused.append(segment.text)
        if self._streams:
            with suppress(Exception):
                self._say("note", _shown(f"{named}: {_json.encode(segment.text).decode()}"), _RAW)

    def _note_chunk(self, text: str) -> None:
        if self._sums_up and self._room:
            self._chunks.append(text[: self._room])
            self._room -= len(self._chunks[-1])
        if self._streams:
            self._say("raw", _shown(_json.encode(text).decode()), _RAW)

    def _noted(self, events: list[Event]) -> list[Event]:
        for event in events:
            if self._sums_up and isinstance(event, ToolCallEnd):
                self.summary.calls.append(event.call)
            if self._streams:
                with suppress(Exception):
                    self._say("out", _shown(_json.encode(event).decode()), _OUT)
        return events

    def _sum_up(self) -> None:
        summary = self.summary
        summary.text = "".join(self._chunks)
        self._chunks.clear()
        if self._call_segments is not None:
            with suppress(Exception):
                found = self._call_segments(summary.text)
                # It reads the text alone, and what is quoted depends on the conversation.
                summary.segments = [one for one in found if one.strip() not in self._refused]
        if self._on_summary is not None:
            self._on_summary(summary)
            return
        self._say("origin", self._highlighted(summary))
        calls = _json.encode([_call(call) for call in summary.calls]).decode()
        self._say("summary", _shown(calls), _CALLS)

    # --- how it looks ---

    def _say(self, tag: str, text: str, code: str = "") -> None:
        self._write(f"{self._painted(f'[penstock:{tag}]', _TAG)} {self._painted(text, code)}")

    def _painted(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour and code and text else text

    def _highlighted(self, summary: Summary) -> str:
        """Return the text with every call in it marked, line by line."""
        parts: list[str] = []
        at = 0
        for segment in summary.segments:
            start = summary.text.find(segment, at)
            if start == -1:  # A format of others may give pieces that are not in the text.
                continue
            parts += [_shown(summary.text[at:start]), self._marked(_shown(segment))]
            at = start + len(segment)
        return "".join([*parts, _shown(summary.text[at:])])

    def _marked(self, segment: str) -> str:
        if not self._colour:
            return f">>>{segment}<<<"
        return "\n".join(self._painted(line, self._mark) for line in segment.split("\n"))


def _call(call: ToolCall) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": call.name, "arguments": call.arguments}
    if not call.complete:
        shown["complete"] = False
    return shown


def _shown(text: str) -> str:
    """Return *text* so that nothing in it steers a terminal; lines stay lines."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else repr(one)[1:-1] for one in text)
