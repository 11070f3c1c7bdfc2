"""Record the terminal of the README as an SVG: ``python docs/record_terminal.py``.

The commands run for real: a server whose model prints its calls as text (`local_server` of the
tests), a gateway in front of it, and the same request to both. Addresses and ids are replaced by
those that a reader sees, so the result is the same in every run; a test compares it with the file.
The lines appear one after the other. A viewer without animations shows all of them.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "images" / "terminal.svg"
sys.path.insert(0, str(ROOT / "tests"))

from doc_pages import GATEWAY, UPSTREAM, Page  # noqa: E402 - of the tests

COLUMNS = 98
CHARACTER = 8.4
"""The width of a character in pixels, at the size of the font."""
LINE = 20
PADDING = 20
SECONDS_PER_LINE = 0.35
SECONDS_PER_COMMAND = 1.2

REQUEST = {
    "model": "qwen3-coder:30b",
    "messages": [{"role": "user", "content": "What is the weather in Oslo?"}],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
            },
        }
    ],
}
SERVE = f"penstock serve --upstream http://localhost:{UPSTREAM}/v1"
ASK = "$ curl -s localhost:{}/v1/chat/completions --json @request.json | jq '.choices[0].message'"

STYLE = f"""
text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d6deeb;
  white-space: pre; }}
.prompt {{ fill: #7fdbca; }}
.comment {{ fill: #8b9bb4; }}
.text {{ fill: #f78c6c; }}
.call {{ fill: #addb67; }}
g {{ animation: appear {SECONDS_PER_LINE}s both; }}
@keyframes appear {{ from {{ opacity: 0; }} to {{ opacity: 1; }} }}
@media (prefers-reduced-motion: reduce) {{ g {{ animation: none; }} }}
"""


class Line(NamedTuple):
    """A line of the terminal, and its kind: the name of a class in `STYLE`."""

    text: str
    kind: str


def record() -> list[Line]:
    """Run the commands and return what the terminal shows."""
    page = f"<!-- servers -->\n```sh\n{SERVE}\n```\n"
    with tempfile.TemporaryDirectory() as folder:
        session = Page(page, Path(folder))
        with session.prepare():
            direct = _ask(session.localize(f"http://localhost:{UPSTREAM}"))
            through = _ask(session.localize(f"http://127.0.0.1:{GATEWAY}"))
    return [
        Line("# This model prints its tool calls as text:", "comment"),
        Line(ASK.format(UPSTREAM), "prompt"),
        *_colour(direct, r'  "content"', "text"),
        Line("", ""),
        Line("# Start penstock in another terminal:", "comment"),
        Line(f"$ {SERVE}", "prompt"),
        Line("", ""),
        Line("# Now the same request returns a real tool call:", "comment"),
        Line(ASK.format(GATEWAY), "prompt"),
        *_colour(through, r'  "tool_calls"|   +|  \]', "call"),
    ]


def render(lines: list[Line]) -> str:
    """Return the terminal as an SVG."""
    width = round(COLUMNS * CHARACTER + 2 * PADDING)
    height = len(lines) * LINE + 2 * PADDING + LINE
    box = f'width="{width}" height="{height}"'
    shown = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} viewBox="0 0 {width} {height}" role="img">',
        "<title>The same request to a model server and through penstock</title>",
        f"<style>{STYLE}</style>",
        f'<rect {box} rx="8" fill="#011627"/>',
        *(
            f'<circle cx="{PADDING + 20 * at}" cy="{PADDING}" r="6" fill="{colour}"/>'
            for at, colour in enumerate(("#ff5f56", "#ffbd2e", "#27c93f"))
        ),
    ]
    delay = 0.0
    for number, line in enumerate(lines, 1):
        delay += SECONDS_PER_COMMAND if line.kind in {"prompt", "comment"} else SECONDS_PER_LINE
        height_of_line = PADDING + LINE * (number + 1) - 6
        kind = f' class="{line.kind}"' if line.kind else ""
        shown.append(
            f'<g style="animation-delay: {delay:.2f}s"><text x="{PADDING}" y="{height_of_line}"'
            f"{kind}>{escape(line.text)}</text></g>"
        )
    return "\n".join([*shown, "</svg>", ""])


def _ask(address: str) -> str:
    """Send the request to *address*; return what the command with ``jq`` prints."""
    data = json.dumps(REQUEST).encode()
    head = {"content-type": "application/json"}
    with urlopen(Request(f"{address}/v1/chat/completions", data, head)) as response:  # noqa: S310
        message: dict[str, Any] = json.load(response)["choices"][0]["message"]
    written = json.dumps(message, indent=2, ensure_ascii=False)
    return re.sub(r'"id": "call_\w+"', '"id": "call_1"', written)


def _colour(text: str, pattern: str, kind: str) -> list[Line]:
    """Break *text* as a terminal does; lines that begin with *pattern* are of the *kind*."""
    lines = []
    for line in text.splitlines():
        found = kind if re.match(pattern, line) else ""
        lines += [Line(line[at : at + COLUMNS], found) for at in range(0, len(line), COLUMNS)]
    return lines


if __name__ == "__main__":
    FILE.write_text(render(record()))
