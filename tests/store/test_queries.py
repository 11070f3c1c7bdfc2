"""Requests over time, summed up by both databases in the same way, and found by what they were."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.store import OverviewQuery, Percentiles, RequestQuery, Store
from store.databases import ended, started, with_store, written

NOTES: dict[str, Any] = {"options": {"format": "auto"}, "formats": ["hermes"]}
BOTH: dict[str, Any] = {"formats": ["glm45", "hermes"]}


async def fill(store: Store) -> None:
    """Write eleven requests: ten from 1000 on, a second apart, and one of another scope."""
    for number in range(10):
        model = "odd" if number % 2 else "even"
        store.begin(
            started(number, created=1000.0 + number, scope="me", model=model, format="auto")
        )
        if number == 9:
            break  # which has not ended
        failed: dict[str, Any] = {"state": "failed", "error_kind": "transport"}
        store.end(
            ended(
                number,
                first_token=number / 10,
                duration=float(number),
                finish="stop" if number % 2 else "tool_use",
                calls=number % 3,
                repairs=["closed a string"] if number in (2, 4) else [],
                notes=BOTH if number == 5 else NOTES if number % 3 else {},
                **(failed if number == 8 else {}),
            )
        )
    store.begin(started(50, created=1003.0, scope="you", model="theirs", format="hermes"))
    await written(store, 20)


async def test_requests_are_summed_up_bucket_by_bucket(url: str) -> None:
    async with with_store(Store(url)) as store:
        await fill(store)
        query = OverviewQuery(scope="me", since=1000.0, until=1010.0, buckets=2)
        found = await store.overview(query)
        assert (found.since, found.until, found.width) == (1000.0, 1010.0, 5.0)
        first, second = found.buckets
        assert (first.t, first.streams, first.failed, first.calls, first.repaired) == (
            *(1000.0, 5, 0),
            *(4, 2),
        )
        assert (second.t, second.streams, second.failed, second.repaired) == (1005.0, 5, 1, 0)
        assert first.ttft == Percentiles(0.2, 0.4)
        assert second.duration == Percentiles(6.0, 8.0)
        assert found.states == {"done": 8, "failed": 1, "started": 1}
        assert found.models == {"even": 5, "odd": 5}
        assert found.errors == {"transport": 1}
        assert first.errors == {}
        assert second.errors == {"transport": 1}
        assert first.formats == {"hermes": 1 + 2 + 1}
        assert second.formats == {"hermes": 1 + 1 + 2, "glm45": 1}
        assert found.formats == {"hermes": 1 + 2 + 1 + 1 + 1 + 2, "glm45": 1}
        everybody = await store.overview(OverviewQuery(since=1000.0, until=1010.0, buckets=1))
        assert everybody.buckets[0].streams == 11
        nothing = await store.overview(OverviewQuery(since=1.0, until=2.0, buckets=9_999))
        assert len(nothing.buckets) == 200
        assert all(one.streams == 0 and one.ttft is None for one in nothing.buckets)


async def test_requests_are_found_by_format_finish_error_and_repairs(url: str) -> None:
    async with with_store(Store(url)) as store:
        await fill(store)

        async def numbers(**fields: Any) -> list[int]:
            page = await store.requests(RequestQuery(scope="me", **fields))
            return sorted(int(row.id.removeprefix("req-")) for row in page.items)

        assert await numbers(finish="stop") == [1, 3, 5, 7]
        assert await numbers(error="transport") == [8]
        assert await numbers(repairs=True) == [2, 4]
        assert len(await numbers(repairs=False)) == 8
        assert await numbers(format="glm45") == [5]
        assert await numbers(format="hermes") == [1, 2, 4, 5, 7, 8]
        assert len(await numbers(format="auto")) == 10
        assert await numbers(format='%"') == []
        assert await numbers(format="hermes", repairs=True, finish="tool_use") == [2, 4]
        rows = await store.named(["req-000001", "req-000050", "nobody"])
        assert sorted(row.id for row in rows) == ["req-000001", "req-000050"]
        assert await store.named([]) == []


@pytest.mark.parametrize("buckets", [-3, 0, 1, 10**6])
async def test_there_is_always_a_number_of_buckets_that_can_be_shown(
    sqlite_url: str, buckets: int
) -> None:
    async with with_store(Store(sqlite_url)) as store:
        store.begin(started(1))
        await written(store, 1)
        query = OverviewQuery(since=5.0, until=5.0, buckets=buckets)
        assert 1 <= len((await store.overview(query)).buckets) <= 200
