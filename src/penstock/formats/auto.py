"""The format `auto`: the syntax of all formats at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from penstock.formats.auto_reader import (
    TILDES,
    USUAL,
    AutoHeader,
    DetectionState,
    FirstHeader,
    Recognition,
    may_begin_header,
    muse_header,
    usual_firsts,
)
from penstock.formats.auto_table import (
    ALONE,
    ANY,
    LEADING,
    NOT_MARKERS,
    REASONING_STYLES,
    SHARED,
    AutoRow,
    FormatChoice,
    element_row,
    file_row,
    unless,
)
from penstock.formats.base import Format
from penstock.formats.channels import FORMATS as CHANNELS
from penstock.formats.cohere import COHERE_COMMAND5
from penstock.formats.gemma4 import FORMATS as DELIMITED
from penstock.formats.json_calls import BARE_JSON, GEMMA, HERMES
from penstock.formats.json_models import FORMATS as JSON_MODELS
from penstock.formats.json_models import LEADING_FORMATS as JSON_LEADING
from penstock.formats.morph_xml import MORPH_XML, YAML_XML
from penstock.formats.named_json import FORMATS as NAMED_JSON
from penstock.formats.parameter_models import FORMATS as PARAMETER_MODELS
from penstock.formats.parameter_tags import GLM_FORMATS as GLM
from penstock.formats.parameter_tags import INVOKE_FORMATS as INVOKES
from penstock.formats.parameter_tags import MINIMAX_FORMATS as MINIMAX
from penstock.formats.parameter_tags import QWEN3_CODER_FORMATS as QWEN3_CODER
from penstock.formats.pythonic import FORMATS as PYTHONIC
from penstock.formats.pythonic import SARASHINA
from penstock.formats.reasoning import STYLES
from penstock.formats.sentinel import SENTINEL
from penstock.formats.tool_tag import FILE_TAGS, TOOL_TAG
from penstock.formats.wrappers import DSML_ENDS, DSML_SECTIONS, FILLERS, MINIMAX_ENDS, WRAPPERS
from penstock.messages import ToolCall, ToolResult
from penstock.parsing.body import Syntax, Wrapper
from penstock.readers.channels import Opening
from penstock.tools import Tool

FORMATS: Final = {
    one.name: one
    for one in (
        *(HERMES, GEMMA, MORPH_XML, YAML_XML, TOOL_TAG, FILE_TAGS, SENTINEL, BARE_JSON),
        *(
            *JSON_MODELS,
            *JSON_LEADING,
            *NAMED_JSON,
            *CHANNELS,
            *PYTHONIC,
            SARASHINA,
            COHERE_COMMAND5,
        ),
        *(*QWEN3_CODER, *GLM, *INVOKES, *MINIMAX, *PARAMETER_MODELS, *DELIMITED),
    )
}
"""The formats that are recognised."""

_ALWAYS: Final = re.compile("")
_NEVER: Final = re.compile(r"(?!)")
# A header without "<" after its start: it may still become Harmony's or Muse's.
_AFTER_START: Final = re.compile(r"[^<]*\Z")


class AutoSyntax(Syntax):
    """The markers of every format, for one response.

    Without *tools* nothing is known of the names, so a marked call of any tool is a call.
    """

    leading = LEADING
    has_headers = True
    follows_code = True
    starts: tuple[str, ...] = ()
    later_starts: tuple[str, ...] = ()
    unless: str = ""

    def __init__(self, rows: Mapping[str, AutoRow], tools: tuple[Tool, ...]) -> None:
        self.starts = tuple(rows)
        self.later_starts = super().later_starts
        self.unless = unless(tool.name for tool in tools)
        self.detection = DetectionState(FORMATS, tools)
        self._rows = rows
        self._tools = tools
        self._headers = USUAL
        self._firsts = usual_firsts(tool.name for tool in tools)

    @property
    def only_known_tools(self) -> bool:
        """Whether a call of a tool that was not declared is text: if any were declared."""
        return bool(self._tools)

    @property
    def has_calls_in_code(self) -> bool:
        """Whether a marker was text because it is in code."""
        return self.detection.has_calls_in_code

    def is_quoted(self, line: str) -> bool:
        """Return whether a marker after *line* is in code."""
        return self.detection.is_quoted(line)

    def allow_calls_in_code(self) -> None:
        """Read calls in code as calls."""
        self.detection.reads_code = True

    def copy(self) -> AutoSyntax:
        """Return a syntax for another response."""
        twin = AutoSyntax.__new__(AutoSyntax)
        twin.__dict__.update(self.__dict__)  # `copy.copy` takes three times as long.
        twin.detection = DetectionState(FORMATS, self._tools)
        return twin

    def body(self, marker: str) -> Recognition:
        """Return a reader that decides which format the call after *marker* has."""
        row = self._rows.get(marker)
        if row is None:  # It counts only in the channel that is open.
            row = AutoRow(_NEVER, (FormatChoice(self.detection.family, marker, _ALWAYS),))
        return Recognition(marker, row, self.detection)

    def parse_prompt(self, prompt: str) -> Opening | None:
        """Return the state after *prompt*, if a message header is in it."""
        # R16 reads a prompt suffix as if it were output that came before.
        if not prompt.strip():
            self._headers = USUAL
            return None
        self._headers = ()
        # The formats whose prompts end inside of a header.
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
        if name == "harmony" and _AFTER_START.fullmatch(header.begun):
            self._headers = (muse_header(marker, header.begun), header)
        elif name in ("inkling", "functionary_v3_2"):
            self._headers = (header,)
        else:
            return begun, None
        return None

    def first_body(self, text: str) -> FirstHeader | None:
        """Return the reader of a header that the prompt has begun, or may have begun."""
        firsts = self._firsts if self._headers is USUAL else None
        if not self._headers or not may_begin_header(text, firsts):
            return None
        return FirstHeader(self._headers, self.detection, firsts)


class AutoCalls(Struct, frozen=True):
    """Calls in any format; they are written as in `hermes`."""

    def syntax(self, tools: Iterable[Tool]) -> AutoSyntax:
        """Return a new syntax for one response."""
        known = tuple(tools)
        return AutoSyntax(rows_for(tuple(tool.name for tool in known)), known)

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as in `hermes`."""
        return HERMES.calls.render_call(call)

    def render_result(self, result: ToolResult) -> str:
        """Write a result as in `hermes`."""
        return HERMES.calls.render_result(result)


