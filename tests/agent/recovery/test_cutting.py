"""Where a conversation is cut: never between a call and its results, and as late as it must be."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.recovery.conversations import CONVERSATIONS, pairs, result, said, user
from penstock.agent.recovery import Compaction, cut_points, plan, summary_message, tokens_of
from penstock.messages import ToolResult, Usage
from penstock.request import Message, UserMessage

LONG = "w" * 4_000
"""A thousand tokens."""


def test_a_conversation_is_cut_between_two_turns() -> None:
    messages: list[Message] = [*[user(LONG), said(LONG)] * 3, user("now")]
    cut = plan(messages, 2_100)
    assert cut is not None
    assert (cut.at, cut.splits_turn) == (4, False)
    assert cut.tokens == tokens_of(messages[4:])


def test_a_turn_that_is_too_long_is_cut_before_an_answer() -> None:
    work: list[Message] = []
    for n in range(5):
        work += [said(LONG, f"c{n}"), result(f"c{n}", LONG)]
    messages = [user("go"), *work]
    cut = plan(messages, 4_200)
    assert cut is not None
    assert (cut.at, cut.splits_turn) == (7, True)


def test_little_of_the_last_turn_is_not_kept_for_the_sake_of_its_question() -> None:
    messages = [user("go"), said(LONG, "a"), result("a", LONG), said(LONG), user("now")]
    cut = plan(messages, 1_500)
    assert cut is not None
    assert (cut.at, cut.splits_turn) == (3, True)


def test_a_call_stays_with_results_that_are_larger_than_all_that_may_stay() -> None:
    messages = [user(LONG), said("", "a", "b"), result("a", LONG * 9), result("b", LONG * 9)]
    cut = plan(messages, 100)
    assert cut is not None
    assert cut.at == 1


def test_a_word_between_a_call_and_its_result_is_no_place_to_cut() -> None:
    messages = [user(LONG), said("", "a", "b"), result("a"), user("wait"), result("b"), said("")]
    assert cut_points(messages) == [1, 5]


def test_calls_that_are_named_alike_in_every_answer_block_no_cut() -> None:
    messages: list[Message] = []
    for _ in range(3):
        messages += [user("q"), said("", "call_0"), result("call_0"), said("done")]
    assert cut_points(messages) == [1, 3, 4, 5, 7, 8, 9, 11]


def test_there_is_no_cut_where_there_is_nothing_to_sum_up() -> None:
    assert plan([], 100) is None
    assert plan([user(LONG)], 0) is None
    assert plan([summary_message("before"), user(LONG)], 0) is None
    assert plan([result("orphan"), result("orphan")], 0) is None


def test_a_summary_is_summed_up_again_with_what_followed_it() -> None:
    messages = [summary_message("before"), user(LONG), said(LONG), user("now")]
    assert cut_points(messages) == [2, 3]


def test_at_most_half_stays_of_what_a_model_refused_however_much_may_stay() -> None:
    messages: list[Message] = [user(LONG), said(LONG), user(LONG), said(LONG)]
    cut = plan(messages, 1_000_000)
    assert cut is not None
    assert cut.at == 2


@settings(max_examples=40)
@given(CONVERSATIONS, st.integers(0, 30_000))
def test_no_call_is_parted_from_its_results(messages: list[Message], keep: int) -> None:
    cut = plan(messages, keep)
    if cut is None:
        assert not cut_points(messages)
        return
    assert 0 < cut.at < len(messages)
    assert not isinstance(messages[cut.at], ToolResult)
    assert all((call < cut.at) == (answer < cut.at) for call, answer in pairs(messages))
    assert cut.splits_turn is not isinstance(messages[cut.at], UserMessage)


@settings(max_examples=40)
@given(CONVERSATIONS, st.integers(0, 30_000))
def test_no_more_stays_than_may_wherever_that_can_be(messages: list[Message], keep: int) -> None:
    cut = plan(messages, keep)
    least = min((tokens_of(messages[at:]) for at in cut_points(messages)), default=None)
    if cut is not None and least is not None:
        assert cut.tokens == tokens_of(messages[cut.at :])
        assert cut.tokens <= max(keep, least)


@settings(max_examples=40)
@given(CONVERSATIONS)
def test_every_place_to_cut_is_found(messages: list[Message]) -> None:
    parted = {at for call, answer in pairs(messages) for at in range(call + 1, answer + 1)}
    lawful = {at for at in range(1, len(messages)) if not isinstance(messages[at], ToolResult)}
    assert set(cut_points(messages)) == lawful - parted


def test_what_stays_is_measured_in_the_tokens_of_the_provider() -> None:
    messages: list[Message] = [*[user(LONG), said(LONG)] * 6, user("now")]
    heavy = said("", usage=Usage(input=tokens_of(messages) * 2))
    compaction = Compaction(keep=4_300)
    plain, scaled = compaction.cut([*messages, said("")]), compaction.cut([*messages, heavy])
    assert plain is not None
    assert scaled is not None
    assert (plain.at, scaled.at) == (8, 10)
