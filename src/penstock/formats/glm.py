"""``<arg_key>`` and ``<arg_value>``: the calls of GLM and of Hunyuan's newer models."""

from __future__ import annotations

from typing import Final

from penstock.formats.base import Format
from penstock.formats.parameters import ParameterCalls, prompt_of
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
    result="<tool_response>CONTENT</tool_response>",
)
_HY_V3: Final = ParameterCalls(
    _HUNYUAN,
    call="<tool_calls>\n<tool_call>NAME<tool_sep>\nPARAMETERS</tool_call>\n</tool_calls>",
    parameter=_LINES,
)

FORMATS: Final[tuple[Format, ...]] = (
    Format("glm45", _ON_LINES, _PROMPT, models=("glm-4.5", "glm-4.6")),
    Format("glm47", _ON_ONE_LINE, _PROMPT, models=("glm-4.7", "glm-5")),
    Format("ling3", _ON_ONE_LINE, _PROMPT, models=("ling-3", "ring-3")),
    Format("poolside_v1", _ON_LINES, _PROMPT, models=("laguna",)),
    Format("hy_v3", _HY_V3, _PROMPT, models=("hy3", "hunyuan-3")),
)
