"""Rules come out of files as they were meant, or with a reason why not."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.agent.rules import Rule, RuleError, load_rules, read_rule
from penstock.agent.rules.loading import MAX_RULE

FULL = r"""---
description: for people
condition: [console\.log, "debugger;"]
scope:
  - edit_file(*.ts)
  - text
interruptMode: tool-only
repeat: after-gap
repeat-gap: 3
context: keep
---

Use the logger.
"""


def test_a_whole_rule_is_read() -> None:
    assert read_rule(FULL, "no-console") == Rule(
        "no-console",
        (r"console\.log", "debugger;"),
        "Use the logger.",
        scope=("edit_file(*.ts)", "text"),
        interrupt="tool-only",
        repeat="after-gap",
        gap=3,
        keep=True,
    )


def test_a_short_rule_has_the_default_scope() -> None:
    rule = read_rule("---\ncondition: foo\n---\nNo foo.", "r")
    assert rule == Rule("r", ("foo",), "No foo.")
    assert rule.covers("text")
    assert rule.covers("tool", "anything")
    assert not rule.covers("thinking")


WARNINGS = {
    "an expression that is none": ("condition: ['(', ok]", "no regular expression"),
    "an expression that is met by nothing": ("condition: ['x*', ok]", "no text at all"),
    "a number that is too large": ("condition: ['x{99999999999}', ok]", "no regular expression"),
    "a word of the scope that means nothing": ("condition: ok\nscope: [two words, text]", "scope"),
    "a manner that is unknown": ("condition: ok\ninterrupt: sometimes", "none of always"),
    "a gap that is no number": ("condition: ok\ngap: soon", "gap 'soon'"),
    "a gap of nothing": ("condition: ok\ngap: 0", "gap '0'"),
    "a tool that is hardly meant": ("condition: ok\nscope: [Text, tool]", "a tool of that name"),
    "a context that is unknown": ("condition: ok\ncontext: both", "context 'both'"),
}


@pytest.mark.parametrize("condition", [r"(\w+\s?)+(?!;)", r"(?:(a*)b\1)*c", r"(?=(?:\w+)+x)y"])
def test_a_condition_that_may_take_for_ever_is_warned_of(condition: str) -> None:
    warnings: list[str] = []
    rule = read_rule(f"---\ncondition: '{condition}'\n---\nbody", "r", warnings.append)
    assert rule.conditions == (condition,)
    [warning] = warnings
    assert "may be very slow" in warning


@pytest.mark.parametrize("condition", [r"^\s*(\w+\s?)+;$", r"(?<!x)\w+\s*;", r"(?:a{2,9}b)+(?=c)"])
def test_one_that_does_not_is_not(condition: str) -> None:
    warnings: list[str] = []
    read_rule(f"---\ncondition: '{condition}'\n---\nbody", "r", warnings.append)
    assert warnings == []


@pytest.mark.parametrize(("head", "said"), WARNINGS.values(), ids=WARNINGS)
def test_what_cannot_be_read_is_left_out_with_a_warning(head: str, said: str) -> None:
    warnings: list[str] = []
    rule = read_rule(f"---\n{head}\n---\nbody", "r", warnings.append)
    assert rule.conditions == ("ok",)
    [warning] = warnings
    assert said in warning
    assert warning.startswith("rule 'r': ")
    assert read_rule(f"---\n{head}\n---\nbody", "r") == rule


REFUSED = {
    "no head": ("just text", "no condition"),
    "no condition": ("---\nscope: text\n---\nbody", "no condition"),
    "no condition that can be read": ("---\ncondition: '('\n---\nbody", "no condition"),
    "no scope that can be read": ("---\ncondition: x\nscope: two words\n---\nbody", "nowhere"),
    "globs without calls": ("---\ncondition: x\nscope: text\nglobs: '*.ts'\n---\nb", "globs"),
    "nothing to say": ("---\ncondition: x\n---\n \n", "nothing to say"),
    "a head without an end": ("---\ncondition: x\n", "no end"),
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_rule_that_could_never_speak_is_refused(text: str, reason: str) -> None:
    with pytest.raises(RuleError, match=reason) as caught:
        read_rule(text, "r")
    assert caught.value.name == "r"


def test_a_rule_made_in_code_is_held_to_the_same() -> None:
    for wrong in (
        {"conditions": ("(",)},
        {"conditions": ()},
        {"scope": ("two words",)},
        {"scope": ("text",), "globs": ("*.ts",)},
        {"gap": 0},
    ):
        with pytest.raises(RuleError):
            Rule(**{"name": "r", "conditions": ("x",), "text": "t"} | wrong)


def test_an_error_can_be_sent_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(RuleError("r", "why")))  # noqa: S301 - our own
    assert (error.name, error.reason, str(error)) == ("r", "why", "rule 'r': why")


@given(text=st.text(max_size=60) | st.text("-:ab[]'\"\n", max_size=60).map("---\n{}".format))
def test_any_file_is_a_rule_or_refused(text: str) -> None:
    try:
        rule = read_rule(text, "r", lambda _: None)
    except RuleError:
        return
    assert rule.patterns()
    assert rule.scopes()


def test_a_folder_of_rules_is_loaded_in_order(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("---\ncondition: b\n---\nB")
    (tmp_path / "a.md").write_text("---\ncondition: a\n---\nA")
    (tmp_path / "notes.txt").write_text("---\ncondition: c\n---\nC")
    (tmp_path / "README.md").write_text("# Rules")
    (tmp_path / "binary.md").write_bytes(b"\xff")
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "long.md").write_text("---\ncondition: d\n---\n" + "D" * MAX_RULE)
    warnings: list[str] = []
    assert [rule.name for rule in load_rules(tmp_path, warnings.append)] == ["a", "b"]
    assert [warning.split(":")[0] for warning in warnings] == [
        "rule 'README'",
        "rule 'binary'",
        "rule 'folder'",
        "rule 'long'",
    ]


def test_a_folder_that_is_not_there_has_no_rules(tmp_path: Path) -> None:
    assert load_rules(tmp_path / "none") == []
