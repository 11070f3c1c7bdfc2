from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from batch.samples import RESPONSES, TOOLS, read_lines, write_lines
from penstock.batch import BatchError, BatchJob, BatchOptions, Progress, open_source
from penstock.batch import sources as source_module
from penstock.batch.sources import BatchPart, LogSource, PartSummary, PartWorker
from penstock.errors import UsageError

OPTIONS = BatchOptions(tools=TOOLS)
DEADLINE = 120.0


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "PART_ROWS", 7)


def run(source: Path, output: Path, options: BatchOptions = OPTIONS, **flags: Any) -> PartSummary:
    flags.setdefault("workers", 1)
    return BatchJob(open_source(source), output, options, **flags).run()


def test_lines_become_lines_in_order_with_their_fields(tmp_path: Path) -> None:
    given = write_lines(tmp_path / "in.jsonl", 40)
    summary = run(tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    rows = read_lines(tmp_path / "out.jsonl")
    assert [row["id"] for row in rows] == [one["id"] for one in given]
    assert [row["outcome"] for row in rows] == [RESPONSES[at % 6][1] for at in range(40)]
    assert rows[1]["calls"][0]["arguments"] == {"path": "å"}
    assert rows[2]["reasoning"] == "Two."
    assert "response" not in rows[0]
    assert summary.rows == 40
    assert summary.outcomes == {"calls": 14, "text": 13, "unread": 13}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_processes_give_the_same_lines_as_one(tmp_path: Path) -> None:
    write_lines(tmp_path / "in.jsonl", 40)
    run(tmp_path / "in.jsonl", tmp_path / "one.jsonl")
    run(tmp_path / "in.jsonl", tmp_path / "two.jsonl", workers=2)
    assert without_ids(tmp_path / "one.jsonl") == without_ids(tmp_path / "two.jsonl")


def without_ids(path: Path) -> list[dict[str, Any]]:
    rows = read_lines(path)
    for row in rows:
        for call in row["calls"]:
            assert call.pop("id")
    return rows


def test_a_compressed_file_is_read(tmp_path: Path) -> None:
    write_lines(tmp_path / "in.jsonl", 20)
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress((tmp_path / "in.jsonl").read_bytes()))
    assert run(tmp_path / "in.jsonl.gz", tmp_path / "out.jsonl").rows == 20


