"""Calls in JSON that an answer may begin with, without any marker; a marker may stand there too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from penstock.formats.base import Format
from penstock.formats.grammar import Outline
from penstock.formats.json_models import LISTED, SINGLE, MarkedJSON, told
from penstock.formats.json_text import spaced_json
from penstock.formats.prompts import ToolList
from penstock.messages import ToolCall
from penstock.parsing import Body, JSONCallReader
from penstock.parsing.bodies.envelope import CALL, Shape
from penstock.parsing.bodies.json_leading import LabelledJSONReader, LeadingJSONReader
from penstock.parsing.bodies.json_responses import ResponseReader
from penstock.parsing.bodies.json_unclosed import UnclosedJSONReader
from penstock.parsing.bodies.thought_ends import ThoughtEnd
from penstock.tools import Tool

_BRACKETS: Final = ("{", "[")
_FENCE: Final = "```"
_THOUGHT_END: Final = "</think>"


class LeadingJSON(MarkedJSON, frozen=True):
    """Calls of *shape* behind a bracket that begins the answer, or behind a marker of *starts*.

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

    def body(self, marker: str) -> Body:
        """Give a fresh reader for what follows *marker*."""
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
        """Give the outline of a call of *tool*, which is all of an answer."""
        outline = super().outline(tool)
        return structs.replace(outline, between=self.between, trigger="", leads=True)


class AnsweringJSON(LeadingJSON, frozen=True):
    """Calls in an object that begins the answer; or else the answer itself is in the object."""

    def body(self, marker: str) -> Body:
        """Give a fresh reader for what follows *marker*."""
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

FORMATS: Final[tuple[Format, ...]] = (
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
