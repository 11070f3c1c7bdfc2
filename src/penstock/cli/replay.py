"""``penstock replay``: logged streams, read by today's parser.

One request is shown with all that is different. Several of them, or a whole stretch of the log, are
a regression run: a line for each that differs, and a sum at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated, Final

import typer
from msgspec.structs import replace
from rich.console import Console

from penstock import _json
from penstock.cli.log_table import moment
from penstock.cli.logs import Url, bare_id, reading
from penstock.cli.output import refuse, say
from penstock.errors import UsageError
from penstock.gateway.config.routes import ModelOptions
from penstock.gateway.replay import Replay, change_options, replay
from penstock.store import MAX_PAGE, RequestDetail, RequestQuery, Store

DIFFERS: Final = 1
"""The exit code where today's reading differs from that of the log."""

_SIGNS: Final = {"-": "red", "+": "green"}


def command(  # noqa: PLR0913 - each is an option of the command
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]…", help="Requests, by the ids that their clients saw."),
    ] = None,
    *,
    format_: Annotated[
        str | None, typer.Option("--format", help="Read them as this format instead.")
    ] = None,
    arguments: Annotated[str | None, typer.Option(help="live or whole.")] = None,
    tools: Annotated[str | None, typer.Option(help="native or prompt.")] = None,
    parse: Annotated[
        bool | None,
        typer.Option("--parse/--no-parse", help="Whether text is parsed.", show_default=False),
    ] = None,
    reasoning: Annotated[str | None, typer.Option(help="How the model marks its thoughts.")] = None,
    events: Annotated[bool, typer.Option("--events", help="Print every event.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Read the whole log again.")] = False,
    since: Annotated[str, typer.Option(help="With --all: only what came since then (1h).")] = "",
    model: Annotated[str, typer.Option(help="With --all: of this model only.")] = "",
    store: Url = None,
) -> None:
    """Read logged streams again, and show what is different now (exit code 1)."""
    given = {
        "format": format_,
        "arguments": arguments,
        "tools": tools,
        "parse": parse,
        "reasoning": reasoning,
    }
    changes = {name: value for name, value in given.items() if value not in (None, "")}
    wanted = [bare_id(one) for one in ids or []]
    if bool(wanted) == all_:
        refuse("say which requests: their ids, or --all", ValueError("ids"))
    try:
        change_options(ModelOptions(), dict(changes))
    except UsageError as exc:
        refuse(str(exc), exc)
    query = RequestQuery(since=moment(since), model=model, limit=MAX_PAGE)
    run = Run(changes, prints_events=events, is_alone=len(wanted) == 1)

    async def work(found: Store) -> None:
        if all_:
            wanted.extend(await _listed(found, query))
        async for detail in _details(found, wanted):
            await run.read(detail)

    reading(store, work)
    run.sum_up()


class Run:
    """Reads requests again and tells what comes of it; *is_alone* where there is but one."""

    def __init__(
        self, changes: dict[str, str | bool], *, prints_events: bool, is_alone: bool
    ) -> None:
        self._changes = changes
        self._prints_events = prints_events
        self._is_alone = is_alone
        self._out = Console(stderr=prints_events)
        self._counts: Counter[str] = Counter()

    async def read(self, detail: RequestDetail) -> None:
        """Read one request again, and show what is different."""
        try:
            read = await replay(detail, **self._changes)
        except UsageError as exc:
            if self._is_alone:
                refuse(str(exc), exc)
            self._counts["skipped"] += 1
            return
        self._counts["different" if read.differences else "same"] += 1
        if self._prints_events:
            for event in read.events:
                typer.echo(_json.encode(event))
        if read.differences or self._is_alone:
            self._show(detail, read)

    def _show(self, detail: RequestDetail, read: Replay) -> None:
        if not self._is_alone:
            say(self._out, f"{detail.row.id}  {detail.row.model}", "bold")
        for difference in read.differences:
            say(self._out, f"{difference.what} (- then, + now)", "bold yellow")
            for line in difference.lines():
                say(self._out, f"  {line}", _SIGNS.get(line[:1], "dim"))
        for complaint in read.complaints if read.differences else []:
            say(self._out, f"not read as a call now: {complaint}", "yellow")
        if not read.differences:
            calls = len(read.now.tool_calls)
            said = f"{len(read.now.text)} characters of text, {calls} calls"
            say(self._out, f"the same as then: {said}", "green")

    def sum_up(self) -> None:
        """Say the sum of a run over several, and end with 1 where anything differs."""
        counts = self._counts
        if not self._is_alone:
            same, different, skipped = (counts[n] for n in ("same", "different", "skipped"))
            kept = f", {skipped} that cannot be read again" if skipped else ""
            words = f"{same + different} read again: {same} the same, {different} different{kept}"
            say(self._out, words, "yellow" if different else "green")
        if counts["different"]:
            raise typer.Exit(DIFFERS)


async def _listed(store: Store, query: RequestQuery) -> list[str]:
    """Return the ids of all requests that *query* is about, the oldest first."""
    ids: list[str] = []
    before = ""
    while True:
        page = await store.requests(replace(query, before=before))
        ids += [row.id for row in page.items]
        if not (before := page.next):
            return ids[::-1]


async def _details(store: Store, ids: list[str]) -> AsyncIterator[RequestDetail]:
    for id_ in ids:
        detail = await store.request(id_)
        if detail is None:
            refuse(f"there is no request {id_!r}", LookupError(id_))
        yield detail
