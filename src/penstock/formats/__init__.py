"""The wire formats of calls: how a model is told to call, how its calls are read and replayed."""

from penstock.formats.base import CallStyle, Format, Placement, Template, TextParser
from penstock.formats.detect import detect
from penstock.formats.event_parser import EventParser, parse_events
from penstock.formats.file_tags import FileTags
from penstock.formats.json_tags import JSONCalls, json_mix
from penstock.formats.json_tool import json_tool
from penstock.formats.mixed import MixedCalls
from penstock.formats.models import ModelFormat, for_model
from penstock.formats.morph_xml import ElementStyle
from penstock.formats.parser import Parser, parse
from penstock.formats.registry import AnyFormat, FormatLike, get, names, register, unregister
from penstock.formats.sentinel import SentinelCalls
from penstock.formats.templates import from_template
from penstock.formats.tool_readers import register_tool, unregister_tool
from penstock.formats.tool_tag import ToolTags

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
