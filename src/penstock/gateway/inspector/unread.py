"""Explain text that looks like a call and is not one: where it is, why, and what to change.

`find_unread` of the library gives the reasons. Here each of them gets its place in the model's
output, advice in the words of the configuration, and the options with which a replay reads the
call. Options are offered only if they were tried: the text is parsed with them, and has the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

from msgspec import Struct, field

from penstock.config.routes import ModelOptions
from penstock.errors import PenstockError
from penstock.events import Event, TextDelta, ThinkingDelta, ToolCallEnd, ToolCallStart
from penstock.formats import UnreadCall, find_unread
from penstock.gateway.inspector.spans import Attribution, utf16_length
from penstock.gateway.replay import change_options, read_text
from penstock.messages import AssistantMessage
from penstock.parsing import QUOTED_FROM
from penstock.tools import Tool

MAX_TRIED: Final = 100_000
"""Up to how many characters a text is parsed with other options to see whether they help."""

_QUOTED: Final = 'Set `quoted = "calls"` if the model meant it'
_ADVICE: Final = {
    "not_offered": "Offer the tool {name} in the request",
    "other_format": 'Set `format = "{format}"` for this model, or `"auto"`, which reads any format',
    "in_code": 'Set `fenced = "calls"` if the model writes its calls in code fences',
    "in_reasoning": 'Set `heal = true` or `reasoning = "none"` if the model calls tools there',
    "refused": f"{_QUOTED}, or allow parallel calls",
    "broken": "Set `repair = true`: it repairs a call that has one possible meaning",
    "cut": "Raise the token limit of the request, or set `repair = true` if the model had stopped",
}
_ANY_TOOL: Final = ', or set `format = "{format}"`, which reads calls of any tool'
_STILL_CUT: Final = "Raise the token limit of the request, or look for why the stream was cut"
_STILL_REASONING: Final = 'Set `reasoning = "none"` if the model calls tools there'
_STILL_BROKEN: Final = "The call has more than one possible meaning. Ask the model to try again"


class ShownUnread(Struct, frozen=True):
    """A text that is not a call, *at* a place in UTF-16 units; *replay* are options that help."""

    at: int | None
    end: int | None
    name: str
    format: str
    reason: str
    description: str
    advice: str
    replay: dict[str, Any] | None = field(default=None)


def explain_unread(
    message: AssistantMessage,
    events: Sequence[Event],
    attribution: Attribution,
    options: ModelOptions,
    tools: Sequence[Tool],
    complaints: Sequence[str] = (),
) -> list[ShownUnread]:
    """Return what looks like a call in a response and is not one; its parser had *complaints*."""
    if not options.parse:
        return []
    trials = _Trials(attribution.text, options, tools)
    shown = []
    for one in find_unread(message, options.format, tools, complaints=complaints):
        start, end = _find_place(one, events, attribution)
        replay = trials.find(one)
        shown.append(
            ShownUnread(
                start,
                end,
                one.name,
                one.format,
                one.reason,
                one.description,
                _write_advice(one, options, replay),
                replay,
            )
        )
    return shown


def _write_advice(one: UnreadCall, options: ModelOptions, replay: dict[str, Any] | None) -> str:
    words = _ADVICE[one.reason]
    if one.reason == "not_offered" and replay is not None:
        words += _ANY_TOOL
    elif one.reason == "broken" and options.repair:
        words = _STILL_BROKEN
    elif one.reason == "cut" and options.repair:
        words = _STILL_CUT
    elif one.reason == "in_reasoning" and options.heal:
        words = _STILL_REASONING
    elif one.reason == "refused" and one.error:
        words = _QUOTED if QUOTED_FROM in one.error else "Allow parallel calls"
    return words.format(name=f"`{one.name}`" if one.name else "", format=one.format) + "."


def _find_place(
    one: UnreadCall, events: Sequence[Event], attribution: Attribution
) -> tuple[int | None, int | None]:
    """Return where the text of *one* begins and ends in the model's output."""
    if one.start == one.end:  # an incomplete call: it begins with its block
        starts = (
            at - size
            for at, size, event in zip(
                accumulate(attribution.sizes), attribution.sizes, events, strict=False
            )
            if isinstance(event, ToolCallStart) and event.index == one.index
        )
        start = next(starts, None)
        return (None, None) if start is None else (utf16_length(attribution.text[:start]), None)
    places: list[int] = []
    before = position = 0
    for event, size in zip(events, attribution.sizes, strict=False):
        if isinstance(event, TextDelta | ThinkingDelta) and event.index == one.index:
            after = before + len(event.text)
            # The event may have consumed markup before its text: the end of the call before it.
            shift = position + max(0, event.raw.rfind(event.text)) - before
            places += [
                min(wanted + shift, position + size)
                for wanted in (one.start, one.end - 1)[len(places) :]
                if wanted < after
            ]
            before = after
        position += size
    if len(places) < 2:  # noqa: PLR2004 - a start and an end
        return None, None
    start, end = places[0], places[1] + 1
    text = attribution.text
    return utf16_length(text[:start]), utf16_length(text[:end])


class _Trials:
    """Parses *text* with other options, each of them once."""

    def __init__(self, text: str, options: ModelOptions, tools: Sequence[Tool]) -> None:
        self._text = text
        self._options = options
        self._tools = tools
        self._results: dict[tuple[str, Any], set[str]] = {}

    def find(self, one: UnreadCall) -> dict[str, Any] | None:
        """Return the change of options that makes a call of *one*."""
        if len(self._text) > MAX_TRIED:
            return None
        for name, value in self._list_changes(one):
            if one.name in self._read(name, value):
                return {name: value}
        return None

    def _list_changes(self, one: UnreadCall) -> list[tuple[str, Any]]:
        own = [("format", one.format)] if one.format else []
        changes: dict[str, list[tuple[str, Any]]] = {
            "not_offered": own,
            "other_format": [("format", "auto"), *own],
            "in_code": [("fenced", "calls")],
            "in_reasoning": [("reasoning", "none")],
            "broken": [("repair", True), *own],
            "cut": [("repair", True)],
        }
        return changes.get(one.reason, [])

    def _read(self, name: str, value: Any) -> set[str]:
        """Return the names of the tools that are called with one option changed."""
        key = (name, value)
        if key not in self._results:
            try:
                options = change_options(self._options, {name: value})
                events = read_text([self._text], options, self._tools).events
            except PenstockError:
                events = []
            calls = [event.call for event in events if isinstance(event, ToolCallEnd)]
            self._results[key] = {call.name for call in calls if call.complete}
        return self._results[key]
