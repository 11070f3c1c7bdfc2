"""Quotas that any number of gateways share, in Redis or PostgreSQL.

Rates are token buckets and responses in progress are leases, both in the shared database and by its
clock, so that all gateways together grant what is configured. One round trip decides about a
request: a script in Redis, a function in PostgreSQL. A lease expires after `LEASE_SECONDS` unless
its gateway renews it, so the responses of a gateway that died stop counting.

If the database does not respond, each process applies the limits alone until it does: clients are
served, and the metrics, `/health/ready` and a warning say so.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from penstock.errors import UsageError
from penstock.gateway.auth import Client, ConcurrencySlot, Quota
from penstock.gateway.errors import RETRY_SOON, HTTPError

LEASE_SECONDS: Final = 30.0
"""How long a response counts whose gateway does not renew it: a gateway that died."""

RENEW_SECONDS: Final = 10.0
"""How often leases are renewed: twice may fail before one expires."""

ANSWER_SECONDS: Final = 0.5
"""How long a request waits for the database; then this process decides."""

RETRY_SECONDS: Final = 2.0
"""How long the database is left alone after it failed."""

MAX_CONNECTIONS: Final = 8
"""How many connections to Redis a process opens at most."""

_LOG: Final = logging.getLogger("penstock.gateway")


class Lease(NamedTuple):
    """So many *responses* of the key *name* in progress."""

    name: str
    id: str
    responses: int


class QuotaVerdict(NamedTuple):
    """Whether a request is granted; if not, the seconds to wait where the rate is exceeded."""

    is_granted: bool
    wait: float = 0.0


class QuotaDatabase(Protocol):
    """Where gateways share their quotas; every method may raise any exception."""

    async def take(self, lease: Lease, quota: Quota, *, counts: bool) -> QuotaVerdict:
        """Add or change *lease* if *quota* allows it; with *counts* it is a request of the rate."""

    async def release(self, leases: Sequence[Lease]) -> None:
        """Remove *leases*."""

    async def renew(self, leases: Sequence[Lease]) -> None:
        """Extend *leases*, and add those that are not there."""

    async def close(self) -> None:
        """Close the connection."""


class Quotas:
    """Grants requests within the quotas of their keys: shared in *database*, or in this process."""

    def __init__(
        self, database: QuotaDatabase | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._clock = clock
        self._leases: dict[ConcurrencySlot, Lease] = {}
        self._down_until = 0.0
        self._is_down = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._abandoned: set[asyncio.Future[None]] = set()  # work that was not waited for
        self._renewal: asyncio.Task[None] | None = None

    @property
    def state(self) -> str:
        """``local``, ``shared``, or ``local, because the shared database does not respond``."""
        if self._database is None:
            return "local"
        return "local, because the shared database does not respond" if self._is_down else "shared"

    @property
    def is_shared(self) -> bool:
        """Whether the quotas are shared and the database responds."""
        return self._database is not None and not self._is_down

    async def take(self, client: Client, now: float) -> ConcurrencySlot:
        """Count a request of *client*; raise `HTTPError` if its quota is exceeded."""
        if self._database is None or not client.quota.is_limited:
            return client.take(now)
        lease = Lease(client.name, secrets.token_hex(8), 1)
        if (verdict := await self._ask(lease, client.quota, counts=True)) is None:
            return client.take(now)
        self._check(verdict, client.quota)
        slot = client.open_slot()
        self._leases[slot] = lease
        return slot

    async def widen(self, slot: ConcurrencySlot, responses: int) -> None:
        """Count *slot* as *responses*; raise `HTTPError` if they exceed the quota."""
        lease, quota = self._leases.get(slot), slot.client.quota
        if lease is None:
            slot.widen(responses)
            return
        if quota.concurrency and responses > quota.concurrency:
            slot.widen(responses)  # It raises the error.
        wider = lease._replace(responses=responses)
        if (verdict := await self._ask(wider, quota, counts=False)) is None:
            self._leases[slot] = wider  # as it may be in the database
            slot.widen(responses)
            return
        self._check(verdict, quota)
        self._leases[slot] = wider
        slot.client.count(slot, responses)

    def release(self, slot: ConcurrencySlot) -> None:
        """Count the request of *slot* as ended."""
        slot.client.release(slot)
        if (lease := self._leases.pop(slot, None)) is not None:
            self._release_later(lease)

    def start(self) -> None:
        """Start to renew the leases."""
        if self._database is not None and self._renewal is None:
            self._renewal = asyncio.create_task(self._keep_leases())

    async def close(self) -> None:
        """Release all leases and close the database."""
        if self._database is None:
            return
        if self._renewal is not None:
            self._renewal.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=ANSWER_SECONDS)
        if self._leases:
            await self._try(self._database.release([*self._leases.values()]))
        with suppress(Exception):  # That it is closed says nothing about the database.
            await self._finish(self._database.close())
        if abandoned := self._abandoned.copy():
            for work in abandoned:
                work.cancel()
            await asyncio.wait(abandoned, timeout=ANSWER_SECONDS)

    # --- the database ---

    async def _ask(self, lease: Lease, quota: Quota, *, counts: bool) -> QuotaVerdict | None:
        """Return the verdict of the database; None if it does not respond."""
        assert self._database is not None  # noqa: S101 - the caller checked it
        if self._clock() < self._down_until:
            return None
        verdict: list[QuotaVerdict] = []

        async def ask(database: QuotaDatabase) -> None:
            verdict.append(await database.take(lease, quota, counts=counts))

        try:
            await self._try(ask(self._database))
        finally:
            # The database may have granted what was not waited for, or whose client is gone.
            if not verdict and counts:
                self._release_later(lease)
        return verdict[0] if verdict else None

    def _release_later(self, lease: Lease) -> None:
        """Release *lease*, without waiting for the database."""
        assert self._database is not None  # noqa: S101 - there is no lease without it
        task = asyncio.create_task(self._try(self._database.release([lease])))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _try(self, work: Awaitable[None]) -> None:
        """Do *work*; if it fails or takes too long, this process decides for some seconds."""
        try:
            await self._finish(work)
        except Exception as exc:  # noqa: BLE001 - drivers raise anything; a client must be served
            self._down_until = self._clock() + RETRY_SECONDS
            if not self._is_down:
                self._is_down = True
                _LOG.warning("quotas: %s; each process applies the limits alone", _describe(exc))
        else:
            self._down_until = 0.0
            if self._is_down:
                self._is_down = False
                _LOG.warning("quotas: the shared database responds again")

    async def _finish(self, work: Awaitable[None]) -> None:
        """Wait for *work*; raise `TimeoutError` after `ANSWER_SECONDS`, even if it does not end.

        psycopg ends a query that is cancelled by asking the server, and waits up to 10 seconds for
        one that hangs.
        """
        future = asyncio.ensure_future(work)
        try:
            await asyncio.wait([future], timeout=ANSWER_SECONDS)
        finally:
            if not future.done():
                future.cancel()
                self._abandoned.add(future)
                future.add_done_callback(self._forget)
        if future in self._abandoned:
            raise TimeoutError
        future.result()

    def _forget(self, future: asyncio.Future[None]) -> None:
        self._abandoned.discard(future)
        if not future.cancelled():
            future.exception()  # Otherwise asyncio reports that it was never retrieved.

    async def _keep_leases(self) -> None:
        while self._database is not None:
            await asyncio.sleep(RENEW_SECONDS)
            before = dict(self._leases)
            # Also without leases: it finds out whether a database that failed is back.
            await self._try(self._database.renew([*before.values()]))
            # A lease that was released meanwhile may have been added again.
            for slot in before.keys() - self._leases.keys():
                self._release_later(before[slot])

    @staticmethod
    def _check(verdict: QuotaVerdict, quota: Quota) -> None:
        if verdict.is_granted:
            return
        if verdict.wait:
            message = f"this key allows {quota.rate:g} requests per minute"
            raise HTTPError(429, message, retry_after=verdict.wait)
        message = f"this key allows {quota.concurrency} responses at a time"
        raise HTTPError(429, message, retry_after=RETRY_SOON)


def _describe(exc: Exception) -> str:
    """Describe why the database failed, without its address, which may contain a password."""
    return "no response in time" if isinstance(exc, TimeoutError) else type(exc).__name__


def open_database(url: str) -> QuotaDatabase | None:
    """Return the database at *url*, None for the empty one; raise `UsageError`."""
    scheme = url.partition("://")[0].partition("+")[0]
    if not url:
        return None
    if scheme in ("redis", "rediss", "unix"):
        return RedisQuotas(url)
    if scheme in ("postgresql", "postgres"):
        return PostgresQuotas(url)
    raise UsageError("quotas.url has to begin with redis://, rediss://, unix:// or postgresql://")


# --- Redis ----------------------------------------------------------------------------------------

_REDIS_TAKE: Final = """
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local id, responses = ARGV[1], tonumber(ARGV[2])
local rate, concurrency = tonumber(ARGV[3]), tonumber(ARGV[4])
local seconds, counts = tonumber(ARGV[5]), ARGV[6] == '1'
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
local mine = 0
while redis.call('ZSCORE', KEYS[2], id .. ':' .. mine) do mine = mine + 1 end
if concurrency > 0 and redis.call('ZCARD', KEYS[2]) - mine + responses > concurrency then
  return {0, '0'}
