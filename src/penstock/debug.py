"""A trace of any parser: which text became which events, for people and for programs.

`Traced` wraps a parser and returns its events unchanged. Depending on the mode it writes:

* ``off``: nothing;
* ``stream``: every chunk and every event, as they pass;
* ``parse``: the same, and at the end the whole text with its calls marked, and the parsed calls.

Lines go to a callable of the caller, so this module knows neither a terminal nor a file. A line
that cannot be written is lost, and the stream continues. A program gets the summary as a value.
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
"""How calls in the text are marked with colours."""

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
_HARMLESS: Final = "\u00a0\u3000\u200c\u200d"  # spaces and joiners that `isprintable` rejects
_TAG, _RAW, _OUT, _CALLS = "90", "33", "36", "44;37"  # grey, yellow, cyan, on blue


class DebugSettings(Struct, frozen=True):
    """What is written, and how."""

    mode: Mode = "off"
    style: Style = "bg"


def settings(environ: Mapping[str, str]) -> DebugSettings:
    """Read the settings from *environ*, a mapping such as the environment.

    The variables are `PENSTOCK_DEBUG` and `PENSTOCK_DEBUG_STYLE`, or if unset `DEBUG_PARSER_MW` and
    `DEBUG_PARSER_MW_STYLE`. An unknown mode is ``off``, an unknown style ``bg``.
    """
    mode = environ.get("PENSTOCK_DEBUG", environ.get("DEBUG_PARSER_MW", ""))
    style = environ.get("PENSTOCK_DEBUG_STYLE", environ.get("DEBUG_PARSER_MW_STYLE", ""))
    return DebugSettings(
        _MODES.get(mode.strip().lower(), "off"), _STYLES.get(style.strip().lower(), "bg")
    )


class Summary(Struct):
    """What a response was parsed as: its text, the pieces of it that are calls, and the calls.

    *notes* lists text that looks like a call and is not one.
    """

    text: str = ""
    segments: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def original_text(self) -> str:
        """The pieces that are calls, separated by blank lines."""
        return "\n\n".join(self.segments)


class AnyParser(Protocol):
    """A parser: `feed` text, then `finish`, which may take how the response ended."""

    def feed(self, text: str, /) -> list[Event]:
        """Add text; return the events that it makes certain."""

    @property
    def finish(self) -> Callable[..., list[Event]]:
        """End the response; return what was held."""


class Traced:
    """Wraps *parser* and writes what it does; other attributes are those of the parser.

    *write* is called with each line, without its end; with *colour*, lines contain ANSI escapes.
    *call_segments* returns the pieces of a text that are calls: `Format.call_segments` with the
    tools. With *on_summary*, the summary is passed to it in any mode and not written.
    """

    def __init__(
        self,
        parser: AnyParser,
        settings: DebugSettings,
        write: Callable[[str], object],
        *,
        colour: bool = False,
        call_segments: Callable[[str], list[str]] | None = None,
        on_summary: Callable[[Summary], object] | None = None,
    ) -> None:
        self.summary = Summary()
        """What the response was parsed as, after `finish`, if a summary is wanted."""
        self._parser = parser
        self._write = write
        self._mark = _MARKS[settings.style]
        self._colour = colour
        self._call_segments = call_segments
        self._on_summary = on_summary
        self._streams = settings.mode != "off"
        self._sums_up = settings.mode == "parse" or on_summary is not None
        self._chunks: list[str] = []
        self._rejected: list[str] = []  # texts that look like calls and are not
        self._room = MAX_KEPT

    def __getattr__(self, name: str) -> Any:
        """Return the attribute *name* of the parser."""
        if name.startswith("_"):  # `copy` asks for these before there is a parser.
            raise AttributeError(name)
        return getattr(self._parser, name)

    def feed(self, text: str) -> list[Event]:
        """Add text; return the events that it makes certain."""
        with suppress(Exception):  # A trace that fails must not end the stream.
            self._note_chunk(text)
        return self.trace_events(self._parser.feed(text))

    def finish(self, *how: bool, **named: bool) -> list[Event]:
        """End the response; return what was held."""
        events = self.trace_events(self._parser.finish(*how, **named))
        if self._sums_up:
            with suppress(Exception):
                self._sum_up()
        return events

    def note(self, why: str, segment: BrokenCall) -> None:
        """Note that *segment* looks like a call and why it is not one: an `on_error` callback."""
        named = f"{why} ({segment.tool_name})" if segment.tool_name else why
        if self._sums_up:
            self.summary.notes.append(named)
            self._rejected.append(segment.text)
        if self._streams:
            with suppress(Exception):
                text = _json.encode(segment.text).decode()
                self._write_line("note", escape_controls(f"{named}: {text}"), _RAW)

    def _note_chunk(self, text: str) -> None:
        if self._sums_up and self._room:
            self._chunks.append(text[: self._room])
            self._room -= len(self._chunks[-1])
        if self._streams:
            self._write_line("raw", escape_controls(_json.encode(text).decode()), _RAW)

    def trace_events(self, events: list[Event]) -> list[Event]:
        """Write *events* and add their calls to the summary; return them."""
        for event in events:
            if self._sums_up and isinstance(event, ToolCallEnd):
                self.summary.calls.append(event.call)
            if self._streams:
                with suppress(Exception):
                    self._write_line("out", escape_controls(_json.encode(event).decode()), _OUT)
        return events

    def _sum_up(self) -> None:
        summary = self.summary
        summary.text = "".join(self._chunks)
        self._chunks.clear()
        if self._call_segments is not None:
            with suppress(Exception):
                found = self._call_segments(summary.text)
                # It reads the text alone, while what is quoted depends on the conversation.
                summary.segments = [one for one in found if one.strip() not in self._rejected]
        if self._on_summary is not None:
            self._on_summary(summary)
            return
        self._write_line("origin", self._highlighted(summary))
        calls = _json.encode([_call(call) for call in summary.calls]).decode()
        self._write_line("summary", escape_controls(calls, "\n"), _CALLS)

    # --- output ---

    def _write_line(self, tag: str, text: str, code: str = "") -> None:
        self._write(f"{self._painted(f'[penstock:{tag}]', _TAG)} {self._painted(text, code)}")

    def _painted(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour and code and text else text

    def _highlighted(self, summary: Summary) -> str:
        """Return the text with every call in it marked, line by line."""
        parts: list[str] = []
        at = 0
        for segment in summary.segments:
            start = summary.text.find(segment, at)
            if start == -1:  # A third-party format may return other text.
                continue
            before = escape_controls(summary.text[at:start], "\n")
            parts += [before, self._marked(escape_controls(segment, "\n"))]
            at = start + len(segment)
        return "".join([*parts, escape_controls(summary.text[at:], "\n")])

    def _marked(self, segment: str) -> str:
        if not self._colour:
            return f">>>{segment}<<<"
        return "\n".join(self._painted(line, self._mark) for line in segment.split("\n"))


def _call(call: ToolCall) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": call.name, "arguments": call.arguments}
    if not call.complete:
        fields["complete"] = False
    return fields


def escape_controls(text: str, keep: str = "") -> str:
    """Return *text* with every character that could control a terminal as a visible escape.

    Models and tools are not trusted: their text may contain escape sequences, or characters that
    change the direction of writing. Characters in *keep*, such as line ends, stay as they are.
    """
    if text.isprintable():
        return text
    keep = _HARMLESS + keep
    return "".join(one if one.isprintable() or one in keep else repr(one)[1:-1] for one in text)
