"""What a parser of another project costs for each piece: `python bench/peers/parsers.py NAME`.

Prints a JSON list of microseconds for calls with an argument of 1, 10 and 30 KB, in pieces of four
characters. It runs in the environment of the peer, so it imports nothing of ours except for
NAME penstock. A result that is not the call is an error.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

SIZES: Final = (1_000, 10_000, 30_000)
ROUNDS: Final = 3
PIECE: Final = 4

Run = Callable[[Sequence[str]], Any]
"""Parses pieces and returns the arguments of the call."""


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


def _run_penstock(pieces: Sequence[str]) -> Any:
    penstock = import_module("penstock")
    strings = {"path": {"type": "string"}, "text": {"type": "string"}}
    tool = penstock.Tool("write_file", "", {"type": "object", "properties": strings})
    parser = penstock.Parser("cohere_command", [tool], arguments="live")
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


def _run_harmony(pieces: Sequence[str]) -> Any:
    # It reads token ids, and downloads the vocabulary.
    import_module("openai_harmony").load_harmony_encoding("HarmonyGptOss")
    raise SystemExit(f"{len(pieces)} pieces: a vocabulary is there, so this can be measured now")


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


PARSERS: Final[dict[str, tuple[Run, Callable[[dict[str, str]], str]]]] = {
    "penstock": (_run_penstock, _cohere),
    "cohere-melody": (_run_melody, _cohere),
    "openai-harmony": (_run_harmony, _cohere),
    "transformers": (_run_transformers, write_hermes),
}
"""Of each parser, how it is run and how its format writes a call."""


def main() -> None:
    """Measure the parser that the command line names."""
    run, write = PARSERS[sys.argv[1]]
    costs = []
    for size in SIZES:
        arguments = {"path": "/srv/a.py", "text": make_code(size)}
        text = write(arguments)
        pieces = [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
        best = float("inf")
        for _ in range(ROUNDS):
            began = time.process_time()
            read = run(pieces)
            best = min(best, time.process_time() - began)
        if read != arguments:
            raise SystemExit("the call was not read as it was written")
        costs.append(best / len(pieces) * 1e6)
    print(json.dumps(costs))


if __name__ == "__main__":
    main()
