"""Old outputs of tools are shortened, and nothing else is touched."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.recovery.conversations import CONVERSATIONS, result, said, user
from penstock.agent.recovery import Pruned, prune, tokens_of
from penstock.agent.recovery.compaction import SHORT
from penstock.agent.text import MIN_LIMIT, shortened
from penstock.messages import Text, ToolResult
from penstock.request import Image, Message

LONG = "begin " + "x" * 40_000 + " end"


def old(content: object) -> list[Message]:
    """Give a conversation in which *content* is an old output."""
    newer: list[Message] = [said("", "b"), result("b", "w" * 60_000)]
    return [user("q"), said("", "a"), result("a", content), *newer]


def pruned(content: object) -> ToolResult:
    found = prune(old(content)).messages[2]
    assert isinstance(found, ToolResult)
    return found


def test_an_old_output_keeps_its_beginning_and_its_end_and_says_what_is_missing() -> None:
    short = pruned(LONG)
    assert len(short.content) <= SHORT
    assert short.content.startswith("begin xxx")
    assert short.content.endswith("xxx end")
    assert "characters left out" in short.content
    assert (short.id, short.name, short.is_error) == ("a", "read", False)


def test_the_newest_outputs_stay_whole_whatever_their_size() -> None:
    messages = [user("q"), said("", "a", "b"), result("a", LONG), result("b", LONG), user("hm")]
    assert prune(messages, 0).messages == messages


def test_as_many_outputs_before_them_stay_whole_as_there_is_room_for() -> None:
    messages: list[Message] = [user("q")]
    for n in range(4):
        messages += [said("", f"c{n}"), result(f"c{n}", "w" * 8_000)]
    short = [len(m.content) for m in prune(messages, 6_100).messages if isinstance(m, ToolResult)]
    assert short == [SHORT, 8_000, 8_000, 8_000]


def test_pictures_and_values_are_shortened_too() -> None:
    blocks = pruned([Text(LONG), Image("image/png", "A" * 9_000)]).content
    assert blocks.startswith("begin")
    assert blocks.endswith("[1 pictures or files left out]")
    assert pruned({"lines": ["x" * 9_000]}).content.startswith('{"lines":["xxx')
    assert pruned([Image("image/png", "A")]).content == "\n[1 pictures or files left out]"


def test_a_short_output_stays_the_very_same() -> None:
    messages = old({"a": 1})
    assert prune(messages).messages[2] is messages[2]


@settings(max_examples=40)
@given(CONVERSATIONS, st.integers(0, 30_000))
def test_only_outputs_change_and_only_to_fewer_tokens(messages: list[Message], whole: int) -> None:
    before = deepcopy(messages)
    done = prune(messages, whole)
    assert messages == before
    assert done.saved == tokens_of(messages) - tokens_of(done.messages) >= 0
    for was, is_ in zip(messages, done.messages, strict=True):
        assert was is is_ or (isinstance(is_, ToolResult) and isinstance(was, ToolResult))
        if isinstance(was, ToolResult) and isinstance(is_, ToolResult):
            assert (was.id, was.name, was.is_error) == (is_.id, is_.name, is_.is_error)


@settings(max_examples=40)
@given(CONVERSATIONS, st.integers(0, 30_000))
def test_to_prune_twice_is_to_prune_once(messages: list[Message], whole: int) -> None:
    once = prune(messages, whole).messages
    assert prune(once, whole) == Pruned(once, 0)


@given(st.text(), st.integers(0, 400), st.integers(1, 50))
def test_a_shortened_text_is_no_longer_than_it_may_be(text: str, limit: int, times: int) -> None:
    whole = text * times
    short = shortened(whole, limit)
    assert len(short) <= max(limit, MIN_LIMIT)
    assert short == whole or "characters left out" in short
