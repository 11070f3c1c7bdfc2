"""Answers in messages with headers, which say what is a thought, what is text and what is a call.

These formats read the reasoning of their models themselves. Calls and results are written as the
models' own templates write them: each is a whole message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, Self

from penstock.errors import UsageError
from penstock.formats.base import Format
from penstock.formats.grammar import (
    ANY,
    PLACE,
    Arguments,
    Outline,
    ParameterOutline,
    Slot,
    around,
    check_names,
    slot_of,
)
from penstock.formats.grammar.outline import Notation
from penstock.formats.grammar.text_without import Marks
from penstock.formats.prompts import HEAD, TAIL, lines_in, listed_in
from penstock.formats.rendering import spaced_json
from penstock.formats.round_trip import checked_round_trip
from penstock.messages import ToolCall, ToolResult
from penstock.parsing.readers.functionary import Recipients
from penstock.parsing.readers.harmony import Harmony
from penstock.parsing.readers.inkling import Inkling
from penstock.parsing.readers.kimi_k3 import XTML, closing, encoded
from penstock.parsing.readers.muse import ATEM
from penstock.tools import Tool

_NAME: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_RAW_END: Final = "</atem:parameter"
_RAW_MARKS: Final = Marks((_RAW_END,))
_ARGUMENT_END: Final = closing("argument")
_ARGUMENT_MARKS: Final = Marks((_ARGUMENT_END,))
_NO_TOOLS: Final = frozenset({"self", "user"})
"""Recipients that are not tools, in one format or another."""


class HarmonyCalls(Harmony, frozen=True):
    """Messages to ``functions.NAME`` with arguments in JSON."""

    def syntax(self, tools: Iterable[Tool]) -> Self:
        """Return itself: the markers are the same for any *tools*."""
        del tools
        return self

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as a message to its tool."""
        name = _in_header(call)
        head = f"<|start|>assistant to=functions.{name}<|channel|>commentary json<|message|>"
        return checked_round_trip(self, call, f"{head}{spaced_json(call.arguments)}<|call|>")

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* as messages in a row."""
        return "".join(map(self.render_call, calls))

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        return _of_json(self.render_call(ToolCall("", tool.name, ANY)))

    def render_result(self, result: ToolResult) -> str:
        """Write a result as a message of its tool, in JSON."""
        head = f"<|start|>functions.{result.name} to=assistant<|channel|>commentary<|message|>"
        return f"{head}{spaced_json(result.content)}<|end|>"


class InklingCalls(Inkling, frozen=True):
    """Blocks that invoke a tool, with the name and the arguments as one JSON object."""

    def syntax(self, tools: Iterable[Tool]) -> Self:
        """Return itself: the markers are the same for any *tools*."""
        del tools
        return self

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as a block of its own."""
        written = spaced_json({"name": call.name, "args": call.arguments})
        head = f"<|message_model|>{_in_header(call)}<|content_invoke_tool_json|>"
        return checked_round_trip(self, call, f"{head}{written}<|end_message|>")

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* as blocks in a row."""
        return "".join(map(self.render_call, calls))

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        return _of_json(self.render_call(ToolCall("", tool.name, ANY)))

    def render_result(self, result: ToolResult) -> str:
        """Write a result as a block of its tool."""
        kind = "tool_error" if result.is_error else "text"
        return f"<|message_tool|>{result.name}<|content_{kind}|>{_shown(result)}<|end_message|>"


class XTMLCalls(XTML, frozen=True):
    """Calls in the channel of tools, each value with its type beside its key."""

    def syntax(self, tools: Iterable[Tool]) -> Self:
        """Return itself: the markers are the same for any *tools*."""
        del tools
        return self

    def render_call(self, call: ToolCall) -> str:
        """Write *call* in a channel of its own."""
        return checked_round_trip(self, call, self.render_calls([call]))

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* in one channel."""
        return _channel("".join(_counted(call, at) for at, call in enumerate(calls, 1)))

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        check_names(self.render_call, tool)
        parameters = ParameterOutline(
            _typed_slot, Notation("json-in-channel", marks=_ARGUMENT_MARKS)
        )
        return Outline(around(_channel(_call(tool.name, 1, PLACE)), parameters, PLACE))

    def render_result(self, result: ToolResult) -> str:
        """Write a result as a message of its tool."""
        head = f'<|open|>message role="tool" tool="{encoded(result.name)}" index="1"<|sep|>'
        return f"{head}{_shown(result)}{closing('message')}"


