"""Formats of responses in messages with headers: Harmony, Inkling, Kimi K3, Muse, Functionary.

The header of a message decides whether it is reasoning, text or a call, so these formats read the
reasoning of their models themselves. Calls and results are written as whole messages, as in the
chat templates of the models.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from penstock.errors import UsageError
from penstock.formats.base import Format
from penstock.formats.prompts import (
    HEAD,
    STRICT_JSON,
    TAIL,
    spaced_json,
    text_or_json,
    tools_as_lines,
    tools_as_list,
)
from penstock.formats.round_trip import require_round_trip
from penstock.formats.wrappers import FILLERS, WRAPPERS
from penstock.grammar import (
    ANY,
    PLACE,
    Arguments,
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
from penstock.readers.functionary import Recipients
from penstock.readers.harmony import Harmony
from penstock.readers.inkling import Inkling
from penstock.readers.kimi_k3 import XTML, closing
from penstock.readers.muse import ATEM
from penstock.tools import Tool

# A header ends at white space or at its next marker, so a name with either would be cut there.
_NAME: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_RAW_END: Final = "</atem:parameter"
_RAW_MARKS: Final = Marks((_RAW_END,))
_ARGUMENT_END: Final = closing("argument")
_ARGUMENT_MARKS: Final = Marks((_ARGUMENT_END,))
# Recipients that are not tools in some format.
_NO_TOOLS: Final = frozenset({"self", "user"})


# The recipient may be in the role part, as here, or after the channel, where gpt-oss also writes
# it: `commentary to=functions.NAME <|constrain|>json`. The reader takes both.
class HarmonyCalls(Harmony, frozen=True):
    """Messages to ``functions.NAME`` with arguments in JSON."""

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as a message to its tool."""
        name = _check_name(call)
        head = f"<|start|>assistant to=functions.{name}<|channel|>commentary json<|message|>"
        return require_round_trip(self, call, f"{head}{spaced_json(call.arguments)}<|call|>")

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* as consecutive messages."""
        return "".join(map(self.render_call, calls))

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        return _make_json_outline(self.render_call(ToolCall("", tool.name, ANY)))

    def render_result(self, result: ToolResult) -> str:
        """Write a result as a message of its tool, in JSON."""
        head = f"<|start|>functions.{result.name} to=assistant<|channel|>commentary<|message|>"
        return f"{head}{spaced_json(result.content)}<|end|>"


# Beam has Harmony's frame and not its calls: they are in the channel `analysis`, with
# `<|constrain|>xml`, which distinguishes them from gpt-oss's.
class BeamCalls(Harmony, frozen=True):
    """Messages to a tool with a tag for each parameter."""

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as a message to its tool."""
        return require_round_trip(self, call, self.render_calls([call]))

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* as messages in a row: the last one ends the turn."""
        return "<|end|>".join(map(self._message, calls)) + "<|call|>"

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        check_names(self.render_call, tool)
        notation = Notation("json-in-beam", marks=_BEAM_MARKS)
        parameters = ParameterOutline(_beam_slot, notation, is_sorted=True)
        call = split_around(_BEAM_HEADER.format(tool.name) + PLACE, parameters, PLACE)
        return Outline((*call[:-1], "<|call|>"), between="")

    def render_result(self, result: ToolResult) -> str:
        """Write a result as a message of its tool."""
        head = f"<|start|>{result.name} to=assistant<|channel|>analysis<|message|>"
        return f"{head}{text_or_json(result.content)}<|end|>"

    def _message(self, call: ToolCall) -> str:
        arguments = sorted(call.arguments.items())  # as the model's template does
        slots = ((_beam_slot(key), text_or_json(value)) for key, value in arguments)
        written = "".join(f"{slot.before}{value}{slot.after}" for slot, value in slots)
        return _BEAM_HEADER.format(_check_name(call)) + written


_BEAM_HEADER: Final = "<|start|>assistant to={}<|channel|>analysis <|constrain|>xml<|message|>"
# All of these end a value: the closing tag with the newline before it is one token, so a model that
# writes the newline as text may go straight to the next parameter (SGLang's `beam`).
_BEAM_MARKS: Final = Marks(("</rfl:parameter", "<rfl:parameter", "<|call|>", "<|end|>"))


def _beam_slot(key: str, kind: str = "string") -> Slot:
    del kind
    return make_slot(f'<rfl:parameter name="{key}">\n{PLACE}\n</rfl:parameter>', _BEAM_MARKS)


# The name is in the header and in the JSON; a model may omit the one in the header. Besides `json`
# there is `<|content_invoke_tool_text|>`, whose payload is free text.
class InklingCalls(Inkling, frozen=True):
    """Blocks that invoke a tool, with the name and the arguments as one JSON object."""

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as a block of its own."""
        written = spaced_json({"name": call.name, "args": call.arguments})
        head = f"<|message_model|>{_check_name(call)}<|content_invoke_tool_json|>"
        return require_round_trip(self, call, f"{head}{written}<|end_message|>")

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* as consecutive blocks."""
        return "".join(map(self.render_call, calls))

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        return _make_json_outline(self.render_call(ToolCall("", tool.name, ANY)))

    def render_result(self, result: ToolResult) -> str:
        """Write a result as a block of its tool."""
        head = f"<|message_tool|>{result.name}<|content_"
        kind = "tool_error|>" if result.is_error else "text|>"
        return f"{head}{kind}{text_or_json(result.content)}<|end_message|>"


# Kimi K3's channels are `think`, `response` and `tools`; opening one of the last two ends a `think`
# that was not closed.
class XTMLCalls(XTML, frozen=True):
    """Calls in the channel `tools`, each value with its type beside its key."""

    def render_call(self, call: ToolCall) -> str:
        """Write *call* in a channel of its own."""
        return require_round_trip(self, call, self.render_calls([call]))

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* in one channel."""
        return _channel("".join(_write_numbered_call(call, at) for at, call in enumerate(calls, 1)))

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        check_names(self.render_call, tool)
        parameters = ParameterOutline(
            _typed_slot, Notation("json-in-channel", marks=_ARGUMENT_MARKS)
        )
        return Outline(split_around(_channel(_call(tool.name, 1, PLACE)), parameters, PLACE))

    def render_result(self, result: ToolResult) -> str:
        """Write a result as a message of its tool."""
        head = f'<|open|>message role="tool" tool="{_encode(result.name)}" index="1"<|sep|>'
        return f"{head}{text_or_json(result.content)}{closing('message')}"


