"""A batch job: parts of an input, parsed by worker processes, joined into one output.

Every part becomes a file in a folder beside the output, and the output exists only when all of them
are there. A job that was killed is resumed from this folder: no row is lost, and none is there
twice.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

import penstock
from penstock import _json
from penstock.batch.sources import (
    BatchOptions,
    BatchPart,
    BatchSource,
    Kind,
    LinesSource,
    LogSource,
    ParquetSource,
    PartSummary,
    PartWorker,
    kind_of_file,
)
from penstock.errors import JSONParseError, PenstockError, UsageError

MAX_DEATHS: Final = 2
"""How often the worker of a part may die, while it has no other part, before the job gives up."""

WAITING_PER_WORKER: Final = 2
"""How many parts are read ahead for each worker: enough that none waits, little memory."""

_MANIFEST: Final = "job.json"


class BatchError(PenstockError):
    """A job that cannot be finished; what is done is kept, and the job can be resumed."""


class Progress(Struct, frozen=True):
    """How far a job is: its *position* of *size* in the input, if known, and the counts so far."""

    position: int
    size: int | None
    summary: PartSummary


class BatchJob:
    """Parses *source* with *options* and writes the results to the file *output*.

    With *resume*, parts that an earlier run finished are kept; with *overwrite*, an existing output
    and what an earlier run left are replaced. *workers* is the number of processes.
    """

    def __init__(
        self,
        source: BatchSource,
        output: Path,
        options: BatchOptions,
        *,
        workers: int | None = None,
        resume: bool = False,
        overwrite: bool = False,
    ) -> None:
        self._source = source
        self._output = output
        self._options = options
        self._workers = workers or os.cpu_count() or 1
        self._target: Kind = kind_of_file(output)
        if output.name.lower().endswith(".gz"):
            raise UsageError("The output cannot be compressed: use .jsonl or .parquet.")
        self.folder = output.with_name(f"{output.name}.parts")
        self._prepare(resume=resume, overwrite=overwrite)

    def run(self, on_progress: Callable[[Progress], None] | None = None) -> PartSummary:
        """Do the work, and return the counts; *on_progress* is called after each part."""
        total = PartSummary()
        number = 0
        try:
            for part, summary in self._parse_parts():
                total.add(summary)
                number += 1
                if on_progress is not None:
                    on_progress(Progress(part.position, self._source.size, total))
            self._join(number)
        except OSError as exc:  # A full disk, for example.
            raise BatchError(
                f"{exc.strerror or exc}: finished parts are kept in {self.folder}, "
                "continue with --resume."
            ) from exc
        return total

    # --- the folder of parts ---

    def _prepare(self, *, resume: bool, overwrite: bool) -> None:
        if self._source.is_file(self._output):
            raise UsageError(f"{self._output} is the input: write the results to another file.")
        if self._output.exists() and not overwrite:
            raise UsageError(f"{self._output} exists already: pass --overwrite to replace it.")
        worker = self._make_worker()  # An invalid option is an error before anything is written.
        if isinstance(self._source, ParquetSource):
            worker.check_schema(self._source.schema)
        elif isinstance(self._source, LinesSource):
            self._source.check_fields(self._options)
        if self.folder.exists() and not resume:
            self._remove_parts(overwrite=overwrite)
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / _MANIFEST
        earlier = _read_manifest(file)
        if isinstance(self._source, LogSource) and earlier is not None:
            self._source.restrict(earlier["input"])
        manifest = {
            "version": penstock.__version__,
            "input": self._source.fingerprint(),
            "options": msgspec.to_builtins(self._options),
        }
        if earlier is not None:
            self._compare_manifests(earlier, manifest)
        else:  # Parts without a manifest may be of another input.
            for part in self.folder.glob("part-*"):
                part.unlink(missing_ok=True)
            draft = file.with_name(f".{_MANIFEST}")
            draft.write_bytes(_json.encode(manifest))
            draft.replace(file)
        for draft in self.folder.glob(".part-*"):
            draft.unlink(missing_ok=True)

    def _remove_parts(self, *, overwrite: bool) -> None:
        """Remove what an earlier run left, and nothing else."""
        if not overwrite:
            raise UsageError(
                f"{self.folder} has parts of an earlier run: pass --resume to continue it, "
                "or --overwrite to start again."
            )
        if not (self.folder / _MANIFEST).exists() and any(self.folder.iterdir()):
            raise UsageError(f"{self.folder} is not from an earlier run: choose another output.")
        shutil.rmtree(self.folder)

    def _compare_manifests(self, earlier: dict[str, Any], manifest: dict[str, Any]) -> None:
        changed = [name for name, value in manifest.items() if earlier.get(name) != value]
        if changed:
            raise UsageError(
                f"The earlier run in {self.folder} had another {' and '.join(changed)}: "
                "pass --overwrite to start again."
            )

    def _make_worker(self) -> PartWorker:
        url = self._source.url if isinstance(self._source, LogSource) else ""
        return PartWorker(self._options, self._source.kind, self._target, url)

    def _path(self, number: int) -> Path:
        return self.folder / f"part-{number:06}.{self._target}"

    def _read_finished(self, number: int) -> PartSummary | None:
        """Return the counts of a part that an earlier run finished."""
        path = self._path(number)
        if not path.exists():
            return None
        try:
            found: PartSummary = _json.decode_as(
                path.with_suffix(".json").read_bytes(), PartSummary
            )
        except (OSError, JSONParseError):
            return None
        return found

    # --- parsing ---

    def _parse_parts(self) -> Iterator[tuple[BatchPart, PartSummary]]:
        pool = PartPool(self._make_worker, self._workers)
        try:
            for part in self._source.parts():
                if (finished := self._read_finished(part.number)) is not None:
                    yield part, finished
                    continue
                yield from pool.submit(part, self._path(part.number))
            yield from pool.drain()
        finally:
            pool.close()

    def _join(self, number: int) -> None:
        """Join all parts to the output, and remove them."""
        draft = self._output.with_name(f".{self._output.name}.draft")
        paths = [self._path(one) for one in range(number)]
        try:
            if self._target == "parquet":
                _join_parquet(paths, draft, self._make_worker().make_empty_table(self._source))
            else:
                _join_lines(paths, draft)
            draft.replace(self._output)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        shutil.rmtree(self.folder)


def _read_manifest(file: Path) -> dict[str, Any] | None:
    """Return the manifest of an earlier run; None if there is none that can be read."""
    try:
        found = _json.decode(file.read_bytes())
    except (FileNotFoundError, JSONParseError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("input"), dict) else None


def open_source(input_: Path) -> BatchSource:
    """Return the file *input_* as the input of a job; raise `UsageError`."""
    kind = kind_of_file(input_)
    if not input_.is_file():
        raise UsageError(f"There is no file {input_}.")
    return ParquetSource(input_) if kind == "parquet" else LinesSource(input_)


def _join_lines(paths: list[Path], draft: Path) -> None:
    """Write the lines in *paths* to *draft*."""
    with draft.open("wb") as out:
        for path in paths:
            with path.open("rb") as file:
                shutil.copyfileobj(file, out, 1 << 20)
        out.flush()
        os.fsync(out.fileno())


def _join_parquet(paths: list[Path], draft: Path, empty: Any) -> None:
    """Write the tables in *paths* to *draft*, one at a time; *empty* has their columns."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - it is an extra

    with pq.ParquetWriter(draft, empty.schema, compression="zstd") as writer:
        for path in paths:
            writer.write_table(pq.read_table(path))


