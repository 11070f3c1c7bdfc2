"""Whole answers of Ollama's chat, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock._json import without_lone_surrogates
from penstock.apis.encoder import IdMaker, whole_ending_of, writable
from penstock.apis.ollama import tables
from penstock.messages import AssistantMessage, ToolCall

_DAY: Final = 86_400
_LAST: Final = 253_402_300_799  # the end of the year 9999


def read_response(data: Mapping[str, Any]) -> AssistantMessage:
    """Read a whole answer, by the rules of the stream: one line that says it all."""
    from penstock.apis.ollama.stream import Decoder  # noqa: PLC0415 - the two need each other

    return Decoder().read_whole(data)


def write_response(message: AssistantMessage, *, created: int = 0) -> dict[str, Any]:
    """Write a whole answer; `UsageError` for one that failed."""
    ending, _ = whole_ending_of(message)
    message = writable(message)
    answer = {
        "model": message.model,
        "created_at": created_at(created),
        "message": write_message(message, IdMaker()),
        "done_reason": tables.DONE_REASONS[ending],
        "done": True,
        **tables.write_usage(message.usage),
    }
    return without_lone_surrogates(answer)


def write_message(message: AssistantMessage, ids: IdMaker) -> dict[str, Any]:
    """Write the blocks of *message*; calls that are not complete are omitted."""
    fields: dict[str, Any] = {"role": "assistant", "content": message.text}
    if message.thinking:
        fields["thinking"] = message.thinking
    calls = [write_call(call, ids) for call in message.tool_calls if call.complete]
    if calls:
        fields["tool_calls"] = calls
    return fields


def write_call(call: ToolCall, ids: IdMaker) -> dict[str, Any]:
    """Write one call: its arguments are an object here."""
    return {
        "id": ids.give(call.id),
        "function": {"name": call.name, "arguments": call.arguments},
    }


def created_at(seconds: int) -> str:
    """Write a moment in UTC as RFC 3339 has it, without a calendar from outside."""
    days, rest = divmod(min(max(seconds, 0), _LAST), _DAY)
    # Days since 1 March of the year 0, in eras of 400 years: leap days then end a year.
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    date = day - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9  # noqa: PLR2004 - March is the first
    year += era * 400 + (month <= 2)  # noqa: PLR2004 - January and February end it
    hours, rest = divmod(rest, 3600)
    return f"{year:04}-{month:02}-{date:02}T{hours:02}:{rest // 60:02}:{rest % 60:02}Z"
