"""Sessions as Markdown and HTML.

The first section is the path to the leaf. If the whole session is exported, each other branch is a
section that begins where it leaves the entries shown before.

All text is untrusted. Control characters are shown as escapes. In HTML everything is escaped, the
page has no script and loads nothing. In Markdown text is in fences that nothing in it can close.
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
from penstock.agent.session.tree import Tree, sum_entry_usage
from penstock.debug import escape_controls
from penstock.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall, ToolResult, Usage
from penstock.request import Image, Message, Source, SystemMessage, UserMessage

MAX_OPEN: Final = 2_000
"""How many characters of a result or of data HTML shows unfolded: the dialogue stays visible."""

# The speaker of a user message, by its source.
_SPEAKERS: Final[dict[Source, str]] = {
    "": "User",
    "rule": "Reminder of a rule",
    "guard": "Reminder of a guard",
    "summary": "Summary",
    "output": "Faults of the output",
}

Kind = Literal["text", "thinking", "call", "result", "error", "summary", "data"]
"""The kind of a block, which decides how it is shown and whether it is folded."""


class ExportBlock(Struct, frozen=True):
    """A block of an entry, with a *title* if it needs one."""

    kind: Kind
    text: str
    title: str = ""


class ExportEntry(Struct, frozen=True):
    """One entry: its *speaker*, *notes* about it, and its *blocks*."""

    id: str
    speaker: str
    time: str = ""
    notes: list[str] = field(default_factory=list)
    blocks: list[ExportBlock] = field(default_factory=list)


class ExportSection(Struct, frozen=True):
    """A part of a session without a fork; the first one has no *heading*."""

    heading: str
    entries: list[ExportEntry]


def list_sections(tree: Tree, leaf: str = "", *, whole: bool = False) -> list[ExportSection]:
    """Return the path to *leaf*, by default the last entry; if *whole*, all other branches too."""
    path = tree.path(leaf or tree.last)
    sections = [ExportSection("", _read_entries(path))]
    shown = {entry.id for entry in path}
    for branch in tree.branches() if whole else ():
        path = tree.path(branch.leaf)
        own = [entry for entry in path if entry.id not in shown]
        if not own:
            continue
        shown.update(entry.id for entry in own)
        common = len(path) - len(own)
        heading = f"Branch after {path[common - 1].id}" if common else "Branch from the beginning"
        heading += f" ({branch.label})" if branch.label else ""
        sections.append(ExportSection(heading, _read_entries(own)))
    return sections


def _read_entries(entries: Sequence[Entry]) -> list[ExportEntry]:
    """Read *entries*, without early results that a later message repeats."""
    read: list[ExportEntry] = []
    later: Counter[str] = Counter()
    for entry in reversed(entries):
        match entry:
            case MessageEntry(message=ToolResult(id=id_)):
                later[id_] += 1
            case ToolEndEntry(result=ToolResult(id=id_)) if later[id_]:
                later[id_] -= 1
                continue
        speaker, notes, blocks = _read_entry(entry)
        time_ = format_time(entry.time)
        read.append(ExportEntry(entry.id, speaker, time_, [*filter(None, notes)], blocks))
    return read[::-1]


def _read_entry(entry: Entry) -> tuple[str, list[str], list[ExportBlock]]:
    match entry:
        case MessageEntry():
            speaker, notes, blocks = _read_message(entry.message)
            return speaker, notes if entry.kept else [*notes, "not in the context"], blocks
        case ToolStartEntry():
            block = ExportBlock("call", _render_json(entry.arguments), entry.name)
            return "Tool started", [entry.call, entry.approval], [block]
        case ToolEndEntry():
            return _read_message(entry.result)
        case CompactionEntry():
            notes = [f"{entry.tokens:,} tokens before"] if entry.tokens else []
            return "Summarized", notes, [ExportBlock("summary", entry.summary)]
        case CustomEntry():
            return "Note", [entry.name], [ExportBlock("data", _render_json(entry.data))]
        case Foreign():
            text = entry.line.decode("utf-8", "replace")
            return "Unknown", [entry.kind], [ExportBlock("data", text)]
    return *_read_notes(entry), []


def _read_notes(entry: Entry) -> tuple[str, list[str]]:
    match entry:
        case FindingEntry():
            return "Finding", [entry.source, *entry.names]
        case ModelEntry():
            return "Model", [entry.model]
        case LabelEntry():
            return "Label", [entry.label, f"on {entry.target}"]
        case TitleEntry():
            return "Title", [entry.title]
    return entry.type, []


def _read_message(message: Message) -> tuple[str, list[str], list[ExportBlock]]:
    match message:
        case SystemMessage():
            return "System", [], [ExportBlock("text", message.text)]
        case UserMessage():
            return _SPEAKERS[message.source], [], list(_read_blocks(message.content))
        case AssistantMessage():
            notes = [message.model, format_usage(message.usage)]
            if message.stop_reason not in (None, "stop", "tool_use"):
                notes.append(f"ended: {message.stop_reason}")
            blocks = list(_read_blocks(message.content))
            if message.error is not None:
                blocks.append(ExportBlock("error", message.error.message, message.error.kind))
            return "Assistant", notes, blocks
        case ToolResult(content=content):
            text = content if isinstance(content, str) else _render_json(content)
            kind: Kind = "error" if message.is_error else "result"
            return "Tool", [message.id], [ExportBlock(kind, text, message.name)]


def _read_blocks(content: Iterable[object]) -> Iterator[ExportBlock]:
    for block in content:
        match block:
            case Text():
                yield ExportBlock("text", block.text)
            case Thinking():
                yield ExportBlock("thinking", block.text)
            case ToolCall():
                title = block.name if block.complete else f"{block.name} (cut off)"
                yield ExportBlock("call", _render_json(block.arguments), title)
            case Image():
                source = block.url or f"{len(block.data):,} characters of base64"
                yield ExportBlock("data", source, f"image {block.media_type}".strip())
            case Opaque():
                yield ExportBlock("data", _render_json(block.data), block.provider)


def _render_json(value: object) -> str:
    """Render *value* as indented JSON, or as Python prints it if it has no JSON form."""
    try:
        return json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False)
    except (TypeError, ValueError, OverflowError, RecursionError):
        # The value's own `__repr__` may raise.
        return object.__repr__(value)


def format_usage(usage: Usage) -> str:
    """Return token counts as text, without those that are zero."""
    counts = {
        "in": usage.input,
        "out": usage.output,
        "from the cache": usage.cache_read,
        "into the cache": usage.cache_write,
    }
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


def format_time(seconds: float) -> str:
    """Return a time in UTC; empty for 0 and for times that do not exist."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds)) if seconds else ""
    except (OverflowError, ValueError, OSError):
        return ""


