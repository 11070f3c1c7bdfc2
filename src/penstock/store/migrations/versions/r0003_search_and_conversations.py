"""Full-text search, conversations, and what a list says about a request.

Requests that were logged before are found by their model, response and error.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

from penstock.store.tables import create_index, drop_index, split_words

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_BATCH = 500
_KEYS = ("conversation", "messages_hash")
_COUNTS = ("messages", "incomplete", "unread")
_STRINGS = (("prompt", 300), ("summary", 300), ("found", 200), ("unread_reason", 300))


def _key_type() -> TypeEngine[str]:
    return sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")


def _make_columns() -> list[sa.Column[str] | sa.Column[int]]:
    keys = [sa.Column(name, _key_type(), nullable=False, server_default="") for name in _KEYS]
    strings = {name: sa.String(length) for name, length in _STRINGS}
    order = ("messages", "prompt", "summary", "found", "incomplete", "unread", "unread_reason")
    return [
        *keys,
        *(
            sa.Column(name, strings[name], nullable=False, server_default="")
            if name in strings
            else sa.Column(name, sa.BigInteger, nullable=False, server_default="0")
            for name in order
        ),
    ]


def upgrade() -> None:
    """Add the columns and the index, and index the requests that there are."""
    for column in _make_columns():
        op.add_column("requests", column)
    op.create_index("requests_conversation", "requests", ["conversation", "id"])
    op.create_index("requests_messages_hash", "requests", ["messages_hash", "id"])
    table = op.create_table(
        "request_search",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("request", _key_type(), nullable=False, unique=True),
        sa.Column("words", sa.Text, nullable=False),
    )
    connection = op.get_bind()
    create_index(connection)
    _index_requests(connection, table)


def _index_requests(connection: sa.Connection, table: sa.Table) -> None:
    """Index the requests in batches: a log may have gigabytes."""
    names = ("id", "model", "text", "error_message")
    requests = sa.table("requests", *(sa.column(name) for name in names))
    wanted = sa.select(*(requests.c[name] for name in names)).order_by(requests.c.id).limit(_BATCH)
    rows = connection.execute(wanted).all()
    while rows:
        found = [{"request": id_, "words": split_words("\n".join(texts))} for id_, *texts in rows]
        connection.execute(table.insert(), found)
        rows = connection.execute(wanted.where(requests.c.id > rows[-1].id)).all()


def downgrade() -> None:
    """Drop the columns and the index."""
    drop_index(op.get_bind())
    op.drop_table("request_search")
    op.drop_index("requests_conversation", "requests")
    op.drop_index("requests_messages_hash", "requests")
    for column in _make_columns():
        op.drop_column("requests", column.name)
