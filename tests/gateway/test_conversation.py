"""The log says what a request asked, what the response was, and which request it continues."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import apis
from penstock.gateway.conversation import (
    MAX_ARGUMENTS,
    MAX_ASKED,
    list_searched,
    summarize_request,
    summarize_response,
)
from penstock.messages import AssistantMessage, Text, Thinking, ToolCall
from penstock.request import Request
from penstock.store import MAX_LINE

CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}
RUN: list[dict[str, Any]] = [
    {"role": "user", "content": "Find the tide table."},
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "02:14 high"},
    {"role": "assistant", "content": "High at 02:14."},
    {"role": "user", "content": "And tomorrow?"},
]


def read(api: str, **fields: Any) -> Request:
    return apis.get(api).read_request({"model": "m", **fields})


def test_a_request_continues_the_one_before_the_last_response() -> None:
    first, second, third = (
        summarize_request(read("openai-chat", messages=RUN[:number])) for number in (1, 3, 5)
    )
    assert first.prefix_hash == ""
    assert second.prefix_hash == first.messages_hash
    assert third.prefix_hash == second.messages_hash
    assert [one.messages for one in (first, second, third)] == [1, 3, 5]


def test_what_clients_change_in_messages_that_they_send_back_does_not_matter() -> None:
    changed = json.loads(json.dumps(RUN[:3]))
    changed[1]["tool_calls"][0] |= {"id": "other"}
    changed[1]["tool_calls"][0]["function"]["arguments"] = '{"a":1}'
    changed[1]["content"] = "I look.\n"
    changed[2]["tool_call_id"] = "other"
    system = [{"role": "system", "content": "It is noon."}]
    summaries = [
        summarize_request(read("openai-chat", messages=messages))
        for messages in (RUN[:3], changed, system + RUN[:3])
    ]
    assert len({one.messages_hash for one in summaries}) == 1
    other = summarize_request(read("openai-chat", messages=[*RUN[:2], {**RUN[2], "content": "x"}]))
    assert other.messages_hash != summaries[0].messages_hash


def test_the_messages_of_anthropic_continue_each_other_too() -> None:
    call = {"type": "tool_use", "id": "t", "name": "look", "input": {"a": 1}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "02:14"}
    marked = {"type": "text", "text": "Go.", "cache_control": {"type": "ephemeral"}}
    messages = [
        {"role": "user", "content": [marked]},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]},
        {"role": "user", "content": [result, {"type": "text", "text": "<system-reminder>x"}]},
    ]
    unmarked = [{"role": "user", "content": "Go."}]
    first = summarize_request(read("anthropic", messages=unmarked, max_tokens=9))
    second = summarize_request(read("anthropic", messages=messages, max_tokens=9))
    assert second.prefix_hash == first.messages_hash
    assert second.prompt == "Go."


def test_the_prompt_and_the_new_messages_are_searchable_and_bounded() -> None:
    long = "word " * 10_000
    messages = [*RUN[:3], {**RUN[2], "content": long}]
    summary = summarize_request(read("openai-chat", messages=messages))
    assert summary.prompt == "Find the tide table."
    assert summary.asked.startswith("02:14 high\nword")
    assert len(summary.asked) < MAX_ASKED + 100
    assert "tide table" not in summary.asked  # the request before is found by that
    lines = summarize_request(read("openai-chat", messages=[{"role": "user", "content": long}]))
    assert len(lines.prompt) <= MAX_LINE


@pytest.mark.parametrize(
    ("content", "summary"),
    [
        pytest.param([Text(" \n High at\n02:14. ")], "High at 02:14.", id="text"),
        pytest.param([Thinking("hm"), Text("")], "hm", id="nothing but reasoning"),
        pytest.param([Text("I look."), ToolCall("1", "a"), ToolCall("2", "b")], "a, b", id="calls"),
        pytest.param([], "", id="nothing"),
    ],
)
def test_a_response_is_summarized_by_its_calls_or_first_words(
    content: list[Any], summary: str
) -> None:
    assert summarize_response(AssistantMessage(content=content)) == summary


def test_arguments_and_reasoning_are_searchable_and_bounded() -> None:
    call = ToolCall("1", "write_file", {"path": "a.md", "lines": ["x", 3, True], "of": {"k": None}})
    message = AssistantMessage(content=[Thinking("First the file."), call])
    assert [*list_searched(message)] == [
        "write_file", "path", "a.md", "lines", "x", "3", "of", "k", "First the file.",
    ]  # fmt: skip
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"key": deep, "text": "y" * 100}
    found = "\n".join(list_searched(AssistantMessage(content=[ToolCall("1", "n", deep)])))
    assert len(found) < 2 * MAX_ARGUMENTS
