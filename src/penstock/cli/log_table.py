"""Logged requests as text: a table with aligned columns, and a page for one request.

The text of models and clients is in these lines, so control characters are escaped before a cell is
measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.console import Console

from penstock import _json
from penstock.cli.output import TimeFormat, say
from penstock.debug import escape_controls
from penstock.errors import JSONParseError
from penstock.gateway.replay import message_for
from penstock.store import RequestDetail, RequestRow

STYLES: Final = {"failed": "red", "aborted": "yellow", "interrupted": "yellow", "started": "cyan"}
"""The style of a line, by the state of its request."""

MAX_CELL: Final = 32
"""How wide a column may become: names of models may be paths."""

PARTS: Final = ("request", "upstream_request", "raw", "events", "response")
"""The stored parts of a request."""


# --- the table ---


class Column(Struct, frozen=True):
    """A column: its *title*, the function that returns its cell, and its minimum width."""

    title: str
    format: Callable[[RequestRow, TimeFormat], str]
    width: int
    is_cut: bool = True


def _format_tokens(row: RequestRow) -> str:
    if row.input_tokens is None and row.output_tokens is None:
        return ""
    return f"{row.input_tokens or 0}+{row.output_tokens or 0}"


COLUMNS: Final = (
    Column("time", lambda row, times: times.format(row.created), 19, is_cut=False),
    Column("id", lambda row, _: row.id, 28, is_cut=False),
    Column("state", lambda row, _: row.state, 7),
    Column(
        "took", lambda row, _: "" if row.state == "started" else f"{row.duration:7.2f} s", width=9
    ),
    Column("api", lambda row, _: row.client_api, 11),
    Column("model", lambda row, _: row.model, 12),
    Column("upstream", lambda row, _: row.upstream, 8),
    Column("tokens", lambda row, _: _format_tokens(row), 8),
    Column("calls", lambda row, _: _format_calls(row), 5),
)
"""The columns; the end of the request follows them, in full length."""


class LogTable:
    """Prints rows of a table whose columns fit *rows*; later rows may be wider."""

    def __init__(self, out: Console, times: TimeFormat, rows: Sequence[RequestRow] = ()) -> None:
        self._out = out
        self._times = times
        self._widths = [
            max([column.width, *(min(cell_len(self._cell(column, row)), MAX_CELL) for row in rows)])
            for column in COLUMNS
        ]

    def head(self) -> None:
        """Print the titles, with the zone of the times."""
        titles = [f"time ({self._times.zone})", *(column.title for column in COLUMNS[1:]), "end"]
        self._print(titles, "bold")

    def row(self, row: RequestRow) -> None:
        """Print one request."""
        cells = [self._cell(column, row) for column in COLUMNS]
        self._print([*cells, escape_controls(_format_end(row))], STYLES.get(row.state, ""))

    def _cell(self, column: Column, row: RequestRow) -> str:
        text = escape_controls(column.format(row, self._times))
        if not column.is_cut or cell_len(text) <= MAX_CELL:
            return text
        return set_cell_size(text, MAX_CELL - 1) + "…"

    def _print(self, cells: Sequence[str], style: str) -> None:
        # Wide characters, such as Chinese ones, take two columns.
        padded = [
            cell + " " * (width - cell_len(cell))
            for cell, width in zip(cells, self._widths, strict=False)
        ]
        say(self._out, "  ".join([*padded, *cells[len(padded) :]]).rstrip(), style)


def _format_calls(row: RequestRow) -> str:
    """Return the number of complete calls; clients do not run the others."""
    return str(row.calls - row.incomplete) if row.calls > row.incomplete else ""


def _format_end(row: RequestRow) -> str:
    end = row.error_message or row.finish
    notes = [
        f"{len(row.repairs)} repaired" if row.repairs else "",
        row.unread_reason if row.unread else "",
    ]
    found = "; ".join(filter(None, notes))
    return f"{end} ({found})" if found else end


# --- one request ---


def show_detail(out: Console, detail: RequestDetail, times: TimeFormat) -> None:
    """Print what is known about one request, and its response."""
    for name, fact in _list_facts(detail, times).items():
        if fact:
            say(out, f"{name:<12} {fact}", STYLES.get(fact, ""))
    message, _ = message_for(detail)
    for line in message.thinking.splitlines():
        say(out, f"┆ {line}", "dim italic")
    for line in (message.text or detail.text).splitlines():
        say(out, f"│ {line}")
    for call in message.tool_calls:
        cut = "" if call.complete else " (cut off)"
        say(out, f"→ {call.name}{cut} {_json.encode(call.arguments).decode()}", "green")


def _list_facts(detail: RequestDetail, times: TimeFormat) -> dict[str, str]:
    row, notes = detail.row, detail.notes
    model = f", model {row.upstream_model}" if row.upstream_model != row.model else ""
    options = notes.get("options")
    set_options = {
        name: value
        for name, value in (options if isinstance(options, dict) else {}).items()
        if value not in (None, "", False) and name not in ("format", "tools")
    }
    tokens = {
        "in": row.input_tokens,
        "out": row.output_tokens,
        "cached": row.cached_tokens,
        "reasoning": row.reasoning_tokens,
    }
    first = "" if row.first_token is None else f"first token after {row.first_token:.3f} s, "
    has_ended = row.state not in ("started", "interrupted")
    stored = ", ".join(part for part in PARTS if read_part(detail, part)) or "no bodies"
    return {
        "id": row.id,
        "state": row.state,
        "time": f"{times.format(row.created)} {times.zone}",
        "request": f"{row.path} for {row.model} ({'stream' if row.stream else 'whole'})",
        "client": ", ".join(filter(None, (row.scope, row.session and f"session {row.session}"))),
        "upstream": f"{row.upstream} ({row.upstream_api}){model};"
        f" tools {row.mode}, format {row.format}",
        "options": ", ".join(f"{name} {value}" for name, value in set_options.items()),
        "end": _format_end(row),
        "error": " ".join(filter(None, (row.error_kind, row.error_type))),
        "status": "" if row.status is None else str(row.status),
        "tokens": ", ".join(f"{count} {name}" for name, count in tokens.items() if count),
        "times": f"{first}{row.duration:.3f} s in all, {row.chunks} chunks" * has_ended,
        "calls": _format_calls(row),
        "repairs": "; ".join(row.repairs),
        "not a call": "; ".join(_describe_unread(notes)),
        "complaints": "; ".join(map(str, notes.get("complaints", []))),
        "failures": "; ".join(map(str, notes.get("failures", []))),
        "skipped": f"{notes['skipped']} frames of the upstream" if notes.get("skipped") else "",
        "stored": f"{row.size:,} bytes: {stored}",
    }


def _describe_unread(notes: dict[str, Any]) -> list[str]:
    """Return why each text that looks like a call is not one, and what to change."""
    found = notes.get("unread")
    records = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return [f"{one.get('description')}: {one.get('advice')}" for one in records]


def read_part(detail: RequestDetail, part: str) -> bytes:
    """Return one of the `PARTS` of a request; empty if it is not stored."""
    parts = {
        "request": detail.request,
        "upstream_request": detail.upstream_request,
        "raw": detail.raw,
        "events": detail.events,
        "response": detail.response,
    }
    return parts[part]


def list_fields(detail: RequestDetail) -> dict[str, Any]:
    """Return all of a request as a JSON object."""
    return {
        **msgspec.to_builtins(detail.row),
        "text": detail.text,
        "notes": detail.notes,
        "request": _decode(detail.request),
        "upstream_request": _decode(detail.upstream_request),
        "response": _decode(detail.response),
        "raw": detail.raw.decode("utf-8", "replace"),
        "events": [_decode(line) for line in detail.events.splitlines()],
    }


def _decode(data: bytes) -> Any:
    try:
        return _json.decode(data) if data else None
    except JSONParseError:
        return data.decode("utf-8", "replace")
