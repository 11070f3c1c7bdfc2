"""Calls of Cohere Command 5: nested elements, each value with its type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from penstock.errors import UsageError
from penstock.formats import prompts
from penstock.formats.base import Format
from penstock.formats.json_models import CITED, FENCED_TOOLS
from penstock.formats.prompts import spaced_json
from penstock.formats.reasoning import STYLES
from penstock.formats.round_trip import require_round_trip
from penstock.grammar import PLACE, Outline, ParameterOutline, Slot, check_names, split_around
from penstock.grammar.outline import Notation
from penstock.grammar.text_without import Marks
from penstock.messages import ToolCall, ToolResult
from penstock.parsing import BodyReader
from penstock.parsing.body import Syntax, Wrapper
from penstock.parsing.marker_readers import CITATION_END, CitationEnd
from penstock.readers import cohere
from penstock.tools import Tool


# Command 5 only: <|START_ACTION|> of Command A and R7B is text for its own reader (cohere-melody's
# `cmd5`). Calls without the section are not calls there either.
class CoflCalls(Syntax, Struct, frozen=True):
    """Calls of Command 5: nested values in text with citations."""

    starts = (cohere.SECTION, CITATION_END)

    def body(self, marker: str) -> BodyReader:
        """Return a new reader for the text after *marker*: calls, or the end of a citation."""
        return CitationEnd() if marker == CITATION_END else cohere.CoflReader()

    def render_call(self, call: ToolCall) -> str:
        """Write *call*; raise `UsageError` for a text that would not parse back."""
        return require_round_trip(self, call, self.render_calls([call]))

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* in one section, numbered from 0."""
        written = (
            f'<cofl:tool_call id="{at}" name="{call.name}">'
            + "".join(_cofl_value(value, key) for key, value in call.arguments.items())
            + cohere.CALL_END
            for at, call in enumerate(calls)
        )
        return cohere.SECTION + "".join(written) + cohere.SECTION_END

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*: no grammar can number several calls."""
        check_names(self.render_call, tool)
        call = self.render_calls([ToolCall("", tool.name, {PLACE: PLACE})])
        section, value = call.removesuffix(cohere.SECTION_END), _cofl_value(PLACE, PLACE)
        arguments = ParameterOutline(_cofl_slot, _IN_COFL, typed=True)
        pieces = split_around(section.removeprefix(cohere.SECTION), arguments, value)
        return Outline(pieces, cohere.SECTION, cohere.SECTION_END, between=None)

    def render_result(self, result: ToolResult) -> str:
        """Write a result as one item."""
        failed = "true" if result.is_error else "false"
        content = spaced_json(result.content)
        return (
            f'<cofl:tool_results><cofl:tool_result id="{result.id or 0}" is_error="{failed}">'
            f'<cofl:tool_result_item index="0">{content}</cofl:tool_result_item>'
            "</cofl:tool_result></cofl:tool_results>"
        )


_MARKS: Final = Marks(("<cofl:", "</cofl:"))
_IN_COFL: Final = Notation("json-in-cofl", marks=_MARKS)
_KINDS: Final = {"string": "raw", "object": "dict", "array": "list"}


def _cofl_slot(key: str, kind: str) -> Slot:
    """Return the slot of a value of the JSON type *kind*; an item of a list has no key."""
    named = f' name="{key}"' if key else ""
    opening = f'<cofl:value{named} type="{_KINDS.get(kind, "json")}">'
    return Slot(opening, cohere.VALUE_END, _MARKS)


def _cofl_value(value: object, name: str | None = None, depth: int = 0) -> str:
    if name is not None and ('"' in name or not name):
        raise UsageError(f"{name!r} cannot be the name of a value")
    if depth > cohere.MAX_DEPTH:
        raise UsageError(f"arguments nest deeper than {cohere.MAX_DEPTH} levels")
    if isinstance(value, str):
        # `raw` is verbatim, without escapes; `json` has scalars only, since containers are `dict`
        # and `list` with elements inside.
        kind, inside = "raw", value
    elif isinstance(value, dict):
        kind = "dict"
        inside = "".join(_cofl_value(each, key, depth + 1) for key, each in value.items())
    elif isinstance(value, list):
        kind, inside = "list", "".join(_cofl_value(each, depth=depth + 1) for each in value)
    else:
        kind, inside = "json", spaced_json(value)
    named = "" if name is None else f' name="{name}"'
    return f'<cofl:value{named} type="{kind}">{inside}{cohere.VALUE_END}'


_COFL_PROMPT: Final = f"""\
{prompts.HEAD}\
To call a tool, write its name and each of its arguments as an element, like this:

{{example}}

The type of a string is `raw`: write it exactly as it is, and escape nothing. Numbers, true, false \
and null have the type `json`. An object is a `dict` with one named element for each key, a list \
is a `list` with one element for each item. For several calls, repeat the element of the call.
{prompts.TAIL}"""

COHERE_COMMAND5: Final[Format] = Format(
    name="cohere_command5",
    models=("command-5",),
    calls=CoflCalls(),
    prompt=_COFL_PROMPT,
    reasoning=STYLES["cohere_command"],
    wrappers=(*CITED, Wrapper("<|END_OF_TURN_TOKEN|>")),
    tools=FENCED_TOOLS,
)
