"""How long a conversation is: what was counted, and what is guessed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.recovery.conversations import CONVERSATIONS, result, said, user
from penstock import Tool
from penstock.agent.recovery import Compaction, compacted, context_tokens, ratio, tokens_of
from penstock.agent.recovery.token_estimate import (
    IMAGE_TOKENS,
    LEAST_RATIO,
    MOST_RATIO,
    text_tokens,
)
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, Text, Thinking, Usage
from penstock.request import Image, Message, SystemMessage, UserMessage


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("word" * 100, 100), ("潮" * 100, 100), ("я" * 90, 60), ("a潮", 2)],
)
def test_letters_of_other_scripts_weigh_more(text: str, tokens: int) -> None:
    assert text_tokens(text) == tokens


def test_half_a_surrogate_pair_is_counted_too() -> None:
    assert text_tokens("\ud800") == 1
    assert tokens_of([user("\ud83d"), result("a", {"x": "\ud83d"})]) > 0


def test_a_picture_weighs_the_same_however_many_bytes_it_has() -> None:
    small = tokens_of([UserMessage([Image("image/png", "A")])])
    large = tokens_of([result("a", [Image("image/png", "A" * 1_000_000)])])
    assert IMAGE_TOKENS < small < IMAGE_TOKENS + 10
    assert IMAGE_TOKENS < large < IMAGE_TOKENS + 10


def test_all_that_a_model_is_shown_is_counted() -> None:
    long = "word" * 100
    assert tokens_of([SystemMessage(long)]) > 100
    assert tokens_of([AssistantMessage(content=[Thinking(long)])]) > 100
    assert tokens_of([AssistantMessage(content=[Opaque("x", {"a": long})])]) > 100
    assert tokens_of([], system=long) == 100
    assert tokens_of([], tools=[Tool("f", long, {"description": long})]) > 200


@settings(max_examples=40)
@given(CONVERSATIONS, CONVERSATIONS)
def test_a_guess_of_the_whole_is_the_sum_of_its_parts(a: list[Message], b: list[Message]) -> None:
    assert tokens_of(a + b) == tokens_of(a) + tokens_of(b)


def test_what_was_counted_stands_and_what_came_after_is_guessed() -> None:
    usage = Usage(input=90, cache_read=10, cache_write=5, output=20, total=1)
    counted = [user("word" * 95), said("", usage=usage)]
    assert context_tokens(counted) == 125
    longer = [*counted, user("word" * 96)]
    assert context_tokens(longer) == 125 + round(100 * 105 / 99 + 0.5)


def test_without_a_count_all_is_guessed() -> None:
    messages = [user("word" * 10), said("word")]
    assert context_tokens(messages, "word") == tokens_of(messages, "word")
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
    assert context_tokens(messages) >= 10_000 * LEAST_RATIO
    assert ratio(messages) == LEAST_RATIO


def test_the_ratio_is_what_tokenizers_can_differ_by_at_most() -> None:
    messages = [user("word" * 96), said("ok", usage=Usage(input=150))]
    assert ratio(messages) == 1.5
    assert ratio([user("word"), said("", usage=Usage(input=50_000))]) == MOST_RATIO
    assert ratio(messages, system="word" * 50) == 1.0


def test_after_a_compaction_the_context_is_as_long_as_what_is_left() -> None:
    kept = [user("go on"), said("done", usage=Usage(input=180_000, output=10))]
    assert context_tokens(kept) > 180_000
    assert context_tokens(compacted("All went well.", kept)) < 200
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
