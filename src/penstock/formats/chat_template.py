"""Which format a chat template writes calls in, and how it marks reasoning.

The strategy: not to look for markers, but to read. A call that the template has written is read
with every format that there is; one that gives the very call back, and leaves no text, is the
template's. Of several, that one counts which also reads two calls, and writes the call most like
the template. Thoughts are read in the same way.

Some templates write no calls at all, but tell the model how to: then the format counts whose call
begins as the prompt says, if it says so only where there are tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from functools import cache
from itertools import islice
from typing import Any, Final

from jinja2 import Template
from msgspec import Struct

from penstock import _json
from penstock.errors import UsageError
from penstock.formats.base import Format, message_of
from penstock.formats.jinja_sandbox import RunawayError, Sandbox
from penstock.formats.json_calls import json_mix
from penstock.formats.model_names import UNKNOWN, ModelFormat
from penstock.formats.reasoning import STYLES
from penstock.formats.registry import BUILT_IN, NONE
from penstock.messages import AssistantMessage, ToolCall
from penstock.parsing import Reasoning
from penstock.tools import Tool, read_tools

# The small conversation that a chat template is tried with, and what becomes of it.
#
# Its words are such as no template has of its own, so they are found again in what was written.
# The same things are said in several ways, because templates are particular: some want
# arguments as an object and some as JSON text, some want ids of nine characters, some take the
# name from the id, and some look at the content of a message that has none.


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
        """Return the first *count* calls, with their ids."""
        return [
            ToolCall(self._id(number), call.name, call.arguments)
            for number, call in enumerate(CALLS[:count])
        ]

    def answer(self, count: int, **more: Any) -> dict[str, Any]:
        """Return the message that calls *count* tools."""
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


class TemplateChat:
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
        """What the prompt ends with, after all that was said."""
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
            # Where a thought is omitted that the prompt opens, its end may still be written.
            headers = (header, self.prompt.rpartition(QUESTION)[2], header + "<think>")
            for end in self._ends_in(written, start):
                if end - start <= MAX_ANSWER:
                    for before in dict.fromkeys(headers):
                        yield Excerpt(before, written[start:end], written[end:])

    def marks_in(self, written: str) -> tuple[str, str]:
        """Return what stands around the thought in *written*, and not in an answer without one."""
        before, _, behind = written.partition(THOUGHT)
        start = before[self._start_in(before, self.plain) :]
        return start.strip(), behind.partition(WORDS)[0].strip()

    def _start_in(self, written: str, other: str) -> int:
        """Return where the answer begins: what comes before it is in *other*, too."""
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
    """An answer as a template writes it: *text*, what comes before it, and what after."""

    header: str
    text: str
    tail: str


_MAX_ENDS: Final = 6
_HALF_MARKER: Final = re.compile(r"<[^<>\s]*\Z|\[[^\[\]<>\s]*\Z")
_MARKER_END: Final = re.compile(r"[>\]]")
_MARKER: Final = re.compile(r"<[^<>\s]*>|\[[^\[\]\s]*\]")


def _json_text(arguments: dict[str, Any]) -> str:
    """Write JSON with the spaces that templates put into it."""
    pairs = (f'"{key}": {_json.encode(value).decode()}' for key, value in arguments.items())
    return "{" + ", ".join(pairs) + "}"


def _size_of_half_marker(text: str, end: int) -> int:
    """Return how much of a marker like ``<think>`` or ``[THINK]`` has come where *text* is cut."""
    found = _HALF_MARKER.search(text, max(0, end - _MAX_MARKER), end)
    return 0 if found is None else end - found.start()


def _shared(one: str, other: str) -> int:
    """Return how many characters *one* and *other* begin with alike."""
    size = min(len(one), len(other))
    return next((at for at in range(size) if one[at] != other[at]), size)


_CANDIDATES: Final = sorted(
    (known for known in BUILT_IN if known.name not in (UNKNOWN, NONE.name)),
    key=lambda known: not known.models,
)
"""Formats to try: first those that some model was trained on."""


def recognise(
    source: str, *, bos_token: str = "", eos_token: str = "", thinking: bool | None = None
) -> ModelFormat:
    """Return what the model writes whose chat template is *source*."""
    variables: dict[str, object] = {"bos_token": bos_token, "eos_token": eos_token}
    if thinking is not None:
        variables |= {"enable_thinking": thinking, "thinking": thinking}
    chat = TemplateChat(source, variables)
    found = _written_in(chat) or _announced_in(chat)
    known = NONE if found is None else found
    style = _style_of(chat, known)
    suffix = _suffix_of(chat, known, style)
    if found is None:
        return ModelFormat(UNKNOWN, style, suffix)
    name = found.name if found in BUILT_IN else found
    return ModelFormat(name, style, suffix)


class _Sample(Struct, frozen=True):
    """Calls that a template has written: one, and two where it agreed to that."""

    wording: Wording
    one: list[Excerpt]
    two: list[Excerpt]


def _samples(chat: TemplateChat) -> Iterator[_Sample]:
    seen = {""}
    for wording in WORDINGS:
        one = chat.write(wording.answer(1))
        if one not in seen:  # Most templates write the same for any wording.
            seen.add(one)
            two = chat.write(wording.answer(2))
            yield _Sample(wording, [*chat.answers_in(one)], [*chat.answers_in(two)])


def _written_in(chat: TemplateChat) -> Format | None:
    """Find the format that *chat* writes calls in."""
    samples = [*_samples(chat)]
    for sample in samples:
        for excerpt in sample.one:
            calls = sample.wording.calls(1)
            readers = [known for known in _CANDIDATES if _reads(known, excerpt, calls)]
            if readers:
                return max(readers, key=lambda known: _fitness(known, excerpt, sample))
    made = (_between_markers(sample) for sample in samples)
    return next(filter(None, made), None)


def _fitness(known: Format, excerpt: Excerpt, sample: _Sample) -> tuple[bool, int]:
    """Return how well *known* fits: whether it reads two calls, how alike it writes one."""
    reads_two = any(_reads(known, both, sample.wording.calls(2)) for both in sample.two)
    own = _rendered(known, sample.wording.calls(1)[0])
    likeness = _likeness(own.strip(), excerpt.text.strip())
    return reads_two, 2 * likeness + excerpt.text.startswith(own)


def _likeness(one: str, other: str) -> int:
    """Count what *one* and *other* have alike at either end; none are more alike than equals."""
    size = min(len(one), len(other))
    before = next((at for at in range(size) if one[at] != other[at]), size)
    behind = next((at for at in range(size) if one[-1 - at] != other[-1 - at]), size)
    return before + behind + (one == other)


def _rendered(known: Format, call: ToolCall) -> str:
    try:
        return known.render_call(call)
    except UsageError:
        return ""


def _between_markers(sample: _Sample) -> Format | None:
    """Make a format of calls in JSON whose markers are whatever stands around it."""
    if not sample.one:
        return None
    excerpt = sample.one[0]
    text = excerpt.text
    starts = [at for at, char in enumerate(text) if char in "{["][:_MAX_TRIES]
    ends = [at + 1 for at, char in enumerate(text) if char in "}]"][-_MAX_TRIES:]
    for start in starts:
        for end in reversed(ends):
            before, behind = text[:start].strip(), text[end:].strip() or excerpt.tail.strip()
            if 0 < len(before) <= _MAX_MARKER and 0 < len(behind) <= _MAX_MARKER and end > start:
                made = json_mix(before, behind)
                if _reads(made, excerpt, sample.wording.calls(1)):
                    return made
    return None


def _announced_in(chat: TemplateChat) -> Format | None:
    """Find the format that the prompt tells the model to call in."""
    said = _squeezed(chat.prompt)
    said_anyway = _squeezed(chat.write(add_generation_prompt=True, tools=None))
    found = [
        (len(beginning), -number)
        for number, known in enumerate(_CANDIDATES)
        for beginning in _beginnings_of(known)
        if beginning in said and beginning not in said_anyway
    ]
    return _CANDIDATES[-max(found)[1]] if found else None


def _beginnings_of(known: Format) -> list[str]:
    """List how a call of *known* begins: up to the name of the tool, and only its marker."""
    before = _rendered(known, CALLS[0]).partition(CALLS[0].name)[0]
    beginnings = [_squeezed(before).rstrip('"'), *_starts_of(known)[:1]]
    return [text for text in beginnings if len(text) >= _MIN_MARKER and text[0] in "<["]


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _style_of(chat: TemplateChat, known: Format) -> str | Reasoning | None:
    """Find how reasoning are marked; None where the format's own way will do, or nobody knows."""
    for answer in (PLAIN, *(wording.answer(1) for wording in WORDINGS)):
        written = chat.write({**answer, **THINKING})
        if THOUGHT in written:
            excerpts = [*map(_up_to_words, islice(chat.answers_in(written), _MAX_TRIES))]
            for style in (None, *STYLES.values(), *_marked(chat, written)):
                if any(_thinks(known, style, excerpt) for excerpt in excerpts):
                    return style.name if style is not None and style.name in STYLES else style
            return None
    return None


