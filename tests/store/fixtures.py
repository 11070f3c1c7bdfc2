"""Databases, by name: `url` is one of SQLite and then one of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.databases import Postgres, postgres_server, run_name


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with postgres_server(run_name()) as server:
        yield server


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'log.db'}"


@pytest.fixture
def postgres_url(postgres: Postgres) -> str:
    return postgres.make_database()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found
