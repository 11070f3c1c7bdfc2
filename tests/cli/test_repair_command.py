"""``penstock repair`` as a person uses it: a file or a pipe in, a value and notes out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app

BROKEN = "Sure:\n```json\n{'path': 'a.md', \"text\": \"line\nline\",}\n```"
VALUE = {"path": "a.md", "text": "line\nline"}

runner = CliRunner()


def test_a_pipe_is_mended_and_the_repairs_are_told_apart_from_the_value() -> None:
    result = runner.invoke(app, ["repair"], input=BROKEN)
    assert result.exit_code == 0
    assert json.loads(result.stdout) == VALUE
    assert "mended: " in result.stderr


def test_a_file_is_mended(tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    file.write_text(BROKEN)
    result = runner.invoke(app, ["repair", str(file)])
    assert json.loads(result.stdout) == VALUE


def test_valid_json_comes_back_without_a_note() -> None:
    result = runner.invoke(app, ["repair", "-"], input='{"a": [1, null]}')
    assert json.loads(result.stdout) == {"a": [1, None]}
    assert result.stderr == ""


def test_xml_is_recognised_and_guided_by_a_schema(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"properties": {"n": {"type": "integer"}, "code": {"type": "string"}}}')
    text = "<n>3</n><code>if a < b: pass</code>"
    result = runner.invoke(app, ["repair", "--schema", str(schema)], input=text)
    assert json.loads(result.stdout) == {"n": 3, "code": "if a < b: pass"}


def test_json_is_fitted_to_a_schema_and_it_is_said(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"properties": {"n": {"type": "integer"}}}')
    result = runner.invoke(app, ["repair", "--schema", str(schema)], input='{"n": "3"}')
    assert json.loads(result.stdout) == {"n": 3}
    assert "schema" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "text", "code"),
    [
        pytest.param(["repair"], "no value here", 1, id="no JSON at all"),
        pytest.param(["repair"], "", 1, id="nothing"),
        pytest.param(["repair"], "<a>1</b>", 1, id="mismatched tags"),
        pytest.param(["repair", "--as", "xml"], "<a>", 1, id="an open tag"),
        pytest.param(["repair", "not-there.json"], "", 2, id="no such file"),
        pytest.param(["repair", "--schema", "not-there.json"], "{}", 2, id="no such schema"),
    ],
)
def test_what_cannot_be_read_is_a_clear_error(arguments: list[str], text: str, code: int) -> None:
    result = runner.invoke(app, arguments, input=text)
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith("penstock: ")


def test_half_an_emoji_can_be_printed() -> None:
    result = runner.invoke(app, ["repair"], input='{"a": "\\ud83d", "b": "é"}')
    assert json.loads(result.stdout) == {"a": "\ud83d", "b": "é"}


def test_the_demo_shows_every_sample() -> None:
    result = runner.invoke(app, ["repair", "--demo"])
    assert result.exit_code == 0
    assert "mended: " in result.stdout
    assert "vector<int>" in result.stdout


def test_without_its_extra_the_command_says_what_to_install() -> None:
    code = "import sys; sys.modules['typer'] = None; from penstock.cli import main; main()"
    done = subprocess.run(  # noqa: S603 - our own interpreter, our own words
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "penstock[cli]" in done.stderr
