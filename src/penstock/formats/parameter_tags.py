"""Formats with a tag for each parameter and raw values: Qwen3-Coder, GLM, MiniMax, DSML and others.

A call is written by a template that looks like the call: ``NAME`` is the tool, ``PARAMETERS`` all
of its parameters, ``KEY`` and ``VALUE`` one of them. Calls of one message may share a section.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from penstock.errors import UsageError
from penstock.formats.base import Format
from penstock.formats.prompts import (
    HEAD,
    LINES,
    TAIL,
    TOOL_LINES,
    Mark,
    text_or_json,
    tools_as_lines,
    write_nested,
)
from penstock.formats.reasoning import STYLES
from penstock.formats.round_trip import require_round_trip
from penstock.formats.wrappers import MINIMAX_ENDS, WRAPPERS
from penstock.grammar import (
    PLACE,
    Outline,
    ParameterOutline,
    Slot,
    check_names,
    make_slot,
    split_around,
)
from penstock.grammar.outline import Notation
from penstock.grammar.text_without import Marks
from penstock.messages import ToolCall, ToolResult
from penstock.parsing.body import Syntax
from penstock.readers.tagged import TagDialect, compile_dialect
from penstock.readers.tagged.calls import TaggedCallReader
from penstock.readers.tagged.tags import Spelling
from penstock.readers.tagged.values import ITEM
from penstock.tools import Tool

_PLACES: Final = re.compile(r'"(?:NAME|KEY)"|NAME|KEY|IS_TEXT|PARAMETERS|VALUE|CONTENT')


class ParameterCalls(Syntax, Struct, frozen=True):
    """Calls of *dialect*, written as *call* and *parameter* show, results as *result* shows.

    *other_parameter* is the template for a value that *parameter* would change. The calls of one
    message are between *opening* and *closing*, separated by *between*. Calls of *leaked*, a
    dialect with other markers, are only read.
    """

    dialect: TagDialect
    call: str
    parameter: str
    other_parameter: str = ""
    opening: str = ""
    closing: str = ""
    between: str = "\n"
    result: str = "<tool_response>\nCONTENT\n</tool_response>"
    leaked: TagDialect | None = None

    @property
    def starts(self) -> tuple[str, ...]:
        """The markers that open a section of calls, or a call."""
        return self.dialect.starts + (self.leaked.starts if self.leaked is not None else ())

    def body(self, marker: str) -> TaggedCallReader:
        """Return a new reader for the text after *marker*."""
        if self.leaked is not None and marker in self.leaked.starts:
            return TaggedCallReader(self.leaked, marker)
        return TaggedCallReader(self.dialect, marker)

    def render_call(self, call: ToolCall) -> str:
        """Write *call*; raise `UsageError` for a value that does not read back."""
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
            split_around(_fill(self.call, places), parameters, PLACE),
            self.opening,
            self.closing,
            between=self.between,
            trigger=next(filter(self._in_section(self.call).startswith, self.dialect.starts), ""),
        )

    def render_result(self, result: ToolResult) -> str:
        """Write a result: text as it is, any other value as JSON."""
        content = text_or_json(result.content)
        return _fill(self.result, {"NAME": result.name, "CONTENT": content})

    @property
    def _marks(self) -> Marks:
        """The texts that a value may not hold in a grammar, because they might end it."""
        return Marks(compile_dialect(self.dialect).ends)

    def _in_section(self, written: str) -> str:
        return self.opening + written + self.closing

    def _call(self, call: ToolCall) -> str:
        """Write *call* in the first way that reads back."""
        refused: UsageError | None = None
        for template in filter(None, (self.parameter, self.other_parameter)):
            written = "".join(self._parameter(template, *item) for item in call.arguments.items())
            text = _fill(self.call, {"NAME": call.name, "PARAMETERS": written})
            try:
                require_round_trip(self, call, self._in_section(text))
            except UsageError as exc:
                refused = exc
            else:
                return text
        raise refused or UsageError("this call cannot be written in this format")

    def _slot(self, key: str, kind: str) -> Slot:
        places = {"KEY": key, "VALUE": PLACE, "IS_TEXT": "true" if kind == "string" else "false"}
        return make_slot(_fill(self.parameter, places), self._marks)

    def _parameter(self, template: str, key: str, value: Any) -> str:
        is_text = isinstance(value, str)
        prefix = self.dialect.spelling.prefix
        written = _elements(value, prefix) if self.dialect.nests else text_or_json(value)
        places = {"KEY": key, "VALUE": written, "IS_TEXT": "true" if is_text else "false"}
        return _fill(template, places)


def make_prompt(how: str) -> str:
    """Return the prompt of a format; *how* says what is special about its values."""
    return f"{HEAD}{_CALL}{how} For several calls, {_REPEAT}\n{TAIL}"


_CALL: Final = """\
To call a tool, write its name and each of its arguments between tags, like this:

{example}

