"""What ``penstock`` says of itself, before any command of it runs."""

from __future__ import annotations

from importlib.metadata import version

from typer.testing import CliRunner

from penstock.cli.app import app

runner = CliRunner()


def test_it_tells_its_version_and_does_nothing_else() -> None:
    result = runner.invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"penstock {version('penstock')}\n")
    assert "--version" in runner.invoke(app, ["--help"]).stdout
