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
import statistics
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


def seconds(run: Callable[[], object]) -> float:
    """Return the median time of *run*."""
    times = []
    for _ in range(TIMES):
        begin = time.process_time()
        run()
        times.append(time.process_time() - begin)
    return statistics.median(times)


def delta_cost(
    stream: Callable[[Any, str], None], reader: Any, fmt: Any, sizes: tuple[int, int]
) -> float:
    """Return what more deltas of one call cost: the difference of a long and a short one."""
    long, short = (
        fmt.render_call(ToolCall("", "write_log", {"text": ("Low water again. " * size).strip()}))
        for size in sizes
    )
    return seconds(lambda: stream(reader, long)) - seconds(lambda: stream(reader, short))


def stream_theirs(template: dict[str, Any], text: str) -> None:
    """Read *text* in pieces with transformers."""
    parser = ResponseParser(template, prefix="", tools=TOOLS)
    for at in range(0, len(text), PIECE):
        parser.feed(text[at : at + PIECE])
    with suppress(ValueError):  # Some closers want the end of the turn, which is not there.
        parser.finalize()


def stream_ours(fmt: formats.Format, text: str) -> None:
    """Read *text* in pieces with penstock, arguments live."""
    parser = fmt.parser(read_tools(TOOLS), arguments="live")
    for at in range(0, len(text), PIECE):
        parser.feed(text[at : at + PIECE])
    parser.finish(cut=False)


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
        theirs_cost = delta_cost(stream_theirs, template, fmt, sizes)
        ratio = theirs_cost / delta_cost(stream_ours, reader, fmt, sizes)
        kind = type(reader.calls).__name__
        read = f"same {same} of {total - refused}"
        print(f"{name:24} {kind:18} {read}, {ratio:5.1f} times cheaper a delta")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
