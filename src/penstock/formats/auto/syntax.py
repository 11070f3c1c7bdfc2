"""The syntax of any format at once, and the format that reads with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from penstock.formats.auto.reader import (
    TILDES,
    USUAL,
    AutoHeader,
    AutoResponse,
    FirstHeader,
    Recognition,
    muse,
)
from penstock.formats.auto.table import (
    ALONE,
    ANY,
    LEADING,
    NOT_MARKERS,
    SHARED,
    THOUGHTS,
    AutoRow,
    FormatChoice,
    file_row,
    unless,
)
from penstock.formats.base import Format
from penstock.formats.channels import FORMATS as CHANNELS
from penstock.formats.file_tags import FILE_TAGS
from penstock.formats.gemma4 import FORMATS as DELIMITED
from penstock.formats.json_calls import BARE_JSON, GEMMA, HERMES
from penstock.formats.json_models import FORMATS as JSON_MODELS
from penstock.formats.json_models import LEADING_FORMATS as JSON_LEADING
from penstock.formats.morph_xml import MORPH_XML
from penstock.formats.named_json import FORMATS as NAMED_JSON
from penstock.formats.parameter_tags import GLM_FORMATS as GLM
from penstock.formats.parameter_tags import INVOKE_FORMATS as INVOKES
from penstock.formats.parameter_tags import MINIMAX_FORMATS as MINIMAX
from penstock.formats.parameter_tags import QWEN3_CODER_FORMATS as QWEN3_CODER
from penstock.formats.pythonic import FORMATS as PYTHONIC
from penstock.formats.reasoning import STYLES, TURN_ENDS
from penstock.formats.sentinel import SENTINEL
from penstock.formats.tool_tag import TOOL_TAG
from penstock.messages import ToolCall, ToolResult
from penstock.parsing.readers.channels import Opening
from penstock.parsing.reasoning import Wrapper
from penstock.tools import Tool

FORMATS: Final = {
    one.name: one
    for one in (
        *(HERMES, GEMMA, MORPH_XML, TOOL_TAG, FILE_TAGS, SENTINEL, BARE_JSON),
        *(*JSON_MODELS, *JSON_LEADING, *NAMED_JSON, *CHANNELS, *PYTHONIC),
        *(*QWEN3_CODER, *GLM, *INVOKES, *MINIMAX, *DELIMITED),
    )
}
"""The formats that are recognised."""

_ALWAYS: Final = re.compile("")
_NEVER: Final = re.compile(r"(?!)")
_BEHIND_START: Final = re.compile(r"[^<]*\Z")


class AutoSyntax:
    """The markers of every format, for one answer."""

    folds = False
    knows_tools = True
    """Only calls of known tools are calls."""

    leading = LEADING
    """What counts only as the first thing of an answer."""

    def __init__(self, rows: Mapping[str, AutoRow], tools: tuple[Tool, ...]) -> None:
        self.starts = tuple(rows)
        self.unless = unless(tool.name for tool in tools)
        self.answer = AutoResponse(FORMATS, tools)
        self.is_quoted = self.answer.is_quoted
        self._rows = rows
        self._tools = tools
        self._headers = USUAL

    @property
    def has_protected(self) -> bool:
        """Whether a marker was text because it was in code."""
        return self.answer.has_protected

    def let_fenced(self) -> None:
        """Let calls in code be calls."""
        self.answer.reads_code = True

    def afresh(self) -> AutoSyntax:
        """Return a syntax for another text, in which calls in code are calls."""
        other = AutoSyntax(self._rows, self._tools)
        other.let_fenced()
        return other

    def body(self, marker: str) -> Recognition:
        """Return a reader that finds out whose call follows *marker*."""
        row = self._rows.get(marker)
        if row is None:  # It means something only in the channel that is open.
            row = AutoRow(_NEVER, (FormatChoice(self.answer.family, marker, _ALWAYS),))
        return Recognition(marker, row, self.answer)

    def opened_in(self, prompt: str) -> Opening | None:
        """Return in which state *prompt* leaves the answer, if it has a header in it."""
        self._headers = () if prompt.strip() else USUAL
        for name in ("kimi_k3", "inkling", "harmony", "functionary_v3_2"):
            syntax = FORMATS[name].calls.syntax(())
            at = max(prompt.rfind(start) for start in syntax.starts)
            if at != -1:
                return self._opened(name, prompt[at:])
        return None

    def _opened(self, name: str, begun: str) -> Opening | None:
        starts = FORMATS[name].calls.syntax(()).starts
        marker = max((start for start in starts if begun.startswith(start)), key=len)
        header = AutoHeader(name, marker, begun[len(marker) :])
        if name == "harmony" and _BEHIND_START.fullmatch(header.begun):
            self._headers = (muse(marker, header.begun), header)
        elif name in ("inkling", "functionary_v3_2"):
            self._headers = (header,)
        else:
            return begun, None
        return None

    def first_body(self) -> FirstHeader | None:
        """Return the reader of a header that the prompt has begun, or may have."""
        return FirstHeader(self._headers, self.answer) if self._headers else None


class AutoCalls(Struct, frozen=True):
    """Calls in any format; they are written as Hermes's."""

    def syntax(self, tools: Iterable[Tool]) -> AutoSyntax:
        """Return a fresh syntax for one answer."""
        known = tuple(tools)
        return AutoSyntax(rows_for(tuple(tool.name for tool in known)), known)

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as Hermes's models do."""
        return HERMES.calls.render_call(call)

    def render_result(self, result: ToolResult) -> str:
        """Write a result as Hermes's models read it."""
        return HERMES.calls.render_result(result)


