"""How two readings of one answer differ, for people: line by line, and what only one of them has.

Ids of calls are new with every reading and say nothing. Arguments are written one a line, so that a
difference in a long call is found at a glance.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import ndiff, unified_diff
from itertools import zip_longest
from typing import Final

from msgspec import Struct

from penstock import _json
from penstock.messages import AssistantMessage, ToolCall

CONTEXT: Final = 2
"""How many lines that are the same are shown around those that are not."""

MAX_CHARACTERS: Final = 200_000
"""Up to which length texts are compared line by line: that takes the square of it at worst."""

_NOTHING: Final = ""


class Difference(Struct, frozen=True):
    """One thing that is not as it was: *what* it is, and how it reads *then* and *now*."""

    what: str
    then: str
    now: str

    def lines(self) -> list[str]:
        """Show it: lines of then begin with ``-``, those of now with ``+``, others with a space."""
        then, now = self.then.splitlines(), self.now.splitlines()
        if max(len(self.then), len(self.now)) > MAX_CHARACTERS:
            return [f"- {len(self.then):,} characters", f"+ {len(self.now):,} characters"]
        if then == now:  # They differ in how the lines end.
            then, now = [repr(self.then)], [repr(self.now)]
        if min(len(then), len(now)) <= 1:
            return [line for line in ndiff(then, now) if not line.startswith("?")]
        _, _, _, *changed = unified_diff(then, now, n=CONTEXT, lineterm="")
        return [f"{line[0]} {line[1:]}" if line[:2] != "@@" else "…" for line in changed]


def differences(
    then: AssistantMessage, now: AssistantMessage, *, is_whole: bool = True
) -> list[Difference]:
    """Say how *now* differs from *then*.

    Of an answer whose client was not told the end (not *is_whole*) only what it was told counts:
    that must still be how it begins.
    """
    pairs = _whole_pairs(then, now) if is_whole else _begun_pairs(then, now)
    return [Difference(what, before, after) for what, before, after in pairs if before != after]


def _whole_pairs(then: AssistantMessage, now: AssistantMessage) -> Iterator[tuple[str, str, str]]:
    yield "thinking", then.thinking, now.thinking
    yield "text", then.text, now.text
    yield from _call_pairs(then.tool_calls, now.tool_calls)
    yield "end", _end_of(then), _end_of(now)


def _begun_pairs(then: AssistantMessage, now: AssistantMessage) -> Iterator[tuple[str, str, str]]:
    yield "thinking", then.thinking, now.thinking[: len(then.thinking)]
    yield "text", then.text, now.text[: len(then.text)]
    told = [call for call in then.tool_calls if call.complete]
    yield from _call_pairs(told, now.tool_calls[: len(told)])


def _call_pairs(then: list[ToolCall], now: list[ToolCall]) -> Iterator[tuple[str, str, str]]:
    for number, (before, after) in enumerate(zip_longest(then, now), 1):
        yield f"call {number}", _shown(before), _shown(after)
        yield f"repairs of call {number}", _repairs(before), _repairs(after)


def _shown(call: ToolCall | None) -> str:
    """Write a call, an argument a line."""
    if call is None:
        return _NOTHING
    head = call.name if call.complete else f"{call.name} (cut off)"
    return "\n".join([head, *_arguments(call)])


def _arguments(call: ToolCall) -> Iterator[str]:
    for name, value in call.arguments.items():
        if isinstance(value, str) and "\n" in value:
            yield f"  {name}: |"
            yield from (f"    {line}" for line in value.split("\n"))
        else:
            yield f"  {name}: {_json.encode(value).decode()}"


def _repairs(call: ToolCall | None) -> str:
    return _NOTHING if call is None else "\n".join(call.repairs)


def _end_of(message: AssistantMessage) -> str:
    """Say how an answer ended; the words of an error may change, its kind may not."""
    if message.error is None:
        return message.stop_reason or _NOTHING
    return f"{message.stop_reason or 'error'} ({message.error.kind})"
