"""The AI SDK from npm reads our chat stream: over loopback, streamed and whole.

Node runs `client.mjs` against our server, which says one answer of each kind, and what the client
saw has to be what the answer's message says: texts, thoughts, calls with their arguments (and in
the stream their pieces), how it ended, the tokens. What the SDK sent has to be what our reader of
requests read. It prints a row for each answer; the exit code is the number of those that failed.

Node has to be there; `AI_SDK=skip` passes without a look, for machines that have none.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from e2e.ai_sdk.answers import answers, message_of
from e2e.ai_sdk.server import Server, serving
from penstock.messages import AssistantMessage

HERE = Path(__file__).parent
INSTALL = ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"]
TRIES = 3
INSTALL_SECONDS = 300
RUN_SECONDS = 300
ENDS = {"stop": "stop", "length": "length", "tool_use": "tool-calls", "error": "error"}


def main() -> int:
    if os.environ.get("AI_SDK") == "skip":
        print("AI SDK: skipped, as AI_SDK=skip asks for")
        return 0
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        print("AI SDK: there is no node or npm here; install Node.js, or pass AI_SDK=skip")
        return 1
    began = time.monotonic()
    install(npm)
    installed = time.monotonic()
    failed = compare(node)
    took = f"{installed - began:.0f} s to install, {time.monotonic() - installed:.0f} s to run"
    print(f"{len(answers()) - failed} of {len(answers())} answers read by the AI SDK ({took})")
    return failed


def install(npm: str) -> None:
    """Install the SDK beside this script, once for each version."""
    wanted = HERE / "package.json"
    stamp = HERE / "node_modules" / ".installed"
    if stamp.exists() and stamp.read_text() == wanted.read_text():
        return
    for tried in range(TRIES):
        done = subprocess.run([npm, *INSTALL], cwd=HERE, timeout=INSTALL_SECONDS, check=False)
        if done.returncode == 0:
            stamp.write_text(wanted.read_text())
            return
        time.sleep(5 * (tried + 1))
    raise SystemExit("AI SDK: npm could not install it")


def compare(node: str) -> int:
    """Let the client ask for every answer; give how many it read otherwise than they were."""
    said = answers()
    print(f"{'answer':<16} {'parts':>5} {'calls':>5}  {'ends in':<16} tokens", flush=True)
    failed = 0
    with serving(said) as server:
        for seen in ask(node, server.address, [*said]):
            try:
                check(seen, message_of(said[seen["answer"]]), server)
                print(row(seen), flush=True)
            except AssertionError as exc:
                failed += 1
                print(f"{seen['answer']:<16} FAILED: {exc}", flush=True)
    return failed


def ask(node: str, address: str, names: list[str]) -> list[dict[str, Any]]:
    """Give what the client saw of each answer."""
    command = [node, str(HERE / "client.mjs"), address, *names]
    done = subprocess.run(
        command, cwd=HERE, stdout=subprocess.PIPE, text=True, timeout=RUN_SECONDS, check=True
    )
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["answer"] for one in seen] == names, "not every answer was asked for"
    return seen


def check(seen: dict[str, Any], message: AssistantMessage, server: Server) -> None:
    streamed, whole = seen["streamed"], seen["whole"]
    check_content(streamed, message)
    check_inputs(streamed, message)
    check_end(streamed, message)
    if is_failure(message):
        assert message.error
        assert (whole["status"], whole["errors"]) == (message.error.status, [message.error.message])
    else:
        check_content(whole, message)
        check_end(whole, message)
    for is_stream in (True, False):
        check_request(server, seen["answer"], is_stream=is_stream)


def check_content(seen: dict[str, Any], message: AssistantMessage) -> None:
    same("text", seen["text"], message.text)
    same("thinking", seen["thinking"], message.thinking)
    calls = [[call.id, call.name, call.arguments] for call in message.tool_calls if call.complete]
    same("calls", seen["calls"], calls)


def check_inputs(seen: dict[str, Any], message: AssistantMessage) -> None:
    """See that each call was streamed under its id, in more than one piece, up to its end."""
    inputs = {one["id"]: one for one in seen["inputs"]}
    for call in message.tool_calls:
        one = inputs[call.id]
        same("the name of an input", one["name"], call.name)
        if call.complete:
            same("the pieces of an input", json.loads(one["text"]), call.arguments)
            assert one["ended"], "an input has no end"
            assert one["deltas"] > 1 or not call.arguments, "an input came in one piece"


def check_end(seen: dict[str, Any], message: AssistantMessage) -> None:
    reason = ENDS[message.stop_reason or "error"]
    if message.error is not None and not is_failure(message):
        reason = "content-filter"
    same("the finish", seen["ends"], [reason])
    if is_failure(message):
        assert message.error
        assert message.error.message in "".join(seen["errors"]), "the error does not say why"
    else:
        usage = message.usage
        tokens = [usage.input + usage.cache_read + usage.cache_write, usage.output, usage.total]
        same("the tokens", seen["usage"], tokens)


def check_request(server: Server, name: str, *, is_stream: bool) -> None:
    request = server.asked[name, is_stream]
    same("the model asked", request.model, f"model-of-{name}")
    same("the tools sent", [tool.name for tool in request.tools], ["get_weather", "write_file"])
    (question,) = request.messages
    same("the question", getattr(question, "text", None), f"Say {name}.")


def is_failure(message: AssistantMessage) -> bool:
    return message.error is not None and message.error.kind not in ("refusal", "filter")


def same(what: str, found: object, expected: object) -> None:
    assert found == expected, f"{what}: {found!r}, not {expected!r}"


def row(seen: dict[str, Any]) -> str:
    one = seen["streamed"]
    tokens = " + ".join(map(str, one["usage"][:2]))
    calls = len(one["calls"])
    return f"{seen['answer']:<16} {one['parts']:>5} {calls:>5}  {one['ends'][0]:<16} {tokens}"


if __name__ == "__main__":
    sys.exit(main())
