"""``<arg_key>`` and ``<arg_value>``: the calls of GLM and of Hunyuan's newer models."""

from __future__ import annotations

from typing import Final

from penstock.formats.base import Format
from penstock.formats.parameters import ParameterCalls, prompt_of
from penstock.formats.prompts import LINES, lines_in
from penstock.parsing.bodies.parameters import Dialect, Spelling

_PROMPT: Final = prompt_of(
    "A text stands between its tags exactly as it is to be: nothing in it is escaped, and no white "
    "space is added. Write numbers, true, false, null, lists and objects as JSON."
)

_GLM: Final = Dialect(
    starts=("<tool_call>",),
    call="<tool_call>NAME",
    call_end="</tool_call>",
    parameter="<arg_key>KEY</arg_key>",
    value="<arg_value>",
    parameter_end="</arg_value>",
    spelling=Spelling(escaped=True),
)
_HUNYUAN: Final = Dialect(
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

_LINES: Final = "<arg_key>KEY</arg_key>\n<arg_value>VALUE</arg_value>\n"
_ON_LINES: Final = ParameterCalls(
    _GLM, call="<tool_call>NAME\nPARAMETERS</tool_call>", parameter=_LINES
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
    """Give every tag of *template* the suffix that the tokenizer of Hunyuan's models adds."""
    return template.replace(">", ":opensource>")


_HY_V3: Final = ParameterCalls(
    _HUNYUAN,
    opening=_suffixed("<tool_calls>\n"),
    call=_suffixed("<tool_call>NAME<tool_sep>\nPARAMETERS</tool_call>"),
    parameter=_suffixed(_LINES),
    closing=_suffixed("\n</tool_calls>"),
    result=_suffixed(
        "<tool_responses>\n<tool_response>\nCONTENT\n</tool_response>\n</tool_responses>"
    ),
)
_AVAILABLE: Final = lines_in("<available_tools>\n{tools}\n</available_tools>")

FORMATS: Final[tuple[Format, ...]] = (
    Format("glm45", _ON_LINES, _PROMPT, models=("glm-4.5", "glm-4.6"), tools=LINES),
    Format("glm47", _ON_ONE_LINE, _PROMPT, models=("glm-4.7", "glm-5"), tools=LINES),
    Format("ling3", _LING, _PROMPT, models=("ling-3", "ring-3"), tools=LINES),
    Format("poolside_v1", _ON_LINES, _PROMPT, models=("laguna",), tools=_AVAILABLE),
    Format("hy_v3", _HY_V3, _PROMPT, models=("hy3", "hunyuan-3"), tools=LINES),
)
