"""``penstock formats`` lists what there is."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from penstock import formats
from penstock.cli.app import app
from penstock.cli.parse import EXAMPLE, render_example
from penstock.tools import Tool

runner = CliRunner()


def test_every_format_is_listed_with_its_models_and_a_call() -> None:
    result = runner.invoke(app, ["formats"])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line for line in lines if line and not line.startswith(" ")] == formats.names()
    assert "  gemma-2, gemma-3" in lines
    assert any(line.startswith("    <tool_call>") for line in lines)


def test_formats_can_be_asked_for_by_name() -> None:
    result = runner.invoke(app, ["formats", "GEMMA", "none"])
    assert result.stdout.splitlines()[0] == "gemma"
    assert result.stdout.splitlines()[-1] == "none"
    assert "hermes" not in result.stdout


def test_an_unknown_name_is_one_clear_line() -> None:
    result = runner.invoke(app, ["formats", "morse"])
    assert result.exit_code == 2
    assert result.stderr.startswith("penstock: unknown format 'morse'")


@pytest.mark.parametrize("name", formats.names())
def test_the_example_of_a_format_reads_back(name: str) -> None:
    format_ = formats.get(name)
    text = render_example(format_)
    if not text:
        assert name == "none"
        return
    strings = {"path": {"type": "string"}, "content": {"type": "string"}}
    tool = Tool(EXAMPLE.name, parameters={"properties": strings})
    (call,) = format_.parse(text, [tool]).tool_calls
    assert (call.name, call.arguments) == (EXAMPLE.name, EXAMPLE.arguments)
