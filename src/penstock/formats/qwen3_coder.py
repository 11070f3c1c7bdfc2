"""``<function=NAME>`` and ``<parameter=KEY>``: Qwen3-Coder's calls, and those made after them."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from penstock.formats.base import Format
from penstock.formats.parameters import ParameterCalls, prompt_of
from penstock.formats.prompts import LINES
from penstock.formats.thinking import STYLES
from penstock.parsing.bodies.parameters import Dialect, Spelling

_PROMPT: Final = prompt_of(
    "A text stands on lines of its own between the tags, exactly as it is to be: nothing in it is "
    "escaped. Write numbers, true, false, null, lists and objects as JSON. Close every tag."
)
_LINES: Final = "<parameter=KEY>\nVALUE\n</parameter>\n"
_INLINE: Final = "<parameter=KEY>VALUE</parameter>\n"


def _dialect(section: str) -> Dialect:
    return Dialect(
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
    parameter=_LINES,
)
_STEP: Final = structs.replace(_QWEN, between="", result="<tool_response>CONTENT</tool_response>")
_SEED: Final = ParameterCalls(
    _dialect("seed:tool_call"),
    call="<seed:tool_call>\n<function=NAME>\nPARAMETERS</function>\n</seed:tool_call>",
    parameter=_INLINE,
    other_parameter=_LINES,
    result="CONTENT",
)

FORMATS: Final[tuple[Format, ...]] = (
    Format(
        "qwen3_coder",
        _QWEN,
        _PROMPT,
        models=("qwen3-coder", "qwen3.5", "qwen3-next-coder"),
        reasoning=STYLES["qwen3"],
        tools=LINES,
    ),
    Format("seed_oss", _SEED, _PROMPT, models=("seed-oss",)),
    Format("nemotron_v3", _QWEN, _PROMPT, models=("nemotron-3",)),
    Format("step3p5", _STEP, _PROMPT, models=("step-3.5",), tools=LINES),
    Format("mimo", _QWEN, _PROMPT, models=("mimo-v2",)),
)
