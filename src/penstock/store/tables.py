"""The tables of the current schema; `migrations` has the steps to it.

Lists stay fast because the bodies of a request are rows of another table, one per kind, and so are
the words that it is found by. Values are truncated to the lengths of the columns. Keys compare
byte by byte in both databases, whatever the locale of PostgreSQL: paging depends on it.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy.exc import OperationalError
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.types import TypeEngine

from penstock import _json
from penstock.errors import PenstockError
from penstock.store.records import (
    MAX_LINE,
    MAX_SEARCHED_TEXT,
    MAX_WORDS,
    RequestDetail,
    RequestEnded,
    RequestStarted,
)

MAX_KEY: Final = 128
"""The longest key in characters; the end of a longer one is replaced by a hash."""

MAX_PATH: Final = 1_000
"""How many characters of a path are stored."""

KEY: Final = {"key": True}
"""Marks the columns of keys, whose values are hashed if they are too long."""

METADATA: Final = MetaData()


def _key_type() -> TypeEngine[str]:
    # Pages are cut by the order of ids. SQLite sorts them by their bytes; PostgreSQL sorts by the
    # language of the database unless the collation is C.
    return String(MAX_KEY).with_variant(String(MAX_KEY, collation="C"), "postgresql")


def _primary(name: str) -> Column[str]:
    return Column(name, _key_type(), primary_key=True, nullable=False, info=KEY)


def _key(name: str) -> Column[str]:
    return Column(name, _key_type(), nullable=False, server_default="", info=KEY)


def _string(name: str, length: int = 200) -> Column[str]:
    return Column(name, String(length), nullable=False, server_default="")


def _count(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0")


def _seconds(name: str) -> Column[float]:
    return Column(name, Double, nullable=False, server_default="0")


def _json_column(name: str, empty: str) -> Column[str]:
    return Column(name, Text, nullable=False, server_default=empty, info={"empty": empty})


WORKERS: Final = Table(
    "workers",
    METADATA,
    _primary("id"),
    _count("pid"),
    _string("host"),
    _seconds("started"),
    _seconds("seen"),
)

REQUESTS: Final = Table(
    "requests",
    METADATA,
    _primary("id"),
    _seconds("created"),
    Column("state", String(20), nullable=False, server_default="started"),
    _key("scope"),
    _key("session"),
    _string("client_api"),
    _string("path", MAX_PATH),
    _string("model"),
    _string("upstream"),
    _string("upstream_api"),
    _string("upstream_model"),
    _string("format"),
    _string("mode"),
    Column("stream", Boolean, nullable=False, server_default=text("false")),
    _key("worker"),
    _string("finish"),
    _string("error_kind"),
    _string("error_type"),
    _string("error_message", 4_000),
    Column("status", BigInteger),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("cached_tokens", BigInteger),
    Column("reasoning_tokens", BigInteger),
    Column("first_byte", Double),
    Column("first_token", Double),
    _seconds("duration"),
    _count("chunks"),
    _count("calls"),
    _count("size"),
    _json_column("repairs", "[]"),
    _json_column("notes", "{}"),
    _string("text", MAX_SEARCHED_TEXT),
    _key("conversation"),
    _key("messages_hash"),
    _count("messages"),
    _string("prompt", MAX_LINE),
    _string("summary", MAX_LINE),
    _string("found"),
    _count("incomplete"),
    _count("unread"),
    _string("unread_reason", MAX_LINE),
)
Index("requests_created", REQUESTS.c.created)
Index("requests_session", REQUESTS.c.session, REQUESTS.c.id)
Index("requests_conversation", REQUESTS.c.conversation, REQUESTS.c.id)
Index("requests_messages_hash", REQUESTS.c.messages_hash, REQUESTS.c.id)
Index("requests_size", REQUESTS.c.size)  # A sum over all requests reads only this index.
# Partial: it has only requests in progress, which are looked up when their worker has died.
_STARTED: Final = Index(
    "requests_started", REQUESTS.c.worker, sqlite_where=REQUESTS.c.state == "started"
)


def add_postgres_index() -> None:
    """Add the condition of a partial index for PostgreSQL.

    At import time this would load the PostgreSQL dialect, which takes 2 MB.
    """
    _STARTED.dialect_kwargs["postgresql_where"] = REQUESTS.c.state == "started"


BODIES: Final = Table(
    "bodies",
    METADATA,
    _primary("request"),
    Column("kind", String(20), primary_key=True, nullable=False),
    _string("coding", 20),
    Column("data", LargeBinary, nullable=False),
)

SEARCH: Final = Table(
    "request_search",
    METADATA,
    # SQLite assigns numbers only to a primary key of the type INTEGER.
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("request", _key_type(), nullable=False, unique=True, info=KEY),
    Column("words", Text, nullable=False),
)
"""The words of each request that ended; `search` has the indexes."""

SESSIONS: Final = Table(
    "sessions",
    METADATA,
    _primary("scope"),
    _primary("id"),
    _string("upstream"),
    _string("model"),
    _string("chat_id"),
    _string("parent_id"),
    _key("hash"),
    _seconds("created"),
    _seconds("used"),
    _seconds("expires"),
    _count("turns"),
    _json_column("data", "{}"),
)
Index("sessions_hash", SESSIONS.c.scope, SESSIONS.c.hash, SESSIONS.c.used)
Index("sessions_created", SESSIONS.c.created)
Index("sessions_expires", SESSIONS.c.expires)

RESPONSES: Final = Table(
    "responses",
    METADATA,
    _primary("scope"),
    _primary("id"),
    _seconds("created"),
    _seconds("expires"),
    _key("previous"),
    _string("model"),
    Column("data", LargeBinary, nullable=False),
)
Index("responses_expires", RESPONSES.c.expires)

AGENT_SESSIONS: Final = Table(
    "agent_sessions",
    METADATA,
    _primary("id"),
    _string("title"),
    _string("prompt"),
    _string("cwd", MAX_PATH),
    _key("parent"),
    _seconds("created"),
    _seconds("updated"),
    _count("messages"),
    _count("size"),
)
Index("agent_sessions_updated", AGENT_SESSIONS.c.updated)

AGENT_ENTRIES: Final = Table(
    "agent_entries",
    METADATA,
    _primary("session"),
    Column("number", BigInteger, primary_key=True, nullable=False, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)


# --- how values are stored ---
#
# PostgreSQL accepts no NUL in text, and neither database accepts lone surrogates or integers of
# more than 64 bits; models and clients send all of them. Each column has a function that cleans its
# values, by its type; none raises. NULs and lone surrogates become U+FFFD in both databases.

Cleaner = Callable[[Any], object]

MAX_INTEGER: Final = 2**63 - 1
"""The largest integer in both databases."""


def clean_text(value: object, length: int | None = None) -> str:
    """Return *value* as text that a database accepts, truncated to *length* characters."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    if length is not None:
        text = text[:length]
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    text = _json.join_surrogates(text, lone="replace")
    return text if length is None else text[:length]


