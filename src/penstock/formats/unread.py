"""Text of a response that looks like a call and is not one, with the reason.

`find_unread` looks at a finished message and parses its text again. So it costs nothing while a
response streams, and its result does not depend on how the response was cut into chunks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from penstock.events import Event, TextStart, ThinkingStart, ToolCallEnd, ToolCallStart
from penstock.formats.auto import AUTO, AutoSyntax, rows_for
from penstock.formats.detect import detect
from penstock.formats.registry import FormatLike, get
from penstock.messages import AssistantMessage, Text, Thinking, ToolCall
from penstock.parsing import ONE_TOO_MANY, QUOTED_FROM, BrokenCall, Engine, FencedCalls
from penstock.tools import Tool, read_tools

UnreadReason = Literal[
    "not_offered", "other_format", "in_code", "in_reasoning", "refused", "broken", "cut"
]
"""Why text that looks like a call is not one.

* ``not_offered``: its tool is not among the tools.
* ``other_format``: the response was parsed in another format.
* ``in_code``: it is in a code fence, in inline code or in a block quote.
* ``in_reasoning``: it is in the reasoning.
* ``refused``: it is quoted from the conversation, or the request allows no more calls.
* ``broken``: its text is not a valid call.
* ``cut``: the response ended before the call did.
"""

MAX_UNREAD: Final = 20
"""How many calls are reported: the first ones show what is wrong."""

MAX_REREAD: Final = 64 * 1024
"""How many characters at the end of a block are parsed again: this takes about a millisecond."""

# How many characters are parsed between two checks.
_PIECE: Final = 512

# How many characters at the end are searched where all of them take too long: a few calls.
_SHORT: Final = 1024

# How many pieces are parsed whatever they take: a short text is always searched.
_FREE_PIECES: Final = 16

# Names of tools in calls without a marker, which are read only if the tool is known.
_NAMES: Final = re.compile(
    r"""["'](?:name|function|tool)["']\s{0,9}:\s{0,9}["']([\w.-]{1,128})["']"""
    r"""|<tool\s{1,9}name=["']([\w.-]{1,128})["']"""
    r"""|\[\s{0,9}([A-Za-z_]\w{0,127})\("""
)

# A text that `_NAMES` matches has at least one of them.
_NAME_SIGNS: Final = ("name", "function", "tool", "[")

# What a broken call of an unknown tool has, and prose that mentions a marker does not.
_STRUCTURE: Final = re.compile(
    r"""["'](?:name|function|tool)["']\s{0,9}:\s{0,9}["']\w|<(?:parameter|arg_key|arg\s|invoke\s)"""
)

_TOO_MANY: Final = "allow parallel calls"
_QUOTED: Final = 'pass quoted="calls" if the model meant it'
# For each reason: its description, and what to change.
_WORDS: Final[dict[UnreadReason, tuple[str, str]]] = {
    "not_offered": (
        "the tool is not offered",
        "offer the tool `{name}`, or pass format={format!r}, which reads calls of any tool",
    ),
    "other_format": (
        "the response was parsed in another format",
        'pass format={format!r}, or format="auto", which reads any format',
    ),
    "in_code": (
        "it is in code or in a block quote",
        'pass fenced="calls" if the model writes its calls in code fences',
    ),
    "in_reasoning": (
        "it is in the reasoning",
        "switch heal on: it reads a call in the reasoning of a response that has nothing else",
    ),
    "refused": (
        "it is quoted from the conversation, or one call too many",
        f"{_TOO_MANY}, or {_QUOTED}",
    ),
    "broken": (
        "it is not valid",
        "switch repair on: it repairs a call that has one possible meaning",
    ),
    "cut": (
        "the response ended before the call did",
        "raise the token limit of the request, or switch repair on if the model had stopped",
    ),
}


