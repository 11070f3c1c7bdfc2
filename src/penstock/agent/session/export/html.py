"""A session as one page of HTML: no script, nothing loaded, every word escaped."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from penstock.agent.session.entries import Header
from penstock.agent.session.export.story import Chapter, Kind, Part, Passage, moment, story, used
from penstock.agent.session.export.visible import one_line, visible
from penstock.agent.session.tree import Tree, usage

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

_TITLES: Final[dict[Kind, str]] = {
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
    body = [*_top(title, header, tree)]
    for chapter in story(tree, leaf, whole=whole):
        body += _chapter(chapter)
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


def _top(title: str, header: Header | None, tree: Tree) -> Iterator[str]:
    yield f"<h1>{_line(title)}</h1>"
    facts = {"Tokens": used(usage(tree.entries))}
    if header is not None:
        facts = {"Session": header.id, "Begun": moment(header.created)} | facts
        facts |= {"Folder": header.cwd, "Forked from": header.parent}
    rows = (f"<dt>{name}</dt><dd>{_line(fact)}</dd>" for name, fact in facts.items() if fact)
    yield f"<dl>{''.join(rows)}</dl>"


def _chapter(chapter: Chapter) -> Iterator[str]:
    if chapter.heading:
        yield f"<h2>{_line(chapter.heading)}</h2>"
    for passage in chapter.passages:
        yield from _passage(passage)


def _passage(passage: Passage) -> Iterator[str]:
    facts = " · ".join(filter(None, map(_line, [passage.time, *passage.notes])))
    yield f'<section class="{_line(passage.who.lower())}" id="entry-{_line(passage.id)}">'
    yield f"<h3>{_line(passage.who)} <small>{facts}</small></h3>"
    for part in passage.parts:
        yield from _part(part)
    yield "</section>"


def _part(part: Part) -> Iterator[str]:
    title = " ".join(filter(None, [_TITLES[part.kind], _line(part.title)]))
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
