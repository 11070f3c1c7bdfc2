"""Brings a database to the schema that this version reads and writes.

Several processes may start at once on one database. Each takes a lock before it looks again and
runs the missing steps, all in one transaction: SQLite's write lock, or an advisory lock of
PostgreSQL. Alembic takes time and memory to load, so it is not even imported where nothing is
missing, or everything. It also keeps what it works on in globals, so in one process the steps of
one database run at a time, whichever database that is.
"""

from __future__ import annotations

import time
from pathlib import Path
from threading import Lock
from typing import Final

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from penstock.store.engine import make_engine, read_url
from penstock.store.errors import Describer, StoreError
from penstock.store.tables import METADATA

HEAD: Final = "0002"
"""The newest step in `migrations/versions`."""

LOCK: Final = 0x70656E73746F636B
"""The number of our advisory lock in PostgreSQL: the project's name in ASCII."""

_SCRIPTS: Final = Path(__file__).parent / "migrations"
_STEPPING: Final = Lock()  # held last, after the database's own lock, so nobody waits in a ring


def upgrade(url: str, *, within: float = 30.0) -> None:
    """Bring the database at *url* up to date, making it where there is not one.

    Waits up to *within* seconds for a locked or starting database; raises `StoreError` if it cannot
    be reached or is newer than this version.
    """
    parsed = read_url(url)
    deadline = time.monotonic() + within
    engine = make_engine(parsed, writes=True, create=True)
    try:
        while not _is_upgraded(engine, deadline):
            time.sleep(0.1)
    except (SQLAlchemyError, OSError) as exc:
        problem = Describer(parsed)(exc)
        raise StoreError(f"the database cannot be upgraded: {problem}") from exc
    finally:
        engine.dispose()


def _is_upgraded(engine: Engine, deadline: float) -> bool:
    """Upgrade; return whether it worked, or raise what went wrong if there is no more time."""
    try:
        with engine.connect() as connection:
            prepare(connection, create=True)
    except OperationalError:
        if time.monotonic() > deadline:
            raise
        return False
    return True


def prepare(connection: Connection, *, create: bool) -> None:
    """Make sure that the schema is ours, by the missing steps where *create* allows it.

    Raises `StoreError` where it may not, or where the database is newer than this version.
    """
    with connection.begin():
        found = _find_revision(connection)
    if found == HEAD:
        return
    if not create:
        raise StoreError("the database is not up to date: run `penstock db upgrade`")
    with connection.begin():
        _lock(connection)
        found = _find_revision(connection)
        if found is None and not inspect(connection).get_table_names():
            _make_all(connection)
        elif found != HEAD:
            _run_steps(connection)


def _lock(connection: Connection) -> None:
    """Keep others from upgrading until the transaction ends; SQLite began it with a lock."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL lock_timeout = '10s'"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})


def _find_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found


def _make_all(connection: Connection) -> None:
    """Make an empty database what all steps would make of it, and say so.

    Most databases are made once and for all, and Alembic takes 8 MB for as long as we run.
    """
    METADATA.create_all(connection, checkfirst=False)
    connection.execute(
        text(
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
            "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
        )
    )
    connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})


def _run_steps(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415 - seldom needed, and slow to load
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    try:
        with _STEPPING:
            command.upgrade(config, "head")
    except CommandError as exc:
        raise StoreError("the database was made by a newer version of penstock") from exc
