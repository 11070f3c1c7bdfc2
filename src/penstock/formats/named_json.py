"""The name outside and JSON inside: Mistral, DeepSeek up to 3.1, Kimi K2, Functionary 3.1."""

# ruff: noqa: RUF001 - DeepSeek writes a wide bar
from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from penstock.formats import prompts
from penstock.formats.base import Format
from penstock.formats.grammar import ANY, Arguments, Outline, around
from penstock.formats.prompts import listed_in
from penstock.formats.reasoning import STYLES
from penstock.formats.rendering import spaced_json
from penstock.formats.round_trip import checked_round_trip
from penstock.messages import ToolCall, ToolResult
from penstock.parsing.readers.named import NamedSyntax
from penstock.parsing.readers.named_heads import HeadDialect, name_in_id
from penstock.tools import Tool

_MISTRAL_ID: Final = re.compile(r"[A-Za-z0-9]{9}")
_PLACES: Final = re.compile("(?<!_)(?:NAME|ARGUMENTS|CONTENT|ID)")  # [TOOL_CONTENT] is not one


class NamedCalls(Struct, frozen=True):
    """Calls of *dialect*, and how they and their results are written.

    *call* and *result* are text with the places NAME, ARGUMENTS, CONTENT and ID. Where a call or a
    result has an id that its models know, *call_with_id* and *result_with_id* go before. The calls
    of one message stand from *opening* to *closing* with *between* between them.
    """

    dialect: HeadDialect
    call: str
    call_with_id: str = ""
    opening: str = ""
    closing: str = ""
    between: str = ""
    result: str = "CONTENT"
    result_with_id: str = ""

    def syntax(self, tools: Iterable[Tool]) -> NamedSyntax:
        """Return the syntax of one answer: the markers are the same for any *tools*."""
        del tools
        return NamedSyntax(self.dialect)

    def render_call(self, call: ToolCall) -> str:
        """Write *call*; raise `UsageError` for a name or arguments that would not read back."""
        return checked_round_trip(self, call, self.render_calls([call]))

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* in one section."""
        written = self.between.join(self._call(call, at) for at, call in enumerate(calls))
        return self.opening + written + self.closing

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        call = ToolCall("", tool.name, ANY)
        begin = self.render_call(call)
        return Outline(
            around(self._call(call), Arguments(), spaced_json(ANY)),
            self.opening,
            self.closing,
            between=self.between,
            trigger=next(filter(begin.startswith, self.dialect.openers)),
        )

    def render_result(self, result: ToolResult) -> str:
        """Write a result: text as it is, any other value as JSON."""
        id_ = self._id(result.id, result.name)
        content = result.content
        template = self.result_with_id if id_ and self.result_with_id else self.result
        is_json = '"content": CONTENT' in template or not isinstance(content, str)
        shown = spaced_json(content) if is_json else content
        return _filled(template, {"NAME": result.name, "CONTENT": shown, "ID": id_})

    def _call(self, call: ToolCall, at: int = 0) -> str:
        """Write *call*, the one *at* this place in its message, without what stands around all."""
        id_ = self._id(call.id, call.name, at)
        template = self.call_with_id if id_ and self.call_with_id else self.call
        places = {"NAME": call.name, "ARGUMENTS": spaced_json(call.arguments), "ID": id_}
        return _filled(template, places)

    def _id(self, id: str, name: str, at: int = 0) -> str:  # noqa: A002 - the field's name
        """Return *id* if the models know ids like it, or one that they do; empty for neither."""
        if self.dialect.ids:
            is_own = id.startswith("functions.") and name_in_id(id, {}) == name
            return id if is_own else f"functions.{name}:{at}"
        return id if _MISTRAL_ID.fullmatch(id) else ""


def _filled(template: str, places: dict[str, str]) -> str:
    """Fill the places of *template*, all at once: what is put in may hold the name of a place."""
    return _PLACES.sub(lambda place: places[place[0]], template)


_MISTRAL: Final = HeadDialect(
    call="[TOOL_CALLS]",
    id="[CALL_ID]",
    arguments=("[ARGS]", "{"),
    json=True,
    new_id="call{:05}",  # nine letters and digits: the models' templates refuse any other
)
_DEEPSEEK: Final = HeadDialect(
    sections=("<｜tool▁calls▁begin｜>",),
    section_ends=("<｜tool▁calls▁end｜>",),
    call="<｜tool▁call▁begin｜>",
    kind="function",
    arguments=("<｜tool▁sep｜>",),
    wholes=("<｜tool▁call▁end｜>",),
    call_end="<｜tool▁call▁end｜>",
)
_KIMI: Final = HeadDialect(
    sections=("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"),
    section_ends=("<|tool_calls_section_end|>", "<|tool_call_section_end|>"),
    silent=True,
    call="<|tool_call_begin|>",
    ids=True,
    arguments=("<|tool_call_argument_begin|>",),
    wholes=("<|tool_call_end|>",),
    call_end="<|tool_call_end|>",
)
_FUNCTIONARY: Final = HeadDialect(
    call="<function=",
    arguments=(">",),
    wholes=("/>",),
    call_end="</function>",
    code="<|python_tag|>",
)

_RESULTS: Final = "[TOOL_RESULTS]CONTENT[/TOOL_RESULTS]"
_MISTRAL_ARRAY: Final = NamedCalls(
    _MISTRAL,
    opening="[TOOL_CALLS][",
    call='{"name": "NAME", "arguments": ARGUMENTS}',
    call_with_id='{"name": "NAME", "arguments": ARGUMENTS, "id": "ID"}',
    between=", ",
    closing="]",
    result='[TOOL_RESULTS]{"content": CONTENT}[/TOOL_RESULTS]',
    result_with_id='[TOOL_RESULTS]{"content": CONTENT, "call_id": "ID"}[/TOOL_RESULTS]',
)
_MISTRAL_ARGS: Final = NamedCalls(_MISTRAL, call="[TOOL_CALLS]NAME[ARGS]ARGUMENTS", result=_RESULTS)
_MISTRAL_V11: Final = NamedCalls(
    _MISTRAL,
    call="[TOOL_CALLS]NAMEARGUMENTS",
    result=_RESULTS,
    result_with_id="[TOOL_RESULTS]ID[TOOL_CONTENT]CONTENT[/TOOL_RESULTS]",
)
_DEEPSEEK_V3: Final = NamedCalls(
    _DEEPSEEK,
    opening="<｜tool▁calls▁begin｜>",
    call="<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\nARGUMENTS\n```<｜tool▁call▁end｜>",
    between="\n",
    closing="<｜tool▁calls▁end｜>",
    result="<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>CONTENT"
    "<｜tool▁output▁end｜><｜tool▁outputs▁end｜>",
)
_DEEPSEEK_V31: Final = NamedCalls(
    _DEEPSEEK,
    opening="<｜tool▁calls▁begin｜>",
    call="<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>ARGUMENTS<｜tool▁call▁end｜>",
    closing="<｜tool▁calls▁end｜>",
    result="<｜tool▁output▁begin｜>CONTENT<｜tool▁output▁end｜>",
)
_KIMI_K2: Final = NamedCalls(
    _KIMI,
    opening="<|tool_calls_section_begin|>",
    call="<|tool_call_begin|>ID<|tool_call_argument_begin|>ARGUMENTS<|tool_call_end|>",
    closing="<|tool_calls_section_end|>",
    result="## Return of ID\nCONTENT",
)
_FUNCTIONARY_V3_1: Final = NamedCalls(_FUNCTIONARY, call="<function=NAME>ARGUMENTS</function>")


def _prompt(how: str) -> str:
    """Return the prompt of a format; *how* says what a call is made of."""
    return prompts.HEAD + f"To call a tool, {how}, like this:\n\n{{example}}\n\n{_JSON}" + _END


_JSON: Final = """\
Write strict JSON: keys and texts in double quotes; inside a text a quote is \\" and a new line is \
\\n. """
_END: Final = "For several calls, repeat all of it, one after the other.\n" + prompts.TAIL

