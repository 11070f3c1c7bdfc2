"""Full-text search of the log: FTS5 in SQLite, text search in PostgreSQL.

Both index the same words, because Python splits the text: a word is a run of letters and digits,
and each character of scripts without spaces is a word of its own. So ``write_file`` is the words
``write`` and ``file`` in a row, also where it is an argument within JSON. The words of a request
are written once, when it has ended. An SQLite without FTS5 searches the words without an index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, func, literal_column, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.sql.elements import ColumnElement

from penstock.store.records import MAX_WORDS
from penstock.store.tables import REQUESTS, SEARCH, clean_text

MAX_TERMS: Final = 16
"""How many words or phrases of a search are used."""

# Scripts without spaces between words: Thai, Lao, Burmese, Khmer, Kana and Han.
_DENSE: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"

_WORD: Final = re.compile(rf"[{_DENSE}]|[^\W_{_DENSE}]{{1,64}}")
_TERM: Final = re.compile(r'"([^"]*)"?|(\S+)')

# An FTS5 table whose content is the table `SEARCH`: triggers keep it up to date.
_FTS5: Final = (
    """CREATE VIRTUAL TABLE request_words USING fts5(
         words, content='request_search', content_rowid='number',
         tokenize="unicode61 remove_diacritics 0")""",
    """CREATE TRIGGER request_search_added AFTER INSERT ON request_search BEGIN
         INSERT INTO request_words (rowid, words) VALUES (new.number, new.words);
       END""",
    """CREATE TRIGGER request_search_removed AFTER DELETE ON request_search BEGIN
         INSERT INTO request_words (request_words, rowid, words)
           VALUES ('delete', old.number, old.words);
       END""",
    """CREATE TRIGGER request_search_changed AFTER UPDATE ON request_search BEGIN
         INSERT INTO request_words (request_words, rowid, words)
           VALUES ('delete', old.number, old.words);
         INSERT INTO request_words (rowid, words) VALUES (new.number, new.words);
       END""",
)
_GIN: Final = (
    "CREATE INDEX request_words ON request_search USING gin "
    "(to_tsvector('simple'::regconfig, words))"
)
_SIMPLE: Final[ColumnElement[Any]] = literal_column("'simple'::regconfig")


def create_index(connection: Connection) -> None:
    """Create the index of the table `SEARCH`."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(_GIN))
    elif _has_fts5(connection):
        for statement in _FTS5:
            connection.exec_driver_sql(statement)


def drop_index(connection: Connection) -> None:
    """Drop what `create_index` created; the triggers are dropped with their table."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("DROP INDEX IF EXISTS request_words"))
    else:
        connection.execute(text("DROP TABLE IF EXISTS request_words"))


def _has_fts5(connection: Connection) -> bool:
    return bool(connection.scalar(text("SELECT sqlite_compileoption_used('ENABLE_FTS5')")))


def split_words(words: str) -> str:
    """Return the words of a text in lower case, as they are indexed."""
    return " ".join(_WORD.findall(clean_text(words[:MAX_WORDS]).casefold()))


def matches(connection: Connection, wanted: str) -> ColumnElement[bool]:
    """Return the condition that a request has all words of *wanted*."""
    terms = [*_read_terms(wanted)][:MAX_TERMS]
    found = select(SEARCH.c.request)
    if not terms:
        return REQUESTS.c.id.is_(None)
    if connection.dialect.name == "postgresql":
        vector = func.to_tsvector(_SIMPLE, SEARCH.c.words)
        query = " & ".join(_write_postgres(words, is_prefix) for words, is_prefix in terms)
        found = found.where(vector.op("@@")(func.to_tsquery(_SIMPLE, query)))
    elif _is_indexed(connection):
        query = " AND ".join(_write_fts5(words, is_prefix) for words, is_prefix in terms)
        rows = text("SELECT rowid FROM request_words WHERE request_words MATCH :wanted")
        rows = rows.bindparams(wanted=query)
        found = found.where(SEARCH.c.number.in_(rows.columns(SEARCH.c.number)))
    else:
        for words, _ in terms:
            found = found.where(SEARCH.c.words.contains(" ".join(words), autoescape=True))
    return REQUESTS.c.id.in_(found)


def _is_indexed(connection: Connection) -> bool:
    try:
        connection.execute(text("SELECT 1 FROM request_words LIMIT 0"))
    except OperationalError:
        return False
    return True


def _read_terms(wanted: str) -> Iterator[tuple[list[str], bool]]:
    """Yield the words of each term, and whether the last of them may be the beginning of a word."""
    for quoted, plain in _TERM.findall(wanted):
        if words := split_words(quoted or plain).split():
            yield words, not quoted


def _write_fts5(words: list[str], is_prefix: bool) -> str:  # noqa: FBT001 - of one term
    return f'"{" ".join(words)}"{"*" if is_prefix else ""}'


def _write_postgres(words: list[str], is_prefix: bool) -> str:  # noqa: FBT001 - of one term
    *first, last = (f"'{word}'" for word in words)
    return " <-> ".join([*first, f"{last}:*" if is_prefix else last])
