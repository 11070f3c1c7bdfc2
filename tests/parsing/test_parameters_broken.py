"""Calls with raw values that are none, or are cut: what becomes of them, and what is mended."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from parsing.parameter_samples import (
    DISTINCT,
    FORMATS,
    NS,
    TOOLS,
    closed,
    dialect_of,
    opened,
    parameter,
    parse,
    read_at_every_cut,
    written,
)
from parsing.samples import complete_calls, message_of
from penstock.parsing import BrokenCall
from penstock.tools import Tool

EVERY = pytest.mark.parametrize("name", DISTINCT)

BROKEN = {
    "another format's call": ("qwen3_coder", '<tool_call>\n{"name": "ping"}\n</tool_call>'),
    "the section has no calls": ("qwen3_coder", "<tool_call>\n</tool_call>"),
    "text in a section": ("qwen3_coder", "<tool_call>so</tool_call>"),
    "text in a call": ("qwen3_coder", "<tool_call><function=ping>so</function></tool_call>"),
    "no end of the call": (
        "qwen3_coder", "<tool_call><function=write><parameter=path>a</parameter></tool_call>",
    ),
    "a name that is none": ("qwen3_coder", "<tool_call><function=a b></function></tool_call>"),
    "an ellipsis for a name": (
        "qwen3_coder", "<function=...><parameter=...>a</parameter></function>",
    ),
    "an ellipsis for a bare name": ("glm45", "<tool_call>...</tool_call>"),
    "a marker in prose": ("qwen3_coder", "say <function= or <tool_call to call"),
    "a bare name that is none": ("glm45", "<tool_call>b@d</tool_call>"),
    "two bare names": ("glm45", "<tool_call>ping pong</tool_call>"),
    "no bare name": ("glm45", "<tool_call></tool_call>"),
    "a value without a key": ("glm45", "<tool_call>ping<arg_value>a</arg_value></tool_call>"),
    "text behind a key": ("glm45", "<tool_call>ping<arg_key>a</arg_key>so</tool_call>"),
    "a tag that is only alike": ("hy_v3", "<tool_callings>ping</tool_callings>"),
    "no name": ("minimax_m2", "<minimax:tool_call><invoke id=1></invoke></minimax:tool_call>"),
    "a parameter without a name": (
        "minimax_m2", '<invoke name="ping"><parameter>a</parameter></invoke>',
    ),
    "JSON where there is none": ("minimax_m2", '<invoke name="ping">{}</invoke>'),
    "JSON that is none": ("dots", '<invoke name="ping">{"a" 1}</invoke>'),
    "calls that are none": ("dots", '<dots_function_call>{"a": 1}</dots_function_call>'),
    "text before a first parameter": (
        "minimax_m3", f'{NS}<invoke name="write">so {NS}<path>a{NS}</path>{NS}</invoke>',
    ),
    "text without a parameter": ("minimax_m3", f'{NS}<invoke name="ping">so {NS}</invoke>'),
    "a token that begins nothing": ("minimax_m3", f"{NS} so {NS}<ping>{NS}</ping>"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_call_is_text_and_the_next_call_is_found(name: str, text: str) -> None:
    whole = f"{text} on {written(name, tool='ping')}"
    message = message_of(read_at_every_cut(partial(FORMATS[name].parser, TOOLS), whole))
    assert message.text == f"{text} on "
    assert complete_calls(message) == [("ping", {})]


@EVERY
def test_a_call_that_is_cut_is_text_or_incomplete(name: str) -> None:
    text = written(name, ("path", "a b"), ("mode", "5"))
    end = len(text) - len(closed(name)) + len(closed(name).partition(">")[0])
    for at in range(len(dialect_of(name).starts[0]), end):
        message = parse(name, text[:at])
        assert (message.text, message.tool_calls) == (text[:at], [])
        live = parse(name, text[:at], arguments="live")
        assert not any(call.complete for call in live.tool_calls)
        assert not (live.text and live.tool_calls)


@EVERY
def test_a_broken_call_does_not_undo_those_before_it(name: str) -> None:
    first = written(name, tool="ping")
    cut = opened(name) + parameter(name, "path") + "a"
    message = message_of(read_at_every_cut(partial(FORMATS[name].parser, TOOLS), first + cut))
    assert complete_calls(message) == [("ping", {})]
    assert message.text == cut


def test_a_call_that_breaks_live_is_incomplete_and_its_end_is_dropped() -> None:
    text = "<tool_call><function=write><parameter=path>a</parameter></tool_call> on"
    message = parse("qwen3_coder", text, arguments="live")
    (call,) = message.tool_calls
    assert (call.arguments, call.complete) == ({"path": "a"}, False)
    assert message.text == " on"


def test_somebody_is_told_of_what_was_meant_to_be_a_call() -> None:
    told: list[tuple[str, BrokenCall]] = []
    parse("glm45", "<tool_call>b@d</tool_call>", on_error=lambda *args: told.append(args))
    ((why, segment),) = told
    assert why == "no call after the start marker"
    assert segment.text == "<tool_call>b@d</tool_call>"
    told.clear()
    parse("minimax_m2", "say <invoke name= here", on_error=lambda *args: told.append(args))
    assert not told


@EVERY
@pytest.mark.parametrize("keys", [("pa{th", "note"), ("note", "pat"), ("", "note")])
@pytest.mark.parametrize("mode", ["whole", "live"])
def test_a_call_with_a_damaged_name_is_never_complete_and_reported_the_same_at_any_cut(
    name: str, keys: tuple[str, str], mode: Any
) -> None:
    # Without required parameters, repair could take the call to end before the damaged name.
    tools = [Tool("write", "", {"type": "object", "properties": TOOLS[0].parameters["properties"]})]
    text = written(name, (keys[0], "a.py"), (keys[1], "b && c"))
    reports = []
    for chunks in ([text], list(text)):
        told: list[tuple[str, BrokenCall]] = []
        parser = FORMATS[name].parser(
            tools, arguments=mode, repair=True, on_error=partial(_note, told)
        )
        events = [event for chunk in chunks for event in parser.feed(chunk)]
        message = message_of([*events, *parser.finish(cut=False)])
        assert not complete_calls(message)
        reports.append((message.text, [(why, call.text) for why, call in told]))
    assert reports[0] == reports[1]


def _note(told: list[tuple[str, BrokenCall]], why: str, call: BrokenCall) -> None:
    told.append((why, call))


# --- mending ---


@EVERY
@pytest.mark.parametrize("mode", ["whole", "live"])
def test_a_call_that_the_model_left_open_is_closed(name: str, mode: Any) -> None:
    text = opened(name) + parameter(name, "mode", "5") + parameter(name, "path", "a\nb")
    inner = len(parameter(name, "path", "")) - len(parameter(name, "path"))
    for ended in (
        text,
        text[:-inner],
        text[:-inner] + "\n" * ("qwen" in name),
        text + "<|im_end|>",
    ):
        message = parse(name, ended, cut=False, repair=True, arguments=mode)
        assert complete_calls(message) == [("write", {"mode": 5, "path": "a\nb"})]
        assert message.tool_calls[0].repairs == ["closed the call"]
        assert not complete_calls(parse(name, ended, cut=True, repair=True, arguments=mode))


MENDED = {
    "half an end of a value": (
        "qwen3_coder", "<function=write><parameter=path>\na\n</para", {"path": "a"},
    ),
    "half an end of a call": (
        "glm45", "<tool_call>write<arg_key>path</arg_key><arg_value>a</arg_value></tool_",
        {"path": "a"},
    ),
    "an end of the section without that of the call": (
        "qwen3_coder", "<tool_call><function=write><parameter=path>a</parameter></tool_call>",
        {"path": "a"},
    ),
    "an open CDATA section": (
        "minicpm5", '<function name="write"><param name="path"><![CDATA[a', {"path": "a"},
    ),
    "an open object": (
        "deepseek_v4", '<\uff5cDSML\uff5cinvoke name="write">{"path": "a"', {"path": "a"},
    ),
    "an object that was left open": (
        "dots", ('<dots_function_call><invoke name="write">{"path": "a"</invoke>'
        "</dots_function_call>"), {"path": "a"},
    ),
    "a second call": (
        "qwen3_coder", "<function=ping></function>\n<function=write><parameter=path>a",
        {"path": "a"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text", "arguments"), MENDED.values(), ids=MENDED)
def test_what_was_forgotten_is_added(name: str, text: str, arguments: dict[str, Any]) -> None:
    message = parse(name, text, cut=False, repair=True)
    assert complete_calls(message)[-1] == ("write", arguments)
    assert message.tool_calls[-1].repairs


def test_nothing_is_mended_for_a_tool_that_nobody_knows() -> None:
    text = "<tool_call><function=other><parameter=path>a"
    assert parse("qwen3_coder", text, cut=False, repair=True).text == text


NAMELESS: dict[str, dict[str, Any]] = {
    "no word about properties": {"type": "object"},
    "no property": {"type": "object", "properties": {}},
    "any property": {"type": "object", "additionalProperties": {"type": "string"}},
}


@pytest.mark.parametrize("schema", NAMELESS.values(), ids=NAMELESS)
def test_a_forgotten_end_is_seen_though_the_schema_names_no_parameter(
    schema: dict[str, Any],
) -> None:
    text = (
        "<tool_call>\n<function=note>\n<parameter=path>\na.txt\n<parameter=content>\nHello\n"
        "</parameter>\n</function>\n</tool_call>"
    )
    parser = partial(FORMATS["qwen3_coder"].parser, [Tool("note", "", schema)])
    message = message_of(read_at_every_cut(parser, text))
    assert complete_calls(message) == [("note", {"path": "a.txt", "content": "Hello"})]


MODES = pytest.mark.parametrize("mode", ["whole", "live"])
REPAIR = pytest.mark.parametrize("repair", [False, True], ids=["as it is", "repaired"])


def closing_tag(name: str, key: str) -> str:
    return parameter(name, key, "").removeprefix(parameter(name, key))


@EVERY
@MODES
@REPAIR
def test_a_closing_tag_that_was_forgotten_is_noted(name: str, mode: Any, *, repair: bool) -> None:
    forgotten = parameter(name, "path", "a b").removesuffix(closing_tag(name, "path"))
    text = opened(name) + forgotten + parameter(name, "mode", "5") + closed(name)
    make = partial(FORMATS[name].parser, TOOLS, arguments=mode, repair=repair)
    message = message_of(read_at_every_cut(make, text, every=1 if mode == "live" else 7))
    assert complete_calls(message) == [("write", {"path": "a b", "mode": 5})]
    assert message.tool_calls[0].repairs == ["closed the value of 'path'"]


@EVERY
@MODES
@REPAIR
@pytest.mark.parametrize("key", ["path", "mode"], ids=["between parameters", "at the end"])
def test_a_closing_tag_that_came_twice_is_noted(
    name: str, mode: Any, key: str, *, repair: bool
) -> None:
    text = written(name, ("path", "a b"), ("mode", "5"))
    whole = parameter(name, key, "a b" if key == "path" else "5")
    text = text.replace(whole, whole + closing_tag(name, key))
    make = partial(FORMATS[name].parser, TOOLS, arguments=mode, repair=repair)
    message = message_of(read_at_every_cut(make, text, every=1 if mode == "live" else 7))
    assert complete_calls(message) == [("write", {"path": "a b", "mode": 5})]
    assert message.tool_calls[0].repairs == ["dropped a closing tag that came twice"]


@EVERY
def test_a_call_as_it_should_be_has_no_notes(name: str) -> None:
    message = parse(name, written(name, ("path", "a b"), ("mode", "5")))
    assert message.tool_calls[0].repairs == []


def test_the_end_of_a_value_that_was_in_its_tag_came_once() -> None:
    text = "<tool_call><function=write><parameter=path=a></parameter></function></tool_call>"
    message = message_of(read_at_every_cut(partial(FORMATS["qwen3_coder"].parser, TOOLS), text))
    assert message.tool_calls[0].repairs == ["took the value of 'path' out of its tag"]


SECTIONED = [name for name in DISTINCT if dialect_of(name).cdata]


@pytest.mark.parametrize("name", SECTIONED)
def test_a_section_of_text_without_the_closing_tag_is_noted(name: str) -> None:
    section = "<![CDATA[a </parameter> b]]>"
    whole = written(name, ("path", section), ("mode", "5"))
    text = whole.replace(section + closing_tag(name, "path"), section)
    call = message_of(read_at_every_cut(partial(FORMATS[name].parser, TOOLS), text)).tool_calls[0]
    assert call.arguments == {"path": "a </parameter> b", "mode": 5}
    assert call.repairs == ["closed the value of 'path'"]