_LISTED: Final = _prompt("write the marker and a list with its name and its arguments")
_NAMED: Final = _prompt("write the marker, its name and its arguments as one JSON object")
_MARKED: Final = _prompt("write its name and its arguments as one JSON object between the markers")
_COUNTED: Final = _prompt(
    "write its name behind `functions.` and the number of the call, counted from 0, behind a "
    "colon; then its arguments as one JSON object, all between the markers"
)
_TAGGED: Final = _prompt("write its arguments as one JSON object in a tag that has its name")

_AVAILABLE: Final = listed_in("[AVAILABLE_TOOLS]{tools}[/AVAILABLE_TOOLS]")

FORMATS: Final[tuple[Format, ...]] = (
    Format(
        "mistral_array",
        _MISTRAL_ARRAY,
        _LISTED,
        models=("mistral-7b-instruct-v0.3", "mistral-nemo", "mistral-large-2", "mistral-small-3.1"),
        reasoning=STYLES["mistral"],
        tools=_AVAILABLE,
    ),
    Format(
        "mistral_args",
        _MISTRAL_ARGS,
        _NAMED,
        models=("mistral-small-3.2", "ministral-3", "devstral"),
        reasoning=STYLES["mistral"],
        tools=_AVAILABLE,
    ),
    Format(
        "magistral",
        _MISTRAL_ARGS,
        _NAMED,
        models=("magistral",),
        reasoning=STYLES["mistral"],
        tools=_AVAILABLE,
    ),
    Format(
        "mistral_v11",
        _MISTRAL_V11,
        _NAMED,
        models=("mistral-medium-3",),
        reasoning=STYLES["mistral"],
        tools=_AVAILABLE,
    ),
    Format(
        "deepseek_v3",
        _DEEPSEEK_V3,
        _MARKED,
        models=("deepseek-v3", "deepseek-r1-0528"),
    ),
    Format(
        "deepseek_v31",
        _DEEPSEEK_V31,
        _MARKED,
        models=("deepseek-v3.1",),
        reasoning=STYLES["deepseek_v3"],
    ),
    Format(
        "kimi_k2",
        _KIMI_K2,
        _COUNTED,
        models=("kimi-k2",),
        tools=listed_in("{tools}"),
    ),
    Format(
        "functionary_v3_1",
        _FUNCTIONARY_V3_1,
        _TAGGED,
        models=("functionary-v3.1", "functionary-small-v3.1", "functionary-medium-v3.1"),
    ),
)
