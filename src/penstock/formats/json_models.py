"""Calls in JSON after a marker, as the models of each family were taught to write them.

One class reads and writes them all; a format says which markers it has and what a call looks like
in it. `written`, `result` and the list of tools show that as the models' own templates have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from penstock.formats import prompts
from penstock.formats.base import Format
from penstock.formats.grammar import ANY, Arguments, Outline, around
from penstock.formats.prompts import LINES, ToolList, listed_in
from penstock.formats.reasoning import STYLES, TURN_ENDS
from penstock.formats.rendering import indented_json, spaced_json
from penstock.messages import ToolCall, ToolResult
from penstock.parsing import BodyReader, JSONCallReader
from penstock.parsing.readers import markers
from penstock.parsing.readers.bare_json import LabelledJSONReader, LeadingJSONReader, ResponseReader
from penstock.parsing.readers.envelope import CALL, Shape
from penstock.parsing.readers.json_calls import KeyedJSONReader, UnclosedJSONReader
from penstock.parsing.readers.markers import ThoughtEnd
from penstock.parsing.reasoning import Wrapper
from penstock.tools import Tool

_CALL: Final = "{call}"
_PLACE: Final = re.compile(r"\{(content|json|id|name|error)\}")


class MarkedJSON(Struct, frozen=True):
    """Objects with a name and arguments, or lists of them, from one of *starts* to *end*.

    Without an *end* the calls end with their JSON. A start may itself end with the bracket that
    begins it, or be none without the *label* after it. *written* shows where the object of a call
    stands, *keys* are those of its name and its arguments, *id_key* that of its id, if it has one.
    Several calls are in the same place with *between* between them; without it each has a place
    and a line of its own. *lines* tells that objects are written over lines.

    *result* shows where the ``{content}`` of a result stands: text as it is, anything else as JSON;
    or its ``{json}``, ``{id}``, ``{name}``, and whether it is an ``{error}``.
    """

    starts: tuple[str, ...]
    end: str = ""
    label: str = ""
    written: str = _CALL
    between: str | None = None
    lines: bool = False
    keys: tuple[str, str] = ("name", "arguments")
    id_key: str = ""
    result: str = "{content}"
    folds: bool = False

    def syntax(self, tools: Iterable[Tool]) -> MarkedJSON:
        """Return itself: the markers are the same for any *tools*."""
        del tools
        return self

    def body(self, marker: str) -> BodyReader:
        """Return a fresh reader for what follows *marker*."""
        if self.label:
            return LabelledJSONReader(marker, self.label, self.end)
        if self.end:
            return JSONCallReader(self.end)
        return UnclosedJSONReader(bracket="[" if marker.endswith("[") else "")

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as one object, where the models write it."""
        return self.written.replace(_CALL, self._json(self.members(call)))

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* in one place, or each in its own."""
        if self.between is None:
            return "\n".join(map(self.render_call, calls))
        objects = (self._json(self.members(call, at)) for at, call in enumerate(calls))
        return self.written.replace(_CALL, self.between.join(objects))

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*; its arguments are on one line in any case."""
        call = self._json(self.members(ToolCall("", tool.name, ANY)))
        trigger = next(filter(self.written.startswith, self.starts), "")
        written = self.written if self.between is None else _CALL
        whole = around(written.replace(_CALL, call), Arguments(), self._any)
        if self.between is None:
            return Outline(whole, trigger=trigger)
        opening, _, closing = self.written.partition(_CALL)
        return Outline(whole, opening, closing, between=self.between, trigger=trigger)

    def render_result(self, result: ToolResult) -> str:
        """Write what a call gave back, where the models read it."""
        is_text = isinstance(result.content, str)
        places = {
            "content": result.content if is_text else spaced_json(result.content),
            "json": spaced_json(result.content),
            "id": spaced_json(result.id or "0"),
            "name": spaced_json(result.name),
            "error": "true" if result.is_error else "null",
        }
        return _PLACE.sub(lambda place: places[place[1]], self.result)

    def members(self, call: ToolCall, at: int = 0) -> dict[str, Any]:
        """Return the object that *call* is written as, the one *at* this place in its message."""
        name, arguments = self.keys
        first = {self.id_key: call.id or str(at)} if self.id_key else {}
        return {**first, name: call.name, arguments: call.arguments}

    def _json(self, members: dict[str, Any]) -> str:
        return indented_json(members, depth=1) if self.lines else spaced_json(members)

    @property
    def _any(self) -> str:
        """What stands for any arguments in an outline."""
        return indented_json(ANY, depth=2) if self.lines else spaced_json(ANY)


