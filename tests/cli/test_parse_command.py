"""``penstock parse`` as a person uses it: what a model wrote in, events out."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from penstock.cli import main, parse
from penstock.cli.app import app

TEXT = 'On it.\n<tool_call>{"name": "tide", "arguments": {"hours": "6"}}</tool_call> Bye'
TOOLS = [{"name": "tide", "parameters": {"properties": {"hours": {"type": "integer"}}}}]

runner = CliRunner()


def run(*arguments: str, text: str | bytes = TEXT) -> list[dict[str, Any]]:
    result = runner.invoke(app, ["parse", *arguments], input=text)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def types_of(lines: list[dict[str, Any]]) -> list[str]:
    return [line["type"] for line in lines]


def calls_of(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line["call"] for line in lines if line["type"] == "toolcall_end"]


def text_of(lines: list[dict[str, Any]]) -> str:
    return "".join(line["text"] for line in lines if line["type"] == "text_delta")


@pytest.fixture
def tools(tmp_path: Path) -> str:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(TOOLS))
    return str(file)


def test_a_pipe_becomes_events_one_a_line() -> None:
    lines = run()
    assert types_of(lines) == [
        *("text_start", "text_delta", "text_end"),
        *("toolcall_start", "toolcall_delta", "toolcall_end"),
        *("text_start", "text_delta", "text_end"),
    ]
    assert "".join(line["raw"] for line in lines) == TEXT


def test_a_file_is_read_and_arguments_are_fitted_to_the_tools(tmp_path: Path, tools: str) -> None:
    file = tmp_path / "answer.txt"
    file.write_text(TEXT)
    (call,) = calls_of(run(str(file), "--tools", tools))
    assert call["arguments"] == {"hours": 6}


def test_a_dash_is_the_pipe() -> None:
    assert text_of(run("-")) == "On it.\n Bye"


def test_a_chunk_has_as_many_characters_as_asked_for() -> None:
    lines = run("--chunk", "2", text="abcde")
    assert [line["text"] for line in lines if line["type"] == "text_delta"] == ["ab", "cd", "e"]


def test_a_format_is_found_by_its_name_in_any_spelling() -> None:
    text = '```tool_call\n{"name": "tide"}\n```'
    (call,) = calls_of(run("--format", "Gemma", text=text))
    assert call["name"] == "tide"


def test_live_arguments_come_as_they_arrive() -> None:
    text = '<tool_call>{"name": "say", "arguments": {"text": "one two three'
    lines = run("--arguments", "live", "--chunk", "4", text=text)
    assert types_of(lines).count("toolcall_delta") > 3
    assert calls_of(lines)[0]["complete"] is False


def test_a_cut_call_is_text_and_it_is_said_why() -> None:
    result = runner.invoke(app, ["parse"], input='<tool_call>{"name": "tide", "argu')
    assert text_of([json.loads(line) for line in result.stdout.splitlines()]).startswith("<tool")
    assert result.stderr.startswith("penstock: ")


def test_a_call_of_a_tool_that_is_not_offered_is_explained(tools: str) -> None:
    text = "<tool_call>\n<function=write_file>\n<parameter=path>\na\n</parameter>\n</function>"
    result = runner.invoke(app, ["parse", "--tools", tools], input=text)
    assert result.stderr == (
        "penstock: looks like a qwen3_coder call of `write_file`, but the tool is not offered; "
        "pass its tool with --tools, or --format qwen3_coder\n"
    )
    assert calls_of(run("--tools", tools, "--format", "qwen3_coder", text=text))
    assert calls_of(run(text=text)), "without tools, every marked call is read"


def test_a_call_in_another_format_is_explained(tools: str) -> None:
    result = runner.invoke(app, ["parse", "--tools", tools, "--format", "gemma"], input=TEXT)
    assert "looks like a hermes call of `tide`" in result.stderr
    assert "pass --format hermes, or --format auto" in result.stderr


def test_a_broken_call_is_repaired_by_default(tools: str) -> None:
    text = '<tool_call>{"name": "tide", "arguments": {"hours": 6}'
    (call,) = calls_of(run("--tools", tools, text=text))
    assert call["arguments"] == {"hours": 6}
    assert call["repairs"]
    assert calls_of(run("--no-repair", "--tools", tools, text=text)) == []
    result = runner.invoke(app, ["parse", "--no-repair", "--tools", tools], input=text)
    assert "drop --no-repair" in result.stderr


def test_trim_drops_white_space_that_touches_a_call() -> None:
    assert text_of(run("--trim")) == "On it.Bye"


def test_reasoning_is_told_apart_unless_it_is_switched_off() -> None:
    text = "<think>hm</think>yes"
    assert "thinking_delta" in types_of(run(text=text))
    assert text_of(run("--reasoning", "none", text=text)) == text


def test_the_ai_sdk_sees_its_own_parts() -> None:
    lines = run("--view", "ai-sdk")
    assert types_of(lines)[:3] == ["text-start", "text-delta", "text-end"]
    (call,) = (line for line in lines if line["type"] == "tool-call")
    assert json.loads(call["input"]) == {"hours": "6"}


def test_a_chat_client_sees_its_chunks() -> None:
    lines: list[Any] = run("--view", "openai")
    *chunks, done = lines
    calls = [c for chunk in chunks for c in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert json.loads("".join(call["function"]["arguments"] for call in calls)) == {"hours": "6"}
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert done == "[DONE]"


def test_segments_are_shown_where_they_are_asked_for(tools: str) -> None:
    lines = run("--view", "segments", "--tools", tools)
    starts = [line["segment_type"] for line in lines if line["type"] == "SEGMENT_START"]
    assert starts == ["text", "tool_call", "text"]


def test_a_character_that_is_cut_in_two_is_whole_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "READ_SIZE", 1)
    assert text_of(run(text="é日😀".encode())) == "é日😀"
    assert text_of(run(text="é".encode()[:1])) == "\ufffd"
    assert text_of(run(text=b"\xef\xbb\xbfa")) == "a"


def test_what_comes_is_shown_before_the_pipe_ends() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "penstock", "parse"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(b"Hello \xe2\x82")
        running.stdin.flush()
        assert json.loads(running.stdout.readline())["type"] == "text_start"
        assert json.loads(running.stdout.readline())["text"] == "Hello "
        running.stdin.write(b"\xac")
        running.stdin.close()
        assert json.loads(running.stdout.readline())["text"] == "€"
        assert json.loads(running.stdout.readline())["type"] == "text_end"
    assert running.returncode == 0


def test_the_output_is_utf_8_whatever_the_locale() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "parse"],
        input="é🙂".encode(),
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout.decode().splitlines()[1])["text"] == "é🙂"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["not-there.txt"], "not-there.txt", id="no such file"),
        pytest.param(["."], ".: ", id="a directory"),
        pytest.param(["--tools", "not-there.json"], "tools in", id="no such tools"),
        pytest.param(["--tools", __file__], "tools in", id="tools that are no JSON"),
        pytest.param(["--format", "morse"], "hermes", id="no such format"),
        pytest.param(["--reasoning", "loud"], "reasoning", id="no such reasoning"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(arguments: list[str], said: str) -> None:
    result = runner.invoke(app, ["parse", *arguments], input=TEXT)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("penstock: ")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["--view", "opera"], ["--chunk", "-1"], ["--arguments", "some"]]
)
def test_an_option_with_a_value_that_it_cannot_have_is_refused(arguments: list[str]) -> None:
    assert runner.invoke(app, ["parse", *arguments], input=TEXT).exit_code == 2


def test_without_a_file_or_a_pipe_the_command_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["penstock", "parse"])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "pipe text to stdin" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["hermes", "gemma"])
def test_the_demo_reads_a_call_in_prose(name: str) -> None:
    result = runner.invoke(app, ["parse", "--demo", "--format", name])
    assert result.exit_code == 0
    assert "I will note the tide." in result.stdout
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith('{"type')]
    (call,) = calls_of(lines)
    assert call["arguments"]["path"] == "tides.md"
    assert types_of(lines).count("toolcall_delta") > 2


def test_the_demo_of_a_format_without_calls_is_prose() -> None:
    result = runner.invoke(app, ["parse", "--demo", "--format", "none"])
    assert result.exit_code == 0
    assert "toolcall" not in result.stdout


# --- debugging ---


def test_the_environment_switches_the_trace_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DEBUG", "parse")
    result = runner.invoke(app, ["parse"], input=TEXT)
    assert "[penstock:raw] " in result.stderr
    assert ">>><tool_call>" in result.stderr
    assert '[penstock:summary] [{"name":"tide"' in result.stderr
    assert "penstock:" not in result.stdout


def test_without_it_nothing_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_DEBUG", raising=False)
    assert runner.invoke(app, ["parse"], input=TEXT).stderr == ""


# --- on a terminal ---


@pytest.mark.parametrize(
    ("item", "style"),
    [
        ({"type": "text_delta"}, ""),
        ({"type": "thinking_delta"}, "dim"),
        ({"type": "toolcall_start"}, "cyan"),
        ({"type": "toolcall_end", "call": {"complete": True}}, "bold green"),
        ({"type": "toolcall_end", "call": {"complete": False}}, "bold red"),
        ({"type": "tool-input-delta"}, "cyan"),
        ({"type": "tool-call"}, "bold green"),
        ({"type": "SEGMENT_END"}, ""),
    ],
)
def test_on_a_terminal_a_line_has_the_colour_of_its_kind(item: dict[str, Any], style: str) -> None:
    assert parse._find_style(item) == style


def test_what_a_model_wrote_steers_no_terminal() -> None:
    screen = io.StringIO()
    parse._show_item(
        Console(file=screen, force_terminal=True, color_system=None), {"type": "x\x9b2J"}
    )
    assert "\x9b" not in screen.getvalue()
    assert "\\x9b2J" in screen.getvalue()