class UnreadCall(Struct, frozen=True):
    """A piece of a response that looks like a call of the tool *name* and is not one.

    *format* is what it looks like; it is empty for an incomplete call, whose text the message does
    not have. *index* is the number of the block in the message, and *start* and *end* are positions
    in its text. *error* is what is wrong with a broken call, or why a call was refused, and
    *advice* what to change so that the text becomes a call.
    """

    format: str
    name: str
    reason: UnreadReason
    index: int
    start: int = 0
    end: int = 0
    error: str = ""
    advice: str = ""

    @property
    def description(self) -> str:
        """What the text looks like and why it is not a call, on one line."""
        kind = f"a {self.format} call" if self.format else "a call"
        of = f" of `{self.name}`" if self.name else ""
        words = _WORDS[self.reason][0]
        if self.error and self.reason in ("broken", "refused"):
            words = f"{words}: {self.error}" if self.reason == "broken" else self.error
        return f"looks like {kind}{of}, but {words}"


def find_unread(
    message: AssistantMessage,
    format: FormatLike = "auto",  # noqa: A002 - as everywhere in the interface
    tools: object = (),
    *,
    complaints: Iterable[str] = (),
    should_stop: Callable[[], bool] | None = None,
) -> list[UnreadCall]:
    """Return what looks like a call in *message* and is not one, in order; at most `MAX_UNREAD`.

    *format* and *tools* are those that the response was parsed with, and *complaints* what its
    parser reported: it knows why it refused a call. Prose is not reported, and neither is a call in
    code of a tool that is not offered: that is an example.

    Once *should_stop* returns true, only the end of that text is searched, and no more: thousands
    of markers in a row take about a second. It is asked every 512 characters.
    """
    known, name = read_tools(tools), get(format).name
    was_cut = message.stop_reason not in ("stop", "tool_use", None)
    found: list[UnreadCall] = []
    _build_tables()
    watch = _Watch(should_stop)
    is_late = False
    for index, block in enumerate(message.content):
        if isinstance(block, Text):
            try:
                found += _search_text(block.text, index, name, known, watch)
            except _TookTooLongError:
                if not is_late:  # The end of one text is better than nothing.
                    found += _search_text(block.text, index, name, known, _Watch(), _SHORT)
                is_late = True
        elif isinstance(block, Thinking) and known and not message.tool_calls:
            with suppress(_TookTooLongError):
                found += _search_reasoning(block.text, index, known, watch)
        elif isinstance(block, ToolCall) and not block.complete:
            reason: UnreadReason = "cut" if was_cut else "broken"
            advice = _WORDS[reason][1]
            found.append(UnreadCall("", block.name, reason, index, advice=advice))
    reported = list(complaints)
    return [_explain_refusal(one, reported) for one in found[:MAX_UNREAD]]


def _explain_refusal(one: UnreadCall, complaints: list[str]) -> UnreadCall:
    """Return *one*, a refused call with the reason in *complaints*; that one is removed."""
    if one.reason != "refused":
        return one
    for complaint in complaints:
        why = complaint.partition(f" ({one.name})")[0]
        is_quoted = why.startswith(QUOTED_FROM)
        if is_quoted or why.startswith(ONE_TOO_MANY):
            complaints.remove(complaint)
            error = why.partition(": ")[0]
            advice = _QUOTED if is_quoted else _TOO_MANY
            return replace(one, error=f"it is {error}" if is_quoted else error, advice=advice)
    return one


class _TookTooLongError(Exception):
    """The search has taken its time."""


class _Watch:
    """Asks whether to stop, after the first pieces."""

    def __init__(self, should_stop: Callable[[], bool] | None = None) -> None:
        self._should_stop = should_stop
        self._checks = 0

    def check(self) -> None:
        """Raise `_TookTooLongError` if the search is to stop."""
        self._checks += 1
        if self._should_stop and self._checks > _FREE_PIECES and self._should_stop():
            raise _TookTooLongError


