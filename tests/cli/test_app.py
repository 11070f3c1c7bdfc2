"""The command line before any command runs: version, help, suggestions, completion, extras."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PathDistribution, version

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli import describe_install
from penstock.cli.app import COMMANDS, app, load_command

runner = CliRunner()


def run(*args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a process."""
    return subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "penstock", *args],
        capture_output=True, text=True, check=False, env={**os.environ, **environ},
    )  # fmt: skip


def test_the_version_is_printed() -> None:
    result = runner.invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"penstock {version('penstock')}\n")
    assert "--version" in runner.invoke(app, ["--help"]).stdout
    assert run("--version").stdout == f"penstock {version('penstock')}\n"


@pytest.mark.parametrize(
    ("args", "absent"),
    [
        (["--version"], {"typer", "rich", "asyncio", "penstock.formats", "penstock.config"}),
        (["--help"], {"aiohttp", "sqlalchemy", "penstock.formats", "penstock.agent"}),
        (["serve", "--port", "x"], {"typer", "rich"}),
    ],
    ids=["version", "help", "serve"],
)
def test_a_command_loads_only_what_it_needs(args: list[str], absent: set[str]) -> None:
    code = f"""
import sys
from penstock.cli import main
sys.argv = ["penstock", *{args!r}]
try:
    main()
except SystemExit:
    pass
print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not absent & set(done.stderr.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_in_the_list_is_the_first_line_of_the_help(name: str) -> None:
    shown = load_command(name).help or ""
    assert shown.split("\n\n")[0].replace("\n", " ") == COMMANDS[name].summary
    assert runner.invoke(app, [name, "--help"]).exit_code == 0


@pytest.mark.parametrize(
    ("args", "suggestion"),
    [
        (["prase"], "parse"),
        (["parse", "--fromat", "hermes"], "--format"),
        (["serve", "--prot", "1"], "--port"),
        (["parse", "--format", "hermez", __file__], "did you mean 'hermes'?"),
        (["inspect", "--format", "qwen3_codr", __file__], "did you mean 'qwen3_coder'?"),
        (["replay", "--all", "--format", "qwen3-codr"], "did you mean 'qwen3_coder'?"),
        (["chat", "--format", "hermez", "hi"], "did you mean 'hermes'?"),
        (["serve", "--format", "hermez"], "did you mean 'hermes'?"),
    ],
)
def test_a_mistyped_word_gets_a_suggestion(args: list[str], suggestion: str) -> None:
    done = run(*args)
    assert done.returncode == 2
    assert suggestion in done.stderr


def test_an_option_that_serve_does_not_have_is_reported_in_the_same_style() -> None:
    for args in (["serve", "--prot", "1"], ["parse", "--fromat", "x"]):
        assert f"Try 'penstock {args[0]} --help' for help." in run(*args).stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_available_for_the_shell(shell: str) -> None:
    script = run(_PENSTOCK_COMPLETE=f"source_{shell}").stdout
    assert "_PENSTOCK_COMPLETE" in script


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("penstock ser", {"serve"}),
        ("penstock serve --no-s", {"--no-store"}),
        ("penstock serve --format qwen3_c", {"qwen3_coder"}),
        ("penstock parse --format qwen3_c", {"qwen3_coder"}),
        ("penstock logs fol", {"follow"}),
    ],
)
def test_words_are_completed(words: str, expected: set[str]) -> None:
    count = str(len(words.split()) - 1)
    done = run(_PENSTOCK_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=count)
    assert set(done.stdout.split()) == expected


@pytest.mark.parametrize("name", [name for name, entry in COMMANDS.items() if entry.needs])
def test_a_command_whose_extra_is_missing_names_it(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = COMMANDS[name]
    monkeypatch.setitem(sys.modules, entry.needs, None)
    with pytest.raises(typer.Exit):
        load_command(name)
    message = f"penstock: `penstock {name}` needs {entry.needs}, which is not installed: "
    assert capsys.readouterr().err == f"{message}{describe_install('cli,server')}\n"
    assert entry.help.endswith("(Needs the extra server.)")


@pytest.mark.parametrize(
    ("origin", "source"),
    [
        (None, "penstock"),
        ('{"url": "file:///home/ann/penstock-0.2.0.whl", "archive_info": {}}', "penstock"),
        ('{"url": "file:///home/ann/my%20clone", "dir_info": {}}', "/home/ann/my clone"),
        ("broken", "penstock"),
    ],
    ids=["published", "wheel", "clone", "broken"],
)
def test_extras_are_installed_from_where_penstock_came_from(
    origin: str | None, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PathDistribution, "read_text", lambda *_: origin)
    assert describe_install("cli,server") == f"pip install '{source}[cli,server]'"
