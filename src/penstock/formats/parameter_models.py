"""DeepSeek's DSML and the parameter-tag formats of other models of 2026."""

# ruff: noqa: RUF001 - these models write a wide bar
from __future__ import annotations

from typing import Final

from penstock.formats.base import Format
from penstock.formats.parameter_tags import DSML_PROMPT, GLM_PROMPT, HUNYUAN, ParameterCalls
from penstock.formats.prompts import LINES, tools_as_lines
from penstock.formats.reasoning import STYLES
from penstock.formats.wrappers import DSML_ENDS, DSML_SECTIONS, WRAPPERS
from penstock.parsing.body import Wrapper
from penstock.readers.tagged import TagDialect
from penstock.readers.tagged.tags import Spelling

_WORDS: Final = ("function_calls", "tool_calls", "calls")


# Some hosts leak the tags without the token; wrappers around them are dropped as anywhere.
_PLAIN: Final = TagDialect(
    starts=("<invoke name=",),
    call='<invoke name="NAME">',
    call_end="</invoke>",
    parameter='<parameter name="KEY">',
    parameter_end="</parameter>",
)


def _dsml(
    token: str, section: str, result: str, *, space: str = "", leaked: TagDialect | None = _PLAIN
) -> ParameterCalls:
    """Return calls in DSML's grammar, written one tag per line, with *space* after the token.

    Hosts that leak DSML as text decorate it: bars are doubled or ASCII, a space follows the token
    or does not, and any wrapper word comes in any version. So all versions are read alike.
    """
    dialect = TagDialect(
        # Doubled bars are by far the most frequent decoration; ASCII bars were seen once, and their
        # doubled form is extrapolated.
        starts=tuple(f"<{bars}{token}" for bars in ("｜", "｜｜", "|", "||")),
        section=f"<｜{token}｜{section}>",
        section_end=f"</｜{token}｜{section}>",
        # A section may even open with one word and close with another.
        other_sections=tuple(f"<｜{token}｜{word}>" for word in _WORDS if word != section),
        call=f'<｜{token}｜invoke name="NAME">',
        call_end=f"</｜{token}｜invoke>",
        parameter=f'<｜{token}｜parameter name="KEY">',
        parameter_end=f"</｜{token}｜parameter>",
        special=True,
        # Models also write one JSON object where the parameters belong.
        json="in calls",
        # A single parameter `arguments` or `input` that the tool does not have, with an object in
        # it, is taken for all arguments, as in vLLM.
        unwraps=True,
    )
    tag = f"｜{token}｜{space}"
    return ParameterCalls(
        dialect,
        opening=f"<{tag}{section}>\n",
        call=f'<{tag}invoke name="NAME">\nPARAMETERS</{tag}invoke>',
        closing=f"\n</{tag}{section}>",
        parameter=f'<{tag}parameter name="KEY" string="IS_TEXT">VALUE</{tag}parameter>\n',
        result=result,
        leaked=leaked,
    )


# The wrapper word is `function_calls` in V3.2, `tool_calls` in V4 and ` calls` in V4.1. A call
# without arguments has a newline inside in V4 and an empty line in V4.1; `<…invoke name="x"/>` is
# read too. `string="true"` is raw text, `"false"` is JSON; a missing attribute leaves it to the
# schema.
_DEEPSEEK_V32: Final = _dsml(
    "DSML",
    "function_calls",
    "<function_results>\n<result>CONTENT</result>\n</function_results>",
)
_DEEPSEEK_V4: Final = _dsml("DSML", "tool_calls", "<tool_result>CONTENT</tool_result>")
# In V4.1 the token is followed by " calls", " invoke" and " parameter", which are one token each.
_DEEPSEEK_V41: Final = _dsml("DSML", "calls", "<tool_result>CONTENT</tool_result>", space=" ")
# GigaChat 3.5 writes V4's grammar with the token GCML.
_GIGACHAT35: Final = _dsml("GCML", "tool_calls", "CONTENT", leaked=None)

