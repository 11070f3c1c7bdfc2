"""Calls in JSON behind a marker, as the models of each family were taught to write them.

One class reads and writes them all; a format says which markers it has and what a call looks like
in it. `written` shows that as the models' own templates have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from penstock.formats import prompts
from penstock.formats.base import Format
from penstock.formats.grammar import ANY, Arguments, Outline, around
from penstock.formats.thinking import STYLES
from penstock.formats.turns import TURN_ENDS
from penstock.messages import ToolCall, ToolResult
from penstock.parsing import Body, JSONCallReader
from penstock.parsing.bodies import citations
from penstock.parsing.bodies.json_leading import LabelledJSONReader
from penstock.parsing.bodies.json_named_keys import KeyedJSONReader
from penstock.parsing.bodies.json_unclosed import UnclosedJSONReader
from penstock.parsing.reasoning import Wrapper
from penstock.tools import Tool
from penstock.values import rjson

_CALL: Final = "{call}"
_PLACE: Final = re.compile(r"\{(content|json|id|name)\}")
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[,:]')


class MarkedJSON(Struct, frozen=True):
    """Objects with a name and arguments, or lists of them, from one of *starts* to *end*.

    Without an *end* the calls end with their JSON. A start may itself end with the bracket that
    begins it, or be none without the *label* behind it. *written* shows where the object of a call
    stands, *keys* are those of its name and its arguments, *id_key* that of its id, if it has one.
    *result* shows where the ``{content}`` of a result stands: text as it is, anything else as JSON;
    or its ``{json}``, ``{id}``, ``{name}``.
    """

    starts: tuple[str, ...]
    end: str = ""
    label: str = ""
    written: str = _CALL
    keys: tuple[str, str] = ("name", "arguments")
    id_key: str = ""
    result: str = "{content}"
    folds: bool = False

    def syntax(self, tools: Iterable[Tool]) -> MarkedJSON:
        """Give itself: the markers are the same for any *tools*."""
        del tools
        return self

    def body(self, marker: str) -> Body:
        """Give a fresh reader for what follows *marker*."""
        if self.label:
            return LabelledJSONReader(marker, self.label, self.end)
        if self.end:
            return JSONCallReader(self.end)
        return UnclosedJSONReader(bracket="[" if marker.endswith("[") else "")

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as one object, where the models write it."""
        return self.written.replace(_CALL, spaced_json(self.members(call)))

    def outline(self, tool: Tool) -> Outline:
        """Give the outline of a call of *tool*."""
        call = ToolCall("", tool.name, ANY)
        trigger = next(filter(self.written.startswith, self.starts), "")
        opening, _, closing = self.written.partition(_CALL)
        if not opening.rstrip().endswith("["):
            whole = around(self.render_call(call), Arguments(), spaced_json(ANY))
            return Outline(whole, trigger=trigger)
        listed = around(spaced_json(self.members(call)), Arguments(), spaced_json(ANY))
        return Outline(listed, opening, closing, between=", ", trigger=trigger)

    def render_result(self, result: ToolResult) -> str:
        """Write what a call gave back, where the models read it."""
        is_text = isinstance(result.content, str)
        places = {
            "content": result.content if is_text else spaced_json(result.content),
            "json": spaced_json(result.content),
            "id": spaced_json(result.id or _FIRST_ID),
            "name": spaced_json(result.name),
        }
        return _PLACE.sub(lambda place: places[place[1]], self.result)

    def members(self, call: ToolCall) -> dict[str, Any]:
        """Give the object that *call* is written as."""
        name, arguments = self.keys
        first = {self.id_key: call.id or _FIRST_ID} if self.id_key else {}
        return {**first, name: call.name, arguments: call.arguments}


class KeyedJSON(MarkedJSON, frozen=True):
    """Objects with one key, the name of the call; its value are the arguments."""

    def body(self, marker: str) -> Body:
        """Give a fresh reader for what follows *marker*."""
        del marker
        return KeyedJSONReader(self.end)

    def members(self, call: ToolCall) -> dict[str, Any]:
        """Give the object that *call* is written as."""
        return {call.name: call.arguments}


class CitedJSON(MarkedJSON, frozen=True):
    """Calls among text with citations, of which only the text is content."""

    def body(self, marker: str) -> Body:
        """Give a fresh reader for what follows *marker*: a call, or the end of a citation."""
        return citations.CitationEnd() if marker == citations.START else JSONCallReader(self.end)


def spaced_json(value: object) -> str:
    """Write *value* as the models' templates do, with a space behind each comma and colon.

    Raises `UsageError` for what JSON has no word for.
    """
    return _TOKEN.sub(_followed_by_space, rjson.dumps(value))


def _followed_by_space(token: re.Match[str]) -> str:
    return token[0] if token[0].startswith('"') else token[0] + " "


