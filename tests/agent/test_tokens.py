"""Token estimates, counts, spending and prices."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.conversations import CONVERSATIONS, result, said, user
from penstock import Tool, UsageError
from penstock.agent import Compaction
from penstock.agent.summarize import replace_with_summary
from penstock.agent.tokens import (
    IMAGE_TOKENS,
    MAX_RATIO,
    MIN_RATIO,
    Spending,
    context_tokens,
    ratio,
    request_tokens,
    text_tokens,
)
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, Text, Thinking, Usage
from penstock.models.catalog import Cost, Prices, cost
from penstock.request import Image, Message, SystemMessage, UserMessage

# --- estimates and counts ---


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("word" * 100, 100), ("潮" * 100, 100), ("я" * 90, 60), ("a潮", 2)],
)
def test_letters_of_other_scripts_weigh_more(text: str, tokens: int) -> None:
    assert text_tokens(text) == tokens


def test_half_a_surrogate_pair_is_counted_too() -> None:
    assert text_tokens("\ud800") == 1
    assert request_tokens([user("\ud83d"), result("a", {"x": "\ud83d"})]) > 0


def test_a_picture_weighs_the_same_however_many_bytes_it_has() -> None:
    small = request_tokens([UserMessage([Image("image/png", "A")])])
    large = request_tokens([result("a", [Image("image/png", "A" * 1_000_000)])])
    assert IMAGE_TOKENS < small < IMAGE_TOKENS + 10
    assert IMAGE_TOKENS < large < IMAGE_TOKENS + 10


def test_all_that_a_model_is_shown_is_counted() -> None:
    long = "word" * 100
    assert request_tokens([SystemMessage(long)]) > 100
    assert request_tokens([AssistantMessage(content=[Thinking(long)])]) > 100
    assert request_tokens([AssistantMessage(content=[Opaque("x", {"a": long})])]) > 100
    assert request_tokens([], system=long) == 100
    assert request_tokens([], tools=[Tool("f", long, {"description": long})]) > 200


@settings(max_examples=40)
@given(CONVERSATIONS, CONVERSATIONS)
def test_a_guess_of_the_whole_is_the_sum_of_its_parts(a: list[Message], b: list[Message]) -> None:
    assert request_tokens(a + b) == request_tokens(a) + request_tokens(b)


def test_what_was_counted_stands_and_what_came_after_is_guessed() -> None:
    usage = Usage(input=90, cache_read=10, cache_write=5, output=20, total=1)
    counted = [user("word" * 95), said("", usage=usage)]
    assert context_tokens(counted) == 125
    longer = [*counted, user("word" * 96)]
    assert context_tokens(longer) == 125 + round(100 * 105 / 99 + 0.5)


def test_without_a_count_all_is_guessed() -> None:
    messages = [user("word" * 10), said("word")]
    assert context_tokens(messages, "word") == request_tokens(messages, "word")
    assert ratio(messages) == 1.0


@pytest.mark.parametrize(
    "failed",
    [
        AssistantMessage(usage=Usage(input=9_999), stop_reason="aborted"),
        AssistantMessage(usage=Usage(input=9_999), error=ErrorInfo("cut", "truncated")),
    ],
)
def test_an_answer_that_failed_counts_for_nothing(failed: AssistantMessage) -> None:
    counted = [user("word" * 95), said("", usage=Usage(input=100))]
    assert context_tokens([*counted, failed]) < 200


def test_a_server_that_counts_only_what_was_not_cached_is_not_believed() -> None:
    messages = [user("word" * 10_000), said("ok", usage=Usage(input=3, output=1))]
    assert context_tokens(messages) >= 10_000 * MIN_RATIO
    assert ratio(messages) == MIN_RATIO


def test_the_ratio_is_what_tokenizers_can_differ_by_at_most() -> None:
    messages = [user("word" * 96), said("ok", usage=Usage(input=150))]
    assert ratio(messages) == 1.5
    assert ratio([user("word"), said("", usage=Usage(input=50_000))]) == MAX_RATIO
    assert ratio(messages, system="word" * 50) == 1.0


def test_after_a_compaction_the_context_is_as_long_as_what_is_left() -> None:
    kept = [user("go on"), said("done", usage=Usage(input=180_000, output=10))]
    assert context_tokens(kept) > 180_000
    assert context_tokens(replace_with_summary("All went well.", kept)) < 200
    assert isinstance(kept[1], AssistantMessage)
    assert kept[1].usage.input == 180_000


@settings(max_examples=40)
@given(CONVERSATIONS, st.integers(0, 100_000))
def test_a_conversation_only_grows_by_what_is_added(messages: list[Message], told: int) -> None:
    counted = [*messages, said("ok", usage=Usage(input=told))]
    more: list[Message] = [*counted, UserMessage([Text("one more word")])]
    assert context_tokens(more) > context_tokens(counted)


def test_a_compaction_is_due_behind_its_threshold() -> None:
    compaction = Compaction(window=200_000)
    assert (compaction.threshold, compaction.kept) == (183_616, 20_000)
    assert not compaction.is_due(183_616)
    assert compaction.is_due(183_617)


# --- spending and prices ---


USAGE = Usage(input=1_000_000, output=500_000, cache_read=2_000_000, cache_write=100_000, total=9)


def test_each_kind_of_token_has_its_price() -> None:
    told = cost(USAGE, Prices(3, 15, cache_read=0.5, cache_write=4))
    assert told == Cost(input=3, output=7.5, cache_read=1, cache_write=0.4)
    assert told.total == pytest.approx(11.9)


def test_a_cache_without_a_price_costs_what_other_input_does() -> None:
    told = cost(USAGE, Prices(3, 15))
    assert told.cache_read == 6
    assert told.cache_write == pytest.approx(0.3)
    assert cost(USAGE, Prices(3, 15, cache_read=0)).cache_read == 0


def test_a_run_counts_failures_and_compactions_too() -> None:
    spending = Spending()
    spending.add(Usage(input=10, output=1, total=11))
    spending.add(Usage(input=20, output=2, total=22), "failure")
    spending.add(Usage(input=30, output=3, reasoning=1, total=33), "compaction")
    spending.add(Usage(input=1), "answer")
    assert spending.answers.input == 11
    assert spending.failures.output == 2
    assert spending.compactions.reasoning == 1
    assert spending.usage == Usage(input=61, output=6, reasoning=1, total=66)
    assert spending.cost(Prices(1, 1)).total == pytest.approx(67e-6)


def test_a_price_below_zero_is_refused() -> None:
    with pytest.raises(UsageError):
        Prices(1, 1, cache_read=-1)
