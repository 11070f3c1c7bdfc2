"""Response templates beside transformers' own reader: the same messages, and what a delta costs.

Templates are those that penstock writes for its own formats, and TRL's if it is installed. Both
readers read the same responses: reasoning, text, one call or two, values of each type. Transformers
keeps only the last piece of content, so responses have one.

    pip install "transformers>=5.22" && pip install --no-deps trl
    python bench/response_template.py [TEMPLATES.json]

The file holds more templates by name. ``make bench`` installs neither package. TRL is read as
source, because importing it needs PyTorch. Known differences, where transformers loses something:
text outside the messages of gpt-oss, and escapes in the Python strings of LFM2.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import transformers
from packaging.version import Version
from transformers.utils.chat_parsing import ResponseParser, parse_response

from penstock import formats
from penstock.errors import UsageError
from penstock.formats.registry import BUILT_IN
from penstock.formats.template_fields import load_template
from penstock.messages import AssistantMessage, ToolCall
from penstock.tools import read_tools

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "tide_at",
            "parameters": {
                "type": "object",
                "properties": {
                    "port": {"type": "string"},
                    "hours": {"type": "integer"},
                    "marks": {"type": "array"},
                    "exact": {"type": "boolean"},
                },
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "write_log",
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
        },
    },
]
CALLS = (
    ToolCall("", "tide_at", {"port": "Leith", "hours": 6}),
    ToolCall("", "write_log", {"text": "Low water.\nNo wind, 3 < 5 && calm."}),
    ToolCall("", "tide_at", {"port": "7", "hours": 0, "exact": True}),
)
ANCHOR = "<|bot|>\n"
TIMES = 5
PIECE = 4
RESPONSES_WITHOUT_CALLS = 1
MESSAGES: dict[str, tuple[str, str]] = {
    "harmony": (
        "<|channel|>analysis<|message|>{}<|end|>",
        "<|channel|>final<|message|>{}<|return|>",
    ),
    "beam": (
        "<|channel|>analysis<|message|>{}<|end|>",
        "<|start|>assistant<|channel|>final<|message|>{}<|return|>",
    ),
    "inkling": (
        "<|message_model|><|content_thinking|>{}<|end_message|>",
        "<|message_model|><|content_text|>{}<|end_message|>",
    ),
    "muse_glimmer": (
        "to=self<|message|>{}<|eom|>",
        "<|start|>assistant to=user<|message|>{}<|eot|>",
    ),
    "solar_open": ("<|think|>{}<|end|>", "<|begin|>assistant<|content|>{}<|end|>"),
}
"""Reasoning and text of formats that write each as a message."""


def templates() -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Yield name, template, and the format that writes responses for it."""
    for fmt in BUILT_IN:
        if fmt.name == "tool_tag":  # Its entities are decoded, which no template can say.
            continue
        try:
            yield fmt.name, fmt.response_template(start_anchor=ANCHOR), fmt
        except UsageError:
            continue
    found = dict(trl_templates())
    for path in sys.argv[1:]:
        found |= json.loads(Path(path).read_text())
    for name, template in found.items():
        yield name, template, formats.from_response_template(template)


