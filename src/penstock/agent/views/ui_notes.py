"""What happens beside the answers, as notes: told to whoever listens, no part of the message."""

from __future__ import annotations

from typing import assert_never

from penstock.agent.events import (
    ApprovalRequested,
    CallApproved,
    CallDenied,
    CompactionEnded,
    CompactionStarted,
    Complained,
    FindingMade,
    RetryEnded,
    RetryStarted,
)
from penstock.agent.views.ui_chunks import Chunk, ErrorText, error_shown, note

Approval = ApprovalRequested | CallApproved | CallDenied
Noted = FindingMade | RetryStarted | RetryEnded | CompactionStarted | CompactionEnded | Complained


def note_of(event: Noted | Approval, words: ErrorText) -> Chunk:
    """Give *event* as a note, errors in *words*; what begins and ends has a `state`."""
    match event:
        case FindingMade():
            return note(
                "finding",
                source=event.source,
                names=event.names,
                text=event.text,
                interrupts=event.interrupts,
            )
        case RetryStarted() | RetryEnded():
            return _retry(event, words)
        case CompactionStarted() | CompactionEnded():
            return _compaction(event, words)
        case Complained():
            return note("complaint", source=event.source, message=event.message)
        case ApprovalRequested() | CallApproved() | CallDenied():
            return _approval(event)
        case _:
            assert_never(event)


def _retry(event: RetryStarted | RetryEnded, words: ErrorText) -> Chunk:
    error = error_shown(event.error, words)
    if isinstance(event, RetryEnded):
        return note(
            "retry", state="ended", success=event.success, attempt=event.attempt, error=error
        )
    return note(
        "retry",
        state="started",
        attempt=event.attempt,
        attempts=event.attempts,
        delay=event.delay,
        error=error,
    )


def _compaction(event: CompactionStarted | CompactionEnded, words: ErrorText) -> Chunk:
    if isinstance(event, CompactionStarted):
        return note("compaction", state="started", reason=event.reason, tokens=event.tokens)
    error = error_shown(event.error, words)
    return note("compaction", state="ended", summary=event.summary, kept=event.kept, error=error)


def _approval(event: Approval) -> Chunk:
    states = {ApprovalRequested: "requested", CallApproved: "approved", CallDenied: "denied"}
    state, call, name = states[type(event)], event.id, event.name
    if isinstance(event, CallDenied):
        return note("approval", state=state, toolCallId=call, toolName=name, reason=event.reason)
    return note("approval", state=state, toolCallId=call, toolName=name, arguments=event.arguments)