# hy_v4 is hy_v3 without <tool_sep>. Each checkpoint adds a suffix of its own to every tag
# (<tool_calls:6124c78e>), some have none; without a prompt the suffix is unknown, so none is
# written.
_HY_V4: Final = ParameterCalls(
    HUNYUAN,
    opening="<tool_calls>",
    call="<tool_call>NAMEPARAMETERS</tool_call>",
    parameter="<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>",
    between="",
    closing="</tool_calls>",
    result="<tool_responses><tool_response>CONTENT</tool_response></tool_responses>",
)
# GLM-4.7's grammar in another outer tag; IQuest's templates are known by <|iquest_assistant|>.
_IQUEST_Q1: Final = ParameterCalls(
    TagDialect(
        starts=("<iquest_tool_call>",),
        call="<iquest_tool_call>NAME",
        call_end="</iquest_tool_call>",
        parameter="<arg_key>KEY</arg_key>",
        value="<arg_value>",
        parameter_end="</arg_value>",
        spelling=Spelling(escaped=True),
    ),
    call="<iquest_tool_call>NAMEPARAMETERS</iquest_tool_call>",
    parameter="<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>",
    between="",
)

# K2-Horizon is IFM's model and not Moonshot's Kimi K2. SGLang reads all three bodies; vLLM must be
# configured for one of them. A type may have an item type: array[string].
# The template chooses one of three bodies: plain, with types, or a JSON object.
_K2_HORIZON: Final = ParameterCalls(
    TagDialect(
        starts=("<ifm|tool_call",),
        section="<ifm|tool_calls>",
        section_end="</ifm|tool_calls>",
        call="<ifm|tool_call>NAME",
        call_end="</ifm|tool_call>",
        parameter="<ifm|arg_key>KEY</ifm|arg_key>",
        type_tag="<ifm|arg_type>KEY</ifm|arg_type>",
        value="<ifm|arg_value>",
        parameter_end="</ifm|arg_value>",
        json="as calls",
        special=True,
    ),
    opening="<ifm|tool_calls>\n",
    call="<ifm|tool_call>NAME\nPARAMETERS</ifm|tool_call>",
    parameter="<ifm|arg_key>KEY</ifm|arg_key>\n<ifm|arg_value>VALUE</ifm|arg_value>\n",
    closing="\n</ifm|tool_calls>",
    result="<ifm|tool_response>CONTENT</ifm|tool_response>",
)

FORMATS: Final[tuple[Format, ...]] = (
    Format(
        "deepseek_v32",
        _DEEPSEEK_V32,
        DSML_PROMPT,
        models=("deepseek-v3.2",),
        reasoning=STYLES["deepseek_v3"],
        wrappers=(*WRAPPERS, *DSML_SECTIONS, *DSML_ENDS),
        tools=tools_as_lines("<functions>\n{tools}\n</functions>", typed=False),
    ),
    Format(
        "deepseek_v4",
        _DEEPSEEK_V4,
        DSML_PROMPT,
        models=("deepseek-v4",),
        wrappers=(*WRAPPERS, *DSML_SECTIONS, *DSML_ENDS),
        tools=tools_as_lines("{tools}", typed=False),
    ),
    Format(
        "deepseek_v41",
        _DEEPSEEK_V41,
        DSML_PROMPT,
        models=("deepseek-v4.1",),
        wrappers=(*WRAPPERS, *DSML_SECTIONS, *DSML_ENDS),
        tools=tools_as_lines("{tools}", typed=False),
    ),
    Format(
        "gigachat35",
        _GIGACHAT35,
        DSML_PROMPT,
        models=("gigachat3.5",),
        wrappers=(*WRAPPERS, *DSML_ENDS, Wrapper("<|message_sep|>")),
    ),
    Format("hy_v4", _HY_V4, GLM_PROMPT, models=("hy4", "hunyuan-4"), tools=LINES),
    Format(
        "k2_horizon",
        _K2_HORIZON,
        GLM_PROMPT,
        models=("k2-horizon",),
        # It follows a JSON body, which ends with its last bracket.
        tools=LINES,
    ),
    Format("iquest_q1", _IQUEST_Q1, GLM_PROMPT, models=("iquest-q1",), tools=LINES),
)
