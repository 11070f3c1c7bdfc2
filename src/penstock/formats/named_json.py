"""Calls with the name outside of the JSON: Mistral, DeepSeek up to V3.1, Kimi K2 and others."""

# ruff: noqa: RUF001 - DeepSeek writes a wide bar
from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from penstock.formats import prompts
from penstock.formats.base import Format
from penstock.formats.prompts import spaced_json, tools_as_list
from penstock.formats.reasoning import STYLES
from penstock.formats.round_trip import require_round_trip
from penstock.formats.wrappers import WRAPPERS
from penstock.grammar import ANY, Arguments, Outline, split_around
from penstock.messages import ToolCall, ToolResult
from penstock.parsing.body import Wrapper
from penstock.readers.named import NamedSyntax
from penstock.readers.named_heads import HeadDialect, name_in_id
from penstock.tools import Tool

_MISTRAL_ID: Final = re.compile(r"[A-Za-z0-9]{9}")
_SOLAR_ID: Final = re.compile(r"[a-z0-9]{10}")
_PLACES: Final = re.compile("(?<!_)(?:NAME|ARGUMENTS|CONTENT|ID)")  # [TOOL_CONTENT] is not one


class NamedCalls(Struct, frozen=True):
    """Calls of *dialect*, and the templates of calls and results.

    *call* and *result* are text with the places NAME, ARGUMENTS, CONTENT and ID. If a call or a
    result has an id in the models' own form, *call_with_id* and *result_with_id* are preferred. The
    calls of one message are between *opening* and *closing*, separated by *between*.
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
        """Return a new syntax for one response; it does not depend on *tools*."""
        del tools
        return NamedSyntax(self.dialect)

    def render_call(self, call: ToolCall) -> str:
        """Write *call*; raise `UsageError` for a name or arguments that would not parse back."""
        return require_round_trip(self, call, self.render_calls([call]))

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* in one section."""
        written = self.between.join(self._call(call, at) for at, call in enumerate(calls))
        return self.opening + written + self.closing

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        call = ToolCall("", tool.name, ANY)
        begin = self.render_call(call)
        return Outline(
            split_around(self._call(call), Arguments(), spaced_json(ANY)),
            self.opening,
            self.closing,
            between=self.between,
            trigger=next(filter(begin.startswith, self.dialect.openers)),
        )

    def render_result(self, result: ToolResult) -> str:
        """Write a result: text verbatim, any other value as JSON."""
        id_ = self._id(result.id, result.name)
        content = result.content
        template = self.result_with_id if id_ and self.result_with_id else self.result
        is_json = '"content": CONTENT' in template or not isinstance(content, str)
        shown = spaced_json(content) if is_json else content
        return _filled(template, {"NAME": result.name, "CONTENT": shown, "ID": id_})

    def _call(self, call: ToolCall, at: int = 0) -> str:
        """Write *call*, number *at* of its message, without *opening* and *closing*."""
        id_ = self._id(call.id, call.name, at)
        template = self.call_with_id if id_ and self.call_with_id else self.call
        places = {"NAME": call.name, "ARGUMENTS": spaced_json(call.arguments), "ID": id_}
        return _filled(template, places)

    def _id(self, id: str, name: str, at: int = 0) -> str:  # noqa: A002 - the field's name
        """Return *id* if it has the models' own form, else a new one; empty if they have none."""
        if self.dialect.ids:
            is_own = id.startswith("functions.") and name_in_id(id, {}) == name
            return id if is_own else f"functions.{name}:{at}"
        if self.dialect.name:
            return id if _SOLAR_ID.fullmatch(id) else f"call{at:06}"
        return id if _MISTRAL_ID.fullmatch(id) else ""


def _filled(template: str, places: dict[str, str]) -> str:
    """Fill all places of *template* at once: a value may contain the name of a place."""
    return _PLACES.sub(lambda place: places[place[0]], template)


# Three generations: up to tokenizer v7 a JSON array follows [TOOL_CALLS]; v11 writes the name and
# the JSON; v13 (Small 3.2, Ministral 3, Devstral, Magistral) adds [ARGS] between them, and some
# versions [CALL_ID] before it. The first character after the marker decides: "[" or "{" is the
# array form. [ARGS] is a boundary only before the first "{".
_MISTRAL: Final = HeadDialect(
    call="[TOOL_CALLS]",
    id="[CALL_ID]",
    arguments=("[ARGS]", "{"),
    json=True,
    new_id="call{:05}",  # nine letters and digits: the models' templates refuse any other
)
# The bars are U+FF5C and the low lines U+2581. Models omit the begin of the section at times: a
# call alone opens one.
_DEEPSEEK: Final = HeadDialect(
    sections=("<｜tool▁calls▁begin｜>",),
    section_ends=("<｜tool▁calls▁end｜>",),
    call="<｜tool▁call▁begin｜>",
    kind="function",
    arguments=("<｜tool▁sep｜>",),
    wholes=("<｜tool▁call▁end｜>",),
    call_end="<｜tool▁call▁end｜>",
)
# The id is functions.NAME:N, or NAME:N; N counts calls of the conversation. Only the id has the
# name. Models at times write the number alone: then the tool is the one whose parameters fit best,
# as SGLang decides. Markers in the singular were reported too. Text in a section is never content.
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
# llama.cpp's reader: code after <|python_tag|> is a call of `python`, up to the end of the turn.
_FUNCTIONARY: Final = HeadDialect(
    call="<function=",
    arguments=(">",),
    wholes=("/>",),
    call_end="</function>",
    code="<|python_tag|>",
)
# Each marker is several tokens (`<|plamo:begin_`, the word, `:plamo|>`), so it arrives in pieces.
_PLAMO_NAME_END: Final = "<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|>"
_PLAMO: Final = HeadDialect(
    sections=("<|plamo:begin_tool_requests:plamo|>",),
    section_ends=("<|plamo:end_tool_requests:plamo|>",),
    call="<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>",
    arguments=(f"{_PLAMO_NAME_END}<|plamo:constrain|>json<|plamo:msg|>",),
    call_end="<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>",
)
_SOLAR: Final = HeadDialect(
    sections=("<|tool_calls|>",),
    section_ends=("<|calls|>",),
    call="<|tool_call:begin|>",
    name="<|tool_call:name|>",
    arguments=("<|tool_call:args|>",),
    wholes=("<|tool_call:end|>",),
    call_end="<|tool_call:end|>",
    new_id="call{:06}",  # ten lower-case letters and digits, as the template creates them
)

