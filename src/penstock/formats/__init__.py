"""Wire formats of tool calls: how models are prompted, how calls are parsed and rendered."""

from penstock.formats.base import CallStyle, Format, Placement, Template, TextParser
from penstock.formats.combined import MixedCalls
from penstock.formats.detect import detect, for_model, from_template
from penstock.formats.event_parser import EventParser, make_event_parser, parse_events
from penstock.formats.heal import EventReader
from penstock.formats.json_calls import JSONCalls, json_mix, json_tool
from penstock.formats.model_names import ModelFormat
from penstock.formats.morph_xml import ElementStyle
from penstock.formats.parser import (
    CompiledFormat,
    Parser,
    Span,
    compile,  # noqa: A004 - as `re.compile`
    parse,
)
from penstock.formats.registry import AnyFormat, FormatLike, get, names, register, unregister
from penstock.formats.response_template import from_response_template
from penstock.formats.sentinel import SentinelCalls
from penstock.formats.tool_tag import FileTags, ToolTags, register_tool, unregister_tool
from penstock.formats.unread import UnreadCall, UnreadReason, find_unread
from penstock.readers.tagged.piped_tools import PipedTool

__all__ = [
    "AnyFormat",
    "CallStyle",
    "CompiledFormat",
    "ElementStyle",
    "EventParser",
    "EventReader",
    "FileTags",
    "Format",
    "FormatLike",
    "JSONCalls",
    "MixedCalls",
    "ModelFormat",
    "Parser",
    "PipedTool",
    "Placement",
    "SentinelCalls",
    "Span",
    "Template",
    "TextParser",
    "ToolTags",
    "UnreadCall",
    "UnreadReason",
    "compile",
    "detect",
    "find_unread",
    "for_model",
    "from_response_template",
    "from_template",
    "get",
    "json_mix",
    "json_tool",
    "make_event_parser",
    "names",
    "parse",
    "parse_events",
    "register",
    "register_tool",
    "unregister",
    "unregister_tool",
]
