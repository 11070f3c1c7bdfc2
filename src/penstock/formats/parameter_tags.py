"""Calls with a tag for each parameter and its value as raw text: how a dialect is read and written.

The families of dialects are in files of their own: `qwen3_coder`, `glm`, `invokes`, `minimax`.
How a call is written is a template that looks like the call: ``NAME`` is the tool, ``PARAMETERS``
all of its parameters, ``KEY`` and ``VALUE`` one of them. Calls of one message may share a section.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from penstock.errors import UsageError
from penstock.formats.base import Format
from penstock.formats.grammar import (
    PLACE,
    Outline,
    ParameterOutline,
    Slot,
    around,
    check_names,
    slot_of,
)
from penstock.formats.grammar.outline import Notation
from penstock.formats.grammar.text_without import Marks
from penstock.formats.prompts import HEAD, LINES, TAIL, TOOL_LINES, lines_in
from penstock.formats.reasoning import STYLES
from penstock.formats.rendering import spaced_json
from penstock.formats.round_trip import checked_round_trip
from penstock.messages import ToolCall, ToolResult
from penstock.parsing.readers.tagged.dialect import TagDialect, grammar_of
from penstock.parsing.readers.tagged.parameters import ParameterCallReader
from penstock.parsing.readers.tagged.tags import Spelling
from penstock.parsing.readers.tagged.values import ITEM
from penstock.tools import Tool

_PLACES: Final = re.compile(r'"(?:NAME|KEY)"|NAME|KEY|IS_TEXT|PARAMETERS|VALUE|CONTENT')


class ParameterCalls(Struct, frozen=True):
    """Calls of *dialect*, written as *call* and *parameter* show, results as *result* shows.

    *other_parameter* is how a value is written that the usual way would lose something of. The
    calls of one message stand from *opening* to *closing* with *between* between them.
    """

    dialect: TagDialect
    call: str
    parameter: str
    other_parameter: str = ""
    opening: str = ""
    closing: str = ""
    between: str = "\n"
    result: str = "<tool_response>\nCONTENT\n</tool_response>"

    def syntax(self, tools: Iterable[Tool]) -> ParameterCalls:
        """Return itself: the markers are the same for any *tools*."""
        del tools
        return self

    @property
    def starts(self) -> tuple[str, ...]:
        """What opens a section of calls, or a call."""
        return self.dialect.starts

    @property
    def folds(self) -> bool:
        """Markers are matched as they are."""
        return False

    def body(self, marker: str) -> ParameterCallReader:
        """Return a fresh reader for what follows *marker*."""
        return ParameterCallReader(self.dialect, marker)

    def render_call(self, call: ToolCall) -> str:
        """Write *call*; raise `UsageError` for a value that holds what would end it."""
        return self.render_calls([call])

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* in one section; raise `UsageError` as `render_call` does."""
        return self._in_section(self.between.join(map(self._call, calls)))

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        check_names(self.render_call, tool)
        places = {"NAME": tool.name, "PARAMETERS": PLACE}
        notation = Notation("json-in-tags", marks=self._marks)
        nests = self.dialect.nests
        parameters = ParameterOutline(
            self._slot, notation, elements=nests, item=ITEM if nests else ""
        )
        return Outline(
            around(_filled(self.call, places), parameters, PLACE),
            self.opening,
            self.closing,
            between=self.between,
            trigger=next(filter(self._in_section(self.call).startswith, self.dialect.starts), ""),
        )

    def render_result(self, result: ToolResult) -> str:
        """Write a result: text as it is, any other value as JSON."""
        content = result.content if isinstance(result.content, str) else spaced_json(result.content)
        return _filled(self.result, {"NAME": result.name, "CONTENT": content})

    @property
    def _marks(self) -> Marks:
        """What a value may not hold in a grammar: whatever might end it."""
        return Marks(grammar_of(self.dialect).ends)

    def _in_section(self, written: str) -> str:
        return self.opening + written + self.closing

    def _call(self, call: ToolCall) -> str:
        """Write *call* in the first way that reads back."""
        refused: UsageError | None = None
        for template in filter(None, (self.parameter, self.other_parameter)):
            written = "".join(self._parameter(template, *item) for item in call.arguments.items())
            text = _filled(self.call, {"NAME": call.name, "PARAMETERS": written})
            try:
                checked_round_trip(self, call, self._in_section(text))
            except UsageError as exc:
                refused = exc
            else:
                return text
        raise refused or UsageError("no way to write this")

    def _slot(self, key: str, kind: str) -> Slot:
        places = {"KEY": key, "VALUE": PLACE, "IS_TEXT": "true" if kind == "string" else "false"}
        return slot_of(_filled(self.parameter, places), self._marks)

    def _parameter(self, template: str, key: str, value: Any) -> str:
        is_text = isinstance(value, str)
        prefix = self.dialect.spelling.prefix
        written = _elements(value, prefix) if self.dialect.nests else _written(value)
        places = {"KEY": key, "VALUE": written, "IS_TEXT": "true" if is_text else "false"}
        return _filled(template, places)


