"""Alembic's scripts, shipped with the package; `penstock.store.migrate` runs them."""
