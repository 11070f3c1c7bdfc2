"""Alembic's scripts, shipped with the package; `penstock.store.schema` runs them."""