class ATEMCalls(ATEM, frozen=True):
    """Messages to a tool that invoke it, with each value as it stands."""

    def syntax(self, tools: Iterable[Tool]) -> Self:
        """Return itself: the markers are the same for any *tools*."""
        del tools
        return self

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as a message to its tool."""
        return checked_round_trip(self, call, self.render_calls([call]))

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* as messages in a row: the last one ends the turn."""
        return "<|eom|>".join(map(_invoked, calls)) + "<|eot|>"

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        check_names(self.render_call, tool)
        parameters = ParameterOutline(_raw_slot, Notation("json-in-message", marks=_RAW_MARKS))
        call = around(_invocation(tool.name, PLACE), parameters, PLACE)
        return Outline(call, closing="<|eot|>", between="<|eom|>")

    def render_result(self, result: ToolResult) -> str:
        """Write a result as a message of its tool."""
        inside = f'<tool_output name="{result.name}">\n{_shown(result)}\n</tool_output>'
        return f"<|start|>tool {result.name}<|message|>{inside}<|eot|>"


class RecipientCalls(Recipients, frozen=True):
    """Pieces whose recipient is a tool, with arguments in JSON."""

    def syntax(self, tools: Iterable[Tool]) -> Self:
        """Return itself: the tools that may be recipients are known where calls are read."""
        del tools
        return self

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as a piece to its tool."""
        return checked_round_trip(self, call, f">>>{call.name}\n{spaced_json(call.arguments)}")

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* as pieces in a row."""
        return "".join(map(self.render_call, calls))

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        written = self.render_call(ToolCall("", tool.name, ANY))
        return _of_json(written, f">>>{tool.name}\n")

    def render_result(self, result: ToolResult) -> str:
        """Write a result as a turn of its tool."""
        return f"<|start_header_id|>tool<|end_header_id|>\n\n{_shown(result)}<|eot_id|>"


def _of_json(written: str, trigger: str = "") -> Outline:
    """Return the outline of a call that is *written* with any arguments."""
    return Outline(around(written, Arguments(), spaced_json(ANY)), between="", trigger=trigger)


def _in_header(call: ToolCall) -> str:
    """Return the name of *call*; raise `UsageError` for one that a header cannot hold."""
    if _NAME.fullmatch(call.name) is None or call.name in _NO_TOOLS:
        raise UsageError(f"no header can hold the name {call.name!r}")
    return call.name


def _shown(result: ToolResult) -> str:
    return result.content if isinstance(result.content, str) else spaced_json(result.content)


def _raw(value: Any) -> str:
    return value if isinstance(value, str) else spaced_json(value)


def _invocation(name: str, written: str) -> str:
    """Write a message that invokes a tool, with its parameters *written*."""
    invoke = f'<atem:invoke name="{name}">\n{written}</atem:invoke>\n'
    section = f"<atem:function_calls>\n{invoke}</atem:function_calls>"
    return f"<|start|>assistant to={name}<|message|>{section}"


def _invoked(call: ToolCall) -> str:
    slots = ((_raw_slot(key), value) for key, value in call.arguments.items())
    written = "".join(f"{slot.before}{_raw(value)}{slot.after}" for slot, value in slots)
    return _invocation(_in_header(call), written)


def _raw_slot(key: str, kind: str = "string") -> Slot:
    del kind
    return slot_of(f'<atem:parameter name="{key}">{PLACE}{_RAW_END}>\n', _RAW_MARKS)


def _channel(calls: str) -> str:
    """Write the channel of *calls* that are written."""
    return f"<|open|>tools<|sep|>{calls}{closing('tools')}"


