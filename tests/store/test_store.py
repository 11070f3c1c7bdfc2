"""What goes in comes out, in both databases, and only for whom it is meant."""

from __future__ import annotations

import asyncio
import time
import zlib
from pathlib import Path

import pytest

from penstock.errors import UsageError
from penstock.store import RequestQuery, ResponseRow, SessionQuery, SessionRow, Store, StoreError
from store.databases import PATIENCE, ended, started, with_store, written

WHOLE = {
    "finish": "tool_calls",
    "error_kind": "",
    "status": 200,
    "input_tokens": 12,
    "output_tokens": 34,
    "cached_tokens": 0,
    "first_byte": 0.25,
    "first_token": 0.5,
    "duration": 1.5,
    "chunks": 7,
    "calls": 1,
    "repairs": ["closed a string"],
    "text": "High water is at six.",
    "session": "s2",
    "upstream_request": b'{"up": 1}',
    "raw": [zlib.compress(b"data: 1\n"), zlib.compress(b"data: 2\n")],
    "timeline": b"[0.1]",
    "events": [zlib.compress(b'{"type":"start"}\n')],
    "response": b'{"id": "x", "pad": "' + b"y" * 5000 + b'"}',
    "notes": {"asked": ["é", 1, None]},
}


async def test_a_request_comes_back_as_it_was(url: str) -> None:
    async with with_store(Store(url)) as store:
        store.begin(
            started(1, scope="k", session="s1", model="m", stream=True, request=b"{}" * 9000)
        )
        store.end(ended(1, **WHOLE))
        await written(store, 2)
        found = await store.request("req-000001")
        assert found is not None
        row = found.row
        for name in ("finish", "status", "input_tokens", "first_token", "duration", "repairs"):
            assert getattr(row, name) == WHOLE[name]
        assert (row.state, row.scope, row.session, row.model) == ("done", "k", "s2", "m")
        assert (row.stream, row.worker, row.reasoning_tokens) == (True, store.worker, None)
        assert found.raw == b"data: 1\ndata: 2\n"
        assert found.events == b'{"type":"start"}\n'
        assert found.request == b"{}" * 9000
        for name in ("response", "timeline", "upstream_request", "notes", "text"):
            assert getattr(found, name) == WHOLE[name]
        assert 1000 < row.size < 3000, "packed"
        assert await store.request("req-000002") is None


async def test_an_end_without_a_start_still_makes_a_row(url: str) -> None:
    async with with_store(Store(url)) as store:
        store.end(ended(1, duration=60.0, session=""))
        await written(store, 1)
        (row,) = (await store.requests(RequestQuery())).items
        assert row.state == "done"
        assert row.created == pytest.approx(time.time() - 60, abs=30)


async def test_without_bodies_nothing_that_was_said_is_stored(url: str) -> None:
    async with with_store(Store(url, bodies=False)) as store:
        store.begin(started(1, request=b"canary"))
        store.end(ended(1, **WHOLE))
        await written(store, 2)
        found = await store.request("req-000001")
        assert found is not None
        assert (found.row.finish, found.row.output_tokens) == ("tool_calls", 34)
        assert not found.text
        assert not any((found.request, found.raw, found.events, found.response, found.timeline))


async def test_lists_are_paged_and_filtered(url: str) -> None:
    async with with_store(Store(url)) as store:
        for number in range(25):
            kind = "even" if number % 2 == 0 else "odd"
            store.begin(started(number, created=1000.0 + number, scope=kind, model=kind))
            if number < 20:
                store.end(ended(number, state="failed" if number % 5 == 0 else "done"))
        await written(store, 45)
        ids: list[str] = []
        query = RequestQuery(limit=10, count=True)
        while True:
            page = await store.requests(query)
            assert page.total == 25
            ids += [row.id for row in page.items]
            if not page.next:
                break
            query = RequestQuery(limit=10, count=True, before=page.next)
        assert ids == [f"req-{number:06}" for number in reversed(range(25))]

        async def count(query: RequestQuery) -> int:
            return len((await store.requests(query)).items)

        assert await count(RequestQuery(scope="odd")) == 12
        assert await count(RequestQuery(scope="")) == 0
        assert await count(RequestQuery(model="even", state="failed")) == 2
        assert await count(RequestQuery(state="started")) == 5
        assert await count(RequestQuery(since=1010.0, until=1012.0)) == 2
        assert await count(RequestQuery(limit=-5)) == 1
        newer = await store.follow("req-000021", 2)
        assert [row.id for row in newer] == ["req-000022", "req-000023"]
        assert await store.follow("req-000024", 2) == []


async def test_totals_sum_up_what_is_newer(url: str) -> None:
    async with with_store(Store(url)) as store:
        for number in range(10):
            store.begin(started(number, created=1000.0 + number, model=f"m{number % 2}"))
            store.end(ended(number, input_tokens=10, output_tokens=None, calls=1))
        store.begin(started(10, created=1010.0, model="m0"))
        await written(store, 21)
        totals = await store.totals(1005.0)
        assert (totals.requests, totals.calls) == (6, 5)
        assert (totals.input_tokens, totals.output_tokens) == (50, 0)
        assert totals.states == {"done": 5, "started": 1}
        assert totals.models == {"m0": 3, "m1": 3}
        assert totals.size > 10_000
        assert (await store.totals(2000.0)).requests == 0


