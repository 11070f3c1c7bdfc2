"""Differences between two results for one response, line by line."""

from __future__ import annotations

from typing import Any

from penstock.gateway.replay import MAX_DIFF, Difference, find_differences
from penstock.messages import AssistantMessage, ErrorInfo, Text, Thinking, ToolCall


def message(*content: Any, end: Any = "stop", error: ErrorInfo | None = None) -> AssistantMessage:
    return AssistantMessage(content=[*content], stop_reason=end, error=error)


def whats(then: AssistantMessage, now: AssistantMessage, *, is_whole: bool = True) -> list[str]:
    return [one.what for one in find_differences(then, now, is_whole=is_whole)]


def test_ids_of_calls_make_no_difference() -> None:
    then, now = (message(ToolCall(id_, "f", {"a": 1})) for id_ in ("c1", "c2"))
    assert whats(then, now) == []


def test_everything_that_a_client_sees_makes_one() -> None:
    then = message(Thinking("a"), Text("b"), ToolCall("1", "f", {"x": 1}), end="tool_use")
    now = message(Thinking("A"), Text("B"), ToolCall("1", "f", {"x": "1"}), end="stop")
    assert whats(then, now) == ["thinking", "text", "call 1", "end"]


def test_repairs_and_calls_that_were_cut_are_told() -> None:
    then = message(ToolCall("1", "f", repairs=["closed a brace"]))
    assert whats(then, message(ToolCall("1", "f"))) == ["repairs of call 1"]
    cut = message(ToolCall("1", "f", complete=False, repairs=["closed a brace"]))
    assert find_differences(then, cut)[0].lines() == ["- f", "+ f (cut off)"]


def test_a_call_that_only_one_has_is_shown_whole() -> None:
    call = ToolCall("1", "write", {"path": "a.py", "text": "one\ntwo"})
    (found,) = find_differences(message(), message(call))
    lines = ["+ write", '+   path: "a.py"', "+   text: |", "+     one", "+     two"]
    assert found.lines() == lines


def test_of_a_long_text_only_the_lines_around_a_change_are_shown() -> None:
    then = [f"line {number}" for number in range(100)]
    now = [*then[:50], "another", *then[51:]]
    lines = Difference("text", "\n".join(then), "\n".join(now)).lines()
    assert lines == ["  line 48", "  line 49", "- line 50", "+ another", "  line 51", "  line 52"]


def test_lines_that_end_differently_are_told_apart() -> None:
    assert Difference("text", "a\r\nb", "a\nb").lines() == ["- 'a\\r\\nb'", "+ 'a\\nb'"]


def test_texts_that_are_too_long_to_compare_are_counted() -> None:
    long = "x\n" * MAX_DIFF
    assert Difference("text", long, "").lines() == ["- 400,000 characters", "+ 0 characters"]


def test_the_kind_of_an_error_counts_and_its_words_do_not() -> None:
    def failed(words: str, kind: Any) -> AssistantMessage:
        return message(end="error", error=ErrorInfo(words, kind))

    assert whats(failed("a", "provider"), failed("b", "provider")) == []
    assert whats(failed("a", "provider"), failed("a", "truncated")) == ["end"]


def test_of_an_answer_that_was_left_only_its_beginning_counts() -> None:
    then = message(Text("At s"), ToolCall("1", "f"), ToolCall("2", "g", complete=False))
    now = message(Text("At six."), ToolCall("1", "f"), ToolCall("2", "h"), end="tool_use")
    assert whats(then, now, is_whole=False) == []
    assert whats(then, message(Text("At noon.")), is_whole=False) == ["text", "call 1"]