_FIRST_ID: Final = "0"
"""What a model numbers its first call as."""

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
    """Tell a model to write *what*, and how to write *several* calls; *first* of all, if so."""
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
_ACTION: Final = ("<|START_ACTION|>", citations.START)
_ACTION_END: Final = "<|END_ACTION|>"
_ACTION_RESULT: Final = """\
<|START_TOOL_RESULT|>[
    {"tool_call_id": {id}, "results": {"0": {json}}, "is_error": null}
]<|END_TOOL_RESULT|>"""
_CITED: Final = (*TURN_ENDS, Wrapper("<co>"))

FORMATS: Final[tuple[Format, ...]] = (
    Format(
        name="qwen25",
        models=("qwen2.5", "qwq"),
        calls=_TAGS,
        prompt=prompts.JSON_MIX,
        wrappers=TURN_ENDS,
    ),
    Format(
        name="granite4",
        models=("granite-4",),
        calls=_TAGS,
        prompt=prompts.JSON_MIX,
        wrappers=TURN_ENDS,
    ),
    Format(
        name="trinity",
        models=("trinity",),
        calls=_TAGS,
        prompt=prompts.JSON_MIX,
        wrappers=TURN_ENDS,
    ),
    Format(
        name="ernie45",
        models=("ernie-4.5",),
        calls=_TAGS,
        prompt=prompts.JSON_MIX,
        wrappers=TURN_ENDS,
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
        wrappers=TURN_ENDS,
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
        wrappers=TURN_ENDS,
    ),
    Format(
        name="jamba",
        models=("jamba-1.5", "jamba-1.6"),
        calls=MarkedJSON(
            starts=("<tool_calls>",),
            end="</tool_calls>",
            written="<tool_calls>[\n    {call}\n]</tool_calls>",
        ),
        prompt=told(*LISTED),
        wrappers=TURN_ENDS,
    ),
    Format(
        name="hunyuan_a13b",
        models=("hunyuan-a13b",),
        calls=MarkedJSON(
            starts=("<tool_calls>",),
            end="</tool_calls>",
            written="<tool_calls>[{call}]</tool_calls>",
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
        ),
        prompt=told(*_LINES),
        wrappers=TURN_ENDS,
    ),
    Format(
        name="phi4_mini_json",
        models=("phi-4-mini",),
        calls=MarkedJSON(starts=(_FUNCTOOLS,), written="functools[{call}]"),
        prompt=told(*LISTED),
        wrappers=TURN_ENDS,
    ),
    Format(
        name="firefunction_v2",
        models=("firefunction-v2",),
        calls=MarkedJSON(starts=(" " + _FUNCTOOLS, _FUNCTOOLS), written=" functools[{call}]"),
        prompt=told(*LISTED),
        wrappers=TURN_ENDS,
    ),
    Format(
        name="granite_20b_fc",
        models=("granite-20b-functioncalling",),
        calls=MarkedJSON(starts=("<function_call>",), written="<function_call> {call}"),
        prompt=told(*SINGLE),
        wrappers=TURN_ENDS,
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
            result="<TOOL_RESPONSE>[{json}]</TOOL_RESPONSE>",
        ),
        prompt=told(*LISTED),
        wrappers=TURN_ENDS,
    ),
    Format(
        name="apertus",
        models=("apertus",),
        calls=KeyedJSON(
            starts=("<|tools_prefix|>",),
            end="<|tools_suffix|>",
            written="<|tools_prefix|>[{call}]<|tools_suffix|>",
        ),
        prompt=told(*LISTED),
        wrappers=TURN_ENDS,
    ),
    Format(
        name="cohere_command",
        models=("command-a", "command-a-reasoning"),
        calls=CitedJSON(
            starts=_ACTION,
            end=_ACTION_END,
            written="<|START_ACTION|>\n[{call}]\n<|END_ACTION|>",
            keys=("tool_name", "parameters"),
            id_key="tool_call_id",
            result=_ACTION_RESULT,
        ),
        prompt=told(*LISTED),
        wrappers=_CITED,
    ),
    Format(
        name="command_r7b",
        models=("command-r7b",),
        calls=CitedJSON(
            starts=_ACTION,
            end=_ACTION_END,
            written="<|START_ACTION|>[\n    {call}\n]<|END_ACTION|>",
            keys=("tool_name", "parameters"),
            id_key="tool_call_id",
            result=_ACTION_RESULT,
        ),
        prompt=told(*LISTED),
        reasoning=STYLES["cohere_command"],
        wrappers=_CITED,
    ),
    Format(
        name="command_r_plus",
        models=("command-r", "command-r-plus"),
        calls=MarkedJSON(
            starts=("Action:",),
            label="```json",
            end="```",
            written="Action:\n```json\n[{call}]\n```",
            keys=("tool_name", "parameters"),
            result="<results>\nDocument: 0\n{content}\n</results>",
        ),
        prompt=told(*LISTED),
        wrappers=TURN_ENDS,
    ),
)
"""The formats that have a start marker."""
