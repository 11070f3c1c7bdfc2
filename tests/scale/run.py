"""Real Ray Data and real Spark on generated responses: ``make scale``.

Both have to return the rows of a single process, also after one of their workers was killed, and
their throughput for each core may not be much lower. The CPU time of the workers that parse and of
everything else, the engine and what collects its rows, is measured apart. Engines listen on
addresses of their own choice, so the script runs in a network namespace that has nothing but
loopback.
"""

from __future__ import annotations

import fcntl
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

from penstock import ToolCall
from penstock.batch import TableParser
from penstock.batch.engines import spark_mapper, spark_schema
from penstock.formats import get

ROWS = int(os.environ.get("ROWS", "60000"))
CORES = 2
SMALL = 3  # the smaller of two runs has one part in so many; their difference has no start-up in it
LOSS = 0.20

IFF_UP, SIOCSIFFLAGS = 0x1, 0x8914
TOOLS = [
    {
        "name": "write_file",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        },
    }
]
OPTIONS: dict[str, Any] = {"format": "hermes", "tools": TOOLS}
WORDS = ("pipe", "water", "lake", "turbine", "wheel", "light", "the", "to", "and", "turns")


def make_responses(path: Path, rows: int) -> None:
    """Write *rows* responses of about 1 KB: a call in most, prose in some."""
    rng = random.Random(7)
    hermes = get("hermes")

    def make(number: int) -> str:
        prose = " ".join(rng.choice(WORDS) for _ in range(190))
        if number % 4 == 0:
            return prose
        call = ToolCall("", "write_file", {"path": f"{number}.txt", "content": prose})
        return f"Here it is.\n{hermes.render_call(call)}"

    table = pa.table({"id": range(rows), "response": [make(number) for number in range(rows)]})
    pq.write_table(table, path, row_group_size=2_000)


class Killed(TableParser):
    """Kills its own process the first time that it parses a batch from the middle."""

    def __init__(self, marker: str, **options: Any) -> None:
        super().__init__(**options)
        self._marker = Path(marker)

    def __call__(self, table: pa.Table) -> pa.Table:
        """Parse *table*, or die."""
        ids = table.column("id").to_pylist()
        if ids and ids[-1] >= ROWS // SMALL // 2 and not self._marker.exists():
            self._marker.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(table)


# --- the engines ---


def run_alone(path: Path, _: Path) -> list[pa.Table]:
    """Parse in this process, in batches as the engines do."""
    parser = TableParser(**OPTIONS)
    batches = pq.ParquetFile(path).iter_batches(batch_size=2_000)
    return [parser(pa.Table.from_batches([batch])) for batch in batches]


def _rows(tables: list[pa.Table]) -> Iterator[dict[str, Any]]:
    for table in tables:
        yield from table.select(["id", "text", "calls", "outcome"]).to_pylist()


def run_ray(
    path: Path, folder: Path, parser: type[TableParser] = TableParser, workers: int = CORES
) -> list[pa.Table]:
    """Parse with Ray Data."""
    import ray  # noqa: PLC0415 - only this target has it

    if not ray.is_initialized():
        # Two for the parsers; reading needs one as well, or nothing moves.
        ray.init(num_cpus=CORES + 1, include_dashboard=False, log_to_driver=False)
    options = dict(OPTIONS)
    if parser is Killed:
        options["marker"] = str(folder / "ray-killed")
    dataset = ray.data.read_parquet(str(path), override_num_blocks=CORES * 4)
    parsed = dataset.map_batches(
        parser,
        batch_format="pyarrow",
        batch_size=2_000,
        compute=ray.data.ActorPoolStrategy(size=workers),
        fn_constructor_kwargs=options,
    )
    return [ray.get(one) for one in parsed.to_arrow_refs()]


def run_spark(
    path: Path, folder: Path, *, kill: bool = False, workers: int = CORES
) -> list[pa.Table]:
    """Parse with Spark; a task is tried four times."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only this target has it

    spark = (
        SparkSession.builder.master(f"local[{CORES},4]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "2000")
        .config("spark.sql.files.maxPartitionBytes", str(1 << 20))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    frame = spark.read.parquet(str(path))
    if workers == 1:
        frame = frame.coalesce(1)
    mapper = kill_once(str(folder / "spark-killed")) if kill else spark_mapper(**OPTIONS)
    parsed = frame.mapInArrow(mapper, spark_schema(frame))
    return [parsed.toArrow()]


def kill_once(marker: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the mapper of Spark with a parser that kills its process once."""

    def parse_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parser = Killed(marker, **OPTIONS)
        for batch in batches:
            yield parser.parse_batch(batch)

    return parse_batches


# --- the comparison ---


def check_same(name: str, tables: list[pa.Table], expected: list[Any]) -> None:
    """Exit with an error if *tables* have not the *expected* rows, in any order, each once."""
    rows = sorted(_rows(tables), key=lambda row: int(row["id"]))
    for row, other in zip(rows, expected, strict=False):
        if _without_ids(row) != _without_ids(other):
            sys.exit(f"{name}: row {row['id']} differs: {row} is not {other}")
    if len(rows) != len(expected):
        sys.exit(f"{name}: {len(rows)} rows instead of {len(expected)}")
    print(f"{name}: {len(rows):,} rows, the same as one process")


