"""`StoreError`, and descriptions of database errors without secrets."""

from __future__ import annotations

from typing import Final

from sqlalchemy.engine import URL
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NotSupportedError, SQLAlchemyError

from penstock.errors import PenstockError
from penstock.redaction import Redactor, is_secret_name

MAX_MESSAGE: Final = 200
"""How many characters of a driver's message are kept: later ones may quote the row."""


class StoreError(PenstockError):
    """The database cannot be used: it is missing, locked, damaged, too new or too slow."""


def is_fault_of_record(exc: Exception) -> bool:
    """Return whether a record caused *exc*, rather than the database or the connection.

    An exception that no database raised comes from the values of the record. Class 54 of
    PostgreSQL's error codes means that a value exceeds a limit.
    """
    if isinstance(exc, DBAPIError):
        # psycopg has the SQLSTATE of the server; sqlite3 has none, and its classes are enough.
        code = str(getattr(exc.orig, "sqlstate", None) or "")
        return isinstance(exc, DataError | IntegrityError | NotSupportedError) or code[:2] == "54"
    return not isinstance(exc, SQLAlchemyError | OSError | PenstockError)


class Describer:
    """Describes an exception in one line, without the secrets in *url*."""

    def __init__(self, url: URL) -> None:
        # An exception may quote the whole URL or the password alone, encoded or not.
        found = {url.render_as_string(hide_password=False), str(url.password or "")}
        for name, value in url.query.items():
            if is_secret_name(name):
                found.update([value] if isinstance(value, str) else value)
        found.update([_quote(secret) for secret in found])
        self._redactor = Redactor(found, min_length=1)

    def __call__(self, exc: BaseException) -> str:
        """Return the type of *exc* and the first line of its message."""
        cause = exc.orig if isinstance(exc, DBAPIError) and exc.orig is not None else exc
        if isinstance(cause, PenstockError):
            return str(cause)
        if isinstance(cause, OSError):  # Its message contains a path.
            return f"{type(cause).__name__}: {cause.strerror or 'failed'}"
        first = self._redactor.text(str(cause)).strip().partition("\n")[0]
        return f"{type(cause).__name__}: {first[:MAX_MESSAGE]}"


def _quote(text: str) -> str:
    """Return *text* as it is written in a URL."""
    address = URL.create("x", username="u", password=text)
    return address.render_as_string(hide_password=False).removeprefix("x://u:").removesuffix("@")