@lru_cache(maxsize=64)
def rows_for(names: tuple[str, ...]) -> dict[str, AutoRow]:
    """Return every marker, and what it may stand for, where the tools are called *names*."""
    tools = [Tool(name) for name in names]
    rows = {**SHARED, TILDES: AutoRow(_NEVER, ())}
    for name in THOUGHTS:
        for start in STYLES[name].starts:
            rows[start] = AutoRow(_NEVER, (FormatChoice(name, start, _ALWAYS, thinks=True),))
    for start in FILE_TAGS.calls.syntax(tools).starts:
        rows[start] = file_row(start)
    owners: dict[str, str] = {}
    for name in ALONE:
        for start in FORMATS[name].calls.syntax(tools).starts:
            if start not in NOT_MARKERS:
                owners.setdefault(start, name)
    return with_starts(rows, owners)


def with_starts(rows: Mapping[str, AutoRow], owners: Mapping[str, str]) -> dict[str, AutoRow]:
    """Return *rows*, and one for each start of *owners*, which says whose it is.

    A start that begins as another marker does is not one; a row that begins as a start does goes.
    Each tool brings two starts, so no two markers are compared but neighbours in their order.
    """
    shortest = _shortest_beginnings((*rows, *owners))
    found = {marker: row for marker, row in rows.items() if shortest[marker] in rows}
    for start, name in owners.items():
        if shortest[start] == start and start not in rows:
            found[start] = AutoRow(_NEVER, (FormatChoice(name, start, _ALWAYS),))
    return found


def _shortest_beginnings(markers: Iterable[str]) -> dict[str, str]:
    """Return for each of *markers* the shortest of them that it begins with, which may be itself.

    In their order, what begins with a marker follows it at once.
    """
    found: dict[str, str] = {}
    shortest: str | None = None
    for marker in sorted(markers):
        if shortest is None or not marker.startswith(shortest):
            shortest = marker
        found[marker] = shortest
    return found


AUTO: Final[Format] = Format(
    name="auto",
    calls=AutoCalls(),
    prompt=HERMES.prompt,
    reasoning=ANY,
    wrappers=(
        *TURN_ENDS,
        *STYLES["cohere_command"].wrappers,
        *STYLES["minimax_m3"].wrappers,
        Wrapper("<|message_sep|>"),
    ),
)
