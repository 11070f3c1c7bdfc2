"""Rules are loaded from files as they were meant, or refused with a reason."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.agent.rules import Rule, RuleError, load_rules, read_rule
from penstock.agent.rules.load import MAX_RULE, FrontMatterError, parse_front_matter

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
    "an expression that is none": ("condition: ['(', ok]", "not a regular expression"),
    "an expression that is met by nothing": ("condition: ['x*', ok]", "matches the empty text"),
    "an expression that takes forever": (r"condition: ['(\w+\s?)+;', ok]", "too long"),
    "a number that is too large": ("condition: ['x{99999999999}', ok]", "not a regular expression"),
    "a word of the scope that means nothing": ("condition: ok\nscope: [two words, text]", "scope"),
    "a manner that is unknown": ("condition: ok\ninterrupt: sometimes", "one of always"),
    "a gap that is no number": ("condition: ok\ngap: soon", "gap 'soon'"),
    "a gap of nothing": ("condition: ok\ngap: 0", "gap '0'"),
    "a tool that is hardly meant": ("condition: ok\nscope: [Text, tool]", "a tool of that name"),
    "a context that is unknown": ("condition: ok\ncontext: both", "context 'both'"),
}


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
    "no scope that can be read": (
        "---\ncondition: x\nscope: two words\n---\nbody",
        "scope is empty",
    ),
    "globs without calls": ("---\ncondition: x\nscope: text\nglobs: '*.ts'\n---\nb", "its globs"),
    "nothing to say": ("---\ncondition: x\n---\n \n", "no text for the model"),
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


# --- front matter ---

HEADS = {
    "a word": ("a: b", {"a": "b"}),
    "a word of several": ("a: b c: d", {"a": "b c: d"}),
    "nothing": ("a:", {"a": []}),
    "a list in brackets": ("a: [b, c d]", {"a": ["b", "c d"]}),
    "a list in brackets with quotes": ("""a: ["b, c", 'd', e]""", {"a": ["b, c", "d", "e"]}),
    "a list of nothing": ("a: []", {"a": []}),
    "a list in lines": ("a:\n  - b\n- 'c'\nd: e", {"a": ["b", "c"], "d": "e"}),
    "an expression": (r"a: console\.(log|warn)", {"a": r"console\.(log|warn)"}),
    "an expression with brackets": (r"a: [ab]+x", {"a": "[ab]+x"}),
    "an expression in single quotes": (r"a: '\bit''s # so\b'", {"a": r"\bit's # so\b"}),
    "an expression in double quotes": (r'a: "\bfoo\\d \"x\""', {"a": r'\bfoo\d "x"'}),
    "a comment": ("# x\na: b # c\n  # y\n", {"a": "b"}),
    "a comment behind quotes": ('a: "b" # c', {"a": "b"}),
    "a comment behind a list": ("a: [b] # c", {"a": ["b"]}),
    "no comment": ("a: b#c", {"a": "b#c"}),
    "a block": ("a: |\n  b\n    c: d\n\ne: f", {"a": "b\n  c: d", "e": "f"}),
    "a folded block": ("a: >-  # c\n  b|\n  - c\nd: e", {"a": "b| - c", "d": "e"}),
    "a block of nothing": ("a: >\nb: c", {"a": [], "b": "c"}),
    "a list of expressions": (
        "a: [a{1,3}, (b|c,d), [e,], f]",
        {"a": ["a{1,3}", "(b|c,d)", "[e,]", "f"]},
    ),
    "a list of globs": ("a: [x(*.{ts,tsx}), y]", {"a": ["x(*.{ts,tsx})", "y"]}),
    "a list of expressions that are not closed": (r"a: [\{1, (2, 3]", {"a": [r"\{1", "(2", "3"]}),
    "something nested": ("a:\n  b: c\nd: e", {"a": [], "d": "e"}),
    "a key twice": ("a: b\na: c", {"a": "c"}),
    "a quote that is not closed": ("a: \"b, 'c", {"a": "\"b, 'c"}),
    "a list that is not closed": ("a: [b, c", {"a": "[b, c"}),
    "an item that belongs nowhere": ("- a\nb: c", {"b": "c"}),
}


@pytest.mark.parametrize(("head", "fields"), HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_a_front_matter_is_parsed(head: str, fields: dict[str, object], end: str) -> None:
    text = f"---\n{head}\n---\nbody\n".replace("\n", end)
    assert parse_front_matter(text) == (fields, "body\n")


def test_a_file_without_front_matter_is_all_body() -> None:
    assert parse_front_matter("# Title\n---\n") == ({}, "# Title\n---\n")
    assert parse_front_matter("") == ({}, "")


def test_a_byte_order_mark_is_ignored() -> None:
    assert parse_front_matter("\ufeff---\na: b\n---\nc") == ({"a": "b"}, "c")


def test_a_front_matter_without_an_end_is_refused() -> None:
    with pytest.raises(FrontMatterError, match="no end"):
        parse_front_matter("---\na: b\n")


def test_a_line_that_is_not_a_field_is_refused_with_its_number() -> None:
    with pytest.raises(FrontMatterError) as caught:
        parse_front_matter("---\na: b\nwhat is this\n---\n")
    assert caught.value.line == 3


@given(head=st.text("ab:-#[]'\",\\ \n", max_size=40))
def test_any_front_matter_is_parsed_or_refused(head: str) -> None:
    try:
        fields, body = parse_front_matter(f"---\n{head}\n---\nbody")
    except FrontMatterError:
        return
    assert body.endswith("body")
    for value in fields.values():
        assert isinstance(value, str) or all(isinstance(item, str) for item in value)


@given(word=st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1))
def test_any_text_can_be_written_in_single_quotes(word: str) -> None:
    quoted = "'" + word.replace("'", "''") + "'"
    fields, _ = parse_front_matter(
        f"---\na: {quoted}\nb: [{quoted}, {quoted}]\nc:\n- {quoted}\n---\n"
    )
    assert fields == {"a": word, "b": [word, word], "c": [word]}