def clean_key(value: object) -> str:
    """Return *value* as a key; the end of one that is too long is replaced by a hash."""
    text = clean_text(value)
    if len(text) <= MAX_KEY:
        return text
    digest = sha256(text.encode()).hexdigest()
    return f"{text[: MAX_KEY - len(digest) - 1]}~{digest}"


def clean_json(value: object, empty: str) -> str:
    """Return *value* as JSON; *empty* if JSON cannot express it."""
    if not value:
        return empty
    try:
        return _json.encode_wire(value).decode()
    except (PenstockError, TypeError, ValueError, RecursionError):
        return empty


def _clean_integer(value: object) -> int:
    try:
        number: int = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return 0
    return max(-MAX_INTEGER, min(MAX_INTEGER, number))


def _clean_float(value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) else 0.0


def _clean_bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else b""


def _cleaner_for(column: Column[Any]) -> Cleaner:
    kind = column.type
    if column.info == KEY:
        return clean_key
    if "empty" in column.info:
        return partial(clean_json, empty=column.info["empty"])
    if isinstance(kind, Boolean):
        return bool
    if isinstance(kind, LargeBinary):
        return _clean_bytes
    if isinstance(kind, String):
        return partial(clean_text, length=kind.length)
    number = _clean_integer if isinstance(kind, BigInteger) else _clean_float
    assert isinstance(kind, BigInteger | Double)  # noqa: S101 - a new type needs a function
    if column.nullable:
        return lambda value: None if value is None else number(value)
    return number


