"""What a parser of another project costs: `python bench/peers/parsers.py NAME FORMAT`.

Prints JSON: microseconds a piece for calls with an argument of 1, 10 and 30 KB, in pieces of four
characters, and a note. It runs in the environment of the peer, so it imports nothing of ours except
for NAME penstock. A result that is not the call is an error.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final

SIZES: Final = (1_000, 10_000, 30_000)
ROUNDS: Final = 3
PIECE: Final = 4

Run = Callable[[Sequence[Any]], Any]
"""Parses pieces, or tokens, and returns the arguments of the call."""


def make_code(size: int) -> str:
    """Return code of *size* characters, the argument of the call."""
    line = "    total = total + value_of(item)\n"
    return (line * (size // len(line) + 1))[:size]


def write_hermes(arguments: dict[str, str]) -> str:
    """Return a call of Hermes with *arguments*."""
    return (
        f"<tool_call>\n{json.dumps({'name': 'write_file', 'arguments': arguments})}\n</tool_call>"
    )


def _cohere(arguments: dict[str, str]) -> str:
    call = {"tool_call_id": "0", "tool_name": "write_file", "parameters": arguments}
    return f"<|START_ACTION|>[\n    {json.dumps(call)}\n]<|END_ACTION|>"


def _harmony(arguments: dict[str, str]) -> str:
    return (
        "<|channel|>commentary to=functions.write_file <|constrain|>json<|message|>"
        f"{json.dumps(arguments)}<|call|>"
    )


def _run_penstock(pieces: Sequence[str]) -> Any:
    penstock = import_module("penstock")
    strings = {"path": {"type": "string"}, "text": {"type": "string"}}
    tool = penstock.Tool("write_file", "", {"type": "object", "properties": strings})
    parser = penstock.Parser(sys.argv[2], [tool], arguments="live")
    events = [event for piece in pieces for event in parser.feed(piece)]
    events += parser.finish(cut=False)
    (call,) = (event.call for event in events if event.type == "toolcall_end")
    return call.arguments


def _run_melody(pieces: Sequence[str]) -> Any:
    cohere_melody = import_module("cohere_melody")
    options = cohere_melody.PyFilterOptions().cmd3().stream_tool_actions()
    reader = cohere_melody.PyFilter(options)
    calls = [call for piece in pieces for call in reader.write_decoded(piece).tool_calls]
    calls += reader.flush_partials().tool_calls
    return json.loads("".join(call.arguments for call in calls))


@cache
def _load_harmony() -> Any:
    return import_module("openai_harmony").load_harmony_encoding("HarmonyGptOss")


def _encode(text: str) -> list[int]:
    """Return the tokens of *text*: a model writes them, so this is not the parser's work."""
    found: list[int] = _load_harmony().encode(text, allowed_special="all")
    return found


def _run_harmony(tokens: Sequence[int]) -> Any:
    harmony = import_module("openai_harmony")
    parser = harmony.StreamableParser(_load_harmony(), harmony.Role.ASSISTANT)
    deltas = []
    for token in tokens:
        parser.process(token)
        deltas.append(parser.last_content_delta)
    (message,) = parser.messages
    if message.recipient != "functions.write_file":
        raise SystemExit(f"a call of {message.recipient}")
    return json.loads("".join(filter(None, deltas)))


def _run_transformers(pieces: Sequence[str]) -> Any:
    transformers = import_module("transformers.utils.chat_parsing")
    function = {"name": "{content.name}", "arguments": "{content.arguments}"}
    call = {
        "open": "<tool_call>",
        "close": "</tool_call>",
        "content": "json",
        "repeats": True,
        "transform": {"type": "function", "function": function},
    }
    fields = {"content": {"close": "<|im_end|>"}, "tool_calls": call}
    template = {"defaults": {"role": "assistant"}, "start_anchor": "assistant", "fields": fields}
    parser = transformers.ResponseParser(template, prefix="")
    for piece in pieces:
        parser.feed(piece)
    message, _ = parser.finalize()
    return message["tool_calls"][0]["function"]["arguments"]


def _cut(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


WRITERS: Final[dict[str, Callable[[dict[str, str]], str]]] = {
    "cohere_command": _cohere,
    "harmony": _harmony,
    "hermes": write_hermes,
}
"""How each format writes a call."""

PARSERS: Final[dict[str, tuple[Run, Callable[[str], Sequence[Any]], str]]] = {
    "penstock": (_run_penstock, _cut, "arguments live"),
    "cohere-melody": (_run_melody, _cut, "arguments live"),
    "openai-harmony": (_run_harmony, _encode, "arguments live; reads tokens"),
    "transformers": (_run_transformers, _cut, "whole calls"),
}
"""Of each parser, how it is run, how its input is cut, and a note."""


def main() -> None:
    """Measure the parser and the format that the command line names."""
    run, cut, note = PARSERS[sys.argv[1]]
    costs = []
    for size in SIZES:
        arguments = {"path": "/srv/a.py", "text": make_code(size)}
        text = WRITERS[sys.argv[2]](arguments)
        pieces = cut(text)
        best = float("inf")
        for _ in range(ROUNDS):
            began = time.process_time()
            read = run(pieces)
            best = min(best, time.process_time() - began)
        if read != arguments:
            raise SystemExit("the call was not read as it was written")
        costs.append(best / (len(text) / PIECE) * 1e6)
    if cut is not _cut:
        note = f"{note} of {len(text) / len(pieces):.1f} characters"
    print(json.dumps([costs, note]))


if __name__ == "__main__":
    main()
