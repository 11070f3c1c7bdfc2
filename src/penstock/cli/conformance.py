"""``penstock conformance``: the conformance suite, for penstock, other parsers and servers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from penstock.cli.output import option, refuse, say, show_json
from penstock.conformance.suite import SUITES, WAYS, Row, load_cases, run_suite
from penstock.errors import PenstockError
from penstock.testing.drivers import DRIVERS, make_driver
from penstock.testing.server_check import CHECKED_APIS, check_server

SHOWN: Final = 3
"""How many failed cases are shown for each format."""

_SERVER: Final = "server"


def command(  # noqa: PLR0913 - each is an option of the command
    *,
    driver: Annotated[
        str, option(f"What is tested: {', '.join(DRIVERS)} or {_SERVER}.")
    ] = "penstock",
    suite: Annotated[list[str] | None, option(f"Suites: {', '.join(SUITES)}.", shown="all")] = None,
    format_: Annotated[list[str] | None, option("Formats.", "--format", shown="all")] = None,
    limit: Annotated[
        int, option("At most this many cases for each format.", shown="all", min=0)
    ] = 0,
    failures: Annotated[
        int, option("How many failed cases are shown for each format.", min=0)
    ] = SHOWN,
    url: Annotated[str, option(f"Base URL of the server, for --driver {_SERVER}.")] = "",
    model: Annotated[str, option("Model of the server.", shown="its first")] = "",
    api: Annotated[
        list[str] | None, option(f"APIs of the server: {', '.join(CHECKED_APIS)}.", shown="all")
    ] = None,
    key_file: Annotated[
        Path | None, option("File with the key of the server.", shown="no key")
    ] = None,
    json_: Annotated[bool, option("Print one JSON object per row.", "--json")] = False,
) -> None:
    """Run the conformance suite: for penstock, for other parsers, or for a server.

    It prints how many cases pass, and exits with 1 if one fails.

    Each case is parsed whole, one character at a time, and at random cuts. With --driver server,
    the streams of a running server are checked against the rules of its APIs.
    """
    out = Console()
    try:
        if driver == _SERVER:
            # From a file: other users of the machine can read a command line.
            key = key_file.read_text("utf-8").strip() if key_file else ""
            has_failed = _show_server(out, url, model, api or [], key, as_json=json_)
        else:
            if driver not in DRIVERS:
                known = ", ".join((*DRIVERS, _SERVER))
                refuse(f"unknown driver {driver!r}: the drivers are {known}")
            cases = load_cases(suite or SUITES, format_ or (), limit)
            found = make_driver(driver)
            rows = run_suite(found, cases)
            if not rows:
                refuse(f"{found.name} has no parser for these cases")
            _show_rows(out, found.name, rows, failures, as_json=json_)
            has_failed = any(row.failed for row in rows)
    except PenstockError as exc:
        refuse(str(exc), exc)
    except OSError as exc:
        refuse(f"cannot read the key in {key_file}: {exc.strerror}", exc)
    if has_failed:
        raise typer.Exit(1)


def _show_rows(out: Console, name: str, rows: list[Row], failures: int, *, as_json: bool) -> None:
    if as_json:
        show_json(out, rows)
        return
    columns = ("passed", *WAYS)
    say(out, f"{name}: {sum(row.all_ways for row in rows)} of {_count(rows)} cases pass", "bold")
    say(out, f"{'suite':<10} {'format':<20} " + " ".join(f"{one:>12}" for one in columns), "dim")
    for row in rows:
        say(out, f"{row.suite:<10} {row.format:<20} {_format_counts([row])}", _style([row]))
        for line in row.failed[:failures]:
            say(out, f"    {line}", "dim")
        if 0 < failures < len(row.failed):
            say(out, f"    and {len(row.failed) - failures} more", "dim")
    say(out, f"{'all':<31} {_format_counts(rows)}", f"bold {_style(rows)}")


def _count(rows: list[Row]) -> int:
    return sum(row.cases for row in rows)


def _format_counts(rows: list[Row]) -> str:
    columns: list[list[int | None]] = [[row.all_ways for row in rows]]
    columns += [[row.passed[way] for row in rows] for way in range(len(WAYS))]
    return " ".join(f"{_format_count(column, _count(rows)):>12}" for column in columns)


def _format_count(column: list[int | None], total: int) -> str:
    """Return the sum of *column*, or a dash if the driver does not support this way."""
    counts = [one for one in column if one is not None]
    return f"{sum(counts)} / {total}" if len(counts) == len(column) else "-"


def _style(rows: list[Row]) -> str:
    return "red" if any(row.failed for row in rows) else "green"


def _show_server(
    out: Console, url: str, model: str, names: list[str], key: str, *, as_json: bool
) -> bool:
    """Print the results for a server; return whether one failed."""
    if not url:
        raise typer.BadParameter(f"--driver {_SERVER} needs --url")
    results: list[Any] = []
    for result in check_server(url, model, names, key):
        results.append(result)
        if as_json:
            show_json(out, [result])
            continue
        verdict = "fails" if result.problems else result.note or "passes"
        say(out, f"{result.api:<18} {result.request:<22} {verdict}", _style_result(result))
        for problem in result.problems:
            say(out, f"    {problem}", "dim")
    return any(result.problems for result in results)


def _style_result(result: Any) -> str:
    if result.problems:
        return "red"
    return "dim" if result.note else "green"
