"""Requests of the log as lines: a table whose columns align, a page for one of them, or JSON.

What models and clients wrote is in these lines, so nothing leaves but through `screen.say`; a
character that would steer the terminal is written out before it is measured.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import typer
from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.console import Console

from penstock import _json
from penstock.cli.output import refuse, say
from penstock.errors import JSONParseError
from penstock.gateway.replay import message_for
from penstock.store import RequestDetail, RequestRow

# Times of the log: read as people say them, shown where people are.


_SPAN: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def moment(text: str, now: float | None = None) -> float | None:
    """Read ``90s``, ``1h``, ``2d`` (so long before *now*), a date or a time; None for nothing.

    A date or a time without a zone is a local one. Ends the command for anything else.
    """
    text = text.strip()
    if not text:
        return None
    if span := _SPAN.fullmatch(text.lower()):
        return (time.time() if now is None else now) - float(span[1]) * _SECONDS[span[2]]
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError, OSError) as exc:
        refuse(f"no time: {text!r}; say 90s, 15m, 1h, 2d, 1w, 2026-05-01 or 2026-05-01T14:20", exc)


class TimeColumn:
    """Shows times: local ones, or with *utc* those of UTC."""

    def __init__(self, *, utc: bool = False) -> None:
        self._zone = UTC if utc else None

    @property
    def zone(self) -> str:
        """What the times are called: ``UTC``, ``CEST``, ``+05:45``."""
        return datetime.now(UTC).astimezone(self._zone).tzname() or "local"

    def show(self, seconds: float) -> str:
        """Show the time *seconds* after the beginning of 1970; a time that cannot be is a dash."""
        try:
            when = datetime.fromtimestamp(seconds, UTC).astimezone(self._zone)
        except (ValueError, OverflowError, OSError):
            return "-"
        return when.strftime("%Y-%m-%d %H:%M:%S")


STYLES: Final = {"failed": "red", "aborted": "yellow", "interrupted": "yellow", "started": "cyan"}
"""How the line of a request looks, by its state."""

MAX_CELL: Final = 32
"""How wide a column gets: names of models may be paths."""


class Column(Struct, frozen=True):
    """A column: its *title*, what it *shows* of a row, and how wide it is at least."""

    title: str
    shows: Callable[[RequestRow, TimeColumn], str]
    width: int
    is_cut: bool = True


def _took(row: RequestRow, clock: TimeColumn) -> str:
    del clock
    return "" if row.state == "started" else f"{row.duration:7.2f} s"


def _tokens(row: RequestRow, clock: TimeColumn) -> str:
    del clock
    if row.input_tokens is None and row.output_tokens is None:
        return ""
    return f"{row.input_tokens or 0}+{row.output_tokens or 0}"


COLUMNS: Final = (
    Column("time", lambda row, clock: clock.show(row.created), 19, is_cut=False),
    Column("id", lambda row, _: row.id, 28, is_cut=False),
    Column("state", lambda row, _: row.state, 7),
    Column("took", _took, 9),
    Column("api", lambda row, _: row.client_api, 11),
    Column("model", lambda row, _: row.model, 12),
    Column("upstream", lambda row, _: row.upstream, 8),
    Column("tokens", _tokens, 8),
    Column("calls", lambda row, _: str(row.calls) if row.calls else "", 5),
)
"""What a line shows; how the request ended comes after, as long as it is."""


class Table:
    """Writes rows as lines of one table; its columns fit *rows*, and what comes later as it can."""

    def __init__(self, out: Console, clock: TimeColumn, rows: Sequence[RequestRow] = ()) -> None:
        self._out = out
        self._clock = clock
        self._widths = [
            max([column.width, *(min(cell_len(self._cell(column, row)), MAX_CELL) for row in rows)])
            for column in COLUMNS
        ]

    def head(self) -> None:
        """Write the titles, with the zone of the times."""
        zone = f"time ({self._clock.zone})"
        titles = [zone, *(column.title for column in COLUMNS[1:]), "end"]
        self._write(titles, "bold")

    def row(self, row: RequestRow) -> None:
        """Write one request."""
        cells = [self._cell(column, row) for column in COLUMNS]
        self._write([*cells, plain(ending(row))], STYLES.get(row.state, ""))

    def _cell(self, column: Column, row: RequestRow) -> str:
        text = plain(column.shows(row, self._clock))
        return _shortened(text) if column.is_cut else text

    def _write(self, cells: Sequence[str], style: str) -> None:
        sized = [_padded(cell, width) for cell, width in zip(cells, self._widths, strict=False)]
        say(self._out, "  ".join([*sized, *cells[len(sized) :]]).rstrip(), style)


def plain(text: str) -> str:
    """Return *text* on one line, with every control character written out."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def ending(row: RequestRow) -> str:
    """Say how a request ended."""
    said = row.error_message or row.finish
    return f"{said} ({len(row.repairs)} repaired)" if row.repairs else said


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _shortened(text: str) -> str:
    return text if cell_len(text) <= MAX_CELL else set_cell_size(text, MAX_CELL - 1) + "…"