def trl_templates() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the templates of an installed TRL: the dicts with fields in its module of templates."""
    spec = importlib.util.find_spec("trl")
    for folder in spec.submodule_search_locations or () if spec else ():
        tree = ast.parse((Path(folder) / "chat_template_utils.py").read_text("utf-8"))
        known: dict[str, Any] = {"transformers": transformers, "Version": Version}
        for node in tree.body:
            if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
                continue
            name = node.targets[0].id
            with suppress(Exception):  # Other values need the imports of the module.
                value = compile(ast.Expression(node.value), folder, "eval")
                known[name] = eval(value, {}, known)
            if isinstance(known.get(name), dict) and "fields" in known[name]:
                yield f"trl_{name.removesuffix('_template')}", known[name]


def responses(fmt: Any) -> Iterator[tuple[str, str]]:
    """Yield reasoning and text of responses that *fmt* writes."""
    for calls in ((), CALLS[:1], CALLS[1:2], CALLS[2:], CALLS[:2]):
        try:
            written = fmt.render_calls(calls) if calls else ""
        except UsageError:
            continue
        reasoning, text = MESSAGES.get(fmt.name, ("", "{}"))
        yield "", written or text.format("Calm.")
        style = fmt.usual_reasoning
        if style is not None and style.starts and not reasoning:
            reasoning = style.starts[0] + "{}" + style.ends[0]
        if reasoning:
            yield reasoning.format("I look it up."), written or text.format("Calm.")


def read_theirs(template: dict[str, Any], text: str) -> tuple[str, str, list[tuple[str, Any]]]:
    """Return reasoning, content and calls as transformers reads them."""
    message = parse_response(text, template, prefix="", tools=TOOLS)
    calls = [
        (call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls", ())
    ]
    reasoning = message.get("thinking") or message.get("reasoning_content") or ""
    return reasoning.strip(), (message.get("content") or "").strip(), calls


def read_ours(message: AssistantMessage) -> tuple[str, str, list[tuple[str, Any]]]:
    """Return reasoning, content and calls as penstock reads them."""
    calls = [(call.name, call.arguments) for call in message.tool_calls]
    return message.thinking.strip(), message.text.strip(), calls


def delta_ratio(template: dict[str, Any], reader: Any, fmt: Any, sizes: tuple[int, int]) -> float:
    """Return how many times cheaper our delta is: theirs and ours take turns.

    What more deltas of one call cost is the difference of a long call and a short one. Only `feed`
    is measured, and of several runs the fastest counts: other processes slow down both readers.
    """
    long, short = (
        cut(
            fmt.render_call(
                ToolCall("", "write_log", {"text": "Low water again. " * size + "End."})
            )
        )
        for size in sizes
    )
    theirs_long = theirs_short = ours_long = ours_short = math.inf
    for _ in range(TIMES):
        theirs_long = min(theirs_long, stream_theirs(template, long))
        ours_long = min(ours_long, stream_ours(reader, long))
        theirs_short = min(theirs_short, stream_theirs(template, short))
        ours_short = min(ours_short, stream_ours(reader, short))
    return (theirs_long - theirs_short) / (ours_long - ours_short)


def cut(text: str) -> list[str]:
    """Cut *text* into pieces."""
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


def stream_theirs(template: dict[str, Any], pieces: list[str]) -> float:
    """Read *pieces* with transformers; return the time."""
    feed = ResponseParser(template, prefix="", tools=TOOLS).feed
    return seconds(feed, pieces)


def stream_ours(fmt: formats.Format, pieces: list[str]) -> float:
    """Read *pieces* with penstock, arguments live; return the time."""
    return seconds(fmt.parser(read_tools(TOOLS), arguments="live").feed, pieces)


def seconds(feed: Callable[[str], object], pieces: list[str]) -> float:
    """Return how long it takes to feed *pieces*."""
    begin = time.process_time()
    for piece in pieces:
        feed(piece)
    return time.process_time() - begin


def fields_of(template: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the fields of *template*."""
    yield from template["fields"].values()


def main() -> int:
    """Print a row per template; return how many differ."""
    wrong = 0
    for name, template, fmt in templates():
        reader = formats.from_response_template(template)
        same, total, refused = 0, 0, 0
        for thought, text in responses(fmt):
            total += 1
            try:
                theirs = read_theirs(template, thought + text)
            except ValueError:  # Theirs loses the whole response where one body cannot be read.
                refused += 1
                continue
            ours = read_ours(reader.parse(thought + text, TOOLS))
            same += theirs == ours
            if theirs != ours:
                print(f"    {thought + text!r}\n      theirs {theirs}\n      ours   {ours}")
        wrong += same + refused != total
        if total == RESPONSES_WITHOUT_CALLS or not load_template(template).is_safe:
            # A pattern of TRL's lfm2 takes theirs exponential time.
            print(f"{name:24} {type(reader.calls).__name__:18} same {same} of {total - refused}")
            continue
        # Theirs reads all text again for each delta while a look-ahead may still match.
        looks_ahead = any("(?=" in field.get("open_pattern", "") for field in fields_of(template))
        sizes = (150, 30) if looks_ahead else (1_500, 100)
        ratio = delta_ratio(template, reader, fmt, sizes)
        kind = type(reader.calls).__name__
        read = f"same {same} of {total - refused}"
        print(f"{name:24} {kind:18} {read}, {ratio:5.1f} times cheaper a delta")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
