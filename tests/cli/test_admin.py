"""``penstock config``, ``penstock key`` and ``penstock db``."""

from __future__ import annotations

import sqlite3
import tomllib
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import logs
from penstock.cli.admin import config_app, db_app, key_app
from penstock.config import hash_key

runner = CliRunner()
CANARY = "psk_Canary7d21f0c2e5"


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run in an empty folder, without the variables of the developer."""
    monkeypatch.chdir(tmp_path)
    for name in ("PENSTOCK_CONFIG", "PENSTOCK_HOST", "PENSTOCK_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_a_valid_file_is_reported_as_valid(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[server]\nport = 5")
    result = runner.invoke(config_app, ["check", "mine.toml"])
    assert result.exit_code == 0
    assert result.stdout == "mine.toml: valid\n"
    assert result.stderr == ""


def test_every_problem_is_reported_and_the_command_fails(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        "[server]\nport = 'abc'\n[upstreams.local]\napi = 'demo'\nformat = 'hermez'"
    )
    result = runner.invoke(config_app, ["check", "mine.toml"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "penstock: server.port: expected a whole number from 0 to 65535, got 'abc'",
        "penstock: upstreams.local.format: unknown format 'hermez'; did you mean 'hermes'?",
        "mine.toml: 2 problems",
    ]


def test_a_warning_is_not_a_failure(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[upstreams.a]\napi = 'openai'\nkey = 'sk-example'")
    result = runner.invoke(config_app, ["check", "mine.toml"])
    assert result.exit_code == 0
    assert "warning: upstreams.a.key: the key is in the file" in result.stderr
    assert result.stdout == "mine.toml: valid, 1 warning\n"


def test_the_default_file_is_in_the_environment_or_the_folder(
    tmp_path: Path,
) -> None:
    assert runner.invoke(config_app, ["check"]).stdout == "no configuration file: valid\n"
    (tmp_path / "penstock.toml").write_text("")
    assert runner.invoke(config_app, ["check"]).stdout == "penstock.toml: valid\n"
    (tmp_path / "other.toml").write_text("x = 1")
    result = runner.invoke(config_app, ["check"], env={"PENSTOCK_CONFIG": "other.toml"})
    assert result.exit_code == 2
    assert result.stderr.endswith("other.toml: 1 problem\n")


def test_a_missing_file_is_a_problem() -> None:
    result = runner.invoke(config_app, ["check", "not-there.toml"])
    assert result.exit_code == 2
    assert "not-there.toml: No such file or directory" in result.stderr


def test_the_settings_are_shown_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        f"[upstreams.a]\napi = 'openai'\nkey = '{CANARY}'\n"
        f"[store]\nurl = 'postgresql://me:{CANARY}@db/x'"
    )
    result = runner.invoke(config_app, ["show", "mine.toml"], env={"PENSTOCK_PORT": "99"})
    assert result.exit_code == 0
    shown = tomllib.loads(result.stdout)
    assert shown["server"]["port"] == 99
    assert shown["upstreams"]["a"]["key"] == "***"
    assert shown["store"]["url"] == "postgresql://***@db/x"
    assert CANARY not in result.output


def test_invalid_settings_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("x = 1")
    result = runner.invoke(config_app, ["show", "mine.toml"])
    assert (result.exit_code, result.stdout) == (2, "")


def test_control_characters_of_a_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[models."\\u001b[2J"]')
    result = runner.invoke(config_app, ["check", "mine.toml"])
    assert result.exit_code == 2
    assert "\x1b" not in result.output


def test_a_new_key_is_printed_once_with_its_hash_for_the_file(tmp_path: Path) -> None:
    result = runner.invoke(key_app, ["new", "laptop.2"])
    assert result.exit_code == 0
    made = result.stdout.strip()
    assert made.startswith("psk_")
    assert made not in result.stderr
    lines = "\n".join(result.stderr.splitlines()[1:])
    assert tomllib.loads(lines) == {"keys": {"laptop.2": {"hash": hash_key(made)}}}
    (tmp_path / "penstock.toml").write_text(lines)
    assert runner.invoke(config_app, ["check"]).exit_code == 0


def test_an_invalid_name_of_a_key_is_rejected() -> None:
    result = runner.invoke(key_app, ["new", "my laptop"])
    assert result.exit_code == 2
    assert "expected a name of at most 64 letters" in result.stderr
    assert result.stdout == ""


# --- penstock db ---


def test_upgrade_makes_the_tables_and_twice_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "mine.db"
    for _ in range(2):
        result = runner.invoke(db_app, ["upgrade", "--store", str(file)])
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
    assert runner.invoke(db_app, ["upgrade"]).exit_code == 0
    assert (tmp_path / "named.db").exists()


@pytest.mark.parametrize("store", ["mysql://h/d", "{folder}/no/such/folder/x.db", "{folder}"])
def test_a_database_that_cannot_be_made_is_said_in_one_line(tmp_path: Path, store: str) -> None:
    result = runner.invoke(db_app, ["upgrade", "--store", store.format(folder=tmp_path)])
    assert result.exit_code == 2
    assert result.stderr.startswith("penstock: ")
    assert result.stderr.count("\n") == 1


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("no database " * 100)
    result = runner.invoke(db_app, ["upgrade", "--store", str(file)])
    assert result.exit_code == 2
    assert file.read_text() == "no database " * 100
