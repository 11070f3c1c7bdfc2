"""Recognise the format and the reasoning style of a chat template.

Strategy: parse instead of searching for markers. The template renders a message with a call, and
every known format parses it; a format that returns the same call and leaves no text is a candidate.
Of several candidates the one wins that also reads two calls, and that renders the call most like
the template. Reasoning is recognised in the same way.

Some templates render no calls but instruct the model how to write them. Then the format wins whose
calls begin like the example in the prompt, if that text appears only when there are tools.
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
from penstock.formats.base import Format, build_message
from penstock.formats.jinja_sandbox import RunawayError, Sandbox
from penstock.formats.json_calls import json_mix
from penstock.formats.model_names import UNKNOWN, ModelFormat
from penstock.formats.reasoning import STYLES
from penstock.formats.registry import BUILT_IN, NONE
from penstock.messages import AssistantMessage, ToolCall
from penstock.parsing import Reasoning
from penstock.tools import Tool, read_tools

# The conversation that a template is tried with. Its words occur in no template, so they can be
# found in the output. It exists in several wordings, because templates differ: some want arguments
# as an object and some as JSON text, Mistral's want ids of nine characters, Kimi's take the name
# from the id, and some fail on a message without content.


MAX_ANSWER: Final = 4_096
"""The longest excerpt that is parsed: two calls and reasoning need some hundred characters."""

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

# Variables of some older templates.
_SURROUNDINGS: Final = {"functions": _json.encode(_TOOLS).decode(), "datetime": "2024-01-01"}

_IDS: Final = ("lead00001", "lamp00002")


class Wording(Struct, frozen=True):
    """One way to give calls to a template: arguments as text, ids with the name, no content."""

    as_text: bool = False
    named_ids: bool = False
    without_content: bool = False

    def calls(self, count: int) -> list[ToolCall]:
        """Return the first *count* calls with ids."""
        return [
            ToolCall(self._id(number), call.name, call.arguments)
            for number, call in enumerate(CALLS[:count])
        ]

    def answer(self, count: int, **more: Any) -> dict[str, Any]:
        """Return a message with *count* calls."""
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
"""All wordings, the most common first."""

PLAIN: Final = {"role": "assistant", "content": WORDS}
THINKING: Final = {"reasoning_content": THOUGHT, "reasoning": THOUGHT, "thinking": THOUGHT}
"""Reasoning, under each key that templates use."""


class TemplateChat:
    """A conversation rendered by a template.

    *prompt* is the prompt for a response, *plain* the same conversation with a plain response.
    """

    def __init__(self, source: str, variables: dict[str, Any]) -> None:
        self._size = len(source)
        self._variables = {**_SURROUNDINGS, **variables, "tools": _TOOLS}
        self._sandbox = Sandbox()
        self._template = self._load(source)
        self.prompt = self.write(add_generation_prompt=True)
        self.plain = self.write(PLAIN)

    def write(self, answer: dict[str, Any] | None = None, **more: Any) -> str:
        """Render the question and *answer*; return "" if the template fails."""
        if self._template is None:
            return ""
        messages = [{"role": "user", "content": QUESTION}, *([answer] if answer else [])]
        given = {"add_generation_prompt": False, **self._variables, "messages": messages, **more}
        try:
            return self._sandbox.write(self._template, self._size, deepcopy(given))
        except (RunawayError, RecursionError, MemoryError):
            self._template = None  # It would fail again.
        except Exception:  # noqa: BLE001, S110 - an untrusted template may raise anything
            pass
        return ""

    @property
    def opening(self) -> str:
        """The end of the prompt, after the last message."""
        before = self.write()
        if before and before != self.prompt and self.prompt.startswith(before):
            return self.prompt[len(before) :]
        return self.prompt.rpartition(QUESTION)[2]

    def _load(self, source: str) -> Template | None:
        try:
            return self._sandbox.load(source)
        except Exception:  # noqa: BLE001 - an untrusted template may be broken in any way
            return None

    def answers_in(self, written: str) -> Iterator[Excerpt]:
        """Yield possible excerpts of the answer in *written*, the most likely first."""
        if QUESTION not in written:
            return
        starts = (self._start_in(written, self.prompt), self._start_in(written, self.plain))
        for start in dict.fromkeys(starts):
            header = written[:start].rpartition(QUESTION)[2]
            # A template that omits reasoning which the prompt opens may still write its end.
            headers = (header, self.prompt.rpartition(QUESTION)[2], header + "<think>")
            for end in self._ends_in(written, start):
                if end - start <= MAX_ANSWER:
                    for before in dict.fromkeys(headers):
                        yield Excerpt(before, written[start:end], written[end:])

    def marks_in(self, written: str) -> tuple[str, str]:
        """Return the text around the reasoning in *written* that *plain* does not have."""
        before, _, after = written.partition(THOUGHT)
        start = before[self._start_in(before, self.plain) :]
        return start.strip(), after.partition(WORDS)[0].strip()

    def _start_in(self, written: str, other: str) -> int:
        """Return where the answer begins: *other* shares the text before it."""
        start = _shared(written, other)
        if start < min(len(written), len(other)):  # Do not split markers with a common prefix.
            start -= _size_of_half_marker(written, start)
        return max(start, written.find(QUESTION) + len(QUESTION))

    def _ends_in(self, written: str, start: int) -> list[int]:
        """Return where the answer may end: before the end of turn, or before a marker."""
        tail = self.plain.rpartition(WORDS)[2]
        first = len(written) - min(_shared(written[::-1], tail[::-1]), len(written) - start)
        if _size_of_half_marker(written, first):  # Do not split markers with a common suffix.
            found = _MARKER_END.search(written, first)
            first = len(written) if found is None else found.end()
        marks = [found.start() for found in _MARKER.finditer(written, first)]
        last = [found.start() for found in _MARKER.finditer(written, start, first)]
        return [first, *marks[:_MAX_ENDS], len(written), *last[: -_MAX_ENDS - 1 : -1]]


class Excerpt(Struct, frozen=True):
    """The *text* of an answer, and the rendered text before and after it."""

    header: str
    text: str
    tail: str


_MAX_ENDS: Final = 6
_HALF_MARKER: Final = re.compile(r"<[^<>\s]*\Z|\[[^\[\]<>\s]*\Z")
_MARKER_END: Final = re.compile(r"[>\]]")
_MARKER: Final = re.compile(r"<[^<>\s]*>|\[[^\[\]\s]*\]")


def _json_text(arguments: dict[str, Any]) -> str:
    """Write JSON with the spaces that templates expect."""
    pairs = (f'"{key}": {_json.encode(value).decode()}' for key, value in arguments.items())
    return "{" + ", ".join(pairs) + "}"


def _size_of_half_marker(text: str, end: int) -> int:
    """Return the size of a cut marker like ``<thi`` before *end*, or 0."""
    found = _HALF_MARKER.search(text, max(0, end - _MAX_MARKER), end)
    return 0 if found is None else end - found.start()


def _shared(one: str, other: str) -> int:
    """Return the length of the common prefix of *one* and *other*."""
    size = min(len(one), len(other))
    return next((at for at in range(size) if one[at] != other[at]), size)


# Formats to try: first those that models were trained on.
_CANDIDATES: Final = sorted(
    (known for known in BUILT_IN if known.name not in (UNKNOWN, NONE.name)),
    key=lambda known: not known.models,
)


def recognise(
    source: str, *, bos_token: str = "", eos_token: str = "", thinking: bool | None = None
) -> ModelFormat:
    """Return the format of the model whose chat template is *source*."""
    variables: dict[str, object] = {"bos_token": bos_token, "eos_token": eos_token}
    if thinking is not None:
        variables |= {"enable_thinking": thinking, "thinking": thinking}
    chat = TemplateChat(source, variables)
    found = _find_rendered(chat) or _find_announced(chat)
    known = NONE if found is None else found
    style = _find_reasoning(chat, known)
    suffix = _prompt_suffix(chat, known, style)
    if found is None:
        return ModelFormat(UNKNOWN, style, suffix)
    name = found.name if found in BUILT_IN else found
    return ModelFormat(name, style, suffix)


class _Sample(Struct, frozen=True):
    """Calls rendered by a template: one, and two if the template allows it."""

    wording: Wording
    one: list[Excerpt]
    two: list[Excerpt]


def _samples(chat: TemplateChat) -> Iterator[_Sample]:
    seen = {""}
    for wording in WORDINGS:
        one = chat.write(wording.answer(1))
        if one not in seen:  # Most templates render all wordings alike.
            seen.add(one)
            two = chat.write(wording.answer(2))
            yield _Sample(wording, [*chat.answers_in(one)], [*chat.answers_in(two)])


def _find_rendered(chat: TemplateChat) -> Format | None:
    """Return the format in which *chat* renders calls."""
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
    """Return how well *known* fits: whether it reads two calls, how similarly it renders one."""
    reads_two = any(_reads(known, both, sample.wording.calls(2)) for both in sample.two)
    own = _rendered(known, sample.wording.calls(1)[0])
    likeness = _likeness(own.strip(), excerpt.text.strip())
    return reads_two, 2 * likeness + excerpt.text.startswith(own)


def _likeness(one: str, other: str) -> int:
    """Return the size of the common prefix and suffix of *one* and *other*, plus 1 if equal."""
    return _shared(one, other) + _shared(one[::-1], other[::-1]) + (one == other)


def _rendered(known: Format, call: ToolCall) -> str:
    try:
        return known.render_call(call)
    except UsageError:
        return ""


def _between_markers(sample: _Sample) -> Format | None:
    """Make a format whose markers are the text around the JSON of a call."""
    if not sample.one:
        return None
    excerpt = sample.one[0]
    text = excerpt.text
    starts = [at for at, char in enumerate(text) if char in "{["][:_MAX_TRIES]
    ends = [at + 1 for at, char in enumerate(text) if char in "}]"][-_MAX_TRIES:]
    for start in starts:
        for end in reversed(ends):
            before, after = text[:start].strip(), text[end:].strip() or excerpt.tail.strip()
            if 0 < len(before) <= _MAX_MARKER and 0 < len(after) <= _MAX_MARKER and end > start:
                made = json_mix(before, after)
                if _reads(made, excerpt, sample.wording.calls(1)):
                    return made
    return None


def _find_announced(chat: TemplateChat) -> Format | None:
    """Return the format that the prompt instructs the model to use."""
    prompt = _squeezed(chat.prompt)
    without_tools = _squeezed(chat.write(add_generation_prompt=True, tools=None))
    found = [
        (len(beginning), -number)
        for number, known in enumerate(_CANDIDATES)
        for beginning in _call_beginnings(known)
        if beginning in prompt and beginning not in without_tools
    ]
    return _CANDIDATES[-max(found)[1]] if found else None


def _call_beginnings(known: Format) -> list[str]:
    """Return how a call of *known* begins: up to the name of the tool, and the marker alone."""
    before = _rendered(known, CALLS[0]).partition(CALLS[0].name)[0]
    beginnings = [_squeezed(before).rstrip('"'), *_start_markers(known)[:1]]
    return [text for text in beginnings if len(text) >= _MIN_MARKER and text[0] in "<["]


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _find_reasoning(chat: TemplateChat, known: Format) -> str | Reasoning | None:
    """Return the reasoning style; None if it is the format's own, or if there is no reasoning."""
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
    before, words, after = excerpt.text.partition(WORDS)
    return Excerpt(excerpt.header, before + words, after + excerpt.tail)


