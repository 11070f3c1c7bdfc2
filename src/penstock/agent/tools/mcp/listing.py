"""The tools that a server lists, page by page, and the names by which a model knows them.

A list need not be honest: pages may be empty, go round in a circle or never end. So the pages and
the tools are both counted, and a place in the list that was shown before is not gone to again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import Tool as OfferedTool

MAX_TOOLS: Final = 1000
"""How many tools of one server are listed: a list that never ends must end here."""

MAX_PAGES: Final = 200
"""How many pages are asked for; servers put some dozens of tools on each."""

MAX_NAME: Final = 64
"""How long a tool's name may be for every provider."""

_UNLAWFUL: Final = re.compile(r"[^A-Za-z0-9_-]")


async def list_tools(client: Client) -> list[OfferedTool]:
    """Ask for all pages of the list, within the limits."""
    found: list[OfferedTool] = []
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        found.extend(page.tools)
        cursor = page.next_cursor
        if not cursor or cursor in seen or len(found) >= MAX_TOOLS:
            break
        seen.add(cursor)
    return found[:MAX_TOOLS]


def lawful_names(names: list[str], prefix: str = "") -> list[str]:
    """Make names that every provider takes, each another; MCP allows dots, slashes and length.

    One of which nothing is left is called `tool_N`, by its place in the list.
    """
    taken: dict[str, None] = {}  # in order
    for place, name in enumerate(names, 1):
        kept = _UNLAWFUL.sub("_", name)
        if not kept.strip("_-"):
            kept = f"tool_{place}"
        lawful = plain = (_UNLAWFUL.sub("_", prefix) + kept)[:MAX_NAME]
        count = 1
        while lawful in taken:
            count += 1
            ending = f"_{count}"
            lawful = plain[: MAX_NAME - len(ending)] + ending
        taken[lawful] = None
    return list(taken)
