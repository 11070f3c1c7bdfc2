"""``penstock batch``: files and the log of a real gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner, Result

from batch.samples import TOOLS, read_lines, write_lines
from cli.logged import HERMES, Log, logging_to
from penstock.cli import batch

runner = CliRunner()
app = typer.Typer()
app.command()(batch.command)


def run(*args: object) -> Result:
    return runner.invoke(app, [*map(str, args)], env={"COLUMNS": "80"})


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    with logging_to(tmp_path_factory.mktemp("log")) as log:
        yield log


def test_a_file_is_parsed_and_its_outcomes_are_counted(tmp_path: Path) -> None:
    write_lines(tmp_path / "in.jsonl", 12)
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    output = tmp_path / "out.parquet"
    flags = ("--tools", tmp_path / "tools.json", "--workers", 1, "-o", output)
    result = run(tmp_path / "in.jsonl", *flags)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {
        "rows": 12,
        "calls": 4,
        "text": 4,
        "unread": 4,
        "incomplete": 0,
        "invalid": 0,
        "tool_calls": 4,
        "repaired_rows": 0,
    }
    assert "calls               4   33.3%" in result.stderr
    assert pq.read_table(output).num_rows == 12
    again = run(tmp_path / "in.jsonl", *flags)
    assert (again.exit_code, "--overwrite" in again.stderr) == (2, True)


def test_the_log_is_parsed_with_the_tools_of_each_request(log: Log, tmp_path: Path) -> None:
    ids = [log.add("High water at six."), log.add(f"Look. {HERMES}"), log.add_failure("no")]
    result = run("log", "--store", log.database, "-o", tmp_path / "out.jsonl", "--workers", 1)
    assert result.exit_code == 0, result.output
    rows = read_lines(tmp_path / "out.jsonl")
    assert [row["id"] for row in rows] == ids
    assert [row["outcome"] for row in rows] == ["text", "calls", "text"]
    assert rows[1]["calls"][0]["arguments"] == {"city": "Paris", "days": 3}
    assert rows[1]["model"] == "tides"
    other = tmp_path / "other.jsonl"
    flags = ("--format", "pythonic", "--workers", 2)
    assert run("log", "--store", log.database, "-o", other, *flags).exit_code == 0
    assert [len(row["calls"]) for row in read_lines(other)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param(["gone.jsonl"], "There is no file gone.jsonl.", id="no file"),
        pytest.param(["in.txt"], "Unknown kind of file 'in.txt'", id="another kind"),
        pytest.param(["in.jsonl", "--since", "1h"], "are for the log", id="since for a file"),
        pytest.param(["log", "--tools", "tools.json"], "have their own tools", id="tools"),
        pytest.param(["log", "--store", "gone.db"], "gone.db", id="no database"),
    ],
)
def test_a_mistake_is_said_on_one_line(
    args: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "in.jsonl", 1)
    (tmp_path / "tools.json").write_text("[]")
    result = run(*args, "-o", "out.jsonl")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
