"""The first tables: workers, requests, bodies, sessions and responses."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _key_type() -> TypeEngine[str]:
    return sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")


def _primary(name: str) -> sa.Column[str]:
    return sa.Column(name, _key_type(), primary_key=True, nullable=False)


def _key(name: str) -> sa.Column[str]:
    return sa.Column(name, _key_type(), nullable=False, server_default="")


def _string(name: str, length: int = 200) -> sa.Column[str]:
    return sa.Column(name, sa.String(length), nullable=False, server_default="")


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False, server_default="0")


def _seconds(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=False, server_default="0")


def _json(name: str, empty: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, server_default=empty)


def upgrade() -> None:
    """Make every table and index."""
    _make_requests()
    op.create_table(
        "workers",
        _primary("id"),
        _count("pid"),
        _string("host"),
        _seconds("started"),
        _seconds("seen"),
    )
    op.create_table(
        "bodies",
        _primary("request"),
        sa.Column("kind", sa.String(20), primary_key=True, nullable=False),
        _string("coding", 20),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "sessions",
        _primary("scope"),
        _primary("id"),
        *(_string(name) for name in ("upstream", "model", "chat_id", "parent_id")),
        _key("hash"),
        *(_seconds(name) for name in ("created", "used", "expires")),
        _count("turns"),
        _json("data", "{}"),
    )
    op.create_index("sessions_hash", "sessions", ["scope", "hash", "used"])
    op.create_index("sessions_created", "sessions", ["created"])
    op.create_index("sessions_expires", "sessions", ["expires"])
    op.create_table(
        "responses",
        _primary("scope"),
        _primary("id"),
        _seconds("created"),
        _seconds("expires"),
        _key("previous"),
        _string("model"),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_index("responses_expires", "responses", ["expires"])


def _make_requests() -> None:
    op.create_table(
        "requests",
        _primary("id"),
        _seconds("created"),
        sa.Column("state", sa.String(20), nullable=False, server_default="started"),
        _key("scope"),
        _key("session"),
        _string("client_api"),
        _string("path", 1_000),
        *(_string(name) for name in ("model", "upstream", "upstream_api", "upstream_model")),
        _string("format"),
        _string("mode"),
        sa.Column("stream", sa.Boolean, nullable=False, server_default=sa.text("false")),
        _key("worker"),
        *(_string(name) for name in ("finish", "error_kind", "error_type")),
        _string("error_message", 4_000),
        sa.Column("status", sa.BigInteger),
        *(
            sa.Column(f"{kind}_tokens", sa.BigInteger)
            for kind in ("input", "output", "cached", "reasoning")
        ),
        sa.Column("first_byte", sa.Double),
        sa.Column("first_token", sa.Double),
        _seconds("duration"),
        *(_count(name) for name in ("chunks", "calls", "size")),
        _json("repairs", "[]"),
        _json("notes", "{}"),
        _string("text", 20_000),
    )
    op.create_index("requests_created", "requests", ["created"])
    op.create_index("requests_session", "requests", ["session", "id"])
    op.create_index("requests_size", "requests", ["size"])
    is_started = sa.text("state = 'started'")
    op.create_index(
        "requests_started",
        "requests",
        ["worker"],
        sqlite_where=is_started,
        postgresql_where=is_started,
    )


def downgrade() -> None:
    """Drop every table."""
    for name in ("responses", "sessions", "bodies", "workers", "requests"):
        op.drop_table(name)