# --- one request ---


def show_detail(out: Console, detail: RequestDetail, clock: TimeColumn) -> None:
    """Show what is known about one request, and its answer."""
    for name, fact in _facts(detail, clock).items():
        if fact:
            say(out, f"{name:<12} {plain(fact)}", STYLES.get(fact, ""))
    message, _ = message_for(detail)
    for line in message.thinking.splitlines():
        say(out, f"┆ {line}", "dim italic")
    for line in (message.text or detail.text).splitlines():
        say(out, f"│ {line}")
    for call in message.tool_calls:
        cut = "" if call.complete else " (cut off)"
        say(out, f"→ {call.name}{cut} {_json.encode(call.arguments).decode()}", "green")


def _facts(detail: RequestDetail, clock: TimeColumn) -> dict[str, str]:
    row, notes = detail.row, detail.notes
    way = f"{row.upstream} ({row.upstream_api})"
    there = f", there {row.upstream_model}" if row.upstream_model != row.model else ""
    return {
        "id": row.id,
        "state": row.state,
        "time": f"{clock.show(row.created)} {clock.zone}",
        "asked": f"{row.path} for {row.model} ({'stream' if row.stream else 'whole'})",
        "by": ", ".join(filter(None, (row.scope, row.session and f"session {row.session}"))),
        "answered by": f"{way}{there}; tools {row.mode}, format {row.format}",
        "options": _options(notes),
        "end": ending(row),
        "error": " ".join(filter(None, (row.error_kind, row.error_type))),
        "status": "" if row.status is None else str(row.status),
        "tokens": _token_words(row),
        "times": _times(row),
        "calls": str(row.calls) if row.calls else "",
        "repairs": "; ".join(row.repairs),
        "complaints": "; ".join(map(str, notes.get("complaints", []))),
        "failures": "; ".join(map(str, notes.get("failures", []))),
        "skipped": f"{notes['skipped']} frames of the upstream" if notes.get("skipped") else "",
        "stored": f"{row.size:,} bytes: {', '.join(_kept(detail)) or 'no bodies'}",
    }


def _options(notes: dict[str, Any]) -> str:
    options = notes.get("options")
    if not isinstance(options, dict):
        return ""
    said = {name: value for name, value in options.items() if value not in (None, "", False)}
    hidden = ("format", "tools")  # which are shown with the upstream
    return ", ".join(f"{name} {value}" for name, value in said.items() if name not in hidden)


def _token_words(row: RequestRow) -> str:
    counts = {
        "in": row.input_tokens,
        "out": row.output_tokens,
        "cached": row.cached_tokens,
        "reasoning": row.reasoning_tokens,
    }
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def _times(row: RequestRow) -> str:
    if row.state in ("started", "interrupted"):
        return ""
    first = "" if row.first_token is None else f"first token after {row.first_token:.3f} s, "
    return f"{first}{row.duration:.3f} s in all, {row.chunks} chunks"


PARTS: Final = ("request", "upstream_request", "raw", "events", "response")
"""What is stored of a request besides what is known about it."""


def _kept(detail: RequestDetail) -> list[str]:
    return [part for part in PARTS if getattr(detail, part)]


# --- for machines ---


def show_json(out: Console, rows: Iterable[object]) -> None:
    """Write each of *rows* as a line of JSON."""
    for row in rows:
        line = _json.encode(row)
        if out.is_terminal:
            say(out, line.decode())
        else:
            typer.echo(line)


def detail_fields(detail: RequestDetail) -> dict[str, Any]:
    """Return all of a request as JSON can have it."""
    return {
        **msgspec.to_builtins(detail.row),
        "text": detail.text,
        "notes": detail.notes,
        "request": _value_of(detail.request),
        "upstream_request": _value_of(detail.upstream_request),
        "response": _value_of(detail.response),
        "raw": detail.raw.decode("utf-8", "replace"),
        "events": [_value_of(line) for line in detail.events.splitlines()],
    }


def _value_of(data: bytes) -> Any:
    try:
        return _json.decode(data) if data else None
    except JSONParseError:
        return data.decode("utf-8", "replace")
