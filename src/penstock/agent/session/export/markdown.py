"""A session as Markdown: what was said stands in fences that nothing in it can close."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from penstock.agent.session.entries import Header
from penstock.agent.session.export.story import Chapter, Kind, Part, Passage, moment, story, used
from penstock.agent.session.export.visible import one_line, visible
from penstock.agent.session.tree import Tree, usage

_TICKS: Final = re.compile("`+")
_LEAST: Final = 3

_TITLES: Final[dict[Kind, str]] = {
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
    lines = list(_top(header, tree))
    for chapter in story(tree, leaf, whole=whole):
        lines += _chapter(chapter)
    return "\n".join(lines) + "\n"


def _top(header: Header | None, tree: Tree) -> Iterator[str]:
    title = tree.title or (header.title if header is not None else "")
    yield f"# {_code(title) if title else 'Session'}"
    yield ""
    facts = {"Tokens": used(usage(tree.entries))}
    if header is not None:
        facts = {"Session": header.id, "Begun": moment(header.created)} | facts
        facts |= {"Folder": header.cwd, "Forked from": header.parent}
    yield from (f"- {name}: {_code(fact)}" for name, fact in facts.items() if fact)
    yield ""


def _chapter(chapter: Chapter) -> Iterator[str]:
    if chapter.heading:
        yield from ("---", "", f"# {_code(chapter.heading)}", "")
    for passage in chapter.passages:
        yield from _passage(passage)


def _passage(passage: Passage) -> Iterator[str]:
    facts = [passage.time, *passage.notes]
    yield f"## {one_line(passage.who)}"
    yield ""
    yield " · ".join(filter(None, map(_code, [passage.id, *facts])))
    yield ""
    for part in passage.parts:
        yield from _part(part)


def _part(part: Part) -> Iterator[str]:
    title = _TITLES[part.kind]
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
