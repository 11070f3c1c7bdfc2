"""Several gateways grant together what is configured, in a real Redis and a real PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis

from gateway.serving import Stage, ask, request_of, until
from penstock.errors import UsageError
from penstock.gateway import quotas as module
from penstock.gateway.auth import Client, ConcurrencySlot, Quota
from penstock.gateway.errors import HTTPError
from penstock.gateway.quotas import Lease, Quotas, QuotaVerdict, open_database
from store.databases import Postgres, postgres_server, run_name

PATIENCE = 20.0
CHAT = "/v1/chat/completions"


class RedisServer:
    """A Redis on a free port that can be stopped and started."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}/0"

    def start(self) -> None:
        program = shutil.which("redis-server")
        assert program is not None
        flags = [
            "--port",
            str(self._port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--daemonize",
            "no",
        ]
        self._process = subprocess.Popen(  # noqa: S603 - Debian's own
            [program, *flags, "--dir", str(self._folder)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        client = redis.Redis.from_url(self.url)
        until(lambda: _answers(client))
        client.close()

    def stop(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    if shutil.which("redis-server") is None:
        if os.environ.get("NEEDS_REDIS"):
            pytest.fail("there is no redis-server: apt-get install redis-server")
        pytest.skip("there is no redis-server; `make e2e` installs it and runs these tests")
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder))
        yield server
        server.stop()


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with postgres_server(f"{run_name()}-quotas-{os.getpid()}") as server:
        yield server


@pytest.fixture(params=["redis", "postgresql"])
def database(request: pytest.FixtureRequest) -> RedisServer | Postgres:
    name = "redis_server" if request.param == "redis" else "postgres"
    found: RedisServer | Postgres = request.getfixturevalue(name)
    return found


@pytest.fixture
def url(database: RedisServer | Postgres) -> str:
    if isinstance(database, Postgres):
        return database.make_database()
    client = redis.Redis.from_url(database.url)
    client.flushall()
    client.close()
    return database.url


@asynccontextmanager
async def fleet(url: str, size: int = 3) -> AsyncIterator[list[Quotas]]:
    """Open the quotas of *size* gateways at *url*."""
    gateways = [Quotas(open_database(url)) for _ in range(size)]
    try:
        yield gateways
    finally:
        for gateway in gateways:
            await gateway.close()


def make_clients(quota: Quota, size: int = 3) -> list[Client]:
    return [Client("one", quota, 0.0) for _ in range(size)]


async def take(gateway: Quotas, client: Client) -> ConcurrencySlot | HTTPError:
    try:
        return await gateway.take(client, 0.0)
    except HTTPError as exc:
        return exc


async def test_gateways_grant_the_rate_together(url: str) -> None:
    quota = Quota(rate=120.0)
    async with fleet(url) as gateways:
        clients = make_clients(quota)
        began = time.monotonic()
        results = [await take(gateways[number % 3], clients[number % 3]) for number in range(160)]
        elapsed = time.monotonic() - began
        granted = [one for one in results if isinstance(one, ConcurrencySlot)]
        refused = [one for one in results if isinstance(one, HTTPError)]
        assert 120 <= len(granted) <= 120 * 1.05 + elapsed * 2
        assert all(gateway.state == "shared" for gateway in gateways)
        for one in refused:
            assert one.info.status == 429
            assert "120 requests per minute" in one.info.message
            assert one.info.retry_after is not None
            assert 0 < one.info.retry_after <= 0.5


async def test_gateways_grant_the_concurrency_together(url: str) -> None:
    quota = Quota(concurrency=10)
    async with fleet(url) as gateways:
        clients = make_clients(quota)
        tries = [take(gateways[number % 3], clients[number % 3]) for number in range(45)]
        results = await asyncio.gather(*tries)
        assert Counter(type(one) for one in results) == {ConcurrencySlot: 10, HTTPError: 35}
        slots = [
            (number % 3, one) for number, one in enumerate(results)
            if isinstance(one, ConcurrencySlot)
        ]  # fmt: skip
        for number, slot in slots[:4]:
            gateways[number].release(slot)
        await asyncio.gather(*(task for gateway in gateways for task in gateway._tasks))
        again = [await take(gateways[0], clients[0]) for _ in range(6)]
        assert Counter(type(one) for one in again) == {ConcurrencySlot: 4, HTTPError: 2}


async def test_several_choices_count_as_several_responses(url: str) -> None:
    quota = Quota(concurrency=5)
    async with fleet(url, 2) as (one, two):
        first, second = make_clients(quota, 2)
        slot = await one.take(first, 0.0)
        await one.widen(slot, 4)
        other = await two.take(second, 0.0)
        with pytest.raises(HTTPError, match="5 responses at a time"):
            await two.widen(other, 2)
        with pytest.raises(HTTPError, match="`n` is 6"):
            await two.widen(other, 6)
        one.release(slot)
        await asyncio.gather(*one._tasks)
        await two.widen(other, 5)
        assert isinstance(await take(one, first), HTTPError)


async def test_responses_of_a_gateway_that_died_stop_counting(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEASE_SECONDS", 0.4)
    quota = Quota(concurrency=1)
    dead = Quotas(open_database(url))
    (client,) = make_clients(quota, 1)
    await dead.take(client, 0.0)
    async with fleet(url, 1) as (alive,):
        (other,) = make_clients(quota, 1)
        assert isinstance(await take(alive, other), HTTPError)
        deadline = time.monotonic() + PATIENCE
        while isinstance(await take(alive, other), HTTPError):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
    await dead.close()


async def test_responses_in_progress_are_renewed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEASE_SECONDS", 1.5)
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.2)
    quota = Quota(concurrency=1)
    async with fleet(url, 2) as (one, two):
        first, second = make_clients(quota, 2)
        one.start()
        await one.take(first, 0.0)
        for _ in range(5):
            await asyncio.sleep(0.5)
            assert isinstance(await take(two, second), HTTPError)


class SlowDatabase:
    """The database at *url*, whose responses arrive when `respond` is set."""

    def __init__(self, url: str) -> None:
        found = open_database(url)
        assert found is not None
        self._database = found
        self.respond = asyncio.Event()
        self.done = asyncio.Event()
        self.before_renewal = asyncio.Event()
        self.before_renewal.set()

    async def take(self, lease: Lease, quota: Quota, *, counts: bool) -> QuotaVerdict:
        verdict = await self._database.take(lease, quota, counts=counts)
        self.done.set()
        await self.respond.wait()
        return verdict

    async def release(self, leases: Sequence[Lease]) -> None:
        await self._database.release(leases)

    async def renew(self, leases: Sequence[Lease]) -> None:
        self.done.set()
        await self.before_renewal.wait()
        await self._database.renew(leases)

    async def close(self) -> None:
        await self._database.close()


@pytest.mark.parametrize("end", ["timeout", "cancel"])
async def test_a_grant_that_did_not_arrive_is_released(
    url: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS", 1.0 if end == "timeout" else PATIENCE)
    slow = SlowDatabase(url)
    one, two = Quotas(slow), Quotas(open_database(url))
    first, second = make_clients(Quota(concurrency=1), 2)
    asked = asyncio.create_task(one.take(first, 0.0))
    await slow.done.wait()
    assert isinstance(await take(two, second), HTTPError)
    if end == "cancel":
        asked.cancel()
    await asyncio.wait([asked])
    await asyncio.gather(*one._tasks)
    assert isinstance(await take(two, second), ConcurrencySlot)
    assert two.is_shared
    await one.close()
    await two.close()


async def test_a_response_that_ends_during_the_renewal_stops_counting(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.05)
    monkeypatch.setattr(module, "ANSWER_SECONDS", PATIENCE)
    slow = SlowDatabase(url)
    slow.respond.set()
    slow.before_renewal.clear()
    one, two = Quotas(slow), Quotas(open_database(url))
    first, second = make_clients(Quota(concurrency=1), 2)
    slot = await one.take(first, 0.0)
    slow.done.clear()
    one.start()
    await slow.done.wait()
    one.release(slot)
    await asyncio.gather(*one._tasks)
    slow.done.clear()
    slow.before_renewal.set()
    await slow.done.wait()  # The next renewal: the one before it has ended.
    await asyncio.gather(*one._tasks)
    assert isinstance(await take(two, second), ConcurrencySlot)
    assert two.is_shared
    await one.close()
    await two.close()


async def test_without_the_database_each_process_limits_and_recovers(
    database: RedisServer | Postgres, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.2)
    quota = Quota(concurrency=2)
    async with fleet(url, 2) as (one, two):
        first, second = make_clients(quota, 2)
        one.start()
        two.start()
        held = await one.take(first, 0.0)
        database.stop()
        try:
            # What this process granted before still counts; the other process knows nothing of it.
            assert isinstance(await take(one, first), ConcurrencySlot)
            assert "does not respond" in one.state
            assert isinstance(await take(one, first), HTTPError)
            assert isinstance(await take(two, second), ConcurrencySlot)
        finally:
            database.start()
        deadline = time.monotonic() + PATIENCE
        while not (one.is_shared and two.is_shared):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        one.release(held)


class HangingDatabase(SlowDatabase):
    """A database that never responds, and whose driver waits for it to cancel a query."""

    async def take(self, lease: Lease, quota: Quota, *, counts: bool) -> QuotaVerdict:
        try:
            await asyncio.Event().wait()
        finally:
            await self.respond.wait()
        return await super().take(lease, quota, counts=counts)


async def test_a_burst_of_requests_opens_few_connections(redis_server: RedisServer) -> None:
    client = redis.Redis.from_url(redis_server.url)
    before = client.info("stats")["total_connections_received"]
    async with fleet(redis_server.url, 1) as (gateway,):
        (one,) = make_clients(Quota(rate=1000.0), 1)
        results = await asyncio.gather(*(take(gateway, one) for _ in range(60)))
        assert all(isinstance(each, ConcurrencySlot) for each in results)
    opened = client.info("stats")["total_connections_received"] - before
    client.close()
    assert opened <= module.MAX_CONNECTIONS


async def test_a_database_that_hangs_delays_no_request_and_no_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.05)
    database = HangingDatabase("redis://127.0.0.1:1/0")
    gateway = Quotas(database)
    (client,) = make_clients(Quota(concurrency=1), 1)
    async with asyncio.timeout(PATIENCE):
        slot = await gateway.take(client, 0.0)
        assert "does not respond" in gateway.state
        gateway.release(slot)
        await gateway.close()
    assert "does not respond" in gateway.state
    assert [one.message for one in caplog.records] == [
        "quotas: no response in time; each process applies the limits alone"
    ]
    database.respond.set()


async def test_a_key_without_limits_asks_no_database() -> None:
    gateway = Quotas(open_database("redis://127.0.0.1:1/0"))
    (client,) = make_clients(Quota(), 1)
    assert isinstance(await gateway.take(client, 0.0), ConcurrencySlot)
    assert gateway.state == "shared"
    await gateway.close()


def test_other_databases_are_refused() -> None:
    assert open_database("") is None
    with pytest.raises(UsageError, match="has to begin with redis://"):
        open_database("mysql://localhost/x")


def test_two_gateways_refuse_over_http_what_the_other_granted(
    stage: Stage, url: str, tmp_path: Path
) -> None:
    settings = (
        f'[quotas]\nurl = "{url}"\n[keys.one]\nenv = "KEY"\nrate = 3\n'
        '[upstreams.scripted]\napi = "demo"\ndemo = { pace = 0.0 }\n[models.demo]\n'
        'upstream = "scripted"\n'
    )
    key = "sk-test-0123456789abcdef"
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = stage.gateway(tmp_path / "a", settings, {"KEY": key})
    two = stage.gateway(tmp_path / "b", settings, {"KEY": key})
    body = request_of("openai-chat", "demo", stream=False)
    answers = [ask(gateway, CHAT, body, x_api_key=key) for gateway in (one, two, one, two)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    assert 0 < int(answers[3].headers["retry-after"]) <= 20
    assert ask(one, "/health/ready").json["quotas"] == "shared"
    assert b"penstock_quotas_shared 1.0" in ask(two, "/metrics", x_api_key=key).body