def prompt_of(how: str) -> str:
    """Return the prompt of a format; *how* says what is special about its values."""
    return f"{HEAD}{_CALL}{how} For several calls, {_REPEAT}\n{TAIL}"


_CALL: Final = """\
To call a tool, write its name and each of its arguments between tags, like this:

{example}

"""
_REPEAT: Final = "repeat all of it, one after the other."


def _filled(template: str, places: Mapping[str, str]) -> str:
    """Fill the places of *template*, all at once: what is put in may hold the name of a place."""

    def fill(place: re.Match[str]) -> str:
        name = place[0]
        if name.startswith('"'):
            return _quoted(places[name[1:-1]])
        return places[name]

    return _PLACES.sub(fill, template)


def _quoted(text: str) -> str:
    quote = "'" if '"' in text else '"'
    return f"{quote}{text}{quote}"


def _written(value: Any) -> str:
    return value if isinstance(value, str) else spaced_json(value)


class _Mark(str):
    """Markup that is between values."""

    __slots__ = ()


def _elements(value: Any, prefix: str) -> str:
    """Write *value* as elements; what is inside of it waits in a list, so that it may be deep."""
    pieces: list[str] = []
    waiting = [value]
    while waiting:
        match waiting.pop():
            case _Mark() as mark:
                pieces.append(mark)
            case dict() as members:
                for key, inner in reversed(members.items()):
                    waiting += _element(key, inner, prefix)
            case list() as items:
                for inner in reversed(items):
                    waiting += _element(ITEM, inner, prefix)
            case leaf:
                pieces.append(_written(leaf))
    return "".join(pieces)


def _element(key: str, value: Any, prefix: str) -> list[Any]:
    return [_Mark(f"{prefix}</{key}>"), value, _Mark(f"{prefix}<{key}>")]


# ``<arg_key>`` and ``<arg_value>``: the calls of GLM and of Hunyuan's newer models.


_GLM_PROMPT: Final = prompt_of(
    "A text stands between its tags exactly as it is to be: nothing in it is escaped, and no white "
    "space is added. Write numbers, true, false, null, lists and objects as JSON."
)

_GLM: Final = TagDialect(
    starts=("<tool_call>",),
    call="<tool_call>NAME",
    call_end="</tool_call>",
    parameter="<arg_key>KEY</arg_key>",
    value="<arg_value>",
    parameter_end="</arg_value>",
    spelling=Spelling(escaped=True),
)
_HUNYUAN: Final = TagDialect(
    starts=("<tool_call",),
    section="<tool_calls>",
    section_end="</tool_calls>",
    call="<tool_call>NAME<tool_sep>",
    call_end="</tool_call>",
    parameter="<arg_key>KEY</arg_key>",
    value="<arg_value>",
    parameter_end="</arg_value>",
    spelling=Spelling(suffixed=True),
)

