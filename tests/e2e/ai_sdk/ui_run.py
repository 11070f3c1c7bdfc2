"""The AI SDK from npm talks to our agents: what a web page shows is what they said.

Node runs `ui_client.mjs`, whose chats are those of `useChat`, against agents over HTTP. For each
scene the page has to show what happened; every message has to pass the SDK's own check, and read
back it has to be the conversation that the agent keeps.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from e2e.ai_sdk.ui_scenes import LONG, SCENES
from e2e.ai_sdk.ui_server import Chats, chatting
from penstock.agent import Agent
from penstock.agent.ai_sdk_messages import read_ui_messages
from penstock.messages import AssistantMessage, ToolResult
from penstock.request import Message

HERE = Path(__file__).parent
RUN_SECONDS = 60
STOP_SECONDS = 10
Seen = dict[str, Any]


def compare_chats(node: str) -> int:
    """Let pages talk to every agent; give how many show something else than was said."""
    print("agents behind a web page:", flush=True)
    failed = 0
    with chatting() as (chats, address):
        for seen in talk(node, address):
            failed += not passes(seen, chats)
    return failed


def talk(node: str, address: str) -> list[Seen]:
    """Give what the page showed of each scene."""
    command = [node, str(HERE / "ui_client.mjs"), address, *SCENES]
    done = subprocess.run(
        command, cwd=HERE, stdout=subprocess.PIPE, text=True, timeout=RUN_SECONDS, check=True
    )
    return [json.loads(line) for line in done.stdout.rstrip("\n").split("\n")]


def passes(seen: Seen, chats: Chats) -> bool:
    """Check one scene; print a row for it."""
    name = seen["scene"]
    try:
        check(seen, chats.agents[name])
    except AssertionError as exc:
        print(f"{name:<16} FAILED: {exc}", flush=True)
        return False
    print(row(seen), flush=True)
    return True


def check(seen: Seen, agent: Agent) -> None:
    if "kinds" in seen:
        read(seen, agent)
        return
    same("what the SDK finds wrong", seen["problem"], "")
    CHECKS[seen["scene"]](seen)
    wait_for(agent)
    if seen["scene"] not in ("left", "error"):  # there the page stopped to look before the end
        same("what was said", plain(read_ui_messages(seen["messages"])), plain(agent.messages))


def row(seen: Seen) -> str:
    if "kinds" in seen:
        return f"{seen['scene']:<16} {len(seen['kinds']):>3} chunks"
    parts, end = len(seen["messages"][-1]["parts"]), seen["ends"][-1]
    return f"{seen['scene']:<16} {parts:>3} parts   {seen['status']:<8} {end.get('finishReason')}"


# --- scenes ---


def part(seen: Seen, kind: str) -> Seen:
    return next(one for one in seen["messages"][-1]["parts"] if one["type"] == kind)


def ended(seen: Seen, reason: str) -> None:
    same("the end", seen["ends"][-1].get("finishReason"), reason)
    same("the status", seen["status"], "ready")


def read(seen: Seen, agent: Agent) -> None:
    """See that a stream without a chat around it says the same."""
    same("the border", (seen["kinds"][0], seen["kinds"][-1]), ("start", "finish"))
    (shown,) = [one["text"] for one in seen["message"]["parts"] if one["type"] == "text"]
    answer = agent.messages[-1]
    assert isinstance(answer, AssistantMessage)
    same("the text", shown, answer.text)


def text(seen: Seen) -> None:
    assert "Hello!" in part(seen, "text")["text"]
    same("who answered", seen["messages"][-1]["metadata"]["model"], "penstock-demo")
    assert seen["messages"][-1]["metadata"]["usage"]["totalTokens"] > 0
    ended(seen, "stop")


def thinking(seen: Seen) -> None:
    shown = part(seen, "reasoning")
    same("the thoughts", (shown["text"], shown["state"]), ("Hm.", "done"))
    same("the signature", shown["providerMetadata"], {"penstock": {"signature": "sig"}})
    same("the text", part(seen, "text")["text"], LONG)
    ended(seen, "stop")


def tools(seen: Seen) -> None:
    states = [look[0] for look in seen["looks"] if look]
    assert states.count("input-streaming") > 2, f"the input came in one piece: {states}"
    days = [look[2].get("day") for look in seen["looks"] if look and look[0] == "output-available"]
    assert {0, 1, 2} <= {*days}, f"the way to the output was not shown: {days}"
    shown = part(seen, "tool-get_weather")
    same("the input", shown["input"], {"city": "Oslo", "days": 3})
    same("the output", shown["output"], {"city": "Oslo", "sky": "snow"})
    ended(seen, "stop")


def unknown_tool(seen: Seen) -> None:
    shown = part(seen, "tool-no")
    same("the state", shown["state"], "output-error")
    assert "not found" in shown["errorText"]
    ended(seen, "stop")


def approved(seen: Seen) -> None:
    same("the first end", seen["ends"][0]["finishReason"], "tool-calls")
    shown = part(seen, "tool-write_file")
    same("the output", shown["output"], "2 characters to a")
    same("the answers", len(seen["messages"]), 2)
    ended(seen, "stop")


def denied(seen: Seen) -> None:
    shown = part(seen, "tool-write_file")
    same("the state", shown["state"], "output-denied")
    same("the reason", shown["approval"]["reason"], "I say so")
    ended(seen, "stop")


def retried(seen: Seen) -> None:
    kinds = [one["type"] for one in seen["messages"][-1]["parts"]]
    same("the parts", kinds, ["step-start", "text", "data-dropped", "step-start", "text"])
    states = [one["data"]["state"] for one in seen["data"] if one["type"] == "data-retry"]
    same("the notes", states, ["started", "ended"])
    ended(seen, "stop")


def aborted(seen: Seen) -> None:
    same("the state", part(seen, "tool-stop")["state"], "output-error")
    same("the status", seen["status"], "ready")
    same("the end", seen["ends"][-1].get("finishReason"), None)


def left(seen: Seen) -> None:
    assert seen["ends"][-1]["isAbort"]
    assert part(seen, "text")["text"]


def error(seen: Seen) -> None:
    same("the status", seen["status"], "error")
    same("the error", seen["error"], "the model is out of order")
    same("what had come", part(seen, "text")["text"], "So ")
    same("who answered", seen["messages"][-1]["metadata"]["model"], "spoken")


CHECKS: dict[str, Callable[[Seen], None]] = {
    "text": text,
    "thinking": thinking,
    "tools": tools,
    "unknown-tool": unknown_tool,
    "approved": approved,
    "denied": denied,
    "retried": retried,
    "aborted": aborted,
    "left": left,
    "error": error,
}


def wait_for(agent: Agent) -> None:
    """See that nothing runs any more: a page that is left ends its run."""
    end = time.monotonic() + STOP_SECONDS
    while agent.busy:
        assert time.monotonic() < end, "the run goes on, and nobody looks"
        time.sleep(0.01)


def plain(messages: list[Message]) -> list[object]:
    """Give what was said, without what a page is not told."""
    found: list[object] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            found.append(["assistant", message.content])
        elif isinstance(message, ToolResult):
            found.append([message.id, message.content, message.is_error])
        else:
            found.append(message)
    return found


def same(what: str, found: object, expected: object) -> None:
    assert found == expected, f"{what}: {found!r}, not {expected!r}"


if __name__ == "__main__":
    sys.exit(compare_chats(sys.argv[1]))
