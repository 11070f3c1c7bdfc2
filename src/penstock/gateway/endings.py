"""How an answer ends: found in what arrives, or made where nothing lawful arrives any more."""

from __future__ import annotations

from typing import Final

from penstock.apis.encoding import ending_of
from penstock.events import Done, Event, Failed, MessageStart
from penstock.gateway.refusals import BAD_GATEWAY, presentable
from penstock.messages import AssistantMessage, ErrorInfo

_ENDS: Final = (Done, Failed)  # a union would be made anew for each batch
_OF_THE_GATEWAY: Final = (401, 407)  # the keys to the upstream and to a proxy are not the client's


def find_end(batch: list[Event]) -> Done | Failed | None:
    """Give the end of the answer, if *batch* holds it."""
    last = batch[-1] if batch else None
    return last if isinstance(last, _ENDS) else None


def is_nothing_but_failure(batch: list[Event]) -> bool:
    """Tell whether the answer failed before it said anything; a refusal is an answer."""
    *before, last = batch
    if not isinstance(last, Failed) or not isinstance(ending_of(last.message), ErrorInfo):
        return False
    return all(isinstance(event, MessageStart) for event in before)


def make_fit(error: ErrorInfo) -> None:
    """Make of an upstream's error one that concerns a client: a status that refuses.

    An upstream that wants another key of the gateway is no fault of a client.
    """
    if error.kind == "provider" and error.status in _OF_THE_GATEWAY:
        error.message = f"the upstream refused the gateway: {error.message}"
        error.type, error.status = "api_error", BAD_GATEWAY
    fit = presentable(error)
    error.message, error.status = fit.message, fit.status


def shutdown() -> ErrorInfo:
    """Say that the gateway ends."""
    return ErrorInfo(
        "the gateway is shutting down", "aborted", "overloaded_error", 503, retryable=True
    )


def aborted_by(error: ErrorInfo) -> Failed:
    """Give the end of an answer that *error* ended from outside."""
    return Failed("aborted", error, AssistantMessage(stop_reason="aborted", error=error))


def cut() -> ErrorInfo:
    """Say that an upstream ended without a terminal event."""
    return ErrorInfo("the upstream ended before its answer did", "truncated", retryable=True)