end
if counts and rate > 0 then
  local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
  local tokens, at = tonumber(bucket[1]) or rate, tonumber(bucket[2]) or now
  tokens = math.min(rate, tokens + math.max(0, now - at) * rate / 60)
  if tokens < 1 then return {0, tostring((1 - tokens) * 60 / rate)} end
  redis.call('HSET', KEYS[1], 'tokens', tostring(tokens - 1), 'at', tostring(now))
  redis.call('EXPIRE', KEYS[1], 120)
end
for number = 0, responses - 1 do
  redis.call('ZADD', KEYS[2], now + seconds, id .. ':' .. number)
end
redis.call('EXPIRE', KEYS[2], 120)
return {1, '0'}
"""


class RedisQuotas:
    """Quotas in Redis: a hash with the bucket, and a sorted set of responses for each key."""

    def __init__(self, url: str) -> None:
        try:
            from redis.asyncio import BlockingConnectionPool, Redis  # noqa: PLC0415 - it is an extra
        except ImportError as exc:
            raise UsageError("Redis needs an extra: pip install 'penstock[redis]'") from exc
        # A request waits for a connection rather than open its own, which takes longer than the
        # decision: 80 requests at once took 330 ms with 80 connections and take 80 ms with 8.
        pool = BlockingConnectionPool.from_url(url, max_connections=MAX_CONNECTIONS, timeout=None)
        self._redis: Any = Redis.from_pool(pool)
        self._take: Any = self._redis.register_script(_REDIS_TAKE)

    async def take(self, lease: Lease, quota: Quota, *, counts: bool) -> QuotaVerdict:
        """Add or change *lease* if *quota* allows it; with *counts* it is a request of the rate."""
        values = (lease.id, lease.responses, quota.rate, quota.concurrency, LEASE_SECONDS)
        granted, wait = await self._take(keys=_redis_keys(lease), args=[*values, int(counts)])
        return QuotaVerdict(bool(granted), float(wait))

    async def release(self, leases: Sequence[Lease]) -> None:
        """Remove *leases*."""
        async with self._redis.pipeline(transaction=False) as pipeline:
            for lease in leases:
                pipeline.zrem(_redis_keys(lease)[1], *_members(lease))
            await pipeline.execute()

    async def renew(self, leases: Sequence[Lease]) -> None:
        """Extend *leases*, and add those that are not there."""
        seconds, micros = await self._redis.time()
        until = seconds + micros / 1e6 + LEASE_SECONDS
        async with self._redis.pipeline(transaction=False) as pipeline:
            for lease in leases:
                pipeline.zadd(_redis_keys(lease)[1], dict.fromkeys(_members(lease), until))
                pipeline.expire(_redis_keys(lease)[1], 120)
            await pipeline.execute()

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()


def _redis_keys(lease: Lease) -> tuple[str, str]:
    """Return the names of bucket and leases; the braces keep them on one node of a cluster."""
    return f"penstock:{{{lease.name}}}:rate", f"penstock:{{{lease.name}}}:open"


def _members(lease: Lease) -> list[str]:
    return [f"{lease.id}:{number}" for number in range(lease.responses)]


# --- PostgreSQL -----------------------------------------------------------------------------------

_POSTGRES_SETUP: Final = """
SELECT pg_advisory_xact_lock(hashtextextended('penstock quotas', 0));
CREATE UNLOGGED TABLE IF NOT EXISTS penstock_quota_buckets (
  name text PRIMARY KEY, tokens double precision NOT NULL, at double precision NOT NULL);
