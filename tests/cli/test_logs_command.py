"""``penstock logs`` shows what a real gateway logged."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner, Result

from cli.logged import HERMES, HOSTILE, Log, logging_to
from gateway.serving import DEADLINE, until
from penstock.cli import logs
from penstock.cli.output import TimeFormat, parse_time

runner = CliRunner()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    with logging_to(tmp_path_factory.mktemp("log")) as log:
        log.add("High water at six.")
        log.add(f"Let me look. {HERMES}", "tides-words", x_session_id="spring")
        log.add_failure("the ebb is gone")
        log.add(HOSTILE)
        yield log


def said(log: Log, *args: str) -> Result:
    return runner.invoke(logs.app, [*args, "--store", log.database], env={"COLUMNS": "60"})


def rows(log: Log, *args: str) -> list[dict[str, object]]:
    result = said(log, *args, "--json")
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


# --- lists ---


def test_a_list_has_a_line_for_each_request_the_newest_first(log: Log) -> None:
    head, *lines = said(log, "list", "--utc").stdout.splitlines()
    assert head.startswith("time (UTC) ")
    assert [re.split(r"  +", line)[2] for line in lines] == ["done", "failed", "done", "done"]
    assert lines[1].endswith("the ebb is gone")
    assert lines[2].endswith("1      tool_use")


def test_columns_align_whatever_stands_in_them(log: Log) -> None:
    head, *lines = said(log, "list").stdout.splitlines()
    for title in ("id", "state", "model", "upstream"):
        at = head.index(f"  {title} ") + 2
        assert {line[at - 2 : at] for line in lines} == {"  "}
        assert all(line[at] != " " for line in lines)


def test_an_id_of_a_line_can_be_pasted_as_clients_saw_it(log: Log) -> None:
    line = said(log, "list", "-n", "1").stdout.splitlines()[1]
    id_ = re.split(r"  +", line)[1]
    for form in (id_, f"chatcmpl-{id_}", f"resp_{id_}", f" {id_} "):
        result = said(log, "show", form)
        assert result.exit_code == 0
        assert f"id           {id_}" in result.stdout


@pytest.mark.parametrize(
    ("args", "number"),
    [
        (["--model", "tides"], 3),
        (["--model", "other"], 0),
        (["--state", "failed"], 1),
        (["--api", "openai-chat"], 4),
        (["--api", "anthropic"], 0),
        (["--upstream", "loopback"], 4),
        (["--upstream", "scripted"], 0),
        (["--session", "spring"], 1),
        (["--since", "1h"], 4),
        (["--since", "2100-01-01"], 0),
        (["-n", "2"], 2),
    ],
)
def test_filters_leave_what_fits(log: Log, args: list[str], number: int) -> None:
    assert len(rows(log, "list", *args)) == number


def test_where_nothing_fits_that_is_said_beside_the_output(log: Log) -> None:
    result = said(log, "list", "--model", "other")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "nothing found" in result.stderr


def test_search_looks_into_answers_and_errors_and_takes_the_filters(log: Log) -> None:
    assert [row["state"] for row in rows(log, "search", "HIGH WATER")] == ["done"]
    assert [row["error_message"] for row in rows(log, "search", "ebb")] == ["the ebb is gone"]
    assert rows(log, "search", "water", "--state", "failed") == []
    assert rows(log, "search", "100%") == []


def test_json_has_all_that_is_known_of_a_row(log: Log) -> None:
    newest = rows(log, "list", "--session", "spring")[0]
    assert newest["calls"] == 1
    assert newest["model"] == "tides-words"
    assert (newest["input_tokens"], newest["output_tokens"]) == (12, 5)


# --- one request ---


def test_show_tells_how_a_request_was_asked_answered_and_ended(log: Log) -> None:
    id_ = str(rows(log, "list", "--session", "spring")[0]["id"])
    shown = said(log, "show", id_, "--utc").stdout
    for fact in (
        "request      /v1/chat/completions for tides-words (stream)",
        "client       session spring",
        "upstream     loopback (openai-chat)",
        "tools prompt",
        "arguments whole",
        "end          tool_use",
        "12 in, 5 out",
        "│ Let me look.",
        '→ get_weather {"city":"Paris","days":3}',
        "request, upstream_request, raw, events, response",
    ):
        assert fact in shown
    assert re.search(r"time +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", shown)


def test_show_gives_each_part_as_it_was_stored(log: Log) -> None:
    id_ = str(rows(log, "list", "--session", "spring")[0]["id"])
    request = json.loads(said(log, "show", id_, "--part", "request").stdout)
    assert request["model"] == "tides-words"
    raw = said(log, "show", id_, "--part", "raw").stdout_bytes
    assert raw.startswith(b"data: {")
    assert raw.endswith(b"[DONE]\n\n")
    response = json.loads(said(log, "show", id_, "--part", "response").stdout)
    assert response["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "get_weather"
    everything = rows(log, "show", id_)[0]
    assert everything["request"] == request
    assert everything["response"] == response


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["show", "nobody"], "there is no request 'nobody'"),
        (["show", "nobody", "--part", "soul"], "unknown part 'soul'; expected one of request"),
        (["list", "--state", "happy"], "unknown state 'happy'; expected one of started, done"),
        (["list", "--since", "soon"], "invalid time 'soon'; expected for example 90s"),
        (["search", "x", "--since", "99999999999999w"], "invalid time"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(log: Log, args: list[str], why: str) -> None:
    result = said(log, *args)
    assert result.exit_code == 2
    assert why in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "store", ["absent.db", "mysql://h/d", "postgresql://u:secret@127.0.0.1:1/d"]
)
def test_a_database_that_cannot_be_read_is_said_without_its_password(
    tmp_path: Path, store: str
) -> None:
    address = str(tmp_path / store) if "://" not in store else store
    result = runner.invoke(logs.app, ["list", "--store", address])
    assert result.exit_code == 2
    assert result.stderr.startswith("penstock: ")
    assert "secret" not in result.stderr
    assert not (tmp_path / "absent.db").exists()


def test_without_a_store_the_one_of_the_configuration_is_read(
    log: Log, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "penstock.toml").write_text(f"[store]\nurl = {json.dumps(log.database)}")
    result = runner.invoke(logs.app, ["list", "--json", "-n", "1"])
    assert len(result.stdout.splitlines()) == 1


def test_nothing_that_a_model_wrote_steers_the_terminal(log: Log) -> None:
    newest = str(rows(log, "list", "-n", "1")[0]["id"])
    for args in (["show", newest], ["list"], ["search", "At six"]):
        shown = said(log, *args).stdout
        assert all(char.isprintable() or char == "\n" for char in shown)
    assert "At six.\\x1b[2J\\x9b31m" in said(log, "show", newest).stdout


# --- follow ---


class Watched:
    """``penstock logs follow`` in a process of its own."""

    def __init__(self, log: Log, *args: str) -> None:
        command = [sys.executable, "-m", "penstock", "logs", "follow", "--store", log.database]
        self.process = subprocess.Popen(  # noqa: S603 - it is ours
            [*command, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        self.lines: list[str] = []
        self._reader = Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    def stop(self) -> tuple[int, str]:
        """Stop it as Ctrl-C does; give its exit code and what it said on stderr."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        with self.process.stdout, self.process.stderr:
            return code, self.process.stderr.read()


