"""The tables, as today's code reads and writes them; `migrations` makes them, step by step.

Lists stay quick because a request's bodies are rows of another table, one for each kind, and its
searchable text is the last column. Every length is a limit that `cleaning` cuts to. Keys compare
byte by byte in both databases, whatever the locale of a PostgreSQL: paging counts on it.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.types import TypeEngine

from penstock.store.records import MAX_TEXT

MAX_KEY: Final = 128
"""How many characters a key may have; a longer one is stored by its hash."""

MAX_PATH: Final = 1_000
"""How many characters of a path are stored."""

KEY: Final = {"key": True}
"""Marks a column that is looked up by: too long a value is hashed, not cut."""

METADATA: Final = MetaData()


def _key_type() -> TypeEngine[str]:
    return String(MAX_KEY).with_variant(String(MAX_KEY, collation="C"), "postgresql")


def _primary(name: str) -> Column[str]:
    return Column(name, _key_type(), primary_key=True, nullable=False, info=KEY)


def _key(name: str) -> Column[str]:
    return Column(name, _key_type(), nullable=False, server_default="", info=KEY)


def _string(name: str, length: int = 200) -> Column[str]:
    return Column(name, String(length), nullable=False, server_default="")


def _count(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0")


def _seconds(name: str) -> Column[float]:
    return Column(name, Double, nullable=False, server_default="0")


def _json(name: str, empty: str) -> Column[str]:
    return Column(name, Text, nullable=False, server_default=empty, info={"empty": empty})


WORKERS: Final = Table(
    "workers",
    METADATA,
    _primary("id"),
    _count("pid"),
    _string("host"),
    _seconds("started"),
    _seconds("seen"),
)

REQUESTS: Final = Table(
    "requests",
    METADATA,
    _primary("id"),
    _seconds("created"),
    Column("state", String(20), nullable=False, server_default="started"),
    _key("scope"),
    _key("session"),
    _string("client_api"),
    _string("path", MAX_PATH),
    _string("model"),
    _string("upstream"),
    _string("upstream_api"),
    _string("upstream_model"),
    _string("format"),
    _string("mode"),
    Column("stream", Boolean, nullable=False, server_default=text("false")),
    _key("worker"),
    _string("finish"),
    _string("error_kind"),
    _string("error_type"),
    _string("error_message", 4_000),
    Column("status", BigInteger),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("cached_tokens", BigInteger),
    Column("reasoning_tokens", BigInteger),
    Column("first_byte", Double),
    Column("first_token", Double),
    _seconds("duration"),
    _count("chunks"),
    _count("calls"),
    _count("size"),
    _json("repairs", "[]"),
    _json("notes", "{}"),
    _string("text", MAX_TEXT),
)
Index("requests_created", REQUESTS.c.created)
Index("requests_session", REQUESTS.c.session, REQUESTS.c.id)
Index("requests_size", REQUESTS.c.size)  # so that a sum over all reads no row
_STARTED: Final = Index(
    "requests_started", REQUESTS.c.worker, sqlite_where=REQUESTS.c.state == "started"
)


def know_postgres() -> None:
    """Say what the tables are in PostgreSQL alone.

    Said from the start, it would load all of its dialect: 2 MB that SQLite does without.
    """
    _STARTED.dialect_kwargs["postgresql_where"] = REQUESTS.c.state == "started"


BODIES: Final = Table(
    "bodies",
    METADATA,
    _primary("request"),
    Column("kind", String(20), primary_key=True, nullable=False),
    _string("coding", 20),
    Column("data", LargeBinary, nullable=False),
)

SESSIONS: Final = Table(
    "sessions",
    METADATA,
    _primary("scope"),
    _primary("id"),
    _string("upstream"),
    _string("model"),
    _string("chat_id"),
    _string("parent_id"),
    _key("hash"),
    _seconds("created"),
    _seconds("used"),
    _seconds("expires"),
    _count("turns"),
    _json("data", "{}"),
)
Index("sessions_hash", SESSIONS.c.scope, SESSIONS.c.hash, SESSIONS.c.used)
Index("sessions_created", SESSIONS.c.created)
Index("sessions_expires", SESSIONS.c.expires)

RESPONSES: Final = Table(
    "responses",
    METADATA,
    _primary("scope"),
    _primary("id"),
    _seconds("created"),
    _seconds("expires"),
    _key("previous"),
    _string("model"),
    Column("data", LargeBinary, nullable=False),
)
Index("responses_expires", RESPONSES.c.expires)

AGENT_SESSIONS: Final = Table(
    "agent_sessions",
    METADATA,
    _primary("id"),
    _string("title"),
    _string("prompt"),
    _string("cwd", MAX_PATH),
    _key("parent"),
    _seconds("created"),
    _seconds("updated"),
    _count("messages"),
    _count("size"),
)
Index("agent_sessions_updated", AGENT_SESSIONS.c.updated)

AGENT_ENTRIES: Final = Table(
    "agent_entries",
    METADATA,
    _primary("session"),
    Column("number", BigInteger, primary_key=True, nullable=False, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)
