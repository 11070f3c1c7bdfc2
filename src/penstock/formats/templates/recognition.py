"""Which format a chat template writes calls in, and how it marks thoughts.

The strategy: not to look for markers, but to read. A call that the template has written is read
with every format that there is; one that gives the very call back, and leaves no text, is the
template's. Of several, that one counts which also reads two calls, and writes the call most like
the template. Thoughts are read in the same way.

Some templates write no calls at all, but tell the model how to: then the format counts whose call
begins as the prompt says, if it says so only where there are tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from typing import Final

from msgspec import Struct

from penstock.errors import UsageError
from penstock.formats.base import Format, message_of
from penstock.formats.json_tags import json_mix
from penstock.formats.models import UNKNOWN, ModelFormat
from penstock.formats.none import NONE
from penstock.formats.registry import BUILT_IN
from penstock.formats.templates.conversation import (
    CALLS,
    PLAIN,
    THINKING,
    THOUGHT,
    TOOLS,
    WORDINGS,
    WORDS,
    Chat,
    Excerpt,
    Wording,
)
from penstock.formats.thinking import STYLES
from penstock.messages import AssistantMessage, ToolCall
from penstock.parsing import Reasoning

_CANDIDATES: Final = sorted(
    (known for known in BUILT_IN if known.name not in (UNKNOWN, NONE.name)),
    key=lambda known: not known.models,
)
"""Formats to try: first those that some model was trained on."""


def recognise(
    source: str, *, bos_token: str = "", eos_token: str = "", thinking: bool | None = None
) -> ModelFormat:
    """Tell what the model writes whose chat template is *source*."""
    variables: dict[str, object] = {"bos_token": bos_token, "eos_token": eos_token}
    if thinking is not None:
        variables |= {"enable_thinking": thinking, "thinking": thinking}
    chat = Chat(source, variables)
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


def _samples(chat: Chat) -> Iterator[_Sample]:
    seen = {""}
    for wording in WORDINGS:
        one = chat.write(wording.answer(1))
        if one not in seen:  # Most templates write the same for any wording.
            seen.add(one)
            two = chat.write(wording.answer(2))
            yield _Sample(wording, [*chat.answers_in(one)], [*chat.answers_in(two)])


def _written_in(chat: Chat) -> Format | None:
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
    """Tell how well *known* fits: whether it reads two calls, how alike it writes one."""
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


def _announced_in(chat: Chat) -> Format | None:
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


def _style_of(chat: Chat, known: Format) -> str | Reasoning | None:
    """Find how thoughts are marked; None where the format's own way will do, or nobody knows."""
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


def _marked(chat: Chat, written: str) -> Iterator[Reasoning]:
    """Make a style of whatever stands around the thought."""
    start, end = chat.marks_in(written)
    if 0 < len(start) <= _MAX_MARKER and 0 < len(end) <= _MAX_MARKER:
        yield Reasoning("template", (start,), (end,))


def _suffix_of(chat: Chat, known: Format, style: str | Reasoning | None) -> str:
    """Give what the prompt ends with, as far as it says how the answer begins."""
    opening = chat.opening
    if hasattr(known.calls.syntax(TOOLS), "opened_in"):  # It begins with half a header.
        return opening
    reasoning = STYLES[style] if isinstance(style, str) else style or known.usual_reasoning
    starts = ("<think>", *(reasoning.starts if reasoning is not None else ()))
    found = [at for at in map(opening.find, starts) if at != -1]
    return opening[min(found) :] if found else ""


def _reads(known: Format, excerpt: Excerpt, calls: Iterable[ToolCall]) -> bool:
    """Tell whether *known* reads *excerpt* as *calls* and nothing else."""
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
    """Tell whether *excerpt* is read as the thought, and something else behind it."""
    message = _read(known, style, excerpt)
    is_said = message.text.strip() == WORDS or (message.tool_calls and not message.text.strip())
    return message.thinking.strip() == THOUGHT and bool(is_said)


def _read(known: Format, style: Reasoning | None, excerpt: Excerpt) -> AssistantMessage:
    parser = known.parser(TOOLS, reasoning=style, prompt_suffix=excerpt.header)
    return message_of([*parser.feed(excerpt.text), *parser.finish(cut=False)])


_MAX_TRIES: Final = 8
_MIN_MARKER: Final = 8
_MAX_MARKER: Final = 64