class KeyedJSON(MarkedJSON, frozen=True):
    """Objects with one key, the name of the call; its value are the arguments."""

    def body(self, marker: str) -> BodyReader:
        """Return a fresh reader for what follows *marker*."""
        del marker
        return KeyedJSONReader(self.end)

    def members(self, call: ToolCall, at: int = 0) -> dict[str, Any]:
        """Return the object that *call* is written as."""
        del at
        return {call.name: call.arguments}


class CitedJSON(MarkedJSON, frozen=True):
    """Calls among text with citations, of which only the text is content."""

    def body(self, marker: str) -> BodyReader:
        """Return a fresh reader for what follows *marker*: a call, or the end of a citation."""
        return markers.CitationEnd() if marker == markers.START else JSONCallReader(self.end)


LISTED: Final = (
    "a JSON list with one object in it that has the name and the arguments",
    "put one object for each into the one list",
)
SINGLE: Final = (
    "one JSON object with the name and the arguments",
    "repeat all of it, once for each",
)
_LINES: Final = (SINGLE[0], "write one object on each line between the same two tags")


def told(what: str, several: str, *, first: bool = False) -> str:
    """Return a model to write *what*, and how to write *several* calls; *first* of all, if so."""
    place = " It has to be the first thing that you write." if first else ""
    return f"""\
{prompts.HEAD}\
To call a tool, write {what}, and whatever stands around it here, like this:

{{example}}

Write strict JSON: keys and texts in double quotes; inside a text a quote is \\" and a new line is \
\\n. For several calls, {several}.{place}
{prompts.TAIL}"""


_TAGS: Final = MarkedJSON(
    starts=("<tool_call>",),
    end="</tool_call>",
    written="<tool_call>\n{call}\n</tool_call>",
    result="<tool_response>\n{content}\n</tool_response>",
)
_FUNCTOOLS: Final = "functools["
_ACTION: Final = ("<|START_ACTION|>", markers.START)
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
_FENCED_TOOLS: Final = ToolList(
    "```json\n{tools}\n```", "[\n    ", "\n]", between=",\n    ", typed=False
)
_CITED: Final = (*TURN_ENDS, Wrapper("<co>"))