class Fields:
    """Makes rows for some columns of a table from records with attributes of the same names."""

    def __init__(self, columns: Iterable[Column[Any]]) -> None:
        self._cleaners = [(column.name, _cleaner_for(column)) for column in columns]
        self.names = [name for name, _ in self._cleaners]

    def make_row(self, record: object) -> dict[str, Any]:
        """Return the row for *record*."""
        return {name: clean(getattr(record, name)) for name, clean in self._cleaners}


# --- bodies ---

# Small bodies are stored as they are, larger ones compressed with zlib. The raw stream and the
# events arrive as complete zlib blocks. Joined, they can still be read: one zlib stream after the
# other.

MIN_PACKED: Final = 1_024
"""The smallest body that is compressed: below that, little is saved."""

MAX_UNPACKED: Final = 256 << 20
"""How many bytes of a body are decompressed: a few bytes of zlib may expand to gigabytes."""

ZLIB: Final = "zlib"

_MIN_WINDOW: Final = 9  # bits; the minimum of zlib
_MEM_LEVEL_BELOW: Final = 6  # the memLevel of zlib is this much below the window bits

KINDS: Final = tuple(
    name for name in RequestDetail.__struct_fields__ if name not in ("row", "text", "notes")
)
"""The kinds of bodies, named as in `RequestDetail`."""

_KINDS_OF: Final = {
    record: [kind for kind in KINDS if kind in record.__struct_fields__]
    for record in (RequestStarted, RequestEnded)
}

Body = tuple[str, str, bytes]
"""Kind, coding, data."""


def encode_bodies(record: RequestStarted | RequestEnded) -> Iterator[Body]:
    """Yield the bodies of *record*."""
    for kind in _KINDS_OF[type(record)]:
        body = getattr(record, kind)
        if not body:
            continue
        if isinstance(body, list):
            yield kind, ZLIB, b"".join(body)
        elif len(body) < MIN_PACKED:
            yield kind, "", bytes(body)
        else:
            yield kind, ZLIB, compress(body)


def compress(data: bytes) -> bytes:
    """Compress *data* with a window that is not larger than itself.

    The default window takes 256 kB of memory, and allocating it takes longer than compressing a
    small body. Level 1 takes half the time of the default and is within a tenth of its size.
    """
    window = min(max((len(data) - 1).bit_length(), _MIN_WINDOW), zlib.MAX_WBITS)
    compressor = zlib.compressobj(
        1, zlib.DEFLATED, window, min(window - _MEM_LEVEL_BELOW, zlib.DEF_MEM_LEVEL)
    )
    return compressor.compress(data) + compressor.flush()


def unpack(coding: str, data: bytes) -> bytes:
    """Return the original body; of damaged zlib data, what can be read."""
    if coding != ZLIB:
        return data
    parts: list[bytes] = []
    room = MAX_UNPACKED
    while data and room > 0:
        block = zlib.decompressobj()
        try:
            part = block.decompress(data, room)
        except zlib.error:
            break
        parts.append(part)
        room -= len(part)
        data = block.unused_data
    return b"".join(parts)


# --- full-text search ---
#
# Both index the same words, because Python splits the text: a word is a run of letters and digits,
# and each character of scripts without spaces is a word of its own. So ``write_file`` is the words
# ``write`` and ``file`` in a row, also where it is an argument within JSON. The words of a request
# are written once, when it has ended. An SQLite without FTS5 searches the words without an index.

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
