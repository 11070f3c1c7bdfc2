"""``penstock replay``: parse logged streams again with the current version.

One request is shown with all its differences. Several, or a part of the log, are a regression test:
a line for each that differs, and a summary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated, Final

import typer
from msgspec.structs import replace
from rich.console import Console

from penstock import _json
from penstock.cli.admin import StoreUrl
from penstock.cli.logs import bare_id, run_with_store
from penstock.cli.output import argument, complete_values, option, parse_time, refuse, say
from penstock.config.routes import ModelOptions
from penstock.errors import UsageError
from penstock.gateway.replay import Replay, change_options, replay
from penstock.store import MAX_PAGE, RequestDetail, RequestQuery, Store

DIFFERS: Final = 1
"""The exit code if a response is parsed differently now."""

_SIGNS: Final = {"-": "red", "+": "green"}


def command(  # noqa: PLR0913 - each is an option of the command
    ids: Annotated[
        list[str] | None, argument("Requests, by the ids that clients received.", metavar="[ID]…")
    ] = None,
    *,
    format_: Annotated[
        str | None,
        option(
            "Parse calls in this format instead.",
            "--format",
            autocompletion=complete_values("format"),
        ),
    ] = None,
    arguments: Annotated[str | None, option("Parse calls live or whole instead.")] = None,
    tools: Annotated[
        str | None, option("Parse as if tools were native or in the prompt instead.")
    ] = None,
    parse: Annotated[bool | None, option("Whether text is parsed.", "--parse/--no-parse")] = None,
    reasoning: Annotated[str | None, option("How the model marks reasoning instead.")] = None,
    events: Annotated[bool, option("Print all events.", "--events")] = False,
    all_: Annotated[bool, option("Replay the whole log.", "--all")] = False,
    since: Annotated[str, option("With --all: only requests since then (1h).")] = "",
    model: Annotated[str, option("With --all: only requests for this model.")] = "",
    store: StoreUrl = None,
) -> None:
    """Parse logged streams again, and print what is different now (exit code 1)."""
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
        refuse("pass either the ids of requests or --all")
    try:
        change_options(ModelOptions(), dict(changes))
    except UsageError as exc:
        refuse(str(exc), exc)
    query = RequestQuery(since=parse_time(since), model=model, limit=MAX_PAGE)
    report = ReplayReport(changes, prints_events=events, is_single=len(wanted) == 1)

    async def work(opened: Store) -> None:
        if all_:
            wanted.extend(await list_ids(opened, query))
        async for detail in _read_details(opened, wanted):
            await report.add(detail)

    run_with_store(store, work)
    # A CI job can use --all as a regression test: hence the exit code.
    report.finish()


class ReplayReport:
    """Replays requests and prints the differences; *is_single* if there is only one request."""

    def __init__(
        self, changes: dict[str, str | bool], *, prints_events: bool, is_single: bool
    ) -> None:
        self._changes = changes
        self._prints_events = prints_events
        self._is_single = is_single
        self._out = Console(stderr=prints_events)
        self._counts: Counter[str] = Counter()

    async def add(self, detail: RequestDetail) -> None:
        """Replay one request, and print what is different."""
        try:
            replayed = await replay(detail, **self._changes)
        except UsageError as exc:
            if self._is_single:
                refuse(str(exc), exc)
            self._counts["skipped"] += 1
            return
        self._counts["different" if replayed.differences else "same"] += 1
        if self._prints_events:
            for event in replayed.events:
                typer.echo(_json.encode(event))
        if replayed.differences or self._is_single:
            self._show(detail, replayed)

    def _show(self, detail: RequestDetail, replayed: Replay) -> None:
        if not self._is_single:
            say(self._out, f"{detail.row.id}  {detail.row.model}", "bold")
        for difference in replayed.differences:
            say(self._out, f"{difference.what} (- then, + now)", "bold yellow")
            for line in difference.lines():
                say(self._out, f"  {line}", _SIGNS.get(line[:1], "dim"))
        for complaint in replayed.complaints if replayed.differences else []:
            say(self._out, f"not parsed as a call now: {complaint}", "yellow")
        if not replayed.differences:
            calls = len(replayed.now.tool_calls)
            counts = f"{len(replayed.now.text)} characters of text, {calls} calls"
            say(self._out, f"no difference: {counts}", "green")

    def finish(self) -> None:
        """Print the summary of several requests; exit with 1 if any differs."""
        counts = self._counts
        if not self._is_single:
            same, different, skipped = (counts[n] for n in ("same", "different", "skipped"))
            rest = f", {skipped} that cannot be replayed" if skipped else ""
            summary = f"{same + different} replayed: {same} the same, {different} different{rest}"
            say(self._out, summary, "yellow" if different else "green")
        if counts["different"]:
            raise typer.Exit(DIFFERS)


async def list_ids(store: Store, query: RequestQuery) -> list[str]:
    """Return the ids of all requests that match *query*, oldest first."""
    ids: list[str] = []
    before = ""
    while True:
        page = await store.requests(replace(query, before=before))
        ids += [row.id for row in page.items]
        if not (before := page.next):
            return ids[::-1]


async def _read_details(store: Store, ids: list[str]) -> AsyncIterator[RequestDetail]:
    for id_ in ids:
        detail = await store.request(id_)
        if detail is None:
            refuse(f"there is no request {id_!r}; `penstock logs list` shows those that are stored")
        yield detail