def _without_ids(row: dict[str, Any]) -> dict[str, Any]:
    calls = [{name: value for name, value in call.items() if name != "id"} for call in row["calls"]]
    return {**row, "calls": calls}


class Cost(NamedTuple):
    """What a run took: seconds, and CPU seconds of the workers and of all other processes."""

    seconds: float
    workers: float
    others: float

    def beyond(self, small: Cost) -> Cost:
        """Return the difference to a *small* run: without the start-up."""
        return Cost(*(mine - other for mine, other in zip(self, small, strict=True)))


class Meter:
    """Follows the CPU time of this process and of all that descend from it."""

    EVERY = 0.25
    WORKERS = (b"ray::Map", b"pyspark.daemon", b"pyspark/daemon")

    def __init__(self) -> None:
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._workers: set[int] = set()
        self._own = 0.0  # what looking took
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._first = dict(self._last)
        self._began = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._seconds = time.perf_counter() - self._began
        self._done.set()
        self._thread.join()
        self._look()

    @property
    def cost(self) -> Cost:
        """What it took so far."""
        used = {pid: cpu - self._first.get(pid, 0.0) for pid, cpu in self._last.items()}
        used[os.getpid()] -= self._own
        workers = sum(cpu for pid, cpu in used.items() if pid in self._workers)
        return Cost(self._seconds, workers, sum(used.values()) - workers)

    def _follow(self) -> None:
        while not self._done.wait(self.EVERY):
            self._look()

    def _look(self) -> None:
        began = time.thread_time()
        # A process that ends between two looks counts with what it had used at the first of them.
        for pid in tree_of(os.getpid()):
            try:
                tasks = Path(f"/proc/{pid}/task").iterdir()
                spent = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
                title = Path(f"/proc/{pid}/cmdline").read_bytes()
            except (OSError, IndexError, ValueError):
                continue
            # Threads that have ended are not listed any more.
            self._last[pid] = max(self._last.get(pid, 0.0), spent / 1e9)
            if any(name in title for name in self.WORKERS):
                self._workers.add(pid)
        self._own += time.thread_time() - began


def tree_of(pid: int) -> list[int]:
    """List *pid* and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            children.setdefault(int(parent), []).append(int(entry.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def measure(run: Callable[..., list[pa.Table]], folder: Path, **options: Any) -> Cost:
    """Return what the rows cost that a whole run has more than a small one."""
    costs = []
    for name in ("small.parquet", "all.parquet"):
        with Meter() as meter:
            run(folder / name, folder, **options)
        costs.append(meter.cost)
    return costs[1].beyond(costs[0])


def describe(cost: Cost, workers: int) -> str:
    """Return *cost* in words."""
    rows = ROWS - ROWS // SMALL
    each = f"{rows / cost.seconds / workers:,.0f} rows a second and worker"
    spent = f"{cost.workers / rows * 1e6:.0f} + {cost.others / rows * 1e6:.0f}"
    return f"{each}; µs of CPU time a row, workers + others: {spent}"


def main() -> None:
    """Run everything, and print the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_responses(folder / "all.parquet", ROWS)
        make_responses(folder / "small.parquet", ROWS // SMALL)
        expected = [*_rows(run_alone(folder / "small.parquet", folder))]
        run_alone(folder / "small.parquet", folder)  # once more, so that caches are warm
        alone = measure(run_alone, folder)
        print(f"one process: {describe(alone, 1)}", flush=True)
        engines: dict[str, tuple[Callable[..., list[pa.Table]], dict[str, Any]]] = {
            "Ray Data": (run_ray, {"parser": Killed}),
            "Spark": (run_spark, {"kill": True}),
        }
        slow = []
        for engine, (run, killed) in engines.items():
            check_same(engine, run(folder / "small.parquet", folder), expected)
            check_same(
                f"{engine}, a worker killed",
                run(folder / "small.parquet", folder, **killed),
                expected,
            )
            if not list(folder.glob("*-killed")):
                sys.exit(f"{engine}: no worker was killed")
            for marker in folder.glob("*-killed"):
                marker.unlink()
            for workers in (1, CORES):
                cost = measure(run, folder, workers=workers)
                share = alone.seconds / cost.seconds / workers
                print(
                    f"{engine}, {workers} of {CORES} cores: {describe(cost, workers)}; "
                    f"{share:.0%} of one process",
                    flush=True,
                )
                # With a worker on each core, they share these with the engine.
                if workers == 1 and share < 1 - LOSS:
                    slow.append(engine)
        if slow:
            sys.exit(f"more than {LOSS:.0%} slower than one process: {', '.join(slow)}")


def enter_namespace() -> None:
    """Start this script again in a network namespace of its own, and switch its loopback on."""
    if "SCALE_NAMESPACE" not in os.environ:
        command = ["unshare", "--net", sys.executable, *sys.argv]
        environment = {**os.environ, "SCALE_NAMESPACE": "1", "RAY_USAGE_STATS_ENABLED": "0"}
        environment["PYSPARK_PYTHON"] = sys.executable
        sys.exit(subprocess.run(command, env=environment, check=False).returncode)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))


if __name__ == "__main__":
    enter_namespace()
    main()
