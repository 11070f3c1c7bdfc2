"""What a session tells, in order: chapters of passages of parts, for whoever lays them out.

The first chapter is the way to the leaf. Where all of a session is told, each other branch is a
chapter that begins where the branch leaves what was told already.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final, Literal

import msgspec
from msgspec import Struct, field

from penstock.agent.session.entries import (
    CompactionEntry,
    CustomEntry,
    Entry,
    FindingEntry,
    Foreign,
    Header,
    LabelEntry,
    MessageEntry,
    ModelEntry,
    TitleEntry,
    ToolEndEntry,
    ToolStartEntry,
)
from penstock.agent.session.tree import Tree, usage
from penstock.agent.text import one_line, visible
from penstock.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall, ToolResult, Usage
from penstock.request import Image, Message, Source, SystemMessage, UserMessage

_SPEAKERS: Final[dict[Source, str]] = {
    "": "User",
    "rule": "Reminder of a rule",
    "guard": "Reminder of a guard",
    "summary": "Summary",
}
"""Who speaks in a user's message."""

Kind = Literal["text", "thinking", "call", "result", "error", "summary", "data"]
"""What a part is: it decides how it looks, and whether it is folded."""


class ExportPart(Struct, frozen=True):
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
    parts: list[ExportPart] = field(default_factory=list)


class Chapter(Struct, frozen=True):
    """A stretch of a session without a fork; the first one has no *heading*."""

    heading: str
    passages: list[Passage]


def story(tree: Tree, leaf: str = "", *, whole: bool = False) -> list[Chapter]:
    """Return the way to *leaf*, or to the last entry; and all other ways if it is the *whole*."""
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
    """Return what answers took, in words."""
    counts = {
        "in": usage.input,
        "out": usage.output,
        "from the cache": usage.cache_read,
        "into the cache": usage.cache_write,
    }
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


def moment(seconds: float) -> str:
    """Return a time as people read it; empty for one that never was."""
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
    """Yield *entries* from the last to the first, without results that a later message tells."""
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


def _told(entry: Entry) -> tuple[str, list[str], list[ExportPart]]:
    match entry:
        case MessageEntry():
            who, notes, parts = _said(entry.message)
            return who, notes if entry.kept else [*notes, "left out of the context"], parts
        case ToolStartEntry() | ToolEndEntry():
            return _ran(entry)
        case CompactionEntry():
            notes = [f"{entry.tokens:,} tokens before"] if entry.tokens else []
            return "Summed up", notes, [ExportPart("summary", entry.summary)]
        case FindingEntry():
            return "Finding", [entry.source, *entry.names], []
        case ModelEntry():
            return "Model", [entry.model], []
        case LabelEntry():
            return "Label", [entry.label, f"on {entry.target}"], []
        case TitleEntry():
            return "Title", [entry.title], []
        case CustomEntry():
            return "Note", [entry.name], [ExportPart("data", _json_text(entry.data))]
        case Foreign():
            text = entry.line.decode("utf-8", "replace")
            return "Unknown", [entry.kind], [ExportPart("data", text)]
        case _:
            return entry.type, [], []


def _ran(entry: ToolStartEntry | ToolEndEntry) -> tuple[str, list[str], list[ExportPart]]:
    if isinstance(entry, ToolEndEntry):
        return _said(entry.result)
    part = ExportPart("call", _json_text(entry.arguments), entry.name)
    return "Tool started", [entry.call, entry.approval], [part]


def _said(message: Message) -> tuple[str, list[str], list[ExportPart]]:
    match message:
        case SystemMessage():
            return "System", [], [ExportPart("text", message.text)]
        case UserMessage():
            return _SPEAKERS[message.source], [], list(_parts(message.content))
        case AssistantMessage():
            reason = message.stop_reason
            notes = [message.model, used(message.usage)]
            if reason not in (None, "stop", "tool_use"):
                notes.append(f"ended: {reason}")
            parts = list(_parts(message.content))
            if message.error is not None:
                parts.append(ExportPart("error", message.error.message, message.error.kind))
            return "Assistant", notes, parts
        case ToolResult():
            kind: Kind = "error" if message.is_error else "result"
            part = ExportPart(kind, _result_text(message.content), message.name)
            return "Tool", [message.id], [part]


