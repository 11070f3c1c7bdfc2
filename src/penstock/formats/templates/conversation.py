"""The small conversation that a chat template is tried with, and what becomes of it.

Its words are such as no template has of its own, so they are found again in what was written. The
same things are said in several ways, because templates are particular: some want arguments as an
object and some as JSON text, some want ids of nine characters, some take the name from the id, and
some look at the content of a message that has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from jinja2 import Template
from msgspec import Struct

from penstock import _json
from penstock.formats.templates.sandbox import RunawayError, Sandbox
from penstock.messages import ToolCall
from penstock.tools import Tool, read_tools

MAX_ANSWER: Final = 4_096
"""How long an answer may be to be looked at: two calls and a thought need some hundreds."""

QUESTION: Final = "Qxhow deep is the harbourxQ"
WORDS: Final = "Zwseven fathoms at low waterwZ"
THOUGHT: Final = "Yvask the lead linevY"

CALLS: Final = (
    ToolCall("", "heave_lead", {"line": "Kjnorth moorkJ", "marks": 12}),
    ToolCall("", "light_lamp", {"colour": "Jkgreenkj", "hours": 3}),
)

_TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": "heave_lead",
            "description": "Measure the depth.",
            "parameters": {
                "type": "object",
                "properties": {
                    "line": {"type": "string", "description": "Which line."},
                    "marks": {"type": "integer", "description": "How many marks."},
                },
                "required": ["line"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "light_lamp",
            "description": "Light a lamp.",
            "parameters": {
                "type": "object",
                "properties": {
                    "colour": {"type": "string", "description": "Its colour."},
                    "hours": {"type": "integer", "description": "For how long."},
                },
                "required": ["colour"],
            },
        },
    },
]
TOOLS: Final[list[Tool]] = read_tools(_TOOLS)

_SURROUNDINGS: Final = {"functions": _json.encode(_TOOLS).decode(), "datetime": "2024-01-01"}
"""What some older templates ask for."""

_IDS: Final = ("lead00001", "lamp00002")


class Wording(Struct, frozen=True):
    """How calls are said: arguments as text or as objects, ids with the name in them, no content.

    It says the same to any template that does not ask.
    """

    as_text: bool = False
    named_ids: bool = False
    without_content: bool = False

    def calls(self, count: int) -> list[ToolCall]:
        """Give the first *count* calls, with their ids."""
        return [
            ToolCall(self._id(number), call.name, call.arguments)
            for number, call in enumerate(CALLS[:count])
        ]

    def answer(self, count: int, **more: Any) -> dict[str, Any]:
        """Give the message that calls *count* tools."""
        content = None if self.without_content else ""
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": self._arguments(call)},
            }
            for call in self.calls(count)
        ]
        return {"role": "assistant", "content": content, "tool_calls": calls, **more}

    def _id(self, number: int) -> str:
        return f"functions.{CALLS[number].name}:{number}" if self.named_ids else _IDS[number]

    def _arguments(self, call: ToolCall) -> object:
        return _json_text(call.arguments) if self.as_text else call.arguments


WORDINGS: Final = tuple(
    Wording(as_text, named_ids, without_content)
    for without_content in (False, True)
    for named_ids in (False, True)
    for as_text in (False, True)
)
"""Every way to say it, the plainest first."""

PLAIN: Final = {"role": "assistant", "content": WORDS}
THINKING: Final = {"reasoning_content": THOUGHT, "reasoning": THOUGHT, "thinking": THOUGHT}
"""A thought, under each of the names that templates look for."""


class Chat:
    """A conversation that a template writes.

    *prompt* is what a model is given, and *plain* what has become of it when it answered.
    """

    def __init__(self, source: str, variables: dict[str, Any]) -> None:
        self._size = len(source)
        self._variables = {**_SURROUNDINGS, **variables, "tools": _TOOLS}
        self._sandbox = Sandbox()
        self._template = self._load(source)
        self.prompt = self.write(add_generation_prompt=True)
        self.plain = self.write(PLAIN)

    def write(self, answer: dict[str, Any] | None = None, **more: Any) -> str:
        """Write the question and *answer*; empty where the template refuses them."""
        if self._template is None:
            return ""
        messages = [{"role": "user", "content": QUESTION}, *([answer] if answer else [])]
        given = {"add_generation_prompt": False, **self._variables, "messages": messages, **more}
        try:
            return self._sandbox.write(self._template, self._size, deepcopy(given))
        except (RunawayError, RecursionError, MemoryError):
            self._template = None  # It would only do so again.
        except Exception:  # noqa: BLE001, S110 - whatever a stranger's template raises
            pass
        return ""

    @property
    def opening(self) -> str:
        """What the prompt ends with, behind all that was said."""
        before = self.write()
        if before and before != self.prompt and self.prompt.startswith(before):
            return self.prompt[len(before) :]
        return self.prompt.rpartition(QUESTION)[2]

    def _load(self, source: str) -> Template | None:
        try:
            return self._sandbox.load(source)
        except Exception:  # noqa: BLE001 - whatever is wrong with a stranger's template
            return None

    def answers_in(self, written: str) -> Iterator[Excerpt]:
        """Find the answer in *written*; where it begins and ends is tried, the likeliest first."""
        if QUESTION not in written:
            return
        starts = (self._start_in(written, self.prompt), self._start_in(written, self.plain))
        for start in dict.fromkeys(starts):
            header = written[:start].rpartition(QUESTION)[2]
            # Where a thought is left out that the prompt opens, its end may still be written.
            headers = (header, self.prompt.rpartition(QUESTION)[2], header + "<think>")
            for end in self._ends_in(written, start):
                if end - start <= MAX_ANSWER:
                    for before in dict.fromkeys(headers):
                        yield Excerpt(before, written[start:end], written[end:])

    def marks_in(self, written: str) -> tuple[str, str]:
        """Give what stands around the thought in *written*, and not in an answer without one."""
        before, _, behind = written.partition(THOUGHT)
        start = before[self._start_in(before, self.plain) :]
        return start.strip(), behind.partition(WORDS)[0].strip()

    def _start_in(self, written: str, other: str) -> int:
        """Give where the answer begins: what comes before it is in *other*, too."""
        start = _shared(written, other)
        if start < min(len(written), len(other)):  # Markers may begin alike: take none apart.
            start -= _size_of_half_marker(written, start)
        return max(start, written.find(QUESTION) + len(QUESTION))

    def _ends_in(self, written: str, start: int) -> list[int]:
        """List where the answer may end: before what follows any answer, or before a marker."""
        tail = self.plain.rpartition(WORDS)[2]
        first = len(written) - min(_shared(written[::-1], tail[::-1]), len(written) - start)
        if _size_of_half_marker(written, first):  # Markers may end alike, too.
            found = _MARKER_END.search(written, first)
            first = len(written) if found is None else found.end()
        marks = [found.start() for found in _MARKER.finditer(written, first)]
        last = [found.start() for found in _MARKER.finditer(written, start, first)]
        return [first, *marks[:_MAX_ENDS], len(written), *last[: -_MAX_ENDS - 1 : -1]]


class Excerpt(Struct, frozen=True):
    """An answer as a template writes it: *text*, what stands before it, and what behind."""

    header: str
    text: str
    tail: str


_MAX_ENDS: Final = 6
_MAX_MARKER: Final = 64
_HALF_MARKER: Final = re.compile(r"<[^<>\s]*\Z|\[[^\[\]<>\s]*\Z")
_MARKER_END: Final = re.compile(r"[>\]]")
_MARKER: Final = re.compile(r"<[^<>\s]*>|\[[^\[\]\s]*\]")


def _json_text(arguments: dict[str, Any]) -> str:
    """Write JSON with the spaces that templates put into it."""
    pairs = (f'"{key}": {_json.encode(value).decode()}' for key, value in arguments.items())
    return "{" + ", ".join(pairs) + "}"


def _size_of_half_marker(text: str, end: int) -> int:
    """Tell how much of a marker like ``<think>`` or ``[THINK]`` has come where *text* is cut."""
    found = _HALF_MARKER.search(text, max(0, end - _MAX_MARKER), end)
    return 0 if found is None else end - found.start()


def _shared(one: str, other: str) -> int:
    """Tell how many characters *one* and *other* begin with alike."""
    size = min(len(one), len(other))
    return next((at for at in range(size) if one[at] != other[at]), size)