_GLM_LINES: Final = "<arg_key>KEY</arg_key>\n<arg_value>VALUE</arg_value>\n"
_ON_LINES: Final = ParameterCalls(
    _GLM, call="<tool_call>NAME\nPARAMETERS</tool_call>", parameter=_GLM_LINES
)
_ON_ONE_LINE: Final = ParameterCalls(
    _GLM,
    call="<tool_call>NAMEPARAMETERS</tool_call>",
    parameter="<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>",
    between="",
    result="<tool_response>CONTENT</tool_response>",
)
_LING: Final = ParameterCalls(
    _GLM,
    call="<tool_call>NAME\nPARAMETERS\n</tool_call>",
    parameter="<arg_key>KEY</arg_key>\n<arg_value>VALUE</arg_value>",
)


def _suffixed(template: str) -> str:
    """Return every tag of *template* the suffix that the tokenizer of Hunyuan's models adds."""
    return template.replace(">", ":opensource>")


_HY_V3: Final = ParameterCalls(
    _HUNYUAN,
    opening=_suffixed("<tool_calls>\n"),
    call=_suffixed("<tool_call>NAME<tool_sep>\nPARAMETERS</tool_call>"),
    parameter=_suffixed(_GLM_LINES),
    closing=_suffixed("\n</tool_calls>"),
    result=_suffixed(
        "<tool_responses>\n<tool_response>\nCONTENT\n</tool_response>\n</tool_responses>"
    ),
)
_AVAILABLE: Final = lines_in("<available_tools>\n{tools}\n</available_tools>")

GLM_FORMATS: Final[tuple[Format, ...]] = (
    Format("glm45", _ON_LINES, _GLM_PROMPT, models=("glm-4.5", "glm-4.6"), tools=LINES),
    Format("glm47", _ON_ONE_LINE, _GLM_PROMPT, models=("glm-4.7", "glm-5"), tools=LINES),
    Format("ling3", _LING, _GLM_PROMPT, models=("ling-3", "ring-3"), tools=LINES),
    Format("poolside_v1", _ON_LINES, _GLM_PROMPT, models=("laguna",), tools=_AVAILABLE),
    Format("hy_v3", _HY_V3, _GLM_PROMPT, models=("hy3", "hunyuan-3"), tools=LINES),
)


# ``<invoke name="…">`` and ``<parameter name="…">``, under several names of the tags.


# ruff: noqa: RUF001 - these models write a wide bar


_RAW: Final = (
    "A text stands between its tags exactly as it is to be: nothing in it is escaped, and no white "
    "space is added. Write numbers, true, false, null, lists and objects as JSON."
)
_INVOKE_PROMPT: Final = prompt_of(_RAW)
_DSML_PROMPT: Final = prompt_of(
    _RAW + ' `string="true"` says that the value is a text, `string="false"` that it is JSON.'
)

_MINIMAX_M2: Final = TagDialect(
    starts=("<minimax:tool_call>", "<invoke name="),
    section="<minimax:tool_call>",
    section_end="</minimax:tool_call>",
    call='<invoke name="NAME">',
    call_end="</invoke>",
    parameter='<parameter name="KEY">',
    parameter_end="</parameter>",
)
_DOTS: Final = TagDialect(
    starts=("<dots_function_call>", "<invoke name="),
    section="<dots_function_call>",
    section_end="</dots_function_call>",
    call='<invoke name="NAME">',
    call_end="</invoke>",
    parameter='<parameter name="KEY">',
    parameter_end="</parameter>",
    json="in sections",
)
_STEP3: Final = TagDialect(
    starts=("<｜tool_calls_begin｜>", "<｜tool_call_begin｜>", "<steptml:invoke name="),
    section="<｜tool_calls_begin｜>",
    section_end="<｜tool_calls_end｜>",
    lead=("<｜tool_call_begin｜>", "function", "<｜tool_sep｜>"),
    call='<steptml:invoke name="NAME">',
    call_end="</steptml:invoke>",
    trail=("<｜tool_call_end｜>", "<｜tool_sep｜>"),
    parameter='<steptml:parameter name="KEY">',
    parameter_end="</steptml:parameter>",
    trims="blanks",
    special=True,
)
_MINICPM5: Final = TagDialect(
    starts=("<function name=", "<functionname="),
    call='<function name="NAME">',
    call_end="</function>",
    parameter='<param name="KEY">',
    parameter_end="</param>",
    cdata=True,
    spelling=Spelling(glued=True, longer="parameter"),
)


