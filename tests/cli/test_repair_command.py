"""``penstock repair`` as a person uses it: a file or a pipe in, a value and notes out."""

from __future__ import annotations

import io
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from penstock.cli import main, repair
from penstock.cli.app import app
from penstock.values.rjson import Repaired

BROKEN = "Sure:\n```json\n{'path': 'a.md', \"text\": \"line\nline\",}\n```"
VALUE = {"path": "a.md", "text": "line\nline"}

runner = CliRunner()


def test_a_pipe_is_mended_and_the_repairs_are_told_apart_from_the_value() -> None:
    result = runner.invoke(app, ["repair"], input=BROKEN)
    assert result.exit_code == 0
    assert json.loads(result.stdout) == VALUE
    assert "repaired: " in result.stderr


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


def test_a_value_that_fits_its_schema_is_not_said_to_be_fitted(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"properties": {"n": {"type": "integer"}}}')
    result = runner.invoke(app, ["repair", "--schema", str(schema)], input='{"n": 3}')
    assert json.loads(result.stdout) == {"n": 3}
    assert result.stderr == ""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\ufeff<n>3</n>", id="behind a byte order mark"),
        pytest.param("```xml\n<n>3</n>\n```", id="in a code fence"),
        pytest.param("\n  <n>3</n>", id="behind white space"),
    ],
)
def test_xml_is_recognised(text: str) -> None:
    result = runner.invoke(app, ["repair"], input=text)
    assert json.loads(result.stdout) == {"n": 3}


@pytest.mark.parametrize(
    ("arguments", "text", "code"),
    [
        pytest.param(["repair"], "no value here", 1, id="no JSON at all"),
        pytest.param(["repair"], "", 1, id="nothing"),
        pytest.param(["repair"], "<a>1</b>", 1, id="mismatched tags"),
        pytest.param(["repair", "--as", "xml"], "<a>", 1, id="an open tag"),
        pytest.param(["repair"], '{"a": 1e999}', 1, id="a number without a JSON form"),
        pytest.param(["repair", "not-there.json"], "", 2, id="no such file"),
        pytest.param(["repair", "--schema", "not-there.json"], "{}", 2, id="no such schema"),
        pytest.param(["repair", "--schema", __file__], "{}", 2, id="a schema that is no JSON"),
    ],
)
def test_what_cannot_be_read_is_a_clear_error(arguments: list[str], text: str, code: int) -> None:
    result = runner.invoke(app, arguments, input=text)
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith("penstock: ")


def test_a_schema_that_is_a_number_is_refused(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text("3")
    result = runner.invoke(app, ["repair", "--schema", str(schema)], input="{}")
    assert result.exit_code == 2
    assert "a JSON Schema must be an object" in result.stderr


def test_half_an_emoji_can_be_printed() -> None:
    result = runner.invoke(app, ["repair"], input='{"a": "\\ud83d", "b": "é"}')
    assert json.loads(result.stdout) == {"a": "\ud83d", "b": "é"}


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_value_is_utf_8_whatever_the_locale(encoding: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "repair"],
        input='{"a": "é…🙂",}'.encode(),
        env=os.environ | {"PYTHONIOENCODING": encoding},
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout.decode()) == {"a": "é…🙂"}


@pytest.mark.parametrize(
    ("encoding", "shown"), [("utf-8", "é"), ("ascii", "\\u00e9")], ids=["utf-8", "ascii"]
)
def test_a_terminal_shows_what_it_can(encoding: str, shown: str) -> None:
    screen = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    repair._show_value(Console(file=screen, force_terminal=True), Repaired({"a": "é"}, []))
    screen.seek(0)
    assert shown in screen.read()


def test_what_a_model_wrote_steers_no_terminal() -> None:
    result = runner.invoke(app, ["repair"], input='{"a": "\\\x1b[2J"}')
    assert "\x1b" not in result.output
    assert "\\x1b" in result.stderr


def test_without_a_file_or_a_pipe_the_command_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["penstock", "repair"])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "pipe text to stdin" in capsys.readouterr().err


def test_the_package_is_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["penstock", "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("penstock", run_name="__main__")
    assert "repair" in capsys.readouterr().out


def test_the_demo_shows_every_sample() -> None:
    result = runner.invoke(app, ["repair", "--demo"])
    assert result.exit_code == 0
    assert "repaired: " in result.stdout
    assert "vector<int>" in result.stdout


def test_without_its_extra_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "penstock.cli.app")
    with pytest.raises(SystemExit, match=r"pip install '\S*\[cli\]'"):
        main()


def test_a_module_of_its_own_that_is_missing_is_no_missing_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "penstock.cli.app", None)
    with pytest.raises(ModuleNotFoundError, match="cli"):
        main()
