"""What all dialects of the fake upstream share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from gateway.scenarios import Piece, Scenario

CREATED: Final = 1_700_000_000
"""When all answers were made."""

PROMPT_TOKENS: Final = 11
"""How long every prompt is."""

JSON = dict[str, Any]

Speaker = Callable[[str, Scenario], Iterator[bytes]]
"""Says a scenario as the model of that name, a frame at a time."""

Whole = Callable[[str, Scenario, list[Piece]], JSON]
"""Makes one object of what was said."""


def frame(value: JSON, event: str = "") -> bytes:
    """Write one server-sent event."""
    name = f"event: {event}\n" if event else ""
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"{name}data: {data}\n\n".encode()


def text_of(said: list[Piece], kind: str) -> str:
    """Join what was *said* of one kind."""
    return "".join(piece.text for piece in said if piece.kind == kind)


def calls_of(said: list[Piece]) -> dict[int, str]:
    """Join the arguments of each call."""
    calls: dict[int, str] = {}
    for piece in said:
        if piece.kind in ("call", "arguments"):
            calls[piece.call] = calls.get(piece.call, "") + piece.text
    return calls


def call_id(call: int) -> str:
    """Return the id of a call."""
    return f"call_{call:04}"
