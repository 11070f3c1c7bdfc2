"""``penstock parse``: what a model wrote in, events out, as they come."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

import msgspec
import typer
from rich.console import Console

from penstock import _json, apis, debug, formats
from penstock.builder import MessageBuilder
from penstock.cli.formats import example
from penstock.cli.output import refuse, say
from penstock.errors import PenstockError
from penstock.events import Done, Event
from penstock.formats import Parser
from penstock.formats.base import end_of
from penstock.framing import sse
from penstock.parsing import BrokenCall
from penstock.tools import Tool, read_tools
from penstock.views import ai_sdk

READ_SIZE: Final = 65536
"""How many bytes are asked for at once; a pipe gives what it has."""

_DEMO_CHUNK: Final = 8
_DEMO_TOOL: Final = Tool(
    "write_file",
    "Writes a file.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
    },
)


class View(StrEnum):
    """The vocabulary in which events are shown."""

    events = "events"
    ai_sdk = "ai-sdk"
    segments = "segments"
    openai = "openai"


class Mode(StrEnum):
    """When a call comes out."""

    whole = "whole"
    live = "live"


def command(  # noqa: PLR0913 - each is an option of the command
    file: Annotated[
        Path | None, typer.Argument(help="What a model wrote; without it, or as -, a pipe is read.")
    ] = None,
    *,
    format_: Annotated[
        str, typer.Option("--format", help="How its calls look; `penstock formats` lists them.")
    ] = "hermes",
    tools: Annotated[
        Path | None, typer.Option(help="A JSON file with the tools, in any provider's shape.")
    ] = None,
    chunk: Annotated[
        int, typer.Option(min=0, help="Cut the text into chunks of so many characters.")
    ] = 0,
    view: Annotated[View, typer.Option(help="The vocabulary of the output.")] = View.events,
    arguments: Annotated[
        Mode | None, typer.Option(help="Show a call when it is whole (default), or as it comes.")
    ] = None,
    reasoning: Annotated[
        str | None, typer.Option(help="How the model marks its thoughts; none: they are text.")
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Mend broken calls.")] = False,
    trim: Annotated[
        bool, typer.Option("--trim", help="White space that touches a call is no text.")
    ] = False,
    fenced: Annotated[
        bool, typer.Option("--fenced", help="Calls in code fences are calls (default: text).")
    ] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="Read a sample with a call in it, in small chunks.")
    ] = False,
) -> None:
    """Read what a model wrote and show the events in it, one JSON object a line."""
    if file is None and not demo and sys.stdin.isatty():
        raise typer.BadParameter("give a file or pipe a text in")
    known = [_DEMO_TOOL] if demo and tools is None else _read_tools(tools)
    try:
        parser = Parser(
            format_,
            known,
            arguments=arguments.value if arguments else "live" if demo else "whole",
            reasoning=reasoning,
            repair=repair,
            trim=trim,
            fenced="calls" if fenced else "text",
            on_error=_tell,
        )
        pieces = _show_sample(format_) if demo else _read_pieces(file)
    except PenstockError as exc:
        refuse(str(exc), exc)
    chunks = _cut(pieces, chunk or (_DEMO_CHUNK if demo else 0))
    _show(_events(_traced(parser, format_, known), chunks), _view(view, known))


# --- in ---


def _read_tools(file: Path | None) -> list[Tool]:
    if file is None:
        return []
    try:
        return read_tools(_json.decode(file.read_bytes()))
    except OSError as exc:
        refuse(f"the tools {file}: {exc.strerror}", exc)
    except PenstockError as exc:
        refuse(f"the tools {file}: {exc}", exc)


def _read_pieces(file: Path | None) -> Iterator[str]:
    """Yield the text as it comes; a character that is cut in two waits for its other half."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    try:
        with _opened(file) as source:
            while data := source.read1(READ_SIZE):
                yield decoder.decode(data)
    except OSError as exc:
        refuse(f"{file}: {exc.strerror}", exc)
    yield decoder.decode(b"", final=True)


def _opened(file: Path | None) -> AbstractContextManager[Any]:
    if file is None or str(file) == "-":
        return nullcontext(sys.stdin.buffer)
    return file.open("rb")