def _dsml(section: str) -> TagDialect:
    return TagDialect(
        starts=(f"<｜DSML｜{section}>", "<｜DSML｜invoke name="),
        section=f"<｜DSML｜{section}>",
        section_end=f"</｜DSML｜{section}>",
        call='<｜DSML｜invoke name="NAME">',
        call_end="</｜DSML｜invoke>",
        parameter='<｜DSML｜parameter name="KEY">',
        parameter_end="</｜DSML｜parameter>",
        special=True,
        json="in calls",
        unwraps=True,
    )


def _lines(dialect: TagDialect, result: str) -> ParameterCalls:
    """Write each tag on a line of its own."""
    return ParameterCalls(
        dialect,
        opening=f"{dialect.section}\n",
        call=f"{dialect.call}\nPARAMETERS{dialect.call_end}",
        closing=f"\n{dialect.section_end}",
        parameter=f"{dialect.parameter}VALUE{dialect.parameter_end}\n",
        result=result,
    )


def _typed_lines(section: str, result: str) -> ParameterCalls:
    """Write each tag on a line of its own, and say what each value is."""
    dialect = _dsml(section)
    return ParameterCalls(
        dialect,
        opening=f"{dialect.section}\n",
        call=f"{dialect.call}\nPARAMETERS{dialect.call_end}",
        closing=f"\n{dialect.section_end}",
        parameter='<｜DSML｜parameter name="KEY" string="IS_TEXT">VALUE</｜DSML｜parameter>\n',
        result=result,
    )


_STEP3_CALLS: Final = ParameterCalls(
    _STEP3,
    opening="<｜tool_calls_begin｜>\n",
    call='<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="NAME">\n'
    "PARAMETERS</steptml:invoke><｜tool_call_end｜>",
    closing="\n<｜tool_calls_end｜>",
    parameter='<steptml:parameter name="KEY">VALUE</steptml:parameter>\n',
)
_MINICPM5_CALLS: Final = ParameterCalls(
    _MINICPM5,
    call='<function name="NAME">PARAMETERS</function>',
    parameter='<param name="KEY">VALUE</param>',
    other_parameter='<param name="KEY"><![CDATA[VALUE]]></param>',
)
_RESULTS: Final = "<function_results>\n<result>CONTENT</result>\n</function_results>"

INVOKE_FORMATS: Final[tuple[Format, ...]] = (
    Format(
        "minimax_m2",
        _lines(_MINIMAX_M2, "<response>CONTENT</response>"),
        _INVOKE_PROMPT,
        models=("minimax-m2",),
        tools=TOOL_LINES,
    ),
    Format(
        "dots",
        _lines(_DOTS, "<tool_response>\nCONTENT\n</tool_response>"),
        _INVOKE_PROMPT,
        models=("dots",),
    ),
    Format(
        "deepseek_v32",
        _typed_lines("function_calls", _RESULTS),
        _DSML_PROMPT,
        models=("deepseek-v3.2",),
        reasoning=STYLES["deepseek_v3"],
        tools=lines_in("<functions>\n{tools}\n</functions>", typed=False),
    ),
    Format(
        "deepseek_v4",
        _typed_lines("tool_calls", "<tool_result>CONTENT</tool_result>"),
        _DSML_PROMPT,
        models=("deepseek-v4",),
        tools=lines_in("{tools}", typed=False),
    ),
    Format("step3", _STEP3_CALLS, _INVOKE_PROMPT, models=("step-3", "step3")),
    Format("minicpm5", _MINICPM5_CALLS, _INVOKE_PROMPT, models=("minicpm5",), tools=LINES),
)


# MiniMax-M3's calls: every tag after the token of its namespace, and values that may nest.
#
# What is nested has no types of its own: a leaf is what the schema of the tool says, and text
# where it says nothing. So a call reads back as it was only where the schema declares what it
# holds.


_NS: Final = "]<]minimax[>["