def _up_to_words(excerpt: Excerpt) -> Excerpt:
    before, words, behind = excerpt.text.partition(WORDS)
    return Excerpt(excerpt.header, before + words, behind + excerpt.tail)


def _marked(chat: TemplateChat, written: str) -> Iterator[Reasoning]:
    """Make a style of whatever stands around the thought."""
    start, end = chat.marks_in(written)
    if 0 < len(start) <= _MAX_MARKER and 0 < len(end) <= _MAX_MARKER:
        yield Reasoning("template", (start,), (end,))


def _suffix_of(chat: TemplateChat, known: Format, style: str | Reasoning | None) -> str:
    """Return what the prompt ends with, as far as it says how the answer begins."""
    opening = chat.opening
    if hasattr(known.calls.syntax(TOOLS), "opened_in"):  # It begins with half a header.
        return opening
    reasoning = STYLES[style] if isinstance(style, str) else style or known.usual_reasoning
    starts = ("<think>", *(reasoning.starts if reasoning is not None else ()))
    found = [at for at in map(opening.find, starts) if at != -1]
    return opening[min(found) :] if found else ""


def _reads(known: Format, excerpt: Excerpt, calls: Iterable[ToolCall]) -> bool:
    """Return whether *known* reads *excerpt* as *calls* and nothing else."""
    before = excerpt.header + excerpt.text
    if CALLS[0].name not in excerpt.text or not any(map(before.__contains__, _starts_of(known))):
        return False
    message = _read(known, None, excerpt)
    said = [(call.name, call.arguments) for call in message.tool_calls if call.complete]
    rest = message.text + message.thinking
    return said == [(call.name, call.arguments) for call in calls] and not rest.strip()


@cache
def _starts_of(known: Format) -> tuple[str, ...]:
    return known.calls.syntax(TOOLS).starts


def _thinks(known: Format, style: Reasoning | None, excerpt: Excerpt) -> bool:
    """Return whether *excerpt* is read as the thought, and something else after it."""
    message = _read(known, style, excerpt)
    is_said = message.text.strip() == WORDS or (message.tool_calls and not message.text.strip())
    return message.thinking.strip() == THOUGHT and bool(is_said)


def _read(known: Format, style: Reasoning | None, excerpt: Excerpt) -> AssistantMessage:
    parser = known.parser(TOOLS, reasoning=style, prompt_suffix=excerpt.header)
    return message_of([*parser.feed(excerpt.text), *parser.finish(cut=False)])


_MAX_TRIES: Final = 8
_MIN_MARKER: Final = 8
_MAX_MARKER: Final = 64