class _Found(NamedTuple):
    """A call of *format* at a place in a text; *error* if it is broken.

    One that *is_marked* is read by its format whether the tool is known or not.
    """

    format: str
    name: str
    start: int
    end: int
    error: str = ""
    is_marked: bool = True

    def overlaps(self, others: Iterable[_Found]) -> bool:
        """Return whether any of *others* has some of the same text."""
        return any(self.start < other.end and other.start < self.end for other in others)

    def explain(self, reason: UnreadReason, index: int, offset: int) -> UnreadCall:
        """Return the report of it: the text began *offset* characters into block *index*."""
        start, end = self.start + offset, self.end + offset
        advice = _WORDS[reason][1].format(name=self.name, format=self.format)
        if reason == "not_offered" and not self.is_marked:
            advice = f"offer the tool `{self.name}`"
        return UnreadCall(self.format, self.name, reason, index, start, end, self.error, advice)


@lru_cache(maxsize=1)
def _starts() -> list[str]:
    """Return the start markers of all formats; brackets and fences alone begin no marked call."""
    return sorted(start for start in rows_for(()) if re.search(r"\w|[<>]", start))


@lru_cache(maxsize=1)
def _marker_pattern() -> re.Pattern[str]:
    """Return a pattern of every start marker."""
    starts = _starts()
    brackets = r"\[TOOL_CALLS\]|(?i:\[\[SEG_START)|```tool_call"
    # The lookahead lets `re` skip to a first character: text takes a tenth of the time.
    firsts = re.escape("".join(sorted({start[0] for start in starts} | {"[", "`"})))
    return re.compile(f"(?=[{firsts}])(?:{'|'.join((*map(re.escape, starts), brackets))})")


@lru_cache(maxsize=1)
def _build_tables() -> None:
    """Build what every search uses: the first one would have no time left."""
    _marker_pattern()
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    _read(f"```\n{call}\n```\n{call}", [Tool("f")], "calls", _Watch())
    _read(call, (), "text", _Watch())


@lru_cache(maxsize=1)
def _signs() -> tuple[str, ...]:
    """Return strings of which a text with a start marker has at least one."""
    rare = ("<", "[", "`")
    others = {start for start in _starts() if not _has_any(start, rare)}
    return (*rare, *sorted(others))


def _has_any(text: str, signs: Iterable[str]) -> bool:
    return any(map(text.__contains__, signs))


def _may_have_calls(text: str, tools: list[Tool]) -> bool:
    """Return whether *text* has anything that a call could begin with; most texts do not."""
    # A search for a word takes a tenth of the time of a pattern, and prose has none of them.
    if _has_any(text, _signs()) and _marker_pattern().search(text) is not None:
        return True
    if _has_any(text, _NAME_SIGNS) and _NAMES.search(text) is not None:
        return True
    if "<" not in text and "(" not in text:
        return False
    return any(f"<{tool.name}" in text or f"{tool.name}(" in text for tool in tools)


def _search_text(
    text: str, index: int, format_: str, tools: list[Tool], watch: _Watch, most: int = MAX_REREAD
) -> list[UnreadCall]:
    watch.check()
    offset = max(0, len(text) - most)
    text = text[offset:]
    if not _may_have_calls(text, tools):
        return []
    # All calls of the tools, wherever they are; those of any tool that are not in code; and those
    # of the tools that are not in code.
    offered = [one for one in _read(text, tools, "calls", watch) if not one.error]
    anywhere = _read(text, (), "text", watch)
    anywhere += [one for one in _read_unmarked(text, watch) if not one.overlaps(anywhere)]
    outside = [
        one for one in (_read(text, tools, "text", watch) if tools else anywhere) if not one.error
    ]
    names = {tool.name for tool in tools}
    otherwise: UnreadReason = "refused" if format_ == AUTO.name else "other_format"
    found: list[UnreadCall] = []
    for one in offered:
        reason: UnreadReason = otherwise if one.overlaps(outside) else "in_code"
        found.append(one.explain(reason, index, offset))
    for one in anywhere:
        if one.overlaps(offered):
            continue
        reason = "not_offered"
        if one.error:
            segment = text[one.start : one.end]
            if one.name not in names and _STRUCTURE.search(segment) is None:
                continue
            if one.name in names or not names:
                reason = "cut" if one.error.endswith("cut") else "broken"
        found.append(one.explain(reason, index, offset))
    return sorted(found, key=lambda each: each.start)


