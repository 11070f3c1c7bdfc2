"""Events of an agent, rendered as lines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import _json
from penstock.agent import events as agent_events
from penstock.agent.events import AgentEvent
from penstock.cli.chat.render import (
    MAX_RESULT,
    EventRenderer,
    LineBuffer,
    escape_text,
    shorten_lines,
)
from penstock.events import (
    Event,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import AssistantMessage, ErrorInfo, Text, ToolCall, ToolResult
from penstock.request import UserMessage


def update(event: Event) -> AgentEvent:
    return agent_events.MessageUpdated(event=event)


def take_lines(page: LineBuffer) -> list[str]:
    """Return the lines in *page*, the open one too."""
    found = [line.text for line in page.take_finished()]
    return [*found, page.open.text] if page.open is not None else found


def render_lines(*events: Event | AgentEvent) -> list[str]:
    renderer = EventRenderer(LineBuffer())
    for event in events:
        renderer.render(event if isinstance(event, AgentEvent) else update(event))
    return take_lines(renderer.lines)


def call(name: str, arguments: dict[str, Any], index: int = 0, size: int = 3) -> list[Event]:
    """Return the events of a call, with its JSON in pieces."""
    text = _json.encode(arguments).decode()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    end = ToolCallEnd(index, ToolCall(f"c{index}", name, arguments))
    deltas = [ToolCallDelta(index, piece) for piece in pieces]
    return [ToolCallStart(index, f"c{index}", name), *deltas, end]


# --- arguments ---


def test_a_file_appears_while_it_is_written() -> None:
    renderer = EventRenderer(LineBuffer())
    seen = []
    for event in call("write_file", {"path": "a.py", "content": 'print("é")\n\tpass'}, size=1):
        renderer.render(update(event))
        open_ = renderer.lines.open
        seen.append(open_.text if open_ else "")
    assert '  │ print("' in seen
    assert seen.index("  │ pr") < seen.index("  │ print") < seen.index('  │ print("é")')
    assert take_lines(renderer.lines) == ["● write_file a.py", '  │ print("é")', "  │     pass"]


def test_each_kind_of_argument_has_its_form() -> None:
    edit = {"path": "a.py", "old": "one\ntwo", "new": "three"}
    assert render_lines(*call("edit_file", edit)) == [
        *("● edit_file a.py", "  - one", "  - two", "  + three"),
    ]
    assert render_lines(*call("run_bash", {"command": "ls", "seconds": 2.5})) == [
        *("● run_bash", "  $ ls", "  seconds=2.5"),
    ]
    assert render_lines(*call("search", {"query": "tides", "deep": [1, {"a": None}]})) == [
        '● search query=tides deep=[1,{"a":null}]',
    ]
    assert render_lines(*call("search", {"query": "x" * 70, "n": 1})) == [
        *("● search", "  query:", f"  │ {'x' * 70}", "  n=1"),
    ]
    assert render_lines(*call("now", {})) == ["● now"]


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(["path", "content", "note", "n"]),
        st.text('ab\n\r\x1b"\\é', max_size=70) | st.integers() | st.none(),
    ),
    st.integers(1, 9),
)
def test_the_lines_do_not_depend_on_how_arguments_are_cut(
    arguments: dict[str, Any], size: int
) -> None:
    assert render_lines(*call("any", arguments, size=size)) == render_lines(
        *call("any", arguments, size=999)
    )


def test_arguments_that_came_whole_or_were_repaired_are_shown_too() -> None:
    asked = ToolCall("c", "run_bash", {"command": "ls"})
    assert render_lines(ToolCallStart(0, "c", "run_bash"), ToolCallEnd(0, asked)) == [
        *("● run_bash", "  $ ls"),
    ]
    broken: list[Event] = [ToolCallStart(0, "c", "run_bash"), ToolCallDelta(0, "{'comm")]
    assert render_lines(*broken, ToolCallEnd(0, asked))[-1] == '  read as {"command":"ls"}'
    cut = ToolCall("c", "run_bash", complete=False)
    assert render_lines(*broken, ToolCallEnd(0, cut))[-1] == "  ! the call was cut off"


def test_interleaved_calls_are_shown_one_after_the_other() -> None:
    one = call("write_file", {"path": "a", "content": "aaaa\nbbbb"}, 0)
    other = call("write_file", {"path": "b", "content": "cccc\ndddd"}, 1)
    mixed = [event for pair in zip(one, other, strict=True) for event in pair]
    assert render_lines(*mixed) == render_lines(*one, *other)


# --- responses ---


def test_text_is_shown_as_it_arrives() -> None:
    assert render_lines(TextStart(0), TextDelta(0, "one\nt"), TextDelta(0, "wo")) == ["one", "two"]


def test_reasoning_is_shown_while_it_arrives_and_then_as_a_count() -> None:
    renderer = EventRenderer(LineBuffer())
    renderer.render(update(ThinkingStart(0)))
    for number in range(20):
        renderer.render(update(ThinkingDelta(0, f"step {number}\n")))
    assert [line.text for line in renderer.lines.preview][-1] == "┆ step 19"
    assert len(renderer.lines.preview) == 5
    renderer.render(update(ThinkingEnd(0, "two words")))
    assert renderer.lines.preview == []
    assert take_lines(renderer.lines) == ["┆ reasoning, 2 words"]
    assert renderer.reasoning == ["two words"]


def test_results_of_eager_tools_are_shown_after_the_open_block() -> None:
    end = agent_events.ToolEnded("c0", "t", ToolResult("c0", "t", "done"))
    rest = (TextDelta(1, "more."), TextEnd(1, "And more."))
    assert render_lines(TextStart(1), TextDelta(1, "And "), end, *rest) == ["And more.", "  → done"]


def test_deferred_events_are_shown_if_the_open_block_never_ends() -> None:
    end = agent_events.ToolEnded("c0", "t", ToolResult("c0", "t", "done"))
    ended = agent_events.AgentEnded([])
    assert render_lines(TextStart(1), TextDelta(1, "And "), end, ended) == ["And ", "  → done"]


def test_a_prompt_is_shown_and_a_finding_is_shown_once() -> None:
    said = agent_events.MessageStarted(UserMessage([Text("one\ntwo")]))
    assert render_lines(said) == ["> one", "  two"]
    found = agent_events.FindingMade("rule", ["no-tabs"], "Use blanks.", interrupts=True)
    heard = agent_events.MessageStarted(UserMessage("Use blanks.", "rule"))
    assert render_lines(found, heard) == ["! rule no-tabs stopped the response", "    Use blanks."]


def test_an_unusual_end_of_a_response_is_shown() -> None:
    short = AssistantMessage("m", content=[Text("x")], stop_reason="length")
    assert render_lines(agent_events.MessageEnded(short)) == [
        "! the response was cut at its length limit"
    ]
    dropped = AssistantMessage("m", content=[Text("x")], stop_reason="error")
    assert render_lines(agent_events.MessageEnded(dropped, kept=False)) == [
        "  (this response is not kept)"
    ]
    assert render_lines(
        agent_events.AgentEnded([], error=ErrorInfo("Request was aborted", "aborted"))
    ) == ["■ stopped"]
    assert render_lines(agent_events.AgentEnded([], error=ErrorInfo("it is down"))) == [
        "! it is down"
    ]


# --- tools and notices ---


def test_long_results_are_shortened() -> None:
    text = "\n".join(f"line {n}" for n in range(100)) + "\n"
    seen = render_lines(agent_events.ToolEnded("c", "t", ToolResult("c", "t", text)))
    assert len(seen) == MAX_RESULT
    assert seen[0] == "  → line 0"
    assert seen[-1] == "    line 99"
    assert "    … 89 lines …" in seen
    assert shorten_lines(["a", "b"], 2) == ["a", "b"]


def test_output_is_previewed_while_a_tool_runs() -> None:
    renderer = EventRenderer(LineBuffer())
    renderer.render(agent_events.ToolUpdated("c", "run_bash", "one\ntwo\n"))
    assert [line.text for line in renderer.lines.preview] == ["  ┆ one", "  ┆ two"]
    renderer.render(agent_events.ToolUpdated("c", "odd", object()))
    renderer.render(agent_events.ToolEnded("c", "run_bash", ToolResult("c", "run_bash", "two")))
    assert renderer.lines.preview == []


def test_an_edit_is_shown_as_a_diff() -> None:
    diff = "--- a\n+++ a\n@@ -1 +1 @@\n-one\n+two"
    end = agent_events.ToolEnded("c", "edit_file", ToolResult("c", "edit_file", "Edited a."), diff)
    assert render_lines(end) == ["  → Edited a.", "    @@ -1 +1 @@", "    -one", "    +two"]


def test_notices_are_shown_in_one_line() -> None:
    error = ErrorInfo("too busy")
    assert render_lines(
        agent_events.RetryStarted(1, 3, 2.0, error),
        agent_events.CompactionStarted("asked", 12345),
        agent_events.CompactionEnded("short", 4),
        agent_events.CompactionEnded(error=error),
        agent_events.ExtensionErrorEvent("hook input", "oh"),
    ) == [
        "! too busy: retry 1 of 3 in 2.0 s",
        "  summarizing 12,345 tokens …",
        "  summarized; the last 4 messages are unchanged",
        "! the conversation was not summarized: too busy",
        "! hook input: oh",
    ]


def test_a_note_does_not_end_the_open_line() -> None:
    page = LineBuffer()
    page.begin("  │ ", auxiliary=True)
    page.add("half ")
    page.note("by the way", lead="! ")
    page.add("a line\r")
    page.add("\nnext")
    assert take_lines(page) == ["! by the way", "  │ half a line", "  │ next"]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("a\x00b\x7fc", r"a\x00b\x7fc"),
        ("\x9b31m", r"\x9b31m"),
        ("\u202etxt.exe", r"\u202etxt.exe"),
        ("\ud800", r"\ud800"),
        ("\r", r"\r"),
        ("a\tb", "a    b"),
        ("e\u0301 👩\u200d🚀 日本", "e\u0301 👩\u200d🚀 日本"),
    ],
)
def test_characters_that_control_a_terminal_are_escaped(text: str, escaped: str) -> None:
    assert escape_text(text) == escaped
