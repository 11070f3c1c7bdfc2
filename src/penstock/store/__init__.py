"""The database: the log of the gateway, and the sessions and responses of its clients.

`Store` is the interface of the gateway. Records wait in a queue. The `writer` is one thread
that turns them into rows and does `maintenance` between batches. `engine` knows the two databases
and has a few threads for the `queries`. `tables` is the schema, and how values are stored in it and
found by their words; `migrations` upgrades a database to it.

Agents keep their sessions in the same database, without the gateway: `agent_sessions`.
"""

from penstock.store.agent_sessions import AgentSessionRow, AgentSessions
from penstock.store.engine import StoreError
from penstock.store.migrations import upgrade
from penstock.store.records import (
    MAX_LINE,
    MAX_PAGE,
    MAX_SEARCHED_TEXT,
    MAX_WORDS,
    Bucket,
    ConversationRow,
    Overview,
    OverviewQuery,
    Page,
    Percentiles,
    RequestDetail,
    RequestEnded,
    RequestQuery,
    RequestRow,
    RequestStarted,
    ResponseRow,
    Retention,
    SessionQuery,
    SessionRow,
    State,
    StoreHealth,
    Totals,
)
from penstock.store.store import Store

__all__ = [
    "MAX_LINE",
    "MAX_PAGE",
    "MAX_SEARCHED_TEXT",
    "MAX_WORDS",
    "AgentSessionRow",
    "AgentSessions",
    "Bucket",
    "ConversationRow",
    "Overview",
    "OverviewQuery",
    "Page",
    "Percentiles",
    "RequestDetail",
    "RequestEnded",
    "RequestQuery",
    "RequestRow",
    "RequestStarted",
    "ResponseRow",
    "Retention",
    "SessionQuery",
    "SessionRow",
    "State",
    "Store",
    "StoreError",
    "StoreHealth",
    "Totals",
    "upgrade",
]
