"""The records that are written and read: plain structs that do not depend on the database.

Times are seconds since 1970, durations are seconds. Ids are chosen by the caller; those of requests
sort by time, so that the order of ids is the order of lists. Records are passed without a copy: do
not change one after it was passed.
"""

from __future__ import annotations

from typing import Any, Final, Generic, Literal, TypeVar

from msgspec import Struct, field

State = Literal["started", "done", "failed", "aborted", "interrupted"]
"""The state of a request; *interrupted* means that its process died."""

MAX_SEARCHED_TEXT: Final = 20_000
"""How many characters of a response a row has; its body has the whole text."""

MAX_LINE: Final = 300
"""How many characters of a prompt or a summary a row has: more than a line of a list."""

MAX_WORDS: Final = 16_000
"""How many characters of a request can be searched: to index them takes about a millisecond."""

MAX_PAGE: Final = 1_000
"""How many rows a page may have."""

Row = TypeVar("Row")

# --- records that are written ---


class RequestStarted(Struct, frozen=True, kw_only=True):
    """A request at its start; an empty `worker` is the process of the store.

    `messages_hash` is that of the conversation as the request has it, and `prefix_hash` that of the
    conversation before the last response in it. A request belongs to the conversation of the newest
    one whose `messages_hash` is its `prefix_hash`, or else starts one.
    """

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
    messages_hash: str = ""
    prefix_hash: str = ""
    messages: int = 0
    prompt: str = ""  # the beginning of the last user message
    request: bytes = b""  # JSON, as the client sent it
    worker: str = ""


class RequestEnded(Struct, frozen=True, kw_only=True):
    """A request at its end; `raw` and `events` are zlib blocks.

    `calls` counts all calls, `incomplete` those that clients do not run, and `unread` the texts
    that look like a call and are not one.
    """

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
    incomplete: int = 0
    unread: int = 0
    unread_reason: str = ""  # of the first one
    summary: str = ""  # the beginning of the response, or the tools that it calls
    found: str = ""  # the formats of the calls
    text: str = ""  # truncated to MAX_SEARCHED_TEXT
    search: str = ""  # what the request is found by; truncated to MAX_WORDS
    session: str = ""  # empty: that of the start
    upstream_request: bytes = b""
    raw: list[bytes] = field(default_factory=list)
    timeline: bytes = b""
    events: list[bytes] = field(default_factory=list)
    response: bytes = b""
    notes: dict[str, Any] = field(default_factory=dict)


class SessionRow(Struct, frozen=True, kw_only=True):
    """A conversation that an upstream stores; an `expires` of 0 means never."""

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
    """A response that later requests may refer to; an `expires` of 0 means never."""

    id: str
    scope: str
    created: float = 0.0
    expires: float = 0.0
    previous: str = ""
    model: str = ""
    data: bytes = b""


class Retention(Struct, frozen=True):
    """How many days requests are kept, and how many bytes they may take; None means no limit.

    `size` counts the content of rows and bodies, not the free pages of a file. Sessions and
    responses have their own `expires`.
    """

    days: float | None = 30.0
    size: int | None = 2 << 30


# --- records that are read ---


class RequestRow(Struct, frozen=True, kw_only=True):
    """A request without its bodies."""

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
    conversation: str
    messages: int
    prompt: str
    summary: str
    found: str
    incomplete: int
    unread: int
    unread_reason: str


class RequestDetail(Struct, frozen=True, kw_only=True):
    """A request with its bodies; `raw` and `events` are decompressed."""

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
    """Filters of requests, newest first; those that are None or empty do not apply.

    `search` are words or beginnings of words, all of which occur in the model's name, the tools,
    the prompt, the reasoning, the response, the arguments of its calls, or the error; words in
    quotes occur in this order. `format` is the format that responses were parsed as, or that a call
    was written in; `error` is the kind of an error. `unread` is whether a text looks like a call
    and is not one. `before` is the `next` of the previous page, and `after` an id: newer requests
    are wanted. `sort` is a column by which the largest are returned, in one page.
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
    unread: bool | None = None
    conversation: str = ""
    since: float | None = None
    until: float | None = None
    search: str = ""
    before: str = ""
    after: str = ""
    sort: str = ""
    limit: int = 50
    count: bool = False  # whether to return `total`, which reads every matching row


class ConversationRow(Struct, frozen=True, kw_only=True):
    """The totals of the requests of one conversation; `prompt` is that of the first."""

    id: str
    requests: int
    created: float
    updated: float
    model: str
    client_api: str
    prompt: str
    summary: str  # of the newest
    calls: int
    incomplete: int
    repaired: int
    unread: int
    failed: int
    running: int
    input_tokens: int
    output_tokens: int
    duration: float


class SessionQuery(Struct, frozen=True, kw_only=True):
    """Filters of sessions, the newest first; `live` excludes expired ones."""

    scope: str | None = None
    upstream: str = ""
    model: str = ""
    live: bool = True
    before: str = ""
    limit: int = 50
    count: bool = False


class Page(Struct, Generic[Row], frozen=True, kw_only=True):
    """A page of a list; `next` is the cursor of the next page, empty at the end."""

    items: list[Row]
    next: str = ""
    total: int | None = None


class Totals(Struct, frozen=True, kw_only=True):
    """Totals of the requests since a time; `size` is that of the whole log."""

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
    """The median and the 95th percentile."""

    p50: float
    p95: float


class Bucket(Struct, frozen=True, kw_only=True):
    """The requests of one period from *t*; `ttft` is the time to the first token.

    `formats` counts the calls of the newest requests by format. `output_tokens` were generated in
    `seconds`, of the responses whose tokens are known, from the first token to the last.
    """

    t: float
    streams: int = 0
    failed: int = 0
    calls: int = 0
    incomplete: int = 0
    repaired: int = 0
    unread: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    ttft: Percentiles | None = None
    duration: Percentiles | None = None
    formats: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)


class Overview(Struct, frozen=True, kw_only=True):
    """The requests from `since` to `until`, in buckets of `width` seconds and in total.

    `formats` counts the calls of the newest requests by format.
    """

    since: float
    until: float
    width: float
    buckets: list[Bucket]
    formats: dict[str, int]
    errors: dict[str, int]
    models: dict[str, int]
    failures: dict[str, int]  # by model
    states: dict[str, int]


class OverviewQuery(Struct, frozen=True, kw_only=True):
    """The requests to aggregate, and the number of buckets."""

    scope: str | None = None
    since: float
    until: float
    buckets: int = 60


class StoreHealth(Struct, frozen=True, kw_only=True):
    """The state of the writer; counts are records since it was created.

    `is_up` is whether its last operation succeeded. `last_error` contains no URL and no password,
    and is kept after a recovery.
    """

    is_up: bool
    queued: int
    queued_bytes: int
    written: int
    dropped: int
    last_error: str
    last_commit: float