"""
_RAW: Final = (
    "Write strings between their tags exactly as they are: escape nothing and add no white space. "
    "Write numbers, true, false, null, lists and objects as JSON."
)
_REPEAT: Final = "repeat all of it, one after the other."


def _fill(template: str, places: Mapping[str, str]) -> str:
    """Fill the places of *template* in one pass: a value may hold the name of a place."""

    def fill(place: re.Match[str]) -> str:
        name = place[0]
        if name.startswith('"'):
            return _quote(places[name[1:-1]])
        return places[name]

    return _PLACES.sub(fill, template)


def _quote(text: str) -> str:
    quote = "'" if '"' in text else '"'
    return f"{quote}{text}{quote}"


def _elements(value: Any, prefix: str) -> str:
    """Write *value* as elements."""

    def expand(one: Any) -> str | list[Any]:
        if isinstance(one, dict):
            members = list(one.items())
        elif isinstance(one, list):
            members = [(ITEM, item) for item in one]
        else:
            return text_or_json(one)
        parts: list[Any] = []
        for key, item in members:
            parts += [Mark(f"{prefix}<{key}>"), item, Mark(f"{prefix}</{key}>")]
        return parts

    return write_nested(value, expand)


# ``<arg_key>`` and ``<arg_value>``: the calls of GLM and of Hunyuan's newer models.


GLM_PROMPT: Final = make_prompt(_RAW)

# GLM-4.5, GLM-4.6 and Laguna put a newline after each tag, GLM-4.7 and GLM-5 none. SGLang accepts
# newlines that were written as backslash and n, too. A call without arguments is only its name.
_GLM: Final = TagDialect(
    starts=("<tool_call>",),
    call="<tool_call>NAME",
    call_end="</tool_call>",
    parameter="<arg_key>KEY</arg_key>",
    value="<arg_value>",
    parameter_end="</arg_value>",
    # GLM-5.3-Flash writes <tool_call>NAME>{json}, often without an end tag.
    json="after names",
    spelling=Spelling(escaped=True),
)
# The tokenizer that Hunyuan ships adds one suffix to every tag: <tool_calls:opensource>. In Hy3 the
# name is followed by <tool_sep>, in Hy4 by nothing; SGLang's `hunyuan` means both.
HUNYUAN: Final = TagDialect(
    starts=("<tool_call",),
    section="<tool_calls>",
    section_end="</tool_calls>",
    call="<tool_call>NAME",
    after_name="<tool_sep>",
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


def _add_suffix(template: str) -> str:
    """Add the suffix that the tokenizer of Hunyuan's models adds to every tag of *template*."""
    return template.replace(">", ":opensource>")


_HY_V3: Final = ParameterCalls(
    HUNYUAN,
    opening=_add_suffix("<tool_calls>\n"),
    call=_add_suffix("<tool_call>NAME<tool_sep>\nPARAMETERS</tool_call>"),
    parameter=_add_suffix(_GLM_LINES),
    closing=_add_suffix("\n</tool_calls>"),
    result=_add_suffix(
        "<tool_responses>\n<tool_response>\nCONTENT\n</tool_response>\n</tool_responses>"
    ),
)
_AVAILABLE: Final = tools_as_lines("<available_tools>\n{tools}\n</available_tools>")

GLM_FORMATS: Final[tuple[Format, ...]] = (
    Format("glm45", _ON_LINES, GLM_PROMPT, models=("glm-4.5", "glm-4.6"), tools=LINES),
    Format("glm47", _ON_ONE_LINE, GLM_PROMPT, models=("glm-4.7", "glm-5"), tools=LINES),
    Format("ling3", _LING, GLM_PROMPT, models=("ling-3", "ring-3"), tools=LINES),
    # Poolside's Laguna writes GLM-4.5's calls and has another frame for the list of tools.
    Format("poolside_v1", _ON_LINES, GLM_PROMPT, models=("laguna",), tools=_AVAILABLE),
    Format("hy_v3", _HY_V3, GLM_PROMPT, models=("hy3", "hunyuan-3"), tools=LINES),
)


# ``<invoke name="…">`` and ``<parameter name="…">``, under several names of the tags.


# ruff: noqa: RUF001 - these models write a wide bar


_INVOKE_PROMPT: Final = make_prompt(_RAW)
DSML_PROMPT: Final = make_prompt(
    _RAW + ' `string="true"` means that the value is a string, `string="false"` that it is JSON.'
)

