"""JSON calls of particular model families: Qwen 2.5, Granite, Jamba, Cohere, Llama 3 and others.

`MarkedJSON` reads and writes all formats that have a start marker, `LeadingJSON` those whose calls
may begin the response without one. The templates for calls, results and tool lists follow the
models' own chat templates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct, structs

from penstock.formats import prompts
from penstock.formats.base import Format
from penstock.formats.prompts import (
    LINES,
    ToolList,
    indented_json,
    spaced_json,
    text_or_json,
    tools_as_list,
)
from penstock.formats.reasoning import STYLES
from penstock.formats.wrappers import WRAPPERS
from penstock.grammar import ANY, Arguments, Outline, split_around
from penstock.messages import ToolCall, ToolResult
from penstock.parsing import BodyReader
from penstock.parsing.body import Syntax, Wrapper
from penstock.parsing.call_shape import CALL, CallShape
from penstock.parsing.marker_readers import CITATION_END, CitationEnd, ReasoningEnd
from penstock.readers.json_calls import JSONCallReader, UnclosedJSONReader
from penstock.readers.signed_json import LabelledJSONReader, LeadingJSONReader, ResponseReader
from penstock.tools import Tool

_CALL: Final = "{call}"

# Apertus: the only key of the object is the name, its value the arguments.
_KEYED: Final = CallShape(keyed=True)
# Llama's and InternLM's `parameters` is accepted for `arguments` in every format (R7); it is first
# where it is what the model writes.
_PARAMETERS: Final = CallShape(arguments=("parameters", "arguments", "args", "input"))
_COMMAND_R: Final = structs.replace(_PARAMETERS, names=("tool_name", "name"))
_COMMAND_R7B: Final = structs.replace(_COMMAND_R, ids=("tool_call_id", "id"), writes_id=True)

_PLACE: Final = re.compile(r"\{(content|json|id|name|error)\}")


class MarkedJSON(Syntax, Struct, frozen=True):
    """Objects with a name and arguments, or lists of them, from one of *starts* to *end*.

    Without *end* a call ends with its JSON. A start may end with the bracket that begins the JSON;
    with a *label* it counts only if the label follows. *written* is the template of a call, *shape*
    describes its object. Several calls share one template with *between* between them; with None
    each has its own, on a line. With *lines* objects are indented over several lines.

    *result* is the template of a result: ``{content}`` is text verbatim and other values as JSON,
    ``{json}`` always JSON; ``{id}``, ``{name}`` and ``{error}`` are available too.
    """

    starts: tuple[str, ...]
    end: str = ""
    label: str = ""
    written: str = _CALL
    between: str | None = None
    lines: bool = False
    shape: CallShape = CALL
    result: str = "{content}"
    folds: bool = False

    def body(self, marker: str) -> BodyReader:
        """Return a new reader for the text after *marker*."""
        if self.label:
            return LabelledJSONReader(marker, self.label, self.end)
        if self.end:
            return JSONCallReader(self.end, self.shape)
        return UnclosedJSONReader(self.shape, bracket="[" if marker.endswith("[") else "")

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as one object in the template."""
        return self.written.replace(_CALL, self._json(self.members(call)))

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* in one template, or each in its own."""
        if self.between is None:
            return "\n".join(map(self.render_call, calls))
        objects = (self._json(self.members(call, at)) for at, call in enumerate(calls))
        return self.written.replace(_CALL, self.between.join(objects))

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*; its arguments are always on one line."""
        call = self._json(self.members(ToolCall("", tool.name, ANY)))
        trigger = next(filter(self.written.startswith, self.starts), "")
        written = self.written if self.between is None else _CALL
        whole = split_around(written.replace(_CALL, call), Arguments(), self._any)
        if self.between is None:
            return Outline(whole, trigger=trigger)
        opening, _, closing = self.written.partition(_CALL)
        return Outline(whole, opening, closing, between=self.between, trigger=trigger)

    def render_result(self, result: ToolResult) -> str:
        """Write the result of a call in the template."""
        places = {
            "content": text_or_json(result.content),
            "json": spaced_json(result.content),
            "id": spaced_json(result.id or "0"),
            "name": spaced_json(result.name),
            "error": "true" if result.is_error else "null",
        }
        return _PLACE.sub(lambda place: places[place[1]], self.result)

    def members(self, call: ToolCall, at: int = 0) -> dict[str, Any]:
        """Return the JSON object of *call*, which is number *at* of its message."""
        return self.shape.write(call.name, call.arguments, call.id or str(at))

    def _json(self, members: dict[str, Any]) -> str:
        return indented_json(members, depth=1) if self.lines else spaced_json(members)

    @property
    def _any(self) -> str:
        """The placeholder for arguments in an outline."""
        return indented_json(ANY, depth=2) if self.lines else spaced_json(ANY)


