"""``penstock logs``: what passed through the gateway, read from its database."""

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

from penstock.cli.log_table import (
    PARTS,
    Table,
    TimeColumn,
    detail_fields,
    moment,
    show_detail,
    show_json,
)
from penstock.cli.output import refuse, say
from penstock.errors import PenstockError, UsageError
from penstock.gateway.config import find_file, load
from penstock.gateway.config.types import mask_url, parse_store_url
from penstock.store import (
    MAX_PAGE,
    RequestDetail,
    RequestQuery,
    RequestRow,
    State,
    Store,
    StoreError,
)

# What is new in the log: requests that came, and requests that ended since.


OVERLAP: Final = 15.0
"""How many seconds back `follow` looks: processes write what they log a moment later, each for
itself, so that an older request may turn up after a newer one."""


class Following:
    """Notices requests that are new, or that have ended since; *query* says which."""

    def __init__(self, store: Store, query: RequestQuery) -> None:
        self._store = store
        self._query = query
        self._known: dict[str, RequestRow] = {}
        self._is_lost = False

    async def begin(self) -> list[RequestRow]:
        """Take note of what is there; return the newest, the oldest of them first."""
        page = await self._store.requests(self._query)
        self._known = {row.id: row for row in page.items}
        return page.items[::-1]

    async def news(self) -> list[RequestRow]:
        """Return the rows that came or changed since the last look, the oldest first.

        A database that cannot be read for a while is said once, and asked again.
        """
        try:
            rows = await self._rows(self._horizon())
        except StoreError as exc:
            if not self._is_lost:
                say(Console(stderr=True), f"penstock: {exc}; trying again", "yellow")
            self._is_lost = True
            return []
        self._is_lost = False
        fresh = [row for row in rows if self._is_news(row)]
        self._known |= {row.id: row for row in fresh}
        self._forget(self._horizon())
        return sorted(fresh, key=lambda row: row.id)

    async def _rows(self, since: float) -> list[RequestRow]:
        query, rows = replace(self._query, since=since), []
        while True:
            page = await self._store.requests(query)
            rows += page.items
            if not page.next:
                return rows
            query = replace(query, before=page.next)

    def _is_news(self, row: RequestRow) -> bool:
        known = self._known.get(row.id)
        return known is None or known.state != row.state

    def _horizon(self) -> float:
        """Return the time before which nothing is news: all older requests have ended."""
        begun = [row.created for row in self._known.values() if row.state == "started"]
        return min([time.time() - OVERLAP, *begun])

    def _forget(self, horizon: float) -> None:
        self._known = {id_: row for id_, row in self._known.items() if row.created >= horizon}


app = typer.Typer(help="Look at what passed through the gateway.", no_args_is_help=True)

Result = TypeVar("Result")
Url = Annotated[
    str | None,
    typer.Option("--store", help="The database: a URL, or a file of SQLite."),
]
Number = Annotated[int, typer.Option("-n", min=1, max=MAX_PAGE, help="How many to show.")]
Model = Annotated[str, typer.Option(help="Of this model only.")]
StateName = Annotated[str, typer.Option("--state", help="done, failed, aborted, interrupted, …")]
ApiName = Annotated[str, typer.Option("--api", help="Of clients of this API only.")]
UpstreamName = Annotated[str, typer.Option("--upstream", help="Answered by this upstream only.")]
Since = Annotated[str, typer.Option(help="Since then: 15m, 1h, 2d, 2026-05-01, ….")]
Session = Annotated[str, typer.Option(help="Of this session only.")]
Utc = Annotated[bool, typer.Option("--utc", help="Show times of UTC, not local ones.")]
AsJson = Annotated[bool, typer.Option("--json", help="A JSON object a line.")]

STATES: Final = get_args(State)
"""How far a request may have come."""

PAUSE: Final = 0.5
"""How many seconds lie between two looks of `follow`."""


@app.command("list")
def list_(  # noqa: PLR0913 - each is an option of the command
    *,
    number: Number = 20,
    model: Model = "",
    state: StateName = "",
    api: ApiName = "",
    upstream: UpstreamName = "",
    since: Since = "",
    session: Session = "",
    utc: Utc = False,
    as_json: AsJson = False,
    store: Url = None,
) -> None:
    """List the newest requests."""
    query = _query(number, model, state, api, upstream, since, session)
    _show_rows(_found(store, query), utc=utc, as_json=as_json)


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
    session: Session = "",
    utc: Utc = False,
    as_json: AsJson = False,
    store: Url = None,
) -> None:
    """Find requests whose answer or error holds TEXT."""
    query = _query(number, model, state, api, upstream, since, session)
    _show_rows(_found(store, replace(query, search=text)), utc=utc, as_json=as_json)


