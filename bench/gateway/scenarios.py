"""What the fake upstream is asked to say, read from the name of the model.

The scenario travels in the name because every gateway passes the model on, and few pass on headers
that they do not know::

    fake[-cN][-dMS][-wB][-mMODE][-fFAULT[@K]]

`cN` is the number of pieces (200), `dMS` the pause after each in milliseconds (none), `wB` pads
every piece of text to so many bytes, `mMODE` is one of `MODES` (text) and `fFAULT@K` one of
`FAULTS`, after K frames unless the fault says otherwise; the first frame, which says nothing yet,
is not counted. A word that is none of these is passed over, and so is whatever stands before the
last slash.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Final

from msgspec import Struct, structs

from gateway.floods import FLOODS

MODES: Final = {
    "text": "pieces '<number>:<nanoseconds>;', whose order and age a client can tell",
    "think": "half of the pieces as reasoning, half as text",
    "native": "one call, its arguments in pieces",
    "par": "three calls, one after the other",
    "hermes": "a call as text: JSON between <tool_call> and </tool_call>",
    "xml": "a call as text: <read_file> with a tag for each argument",
    "qwen3coder": "a call as text: <function=...> and <parameter=...>, no tag of it closed",
    "json": "a call as text: a bare JSON object",
}
"""What an answer consists of."""

FAULTS: Final = {
    "cut": "the connection is closed after K frames",
    "rst": "the connection is reset after K frames",
    "stall": "nothing more comes after K frames",
    "badjson": "after K frames comes one whose JSON is broken, then the others",
    "garbage": "after K frames come bytes that are no text at all, then the others",
    "err": "after K frames comes an error in the stream, then the end",
    "nodone": "the last frame is missing",
    "nofinish": "the reason to stop is missing",
    "http500": "status 500",
    "http429": "status 429, with `retry-after: 1`",
    "html": "a page in HTML in place of an answer, with status K (200)",
    "gzip": "the answer is compressed, whoever asked for it",
    "slow": "the first byte, that of the status line, is K milliseconds late",
    **dict.fromkeys(FLOODS, "a flood, see `floods`"),
}
"""What goes wrong."""

TOOL: Final = "read_file"
"""The tool that is called."""

SPOKEN: Final = "Reading now.\n"
"""What stands before a call that is written as text."""

TOOL_SCHEMA: Final = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "note": {"type": "string"}},
    "required": ["path"],
}
"""What the tool takes, for clients that offer it."""

_WORD: Final = re.compile(r"c(?P<c>\d+)|d(?P<d>\d+(?:\.\d+)?)|w(?P<w>\d+)")


class Scenario(Struct, frozen=True):
    """One answer, and what goes wrong with it."""

    pieces: int = 200
    pause: float = 0.0
    """Seconds after each piece."""
    width: int = 0
    mode: str = "text"
    fault: str = ""
    at: int = 0
    """The K of the fault."""
    usage: bool = False
    """Whether the client asked for the usage; the name of the model does not say it."""


class Piece(Struct, frozen=True):
    """A part of an answer: some `text` of a `kind`, and of a call its number."""

    kind: str  # "text", "thinking", "call" (its start) or "arguments"
    text: str = ""
    call: int = 0


def read(model: str) -> Scenario:
    """Read the scenario from the name of a model."""
    scenario = Scenario()
    for word in model.rsplit("/", 1)[-1].split("-")[1:]:
        scenario = structs.replace(scenario, **_meaning(word))
    return scenario


def _meaning(word: str) -> dict[str, float | str]:
    """Return the fields of a scenario that *word* sets."""
    if found := _WORD.fullmatch(word):
        pieces, pause, width = found.group("c", "d", "w")
        if pieces:
            return {"pieces": int(pieces)}
        return {"pause": float(pause) / 1000} if pause else {"width": int(width)}
    if word[:1] == "m" and word[1:] in MODES:
        return {"mode": word[1:]}
    fault, _, at = word[1:].partition("@")
    if word[:1] == "f" and fault in FAULTS:
        return {"fault": fault, "at": int(at) if at.isdigit() else 0}
    return {}


# --- what is said ---


def pieces_of(scenario: Scenario) -> Iterator[Piece]:
    """Yield the content of *scenario* piece by piece; text is made when it is needed."""
    match scenario.mode:
        case "text" | "think":
            yield from _stamped(scenario)
        case "native" | "par":
            calls = 1 if scenario.mode == "native" else 3
            for call in range(calls):
                yield from _called(call, scenario.pieces // calls)
        case _:
            text = written_call(scenario.mode, arguments_of(0, scenario.pieces))
            for part in _cut(text, scenario.pieces):
                yield Piece("text", part)


def calls_natively(scenario: Scenario) -> bool:
    """Return whether the response has native calls."""
    return scenario.mode in ("native", "par")


def arguments_of(call: int, length: int) -> dict[str, str]:
    """Return the arguments of a call, about *length* characters of them."""
    return {"path": f"/srv/data/{call}.txt", "note": 'é"{}' + "q" * length}


def written_call(mode: str, arguments: dict[str, str]) -> str:
    """Write a call as models do that have no other way."""
    body = json.dumps({"name": TOOL, "arguments": arguments}, ensure_ascii=False)
    match mode:
        case "hermes":
            return f"{SPOKEN}<tool_call>\n{body}\n</tool_call>"
        case "json":
            return body
        case "xml":
            tags = "".join(f"<{key}>{value}</{key}>\n" for key, value in arguments.items())
            return f"{SPOKEN}<{TOOL}>\n{tags}</{TOOL}>"
        case _:
            tags = "".join(f"<parameter={key}>\n{value}\n" for key, value in arguments.items())
            return f"{SPOKEN}<tool_call>\n<function={TOOL}>\n{tags}"


def _stamped(scenario: Scenario) -> Iterator[Piece]:
    for number in range(scenario.pieces):
        thinks = scenario.mode == "think" and number < scenario.pieces // 2
        stamp = f"{number}:{time.monotonic_ns()};"
        yield Piece("thinking" if thinks else "text", stamp.ljust(scenario.width, "."))


def _called(call: int, length: int) -> Iterator[Piece]:
    yield Piece("call", call=call)
    text = json.dumps(arguments_of(call, length), ensure_ascii=False)
    for part in _cut(text, length):
        yield Piece("arguments", part, call)


def _cut(text: str, count: int) -> Iterator[str]:
    """Cut *text* into *count* parts of about the same length, none of them empty."""
    count = max(1, min(count, len(text)))
    for number in range(count):
        yield text[len(text) * number // count : len(text) * (number + 1) // count]