def test_lines_that_cannot_be_parsed_are_kept_and_named(tmp_path: Path) -> None:
    lines = ["", "no json", "[1]", '{"id": 1}', '{"response": 7}', '{"response": "x"}', '{"a": 1']
    (tmp_path / "in.jsonl").write_bytes("\n".join(lines).encode() + b"\n\xff\xfe\n")
    summary = run(tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    rows = read_lines(tmp_path / "out.jsonl")
    assert summary.outcomes == {"invalid": 6, "text": 1}
    assert [(row["outcome"], row["text"]) for row in rows] == [
        ("invalid", "no json"),
        ("invalid", "[1]"),
        ("invalid", ""),
        ("invalid", "7"),
        ("text", "x"),
        ("invalid", '{"a": 1'),
        ("invalid", "��"),
    ]
    assert rows[0]["error"].startswith("line 2 is not JSON")
    assert rows[2]["error"] == "line 4 has no field 'response'"
    assert rows[2]["id"] == 1
    assert rows[5]["error"].startswith("line 7 is not JSON")


def test_a_field_with_the_name_of_a_result_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"response": "x", "error": "mine"}\n')
    with pytest.raises(UsageError, match=r"'error' of line 1 exists already.*--prefix"):
        run(tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    options = BatchOptions(prefix="parsed_")
    run(tmp_path / "in.jsonl", tmp_path / "out.jsonl", options, overwrite=True)
    (row,) = read_lines(tmp_path / "out.jsonl")
    assert (row["error"], row["parsed_text"]) == ("mine", "x")


@pytest.mark.parametrize("rows", [0, 1, 7, 20])
@pytest.mark.parametrize("source", ["jsonl", "parquet"])
@pytest.mark.parametrize("target", ["jsonl", "parquet"])
def test_every_kind_of_file_becomes_every_other(
    tmp_path: Path, source: str, target: str, rows: int
) -> None:
    given = write_lines(tmp_path / "in.jsonl", rows)
    if source == "parquet":
        table = pa.table(
            {
                "id": pa.array([one["id"] for one in given], pa.int64()),
                "response": pa.array([one["response"] for one in given], pa.string()),
            }
        )
        pq.write_table(table, tmp_path / "in.parquet", row_group_size=5)
    output = tmp_path / f"out.{target}"
    summary = run(tmp_path / f"in.{source}", output)
    if target == "jsonl":
        written = read_lines(output)
        ids = [row["id"] for row in written]
    else:
        written = pq.read_table(output).to_pylist()
        kept = [row["id"] if "id" in row else json.loads(row["input"])["id"] for row in written]
        ids = kept
    assert ids == [one["id"] for one in given]
    assert [row["outcome"] for row in written] == [RESPONSES[at % 6][1] for at in range(rows)]
    assert summary.calls == sum(len(row["calls"]) for row in written)


# --- resuming ---


def stop_after(parts: int) -> Any:
    def progress(_: Progress, seen: list[int] = [0]) -> None:  # noqa: B006 - it counts
        seen[0] += 1
        if seen[0] >= parts:
            raise KeyboardInterrupt

    return progress


def test_an_interrupted_job_is_resumed_without_parsing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines(tmp_path / "in.jsonl", 40)
    run(tmp_path / "in.jsonl", tmp_path / "whole.jsonl")
    output = tmp_path / "out.jsonl"
    with pytest.raises(KeyboardInterrupt):
        BatchJob(open_source(tmp_path / "in.jsonl"), output, OPTIONS, workers=1).run(stop_after(3))
    assert not output.exists()
    with pytest.raises(UsageError, match=r"pass --resume to continue it, or --overwrite"):
        run(tmp_path / "in.jsonl", output)
    parsed: list[int] = []
    run_part = PartWorker.run

    def count(self: PartWorker, part: BatchPart, path: Path) -> PartSummary:
        parsed.append(part.number)
        return run_part(self, part, path)

    monkeypatch.setattr(PartWorker, "run", count)
    summary = run(tmp_path / "in.jsonl", output, resume=True)
    assert parsed == [3, 4, 5]
    assert summary.rows == 40
    assert without_ids(output) == without_ids(tmp_path / "whole.jsonl")


@pytest.mark.parametrize("change", ["input", "options"])
def test_a_job_is_not_resumed_with_another_input_or_other_options(
    tmp_path: Path, change: str
) -> None:
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write_lines(source, 40)
    with pytest.raises(KeyboardInterrupt):
        BatchJob(open_source(source), output, OPTIONS, workers=1).run(stop_after(2))
    options = BatchOptions(tools=TOOLS, repair=True) if change == "options" else OPTIONS
    if change == "input":
        write_lines(source, 41)
    with pytest.raises(UsageError, match=f"had another {change}"):
        run(source, output, options, resume=True)
    assert run(source, output, options, overwrite=True).rows in (40, 41)


def test_an_existing_output_is_not_replaced_unasked(tmp_path: Path) -> None:
    write_lines(tmp_path / "in.jsonl", 3)
    run(tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    with pytest.raises(UsageError, match="pass --overwrite to replace it"):
        run(tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    assert run(tmp_path / "in.jsonl", tmp_path / "out.jsonl", overwrite=True).rows == 3


@pytest.mark.parametrize("name", ["in.jsonl", "link.jsonl"])
def test_the_input_is_never_replaced(tmp_path: Path, name: str) -> None:
    write_lines(tmp_path / "in.jsonl", 3)
    (tmp_path / "link.jsonl").symlink_to("in.jsonl")
    before = (tmp_path / "in.jsonl").read_bytes()
    with pytest.raises(UsageError, match="is the input"):
        run(tmp_path / "in.jsonl", tmp_path / name, overwrite=True)
    assert (tmp_path / "in.jsonl").read_bytes() == before


def test_a_folder_of_something_else_is_never_removed(tmp_path: Path) -> None:
    write_lines(tmp_path / "in.jsonl", 3)
    mine = tmp_path / "out.jsonl.parts" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("x")
    with pytest.raises(UsageError, match="is not from an earlier run"):
        run(tmp_path / "in.jsonl", tmp_path / "out.jsonl", overwrite=True)
    assert mine.exists()


def test_parts_without_a_readable_manifest_are_parsed_again(tmp_path: Path) -> None:
    write_lines(tmp_path / "in.jsonl", 21)
    job = BatchJob(open_source(tmp_path / "in.jsonl"), tmp_path / "out.jsonl", OPTIONS, workers=1)
    with pytest.raises(KeyboardInterrupt):
        job.run(stop_after(1))
    (job.folder / "job.json").write_text("{")
    write_lines(tmp_path / "in.jsonl", 14)
    summary = run(tmp_path / "in.jsonl", tmp_path / "out.jsonl", BatchOptions(), resume=True)
    assert summary.rows == 14
    assert [row["id"] for row in read_lines(tmp_path / "out.jsonl")] == list(range(14))


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("in.jsonl.gz", lambda data: data[:-12], "is not a whole gzip file"),
        ("in.jsonl.gz", lambda data: data[:40] + b"\xff" * 40 + data[80:], "not a whole gzip"),
        ("in.jsonl.gz", lambda _: b"x", "is not a whole gzip file"),
        ("in.parquet", lambda _: b"x", "is not a Parquet file"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, damage: Any, message: str) -> None:
    write_lines(tmp_path / "whole.jsonl", 40)
    whole = gzip.compress((tmp_path / "whole.jsonl").read_bytes())
    (tmp_path / name).write_bytes(damage(whole))
    with pytest.raises(UsageError, match=message):
        run(tmp_path / name, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_log_that_has_grown_is_resumed_with_its_earlier_requests(tmp_path: Path) -> None:
    ids = [f"r{number}" for number in range(500)]
    output = tmp_path / "out.jsonl"
    BatchJob(LogSource("sqlite:///x.db", ids[100:400]), output, OPTIONS, workers=1)
    for now in (ids, ids[100:], ids[:400]):
        source = LogSource("sqlite:///x.db", now)
        BatchJob(source, output, OPTIONS, workers=1, resume=True)
        found = [json.loads(part.content) for part in source.parts()]
        assert [one for part in found for one in part] == ids[100:400]
    with pytest.raises(UsageError, match="another input"):
        BatchJob(LogSource("sqlite:///x.db", ids[101:]), output, OPTIONS, resume=True)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("out.csv", OPTIONS, "its name has to end with one of"),
        ("out.jsonl.gz", OPTIONS, "cannot be compressed"),
        ("out.jsonl", BatchOptions(format="hermess"), "did you mean 'hermes'"),
        ("out.jsonl", BatchOptions(reasoning="nope"), "nope"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(
    tmp_path: Path, name: str, options: BatchOptions, message: str
) -> None:
    write_lines(tmp_path / "in.jsonl", 3)
    with pytest.raises(UsageError, match=message):
        run(tmp_path / "in.jsonl", tmp_path / name, options)
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


# --- processes that die ---

KILLER = """
import os, signal, sys
from pathlib import Path
from penstock.batch import BatchJob, BatchOptions, BatchError, open_source, job, sources

sources.PART_ROWS = 7
folder, often = Path(sys.argv[1]), int(sys.argv[2])
run_part = sources.PartWorker.run

def run(self, part, path):
    deaths = folder / "deaths"
    seen = deaths.read_text().count("x") if deaths.exists() else 0
    if part.number == 2 and seen < often:
        deaths.write_text("x" * (seen + 1))
        os.kill(os.getpid(), signal.SIGKILL)
    return run_part(self, part, path)

sources.PartWorker.run = run
if __name__ == "__main__":
    flags = {"workers": 2, "resume": "--resume" in sys.argv}
    source = open_source(folder / "in.jsonl")
    try:
        summary = BatchJob(source, folder / "out.jsonl", BatchOptions(), **flags).run()
        print("rows", summary.rows)
    except BatchError as exc:
        print("failed", exc)
"""


def run_killer(folder: Path, often: int, *flags: str) -> str:
    script = folder / "killer.py"
    script.write_text(KILLER)
    command = [sys.executable, str(script), str(folder), str(often), *flags]
    done = subprocess.run(  # noqa: S603 - our own script
        command, capture_output=True, text=True, timeout=DEADLINE, check=True
    )
    return done.stdout


def test_a_killed_worker_loses_and_doubles_no_row(tmp_path: Path) -> None:
    write_lines(tmp_path / "in.jsonl", 40)
    assert run_killer(tmp_path, 2) == "rows 40\n"
    assert [row["id"] for row in read_lines(tmp_path / "out.jsonl")] == [*range(40)]


def test_a_part_that_kills_every_worker_ends_the_job_which_can_be_resumed(tmp_path: Path) -> None:
    write_lines(tmp_path / "in.jsonl", 40)
    said = run_killer(tmp_path, 99)
    assert "parsed the rows 15 to 21 died 2 times" in said
    assert "--resume" in said
    assert not (tmp_path / "out.jsonl").exists()
    (tmp_path / "deaths").write_text("x" * 99)
    assert run_killer(tmp_path, 99, "--resume") == "rows 40\n"
    assert [row["id"] for row in read_lines(tmp_path / "out.jsonl")] == [*range(40)]


def test_a_killed_job_is_resumed_with_every_row_once(tmp_path: Path) -> None:
    rows = 15_000
    fields = ({"id": at, "response": "Plain text."} for at in range(rows))
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(one) + "\n" for one in fields))
    command = [sys.executable, "-m", "penstock", "batch", str(tmp_path / "in.jsonl")]
    command += ["-o", str(tmp_path / "out.jsonl"), "--workers", "2", "--format", "hermes"]
    process = subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    folder = tmp_path / "out.jsonl.parts"
    deadline = time.monotonic() + DEADLINE
    while not list(folder.glob("part-*.jsonl")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out.jsonl").exists()
    done = subprocess.run(  # noqa: S603
        [*command, "--resume"], capture_output=True, text=True, timeout=DEADLINE, check=True
    )
    assert json.loads(done.stdout)["rows"] == rows
    assert [row["id"] for row in read_lines(tmp_path / "out.jsonl")] == [*range(rows)]
    assert not folder.exists()


def test_errors_of_a_worker_reach_the_caller(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"response": "x", "text": "mine"}\n')
    with pytest.raises(UsageError, match="'text' of line 1"):
        run(tmp_path / "in.jsonl", tmp_path / "out.jsonl", workers=2)


def test_the_workers_of_a_killed_job_end(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"response": "Plain text."}\n' * 15_000)
    script = tmp_path / "job.py"
    script.write_text(PRINTS_WORKERS)
    process = subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, str(script), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    workers = [int(one) for one in process.stdout.readline().split()]
    assert len(workers) == 2
    process.kill()
    process.communicate()
    deadline = time.monotonic() + DEADLINE
    while any(is_running(one) for one in workers):
        assert time.monotonic() < deadline
        time.sleep(0.01)


PRINTS_WORKERS = """
import multiprocessing
import sys
import time
from pathlib import Path

from penstock.batch import BatchJob, BatchOptions, open_source


def wait_to_be_killed(progress):
    print(*(one.pid for one in multiprocessing.active_children()), flush=True)
    time.sleep(1000)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    source = open_source(folder / "in.jsonl")
    job = BatchJob(source, folder / "out.jsonl", BatchOptions(format="hermes"), workers=2)
    job.run(wait_to_be_killed)
"""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    # A container without an init process keeps the entry of a process that ended.
    return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_job_on_a_full_disk_says_how_to_continue(
    tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines(tmp_path / "in.jsonl", 40)
    output = tmp_path / "out.jsonl"
    job = BatchJob(open_source(tmp_path / "in.jsonl"), output, OPTIONS, workers=workers)
    with monkeypatch.context() as full:
        full.setattr(shutil, "copyfileobj", fail_as_a_full_disk)
        with pytest.raises(
            BatchError, match=r"No space left on device: .*out.jsonl.parts.*--resume"
        ):
            job.run()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl.parts"]
    assert run(tmp_path / "in.jsonl", output, resume=True).rows == 40


def fail_as_a_full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("name", ["column", "tools_column", "finish_column"])
def test_a_field_that_no_row_has_is_an_error_at_once(tmp_path: Path, name: str) -> None:
    (tmp_path / "in.jsonl").write_text('no JSON\n{"id": 1, "response": "x"}\n{"more": 1}\n')
    options = msgspec.structs.replace(OPTIONS, **{name: "other"})
    with pytest.raises(UsageError, match=r"field 'other'; .* are: id, response, more\."):
        run(tmp_path / "in.jsonl", tmp_path / "out.jsonl", options)
    assert not (tmp_path / "out.jsonl.parts").exists()


def test_one_row_with_the_field_is_enough(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"id": 1}\n{"response": "x", "tools": []}\n')
    options = BatchOptions(tools_column="tools")
    summary = run(tmp_path / "in.jsonl", tmp_path / "out.jsonl", options)
    assert summary.outcomes == {"invalid": 1, "text": 1}