def _list_facts(header: Header | None, tree: Tree) -> dict[str, str]:
    facts = {"Tokens": format_usage(sum_entry_usage(tree.entries))}
    if header is not None:
        facts = {"Session": header.id, "Begun": format_time(header.created)} | facts
        facts |= {"Folder": header.cwd, "Forked from": header.parent}
    return {name: fact for name, fact in facts.items() if fact}


def _find_title(header: Header | None, tree: Tree) -> str:
    return tree.title or (header.title if header is not None else "")


def _show(text: str) -> str:
    return escape_controls(text.replace("\r\n", "\n"), "\n\t")


def _show_line(text: str) -> str:
    return " ".join(_show(text).split())


# --- HTML ---


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
    "summary": "Summary",
}


def to_html(header: Header | None, tree: Tree, *, leaf: str = "", whole: bool = False) -> str:
    """Render the path to *leaf* (by default the last entry), or the *whole* session."""
    title = _escape_line(_find_title(header, tree) or "Session")
    facts = _list_facts(header, tree).items()
    rows = "".join(f"<dt>{name}</dt><dd>{_escape_line(fact)}</dd>" for name, fact in facts)
    body = [f"<h1>{title}</h1>", f"<dl>{rows}</dl>"]
    for section in list_sections(tree, leaf, whole=whole):
        if section.heading:
            body.append(f"<h2>{_escape_line(section.heading)}</h2>")
        for entry in section.entries:
            body += _render_html_entry(entry)
    # The page has text of models and tools. Should escaping ever fail, the browser runs no script
    # and loads nothing.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    lines = "\n".join(body)
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
{lines}
</body>
</html>
"""


def _render_html_entry(entry: ExportEntry) -> Iterator[str]:
    facts = " · ".join(filter(None, map(_escape_line, [entry.time, *entry.notes])))
    kind = _escape_line(entry.speaker.lower())
    yield f'<section class="{kind}" id="entry-{_escape_line(entry.id)}">'
    yield f"<h3>{_escape_line(entry.speaker)} <small>{facts}</small></h3>"
    for block in entry.blocks:
        title = " ".join(filter(None, [_HTML_TITLES.get(block.kind), _escape_line(block.title)]))
        text = f'<pre class="{block.kind}">{escape(_show(block.text))}</pre>'
        # `details` folds without a script.
        is_long = block.kind in ("result", "data") and len(block.text) > MAX_OPEN
        if block.kind == "thinking" or is_long:
            yield f"<details><summary>{title}</summary>{text}</details>"
        else:
            yield f'<p class="what">{title}</p>\n{text}' if title else text
    yield "</section>"


def _escape_line(text: str) -> str:
    return escape(_show_line(text))


# --- Markdown ---


_TICKS: Final = re.compile("`+")
_MIN_FENCE: Final = 3

_MARKDOWN_TITLES: Final[dict[Kind, str]] = {"call": "Call", "result": "Result", "error": "Error"}
_LANGUAGES: Final[dict[Kind, str]] = {"call": "json", "data": "json"}


def to_markdown(header: Header | None, tree: Tree, *, leaf: str = "", whole: bool = False) -> str:
    """Render the path to *leaf* (by default the last entry), or the *whole* session."""
    lines = [f"# {_quote(_find_title(header, tree)) or 'Session'}", ""]
    lines += [f"- {name}: {_quote(fact)}" for name, fact in _list_facts(header, tree).items()]
    lines.append("")
    for section in list_sections(tree, leaf, whole=whole):
        if section.heading:
            lines += ["---", "", f"# {_quote(section.heading)}", ""]
        for entry in section.entries:
            facts = " · ".join(filter(None, map(_quote, [entry.id, entry.time, *entry.notes])))
            lines += [f"## {_show_line(entry.speaker)}", "", facts, ""]
            for block in entry.blocks:
                lines += _render_markdown_block(block)
    return "\n".join(lines) + "\n"


def _render_markdown_block(block: ExportBlock) -> Iterator[str]:
    title = " ".join(filter(None, [_MARKDOWN_TITLES.get(block.kind), _quote(block.title)]))
    if block.kind == "thinking":
        yield from ("<details><summary>Thinking</summary>", "")
    elif title:
        yield from (title, "")
    text = _show(block.text)
    # CommonMark: a fence is closed only by one that is at least as long.
    fence = "`" * max(_MIN_FENCE, _longest_ticks(text) + 1)
    yield from (f"{fence}{_LANGUAGES.get(block.kind, '')}", text, fence, "")
    if block.kind == "thinking":
        yield from ("</details>", "")


def _quote(text: str) -> str:
    """Return *text* as inline code; empty text stays empty."""
    line = _show_line(text)
    if not line:
        return ""
    # CommonMark: a code span ends at a run of backticks of the same length.
    ticks = "`" * (_longest_ticks(line) + 1)
    return f"{ticks} {line} {ticks}" if "`" in line else f"{ticks}{line}{ticks}"


def _longest_ticks(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)