FORMATS: Final[tuple[Format, ...]] = (
    Format(
        name="qwen25",
        models=("qwen2.5", "qwq"),
        calls=_TAGS,
        prompt=prompts.JSON_MIX,
        tools=LINES,
    ),
    Format(
        name="granite4",
        models=("granite-4",),
        calls=_TAGS,
        prompt=prompts.JSON_MIX,
        tools=LINES,
    ),
    Format(
        name="trinity",
        models=("trinity",),
        calls=_TAGS,
        prompt=prompts.JSON_MIX,
        tools=LINES,
    ),
    Format(
        name="ernie45",
        models=("ernie-4.5",),
        calls=_TAGS,
        prompt=prompts.JSON_MIX,
        tools=LINES,
    ),
    Format(
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
            keys=("name", "parameters"),
        ),
        prompt=told(*SINGLE),
        reasoning=STYLES["interns1"],
    ),
    Format(
        name="jamba",
        models=("jamba-1.5", "jamba-1.6"),
        calls=MarkedJSON(
            starts=("<tool_calls>",),
            end="</tool_calls>",
            written="<tool_calls>[\n    {call}\n]</tool_calls>",
            between=",\n    ",
        ),
        prompt=told(*LISTED),
    ),
    Format(
        name="hunyuan_a13b",
        models=("hunyuan-a13b",),
        calls=MarkedJSON(
            starts=("<tool_calls>",),
            end="</tool_calls>",
            written="<tool_calls>[{call}]</tool_calls>",
            between=", ",
        ),
        prompt=told(*LISTED),
        wrappers=(*TURN_ENDS, Wrapper("\u52a9\u624b\uff1a", "first")),  # "assistant:", in Chinese
    ),
    Format(
        name="minimax_m1",
        models=("minimax-m1",),
        calls=MarkedJSON(
            starts=("<tool_calls>",),
            end="</tool_calls>",
            written="<tool_calls>\n{call}\n</tool_calls>",
            between="\n",
            result="tool result: {content}",
        ),
        prompt=told(*_LINES),
        tools=LINES,
    ),
    Format(
        name="phi4_mini_json",
        models=("phi-4-mini",),
        calls=MarkedJSON(starts=(_FUNCTOOLS,), written="functools[{call}]", between=", "),
        prompt=told(*LISTED),
        tools=listed_in("<|tool|>{tools}<|/tool|>", typed=False),
    ),
    Format(
        name="firefunction_v2",
        models=("firefunction-v2",),
        calls=MarkedJSON(
            starts=(" " + _FUNCTOOLS, _FUNCTOOLS), written=" functools[{call}]", between=", "
        ),
        prompt=told(*LISTED),
        tools=listed_in("{tools}", typed=False),
    ),
    Format(
        name="granite_20b_fc",
        models=("granite-20b-functioncalling",),
        calls=MarkedJSON(starts=("<function_call>",), written="<function_call> {call}"),
        prompt=told(*SINGLE),
    ),
    Format(
        name="gigachat3",
        models=("gigachat3",),
        calls=MarkedJSON(
            starts=("<|function_call|>", "function call<|role_sep|>\n"),
            written="<|function_call|>{call}",
        ),
        prompt=told(*SINGLE),
        wrappers=(*TURN_ENDS, Wrapper("<|message_sep|>")),
    ),
    Format(
        name="nemotron_toolcall",
        models=("nemotron-nano-v2",),
        calls=MarkedJSON(
            starts=("<TOOLCALL>",),
            end="</TOOLCALL>",
            written="<TOOLCALL>[{call}]</TOOLCALL>",
            between=", ",
            result="<TOOL_RESPONSE>[{content}]</TOOL_RESPONSE>",
        ),
        prompt=told(*LISTED),
        tools=listed_in("<AVAILABLE_TOOLS>{tools}</AVAILABLE_TOOLS>", typed=False),
    ),
    Format(
        name="apertus",
        models=("apertus",),
        calls=KeyedJSON(
            starts=("<|tools_prefix|>",),
            end="<|tools_suffix|>",
            written="<|tools_prefix|>[{call}]<|tools_suffix|>",
            between=", ",
            result="[{content}]",
        ),
        prompt=told(*LISTED),
    ),
    Format(
        name="cohere_command",
        models=("command-a", "command-a-reasoning"),
        calls=CitedJSON(
            starts=_ACTION,
            end=_ACTION_END,
            written="<|START_ACTION|>\n[{call}]\n<|END_ACTION|>",
            between=", ",
            keys=("tool_name", "parameters"),
            id_key="tool_call_id",
            result=_ACTION_RESULT,
        ),
        prompt=told(*LISTED),
        wrappers=_CITED,
        tools=_FENCED_TOOLS,
    ),
    Format(
        name="command_r7b",
        models=("command-r7b",),
        calls=CitedJSON(
            starts=_ACTION,
            end=_ACTION_END,
            written="<|START_ACTION|>[\n    {call}\n]<|END_ACTION|>",
            between=",\n    ",
            keys=("tool_name", "parameters"),
            id_key="tool_call_id",
            result=_ACTION_RESULT,
        ),
        prompt=told(*LISTED),
        reasoning=STYLES["cohere_command"],
        wrappers=_CITED,
        tools=_FENCED_TOOLS,
    ),
    Format(
        name="command_r_plus",
        models=("command-r", "command-r-plus"),
        calls=MarkedJSON(
            starts=("Action:",),
            label="```json",
            end="```",
            written="Action:\n```json\n[\n    {call}\n]```",
            between=",\n    ",
            lines=True,
            keys=("tool_name", "parameters"),
            result="<results>\n{content}</results>",
        ),
        prompt=told(*LISTED),
    ),
)
"""The formats that have a start marker."""


