"""What Alembic runs around the steps: on the connection, and in the transaction, of its caller."""

from alembic import context

from penstock.store.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