# --- sessions and responses ---


def session(name: str, scope: str, **fields: object) -> SessionRow:
    values = {"id": name, "scope": scope, "created": 1.0, "used": time.time()} | fields
    return SessionRow(**values)  # type: ignore[arg-type]


async def test_scopes_never_see_each_others_sessions_and_responses(url: str) -> None:
    async with with_store(Store(url)) as store:
        mine = session("same", "mine", hash="h", chat_id="c1", data={"deep": [1]})
        theirs = session("same", "theirs", hash="h", chat_id="c2")
        assert await store.save(mine, theirs, within=20)
        assert await store.save(
            ResponseRow(id="r", scope="mine", data=b"1"),
            ResponseRow(id="r", scope="theirs", data=b"2"),
            within=20,
        )
        assert await store.session(scope="mine", id="same") == mine
        assert await store.session(scope="theirs", hash="h") == theirs
        for scope in ("", "nobody", "MINE"):
            assert await store.session(scope=scope, id="same", hash="h") is None
            assert await store.response("r", scope=scope) is None
        found = await store.response("r", scope="theirs")
        assert found is not None
        assert found.data == b"2"
        page = await store.sessions(SessionQuery(scope="mine"))
        assert page.items == [mine]
        assert not await store.delete_session("same", scope="nobody")
        assert await store.delete_session("same", scope="mine")
        assert await store.session(scope="mine", id="same") is None
        assert await store.session(scope="theirs", id="same") == theirs
        assert await store.delete_session("same", scope=None)
        assert not await store.delete_session("same", scope=None)


async def test_the_newest_live_session_is_found(url: str) -> None:
    now = time.time()
    async with with_store(Store(url)) as store:
        old = session("old", "k", hash="h", used=now - 9)
        new = session("new", "k", hash="h", used=now - 1, expires=now + 900)
        gone = session("gone", "k", hash="h", used=now, expires=now - 1)
        assert await store.save(new, old, gone, within=20)
        assert await store.session(scope="k", hash="h") == new
        assert await store.session(scope="k", id="old", hash="h") == old
        assert await store.session(scope="k", id="gone", hash="h") == new, "expired"
        assert await store.session(scope="k", id="gone") is None
        assert await store.session(scope="k") is None
        late = session("old", "k", hash="h2", created=5.0, turns=2, parent_id="p")
        assert await store.save(late, within=20)
        found = await store.session(scope="k", id="old")
        assert found is not None
        assert (found.created, found.turns, found.parent_id) == (1.0, 2, "p")


async def test_sessions_are_paged_even_if_made_in_the_same_moment(url: str) -> None:
    async with with_store(Store(url)) as store:
        every = [session(f"s{number % 4}", f"k{number // 4}", created=7.5) for number in range(12)]
        assert await store.save(*every, within=20)
        seen: list[tuple[str, str]] = []
        query = SessionQuery(limit=5, count=True)
        while True:
            page = await store.sessions(query)
            seen += [(row.scope, row.id) for row in page.items]
            assert page.total == 12
            if not page.next:
                break
            query = SessionQuery(limit=5, count=True, before=page.next)
        assert sorted(seen) == sorted((row.scope, row.id) for row in every)
        with pytest.raises(UsageError):
            await store.sessions(SessionQuery(before="nonsense"))


async def test_a_very_long_id_is_found_again_and_not_mistaken(url: str) -> None:
    async with with_store(Store(url)) as store:
        one, two = "x" * 5000 + "1", "x" * 5000 + "2"
        assert await store.save(session(one, "k", chat_id="1"), within=20)
        assert await store.save(session(two, "k", chat_id="2"), within=20)
        found = await store.session(scope="k", id=one)
        assert found is not None
        assert found.chat_id == "1"


async def test_saving_gives_up_on_an_absent_database(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/absent/log.db")
    store.start()
    async with asyncio.timeout(PATIENCE):
        assert not await store.save(session("s", "k"))
    assert store.health.queued == 1, "still queued"
    (tmp_path / "absent").mkdir()
    await written(store, 1)
    assert await store.session(scope="k", id="s") is not None
    await store.close()
    assert not await store.save(session("t", "k")), "closed"


async def test_two_stores_on_one_database_share_sessions(url: str) -> None:
    one, two = Store(url), Store(url)
    one.start()
    two.start()
    assert await one.save(session("s", "k", turns=1), within=30)
    found = await two.session(scope="k", id="s")
    assert found is not None
    assert await two.save(session("s", "k", turns=found.turns + 1), within=30)
    again = await one.session(scope="k", id="s")
    assert again is not None
    assert again.turns == 2
    await asyncio.gather(one.close(), two.close())


async def test_a_store_that_was_never_started_reads_and_closes(url: str) -> None:
    async with asyncio.timeout(30):
        reader = Store(url, create=False)
        with pytest.raises(StoreError):
            await reader.requests(RequestQuery())
        writer = Store(url)
        writer.start()
        writer.begin(started(1))
        await writer.close()
        assert len((await reader.requests(RequestQuery())).items) == 1
        await reader.close()
        with pytest.raises(StoreError, match="closed"):
            await reader.requests(RequestQuery())