class CitedJSON(MarkedJSON, frozen=True):
    """Calls in text with citations, ``<co>text</co: 0:[1]>``; only the cited text is content."""

    def body(self, marker: str) -> BodyReader:
        """Return a new reader for the text after *marker*: a call, or the end of a citation."""
        return CitationEnd() if marker == CITATION_END else JSONCallReader(self.end)


LISTED: Final = (
    "a JSON list with one object in it that has the name and the arguments",
    "put one object for each into the one list",
)
SINGLE: Final = (
    "one JSON object with the name and the arguments",
    "repeat all of it, once for each",
)
_LINES: Final = (SINGLE[0], "write one object on each line between the same two tags")


def json_prompt(what: str, several: str, *, first: bool = False) -> str:
    """Return the prompt for a call that is *what*; *several* explains parallel calls."""
    place = " It must be the first thing that you write." if first else ""
    return f"""\
{prompts.HEAD}\
To call a tool, write {what}, with everything that surrounds it here, like this:

{{example}}

{prompts.STRICT_JSON} For several calls, {several}.{place}
{prompts.TAIL}"""


_TAGS: Final = MarkedJSON(
    starts=("<tool_call>",),
    end="</tool_call>",
    written="<tool_call>\n{call}\n</tool_call>",
    result="<tool_response>\n{content}\n</tool_response>",
)
_FUNCTOOLS: Final = "functools["
_ACTION: Final = ("<|START_ACTION|>", CITATION_END)
_ACTION_END: Final = "<|END_ACTION|>"
_ACTION_RESULT: Final = """\
<|START_TOOL_RESULT|>[
    {
        "tool_call_id": {id},
        "results": {
            "0": {json}
        },
        "is_error": {error}
    }
]<|END_TOOL_RESULT|>"""
FENCED_TOOLS: Final = ToolList(
    "```json\n{tools}\n```", "[\n    ", "\n]", between=",\n    ", typed=False
)
CITED: Final = (*WRAPPERS, Wrapper("<co>"))

