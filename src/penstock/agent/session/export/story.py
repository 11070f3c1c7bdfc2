"""What a session tells, in order: chapters of passages of parts, for whoever lays them out.

The first chapter is the way to the leaf. Where all of a session is told, each other branch is a
chapter that begins where the branch leaves what was told already.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

import msgspec
from msgspec import Struct, field

from penstock.agent.session.entries import (
    CompactionEntry,
    CustomEntry,
    Entry,
    FindingEntry,
    Foreign,
    LabelEntry,
    MessageEntry,
    ModelEntry,
    TitleEntry,
    ToolEndEntry,
    ToolStartEntry,
)
from penstock.agent.session.tree import Tree
from penstock.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall, ToolResult, Usage
from penstock.requests import Image, Message, Source, SystemMessage, UserMessage

_SPEAKERS: Final[dict[Source, str]] = {
    "": "User",
    "rule": "Reminder of a rule",
    "guard": "Reminder of a guard",
    "summary": "Summary",
}
"""Who speaks in a user's message."""

Kind = Literal["text", "thinking", "call", "result", "error", "summary", "data"]
"""What a part is: it decides how it looks, and whether it is folded."""


class Part(Struct, frozen=True):
    """A piece of what was said, with a *title* where it needs one."""

    kind: Kind
    text: str
    title: str = ""


class Passage(Struct, frozen=True):
    """What one entry tells: *who* speaks, what is to be known of it, and what is said."""

    id: str
    who: str
    time: str = ""
    notes: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)


class Chapter(Struct, frozen=True):
    """A stretch of a session without a fork; the first one has no *heading*."""

    heading: str
    passages: list[Passage]


def story(tree: Tree, leaf: str = "", *, whole: bool = False) -> list[Chapter]:
    """Tell the way to *leaf*, or to the last entry; and all other ways if it is the *whole*."""
    path = tree.path(leaf or tree.last)
    chapters = [Chapter("", _passages(path))]
    told = {entry.id for entry in path}
    for branch in tree.branches() if whole else ():
        way = tree.path(branch.leaf)
        own = [entry for entry in way if entry.id not in told]
        if own:
            told.update(entry.id for entry in own)
            chapters.append(Chapter(_heading(way, own, branch.label), _passages(own)))
    return chapters


def used(usage: Usage) -> str:
    """Tell what answers took, in words."""
    counts = {
        "in": usage.input,
        "out": usage.output,
        "from the cache": usage.cache_read,
        "into the cache": usage.cache_write,
    }
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


def moment(seconds: float) -> str:
    """Give a time as people read it; empty for one that never was."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds)) if seconds else ""
    except (OverflowError, ValueError, OSError):
        return ""


def _heading(way: list[Entry], own: list[Entry], label: str) -> str:
    before = len(way) - len(own)
    name = f" ({label})" if label else ""
    return f"Branch behind {way[before - 1].id}{name}" if before else f"Branch from nothing{name}"


def _passages(entries: Sequence[Entry]) -> list[Passage]:
    return [_passage(entry) for entry in reversed(list(_told_once(entries)))]


def _told_once(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Give *entries* from the last to the first, without results that a later message tells."""
    later: Counter[str] = Counter()
    for entry in reversed(entries):
        match entry:
            case MessageEntry(message=ToolResult(id=id_)):
                later[id_] += 1
            case ToolEndEntry(result=ToolResult(id=id_)) if later[id_]:
                later[id_] -= 1
                continue
        yield entry


def _passage(entry: Entry) -> Passage:
    who, notes, parts = _told(entry)
    return Passage(entry.id, who, moment(entry.time), [note for note in notes if note], parts)


def _told(entry: Entry) -> tuple[str, list[str], list[Part]]:
    match entry:
        case MessageEntry():
            who, notes, parts = _said(entry.message)
            return who, notes if entry.kept else [*notes, "left out of the context"], parts
        case ToolStartEntry() | ToolEndEntry():
            return _ran(entry)
        case CompactionEntry():
            notes = [f"{entry.tokens:,} tokens before"] if entry.tokens else []
            return "Summed up", notes, [Part("summary", entry.summary)]
        case FindingEntry():
            return "Finding", [entry.source, *entry.names], []
        case ModelEntry():
            return "Model", [entry.model], []
        case LabelEntry():
            return "Label", [entry.label, f"on {entry.target}"], []
        case TitleEntry():
            return "Title", [entry.title], []
        case CustomEntry():
            return "Note", [entry.name], [Part("data", _json_text(entry.data))]
        case Foreign():
            text = entry.line.decode("utf-8", "replace")
            return "Unknown", [entry.kind], [Part("data", text)]
        case _:
            return entry.type, [], []


def _ran(entry: ToolStartEntry | ToolEndEntry) -> tuple[str, list[str], list[Part]]:
    if isinstance(entry, ToolEndEntry):
        return _said(entry.result)
    part = Part("call", _json_text(entry.arguments), entry.name)
    return "Tool started", [entry.call, entry.approval], [part]


def _said(message: Message) -> tuple[str, list[str], list[Part]]:
    match message:
        case SystemMessage():
            return "System", [], [Part("text", message.text)]
        case UserMessage():
            return _SPEAKERS[message.source], [], list(_parts(message.content))
        case AssistantMessage():
            reason = message.stop_reason
            notes = [message.model, used(message.usage)]
            if reason not in (None, "stop", "tool_use"):
                notes.append(f"ended: {reason}")
            parts = list(_parts(message.content))
            if message.error is not None:
                parts.append(Part("error", message.error.message, message.error.kind))
            return "Assistant", notes, parts
        case ToolResult():
            kind: Kind = "error" if message.is_error else "result"
            part = Part(kind, _result_text(message.content), message.name)
            return "Tool", [message.id], [part]


def _parts(content: Iterable[object]) -> Iterator[Part]:
    for block in content:
        match block:
            case Text():
                yield Part("text", block.text)
            case Thinking():
                yield Part("thinking", block.text)
            case ToolCall():
                title = block.name if block.complete else f"{block.name} (cut off)"
                yield Part("call", _json_text(block.arguments), title)
            case Image():
                where = block.url or f"{len(block.data):,} characters of base64"
                yield Part("data", where, f"image {block.media_type}".strip())
            case Opaque():
                yield Part("data", _json_text(block.data), block.provider)


def _result_text(content: object) -> str:
    return content if isinstance(content, str) else _json_text(content)


def _json_text(value: object) -> str:
    """Write *value* as JSON that is easy on the eye; what has no such form as Python shows it."""
    try:
        return json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return object.__repr__(value)
