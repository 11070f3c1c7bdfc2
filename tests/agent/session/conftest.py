"""The databases that the tests of the store use, for sessions too."""

from store.fixtures import postgres, postgres_url, sqlite_url, url

__all__ = ["postgres", "postgres_url", "sqlite_url", "url"]