# Muse writes to `self` (reasoning), to `user` (text) or to a tool. An invocation in one of the
# first two is text.
class ATEMCalls(ATEM, frozen=True):
    """Messages to a tool that invoke it, with raw values."""

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as a message to its tool."""
        return require_round_trip(self, call, self.render_calls([call]))

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* as consecutive messages; the last one ends the turn."""
        return "<|eom|>".join(map(_write_invocation, calls)) + "<|eot|>"

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        check_names(self.render_call, tool)
        parameters = ParameterOutline(_raw_slot, Notation("json-in-message", marks=_RAW_MARKS))
        call = split_around(_invocation(tool.name, PLACE), parameters, PLACE)
        return Outline(call, closing="<|eot|>", between="<|eom|>")

    def render_result(self, result: ToolResult) -> str:
        """Write a result as a message of its tool."""
        head = f'<|start|>tool {result.name}<|message|><tool_output name="{result.name}">'
        return f"{head}\n{text_or_json(result.content)}\n</tool_output><|eot|>"


# Functionary v3.2 writes ``all`` and a newline for text. Its prompt ends with ``>>>``, so the first
# piece of a response has no marker of its own.
class RecipientCalls(Recipients, frozen=True):
    """Pieces whose recipient is a tool, with arguments in JSON."""

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as a piece to its tool."""
        return require_round_trip(self, call, f">>>{call.name}\n{spaced_json(call.arguments)}")

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* as consecutive pieces."""
        return "".join(map(self.render_call, calls))

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        written = self.render_call(ToolCall("", tool.name, ANY))
        return _make_json_outline(written, f">>>{tool.name}\n")

    def render_result(self, result: ToolResult) -> str:
        """Write a result as a turn of its tool."""
        head = "<|start_header_id|>tool<|end_header_id|>"
        return f"{head}\n\n{text_or_json(result.content)}<|eot_id|>"


def _make_json_outline(written: str, trigger: str = "") -> Outline:
    """Return the outline of a call that is *written* with any arguments."""
    return Outline(
        split_around(written, Arguments(), spaced_json(ANY)), between="", trigger=trigger
    )


def _check_name(call: ToolCall) -> str:
    """Return the name of *call*; raise `UsageError` for one that a header cannot hold."""
    if _NAME.fullmatch(call.name) is None or call.name in _NO_TOOLS:
        raise UsageError(f"{call.name!r} cannot be the name of a tool in a header")
    return call.name


def _invocation(name: str, written: str) -> str:
    """Write a message that invokes a tool, with its parameters *written*."""
    invoke = f'<atem:invoke name="{name}">\n{written}</atem:invoke>\n'
    section = f"<atem:function_calls>\n{invoke}</atem:function_calls>"
    return f"<|start|>assistant to={name}<|message|>{section}"


