"""The real llama.cpp server, asked by `HTTPModel` in three APIs: text, a call, its answer.

A model of this size writes a call of its own accord only where it has seen some: the conversation
holds three. Over each API the same conversation goes on: the call that it writes is read, run, and
its result answered. Where the API takes a grammar a call is forced as well. What we take for
the model's chat template is compared with what the server makes of it. At the end the doctor
examines the server.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from urllib.request import Request as Post
from urllib.request import urlopen

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.local_model import COUNT, count_letters, user
from e2e.run import ASKED, WEATHER, check
from e2e.upstream import Upstream
from penstock import HTTPModel, Model, Request, ToolMiddleware
from penstock.cli.admin import load_upstream
from penstock.gateway.doctor import diagnose
from penstock.messages import AssistantMessage, Text, ToolCall, ToolResult
from penstock.models.local import render_prompt
from penstock.request import Message, SystemMessage, ToolChoice

APIS = {"openai-chat": "/v1", "openai-responses": "/v1", "anthropic": ""}
"""The APIs that the server serves, and where."""

VERDICTS = {
    **dict.fromkeys(("reach", "auth", "models", "stream", "end", "usage"), "yes"),
    "json_schema": "yes",
    "grammar": "yes",
    "structural_tag": "no",
}
"""What is known about this server: it enforces grammars, and rejects structural tags."""

SEEN = ("apple", "house", "mountain")
QUESTION = "How many letters does the word {} have?"


def main() -> int:
    began = time.monotonic()
    with Upstream() as upstream:
        compare_templates(upstream.address)
        asyncio.run(ask_all(upstream.address))
        examine(upstream.address)
    print(f"served model: all is well, in {time.monotonic() - began:.0f} s")
    return 0


def compare_templates(address: str) -> None:
    """Let the server write a prompt with the template inside the model's file, and compare."""
    said = (("user", "Hi"), ("assistant", "Hello."), ("system", "Be brief."), ("user", "Bye"))
    for system in ("", "Be kind."):
        messages = [{"role": side, "content": text} for side, text in said]
        before = [{"role": "system", "content": system}] if system else []
        body = json.dumps({"messages": before + messages}).encode()
        post = Post(f"{address}/apply-template", body, {"Content-Type": "application/json"})  # noqa: S310 - http
        with urlopen(post, timeout=60) as answer:  # noqa: S310 - our own server
            theirs = json.load(answer)["prompt"]
        ours = render_prompt(Request(system=system, messages=[message(*turn) for turn in said]))
        assert ours == theirs, f"{ours!r} is not {theirs!r}"


def examine(address: str) -> None:
    """Let the doctor examine the server: what it says has to be true.

    The server closes its socket after a streamed response, so no verdict may come from a connection
    that was lost. Whether a model of this size makes a call is chance; the probe has to learn it.
    """
    upstream = load_upstream({"upstream": f"{address}/v1"}, {})
    found = asyncio.run(diagnose(upstream))
    verdicts = {one.probe: one.verdict for one in found.findings}
    print(f"doctor            {verdicts}", flush=True)
    assert verdicts.items() >= VERDICTS.items(), found.findings
    assert "unknown" not in (verdicts["tools"], verdicts["format"]), found.findings
    assert found.command.startswith("penstock serve "), found.command


async def ask_all(address: str) -> None:
    calls = []
    for api, path in APIS.items():
        model = HTTPModel(api, address + path, "smollm2", "nobody asks for it")
        try:
            await say_something(model, api)
            calls.append(await converse(model, api))
            if api == "openai-chat":
                await force(model, api)
        finally:
            await model.close()
    assert len({json.dumps(call.arguments) for call in calls}) == 1, calls


async def say_something(model: Model, api: str) -> None:
    answer = await asked(model, Request(messages=[user("Say hello.")], max_tokens=24))
    assert answer.text.strip(), answer
    print(f"{api:<17} text    {answer.text!r}", flush=True)


async def converse(model: Model, api: str) -> ToolCall:
    """Let the model call without being forced to, run the call, and let it answer."""
    tools = ToolMiddleware(model, "tool_tag", arguments="live", retries=0)
    said = [*past(), user(QUESTION.format("banana"))]
    answer = await asked(tools, Request(messages=said, tools=[COUNT], max_tokens=60))
    assert answer.stop_reason == "tool_use", answer
    (call,) = answer.tool_calls
    check(call, COUNT, repr(answer))
    said += [answer, ToolResult(call.id, call.name, count_letters(**call.arguments))]
    end = await asked(tools, Request(messages=said, tools=[COUNT], max_tokens=60))
    assert end.text.strip(), end
    print(f"{api:<17} call    {call.arguments} → {end.text!r}", flush=True)
    return call


async def force(model: Model, api: str) -> None:
    tools = ToolMiddleware(model, "hermes", arguments="live", constrain="grammar", retries=0)
    question = user(ASKED[WEATHER.name])
    choice = ToolChoice("tool", WEATHER.name)
    request = Request(messages=[question], tools=[WEATHER], tool_choice=choice, max_tokens=300)
    answer = await asked(tools, request)
    (call,) = answer.tool_calls
    check(call, WEATHER, repr(answer))
    print(f"{api:<17} forced  {call.arguments}", flush=True)


def past() -> list[Message]:
    """Give a conversation in which the tool was called before."""
    said: list[Message] = []
    for word in SEEN:
        result = count_letters(word)
        said += [
            user(QUESTION.format(word)),
            AssistantMessage(content=[ToolCall(f"call_{word}", COUNT.name, {"word": word})]),
            ToolResult(f"call_{word}", COUNT.name, result),
            AssistantMessage(content=[Text(result)]),
        ]
    return said


def message(side: str, text: str) -> Message:
    if side == "system":
        return SystemMessage(text)
    return user(text) if side == "user" else AssistantMessage(content=[Text(text)])


async def asked(model: Model, request: Request) -> AssistantMessage:
    request.temperature = 0.0
    answer = await model.complete(request)
    assert answer.error is None, answer.error
    assert answer.usage.output > 0, answer.usage
    return answer


if __name__ == "__main__":
    sys.exit(main())
