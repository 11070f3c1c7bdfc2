"""What an answer over HTTP took, and the stream that tells it."""

from __future__ import annotations

from msgspec import Struct, field

from penstock.messages import ErrorInfo, Usage
from penstock.models.base import Tap
from penstock.models.http.keys import Mask
from penstock.streams import INTERVAL, EventStream
from penstock.streams.pump import Events


class Report(Struct):
    """How one answer came about; complete when its stream has ended.

    *left_out* names the fields of the request that the API has no word for, *failures* are the
    tries that came to nothing. Times are in seconds from the first read of the stream on:
    *first_byte* of the body, *first_token* (the first delta of any block), *duration* of it all.
    *request_id* is the provider's. *skipped* is how many frames of the stream could not be read, in
    all tries. *session* is what the server calls the conversation, where it
    keeps one.
    """

    api: str = ""
    model: str = ""
    left_out: list[str] = field(default_factory=list)
    attempts: int = 0
    failures: list[ErrorInfo] = field(default_factory=list)
    status: int | None = None
    request_id: str = ""
    first_byte: float | None = None
    first_token: float | None = None
    duration: float | None = None
    usage: Usage = field(default_factory=Usage)
    skipped: int = 0
    session: dict[str, str] = field(default_factory=dict)


class Account(Struct, frozen=True):
    """What is told of one answer while it comes about: to whom, and what is never told."""

    report: Report
    mask: Mask
    tap: Tap


class HTTPStream(EventStream):
    """The stream of an answer over HTTP, with its `report`."""

    def __init__(self, events: Events, report: Report, *, interval: float = INTERVAL) -> None:
        super().__init__(events, interval=interval)
        self.report = report
        """What the answer took, as far as it is known by now."""