def _marked(chat: TemplateChat, written: str) -> Iterator[Reasoning]:
    """Make a style of the text around the reasoning."""
    start, end = chat.marks_in(written)
    if 0 < len(start) <= _MAX_MARKER and 0 < len(end) <= _MAX_MARKER:
        yield Reasoning("template", (start,), (end,))


def _prompt_suffix(chat: TemplateChat, known: Format, style: str | Reasoning | None) -> str:
    """Return the end of the prompt, as far as it decides how the response begins."""
    opening = chat.opening
    if known.calls.syntax(TOOLS).has_headers:  # It begins with half a header.
        return opening
    reasoning = STYLES[style] if isinstance(style, str) else style or known.usual_reasoning
    starts = ("<think>", *(reasoning.starts if reasoning is not None else ()))
    found = [at for at in map(opening.find, starts) if at != -1]
    return opening[min(found) :] if found else ""


def _reads(known: Format, excerpt: Excerpt, calls: Iterable[ToolCall]) -> bool:
    """Return whether *known* reads *excerpt* as *calls* and nothing else."""
    before = excerpt.header + excerpt.text
    starts = _start_markers(known)
    if CALLS[0].name not in excerpt.text or not any(map(before.__contains__, starts)):
        return False
    message = _read(known, None, excerpt)
    found = [(call.name, call.arguments) for call in message.tool_calls if call.complete]
    rest = message.text + message.thinking
    return found == [(call.name, call.arguments) for call in calls] and not rest.strip()


@cache
def _start_markers(known: Format) -> tuple[str, ...]:
    return known.calls.syntax(TOOLS).starts


def _thinks(known: Format, style: Reasoning | None, excerpt: Excerpt) -> bool:
    """Return whether *excerpt* parses as the reasoning, followed by text or calls."""
    message = _read(known, style, excerpt)
    answers = message.text.strip() == WORDS or (message.tool_calls and not message.text.strip())
    return message.thinking.strip() == THOUGHT and bool(answers)


def _read(known: Format, style: Reasoning | None, excerpt: Excerpt) -> AssistantMessage:
    parser = known.parser(TOOLS, reasoning=style, prompt_suffix=excerpt.header)
    return build_message([*parser.feed(excerpt.text), *parser.finish(cut=False)])


_MAX_TRIES: Final = 8
_MIN_MARKER: Final = 8
_MAX_MARKER: Final = 64
