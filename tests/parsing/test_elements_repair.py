"""Calls as elements that the response ends inside of: what is closed, shown or not changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from laws import check_monotone, chunkings
from parsing.element_samples import MODES, TOOLS, Mode, parser
from parsing.samples import complete_calls, message_of
from penstock.events import Event, ToolCallDelta
from penstock.messages import AssistantMessage
from penstock.parsing import Engine
from penstock.readers.elements import ElementCalls


def end(chunks: list[str], mode: Mode, *, trims: bool = False) -> AssistantMessage:
    """Read an answer that the model ended by itself, and mend it."""
    syntax = ElementCalls.of(TOOLS, trims=trims)
    reader = Engine(syntax, TOOLS, arguments=mode, repair=True)
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    events += reader.finish(cut=False)
    check_monotone(events)
    return message_of(events)


def added(*names: str) -> list[str]:
    return [f"added the missing `</{name}>`" for name in names]


# --- a call that the model left open ---


OPEN = {
    "the call": ("<path>a</path>", {"path": "a"}, added("write")),
    "the call, in white space": ("<path>a</path>\n ", {"path": "a"}, added("write")),
    "the call, behind a number": ("<mode>3</mode>", {"mode": 3}, added("write")),
    "the call, behind a tag that is data": (
        "<path>a('</path>') b</path>",
        {"path": "a('</path>') b"},
        added("write"),
    ),
    "the call, in its end tag": ("<path>a</path></wri", {"path": "a"}, added("write")),
    "a string": ("<path>a\n", {"path": "a\n"}, added("path", "write")),
    "an escaped string": ("<path>a &lt; &amp;", {"path": "a < &"}, added("path", "write")),
    "code": ("<path>a <b>&amp;", {"path": "a <b>&amp;"}, added("path", "write")),
    "a string, but not the call": ("<path>a</write>", {"path": "a"}, added("path")),
    "a number": ("<path>a</path><mode>3", {"path": "a", "mode": 3}, added("mode", "write")),
    "a list": ("<tags>a", {"tags": ["a"]}, added("tags", "write")),
    "an element of a list": (
        "<tags><item>a</item><item>b",
        {"tags": ["a", "b"]},
        added("item", "tags", "write"),
    ),
    "a string further down": (
        "<edits><line>1</line><old>x",
        {"edits": [{"line": 1, "old": "x"}]},
        added("old", "edits", "write"),
    ),
    "JSON that is whole": ('<meta>{"a": 1}', {"meta": {"a": 1}}, added("meta", "write")),
}


@pytest.mark.parametrize(("body", "arguments", "repairs"), OPEN.values(), ids=OPEN)
@pytest.mark.parametrize("mode", MODES)
def test_what_the_model_left_open_is_closed_where_it_stopped(
    body: str, arguments: dict[str, Any], repairs: list[str], mode: Mode
) -> None:
    for chunks in chunkings(f"so <write>{body}"):
        message = end(chunks, mode)
        assert complete_calls(message) == [("write", arguments)]
        assert message.tool_calls[0].repairs == repairs
        assert message.text == "so "


@pytest.mark.parametrize("mode", MODES)
def test_a_remark_after_the_last_argument_is_text(mode: Mode) -> None:
    for chunks in chunkings("<write><path>a</path> so"):
        message = end(chunks, mode)
        assert complete_calls(message) == [("write", {"path": "a"})]
        assert message.tool_calls[0].repairs == added("write")
        assert message.text == " so"


def test_a_closing_tag_that_has_begun_is_ended() -> None:
    message = end(["<write><path>a</pa"], "whole")
    assert complete_calls(message) == [("write", {"path": "a"})]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        pytest.param("<path>\na\n", "a\n", id="before nothing"),
        pytest.param("<path>\na\n</write>", "a", id="before a tag"),
        pytest.param("<path>\na\n&amp;\n</write>", "a\n&", id="behind an entity"),
        pytest.param("<path>\na\n</path>", "a", id="before its own tag"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_a_newline_is_trimmed_where_a_tag_follows(body: str, path: str, mode: Mode) -> None:
    for chunks in chunkings(f"<write>{body}"):
        message = end(chunks, mode, trims=True)
        assert complete_calls(message) == [("write", {"path": path})]


LEFT_ALONE = {
    "a call that has not begun": "<write>",
    "a string that has not begun": "<write><path>",
    "a string that holds the tag of another": "<write><path>a<mode>3</mode>",
    "a call of a tool without arguments": "<ping>",
    "prose in a call": "<write> is the tool",
    "prose that names a field": "<write> has a <path> and more",
    "prose in backticks": "`<write>` has a `<path>` and a `<mode>`",
    "an argument whose tag has begun": "<write><path>a</path><mo",
    "a comment without an end": "<write><path>a</path><mode>1</mode><!-- <tags>a</tags>",
    "JSON without an end": '<write><meta>{"a": 1',
    "text behind the call": "<write><path>a</write> so",
    "a call that broke": "<write><mode>3</path>",
    "what its schema refuses": "<write><mode>three",
    "a string twice": "<write><path>a</path><path>b",
}


@pytest.mark.parametrize("text", LEFT_ALONE.values(), ids=LEFT_ALONE)
@pytest.mark.parametrize("mode", MODES)
def test_what_nobody_can_know_is_left_alone(text: str, mode: Mode) -> None:
    for chunks in chunkings(text):
        message = end(chunks, mode)
        assert complete_calls(message) == []
        if mode == "whole":
            assert message.text == text


# --- a call whose end tag is the last of the answer ---


HIDDEN = {
    "a comment without an end": ("<path>a</path><mode>1</mode><!-- so", {"path": "a", "mode": 1}),
    "a comment that hides an argument": ("<!-- <path>a</path>", {"path": "a"}),
    "CDATA without an end": ("<mode>1</mode><![CDATA[ x", {"mode": 1}),
}
DAMAGED = ('<meta>{"a": "b</meta>', "<tags><item>a</tags>")
"""Half an object, and half an item: what they say is not what was meant."""


@pytest.mark.parametrize("body", DAMAGED)
@pytest.mark.parametrize("mode", MODES)
def test_an_object_or_an_item_without_an_end_makes_no_complete_call(body: str, mode: Mode) -> None:
    for chunks in chunkings(f"<write>{body}</write>"):
        assert complete_calls(end(chunks, mode)) == []


@pytest.mark.parametrize(("body", "arguments"), HIDDEN.values(), ids=HIDDEN)
@pytest.mark.parametrize("behind", ["", "\n"])
def test_an_end_tag_that_was_hidden_ends_the_call_if_it_is_the_last(
    body: str, arguments: dict[str, Any], behind: str
) -> None:
    for chunks in chunkings(f"so <write>{body}</write>{behind}"):
        reader = parser()
        events = [event for chunk in chunks for event in reader.feed(chunk)] + reader.finish()
        check_monotone(events)
        assert complete_calls(message_of(events)) == [("write", arguments)]
        assert message_of(events).text == "so "


@pytest.mark.parametrize("body", [body for body, _ in HIDDEN.values()], ids=HIDDEN)
def test_an_end_tag_that_was_hidden_ends_nothing_where_text_follows(body: str) -> None:
    text = f"<write>{body}</write> so <ping/>"
    reader = parser()
    assert message_of(reader.feed(text) + reader.finish()).text == text


def test_a_live_call_takes_nothing_back() -> None:
    for chunks in chunkings("<write><path>a<path> so</write>"):
        reader = parser("live")
        events = [event for chunk in chunks for event in reader.feed(chunk)] + reader.finish()
        assert shown(events) == '{"path":"a<path> so'
        assert not message_of(events).tool_calls[0].complete


# --- a call that was cut, as it is shown ---


def shown(events: list[Event]) -> str:
    return "".join(event.arguments for event in events if isinstance(event, ToolCallDelta))


@pytest.mark.parametrize(
    ("cut", "content"),
    [
        pytest.param("a &am", "a &am", id="what may become an entity"),
        pytest.param("a &lt; b", "a < b", id="an entity that waits"),
        pytest.param("a &lt; b <", "a &lt; b <", id="an entity before markup"),
        pytest.param("a</cont", "a</cont", id="a closing tag that has begun"),
        pytest.param("a</wri", "a</wri", id="an end tag that has begun"),
        pytest.param("a<content", "a<content", id="an opening tag that has begun"),
        pytest.param("\na\n", "a\n", id="a newline that may be trimmed"),
        pytest.param("\na\n&lt;\n", "a\n<\n", id="newlines around an entity"),
        pytest.param("a\n</write>", "a", id="the end tag of the call"),
    ],
)
def test_a_cut_string_shows_all_that_was_held_back(cut: str, content: str) -> None:
    syntax = ElementCalls.of(TOOLS, trims=True)
    for chunks in chunkings(f"<write><content>{cut}"):
        reader = Engine(syntax, TOOLS, arguments="live")
        events = [event for chunk in chunks for event in reader.feed(chunk)] + reader.finish()
        assert json.loads(shown(events) + '"}') == {"content": content}
        assert "".join(event.raw for event in events) + reader.rest == "".join(chunks)


@pytest.mark.parametrize("behind", ["", " ", "</wri", " <!-- ", "<mo"])
def test_a_string_whose_closing_tag_is_the_last_has_ended(behind: str) -> None:
    for chunks in chunkings(f"<write><path>a</path>{behind}"):
        reader = parser("live")
        events = [event for chunk in chunks for event in reader.feed(chunk)] + reader.finish()
        (call,) = message_of(events).tool_calls
        assert (call.arguments, call.complete) == ({"path": "a"}, False)
