"""Calls with raw values, in every dialect, as the tests of their reader write them."""

from __future__ import annotations

from typing import Any, Literal

from laws import check_readings
from laws.cutting import chunkings
from parsing.samples import message_of
from penstock.events import Event
from penstock.formats import Format, parameter_models, parameter_tags
from penstock.formats.parameter_tags import ParameterCalls
from penstock.messages import AssistantMessage
from penstock.parsing.body import Wrapper
from penstock.readers.tagged import TagDialect
from penstock.tools import Tool

Mode = Literal["whole", "live"]
MODES: tuple[Mode, ...] = ("whole", "live")

CUTS: dict[Mode, int] = {"whole": 1, "live": 4}
"""How many single cuts there are to one that is tried: readers do not know the mode."""

FORMATS: dict[str, Format] = {
    fmt.name: fmt for fmt in (*parameter_tags.FORMATS, *parameter_models.FORMATS)
}
DISTINCT = [name for name in FORMATS if name not in ("nemotron_v3", "step3p5", "mimo", "ling3")]
"""Those that differ in how they are read or written."""

NS = "]<]minimax[>["

TOOLS = [
    Tool(
        "write",
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "mode": {"type": "integer"},
                "note": {"type": ["string", "null"]},
                "size": {"type": ["string", "integer"]},
                "data": {"type": ["string", "object"]},
                "sure": {"type": "boolean"},
                "unit": {"enum": ["1", "kg"]},
                "any": {},
                "tags": {"type": "array", "items": {"type": "string"}},
                "steps": {"type": "array", "items": {"type": "integer"}},
                "plan": {
                    "type": "object",
                    "properties": {"at": {"type": "string"}, "n": {"type": "integer"}},
                },
            },
            "required": ["path"],
        },
    ),
    Tool("ping", parameters={"type": "object", "properties": {}}),
]


def calls_of(name: str) -> ParameterCalls:
    calls = FORMATS[name].calls
    assert isinstance(calls, ParameterCalls)
    return calls


def dialect_of(name: str) -> TagDialect:
    return calls_of(name).dialect


def as_text(name: str, text: str) -> str:
    """Return *text* as a response shows it: some formats drop the end of a section."""
    end = dialect_of(name).section_end
    is_dropped = Wrapper(end) in FORMATS[name].wrappers
    return text.replace(end, "") if is_dropped else text


def opened(name: str, tool: str = "write") -> str:
    """Write what opens a call, in a section where there are sections."""
    dialect = dialect_of(name)
    prefix = dialect.spelling.prefix
    section = prefix + dialect.section if dialect.section else ""
    return section + prefix + dialect.call.replace("NAME", tool)


def parameter(name: str, key: str, value: str | None = None) -> str:
    """Write a parameter; without a *value* only what opens one."""
    dialect = dialect_of(name)
    prefix = dialect.spelling.prefix
    opening = prefix + dialect.parameter.replace("KEY", key) + dialect.value
    if value is None:
        return opening
    return opening + value + prefix + dialect.parameter_end.replace("KEY", key)


def closed(name: str) -> str:
    """Write what ends a call, and its section."""
    dialect = dialect_of(name)
    prefix = dialect.spelling.prefix
    section = prefix + dialect.section_end if dialect.section_end else ""
    return prefix + dialect.call_end + section


def written(name: str, *parameters: tuple[str, str], tool: str = "write") -> str:
    """Write a whole call."""
    inside = "".join(parameter(name, *each) for each in parameters)
    return opened(name, tool) + inside + closed(name)


def parse(name: str, text: str, *, cut: bool = True, **options: Any) -> AssistantMessage:
    parser = FORMATS[name].parser(TOOLS, **options)
    return message_of([*parser.feed(text), *parser.finish(cut)])


def read_at_every_cut(make: Any, text: str, every: int = 1) -> list[Event]:
    """Give the events of *text*, which are the same at every cut and lose nothing.

    With *every* only each so many single cuts are tried, beside the whole and its characters.
    """
    ways = list(chunkings(text))
    return check_readings(make, text, [*ways[:2], *ways[2::every]])