def test_follow_shows_what_comes_and_ends_quietly(log: Log) -> None:
    watched = Watched(log, "-n", "1")
    try:
        until(lambda: len(watched.lines) == 2)  # the head, and the newest one
        id_ = log.add("The tide turns.")
        until(lambda: any(id_ in line and "done" in line for line in watched.lines))
    finally:
        ended = watched.stop()
    assert ended == (0, "")
    assert watched.lines[0].startswith("time (")


# --- times ---


def test_text_that_is_not_a_call_is_listed_found_and_explained(log: Log) -> None:
    id_ = log.add('<tool_call>{"name": "send_mail", "arguments": {"to": "Ada"}}</tool_call>')
    for args in (["list", "--unread"], ["search", "ada", "--unread"]):
        assert [row["id"] for row in rows(log, *args)] == [id_]
    line = said(log, "list", "--unread").stdout.splitlines()[1]
    assert line.endswith("(looks like a hermes call of `send_mail`, but the tool is not offered)")
    assert "offer the tool `send_mail`" in said(log, "show", id_).stdout


def test_spans_and_dates_are_read_as_times() -> None:
    assert parse_time("") is None
    assert parse_time("90s", now=100.0) == 10.0
    assert parse_time(" 1.5H ", now=5400.0) == 0.0
    assert parse_time("1970-01-02T00:00:00+00:00") == 86_400.0
    assert parse_time("1w", now=604_800.0) == 0.0


def test_a_time_that_cannot_be_is_a_dash() -> None:
    assert TimeFormat(utc=True).format(0.0) == "1970-01-01 00:00:00"
    assert TimeFormat().format(1e300) == "-"
    assert TimeFormat(utc=True).zone == "UTC"


@pytest.mark.parametrize(
    ("store", "named"),
    [
        ("absent.db", "absent.db is created by `penstock serve`"),
        ("postgresql://me:hush@127.0.0.1:1/log?sslkey=hush", "(postgresql://***@127.0.0.1:1/log?"),
    ],
)
def test_a_database_that_is_not_there_is_named_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(logs.app, ["list", "--store", store])
    assert result.exit_code == 2
    assert named in result.stderr
    assert "hush" not in result.stderr
    assert not list(tmp_path.iterdir())
