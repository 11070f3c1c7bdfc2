"""The databases of `fixtures`, for every test here."""

from store.fixtures import postgres, postgres_url, sqlite_url, url

__all__ = ["postgres", "postgres_url", "sqlite_url", "url"]
