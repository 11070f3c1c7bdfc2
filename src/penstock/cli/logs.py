"""``penstock logs``: the requests that passed through the gateway, from its database."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, get_args

import msgspec
import typer
from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size
from rich.console import Console

from penstock import _json
from penstock.cli.admin import StoreUrl
from penstock.cli.output import TimeFormat, argument, option, parse_time, refuse, say, show_json
from penstock.config import find_file, load
from penstock.config.types import parse_store_url
from penstock.debug import escape_controls
from penstock.errors import JSONParseError, PenstockError, UsageError
from penstock.gateway.replay import message_for
from penstock.redaction import mask_url
from penstock.store import (
    MAX_PAGE,
    RequestDetail,
    RequestQuery,
    RequestRow,
    State,
    Store,
    StoreError,
)
from penstock.store.engine import find_file as find_database
from penstock.store.engine import parse_url

app = typer.Typer(
    help="Show the requests that passed through the gateway.",
    no_args_is_help=True,
    add_completion=False,
)

Result = TypeVar("Result")
Number = Annotated[int, option("Number of requests.", "-n", min=1, max=MAX_PAGE)]
Model = Annotated[str, option("Only requests for this model.")]
StateName = Annotated[
    str, option("Only this state: done, failed, aborted, interrupted, …", "--state")
]
ApiName = Annotated[str, option("Only requests to this API.", "--api")]
UpstreamName = Annotated[str, option("Only requests to this upstream.", "--upstream")]
Since = Annotated[str, option("Only since then: 15m, 1h, 2d, 2026-05-01, …")]
SessionId = Annotated[str, option("Only requests of this session.", "--session")]
Unread = Annotated[
    bool, option("Only those with text that looks like a call and is not one.", "--unread")
]
Utc = Annotated[bool, option("Show times in UTC instead of local time.", "--utc")]
AsJson = Annotated[bool, option("Print one JSON object per line.", "--json")]

STATES: Final = get_args(State)
"""The states of a request."""

POLL_SECONDS: Final = 0.5
"""How often `follow` reads the database."""

OVERLAP_SECONDS: Final = 15.0
"""How far back `follow` reads: each process writes its log with a delay, so an older request may
appear after a newer one."""


@app.command("list")
def list_(  # noqa: PLR0913 - each is an option of the command
    *,
    number: Number = 20,
    model: Model = "",
    state: StateName = "",
    api: ApiName = "",
    upstream: UpstreamName = "",
    since: Since = "",
    session: SessionId = "",
    unread: Unread = False,
    utc: Utc = False,
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """List the newest requests."""
    query = _make_query(number, model, state, api, upstream, since, session)
    query = replace(query, unread=unread or None)
    _show_requests(store, query, utc=utc, as_json=as_json)


@app.command()
def search(  # noqa: PLR0913 - each is an option of the command
    text: str,
    *,
    number: Number = 20,
    model: Model = "",
    state: StateName = "",
    api: ApiName = "",
    upstream: UpstreamName = "",
    since: Since = "",
    session: SessionId = "",
    unread: Unread = False,
    utc: Utc = False,
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """Find requests by words: model, tools, prompt, reasoning, response, arguments and error.

    All words of TEXT must occur; the beginning of a word is enough. Words in double quotes must
    occur in this order.
    """
    query = _make_query(number, model, state, api, upstream, since, session)
    query = replace(query, search=text, unread=unread or None)
    _show_requests(store, query, utc=utc, as_json=as_json)


@app.command()
def show(
    id_: Annotated[str, argument("Id that the client received.", metavar="ID")],
    part: Annotated[str, option(f"Print only this part: {', '.join(PARTS)}.")] = "",
    utc: Utc = False,
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """Show one request; with --part, print a stored part of it unchanged."""
    if part and part not in PARTS:
        refuse(f"unknown part {part!r}; expected one of {', '.join(PARTS)}")
    detail = find_request(id_, store)
    out = Console()
    if part:
        data = read_part(detail, part)
        if not out.is_terminal:
            # Byte for byte, so that a part can be sent again or compared.
            typer.echo(data, nl=False)
            return
        for line in data.decode("utf-8", "replace").splitlines():
            say(out, line)
    elif as_json:
        show_json(out, [list_fields(detail)])
    else:
        show_detail(out, detail, TimeFormat(utc=utc))


@app.command()
def follow(  # noqa: PLR0913 - each is an option of the command
    *,
    number: Annotated[
        int, option("Number of older requests to show first.", "-n", min=0, max=MAX_PAGE)
    ] = 0,
    model: Model = "",
    api: ApiName = "",
    upstream: UpstreamName = "",
    session: SessionId = "",
    utc: Utc = False,
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """Show requests as they start and end, until interrupted."""
    query = _make_query(MAX_PAGE, model, "", api, upstream, "", session)
    out = Console()
    table = LogTable(out, TimeFormat(utc=utc))

    def show_row(row: RequestRow) -> None:
        if as_json:
            show_json(out, [row])
        else:
            table.row(row)

    async def watch(opened: Store) -> None:
        follower = LogFollower(opened, query)
        older = await follower.start()
        if not as_json:
            table.head()
        for row in older[len(older) - number :] if number else []:
            show_row(row)
        while True:
            await asyncio.sleep(POLL_SECONDS)
            for row in await follower.poll():
                show_row(row)

    try:
        run_with_store(store, watch)
    except KeyboardInterrupt:
        raise typer.Exit from None


class LogFollower:
    """Finds requests matching *query* that started or ended since the last time."""

    def __init__(self, store: Store, query: RequestQuery) -> None:
        self._store = store
        self._query = query
        self._known: dict[str, RequestRow] = {}
        self._is_lost = False

    async def start(self) -> list[RequestRow]:
        """Read the newest requests; return them, oldest first."""
        page = await self._store.requests(self._query)
        self._known = {row.id: row for row in page.items}
        return page.items[::-1]

    async def poll(self) -> list[RequestRow]:
        """Return the requests that are new or have another state, oldest first.

        A database that cannot be read is reported once, and read again at the next poll.
        """
        try:
            rows = await self._read_since(self._horizon())
        except StoreError as exc:
            if not self._is_lost:
                say(Console(stderr=True), f"penstock: {exc}; trying again", "yellow")
            self._is_lost = True
            return []
        self._is_lost = False
        states = {id_: row.state for id_, row in self._known.items()}
        news = [row for row in rows if states.get(row.id) != row.state]
        self._known |= {row.id: row for row in news}
        # Rows before the horizon cannot change, so the memory does not grow.
        horizon = self._horizon()
        self._known = {id_: row for id_, row in self._known.items() if row.created >= horizon}
        return sorted(news, key=lambda row: row.id)

    async def _read_since(self, since: float) -> list[RequestRow]:
        query, rows = replace(self._query, since=since), []
        while True:
            page = await self._store.requests(query)
            rows += page.items
            if not page.next:
                return rows
            query = replace(query, before=page.next)

    def _horizon(self) -> float:
        """Return the time before which nothing changes: all older requests have ended."""
        running = [row.created for row in self._known.values() if row.state == "started"]
        return min([time.time() - OVERLAP_SECONDS, *running])


# --- for the other commands ---


def run_with_store(url: str | None, work: Callable[[Store], Awaitable[Result]]) -> Result:
    """Run *work* with the store at *url*, by default the one in the configuration."""

    async def run(address: str) -> Result:
        # A command that only reads must not create an empty database.
        store = Store(address, create=False)
        try:
            return await work(store)
        finally:
            await store.close()

    with store_errors(url) as address:
        return asyncio.run(run(address))


@contextmanager
def store_errors(url: str | None) -> Iterator[str]:
    """Yield the URL of the store; errors inside end the command and name the database."""
    address = ""
    try:
        address = find_store_url(url)
        yield address
    except StoreError as exc:
        file = find_database(parse_url(address))
        if file is not None and not file.exists():
            refuse(f"there is no log yet: {file} is created by `penstock serve`", exc)
        refuse(f"{exc} ({mask_url(address)})", exc)
    except PenstockError as exc:
        refuse(str(exc), exc)


def find_store_url(url: str | None) -> str:
    """Return the URL of the store: *url*, which may be a file, or the one in the configuration.

    Raises `UsageError` if it is invalid.
    """
    if not url:
        return load(find_file(os.environ, Path()), os.environ).store.url.reveal()
    try:
        return parse_store_url(url)
    except ValueError as exc:
        raise UsageError(f"--store: {exc}") from exc


def bare_id(id_: str) -> str:
    """Return the id of a request from any form that clients receive (``chatcmpl-…``)."""
    # OpenAI: `chatcmpl-ID`; Responses: `resp_ID`; Anthropic: `msg_ID`.
    return id_.strip().rpartition("-")[2].rpartition("_")[2]


def find_request(id_: str, url: str | None) -> RequestDetail:
    """Return a request by its id, in any form that clients receive."""
    detail = run_with_store(url, lambda store: store.request(bare_id(id_)))
    if detail is None:
        refuse(f"there is no request {id_!r}; `penstock logs list` shows those that are stored")
    return detail


def _make_query(
    number: int, model: str, state: str, api: str, upstream: str, since: str, session: str
) -> RequestQuery:
    if state and state not in STATES:
        refuse(f"unknown state {state!r}; expected one of {', '.join(STATES)}")
    return RequestQuery(
        limit=number,
        model=model,
        state=state,
        client_api=api,
        upstream=upstream,
        since=parse_time(since),
        session=session,
    )


def _show_requests(url: str | None, query: RequestQuery, *, utc: bool, as_json: bool) -> None:
    rows = run_with_store(url, lambda store: store.requests(query)).items
    out = Console()
    if as_json:
        show_json(out, rows)
        return
    if not rows:
        say(Console(stderr=True), "nothing found: no stored request fits", "dim")
        return
    table = LogTable(out, TimeFormat(utc=utc), rows)
    table.head()
    for row in rows:
        table.row(row)


# --- requests as text ---
#
# The text of models and clients is in these lines, so control characters are escaped before a cell
# is measured.

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
    data: bytes = getattr(detail, part)
    return data


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
