"""``penstock db`` makes the tables, and brings them up to date."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import db, logs

runner = CliRunner()


def test_upgrade_makes_the_tables_and_twice_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "mine.db"
    for _ in range(2):
        result = runner.invoke(db.app, ["upgrade", "--store", str(file)])
        assert (result.exit_code, result.stdout) == (0, "the database is up to date\n")
    with closing(sqlite3.connect(file)) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    assert {"requests", "bodies", "sessions", "responses", "workers"} <= names
    assert runner.invoke(logs.app, ["list", "--store", str(file)]).exit_code == 0


def test_without_a_store_the_one_of_the_configuration_is_upgraded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_STORE", str(tmp_path / "named.db"))
    assert runner.invoke(db.app, ["upgrade"]).exit_code == 0
    assert (tmp_path / "named.db").exists()


@pytest.mark.parametrize("store", ["mysql://h/d", "{folder}/no/such/folder/x.db", "{folder}"])
def test_a_database_that_cannot_be_made_is_said_in_one_line(tmp_path: Path, store: str) -> None:
    result = runner.invoke(db.app, ["upgrade", "--store", store.format(folder=tmp_path)])
    assert result.exit_code == 2
    assert result.stderr.startswith("penstock: ")
    assert result.stderr.count("\n") == 1


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("no database " * 100)
    result = runner.invoke(db.app, ["upgrade", "--store", str(file)])
    assert result.exit_code == 2
    assert file.read_text() == "no database " * 100
