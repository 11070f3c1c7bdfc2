"""A real model, held to our grammars, streams calls over HTTP, and our parser reads them.

For every format below: the model is told to call a tool, `Format.gbnf` makes llama.cpp let through
nothing but a call, each token goes to the parser as it comes, and what was read has to be exactly
one complete call with arguments that its schema accepts, by the laws, at the model's own token
boundaries. It prints how many chunks came and what was called.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.upstream import Upstream
from laws import check_chunk_free, check_lossless, check_monotone
from penstock import Parser
from penstock.events import Event, ToolCallDelta, ToolCallEnd
from penstock.formats.base import Format
from penstock.formats.registry import BUILT_IN
from penstock.messages import ToolCall
from penstock.tools import Tool
from penstock.values.schema import Schema

TOKENS = 640
"""How long an answer may be: a small model has some tags of one token for each character."""

WEATHER = Tool(
    "get_weather",
    "Tell the weather in a city.",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 2, "maxLength": 24},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 7},
            "details": {
                "type": "object",
                "properties": {"wind": {"type": "boolean"}, "hours": {
                    "type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 23},
                    "minItems": 1, "maxItems": 3,
                }},
                "required": ["wind", "hours"],
            },
        },
        "required": ["city", "unit", "days", "details"],
    },
)  # fmt: skip
FILE = Tool(
    "write_file",
    "Write a file.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1, "maxLength": 16},
            "content": {"type": "string", "maxLength": 48},
        },
        "required": ["path", "content"],
    },
)
ASKED = {
    "get_weather": "What will the weather be in Oslo over the next three days, in celsius?",
    "write_file": "Write a short greeting into the file hello.txt.",
}
FORMATS = (
    "hermes", "llama3_json", "apertus", "cohere_command",  # JSON with the name in it
    "mistral_args", "deepseek_v3", "kimi_k2",  # the name outside
    "pythonic", "olmo3",
    "qwen3_coder", "glm45", "deepseek_v32", "minimax_m3",  # raw values between tags
    "gemma4",
    "harmony", "kimi_k3", "muse_glimmer", "functionary_v3_2",  # channels
    "morph_xml", "tool_tag", "file_tags", "sentinel", "json_tool",
)  # fmt: skip
"""Formats of all families; any others can be named on the command line."""

FILE_FORMATS = {"file_tags"}
"""The formats that can call only the tools that they know."""


def main() -> int:
    wanted = sys.argv[1:] or FORMATS
    chosen = [one for one in BUILT_IN if one.name in wanted]
    began = time.monotonic()
    print(f"{'format':<20} {'chunks':>6} {'deltas':>6} {'calls':>5}  arguments", flush=True)
    failed = []
    with Upstream() as upstream:
        for one in chosen:
            try:
                print(row(one, upstream), flush=True)
            except AssertionError as exc:
                failed.append(one.name)
                print(f"{one.name:<20} FAILED: {exc}", flush=True)
    print(
        f"{len(chosen) - len(failed)} of {len(chosen)} formats in {time.monotonic() - began:.0f} s"
    )
    return len(failed)


def row(one: Format, upstream: Upstream) -> str:
    """Let the model call in the format *one*, check what was read, and show it."""
    tool = FILE if one.name in FILE_FORMATS else WEATHER
    prompt = chat(one.render_tools([tool]), ASKED[tool.name])
    chunks, events = [], []
    parser = Parser(one, [tool], arguments="live")
    for token in upstream.complete(prompt, one.gbnf([tool]), TOKENS):
        chunks.append(token)
        events += parser.feed(token)
    events += parser.finish(cut=False)
    call = only_call(events, "".join(chunks))
    check(call, tool, "".join(chunks))
    check_laws(one, tool, chunks, events)
    deltas = sum(isinstance(event, ToolCallDelta) for event in events)
    return f"{one.name:<20} {len(chunks):>6} {deltas:>6} {1:>5}  {call.arguments}"


def chat(system: str, question: str) -> str:
    """Write a conversation as the model was taught to read one."""
    turns = (("system", system), ("user", question))
    said = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in turns)
    return f"{said}<|im_start|>assistant\n"


def only_call(events: list[Event], text: str) -> ToolCall:
    calls = [event.call for event in events if isinstance(event, ToolCallEnd)]
    assert len(calls) == 1, f"{len(calls)} calls in {text!r}"
    return calls[0]


def check(call: ToolCall, tool: Tool, text: str) -> None:
    assert call.complete, f"the call is not complete: {text!r}"
    assert call.name == tool.name, f"{call.name!r} was called in {text!r}"
    accepted = Schema(tool.parameters).accepts(call.arguments)
    assert accepted, f"the schema does not accept {call.arguments} in {text!r}"


def check_laws(one: Format, tool: Tool, chunks: list[str], events: list[Event]) -> None:
    def make() -> Any:
        return Parser(one, [tool], arguments="live")

    check_monotone(events)
    check_lossless(make, chunks)
    check_chunk_free(make, chunks)


if __name__ == "__main__":
    sys.exit(main())
