"""Rules speak when they are met, where they look, and no more often than they may."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.rules.condition_strategies import chunks
from penstock.agent.hooks import Finding, Guard
from penstock.agent.rules import Rule, RuleGuard, RuleSettings
from penstock.agent.rules.guard import MAX_COMPILED
from penstock.agent.rules.rule import DEFAULT_SCOPE
from penstock.events import (
    Done,
    Event,
    MessageStart,
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
from penstock.messages import AssistantMessage, ToolCall, ToolResult


def text(*pieces: str) -> list[Event]:
    deltas: list[Event] = [TextDelta(0, piece) for piece in pieces]
    return [TextStart(0), *deltas, TextEnd(0, "".join(pieces))]


def thinking(*pieces: str) -> list[Event]:
    deltas: list[Event] = [ThinkingDelta(0, piece) for piece in pieces]
    return [ThinkingStart(0), *deltas, ThinkingEnd(0, "".join(pieces))]


def call(arguments: dict[str, Any], name: str = "write_file", size: int = 4) -> list[Event]:
    whole = json.dumps(arguments)
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    deltas: list[Event] = [ToolCallDelta(0, piece) for piece in pieces]
    return [ToolCallStart(0, "c1", name), *deltas, ToolCallEnd(0, ToolCall("c1", name, arguments))]


def answer(watch: Guard, events: list[Event]) -> list[Finding]:
    """Show an answer, up to where it is stopped; give what was found."""
    watch.response_started()
    found = []
    for event in events:
        finding = watch.check(event)
        if finding is not None:
            found.append(finding)
            if finding.interrupts:
                break
    return found


def turn(watch: Guard, *answers: list[Event]) -> list[str]:
    """Play a turn of some answers; give the names of the rules that spoke."""
    watch.turn_started()
    names = [name for events in answers for found in answer(watch, events) for name in found.names]
    watch.turn_ended()
    return names


def rule(condition: str = "foo", *scope: str, name: str = "r", **more: Any) -> Rule:
    return Rule(name, (condition,), "No foo.", scope or DEFAULT_SCOPE, **more)


# --- where ---


@pytest.mark.parametrize(
    ("scope", "streams"),
    [
        ((), {"text", "call"}),
        (("text",), {"text"}),
        (("thinking",), {"thinking"}),
        (("tool",), {"call"}),
        (("write_file",), {"call"}),
        (("tool:write_file", "thinking"), {"call", "thinking"}),
        (("edit_file",), set()),
        (("write_file(*.ts)",), {"call"}),
        (("tool(*.py)",), set()),
    ],
)
def test_a_rule_looks_where_its_scope_says(scope: tuple[str, ...], streams: set[str]) -> None:
    answers = {
        "text": text("a f", "oo"),
        "thinking": thinking("a f", "oo"),
        "call": call({"path": "a.ts", "content": "a foo"}),
    }
    met = {
        name for name, events in answers.items() if turn(RuleGuard([rule("foo", *scope)]), events)
    }
    assert met == streams


def test_the_answer_is_stopped_with_the_delta_that_meets_the_rule() -> None:
    watch = RuleGuard([rule()])
    watch.response_started()
    seen = [watch.check(MessageStart()), watch.check(TextStart(0))]
    seen += [watch.check(TextDelta(0, piece)) for piece in ["a f", "o", "o b"]]
    *before, finding = seen
    assert before == [None] * 4
    assert finding == Finding(
        "rule", ["r"], '<rule_reminder reason="rule_met" rule="r">\nNo foo.\n</rule_reminder>'
    )
    assert watch.check(Done("stop", AssistantMessage())) is None


def test_blocks_are_looked_through_by_themselves() -> None:
    watch = RuleGuard([rule("foo")])
    events: list[Event] = [TextStart(0), TextDelta(0, "fo"), TextEnd(0, "fo"), *text("o")]
    assert turn(watch, events) == []


def test_what_only_the_end_decides_is_found_there() -> None:
    assert turn(RuleGuard([rule(r"foo\Z")]), text("foo", " foo")) == ["r"]
    assert turn(RuleGuard([rule(r"foo\Z")]), text("foo", " fo")) == []
    assert turn(RuleGuard([rule(r"foo\Z", "tool")]), call({"a": "foo", "b": "x"})) == ["r"]


# --- calls ---


def test_values_are_looked_at_and_not_their_json() -> None:
    watch = RuleGuard([rule(r'print\("a"\)\n\tpass')])
    assert turn(watch, call({"content": 'print("a")\n\tpass'}, size=1)) == ["r"]


def test_keys_and_json_are_not_looked_at() -> None:
    assert turn(RuleGuard([rule("content|[{]")]), call({"content": "x"})) == []


def test_values_are_looked_at_one_by_one() -> None:
    assert turn(RuleGuard([rule("ab")]), call({"x": "a", "y": "b"})) == []
    assert turn(RuleGuard([rule("ab")]), call({"x": {"y": ["a", "ab"]}})) == ["r"]


def test_a_value_that_is_no_text_is_looked_at_as_json() -> None:
    assert turn(RuleGuard([rule("true")]), call({"force": True})) == ["r"]
    assert turn(RuleGuard([rule(r"^8080$")]), call({"port": 8080})) == ["r"]


def test_a_call_that_was_never_streamed_is_looked_at_when_it_is_whole() -> None:
    start, *_, end = call({"content": "foo", "path": "a.ts"})
    assert turn(RuleGuard([rule("foo", "tool(*.ts)")]), [start, end]) == ["r"]


def encoded_twice(arguments: dict[str, Any], size: int) -> list[Event]:
    """Make a call whose arguments come as one string that holds their JSON."""
    whole = json.dumps(json.dumps(arguments))
    deltas: list[Event] = [
        ToolCallDelta(0, whole[at : at + size]) for at in range(0, len(whole), size)
    ]
    read = ToolCall.from_text("c1", "write_file", whole)
    assert read.arguments == arguments
    return [ToolCallStart(0, "c1", "write_file"), *deltas, ToolCallEnd(0, read)]


@pytest.mark.parametrize("size", [1, 4, 1_000])
def test_arguments_that_are_encoded_twice_are_looked_at_when_the_call_is_whole(size: int) -> None:
    events = encoded_twice({"path": "src/a.ts", "content": 'say("foo")'}, size)
    for met in (rule(r'^say\("foo"\)$'), rule("foo", "write_file(*.ts)"), rule(globs=("src/*",))):
        assert turn(RuleGuard([met]), events) == ["r"]
    assert turn(RuleGuard([rule("foo", "write_file(*.py)")]), events) == []


def test_arguments_that_were_mended_are_looked_at_as_they_are_in_the_end() -> None:
    events = call({"content": "bar"})
    mended = ToolCall("c1", "write_file", {"content": "foo"}, repairs=["the end said otherwise"])
    assert turn(RuleGuard([rule()]), [*events[:-1], ToolCallEnd(0, mended)]) == ["r"]


def test_broken_arguments_are_looked_at_as_far_as_they_make_sense() -> None:
    events: list[Event] = [
        ToolCallStart(0, "c", "t"),
        ToolCallDelta(0, '{"a": foo bar, ]'),
        ToolCallEnd(0, ToolCall("c", "t", complete=False)),
    ]
    assert turn(RuleGuard([rule("foo")]), events) == ["r"]


def test_calls_side_by_side_do_not_mix() -> None:
    events: list[Event] = [
        ToolCallStart(0, "c0", "t"),
        ToolCallStart(1, "c1", "t"),
        ToolCallDelta(0, '{"a": "fo'),
        ToolCallDelta(1, '{"a": "o"}'),
        ToolCallDelta(0, 'x"}'),
    ]
    assert turn(RuleGuard([rule("foo")]), events) == []


PATHS: dict[str, tuple[dict[str, Any], bool]] = {
    "a path that fits": ({"path": "src/a.ts", "content": "foo"}, True),
    "a path that comes late": ({"content": "foo", "path": "src/a.ts"}, True),
    "another path": ({"path": "src/a.py", "content": "foo"}, False),
    "no path": ({"content": "foo"}, False),
    "one of several": ({"content": "foo", "file_paths": ["a.py", "b.ts"]}, True),
    "a path of another name": ({"content": "foo", "filePath": "./src/a.ts"}, True),
    "a path that only seems one": ({"content": "foo a.ts"}, False),
    "the path itself": ({"path": "foo.ts"}, True),
}


@pytest.mark.parametrize(("arguments", "is_met"), PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("size", [1, 1_000])
def test_globs_ask_for_a_path(arguments: dict[str, Any], is_met: bool, size: int) -> None:  # noqa: FBT001 - a column of the table
    for each in (rule("foo", globs=("*.ts",)), rule("foo", "tool(*.ts)")):
        assert turn(RuleGuard([each]), call(arguments, size=size)) == ["r"] * is_met


def test_a_path_is_seen_from_the_working_folder() -> None:
    each = rule("foo", globs=("src/*.ts",))
    arguments = {"path": "/project/src/a.ts", "content": "foo"}
    assert turn(RuleGuard([each], folder="/project"), call(arguments)) == ["r"]
    assert turn(RuleGuard([each], folder="/else"), call(arguments)) == []


def test_the_model_is_told_the_path() -> None:
    watch = RuleGuard([rule("foo")])
    [finding] = answer(watch, call({"path": 'a"b.ts', "content": "foo"}))
    assert 'rule="r" path="a&quot;b.ts"' in finding.text


# --- how ---


@pytest.mark.parametrize(
    ("interrupt", "stops"),
    [
        ("always", (True, True, True)),
        ("prose-only", (True, True, False)),
        ("tool-only", (False, False, True)),
        ("never", (False, False, False)),
    ],
)
def test_a_rule_stops_the_answer_where_it_may(interrupt: Any, stops: tuple[bool, ...]) -> None:
    scope = ("text", "thinking", "tool")
    own = RuleGuard([rule("foo", *scope, interrupt=interrupt)])
    general = RuleGuard([rule("foo", *scope)], RuleSettings(interrupt=interrupt))
    for watch in (own, general):
        found = []
        for events in (text("foo"), thinking("foo"), call({"a": "foo"})):
            watch.restore([])
            found += answer(watch, events)
        assert tuple(each.interrupts for each in found) == stops


def test_the_answer_is_kept_if_every_rule_that_stops_it_wants_that() -> None:
    keeping = rule("foo", name="k", keep=True)
    dropping = rule("foo", name="d")
    [kept] = answer(RuleGuard([keeping]), text("foo"))
    [dropped] = answer(RuleGuard([keeping, dropping]), text("foo"))
    [general] = answer(RuleGuard([dropping], RuleSettings(context="keep")), text("foo"))
    assert (kept.keep, dropped.keep, general.keep) == (True, False, True)


def test_rules_that_are_met_at_once_speak_together() -> None:
    rules = [rule("foo", name="a"), rule("bar", name="b"), rule("fo+", name="c", interrupt="never")]
    [finding] = answer(RuleGuard(rules), text("bar foo"))
    assert finding.names == ["a", "b", "c"]
    assert finding.interrupts
    assert finding.text.count("\n\n") == 2


def test_a_rule_with_several_conditions_speaks_once() -> None:
    [finding] = answer(RuleGuard([Rule("r", ("foo", "fo", "bar"), "t")]), text("foo bar"))
    assert finding.names == ["r"]


def test_of_two_rules_with_one_name_the_first_counts() -> None:
    watch = RuleGuard([rule("foo"), rule("bar")])
    assert [each.conditions for each in watch.rules] == [("foo",)]
    assert turn(watch, text("bar")) == []


def test_nothing_is_looked_at_when_rules_are_off() -> None:
    assert turn(RuleGuard([rule()], RuleSettings(enabled=False)), text("foo")) == []


# --- how often ---


def test_a_rule_speaks_once() -> None:
    watch = RuleGuard([rule()])
    assert [turn(watch, text("foo"), text("foo")) for _ in range(20)] == [["r"], *[[]] * 19]


def test_a_rule_may_speak_again_after_a_gap() -> None:
    for watch in (
        RuleGuard([rule(repeat="after-gap", gap=3)]),
        RuleGuard([rule()], RuleSettings(repeat="after-gap", gap=3)),
    ):
        spoken = [bool(turn(watch, text("foo"), text("foo"))) for _ in range(7)]
        assert spoken == [True, False, False, True, False, False, True]


def test_rules_are_silent_when_their_budget_is_spent() -> None:
    watch = RuleGuard([rule(repeat="after-gap", gap=1)], RuleSettings(budget=3))
    watch.prompt_started()
    assert sum(len(turn(watch, text("foo"))) for _ in range(50)) == 3
    watch.prompt_started()
    assert sum(len(turn(watch, text("foo"))) for _ in range(50)) == 3


def test_a_rule_that_could_not_speak_may_do_so_later() -> None:
    watch = RuleGuard([rule("foo", name="a"), rule("bar", name="b")], RuleSettings(budget=1))
    assert turn(watch, text("foo"), text("bar")) == ["a"]
    assert watch.fired_rules == ["a"]
    watch.prompt_started()
    assert turn(watch, text("bar")) == ["b"]


def test_the_budget_holds_within_one_answer() -> None:
    rules = [rule(each, name=each, interrupt="never") for each in ("foo", "bar", "baz")]
    watch = RuleGuard(rules, RuleSettings(budget=2))
    assert turn(watch, text("foo", "bar", "baz")) == ["foo", "bar"]


def test_names_that_have_spoken_can_be_restored() -> None:
    first = RuleGuard([rule("foo", name="a"), rule("bar", name="b")])
    assert turn(first, text("foo")) == ["a"]
    second = RuleGuard(first.rules)
    second.restore([*first.fired_rules, "gone"])
    assert turn(second, text("foo"), text("bar")) == ["b"]
    assert second.fired_rules == ["a", "gone", "b"]


def test_a_new_answer_begins_anew() -> None:
    watch = RuleGuard([rule()])
    watch.response_started()
    watch.check(TextStart(0))
    watch.check(TextDelta(0, "fo"))
    assert answer(watch, text("o")) == []


def test_a_tool_that_ends_is_no_concern() -> None:
    watch = RuleGuard([rule()])
    watch.tool_ended(ToolResult("c", "t", "foo"))
    assert watch.fired_rules == []


def test_made_up_names_of_tools_do_not_pile_up() -> None:
    watch = RuleGuard([rule()])
    for number in range(3 * MAX_COMPILED):
        assert answer(watch, call({"a": "x"}, name=f"tool{number}")) == []
    assert len(watch._compiled) <= MAX_COMPILED


# --- laws ---

RULES = [
    rule("foo", name="plain"),
    rule(r"\bbar\b", name="bordered"),
    rule(r"o(?! )", "text", "tool(*.ts)", name="ahead"),
    rule(r"(\w)\1", name="twice", globs=("a.*",)),
    rule(r'"\n', name="line", interrupt="never"),
]


@settings(max_examples=60)
@given(
    content=st.text('fobar "\n\\', max_size=30),
    path=st.sampled_from(["a.ts", "b.py", "foo"]),
    order=st.sampled_from([1, -1]),
    cuts=st.lists(st.integers(0, 80), max_size=8),
)
def test_how_an_answer_is_cut_does_not_matter(
    content: str, path: str, order: int, cuts: list[int]
) -> None:
    arguments = dict([("path", path), ("content", content)][::order])
    whole = json.dumps(arguments)
    start, *_, end = call(arguments)
    deltas: list[Event] = [ToolCallDelta(0, piece) for piece in chunks(whole, cuts)]
    silent = [
        Rule(each.name, each.conditions, "t", each.scope, each.globs, "never") for each in RULES
    ]

    def met(events: list[Event]) -> set[str]:
        return {name for found in answer(RuleGuard(silent), events) for name in found.names}

    assert met([start, *deltas, end]) == met(call(arguments, size=1))
    assert met(text(*chunks(content, cuts))) == met(text(*content))