@app.command()
def show(
    id_: Annotated[str, typer.Argument(metavar="ID", help="The id, as its client saw it.")],
    part: Annotated[str, typer.Option(help="Print this alone, as it is: " + ", ".join(PARTS))] = "",
    utc: Utc = False,
    as_json: AsJson = False,
    store: Url = None,
) -> None:
    """Show one request; with --part, what was stored of it, as it is."""
    if part and part not in PARTS:
        refuse(f"a request has no {part!r}; it has: {', '.join(PARTS)}", ValueError(part))
    detail = find(id_, store)
    out = Console()
    if part:
        _print_part(out, getattr(detail, part))
    elif as_json:
        show_json(out, [detail_fields(detail)])
    else:
        show_detail(out, detail, TimeColumn(utc=utc))


@app.command()
def follow(  # noqa: PLR0913 - each is an option of the command
    *,
    number: Annotated[int, typer.Option("-n", min=0, max=MAX_PAGE, help="Older ones first.")] = 0,
    model: Model = "",
    api: ApiName = "",
    upstream: UpstreamName = "",
    session: Session = "",
    utc: Utc = False,
    as_json: AsJson = False,
    store: Url = None,
) -> None:
    """Show requests as they come and as they end, until stopped."""
    query = _query(MAX_PAGE, model, "", api, upstream, "", session)
    out = Console()
    table = Table(out, TimeColumn(utc=utc))

    def show_row(row: RequestRow) -> None:
        if as_json:
            show_json(out, [row])
        else:
            table.row(row)

    async def watch(found: Store) -> None:
        watching = Following(found, query)
        older = await watching.begin()
        if not as_json:
            table.head()
        for row in older[len(older) - number :] if number else []:
            show_row(row)
        while True:
            await asyncio.sleep(PAUSE)
            for row in await watching.news():
                show_row(row)

    try:
        reading(store, watch)
    except KeyboardInterrupt:
        raise typer.Exit from None


# --- for the commands beside it ---


def reading(url: str | None, read: Callable[[Store], Awaitable[Result]]) -> Result:
    """Ask the store at *url*, or the one that the configuration names."""

    async def ask(address: str) -> Result:
        found = Store(address, create=False)
        try:
            return await read(found)
        finally:
            await found.close()

    with using(url) as address:
        return asyncio.run(ask(address))


@contextmanager
def using(url: str | None) -> Iterator[str]:
    """Yield the address of the database at *url*, as `address_of` does.

    Where the database cannot be used, the command ends and says which one that is.
    """
    address = ""
    try:
        address = address_of(url)
        yield address
    except StoreError as exc:
        refuse(f"{exc} ({mask_url(address)})", exc)
    except PenstockError as exc:
        refuse(str(exc), exc)


def address_of(url: str | None) -> str:
    """Return the address of the database: *url*, or else the one that the configuration names.

    The path of a file is an address too. Raises `UsageError` for what is not one.
    """
    if not url:
        return load(find_file(os.environ, Path()), os.environ).store.url.reveal()
    try:
        return parse_store_url(url)
    except ValueError as exc:
        raise UsageError(f"--store: {exc}") from exc


def bare_id(id_: str) -> str:
    """Return a request's own id out of any form in which clients see it (``chatcmpl-…``)."""
    return id_.strip().rpartition("-")[2].rpartition("_")[2]


def find(id_: str, url: str | None) -> RequestDetail:
    """Return a request by its id, in any of the forms in which clients see it."""
    detail = reading(url, lambda found: found.request(bare_id(id_)))
    if detail is None:
        refuse(f"there is no request {id_!r}", LookupError(id_))
    return detail


# --- what is asked, and how it is shown ---


def _query(
    number: int, model: str, state: str, api: str, upstream: str, since: str, session: str
) -> RequestQuery:
    if state and state not in STATES:
        refuse(f"no request is {state!r}; they are: {', '.join(STATES)}", ValueError(state))
    return RequestQuery(
        limit=number,
        model=model,
        state=state,
        client_api=api,
        upstream=upstream,
        since=moment(since),
        session=session,
    )


def _found(store: str | None, query: RequestQuery) -> list[RequestRow]:
    return reading(store, lambda found: found.requests(query)).items


def _show_rows(rows: list[RequestRow], *, utc: bool, as_json: bool) -> None:
    out = Console()
    if as_json:
        show_json(out, rows)
        return
    if not rows:
        say(Console(stderr=True), "nothing found", "dim")
        return
    table = Table(out, TimeColumn(utc=utc), rows)
    table.head()
    for row in rows:
        table.row(row)


def _print_part(out: Console, data: bytes) -> None:
    """Print *data* as it is; on a terminal, which it must not steer, line by line."""
    if not out.is_terminal:
        typer.echo(data, nl=False)
        return
    for line in data.decode("utf-8", "replace").splitlines():
        say(out, line)
