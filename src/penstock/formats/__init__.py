"""The wire formats of calls: how a model is told to call, how its calls are read and replayed."""

from penstock.formats.base import CallStyle, Format, Placement, Template, TextParser
from penstock.formats.event_parser import EventParser, parse_events
from penstock.formats.json_tags import JSONCalls, json_mix
from penstock.formats.parser import Parser, parse
from penstock.formats.registry import (
    AnyFormat,
    FormatLike,
    get,
    names,
    register,
    unregister,
)

__all__ = [
    "AnyFormat",
    "CallStyle",
    "EventParser",
    "Format",
    "FormatLike",
    "JSONCalls",
    "Parser",
    "Placement",
    "Template",
    "TextParser",
    "get",
    "json_mix",
    "names",
    "parse",
    "parse_events",
    "register",
    "unregister",
]
