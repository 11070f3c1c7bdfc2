"""The tables of the current schema; `migrations` has the steps to it.

Lists stay fast because the bodies of a request are rows of another table, one per kind, and so are
the words that it is found by. `columns` truncates values to the lengths of the columns. Keys
compare byte by byte in both databases, whatever the locale of PostgreSQL: paging depends on it.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.types import TypeEngine

from penstock.store.records import MAX_LINE, MAX_SEARCHED_TEXT

MAX_KEY: Final = 128
"""The longest key in characters; the end of a longer one is replaced by a hash."""

MAX_PATH: Final = 1_000
"""How many characters of a path are stored."""

KEY: Final = {"key": True}
"""Marks the columns of keys, whose values are hashed if they are too long."""

METADATA: Final = MetaData()


def _key_type() -> TypeEngine[str]:
    # Pages are cut by the order of ids. SQLite sorts them by their bytes; PostgreSQL sorts by the
    # language of the database unless the collation is C.
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
    _string("text", MAX_SEARCHED_TEXT),
    _key("conversation"),
    _key("messages_hash"),
    _count("messages"),
    _string("prompt", MAX_LINE),
    _string("summary", MAX_LINE),
    _string("found"),
    _count("incomplete"),
    _count("unread"),
    _string("unread_reason", MAX_LINE),
)
Index("requests_created", REQUESTS.c.created)
Index("requests_session", REQUESTS.c.session, REQUESTS.c.id)
Index("requests_conversation", REQUESTS.c.conversation, REQUESTS.c.id)
Index("requests_messages_hash", REQUESTS.c.messages_hash, REQUESTS.c.id)
Index("requests_size", REQUESTS.c.size)  # A sum over all requests reads only this index.
# Partial: it has only requests in progress, which are looked up when their worker has died.
_STARTED: Final = Index(
    "requests_started", REQUESTS.c.worker, sqlite_where=REQUESTS.c.state == "started"
)


def add_postgres_index() -> None:
    """Add the condition of a partial index for PostgreSQL.

    At import time this would load the PostgreSQL dialect, which takes 2 MB.
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

SEARCH: Final = Table(
    "request_search",
    METADATA,
    # SQLite assigns numbers only to a primary key of the type INTEGER.
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("request", _key_type(), nullable=False, unique=True, info=KEY),
    Column("words", Text, nullable=False),
)
"""The words of each request that ended; `search` has the indexes."""

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
