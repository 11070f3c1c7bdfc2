"""Responses for the tests of batch jobs: calls, text, and what is not a call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TOOLS: list[dict[str, Any]] = [
    {
        "name": "write_file",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "mode": {"type": "integer"}},
        },
    }
]

RESPONSES: list[tuple[str, str]] = [
    ("Plain text, and nothing else.", "text"),
    ('On it.\n<tool_call>{"name": "write_file", "arguments": {"path": "å"}}</tool_call>', "calls"),
    (
        "<think>Two.</think><function=write_file><parameter=mode>7</parameter></function>",
        "calls",
    ),
    ('<tool_call>{"name": "send_mail", "arguments": {}}</tool_call>', "unread"),
    ('<tool_call>{"name": "write_file", "arguments": {"path": "a', "unread"),
    ("", "text"),
]
"""Responses, and the outcome of each with `TOOLS` under `auto`."""


def write_lines(path: Path, rows: int) -> list[dict[str, Any]]:
    """Write *rows* responses to *path*, one on each line, and return them."""
    fields = [{"id": at, "response": RESPONSES[at % len(RESPONSES)][0]} for at in range(rows)]
    path.write_text("".join(json.dumps(one) + "\n" for one in fields))
    return fields


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects in the lines of *path*."""
    return [json.loads(line) for line in path.read_text().splitlines()]