CREATE UNLOGGED TABLE IF NOT EXISTS penstock_quota_leases (
  name text NOT NULL, id text NOT NULL, responses integer NOT NULL,
  expires double precision NOT NULL, PRIMARY KEY (name, id));
CREATE OR REPLACE FUNCTION penstock_take_quota(
  key text, lease text, wanted integer, rate double precision, concurrency integer,
  seconds double precision, counts boolean) RETURNS double precision AS $$
DECLARE
  moment double precision;
  others bigint;
  bucket penstock_quota_buckets%ROWTYPE;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('penstock quota ' || key, 0));
  moment := extract(epoch FROM clock_timestamp());
  DELETE FROM penstock_quota_leases AS one WHERE one.name = key AND one.expires <= moment;
  IF concurrency > 0 THEN
    SELECT coalesce(sum(one.responses), 0) INTO others FROM penstock_quota_leases AS one
      WHERE one.name = key AND one.id <> lease;
    IF others + wanted > concurrency THEN RETURN -1; END IF;
  END IF;
  IF counts AND rate > 0 THEN
    SELECT * INTO bucket FROM penstock_quota_buckets AS one WHERE one.name = key;
    IF NOT FOUND THEN bucket := (key, rate, moment); END IF;
    bucket.tokens := least(rate, bucket.tokens + greatest(0, moment - bucket.at) * rate / 60);
    IF bucket.tokens < 1 THEN RETURN (1 - bucket.tokens) * 60 / rate; END IF;
    INSERT INTO penstock_quota_buckets VALUES (key, bucket.tokens - 1, moment)
      ON CONFLICT (name) DO UPDATE SET tokens = excluded.tokens, at = excluded.at;
  END IF;
  INSERT INTO penstock_quota_leases VALUES (key, lease, wanted, moment + seconds)
    ON CONFLICT (name, id) DO UPDATE SET responses = wanted, expires = excluded.expires;
  RETURN 0;
