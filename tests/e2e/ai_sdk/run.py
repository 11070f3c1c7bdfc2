"""The AI SDK from npm reads our chat stream: over loopback, streamed and whole.

Node runs `client.mjs` against our server, which says one answer of each kind, and what the client
saw has to be what the answer's message says: texts, thoughts, calls with their arguments (and in
the stream their pieces), how it ended, the tokens. What the SDK sent has to be what our reader of
requests read. Then it asks the gateway, behind which a model says the like in text alone. Last,
pages of the SDK talk to our agents (`ui_run`). It prints a row for each answer and each scene; the
exit code is the number of those that failed.

Node has to be there; `AI_SDK=skip` passes without a look, for machines that have none.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from e2e.agents import npm
from e2e.agents.gateway import Gateway
from e2e.ai_sdk.answers import answers, message_of
from e2e.ai_sdk.app_run import compare_app
from e2e.ai_sdk.printed import printed
from e2e.ai_sdk.server import MODEL, Server, serving
from e2e.ai_sdk.ui_run import compare_chats
from e2e.ai_sdk.ui_scenes import SCENES
from penstock.messages import AssistantMessage
from penstock.request import Request

HERE = Path(__file__).parent
RUN_SECONDS = 300
ENDS = {"stop": "stop", "length": "length", "tool_use": "tool-calls", "error": "error"}


def main() -> int:
    if os.environ.get("AI_SDK") == "skip":
        print("AI SDK: skipped, as AI_SDK=skip asks for")
        return 0
    node, program = shutil.which("node"), shutil.which("npm")
    if node is None or program is None:
        print("AI SDK: there is no node or npm here; install Node.js, or pass AI_SDK=skip")
        return 1
    began = time.monotonic()
    npm.install(program, HERE)
    installed = time.monotonic()
    failed = compare(node) + compare_printed(node) + compare_chats(node) + compare_app(node)
    took = f"{installed - began:.0f} s to install, {time.monotonic() - installed:.0f} s to run"
    number = len(answers()) + len(printed()) + len(SCENES) + 1
    print(f"{number - failed} of {number} answers and scenes read by the AI SDK ({took})")
    return failed


def compare(node: str) -> int:
    """Let the client ask for every answer; give how many it read otherwise than they were."""
    said = answers()
    messages = {name: message_of(events) for name, events in said.items()}
    with serving(said) as server:
        return compare_all(ask(node, server.address, [*said]), messages, server)


def compare_printed(node: str) -> int:
    """Let it ask through the gateway for what a model only prints."""
    said = {name: events for name, (_, events) in printed().items()}
    messages = {name: message for name, (message, _) in printed().items()}
    with (
        tempfile.TemporaryDirectory(prefix="penstock-ai-sdk-") as folder,
        serving(said) as server,
        Gateway(f"{server.address}/v1", Path(folder)) as gateway,
    ):
        print("through the gateway, from text:", flush=True)
        seen = ask(node, gateway.address, [*said])
        return compare_all(seen, messages, server, is_gateway=True)


def compare_all(
    asked: list[dict[str, Any]],
    messages: dict[str, AssistantMessage],
    server: Server,
    *,
    is_gateway: bool = False,
) -> int:
    """Compare what was seen of each answer with its message; print a row for each."""
    print(f"{'answer':<16} {'parts':>5} {'calls':>5}  {'ends in':<16} tokens", flush=True)
    failed = 0
    for seen in asked:
        message = messages[seen["answer"]]
        try:
            check(renamed(seen, message) if is_gateway else seen, message)
            check_requests(server, seen["answer"], is_gateway=is_gateway)
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
    lines = done.stdout.rstrip("\n").split("\n")  # a line of JSON may hold other ends of lines
    seen = [json.loads(line) for line in lines]
    assert [one["answer"] for one in seen] == names, "not every answer was asked for"
    return seen


def renamed(seen: dict[str, Any], message: AssistantMessage) -> dict[str, Any]:
    """Give what was *seen* under the ids of *message*: the gateway makes its own for each call."""
    for one in (seen["streamed"], seen["whole"]):
        inputs, calls = one.get("inputs", []), one.get("calls", [])
        made = [part["id"] for part in inputs] or [id_ for id_, *_ in calls]
        same("how many ids there are", len({*filter(None, made)}), len(made))
        names = dict(zip(made, [call.id for call in message.tool_calls], strict=False))
        one["calls"] = [[names.get(id_), *rest] for id_, *rest in calls]
        one["inputs"] = [part | {"id": names.get(part["id"])} for part in inputs]
    return seen


def check(seen: dict[str, Any], message: AssistantMessage) -> None:
    streamed, whole = seen["streamed"], seen["whole"]
    check_content(streamed, message)
    check_inputs(streamed, message)
    check_end(streamed, message)
    if is_failure(message):
        assert message.error
        assert (whole["status"], whole["errors"]) == (message.error.status, [message.error.message])
    else:
        if any(not call.complete for call in message.tool_calls):
            # The gateway reads a whole answer's calls whole: a printed call that was cut is text.
            assert whole["text"].startswith(message.text), "the text before the cut call is missing"
            whole["text"] = message.text
        check_content(whole, message)
        check_end(whole, message)


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


def check_requests(server: Server, name: str, *, is_gateway: bool) -> None:
    """See that the questions came as they were; the gateway asks for a stream, whoever asks it."""
    for is_stream in (True,) if is_gateway else (True, False):
        check_request(server.asked[name, is_stream], name)


def check_request(request: Request, name: str) -> None:
    same("the model asked", request.model, MODEL + name)
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
