"""An MCP server of the old kind, by hand: quick to start, and bad in the way that it is told to be.

The first argument says how: `good`, `dies` in its first call, `hangs` in it, `stubborn` (does not
end when it should), `twins` (two tools of one name), `endless` (a list of tools without an end),
`hollow` (empty pages without an end), `circling` (pages that begin anew), `stalls` (lists its tools
once only), `raves` (fails at length), `babbles` (prints what is no JSON), `silent` (answers
nothing).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

KIND = sys.argv[1]
tools = ["tide", "wind.gust"]
seen: list[str] = []


def say(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)  # noqa: T201 - that is its voice


def listed(cursor: str | None) -> dict[str, Any]:
    names = {"twins": ["a.b", "a_b"], "endless": [f"tool_{cursor}_{n}" for n in range(400)]}
    found = [
        {"name": name, "description": f"Tell the {name}.", "inputSchema": {"type": "object"}}
        for name in names.get(KIND, tools)
    ]
    page = str(int(cursor or 0) + 1)
    if KIND in {"hollow", "circling"}:
        return {"tools": [], "nextCursor": page if KIND == "hollow" else str(int(page) % 2)}
    return {"tools": found} | ({"nextCursor": page} if KIND == "endless" else {})


def call(number: Any) -> None:
    if KIND == "dies":
        os._exit(3)
    if KIND == "raves":
        say(id=number, error={"code": -32000, "message": "no " * 100_000})
        return
    if KIND != "hangs":
        tools.append("grown")
        say(method="notifications/tools/list_changed")
        say(id=number, result={"content": [{"type": "text", "text": str(os.getpid())}]})


def answer(message: dict[str, Any]) -> None:
    number, method = message.get("id"), message.get("method")
    if method == "initialize":
        say(
            id=number,
            result={
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "script", "version": "1"},
            },
        )
    elif method == "tools/list":
        if KIND == "stalls" and seen:
            return
        seen.append(method)
        say(id=number, result=listed((message.get("params") or {}).get("cursor")))
    elif method == "tools/call":
        call(number)
    elif number is not None:
        say(id=number, error={"code": -32601, "message": "no such method"})


def main() -> None:
    if KIND == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if KIND == "babbles":
        print("hello, this is no JSON", flush=True)  # noqa: T201
    for line in sys.stdin:
        if KIND != "silent":
            answer(json.loads(line))
    while KIND == "stubborn":
        signal.pause()


if __name__ == "__main__":
    main()