FORMATS: Final[tuple[Format, ...]] = (
    Format(
        # Qwen's templates put a newline on both sides of the JSON, and SGLang's `qwen25` requires
        # it. Here white space around the JSON is optional.
        name="qwen25",
        models=("qwen2.5", "qwq"),
        calls=_TAGS,
        prompt=prompts.JSON_MIX,
        tools=LINES,
    ),
    Format(
        # Text between and after the blocks is content, as in vLLM.
        name="granite4",
        models=("granite-4",),
        calls=_TAGS,
        prompt=prompts.JSON_MIX,
        tools=LINES,
    ),
    Format(
        # Trinity calls tools inside of <think>: the call ends the reasoning, and a lone </think>
        # after it is dropped.
        name="trinity",
        models=("trinity",),
        calls=_TAGS,
        prompt=prompts.JSON_MIX,
        tools=LINES,
    ),
    Format(
        # vLLM drops newlines around the block and after </think>; see the style of that name.
        name="ernie45",
        models=("ernie-4.5",),
        calls=_TAGS,
        prompt=prompts.JSON_MIX,
        tools=LINES,
    ),
    Format(
        # The markers of LongCat-Flash; the JSON between them is that of hermes.
        name="longcat",
        models=("longcat-flash",),
        calls=MarkedJSON(
            starts=("<longcat_tool_call>",),
            end="</longcat_tool_call>",
            written="<longcat_tool_call>{call}</longcat_tool_call>",
        ),
        prompt=prompts.JSON_MIX,
    ),
    Format(
        # vLLM writes the two tokens without a space, SGLang with one; vLLM reads one call, SGLang
        # several.
        name="internlm",
        models=("internlm2.5", "internlm3", "intern-s1"),
        calls=MarkedJSON(
            starts=(
                "<|action_start|><|plugin|>",
                "<|action_start|> <|plugin|>",
                "<|action_start|>\n<|plugin|>",
            ),
            end="<|action_end|>",
            written="<|action_start|><|plugin|>\n{call}<|action_end|>",
            shape=_PARAMETERS,
        ),
        prompt=json_prompt(*SINGLE),
        reasoning=STYLES["interns1"],
    ),
    Format(
        # Jamba, Hunyuan A13B and MiniMax M1 share their markers. After <tool_calls> an array is
        # read, or a sequence of objects, with or without commas, so each reads the calls of the
        # others.
        name="jamba",
        models=("jamba-1.5", "jamba-1.6"),
        calls=MarkedJSON(
            starts=("<tool_calls>",),
            end="</tool_calls>",
            written="<tool_calls>[\n    {call}\n]</tool_calls>",
            between=",\n    ",
        ),
        prompt=json_prompt(*LISTED),
    ),
    Format(
        # A block inside of <think> is not a call for this model.
        name="hunyuan_a13b",
        models=("hunyuan-a13b",),
        calls=MarkedJSON(
            starts=("<tool_calls>",),
            end="</tool_calls>",
            written="<tool_calls>[{call}]</tool_calls>",
            between=", ",
        ),
        prompt=json_prompt(*LISTED),
        wrappers=(*WRAPPERS, Wrapper("\u52a9\u624b\uff1a", "first")),  # "assistant:", in Chinese
    ),
    Format(
        # One object per line. Blocks inside of <think> are not calls. No peer reads this any more.
        name="minimax_m1",
        models=("minimax-m1",),
        calls=MarkedJSON(
            starts=("<tool_calls>",),
            end="</tool_calls>",
            written="<tool_calls>\n{call}\n</tool_calls>",
            between="\n",
            result="tool result: {content}",
        ),
        prompt=json_prompt(*_LINES),
        tools=LINES,
    ),
    Format(
        # vLLM ends the list at the first "]", so an array among the arguments breaks the call
        # there, and does not stream at all. Here the JSON ends where its brackets do.
        name="phi4_mini_json",
        models=("phi-4-mini",),
        calls=MarkedJSON(starts=(_FUNCTOOLS,), written="functools[{call}]", between=", "),
        prompt=json_prompt(*LISTED),
        tools=tools_as_list("<|tool|>{tools}<|/tool|>", typed=False),
    ),
    Format(
        # The leading space is in the template. There is no end marker.
        name="firefunction_v2",
        models=("firefunction-v2",),
        calls=MarkedJSON(
            starts=(" " + _FUNCTOOLS, _FUNCTOOLS), written=" functools[{call}]", between=", "
        ),
        prompt=json_prompt(*LISTED),
        tools=tools_as_list("{tools}", typed=False),
    ),
    Format(
        # No end marker: each <function_call> is followed by one object.
        name="granite_20b_fc",
        models=("granite-20b-functioncalling",),
        calls=MarkedJSON(starts=("<function_call>",), written="<function_call> {call}"),
        prompt=json_prompt(*SINGLE),
    ),
    Format(
        # Models write one call, which ends with its JSON; a second start marker begins another.
        # <|message_sep|> ends content.
        name="gigachat3",
        models=("gigachat3",),
        calls=MarkedJSON(
            starts=("<|function_call|>", "function call<|role_sep|>\n"),
            written="<|function_call|>{call}",
        ),
        prompt=json_prompt(*SINGLE),
        wrappers=(*WRAPPERS, Wrapper("<|message_sep|>")),
    ),
    Format(
        # Nano v2 only: Nemotron 3 Nano writes the form of Qwen3-Coder (`nemotron_v3`).
        name="nemotron_toolcall",
        models=("nemotron-nano-v2",),
        calls=MarkedJSON(
            starts=("<TOOLCALL>",),
            end="</TOOLCALL>",
            written="<TOOLCALL>[{call}]</TOOLCALL>",
            between=", ",
            result="<TOOL_RESPONSE>[{content}]</TOOL_RESPONSE>",
        ),
        prompt=json_prompt(*LISTED),
        tools=tools_as_list("<AVAILABLE_TOOLS>{tools}</AVAILABLE_TOOLS>", typed=False),
    ),
    Format(
        # The name of the tool is the only key of each object. SGLang calls this `apertus2509`.
        name="apertus",
        models=("apertus",),
        calls=MarkedJSON(
            shape=_KEYED,
            starts=("<|tools_prefix|>",),
            end="<|tools_suffix|>",
            written="<|tools_prefix|>[{call}]<|tools_suffix|>",
            between=", ",
            result="[{content}]",
        ),
        prompt=json_prompt(*LISTED),
    ),
    Format(
        # `tool_name` and `parameters` instead of `name` and `arguments`. Citations (<co>text</co:
        # 0:[1]>) are unwrapped to their text.
        name="cohere_command",
        models=("command-a", "command-a-reasoning"),
        calls=CitedJSON(
            starts=_ACTION,
            end=_ACTION_END,
            written="<|START_ACTION|>\n[{call}]\n<|END_ACTION|>",
            between=", ",
            shape=_COMMAND_R7B,
            result=_ACTION_RESULT,
        ),
        prompt=json_prompt(*LISTED),
        wrappers=CITED,
        tools=FENCED_TOOLS,
    ),
    Format(
        # Reasoning between <|START_THINKING|> and <|END_THINKING|>, text between <|START_RESPONSE|>
        # and its end; the calls differ from Command A's in white space only.
        name="command_r7b",
        models=("command-r7b",),
        calls=CitedJSON(
            starts=_ACTION,
            end=_ACTION_END,
            written="<|START_ACTION|>[\n    {call}\n]<|END_ACTION|>",
            between=",\n    ",
            shape=_COMMAND_R7B,
            result=_ACTION_RESULT,
        ),
        prompt=json_prompt(*LISTED),
        reasoning=STYLES["cohere_command"],
        wrappers=CITED,
        tools=FENCED_TOOLS,
    ),
    Format(
        # The call ends with the fence; there is no other end marker.
        name="command_r_plus",
        models=("command-r", "command-r-plus"),
        calls=MarkedJSON(
            starts=("Action:",),
            label="```json",
            end="```",
            written="Action:\n```json\n[\n    {call}\n]```",
            between=",\n    ",
            lines=True,
            shape=_COMMAND_R,
            result="<results>\n{content}</results>",
        ),
        prompt=json_prompt(*LISTED),
    ),
)
"""The formats that have a start marker."""


