"""An account that has used up what it may: why, and after how long it may have more.

A server that names a time is believed. Where none does, the reason tells how long it usually takes.
"""

from __future__ import annotations

from typing import Final, Literal

from penstock.agent.recovery.wordings import (
    CAPACITY,
    MAX_READ,
    RATE,
    SERVER,
    USAGE_LIMIT_TYPES,
    USED_UP,
)
from penstock.messages import ErrorInfo

LimitReason = Literal["quota", "rate", "capacity", "server"]
"""Why an account gets no more: what it paid for, how fast it asks, how many others do, a fault."""

QUOTA_SECONDS: Final = 30 * 60.0
"""How long a quota is waited for: such windows are hours, and half of one is soon enough."""

RATE_SECONDS: Final = 30.0
"""How long a rate is waited for: it is counted by the minute, so half of one is its mean."""

CAPACITY_SECONDS: Final = (45.0, 75.0)
"""Between which times a crowded model is waited for, by chance: all others wait for it too."""

SERVER_SECONDS: Final = 20.0
"""How long a server that failed is waited for: about as long as one takes to start."""

_PAYMENT: Final = 402
_EXHAUSTED: Final = "resource_exhausted"  # Gemini's word for any limit


def is_usage_limit(error: ErrorInfo) -> bool:
    """Tell whether the account has used up what it may; another account would be answered."""
    return limit_reason(error) is not None


def limit_reason(error: ErrorInfo) -> LimitReason | None:
    """Say why the account gets no more; None where it is not the account."""
    if error.kind != "provider":
        return None
    word, said = error.type.lower(), error.message[:MAX_READ]
    is_limit = error.status == _PAYMENT or word in USAGE_LIMIT_TYPES or USED_UP.search(said)
    if not is_limit:
        return None
    if "capacity" in word or CAPACITY.search(said):
        return "capacity"
    if RATE.search(said) or (word == _EXHAUSTED and not USED_UP.search(said)):
        return "rate"
    return "server" if SERVER.search(said) else "quota"


def limit_wait(error: ErrorInfo, chance: float) -> float | None:
    """Give the seconds to wait before the account may ask again; None where it is not the account.

    *chance* is a number from 0 to 1.
    """
    reason = limit_reason(error)
    if reason is None or error.retry_after is not None:
        return error.retry_after if reason else None
    least, most = CAPACITY_SECONDS
    waits: dict[LimitReason, float] = {
        "quota": QUOTA_SECONDS,
        "rate": RATE_SECONDS,
        "capacity": least + (most - least) * chance,
        "server": SERVER_SECONDS,
    }
    return waits[reason]