# Without its section a bare "<invoke name=" opens a call. Several invokes are parallel calls.
# Attributes are in double quotes, single quotes or none.
_MINIMAX_M2: Final = TagDialect(
    # Servers of DeepSeek and others leak plain invokes in the wrapper <function_calls>.
    starts=("<minimax:tool_call>", "<function_calls>", "<invoke name="),
    section="<minimax:tool_call>",
    section_end="</minimax:tool_call>",
    other_sections=("<function_calls>",),
    call='<invoke name="NAME">',
    call_end="</invoke>",
    parameter='<parameter name="KEY">',
    parameter_end="</parameter>",
)
# {"name": …, "arguments": …} is accepted as the body of a section, as in vLLM and SGLang.
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
# Step3's tokens have a plain underscore, unlike DeepSeek's "▁". "function" and its separator before
# the invoke are optional. Values are stripped (vLLM and SGLang lose values that hold "<").
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
# MiniCPM5 glues names to attributes at times: <functionname=, <paramname=. vLLM and SGLang give a
# call with an unknown parameter back as text; here it is a call.
_MINICPM5: Final = TagDialect(
    starts=("<function name=", "<functionname="),
    call='<function name="NAME">',
    call_end="</function>",
    parameter='<param name="KEY">',
    parameter_end="</param>",
    cdata=True,
    spelling=Spelling(glued=True, longer="parameter"),
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
INVOKE_FORMATS: Final[tuple[Format, ...]] = (
    Format(
        "minimax_m2",
        _lines(_MINIMAX_M2, "<response>CONTENT</response>"),
        _INVOKE_PROMPT,
        models=("minimax-m2",),
        wrappers=(*WRAPPERS, *MINIMAX_ENDS),
        tools=TOOL_LINES,
    ),
    Format(
        "dots",
        _lines(_DOTS, "<tool_response>\nCONTENT\n</tool_response>"),
        _INVOKE_PROMPT,
        models=("dots",),
    ),
    Format("step3", _STEP3_CALLS, _INVOKE_PROMPT, models=("step-3", "step3")),
    Format("minicpm5", _MINICPM5_CALLS, _INVOKE_PROMPT, models=("minicpm5",), tools=LINES),
)


# MiniMax-M3: every tag comes after the token of its namespace, and values may nest.
#
# Nested values have no types of their own: a leaf is read by the schema of the tool, and is text
# without one. So a call reads back unchanged only if the schema declares everything in it.


_NS: Final = "]<]minimax[>["

# Deployed checkpoints omit the opening tag of the first parameter: the text up to the first closing
# tag is its value then. A tag without the namespace token is data.
# Values nest: an object is elements, an array is repeated `item` elements, and a tag that is
# repeated is an array. An element without content is "", [] or {} by its schema.
_MINIMAX_M3: Final = TagDialect(
    # The token alone is not a marker: it begins the end of a section, too.
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
        prompt=make_prompt(
            f"Put {_NS} directly before every tag. Write strings between their tags exactly as "
            "they are: escape nothing. An object has a tag for each key, a list a tag `item` "
            "for each item, to any depth. Write numbers, true, false and null as in JSON."
        ),
        wrappers=(*WRAPPERS, *MINIMAX_ENDS),
        tools=TOOL_LINES,
    ),
)


# ``<function=NAME>`` and ``<parameter=KEY>``: Qwen3-Coder, and models that follow it.


_QWEN3_CODER_PROMPT: Final = make_prompt(
    "Write strings on lines of their own between the tags, exactly as they are: escape nothing. "
    "Write numbers, true, false, null, lists and objects as JSON. Close every tag."
)
_QWEN3_CODER_LINES: Final = "<parameter=KEY>\nVALUE\n</parameter>\n"
_INLINE: Final = "<parameter=KEY>VALUE</parameter>\n"


# Tolerated: no section (a bare "<function=" opens a call), several functions in one section,
# missing closing tags, blanks inside tags, and values without the newlines around them. One newline
# at either end of a value belongs to the format; entities are not decoded.
def _dialect(section: str) -> TagDialect:
    return TagDialect(
        starts=(f"<{section}", "<function="),
        section=f"<{section}>",
        section_end=f"</{section}>",
        call="<function=NAME>",
        call_end="</function>",
        parameter="<parameter=KEY>",
        parameter_end="</parameter>",
        trims="any newlines",
        spelling=Spelling(spaced=True),
    )


_QWEN: Final = ParameterCalls(
    _dialect("tool_call"),
    call="<tool_call>\n<function=NAME>\nPARAMETERS</function>\n</tool_call>",
    parameter=_QWEN3_CODER_LINES,
)
_STEP: Final = structs.replace(_QWEN, between="", result="<tool_response>CONTENT</tool_response>")
# Seed-OSS writes values inline, so a newline at the end of one is its own.
_SEED: Final = ParameterCalls(
    structs.replace(_dialect("seed:tool_call"), trims="lines"),
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
    # Nemotron 3, MiMo V2 and Step 3.5 write Qwen3-Coder's calls; Seed-OSS has its own section tag.
    Format("nemotron_v3", _QWEN, _QWEN3_CODER_PROMPT, models=("nemotron-3",)),
    Format("step3p5", _STEP, _QWEN3_CODER_PROMPT, models=("step-3.5",), tools=LINES),
    Format("mimo", _QWEN, _QWEN3_CODER_PROMPT, models=("mimo-v2",)),
)

FORMATS: Final = (*QWEN3_CODER_FORMATS, *GLM_FORMATS, *INVOKE_FORMATS, *MINIMAX_FORMATS)
"""Every format of this module, in the order in which they are listed."""