# --- worker processes -----------------------------------------------------------------------------


class PartPool:
    """Worker processes that parse parts; with one worker, this process does it.

    A worker may die: the system ends processes that use too much memory. Its part is then parsed
    again. Which of the parts in progress it was is not known, so they run alone, one by one.
    """

    def __init__(self, make_worker: Callable[[], PartWorker], workers: int) -> None:
        self._make_worker = make_worker
        self._workers = workers
        self._here = make_worker() if workers == 1 else None
        self._executor: ProcessPoolExecutor | None = None
        self._running: dict[Future[PartSummary], tuple[BatchPart, Path]] = {}

    def submit(self, part: BatchPart, path: Path) -> Iterator[tuple[BatchPart, PartSummary]]:
        """Start to parse *part*; yield parts that are finished, waiting while too many run."""
        if self._here is not None:
            yield part, self._here.run(part, path)
            return
        try:
            self._start(part, path)
        except BrokenProcessPool:
            yield from self._recover([(part, path)])
        while len(self._running) >= self._workers * WAITING_PER_WORKER:
            yield from self._collect()

    def drain(self) -> Iterator[tuple[BatchPart, PartSummary]]:
        """Yield the parts that are still running, as they finish."""
        while self._running:
            yield from self._collect()

    def close(self) -> None:
        """End the worker processes."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None

    def _start(self, part: BatchPart, path: Path, workers: int = 0) -> Future[PartSummary]:
        if self._executor is None:
            self._executor = ProcessPoolExecutor(
                workers or self._workers,
                get_context("spawn"),  # A fork of a process with threads may hang.
                initializer=_start_worker,
                initargs=(self._make_worker().setup,),
            )
        future = self._executor.submit(_run_part, part, path)
        self._running[future] = (part, path)
        return future

    def _collect(self) -> Iterator[tuple[BatchPart, PartSummary]]:
        """Wait until a part is finished, and yield all that are."""
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        lost: list[tuple[BatchPart, Path]] = []
        for future in done:
            part, path = self._running.pop(future)
            try:
                summary = future.result()
            except BrokenProcessPool:
                lost.append((part, path))
            else:
                yield part, summary
        if lost:
            yield from self._recover(lost)

    def _recover(
        self, lost: list[tuple[BatchPart, Path]]
    ) -> Iterator[tuple[BatchPart, PartSummary]]:
        """Parse the *lost* parts and all that were running when a worker died, one by one."""
        lost += self._running.values()
        self._running.clear()
        for part, path in sorted(lost, key=lambda one: one[0].number):
            yield part, self._run_alone(part, path)
        self.close()

    def _run_alone(self, part: BatchPart, path: Path) -> PartSummary:
        for _ in range(MAX_DEATHS):
            self.close()
            future = self._start(part, path, workers=1)
            del self._running[future]
            try:
                return future.result()
            except BrokenProcessPool:
                continue
        rows = f"{part.first + 1:,} to {part.first + part.rows:,}"
        raise BatchError(
            f"The worker that parsed the rows {rows} died {MAX_DEATHS} times, as it does when "
            "memory runs out. The other parts are kept: continue with --resume."
        )


_worker: PartWorker | None = None


def _start_worker(setup: tuple[BatchOptions, Kind, Kind, str]) -> None:
    global _worker  # noqa: PLW0603 - the one place to keep what a process of a pool has prepared
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _worker = PartWorker(*setup)


def _end_with_parent() -> None:
    """End this process when the job is killed: it would wait for parts forever.

    It would also finish its part, perhaps into the folder of the next run.
    """
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_part(part: BatchPart, path: Path) -> PartSummary:
    assert _worker is not None  # noqa: S101 - the initializer ran
    return _worker.run(part, path)