END $$ LANGUAGE plpgsql;
"""
# The statements are sent at once, so they are one transaction, and the lock is held to its end.
_POSTGRES_TAKE: Final = "SELECT penstock_take_quota(%s, %s, %s, %s, %s, %s, %s)"
_POSTGRES_RELEASE: Final = "DELETE FROM penstock_quota_leases WHERE name = %s AND id = %s"
_POSTGRES_RENEW: Final = """
INSERT INTO penstock_quota_leases
  VALUES (%s, %s, %s, extract(epoch FROM clock_timestamp()) + %s)
  ON CONFLICT (name, id) DO UPDATE SET expires = excluded.expires
"""


class PostgresQuotas:
    """Quotas in PostgreSQL, through one connection that is opened again after an error."""

    def __init__(self, url: str) -> None:
        try:
            import psycopg  # noqa: PLC0415 - it is an extra
        except ImportError as exc:
            raise UsageError("PostgreSQL needs an extra: pip install 'penstock[postgres]'") from exc
        scheme, _, rest = url.partition("://")
        self._url = f"{scheme.partition('+')[0]}://{rest}"
        self._connect = psycopg.AsyncConnection.connect
        self._connection: Any = None
        self._turn = asyncio.Lock()  # A connection runs one statement at a time.

    async def take(self, lease: Lease, quota: Quota, *, counts: bool) -> QuotaVerdict:
        """Add or change *lease* if *quota* allows it; with *counts* it is a request of the rate."""
        limits = (quota.rate, quota.concurrency, LEASE_SECONDS, counts)
        row = await self._run(_POSTGRES_TAKE, [(*lease, *limits)])
        return QuotaVerdict(row[0] == 0, max(0.0, row[0]))

    async def release(self, leases: Sequence[Lease]) -> None:
        """Remove *leases*."""
        await self._run(_POSTGRES_RELEASE, [(lease.name, lease.id) for lease in leases])

    async def renew(self, leases: Sequence[Lease]) -> None:
        """Extend *leases*, and add those that are not there."""
        await self._run(_POSTGRES_RENEW, [(*lease, LEASE_SECONDS) for lease in leases])

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _run(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> Any:
        """Run *statement* for each of *rows*, and return the first row of the last result."""
        async with self._turn:
            try:
                connection = self._connection or await self._open()
                found = None
                for row in rows:
                    cursor = await connection.execute(statement, row)
                    found = await cursor.fetchone() if cursor.description else None
            except BaseException:
                # A statement that was cancelled leaves the connection in an unknown state.
                await self.close()
                raise
            return found

    async def _open(self) -> Any:
        connection = await self._connect(self._url, autocommit=True)
        self._connection = connection
        await connection.execute(_POSTGRES_SETUP)
        return connection
