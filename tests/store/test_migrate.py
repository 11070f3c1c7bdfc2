"""The schema comes up from nothing, once, however many ask for it."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect
from sqlalchemy.engine.interfaces import ReflectedIndex
from sqlalchemy.pool import NullPool

from penstock.errors import UsageError
from penstock.store import RequestQuery, Store, StoreError, upgrade
from penstock.store import migrations as scripts
from penstock.store.engine import parse_url
from penstock.store.migrations import HEAD
from penstock.store.tables import METADATA
from store.databases import PATIENCE, ended, rows, started, until

UPGRADE = """
import sys
from penstock.store import upgrade
print("ready", flush=True)
sys.stdin.readline()
upgrade(sys.argv[1])
"""


def script_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(scripts.__file__).parent))
    return config


def test_the_newest_step_is_the_one_we_look_for() -> None:
    assert ScriptDirectory.from_config(script_config()).get_heads() == [HEAD]


def test_the_steps_make_the_tables_that_the_code_uses(url: str) -> None:
    upgrade(url)
    upgrade(url)  # nothing left to do
    engine = create_engine(parse_url(url), poolclass=NullPool)
    with engine.connect() as connection:
        options = {"compare_server_default": False, "include_name": is_declared}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, METADATA) == []


def is_declared(name: str | None, kind: str, _: object) -> bool:
    """Return whether a table or index is in the metadata: that of the search is made by hand."""
    return kind not in ("table", "index") or not str(name).startswith("request_words")


def index_shape(index: ReflectedIndex) -> tuple[str, ...]:
    options = {key: str(value) for key, value in index.get("dialect_options", {}).items()}
    return str(index["name"]), str(index["column_names"]), str(index["unique"]), str(options)


def shape(connection: Connection) -> dict[str, object]:
    """Return all that the database says of its tables."""
    look = inspect(connection)
    return {
        name: (
            [{**column, "type": str(column["type"])} for column in look.get_columns(name)],
            look.get_pk_constraint(name),
            sorted(map(index_shape, look.get_indexes(name))),
        )
        for name in look.get_table_names()
    }


def test_a_new_database_is_what_the_steps_would_make_of_it(url: str) -> None:
    upgrade(url)
    engine = create_engine(parse_url(url), poolclass=NullPool)
    config = script_config()
    with engine.begin() as connection:
        at_once = shape(connection)
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
        command.upgrade(config, "head")
    with engine.connect() as connection:
        assert shape(connection) == at_once


def test_the_first_step_can_be_taken_back(url: str) -> None:
    upgrade(url)
    engine = create_engine(parse_url(url), poolclass=NullPool)
    config = script_config()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
    with engine.connect() as connection:
        assert inspect(connection).get_table_names() == ["alembic_version"]


async def test_a_log_of_the_version_before_is_searchable_after_the_upgrade(url: str) -> None:
    upgrade(url)
    engine = create_engine(parse_url(url), poolclass=NullPool)
    config = script_config()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "0002")
    texts = [(number, f"The tide of {number} is high.") for number in range(1_201)]  # 3 batches
    values = ", ".join(f"('old-{n:04}', 1.0, 'done', 'qwen3', '{text}')" for n, text in texts)
    rows(url, f"INSERT INTO requests (id, created, state, model, text) VALUES {values}")  # noqa: S608
    store = Store(url)
    store.start()
    await until(lambda: store.health.is_up)
    try:
        found = await store.requests(RequestQuery(search="tide 800 qwen3"))
        assert [(row.id, row.prompt, row.conversation) for row in found.items] == [
            ("old-0800", "", "")
        ]
        assert len((await store.requests(RequestQuery(search="hig", limit=1000))).items) == 1000
        store.begin(started(1, messages_hash="h", messages=1))
        store.end(ended(1, search="And the tide turns."))
        await until(lambda: store.health.written >= 2)
        found = await store.requests(RequestQuery(search="tide"))
        assert found.items[0].id == "req-000001"
    finally:
        await store.close()


def test_processes_that_start_at_once_do_not_disturb_each_other(url: str) -> None:
    children = [
        subprocess.Popen(  # noqa: S603 - our own interpreter, our own words
            [sys.executable, "-c", UPGRADE, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        _, errors = child.communicate(timeout=PATIENCE)
        assert (child.returncode, errors) == (0, "")
    assert [tuple(row) for row in rows(url, "SELECT version_num FROM alembic_version")] == [(HEAD,)]


def test_stores_of_one_process_may_take_their_steps_at_once(tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path / f'{number}.db'}" for number in range(8)]
    for url in urls:
        rows(url, "CREATE TABLE of_others (id INTEGER)")  # not empty: it is made step by step
    together = Barrier(len(urls))

    def take_steps(url: str) -> None:
        together.wait(PATIENCE)
        upgrade(url)

    with ThreadPoolExecutor(len(urls)) as threads:
        list(threads.map(take_steps, urls))
    for url in urls:
        assert [row[0] for row in rows(url, "SELECT version_num FROM alembic_version")] == [HEAD]
        assert rows(url, "SELECT id FROM requests") == []


async def test_a_database_of_a_newer_version_is_left_alone(url: str) -> None:
    upgrade(url)
    rows(url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match="newer version"):
        upgrade(url)
    store = Store(url)
    store.start()
    store.begin(started(1))
    await until(lambda: "newer version" in store.health.last_error)
    await store.close(timeout=0.1)
    assert rows(url, "SELECT id FROM requests") == []


async def test_a_store_that_may_not_upgrade_says_what_to_do(sqlite_url: str) -> None:
    Path(sqlite_url.removeprefix("sqlite:///")).touch()
    store = Store(sqlite_url, create=False)
    store.start()
    await until(lambda: "penstock db upgrade" in store.health.last_error)
    upgrade(sqlite_url)
    await until(lambda: store.health.is_up)
    await store.close()


def test_an_upgrade_that_cannot_be_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot upgrade"):
        upgrade(f"sqlite:///{tmp_path}/absent/log.db")
    with pytest.raises(StoreError, match="cannot upgrade"):
        upgrade("postgresql://me:canary@127.0.0.1:1/x", within=0.0)
    with pytest.raises(UsageError):
        upgrade("mysql://me:canary@127.0.0.1/x")