def _show_sample(format_: str) -> list[str]:
    """Show the text of the demo, which is prose around a call, and return it."""
    sample = f"I will note the tide.\n\n{example(formats.get(format_))}\n\nIt is in the file."
    out = Console()
    out.rule("a model writes", align="left", style="dim")
    for line in sample.split("\n"):
        say(out, line, "yellow")
    out.rule("penstock reads", align="left", style="dim")
    return [sample]


def _cut(pieces: Iterable[str], size: int) -> Iterator[str]:
    for piece in pieces:
        step = size or len(piece) or 1
        for at in range(0, len(piece), step):
            yield piece[at : at + step]


# --- through ---


def _events(parser: debug.AnyParser, chunks: Iterable[str]) -> Iterator[Event]:
    for chunk in chunks:
        yield from parser.feed(chunk)
    yield from parser.finish(cut=False)


def _traced(parser: Parser, format_: str, tools: list[Tool]) -> debug.AnyParser:
    settings = debug.settings(os.environ)
    if settings.mode == "off":
        return parser
    segments = getattr(formats.get(format_), "call_segments", None)
    return debug.Traced(
        parser,
        settings,
        partial(typer.echo, err=True),
        colour=Console(stderr=True).is_terminal,
        call_segments=segments and partial(segments, tools=tools),
    )


def _tell(message: str, segment: BrokenCall) -> None:
    del segment
    say(Console(stderr=True), f"penstock: {message}", "yellow")


# --- out ---


class Shown(Protocol):
    """A vocabulary: events in, what is shown of them out."""

    def feed(self, event: Event, /) -> Iterable[Any]:
        """Return what stands for *event*."""

    def finish(self) -> Iterable[Any]:
        """Return what stands for the end."""


class PlainEvents:
    """The events as they are."""

    def feed(self, event: Event) -> list[Event]:
        """Return *event* itself."""
        return [event]

    def finish(self) -> list[Event]:
        """Return nothing more."""
        return []


class ChatChunks:
    """What an OpenAI chat client gets, chunk by chunk."""

    def __init__(self) -> None:
        self._encoder = apis.get("openai-chat").encoder(model="penstock")
        self._frames = sse.Decoder()
        self._builder = MessageBuilder()

    def feed(self, event: Event) -> Iterator[Any]:
        """Yield the chunks that *event* makes."""
        self._builder.add(event)
        yield from self._chunks(self._encoder.encode(event))

    def finish(self) -> Iterator[Any]:
        """Yield the last chunks: a parser ends no message, so this does."""
        message = self._builder.message
        message.stop_reason = end_of(message, "stop")
        end = self._encoder.encode(Done(message.stop_reason, message))
        yield from self._chunks(end + self._encoder.finish())

    def _chunks(self, data: bytes) -> Iterator[Any]:
        for frame in self._frames.feed(data):
            yield frame.data if frame.data == "[DONE]" else _json.decode(frame.data)


def _view(view: View, tools: list[Tool]) -> Shown:
    if view is View.openai:
        return ChatChunks()
    if view is View.ai_sdk:
        return ai_sdk.Parts()
    if view is View.segments:
        from penstock.views import segments  # noqa: PLC0415 - most who parse need no segments

        return segments.Handler(strategy="api_tool_call", tools=tools)
    return PlainEvents()


def _show(events: Iterable[Event], view: Shown) -> None:
    out = Console()
    for event in events:
        for item in view.feed(event):
            _show_item(out, item)
    for item in view.finish():
        _show_item(out, item)


def _show_item(out: Console, item: Any) -> None:
    """Show one object on a line: in colour on a terminal, else as JSON in UTF-8."""
    if hasattr(item, "as_dict"):
        item = item.as_dict()
    line = _json.encode(item)
    if out.is_terminal:
        say(out, line.decode(), _style_of(msgspec.to_builtins(item)))
    else:
        typer.echo(line)


_STYLES: Final = {
    "toolcall_end": "bold green",
    "tool-call": "bold green",
    "tool": "cyan",
    "thinking": "dim",
    "reasoning": "dim",
}
"""How lines look on a terminal, by the beginning of their `type`."""


def _style_of(item: dict[str, Any]) -> str:
    if item.get("call", {}).get("complete") is False:
        return "bold red"
    kind = str(item.get("type", ""))
    return next((style for start, style in _STYLES.items() if kind.startswith(start)), "")
