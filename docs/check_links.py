"""Check the links of the documentation: ``python docs/check_links.py docs/_build/html``.

Every link inside the built pages has to lead to a page, and its fragment to an element of that
page. The Markdown files beside ``docs`` are checked too: they are read on the repository's own
site, where an anchor is made from a heading. Nothing is fetched, so links to other sites are not
checked. The exit status is 1 if a link is dead.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

ROOT = Path(__file__).parents[1]

_LINK = re.compile(r"\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_LABEL = re.compile(r"^\(([\w-]+)\)=$", re.MULTILINE)
_FENCE = re.compile(r"^(```+|~~~+).*?^\1 *$", re.MULTILINE | re.DOTALL)


class _Page(HTMLParser):
    """The links of one page, and the fragments that lead into it."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fragments: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what an element links to, and its id."""
        for name, value in attrs:
            if not value:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.fragments.add(value)
            elif (tag == "a" and name == "href") or (tag in {"img", "script"} and name == "src"):
                self.links.append(value)


@cache
def _read_page(file: Path) -> _Page:
    page = _Page()
    page.feed(file.read_text())
    page.close()
    return page


def check_html(folder: Path) -> Iterator[str]:
    """Yield each dead link in the built pages under *folder*."""
    for file in sorted(folder.rglob("*.html")):
        for link in _read_page(file).links:
            if not _is_internal(link):
                continue
            path, fragment = urldefrag(link)
            target = (file.parent / unquote(urlsplit(path).path)).resolve() if path else file
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                yield f"{file.relative_to(folder)}: {link} leads to no file"
            elif (
                fragment
                and target.suffix == ".html"
                and unquote(fragment) not in _read_page(target).fragments
            ):
                yield f"{file.relative_to(folder)}: {link} leads to no anchor"


def check_markdown(file: Path) -> Iterator[str]:
    """Yield each dead link in a Markdown file."""
    for link in _LINK.findall(_FENCE.sub("", file.read_text())):
        if not _is_internal(link):
            continue
        path, fragment = urldefrag(link)
        target = file.parent / unquote(path) if path else file
        if not target.exists():
            yield f"{file.name}: {link} leads to no file"
        elif fragment and target.suffix == ".md" and fragment not in find_anchors(target):
            yield f"{file.name}: {link} leads to no anchor"


def find_anchors(file: Path) -> set[str]:
    """Return the anchors of a Markdown file: those of its headings, and MyST's ``(label)=``."""
    text = _FENCE.sub("", file.read_text())
    return {*map(_make_anchor, _HEADING.findall(text)), *_LABEL.findall(text)}


def _make_anchor(heading: str) -> str:
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")


def _is_internal(link: str) -> bool:
    parts = urlsplit(link)
    return not parts.scheme and not parts.netloc


def main(folder: Path) -> int:
    """Print the dead links, and return the exit status."""
    dead = [*check_html(folder)]
    for file in sorted(ROOT.glob("*.md")):
        dead += check_markdown(file)
    sys.stdout.writelines(f"{line}\n" for line in dead)
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
