"""Upgrade a database to the schema of this version.

`versions` has one file for each step, which Alembic runs. Several processes may start on one
database at once. Each takes a lock (SQLite's write lock, or an advisory lock of PostgreSQL) before
it checks the version again and runs the missing steps, all in one transaction. Alembic takes time
and memory to load, so it is imported only if some steps, but not all, are missing. It keeps its
state in globals, so a process upgrades one database at a time.
"""

from __future__ import annotations

import time
from pathlib import Path
from threading import Lock
from typing import Final

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from penstock.store.engine import Describer, StoreError, make_engine, parse_url
from penstock.store.tables import METADATA, create_index

HEAD: Final = "0003"
"""The newest revision in `versions`."""

LOCK: Final = 0x70656E73746F636B
"""The advisory lock in PostgreSQL: the name of the project in ASCII."""

_SCRIPTS: Final = Path(__file__).parent
_ALEMBIC_LOCK: Final = Lock()  # taken after the lock of the database, to avoid a deadlock


def upgrade(url: str, *, within: float = 30.0) -> None:
    """Upgrade the database at *url*, or create it.

    Waits up to *within* seconds for a locked or starting database. Raises `StoreError` if it cannot
    be reached or is newer than this version.
    """
    parsed = parse_url(url)
    deadline = time.monotonic() + within
    engine = make_engine(parsed, writes=True, create=True)
    try:
        while not _try_upgrade(engine, deadline):
            time.sleep(0.1)
    except (SQLAlchemyError, OSError) as exc:
        problem = Describer(parsed)(exc)
        raise StoreError(f"cannot upgrade the database: {problem}") from exc
    finally:
        engine.dispose()


def _try_upgrade(engine: Engine, deadline: float) -> bool:
    """Upgrade and return whether that succeeded; raise the error after the deadline."""
    try:
        with engine.connect() as connection:
            prepare(connection, create=True)
    except OperationalError:
        if time.monotonic() > deadline:
            raise
        return False
    return True


def prepare(connection: Connection, *, create: bool) -> None:
    """Check the schema, and with *create* run the missing steps.

    Raises `StoreError` if the schema is outdated without *create*, or newer than this version.
    """
    with connection.begin():
        found = _find_revision(connection)
    if found == HEAD:
        return
    if not create:
        raise StoreError("the database schema is outdated: run `penstock db upgrade`")
    with connection.begin():
        _lock(connection)
        found = _find_revision(connection)
        if found is None and not inspect(connection).get_table_names():
            _create_all(connection)
        elif found != HEAD:
            _run_steps(connection)


def _lock(connection: Connection) -> None:
    """Lock the schema until the transaction ends; SQLite takes its lock at the start."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL lock_timeout = '10s'"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})


def _find_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found


def _create_all(connection: Connection) -> None:
    """Create the newest schema in an empty database, without Alembic, which takes 8 MB."""
    METADATA.create_all(connection, checkfirst=False)
    create_index(connection)
    connection.execute(
        text(
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
            "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
        )
    )
    connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})


def _run_steps(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415 - rarely needed, and slow to load
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    try:
        with _ALEMBIC_LOCK:
            command.upgrade(config, "head")
    except CommandError as exc:
        raise StoreError(
            "the database was created by a newer version of penstock: upgrade penstock"
        ) from exc