def _call(name: str, at: int, written: str) -> str:
    """Write the call *at* this place in its channel, with its arguments *written*."""
    head = f'<|open|>call tool="{encoded(name)}" index="{at}"<|sep|>'
    return f"{head}{written}{closing('call')}"


def _counted(call: ToolCall, at: int) -> str:
    written = "".join(_typed_argument(*item) for item in call.arguments.items())
    return _call(call.name, at, written)


def _typed_argument(key: str, value: Any) -> str:
    slot = _typed_slot(key, _type_of(value))
    return f"{slot.before}{_raw(value)}{slot.after}"


def _typed_slot(key: str, kind: str) -> Slot:
    kind = "number" if kind == "integer" else kind
    head = f'<|open|>argument key="{encoded(key)}" type="{kind}"<|sep|>'
    return slot_of(f"{head}{PLACE}{_ARGUMENT_END}", _ARGUMENT_MARKS)


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            raise UsageError(f"not a JSON value: {type(value).__name__}")


_JSON_MESSAGE: Final = (
    HEAD
    + """\
To call a tool, write a message to it. Its header names the tool, and its text is one JSON object \
with the arguments, like this:

{example}

Keep every mark of it. Write strict JSON: keys and texts in double quotes; inside a text a quote \
is \\" and a new line is \\n. For several calls, write one message for each.
"""
    + TAIL
)

_JSON_BLOCK: Final = (
    HEAD
    + """\
To call a tool, write a block that invokes it. The tool's name stands before its mark; behind it \
stands one JSON object with the name and, as `args`, the arguments, like this:

{example}

Keep every mark of it. Write strict JSON: keys and texts in double quotes; inside a text a quote \
is \\" and a new line is \\n. For several calls, write one block for each.
"""
    + TAIL
)

_RAW_CALLS: Final = (
    HEAD
    + """\
To call a tool, write its name and each of its arguments as in this example, and keep every mark \
of it:

{example}

A text stands between its marks as it is, with its quotes and its new lines: escape nothing. Write \
numbers, true, false, null, lists and objects as JSON. For several calls, repeat all of it, one \
after the other.
"""
    + TAIL
)

_RECIPIENT: Final = (
    HEAD
    + """\
Whatever you write has a recipient: `>>>`, a name, and a new line. What is for the user goes to \
`all`. To call a tool, write to it: its name, and on the next line one JSON object with the \
arguments, like this:

{example}

Write strict JSON: keys and texts in double quotes; inside a text a quote is \\" and a new line is \
\\n. For several calls, repeat that for each.
"""
    + TAIL
)

HARMONY: Final[Format] = Format(
    name="harmony",
    models=("gpt-oss-20b", "gpt-oss-120b"),
    calls=HarmonyCalls(),
    prompt=_JSON_MESSAGE,
    reasoning=None,
)

INKLING: Final[Format] = Format(
    name="inkling",
    models=("inkling",),
    calls=InklingCalls(),
    prompt=_JSON_BLOCK,
    reasoning=None,
)

KIMI_K3: Final[Format] = Format(
    name="kimi_k3",
    models=("kimi-k3",),
    calls=XTMLCalls(),
    prompt=_RAW_CALLS,
    reasoning=None,
    tools=listed_in("```json\n{tools}\n```"),
)

MUSE_GLIMMER: Final[Format] = Format(
    name="muse_glimmer",
    models=("muse-glimmer-30b",),
    calls=ATEMCalls(),
    prompt=_RAW_CALLS,
    reasoning=None,
    tools=lines_in("{tools}", typed=False),
)

FUNCTIONARY_V3_2: Final[Format] = Format(
    name="functionary_v3_2",
    models=("functionary-small-v3.2", "functionary-medium-v3.2"),
    calls=RecipientCalls(),
    prompt=_RECIPIENT,
)

FORMATS: Final[tuple[Format, ...]] = (HARMONY, INKLING, KIMI_K3, MUSE_GLIMMER, FUNCTIONARY_V3_2)
