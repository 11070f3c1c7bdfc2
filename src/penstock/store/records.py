"""What is stored, and what is read back: plain structs without any database in them.

Times are seconds since 1970, spans are seconds. Ids are the caller's, and those of requests sort by
time as text, so that the order of ids is the order of a list. A record is handed over, not copied:
who made it does not change it afterwards.
"""

from __future__ import annotations

from typing import Any, Final, Generic, Literal, TypeVar

from msgspec import Struct, field

State = Literal["started", "done", "failed", "aborted", "interrupted"]
"""How far a request has come; *interrupted* ones lost the process that served them."""

MAX_TEXT: Final = 20_000
"""How many characters of an answer can be searched; the whole answer is in its response."""

MAX_PAGE: Final = 1_000
"""How many rows a page may have."""

Row = TypeVar("Row")

# --- what is written ---------------------------------------------------------


class RequestStarted(Struct, frozen=True, kw_only=True):
    """A request as it came in; `worker` is empty for the store's own process."""

    id: str
    created: float
    scope: str = ""
    session: str = ""
    client_api: str = ""
    path: str = ""
    model: str = ""
    upstream: str = ""
    upstream_api: str = ""
    upstream_model: str = ""
    format: str = ""
    mode: str = ""
    stream: bool = False
    request: bytes = b""  # JSON, as the client sent it
    worker: str = ""


class RequestEnded(Struct, frozen=True, kw_only=True):
    """How a request ended, and all that passed; `raw` and `events` are blocks of zlib."""

    id: str
    state: Literal["done", "failed", "aborted"]
    finish: str = ""
    error_kind: str = ""
    error_type: str = ""
    error_message: str = ""
    status: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    first_byte: float | None = None
    first_token: float | None = None
    duration: float = 0.0
    chunks: int = 0
    calls: int = 0
    repairs: list[str] = field(default_factory=list)
    text: str = ""  # for search; cut at MAX_TEXT
    session: str = ""  # empty: the one that it started with
    upstream_request: bytes = b""
    raw: list[bytes] = field(default_factory=list)
    timeline: bytes = b""
    events: list[bytes] = field(default_factory=list)
    response: bytes = b""
    notes: dict[str, Any] = field(default_factory=dict)


class SessionRow(Struct, frozen=True, kw_only=True):
    """A conversation that an upstream keeps, as its next request needs it; `expires` 0 is never."""

    id: str
    scope: str
    upstream: str = ""
    model: str = ""
    chat_id: str = ""
    parent_id: str = ""
    hash: str = ""
    created: float = 0.0
    used: float = 0.0
    expires: float = 0.0
    turns: int = 0
    data: dict[str, Any] = field(default_factory=dict)


class ResponseRow(Struct, frozen=True, kw_only=True):
    """An answer that a later request may refer to by its id; `expires` 0 is never."""

    id: str
    scope: str
    created: float = 0.0
    expires: float = 0.0
    previous: str = ""
    model: str = ""
    data: bytes = b""


class Retention(Struct, frozen=True):
    """How long requests are kept, and how much room they may take; None is without end.

    `size` counts what the rows and bodies of requests hold, not the free room within a file.
    Sessions and responses have their own end: `expires`.
    """

    days: float | None = 30.0
    size: int | None = 2 << 30


# --- what is read ------------------------------------------------------------


class RequestRow(Struct, frozen=True, kw_only=True):
    """One line of the log: a request without its bodies."""

    id: str
    created: float
    state: State
    scope: str
    session: str
    client_api: str
    path: str
    model: str
    upstream: str
    upstream_api: str
    upstream_model: str
    format: str
    mode: str
    stream: bool
    worker: str
    finish: str
    error_kind: str
    error_type: str
    error_message: str
    status: int | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    first_byte: float | None
    first_token: float | None
    duration: float
    chunks: int
    calls: int
    repairs: list[str]
    size: int


class RequestDetail(Struct, frozen=True, kw_only=True):
    """A request with all that was stored of it; `raw` and `events` are unpacked."""

    row: RequestRow
    text: str
    notes: dict[str, Any]
    request: bytes = b""
    upstream_request: bytes = b""
    raw: bytes = b""
    timeline: bytes = b""
    events: bytes = b""
    response: bytes = b""


class RequestQuery(Struct, frozen=True, kw_only=True):
    """Which requests, newest first; what is None or empty does not count.

    `search` is looked for in answers and error messages, without regard to case. `format` is the
    one that answers are read as, or that a call of the answer was written in; `error` is the kind
    of an error. `before` is the `next` of the page before, and `after` an id: newer are wanted.
    """

    scope: str | None = None
    session: str = ""
    model: str = ""
    upstream: str = ""
    client_api: str = ""
    state: str = ""
    format: str = ""
    finish: str = ""
    error: str = ""
    repairs: bool | None = None  # whether calls were repaired
    since: float | None = None
    until: float | None = None
    search: str = ""
    before: str = ""
    after: str = ""
    limit: int = 50
    count: bool = False  # whether `total` is wanted, which reads every row that fits


class SessionQuery(Struct, frozen=True, kw_only=True):
    """Which sessions, the newest made first; `live` leaves out the expired ones."""

    scope: str | None = None
    upstream: str = ""
    model: str = ""
    live: bool = True
    before: str = ""
    limit: int = 50
    count: bool = False


class Page(Struct, Generic[Row], frozen=True, kw_only=True):
    """Some rows of a list; `next` asks for those after them, and is empty at the end."""

    items: list[Row]
    next: str = ""
    total: int | None = None


class Totals(Struct, frozen=True, kw_only=True):
    """Requests since a moment, in sum; `size` is what all of the log takes."""

    requests: int
    states: dict[str, int]
    models: dict[str, int]  # the fifty most used
    calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    size: int


class Percentiles(Struct, frozen=True):
    """The middle of some spans, and what only one in twenty is longer than."""

    p50: float
    p95: float


class Bucket(Struct, frozen=True, kw_only=True):
    """The requests of one stretch of time that begins at *t*; `ttft` is the time to first token.

    `formats` counts calls by the format they were written in, among the newest requests.
    """

    t: float
    streams: int = 0
    failed: int = 0
    calls: int = 0
    repaired: int = 0
    ttft: Percentiles | None = None
    duration: Percentiles | None = None
    formats: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)


class Overview(Struct, frozen=True, kw_only=True):
    """The requests from `since` to `until`, in buckets of `width` seconds, and in sum.

    `formats` counts calls by the format they were written in, among the newest requests.
    """

    since: float
    until: float
    width: float
    buckets: list[Bucket]
    formats: dict[str, int]
    errors: dict[str, int]
    models: dict[str, int]
    states: dict[str, int]


class OverviewQuery(Struct, frozen=True, kw_only=True):
    """Which requests are summed up, and into how many buckets."""

    scope: str | None = None
    since: float
    until: float
    buckets: int = 60


class StoreHealth(Struct, frozen=True, kw_only=True):
    """How the writer is doing; counts are of records since it was made.

    `is_up` tells whether the last thing that the writer did with the database succeeded.
    `last_error` names no URL and no password, and stays after a recovery.
    """

    is_up: bool
    queued: int
    queued_bytes: int
    written: int
    dropped: int
    last_error: str
    last_commit: float
