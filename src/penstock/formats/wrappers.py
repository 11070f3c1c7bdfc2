"""Tokens that models and servers print around responses and calls, and that are not content.

Servers that do not skip special tokens leave the ends of turns in the text. Models print sections
that their format does not have, or parts of a section without the rest. Where such tokens have no
content is their `Place`.
"""

from __future__ import annotations

from typing import Final

from penstock.parsing.body import Wrapper
from penstock.parsing.frames import closing_token
from penstock.values.control_tokens import LAST_TURN_ENDS, TURN_ENDS

# The beginnings of an assistant's turn, which belong to the prompt.
_FIRST: Final = (
    "<|im_start|>assistant\n",
    "<|im_start|>assistant",
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "<|start_header_id|>assistant<|end_header_id|>",
    "<|assistant|>",
    "<|turn>model\n",
    "<start_of_turn>model\n",
    "<\uff5cAssistant\uff5c>",
    "<|start_of_role|>assistant<|end_of_role|>",
    "<|im_assistant|>assistant<|im_middle|>",
    "<seed:bos>assistant\n",
)

# Markers of sections of calls, in all formats and in none.
_SECTIONS: Final = (
    *("<tool_call>", "<tool_calls>", "<function_call>", "<function_calls>", "<tools>"),
    *("<function_invocation>", "<function_invocations>", "<invocation>", "<invocations>"),
    *("<tool_use>", "<tool_code>", "<minimax:tool_call>"),
    *("<seed:tool_call>", "<longcat_tool_call>", "<dots_function_call>", "<iquest_tool_call>"),
    *("<|tool_call|>", "<|tool_calls|>", "<|tool_call_start|>", "<|tool_call>"),
    *("<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|action_start|>", "<|python_tag|>"),
    *("<\uff5ctool_calls_begin\uff5c>", "<\uff5ctool_call_begin\uff5c>"),
    *("<|python_start|>", "<start_function_call>", "<|START_ACTION|>", "<|tools_prefix|>"),
    *("<TOOLCALL>", "<cofl:tool_calls>", "<cofl:tool_call>", "<ifm|tool_calls>", "<ifm|tool_call>"),
    *("<|plamo:begin_tool_requests:plamo|>", "<|plamo:begin_tool_request:plamo|>"),
    "<\uff5ctool\u2581calls\u2581begin\uff5c>",
    "<\uff5ctool\u2581call\u2581begin\uff5c>",
)

_BARS: Final = ("\uff5c", "\uff5c\uff5c", "|", "||")
DSML_ENDS: Final = tuple(
    Wrapper(f"</{bars}{name}{bars}{gap}{word}>", "after_call")
    for name in ("DSML", "GCML")
    for bars in _BARS
    for gap in ("", " ")
    for word in ("tool_calls", "function_calls", "calls", "invoke", "parameter")
)
"""Surplus end tags of DeepSeek and GigaChat, with all bars that models write."""

DSML_SECTIONS: Final = tuple(
    Wrapper(f"<{bars}{name}{bars}{gap}{word}>", "before_call")
    for name in ("DSML", "GCML")
    for bars in _BARS
    for gap in ("", " ")
    for word in ("tool_calls", "function_calls", "calls")
)
"""Their sections, around calls of other formats."""

MINIMAX_ENDS: Final = (
    Wrapper("[e~[", "last"),
    *(Wrapper(f"]<]minimax[>[{end}", "after_call") for end in ("</tool_call>", "</invoke>")),
)
"""The end of a turn of MiniMax, and surplus end tags."""

FILLERS: Final = tuple(
    Wrapper(word, "between_calls")
    for word in ("assistant", "commentary", "analysis", "final", "json", "user", "<|constrain|>")
)
"""Words of a header of gpt-oss that it prints between two messages."""

# End tags inside a section, of which models print too many.
_PARTS: Final = ("</function>", "</invoke>", "</parameter>", "</arg_value>")

WRAPPERS: Final = (
    *map(Wrapper, TURN_ENDS),
    *(Wrapper(token, "last") for token in LAST_TURN_ENDS),
    *(Wrapper(token, "first") for token in _FIRST),
    *(Wrapper(token, "before_call") for token in _SECTIONS),
    *(
        Wrapper(token, "after_call")
        for token in dict.fromkeys((*map(closing_token, _SECTIONS), *_PARTS))
    ),
)
"""The tokens of all model families; formats add their own."""
