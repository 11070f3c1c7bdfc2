"""The wire formats of calls: how a model is told to call, how its calls are read and replayed."""

from penstock.formats.base import CallStyle, Format, Placement, Template, TextParser
from penstock.formats.combined import MixedCalls
from penstock.formats.detect import detect, from_template
from penstock.formats.file_tags import FileTags
from penstock.formats.json_calls import JSONCalls, json_mix, json_tool
from penstock.formats.model_names import ModelFormat, for_model
from penstock.formats.morph_xml import ElementStyle
from penstock.formats.parser import EventParser, Parser, parse, parse_events
from penstock.formats.registry import AnyFormat, FormatLike, get, names, register, unregister
from penstock.formats.sentinel import SentinelCalls
from penstock.formats.tool_tag import ToolTags, register_tool, unregister_tool

__all__ = [
    "AnyFormat",
    "CallStyle",
    "ElementStyle",
    "EventParser",
    "FileTags",
    "Format",
    "FormatLike",
    "JSONCalls",
    "MixedCalls",
    "ModelFormat",
    "Parser",
    "Placement",
    "SentinelCalls",
    "Template",
    "TextParser",
    "ToolTags",
    "detect",
    "for_model",
    "from_template",
    "get",
    "json_mix",
    "json_tool",
    "names",
    "parse",
    "parse_events",
    "register",
    "register_tool",
    "unregister",
    "unregister_tool",
]
