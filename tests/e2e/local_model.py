"""A real model in this very process calls a real tool: `LocalModel`, from wheels alone.

Twenty times a call is required, twenty times one tool is named; each answer has to be exactly one
complete call with arguments that its schema accepts. Then a whole conversation: the call, the tool
run for real, its result, an answer. Last, answers that are left in the middle.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.run import ASKED, FILE, WEATHER, check
from penstock import LocalModel, Request, Tool
from penstock.events import MessageStart, TextDelta, ToolCallDelta
from penstock.messages import AssistantMessage, Text, ToolResult
from penstock.request import Message, ResponseFormat, ToolChoice, UserMessage

RUNS = 20
REQUIRED, NAMED = ToolChoice("required"), ToolChoice("tool", FILE.name)
SOON = 5.0
"""Within how many seconds the model is free again after an abort, on a machine that is busy."""

COUNT = Tool(
    "count_letters",
    "Count the letters of a word.",
    {
        "type": "object",
        "properties": {"word": {"type": "string", "minLength": 1, "maxLength": 24}},
        "required": ["word"],
    },
)


ENDS_EARLY = """
import time
from penstock import LocalModel, Request
from penstock.messages import Text
from penstock.request import UserMessage
model = LocalModel()
request = Request(messages=[UserMessage([Text("Tell a very long story.")])], max_tokens=1500)
for event in model.stream(request).sync():
    if event.type == "text_delta":
        break
print(time.time())
"""


def count_letters(word: str) -> str:
    return f"The word {word} has {len(word)} letters."


def main() -> int:
    began = time.monotonic()
    asyncio.run(prove())
    print(f"local model: all is well, in {time.monotonic() - began:.0f} s")
    return 0


async def prove() -> None:
    async with LocalModel() as model:
        print(
            f"{model.name}\n{'':<10} {'runs':>4} {'lawful':>6} {'tokens':>6} {'chunks':>6} {'s':>4}"
        )
        await force(model, REQUIRED)
        await force(model, NAMED)
        await converse(model)
        await hold_to_json(model)
        await leave(model)
        end_early()
    assert (await model.complete(Request())).error is not None, "a closed model answered"


async def force(model: LocalModel, choice: ToolChoice) -> None:
    """Demand a call again and again, each time of other dice."""
    tools = {tool.name: tool for tool in (WEATHER, FILE)}
    question = ASKED[choice.name or WEATHER.name]
    lawful = tokens = chunks = 0
    began = time.monotonic()
    for seed in range(1, RUNS + 1):
        request = Request(
            messages=[user(question)], tools=[*tools.values()], tool_choice=choice,
            max_tokens=400, temperature=0.8, seed=seed,
        )  # fmt: skip
        message, events = await read(model, request)
        (call,) = message.tool_calls
        assert message.stop_reason == "tool_use", message
        assert choice.name in ("", call.name), call
        check(call, tools[call.name], repr(message))
        lawful += 1
        tokens += message.usage.output
        chunks += sum(isinstance(event, ToolCallDelta) for event in events)
    seconds = time.monotonic() - began
    print(
        f"{choice.mode:<10} {RUNS:>4} {lawful:>6} {tokens:>6} {chunks:>6} {seconds:>4.0f}",
        flush=True,
    )


async def converse(model: LocalModel) -> None:
    """Let the model call a tool, run it, and let the model say what came of it."""
    said: list[Message] = [user("How many letters does the word banana have?")]
    for choice in (REQUIRED, ToolChoice("auto")):
        request = Request(messages=said, tools=[COUNT], tool_choice=choice, temperature=0.0)
        answer, _ = await read(model, request)
        said.append(answer)
        for call in answer.tool_calls:
            check(call, COUNT, repr(answer))
            result = count_letters(**call.arguments)
            print(f"called     {call.name}({call.arguments})\nresult     {result}")
            said.append(ToolResult(call.id, call.name, result))
    assert [type(message).__name__ for message in said[1:3]] == ["AssistantMessage", "ToolResult"]
    assert answer.text.strip(), "the model had nothing to say to the result"
    print(f"answer     {answer.text}", flush=True)


async def hold_to_json(model: LocalModel) -> None:
    schema = {"type": "object", "properties": {"wet": {"type": "boolean"}}, "required": ["wet"]}
    wanted = ResponseFormat("schema", {**schema, "additionalProperties": False})
    request = Request(messages=[user("Is water wet?")], response_format=wanted, max_tokens=60)
    answer, _ = await read(model, request)
    assert json.loads(answer.text) in ({"wet": True}, {"wet": False}), answer
    print(f"json       {json.loads(answer.text)}", flush=True)


async def leave(model: LocalModel) -> None:
    """Abort answers: while the prompt is read, in the middle, and while another is written."""
    story = Request(messages=[user("Tell a very long story about the sea.")], max_tokens=1500)
    prompt = Request(system="The sea is deep. " * 300, messages=story.messages, max_tokens=1500)
    for request, wait_for in ((prompt, MessageStart), (story, TextDelta)):
        stream, waits = model.stream(request), model.stream(story)
        waiting = asyncio.ensure_future(anext(waits))
        async for event in stream:
            if isinstance(event, wait_for):
                break
        await asyncio.sleep(0.5)  # so that the model is in the middle of it
        stream.abort()
        waits.abort()
        began = time.monotonic()
        aborted = await stream.result()
        told = time.monotonic() - began
        await asyncio.wait([waiting])
        await waits.result()
        answer, _ = await read(model, Request(messages=[user("Hi")], max_tokens=1))
        free = time.monotonic() - began
        assert aborted.stop_reason == "aborted", aborted
        assert answer.stop_reason in ("stop", "length"), answer
        assert told < 1, told
        assert free < SOON, free
        print(
            f"abort      told in {told * 1000:.0f} ms, next answer after {free:.1f} s", flush=True
        )


def end_early() -> None:
    """Run a program that ends while its model writes: it waits for nobody, and does not crash."""
    done = subprocess.run(
        [sys.executable, "-c", ENDS_EARLY], capture_output=True, text=True, timeout=120, check=False
    )
    took = time.time() - float(done.stdout.split()[-1])
    assert done.returncode == 0, done.stderr
    assert took < SOON, took
    print(f"ended      {took:.1f} s after the last line of the program", flush=True)


async def read(model: LocalModel, request: Request) -> tuple[AssistantMessage, list[Any]]:
    stream = model.stream(request)
    events = [event async for event in stream]
    message = await stream.result()
    assert message.error is None, message.error
    assert message.usage.output > 0, message.usage
    return message, events


def user(text: str) -> UserMessage:
    return UserMessage([Text(text)])


if __name__ == "__main__":
    sys.exit(main())
