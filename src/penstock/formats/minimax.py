"""MiniMax-M3's calls: every tag behind the token of its namespace, and values that may nest.

What is nested has no types of its own: a leaf is what the schema of the tool says, and text where
it says nothing. So a call reads back as it was only where the schema declares what it holds.
"""

from __future__ import annotations

from typing import Final

from penstock.formats.base import Format
from penstock.formats.parameters import ParameterCalls, prompt_of
from penstock.formats.prompts import TOOL_LINES
from penstock.parsing.bodies.parameters import Dialect, Spelling

_NS: Final = "]<]minimax[>["

_MINIMAX_M3: Final = Dialect(
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

FORMATS: Final[tuple[Format, ...]] = (
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
