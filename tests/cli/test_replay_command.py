"""``penstock replay`` reads what a real gateway logged, and says what is different."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
import typer
from typer.testing import CliRunner, Result

from cli.logged import HERMES, HOSTILE, Log, logging_to
from penstock.cli import replay

runner = CliRunner()
app = typer.Typer()
app.command()(replay.command)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    with logging_to(tmp_path_factory.mktemp("log")) as log:
        yield log


@pytest.fixture(scope="module")
def ids(log: Log) -> dict[str, str]:
    return {
        "text": log.add("High water at six."),
        "call": log.add(f"Let me look. {HERMES}"),
        "words": log.add(f"Let me look. {HERMES}", "tides-words"),
        "failed": log.add_failure("the ebb is gone"),
        "hostile": log.add(f"{HOSTILE} {HERMES}"),
        "local": of_process(log, log.add_demo()),
    }


def of_process(log: Log, id_: str) -> str:
    """Make the request one of a model that has no wire."""
    with closing(sqlite3.connect(log.database)) as database, database:
        database.execute("update requests set upstream_api = 'local' where id = ?", [id_])
    return id_


def said(log: Log, *args: str) -> Result:
    return runner.invoke(app, [*args, "--store", log.database], env={"COLUMNS": "60"})


@pytest.mark.parametrize("name", ["text", "call", "words", "failed", "hostile"])
def test_what_is_the_same_is_said_to_be_the_same(log: Log, ids: dict[str, str], name: str) -> None:
    result = said(log, ids[name])
    assert result.exit_code == 0, result.stdout
    assert result.stdout.startswith("no difference: ")


def test_what_differs_is_shown_line_by_line_with_exit_code_1(log: Log, ids: dict[str, str]) -> None:
    result = said(log, f"chatcmpl-{ids['call']}", "--format", "pythonic")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "text (- then, + now)",
        "  - Let me look.",
        f"  + Let me look. {HERMES}",
        "call 1 (- then, + now)",
        "  - get_weather",
        '  -   city: "Paris"',
        "  -   days: 3",
        "end (- then, + now)",
        "  - tool_use",
        "  + stop",
    ]


@pytest.mark.parametrize("change", [["--no-parse"], ["--format", "pythonic"]])
def test_options_change_how_it_is_read(log: Log, ids: dict[str, str], change: list[str]) -> None:
    assert said(log, ids["call"], *change).exit_code == 1


@pytest.mark.parametrize("change", [["--arguments", "whole"], ["--reasoning", "none"]])
def test_options_that_make_no_difference_make_none(
    log: Log, ids: dict[str, str], change: list[str]
) -> None:
    assert said(log, ids["call"], *change).exit_code == 0


def test_events_go_to_stdout_and_words_beside_them(log: Log, ids: dict[str, str]) -> None:
    result = said(log, ids["call"], "--events")
    kinds = [json.loads(line)["type"] for line in result.stdout.splitlines()]
    assert kinds[0] == "start"
    assert kinds[-1] == "done"
    assert "toolcall_delta" in kinds
    assert "no difference" in result.stderr


def test_a_difference_in_what_a_model_wrote_does_not_steer_the_terminal(
    log: Log, ids: dict[str, str]
) -> None:
    shown = said(log, ids["hostile"], "--no-parse").stdout
    assert "\\x1b[2J" in shown
    assert all(char.isprintable() or char == "\n" for char in shown)


def test_several_are_summed_up(log: Log, ids: dict[str, str]) -> None:
    result = said(log, ids["text"], ids["call"], ids["local"], "--format", "pythonic")
    assert result.exit_code == 1
    first, *_, last = result.stdout.splitlines()
    assert first == f"{ids['call']}  tides"
    assert last == "2 replayed: 1 the same, 1 different, 1 that cannot be replayed"


def test_a_whole_log_is_read_again(log: Log, ids: dict[str, str]) -> None:
    result = said(log, "--all", "--since", "1h")
    assert result.exit_code == 0
    skipped = "1 that cannot be replayed"
    assert result.stdout == f"{len(ids) - 1} replayed: 5 the same, 0 different, {skipped}\n"
    assert said(log, "--all", "--since", "2100-01-01").stdout.startswith("0 replayed")
    assert said(log, "--all", "--model", "tides-words").stdout.startswith("1 replayed")


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ([], "pass either the ids"),
        (["x", "--all"], "pass either the ids"),
        (["nobody"], "there is no request 'nobody'"),
        (["x", "--format", "hermez"], "hermez"),
        (["x", "--arguments", "later"], "later"),
        (["x", "--reasoning", "deep"], "unknown reasoning style 'deep'"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(log: Log, args: list[str], why: str) -> None:
    result = said(log, *args)
    assert result.exit_code == 2
    assert why in result.stderr
    assert result.stderr.startswith("penstock: ")


def test_why_a_request_cannot_be_read_again_is_said(log: Log, ids: dict[str, str]) -> None:
    result = said(log, ids["local"])
    assert result.exit_code == 2
    assert "a model in the process sends no bytes" in result.stderr
