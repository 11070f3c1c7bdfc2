"""``<invoke name="…">`` and ``<parameter name="…">``, under several names of the tags."""

# ruff: noqa: RUF001 - these models write a wide bar
from __future__ import annotations

from typing import Final

from penstock.formats.base import Format
from penstock.formats.parameters import ParameterCalls, prompt_of
from penstock.formats.prompts import LINES, TOOL_LINES, lines_in
from penstock.formats.thinking import STYLES
from penstock.parsing.bodies.parameters import Dialect, Spelling

_RAW: Final = (
    "A text stands between its tags exactly as it is to be: nothing in it is escaped, and no white "
    "space is added. Write numbers, true, false, null, lists and objects as JSON."
)
_PROMPT: Final = prompt_of(_RAW)
_DSML_PROMPT: Final = prompt_of(
    _RAW + ' `string="true"` says that the value is a text, `string="false"` that it is JSON.'
)

_MINIMAX_M2: Final = Dialect(
    starts=("<minimax:tool_call>", "<invoke name="),
    section="<minimax:tool_call>",
    section_end="</minimax:tool_call>",
    call='<invoke name="NAME">',
    call_end="</invoke>",
    parameter='<parameter name="KEY">',
    parameter_end="</parameter>",
)
_DOTS: Final = Dialect(
    starts=("<dots_function_call>", "<invoke name="),
    section="<dots_function_call>",
    section_end="</dots_function_call>",
    call='<invoke name="NAME">',
    call_end="</invoke>",
    parameter='<parameter name="KEY">',
    parameter_end="</parameter>",
    json="in sections",
)
_STEP3: Final = Dialect(
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
_MINICPM5: Final = Dialect(
    starts=("<function name=", "<functionname="),
    call='<function name="NAME">',
    call_end="</function>",
    parameter='<param name="KEY">',
    parameter_end="</param>",
    cdata=True,
    spelling=Spelling(glued=True),
)


def _dsml(section: str) -> Dialect:
    return Dialect(
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


def _lines(dialect: Dialect, result: str) -> ParameterCalls:
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

FORMATS: Final[tuple[Format, ...]] = (
    Format(
        "minimax_m2",
        _lines(_MINIMAX_M2, "<response>CONTENT</response>"),
        _PROMPT,
        models=("minimax-m2",),
        tools=TOOL_LINES,
    ),
    Format(
        "dots",
        _lines(_DOTS, "<tool_response>\nCONTENT\n</tool_response>"),
        _PROMPT,
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
    Format("step3", _STEP3_CALLS, _PROMPT, models=("step-3", "step3")),
    Format("minicpm5", _MINICPM5_CALLS, _PROMPT, models=("minicpm5",), tools=LINES),
)
