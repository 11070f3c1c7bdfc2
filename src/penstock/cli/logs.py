"""``penstock logs``: the requests that passed through the gateway, from its database."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, TypeVar, get_args

import typer
from msgspec.structs import replace
from rich.console import Console

from penstock.cli.admin import StoreUrl
from penstock.cli.log_table import PARTS, LogTable, list_fields, read_part, show_detail
from penstock.cli.output import TimeFormat, parse_time, refuse, say, show_json
from penstock.config import find_file, load
from penstock.config.types import parse_store_url
from penstock.errors import PenstockError, UsageError
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
Number = Annotated[int, typer.Option("-n", min=1, max=MAX_PAGE, help="Number of requests.")]
Model = Annotated[str, typer.Option(help="Only requests for this model.")]
StateName = Annotated[
    str, typer.Option("--state", help="Only this state: done, failed, aborted, interrupted, …")
]
ApiName = Annotated[str, typer.Option("--api", help="Only requests to this API.")]
UpstreamName = Annotated[str, typer.Option("--upstream", help="Only requests to this upstream.")]
Since = Annotated[str, typer.Option(help="Only since then: 15m, 1h, 2d, 2026-05-01, …")]
SessionId = Annotated[str, typer.Option("--session", help="Only requests of this session.")]
Unread = Annotated[
    bool,
    typer.Option("--unread", help="Only those with text that looks like a call and is not one."),
]
Utc = Annotated[bool, typer.Option("--utc", help="Show times in UTC instead of local time.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]

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
    id_: Annotated[str, typer.Argument(metavar="ID", help="Id that the client received.")],
    part: Annotated[str, typer.Option(help=f"Print only this part: {', '.join(PARTS)}.")] = "",
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
        int, typer.Option("-n", min=0, max=MAX_PAGE, help="Number of older requests to show first.")
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
