"""Where conversations are cut, and which outputs are shortened."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.conversations import CONVERSATIONS, pairs, result, said, user
from penstock.agent import Compaction
from penstock.agent.compaction import (
    MAX_OLD_OUTPUT,
    Pruned,
    find_cut_points,
    plan_compaction,
    plan_cut,
    prune,
)
from penstock.agent.summarize import MIN_LIMIT, fit_text, make_summary_message
from penstock.agent.tokens import request_tokens
from penstock.messages import Text, ToolResult, Usage
from penstock.request import Image, Message, UserMessage

# --- where a conversation is cut ---


LONG = "w" * 4_000
"""A thousand tokens."""


def test_a_conversation_is_cut_between_two_turns() -> None:
    messages: list[Message] = [*[user(LONG), said(LONG)] * 3, user("now")]
    cut = plan_cut(messages, 2_100)
    assert cut is not None
    assert (cut.at, cut.splits_turn) == (4, False)
    assert cut.tokens == request_tokens(messages[4:])


def test_a_turn_that_is_too_long_is_cut_before_an_answer() -> None:
    work: list[Message] = []
    for n in range(5):
        work += [said(LONG, f"c{n}"), result(f"c{n}", LONG)]
    messages = [user("go"), *work]
    cut = plan_cut(messages, 4_200)
    assert cut is not None
    assert (cut.at, cut.splits_turn) == (7, True)


def test_little_of_the_last_turn_is_not_kept_for_the_sake_of_its_question() -> None:
    messages = [user("go"), said(LONG, "a"), result("a", LONG), said(LONG), user("now")]
    cut = plan_cut(messages, 1_500)
    assert cut is not None
    assert (cut.at, cut.splits_turn) == (3, True)


def test_a_call_stays_with_results_that_are_larger_than_all_that_may_stay() -> None:
    messages = [user(LONG), said("", "a", "b"), result("a", LONG * 9), result("b", LONG * 9)]
    cut = plan_cut(messages, 100)
    assert cut is not None
    assert cut.at == 1


def test_a_word_between_a_call_and_its_result_is_no_place_to_cut() -> None:
    messages = [user(LONG), said("", "a", "b"), result("a"), user("wait"), result("b"), said("")]
    assert find_cut_points(messages) == [1, 5]


def test_calls_that_are_named_alike_in_every_answer_block_no_cut() -> None:
    messages: list[Message] = []
    for _ in range(3):
        messages += [user("q"), said("", "call_0"), result("call_0"), said("done")]
    assert find_cut_points(messages) == [1, 3, 4, 5, 7, 8, 9, 11]


def test_there_is_no_cut_where_there_is_nothing_to_sum_up() -> None:
    assert plan_cut([], 100) is None
    assert plan_cut([user(LONG)], 0) is None
    assert plan_cut([make_summary_message("before"), user(LONG)], 0) is None
    assert plan_cut([result("orphan"), result("orphan")], 0) is None


def test_a_summary_is_summed_up_again_with_what_followed_it() -> None:
    messages = [make_summary_message("before"), user(LONG), said(LONG), user("now")]
    assert find_cut_points(messages) == [2, 3]


def test_at_most_half_stays_of_what_a_model_refused_however_much_may_stay() -> None:
    messages: list[Message] = [user(LONG), said(LONG), user(LONG), said(LONG)]
    cut = plan_cut(messages, 1_000_000)
    assert cut is not None
    assert cut.at == 2


@settings(max_examples=40)
@given(CONVERSATIONS, st.integers(0, 30_000))
def test_no_call_is_parted_from_its_results(messages: list[Message], keep: int) -> None:
    cut = plan_cut(messages, keep)
    if cut is None:
        assert not find_cut_points(messages)
        return
    assert 0 < cut.at < len(messages)
    assert not isinstance(messages[cut.at], ToolResult)
    assert all((call < cut.at) == (answer < cut.at) for call, answer in pairs(messages))
    assert cut.splits_turn is not isinstance(messages[cut.at], UserMessage)


@settings(max_examples=40)
@given(CONVERSATIONS, st.integers(0, 30_000))
def test_no_more_stays_than_may_wherever_that_can_be(messages: list[Message], keep: int) -> None:
    cut = plan_cut(messages, keep)
    least = min((request_tokens(messages[at:]) for at in find_cut_points(messages)), default=None)
    if cut is not None and least is not None:
        assert cut.tokens == request_tokens(messages[cut.at :])
        assert cut.tokens <= max(keep, least)


@settings(max_examples=40)
@given(CONVERSATIONS)
def test_every_place_to_cut_is_found(messages: list[Message]) -> None:
    parted = {at for call, answer in pairs(messages) for at in range(call + 1, answer + 1)}
    lawful = {at for at in range(1, len(messages)) if not isinstance(messages[at], ToolResult)}
    assert set(find_cut_points(messages)) == lawful - parted


def test_what_stays_is_measured_in_the_tokens_of_the_provider() -> None:
    messages: list[Message] = [*[user(LONG), said(LONG)] * 6, user("now")]
    heavy = said("", usage=Usage(input=request_tokens(messages) * 2))
    compaction = Compaction(keep=4_300)
    plain, scaled = (
        plan_compaction([*messages, said("")], compaction),
        plan_compaction([*messages, heavy], compaction),
    )
    assert plain is not None
    assert scaled is not None
    assert (plain.at, scaled.at) == (8, 10)


# --- old outputs ---


LONG_OUTPUT = "begin " + "x" * 40_000 + " end"


def old(content: object) -> list[Message]:
    """Give a conversation in which *content* is an old output."""
    newer: list[Message] = [said("", "b"), result("b", "w" * 60_000)]
    return [user("q"), said("", "a"), result("a", content), *newer]


def pruned(content: object) -> ToolResult:
    found = prune(old(content)).messages[2]
    assert isinstance(found, ToolResult)
    return found


def test_an_old_output_keeps_its_beginning_and_its_end_and_says_what_is_missing() -> None:
    short = pruned(LONG_OUTPUT)
    assert len(short.content) <= MAX_OLD_OUTPUT
    assert short.content.startswith("begin xxx")
    assert short.content.endswith("xxx end")
    assert "characters omitted" in short.content
    assert (short.id, short.name, short.is_error) == ("a", "read", False)


def test_the_newest_outputs_stay_whole_whatever_their_size() -> None:
    messages = [
        user("q"),
        said("", "a", "b"),
        result("a", LONG_OUTPUT),
        result("b", LONG_OUTPUT),
        user("hm"),
    ]
    assert prune(messages, 0).messages == messages


def test_as_many_outputs_before_them_stay_whole_as_there_is_room_for() -> None:
    messages: list[Message] = [user("q")]
    for n in range(4):
        messages += [said("", f"c{n}"), result(f"c{n}", "w" * 8_000)]
    short = [len(m.content) for m in prune(messages, 6_100).messages if isinstance(m, ToolResult)]
    assert short == [MAX_OLD_OUTPUT, 8_000, 8_000, 8_000]


def test_pictures_and_values_are_shortened_too() -> None:
    blocks = pruned([Text(LONG_OUTPUT), Image("image/png", "A" * 9_000)]).content
    assert blocks.startswith("begin")
    assert blocks.endswith("[1 images or files omitted]")
    assert pruned({"lines": ["x" * 9_000]}).content.startswith('{"lines":["xxx')
    assert pruned([Image("image/png", "A")]).content == "\n[1 images or files omitted]"


def test_a_short_output_stays_the_very_same() -> None:
    messages = old({"a": 1})
    assert prune(messages).messages[2] is messages[2]


@settings(max_examples=40)
@given(CONVERSATIONS, st.integers(0, 30_000))
def test_only_outputs_change_and_only_to_fewer_tokens(messages: list[Message], whole: int) -> None:
    before = deepcopy(messages)
    done = prune(messages, whole)
    assert messages == before
    assert done.saved == request_tokens(messages) - request_tokens(done.messages) >= 0
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
    short = fit_text(whole, limit)
    assert len(short) <= max(limit, MIN_LIMIT)
    assert short == whole or "characters omitted" in short