_MINIMAX_M3: Final = TagDialect(
    # The token alone would not do: it begins the end of a section, too.
    starts=tuple(
        f"{_NS}{blank}<{tag}" for blank in ("", " ", "\n") for tag in ("tool_call>", "invoke name=")
    ),
    section="<tool_call>",
    section_end="</tool_call>",
    call='<invoke name="NAME">',
    call_end="</invoke>",
    parameter="<KEY>",
    parameter_end="</KEY>",
    special=True,
    nests=True,
    spelling=Spelling(prefix=_NS, strict_keys=True),
)

MINIMAX_FORMATS: Final[tuple[Format, ...]] = (
    Format(
        name="minimax_m3",
        models=("minimax-m3",),
        calls=ParameterCalls(
            _MINIMAX_M3,
            opening=f"{_NS}<tool_call>\n",
            call=f'{_NS}<invoke name="NAME">PARAMETERS{_NS}</invoke>',
            closing=f"\n{_NS}</tool_call>",
            parameter=f"{_NS}<KEY>VALUE{_NS}</KEY>",
            result="<response>CONTENT</response>",
        ),
        prompt=prompt_of(
            f"Put {_NS} right before every tag. A text stands between its tags exactly as it is to "
            "be: nothing in it is escaped. An object has a tag for each of its keys, a list a tag "
            "`item` for each of its items, to any depth; numbers, true, false and null stand "
            "between their tags as in JSON."
        ),
        tools=TOOL_LINES,
    ),
)


# ``<function=NAME>`` and ``<parameter=KEY>``: Qwen3-Coder's calls, and those made after them.


_QWEN3_CODER_PROMPT: Final = prompt_of(
    "A text stands on lines of its own between the tags, exactly as it is to be: nothing in it is "
    "escaped. Write numbers, true, false, null, lists and objects as JSON. Close every tag."
)
_QWEN3_CODER_LINES: Final = "<parameter=KEY>\nVALUE\n</parameter>\n"
_INLINE: Final = "<parameter=KEY>VALUE</parameter>\n"


def _dialect(section: str) -> TagDialect:
    return TagDialect(
        starts=(f"<{section}", "<function="),
        section=f"<{section}>",
        section_end=f"</{section}>",
        call="<function=NAME>",
        call_end="</function>",
        parameter="<parameter=KEY>",
        parameter_end="</parameter>",
        trims="newlines",
        spelling=Spelling(spaced=True),
    )


_QWEN: Final = ParameterCalls(
    _dialect("tool_call"),
    call="<tool_call>\n<function=NAME>\nPARAMETERS</function>\n</tool_call>",
    parameter=_QWEN3_CODER_LINES,
)
_STEP: Final = structs.replace(_QWEN, between="", result="<tool_response>CONTENT</tool_response>")
_SEED: Final = ParameterCalls(
    _dialect("seed:tool_call"),
    call="<seed:tool_call>\n<function=NAME>\nPARAMETERS</function>\n</seed:tool_call>",
    parameter=_INLINE,
    other_parameter=_QWEN3_CODER_LINES,
    result="CONTENT",
)

QWEN3_CODER_FORMATS: Final[tuple[Format, ...]] = (
    Format(
        "qwen3_coder",
        _QWEN,
        _QWEN3_CODER_PROMPT,
        models=("qwen3-coder", "qwen3.5", "qwen3-next-coder"),
        reasoning=STYLES["qwen3"],
        tools=LINES,
    ),
    Format("seed_oss", _SEED, _QWEN3_CODER_PROMPT, models=("seed-oss",)),
    Format("nemotron_v3", _QWEN, _QWEN3_CODER_PROMPT, models=("nemotron-3",)),
    Format("step3p5", _STEP, _QWEN3_CODER_PROMPT, models=("step-3.5",), tools=LINES),
    Format("mimo", _QWEN, _QWEN3_CODER_PROMPT, models=("mimo-v2",)),
)

FORMATS: Final = (*QWEN3_CODER_FORMATS, *GLM_FORMATS, *INVOKE_FORMATS, *MINIMAX_FORMATS)
"""Every format of this module, in the order in which they are listed."""