def _search_reasoning(text: str, index: int, tools: list[Tool], watch: _Watch) -> list[UnreadCall]:
    """Return the complete calls of *tools* that a response without calls has in its reasoning."""
    watch.check()
    offset = max(0, len(text) - MAX_REREAD)
    text = text[offset:]
    if not _may_have_calls(text, tools):
        return []
    calls = [one for one in _read(text, tools, "text", watch) if not one.error]
    return [one.explain("in_reasoning", index, offset) for one in calls]


def _read(text: str, tools: Iterable[Tool], fenced: FencedCalls, watch: _Watch) -> list[_Found]:
    """Return the calls of *tools* in *text*, in any format, and the broken ones."""
    broken: list[BrokenCall] = []
    engine = AUTO.parser(
        tools, reasoning="none", fenced=fenced, on_error=lambda _, segment: broken.append(segment)
    )
    found = list(islice(_find_calls(engine, text, watch), MAX_UNREAD))
    at = 0
    for segment in broken:
        watch.check()
        start = text.find(segment.text, at) if segment.text else -1
        if start != -1:
            at = start + 1
            end = start + len(segment.text)
            error = str(segment.error or "")
            found.append(
                _Found(guess_format(segment.text, ""), segment.tool_name, start, end, error)
            )
    return found


def _read_unmarked(text: str, watch: _Watch) -> list[_Found]:
    """Return the calls in *text* that have no marker: bare JSON and Python, ``<tool name=…>``."""
    names = {next(filter(None, found)) for found in _NAMES.findall(text)}
    tools = [Tool(name) for name in sorted(names)[:MAX_UNREAD]]
    found = _read(text, tools, "text", watch) if tools else []
    return [one._replace(is_marked=False) for one in found if not one.error]


def _find_calls(engine: Engine, text: str, watch: _Watch) -> Iterator[_Found]:
    """Yield the complete calls that *engine* reads in *text*, with their places."""
    position = start = 0
    format_ = ""
    found: _Found | None = None
    for event in _parse(engine, text, watch):
        if found is not None:
            # The end marker of a call is attached to the start of the block after it.
            marker = event.raw if isinstance(event, TextStart | ThinkingStart) else ""
            yield found._replace(end=position + len(marker.rstrip()))
            found = None
        if isinstance(event, ToolCallStart):
            start = position
        position += len(event.raw)
        if isinstance(event, ToolCallEnd):
            # A later call of a section begins in the middle of it and has the format of the first.
            format_ = guess_format(text[start:position], event.call.name) or format_
            found = _Found(format_, event.call.name, start, position)
    if found is not None:
        yield found._replace(end=position + len(engine.rest.rstrip()))


def _parse(engine: Engine, text: str, watch: _Watch) -> Iterator[Event]:
    for at in range(0, len(text), _PIECE):
        watch.check()
        yield from engine.feed(text[at : at + _PIECE])
    watch.check()
    yield from engine.finish(cut=False)


def guess_format(text: str, name: str) -> str:
    """Return the format that *text*, a call of the tool *name*, looks like; empty if none."""
    # A search reads the same calls up to four times. Long ones are rare, and would fill the cache.
    return _guess_again(text, name) if len(text) <= _SHORT else _guess_format(text, name)


@lru_cache(maxsize=64)
def _guess_again(text: str, name: str) -> str:
    return _guess_format(text, name)


def _guess_format(text: str, name: str) -> str:
    found = detect(text) or (detect(text, [Tool(name)]) if name else None)
    if found is not None:
        return found.name
    syntax = AUTO.calls.syntax(())
    assert isinstance(syntax, AutoSyntax)  # noqa: S101 - it is its own
    Engine(syntax, (), wrappers=AUTO.wrappers).feed(text)
    return syntax.detection.chosen
