"""What an agent does, told as lines."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import _json
from penstock.agent import events as told
from penstock.agent.events import AgentEvent
from penstock.cli.chat.page import Page
from penstock.cli.chat.telling import MAX_RESULT, Teller, shortened
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
    return told.MessageUpdated(event=event)


def lines(page: Page) -> list[str]:
    """Give what is on the page, the open line too."""
    found = [line.text for line in page.take()]
    return [*found, page.open.text] if page.open is not None else found


def page_of(*events: Event | AgentEvent) -> list[str]:
    teller = Teller(Page())
    for event in events:
        teller.tell(event if isinstance(event, AgentEvent) else update(event))
    return lines(teller.page)


def call(name: str, arguments: dict[str, Any], index: int = 0, size: int = 3) -> list[Event]:
    """Give the events of a call, its JSON in pieces."""
    text = _json.encode(arguments).decode()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    end = ToolCallEnd(index, ToolCall(f"c{index}", name, arguments))
    deltas = [ToolCallDelta(index, piece) for piece in pieces]
    return [ToolCallStart(index, f"c{index}", name), *deltas, end]


# --- arguments ---


def test_a_file_is_seen_being_written() -> None:
    teller = Teller(Page())
    seen = []
    for event in call("write_file", {"path": "a.py", "content": 'print("é")\n\tpass'}, size=1):
        teller.tell(update(event))
        open_ = teller.page.open
        seen.append(open_.text if open_ else "")
    assert '  │ print("' in seen
    assert seen.index("  │ pr") < seen.index("  │ print") < seen.index('  │ print("é")')
    assert lines(teller.page) == ["● write_file a.py", '  │ print("é")', "  │     pass"]


def test_arguments_look_like_what_they_are() -> None:
    edit = {"path": "a.py", "old": "one\ntwo", "new": "three"}
    assert page_of(*call("edit_file", edit)) == [
        *("● edit_file a.py", "  - one", "  - two", "  + three"),
    ]
    assert page_of(*call("run_bash", {"command": "ls", "seconds": 2.5})) == [
        *("● run_bash", "  $ ls", "  seconds=2.5"),
    ]
    assert page_of(*call("search", {"query": "tides", "deep": [1, {"a": None}]})) == [
        '● search query=tides deep=[1,{"a":null}]',
    ]
    assert page_of(*call("search", {"query": "x" * 70, "n": 1})) == [
        *("● search", "  query:", f"  │ {'x' * 70}", "  n=1"),
    ]
    assert page_of(*call("now", {})) == ["● now"]


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(["path", "content", "note", "n"]),
        st.text('ab\n\r\x1b"\\é', max_size=70) | st.integers() | st.none(),
    ),
    st.integers(1, 9),
)
def test_it_does_not_matter_how_arguments_are_cut(arguments: dict[str, Any], size: int) -> None:
    assert page_of(*call("any", arguments, size=size)) == page_of(*call("any", arguments, size=999))


def test_arguments_that_came_all_at_once_or_mended_are_shown_too() -> None:
    asked = ToolCall("c", "run_bash", {"command": "ls"})
    assert page_of(ToolCallStart(0, "c", "run_bash"), ToolCallEnd(0, asked)) == [
        *("● run_bash", "  $ ls"),
    ]
    broken: list[Event] = [ToolCallStart(0, "c", "run_bash"), ToolCallDelta(0, "{'comm")]
    assert page_of(*broken, ToolCallEnd(0, asked))[-1] == '  read as {"command":"ls"}'
    cut = ToolCall("c", "run_bash", complete=False)
    assert page_of(*broken, ToolCallEnd(0, cut))[-1] == "  ! the call was cut off"


def test_calls_that_come_side_by_side_are_told_one_after_the_other() -> None:
    one = call("write_file", {"path": "a", "content": "aaaa\nbbbb"}, 0)
    other = call("write_file", {"path": "b", "content": "cccc\ndddd"}, 1)
    mixed = [event for pair in zip(one, other, strict=True) for event in pair]
    assert page_of(*mixed) == page_of(*one, *other)


# --- answers ---


def test_text_is_told_as_it_comes() -> None:
    assert page_of(TextStart(0), TextDelta(0, "one\nt"), TextDelta(0, "wo")) == ["one", "two"]


def test_a_thought_is_shown_while_it_comes_and_folded_after() -> None:
    teller = Teller(Page())
    teller.tell(update(ThinkingStart(0)))
    for number in range(20):
        teller.tell(update(ThinkingDelta(0, f"step {number}\n")))
    assert [line.text for line in teller.page.live][-1] == "┆ step 19"
    assert len(teller.page.live) == 5
    teller.tell(update(ThinkingEnd(0, "two words")))
    assert teller.page.live == []
    assert lines(teller.page) == ["┆ thought, 2 words"]
    assert teller.thoughts == ["two words"]


def test_results_of_eager_tools_wait_until_the_answer_has_said_its_line() -> None:
    end = told.ToolEnded("c0", "t", ToolResult("c0", "t", "done"))
    rest = (TextDelta(1, "more."), TextEnd(1, "And more."))
    assert page_of(TextStart(1), TextDelta(1, "And "), end, *rest) == ["And more.", "  → done"]


def test_what_waits_for_a_block_that_never_ends_is_told_all_the_same() -> None:
    end = told.ToolEnded("c0", "t", ToolResult("c0", "t", "done"))
    ended = told.AgentEnded([])
    assert page_of(TextStart(1), TextDelta(1, "And "), end, ended) == ["And ", "  → done"]


def test_what_is_said_is_told_but_what_was_found_only_once() -> None:
    said = told.MessageStarted(UserMessage([Text("one\ntwo")]))
    assert page_of(said) == ["> one", "  two"]
    found = told.FindingMade("rule", ["no-tabs"], "Use blanks.", interrupts=True)
    heard = told.MessageStarted(UserMessage("Use blanks.", "rule"))
    assert page_of(found, heard) == ["! rule no-tabs stopped the answer", "    Use blanks."]


def test_the_end_of_an_answer_is_told_where_it_is_not_the_usual_one() -> None:
    short = AssistantMessage("m", content=[Text("x")], stop_reason="length")
    assert page_of(told.MessageEnded(short)) == ["! the answer was cut at its length limit"]
    dropped = AssistantMessage("m", content=[Text("x")], stop_reason="error")
    assert page_of(told.MessageEnded(dropped, kept=False)) == ["  (this answer does not count)"]
    assert page_of(told.AgentEnded([], error=ErrorInfo("Request was aborted", "aborted"))) == [
        "■ stopped"
    ]
    assert page_of(told.AgentEnded([], error=ErrorInfo("it is down"))) == ["! it is down"]


# --- tools and notes ---


def test_results_are_cut() -> None:
    text = "\n".join(f"line {n}" for n in range(100)) + "\n"
    seen = page_of(told.ToolEnded("c", "t", ToolResult("c", "t", text)))
    assert len(seen) == MAX_RESULT
    assert seen[0] == "  → line 0"
    assert seen[-1] == "    line 99"
    assert "    … 89 lines …" in seen
    assert shortened(["a", "b"], 2) == ["a", "b"]


def test_output_is_seen_while_a_tool_runs() -> None:
    teller = Teller(Page())
    teller.tell(told.ToolUpdated("c", "run_bash", "one\ntwo\n"))
    assert [line.text for line in teller.page.live] == ["  ┆ one", "  ┆ two"]
    teller.tell(told.ToolUpdated("c", "odd", object()))
    teller.tell(told.ToolEnded("c", "run_bash", ToolResult("c", "run_bash", "two")))
    assert teller.page.live == []


def test_a_change_to_a_file_is_shown_as_one() -> None:
    diff = "--- a\n+++ a\n@@ -1 +1 @@\n-one\n+two"
    end = told.ToolEnded("c", "edit_file", ToolResult("c", "edit_file", "Edited a."), diff)
    assert page_of(end) == ["  → Edited a.", "    @@ -1 +1 @@", "    -one", "    +two"]


def test_notes_are_told_in_a_line() -> None:
    error = ErrorInfo("too busy")
    assert page_of(
        told.RetryStarted(1, 3, 2.0, error),
        told.CompactionStarted("asked", 12345),
        told.CompactionEnded("short", 4),
        told.CompactionEnded(error=error),
        told.ExtensionErrorEvent("hook input", "oh"),
    ) == [
        "! too busy: again in 2.0 s (1 of 3)",
        "  summing up 12,345 tokens …",
        "  summed up; the last 4 messages stay as they are",
        "! nothing was summed up: too busy",
        "! hook input: oh",
    ]


def test_a_note_does_not_end_the_line_that_is_being_written() -> None:
    page = Page()
    page.begin("  │ ", aside=True)
    page.add("half ")
    page.note("by the way", lead="! ")
    page.add("a line\r")
    page.add("\nnext")
    assert lines(page) == ["! by the way", "  │ half a line", "  │ next"]
