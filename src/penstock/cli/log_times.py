"""Times of the log: read as people say them, shown where people are."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Final

from penstock.cli.screen import refuse

_SPAN: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def moment(text: str, now: float | None = None) -> float | None:
    """Read ``90s``, ``1h``, ``2d`` (so long before *now*), a date or a time; None for nothing.

    A date or a time without a zone is a local one. Ends the command for anything else.
    """
    text = text.strip()
    if not text:
        return None
    if span := _SPAN.fullmatch(text.lower()):
        return (time.time() if now is None else now) - float(span[1]) * _SECONDS[span[2]]
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError, OSError) as exc:
        refuse(f"no time: {text!r}; say 90s, 15m, 1h, 2d, 1w, 2026-05-01 or 2026-05-01T14:20", exc)


class Clock:
    """Shows times: local ones, or with *utc* those of UTC."""

    def __init__(self, *, utc: bool = False) -> None:
        self._zone = UTC if utc else None

    @property
    def zone(self) -> str:
        """What the times are called: ``UTC``, ``CEST``, ``+05:45``."""
        return datetime.now(UTC).astimezone(self._zone).tzname() or "local"

    def show(self, seconds: float) -> str:
        """Show the time *seconds* after the beginning of 1970; a time that cannot be is a dash."""
        try:
            when = datetime.fromtimestamp(seconds, UTC).astimezone(self._zone)
        except (ValueError, OverflowError, OSError):
            return "-"
        return when.strftime("%Y-%m-%d %H:%M:%S")
