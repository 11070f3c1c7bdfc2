"""Huge entries are cut where it hurts least."""

from __future__ import annotations

from agent.session.records import entry
from penstock.agent.session.entries import MAX_STRING, MessageEntry, cut_long_strings
from penstock.messages import AssistantMessage, Text, Thinking, ToolResult


def test_long_strings_are_cut_and_say_so() -> None:
    content = {"a": ["x" * (MAX_STRING + 7), "short"], "b": "y" * MAX_STRING}
    found = cut_long_strings(entry(1, ToolResult("c", "t", content)))
    assert isinstance(found, MessageEntry)
    assert isinstance(found.message, ToolResult)
    cut, short = found.message.content["a"]
    assert cut == "x" * MAX_STRING + "\n[7 characters were not written down]"
    assert (short, found.message.content["b"]) == ("short", content["b"])


def test_half_a_signature_is_none() -> None:
    said = AssistantMessage(content=[Thinking("hm", "s" * MAX_STRING * 2), Text("t", "kept")])
    found = cut_long_strings(entry(1, said))
    assert isinstance(found, MessageEntry)
    assert found.message == AssistantMessage(content=[Thinking("hm"), Text("t", "kept")])
