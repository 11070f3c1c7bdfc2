"""``penstock parse``: text of a model in, events out, as they arrive. ``penstock formats``."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console

from penstock import _json, apis, debug, formats
from penstock.builder import MessageBuilder
from penstock.cli.output import (
    Fenced,
    FormatName,
    ReasoningName,
    Repair,
    ToolsFile,
    Trim,
    argument,
    option,
    read_tools_file,
    refuse,
    say,
)
from penstock.errors import PenstockError, UsageError
from penstock.events import Done, Event
from penstock.formats import AnyFormat, Parser
from penstock.formats.base import Format, stop_reason_for
from penstock.framing import sse
from penstock.messages import ToolCall
from penstock.tools import Tool
from penstock.views import ai_sdk

READ_SIZE: Final = 65536
"""How many bytes are read at once; a pipe returns what it has."""

EXAMPLE: Final = ToolCall(
    "", "write_file", {"path": "tides.md", "content": "# Leith\nhigh water: 14:20"}
)
"""The call by which formats are shown."""

# A few tokens, as models send them: the call arrives in several pieces.
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
# The styles of lines on a terminal, by the beginning of their `type`.
_STYLES: Final = {
    "toolcall_end": "bold green",
    "tool-call": "bold green",
    "tool": "cyan",
    "thinking": "dim",
    "reasoning": "dim",
}


class View(StrEnum):
    """The vocabulary of the output."""

    events = "events"
    ai_sdk = "ai-sdk"
    segments = "segments"
    openai = "openai"


class OnlyReasoning(StrEnum):
    """What a response is that is only reasoning which the prompt had opened."""

    reasoning = "reasoning"
    text = "text"


class StrayEnd(StrEnum):
    """What an end marker of reasoning without a beginning is."""

    TEXT = "text"
    SPLIT = "split"  # `split` is a method of `str`


class Mode(StrEnum):
    """When a call is emitted."""

    whole = "whole"
    live = "live"


def command(  # noqa: PLR0913 - each is an option of the command
    file: Annotated[
        Path | None, argument("File with the text of a model; - or nothing reads stdin.")
    ] = None,
    *,
    format_: FormatName = "auto",
    tools: ToolsFile = None,
    chunk: Annotated[int, option("Split the text into chunks of this many characters.", min=0)] = 0,
    view: Annotated[View, option("Vocabulary of the output.")] = View.events,
    arguments: Annotated[
        Mode | None,
        option("Emit a call when it is complete (whole), or as it arrives (live).", shown="whole"),
    ] = None,
    reasoning: ReasoningName = None,
    repair: Repair = True,
    trim: Trim = False,
    fenced: Fenced = False,
    prompt_suffix: Annotated[
        str, option("The end of the prompt, if it opens the reasoning.", shown="none")
    ] = "",
    reasoning_only: Annotated[
        OnlyReasoning | None,
        option(
            "What a response is that ended inside reasoning which the prompt had opened.",
            shown="text; with --no-repair, reasoning",
        ),
    ] = None,
    stray_reasoning: Annotated[
        StrayEnd | None,
        option(
            "What an end marker of reasoning without a beginning is.",
            shown="split; with --no-repair, text",
        ),
    ] = None,
    demo: Annotated[bool, option("Parse a sample with a call, in small chunks.", "--demo")] = False,
) -> None:
    """Parse the text of a model and print its events, one JSON object per line."""
    if file is None and not demo and sys.stdin.isatty():
        raise typer.BadParameter("pass a file, or pipe text to stdin")
    known = [_DEMO_TOOL] if demo and tools is None else read_tools_file(tools)
    errors: list[str] = []
    try:
        parser = Parser(
            format_,
            known,
            arguments=arguments.value if arguments else "live" if demo else "whole",
            reasoning=reasoning,
            repair=repair,
            trim=trim,
            fenced="calls" if fenced else "text",
            prompt_suffix=prompt_suffix,
            reasoning_only=reasoning_only.value if reasoning_only else None,
            stray_reasoning=stray_reasoning.value if stray_reasoning else None,
            on_error=lambda message, _: errors.append(message),
        )
        pieces = _show_sample(format_) if demo else _read_pieces(file)
    except PenstockError as exc:
        refuse(str(exc), exc)
    chunks = _split(pieces, chunk or (_DEMO_CHUNK if demo else 0))
    out, builder = Console(), MessageBuilder()
    events = _parse(_trace(parser, format_, known), chunks, builder)
    for item in _convert(events, view, known):
        _show_item(out, item)
    _explain(formats.find_unread(builder.message, format_, known), errors, repair=repair)


def list_formats(
    names: Annotated[list[str] | None, argument("Formats to show.", shown="all")] = None,
) -> None:
    """List the formats: the name, the models that are known to use it, and a call in it."""
    try:
        chosen = [formats.get(name) for name in names or formats.names()]
    except UsageError as exc:
        refuse(str(exc), exc)
    out = Console()
    for number, format_ in enumerate(chosen):
        if number:
            say(out, "")
        say(out, format_.name, "bold")
        if isinstance(format_, Format) and format_.models:
            say(out, f"  {', '.join(format_.models)}", "dim")
        for line in filter(None, render_example(format_).split("\n")):
            say(out, f"    {line}", "cyan")


def render_example(format_: AnyFormat) -> str:
    """Render `EXAMPLE` in *format_*; the empty string if the format has no calls."""
    try:
        return format_.render_call(EXAMPLE)
    except UsageError:
        return ""


# --- input ---


def _read_pieces(file: Path | None) -> Iterator[str]:
    """Yield the text as it arrives; an incomplete character waits for its other bytes."""
    # A byte order mark, which some editors write, is dropped; invalid bytes become U+FFFD.
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    try:
        is_pipe = file is None or str(file) == "-"
        source: AbstractContextManager[Any]
        source = nullcontext(sys.stdin.buffer) if file is None or is_pipe else file.open("rb")
        with source as stream:
            # `read1` returns what has arrived; `read` would wait for all of it.
            while data := stream.read1(READ_SIZE):
                yield decoder.decode(data)
    except OSError as exc:
        refuse(f"{file}: {exc.strerror}", exc)
    yield decoder.decode(b"", final=True)


def _show_sample(format_: str) -> list[str]:
    """Print the text of the demo, prose around a call, and return it."""
    sample = (
        f"I will note the tide.\n\n{render_example(formats.get(format_))}\n\nIt is in the file."
    )
    out = Console()
    out.rule("a model writes", align="left", style="dim")
    for line in sample.split("\n"):
        say(out, line, "yellow")
    out.rule("penstock reads", align="left", style="dim")
    return [sample]


def _split(pieces: Iterable[str], size: int) -> Iterator[str]:
    for piece in pieces:
        step = size or len(piece) or 1
        for at in range(0, len(piece), step):
            yield piece[at : at + step]


def _parse(
    parser: debug.AnyParser, chunks: Iterable[str], builder: MessageBuilder
) -> Iterator[Event]:
    """Yield the events of *chunks*, which *builder* folds into a message."""

    def read() -> Iterator[list[Event]]:
        yield from map(parser.feed, chunks)
        yield parser.finish(cut=False)

    for event in chain.from_iterable(read()):
        builder.add(event)
        yield event


def _trace(parser: Parser, format_: str, tools: list[Tool]) -> debug.AnyParser:
    """Return *parser*, traced to stderr if the environment says so."""
    settings = debug.settings(os.environ)
    if settings.mode == "off":
        return parser
    found = formats.get(format_)
    segments = found.call_segments if isinstance(found, Format) else None
    return debug.Traced(
        parser,
        settings,
        partial(typer.echo, err=True),
        colour=Console(stderr=True).is_terminal,
        call_segments=segments and partial(segments, tools=tools),
    )


# The flag that makes a call of what was not one.
_FLAGS: Final[dict[formats.UnreadReason, str]] = {
    "not_offered": "pass its tool with --tools, or --format {format}",
    "other_format": "pass --format {format}, or --format auto",
    "in_code": "pass --fenced",
    "in_reasoning": "pass --reasoning none",
    "broken": "it was not repaired: it has more than one possible meaning, or none",
    "cut": "it was not repaired: what is missing is unknown",
}

# The same with ``--no-repair``.
_WITHOUT_REPAIR: Final[dict[formats.UnreadReason, str]] = {
    "broken": "drop --no-repair",
    "cut": "drop --no-repair",
}


def _explain(unread: list[formats.UnreadCall], errors: list[str], *, repair: bool) -> None:
    """Print to stderr why text that looks like a call is not one.

    *errors* are those of the parser; they are printed if nothing says the same more clearly.
    """
    flags = _FLAGS if repair else _FLAGS | _WITHOUT_REPAIR
    lines = [
        f"{one.description}; {flags.get(one.reason, one.advice).format(format=one.format)}"
        for one in unread
    ]
    if not any(one.reason in ("in_code", *_WITHOUT_REPAIR) for one in unread):
        lines += errors
    for line in lines:
        say(Console(stderr=True), f"penstock: {line}", "yellow")


# --- output ---


def _convert(events: Iterable[Event], view: View, tools: list[Tool]) -> Iterator[Any]:
    """Yield *events* in the vocabulary of *view*, as they arrive."""
    match view:
        case View.events:
            yield from events
        case View.ai_sdk:
            yield from ai_sdk.parts(events)
        case View.segments:
            yield from _convert_to_segments(events, tools)
        case View.openai:
            yield from _convert_to_chunks(events)


def _convert_to_segments(events: Iterable[Event], tools: list[Tool]) -> Iterator[dict[str, Any]]:
    """Yield the segment events of `penstock.views.segments`, as dicts."""
    from penstock.views import segments  # noqa: PLC0415 - slow to import, rarely used

    handler = segments.Handler(strategy="api_tool_call", tools=tools)
    for event in events:
        yield from (one.as_dict() for one in handler.feed(event))
    yield from (one.as_dict() for one in handler.finish())


def _convert_to_chunks(events: Iterable[Event]) -> Iterator[Any]:
    """Yield the chunks that an OpenAI chat client receives."""
    encoder = apis.get("openai-chat").encoder(model="penstock")
    builder, frames = MessageBuilder(), sse.Decoder()

    def encode() -> Iterator[bytes]:
        for event in events:
            builder.add(event)
            yield encoder.encode(event)
        # A parser emits no terminal event, so it is made here.
        message = builder.message
        message.stop_reason = stop_reason_for(message, "stop")
        yield encoder.encode(Done(message.stop_reason, message)) + encoder.finish()

    for data in encode():
        for frame in frames.feed(data):
            yield frame.data if frame.data == "[DONE]" else _json.decode(frame.data)


def _show_item(out: Console, item: Any) -> None:
    """Print one object on a line: in colour on a terminal, else as JSON in UTF-8."""
    line = _json.encode(item)
    if not out.is_terminal:
        typer.echo(line)
        return
    say(out, line.decode(), _find_style(msgspec.to_builtins(item)))


def _find_style(item: Any) -> str:
    if not isinstance(item, dict):
        return ""
    if item.get("call", {}).get("complete") is False:
        return "bold red"
    kind = str(item.get("type", ""))
    return next((style for start, style in _STYLES.items() if kind.startswith(start)), "")
