"""Requests that continue each other are one conversation."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import UsageError
from penstock.store import RequestQuery, Store
from store.databases import ended, started, with_store, written


async def conversations_of(store: Store) -> dict[str, str]:
    page = await store.requests(RequestQuery(limit=100))
    return {row.id: row.conversation for row in page.items}


async def test_requests_are_grouped_by_the_messages_that_they_continue(url: str) -> None:
    async with with_store(Store(url)) as store:
        given: list[dict[str, Any]] = [
            {"messages_hash": "a"},
            {"messages_hash": "b", "prefix_hash": "a"},
            {"messages_hash": "x", "prefix_hash": "unknown"},
            {"messages_hash": "c", "prefix_hash": "b"},
            {"messages_hash": "c", "prefix_hash": "b", "scope": "another key"},
            {"messages_hash": "d", "prefix_hash": "c", "session": "mine"},
        ]
        for number, fields in enumerate(given, start=1):
            store.begin(started(number, **fields))
            if number % 2:  # in one batch, and in several
                await written(store, number)
        await written(store, len(given))
        found = await conversations_of(store)
    assert [found[f"req-{number:06}"] for number in range(1, 7)] == [
        "req-000001",
        "req-000001",
        "req-000003",
        "req-000001",
        "req-000005",
        "mine",
    ]


async def test_a_prompt_that_is_sent_twice_is_continued_where_it_was_sent_last(url: str) -> None:
    async with with_store(Store(url)) as store:
        store.begin(started(1, messages_hash="a"))
        store.begin(started(2, messages_hash="a"))
        await written(store, 2)
        store.begin(started(3, messages_hash="b", prefix_hash="a"))
        await written(store, 3)
        found = await conversations_of(store)
    assert found["req-000003"] == "req-000002"


async def test_conversations_have_totals_and_pages(url: str) -> None:
    async with with_store(Store(url)) as store:
        for number in range(1, 13):
            run, turn = divmod(number - 1, 4)  # three runs of four requests
            store.begin(
                started(
                    number,
                    messages_hash=f"{run}.{turn}",
                    prefix_hash=f"{run}.{turn - 1}" if turn else "",
                    prompt=f"prompt {run}.{turn}",
                    model="m",
                )
            )
            tokens = {"input_tokens": 10, "output_tokens": None if turn else 5}
            is_bad = {"state": "failed"} if number == 12 else {}
            more = {"calls": 2, "incomplete": turn % 2, "repairs": ["r"], "duration": 0.5}
            store.end(ended(number, summary=f"answer {number}", **tokens, **more, **is_bad))
        store.begin(started(13, messages_hash="alone"))
        await written(store, 25)
        first = await store.conversations(None, "", 2)
        rest = await store.conversations(None, first.next, 2)
        by_key = await store.conversations("another key", "", 10)
    assert [row.id for row in first.items] == ["req-000009", "req-000005"]
    assert [row.id for row in rest.items] == ["req-000001"]
    assert (rest.next, by_key.items) == ("", [])
    newest = first.items[0]
    assert (newest.requests, newest.calls, newest.incomplete, newest.repaired) == (4, 8, 2, 4)
    assert (newest.failed, newest.running, newest.input_tokens) == (1, 0, 40)
    assert (newest.output_tokens, newest.duration) == (5, 2.0)
    assert (newest.prompt, newest.summary) == ("prompt 2.0", "answer 12")


async def test_requests_are_sorted_by_a_column(url: str) -> None:
    async with with_store(Store(url)) as store:
        for number, seconds in enumerate((0.5, 2.0, None, 1.0), start=1):
            store.end(ended(number, first_token=seconds))
        await written(store, 4)
        page = await store.requests(RequestQuery(sort="first_token", limit=2))
        assert [row.first_token for row in page.items] == [2.0, 1.0]
        assert page.next == ""
        with pytest.raises(UsageError, match="`sort` must be one of duration"):
            await store.requests(RequestQuery(sort="text"))


async def test_texts_that_look_like_calls_are_counted_and_filtered(url: str) -> None:
    async with with_store(Store(url)) as store:
        store.end(ended(1, unread=2, unread_reason="the tool was not offered"))
        store.end(ended(2))
        await written(store, 2)
        (row,) = (await store.requests(RequestQuery(unread=True))).items
        assert (row.id, row.unread_reason) == ("req-000001", "the tool was not offered")
        (row,) = (await store.requests(RequestQuery(unread=False))).items
        assert row.id == "req-000002"