# Calls in JSON that may begin the response without a marker: only those of known tools.


_BRACKETS: Final = ("{", "[")
_FENCE: Final = "```"
_THOUGHT_END: Final = "</think>"


class LeadingJSON(MarkedJSON, frozen=True):
    """Calls after a bracket that begins the response, or after a marker of *starts*.

    A bracket or a JSON fence calls known tools only. With *label*, a ``[`` that the label follows
    is a marker. With *only_first* markers count only at the start of the response; the end of
    reasoning counts as such a start.
    """

    only_first: bool = False

    @property
    def leading(self) -> tuple[str, ...]:
        """The brackets that count only at the start of the response."""
        brackets = [start for start in self.starts if start in _BRACKETS]
        return tuple(start for start in brackets if start != "[" or not self.label)

    def body(self, marker: str) -> BodyReader:
        """Return a new reader for the text after *marker*."""
        if marker == "[" and self.label:
            return LabelledJSONReader(marker, self.label)
        if marker in _BRACKETS:
            return LeadingJSONReader(marker, self.shape)
        if marker == _FENCE:
            return LabelledJSONReader(marker, "json", _FENCE, known=True)
        if marker == _THOUGHT_END:
            return ReasoningEnd(marker)
        if self.end:
            return JSONCallReader(self.end, self.shape)
        return UnclosedJSONReader(self.shape, leading=self.only_first)

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*, which is the whole response."""
        outline = super().outline(tool)
        return structs.replace(outline, between=self.between, trigger="", leads=True)


# {"response": "…"} is text; an object without any of the three keys is text as it is.
class AnsweringJSON(LeadingJSON, frozen=True):
    """An object at the start of the response that has the calls, or the text of the answer."""

    def body(self, marker: str) -> BodyReader:
        """Return a new reader for the text after *marker*."""
        return ResponseReader(marker, self.shape)

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* as a list under the key ``tool_calls``."""
        return spaced_json({"tool_calls": [self.members(call) for call in calls]})


