"""Models over HTTP: any API, any server, over aiohttp or a client of your own.

Start with `model.HTTPModel`. `attempt` sends one request, with retries, over a `transport` and
decodes the response. The parts that need no socket are separate: URLs and proxies (`endpoints`),
timeouts and the retry policy (`policy`).
"""

from penstock.models.http.attempt import HTTPStream, Report
from penstock.models.http.model import HTTPModel
from penstock.models.http.policy import NO_RETRY, RetryPolicy, Timeouts
from penstock.models.http.transport import HTTPCall, HTTPResponse, Transport, TransportError

__all__ = [
    "NO_RETRY",
    "HTTPCall",
    "HTTPModel",
    "HTTPResponse",
    "HTTPStream",
    "Report",
    "RetryPolicy",
    "Timeouts",
    "Transport",
    "TransportError",
]