def _parts(content: Iterable[object]) -> Iterator[ExportPart]:
    for block in content:
        match block:
            case Text():
                yield ExportPart("text", block.text)
            case Thinking():
                yield ExportPart("thinking", block.text)
            case ToolCall():
                title = block.name if block.complete else f"{block.name} (cut off)"
                yield ExportPart("call", _json_text(block.arguments), title)
            case Image():
                where = block.url or f"{len(block.data):,} characters of base64"
                yield ExportPart("data", where, f"image {block.media_type}".strip())
            case Opaque():
                yield ExportPart("data", _json_text(block.data), block.provider)


def _result_text(content: object) -> str:
    return content if isinstance(content, str) else _json_text(content)


def _json_text(value: object) -> str:
    """Write *value* as JSON that is easy on the eye; what has no such form as Python shows it."""
    try:
        return json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return object.__repr__(value)


# A session as one page of HTML: no script, nothing loaded, every word escaped.


MAX_OPEN: Final = 2_000
"""How many characters of a result or of data are shown unfolded: the talk should stay in sight."""

_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem;
  color: #1f2328; background: #fff; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 3rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; font-size: .9rem; }
dd { margin: 0; }
section { border-left: 3px solid #d0d7de; padding: .2rem 0 .2rem 1rem; margin: 1.2rem 0; }
section.user { border-color: #0969da; } section.assistant { border-color: #1a7f37; }
h3 { font-size: .95rem; margin: 0; }
small { color: #59636e; font-weight: normal; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .5rem 0; font: inherit; }
pre.call, pre.result, pre.error, pre.data { font: .85rem/1.45 ui-monospace, monospace;
  background: #f6f8fa; padding: .6rem; border-radius: 6px; }
pre.error { background: #ffebe9; } pre.thinking, pre.summary { color: #59636e; }
summary, p.what { font-size: .85rem; color: #59636e; margin: .5rem 0 0; }
@media (prefers-color-scheme: dark) {
  body { color: #d1d7e0; background: #151b23; } section { border-color: #3d444d; }
  pre.call, pre.result, pre.data { background: #212830; } pre.error { background: #4a2324; }
  small, summary, p.what, pre.thinking, pre.summary { color: #9198a1; }
}
"""

_HTML_TITLES: Final[dict[Kind, str]] = {
    "thinking": "Thinking",
    "call": "Calls",
    "result": "Result of",
    "error": "Error",
    "data": "",
    "summary": "Summary",
    "text": "",
}


def to_html(header: Header | None, tree: Tree, *, leaf: str = "", whole: bool = False) -> str:
    """Write the way to *leaf* (the last entry, if none is named), or the *whole* session."""
    title = tree.title or (header.title if header is not None else "") or "Session"
    body = [*_html_top(title, header, tree)]
    for chapter in story(tree, leaf, whole=whole):
        body += _html_turn(chapter)
    return _page(_line(title), "\n".join(body))


def _page(title: str, body: str) -> str:
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
{body}
</body>
</html>
"""


def _html_top(title: str, header: Header | None, tree: Tree) -> Iterator[str]:
    yield f"<h1>{_line(title)}</h1>"
    facts = {"Tokens": used(usage(tree.entries))}
    if header is not None:
        facts = {"Session": header.id, "Begun": moment(header.created)} | facts
        facts |= {"Folder": header.cwd, "Forked from": header.parent}
    rows = (f"<dt>{name}</dt><dd>{_line(fact)}</dd>" for name, fact in facts.items() if fact)
    yield f"<dl>{''.join(rows)}</dl>"


def _html_turn(chapter: Chapter) -> Iterator[str]:
    if chapter.heading:
        yield f"<h2>{_line(chapter.heading)}</h2>"
    for passage in chapter.passages:
        yield from _html_block(passage)


def _html_block(passage: Passage) -> Iterator[str]:
    facts = " · ".join(filter(None, map(_line, [passage.time, *passage.notes])))
    yield f'<section class="{_line(passage.who.lower())}" id="entry-{_line(passage.id)}">'
    yield f"<h3>{_line(passage.who)} <small>{facts}</small></h3>"
    for part in passage.parts:
        yield from _html_part(part)
    yield "</section>"


def _html_part(part: ExportPart) -> Iterator[str]:
    title = " ".join(filter(None, [_HTML_TITLES[part.kind], _line(part.title)]))
    text = f'<pre class="{part.kind}">{escape(visible(part.text))}</pre>'
    is_long = part.kind in ("result", "data") and len(part.text) > MAX_OPEN
    if part.kind == "thinking" or is_long:
        yield f"<details><summary>{title}</summary>{text}</details>"
        return
    if title:
        yield f'<p class="what">{title}</p>'
    yield text


def _line(text: str) -> str:
    return escape(one_line(text))


# A session as Markdown: what was said is in fences that nothing in it can close.


_TICKS: Final = re.compile("`+")
_LEAST: Final = 3

_MARKDOWN_TITLES: Final[dict[Kind, str]] = {
    "thinking": "Thinking",
    "call": "Call",
    "result": "Result",
    "error": "Error",
    "data": "",
    "summary": "",
    "text": "",
}
_LANGUAGES: Final[dict[Kind, str]] = {"call": "json", "data": "json"}


def to_markdown(header: Header | None, tree: Tree, *, leaf: str = "", whole: bool = False) -> str:
    """Write the way to *leaf* (the last entry, if none is named), or the *whole* session."""
    lines = list(_markdown_top(header, tree))
    for chapter in story(tree, leaf, whole=whole):
        lines += _markdown_turn(chapter)
    return "\n".join(lines) + "\n"


def _markdown_top(header: Header | None, tree: Tree) -> Iterator[str]:
    title = tree.title or (header.title if header is not None else "")
    yield f"# {_code(title) if title else 'Session'}"
    yield ""
    facts = {"Tokens": used(usage(tree.entries))}
    if header is not None:
        facts = {"Session": header.id, "Begun": moment(header.created)} | facts
        facts |= {"Folder": header.cwd, "Forked from": header.parent}
    yield from (f"- {name}: {_code(fact)}" for name, fact in facts.items() if fact)
    yield ""


def _markdown_turn(chapter: Chapter) -> Iterator[str]:
    if chapter.heading:
        yield from ("---", "", f"# {_code(chapter.heading)}", "")
    for passage in chapter.passages:
        yield from _markdown_block(passage)


def _markdown_block(passage: Passage) -> Iterator[str]:
    facts = [passage.time, *passage.notes]
    yield f"## {one_line(passage.who)}"
    yield ""
    yield " · ".join(filter(None, map(_code, [passage.id, *facts])))
    yield ""
    for part in passage.parts:
        yield from _markdown_part(part)


def _markdown_part(part: ExportPart) -> Iterator[str]:
    title = _MARKDOWN_TITLES[part.kind]
    if part.kind == "thinking":
        yield from (f"<details><summary>{title}</summary>", "")
        yield from _fenced(part.text)
        yield from ("</details>", "")
        return
    if title or part.title:
        yield " ".join(filter(None, [title, part.title and _code(part.title)]))
        yield ""
    yield from _fenced(part.text, _LANGUAGES.get(part.kind, ""))


def _fenced(text: str, language: str = "") -> Iterator[str]:
    shown = visible(text)
    longest = max(map(len, _TICKS.findall(shown)), default=0)
    fence = "`" * max(_LEAST, longest + 1)
    yield from (f"{fence}{language}", shown, fence, "")


def _code(text: str) -> str:
    """Quote *text* within a line."""
    shown = one_line(text)
    if not shown:
        return ""
    ticks = "`" * (max(map(len, _TICKS.findall(shown)), default=0) + 1)
    return f"{ticks} {shown} {ticks}" if "`" in shown else f"{ticks}{shown}{ticks}"
