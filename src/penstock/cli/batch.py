"""``penstock batch``: parse a file of responses, or the log of a gateway, on all cores."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from penstock import _json
from penstock.batch import OUTCOMES, BatchError, BatchJob, BatchOptions, PartSummary, open_source
from penstock.batch import Progress as BatchProgress
from penstock.batch.sources import BatchSource, LogSource, kind_of_file
from penstock.cli import describe_install
from penstock.cli.output import (
    Fenced,
    ReasoningName,
    ToolsFile,
    Trim,
    argument,
    complete_values,
    option,
    parse_time,
    read_tools_file,
    refuse,
    say,
)
from penstock.errors import PenstockError, UsageError

LOG: Final = "log"
"""The input that means the log of the gateway."""

FAILED: Final = 1
"""The exit code of a job that could not be finished and can be resumed."""

_STYLES: Final = {"calls": "green", "unread": "yellow", "incomplete": "yellow", "invalid": "red"}


def command(  # noqa: PLR0913 - each is an option of the command
    input_: Annotated[
        str,
        argument(
            "A .jsonl, .jsonl.gz or .parquet file; `log` is the log of the gateway.",
            metavar="INPUT",
        ),
    ],
    *,
    output: Annotated[Path, option("The file to write: .jsonl or .parquet.", "--output", "-o")],
    format_: Annotated[
        str,
        option(
            "Format of the calls; for the log: the one that each request was parsed with.",
            "--format",
            autocompletion=complete_values("format"),
        ),
    ] = "auto",
    tools: ToolsFile = None,
    column: Annotated[str, option("Column or field of the responses.")] = "response",
    tools_column: Annotated[
        str | None, option("Column with the tools of each row.", shown="none")
    ] = None,
    finish_column: Annotated[
        str | None,
        option(
            "Column with the finish reason: a call cut by `length` is never repaired.", shown="none"
        ),
    ] = None,
    prefix: Annotated[str, option("Put this before the names of the results.")] = "",
    reasoning: ReasoningName = None,
    repair: Annotated[bool, option("Repair broken calls.", "--repair")] = False,
    trim: Trim = False,
    fenced: Fenced = False,
    spans: Annotated[bool, option("Write which characters belong to which block.")] = True,
    workers: Annotated[
        int | None, option("Number of processes.", shown="one for each core", min=1)
    ] = None,
    resume: Annotated[bool, option("Continue a job that was interrupted.", "--resume")] = False,
    overwrite: Annotated[bool, option("Replace an existing output.", "--overwrite")] = False,
    since: Annotated[str, option("For the log: only requests since then (1h).")] = "",
    store: Annotated[
        str | None, option("For the log: URL or file of the database.", shown="as configured")
    ] = None,
    quiet: Annotated[bool, option("Do not show the progress.", "--quiet")] = False,
) -> None:
    """Parse many responses: a JSONL or Parquet file, or the log of the gateway."""
    options = BatchOptions(
        format=format_,
        tools=msgspec.to_builtins(read_tools_file(tools)),
        column=column,
        tools_column=tools_column,
        finish_column=finish_column,
        prefix=prefix,
        spans=spans,
        reasoning=reasoning,
        repair=repair,
        trim=trim,
        fenced="calls" if fenced else "text",
    )
    err = Console(stderr=True)
    job: BatchJob | None = None
    try:
        source = _open(input_, output, store, since, has_tools=tools is not None)
        job = BatchJob(source, output, options, workers=workers, resume=resume, overwrite=overwrite)
        summary = _run(job, source, Console(stderr=True, quiet=quiet))
    except BatchError as exc:
        refuse(str(exc), exc, code=FAILED)
    except (PenstockError, OSError) as exc:
        refuse(str(exc), exc)
    except KeyboardInterrupt:
        if job is None:
            # 130 is 128 + SIGINT, as shells report it.
            refuse("interrupted; nothing was written", code=130)
        refuse(f"interrupted; continue with the same command and --resume ({job.folder})", code=130)
    _show_summary(err, summary, output)
    counts: dict[str, int] = {"rows": summary.rows}
    counts |= {one: summary.outcomes.get(one, 0) for one in OUTCOMES}
    counts |= {"tool_calls": summary.calls, "repaired_rows": summary.repaired}
    typer.echo(_json.encode(counts))


def _open(
    input_: str, output: Path, store: str | None, since: str, *, has_tools: bool
) -> BatchSource:
    """Return the input; the extras that its kind or that of the output needs are there."""
    path = Path(input_)
    is_log = input_ == LOG
    kinds = {kind_of_file(output)} | (set() if is_log else {kind_of_file(path)})
    if "parquet" in kinds and find_spec("pyarrow") is None:
        raise UsageError(f"Parquet needs pyarrow: {describe_install('batch')}")
    if not is_log:
        if store or since:
            raise UsageError("--store and --since are for the log: pass `log` as the input.")
        return open_source(path)
    if has_tools:
        raise UsageError("Requests in the log have their own tools: --tools is not for the log.")
    if find_spec("sqlalchemy") is None:
        raise UsageError(f"The log needs sqlalchemy: {describe_install('cli,server')}")
    return _open_log(store, since)


def _open_log(store: str | None, since: str) -> LogSource:
    from penstock.cli.logs import store_errors  # noqa: PLC0415 - it needs an extra
    from penstock.cli.replay import list_ids  # noqa: PLC0415
    from penstock.store import MAX_PAGE, RequestQuery, Store  # noqa: PLC0415

    query = RequestQuery(since=parse_time(since), limit=MAX_PAGE)
    with store_errors(store) as address:

        async def read() -> list[str]:
            opened = Store(address, create=False)
            try:
                return await list_ids(opened, query)
            finally:
                await opened.close()

        return LogSource(address, asyncio.run(read()))


def _run(job: BatchJob, source: BatchSource, out: Console) -> PartSummary:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=out, disable=not out.is_terminal) as bar:
        task = bar.add_task("parsing", total=source.size, rows=0)

        def advance(progress: BatchProgress) -> None:
            bar.update(task, completed=progress.position, rows=progress.summary.rows)

        return job.run(advance)


def _show_summary(out: Console, summary: PartSummary, output: Path) -> None:
    """Print the counts for people; programs read them from stdout."""
    say(out, f"{summary.rows:,} rows in {output}", "bold")
    for outcome in OUTCOMES:
        if number := summary.outcomes.get(outcome, 0):
            share = number / max(summary.rows, 1)
            say(out, f"  {outcome:<10} {number:>10,}  {share:6.1%}", _STYLES.get(outcome, ""))
    counts = f"tool calls: {summary.calls:,}, rows with a repaired call: {summary.repaired:,}"
    say(out, f"  {counts}", "dim")