# Calls in JSON that an answer may begin with, without any marker; a marker may stand there too.


_BRACKETS: Final = ("{", "[")
_FENCE: Final = "```"
_THOUGHT_END: Final = "</think>"


class LeadingJSON(MarkedJSON, frozen=True):
    """Calls of *shape* after a bracket that begins the answer, or after a marker of *starts*.

    A bracket calls known tools only, and so does a fence, which has to hold JSON. *label* makes a
    marker of a ``[``. With *only_first* markers too count only where the answer begins. The end of
    a thought lets it begin once more.
    """

    shape: Shape = CALL
    only_first: bool = False

    @property
    def leading(self) -> tuple[str, ...]:
        """The brackets, which are text once something was said; one with a label is a marker."""
        brackets = [start for start in self.starts if start in _BRACKETS]
        return tuple(start for start in brackets if start != "[" or not self.label)

    def body(self, marker: str) -> BodyReader:
        """Return a fresh reader for what follows *marker*."""
        if marker == "[" and self.label:
            return LabelledJSONReader(marker, self.label)
        if marker in _BRACKETS:
            return LeadingJSONReader(marker, self.shape)
        if marker == _FENCE:
            return LabelledJSONReader(marker, "json", _FENCE, known=True)
        if marker == _THOUGHT_END:
            return ThoughtEnd(marker)
        if self.end:
            return JSONCallReader(self.end)
        return UnclosedJSONReader(leading=self.only_first)

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*, which is all of an answer."""
        outline = super().outline(tool)
        return structs.replace(outline, between=self.between, trigger="", leads=True)


class AnsweringJSON(LeadingJSON, frozen=True):
    """Calls in an object that begins the answer; or else the answer itself is in the object."""

    def body(self, marker: str) -> BodyReader:
        """Return a fresh reader for what follows *marker*."""
        return ResponseReader(marker, self.shape)

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* as a list under the key of several."""
        return spaced_json({"tool_calls": [self.members(call) for call in calls]})


_GENERIC: Final = Shape(wrappers=frozenset({"tool_call"}), lists=frozenset({"tool_calls"}))

_ROW: Final = (SINGLE[0], "write one object after the other, with a semicolon between them")
_MEMBER: Final = (
    "one JSON object with a call in it that has the name and the arguments",
    'give a list of such calls under the key "tool_calls" instead',
)

LEADING_FORMATS: Final[tuple[Format, ...]] = (
    Format(
        name="llama3_json",
        models=("llama-3.1", "llama-3.2", "llama-3.3", "llama-4"),
        calls=LeadingJSON(
            starts=("<|python_tag|>", "{"),
            keys=("name", "parameters"),
            between="; ",
            result="{json}",
        ),
        prompt=told(*_ROW, first=True),
        tools=ToolList("{tools}", between="\n\n", tool="{lines}"),
    ),
    Format(
        name="xlam",
        models=("xlam", "llama-xlam-2"),
        calls=LeadingJSON(
            starts=("[", "{", _FENCE, "<tool_call>", _THOUGHT_END),
            label="TOOL_CALLS]",
            end="</tool_call>",
            written="[{call}]",
            between=", ",
        ),
        prompt=told(*LISTED, first=True),
    ),
    Format(
        name="granite",
        models=("granite-3.0", "granite-3.1", "granite-3.2", "granite-3.3"),
        calls=LeadingJSON(
            starts=("<|tool_call|>", "<tool_call>", "[", "{"),
            only_first=True,
            written="<|tool_call|>[{call}]",
            between=", ",
        ),
        prompt=told(*LISTED, first=True),
    ),
    Format(
        name="generic_json",
        calls=AnsweringJSON(
            starts=("{",),
            shape=_GENERIC,
            written='{"tool_call": {call}}',
        ),
        prompt=told(*_MEMBER, first=True),
    ),
)
"""The formats that may do without a marker."""
