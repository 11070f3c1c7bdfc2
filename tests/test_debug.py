"""What a trace tells of a parser, and that it changes nothing."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws import cut_at
from laws.checks import read
from laws.strategies import CUTS, soup
from penstock import Parser, debug
from penstock.debug import DebugSettings, Summary, Traced
from penstock.events import Event, TextDelta

TEXT = 'Let me look.\n<tool_call>{"name": "tide", "arguments": {"port": "Leith"}}</tool_call> Done'
CALL = '<tool_call>{"name": "tide", "arguments": {"port": "Leith"}}</tool_call>'


def trace(
    mode: debug.Mode, *chunks: str, style: debug.Style = "bg", **options: Any
) -> tuple[list[str], Traced]:
    lines: list[str] = []
    parser = Parser("hermes")
    options.setdefault("call_segments", lambda text: [CALL] if CALL in text else [])
    traced = Traced(parser, DebugSettings(mode, style), lines.append, **options)
    read(traced, chunks or [TEXT])
    return lines, traced


def tagged(lines: list[str], tag: str) -> list[str]:
    start = f"[penstock:{tag}] "
    return [line.removeprefix(start) for line in lines if line.startswith(start)]


# --- settings ---


@pytest.mark.parametrize(
    ("said", "mode"),
    [
        ("off", "off"),
        ("stream", "stream"),
        (" Parse ", "parse"),
        ("1", "stream"),
        ("true", "stream"),
        ("YES", "stream"),
        ("2", "parse"),
        ("3", "off"),
        ("", "off"),
        ("on", "off"),
    ],
)
def test_a_mode_is_read_from_any_of_its_names(said: str, mode: str) -> None:
    assert debug.settings({"PENSTOCK_DEBUG": said}).mode == mode
    assert debug.settings({"DEBUG_PARSER_MW": said}).mode == mode


@pytest.mark.parametrize(
    ("said", "style"),
    [
        ("bg", "bg"),
        ("inverse", "inverse"),
        ("INVERT", "inverse"),
        ("underline", "underline"),
        ("ul", "underline"),
        ("bold", "bold"),
        ("blink", "bg"),
    ],
)
def test_a_style_is_read_from_any_of_its_names(said: str, style: str) -> None:
    assert debug.settings({"PENSTOCK_DEBUG_STYLE": said}).style == style
    assert debug.settings({"DEBUG_PARSER_MW_STYLE": said}).style == style


def test_our_own_name_goes_before_the_other_one_by_one() -> None:
    found = debug.settings(
        {"PENSTOCK_DEBUG": "off", "DEBUG_PARSER_MW": "parse", "DEBUG_PARSER_MW_STYLE": "bold"}
    )
    assert found == DebugSettings("off", "bold")
    assert debug.settings({}) == DebugSettings("off", "bg")


# --- what is written ---


def test_off_writes_nothing() -> None:
    lines, traced = trace("off")
    assert lines == []
    assert traced.summary == Summary()


def test_stream_writes_chunks_and_events_in_the_order_in_which_they_flow() -> None:
    lines, traced = trace("stream", "Hi ", "you")
    tags = [line.partition("]")[0] for line in lines]
    assert tags == [f"[penstock:{tag}" for tag in ("raw", "out", "out", "raw", "out", "out")]
    assert tagged(lines, "raw") == ['"Hi "', '"you"']
    assert [json.loads(line)["type"] for line in tagged(lines, "out")][:2] == [
        "text_start",
        "text_delta",
    ]
    assert traced.summary == Summary()


def test_parse_writes_that_and_at_the_end_the_text_and_the_calls() -> None:
    lines, _ = trace("parse", TEXT[:30], TEXT[30:])
    assert len(tagged(lines, "raw")) == 2
    assert tagged(lines, "origin") == [f"Let me look.\n>>>{CALL}<<< Done"]
    assert lines[-1].startswith("[penstock:summary] ")
    assert json.loads(tagged(lines, "summary")[0]) == [
        {"name": "tide", "arguments": {"port": "Leith"}}
    ]


def test_a_call_that_is_incomplete_is_said_to_be() -> None:
    lines: list[str] = []
    parser = Parser("hermes", arguments="live")
    traced = Traced(parser, DebugSettings("parse"), lines.append)
    traced.feed('<tool_call>{"name": "tide", "arguments": {"port": "Le')
    traced.finish(cut=True)
    assert json.loads(tagged(lines, "summary")[0])[0]["complete"] is False


@pytest.mark.parametrize(
    ("style", "code"), [("bg", "42;30"), ("inverse", "7"), ("underline", "4"), ("bold", "1")]
)
def test_in_colour_every_line_of_a_call_is_marked_in_its_style(
    style: debug.Style, code: str
) -> None:
    segment = "<tool_call>\n\nx</tool_call>"
    lines, _ = trace(
        "parse", f"a {segment} b", style=style, colour=True, call_segments=lambda _: [segment]
    )
    (origin,) = (line for line in lines if "origin" in line)
    first, second = (f"\x1b[{code}m{part}\x1b[0m" for part in ("<tool_call>", "x</tool_call>"))
    assert origin.endswith(f"a {first}\n\n{second} b")


def test_without_colour_no_line_holds_an_escape() -> None:
    lines, _ = trace("parse", "\x1b[2J\x9b5n\ud83d", TEXT)
    assert not any(character in "".join(lines) for character in "\x1b\x9b\ud83d")
    assert "\\x1b[2J" in tagged(lines, "origin")[0]


def test_a_piece_that_is_not_in_the_text_is_passed_over() -> None:
    lines, _ = trace("parse", TEXT, call_segments=lambda _: ["elsewhere", CALL])
    assert f">>>{CALL}<<<" in tagged(lines, "origin")[0]


# --- the summary as a value ---


def test_a_program_gets_the_summary_instead_of_lines() -> None:
    summaries: list[Summary] = []
    lines, traced = trace("off", on_summary=summaries.append)
    assert lines == []
    assert summaries == [traced.summary]
    assert traced.summary.text == TEXT
    assert traced.summary.segments == [CALL]
    assert traced.summary.original_text == CALL
    assert [call.arguments for call in traced.summary.calls] == [{"port": "Leith"}]


def test_in_parse_with_a_program_only_the_summary_is_not_written() -> None:
    lines, _ = trace("parse", on_summary=lambda _: None)
    assert tagged(lines, "raw")
    assert not tagged(lines, "summary")
    assert not tagged(lines, "origin")


def test_pieces_stand_apart_in_the_original_text() -> None:
    assert Summary(segments=["a", "b"]).original_text == "a\n\nb"


def test_the_text_that_is_kept_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug, "MAX_KEPT", 7)
    _, traced = trace("parse", "12345", "678", "9")
    assert traced.summary.text == "1234567"


# --- nothing changes ---


@given(text=soup("<tool_call>", "</tool_call>", CALL), cuts=CUTS, colour=st.booleans())
def test_events_pass_as_they_are(text: str, cuts: list[int], colour: bool) -> None:  # noqa: FBT001
    chunks = cut_at(text, cuts)
    lines: list[str] = []
    traced = Traced(Parser("hermes"), DebugSettings("parse"), lines.append, colour=colour)
    plain = Parser("hermes")
    assert read(traced, chunks) == read(plain, chunks)
    assert traced.rest == plain.rest
    assert traced.spans == plain.spans


@pytest.mark.parametrize("broken", ["write", "call_segments", "on_summary"])
def test_nobody_who_is_told_can_end_the_stream(broken: str) -> None:
    def fail(_: object) -> Any:
        raise OSError("the disk is full")

    given: dict[str, Any] = {broken: fail}
    write = given.pop("write", lambda _: None)
    traced = Traced(Parser("hermes"), DebugSettings("parse"), write, **given)
    assert read(traced, [TEXT]) == read(Parser("hermes"), [TEXT])


def test_text_is_shown_even_where_its_calls_cannot_be() -> None:
    def fail(_: str) -> list[str]:
        raise ValueError("no")

    lines, _ = trace("parse", call_segments=fail)
    assert tagged(lines, "origin") == [TEXT]


class OwnParser:
    """A parser of a user: no `cut`, and an event that has no JSON form."""

    def feed(self, text: str) -> list[Event]:
        return [TextDelta(0, text, object())]  # type: ignore[arg-type]

    def finish(self) -> list[Event]:
        return []


def test_any_parser_can_be_traced_and_what_cannot_be_shown_is_left_out() -> None:
    lines: list[str] = []
    traced = Traced(OwnParser(), DebugSettings("stream"), lines.append)
    assert len(traced.feed("a")) == 1
    assert traced.finish() == []
    assert tagged(lines, "raw") == ['"a"']
    assert tagged(lines, "out") == []


def test_errors_of_the_parser_itself_are_not_hidden() -> None:
    _, traced = trace("parse")
    with pytest.raises(Exception, match="finished"):
        traced.feed("more")
    with pytest.raises(AttributeError):
        traced.nonsense  # noqa: B018


def test_a_trace_can_be_copied() -> None:
    _, traced = trace("off")
    assert copy.copy(traced).rest == traced.rest