_GENERIC: Final = CallShape(outer_keys=("tool_call",), lists=("tool_calls",))

_ROW: Final = (SINGLE[0], "write one object after the other, with a semicolon between them")
_MEMBER: Final = (
    "one JSON object with a call in it that has the name and the arguments",
    'give a list of such calls under the key "tool_calls" instead',
)

LEADING_FORMATS: Final[tuple[Format, ...]] = (
    Format(
        # Several calls are separated by semicolons. vLLM looks for the first "{" anywhere if it
        # parses a whole response, and only at the start if it streams. Here both use the start, and
        # <|python_tag|> counts anywhere.
        name="llama3_json",
        models=("llama-3.1", "llama-3.2", "llama-3.3", "llama-4"),
        calls=LeadingJSON(
            starts=("<|python_tag|>", "{"),
            shape=_PARAMETERS,
            between="; ",
            result="{json}",
        ),
        prompt=json_prompt(*_ROW, first=True),
        tools=ToolList("{tools}", between="\n\n", tool="{lines}"),
    ),
    Format(
        # The array may be the whole response, or follow </think>, a JSON fence, [TOOL_CALLS] or
        # <tool_call>. vLLM's reader accepts all five.
        name="xlam",
        models=("xlam", "llama-xlam-2"),
        calls=LeadingJSON(
            starts=("[", "{", _FENCE, "<tool_call>", _THOUGHT_END),
            label="TOOL_CALLS]",
            end="</tool_call>",
            written="[{call}]",
            between=", ",
        ),
        prompt=json_prompt(*LISTED, first=True),
    ),
    Format(
        # Granite 3.0 has a token <|tool_call|>, 3.1 writes <tool_call> as text, and neither has an
        # end marker.
        name="granite",
        models=("granite-3.0", "granite-3.1", "granite-3.2", "granite-3.3"),
        calls=LeadingJSON(
            starts=("<|tool_call|>", "<tool_call>", "[", "{"),
            only_first=True,
            written="<|tool_call|>[{call}]",
            between=", ",
        ),
        prompt=json_prompt(*LISTED, first=True),
    ),
    Format(
        # llama.cpp's fallback for templates without tools, enforced by a grammar. It is gone from
        # its code, and still in its documentation.
        name="generic_json",
        calls=AnsweringJSON(
            starts=("{",),
            shape=_GENERIC,
            written='{"tool_call": {call}}',
        ),
        prompt=json_prompt(*_MEMBER, first=True),
    ),
)
"""The formats whose calls may have no marker."""