def _write_invocation(call: ToolCall) -> str:
    slots = ((_raw_slot(key), value) for key, value in call.arguments.items())
    written = "".join(f"{slot.before}{text_or_json(value)}{slot.after}" for slot, value in slots)
    return _invocation(_check_name(call), written)


def _raw_slot(key: str, kind: str = "string") -> Slot:
    del kind
    return make_slot(f'<atem:parameter name="{key}">{PLACE}{_RAW_END}>\n', _RAW_MARKS)


def _encode(text: str) -> str:
    """Write *text* as an attribute of Kimi K3; its reader decodes no other entities."""
    return text.replace("&", "&amp;").replace('"', "&quot;")


def _channel(calls: str) -> str:
    """Write the channel of *calls* that are written."""
    return f"<|open|>tools<|sep|>{calls}{closing('tools')}"


def _call(name: str, at: int, written: str) -> str:
    """Write the call *at* this place in its channel, with its arguments *written*."""
    head = f'<|open|>call tool="{_encode(name)}" index="{at}"<|sep|>'
    return f"{head}{written}{closing('call')}"


def _write_numbered_call(call: ToolCall, at: int) -> str:
    written = "".join(_typed_argument(*item) for item in call.arguments.items())
    return _call(call.name, at, written)


def _typed_argument(key: str, value: Any) -> str:
    slot = _typed_slot(key, _find_type(value))
    return f"{slot.before}{text_or_json(value)}{slot.after}"


def _typed_slot(key: str, kind: str) -> Slot:
    # XTML has no type `integer`: string, number, boolean, null, object and array are all.
    kind = "number" if kind == "integer" else kind
    head = f'<|open|>argument key="{_encode(key)}" type="{kind}"<|sep|>'
    return make_slot(f"{head}{PLACE}{_ARGUMENT_END}", _ARGUMENT_MARKS)


def _find_type(value: Any) -> str:
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


_JSON_MESSAGE: Final = f"""\
{HEAD}\
To call a tool, write a message to it. Its header names the tool, and its text is one JSON object \
with the arguments, like this:

{{example}}

Keep all markers. {STRICT_JSON} For several calls, write one message for each.
{TAIL}"""

_JSON_BLOCK: Final = f"""\
{HEAD}\
To call a tool, write a block that invokes it. The tool's name is before the marker; after it \
is one JSON object with the name and, as `args`, the arguments, like this:

{{example}}

Keep all markers. {STRICT_JSON} For several calls, write one block for each.
{TAIL}"""

_RAW_CALLS: Final = f"""\
{HEAD}\
To call a tool, write its name and each of its arguments as in this example, with all of its \
markers:

{{example}}

Write strings between their markers exactly as they are, with quotes and newlines: escape nothing. \
Write numbers, true, false, null, lists and objects as JSON. For several calls, repeat all of it, \
one after the other.
{TAIL}"""

_RECIPIENT: Final = f"""\
{HEAD}\
Every message has a recipient: `>>>`, a name and a newline. Messages for the user go to `all`. \
To call a tool, write a message to it: its name, and on the next line one JSON object with the \
arguments, like this:

{{example}}

{STRICT_JSON} For several calls, repeat this for each.
{TAIL}"""

HARMONY: Final[Format] = Format(
    name="harmony",
    models=("gpt-oss-20b", "gpt-oss-120b"),
    calls=HarmonyCalls(),
    prompt=_JSON_MESSAGE,
    reasoning=None,
    wrappers=(*WRAPPERS, *FILLERS),
)

BEAM: Final[Format] = Format(
    name="beam",
    calls=BeamCalls(),
    prompt=_RAW_CALLS,
    reasoning=None,
    wrappers=(*WRAPPERS, *FILLERS),
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
    tools=tools_as_list("```json\n{tools}\n```"),
)

MUSE_GLIMMER: Final[Format] = Format(
    name="muse_glimmer",
    models=("muse-glimmer-30b",),
    calls=ATEMCalls(),
    prompt=_RAW_CALLS,
    reasoning=None,
    tools=tools_as_lines("{tools}", typed=False),
)

FUNCTIONARY_V3_2: Final[Format] = Format(
    name="functionary_v3_2",
    models=("functionary-small-v3.2", "functionary-medium-v3.2"),
    calls=RecipientCalls(),
    prompt=_RECIPIENT,
)

FORMATS: Final[tuple[Format, ...]] = (
    HARMONY,
    BEAM,
    INKLING,
    KIMI_K3,
    MUSE_GLIMMER,
    FUNCTIONARY_V3_2,
)
