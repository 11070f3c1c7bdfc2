"""The one error that the store raises, and how a foreign one is told without a secret in it."""

from __future__ import annotations

from typing import Final

from sqlalchemy.engine import URL
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    NotSupportedError,
    SQLAlchemyError,
)

from penstock.errors import PenstockError

MAX_MESSAGE: Final = 200
"""How many characters of a driver's message are kept: the first line says it, the rest may quote
what was to be written."""

_SECRET_WORDS: Final = ("pass", "key", "secret", "token", "cred")


class StoreError(PenstockError):
    """The database cannot be read: it is absent, locked, broken, too new or too slow."""


def is_fault_of_record(exc: Exception) -> bool:
    """Return whether a record is to blame for *exc*, rather than the database or the way to it.

    What no database raised comes from the record's own values. Codes of class 54 are PostgreSQL's
    for a value beyond a limit.
    """
    if isinstance(exc, DBAPIError):
        code = str(getattr(exc.orig, "sqlstate", None) or "")
        return isinstance(exc, DataError | IntegrityError | NotSupportedError) or code[:2] == "54"
    return not isinstance(exc, SQLAlchemyError | OSError | PenstockError)


class Describer:
    """Tells a foreign exception in one line, without what *url* keeps secret."""

    def __init__(self, url: URL) -> None:
        found = {url.render_as_string(hide_password=False), str(url.password or "")}
        for name, value in url.query.items():
            if any(word in name.lower() for word in _SECRET_WORDS):
                found.update([value] if isinstance(value, str) else value)
        found.update([_quoted(secret) for secret in found])
        # The longest first: a password may be a piece of another.
        self._secrets = sorted(found - {""}, key=len, reverse=True)

    def __call__(self, exc: BaseException) -> str:
        """Return the kind of *exc* and the first line of its message."""
        cause = exc.orig if isinstance(exc, DBAPIError) and exc.orig is not None else exc
        if isinstance(cause, PenstockError):
            return str(cause)
        if isinstance(cause, OSError):  # its text has a path in it
            return f"{type(cause).__name__}: {cause.strerror or 'failed'}"
        message = str(cause)
        for secret in self._secrets:
            message = message.replace(secret, "***")
        first = message.strip().partition("\n")[0]
        return f"{type(cause).__name__}: {first[:MAX_MESSAGE]}"


def _quoted(text: str) -> str:
    """Write *text* as it would are in a URL."""
    address = URL.create("x", username="u", password=text)
    return address.render_as_string(hide_password=False).removeprefix("x://u:").removesuffix("@")