@lru_cache(maxsize=64)
def rows_for(names: tuple[str, ...]) -> dict[str, AutoRow]:
    """Return every marker with the formats it may belong to, for tools with these *names*."""
    tools = [Tool(name) for name in names]
    rows = {**SHARED, TILDES: AutoRow(_NEVER, ())}
    for name in REASONING_STYLES:
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
    """Return *rows*, and one for each start of *owners*, which maps it to its format.

    Of two markers where one begins with the other, only the shorter one counts. Each tool brings
    two starts, so only neighbours in sorted order are compared.
    """
    shortest = _shortest_prefixes((*rows, *owners))
    found = {marker: row for marker, row in rows.items() if shortest[marker] in rows}
    for start, name in owners.items():
        if shortest[start] == start and start not in rows:
            is_element = name == "morph_xml" and not start.endswith("/>")
            alone = AutoRow(_NEVER, (FormatChoice(name, start, _ALWAYS),))
            found[start] = element_row(start) if is_element else alone
    return found


def _shortest_prefixes(markers: Iterable[str]) -> dict[str, str]:
    """Return for each of *markers* the shortest of them that it begins with, which may be itself.

    In sorted order, markers follow directly after their prefix.
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
    # For models without a format of their own: most have seen hermes in training.
    prompt=HERMES.prompt,
    reasoning=ANY,
    wrappers=(
        *WRAPPERS,
        *STYLES["cohere_command"].wrappers,
        *STYLES["minimax_m3"].wrappers,
        *STYLES["gemma4"].wrappers,
        *(Wrapper(each.marker, "last") for each in STYLES["minicpmv"].wrappers),
        # Apriel 1.5 closes its answer with this line, 1.6 does not.
        Wrapper("[END FINAL RESPONSE]", "last"),
        # PLaMo 3 repeats the end of its reasoning in the text.
        Wrapper("<|plamo:end_think:plamo|>"),
        # GigaChat's end of a message.
        Wrapper("<|message_sep|>"),
        # PLaMo's end of a turn, and below the start of a message of Solar Open and the kind of its
        # text.
        Wrapper("<|plamo:tag|>"),
        Wrapper("<|begin|>assistant"),
        Wrapper("<|content|>", "first"),
        *DSML_SECTIONS,
        *DSML_ENDS,
        *MINIMAX_ENDS,
        *FILLERS,
        Wrapper("[EOS]", "last"),
        *(Wrapper(end, "after_call") for end in ("[/TOOL_CALLS]", "[/ARGS]")),
    ),
)
