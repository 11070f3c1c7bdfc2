"""Models over HTTP: any API, any server, over aiohttp or a client of one's own.

`model` is what a user holds; `exchange` gets one answer by as many tries as it takes, and `attempt`
makes one of them over a `transport`. What no socket is needed for is in files of its own: where an
API is found (`endpoints`), what a key is and how it is hidden (`keys`), when to try again
(`retry`), how long to wait (`waiting`).
"""

from penstock.models.http.model import HTTPModel
from penstock.models.http.report import HTTPStream, Report
from penstock.models.http.retry import NO_RETRY, Retry
from penstock.models.http.transport import Answer, HTTPCall, Transport, TransportError
from penstock.models.http.waiting import Timeouts

__all__ = [
    "NO_RETRY",
    "Answer",
    "HTTPCall",
    "HTTPModel",
    "HTTPStream",
    "Report",
    "Retry",
    "Timeouts",
    "Transport",
    "TransportError",
]
