"""The database: what passed through the gateway, and what its next request needs.

`store` is what the gateway holds. After it, records wait in a `backlog`; the `writer` is one
thread that turns them into rows (`writing`, `cleaning`, `packing`), and between batches looks after
the house (`upkeep`). `readers` are a few threads that ask what `queries` and `overview` know to
ask. `engine` and `schema` know the two databases, `tables` what is in them, `migrations` how it
came to be.

Agents keep their sessions in the same database, without the gateway: `agent_sessions`.
"""

from penstock.store.agent_sessions import AgentSessionRow, AgentSessions
from penstock.store.errors import StoreError
from penstock.store.migrate import upgrade
from penstock.store.records import (
    MAX_PAGE,
    MAX_TEXT,
    Bucket,
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
    "MAX_PAGE",
    "MAX_TEXT",
    "AgentSessionRow",
    "AgentSessions",
    "Bucket",
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
