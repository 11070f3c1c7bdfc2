"""The sessions of agents, and the entries that they are made of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _key_type() -> TypeEngine[str]:
    return sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")


def _primary(name: str) -> sa.Column[str]:
    return sa.Column(name, _key_type(), primary_key=True, nullable=False)


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "agent_sessions",
        _primary("id"),
        *(
            sa.Column(name, sa.String(length), nullable=False, server_default="")
            for name, length in (("title", 200), ("prompt", 200), ("cwd", 1_000))
        ),
        sa.Column("parent", _key_type(), nullable=False, server_default=""),
        *(
            sa.Column(name, sa.Double, nullable=False, server_default="0")
            for name in ("created", "updated")
        ),
        *(
            sa.Column(name, sa.BigInteger, nullable=False, server_default="0")
            for name in ("messages", "size")
        ),
    )
    op.create_index("agent_sessions_updated", "agent_sessions", ["updated"])
    op.create_table(
        "agent_entries",
        _primary("session"),
        sa.Column("number", sa.BigInteger, primary_key=True, nullable=False, autoincrement=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    """Drop both tables."""
    op.drop_table("agent_entries")
    op.drop_table("agent_sessions")
