"""``penstock config`` tells what is wrong, and ``penstock key`` makes keys."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import config, key
from penstock.gateway.config import hash_key

runner = CliRunner()
CANARY = "psk_Canary7d21f0c2e5"


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run in a folder of its own, without variables that somebody has set."""
    monkeypatch.chdir(tmp_path)
    for name in ("PENSTOCK_CONFIG", "PENSTOCK_HOST", "PENSTOCK_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_a_good_file_is_said_to_be_good(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[server]\nport = 5")
    result = runner.invoke(config.app, ["check", "mine.toml"])
    assert result.exit_code == 0
    assert result.stdout == "mine.toml: good\n"
    assert result.stderr == ""


def test_every_problem_is_told_with_its_place_and_the_command_fails(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        "[server]\nport = 'abc'\n[upstreams.local]\napi = 'demo'\nformat = 'hermez'"
    )
    result = runner.invoke(config.app, ["check", "mine.toml"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "penstock: server.port: a whole number from 0 to 65535, not 'abc'",
        "penstock: upstreams.local.format: there is no format 'hermez'; did you mean 'hermes'?",
        "mine.toml: 2 problems",
    ]


def test_what_may_not_be_meant_is_a_warning_and_no_failure(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[upstreams.a]\napi = 'openai'\nkey = 'sk-example'")
    result = runner.invoke(config.app, ["check", "mine.toml"])
    assert result.exit_code == 0
    assert "warning: upstreams.a.key: the key is written in the file" in result.stderr
    assert result.stdout == "mine.toml: good, 1 warning\n"


def test_without_a_name_the_file_of_the_environment_or_the_folder_is_taken(
    tmp_path: Path,
) -> None:
    assert runner.invoke(config.app, ["check"]).stdout == "without a file: good\n"
    (tmp_path / "penstock.toml").write_text("")
    assert runner.invoke(config.app, ["check"]).stdout == "penstock.toml: good\n"
    (tmp_path / "other.toml").write_text("x = 1")
    result = runner.invoke(config.app, ["check"], env={"PENSTOCK_CONFIG": "other.toml"})
    assert result.exit_code == 2
    assert result.stderr.endswith("other.toml: 1 problem\n")


def test_a_file_that_is_not_there_is_a_problem() -> None:
    result = runner.invoke(config.app, ["check", "not-there.toml"])
    assert result.exit_code == 2
    assert "not-there.toml: No such file or directory" in result.stderr


def test_what_counts_is_shown_as_a_file_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        f"[upstreams.a]\napi = 'openai'\nkey = '{CANARY}'\n"
        f"[store]\nurl = 'postgresql://me:{CANARY}@db/x'"
    )
    result = runner.invoke(config.app, ["show", "mine.toml"], env={"PENSTOCK_PORT": "99"})
    assert result.exit_code == 0
    shown = tomllib.loads(result.stdout)
    assert shown["server"]["port"] == 99
    assert shown["upstreams"]["a"]["key"] == "***"
    assert shown["store"]["url"] == "postgresql://***@db/x"
    assert CANARY not in result.output


def test_what_is_wrong_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("x = 1")
    result = runner.invoke(config.app, ["show", "mine.toml"])
    assert (result.exit_code, result.stdout) == (2, "")


def test_a_file_steers_no_terminal(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[models."\\u001b[2J"]')
    result = runner.invoke(config.app, ["check", "mine.toml"])
    assert result.exit_code == 2
    assert "\x1b" not in result.output


def test_a_new_key_goes_out_once_and_its_hash_fits_the_file(tmp_path: Path) -> None:
    result = runner.invoke(key.app, ["new", "laptop.2"])
    assert result.exit_code == 0
    made = result.stdout.strip()
    assert made.startswith("psk_")
    assert made not in result.stderr
    lines = "\n".join(result.stderr.splitlines()[1:])
    assert tomllib.loads(lines) == {"keys": {"laptop.2": {"hash": hash_key(made)}}}
    (tmp_path / "penstock.toml").write_text(lines)
    assert runner.invoke(config.app, ["check"]).exit_code == 0


def test_a_key_has_a_name_that_a_log_can_have() -> None:
    result = runner.invoke(key.app, ["new", "my laptop"])
    assert result.exit_code == 2
    assert "a name has letters" in result.stderr
    assert result.stdout == ""