# How each of them writes calls and results: from the chat templates of the models' repositories.
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
# V3 and R1-0528 write "function", the separator, the name and the JSON in a fence; V3.1 writes the
# name, the separator and the JSON.
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
_PLAMO3: Final = NamedCalls(
    _PLAMO,
    opening=_PLAMO.sections[0],
    call=f"{_PLAMO.call}NAME{_PLAMO.arguments[0]}ARGUMENTS{_PLAMO.call_end}",
    closing=_PLAMO.section_ends[0],
    result="<|plamo:begin_tool_result:plamo|>CONTENT<|plamo:end_tool_result:plamo|>",
)
_SOLAR_OPEN: Final = NamedCalls(
    _SOLAR,
    opening="<|tool_calls|>",
    call="<|tool_call:begin|>ID<|tool_call:name|>NAME<|tool_call:args|>ARGUMENTS<|tool_call:end|>",
    closing="<|calls|>",
    result="<|tool_response:begin|>ID<|tool_response:name|>NAME"
    "<|tool_response:result|>CONTENT<|tool_response:end|>",
)
_FUNCTIONARY_V3_1: Final = NamedCalls(_FUNCTIONARY, call="<function=NAME>ARGUMENTS</function>")


def _prompt(how: str) -> str:
    """Return the prompt of a format; *how* describes a call."""
    return (
        prompts.HEAD
        + f"To call a tool, {how}, like this:\n\n{{example}}\n\n{prompts.STRICT_JSON}"
        + _END
    )


_END: Final = " For several calls, repeat all of it, one after the other.\n" + prompts.TAIL

_LISTED: Final = _prompt("write the marker and a list with its name and its arguments")
_NAMED: Final = _prompt("write the marker, its name and its arguments as one JSON object")
_MARKED: Final = _prompt("write its name and its arguments as one JSON object between the markers")
_COUNTED: Final = _prompt(
    "write `functions.`, its name, a colon and the number of the call, counted from 0; then its "
    "arguments as one JSON object, all between the markers"
)
_TAGGED: Final = _prompt("write its arguments as one JSON object in a tag that has its name")

_AVAILABLE: Final = tools_as_list("[AVAILABLE_TOOLS]{tools}[/AVAILABLE_TOOLS]")

# Some servers add an end marker, which the templates do not have.
_MISTRAL_WRAPPERS: Final = (
    *WRAPPERS,
    *(Wrapper(end, "after_call") for end in ("[/TOOL_CALLS]", "[/ARGS]")),
)

FORMATS: Final[tuple[Format, ...]] = (
    Format(
        "mistral_array",
        _MISTRAL_ARRAY,
        _LISTED,
        models=("mistral-7b-instruct-v0.3", "mistral-nemo", "mistral-large-2", "mistral-small-3.1"),
        reasoning=STYLES["mistral"],
        wrappers=_MISTRAL_WRAPPERS,
        tools=_AVAILABLE,
    ),
    Format(
        "mistral_args",
        _MISTRAL_ARGS,
        _NAMED,
        models=("mistral-small-3.2", "ministral-3", "devstral"),
        reasoning=STYLES["mistral"],
        wrappers=_MISTRAL_WRAPPERS,
        tools=_AVAILABLE,
    ),
    Format(
        "magistral",
        _MISTRAL_ARGS,
        _NAMED,
        models=("magistral",),
        reasoning=STYLES["mistral"],
        wrappers=_MISTRAL_WRAPPERS,
        tools=_AVAILABLE,
    ),
    Format(
        "mistral_v11",
        _MISTRAL_V11,
        _NAMED,
        models=("mistral-medium-3",),
        reasoning=STYLES["mistral"],
        wrappers=_MISTRAL_WRAPPERS,
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
        tools=tools_as_list("{tools}"),
    ),
    Format("plamo3", _PLAMO3, _MARKED, models=("plamo-3",)),
    Format(
        "solar_open",
        _SOLAR_OPEN,
        _MARKED,
        models=("solar-open",),
        wrappers=(
            *WRAPPERS,
            *map(Wrapper, ("<|begin|>assistant", "<|content|>", "<|end|>")),
        ),
    ),
    Format(
        "functionary_v3_1",
        _FUNCTIONARY_V3_1,
        _TAGGED,
        models=("functionary-v3.1", "functionary-small-v3.1", "functionary-medium-v3.1"),
    ),
)
